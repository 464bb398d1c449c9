//! Exit codes: one enum, from which docs/exit-codes.md is generated. The JSON result repeats the number.

use serde::Serialize;

/// How a process ends, for scripts. The number is the contract.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Unexpected = 1,
    Usage = 2,
    RolledBack = 3,
    RollbackIncomplete = 4,
    TimedOut = 5,
    HeldByAnother = 6,
    RefusedBefore = 7,
    DoneExcept = 8,
    Paused = 9,
    ChangesPending = 10,
    Inconclusive = 11,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    pub const ALL: [Self; 14] = [
        Self::Done,
        Self::Unexpected,
        Self::Usage,
        Self::RolledBack,
        Self::RollbackIncomplete,
        Self::TimedOut,
        Self::HeldByAnother,
        Self::RefusedBefore,
        Self::DoneExcept,
        Self::Paused,
        Self::ChangesPending,
        Self::Inconclusive,
        Self::Interrupted,
        Self::Terminated,
    ];

    pub const fn code(self) -> u8 {
        self as u8
    }

    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done, or nothing to do",
            Self::Unexpected => "unexpected error",
            Self::Usage => "wrong usage, or a question that nobody could answer (no terminal and no --yes)",
            Self::RolledBack => "failed, and every pod was seen back at its old values",
            Self::RollbackIncomplete => "failed, and the rollback is incomplete: the named pods need you",
            Self::TimedOut => "--timeout has passed; the run can be resumed",
            Self::HeldByAnother => "another operator holds the workload",
            Self::RefusedBefore => "refused before anything was changed",
            Self::DoneExcept => "done, except for the named pods",
            Self::Paused => "paused on purpose; the run can be resumed",
            Self::ChangesPending => "plan --exit-code: there are changes to make",
            Self::Inconclusive => "the analysis was inconclusive and the run is held",
            Self::Interrupted => "stopped by SIGINT; the run can be resumed",
            Self::Terminated => "stopped by SIGTERM or SIGHUP; the run can be resumed",
        }
    }

    /// What is true of the cluster then.
    pub const fn cluster(self) -> &'static str {
        match self {
            Self::Done => "at target",
            Self::Unexpected => "as the message says",
            Self::Usage | Self::ChangesPending => "not changed by this command",
            Self::HeldByAnother => "not changed by this command; where a working run was taken over, as recorded",
            Self::RefusedBefore => "not changed by this command; where a right was lost during a run, as recorded",
            Self::RolledBack => "as before the run",
            Self::RollbackIncomplete => "mixed: see the named pods",
            Self::TimedOut | Self::Inconclusive | Self::Interrupted | Self::Terminated => "mixed and safe, as recorded",
            Self::DoneExcept => "at target, except for the named pods",
            Self::Paused => "the steps so far are at target",
        }
    }
}

impl Serialize for Exit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

/// The text of docs/exit-codes.md.
pub fn reference() -> String {
    let mut text = String::from(
        "# Exit codes\n\nGenerated from `src/core/exit.rs`; a test keeps it fresh. `-o json` repeats the number as `exitCode`, \
         because `kubectl` on Windows\ndoes not pass it on.\n\n| code | meaning | the cluster is then |\n|---|---|---|\n",
    );
    let rows = Exit::ALL.map(|exit| format!("| {} | {} | {} |\n", exit.code(), exit.meaning(), exit.cluster()));
    text.push_str(&rows.concat());
    text
}
