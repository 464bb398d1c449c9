//! The controllers that a control plane runs. Each takes one piece of work, looks at what is stored and writes what is
//! missing; none keeps state of its own. May not: answer requests.

pub(super) mod budget;
mod daemonset;
mod deployment;
mod garbage;
mod replicaset;
mod statefulset;

use serde_json::{Value, json};

use super::clock::{fnv, word};
use super::registry::{Kind, PODS};
use super::scheduler;
use super::storage::Key;
use super::world::{Work, World};

/// Does one piece of work.
pub(super) fn run(world: &mut World, work: Work) {
    match work {
        Work::Deployment(key) => deployment::sync(world, &key),
        Work::ReplicaSet(key) => replicaset::sync(world, &key),
        Work::StatefulSet(key) => statefulset::sync(world, &key),
        Work::DaemonSet(key) => daemonset::sync(world, &key),
        Work::Budget(key) => budget::sync(world, &key),
        Work::Schedule(key) => scheduler::schedule(world, &key),
        Work::Pod(key) => super::kubelet::read(world, &key),
        Work::Collect(uid) => garbage::collect(world, &uid),
        Work::Namespace(name) => garbage::empty_namespace(world, &name),
    }
}

use self::pods::{create_pod, delete_pod, dependent_pods};

mod pods {
    //! Pods as their controllers make and end them.

    use serde_json::{Value, json};

    use crate::sandbox::admission;
    use crate::sandbox::answer::Failure;
    use crate::sandbox::defaults;
    use crate::sandbox::registry::{Kind, PODS};
    use crate::sandbox::storage::Key;
    use crate::sandbox::world::World;

    /// An owner reference of a controller.
    pub(in crate::sandbox) fn owner_reference(kind: &Kind, owner: &Value) -> Value {
        json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true})
    }

    /// Creates a pod from a controller's template; `adjust` gets the finished pod before admission.
    pub(in crate::sandbox) fn create_pod(
        world: &mut World,
        kind: &'static Kind,
        owner: &Value,
        name: &str,
        adjust: impl FnOnce(&mut Value),
    ) -> Result<(), Failure> {
        let namespace = owner["metadata"]["namespace"].as_str().unwrap_or_default();
        if world.store.get(PODS.id, namespace, name).is_some() {
            return Err(Failure::already_exists(&PODS, name));
        }
        let template = &owner["spec"]["template"];
        let mut metadata = world.metadata(namespace, name);
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = template["metadata"].get(field).filter(|v| !v.is_null()) {
                metadata[field] = value.clone();
            }
        }
        metadata["generation"] = 1.into();
        metadata["ownerReferences"] = json!([owner_reference(kind, owner)]);
        let mut pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"]});
        adjust(&mut pod);
        admission::mutate_pod(world, &mut pod)?;
        defaults::pod(&mut pod);
        admission::check_new_pod(world, &pod)?;
        world.put(&PODS, pod);
        Ok(())
    }

    /// Ends a pod gracefully, as its controller does.
    pub(in crate::sandbox) fn delete_pod(world: &mut World, key: &Key) {
        crate::sandbox::deletes::pod_gracefully(world, key, None);
    }

    /// The pods of a controller that are not ending.
    pub(in crate::sandbox) fn dependent_pods(world: &World, owner: &Value) -> Vec<std::sync::Arc<Value>> {
        let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
        let keys = world.dependents(uid, PODS.id);
        let pods = keys.iter().filter_map(|key| world.get(&PODS, key));
        pods.filter(|pod| crate::sandbox::world::health(pod).alive).collect()
    }
}

/// The hash that names a template.
fn template_hash(template: &Value, length: usize) -> String {
    word(fnv(&template.to_string()), length)
}

fn number(value: &Value, otherwise: usize) -> usize {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(otherwise)
}

/// A number, or a percentage of a whole.
fn share(value: &Value, whole: usize, round_up: bool) -> Option<usize> {
    if let Some(n) = value.as_u64() {
        return usize::try_from(n).ok();
    }
    let percent: usize = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    Some(if round_up { (whole * percent).div_ceil(100) } else { whole * percent / 100 })
}

/// A condition of a workload, with the time of its last change kept.
fn workload_condition(old: &Value, now: &str, kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let before = super::world::condition(old, kind).filter(|c| c["status"] == status);
    let since = before.map_or_else(|| Value::from(now), |c| c["lastTransitionTime"].clone());
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastUpdateTime": since,
        "lastTransitionTime": since})
}

/// Writes the status of a workload if it differs.
fn write_status(world: &mut World, kind: &'static Kind, key: &Key, status: Value) {
    world.update(kind, key, |object| object["status"] = status);
}

/// A free name for a pod of an owner. Five letters collide now and then among ten thousand.
fn free_pod_name(world: &mut World, owner: &Value) -> String {
    let namespace = owner["metadata"]["namespace"].as_str().unwrap_or_default();
    loop {
        let name = format!("{}-{}", name_of(owner), world.ids.suffix());
        if world.store.get(PODS.id, namespace, &name).is_none() {
            return name;
        }
    }
}

/// The name of an object.
fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
