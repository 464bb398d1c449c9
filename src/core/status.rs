//! The picture of a workload for somebody who only reads: who holds it, where its run stands, and for each pod what the
//! template gives, what the spec asks for, what the kubelet granted and what the runtime has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::journal::{Record, Run, Stage};
use super::lock::LeaseView;
use super::pod::{ContainerView, PodUid, PodView};
use super::resources::{ContainerResources, Key};
use super::rollout::event::{PodEvent, PodState};
use super::rollout::observation::{Observation, WorkloadSighting};
use super::rollout::outcome::{Ending, Stop};
use super::rollout::survey::{Survey, survey};
use super::time::elapsed;
use super::workload::WorkloadRef;

/// Everything that is known of a workload at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    pub workload: WorkloadRef,
    /// Why the workload is not there (any more), in words.
    pub gone: Option<String>,
    pub operator: Operator,
    /// There is a record of an earlier workload of this name, which is gone. It counts for nothing.
    pub foreign_record: bool,
    pub record: Record,
    pub survey: Option<Survey>,
    /// The values that are shown of each pod, in this order: those of the recommendation, and all that differ anywhere.
    pub values: Vec<(String, Key)>,
    /// Pods of the run first, in the order of its steps, then the others; by name.
    pub pods: Vec<PodStatus>,
    /// What pods born from the template get instead of the recommendation.
    pub born_with: ContainerResources,
}

/// Who works on a workload, as its lease says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operator {
    Nobody,
    /// `silent`: for longer than the lease lasts, as far as clocks can be compared. It may have died.
    Held {
        identity: String,
        since: Option<Timestamp>,
        renewed: Option<Timestamp>,
        silent: Option<Duration>,
    },
    /// The lease could not be read.
    Unknown(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodStatus {
    pub name: Box<str>,
    pub uid: PodUid,
    pub node: Option<Box<str>>,
    pub created_at: Option<Timestamp>,
    /// As the run sees it; `None` for a pod that the run did not touch.
    pub in_run: Option<PodEvent>,
    /// In the order of `Status::values`.
    pub drift: Vec<Drift>,
}

/// One value of a pod, wherever it is written: millicores or bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Drift {
    pub template: Option<u64>,
    pub spec: Option<u64>,
    pub allocated: Option<u64>,
    pub actual: Option<u64>,
}

impl Drift {
    /// A pod that replaces this one is born with another value.
    pub fn is_lost_when_replaced(&self) -> bool {
        self.spec != self.template
    }
}

impl PodStatus {
    pub fn is_lost_when_replaced(&self) -> bool {
        self.drift.iter().any(Drift::is_lost_when_replaced)
    }

    pub fn state(&self) -> Option<PodState> {
        self.in_run.as_ref().map(|pod| pod.state)
    }
}

impl Operator {
    pub fn of(lease: Option<LeaseView>, now: Timestamp) -> Self {
        let Some(LeaseView { holder: Some(identity), duration, acquired_at, renewed_at, .. }) = lease else {
            return Self::Nobody;
        };
        let silent = renewed_at.map(|at| elapsed(at, now)).filter(|silent| *silent > duration);
        Self::Held { identity, since: acquired_at, renewed: renewed_at, silent }
    }

    /// Somebody works on it, as far as can be told.
    pub const fn is_at_work(&self) -> bool {
        matches!(self, Self::Held { silent: None, .. })
    }

    /// The same, where a lease that could not be read speaks for nobody and against nobody.
    pub const fn may_be_at_work(&self) -> bool {
        matches!(self, Self::Held { silent: None, .. } | Self::Unknown(_))
    }
}

/// Makes the picture. `pods` are those that the workload owns.
pub fn status(
    workload: WorkloadRef,
    record: Record,
    operator: Operator,
    server_minor: u32,
    observation: &Observation<'_>,
) -> Status {
    let run = record.run.as_ref();
    let seen = run.map(|run| survey(workload.clone(), run, server_minor, observation));
    let (template, gone) = match observation.workload {
        WorkloadSighting::Present(view) => (view.template.clone(), None),
        WorkloadSighting::Gone(message) => (ContainerResources::new(), Some(message.clone())),
    };
    let target = run.map(|run| run.started.target.clone()).unwrap_or_default();
    let values = values(&target, &template, observation.pods);
    let in_run = |uid: &PodUid| seen.as_ref().and_then(|seen| seen.pods.get(uid).cloned());
    let mut pods = observation.pods.values().map(|pod| pod_status(pod, in_run(&pod.uid), &values, &template));
    let mut pods = pods.by_ref().collect::<Vec<_>>();
    // A pod of an unfinished run that is gone is part of the picture; after the end it is no pod of the workload.
    if let Some(seen) = seen.as_ref().filter(|seen| seen.result.is_none()) {
        let gone = seen.pods.iter().filter(|(uid, _)| !observation.pods.contains_key(*uid));
        pods.extend(gone.map(|(uid, event)| gone_pod(uid, event, values.len())));
    }
    pods.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let wanted = run.is_some_and(|run| keeps_values(&run.stage));
    let born_with = if wanted { born_with(&target, &template) } else { ContainerResources::new() };
    Status { workload, gone, operator, foreign_record: false, record, survey: seen, values, pods, born_with }
}

