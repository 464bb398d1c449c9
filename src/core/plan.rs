//! What a run would do: a verdict for each pod, the steps, and what could not be undone. The same code decides the run.

use std::collections::{BTreeMap, BTreeSet};

use super::eligibility::{self, Eligible};
use super::pod::{PodUid, PodView};
use super::policy::Policy;
use super::refusal::Refusal;
use super::resources::ContainerResources;
use super::reversibility::{self, OneWay};
use super::selection;
use super::share::Share;
use super::workload::WorkloadView;

/// The plan for one workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Eligible pods in StableHash order, then refused ones by name.
    pub pods: Vec<PodPlan>,
    pub steps: Vec<PlannedStep>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedStep {
    pub share: Share,
    /// Pods at target at the end of the step.
    pub pods: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodPlan {
    pub name: Box<str>,
    pub uid: PodUid,
    pub node: Option<Box<str>>,
    /// What the touched containers ask for now.
    pub before: ContainerResources,
    pub verdict: Result<Eligible, Refusal>,
    /// What could not be taken back on this pod.
    pub one_way: Vec<OneWay>,
    /// The step that takes the pod, from 0.
    pub step: Option<usize>,
}

/// Pods that a server answers alike: the same values now, the same changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Indices into `Plan::pods`; the first one is asked for all.
    pub pods: Vec<usize>,
}

/// Judges every pod of the workload.
pub fn plan<'a>(
    workload: &WorkloadView,
    pods: impl IntoIterator<Item = &'a PodView>,
    target: &ContainerResources,
    policy: &Policy,
    server_minor: u32,
) -> Plan {
    let context = eligibility::Context::of(workload, policy, server_minor);
    let mut judged = BTreeMap::new();
    let mut refused = Vec::new();
    for pod in pods {
        let before = pod.desired_of(target.keys());
        let verdict = eligibility::judge(pod, target, &context);
        let one_way = if verdict.is_ok() { one_way(pod, target, server_minor) } else { Vec::new() };
        let is_eligible = verdict.is_ok();
        let (name, uid, node) = (pod.name.clone(), pod.uid.clone(), pod.node.clone());
        let planned = PodPlan { name, uid, node, before, verdict, one_way, step: None };
        if is_eligible {
            judged.insert(planned.uid.clone(), planned);
        } else {
            refused.push(planned);
        }
    }
    let steps = policy
        .steps
        .shares()
        .iter()
        .map(|share| PlannedStep { share: *share, pods: share.of(judged.len()) })
        .collect::<Vec<_>>();
    let order = selection::stable_order(&workload.uid, judged.keys());
    let mut pods = Vec::with_capacity(judged.len() + refused.len());
    for (at, uid) in order.iter().enumerate() {
        if let Some(mut pod) = judged.remove(uid) {
            pod.step = steps.iter().position(|step| at < step.pods);
            pods.push(pod);
        }
    }
    refused.sort_by(|a, b| a.name.cmp(&b.name));
    pods.extend(refused);
    Plan { pods, steps }
}

/// What could not be taken back on this pod.
pub fn one_way(pod: &PodView, target: &ContainerResources, server_minor: u32) -> Vec<OneWay> {
    let memory_restarts = target
        .keys()
        .filter(|name| pod.containers.get(name.as_str()).is_some_and(|container| container.restarts_on.memory))
        .cloned()
        .collect();
    reversibility::judge(
        &pod.desired_of(target.keys()),
        target,
        &reversibility::Context { server_minor, memory_restarts },
    )
}

impl Plan {
    pub fn eligible(&self) -> impl Iterator<Item = (&PodPlan, &Eligible)> {
        self.pods.iter().filter_map(|pod| pod.verdict.as_ref().ok().map(|eligible| (pod, eligible)))
    }

    pub fn refused(&self) -> impl Iterator<Item = (&PodPlan, &Refusal)> {
        self.pods.iter().filter_map(|pod| pod.verdict.as_ref().err().map(|refusal| (pod, refusal)))
    }

    /// Eligible pods whose spec does not ask for the target yet.
    pub fn to_change(&self) -> usize {
        self.eligible().filter(|(_, eligible)| !eligible.at_target).count()
    }

    /// Each distinct thing that could not be undone in place.
    pub fn one_way(&self) -> BTreeSet<&OneWay> {
        self.pods.iter().flat_map(|pod| &pod.one_way).collect()
    }

    /// Eligible pods that would change, grouped by what the server would be asked.
    pub fn shapes(&self) -> Vec<Shape> {
        let mut shapes = BTreeMap::<(&ContainerResources, &ContainerResources), Vec<usize>>::new();
        for (at, pod) in self.pods.iter().enumerate() {
            if let Ok(eligible) = &pod.verdict
                && !eligible.at_target
            {
                shapes.entry((&pod.before, &eligible.changes)).or_default().push(at);
            }
        }
        shapes.into_values().map(|pods| Shape { pods }).collect()
    }
}
