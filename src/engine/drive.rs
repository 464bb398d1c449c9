//! The loop: observe, step, record the intent, perform, observe.
//!
//! One task. Requests run beside the loop as futures and come back as inputs; only the record is waited for, because
//! nothing may be done before it is written.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::hold::{Hold, Renewed};
use super::journal::{Appended, Journal};
use super::sighting::Sighting;
use super::{EngineError, Report};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError, PodChange, Resized, WriteMode};
use crate::core::lock::readable;
use crate::core::pod::{PodUid, PodView};
use crate::core::rollout::effect::{Effect, Resize};
use crate::core::rollout::event::Event;
use crate::core::rollout::observation::{Budget, Command, Observation, ResizeAnswer};
use crate::core::rollout::outcome::{RunResult, Stop};
use crate::core::rollout::waiting::{WaitReason, WaitingOn};
use crate::core::rollout::{Rollout, Step, step};
use crate::core::time::elapsed;
use crate::core::workload::{WorkloadRef, WorkloadView};
use crate::store::{Store, StoreError, Stored, Version};

/// How often the loop looks although nothing was heard: timeouts are judged on looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the workload is read again; sooner when pods of an unknown owner appear.
const WORKLOAD_EVERY: Duration = Duration::from_secs(10);

/// How long the controller of `PodDisruptionBudget`s may take to count a pod that was sent away.
const BUDGET_SETTLES: Duration = Duration::from_secs(2);

/// How often the record is read for wishes of other operators.
const RECORD_EVERY: Duration = Duration::from_secs(5);

/// What the loop works with.
pub struct Drive<'a, C, S> {
    pub cluster: &'a C,
    pub store: &'a S,
    pub clock: &'a dyn Clock,
    /// Told to the machine with its first look.
    pub first: Option<Command>,
    pub commands: mpsc::UnboundedReceiver<Command>,
    /// The end of `--timeout`.
    pub deadline: Option<Instant>,
}

/// Something that came back.
enum Input {
    Resized(PodUid, ResizeAnswer, Option<PodView>),
    /// After a lost answer: the pod as it is now, before anything is sent again.
    ReadAgain(PodUid, String, Result<Option<PodView>, ClusterError>),
    Renewed(Hold, Renewed),
    /// With what the budgets allow, where that could be read.
    Workload(Box<Result<Option<WorkloadView>, ClusterError>>, Option<Budget>),
    /// With the version that was current when it was asked for.
    Record(Version, Box<Result<Stored, StoreError>>),
}

/// Something that is done beside the loop every now and then, never twice at once.
struct Chore {
    due: Instant,
    busy: bool,
}

impl Chore {
    const fn at(due: Instant) -> Self {
        Self { due, busy: false }
    }

    /// Whether to begin now.
    fn begins(&mut self, now: Instant) -> bool {
        let begins = !self.busy && now >= self.due;
        self.busy |= begins;
        begins
    }

    fn ends(&mut self, again_after: Duration) {
        *self = Self::at(Instant::now() + again_after);
    }
}

struct Loop<'a, C, S> {
    cluster: &'a C,
    store: &'a S,
    clock: &'a dyn Clock,
    reference: WorkloadRef,
    sighting: Sighting,
    inputs: FuturesUnordered<BoxFuture<'a, Input>>,
    answers: Vec<(PodUid, ResizeAnswer)>,
    command: Option<Command>,
    budget: Budget,
    hold: Hold,
    renewal: Chore,
    /// The last renewal was not answered: since when, and why. The watch may be fine all the same.
    unanswered: Option<(jiff::Timestamp, String)>,
    workload: Chore,
    record: Chore,
    deadline: Option<Instant>,
    wake_at: Option<Instant>,
    /// The record went with its workload: nothing is written or patched any more, the pods are watched to their end.
    record_gone: bool,
    /// This process may not go on, and may not write either.
    stop: Option<Stop>,
    waiting: Option<WaitingOn>,
}

/// Drives a run until it ends or this process has to stop. The hold comes back to be released.
pub async fn drive<C: Cluster + Sync, S: Store + Sync>(
    drive: Drive<'_, C, S>,
    mut rollout: Rollout,
    workload: WorkloadView,
    journal: &mut Journal,
    hold: Hold,
    report: Report<'_>,
) -> Result<(RunResult, Hold), EngineError> {
    let Drive { cluster, store, clock, first, mut commands, deadline } = drive;
    let mut pods = cluster.watch(&workload);
    let mut state = Loop::new(cluster, store, clock, workload, hold, deadline);
    state.command = first;
    loop {
        state.wait(&mut pods, &mut commands, journal).await;
        if let Some(stop) = state.stop.take() {
            let result = rollout.stopped(stop, &state.observation(None, Vec::new()));
            report(clock.now(), &Event::Result(Box::new(result.clone())));
            return Ok((result, state.hold));
        }
        if !state.sighting.listed {
            state.tell_waiting(state.blindness(), report);
            continue;
        }
        let (command, answers) = (state.command.take(), std::mem::take(&mut state.answers));
        let outcome = step(rollout, &state.observation(command, answers));
        let Step { rollout: next, effects, events, waiting, wake_at, conclusion } = outcome;
        rollout = next;
        if !state.perform(effects, journal, report).await? {
            continue;
        }
        for event in &events {
            report(clock.now(), event);
        }
        if conclusion.is_some()
            && let Some(Event::Result(result)) = events.into_iter().next_back()
        {
            return Ok((*result, state.hold));
        }
        state.tell_waiting(waiting, report);
        state.wake_at = wake_at.map(|at| Instant::now() + elapsed(clock.now(), at));
    }
}

