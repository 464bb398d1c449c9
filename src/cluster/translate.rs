//! From Kubernetes objects to what the core may know of them, and from changes to a patch body. Pure.
//!
//! Version differences (1.33 to 1.37) and `Option` chains are settled here, once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerState as State, ContainerStatus, Pod, PodCondition, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::core::pod::{
    ContainerEnd, ContainerRole, ContainerState, ContainerView, PodOddity, PodPhase, PodUid, PodView, QosClass,
    ResizeCondition, RestartsOn,
};
use crate::core::quantity::{Bytes, Millicores};
use crate::core::resources::{Amounts, ContainerResources, Resources};
use crate::core::rollout::effect::Resize;

/// A pod as the core knows it. `None` for an object without name or UID, which no API server serves.
pub fn pod_view(pod: &Pod) -> Option<PodView> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref()?;
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let find = |kind: &str| conditions.iter().find(|c| c.type_ == kind && c.status == "True");
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).map(|v| v.as_str().into());
    let owner = meta.owner_references.as_deref().unwrap_or_default().iter().find(|o| o.controller == Some(true));
    Some(PodView {
        name: meta.name.as_deref()?.into(),
        uid: PodUid::new(meta.uid.as_deref()?),
        resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        generation: meta.generation.unwrap_or_default(),
        observed_generation: status.and_then(|status| status.observed_generation),
        node: spec.node_name.as_deref().map(Into::into),
        owner_uid: owner.map(|owner| owner.uid.as_str().into()),
        created_at: meta.creation_timestamp.as_ref().map(|time| time.0),
        template_hash: label("pod-template-hash").or_else(|| label("controller-revision-hash")),
        phase: phase(status.and_then(|status| status.phase.as_deref())),
        terminating: meta.deletion_timestamp.is_some(),
        qos: qos(status.and_then(|status| status.qos_class.as_deref())),
        oddity: oddity(pod),
        ready_since: find("Ready").map(|c| time(c.last_transition_time.as_ref())),
        resize_pending: find("PodResizePending").map(resize_condition),
        resize_in_progress: find("PodResizeInProgress").map(resize_condition),
        containers: containers(pod),
    })
}

/// A time that is missing is the earliest one: the condition has held for ever.
fn time(time: Option<&Time>) -> jiff::Timestamp {
    time.map_or(jiff::Timestamp::UNIX_EPOCH, |time| time.0)
}

fn phase(text: Option<&str>) -> PodPhase {
    match text {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Pending") | None => PodPhase::Pending,
        Some(_) => PodPhase::Unknown,
    }
}

fn qos(text: Option<&str>) -> QosClass {
    match text {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("BestEffort") => QosClass::BestEffort,
        _ => QosClass::Burstable,
    }
}

fn oddity(pod: &Pod) -> Option<PodOddity> {
    let spec = pod.spec.as_ref()?;
    let mirror = "kubernetes.io/config.mirror";
    if pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(mirror)) {
        Some(PodOddity::Mirror)
    } else if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        Some(PodOddity::Windows)
    } else if spec.resources.as_ref().is_some_and(|r| r.requests.is_some() || r.limits.is_some()) {
        Some(PodOddity::PodLevelResources)
    } else {
        None
    }
}

fn resize_condition(condition: &PodCondition) -> ResizeCondition {
    ResizeCondition {
        reason: condition.reason.as_deref().unwrap_or_default().into(),
        message: condition.message.as_deref().unwrap_or_default().into(),
        observed_generation: condition.observed_generation,
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    }
}

fn containers(pod: &Pod) -> BTreeMap<Box<str>, ContainerView> {
    let Some(spec) = &pod.spec else { return BTreeMap::new() };
    let status = pod.status.as_ref();
    let regular = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let init = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let view = |position: usize, container: &Container, role: ContainerRole, statuses: &[ContainerStatus]| {
        let status = statuses.iter().find(|status| status.name == container.name);
        let seen = ContainerView { position, ..container_view(container, role, status) };
        (container.name.as_str().into(), seen)
    };
    let mut out = spec
        .containers
        .iter()
        .enumerate()
        .map(|(at, c)| view(at, c, ContainerRole::Regular, regular))
        .collect::<BTreeMap<_, _>>();
    for (at, container) in spec.init_containers.as_deref().unwrap_or_default().iter().enumerate() {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let role = if sidecar { ContainerRole::Sidecar } else { ContainerRole::Init };
        let (name, seen) = view(at, container, role, init);
        out.insert(name, seen);
    }
    out
}

