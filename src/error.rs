//! The error a command ends with: what it means for the exit code, the cause, and what to do next. The only place that
//! knows both a cause and advice.

use std::fmt::Write as _;

use crate::cluster::ClusterError;
use crate::cluster::connect::ConnectError;
use crate::cluster::explain::Failure;
use crate::core::exit::Exit;
use crate::engine::{EngineError, Failed, HoldError};
use crate::source::SourceError;
use crate::store::StoreError;

/// Printed as `error: …`, then the causes, then `hint: …` lines.
#[derive(Debug)]
pub struct CommandError {
    pub exit: Exit,
    pub error: anyhow::Error,
    pub hints: Vec<String>,
}

pub type CommandResult<T = Exit> = Result<T, CommandError>;

impl CommandError {
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hints: Vec::new() }
    }

    /// A sentence of our own.
    pub fn say(exit: Exit, sentence: impl Into<String>) -> Self {
        Self::new(exit, anyhow::anyhow!("{}", sentence.into()))
    }

    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::say(Exit::Usage, sentence)
    }

    pub fn refused(sentence: impl Into<String>) -> Self {
        Self::say(Exit::RefusedBefore, sentence)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The text for stderr: no cause twice, nothing that could move a cursor.
    pub fn render(&self) -> String {
        let mut text = String::from("error: ");
        let mut said = String::new();
        for (at, cause) in self.error.chain().enumerate() {
            let cause = cause.to_string();
            // A source that the sentence above already quotes adds nothing.
            if at > 0 && said.contains(&cause) {
                continue;
            }
            let separator = if at == 0 { "" } else { ": " };
            let _ = write!(text, "{separator}{}", safe(&cause));
            said.push_str(&cause);
        }
        text.push('\n');
        for hint in &self.hints {
            let _ = writeln!(text, "hint: {}", safe(hint));
        }
        text
    }
}

/// Line breaks of our own snippets stay; every other control character is shown, not obeyed.
fn safe(text: &str) -> String {
    text.split('\n').map(|line| crate::render::text::clean(line)).collect::<Vec<_>>().join("\n")
}

const CHECK: &str = "`kubectl kapr check` names each missing right and prints the YAML that grants it";

impl From<ClusterError> for CommandError {
    fn from(error: ClusterError) -> Self {
        let forbidden = matches!(error, ClusterError::Forbidden { .. });
        let exit = if forbidden { Exit::RefusedBefore } else { Exit::Unexpected };
        let made = Self::new(exit, error);
        if forbidden { made.hint(CHECK) } else { made }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Forbidden { .. } => Self::new(Exit::RefusedBefore, error).hint(CHECK),
            StoreError::Unreadable { .. } => Self::new(Exit::Unexpected, error)
                .hint("use the version of kubectl-kapr that wrote it, or remove that ConfigMap to forget the runs of this workload"),
            StoreError::Conflict { .. } | StoreError::Unknown { .. } | StoreError::TooLarge { .. } => {
                Self::new(Exit::Unexpected, error)
            }
        }
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Cluster(error) => error.into(),
            EngineError::Store(error) => error.into(),
        }
    }
}

impl From<HoldError> for CommandError {
    fn from(error: HoldError) -> Self {
        match error {
            HoldError::Held { .. } => Self::new(Exit::HeldByAnother, error)
                .hint("follow it with `kubectl kapr status -w`, or take over with --supersede"),
            HoldError::Store(error) => error.into(),
        }
    }
}

impl From<Failed<Self>> for CommandError {
    fn from(failed: Failed<Self>) -> Self {
        match failed {
            Failed::Hold(error) => error.into(),
            Failed::Declined(error) => error,
            Failed::Engine(error) => error.into(),
            Failed::Overtaken => Self::say(Exit::HeldByAnother, "another operator wrote to the record just now")
                .hint("`kubectl kapr status` shows who, and where the run stands"),
            Failed::TimedOut => Self::say(Exit::TimedOut, "--timeout passed while another operator held the workload"),
            Failed::Interrupted { signal } => {
                let exit = if signal == 2 { Exit::Interrupted } else { Exit::Terminated };
                Self::say(exit, "stopped before anything was changed")
            }
            Failed::NoRun => Self::refused("the record holds no run"),
        }
    }
}

impl From<ConnectError> for CommandError {
    fn from(error: ConnectError) -> Self {
        Self::new(Exit::Unexpected, error)
    }
}

impl From<Failure> for CommandError {
    fn from(error: Failure) -> Self {
        Self::new(Exit::Unexpected, error)
    }
}

impl From<SourceError> for CommandError {
    fn from(error: SourceError) -> Self {
        Self::new(Exit::Usage, error)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Unexpected, error)
    }
}
