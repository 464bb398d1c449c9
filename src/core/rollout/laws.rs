//! Laws of the machine, against a small pure world: pods, a kubelet that may dawdle, a process that may die.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::effect::{Effect, Resize};
use super::observation::{Budget, Command, Observation, ResizeAnswer, WorkloadSighting};
use super::outcome::{Conclusion, Ending, Stop};
use super::{Rollout, step};
use crate::core::journal::{Append, Entry, Folded, Record, RunStarted, SCHEMA};
use crate::core::pod::{PodUid, PodView};
use crate::core::policy::Policy;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::testing::{containers, pod};
use crate::core::time::after;
use crate::core::workload::{WorkloadKind, WorkloadRef, WorkloadView};

const BEFORE: &[(&str, &str)] = &[("app", "requests.cpu=100m,requests.memory=1Gi,limits.memory=1Gi")];

/// The cluster, the record, and one process at a time.
struct World {
    pods: BTreeMap<PodUid, PodView>,
    workload: WorkloadSighting,
    now: Timestamp,
    /// What was written, in order: all that survives a process.
    appends: Vec<Append>,
    process: Option<Rollout>,
    answers: Vec<(PodUid, ResizeAnswer)>,
    born: usize,
    conclusion: Option<Conclusion>,
}

fn workload() -> WorkloadRef {
    WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() }
}

fn new_pod(n: usize) -> PodView {
    let mut view = pod(BEFORE);
    view.uid = PodUid::new(&format!("uid-{n}"));
    view.name = format!("web-{n}").into();
    view
}

impl World {
    fn new(pods: usize, policy: Policy) -> Self {
        let target = containers(&[("app", "requests.cpu=200m")]);
        let view = WorkloadView {
            reference: workload(),
            uid: "workload-uid".into(),
            terminating: false,
            replicas: pods as u64,
            template: containers(BEFORE),
            template_hash: None,
            pod_owners: ["rs-uid".to_owned()].into(),
            selector: String::new(),
            pod_labels: BTreeMap::new(),
            rivals: Vec::new(),
        };
        let mut world = Self {
            pods: (0..pods).map(|n| (PodUid::new(&format!("uid-{n}")), new_pod(n))).collect(),
            workload: WorkloadSighting::Present(Box::new(view)),
            now: "2026-12-01T08:00:00Z".parse().unwrap(),
            appends: Vec::new(),
            process: None,
            answers: Vec::new(),
            born: pods,
            conclusion: None,
        };
        world.start(1, target, policy, None);
        world
    }

    fn start(&mut self, run: u32, target: ContainerResources, policy: Policy, supersedes: Option<u32>) {
        let revision = Revision::try_from(format!("{run:064x}")).unwrap();
        self.write(vec![Entry::RunStarted(Box::new(RunStarted {
            run,
            revision,
            workload_uid: "workload-uid".into(),
            target,
            policy,
            eligible: self.pods.len(),
            reason: None,
            origin: "--set".into(),
            supersedes,
            program: "test".into(),
        }))]);
    }

    fn write(&mut self, entries: Vec<Entry>) {
        self.appends.push(Append { schema: SCHEMA, at: self.now, by: "ann@test".into(), entries });
    }

    fn record(&self) -> Record {
        Record::fold(Folded::default(), self.appends.clone()).unwrap()
    }

    /// One look of the process; a new process begins where the record stands.
    fn look(&mut self, command: Option<Command>) {
        let rollout = match self.process.take() {
            Some(rollout) => rollout,
            None => Rollout::new(workload(), self.record().run.unwrap(), 37),
        };
        let observation = Observation {
            now: self.now,
            pods: &self.pods,
            workload: &self.workload,
            answers: std::mem::take(&mut self.answers),
            blind: None,
            budget: Budget::Unlimited,
            command,
        };
        let outcome = step(rollout, &observation);
        for effect in outcome.effects {
            match effect {
                Effect::Record(entries) => self.write(entries),
                Effect::Resize(resize) => self.patch(&resize),
            }
        }
        // A resumed run cannot differ from one that never stopped.
        let mut live = outcome.rollout.run.clone();
        let mut folded = self.record().run.unwrap();
        live.last_entry_at = Timestamp::UNIX_EPOCH;
        folded.last_entry_at = Timestamp::UNIX_EPOCH;
        assert_eq!(live, folded);
        self.conclusion = outcome.conclusion;
        self.process = Some(outcome.rollout);
        self.check();
    }

