//! `PodDisruptionBudgets`: how many pods may be disrupted now.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{number, share, write_status};
use crate::sandbox::registry::{BUDGETS, PODS};
use crate::sandbox::selectors::LabelSelector;
use crate::sandbox::storage::Key;
use crate::sandbox::world::{World, controller, health, is_deleting, kind_of};

/// Whether a budget covers a pod.
pub(in crate::sandbox) fn selects(budget: &Value, pod: &Value) -> bool {
    budget["spec"].get("selector").is_some_and(|s| LabelSelector::of_object(s).matches(pod))
}

/// Computes the status of a budget.
pub(in crate::sandbox) fn sync(world: &mut World, key: &Key) {
    let Some(budget) = world.get(&BUDGETS, key).filter(|b| !is_deleting(b)) else { return };
    let selector = LabelSelector::of_object(&budget["spec"]["selector"]);
    let (mut covered, mut healthy) = (0usize, 0usize);
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for (_, pod) in world.store.list(PODS.id, Some(&key.0)).filter(|(_, pod)| selector.matches(pod)) {
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        if ended {
            continue;
        }
        covered += 1;
        let health = health(pod);
        healthy += usize::from(health.alive && health.ready);
        if let Some(owner) = controller(pod) {
            let uid = owner["uid"].as_str().unwrap_or_default();
            if !owners.contains_key(uid) {
                owners.insert(uid.to_owned(), replicas(world, &key.0, owner));
            }
        }
    }
    let scaled: usize = owners.values().sum();
    let spec = &budget["spec"];
    let (expected, desired) = if let Some(gap) = spec.get("maxUnavailable") {
        (scaled, scaled.saturating_sub(share(gap, scaled, true).unwrap_or(0)))
    } else {
        let whole = spec["minAvailable"].is_string();
        let expected = if whole { scaled } else { covered };
        (expected, share(&spec["minAvailable"], expected, true).unwrap_or(0))
    };
    let allowed = if expected == 0 { 0 } else { healthy.saturating_sub(desired) };
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let since = crate::sandbox::world::condition(&budget, "DisruptionAllowed")
        .filter(|c| c["status"] == status)
        .map_or_else(|| Value::from(world.clock.stamp()), |c| c["lastTransitionTime"].clone());
    let status = json!({"observedGeneration": budget["metadata"]["generation"], "expectedPods": expected,
        "currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed,
        "conditions": [{"type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
            "observedGeneration": budget["metadata"]["generation"], "lastTransitionTime": since}]});
    write_status(world, &BUDGETS, key, status);
}

fn replicas(world: &World, namespace: &str, owner: &Value) -> usize {
    let kind = crate::sandbox::registry::of_manifest(
        owner["apiVersion"].as_str().unwrap_or_default(),
        owner["kind"].as_str().unwrap_or_default(),
    );
    let name = owner["name"].as_str().unwrap_or_default();
    let object = kind.and_then(|k| kind_of(k.id)).and_then(|k| world.get(k, &(namespace.to_owned(), name.to_owned())));
    object.map_or(1, |o| number(&o["spec"]["replicas"], 1))
}
