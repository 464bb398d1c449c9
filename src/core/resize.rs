//! Did it happen? Classifies a pod from its status alone, never from the answer to the patch.
//!
//! Rules and races: KEP-1287 "Resource States", KEP-5067 on generations, and what a real kubelet was seen to write: an
//! early status carries the new generation together with the old resources, so neither "no condition" nor
//! `allocatedResources` ends the wait. Only actual values that equal the target do.

use std::time::Duration;

use super::pod::{ContainerState, ContainerView, PodPhase, PodView, ResizeCondition};
use super::quantity::{Bytes, Millicores};
use super::resources::{ContainerResources, Key, Resources};

/// Where a pod stands on its way to the wanted values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResizeState {
    /// The kubelet has not spoken about this generation yet.
    Pending,
    InProgress,
    /// Accepted, waiting for room on the node. Kept by the kubelet until there is some.
    Deferred(Box<str>),
    /// The node can never hold it.
    Infeasible(Box<str>),
    /// The kubelet tried, could not, and keeps trying.
    Failed(Box<str>),
    Applied,
    /// Granted as asked, but the runtime settled on other values.
    Diverged(String),
    /// The spec holds other values than ours: somebody else wrote.
    Foreign(String),
    Gone(&'static str),
}

/// A difference between granted and actual values that lasts this long without a condition is no transition any more:
/// a status that was written between actuation and the kubelet's next look is corrected within one sync (10 s).
pub const SETTLED: Duration = Duration::from_secs(30);

/// `quiet` is how long this view of the pod has not changed.
pub fn classify(view: &PodView, want: &ContainerResources, quiet: Duration) -> ResizeState {
    if let Some(why) = gone(view) {
        return ResizeState::Gone(why);
    }
    if let Some(difference) = spec_difference(view, want) {
        return ResizeState::Foreign(difference);
    }
    // Before 1.34 the kubelet reports no observedGeneration: conditions and values are all there is.
    if view.observed_generation.is_some_and(|seen| seen < view.generation) {
        return ResizeState::Pending;
    }
    let current = |condition: &&ResizeCondition| condition.observed_generation.is_none_or(|g| g >= view.generation);
    if let Some(pending) = view.resize_pending.as_ref().filter(current) {
        // Any reason but Infeasible, known or not, is one that the kubelet may still resolve.
        return if &*pending.reason == "Infeasible" {
            ResizeState::Infeasible(pending.message.clone())
        } else {
            ResizeState::Deferred(pending.message.clone())
        };
    }
    if let Some(progress) = &view.resize_in_progress {
        return if &*progress.reason == "Error" && current(&progress) {
            ResizeState::Failed(progress.message.clone())
        } else {
            ResizeState::InProgress
        };
    }
    settle(view, want, quiet)
}

/// Why a pod can no longer be waited for.
pub fn gone(view: &PodView) -> Option<&'static str> {
    match view.phase {
        PodPhase::Succeeded => Some("the pod has finished"),
        PodPhase::Failed => Some("the pod has failed"),
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            view.terminating.then_some("the pod is terminating")
        }
    }
}

/// The first value of the spec that is not the wanted one, as a sentence fragment.
pub fn spec_difference(view: &PodView, want: &ContainerResources) -> Option<String> {
    for (name, block) in want {
        let Some(container) = view.containers.get(name.as_str()) else {
            return Some(format!("container {name} is not in the pod"));
        };
        for key in Key::ALL {
            let (is, wanted) = (container.desired.get(key), block.get(key));
            if is != wanted {
                let show = |v: Option<u64>| v.map_or_else(|| "absent".to_owned(), |v| key.show(v));
                return Some(format!("container {name} {key} is {}, not {}", show(is), show(wanted)));
            }
        }
    }
    None
}

/// No condition speaks: the values decide.
fn settle(view: &PodView, want: &ContainerResources, quiet: Duration) -> ResizeState {
    let mut granted = true;
    let mut difference = None;
    for (name, block) in want {
        let Some(container) = view.containers.get(name.as_str()) else { return ResizeState::Pending };
        // For a container that does not run, status repeats what was granted: it proves nothing.
        if !matches!(container.state, ContainerState::Running { .. }) {
            return ResizeState::InProgress;
        }
        granted &= is_granted(container, block);
        difference = difference.or_else(|| actual_difference(name, container, block));
    }
    match difference {
        None if granted => ResizeState::Applied,
        None => ResizeState::Pending,
        Some(text) if granted && quiet >= SETTLED => ResizeState::Diverged(text),
        Some(_) => ResizeState::InProgress,
    }
}

fn is_granted(container: &ContainerView, want: &Resources) -> bool {
    let Some(allocated) = container.allocated else { return true };
    [(Key::RequestsCpu, allocated.cpu.map(Millicores::get)), (Key::RequestsMemory, allocated.memory.map(Bytes::get))]
        .into_iter()
        .all(|(key, granted)| want.get(key).is_none() || want.get(key) == granted)
}

fn actual_difference(name: &str, container: &ContainerView, want: &Resources) -> Option<String> {
    let Some(actual) = container.actual else { return Some(format!("container {name} reports no resources")) };
    want.present().find(|(key, wanted)| !same(*key, *wanted, actual.get(*key))).map(|(key, wanted)| {
        let is = actual.get(key).map_or_else(|| "absent".to_owned(), |v| key.show(v));
        format!("container {name} {key} is {is}, granted {}", key.show(wanted))
    })
}

