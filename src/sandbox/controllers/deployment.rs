//! Deployments: one ReplicaSet for each template, pods moved from old to new within surge and unavailability.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::pods::owner_reference;
use super::{name_of, number, share, template_hash, workload_condition, write_status};
use crate::sandbox::kubelet::Timer;
use crate::sandbox::registry::{DEPLOYMENTS, REPLICA_SETS};
use crate::sandbox::storage::Key;
use crate::sandbox::world::{Work, World, is_deleting, key_of};

const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn sync(world: &mut World, key: &Key) {
    let Some(deployment) = world.get(&DEPLOYMENTS, key).filter(|d| !is_deleting(d)) else { return };
    let hash = template_hash(&deployment["spec"]["template"], 10);
    let sets = replica_sets(world, &deployment);
    let is_new = |set: &Value| set["metadata"]["labels"]["pod-template-hash"] == hash.as_str();
    let (new, old): (Vec<_>, Vec<_>) = sets.into_iter().partition(|s| is_new(s));
    let Some(new) = new.into_iter().next() else {
        create_set(world, &deployment, &hash, &old);
        return;
    };
    if deployment["spec"]["paused"] != true {
        let revision = revision_of(&new).max(old.iter().map(|s| revision_of(s)).max().map_or(1, |r| r + 1));
        stamp_revision(world, &key_of(&new), key, if old.is_empty() { revision_of(&new).max(1) } else { revision });
        if deployment["spec"]["strategy"]["type"] == "Recreate" {
            recreate(world, &deployment, &new, &old);
        } else {
            roll(world, &deployment, &new, &old);
        }
    }
    status(world, key, &hash);
}

fn replica_sets(world: &World, deployment: &Value) -> Vec<Arc<Value>> {
    let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default();
    world.dependents(uid, REPLICA_SETS.id).iter().filter_map(|key| world.get(&REPLICA_SETS, key)).collect()
}

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["annotations"][REVISION].as_str().and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn stamp_revision(world: &mut World, set: &Key, deployment: &Key, revision: u64) {
    let text = revision.to_string();
    world.update(&REPLICA_SETS, set, |o| o["metadata"]["annotations"][REVISION] = text.clone().into());
    world.update(&DEPLOYMENTS, deployment, |o| o["metadata"]["annotations"][REVISION] = text.into());
}

fn create_set(world: &mut World, deployment: &Value, hash: &str, old: &[Arc<Value>]) {
    let spec = &deployment["spec"];
    let name = format!("{}-{hash}", name_of(deployment));
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
    // One of a deleted workload of the same name and template: it has to be collected first (a real controller takes
    // another hash instead).
    if world.get(&REPLICA_SETS, &(namespace.to_owned(), name.clone())).is_some() {
        let again = Work::Deployment(key_of(deployment));
        world.after(Duration::from_millis(100), Timer::Queue(again));
        return;
    }
    let mut metadata = world.metadata(namespace, &name);
    let mut template = spec["template"].clone();
    let mut selector = spec["selector"].clone();
    template["metadata"]["labels"]["pod-template-hash"] = hash.into();
    selector["matchLabels"]["pod-template-hash"] = hash.into();
    let revision = old.iter().map(|s| revision_of(s)).max().unwrap_or(0) + 1;
    metadata["labels"] = template["metadata"]["labels"].clone();
    metadata["annotations"] = json!({REVISION: revision.to_string()});
    metadata["generation"] = 1.into();
    metadata["ownerReferences"] = json!([owner_reference(&DEPLOYMENTS, deployment)]);
    let replicas = if old.is_empty() { number(&spec["replicas"], 1) } else { 0 };
    world.put(
        &REPLICA_SETS,
        json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": metadata,
            "spec": {"replicas": replicas, "selector": selector, "template": template},
            "status": {"replicas": 0}}),
    );
}

fn scale(world: &mut World, set: &Value, replicas: usize) {
    world.update(&REPLICA_SETS, &key_of(set), |set| {
        if set["spec"]["replicas"] != replicas {
            set["spec"]["replicas"] = replicas.into();
            let generation = set["metadata"]["generation"].as_i64().unwrap_or(1) + 1;
            set["metadata"]["generation"] = generation.into();
        }
    });
}

