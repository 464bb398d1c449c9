//! `DaemonSets`: one pod on each node that takes it, replaced one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::statefulset::ensure_revision;
use super::{create_pod, delete_pod, dependent_pods, free_pod_name, write_status};
use crate::sandbox::registry::{DAEMON_SETS, PODS};
use crate::sandbox::scheduler;
use crate::sandbox::storage::Key;
use crate::sandbox::world::{World, health, is_deleting, key_of};

const REVISION: &str = "controller-revision-hash";

pub(super) fn sync(world: &mut World, key: &Key) {
    let Some(set) = world.get(&DAEMON_SETS, key).filter(|s| !is_deleting(s)) else { return };
    let revision = ensure_revision(world, &DAEMON_SETS, &set);
    let hash = revision.rsplit_once('-').map_or(revision.as_str(), |(_, hash)| hash).to_owned();
    let probe = json!({"spec": set["spec"]["template"]["spec"]});
    let nodes: Vec<String> = world
        .kubelets
        .nodes
        .iter()
        .filter(|(_, node)| scheduler::admits(node, &probe))
        .map(|(name, _)| name.clone())
        .collect();
    let mut pods: BTreeMap<String, Arc<Value>> = BTreeMap::new();
    for pod in dependent_pods(world, &set) {
        pods.insert(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(), pod);
    }
    let ending = world.dependents(set["metadata"]["uid"].as_str().unwrap_or_default(), PODS.id).len() > pods.len();
    for node in &nodes {
        if !pods.contains_key(node) && !ending {
            let name = free_pod_name(world, &set);
            // A refusal leaves the node without its pod; the next change of the set tries again.
            let _ = create_pod(world, &DAEMON_SETS, &set, &name, |pod| {
                pod["metadata"]["labels"][REVISION] = hash.as_str().into();
                pod["spec"]["nodeName"] = node.as_str().into();
            });
        }
    }
    let all_ready = pods.len() == nodes.len() && pods.values().all(|p| health(p).ready);
    let stale = pods.values().find(|p| p["metadata"]["labels"][REVISION] != hash.as_str());
    if let Some(pod) = stale.filter(|_| all_ready && set["spec"]["updateStrategy"]["type"] != "OnDelete") {
        delete_pod(world, &key_of(pod));
    }
    let ready = pods.values().filter(|p| health(p).ready).count();
    let updated = pods.values().filter(|p| p["metadata"]["labels"][REVISION] == hash.as_str()).count();
    let status = json!({"observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": nodes.len(),
        "currentNumberScheduled": pods.len(), "numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0,
        "updatedNumberScheduled": updated, "numberUnavailable": nodes.len().saturating_sub(ready)});
    write_status(world, &DAEMON_SETS, key, status);
}
