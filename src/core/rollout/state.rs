//! The state of a run in this process: the recorded run, and what is remembered of each pod beside it.
//!
//! Only the recorded part survives the process. What is in `Track` can be learned again by looking.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::event::{Event, PodEvent, PodState};
use super::outcome::Conclusion;
use crate::core::journal::{Entry, Fate, Intent, Run, Stage};
use crate::core::pod::{PodUid, PodView};
use crate::core::resources::{ContainerResources, Key, Resources};
use crate::core::time::{after, elapsed};
use crate::core::workload::WorkloadRef;

/// A run that this process drives.
#[derive(Clone, Debug)]
pub struct Rollout {
    pub workload: WorkloadRef,
    pub run: Run,
    /// `major.minor` matters for what the server allows: 1.33 cannot lower a memory limit in place.
    pub server_minor: u32,
    pub(super) tracks: BTreeMap<PodUid, Track>,
    /// Asked to stop: what to say when every answer is in.
    pub(super) stopping: Option<super::outcome::Stop>,
    pub(super) stopping_since: Option<Timestamp>,
    /// Since when there has been no eligible pod.
    pub(super) empty_since: Option<Timestamp>,
    /// Since when the API server has not answered; no time runs out meanwhile.
    pub(super) blind_since: Option<Timestamp>,
    pub(super) conclusion: Option<Conclusion>,
}

/// What is remembered of a pod with an intent.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// The last state that was told, with its words.
    pub shown: Option<(PodState, String)>,
    /// Since when the pod is in that state.
    pub since: Option<Timestamp>,
    /// The version of the view that was looked at last, and since when it has been that one.
    pub seen: Option<(Box<str>, Timestamp)>,
    /// A patch was sent and has not been answered: whether it restores.
    pub sending: Option<bool>,
    /// A patch of the other direction whose answer was lost, and when: it may still land.
    pub lost_at: Option<Timestamp>,
    /// The first patch of the present direction.
    pub first_sent: Option<Timestamp>,
    /// The server took a patch of the present direction: from now on another spec is somebody else's.
    pub accepted: bool,
    pub retry_at: Option<Timestamp>,
    pub attempts: u32,
    /// The server's refusal in the present direction.
    pub refusal: Option<Refused>,
    /// Since when the pod has been seen at its values and ready, without a break.
    pub ready_since: Option<Timestamp>,
    /// The direction the fields above belong to.
    pub restoring: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    NodeCapacity(String),
    Other(String),
}

/// What a step of the machine has said so far.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub entries: Vec<Entry>,
    pub resizes: Vec<super::effect::Resize>,
    pub events: Vec<Event>,
}

impl Rollout {
    /// Takes up a run as the record tells it: fresh after `RunStarted`, or where another process left it.
    pub fn new(workload: WorkloadRef, run: Run, server_minor: u32) -> Self {
        Self {
            workload,
            run,
            server_minor,
            tracks: BTreeMap::new(),
            stopping: None,
            stopping_since: None,
            empty_since: None,
            blind_since: None,
            conclusion: None,
        }
    }

    /// Whether pods go back to their baselines.
    pub const fn is_rolling_back(&self) -> bool {
        matches!(self.run.stage, Stage::RollingBack { .. })
    }

    /// Says an entry and lives by it: the same fold that a resume would do.
    pub(super) fn record(&mut self, out: &mut Out, entry: Entry, now: Timestamp) {
        self.run.apply(entry.clone(), now).expect("the machine records only what the fold accepts");
        out.entries.push(entry);
    }

    /// Whether the run wants this pod at its baseline (otherwise at its target).
    pub(super) fn restores(&self, intent: &Intent) -> bool {
        self.is_rolling_back() || !matches!(intent.fate, Fate::Taken { .. })
    }

    /// Every value of the touched containers is one that this run, or one that it superseded, knows.
    pub(super) fn is_ours(&self, intent: &Intent, view: &PodView) -> Result<(), String> {
        for (name, baseline) in &*intent.baseline {
            let Some(container) = view.containers.get(name.as_str()) else {
                return Err(format!("container {name} is not in the pod"));
            };
            for key in Key::ALL {
                let is = container.desired.get(key);
                let known = is == baseline.get(key)
                    || is.is_some()
                        && std::iter::once(&self.run.started.target)
                            .chain(&self.run.former)
                            .filter_map(|target| target.get(name))
                            .any(|block| block.get(key) == is || adds_request(block, key, is));
                if !known {
                    let shown = is.map_or_else(|| "absent".to_owned(), |value| key.show(value));
                    return Err(format!("somebody else set container {name} {key} to {shown}"));
                }
            }
        }
        Ok(())
    }

