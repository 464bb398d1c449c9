//! What the core may know of a pod. Everything optional in a manifest is settled once, in `cluster/translate.rs`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::resources::{Amounts, ContainerResources, Key, Resources};

/// The UID of a pod: what is followed; a name may be used again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodUid(pub std::sync::Arc<str>);

impl PodUid {
    pub fn new(uid: &str) -> Self {
        Self(uid.into())
    }
}

impl std::fmt::Display for PodUid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// A pod as it was last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodView {
    pub name: Box<str>,
    pub uid: PodUid,
    /// Orders two views of the same pod when both are numbers (Kubernetes >= 1.35 promises that they are).
    pub resource_version: Box<str>,
    /// `metadata.generation`: raised by every change of the spec.
    pub generation: i64,
    /// `status.observedGeneration`; `None` before 1.34, where the kubelet does not report it.
    pub observed_generation: Option<i64>,
    pub node: Option<Box<str>>,
    pub owner_uid: Option<Box<str>>,
    /// When the API server made it; for people only.
    pub created_at: Option<Timestamp>,
    /// `pod-template-hash` or `controller-revision-hash`.
    pub template_hash: Option<Box<str>>,
    pub phase: PodPhase,
    pub terminating: bool,
    pub qos: QosClass,
    /// Why this pod as a whole cannot be resized, whatever the target.
    pub oddity: Option<PodOddity>,
    /// The `Ready` condition: since when, if it is true.
    pub ready_since: Option<Timestamp>,
    /// The value of the condition `PodResizePending`, if it is there.
    pub resize_pending: Option<ResizeCondition>,
    /// The value of the condition `PodResizeInProgress`, if it is there.
    pub resize_in_progress: Option<ResizeCondition>,
    /// Regular containers, sidecars and ordinary init containers by name.
    pub containers: BTreeMap<Box<str>, ContainerView>,
}

/// What makes a whole pod unfit for in-place resize (validation of the resize subresource).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodOddity {
    /// A static pod's mirror: `static pods cannot be resized`.
    Mirror,
    /// `windows pods cannot be resized`.
    Windows,
    /// `spec.resources` is set: a container's values interact with the pod's own.
    PodLevelResources,
}

/// A condition of type `PodResizePending` or `PodResizeInProgress`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResizeCondition {
    /// `Deferred`, `Infeasible`, `Error`, empty, or something newer than this program.
    pub reason: Box<str>,
    /// The kubelet's words, for people only.
    pub message: Box<str>,
    pub observed_generation: Option<i64>,
    pub since: Option<Timestamp>,
}

/// Where a container stands in the pod: ordinary init containers run before the others and are never a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerRole {
    Regular,
    /// An init container with `restartPolicy: Always`.
    Sidecar,
    Init,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerView {
    pub role: ContainerRole,
    /// Its place among the containers of its kind in the spec: a patch has to name containers in the pod's own order.
    pub position: usize,
    /// `spec…resources`: what was asked for.
    pub desired: Resources,
    /// `status…allocatedResources`: requests the kubelet has granted.
    pub allocated: Option<Amounts>,
    /// `status…resources`: what the runtime really has (for a container that does not run: what was granted).
    pub actual: Option<Resources>,
    /// `resizePolicy` says `RestartContainer` for this resource.
    pub restarts_on: RestartsOn,
    pub restart_count: u32,
    pub state: ContainerState,
    /// The way the container ended before the present one: reason and exit code.
    pub last_end: Option<ContainerEnd>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RestartsOn {
    pub cpu: bool,
    pub memory: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ContainerState {
    Running {
        since: Option<Timestamp>,
        ready: bool,
    },
    /// With the reason, such as `CrashLoopBackOff`.
    Waiting {
        reason: Box<str>,
    },
    Terminated(ContainerEnd),
    /// No status yet.
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEnd {
    pub reason: Box<str>,
    pub exit_code: i32,
}

impl PodView {
    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// Requests and limits that the spec asks for, of the named containers; a missing container is left out.
    pub fn desired_of<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> ContainerResources {
        names.into_iter().filter_map(|name| Some((name.clone(), self.containers.get(name.as_str())?.desired))).collect()
    }

    /// Whether this view is older than `other`, a view of the same pod: a lower generation, or the same one with a
    /// lower numeric resourceVersion.
    pub fn is_older_than(&self, other: &Self) -> bool {
        if self.generation != other.generation {
            return self.generation < other.generation;
        }
        match (self.resource_version.parse::<u64>(), other.resource_version.parse::<u64>()) {
            (Ok(mine), Ok(theirs)) => mine < theirs,
            _ => false,
        }
    }
}

impl ContainerView {
    /// Whether changing these keys restarts the container: one restart for the whole change (KEP-1287).
    pub fn restarts_for(&self, changes: &Resources) -> bool {
        changes
            .present()
            .any(|(key, _): (Key, u64)| if key.is_cpu() { self.restarts_on.cpu } else { self.restarts_on.memory })
    }
}
