//! May this pod be resized to this target? Everything that can be told without asking the server.
//!
//! The order of the questions is the order in which a person would want the answer: what is wrong with the pod, who
//! else acts on it, what is wrong with the target, what the node or the version cannot do.

use std::collections::BTreeMap;

use super::nearest::nearest;
use super::pod::{ContainerRole, ContainerState, ContainerView, PodOddity, PodPhase, PodView, QosClass};
use super::policy::Policy;
use super::qos::qos_class;
use super::refusal::{Concern, Refusal, name_of_qos};
use super::resources::{Amounts, ContainerResources, Key, Resources};
use super::reversibility::memory_limit_never_comes_down;
use super::workload::{Rival, WorkloadView};

/// What the judgement depends on besides the pod and the target. What is not known is `None` and not held against
/// the pod.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// The minor version of the API server: 33 for 1.33.
    pub server_minor: u32,
    /// `--only-current`: refuse pods of older templates.
    pub only_current: bool,
    /// The hash of the workload's current template.
    pub template_hash: Option<&'a str>,
    /// Allocatable of the pod's node. Below 1.36 nobody else tells before the kubelet does.
    pub allocatable: Option<Amounts>,
    /// The pod's node is known to run the static CPU manager.
    pub static_cpu_manager: bool,
    /// Memory that containers of this pod use now, in bytes, where metrics say so.
    pub memory_in_use: BTreeMap<&'a str, u64>,
    pub rivals: &'a [Rival],
    /// The unfinished run of somebody else that has an intent for this pod, such as `deployment/web #3`.
    pub held_by: Option<&'a str>,
}

impl<'a> Context<'a> {
    /// What is known of a workload before any pod is looked at: the same for a plan and for the run that follows it.
    pub fn of(workload: &'a WorkloadView, policy: &Policy, server_minor: u32) -> Self {
        Self {
            server_minor,
            only_current: policy.only_current,
            template_hash: workload.template_hash.as_deref(),
            rivals: &workload.rivals,
            ..Self::default()
        }
    }
}

/// A pod that the run may resize.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Eligible {
    /// What a patch has to carry: only the keys that differ from what the spec asks for now.
    pub changes: ContainerResources,
    /// Containers that restart because their `resizePolicy` says so for a changed resource. Sorted.
    pub restarts: Vec<String>,
    /// The spec asks for the target already (whether it was applied is for the pod's status to say).
    pub at_target: bool,
    pub concerns: Vec<Concern>,
}

/// A container that the target names, as it is and as it would be.
struct Touched<'a> {
    name: &'a str,
    view: &'a ContainerView,
    /// The present block overlaid with the target, with the requests that the API server adds.
    after: Resources,
    /// The keys of the target that differ from the present.
    changes: Resources,
}

/// Judges one pod. `target` may name only what shall change: each container's present block is overlaid with it, so
/// that a judgement never takes a key away.
pub fn judge(pod: &PodView, target: &ContainerResources, context: &Context<'_>) -> Result<Eligible, Refusal> {
    judge_pod(pod, context)?;
    let touched = target.iter().map(|(name, wanted)| touch(pod, name, wanted)).collect::<Result<Vec<_>, _>>()?;
    let touched = touched.into_iter().filter(|touched| !touched.changes.is_empty()).collect::<Vec<_>>();
    for one in &touched {
        judge_values(one)?;
    }
    if !touched.is_empty() {
        judge_qos(pod, &touched)?;
    }
    for one in &touched {
        judge_memory_limit(one, context)?;
    }
    judge_node(pod, &touched, context)?;
    // Last: a container that does not run is the better answer where it is the cause.
    if !pod.is_ready() {
        return Err(Refusal::NotReady);
    }
    Ok(Eligible {
        changes: touched.iter().map(|one| (one.name.to_owned(), one.changes)).collect(),
        restarts: touched
            .iter()
            .filter(|one| one.view.restarts_for(&one.changes))
            .map(|one| one.name.to_owned())
            .collect(),
        at_target: touched.is_empty(),
        concerns: concerns(pod, &touched, context),
    })
}

