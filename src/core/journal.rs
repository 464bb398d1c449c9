//! The record of a workload: append-only entries, and the state that is their fold. Resuming is folding.
//!
//! Entries are written before what they announce is done, so a process that dies at any moment leaves a record that
//! covers every pod it may have touched. Reading and writing are the store's business (`store/`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::health::Restarts;
use super::pod::PodUid;
use super::policy::Policy;
use super::resources::ContainerResources;
use super::revision::Revision;
use super::rollout::cause::Cause;
use super::rollout::outcome::{Ending, Stop};

/// Written into every append. A reader that meets a higher one refuses to go on rather than guess.
pub const SCHEMA: u32 = 1;

/// Finished runs that stay in the record.
pub const KEPT_RUNS: usize = 10;

/// One write to the record: what one process said at one moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Append {
    pub schema: u32,
    pub at: Timestamp,
    /// `user@host` of the writer.
    pub by: String,
    pub entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    RunStarted(Box<RunStarted>),
    /// Pods taken by a step, with what they had. Always written before the first of them is patched.
    Taken {
        step: usize,
        wanted: usize,
        /// Distinct baselines; `pods` point into it.
        blocks: Vec<ContainerResources>,
        pods: Vec<TakenPod>,
    },
    /// Every pod of the step was at target and ready.
    AtTarget {
        step: usize,
        pods: usize,
    },
    Passed {
        step: usize,
    },
    /// Pods the run will not touch again.
    LeftAlone {
        why: LeftAlone,
        pods: Vec<PodUid>,
    },
    RollbackStarted {
        cause: Cause,
    },
    /// Another process goes on with the run. Takes wishes out that were meant for the one before.
    Resumed,
    /// The process stopped; the run did not.
    Stopped(Stop),
    Ended {
        ending: Ending,
        not_restored: Vec<Box<str>>,
    },
    Denied {
        revision: Revision,
        cause: Cause,
    },
    Allowed {
        revision: Revision,
    },
    /// Another operator wants the workload for this revision.
    Wish {
        revision: Revision,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    pub run: u32,
    pub revision: Revision,
    pub workload_uid: String,
    /// The recommendation's values.
    pub target: ContainerResources,
    pub policy: Policy,
    pub eligible: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the recommendation came from: a file name, `--set`, a URL.
    pub origin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<u32>,
    /// Version of this program.
    pub program: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakenPod {
    pub uid: PodUid,
    pub name: Box<str>,
    /// Index into `blocks`: requests and limits of the touched containers before this run.
    pub baseline: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub restarts: Restarts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LeftAlone {
    /// Somebody else changed its resources.
    Foreign,
    /// Stayed Deferred, and the policy says skip.
    Skipped,
}

/// A pod the run has or had an intent for.
#[derive(Clone, PartialEq, Debug)]
pub struct Intent {
    pub name: Box<str>,
    /// Shared: thousands of pods have few distinct baselines.
    pub baseline: Arc<ContainerResources>,
    pub restarts: Restarts,
    pub fate: Fate,
}

/// What the run means to do with a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Brought to target by this step.
    Taken {
        step: usize,
    },
    /// Touched by a superseded run and not (yet) taken by this one: goes back to its baseline.
    Released,
    Skipped,
    Foreign,
}

/// A run as the record tells it.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    pub started: RunStarted,
    pub at: Timestamp,
    pub by: String,
    pub intents: BTreeMap<PodUid, Intent>,
    /// Targets of the runs that this one superseded, whose values its pods may still hold.
    pub former: Vec<ContainerResources>,
    pub stage: Stage,
    pub steps: Vec<StepRecord>,
    /// Why the last process stopped, if it said so.
    pub stopped: Option<Stop>,
    pub last_entry_at: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Stage {
    /// The next thing to do is this step.
    Stepping {
        step: usize,
    },
    Pausing {
        step: usize,
        since: Timestamp,
    },
    RollingBack {
        cause: Cause,
        since: Timestamp,
    },
    Ended {
        ending: Ending,
        at: Timestamp,
        not_restored: Vec<Box<str>>,
    },
}

/// What is kept of a step for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    pub step: usize,
    pub started: Timestamp,
    pub pods: usize,
    pub at_target: Option<Timestamp>,
    pub passed: Option<Timestamp>,
}

/// A finished run, folded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    pub started: RunStarted,
    pub at: Timestamp,
    pub by: String,
    pub ended: Timestamp,
    pub ending: Ending,
    pub not_restored: Vec<Box<str>>,
    pub steps: Vec<StepRecord>,
    /// Distinct baselines and how many pods had each.
    pub before: Vec<(ContainerResources, usize)>,
}

/// A denied revision with its evidence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    pub run: u32,
    pub at: Timestamp,
    pub by: String,
    pub cause: Cause,
    pub target: ContainerResources,
}

/// What stays of a record when its finished runs are folded: written as one value beside the entries.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Folded {
    pub runs: Vec<RunSummary>,
    pub denied: BTreeMap<String, Denial>,
}