    fn check(&self) {
        let run = self.record().run.unwrap();
        for (uid, pod) in &self.pods {
            assert!(pod.generation == 1 || run.intents.contains_key(uid), "{} was patched without an intent", pod.name);
            let moving = pod.observed_generation != Some(pod.generation);
            assert!(!moving || run.intents.contains_key(uid));
        }
        let moving = self.pods.values().filter(|pod| pod.observed_generation != Some(pod.generation)).count();
        let most = run.started.policy.max_in_flight;
        assert!(moving <= most, "{moving} pods are on their way, {most} are allowed");
        for intent in run.intents.values() {
            assert_eq!(*intent.baseline, containers(BEFORE), "{}", intent.name);
        }
    }

    /// The server takes the patch; the answer is on its way.
    fn patch(&mut self, resize: &Resize) {
        let Some(pod) = self.pods.get_mut(&resize.uid) else {
            self.answers.push((resize.uid.clone(), ResizeAnswer::Gone));
            return;
        };
        for (name, changes) in &resize.changes {
            let container = pod.containers.get_mut(name.as_str()).unwrap();
            container.desired = container.desired.overlaid(changes);
        }
        pod.generation += 1;
        pod.resource_version = format!("{}", pod.generation * 10).into();
        self.answers.push((resize.uid.clone(), ResizeAnswer::Accepted));
    }

    /// The kubelet of the `n`th pod does what it was asked.
    fn kubelet(&mut self, n: usize) {
        let count = self.pods.len().max(1);
        if let Some(pod) = self.pods.values_mut().nth(n % count) {
            pod.observed_generation = Some(pod.generation);
            for container in pod.containers.values_mut() {
                container.allocated = Some(container.desired.requests);
                container.actual = Some(container.desired);
            }
        }
    }

    /// The `n`th pod goes, and another one comes from the template.
    fn replace(&mut self, n: usize) {
        let uid = self.pods.keys().nth(n % self.pods.len().max(1)).cloned();
        if let Some(uid) = uid {
            self.pods.remove(&uid);
        }
        let view = new_pod(self.born);
        self.pods.insert(view.uid.clone(), view);
        self.born += 1;
    }

    fn pass(&mut self, time: Duration) {
        self.now = after(self.now, time);
    }

    /// Everything works from now on, until the run ends.
    fn finish(&mut self) {
        for _ in 0..2_000 {
            if matches!(self.conclusion, Some(Conclusion::Ended(_))) {
                return;
            }
            for n in 0..self.pods.len() {
                self.kubelet(n);
            }
            self.pass(Duration::from_secs(1));
            self.look(None);
        }
        panic!("the run did not end: {:?}", self.record().run.unwrap().stage);
    }

    fn all_ask_for(&self, cpu: &str) -> bool {
        let want = containers(&[("app", &format!("requests.cpu={cpu},requests.memory=1Gi,limits.memory=1Gi"))]);
        self.pods.values().all(|pod| {
            pod.containers["app"].desired == want["app"] && pod.containers["app"].actual == Some(want["app"])
        })
    }
}