/// Below these the kernel cannot tell values apart, so the kubelet reports one for the other: 2 shares (2m) for a CPU
/// request, 1 ms of a 100 ms period (10m) for a CPU limit.
fn same(key: Key, wanted: u64, actual: Option<u64>) -> bool {
    let Some(actual) = actual else { return false };
    let floor = match key {
        Key::RequestsCpu => 2,
        Key::LimitsCpu => 10,
        Key::RequestsMemory | Key::LimitsMemory => 0,
    };
    wanted == actual || (wanted <= floor && actual <= floor)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::core::pod::ResizeCondition;
    use crate::core::quantity::Millicores;
    use crate::core::resources::Amounts;
    use crate::core::testing::{block, containers, pod};

    const AT: &[(&str, &str)] = &[("app", "requests.cpu=200m,limits.memory=1Gi")];

    fn condition(reason: &str, generation: Option<i64>) -> ResizeCondition {
        ResizeCondition { reason: reason.into(), message: "words".into(), observed_generation: generation, since: None }
    }

    /// A pod that asks for the wanted values, in generation 5, changed by each row of the table.
    fn seen(change: impl Fn(&mut PodView)) -> ResizeState {
        let mut view = pod(AT);
        (view.generation, view.observed_generation) = (5, Some(5));
        change(&mut view);
        classify(&view, &containers(AT), Duration::ZERO)
    }

    #[test]
    fn at_the_values_and_running_is_applied() {
        assert_eq!(seen(|_| {}), ResizeState::Applied);
    }

    #[test]
    fn an_older_generation_says_nothing() {
        assert_eq!(seen(|view| view.observed_generation = Some(4)), ResizeState::Pending);
    }

    #[test]
    fn without_observed_generation_the_values_decide() {
        assert_eq!(seen(|view| view.observed_generation = None), ResizeState::Applied);
    }

    #[rstest]
    #[case("Deferred", Some(5), ResizeState::Deferred("words".into()))]
    #[case("Deferred", None, ResizeState::Deferred("words".into()))]
    #[case("Infeasible", Some(5), ResizeState::Infeasible("words".into()))]
    // A reason that is newer than this program is one the kubelet may still resolve.
    #[case("OutOfcpu", Some(5), ResizeState::Deferred("words".into()))]
    // A condition of an older resize does not speak about this one.
    #[case("Infeasible", Some(4), ResizeState::Applied)]
    fn pending(#[case] reason: &str, #[case] generation: Option<i64>, #[case] want: ResizeState) {
        assert_eq!(seen(|view| view.resize_pending = Some(condition(reason, generation))), want);
    }

    #[rstest]
    #[case("", Some(5), ResizeState::InProgress)]
    #[case("Error", Some(5), ResizeState::Failed("words".into()))]
    // An error text may outlive its cause until the kubelet has seen the new generation through.
    #[case("Error", Some(4), ResizeState::InProgress)]
    fn in_progress(#[case] reason: &str, #[case] generation: Option<i64>, #[case] want: ResizeState) {
        assert_eq!(seen(|view| view.resize_in_progress = Some(condition(reason, generation))), want);
    }

    #[test]
    fn granted_is_not_applied_until_the_runtime_says_so() {
        let stale = |view: &mut PodView| {
            view.containers.get_mut("app").unwrap().actual = Some(block("requests.cpu=100m,limits.memory=1Gi"));
        };
        assert_eq!(seen(stale), ResizeState::InProgress);
        let mut view = pod(AT);
        stale(&mut view);
        let diverged = classify(&view, &containers(AT), SETTLED);
        assert_eq!(diverged, ResizeState::Diverged("container app requests.cpu is 100m, granted 200m".into()));
    }

    #[test]
    fn neither_granted_nor_refused_is_pending() {
        let state = seen(|view| {
            let container = view.containers.get_mut("app").unwrap();
            container.allocated = Some(Amounts { cpu: Some(Millicores::new(100)), memory: None });
        });
        assert_eq!(state, ResizeState::Pending);
    }

    #[test]
    fn a_container_that_does_not_run_proves_nothing() {
        let state = seen(|view| {
            view.containers.get_mut("app").unwrap().state = ContainerState::Waiting { reason: "".into() };
        });
        assert_eq!(state, ResizeState::InProgress);
    }

    #[test]
    fn other_values_in_the_spec_are_somebody_elses() {
        let state = seen(|view| view.containers.get_mut("app").unwrap().desired = block("requests.cpu=300m"));
        assert_eq!(state, ResizeState::Foreign("container app requests.cpu is 300m, not 200m".into()));
    }

    #[rstest]
    #[case(PodPhase::Succeeded, false, "the pod has finished")]
    #[case(PodPhase::Failed, false, "the pod has failed")]
    #[case(PodPhase::Running, true, "the pod is terminating")]
    fn an_ended_pod_is_gone(#[case] phase: PodPhase, #[case] terminating: bool, #[case] why: &'static str) {
        let state = seen(|view| (view.phase, view.terminating) = (phase, terminating));
        assert_eq!(state, ResizeState::Gone(why));
    }

    #[rstest]
    #[case(Key::RequestsCpu, 1, Some(2), true)]
    #[case(Key::RequestsCpu, 3, Some(2), false)]
    #[case(Key::LimitsCpu, 5, Some(10), true)]
    #[case(Key::LimitsCpu, 11, Some(10), false)]
    #[case(Key::LimitsMemory, 1, Some(2), false)]
    #[case(Key::RequestsCpu, 1, None, false)]
    fn what_the_kernel_cannot_tell_apart_is_the_same(
        #[case] key: Key,
        #[case] wanted: u64,
        #[case] actual: Option<u64>,
        #[case] equal: bool,
    ) {
        assert_eq!(same(key, wanted, actual), equal);
    }
}
