//! What the machine is told: the time, what was seen, what was answered, what was asked.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::core::pod::{PodUid, PodView};
use crate::core::workload::WorkloadView;

/// Everything one step of the machine may know.
#[derive(Debug)]
pub struct Observation<'a> {
    pub now: Timestamp,
    /// The pods that the workload owns, each as it was last seen.
    pub pods: &'a BTreeMap<PodUid, PodView>,
    pub workload: &'a WorkloadSighting,
    /// Answers to resizes since the last step. The engine has put the answered pod into `pods`.
    pub answers: Vec<(PodUid, ResizeAnswer)>,
    /// The API server does not answer: since when, and its last words. While it lasts no time runs out.
    pub blind: Option<(Timestamp, String)>,
    pub budget: Budget,
    pub command: Option<Command>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadSighting {
    Present(Box<WorkloadView>),
    /// Not there, being deleted, or another object under the same name; in words.
    Gone(String),
}

/// What the `PodDisruptionBudget`s of these pods allow. Only restarts ask for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Budget {
    /// Not looked at yet, or not since a pod was sent away.
    Unknown,
    /// There is none, or it may not be read (`kubectl kapr check` says so).
    Unlimited,
    /// The tightest one allows this many pods to be away beyond those that are.
    Limited { name: String, allowed: usize },
}

/// What somebody outside asks of a running process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// A signal: start nothing new, let answers come in, stop.
    Interrupt { signal: i32 },
    /// `--timeout` has passed.
    TimedOut,
    /// Another operator's wish is in the record.
    Supersede { by: String },
    /// `kubectl kapr rollback`.
    RollBack { by: String },
    /// `kubectl kapr abort`.
    Abort { by: String },
}

/// The API server's answer to one resize. A refusal is an answer; only `Lost` means that nobody knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResizeAnswer {
    /// 200. Proves that the spec was written, nothing more.
    Accepted,
    /// 403 with cause `NodeCapacity` (Kubernetes >= 1.36): the same as the kubelet's Infeasible.
    NodeCapacity { message: String },
    /// 403 of an admission plugin, or 422: the object or the policy of the cluster does not allow it.
    Refused { message: String },
    /// 403 because the operator may not patch `pods/resize`.
    Forbidden { message: String },
    /// 404, or 422 because the UID is another one.
    Gone,
    /// 429, 500, 503, 504, a conflict: not done, try again.
    Busy { message: String },
    /// The connection broke or timed out: it may have been done. The pod was read again before this was said.
    Lost { message: String },
}
