//! The port to Kubernetes and what stands behind it. `kube::Error` does not leave this folder.
//! May not: decide anything about a rollout.

use std::future::Future;

use futures::stream::BoxStream;

use crate::core::pod::{PodUid, PodView};
use crate::core::rollout::effect::Resize;
use crate::core::rollout::observation::{Budget, ResizeAnswer};
use crate::core::workload::{Rival, WorkloadRef, WorkloadView};

mod plugin;

pub mod connect;
pub mod environment;
pub mod explain;
pub mod kube_cluster;
pub mod kubeconfig;
pub mod link;
pub mod names;
pub mod pod_watch;
pub mod proxy;
pub mod rights;
pub mod target;
pub mod translate;
pub mod version;
pub mod warnings;
pub mod workloads;

pub use kube_cluster::KubeCluster;

/// What the engine needs of a cluster. A refusal is an answer; an error means that nobody knows.
pub trait Cluster {
    /// The workload as it is; `None` when there is none of that name.
    fn workload(
        &self,
        reference: &WorkloadRef,
    ) -> impl Future<Output = Result<Option<WorkloadView>, ClusterError>> + Send;

    /// Other controllers that act on the same resources. What may not be read is not there.
    fn rivals(&self, reference: &WorkloadRef) -> impl Future<Output = Vec<Rival>> + Send;

    /// Every pod that the workload's selector matches, listed in pages.
    fn pods(&self, workload: &WorkloadView) -> impl Future<Output = Result<Vec<PodView>, ClusterError>> + Send;

    /// The same pods, from now on. Never ends by itself, except with `Refused`.
    fn watch(&self, workload: &WorkloadView) -> BoxStream<'static, PodChange>;

    /// One pod, read from the server (never from a cache).
    fn pod(&self, namespace: &str, name: &str) -> impl Future<Output = Result<Option<PodView>, ClusterError>> + Send;

    /// Patches `pods/resize` with the changed keys and the UID, once: no retry here.
    fn resize(&self, namespace: &str, resize: &Resize, mode: WriteMode) -> impl Future<Output = Resized> + Send;

    /// What the `PodDisruptionBudget`s of these pods allow at the moment.
    fn budget(&self, workload: &WorkloadView) -> impl Future<Output = Result<Budget, ClusterError>> + Send;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteMode {
    Real,
    /// `dryRun=All`: admission decides, nothing is stored.
    DryRun,
}

/// The answer to a resize, with the pod as the server returned it.
#[derive(Debug)]
pub struct Resized {
    pub answer: ResizeAnswer,
    pub pod: Option<PodView>,
}

/// What the pod watch has to tell.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every change is the large one: a box would be one allocation each"
)]
pub enum PodChange {
    /// A complete list: pods that are not in it are gone.
    Listed(Vec<PodView>),
    Seen(PodView),
    Deleted(PodUid),
    /// The API server does not answer; the watch goes on trying.
    Blind(String),
    /// The watch is connected (again).
    Connected,
    /// The right to read pods is not there (any more): final.
    Refused(String),
}

/// A read that has no answer, in one sentence without the client's repetitions.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("{operation}: {reason}")]
    Unknown { operation: String, reason: String },
    /// 403: trying again does not help.
    #[error("{operation}: {reason}")]
    Forbidden { operation: String, reason: String },
}

impl ClusterError {
    /// Names what was tried; the reason is the server's own sentence where it gave one.
    pub fn of(operation: impl Into<String>, error: &::kube::Error) -> Self {
        let (operation, reason) = (operation.into(), explain::explain(error));
        match error {
            ::kube::Error::Api(status) if status.is_forbidden() => Self::Forbidden { operation, reason },
            _ => Self::Unknown { operation, reason },
        }
    }
}