fn container_view(container: &Container, role: ContainerRole, status: Option<&ContainerStatus>) -> ContainerView {
    let restarts = |resource: &str| {
        container
            .resize_policy
            .as_deref()
            .unwrap_or_default()
            .iter()
            .any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
    };
    let end = |state: &State| {
        state.terminated.as_ref().map(|end| ContainerEnd {
            reason: end.reason.as_deref().unwrap_or_default().into(),
            exit_code: end.exit_code,
        })
    };
    ContainerView {
        role,
        position: 0,
        desired: container.resources.as_ref().map(resources).unwrap_or_default(),
        allocated: status.and_then(|status| status.allocated_resources.as_ref()).map(amounts),
        actual: status.and_then(|status| status.resources.as_ref()).map(resources),
        restarts_on: RestartsOn { cpu: restarts("cpu"), memory: restarts("memory") },
        restart_count: status.map_or(0, |status| u32::try_from(status.restart_count).unwrap_or_default()),
        state: status.map_or(ContainerState::Unknown, |status| container_state(status, end)),
        last_end: status.and_then(|status| status.last_state.as_ref()).and_then(end),
    }
}

fn container_state(status: &ContainerStatus, end: impl Fn(&State) -> Option<ContainerEnd>) -> ContainerState {
    let Some(state) = &status.state else { return ContainerState::Unknown };
    if let Some(running) = &state.running {
        return ContainerState::Running { since: running.started_at.as_ref().map(|t| t.0), ready: status.ready };
    }
    if let Some(end) = end(state) {
        return ContainerState::Terminated(end);
    }
    state.waiting.as_ref().map_or(ContainerState::Unknown, |waiting| ContainerState::Waiting {
        reason: waiting.reason.as_deref().unwrap_or_default().into(),
    })
}

/// Requests and limits of cpu and memory; other resources are not ours to see.
pub fn resources(requirements: &ResourceRequirements) -> Resources {
    Resources {
        requests: requirements.requests.as_ref().map(amounts).unwrap_or_default(),
        limits: requirements.limits.as_ref().map(amounts).unwrap_or_default(),
    }
}

/// A value that does not parse cannot come from an API server; it is treated as absent rather than guessed.
fn amounts(map: &BTreeMap<String, Quantity>) -> Amounts {
    Amounts {
        cpu: map.get("cpu").and_then(|q| Millicores::parse(&q.0).ok()),
        memory: map.get("memory").and_then(|q| Bytes::parse(&q.0).ok()),
    }
}

/// What a template gives to a pod's containers and sidecars.
pub fn template_resources(containers: &[Container], init: &[Container]) -> ContainerResources {
    let sidecars = init.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    containers
        .iter()
        .chain(sidecars)
        .map(|c| (c.name.clone(), c.resources.as_ref().map(resources).unwrap_or_default()))
        .collect()
}

/// The strategic merge patch of a resize: the UID as guard against another pod of the same name (422 `field is
/// immutable`), and only the keys that change. Containers merge by name, so nothing else is touched.
pub fn resize_patch(resize: &Resize) -> Value {
    let list = |names: &[String]| {
        let one = |name: &String| {
            let changes = resize.changes.get(name)?;
            Some(json!({"name": name, "resources": resources_json(changes)}))
        };
        names.iter().filter_map(one).collect::<Vec<Value>>()
    };
    let mut lists = BTreeMap::from([("containers", list(&resize.regular)), ("initContainers", list(&resize.sidecars))]);
    lists.retain(|_, containers| !containers.is_empty());
    json!({"metadata": {"uid": &*resize.uid.0}, "spec": lists})
}

/// The block as a manifest writes it.
pub fn resources_json(block: &Resources) -> Value {
    let mut out = serde_json::Map::new();
    for (key, value) in block.present() {
        let (half, resource) = key.path().split_once('.').expect("every path has two parts");
        let half = out.entry(half).or_insert_with(|| json!({}));
        half[resource] = json!(key.show(value));
    }
    Value::Object(out)
}
