//! Looking at the pods of a run: where each stands, what is told of it, and whether the run fails because of it.

use std::time::Duration;

use jiff::Timestamp;

use super::cause::Cause;
use super::event::PodState;
use super::observation::{Observation, ResizeAnswer};
use super::outcome::Stop;
use super::state::{Out, Refused, Rollout, Track, leftovers};
use crate::core::health::{self, Restarts};
use crate::core::journal::{Entry, Fate, Intent, LeftAlone};
use crate::core::pod::{PodUid, PodView};
use crate::core::policy::OnDeferred;
use crate::core::resize::{self, ResizeState};
use crate::core::time::{after, elapsed};

/// How long the kubelet may report a failed resize before the run believes it. The kubelet tries again on every sync
/// (10 s), and a container that has just started has no memory usage to compare with until its first statistics.
const FAILED_GRACE: Duration = Duration::from_secs(10);

/// The longest wait between two tries of a patch that was not answered or was answered "busy".
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// What a look at one pod found.
enum Found {
    Fine,
    Foreign(String),
    DeferredTooLong,
    Failure(Cause),
}

impl Rollout {
    /// Takes in the answers to patches.
    pub(super) fn note_answers(&mut self, observation: &Observation<'_>) {
        for (uid, answer) in &observation.answers {
            let track = self.tracks.entry(uid.clone()).or_default();
            let sent = track.sending.take();
            // The run has turned round since: the answer says nothing about the new direction. A patch that may still
            // land is remembered until the server cannot carry it out any more.
            if sent.is_some_and(|restoring| restoring != track.restoring) {
                if matches!(answer, ResizeAnswer::Lost { .. }) {
                    track.lost_at = Some(observation.now);
                }
                continue;
            }
            match answer {
                ResizeAnswer::Accepted => {
                    track.accepted = true;
                    track.attempts = 0;
                }
                ResizeAnswer::NodeCapacity { message } => track.refusal = Some(Refused::NodeCapacity(message.clone())),
                ResizeAnswer::Refused { message } => track.refusal = Some(Refused::Other(message.clone())),
                ResizeAnswer::Forbidden { message } => {
                    self.stopping = Some(Stop::Refused { message: message.clone() });
                }
                // Gone shows in the pods themselves; the next look says so.
                ResizeAnswer::Gone => track.retry_at = Some(after(observation.now, Duration::from_secs(1))),
                ResizeAnswer::Busy { .. } | ResizeAnswer::Lost { .. } => {
                    if matches!(answer, ResizeAnswer::Lost { .. }) {
                        track.lost_at = Some(observation.now);
                    }
                    track.attempts += 1;
                    let wait = Duration::from_millis(250 << track.attempts.min(8)).min(LONGEST_RETRY);
                    track.retry_at = Some(after(observation.now, wait));
                }
            }
        }
    }

    /// Looks at every pod with an intent. Returns the first failure of the forward direction.
    pub(super) fn look(&mut self, observation: &Observation<'_>, out: &mut Out) -> Option<Cause> {
        let uids = self.run.intents.keys().cloned().collect::<Vec<_>>();
        let (mut foreign, mut skipped, mut failure) = (Vec::new(), Vec::new(), None);
        for uid in uids {
            match self.look_at(&uid, observation, out) {
                Found::Fine => {}
                Found::Foreign(why) => {
                    self.show(out, &uid, observation.pods.get(&uid), PodState::Foreign, why, observation.now);
                    foreign.push(uid);
                }
                Found::DeferredTooLong => skipped.push(uid),
                Found::Failure(cause) => failure = failure.or(Some(cause)),
            }
        }
        for (why, pods) in [(LeftAlone::Foreign, foreign), (LeftAlone::Skipped, skipped)] {
            if !pods.is_empty() {
                self.record(out, Entry::LeftAlone { why, pods }, observation.now);
            }
        }
        failure
    }