impl Folded {
    fn trim(&mut self) {
        let surplus = self.runs.len().saturating_sub(KEPT_RUNS);
        self.runs.drain(..surplus);
    }
}

/// The state of a workload's record: the fold of its entries.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Record {
    pub folded: Folded,
    /// The last run, finished or not. Whole until the next one starts.
    pub run: Option<Run>,
    pub wish: Option<(Revision, String)>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the record was written by a newer kubectl-kapr (schema {0}, this one reads {SCHEMA}): use that version")]
    NewerSchema(u32),
    #[error("the record does not fit together: {entry} came {state}")]
    Illegal { entry: &'static str, state: String },
}

impl Record {
    /// Folds appends in the order they were written.
    pub fn fold(folded: Folded, appends: impl IntoIterator<Item = Append>) -> Result<Self, JournalError> {
        appends.into_iter().try_fold(Self { folded, run: None, wish: None }, Self::append)
    }

    /// The next state after one more write.
    pub fn append(mut self, append: Append) -> Result<Self, JournalError> {
        if append.schema > SCHEMA {
            return Err(JournalError::NewerSchema(append.schema));
        }
        for entry in append.entries {
            self = self.next(entry, append.at, &append.by)?;
        }
        if let Some(run) = &mut self.run {
            run.last_entry_at = append.at;
        }
        Ok(self)
    }

    /// The unfinished run, if there is one.
    pub fn active(&self) -> Option<&Run> {
        self.run.as_ref().filter(|run| !run.is_ended())
    }

    pub fn next_run_number(&self) -> u32 {
        let last = self.folded.runs.iter().map(|run| run.started.run).max().unwrap_or(0);
        self.run.as_ref().map_or(last, |run| run.started.run.max(last)) + 1
    }

    pub fn denial(&self, revision: &Revision) -> Option<&Denial> {
        self.folded.denied.get(revision.full())
    }

    /// What is kept when a run starts that does not build on the one before: summaries and the deny-list.
    pub fn folded_up(&self, next_run: u32, at: Timestamp) -> Folded {
        let mut folded = self.folded.clone();
        folded.runs.extend(self.run.as_ref().map(|run| run.summary(next_run, at)));
        folded.trim();
        folded
    }

    fn next(mut self, entry: Entry, at: Timestamp, by: &str) -> Result<Self, JournalError> {
        match entry {
            Entry::RunStarted(started) => self.start(*started, at, by),
            Entry::Denied { revision, cause } => {
                let (run, target) = self
                    .run
                    .as_ref()
                    .map_or((0, ContainerResources::new()), |run| (run.started.run, run.started.target.clone()));
                let denial = Denial { run, at, by: by.to_owned(), cause, target };
                self.folded.denied.insert(revision.full().to_owned(), denial);
                Ok(self)
            }
            Entry::Allowed { revision } => {
                self.folded.denied.remove(revision.full());
                Ok(self)
            }
            Entry::Wish { revision } => {
                self.wish = Some((revision, by.to_owned()));
                Ok(self)
            }
            entry @ (Entry::Taken { .. }
            | Entry::AtTarget { .. }
            | Entry::Passed { .. }
            | Entry::LeftAlone { .. }
            | Entry::RollbackStarted { .. }
            | Entry::Resumed
            | Entry::Stopped(_)
            | Entry::Ended { .. }) => {
                let Some(run) = &mut self.run else {
                    return Err(JournalError::Illegal { entry: name(&entry), state: "before any run".to_owned() });
                };
                if matches!(entry, Entry::Resumed | Entry::Stopped(_) | Entry::Ended { .. }) {
                    self.wish = None;
                }
                run.apply(entry, at)?;
                Ok(self)
            }
        }
    }

    fn start(mut self, started: RunStarted, at: Timestamp, by: &str) -> Result<Self, JournalError> {
        let mut intents = BTreeMap::new();
        let mut former = Vec::new();
        if let Some(old) = self.run.take() {
            if !old.is_ended() && started.supersedes != Some(old.started.run) {
                let state = format!("while run {} was not finished", old.started.run);
                return Err(JournalError::Illegal { entry: "runStarted", state });
            }
            if started.supersedes == Some(old.started.run) {
                former.clone_from(&old.former);
                former.push(old.started.target.clone());
                intents.clone_from(&old.intents);
                for intent in intents.values_mut().filter(|intent| intent.fate != Fate::Foreign) {
                    intent.fate = Fate::Released;
                }
            }
            self.folded.runs.push(old.summary(started.run, at));
            self.folded.trim();
        }
        self.wish = None;
        self.run = Some(Run {
            started,
            at,
            by: by.to_owned(),
            intents,
            former,
            stage: Stage::Stepping { step: 0 },
            steps: Vec::new(),
            stopped: None,
            last_entry_at: at,
        });
        Ok(self)
    }
}

