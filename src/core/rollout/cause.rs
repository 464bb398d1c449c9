//! Why a run failed or was undone. Recorded with the denial, so every variant carries its evidence.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::policy::duration_text;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Cause {
    /// The node can never hold it: 403 `NodeCapacity`, or the kubelet's condition.
    Infeasible { pod: Box<str>, message: String },
    /// Deferred for longer than `--deferred-timeout`.
    DeferredTooLong {
        pod: Box<str>,
        message: String,
        #[serde(with = "duration_text")]
        waited: Duration,
    },
    /// The kubelet tried and failed, such as a memory limit below what is in use.
    ResizeFailed { pod: Box<str>, message: String },
    /// The API server refused the patch.
    Refused { pod: Box<str>, message: String },
    /// Not at target in time.
    ResizeTimeout {
        pod: Box<str>,
        state: String,
        #[serde(with = "duration_text")]
        waited: Duration,
    },
    /// The patch could not be sent, or was never answered, for too long: nothing is known about the change itself.
    NotSent {
        pod: Box<str>,
        #[serde(with = "duration_text")]
        waited: Duration,
    },
    /// The runtime settled on other values than the kubelet granted.
    Diverged { pod: Box<str>, message: String },
    /// At target, but not ready in time.
    NotReady {
        pod: Box<str>,
        #[serde(with = "duration_text")]
        waited: Duration,
    },
    /// A restart, crash or out-of-memory kill that the resize does not explain.
    Unhealthy { pod: Box<str>, container: String, message: String },
    /// No pod is left that the run may resize.
    NothingLeft,
    /// The workload was deleted, or deleted and made again under its name.
    WorkloadGone { message: String },
    /// Somebody ran `rollback`.
    Asked { by: String },
}

impl Cause {
    /// Whether the revision goes to the deny-list: only when the change itself was found wrong.
    pub fn denies(&self) -> bool {
        match self {
            Self::Infeasible { .. }
            | Self::DeferredTooLong { .. }
            | Self::ResizeFailed { .. }
            | Self::Refused { .. }
            | Self::ResizeTimeout { .. }
            | Self::Diverged { .. }
            | Self::NotReady { .. }
            | Self::Unhealthy { .. } => true,
            Self::NotSent { .. } | Self::NothingLeft | Self::WorkloadGone { .. } | Self::Asked { .. } => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long = |d: &Duration| humantime::format_duration(Duration::from_secs(d.as_secs())).to_string();
        match self {
            Self::Infeasible { pod, message } => write!(f, "pod {pod}: Infeasible: {message}"),
            Self::DeferredTooLong { pod, message, waited } => {
                write!(f, "pod {pod}: still Deferred after {}: {message}", long(waited))
            }
            Self::ResizeFailed { pod, message } => write!(f, "pod {pod}: the resize failed: {message}"),
            Self::Refused { pod, message } => write!(f, "pod {pod}: the API server refused the resize: {message}"),
            Self::ResizeTimeout { pod, state, waited } => {
                write!(f, "pod {pod}: not at target after {}, still {state}", long(waited))
            }
            Self::NotSent { pod, waited } => write!(f, "pod {pod}: the patch did not get through in {}", long(waited)),
            Self::Diverged { pod, message } => write!(f, "pod {pod}: the node settled on other values: {message}"),
            Self::NotReady { pod, waited } => write!(f, "pod {pod}: at target but not ready after {}", long(waited)),
            Self::Unhealthy { pod, container, message } => write!(f, "pod {pod}, container {container}: {message}"),
            Self::NothingLeft => write!(f, "no pod is left that this run may resize"),
            Self::WorkloadGone { message } => write!(f, "{message}"),
            Self::Asked { by } => write!(f, "rollback asked by {by}"),
        }
    }
}
