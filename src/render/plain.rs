//! A line for each change, for logs: time, a word to search for, a sentence. No colour, no cursor.
//!
//! Pods that change in the same way within a second share a line, waits that are over within a second are not told,
//! and every 30 seconds a line says where the run stands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use jiff::{SignedDuration, Timestamp};

use super::Reporter;
use super::scene::Scene;
use super::sink::Sink;
use super::{text, wording};
use crate::core::rollout::event::{Event, Level, PodEvent, PodState, Started};
use crate::core::rollout::outcome::RunResult;
use crate::core::rollout::waiting::{WaitReason, WaitingOn};

pub struct Plain {
    to: Sink,
    scene: Scene,
    /// Pods that changed since the last line about pods, as they are now.
    batch: BTreeMap<Box<str>, PodEvent>,
    /// When the oldest of them came.
    batch_since: Option<Timestamp>,
    /// The kind of the wait that was written last, if it still goes on.
    told_wait: Option<std::mem::Discriminant<WaitReason>>,
    last_heartbeat: Option<Timestamp>,
}

/// How long changes are gathered before they are written, and how long a wait must last to be told.
const GATHER: SignedDuration = SignedDuration::from_secs(1);
const HEARTBEAT: SignedDuration = SignedDuration::from_secs(30);
/// Names in one line.
const NAMED: usize = 5;
/// Longer sentences are cut: a message of the cluster can be of any length.
const SENTENCE: usize = 1000;

impl Plain {
    pub fn new(to: Sink) -> Self {
        Self {
            to,
            scene: Scene::default(),
            batch: BTreeMap::new(),
            batch_since: None,
            told_wait: None,
            last_heartbeat: None,
        }
    }

    /// `sentence` must be clean.
    fn line(&mut self, at: Timestamp, word: &str, sentence: &str) {
        let line = format!("{} {word:<8} {}\n", text::time(at), text::fit(sentence, SENTENCE));
        self.to.put(&line);
    }

    fn started(&mut self, at: Timestamp, started: &Started) {
        let context = started.context.as_deref().map_or(String::new(), |context| format!(", context {context}"));
        let mut sentence = format!(
            "{} in namespace {}{context}: {} by {}, {}, steps {}",
            started.workload,
            started.workload.namespace,
            wording::run_and_revision(started),
            started.operator,
            text::plural(started.eligible, "eligible pod"),
            started.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        );
        if started.resumed {
            sentence.push_str("; taken up where it stopped");
        }
        if let Some(run) = started.supersedes {
            let _ = write!(sentence, "; supersedes run {run}");
        }
        self.line(at, "run", &text::clean(&sentence));
        for change in wording::changes(&started.target, &started.template, "->") {
            self.line(at, "change", &change);
        }
        for refusal in wording::refusals(&started.refused) {
            self.line(at, "warning", &refusal);
        }
    }

    fn gather(&mut self, at: Timestamp, pod: &PodEvent) {
        // Told with the step, or of no interest until the kubelet speaks.
        if pod.state == PodState::Chosen {
            return;
        }
        self.batch_since.get_or_insert(at);
        // What the pod was in between is not told: only what it came to within the second.
        self.batch.insert(pod.name.clone(), pod.clone());
    }

    fn write_batch(&mut self, at: Timestamp) {
        self.batch_since = None;
        let batch = std::mem::take(&mut self.batch);
        let mut groups: BTreeMap<_, Vec<&PodEvent>> = BTreeMap::new();
        for pod in batch.values() {
            groups.entry((pod.state, pod.restoring, pod.message.as_str())).or_default().push(pod);
        }
        for ((state, restoring, message), pods) in groups {
            let what = wording::state_and_message(state, restoring, message);
            let who = match pods.as_slice() {
                [PodEvent { name, node: Some(node), .. }] => format!("{} on {}", text::clean(name), text::clean(node)),
                [PodEvent { name, node: None, .. }] => text::clean(name).into_owned(),
                pods => {
                    let names = text::list(pods.iter().map(|pod| &*pod.name), NAMED);
                    format!("{} ({names})", text::plural(pods.len(), "pod"))
                }
            };
            self.line(at, "pod", &format!("{who}: {what}"));
        }
    }

