//! Workloads, pods and records as they are found in practice: what the views of plans, status and history are tested
//! with. Compiled for tests only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::stories::Story;
use crate::core::journal::{Append, Entry, Folded, Record, RunStarted, SCHEMA, TakenPod};
use crate::core::pod::{PodUid, PodView, ResizeCondition};
use crate::core::policy::Policy;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::rollout::cause::Cause;
use crate::core::rollout::observation::{Observation, WorkloadSighting};
use crate::core::rollout::outcome::Ending;
use crate::core::status::{Operator, Status, status};
use crate::core::testing;
use crate::core::time::after;
use crate::core::workload::{WorkloadKind, WorkloadRef, WorkloadView};

pub const NO_ROOM: &str = "Node didn't have enough resource: cpu, requested: 250, used: 1900, capacity: 2000";

/// One value is changed, or two.
pub const ONE: &[(&str, &str)] = &[("app", "requests.cpu=25m")];
pub const TWO: &[(&str, &str)] = &[("app", "requests.cpu=25m,limits.memory=128Mi")];

pub fn at(seconds: u64) -> Timestamp {
    after("2026-03-01T10:00:00Z".parse().unwrap(), Duration::from_secs(seconds))
}

pub fn reference() -> WorkloadRef {
    WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "payments".into() }
}

pub fn workload() -> WorkloadView {
    WorkloadView {
        reference: reference(),
        uid: "w".into(),
        terminating: false,
        replicas: 11,
        template: testing::containers(&[("app", "requests.cpu=20m,requests.memory=64Mi,limits.memory=64Mi")]),
        template_hash: Some("abc".into()),
        pod_owners: BTreeSet::from(["rs-uid".to_owned()]),
        selector: String::new(),
        pod_labels: BTreeMap::new(),
        rivals: Vec::new(),
    }
}

/// Pods with the template's values, named as a ReplicaSet names them.
pub fn pods(count: usize) -> Vec<PodView> {
    let one = |n: usize| {
        let mut pod = testing::pod(&[("app", "requests.cpu=20m,requests.memory=64Mi,limits.memory=64Mi")]);
        (pod.name, pod.uid) = (Story::name(n), PodUid::new(&format!("uid-{n:04}")));
        pod.node = Some(format!("worker-{}", n % 7).into());
        pod.created_at = Some(at(0));
        pod
    };
    (0..count).map(one).collect()
}

/// The pod has what the recommendation wants, in every place.
pub fn bring_to_target(pod: &mut PodView, target: &[(&str, &str)]) {
    for (name, block) in testing::containers(target) {
        let container = pod.containers.get_mut(name.as_str()).unwrap();
        container.desired = container.desired.overlaid(&block);
        container.actual = Some(container.desired);
        container.allocated = Some(container.desired.requests);
    }
}

pub fn revision(digit: char) -> Revision {
    Revision::try_from(format!("{digit}f9a2c01de").chars().cycle().take(64).collect::<String>()).unwrap()
}

/// A record and how far it has been written.
pub struct Scribe {
    pub record: Record,
    pub now: u64,
}

impl Scribe {
    pub fn new() -> Self {
        Self { record: Record::fold(Folded::default(), []).unwrap(), now: 0 }
    }

    pub fn write(&mut self, entries: Vec<Entry>) {
        let append = Append { schema: SCHEMA, at: at(self.now), by: "ana@laptop".into(), entries };
        self.record = std::mem::take(&mut self.record).append(append).unwrap();
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now += seconds;
    }

    pub fn start(&mut self, digit: char, target: &[(&str, &str)], eligible: usize, reason: Option<&str>) {
        self.write(vec![Entry::RunStarted(Box::new(RunStarted {
            run: self.record.next_run_number(),
            revision: revision(digit),
            workload_uid: "w".into(),
            target: testing::containers(target),
            policy: Policy::default(),
            eligible,
            reason: reason.map(str::to_owned),
            origin: "payments.yaml".into(),
            supersedes: None,
            program: "0.1.0".into(),
        }))]);
    }

