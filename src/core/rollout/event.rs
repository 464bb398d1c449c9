//! What happened, for people and programs: one stream that the live view, the plain lines and the JSON lines read.
//!
//! An event is complete in itself: a reader needs no access to the rollout. Texts that came from the cluster are carried
//! as they are; the reader makes them safe to print.

use jiff::Timestamp;
use serde::Serialize;

use super::cause::Cause;
use super::outcome::RunResult;
use super::waiting::WaitingOn;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::share::Share;
use crate::core::workload::WorkloadRef;

/// An event with the time it was noticed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamped {
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Event {
    /// A run begins or is taken up again.
    Started(Box<Started>),
    /// A step begins, or grew because pods went away.
    StepStarted {
        /// From 0.
        step: usize,
        share: Share,
        /// Pods that shall be at target at the end of this step.
        wanted: usize,
        /// Pods of the workload that this run may resize at this moment.
        eligible: usize,
        /// Names of the pods that are new in this step.
        pods: Vec<Box<str>>,
    },
    /// A pod of the run changed its state.
    Pod(PodEvent),
    /// Every pod of the step was seen at its target and ready; the pause begins.
    StepAtTarget {
        step: usize,
        pods: usize,
    },
    StepPassed {
        step: usize,
        share: Share,
        pods: usize,
    },
    /// The run failed or was asked to undo; every pod with an intent goes back to its baseline.
    RollbackStarted {
        cause: Cause,
        pods: usize,
    },
    /// What the run waits for now. Sent when it changes; `None` when it waits for nothing.
    Waiting {
        on: Option<WaitingOn>,
    },
    /// Something that is no failure yet and that a person should know.
    Notice {
        level: Level,
        message: String,
    },
    /// The run is over or stops here. The last event.
    Result(Box<RunResult>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Info,
    Warning,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    pub workload: WorkloadRef,
    pub run: u32,
    pub revision: Revision,
    /// The kubeconfig context, where there is one.
    pub context: Option<String>,
    pub operator: String,
    /// Taken up from the record of an earlier process.
    pub resumed: bool,
    /// The run that this one supersedes.
    pub supersedes: Option<u32>,
    pub steps: Vec<Share>,
    pub eligible: usize,
    /// Pods that are not eligible, with the sentence of the refusal.
    pub refused: Vec<RefusedPod>,
    /// The recommendation.
    pub target: ContainerResources,
    /// What the template gives to new pods.
    pub template: ContainerResources,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedPod {
    pub name: Box<str>,
    /// A stable kebab-case code.
    pub code: &'static str,
    pub message: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodEvent {
    pub name: Box<str>,
    pub node: Option<Box<str>>,
    /// The step in which the pod was taken, from 0.
    pub step: usize,
    pub state: PodState,
    /// Why, in the kubelet's or the API server's words; empty where there is nothing to say.
    pub message: String,
    /// `true` while the pod is on its way back to its baseline.
    pub restoring: bool,
}

/// The state of a pod in a run as it is shown: the resize state, and what comes after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum PodState {
    /// Chosen, its intent recorded, not patched yet.
    Chosen,
    /// Patched; the kubelet has not said anything yet.
    Pending,
    InProgress,
    Deferred,
    Infeasible,
    Failed,
    /// At the wanted values, not ready (or not for long enough).
    Applied,
    /// At the wanted values and ready for long enough.
    Ready,
    Diverged,
    Gone,
    /// Somebody else changed its resources; it is left alone.
    Foreign,
    /// Left out because it stayed Deferred and the policy says skip.
    Skipped,
    /// Restarted or crashed beyond what the resize explains.
    Unhealthy,
    /// Seen back at its baseline.
    Restored,
    /// Could not be brought back.
    NotRestored,
}

impl PodState {
    /// Nothing more is expected of a pod that goes back to its baseline.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Restored | Self::NotRestored | Self::Gone | Self::Foreign)
    }
}