/// What is wrong with the pod whatever the target, and who else acts on it.
fn judge_pod(pod: &PodView, context: &Context<'_>) -> Result<(), Refusal> {
    if let Some(oddity) = pod.oddity {
        return Err(match oddity {
            PodOddity::Mirror => Refusal::MirrorPod,
            PodOddity::Windows => Refusal::Windows,
            PodOddity::PodLevelResources => Refusal::PodLevelResources,
        });
    }
    if pod.terminating {
        return Err(Refusal::Terminating);
    }
    let phase = match pod.phase {
        PodPhase::Running => None,
        PodPhase::Pending => Some("Pending"),
        PodPhase::Succeeded => Some("Succeeded"),
        PodPhase::Failed => Some("Failed"),
        PodPhase::Unknown => Some("Unknown"),
    };
    if let Some(phase) = phase {
        return Err(Refusal::NotRunning { phase });
    }
    if context.only_current && is_older(pod, context) {
        return Err(Refusal::OlderTemplate);
    }
    if let Some(run) = context.held_by {
        return Err(Refusal::TouchedByOtherRun { run: run.to_owned() });
    }
    context.rivals.iter().try_for_each(|rival| match rival {
        Rival::Vpa { name, mode } if vpa_acts_on_running_pods(mode) => {
            Err(Refusal::ManagedByVpa { name: name.clone(), mode: mode.clone() })
        }
        Rival::Vpa { .. } | Rival::Hpa { .. } => Ok(()),
    })
}

/// `Off` only recommends, `Initial` only touches new pods; every other mode, also one newer than this program, changes
/// or evicts pods that run.
fn vpa_acts_on_running_pods(mode: &str) -> bool {
    !matches!(mode, "Off" | "Initial")
}

fn is_older(pod: &PodView, context: &Context<'_>) -> bool {
    matches!((context.template_hash, pod.template_hash.as_deref()), (Some(current), Some(own)) if current != own)
}

/// Finds the container and makes sure that it can be a target.
fn touch<'a>(pod: &'a PodView, name: &'a str, wanted: &Resources) -> Result<Touched<'a>, Refusal> {
    let container = || name.to_owned();
    let Some(view) = pod.containers.get(name) else {
        let known = pod.containers.iter().filter(|(_, view)| view.role != ContainerRole::Init).map(|(name, _)| &**name);
        return Err(Refusal::ContainerMissing {
            container: container(),
            nearest: nearest(name, known).map(str::to_owned),
        });
    };
    match view.role {
        ContainerRole::Regular | ContainerRole::Sidecar => {}
        ContainerRole::Init => return Err(Refusal::InitContainer { container: container() }),
    }
    let state = match &view.state {
        ContainerState::Running { .. } => None,
        ContainerState::Waiting { reason } if reason.is_empty() => Some("waiting".to_owned()),
        ContainerState::Waiting { reason } => Some(reason.to_string()),
        ContainerState::Terminated(end) if end.reason.is_empty() => Some("terminated".to_owned()),
        ContainerState::Terminated(end) => Some(format!("terminated: {}", end.reason)),
        ContainerState::Unknown => Some("no status yet".to_owned()),
    };
    if let Some(state) = state {
        return Err(Refusal::ContainerNotRunning { container: container(), state });
    }
    let after = view.desired.overlaid(wanted).with_implied_requests();
    Ok(Touched { name, view, after, changes: wanted.changes_from(&view.desired) })
}

fn judge_values(touched: &Touched<'_>) -> Result<(), Refusal> {
    let Some((request, limit)) = touched.after.request_above_limit() else { return Ok(()) };
    let value = |key| touched.after.get(key).unwrap_or_default();
    Err(Refusal::RequestAboveLimit {
        container: touched.name.to_owned(),
        request,
        request_value: value(request),
        limit,
        limit_value: value(limit),
    })
}

/// Every container's block as it would be after the resize.
fn blocks_after<'a>(
    pod: &'a PodView,
    touched: &'a [Touched<'a>],
) -> impl Iterator<Item = (&'a ContainerView, Resources)> {
    pod.containers.iter().map(|(name, view)| {
        let after = touched.iter().find(|one| one.name == &**name).map_or(view.desired, |one| one.after);
        (view, after)
    })
}