    pub fn take(&mut self, step: usize, pods: &[PodView]) {
        let names = self.record.run.as_ref().unwrap().started.target.clone();
        let blocks = vec![pods[0].desired_of(names.keys())];
        let taken = pods.iter().map(|pod| TakenPod {
            uid: pod.uid.clone(),
            name: pod.name.clone(),
            baseline: 0,
            restarts: BTreeMap::new(),
        });
        let pods = taken.collect::<Vec<_>>();
        self.write(vec![Entry::Taken { step, wanted: pods.len(), blocks, pods }]);
    }

    /// A step that goes well.
    pub fn step(&mut self, step: usize, pods: &[PodView], at_target: usize) {
        self.take(step, pods);
        self.pass(12);
        self.write(vec![Entry::AtTarget { step, pods: at_target }]);
        self.pass(60);
        self.write(vec![Entry::Passed { step }]);
    }

    pub fn end(&mut self, ending: Ending, not_restored: &[&str]) {
        let not_restored = not_restored.iter().map(|name| (*name).into()).collect();
        self.write(vec![Entry::Ended { ending, not_restored }]);
    }
}

/// A failed run and a good one, then one whose second step waits for a pod that is Deferred.
pub fn deferred(count: usize, target: &[(&str, &str)]) -> (Scribe, Vec<PodView>) {
    let (mut scribe, mut pods) = (Scribe::new(), pods(count));
    failed(&mut scribe, &pods[..2]);
    scribe.pass(600);
    let (first, second) = (count.div_ceil(10), count.div_ceil(4));
    scribe.start('3', target, count, Some("the nightly numbers"));
    scribe.step(0, &pods[..first], first);
    scribe.pass(1);
    scribe.take(1, &pods[first..second]);
    for pod in &mut pods[..second] {
        bring_to_target(pod, target);
    }
    let last = &mut pods[second - 1];
    last.containers.get_mut("app").unwrap().actual = Some(testing::block("requests.cpu=20m,limits.memory=64Mi"));
    last.resize_pending = Some(ResizeCondition {
        reason: "Deferred".into(),
        message: NO_ROOM.into(),
        observed_generation: Some(1),
        since: Some(at(scribe.now + 2)),
    });
    scribe.pass(95);
    (scribe, pods)
}

/// A run that failed, with its denial.
pub fn failed(scribe: &mut Scribe, pods: &[PodView]) {
    scribe.start('b', TWO, 11, None);
    scribe.take(0, pods);
    scribe.pass(3);
    let cause = Cause::Infeasible {
        pod: pods[0].name.clone(),
        message: "Node didn't have enough capacity: cpu, requested: 200000, capacity: 2000".into(),
    };
    scribe.write(vec![Entry::RollbackStarted { cause: cause.clone() }]);
    scribe.pass(4);
    let denied = Entry::Denied { revision: revision('b'), cause: cause.clone() };
    scribe.write(vec![denied, Entry::Ended { ending: Ending::RolledBack { cause }, not_restored: Vec::new() }]);
}

pub fn held() -> Operator {
    let identity = "ana@laptop:4711:0123".to_owned();
    Operator::Held { identity, since: Some(at(600)), renewed: None, silent: None }
}

pub fn picture(record: Record, pods: Vec<PodView>, operator: Operator, now: Timestamp) -> Status {
    let pods = pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
    let observation = Observation {
        now,
        pods: &pods,
        workload: &WorkloadSighting::Present(Box::new(workload())),
        answers: Vec::new(),
        blind: None,
        budget: crate::core::rollout::observation::Budget::Unlimited,
        command: None,
    };
    status(reference(), record, operator, 37, &observation)
}

/// Containers as the core wants them.
pub fn containers(list: &[(&str, &str)]) -> ContainerResources {
    testing::containers(list)
}

/// Every line fits the terminal.
pub fn assert_fits(text: &str, columns: usize) {
    for line in text.lines() {
        assert!(super::text::width(line) <= columns, "{} columns: {line}", super::text::width(line));
    }
}
