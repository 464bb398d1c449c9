//! Writes to `pods/NAME/resize`: what of the written pod counts, and what the server refuses (422). Pure.
//! Refusals by admission (403) are in `admission`.

use serde_json::Value;

use super::answer::{Cause, Failure};
use super::defaults;
use super::resources;

/// The pod that a write asks for: the old one with the resources (and resize policies) of the written one.
pub(super) fn prepare(old: &Value, written: &Value) -> Value {
    let mut pod = old.clone();
    for field in ["containers", "initContainers"] {
        let (Some(before), Some(asked)) = (old["spec"][field].as_array(), written["spec"][field].as_array()) else {
            continue;
        };
        let names = |list: &[Value]| list.iter().map(|c| c["name"].clone()).collect::<Vec<_>>();
        if before.len() != asked.len() {
            pod["spec"][field] = asked.clone().into();
            continue;
        }
        let renamed = names(before) != names(asked);
        for (container, asked) in pod["spec"][field].as_array_mut().into_iter().flatten().zip(asked) {
            if renamed {
                container["name"] = asked["name"].clone();
            }
            for key in ["resources", "resizePolicy"] {
                match asked.get(key).filter(|v| !v.is_null()) {
                    Some(value) => container[key] = value.clone(),
                    None => {
                        container.as_object_mut().map(|c| c.remove(key));
                    }
                }
            }
        }
    }
    pod
}

/// What the server finds wrong with a resize, all causes together.
pub(super) fn check(old: &Value, new: &Value, minor: u32) -> Result<(), Failure> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let refuse = |causes: &[Cause]| Err(Failure::invalid("", "Pod", name, causes));
    if old["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return refuse(&[Cause::forbidden("", "static pods cannot be resized")]);
    }
    if old["spec"]["os"]["name"] == "windows" {
        return refuse(&[Cause::forbidden("spec", "windows pods cannot be resized")]);
    }
    if minor < 35 && old["spec"].get("resources").is_some_and(|r| !r.is_null()) {
        return refuse(&[Cause::forbidden("spec", "pods with pod-level resources cannot be resized")]);
    }
    let mut causes = defaults::check_containers(&new["spec"], "spec");
    let moved = same_containers(old, new);
    if !moved.is_empty() {
        causes.extend(moved);
        return refuse(&causes);
    }
    if resources::qos(&old["spec"]) != resources::qos(&new["spec"]) {
        let class = resources::qos(&old["spec"]);
        causes.push(Cause::invalid("spec", class, "Pod QOS Class may not change as a result of resizing"));
    }
    removals(old, new, &mut causes);
    if minor == 33 {
        memory_limits_of_1_33(old, new, &mut causes);
    }
    only_cpu_and_memory(old, new, minor, &mut causes);
    if causes.is_empty() { Ok(()) } else { refuse(&causes) }
}

fn same_containers(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["containers", "initContainers"] {
        let list = |pod: &Value| pod["spec"][field].as_array().cloned().unwrap_or_default();
        let (before, after) = (list(old), list(new));
        if before.len() != after.len() {
            let sentence = "containers may not be added or removed on resize";
            causes.push(Cause::forbidden(format!("spec.{field}"), sentence));
            continue;
        }
        for (index, _) in before.iter().zip(&after).enumerate().filter(|(_, (a, b))| a["name"] != b["name"]) {
            let sentence = "containers may not be renamed or reordered on resize";
            causes.push(Cause::forbidden(format!("spec.{field}[{index}].name"), sentence));
        }
    }
    causes
}

fn pairs<'a>(old: &'a Value, new: &'a Value, field: &'a str) -> impl Iterator<Item = (usize, &'a Value, &'a Value)> {
    let list = |pod: &'a Value| pod["spec"][field].as_array().into_iter().flatten();
    list(old).zip(list(new)).enumerate().map(|(i, (a, b))| (i, a, b))
}

fn removals(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    for field in ["containers", "initContainers"] {
        for (index, before, after) in pairs(old, new, field) {
            for (section, word) in [("requests", "requests"), ("limits", "limits")] {
                let keys = before["resources"][section].as_object().into_iter().flatten().map(|(key, _)| key);
                let gone = keys.into_iter().any(|key| after["resources"][section].get(key).is_none());
                if gone {
                    let at = format!("spec.{field}[{index}].resources.{section}");
                    causes.push(Cause::forbidden(at, &format!("resource {word} cannot be removed")));
                }
            }
        }
    }
}