fn quick(max_in_flight: usize) -> Policy {
    Policy {
        steps: "10%,25%,100%".parse().unwrap(),
        pause: Duration::from_secs(3),
        min_ready: Duration::from_secs(1),
        max_in_flight,
        resize_timeout: Duration::from_hours(1),
        ..Policy::default()
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Look,
    Kubelet(usize),
    Time(u64),
    Die,
    DieWithAnswersLost,
    Replace(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => Just(Happening::Look),
        4 => (0usize..16).prop_map(Happening::Kubelet),
        2 => (1u64..5).prop_map(Happening::Time),
        1 => Just(Happening::Die),
        1 => Just(Happening::DieWithAnswersLost),
        1 => (0usize..16).prop_map(Happening::Replace),
    ]
}

impl World {
    fn happen(&mut self, happening: &Happening) {
        if matches!(self.conclusion, Some(Conclusion::Ended(_))) {
            return;
        }
        match happening {
            Happening::Look => self.look(None),
            Happening::Kubelet(n) => self.kubelet(*n),
            Happening::Time(seconds) => self.pass(Duration::from_secs(*seconds)),
            Happening::Die => self.process = None,
            Happening::DieWithAnswersLost => {
                self.process = None;
                self.answers.clear();
            }
            Happening::Replace(n) => self.replace(*n),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_happens_the_run_ends_at_target(
        pods in 1usize..12,
        max_in_flight in 1usize..4,
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let mut world = World::new(pods, quick(max_in_flight));
        for one in &happenings {
            world.happen(one);
        }
        // The last pods to come may be born after the last step was full: they are told, not chased.
        let born = world.born;
        world.finish();
        prop_assert_eq!(world.conclusion.clone(), Some(Conclusion::Ended(Ending::ValidatedWithoutPersistence)));
        prop_assert!(born > pods || world.all_ask_for("200m"));
    }

    #[test]
    fn a_rollback_at_any_moment_restores_everything(
        pods in 1usize..12,
        happenings in proptest::collection::vec(happening(), 0..40),
        more in proptest::collection::vec(happening(), 0..20),
    ) {
        let mut world = World::new(pods, quick(4));
        for one in &happenings {
            world.happen(one);
        }
        if world.conclusion.is_none() {
            world.look(Some(Command::RollBack { by: "ann@test".into() }));
            for one in &more {
                world.happen(one);
            }
            world.finish();
            let restored = matches!(world.conclusion, Some(Conclusion::Ended(Ending::RolledBack { .. })));
            prop_assert!(restored, "{:?}", world.conclusion);
            prop_assert!(world.all_ask_for("100m"));
        }
    }

    #[test]
    fn supersession_at_any_moment_keeps_the_first_baselines(
        pods in 1usize..12,
        happenings in proptest::collection::vec(happening(), 0..40),
        undo in any::<bool>(),
    ) {
        let mut world = World::new(pods, quick(4));
        for one in &happenings {
            world.happen(one);
        }
        if world.conclusion.is_none() {
            world.process = None;
            world.answers.clear();
            let target = containers(&[("app", "requests.cpu=300m")]);
            world.start(2, target, quick(4), Some(1));
            if undo {
                world.look(None);
                world.look(Some(Command::RollBack { by: "ann@test".into() }));
            }
            world.finish();
            let cpu = if undo { "100m" } else { "300m" };
            prop_assert!(world.all_ask_for(cpu));
        }
    }
}

#[test]
fn an_interrupt_waits_for_answers_and_starts_nothing() {
    let mut world = World::new(5, quick(4));
    world.look(None);
    assert_eq!(world.answers.len(), 1, "the first step patches one pod");
    let held = std::mem::take(&mut world.answers);
    world.look(Some(Command::Interrupt { signal: 2 }));
    assert_eq!(world.conclusion, None, "a patch is not answered yet");
    world.answers = held;
    world.look(None);
    assert_eq!(world.conclusion, Some(Conclusion::Stopped(Stop::Interrupted { signal: 2 })));
    assert_eq!(world.record().run.unwrap().stopped, Some(Stop::Interrupted { signal: 2 }));
}

#[test]
fn no_time_runs_out_while_the_server_does_not_answer() {
    let mut world = World::new(5, Policy { resize_timeout: Duration::from_secs(10), ..quick(4) });
    world.look(None);
    world.pass(Duration::from_hours(1));
    let rollout = world.process.take().unwrap();
    let observation = Observation {
        now: world.now,
        pods: &world.pods,
        workload: &world.workload,
        answers: Vec::new(),
        blind: Some((world.now, "connection refused".into())),
        budget: Budget::Unlimited,
        command: None,
    };
    let outcome = step(rollout, &observation);
    assert_eq!(outcome.effects, []);
    assert_eq!(outcome.conclusion, None);
}