    /// Writes what was gathered once it is a second old, and a wait once it lasts a second.
    fn settle(&mut self, now: Timestamp) {
        if self.batch_since.is_some_and(|since| now.duration_since(since) >= GATHER) {
            self.write_batch(now);
        }
        let untold = self.scene.waiting.as_ref().filter(|waiting| {
            self.told_wait != Some(std::mem::discriminant(&waiting.reason))
                && now.duration_since(waiting.since) >= GATHER
        });
        if let Some(waiting) = untold {
            self.told_wait = Some(std::mem::discriminant(&waiting.reason));
            let sentence = wait_sentence(waiting, now);
            self.write_batch(now);
            self.line(now, "wait", &sentence);
        }
    }

    fn heartbeat(&mut self, now: Timestamp) {
        let last = *self.last_heartbeat.get_or_insert(now);
        if now.duration_since(last) < HEARTBEAT || self.scene.result.is_some() {
            return;
        }
        self.last_heartbeat = Some(now);
        self.write_batch(now);
        let mut sentence = self.scene.step_now().map_or(String::new(), |(step, row)| {
            let of = row.wanted.map_or(String::new(), |wanted| format!(", {} of {wanted}", self.scene.done_now(row)));
            format!("step {}/{} ({}{of}): ", step + 1, self.scene.steps.len(), row.share)
        });
        sentence.push_str(&self.scene.counts());
        if let Some(waiting) = &self.scene.waiting {
            let _ = write!(sentence, "; waiting {}", wait_sentence(waiting, now));
        }
        self.line(now, "status", &sentence);
    }

    fn tell(&mut self, at: Timestamp, event: &Event) {
        let steps = self.scene.steps.len();
        match event {
            Event::Started(started) => self.started(at, started),
            Event::StepStarted { step, share, wanted, eligible, pods } => {
                let new = match pods.len() {
                    0 => "no new pod".to_owned(),
                    _ => format!("new: {}", text::list(pods.iter().map(|name| &**name), NAMED)),
                };
                let sentence = format!("{}/{steps} ({share}): {wanted} of {eligible} pods; {new}", step + 1);
                self.line(at, "step", &sentence);
            }
            Event::StepAtTarget { step, pods } => {
                let pods = text::plural(*pods, "pod");
                self.line(at, "step", &format!("{}/{steps}: {pods} at target and ready", step + 1));
            }
            Event::StepPassed { step, share, pods } => {
                let pods = text::plural(*pods, "pod");
                self.line(at, "step", &format!("{}/{steps} ({share}) passed with {pods}", step + 1));
            }
            Event::RollbackStarted { cause, pods } => {
                let cause = cause.to_string();
                let sentence =
                    format!("{} back to the old values: {}", text::plural(*pods, "pod"), text::clean(&cause));
                self.line(at, "rollback", &sentence);
            }
            Event::Notice { level, message } => {
                let word = match level {
                    Level::Info => "info",
                    Level::Warning => "warning",
                };
                self.line(at, word, &text::clean(message));
            }
            Event::Result(result) => self.result(at, result),
            Event::Pod(_) | Event::Waiting { .. } => {}
        }
    }

    fn result(&mut self, at: Timestamp, result: &RunResult) {
        let (_, _, words) = wording::outcome(result);
        let cause = wording::cause(result).map_or(String::new(), |cause| format!("; {cause}"));
        self.line(at, "result", &format!("exit code {}: {words}{cause}", result.exit_code));
    }
}

/// `12s for 1 pod …, until … (4m59s left)`.
fn wait_sentence(waiting: &WaitingOn, now: Timestamp) -> String {
    let (since, reason) = (text::age_at(waiting.since, now), wording::waiting_for(waiting));
    let left = wording::time_left(waiting, now).map_or(String::new(), |left| format!(" ({left})"));
    format!("{since} {reason}, {}{left}", wording::waiting_until(waiting))
}

impl Reporter for Plain {
    fn event(&mut self, at: Timestamp, event: &Event) {
        self.settle(at);
        self.heartbeat(at);
        match event {
            Event::Pod(pod) => self.gather(at, pod),
            Event::Waiting { on } => {
                let kind = on.as_ref().map(|on| std::mem::discriminant(&on.reason));
                if self.told_wait != kind {
                    self.told_wait = None;
                }
            }
            Event::Started(_)
            | Event::StepStarted { .. }
            | Event::StepAtTarget { .. }
            | Event::StepPassed { .. }
            | Event::RollbackStarted { .. }
            | Event::Notice { .. }
            | Event::Result(_) => self.write_batch(at),
        }
        self.scene.apply(at, event);
        self.tell(at, event);
    }

    fn tick(&mut self, now: Timestamp) {
        self.settle(now);
        self.heartbeat(now);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.finish()
    }
}