impl<'a, C: Cluster + Sync, S: Store + Sync> Loop<'a, C, S> {
    fn new(
        cluster: &'a C,
        store: &'a S,
        clock: &'a dyn Clock,
        workload: WorkloadView,
        hold: Hold,
        deadline: Option<Instant>,
    ) -> Self {
        let now = Instant::now();
        Self {
            cluster,
            store,
            clock,
            reference: workload.reference.clone(),
            sighting: Sighting::new(workload),
            inputs: FuturesUnordered::new(),
            answers: Vec::new(),
            command: None,
            budget: Budget::Unknown,
            renewal: Chore::at(hold.next_renewal()),
            unanswered: None,
            hold,
            workload: Chore::at(now),
            record: Chore::at(now + RECORD_EVERY),
            deadline,
            wake_at: None,
            record_gone: false,
            stop: None,
            waiting: None,
        }
    }

    /// Waits for the next thing to happen, then takes in everything else that is ready: one look for many changes.
    async fn wait(
        &mut self,
        pods: &mut BoxStream<'static, PodChange>,
        commands: &mut mpsc::UnboundedReceiver<Command>,
        journal: &mut Journal,
    ) {
        self.ask(journal);
        let until = self.next_look();
        tokio::select! {
            biased;
            Some(command) = commands.recv() => self.command = Some(command),
            Some(input) = self.inputs.next(), if !self.inputs.is_empty() => self.note(input, journal),
            Some(change) = pods.next() => self.sighting.note(change, self.clock.now()),
            () = tokio::time::sleep_until(until) => {}
        }
        while let Some(Some(input)) = self.inputs.next().now_or_never() {
            self.note(input, journal);
        }
        while let Some(Some(change)) = pods.next().now_or_never() {
            self.sighting.note(change, self.clock.now());
        }
        if let Some((_, by)) = &journal.record.wish {
            self.command.get_or_insert(Command::Supersede { by: by.clone() });
        }
        if let Some(message) = self.sighting.refused.take() {
            self.stop = Some(Stop::Refused { message });
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.deadline = None;
            self.command = Some(Command::TimedOut);
        }
    }

    fn next_look(&self) -> Instant {
        let look = Instant::now() + LOOK_EVERY;
        [self.wake_at, self.deadline].into_iter().flatten().fold(look, Instant::min)
    }

    /// Starts the reads and renewals that are due.
    fn ask(&mut self, journal: &Journal) {
        let now = Instant::now();
        let (cluster, store) = (self.cluster, self.store);
        if self.renewal.begins(now) {
            let mut hold = self.hold.clone();
            self.inputs.push(
                async move {
                    let renewed = hold.renew(store).await;
                    Input::Renewed(hold, renewed)
                }
                .boxed(),
            );
        }
        if self.sighting.has_new_stranger() {
            self.workload.due = now;
        }
        if self.workload.begins(now) {
            let (reference, workload) = (self.reference.clone(), self.sighting.known_workload());
            self.inputs.push(
                async move {
                    let seen = cluster.workload(&reference).await;
                    let of = seen.as_ref().ok().cloned().flatten().or(workload);
                    let budget = match of {
                        Some(workload) => cluster.budget(&workload).await.ok(),
                        None => None,
                    };
                    Input::Workload(Box::new(seen), budget)
                }
                .boxed(),
            );
        }
        if !self.record_gone && self.record.begins(now) {
            let (subject, version) = (journal.subject.clone(), journal.version().clone());
            self.inputs.push(async move { Input::Record(version, Box::new(store.read(&subject).await)) }.boxed());
        }
    }

    fn note(&mut self, input: Input, journal: &mut Journal) {
        match input {
            Input::Resized(uid, answer, pod) => {
                if let Some(pod) = pod {
                    self.sighting.see(pod);
                }
                self.answers.push((uid, answer));
            }
            Input::ReadAgain(uid, message, read) => {
                if let Ok(pod) = read {
                    self.sighting.see_read(&uid, pod);
                }
                self.answers.push((uid, ResizeAnswer::Lost { message }));
            }
            Input::Renewed(hold, renewed) => self.note_renewed(hold, renewed),
            Input::Workload(seen, budget) => {
                self.workload.ends(WORKLOAD_EVERY);
                if let Some(budget) = budget {
                    self.budget = budget;
                }
                if let Ok(workload) = *seen {
                    self.sighting.see_workload(workload);
                    if self.record_gone && self.sighting.known_workload().is_some() {
                        let message = "the record of the run was removed while it worked".to_owned();
                        self.stop = Some(Stop::Refused { message });
                    }
                }
            }
            Input::Record(version, read) => {
                self.record.ends(RECORD_EVERY);
                // A record that was read before our own last write says nothing.
                if let Ok(stored) = *read
                    && version == *journal.version()
                {
                    match journal.take_in(stored) {
                        Appended::Done => {}
                        Appended::Lost => self.stop = Some(lost_to_somebody()),
                        Appended::Vanished => self.note_vanished(),
                    }
                }
            }
        }
    }