fn judge_qos(pod: &PodView, touched: &[Touched<'_>]) -> Result<(), Refusal> {
    let blocks = blocks_after(pod, touched).map(|(_, block)| block).collect::<Vec<_>>();
    let class = qos_class(&blocks);
    if class == pod.qos {
        return Ok(());
    }
    Err(Refusal::QosWouldChange { from: name_of_qos(pod.qos), to: name_of_qos(class) })
}

fn judge_memory_limit(touched: &Touched<'_>, context: &Context<'_>) -> Result<(), Refusal> {
    let container = || touched.name.to_owned();
    let Some(limit) = touched.changes.get(Key::LimitsMemory) else { return Ok(()) };
    let before = touched.view.desired.get(Key::LimitsMemory);
    let restarts = touched.view.restarts_on.memory;
    if memory_limit_never_comes_down(context.server_minor) && !restarts {
        match before {
            None => return Err(Refusal::MemoryLimitAdded { container: container() }),
            Some(from) if limit < from => {
                return Err(Refusal::MemoryLimitDecrease { container: container(), from, to: limit });
            }
            Some(_) => {}
        }
    }
    // A restart begins with empty memory, so what the old process uses does not matter.
    match context.memory_in_use.get(touched.name) {
        Some(&in_use) if !restarts && in_use > limit => {
            Err(Refusal::MemoryInUse { container: container(), limit, in_use })
        }
        _ => Ok(()),
    }
}

/// What the pod's node can never give. Requests that rise are compared with the whole node: a pod that asks for more
/// is Infeasible whatever else runs there. Ordinary init containers have ended and do not count.
fn judge_node(pod: &PodView, touched: &[Touched<'_>], context: &Context<'_>) -> Result<(), Refusal> {
    let node = || pod.node.as_deref().unwrap_or("(none)").to_owned();
    let changes_cpu = touched.iter().any(|one| one.changes.present().any(|(key, _)| key.is_cpu()));
    if context.static_cpu_manager && changes_cpu && pod.qos == QosClass::Guaranteed {
        return Err(Refusal::StaticCpuManager { node: node() });
    }
    let Some(allocatable) = context.allocatable else { return Ok(()) };
    let allocatable = Resources { requests: allocatable, limits: Amounts::default() };
    for key in [Key::RequestsCpu, Key::RequestsMemory] {
        let rises = touched.iter().any(|one| one.after.get(key) > one.view.desired.get(key));
        let requested = blocks_after(pod, touched)
            .filter(|(view, _)| view.role != ContainerRole::Init)
            .filter_map(|(_, block)| block.get(key))
            .fold(0, u64::saturating_add);
        if let Some(allocatable) = allocatable.get(key)
            && rises
            && requested > allocatable
        {
            return Err(Refusal::NodeAllocatable { node: node(), key, requested, allocatable });
        }
    }
    Ok(())
}

fn concerns(pod: &PodView, touched: &[Touched<'_>], context: &Context<'_>) -> Vec<Concern> {
    let mut found = Vec::new();
    let rises_or_falls = |key| touched.iter().any(|one| one.after.get(key) != one.view.desired.get(key));
    for rival in context.rivals {
        match rival {
            Rival::Hpa { name, cpu, memory } => {
                for (watched, key) in [(*cpu, Key::RequestsCpu), (*memory, Key::RequestsMemory)] {
                    if watched && rises_or_falls(key) {
                        found.push(Concern::Hpa { name: name.clone(), key });
                    }
                }
            }
            Rival::Vpa { name, mode } if mode == "Initial" => found.push(Concern::VpaInitial { name: name.clone() }),
            Rival::Vpa { .. } => {}
        }
    }
    if is_older(pod, context) {
        found.push(Concern::OlderTemplate);
    }
    for one in touched {
        let before = one.view.desired.overlaid(&one.changes);
        for (key, value) in one.after.present().filter(|(key, _)| before.get(*key).is_none()) {
            found.push(Concern::ServerAddsRequest { container: one.name.to_owned(), key, value });
        }
    }
    if let Some(pending) = &pod.resize_pending {
        found.push(Concern::ResizePending { reason: pending.reason.to_string() });
    }
    found
}

#[cfg(test)]
#[path = "eligibility_tests.rs"]
mod tests;