    fn look_at(&mut self, uid: &PodUid, observation: &Observation<'_>, out: &mut Out) -> Found {
        let now = observation.now;
        let Some(intent) = self.run.intents.get(uid) else { return Found::Fine };
        if intent.fate == Fate::Foreign {
            return Found::Fine;
        }
        let Some(view) = observation.pods.get(uid) else {
            self.show(out, uid, None, PodState::Gone, "the pod is gone".to_owned(), now);
            return Found::Fine;
        };
        if let Some(why) = resize::gone(view) {
            self.show(out, uid, Some(view), PodState::Gone, why.to_owned(), now);
            return Found::Fine;
        }
        if let Err(why) = self.is_ours(intent, view) {
            return Found::Foreign(why);
        }
        let restore = self.restores(intent);
        let want = self.wanted(intent, view, restore);
        let track = self.tracks.entry(uid.clone()).or_default();
        track.turn(restore);
        let quiet = if observation.blind.is_some() { Duration::ZERO } else { track.quiet(view, now) };
        let state = resize::classify(view, &want, quiet);
        // The spec is ours but not the wanted one: it is still to be patched, or somebody put it back.
        if matches!(state, ResizeState::Foreign(_)) {
            if track.accepted && !restore {
                return Found::Foreign("somebody else set the resources back".to_owned());
            }
            // On the way back a value of ours is put back however often it appears: an answer may have been lost.
            track.accepted = false;
            return self.look_at_unpatched(uid, view, observation, out);
        }
        track.first_sent.get_or_insert(now);
        track.refusal = None;
        track.accepted = true;
        if restore {
            self.look_at_restoring(uid, view, &state, observation, out)
        } else {
            self.look_at_forward(uid, view, state, observation, out)
        }
    }

    /// A pod whose spec does not ask for the wanted values yet.
    fn look_at_unpatched(
        &mut self,
        uid: &PodUid,
        view: &PodView,
        observation: &Observation<'_>,
        out: &mut Out,
    ) -> Found {
        let now = observation.now;
        let restore = self.tracks.get(uid).is_some_and(|track| track.restoring);
        let refusal = self.tracks.get(uid).and_then(|track| track.refusal.clone());
        let pod = view.name.clone();
        let (state, message, cause) = match refusal {
            None => {
                let waited = self.waited(uid, now);
                if observation.blind.is_none() && waited >= self.run.started.policy.resize_timeout {
                    let cause = Cause::NotSent { pod, waited };
                    (PodState::NotRestored, "the patch did not get through".to_owned(), Some(cause))
                } else {
                    (PodState::Chosen, String::new(), None)
                }
            }
            Some(Refused::NodeCapacity(message)) => {
                (PodState::Infeasible, message.clone(), Some(Cause::Infeasible { pod, message }))
            }
            Some(Refused::Other(message)) => (PodState::Failed, message.clone(), Some(Cause::Refused { pod, message })),
        };
        match cause {
            // A restore that is refused is over: the pod is named in the result.
            Some(cause) if restore => {
                let message = if message.is_empty() { cause.to_string() } else { message };
                self.show(out, uid, Some(view), PodState::NotRestored, message, now);
                if self.is_rolling_back() { Found::Fine } else { Found::Failure(cause) }
            }
            Some(cause) => {
                self.show(out, uid, Some(view), state, message, now);
                Found::Failure(cause)
            }
            None => {
                self.show(out, uid, Some(view), state, message, now);
                Found::Fine
            }
        }
    }

