//! Why nothing is being done: each way of waiting, since when, and what would end it.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// What a run waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingOn {
    #[serde(flatten)]
    pub reason: WaitReason,
    pub since: Timestamp,
    /// When the wait ends by itself, one way or the other.
    pub until: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum WaitReason {
    /// Pods are being resized; `pod` is the one that is on its way the longest.
    Resizing { pods: usize, pod: Box<str>, state: &'static str, message: String },
    /// The kubelet has put the resize off until there is room on the node.
    Deferred { pods: usize, pod: Box<str>, message: String },
    /// At target; not ready, or not for `--min-ready` yet.
    Readiness { pods: usize, pod: Box<str> },
    /// The pause after a step.
    Pause,
    /// A pod restarts when it is resized, and no more may be away at the same time.
    Unavailable { max_unavailable: usize },
    /// A `PodDisruptionBudget` allows no pod to be away.
    Budget { name: String },
    /// The workload has no pod at the moment that the run may resize.
    NoPods,
    /// Pods are on their way back to their baselines.
    Restoring { pods: usize, pod: Box<str>, state: &'static str, message: String },
    /// The API server does not answer.
    Cluster { message: String },
    /// Requests that were sent have not been answered yet.
    Answers { pods: usize },
}

impl WaitReason {
    /// What would end the wait, as the rest of the sentence "… until".
    pub fn ends_when(&self) -> &'static str {
        match self {
            Self::Resizing { .. } => "pod status shows the new values, or --resize-timeout ends it",
            Self::Deferred { .. } => "the node has room, or --deferred-timeout ends it",
            Self::Readiness { .. } => "every pod of the step was ready for --min-ready, or --resize-timeout ends it",
            Self::Pause => "the pause is over",
            Self::Unavailable { .. } => "a restarting pod is ready again",
            Self::Budget { .. } => "the PodDisruptionBudget allows a disruption",
            Self::NoPods => "there is an eligible pod, or --resize-timeout ends it",
            Self::Restoring { .. } => "pod status shows the old values, or --resize-timeout ends it",
            Self::Cluster { .. } => "the API server answers again",
            Self::Answers { .. } => "the API server has answered",
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resizing { pods, pod, state, message } => {
                write!(f, "{} to be at target: {pod} is {state}{}", count(*pods), tail(message))
            }
            Self::Deferred { pods, pod, message } => {
                write!(f, "room on a node for {}: {pod} is Deferred{}", count(*pods), tail(message))
            }
            Self::Readiness { pods, pod } => write!(f, "{} to be ready, {pod} among them", count(*pods)),
            Self::Pause => write!(f, "the pause after the step"),
            Self::Unavailable { max_unavailable } => {
                write!(f, "restarting pods to come back (at most {max_unavailable} at a time)")
            }
            Self::Budget { name } => write!(f, "PodDisruptionBudget {name:?}, which allows no disruption now"),
            Self::NoPods => write!(f, "an eligible pod: the workload has none at the moment"),
            Self::Restoring { pods, pod, state, message } => {
                write!(f, "{} to be back at the old values: {pod} is {state}{}", count(*pods), tail(message))
            }
            Self::Cluster { message } => write!(f, "the API server{}", tail(message)),
            Self::Answers { pods } => write!(f, "the answer to the patch of {}", count(*pods)),
        }
    }
}

fn count(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

fn tail(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(" ({message})") }
}
