//! Following a run that somebody else drives: from one picture to the next, the events in between. So the readers of a
//! run's own events (live view, plain lines) show it to whoever only watches.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::journal::{Fate, Run, Stage, StepRecord};
use super::pod::PodUid;
use super::resources::ContainerResources;
use super::rollout::event::{Event, Level, PodEvent, Started};
use super::rollout::outcome::Stop;
use super::rollout::survey::Survey;
use super::rollout::waiting::WaitingOn;
use super::share::Share;
use super::workload::WorkloadRef;

/// What was told so far.
#[derive(Debug, Default)]
pub struct Follow {
    run: Option<u32>,
    steps: Vec<StepRecord>,
    pods: BTreeMap<PodUid, PodEvent>,
    waiting: Option<WaitingOn>,
    rolling_back: bool,
    stopped: Option<Stop>,
    ended: bool,
}

/// What does not change while a run is followed.
#[derive(Clone, Debug)]
pub struct Scenery {
    pub workload: WorkloadRef,
    pub context: Option<String>,
    pub template: ContainerResources,
}

impl Follow {
    /// The result has been told.
    pub const fn is_over(&self) -> bool {
        self.ended
    }

    /// The events since the last picture, each with its time: the record's for what it dates, else `now`.
    pub fn next(&mut self, scenery: &Scenery, run: &Run, seen: &Survey, now: Timestamp) -> Vec<(Timestamp, Event)> {
        let mut events = Vec::new();
        if self.run != Some(run.started.run) {
            *self = Self { run: Some(run.started.run), ..Self::default() };
            events.push((run.at, Event::Started(Box::new(started(scenery, run)))));
        }
        self.tell_steps(run, now, &mut events);
        if let Stage::RollingBack { cause, since } = &run.stage
            && !self.rolling_back
        {
            self.rolling_back = true;
            let pods = run.intents.values().filter(|intent| intent.fate != Fate::Foreign).count();
            events.push((*since, Event::RollbackStarted { cause: cause.clone(), pods }));
        }
        for (uid, pod) in &seen.pods {
            if self.pods.get(uid) != Some(pod) {
                self.pods.insert(uid.clone(), pod.clone());
                events.push((now, Event::Pod(pod.clone())));
            }
        }
        if run.stopped != self.stopped {
            self.stopped.clone_from(&run.stopped);
            if let (Some(stop), false) = (&run.stopped, run.is_ended()) {
                events.push((now, notice(stop)));
            }
        }
        if seen.waiting != self.waiting {
            self.waiting.clone_from(&seen.waiting);
            events.push((now, Event::Waiting { on: seen.waiting.clone() }));
        }
        if let Some(result) = &seen.result
            && !self.ended
        {
            self.ended = true;
            events.push((now, Event::Result(Box::new(result.clone()))));
        }
        // A reader must not see time go back; the record's times may be of another clock.
        let mut latest = Timestamp::MIN;
        for (at, _) in &mut events {
            latest = latest.max((*at).min(now));
            *at = latest;
        }
        events
    }

    fn tell_steps(&mut self, run: &Run, now: Timestamp, events: &mut Vec<(Timestamp, Event)>) {
        for record in &run.steps {
            let told = self.steps.iter().find(|told| told.step == record.step).cloned();
            let share = share(run, record.step);
            let new = run.intents.iter().filter(|(uid, intent)| {
                intent.fate == Fate::Taken { step: record.step } && !self.pods.contains_key(*uid)
            });
            let pods = new.map(|(_, intent)| intent.name.clone()).collect::<Vec<_>>();
            if told.is_none() || !pods.is_empty() {
                let eligible = run.started.eligible;
                let wanted = share.of(eligible);
                let at = if told.is_some() { now } else { record.started };
                events.push((at, Event::StepStarted { step: record.step, share, wanted, eligible, pods }));
            }
            if let Some(at) = record.at_target
                && told.as_ref().is_none_or(|told| told.at_target.is_none())
            {
                events.push((at, Event::StepAtTarget { step: record.step, pods: record.pods }));
            }
            if let Some(at) = record.passed
                && told.as_ref().is_none_or(|told| told.passed.is_none())
            {
                events.push((at, Event::StepPassed { step: record.step, share, pods: record.pods }));
            }
        }
        self.steps.clone_from(&run.steps);
    }
}

fn share(run: &Run, step: usize) -> Share {
    let shares = run.started.policy.steps.shares();
    shares.get(step).or(shares.last()).copied().unwrap_or(Share::Percent(100))
}

fn started(scenery: &Scenery, run: &Run) -> Started {
    Started {
        workload: scenery.workload.clone(),
        run: run.started.run,
        revision: run.started.revision.clone(),
        context: scenery.context.clone(),
        operator: run.by.clone(),
        resumed: false,
        supersedes: run.started.supersedes,
        steps: run.started.policy.steps.shares().to_vec(),
        eligible: run.started.eligible,
        refused: Vec::new(),
        target: run.started.target.clone(),
        template: scenery.template.clone(),
    }
}

fn notice(stop: &Stop) -> Event {
    let why = match stop {
        Stop::Interrupted { signal } => format!("by signal {signal}"),
        Stop::TimedOut => "by --timeout".to_owned(),
        Stop::SupersedeWished { by } => format!("for {by}, who takes over"),
        Stop::LostLock { holder } => format!("because {holder} holds the workload"),
        Stop::Refused { message } => format!("because the cluster refused it: {message}"),
    };
    Event::Notice { level: Level::Warning, message: format!("its process stopped {why}; the run can be resumed") }
}