    fn look_at_forward(
        &mut self,
        uid: &PodUid,
        view: &PodView,
        state: ResizeState,
        observation: &Observation<'_>,
        out: &mut Out,
    ) -> Found {
        let now = observation.now;
        let policy = &self.run.started.policy;
        let (resize_timeout, min_ready) = (policy.resize_timeout, policy.min_ready);
        let (deferred_timeout, on_deferred) = (policy.deferred_timeout, policy.on_deferred);
        let pod = view.name.clone();
        if let Some(ill) = self.ill(uid, view) {
            self.show(
                out,
                uid,
                Some(view),
                PodState::Unhealthy,
                format!("container {} {}", ill.container, ill.message),
                now,
            );
            return Found::Failure(Cause::Unhealthy { pod, container: ill.container, message: ill.message });
        }
        self.restart_clock_after_deferred(uid, &state, now);
        let (shown, message) = self.shown_forward(uid, view, &state, min_ready, now);
        self.show(out, uid, Some(view), shown, message, now);
        let track = &self.tracks[uid];
        let since = elapsed(track.since.unwrap_or(now), now);
        let waited = elapsed(track.first_sent.unwrap_or(now), now);
        let timed = observation.blind.is_none();
        match state {
            ResizeState::Infeasible(message) => Found::Failure(Cause::Infeasible { pod, message: message.into() }),
            ResizeState::Diverged(message) => Found::Failure(Cause::Diverged { pod, message }),
            ResizeState::Failed(message) if timed && since >= FAILED_GRACE => {
                Found::Failure(Cause::ResizeFailed { pod, message: message.into() })
            }
            ResizeState::Deferred(message) if timed && since >= deferred_timeout => match on_deferred {
                OnDeferred::Fail => {
                    Found::Failure(Cause::DeferredTooLong { pod, message: message.into(), waited: since })
                }
                OnDeferred::Skip => Found::DeferredTooLong,
            },
            ResizeState::Pending | ResizeState::InProgress | ResizeState::Failed(_)
                if timed && waited >= resize_timeout =>
            {
                let state = if matches!(state, ResizeState::Pending) { "Pending" } else { "InProgress" }.to_owned();
                Found::Failure(Cause::ResizeTimeout { pod, state, waited })
            }
            ResizeState::Applied
                if timed && shown == PodState::Applied && since >= resize_timeout.saturating_add(min_ready) =>
            {
                Found::Failure(Cause::NotReady { pod, waited: since })
            }
            ResizeState::Applied
            | ResizeState::Pending
            | ResizeState::InProgress
            | ResizeState::Deferred(_)
            | ResizeState::Failed(_)
            | ResizeState::Foreign(_)
            | ResizeState::Gone(_) => Found::Fine,
        }
    }

    /// Waiting for room is not the resize's own time: its clock starts when the kubelet takes it up.
    fn restart_clock_after_deferred(&mut self, uid: &PodUid, state: &ResizeState, now: Timestamp) {
        let track = self.tracks.entry(uid.clone()).or_default();
        let was_deferred = matches!(track.shown, Some((PodState::Deferred, _)));
        if was_deferred && !matches!(state, ResizeState::Deferred(_)) {
            track.first_sent = Some(now);
        }
    }

    fn shown_forward(
        &mut self,
        uid: &PodUid,
        view: &PodView,
        state: &ResizeState,
        min_ready: Duration,
        now: Timestamp,
    ) -> (PodState, String) {
        let track = self.tracks.entry(uid.clone()).or_default();
        if *state == ResizeState::Applied && view.is_ready() {
            track.ready_since.get_or_insert(now);
        } else {
            track.ready_since = None;
        }
        if track.ready_since.is_some_and(|since| elapsed(since, now) >= min_ready) {
            (PodState::Ready, String::new())
        } else {
            plain(state)
        }
    }

