//! Which patches go out now: never more pods on their way than the policy allows, released pods first, restarting pods
//! one by one.

use super::effect::Resize;
use super::event::PodState;
use super::observation::Observation;
use super::state::{Out, Rollout};
use crate::core::journal::{Fate, Intent};
use crate::core::pod::{PodUid, PodView};
use crate::core::resize;
use crate::core::resources::ContainerResources;

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
        let mut room = self.run.started.policy.max_in_flight.saturating_sub(self.in_flight());
        let mut away = self.away(observation);
        let releasing = !self.is_rolling_back() && !self.released_are_back(observation);
        let mut chosen = Vec::new();
        for (uid, intent) in &self.run.intents {
            if room == 0 {
                break;
            }
            if releasing && matches!(intent.fate, Fate::Taken { .. }) {
                continue;
            }
            let Some((view, changes)) = self.due(uid, intent, observation) else { continue };
            if restarts(view, &changes) {
                if observation.exhausted_budget.is_some() {
                    held.by_budget = true;
                    continue;
                }
                if away >= self.run.started.policy.max_unavailable {
                    held.by_unavailable = true;
                    continue;
                }
                away += 1;
            }
            room -= 1;
            chosen.push(Resize::new(view, changes));
        }
        for resize in &chosen {
            let track = self.tracks.entry(resize.uid.clone()).or_default();
            track.sending = true;
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
        if track.sending || track.accepted || track.refusal.is_some() || waits {
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

    /// Pods that were patched and are not where they shall be.
    fn in_flight(&self) -> usize {
        self.tracks.values().filter(|track| track.sending || track.is_moving()).count()
    }

    /// Pods that are away because their `resizePolicy` restarts them for a change of this run.
    fn away(&self, observation: &Observation<'_>) -> usize {
        self.run
            .intents
            .iter()
            .filter(|(uid, intent)| {
                let Some(track) = self.tracks.get(*uid) else { return false };
                let on_its_way = track.sending
                    || track.is_moving()
                    || track.accepted && matches!(track.shown, Some((PodState::Applied, _)));
                on_its_way && observation.pods.get(*uid).is_some_and(|view| self.restart_bound(intent, view))
            })
            .count()
    }

    /// Whether bringing this pod from its baseline to its target (or back) restarts one of its containers.
    pub(super) fn restart_bound(&self, intent: &Intent, view: &PodView) -> bool {
        self.run.started.target.iter().any(|(name, block)| {
            let before = intent.baseline.get(name).copied().unwrap_or_default();
            view.containers.get(name.as_str()).is_some_and(|c| c.restarts_for(&block.changes_from(&before)))
        })
    }

    /// Every pod that a superseded run left at its values, and that this one has not taken, is back.
    pub(super) fn released_are_back(&self, observation: &Observation<'_>) -> bool {
        self.run.intents.iter().filter(|(_, intent)| intent.fate == Fate::Released).all(|(uid, _)| {
            !observation.pods.contains_key(uid)
                || self.state_of(uid).is_some_and(|state| {
                    matches!(state, PodState::Restored | PodState::NotRestored | PodState::Gone | PodState::Foreign)
                })
        })
    }
}

impl super::state::Track {
    pub(super) fn is_moving(&self) -> bool {
        self.accepted
            && matches!(
                self.shown,
                Some((PodState::Pending | PodState::InProgress | PodState::Deferred | PodState::Failed, _))
            )
    }
}

fn restarts(view: &PodView, changes: &ContainerResources) -> bool {
    changes.iter().any(|(name, block)| view.containers.get(name.as_str()).is_some_and(|c| c.restarts_for(block)))
}
