//! How a run ends, or where it stops: the result that every reader gets last.

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::event::PodState;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::workload::WorkloadRef;

/// How a finished run ended. Recorded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Ending {
    /// Every step passed; nothing keeps the values but the pods themselves.
    ValidatedWithoutPersistence,
    /// Every pod with an intent was seen back at its baseline (or is gone, or is somebody else's now).
    RolledBack { cause: Cause },
    /// At least one pod could not be brought back.
    RollbackIncomplete { cause: Cause },
    /// `abort`: stopped for good, pods left as they are.
    Aborted { by: String },
    /// A run of another revision took over.
    Superseded { by_run: u32 },
}

/// Why a process stops although the run is not finished. It can be resumed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Stop {
    /// SIGINT, SIGTERM or SIGHUP.
    Interrupted { signal: i32 },
    /// `--timeout`.
    TimedOut,
    /// Another operator asked to take over with `--supersede`.
    SupersedeWished { by: String },
    /// Another process holds the workload now.
    LostLock { holder: String },
    /// A right was lost, or the cluster refuses to be written to.
    Refused { message: String },
}

/// Where a run stands when its process ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Conclusion {
    Ended(Ending),
    Stopped(Stop),
}

/// The last event of a run, and the last line of `-o json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    #[serde(flatten)]
    pub conclusion: Conclusion,
    /// The process's exit code (docs/exit-codes.md).
    pub exit_code: u8,
    pub workload: WorkloadRef,
    pub run: u32,
    pub revision: Revision,
    pub pods: Vec<PodResult>,
    /// Values that pods born from the template will have instead, per container; empty where the template agrees.
    pub born_with: ContainerResources,
    /// Where to go from here: commands, in order of likelihood.
    pub next: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodResult {
    pub name: Box<str>,
    pub uid: Box<str>,
    pub state: PodState,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