fn wanted(set: &Value) -> usize {
    number(&set["spec"]["replicas"], 0)
}

fn counted(world: &World, set: &Value) -> crate::sandbox::world::Tally {
    world.tally(set["metadata"]["uid"].as_str().unwrap_or_default())
}

fn recreate(world: &mut World, deployment: &Value, new: &Value, old: &[Arc<Value>]) {
    for set in old {
        scale(world, set, 0);
    }
    if old.iter().all(|set| counted(world, set).alive == 0) {
        scale(world, new, number(&deployment["spec"]["replicas"], 1));
    }
}

fn roll(world: &mut World, deployment: &Value, new: &Value, old: &[Arc<Value>]) {
    let desired = number(&deployment["spec"]["replicas"], 1);
    let live: Vec<&Arc<Value>> = old.iter().filter(|s| wanted(s) > 0).collect();
    if live.is_empty() {
        scale(world, new, desired);
        return;
    }
    let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
    let surge = share(&strategy["maxSurge"], desired, true).unwrap_or_else(|| desired.div_ceil(4));
    let mut gap = share(&strategy["maxUnavailable"], desired, false).unwrap_or(desired / 4);
    if surge == 0 && gap == 0 {
        gap = 1;
    }
    let total = wanted(new) + live.iter().map(|s| wanted(s)).sum::<usize>();
    let new_size = if wanted(new) > desired {
        desired
    } else {
        desired.min(wanted(new) + (desired + surge).saturating_sub(total))
    };
    scale(world, new, new_size);
    let must_stay = desired.saturating_sub(gap);
    let new_ready = counted(world, new).ready;
    let new_unready = new_size.saturating_sub(new_ready);
    let total = new_size + live.iter().map(|s| wanted(s)).sum::<usize>();
    let mut spare = total.saturating_sub(must_stay + new_unready);
    let ready = new_ready + live.iter().map(|s| counted(world, s).ready.min(wanted(s))).sum::<usize>();
    let mut healthy_spare = ready.saturating_sub(must_stay);
    for set in live {
        let healthy = counted(world, set).ready.min(wanted(set));
        let unhealthy = (wanted(set) - healthy).min(spare);
        spare -= unhealthy;
        let ended = healthy.min(healthy_spare).min(spare);
        spare -= ended;
        healthy_spare -= ended;
        if unhealthy + ended > 0 {
            scale(world, set, wanted(set) - unhealthy - ended);
        }
    }
}

fn status(world: &mut World, key: &Key, hash: &str) {
    let Some(deployment) = world.get(&DEPLOYMENTS, key) else { return };
    let desired = number(&deployment["spec"]["replicas"], 1);
    let (mut replicas, mut ready, mut updated) = (0, 0, 0);
    for set in replica_sets(world, &deployment) {
        let tally = counted(world, &set);
        replicas += tally.alive;
        ready += tally.ready;
        if set["metadata"]["labels"]["pod-template-hash"] == hash {
            updated += tally.alive;
        }
    }
    let now = world.clock.stamp();
    let enough = ready >= desired - (desired / 4).min(desired);
    let complete = updated == desired && ready == desired && replicas == desired;
    let available = if enough {
        workload_condition(
            &deployment,
            &now,
            "Available",
            true,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        workload_condition(
            &deployment,
            &now,
            "Available",
            false,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let set = format!("ReplicaSet \"{}-{hash}\"", key.1);
    let progress = if complete {
        ("NewReplicaSetAvailable", format!("{set} has successfully progressed."))
    } else {
        ("ReplicaSetUpdated", format!("{set} is progressing."))
    };
    let progressing = workload_condition(&deployment, &now, "Progressing", true, progress.0, &progress.1);
    let mut status = json!({"observedGeneration": deployment["metadata"]["generation"],
        "conditions": [available, progressing]});
    for (field, n) in [
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", desired.max(replicas) - ready),
    ] {
        if n > 0 {
            status[field] = n.into();
        }
    }
    write_status(world, &DEPLOYMENTS, key, status);
}