    fn look_at_restoring(
        &mut self,
        uid: &PodUid,
        view: &PodView,
        state: &ResizeState,
        observation: &Observation<'_>,
        out: &mut Out,
    ) -> Found {
        let now = observation.now;
        let policy = &self.run.started.policy;
        let limit = match state {
            ResizeState::Deferred(_) => policy.deferred_timeout,
            ResizeState::Pending
            | ResizeState::InProgress
            | ResizeState::Infeasible(_)
            | ResizeState::Failed(_)
            | ResizeState::Applied
            | ResizeState::Diverged(_)
            | ResizeState::Foreign(_)
            | ResizeState::Gone(_) => policy.resize_timeout,
        };
        let waited = self.waited(uid, now);
        let over = observation.blind.is_none() && waited >= limit;
        let Some(intent) = self.run.intents.get(uid) else { return Found::Fine };
        let left = leftovers(&intent.baseline, view);
        let (shown, message) = match state {
            ResizeState::Applied if left.is_empty() => (PodState::Restored, String::new()),
            ResizeState::Applied => (PodState::NotRestored, left.join("; ")),
            ResizeState::Infeasible(_) | ResizeState::Diverged(_) => (PodState::NotRestored, plain(state).1),
            ResizeState::Pending
            | ResizeState::InProgress
            | ResizeState::Deferred(_)
            | ResizeState::Failed(_)
            | ResizeState::Foreign(_)
            | ResizeState::Gone(_) => {
                let (name, words) = plain(state);
                if over {
                    (PodState::NotRestored, format!("still {name:?} after {}s: {words}", waited.as_secs()))
                } else {
                    (name, words)
                }
            }
        };
        self.show(out, uid, Some(view), shown, message.clone(), now);
        if shown == PodState::NotRestored && !self.is_rolling_back() && !matches!(state, ResizeState::Applied) {
            return Found::Failure(Cause::ResizeFailed { pod: view.name.clone(), message });
        }
        Found::Fine
    }

    /// How long the present direction has been tried.
    fn waited(&self, uid: &PodUid, now: Timestamp) -> Duration {
        self.tracks.get(uid).and_then(|track| track.first_sent).map_or(Duration::ZERO, |sent| elapsed(sent, now))
    }

    /// A hard signal that the resizes of this run do not explain.
    fn ill(&self, uid: &PodUid, view: &PodView) -> Option<health::Unhealthy> {
        let intent = self.run.intents.get(uid)?;
        health::judge(view, &intent.restarts, &self.expected_restarts(intent, view))
    }

    /// One restart for each resize of the chain whose changes the container's `resizePolicy` answers with a restart.
    fn expected_restarts(&self, intent: &Intent, view: &PodView) -> Restarts {
        let mut expected = Restarts::new();
        for target in std::iter::once(&self.run.started.target).chain(&self.run.former) {
            for (name, block) in target {
                let Some(container) = view.containers.get(name.as_str()) else { continue };
                let before = intent.baseline.get(name).copied().unwrap_or_default();
                if container.restarts_for(&block.changes_from(&before)) {
                    *expected.entry(name.as_str().into()).or_default() += 1;
                }
            }
        }
        // A superseded resize was also put back before this one.
        let rounds = 1 + u32::try_from(self.run.former.len()).unwrap_or(u32::MAX - 1);
        for count in expected.values_mut() {
            *count = count.saturating_mul(rounds);
        }
        expected
    }
}

impl Track {
    /// The direction changed: what was remembered of the other one does not count any more.
    fn turn(&mut self, restoring: bool) {
        if self.restoring != restoring {
            let (shown, seen) = (self.shown.take(), self.seen.take());
            *self = Self { shown, seen, sending: self.sending, lost_at: self.lost_at, restoring, ..Self::default() };
        }
    }

    /// How long the view of the pod has not changed.
    fn quiet(&mut self, view: &PodView, now: Timestamp) -> Duration {
        match &self.seen {
            Some((version, since)) if *version == view.resource_version => elapsed(*since, now),
            _ => {
                self.seen = Some((view.resource_version.clone(), now));
                Duration::ZERO
            }
        }
    }
}

/// The state as it is shown, with the words of the kubelet.
fn plain(state: &ResizeState) -> (PodState, String) {
    match state {
        ResizeState::Pending => (PodState::Pending, String::new()),
        ResizeState::InProgress => (PodState::InProgress, String::new()),
        ResizeState::Deferred(message) => (PodState::Deferred, message.to_string()),
        ResizeState::Infeasible(message) => (PodState::Infeasible, message.to_string()),
        ResizeState::Failed(message) => (PodState::Failed, message.to_string()),
        ResizeState::Applied => (PodState::Applied, String::new()),
        ResizeState::Diverged(message) => (PodState::Diverged, message.clone()),
        ResizeState::Foreign(message) => (PodState::Foreign, message.clone()),
        ResizeState::Gone(message) => (PodState::Gone, (*message).to_owned()),
    }
}
