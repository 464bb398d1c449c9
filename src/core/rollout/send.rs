//! Which patches go out now: never more pods on their way than the policy allows, released pods first, restarting pods
//! one by one.

use std::time::Duration;

use jiff::Timestamp;

use super::effect::Resize;
use super::event::PodState;
use super::observation::{Budget, Observation};
use super::state::{Out, Rollout, Track};
use crate::core::journal::{Fate, Intent};
use crate::core::pod::{PodUid, PodView};
use crate::core::resize;
use crate::core::resources::ContainerResources;
use crate::core::time::elapsed;

/// What holds pods back that could be patched otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct HeldBack {
    pub by_unavailable: bool,
    pub by_budget: bool,
}

impl Rollout {
    pub(super) fn send(&mut self, observation: &Observation<'_>, out: &mut Out) -> HeldBack {
        let mut held = HeldBack::default();
        if self.stopping.is_some() || self.conclusion.is_some() || observation.blind.is_some() {
            return held;
        }
        let mut room = self.run.started.policy.max_in_flight.saturating_sub(self.in_flight(observation));
        let mut away = self.away(observation);
        let mut budget = match &observation.budget {
            Budget::Unknown => 0,
            Budget::Unlimited => usize::MAX,
            Budget::Limited { allowed, .. } => *allowed,
        };
        let releasing = !self.is_rolling_back() && !self.are_back(observation, &[Fate::Released]);
        let mut chosen = Vec::new();
        for (uid, intent) in &self.run.intents {
            if releasing && matches!(intent.fate, Fate::Taken { .. }) {
                continue;
            }
            let Some((view, changes)) = self.due(uid, intent, observation) else { continue };
            // A pod that is under way already (a run that turned round) does not become one more.
            let one_more = usize::from(!is_under_way(view));
            if room < one_more {
                continue;
            }
            if restarts(view, &changes) {
                if budget == 0 {
                    held.by_budget = true;
                    continue;
                }
                if away >= self.run.started.policy.max_unavailable {
                    held.by_unavailable = true;
                    continue;
                }
                away += 1;
                budget -= 1;
            }
            room -= one_more;
            let restarts = restarts(view, &changes);
            chosen.push(Resize { restarts, ..Resize::new(view, changes) });
        }
        for resize in &chosen {
            let track = self.tracks.entry(resize.uid.clone()).or_default();
            track.sending = Some(track.restoring);
            track.retry_at = None;
            track.first_sent.get_or_insert(observation.now);
        }
        out.resizes.extend(chosen);
        held
    }

    /// A pod that has to be patched now, with the keys to change.
    fn due<'a>(
        &self,
        uid: &PodUid,
        intent: &Intent,
        observation: &'a Observation<'_>,
    ) -> Option<(&'a PodView, ContainerResources)> {
        if intent.fate == Fate::Foreign {
            return None;
        }
        let track = self.tracks.get(uid)?;
        let waits = track.retry_at.is_some_and(|at| at > observation.now);
        if track.sending.is_some() || track.accepted || track.refusal.is_some() || waits {
            return None;
        }
        if track.shown.as_ref().is_some_and(|(state, _)| *state == PodState::NotRestored) {
            return None;
        }
        let view = observation.pods.get(uid).filter(|view| resize::gone(view).is_none())?;
        let want = self.wanted(intent, view, self.restores(intent));
        let changes = want
            .iter()
            .filter_map(|(name, block)| {
                let now = view.containers.get(name.as_str())?.desired;
                Some((name.clone(), block.changes_from(&now))).filter(|(_, changes)| !changes.is_empty())
            })
            .collect::<ContainerResources>();
        (!changes.is_empty()).then_some((view, changes))
    }

    /// Pods that were patched and are not where they shall be. On the way back a pod that waits for room does not hold
    /// the others up: they may be what makes the room.
    fn in_flight(&self, observation: &Observation<'_>) -> usize {
        let rolling_back = self.is_rolling_back();
        let counts = |uid: &PodUid| {
            let track = self.tracks.get(uid);
            let waits = rolling_back && track.is_some_and(|t| matches!(t.shown, Some((PodState::Deferred, _))));
            let patched = track.is_some_and(|t| t.sending.is_some() || t.is_moving());
            patched && !waits || observation.pods.get(uid).is_some_and(is_under_way)
        };
        self.run.intents.keys().filter(|uid| counts(uid)).count()
    }

    /// Pods that are away because their `resizePolicy` restarts them for a change of this run: patched, and not ready
    /// again. One that does not come back within the resize timeout is counted no longer, or it would hold up the
    /// others for ever.
    fn away(&self, observation: &Observation<'_>) -> usize {
        let timeout = self.run.started.policy.resize_timeout;
        self.run
            .intents
            .iter()
            .filter(|(uid, intent)| {
                let Some(track) = self.tracks.get(*uid) else { return false };
                let Some(view) = observation.pods.get(*uid) else { return false };
                let recent = track.first_sent.is_some_and(|sent| elapsed(sent, observation.now) < timeout);
                let back = track.accepted && !track.is_moving() && view.is_ready();
                recent && (track.sending.is_some() || track.accepted && !back) && self.restart_bound(intent, view)
            })
            .count()
    }

    /// Whether bringing this pod from its baseline to its target (or back) restarts one of its containers.
    pub(super) fn restart_bound(&self, intent: &Intent, view: &PodView) -> bool {
        let targets = std::iter::once(&self.run.started.target).chain(&self.run.former);
        targets.flatten().any(|(name, block)| {
            let before = intent.baseline.get(name).copied().unwrap_or_default();
            view.containers.get(name.as_str()).is_some_and(|c| c.restarts_for(&block.changes_from(&before)))
        })
    }

    /// Every pod of these fates that has to go back to its baseline in a run that goes forward is back.
    pub(super) fn are_back(&self, observation: &Observation<'_>, fates: &[Fate]) -> bool {
        self.run
            .intents
            .iter()
            .filter(|(_, intent)| fates.contains(&intent.fate))
            .all(|(uid, _)| !observation.pods.contains_key(uid) || self.state_of(uid).is_some_and(PodState::is_settled))
    }
}

/// How long an API server may still carry out a request whose answer was lost: its own `--request-timeout` is 1 minute.
const SERVER_FORGETS: Duration = Duration::from_mins(1);

impl Track {
    /// A patch is on its way, or may still land although nobody waits for its answer.
    pub(super) fn may_land(&self, now: Timestamp) -> bool {
        self.sending.is_some() || self.lost_at.is_some_and(|lost| elapsed(lost, now) < SERVER_FORGETS)
    }

    pub(super) fn is_moving(&self) -> bool {
        self.accepted
            && matches!(
                self.shown,
                Some((PodState::Pending | PodState::InProgress | PodState::Deferred | PodState::Failed, _))
            )
    }
}

/// The kubelet has not answered the last change of this pod's spec, or is carrying it out.
fn is_under_way(view: &PodView) -> bool {
    view.observed_generation.is_some_and(|seen| seen < view.generation) || view.resize_in_progress.is_some()
}

fn restarts(view: &PodView, changes: &ContainerResources) -> bool {
    changes.iter().any(|(name, block)| view.containers.get(name.as_str()).is_some_and(|c| c.restarts_for(block)))
}
