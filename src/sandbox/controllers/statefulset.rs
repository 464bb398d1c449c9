//! `StatefulSets`: pods with ordinals, created in order, replaced from the highest ordinal down.

use serde_json::{Value, json};

use super::pods::owner_reference;
use super::{create_pod, delete_pod, name_of, number, template_hash, write_status};
use crate::sandbox::registry::{Kind, PODS, REVISIONS, STATEFUL_SETS};
use crate::sandbox::storage::Key;
use crate::sandbox::world::{World, health, is_deleting};

const REVISION: &str = "controller-revision-hash";

pub(super) fn sync(world: &mut World, key: &Key) {
    let Some(set) = world.get(&STATEFUL_SETS, key).filter(|s| !is_deleting(s)) else { return };
    let wanted = number(&set["spec"]["replicas"], 1);
    let revision = ensure_revision(world, &STATEFUL_SETS, &set);
    let parallel = set["spec"]["podManagementPolicy"] == "Parallel";
    let settled = fill(world, &set, wanted, &revision, parallel);
    if settled && shrink(world, &set, wanted) && set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        replace_one(world, &set, wanted, &revision);
    }
    status(world, key, &set, wanted, &revision);
}

/// The name of the revision of a workload's template; its `ControllerRevision` is made when missing.
pub(super) fn ensure_revision(world: &mut World, kind: &'static Kind, owner: &Value) -> String {
    let namespace = owner["metadata"]["namespace"].as_str().unwrap_or_default();
    let name = format!("{}-{}", name_of(owner), template_hash(&owner["spec"]["template"], 10));
    let key = (namespace.to_owned(), name.clone());
    if world.get(&REVISIONS, &key).is_none() {
        let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
        let number = world.dependents(uid, REVISIONS.id).len() + 1;
        let mut metadata = world.metadata(namespace, &name);
        metadata["labels"] = owner["spec"]["template"]["metadata"]["labels"].clone();
        metadata["ownerReferences"] = json!([owner_reference(kind, owner)]);
        let data = json!({"spec": {"template": owner["spec"]["template"]}});
        world.put(
            &REVISIONS,
            json!({"kind": "ControllerRevision", "apiVersion": "apps/v1", "metadata": metadata, "data": data,
                "revision": number}),
        );
    }
    name
}

fn pod_key(set: &Value, ordinal: usize) -> Key {
    let namespace = set["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    (namespace, format!("{}-{ordinal}", name_of(set)))
}

/// Creates what is missing. True when every ordinal exists and is ready.
fn fill(world: &mut World, set: &Value, wanted: usize, revision: &str, parallel: bool) -> bool {
    let mut settled = true;
    for ordinal in 0..wanted {
        let key = pod_key(set, ordinal);
        match world.get(&PODS, &key) {
            Some(pod) if health(&pod).alive && health(&pod).ready => continue,
            Some(_) => {}
            None => {
                let name = key.1.clone();
                // A refusal leaves the ordinal missing; the next change of the set tries again.
                let _ = create_pod(world, &STATEFUL_SETS, set, &name, |pod| {
                    let labels = &mut pod["metadata"]["labels"];
                    labels[REVISION] = revision.into();
                    labels["statefulset.kubernetes.io/pod-name"] = name.clone().into();
                    labels["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
                    pod["spec"]["hostname"] = name.clone().into();
                });
            }
        }
        settled = false;
        if !parallel {
            return false;
        }
    }
    settled
}

/// Ends ordinals that are too high, the highest first and one at a time. True when there are none.
fn shrink(world: &mut World, set: &Value, wanted: usize) -> bool {
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let surplus = world.dependents(uid, PODS.id).into_iter().filter_map(|key| {
        let ordinal: usize = key.1.rsplit_once('-')?.1.parse().ok()?;
        (ordinal >= wanted).then_some((ordinal, key))
    });
    let Some((_, key)) = surplus.max() else { return true };
    if world.get(&PODS, &key).is_some_and(|pod| health(&pod).alive) {
        delete_pod(world, &key);
    }
    false
}

fn replace_one(world: &mut World, set: &Value, wanted: usize, revision: &str) {
    let partition = number(&set["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0);
    for ordinal in (partition..wanted).rev() {
        let key = pod_key(set, ordinal);
        let Some(pod) = world.get(&PODS, &key) else { return };
        if pod["metadata"]["labels"][REVISION] != revision {
            delete_pod(world, &key);
            return;
        }
    }
}

fn status(world: &mut World, key: &Key, set: &Value, wanted: usize, revision: &str) {
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
    let (mut replicas, mut ready, mut updated) = (0, 0, 0);
    for key in world.dependents(uid, PODS.id) {
        let Some(pod) = world.get(&PODS, &key) else { continue };
        replicas += 1;
        ready += usize::from(health(&pod).alive && health(&pod).ready);
        updated += usize::from(pod["metadata"]["labels"][REVISION] == revision);
    }
    let done = updated == wanted && ready == wanted;
    let current = if done { Value::from(revision) } else { set["status"]["currentRevision"].clone() };
    let current = if current.is_null() { Value::from(revision) } else { current };
    let status = json!({"observedGeneration": set["metadata"]["generation"], "replicas": replicas,
        "readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": updated,
        "currentReplicas": if done { updated } else { replicas - updated.min(replicas) },
        "currentRevision": current, "updateRevision": revision, "collisionCount": 0});
    write_status(world, &STATEFUL_SETS, key, status);
}