/// Whether pods are meant to have the run's values: a run that was undone wants nothing of new pods.
const fn keeps_values(stage: &Stage) -> bool {
    match stage {
        Stage::Stepping { .. } | Stage::Pausing { .. } => true,
        Stage::RollingBack { .. } => false,
        Stage::Ended { ending, .. } => matches!(ending, Ending::ValidatedWithoutPersistence | Ending::Aborted { .. }),
    }
}

fn rank(pod: &PodStatus) -> (usize, &str) {
    (pod.in_run.as_ref().map_or(usize::MAX, |event| event.step), &pod.name)
}

/// The recommendation's values, and every other that differs from the template or between asked for and running.
fn values(
    target: &ContainerResources,
    template: &ContainerResources,
    pods: &BTreeMap<PodUid, PodView>,
) -> Vec<(String, Key)> {
    let wanted = target.iter().flat_map(|(name, block)| block.present().map(|(key, _)| (name.clone(), key)));
    let mut found = wanted.collect::<BTreeSet<_>>();
    for pod in pods.values() {
        for (name, container) in &pod.containers {
            let differs = Key::ALL.into_iter().filter(|key| drift(name, *key, container, template).differs());
            found.extend(differs.map(|key| (name.to_string(), key)));
        }
    }
    found.into_iter().collect()
}

impl Drift {
    fn differs(&self) -> bool {
        self.is_lost_when_replaced()
            || self.allocated.is_some_and(|value| self.spec.is_some_and(|spec| spec != value))
            || self.actual.is_some_and(|value| self.spec.is_some_and(|spec| spec != value))
    }
}

fn drift(name: &str, key: Key, container: &ContainerView, template: &ContainerResources) -> Drift {
    let allocated = container.allocated.and_then(|amounts| match key {
        Key::RequestsCpu => amounts.cpu.map(super::quantity::Millicores::get),
        Key::RequestsMemory => amounts.memory.map(super::quantity::Bytes::get),
        // The kubelet reports what it has granted for requests only.
        Key::LimitsCpu | Key::LimitsMemory => None,
    });
    Drift {
        template: template.get(name).and_then(|block| block.with_implied_requests().get(key)),
        spec: container.desired.get(key),
        allocated,
        actual: container.actual.and_then(|block| block.get(key)),
    }
}

fn pod_status(
    pod: &PodView,
    in_run: Option<PodEvent>,
    values: &[(String, Key)],
    template: &ContainerResources,
) -> PodStatus {
    let one = |(name, key): &(String, Key)| {
        pod.containers.get(name.as_str()).map_or_else(Drift::default, |c| drift(name, *key, c, template))
    };
    PodStatus {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        created_at: pod.created_at,
        in_run,
        drift: values.iter().map(one).collect(),
    }
}

fn gone_pod(uid: &PodUid, event: &PodEvent, values: usize) -> PodStatus {
    PodStatus {
        name: event.name.clone(),
        uid: uid.clone(),
        node: None,
        created_at: None,
        in_run: Some(event.clone()),
        drift: vec![Drift::default(); values],
    }
}

/// Values of the template that the recommendation would have otherwise. A key that the template lacks is not among
/// them: there is no value to name.
fn born_with(target: &ContainerResources, template: &ContainerResources) -> ContainerResources {
    let mut out = ContainerResources::new();
    for (name, wanted) in target {
        let Some(born) = template.get(name) else { continue };
        let changed = wanted.changes_from(born);
        for (key, _) in changed.present() {
            out.entry(name.clone()).or_default().set(key, born.get(key));
        }
    }
    out
}

/// Where a run stands, in one word: a stage, the reason its process stopped, or how it ended.
pub fn state_word(run: &Run, operator: &Operator) -> &'static str {
    match &run.stage {
        Stage::Ended { ending, .. } => ending_word(ending),
        Stage::RollingBack { .. } => "RollingBack",
        Stage::Stepping { .. } | Stage::Pausing { .. } if !operator.is_at_work() && run.stopped.is_some() => {
            run.stopped.as_ref().map_or("Stopped", stop_word)
        }
        Stage::Pausing { .. } => "Pausing",
        Stage::Stepping { .. } => "Stepping",
    }
}

pub const fn ending_word(ending: &Ending) -> &'static str {
    match ending {
        Ending::ValidatedWithoutPersistence => "ValidatedWithoutPersistence",
        Ending::RolledBack { .. } => "RolledBack",
        Ending::RollbackIncomplete { .. } => "RollbackIncomplete",
        Ending::Aborted { .. } => "Aborted",
        Ending::Superseded { .. } => "Superseded",
    }
}

const fn stop_word(stop: &Stop) -> &'static str {
    match stop {
        Stop::Interrupted { .. } => "Interrupted",
        Stop::TimedOut => "TimedOut",
        Stop::SupersedeWished { .. } => "SupersedeWished",
        Stop::LostLock { .. } => "LostLock",
        Stop::Refused { .. } => "Refused",
    }
}