    /// What the touched containers of this pod shall have: the baseline with the target on top, or the baseline alone.
    /// A key that the spec has beyond that was added by this run and cannot be removed in place: it stays as it is.
    pub(super) fn wanted(&self, intent: &Intent, view: &PodView, restore: bool) -> ContainerResources {
        intent
            .baseline
            .iter()
            .map(|(name, baseline)| {
                let now = view.containers.get(name.as_str()).map(|c| c.desired).unwrap_or_default();
                let mut block = now.overlaid(baseline);
                if !restore && let Some(target) = self.run.started.target.get(name) {
                    block = block.overlaid(target);
                }
                (name.clone(), block)
            })
            .collect()
    }

    /// Tells a pod's state if it changed, and remembers since when it holds.
    pub(super) fn show(
        &mut self,
        out: &mut Out,
        uid: &PodUid,
        view: Option<&PodView>,
        state: PodState,
        message: String,
        now: Timestamp,
    ) {
        let Some(intent) = self.run.intents.get(uid) else { return };
        let restoring = self.restores(intent);
        let step = match intent.fate {
            Fate::Taken { step } => step,
            Fate::Released | Fate::Skipped | Fate::Foreign => 0,
        };
        let name = intent.name.clone();
        let track = self.tracks.entry(uid.clone()).or_default();
        if track.shown.as_ref().is_some_and(|(s, m)| *s == state && *m == message) {
            return;
        }
        if track.shown.as_ref().is_none_or(|(shown, _)| *shown != state) {
            track.since = Some(now);
        }
        track.shown = Some((state, message.clone()));
        let node = view.and_then(|view| view.node.clone());
        out.events.push(Event::Pod(PodEvent { name, node, step, state, message, restoring }));
    }

    /// Time that passed while nothing could be seen is nobody's delay: what was measured goes on where it stood.
    pub(super) fn forgive_blindness(&mut self, blind: Option<Timestamp>, now: Timestamp) {
        match (self.blind_since, blind) {
            (None, Some(since)) => self.blind_since = Some(since.min(now)),
            (Some(since), None) => {
                let gap = elapsed(since, now);
                for track in self.tracks.values_mut() {
                    let seen = track.seen.as_mut().map(|(_, at)| at);
                    let marks = [track.since.as_mut(), track.first_sent.as_mut(), track.ready_since.as_mut(), seen];
                    for mark in marks.into_iter().flatten() {
                        *mark = after(*mark, gap).min(now);
                    }
                }
                if let Some(mark) = &mut self.empty_since {
                    *mark = after(*mark, gap).min(now);
                }
                self.blind_since = None;
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    pub(super) fn state_of(&self, uid: &PodUid) -> Option<PodState> {
        self.tracks.get(uid)?.shown.as_ref().map(|(state, _)| *state)
    }
}

/// A limit that comes without a request makes the API server add a request of the same value.
fn adds_request(block: &Resources, key: Key, is: Option<u64>) -> bool {
    match key {
        Key::RequestsCpu => block.get(Key::LimitsCpu) == is,
        Key::RequestsMemory => block.get(Key::LimitsMemory) == is,
        Key::LimitsCpu | Key::LimitsMemory => false,
    }
}

/// Keys of `baseline ⊕ added` that a restore cannot take away again, as words; empty when the spec is the baseline.
pub(super) fn leftovers(baseline: &Arc<ContainerResources>, view: &PodView) -> Vec<String> {
    let mut out = Vec::new();
    for (name, block) in &**baseline {
        let now = view.containers.get(name.as_str()).map_or_else(Resources::default, |c| c.desired);
        for key in now.added_to(block) {
            let value = now.get(key).map(|v| key.show(v)).unwrap_or_default();
            out.push(format!("container {name} {key} {value} was added and cannot be removed in place"));
        }
    }
    out
}
