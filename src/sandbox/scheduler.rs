//! Gives pods a node: the first one by name that is ready, allowed and has room. May not: look at kubelets' resizes.

use serde_json::{Value, json};

use super::kubelet::NodeRun;
use super::registry::PODS;
use super::resources;
use super::storage::Key;
use super::world::{World, condition, is_deleting};

/// Binds a pod to a node, or says in its status why not.
pub(super) fn schedule(world: &mut World, key: &Key) {
    let Some(pod) = world.get(&PODS, key) else {
        world.kubelets.unscheduled.remove(key);
        return;
    };
    if !pod["spec"]["nodeName"].is_null() {
        return;
    }
    if is_deleting(&pod) {
        world.remove(&PODS, key);
        return;
    }
    let want = resources::pod_requests(&pod["spec"]);
    let found = world.kubelets.nodes.iter().find(|(_, node)| {
        let room = node.allocatable.minus(node.reserved);
        admits(node, &pod) && node.pods < node.pods_allowed && want.fits(room)
    });
    match found.map(|(name, _)| name.clone()) {
        Some(node) => bind(world, key, &node),
        None => refuse(world, key, &pod),
    }
}

/// Whether a node takes a pod at all, room aside.
pub(super) fn admits(node: &NodeRun, pod: &Value) -> bool {
    let selector = pod["spec"]["nodeSelector"].as_object();
    let selected = selector.into_iter().flatten().all(|(key, value)| node.labels.get(key) == Some(value));
    let tolerations = || pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let tainted = node.taints.as_array().into_iter().flatten().any(|taint| {
        let hard = matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
        hard && !tolerations().any(|t| t["key"].is_null() || t["key"] == taint["key"])
    });
    node.ready && !node.unschedulable && selected && !tainted
}

/// Gives a pod its node.
pub(super) fn bind(world: &mut World, key: &Key, node: &str) {
    let (now, minor) = (world.clock.stamp(), world.minor());
    world.kubelets.unscheduled.remove(key);
    world.update(&PODS, key, |pod| {
        pod["spec"]["nodeName"] = node.into();
        pod["status"]["conditions"] = json!([scheduled(pod, "True", &now, minor)]);
    });
}

fn scheduled(pod: &Value, status: &str, now: &str, minor: u32) -> Value {
    let since = condition(pod, "PodScheduled")
        .filter(|c| c["status"] == status)
        .map_or_else(|| Value::from(now), |c| c["lastTransitionTime"].clone());
    let mut entry =
        json!({"type": "PodScheduled", "status": status, "lastProbeTime": null, "lastTransitionTime": since});
    if minor >= 34 {
        entry["observedGeneration"] = pod["metadata"]["generation"].clone();
    }
    entry
}

fn refuse(world: &mut World, key: &Key, pod: &Value) {
    let (now, minor, nodes) = (world.clock.stamp(), world.minor(), world.kubelets.nodes.len());
    world.kubelets.unscheduled.insert(key.clone());
    let want = resources::pod_requests(&pod["spec"]);
    let lacks = |cpu: bool| {
        let short = world.kubelets.nodes.values().filter(|n| {
            let room = n.allocatable.minus(n.reserved);
            if cpu { want.cpu > room.cpu } else { want.memory > room.memory }
        });
        short.count()
    };
    let mut reasons = Vec::new();
    for (count, what) in [(lacks(true), "Insufficient cpu"), (lacks(false), "Insufficient memory")] {
        if count > 0 {
            reasons.push(format!("{count} {what}"));
        }
    }
    let message = format!("0/{nodes} nodes are available: {}.", reasons.join(", "));
    world.update(&PODS, key, |pod| {
        let mut entry = scheduled(pod, "False", &now, minor);
        entry["reason"] = "Unschedulable".into();
        entry["message"] = message.into();
        pod["status"]["conditions"] = json!([entry]);
    });
}
