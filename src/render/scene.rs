//! What a run looks like right now: events folded into what a person follows. How it is laid out is `scene_lines.rs`.
//!
//! Built for 10,000 pods: an event costs the logarithm of their number, a drawing only the rows that are shown.

use std::collections::{BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;

use super::look::{Class, Look, Tally};
use super::{text, wording};
use crate::core::rollout::cause::Cause;
use crate::core::rollout::event::{Event, Level, PodEvent, PodState, Started};
use crate::core::rollout::outcome::RunResult;
use crate::core::rollout::waiting::WaitingOn;
use crate::core::share::Share;

/// The state of a run as it is shown.
#[derive(Debug, Default)]
pub struct Scene {
    /// Somebody else drives the run.
    pub watching: bool,
    pub(super) head: Option<Head>,
    pub(super) steps: Vec<StepRow>,
    /// Eligible pods that no step has taken yet.
    pub(super) not_started: usize,
    /// In the order in which the run took them; a row keeps its number.
    pub(super) rows: Vec<Row>,
    by_name: HashMap<Box<str>, usize>,
    /// Rows by what is shown first: class, place, row.
    ranked: BTreeSet<(Class, usize, usize)>,
    /// Places that moving pods may take again, so that the rows of the others stay where they are.
    free_places: BTreeSet<usize>,
    next_place: usize,
    pub(super) tally: Tally,
    pub(super) waiting: Option<WaitingOn>,
    pub(super) notices: VecDeque<Notice>,
    pub(super) undo: Option<Undo>,
    pub(super) result: Option<Box<RunResult>>,
    /// The widest name and node so far: columns only ever grow.
    pub(super) name_width: usize,
    pub(super) node_width: usize,
}

#[derive(Debug)]
pub(super) struct Head {
    pub at: Timestamp,
    pub context: Option<String>,
    pub namespace: String,
    pub workload: String,
    /// `run 3, revision 3f9a2c01de`.
    pub run: String,
    pub operator: String,
    pub resumed: bool,
    pub supersedes: Option<u32>,
    /// A line for each container.
    pub changes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepPhase {
    Ahead,
    Working,
    /// Every pod is at target and ready; the pause goes on.
    AtTarget,
    Passed,
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StepRow {
    pub share: Share,
    pub phase: StepPhase,
    /// Pods that shall be at target at its end, once that is known.
    pub wanted: Option<usize>,
    /// Pods that were at target at its end.
    pub done: usize,
}

#[derive(Debug)]
pub(super) struct Row {
    pub name: String,
    pub node: String,
    pub state: PodState,
    pub restoring: bool,
    pub message: String,
    /// When the state began.
    pub since: Timestamp,
    place: usize,
}

#[derive(Debug)]
pub(super) struct Notice {
    pub level: Level,
    pub message: String,
    pub times: usize,
}

#[derive(Debug)]
pub(super) struct Undo {
    pub cause: String,
    pub pods: usize,
}

/// Notices that are remembered; plain lines and JSON have all of them.
const NOTICES: usize = 3;

impl Scene {
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Started(started) => self.start(at, started),
            Event::StepStarted { step, wanted, eligible, pods, .. } => {
                self.not_started = eligible.saturating_sub(*wanted);
                self.start_step(*step, *wanted);
                for name in pods {
                    self.expect_pod(at, name);
                }
            }
            Event::Pod(pod) => self.pod(at, pod),
            Event::StepAtTarget { step, pods } => self.end_step(*step, StepPhase::AtTarget, *pods),
            Event::StepPassed { step, pods, .. } => self.end_step(*step, StepPhase::Passed, *pods),
            Event::RollbackStarted { cause, pods } => self.roll_back(cause, *pods),
            Event::Waiting { on } => self.waiting.clone_from(on),
            Event::Notice { level, message } => self.notice(*level, text::clean(message).into_owned()),
            Event::Result(result) => {
                self.waiting = None;
                self.result = Some(result.clone());
            }
        }
    }

    fn start(&mut self, at: Timestamp, started: &Started) {
        *self = Self { watching: self.watching, ..Self::default() };
        self.not_started = started.eligible;
        let ahead = |share: &Share| StepRow { share: *share, phase: StepPhase::Ahead, wanted: None, done: 0 };
        self.steps = started.steps.iter().map(ahead).collect();
        self.head = Some(Head {
            at,
            context: started.context.as_deref().map(|context| text::clean(context).into_owned()),
            namespace: text::clean(&started.workload.namespace).into_owned(),
            workload: text::clean(&started.workload.to_string()).into_owned(),
            run: wording::run_and_revision(started),
            operator: text::clean(&started.operator).into_owned(),
            resumed: started.resumed,
            supersedes: started.supersedes,
            changes: wording::changes(&started.target, &started.template, "→"),
        });
        for message in wording::refusals(&started.refused) {
            self.notice(Level::Warning, message);
        }
    }

    fn start_step(&mut self, step: usize, wanted: usize) {
        for (i, row) in self.steps.iter_mut().enumerate().take(step + 1) {
            if i == step {
                (row.phase, row.wanted) = (StepPhase::Working, Some(wanted));
            } else if row.phase != StepPhase::Passed {
                // A run that was taken up again does not tell of the steps that it passed before.
                (row.phase, row.wanted) = (StepPhase::Passed, None);
            }
        }
    }

    fn end_step(&mut self, step: usize, phase: StepPhase, pods: usize) {
        if let Some(row) = self.steps.get_mut(step) {
            (row.phase, row.done) = (phase, pods);
            row.wanted = row.wanted.or(Some(pods));
        }
    }

    fn roll_back(&mut self, cause: &Cause, pods: usize) {
        if let Some(row) = self.steps.iter_mut().find(|row| row.phase == StepPhase::Working) {
            (row.phase, row.done) = (StepPhase::Failed, self.tally.get(PodState::Ready));
        } else if let Some(row) = self.steps.iter_mut().find(|row| row.phase == StepPhase::AtTarget) {
            row.phase = StepPhase::Failed;
        }
        self.undo = Some(Undo { cause: text::clean(&cause.to_string()).into_owned(), pods });
    }

    /// A pod that a step names before anything is known of it.
    fn expect_pod(&mut self, at: Timestamp, name: &str) {
        if !self.by_name.contains_key(name) {
            let (name, message) = (name.into(), String::new());
            self.pod(at, &PodEvent { name, node: None, step: 0, state: PodState::Chosen, message, restoring: false });
        }
    }

    fn pod(&mut self, at: Timestamp, pod: &PodEvent) {
        let class = Look::of(pod.state, pod.restoring).class;
        let Some(&index) = self.by_name.get(&pod.name) else {
            let index = self.rows.len();
            let name = text::clean(&pod.name).into_owned();
            self.name_width = self.name_width.max(text::width(&name));
            self.by_name.insert(pod.name.clone(), index);
            let row = Row {
                name,
                node: String::new(),
                state: pod.state,
                restoring: pod.restoring,
                message: String::new(),
                since: at,
                place: index,
            };
            self.rows.push(row);
            self.tally.add(pod.state);
            self.place(index, class);
            self.tell(index, pod);
            return;
        };
        let row = &mut self.rows[index];
        let before = Look::of(row.state, row.restoring).class;
        if (row.state, row.restoring) != (pod.state, pod.restoring) {
            row.since = at;
        }
        self.tally.remove(row.state);
        self.tally.add(pod.state);
        (row.state, row.restoring) = (pod.state, pod.restoring);
        if before != class {
            self.ranked.remove(&(before, row.place, index));
            if before == Class::Moving {
                self.free_places.insert(row.place);
            }
            self.place(index, class);
        }
        self.tell(index, pod);
    }

    /// Gives a row its place among those of its class: moving pods take the place of one that is done, so that the
    /// rows of the others do not move; all others stand in the order in which they were taken.
    fn place(&mut self, index: usize, class: Class) {
        let place = if class == Class::Moving {
            self.free_places.pop_first().unwrap_or_else(|| {
                self.next_place += 1;
                self.next_place - 1
            })
        } else {
            index
        };
        self.rows[index].place = place;
        self.ranked.insert((class, place, index));
    }

    fn tell(&mut self, index: usize, pod: &PodEvent) {
        let row = &mut self.rows[index];
        row.message = text::clean(&pod.message).into_owned();
        if let Some(node) = &pod.node {
            row.node = text::clean(node).into_owned();
            self.node_width = self.node_width.max(text::width(&row.node));
        }
    }

    fn notice(&mut self, level: Level, message: String) {
        if let Some(same) = self.notices.iter_mut().find(|notice| notice.message == message) {
            same.times += 1;
            return;
        }
        if self.notices.len() == NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(Notice { level, message, times: 1 });
    }

    /// The step that is being worked on, or the last one that was.
    pub(super) fn step_now(&self) -> Option<(usize, &StepRow)> {
        self.steps.iter().enumerate().rev().find(|(_, row)| row.phase != StepPhase::Ahead)
    }

    /// Pods of a step that count as done at this moment.
    pub(super) fn done_now(&self, row: &StepRow) -> usize {
        match row.phase {
            StepPhase::Working => self.tally.get(PodState::Ready),
            StepPhase::Ahead | StepPhase::AtTarget | StepPhase::Passed | StepPhase::Failed => row.done,
        }
    }

    /// The counts of all pods in words.
    pub(super) fn counts(&self) -> String {
        let mut parts = vec![self.tally.words()];
        if self.not_started > 0 {
            parts.push(format!("{} not started", self.not_started));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }

    /// At most `most` rows, and the number of those left out by state. All of them in the order in which they were
    /// taken where they fit; otherwise the failing, waiting and moving ones first.
    pub(super) fn shown_rows(&self, most: usize) -> (Vec<&Row>, Tally) {
        if self.rows.len() <= most {
            return (self.rows.iter().collect(), Tally::default());
        }
        let shown = self.ranked.iter().take(most).map(|(_, _, index)| &self.rows[*index]).collect::<Vec<_>>();
        let mut rest = self.tally;
        for row in &shown {
            rest.remove(row.state);
        }
        (shown, rest)
    }
}
