//! ReplicaSets: as many pods as asked for. Counts come from tallies, so that a change of one pod costs the same
//! whether the set has ten pods or ten thousand.

use serde_json::json;

use super::{create_pod, delete_pod, dependent_pods, free_pod_name, name_of, number, write_status};
use crate::sandbox::kubelet::Timer;
use crate::sandbox::registry::REPLICA_SETS;
use crate::sandbox::storage::Key;
use crate::sandbox::world::{Work, World, health, is_deleting, key_of};

/// Pods made in one go before other work gets a turn.
const BURST: usize = 500;

pub(super) fn sync(world: &mut World, key: &Key) {
    let Some(set) = world.get(&REPLICA_SETS, key).filter(|s| !is_deleting(s)) else { return };
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let (wanted, alive) = (number(&set["spec"]["replicas"], 1), world.tally(&uid).alive);
    let mut failed = None;
    if alive < wanted {
        for _ in 0..(wanted - alive).min(BURST) {
            let name = free_pod_name(world, &set);
            if let Err(failure) = create_pod(world, &REPLICA_SETS, &set, &name, |pod| {
                pod["metadata"]["generateName"] = format!("{}-", name_of(&set)).into();
            }) {
                failed = Some(failure.message);
                break;
            }
        }
        if failed.is_some() {
            world.after(std::time::Duration::from_secs(5), Timer::Queue(Work::ReplicaSet(key.clone())));
        } else if wanted - alive > BURST {
            world.queue(Work::ReplicaSet(key.clone()));
        }
    } else if alive > wanted {
        shrink(world, &set, alive - wanted);
    }
    let tally = world.tally(&uid);
    let mut status = json!({"replicas": tally.alive, "observedGeneration": set["metadata"]["generation"]});
    for (field, n) in
        [("fullyLabeledReplicas", tally.alive), ("readyReplicas", tally.ready), ("availableReplicas", tally.ready)]
    {
        if n > 0 {
            status[field] = n.into();
        }
    }
    if let Some(message) = failed {
        status["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": message, "lastTransitionTime": world.clock.stamp()}]);
    }
    write_status(world, &REPLICA_SETS, key, status);
    if let Some(set) = world.get(&REPLICA_SETS, key) {
        world.queue_owner(&set);
    }
}

/// Ends the surplus: pods without a node first, then not ready ones, then the newest.
fn shrink(world: &mut World, set: &serde_json::Value, surplus: usize) {
    let mut pods = dependent_pods(world, set);
    pods.sort_by_cached_key(|pod| {
        let created = pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        (!pod["spec"]["nodeName"].is_null(), health(pod).ready, std::cmp::Reverse(created), key_of(pod))
    });
    for pod in pods.into_iter().take(surplus) {
        delete_pod(world, &key_of(&pod));
    }
}
