//! The one place where a phase changes.

use jiff::Timestamp;

use super::cause::Cause;
use super::effect::Effect;
use super::event::{Event, PodState};
use super::observation::{Command, Observation, WorkloadSighting};
use super::outcome::{Conclusion, Ending, Stop};
use super::send::HeldBack;
use super::state::{Out, Rollout};
use super::waiting::WaitingOn;
use crate::core::journal::{Entry, Fate, Stage};
use crate::core::time::{after, elapsed};

/// What one look at the world led to.
#[must_use = "effects that are not performed leave the run standing"]
#[derive(Debug)]
pub struct Step {
    pub rollout: Rollout,
    /// In order. `Record` comes first: nothing after it is done before it was written.
    pub effects: Vec<Effect>,
    pub events: Vec<Event>,
    pub waiting: Option<WaitingOn>,
    /// When to look again although nothing was seen to change.
    pub wake_at: Option<Timestamp>,
    /// The run is over, or this process stops here.
    pub conclusion: Option<Conclusion>,
}

/// Takes the rollout and what was seen; returns the next rollout and what to do.
pub fn step(mut rollout: Rollout, observation: &Observation<'_>) -> Step {
    let mut out = Out::default();
    let mut held = HeldBack::default();
    if rollout.conclusion.is_none() {
        rollout.forgive_blindness(observation.blind.as_ref().map(|(since, _)| *since), observation.now);
        rollout.note_answers(observation);
        rollout.obey(observation, &mut out);
        if rollout.stopping.is_some() {
            rollout.stopping_since.get_or_insert(observation.now);
        }
        rollout.proceed(observation, &mut out);
        held = rollout.send(observation, &mut out);
        rollout.stop_when_quiet(observation, &mut out);
    }
    let waiting = rollout.waiting(observation, held);
    let wake_at = rollout.wake_at(observation, waiting.as_ref());
    let mut effects = Vec::new();
    if !out.entries.is_empty() {
        effects.push(Effect::Record(out.entries));
    }
    effects.extend(out.resizes.into_iter().map(Effect::Resize));
    let conclusion = rollout.conclusion.clone();
    if let Some(conclusion) = &conclusion {
        out.events.push(Event::Result(Box::new(rollout.result(conclusion, observation))));
    }
    Step { rollout, effects, events: out.events, waiting, wake_at, conclusion }
}

impl Rollout {
    fn obey(&mut self, observation: &Observation<'_>, out: &mut Out) {
        match &observation.command {
            Some(Command::Interrupt { signal }) => self.stopping = Some(Stop::Interrupted { signal: *signal }),
            Some(Command::TimedOut) => self.stopping = Some(Stop::TimedOut),
            Some(Command::Supersede { by }) => self.stopping = Some(Stop::SupersedeWished { by: by.clone() }),
            Some(Command::RollBack { by }) if !self.is_rolling_back() => {
                self.roll_back(Cause::Asked { by: by.clone() }, observation, out);
            }
            None | Some(Command::RollBack { .. }) => {}
            Some(Command::Abort { by }) => self.end(Ending::Aborted { by: by.clone() }, observation.now, out),
        }
    }

    /// Looks at the pods and changes the phase as often as what was seen allows.
    fn proceed(&mut self, observation: &Observation<'_>, out: &mut Out) {
        if self.conclusion.is_some() {
            return;
        }
        let failure = self.look(observation, out);
        // A process that was asked to stop decides nothing any more; the next one will see the same.
        if self.stopping.is_some() {
            return;
        }
        if let WorkloadSighting::Gone(message) = observation.workload
            && !self.is_rolling_back()
        {
            self.roll_back(Cause::WorkloadGone { message: message.clone() }, observation, out);
        } else if let Some(cause) = failure
            && !self.is_rolling_back()
        {
            self.roll_back(cause, observation, out);
        }
        while self.conclusion.is_none() && self.advance(observation, out) {}
    }

    /// One change of phase, if one is due.
    fn advance(&mut self, observation: &Observation<'_>, out: &mut Out) -> bool {
        let now = observation.now;
        match self.run.stage.clone() {
            Stage::Stepping { step } if step >= self.run.started.policy.steps.shares().len() => {
                self.end(Ending::ValidatedWithoutPersistence, now, out);
                true
            }
            Stage::Stepping { step } => self.advance_step(step, observation, out),
            Stage::Pausing { step, since } => self.advance_pause(step, since, observation, out),
            Stage::RollingBack { cause, .. } => self.advance_rollback(cause, observation, out),
            Stage::Ended { .. } => false,
        }
    }