    /// The record is gone. Either its workload is, or somebody removed the record under us.
    fn note_vanished(&mut self) {
        self.record_gone = true;
        self.workload.due = Instant::now();
    }

    fn note_renewed(&mut self, hold: Hold, renewed: Renewed) {
        self.hold = hold;
        let next = match renewed {
            Renewed::Yes => {
                self.unanswered = None;
                self.hold.next_renewal()
            }
            Renewed::Unknown(message) => {
                let now = self.clock.now();
                self.unanswered.get_or_insert((now, message));
                Instant::now() + LOOK_EVERY
            }
            Renewed::Lost(holder) => {
                self.stop = Some(Stop::LostLock { holder: readable(&holder) });
                Instant::now() + LOOK_EVERY
            }
        };
        self.renewal = Chore::at(next);
    }

    /// What the core is told. A hold that may have run out counts as blindness: nothing new is started.
    fn observation(&self, command: Option<Command>, answers: Vec<(PodUid, ResizeAnswer)>) -> Observation<'_> {
        let unsafe_hold = (!self.hold.is_safe())
            .then(|| (self.clock.now(), "the lease could not be renewed for too long".to_owned()));
        Observation {
            now: self.clock.now(),
            pods: &self.sighting.pods,
            workload: &self.sighting.workload,
            answers,
            blind: self.sighting.blind.clone().or_else(|| self.unanswered.clone()).or(unsafe_hold),
            budget: self.budget.clone(),
            command,
        }
    }

    fn blindness(&self) -> Option<WaitingOn> {
        let (since, message) = self.sighting.blind.clone()?;
        Some(WaitingOn { reason: WaitReason::Cluster { message }, since, until: None })
    }

    fn tell_waiting(&mut self, waiting: Option<WaitingOn>, report: Report<'_>) {
        if waiting != self.waiting {
            report(self.clock.now(), &Event::Waiting { on: waiting.clone() });
            self.waiting = waiting;
        }
    }

    /// Performs effects in order. `false`: the record is somebody else's now, and nothing was done.
    async fn perform(
        &mut self,
        effects: Vec<Effect>,
        journal: &mut Journal,
        report: Report<'_>,
    ) -> Result<bool, EngineError> {
        for effect in effects {
            match effect {
                Effect::Record(_) if self.record_gone => {}
                Effect::Resize(resize) if self.record_gone => self.answers.push((resize.uid, ResizeAnswer::Gone)),
                Effect::Record(entries) => {
                    let (now, store) = (self.clock.now(), self.store);
                    let mut told = false;
                    let trouble = |error: &StoreError| {
                        if !std::mem::replace(&mut told, true) {
                            let reason = WaitReason::Cluster { message: error.to_string() };
                            let on = Some(WaitingOn { reason, since: now, until: None });
                            report(now, &Event::Waiting { on });
                        }
                    };
                    match journal.append(store, entries, now, trouble).await? {
                        Appended::Done => {}
                        Appended::Lost => {
                            self.stop = Some(lost_to_somebody());
                            return Ok(false);
                        }
                        Appended::Vanished => self.note_vanished(),
                    }
                    self.record.due = Instant::now() + RECORD_EVERY;
                }
                // A lease that ran out while the record was written is another operator's to take.
                Effect::Resize(resize) if !self.hold.is_safe() => {
                    let message = "the lease has to be renewed first".to_owned();
                    self.answers.push((resize.uid, ResizeAnswer::Busy { message }));
                }
                Effect::Resize(resize) => self.send(resize),
            }
        }
        Ok(true)
    }

    fn send(&mut self, resize: Resize) {
        if resize.restarts && self.budget != Budget::Unlimited {
            // What the budgets allow is not known any more until their controller has counted this pod out.
            self.budget = Budget::Unknown;
            self.workload.due = self.workload.due.min(Instant::now() + BUDGET_SETTLES);
        }
        let (cluster, namespace) = (self.cluster, self.reference.namespace.clone());
        self.inputs.push(
            async move {
                let Resized { answer, pod } = cluster.resize(&namespace, &resize, WriteMode::Real).await;
                match answer {
                    ResizeAnswer::Lost { message } => loop {
                        match cluster.pod(&namespace, &resize.name).await {
                            // Nothing is sent again before the pod was read.
                            Err(ClusterError::Unknown { .. }) => tokio::time::sleep(LOOK_EVERY).await,
                            read => break Input::ReadAgain(resize.uid, message, read),
                        }
                    },
                    answer => Input::Resized(resize.uid, answer, pod),
                }
            }
            .boxed(),
        );
    }
}

/// Who it was stands in the record; this process may not even be able to read it.
fn lost_to_somebody() -> Stop {
    Stop::LostLock { holder: "another operator".to_owned() }
}
