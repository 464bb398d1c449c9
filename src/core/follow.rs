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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::core::journal::{Append, Entry, Folded, Record, RunStarted, SCHEMA, TakenPod};
    use crate::core::policy::Policy;
    use crate::core::revision::Revision;
    use crate::core::rollout::event::PodState;
    use crate::core::rollout::outcome::{Conclusion, Ending, RunResult};
    use crate::core::testing;
    use crate::core::workload::WorkloadKind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn scenery() -> Scenery {
        let workload = WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        Scenery { workload, context: None, template: ContainerResources::new() }
    }

    fn write(record: Record, second: i64, entries: Vec<Entry>) -> Record {
        record.append(Append { schema: SCHEMA, at: at(second), by: "ana@laptop".into(), entries }).unwrap()
    }

    fn begun() -> Record {
        let started = RunStarted {
            run: 1,
            revision: Revision::try_from("a".repeat(64)).unwrap(),
            workload_uid: "w".into(),
            target: testing::containers(&[("app", "requests.cpu=25m")]),
            policy: Policy { steps: "1,100%".parse().unwrap(), ..Policy::default() },
            eligible: 2,
            reason: None,
            origin: "--set".into(),
            supersedes: None,
            program: "0".into(),
        };
        let record = Record::fold(Folded::default(), []).unwrap();
        let record = write(record, 0, vec![Entry::RunStarted(Box::new(started))]);
        write(record, 1, vec![taken(0)])
    }

    fn taken(step: usize) -> Entry {
        let uid = PodUid::new(&format!("uid-{step}"));
        let pod = TakenPod { uid, name: format!("web-{step}").into(), baseline: 0, restarts: BTreeMap::new() };
        let blocks = vec![testing::containers(&[("app", "requests.cpu=20m")])];
        Entry::Taken { step, wanted: 1, blocks, pods: vec![pod] }
    }

    fn seen(states: &[PodState]) -> Survey {
        let one = |(step, state): (usize, &PodState)| {
            let (name, message) = (format!("web-{step}").into(), String::new());
            let event = PodEvent { name, node: None, step, state: *state, message, restoring: false };
            (PodUid::new(&format!("uid-{step}")), event)
        };
        Survey { pods: states.iter().enumerate().map(one).collect(), waiting: None, result: None }
    }

    /// The kinds of the events, with the second and the step or pod they are about.
    fn told(follow: &mut Follow, record: &Record, seen: &Survey, now: i64) -> Vec<String> {
        let events = follow.next(&scenery(), record.run.as_ref().unwrap(), seen, at(now));
        let word = |(at, event): (Timestamp, Event)| {
            let what = match event {
                Event::Started(started) => format!("run {}", started.run),
                Event::StepStarted { step, wanted, pods, .. } => format!("step {step} {wanted} {}", pods.join(",")),
                Event::Pod(pod) => format!("{} {:?}", pod.name, pod.state),
                Event::StepAtTarget { step, .. } => format!("target {step}"),
                Event::StepPassed { step, .. } => format!("passed {step}"),
                Event::Result(_) => "result".to_owned(),
                Event::RollbackStarted { .. } | Event::Waiting { .. } | Event::Notice { .. } => "other".to_owned(),
            };
            format!("{}: {what}", at.as_second())
        };
        events.into_iter().map(word).collect()
    }

    #[test]
    fn the_story_so_far_and_then_only_what_is_new() {
        let mut follow = Follow::default();
        let record = begun();
        let first = told(&mut follow, &record, &seen(&[PodState::InProgress]), 5);
        assert_eq!(first, ["0: run 1", "1: step 0 1 web-0", "5: web-0 InProgress"]);
        assert_eq!(told(&mut follow, &record, &seen(&[PodState::InProgress]), 6), [""; 0]);

        let record = write(record, 7, vec![Entry::AtTarget { step: 0, pods: 1 }]);
        let record = write(record, 8, vec![Entry::Passed { step: 0 }]);
        let record = write(record, 8, vec![taken(1)]);
        let more = told(&mut follow, &record, &seen(&[PodState::Ready, PodState::Chosen]), 9);
        let want = ["7: target 0", "8: passed 0", "8: step 1 2 web-1", "9: web-0 Ready", "9: web-1 Chosen"];
        assert_eq!(more, want);
        assert!(!follow.is_over());

        let ending = Ending::ValidatedWithoutPersistence;
        let ended = Entry::Ended { ending: ending.clone(), not_restored: Vec::new() };
        let record = write(record, 10, vec![ended]);
        let result = RunResult {
            conclusion: Conclusion::Ended(ending),
            exit_code: 0,
            workload: scenery().workload,
            run: 1,
            revision: Revision::try_from("a".repeat(64)).unwrap(),
            pods: Vec::new(),
            born_with: ContainerResources::new(),
            next: Vec::new(),
        };
        let seen = Survey { result: Some(result), ..seen(&[PodState::Ready, PodState::Ready]) };
        assert_eq!(told(&mut follow, &record, &seen, 11), ["11: web-1 Ready", "11: result"]);
        assert!(follow.is_over());
    }

    #[test]
    fn time_does_not_go_back_when_the_record_is_of_a_clock_that_is_ahead() {
        let first = told(&mut Follow::default(), &begun(), &seen(&[PodState::Ready]), 0);
        assert_eq!(first, ["0: run 1", "0: step 0 1 web-0", "0: web-0 Ready"]);
    }
}