    /// The pause is over when its time has passed and every pod of the step is still ready.
    fn advance_pause(&mut self, step: usize, since: Timestamp, observation: &Observation<'_>, out: &mut Out) -> bool {
        let had = self.run.steps.iter().find(|record| record.step == step).map_or(0, |record| record.pods);
        let census = self.census(observation);
        let alive = census.taken.len();
        if alive < had {
            self.take(step, observation, out);
            if self.run.stage != (Stage::Pausing { step, since }) {
                let _ = self.look(observation, out);
                return false;
            }
        }
        if alive == 0 {
            return self.wait_for_pods(observation, out);
        }
        self.empty_since = None;
        let all_ready = census.taken.iter().all(|uid| self.state_of(uid) == Some(PodState::Ready));
        let over = elapsed(since, observation.now) >= self.run.started.policy.pause;
        if !over || !all_ready || observation.blind.is_some() {
            return false;
        }
        self.record(out, Entry::Passed { step }, observation.now);
        out.events.push(Event::StepPassed { step, share: self.share(step), pods: alive });
        true
    }

    fn advance_step(&mut self, step: usize, observation: &Observation<'_>, out: &mut Out) -> bool {
        if observation.blind.is_some() {
            return false;
        }
        let wanted = self.take(step, observation, out);
        // Pods that were just taken are looked at in the same step, so that their patches go out with it.
        if !out.entries.is_empty() {
            let _ = self.look(observation, out);
        }
        let census = self.census(observation);
        if census.eligible() == 0 {
            return self.wait_for_pods(observation, out);
        }
        self.empty_since = None;
        let ready = census.taken.iter().filter(|uid| self.state_of(uid) == Some(PodState::Ready)).count();
        let done = ready == census.taken.len()
            && ready >= wanted
            && self.are_back(observation, &[Fate::Released, Fate::Skipped]);
        if done {
            self.record(out, Entry::AtTarget { step, pods: ready }, observation.now);
            out.events.push(Event::StepAtTarget { step, pods: ready });
        }
        done
    }

    /// No pod is left for now: a rollout with strategy Recreate has such moments. In the end it fails the run.
    fn wait_for_pods(&mut self, observation: &Observation<'_>, out: &mut Out) -> bool {
        let since = *self.empty_since.get_or_insert(observation.now);
        let over = elapsed(since, observation.now) >= self.run.started.policy.resize_timeout;
        if over {
            self.roll_back(Cause::NothingLeft, observation, out);
        }
        over
    }

    fn roll_back(&mut self, cause: Cause, observation: &Observation<'_>, out: &mut Out) {
        let pods = self.run.intents.values().filter(|intent| intent.fate != Fate::Foreign).count();
        self.record(out, Entry::RollbackStarted { cause: cause.clone() }, observation.now);
        // With the failure, not with the end of the rollback: whatever becomes of that, the revision was found wrong.
        if cause.denies() {
            let revision = self.run.started.revision.clone();
            out.entries.push(Entry::Denied { revision, cause: cause.clone() });
        }
        out.events.push(Event::RollbackStarted { cause, pods });
        let _ = self.look(observation, out);
    }

    fn advance_rollback(&mut self, cause: Cause, observation: &Observation<'_>, out: &mut Out) -> bool {
        let uids = self.run.intents.iter().filter(|(_, intent)| intent.fate != Fate::Foreign).map(|(uid, _)| uid);
        let states = uids.map(|uid| (uid, self.state_of(uid))).collect::<Vec<_>>();
        let may_change = self.tracks.values().any(|track| track.may_land(observation.now));
        if may_change || !states.iter().all(|(_, state)| state.is_some_and(PodState::is_settled)) {
            return false;
        }
        let not_restored = states
            .iter()
            .filter(|(_, state)| *state == Some(PodState::NotRestored))
            .filter_map(|(uid, _)| Some(self.run.intents.get(*uid)?.name.clone()))
            .collect::<Vec<_>>();
        let ending =
            if not_restored.is_empty() { Ending::RolledBack { cause } } else { Ending::RollbackIncomplete { cause } };
        self.record(out, Entry::Ended { ending: ending.clone(), not_restored }, observation.now);
        self.conclusion = Some(Conclusion::Ended(ending));
        true
    }

    fn end(&mut self, ending: Ending, now: Timestamp, out: &mut Out) {
        self.record(out, Entry::Ended { ending: ending.clone(), not_restored: Vec::new() }, now);
        self.conclusion = Some(Conclusion::Ended(ending));
    }

    /// Asked to stop, and every patch is answered: say so in the record and leave.
    fn stop_when_quiet(&mut self, observation: &Observation<'_>, out: &mut Out) {
        if self.conclusion.is_some() || self.tracks.values().any(|track| track.sending.is_some()) {
            return;
        }
        if let Some(stop) = self.stopping.clone() {
            self.record(out, Entry::Stopped(stop.clone()), observation.now);
            self.conclusion = Some(Conclusion::Stopped(stop));
        }
    }

    /// The next moment at which time alone changes something.
    fn wake_at(&self, observation: &Observation<'_>, waiting: Option<&WaitingOn>) -> Option<Timestamp> {
        let retries = self.tracks.values().filter_map(|track| track.retry_at).filter(|at| *at > observation.now);
        let ready = self.tracks.values().filter_map(|track| {
            let at = after(track.ready_since?, self.run.started.policy.min_ready);
            (at > observation.now).then_some(at)
        });
        let until = waiting.and_then(|waiting| waiting.until).filter(|at| *at > observation.now);
        retries.chain(ready).chain(until).min()
    }
}