/// The step a run works on, or the last one that it worked on, from 0.
pub fn step_of(run: &Run) -> Option<usize> {
    match run.stage {
        Stage::Stepping { step } | Stage::Pausing { step, .. } => Some(step),
        Stage::RollingBack { .. } | Stage::Ended { .. } => run.steps.last().map(|record| record.step),
    }
}

/// Since when `state_word` says what it says.
pub fn state_since(run: &Run, operator: &Operator) -> Timestamp {
    match &run.stage {
        // What a process says when it stops is the last that it says.
        Stage::Stepping { .. } | Stage::Pausing { .. } if !operator.is_at_work() && run.stopped.is_some() => {
            run.last_entry_at
        }
        Stage::Pausing { since, .. } | Stage::RollingBack { since, .. } => *since,
        Stage::Ended { at, .. } => *at,
        Stage::Stepping { step } => {
            let of = |step: usize| run.steps.iter().find(|record| record.step == step);
            let passed = step.checked_sub(1).and_then(of).and_then(|record| record.passed);
            of(*step).map(|record| record.started).or(passed).unwrap_or(run.at)
        }
    }
}

/// The commands that go on from here, in order of likelihood: verbs of `kubectl kapr`.
pub fn next_verbs(run: &Run, operator: &Operator) -> &'static [&'static str] {
    match &run.stage {
        Stage::Ended { ending, .. } => match ending {
            Ending::ValidatedWithoutPersistence | Ending::RollbackIncomplete { .. } => &["rollback"],
            Ending::RolledBack { .. } | Ending::Aborted { .. } | Ending::Superseded { .. } => &["history"],
        },
        Stage::Stepping { .. } | Stage::Pausing { .. } | Stage::RollingBack { .. } if operator.may_be_at_work() => {
            &["status -w"]
        }
        Stage::RollingBack { .. } => &["resume"],
        Stage::Stepping { .. } | Stage::Pausing { .. } => &["resume", "rollback", "abort"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::lock::LEASE_DURATION;
    use crate::core::testing;
    use crate::core::time::after;
    use crate::core::workload::{WorkloadKind, WorkloadView};

    fn picture(template: &str, pods: Vec<PodView>) -> Status {
        let workload = WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        let view = WorkloadView {
            reference: workload.clone(),
            uid: "w".into(),
            terminating: false,
            replicas: 1,
            template: testing::containers(&[("app", template)]),
            template_hash: None,
            pod_owners: BTreeSet::from(["rs-uid".to_owned()]),
            selector: String::new(),
            pod_labels: BTreeMap::new(),
            rivals: Vec::new(),
        };
        let pods = pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        let observation = Observation {
            now: Timestamp::UNIX_EPOCH,
            pods: &pods,
            workload: &WorkloadSighting::Present(Box::new(view)),
            answers: Vec::new(),
            blind: None,
            budget: crate::core::rollout::observation::Budget::Unlimited,
            command: None,
        };
        status(workload, Record::default(), Operator::Nobody, 37, &observation)
    }

    #[test]
    fn without_a_run_only_what_differs_is_shown() {
        let mut pod = testing::pod(&[("app", "requests.cpu=25m,requests.memory=64Mi")]);
        let same = picture("requests.cpu=25m,requests.memory=64Mi", vec![pod.clone()]);
        assert_eq!(same.values, []);
        let got = picture("requests.cpu=20m,requests.memory=64Mi", vec![pod.clone()]);
        assert_eq!(got.values, [("app".to_owned(), Key::RequestsCpu)]);
        let want = Drift { template: Some(20), spec: Some(25), allocated: Some(25), actual: Some(25) };
        assert_eq!(got.pods[0].drift, [want]);
        assert!(got.pods[0].is_lost_when_replaced());
        // Asked for and not (yet) running.
        if let Some(app) = pod.containers.get_mut("app") {
            app.actual = Some(testing::block("requests.cpu=25m,requests.memory=32Mi"));
        }
        let got = picture("requests.cpu=25m,requests.memory=64Mi", vec![pod]);
        assert_eq!(got.values, [("app".to_owned(), Key::RequestsMemory)]);
        assert!(!got.pods[0].is_lost_when_replaced());
    }

    #[test]
    fn a_request_that_the_server_adds_beside_a_limit_is_no_drift() {
        let pod = testing::pod(&[("app", "requests.cpu=25m,limits.cpu=25m")]);
        assert_eq!(picture("limits.cpu=25m", vec![pod]).values, []);
    }

    #[test]
    fn a_holder_that_is_silent_for_longer_than_its_lease_is_not_at_work() {
        let lease = LeaseView {
            holder: Some("ana@laptop:1:x".into()),
            version: "1".into(),
            duration: LEASE_DURATION,
            acquired_at: None,
            renewed_at: Some(Timestamp::UNIX_EPOCH),
        };
        let at = |seconds| after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds));
        assert!(Operator::of(Some(lease.clone()), at(60)).is_at_work());
        assert!(!Operator::of(Some(lease), at(61)).is_at_work());
        assert_eq!(Operator::of(None, at(0)), Operator::Nobody);
    }
}
