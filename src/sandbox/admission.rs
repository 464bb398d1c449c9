//! Admission: `LimitRange`, `ResourceQuota` and the room on a node. Refusals are 403 in the words of the real plugins.

use std::sync::Arc;

use serde_json::Value;

use super::answer::Failure;
use super::quantity;
use super::registry::{LIMIT_RANGES, NODES, PODS, QUOTAS};
use super::resources;
use super::world::World;

/// Changes a pod that is about to be created: `LimitRange` defaults, then canonical quantities.
pub(super) fn mutate_pod(world: &World, pod: &mut Value) -> Result<(), Failure> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    for range in items(world, LIMIT_RANGES.id, &namespace) {
        for limit in range["spec"]["limits"].as_array().into_iter().flatten().filter(|l| l["type"] == "Container") {
            for field in ["containers", "initContainers"] {
                for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
                    fill(container, "limits", &limit["default"]);
                    fill(container, "requests", &limit["defaultRequest"]);
                }
            }
        }
    }
    resources::normalise(&mut pod["spec"]).map_err(|text| Failure::bad_request(format!("{text:?} is not a quantity")))
}

fn fill(container: &mut Value, section: &str, defaults: &Value) {
    for (key, value) in defaults.as_object().into_iter().flatten() {
        if container["resources"][section].get(key).is_none() {
            container["resources"][section][key] = value.clone();
        }
    }
}

fn items<'a>(world: &'a World, id: &str, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Value>> {
    world.store.list(id, Some(namespace)).map(|(_, object)| object)
}

/// Refuses a new pod that a `LimitRange` or a quota does not allow.
pub(super) fn check_new_pod(world: &World, pod: &Value) -> Result<(), Failure> {
    limit_ranges(world, pod)?;
    quotas(world, None, pod)
}

/// Refuses a resize that a `LimitRange`, a quota or (from 1.36) the node's size does not allow.
pub(super) fn check_resize(world: &World, old: &Value, new: &Value) -> Result<(), Failure> {
    limit_ranges(world, new)?;
    if world.minor() >= 36 {
        node_size(world, new)?;
    }
    quotas(world, Some(old), new)
}

fn name_of(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

fn node_size(world: &World, pod: &Value) -> Result<(), Failure> {
    let Some(name) = pod["spec"]["nodeName"].as_str() else { return Ok(()) };
    let key = (String::new(), name.to_owned());
    let refuse = |why: &str| Failure::forbidden(&PODS, name_of(pod), why);
    let Some(node) = world.get(&NODES, &key) else {
        return Err(refuse(&format!("node {name:?} not found")));
    };
    let system = node["metadata"]["labels"]["kubernetes.io/os"].as_str().unwrap_or("linux");
    if system != "linux" {
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(refuse(&why).with_cause("UnsupportedPlatform", None));
    }
    let room = world.kubelets.nodes.get(name).map(|n| n.allocatable).unwrap_or_default();
    let want = resources::pod_requests(&pod["spec"]);
    let mut short = Vec::new();
    for (what, asked, has) in [("cpu", want.cpu, room.cpu), ("memory", want.memory, room.memory)] {
        if asked > has {
            short.push(format!("{what}, requested: {asked}, allocatable: {has}"));
        }
    }
    if short.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", short.join("; "));
    Err(refuse(&why).with_cause("NodeCapacity", None))
}

fn limit_ranges(world: &World, pod: &Value) -> Result<(), Failure> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    for range in items(world, LIMIT_RANGES.id, namespace) {
        for limit in range["spec"]["limits"].as_array().into_iter().flatten().filter(|l| l["type"] == "Container") {
            for (container, _) in resources::long_running(&pod["spec"]) {
                container_limits(&container["resources"], limit, &mut faults);
            }
        }
    }
    match faults.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::forbidden(&PODS, name_of(pod), one)),
        many => Err(Failure::forbidden(&PODS, name_of(pod), &format!("[{}]", many.join(", ")))),
    }
}

fn container_limits(resources: &Value, rule: &Value, faults: &mut Vec<String>) {
    let text = |section: &str, key: &str| resources[section].get(key).and_then(quantity::text_of);
    for (key, min) in rule["min"].as_object().into_iter().flatten() {
        let Some(min) = quantity::text_of(min) else { continue };
        match text("requests", key) {
            None => faults.push(format!("minimum {key} usage per Container is {min}.  No request is specified")),
            Some(asked) if quantity::nanos(&asked) < quantity::nanos(&min) => {
                faults.push(format!("minimum {key} usage per Container is {min}, but request is {asked}"));
            }
            Some(_) => {}
        }
    }
    for (key, max) in rule["max"].as_object().into_iter().flatten() {
        let Some(max) = quantity::text_of(max) else { continue };
        match text("limits", key) {
            None => faults.push(format!("maximum {key} usage per Container is {max}.  No limit is specified")),
            Some(asked) if quantity::nanos(&asked) > quantity::nanos(&max) => {
                faults.push(format!("maximum {key} usage per Container is {max}, but limit is {asked}"));
            }
            Some(_) => {}
        }
    }
}

/// One number that a quota counts of a pod.
fn counted(name: &str, pod: &Value) -> Option<i64> {
    if name == "pods" || name == "count/pods" {
        return Some(1);
    }
    let (section, resource) = match name.split_once('.') {
        Some((section @ ("requests" | "limits"), resource)) => (section, resource),
        None => ("requests", name),
        Some(_) => return None,
    };
    if !matches!(resource, "cpu" | "memory") {
        return None;
    }
    let containers = resources::long_running(&pod["spec"]);
    Some(containers.filter_map(|(c, _)| resources::amount(&c["resources"], section, resource)).sum())
}

fn show(name: &str, amount: i64) -> String {
    let text = if name.ends_with("cpu") {
        format!("{amount}m")
    } else if amount != 0 && amount % 1024 == 0 {
        format!("{}Ki", amount / 1024)
    } else {
        amount.to_string()
    };
    quantity::canonical(&text).unwrap_or(text)
}

fn quotas(world: &World, old: Option<&Value>, new: &Value) -> Result<(), Failure> {
    let namespace = new["metadata"]["namespace"].as_str().unwrap_or_default();
    for quota in items(world, QUOTAS.id, namespace) {
        let (mut asked, mut used, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (name, hard) in quota["spec"]["hard"].as_object().into_iter().flatten() {
            let Some(want) = counted(name, new) else { continue };
            let delta = want - old.and_then(|pod| counted(name, pod)).unwrap_or(0);
            let resource = if name.ends_with("cpu") { "cpu" } else { "memory" };
            let text = quantity::text_of(hard).unwrap_or_default();
            let Some(hard) = quantity::amount(resource, &text) else { continue };
            let now: i64 = items(world, PODS.id, namespace)
                .filter(|p| !matches!(p["status"]["phase"].as_str(), Some("Failed" | "Succeeded")))
                .filter_map(|p| counted(name, p))
                .sum();
            if delta > 0 && now + delta > hard {
                asked.push(format!("{name}={}", show(name, delta)));
                used.push(format!("{name}={}", show(name, now)));
                limited.push(format!("{name}={}", quantity::canonical(&text).unwrap_or(text)));
            }
        }
        if !asked.is_empty() {
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                name_of(quota),
                asked.join(","),
                used.join(","),
                limited.join(",")
            );
            return Err(Failure::forbidden(&PODS, name_of(new), &why));
        }
    }
    Ok(())
}