fn memory_limits_of_1_33(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    for (index, before, after) in pairs(old, new, "containers") {
        let policies = before["resizePolicy"].as_array().into_iter().flatten();
        let restarts =
            policies.into_iter().any(|p| p["resourceName"] == "memory" && p["restartPolicy"] == "RestartContainer");
        if restarts {
            continue;
        }
        let limit = |c: &Value| resources::amount(&c["resources"], "limits", "memory");
        let at = format!("spec.containers[{index}].resources.limits[memory]");
        match (limit(before), limit(after)) {
            (Some(was), Some(is)) if is < was => {
                let sentence = "memory limits cannot be decreased unless resizePolicy is RestartContainer";
                causes.push(Cause::forbidden(at, sentence));
            }
            (None, Some(_)) => {
                let sentence = "memory limits cannot be added unless resizePolicy is RestartContainer";
                causes.push(Cause::forbidden(at, sentence));
            }
            _ => {}
        }
    }
}

fn only_cpu_and_memory(old: &Value, new: &Value, minor: u32, causes: &mut Vec<Cause>) {
    let other_than_mutable = |container: &Value| {
        let mut container = container.clone();
        for section in ["requests", "limits"] {
            if let Some(map) = container["resources"][section].as_object_mut() {
                map.retain(|key, _| key != "cpu" && key != "memory");
            }
        }
        if let Some(map) = container["resources"].as_object_mut() {
            map.retain(|_, v| v.as_object().is_some_and(|m| !m.is_empty()));
        }
        container
    };
    let touched = ["containers", "initContainers"]
        .into_iter()
        .any(|field| pairs(old, new, field).any(|(_, a, b)| other_than_mutable(a) != other_than_mutable(b)));
    if touched {
        causes.push(Cause::forbidden("spec", "only cpu and memory resources are mutable"));
    }
    let ordinary = pairs(old, new, "initContainers")
        .any(|(_, a, b)| a["restartPolicy"] != "Always" && !resources::same(&a["resources"], &b["resources"]));
    if ordinary && minor < 36 {
        causes.push(Cause::forbidden("spec", "resources for non-sidecar init containers are immutable"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: impl Into<Value>) -> Value {
        let resources: Value = resources.into();
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app", "image": "i", "resources": resources}]}})
    }

    fn burstable() -> Value {
        json!({"requests": {"cpu": "20m", "memory": "20Mi"}, "limits": {"memory": "64Mi"}})
    }

    fn refusal(old: &Value, new: Value, minor: u32) -> String {
        let new = prepare(old, &pod(new));
        check(old, &new, minor).err().map(|f| f.message).unwrap_or_default()
    }

    #[test]
    fn refusals_in_the_words_of_a_real_server() {
        let old = pod(burstable());
        for (new, words) in [
            (json!({"requests": {"cpu": "30m", "memory": "20Mi"}, "limits": {"memory": "64Mi"}}), ""),
            (
                json!({"requests": {"memory": "20Mi"}, "limits": {"memory": "64Mi"}}),
                "Pod \"a\" is invalid: spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ),
            (
                json!({"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "64Mi"}}),
                "Pod \"a\" is invalid: spec.containers[0].resources.requests: Invalid value: \"128Mi\": must be less than or equal to memory limit of 64Mi",
            ),
            (
                json!({"requests": {"cpu": "30m", "memory": "64Mi"}, "limits": {"cpu": "30m", "memory": "64Mi"}}),
                "Pod \"a\" is invalid: spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
            ),
            (
                json!({"requests": {"cpu": "20m", "memory": "20Mi", "ephemeral-storage": "1Gi"}, "limits": {"memory": "64Mi"}}),
                "Pod \"a\" is invalid: spec: Forbidden: only cpu and memory resources are mutable",
            ),
        ] {
            assert_eq!(refusal(&old, new, 37), words);
        }
    }

    #[test]
    fn only_1_33_refuses_a_lower_memory_limit() {
        let old = pod(burstable());
        let lower = json!({"requests": {"cpu": "20m", "memory": "20Mi"}, "limits": {"memory": "32Mi"}});
        assert!(refusal(&old, lower.clone(), 33).contains("memory limits cannot be decreased"));
        assert_eq!(refusal(&old, lower, 34), "");
    }

    #[test]
    fn a_container_that_is_not_there_and_a_mirror_pod() {
        let old = pod(burstable());
        let mut new = old.clone();
        new["spec"]["containers"].as_array_mut().expect("a list").push(json!({"name": "nope"}));
        let message = check(&old, &prepare(&old, &new), 37).err().map(|f| f.message).unwrap_or_default();
        assert!(message.contains("containers may not be added or removed on resize"), "{message}");
        let mut mirror = old.clone();
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        assert!(check(&mirror, &mirror, 37).is_err());
    }
}