impl Run {
    pub const fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. })
    }

    /// Distinct baselines of the pods, most frequent first.
    pub fn baselines(&self) -> Vec<(ContainerResources, usize)> {
        let mut counts = BTreeMap::<&ContainerResources, usize>::new();
        for intent in self.intents.values() {
            *counts.entry(&*intent.baseline).or_default() += 1;
        }
        let mut before = counts.into_iter().map(|(block, n)| (block.clone(), n)).collect::<Vec<_>>();
        before.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        before
    }

    /// The run as history keeps it. An unfinished one ends as superseded by the run that starts now.
    pub fn summary(&self, by_run: u32, at: Timestamp) -> RunSummary {
        let (ending, ended, not_restored) = match &self.stage {
            Stage::Ended { ending, at, not_restored } => (ending.clone(), *at, not_restored.clone()),
            Stage::Stepping { .. } | Stage::Pausing { .. } | Stage::RollingBack { .. } => {
                (Ending::Superseded { by_run }, at, Vec::new())
            }
        };
        RunSummary {
            started: self.started.clone(),
            at: self.at,
            by: self.by.clone(),
            ended,
            ending,
            not_restored,
            steps: self.steps.clone(),
            before: self.baselines(),
        }
    }

    /// The next state of the run after one more entry. The machine in `rollout/` applies what it records to its own run
    /// in this way, so that a resumed run cannot differ from one that never stopped.
    pub fn apply(&mut self, entry: Entry, at: Timestamp) -> Result<(), JournalError> {
        let illegal = |entry: &Entry, run: u32| JournalError::Illegal {
            entry: name(entry),
            state: format!("in run {run} after it ended"),
        };
        // A finished run may be undone; nothing else may follow its end.
        if self.is_ended() && !matches!(entry, Entry::RollbackStarted { .. }) {
            return Err(illegal(&entry, self.started.run));
        }
        match entry {
            Entry::Taken { step, blocks, pods, .. } => self.take(step, &blocks, pods, at)?,
            Entry::AtTarget { step, pods } => {
                self.stage = Stage::Pausing { step, since: at };
                let record = self.step(step, at);
                (record.at_target, record.pods) = (Some(at), pods);
            }
            Entry::Passed { step } => {
                self.stage = Stage::Stepping { step: step + 1 };
                if let Some(record) = self.steps.iter_mut().find(|record| record.step == step) {
                    record.passed = Some(at);
                }
            }
            Entry::LeftAlone { why, pods } => {
                let pods = pods.into_iter().collect::<BTreeSet<_>>();
                for (_, intent) in self.intents.iter_mut().filter(|(uid, _)| pods.contains(*uid)) {
                    intent.fate = match why {
                        LeftAlone::Foreign => Fate::Foreign,
                        LeftAlone::Skipped => Fate::Skipped,
                    };
                }
            }
            Entry::RollbackStarted { cause } => self.stage = Stage::RollingBack { cause, since: at },
            Entry::Resumed => self.stopped = None,
            Entry::Stopped(stop) => self.stopped = Some(stop),
            Entry::Ended { ending, not_restored } => self.stage = Stage::Ended { ending, at, not_restored },
            entry @ (Entry::RunStarted(_) | Entry::Denied { .. } | Entry::Allowed { .. } | Entry::Wish { .. }) => {
                return Err(illegal(&entry, self.started.run));
            }
        }
        Ok(())
    }

    /// The record of a step; a step that takes no new pod has one too.
    fn step(&mut self, step: usize, started: Timestamp) -> &mut StepRecord {
        let at = self.steps.iter().position(|record| record.step == step).unwrap_or_else(|| {
            self.steps.push(StepRecord { step, started, pods: 0, at_target: None, passed: None });
            self.steps.len() - 1
        });
        &mut self.steps[at]
    }

    fn take(
        &mut self,
        step: usize,
        blocks: &[ContainerResources],
        pods: Vec<TakenPod>,
        at: Timestamp,
    ) -> Result<(), JournalError> {
        self.stopped = None;
        self.stage = Stage::Stepping { step };
        self.step(step, at).pods += pods.len();
        let blocks = blocks.iter().cloned().map(Arc::new).collect::<Vec<_>>();
        for pod in pods {
            let baseline = blocks.get(pod.baseline).cloned().ok_or_else(|| JournalError::Illegal {
                entry: "taken",
                state: format!("with pod {} pointing at a baseline that is not there", pod.name),
            })?;
            let intent = Intent { name: pod.name, baseline, restarts: pod.restarts, fate: Fate::Taken { step } };
            self.intents.insert(pod.uid, intent);
        }
        Ok(())
    }
}

fn name(entry: &Entry) -> &'static str {
    match entry {
        Entry::RunStarted(_) => "runStarted",
        Entry::Taken { .. } => "taken",
        Entry::AtTarget { .. } => "atTarget",
        Entry::Passed { .. } => "passed",
        Entry::LeftAlone { .. } => "leftAlone",
        Entry::RollbackStarted { .. } => "rollbackStarted",
        Entry::Resumed => "resumed",
        Entry::Stopped(_) => "stopped",
        Entry::Ended { .. } => "ended",
        Entry::Denied { .. } => "denied",
        Entry::Allowed { .. } => "allowed",
        Entry::Wish { .. } => "wish",
    }
}
