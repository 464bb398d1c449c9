//! Why a pod is left alone: one named reason with its sentence, and the worries that do not stop a resize.

use std::fmt;

use serde::Serialize;

use super::pod::QosClass;
use super::quantity::Bytes;
use super::resources::Key;

/// Why the run may not resize a pod. A refusal is an answer, not an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "code")]
pub enum Refusal {
    /// `phase` is the pod's phase.
    NotRunning {
        phase: &'static str,
    },
    Terminating,
    /// A pod that is not well before cannot show whether the change was good for it.
    NotReady,
    /// Only with `--only-current`.
    OlderTemplate,
    MirrorPod,
    Windows,
    PodLevelResources,
    ContainerMissing {
        container: String,
        nearest: Option<String>,
    },
    InitContainer {
        container: String,
    },
    /// `state` is the reason the container waits with, or `terminated`, or `no status yet`.
    ContainerNotRunning {
        container: String,
        state: String,
    },
    QosWouldChange {
        from: &'static str,
        to: &'static str,
    },
    RequestAboveLimit {
        container: String,
        request: Key,
        request_value: u64,
        limit: Key,
        limit_value: u64,
    },
    /// Kubernetes 1.33 without `resizePolicy: RestartContainer` for memory.
    MemoryLimitDecrease {
        container: String,
        from: u64,
        to: u64,
    },
    /// The same version, the same policy: a memory limit cannot be added either.
    MemoryLimitAdded {
        container: String,
    },
    /// The new limit is below what the container uses now: the kubelet would try for ever.
    MemoryInUse {
        container: String,
        limit: u64,
        in_use: u64,
    },
    /// Computed here from the node; see `NodeCapacity` for the server's own answer.
    NodeAllocatable {
        node: String,
        key: Key,
        requested: u64,
        allocatable: u64,
    },
    StaticCpuManager {
        node: String,
    },
    /// A VerticalPodAutoscaler that would put its own values back.
    ManagedByVpa {
        name: String,
        mode: String,
    },
    /// An unfinished run of somebody else holds this pod.
    TouchedByOtherRun {
        run: String,
    },
    /// The four below come from the server's dry run; `words` are the server's.
    LimitRange {
        words: String,
    },
    ResourceQuota {
        words: String,
    },
    NodeCapacity {
        words: String,
    },
    ServerRefuses {
        words: String,
    },
}

impl Refusal {
    /// The stable name of the reason, for JSON and for counting.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotRunning { .. } => "not-running",
            Self::Terminating => "terminating",
            Self::NotReady => "not-ready",
            Self::OlderTemplate => "older-template",
            Self::MirrorPod => "mirror-pod",
            Self::Windows => "windows",
            Self::PodLevelResources => "pod-level-resources",
            Self::ContainerMissing { .. } => "container-missing",
            Self::InitContainer { .. } => "init-container",
            Self::ContainerNotRunning { .. } => "container-not-running",
            Self::QosWouldChange { .. } => "qos-would-change",
            Self::RequestAboveLimit { .. } => "request-above-limit",
            Self::MemoryLimitDecrease { .. } => "memory-limit-decrease",
            Self::MemoryLimitAdded { .. } => "memory-limit-added",
            Self::MemoryInUse { .. } => "memory-in-use",
            Self::NodeAllocatable { .. } => "node-allocatable",
            Self::StaticCpuManager { .. } => "static-cpu-manager",
            Self::ManagedByVpa { .. } => "managed-by-vpa",
            Self::TouchedByOtherRun { .. } => "touched-by-other-run",
            Self::LimitRange { .. } => "limit-range",
            Self::ResourceQuota { .. } => "resource-quota",
            Self::NodeCapacity { .. } => "node-capacity",
            Self::ServerRefuses { .. } => "server-refuses",
        }
    }
}

impl fmt::Display for Refusal {
    /// A lower-case fragment that reads after `pod web-0: `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning { phase } => write!(f, "is {phase}, not Running"),
            Self::Terminating => f.write_str("is being deleted"),
            Self::NotReady => f.write_str("is not ready: what the change does to it could not be told"),
            Self::OlderTemplate => f.write_str("belongs to an older template (--only-current leaves it alone)"),
            Self::MirrorPod => f.write_str("is a static pod: its node's manifest decides its resources"),
            Self::Windows => f.write_str("runs Windows, where in-place resize does not exist"),
            Self::PodLevelResources => {
                f.write_str("has resources of its own (spec.resources), which kapr leaves alone")
            }
            Self::ContainerMissing { container, nearest: None } => write!(f, "has no container {container:?}"),
            Self::ContainerMissing { container, nearest: Some(nearest) } => {
                write!(f, "has no container {container:?}; did you mean {nearest:?}?")
            }
            Self::InitContainer { container } => {
                write!(f, "container {container:?} is an init container: only containers and sidecars are resized")
            }
            Self::ContainerNotRunning { container, state } => {
                write!(f, "container {container:?} is not running ({state})")
            }
            Self::QosWouldChange { from, to } => write_qos(f, from, to),
            Self::RequestAboveLimit { container, request, request_value, limit, limit_value } => write!(
                f,
                "container {container:?} would have {request} {} above {limit} {}: name both in the recommendation",
                request.show(*request_value),
                limit.show(*limit_value)
            ),
            Self::TouchedByOtherRun { run } => write!(f, "is held by run {run}, which is not finished"),
            Self::ManagedByVpa { name, mode } => write!(
                f,
                "VerticalPodAutoscaler {name:?} in mode {mode} sets its resources; set its updateMode to Off or Initial first"
            ),
            Self::MemoryLimitDecrease { container, from, to } => {
                let (from, to) = (Bytes::new(*from), Bytes::new(*to));
                write!(f, "container {container:?}: {NOT_ON_133} lower limits.memory ({from} to {to}) {BY_RESTART}")
            }
            Self::MemoryLimitAdded { container } => {
                write!(f, "container {container:?}: {NOT_ON_133} add limits.memory {BY_RESTART}")
            }
            Self::MemoryInUse { container, limit, in_use } => {
                let (limit, in_use) = (Bytes::new(*limit), Bytes::new(*in_use));
                write!(f, "container {container:?} uses {in_use} of memory now, more than the new limit {limit}")
            }
            Self::NodeAllocatable { node, key, requested, allocatable } => {
                let (requested, allocatable) = (key.show(*requested), key.show(*allocatable));
                write!(f, "would need {key} {requested} on node {node}, which has {allocatable} in all")
            }
            Self::StaticCpuManager { node } => write!(
                f,
                "is Guaranteed on node {node} with the static CPU manager, which does not resize exclusive CPUs"
            ),
            Self::LimitRange { words } => write!(f, "a LimitRange forbids it: {words}"),
            Self::ResourceQuota { words } => write!(f, "a ResourceQuota forbids it: {words}"),
            Self::NodeCapacity { words } => write!(f, "it does not fit its node: {words}"),
            Self::ServerRefuses { words } => write!(f, "the API server refuses the resize: {words}"),
        }
    }
}

const NOT_ON_133: &str = "Kubernetes 1.33 cannot";
const BY_RESTART: &str = "without resizePolicy RestartContainer";

fn write_qos(f: &mut fmt::Formatter<'_>, from: &str, to: &str) -> fmt::Result {
    write!(f, "would change QoS class from {from} to {to}, which a resize may not: ")?;
    f.write_str(if from == name_of_qos(QosClass::BestEffort) {
        "its containers have no requests and limits at all"
    } else if from == name_of_qos(QosClass::Guaranteed) {
        "keep every request equal to its limit"
    } else {
        "keep one request below its limit, or one limit unset"
    })
}

/// The class as Kubernetes writes it.
pub const fn name_of_qos(class: QosClass) -> &'static str {
    match class {
        QosClass::Guaranteed => "Guaranteed",
        QosClass::Burstable => "Burstable",
        QosClass::BestEffort => "BestEffort",
    }
}

/// What `plan` shows beside an eligible pod: it may be resized, and a person should know this.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "code")]
pub enum Concern {
    /// A HorizontalPodAutoscaler scales on utilisation of what changes: the request is its denominator.
    Hpa { name: String, key: Key },
    /// A VerticalPodAutoscaler in mode Initial: new pods are born with its values, not with these.
    VpaInitial { name: String },
    /// It belongs to an older template and will be replaced.
    OlderTemplate,
    /// The API server adds this request beside a limit that stands alone.
    ServerAddsRequest { container: String, key: Key, value: u64 },
    /// A resize of somebody else is still pending on it.
    ResizePending { reason: String },
}

impl Concern {
    /// The stable name, for JSON and for counting.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Hpa { .. } => "hpa",
            Self::VpaInitial { .. } => "vpa-initial",
            Self::OlderTemplate => "older-template",
            Self::ServerAddsRequest { .. } => "server-adds-request",
            Self::ResizePending { .. } => "resize-pending",
        }
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hpa { name, key } => write!(
                f,
                "HorizontalPodAutoscaler {name:?} scales on a share of {key}: changing it changes the number of pods"
            ),
            Self::VpaInitial { name } => {
                write!(f, "VerticalPodAutoscaler {name:?} in mode Initial gives new pods its own values")
            }
            Self::OlderTemplate => f.write_str("belongs to an older template"),
            Self::ServerAddsRequest { container, key, value } => write!(
                f,
                "container {container:?} has no {key}: with the new limit the API server adds {key}={}",
                key.show(*value)
            ),
            Self::ResizePending { reason } => write!(f, "another resize is pending on it ({reason})"),
        }
    }
}
