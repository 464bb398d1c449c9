//! In-place resize on a simulated node: admit, defer or refuse, then change the containers. The order of the status
//! writes is that of a real kubelet: first the new generation with the old resources, then the new resources.

use std::time::Duration;

use serde_json::{Value, json};

use super::kubelet::{self, ContainerRun, ContainerState, Pending, PodRun, Progress, Timer};
use super::registry::PODS;
use super::resources::{self, Amounts};
use super::rules::Behaviour;
use super::world::World;
use super::{kubelet_faults, kubelet_status};

/// How long after room became free the waiting resizes are looked at again (0.15 s was seen).
const RETRY: Duration = Duration::from_millis(100);

enum Admission {
    Unchanged,
    Fits,
    Waits(&'static str, String),
}

/// The kubelet compares what is wanted with what it has allocated, and decides.
pub(super) fn see(world: &mut World, uid: &str) {
    let Some(run) = world.kubelets.pods.get(uid) else { return };
    if run.stopping || !run.started {
        return;
    }
    let Some(pod) = world.get(&PODS, &run.key) else { return };
    let generation = pod["metadata"]["generation"].as_i64().unwrap_or(1);
    let behaviour = world.rules.of(&pod);
    let admission = judge(world, run, &pod, &behaviour);
    let (now, minor) = (world.clock.stamp(), world.minor());
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    run.observed = generation;
    let node = run.node.clone();
    let deferred = matches!(&admission, Admission::Waits("Deferred", _));
    match admission {
        Admission::Unchanged => {
            run.pending = None;
            kubelet_status::write(world, uid);
        }
        Admission::Waits(reason, message) => {
            let news = run.pending.as_ref().is_none_or(|p| (p.reason, &p.message) != (reason, &message));
            let since = run.pending.take().filter(|p| p.reason == reason).map_or(now, |p| p.since);
            run.pending = Some(Pending { reason, message: message.clone(), generation, since });
            kubelet_status::write(world, uid);
            if news && minor != 34 {
                let tail = tail(&pod, shown(world, generation), Some(&message));
                let name = format!("Resize{reason}");
                kubelet::event(world, &pod, "Warning", &name, &format!("Pod resize {reason}: {tail}"));
            }
        }
        Admission::Fits => allocate(world, uid, &pod, generation, &behaviour),
    }
    if let Some(node) = world.kubelets.nodes.get_mut(&node) {
        if deferred {
            node.deferred.insert(uid.to_owned());
        } else {
            node.deferred.remove(uid);
        }
    }
}

fn judge(world: &World, run: &PodRun, pod: &Value, behaviour: &Behaviour) -> Admission {
    let wanted: Vec<&Value> = resources::long_running(&pod["spec"]).map(|(c, _)| &c["resources"]).collect();
    if run.containers.iter().zip(&wanted).all(|(c, w)| resources::same(&c.allocated, w)) {
        return Admission::Unchanged;
    }
    let cpu_changes = || {
        let pairs = run.containers.iter().zip(&wanted);
        pairs.into_iter().any(|(c, w)| resources::requests(&c.allocated).cpu != resources::requests(w).cpu)
    };
    if behaviour.static_cpu && resources::qos(&pod["spec"]) == "Guaranteed" && cpu_changes() {
        let message = "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"";
        return Admission::Waits("Infeasible", message.to_owned());
    }
    let Some(node) = world.kubelets.nodes.get(&run.node) else { return Admission::Fits };
    let want = resources::pod_requests(&pod["spec"]);
    let others = node.used.minus(run.used);
    let allocated = run.containers.iter().map(|c| resources::requests(&c.allocated));
    let allocated = allocated.fold(Amounts::default(), Amounts::plus);
    let parts = [
        ("cpu", want.cpu, others.cpu, node.allocatable.cpu, want.cpu > allocated.cpu),
        ("memory", want.memory, others.memory, node.allocatable.memory, want.memory > allocated.memory),
    ];
    for (name, want, _, capacity, _) in parts {
        if want > capacity {
            let message = format!("Node didn't have enough capacity: {name}, requested: {want}, capacity: {capacity}");
            return Admission::Waits("Infeasible", message);
        }
    }
    for (name, want, used, capacity, _) in parts {
        if used + want > capacity {
            let message = format!(
                "Node didn't have enough resource: {name}, requested: {want}, used: {used}, capacity: {capacity}"
            );
            return Admission::Waits("Deferred", message);
        }
    }
    Admission::Fits
}

fn allocate(world: &mut World, uid: &str, pod: &Value, generation: i64, behaviour: &Behaviour) {
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    let wanted = resources::long_running(&pod["spec"]).map(|(c, _)| c["resources"].clone());
    for (container, want) in run.containers.iter_mut().zip(wanted) {
        container.allocated = want;
    }
    run.pending = None;
    run.epoch += 1;
    run.progress = Some(Progress { generation, error: None, since: now });
    let epoch = run.epoch;
    if world.minor() >= 35 {
        let tail = tail(pod, shown(world, generation), None);
        kubelet::event(world, pod, "Normal", "ResizeStarted", &format!("Pod resize started: {tail}"));
    }
    if !behaviour.coalesces {
        kubelet_status::write(world, uid);
    }
    world.after(behaviour.actuation_delay, Timer::Actuate(uid.to_owned(), epoch));
}

/// The runtime is asked to make the containers what was allocated.
pub(super) fn actuate(world: &mut World, uid: &str, epoch: u64) {
    let Some(run) = world.kubelets.pods.get(uid) else { return };
    if run.epoch != epoch || run.stopping {
        return;
    }
    let Some(pod) = world.get(&PODS, &run.key) else { return };
    let behaviour = world.rules.of(&pod);
    if behaviour.stubborn {
        return;
    }
    if let Some(message) = refusal(run, &pod, behaviour.memory_usage, world.minor()) {
        let known = run.progress.as_ref().is_some_and(|p| p.error.is_some());
        if !known {
            world.after(behaviour.error_delay, Timer::Refused(uid.to_owned(), epoch, message));
        }
        world.after(behaviour.retry_period, Timer::Actuate(uid.to_owned(), epoch));
        return;
    }
    let restarting: Vec<usize> = (0..run.containers.len()).filter(|i| needs_restart(run, &pod, *i)).collect();
    if restarting.is_empty() {
        complete(world, uid);
    } else {
        for index in restarting {
            kubelet_faults::terminate(world, uid, index, "Completed", 0);
        }
        kubelet_status::write(world, uid);
        world.after(behaviour.restart_delay, Timer::Restart(uid.to_owned()));
    }
}

fn spec_of<'a>(pod: &'a Value, name: &str) -> &'a Value {
    resources::long_running(&pod["spec"]).map(|(c, _)| c).find(|c| c["name"] == name).unwrap_or(&Value::Null)
}

fn restarts_for(container: &Value, resource: &str) -> bool {
    let policies = container["resizePolicy"].as_array();
    policies.into_iter().flatten().any(|p| p["resourceName"] == resource && p["restartPolicy"] == "RestartContainer")
}

fn needs_restart(run: &PodRun, pod: &Value, index: usize) -> bool {
    let container = &run.containers[index];
    let spec = spec_of(pod, &container.name);
    ["cpu", "memory"].iter().any(|resource| {
        let differs = ["requests", "limits"].iter().any(|section| {
            let of = |block| resources::amount(block, section, resource);
            of(&container.allocated) != of(&container.actual)
        });
        differs && restarts_for(spec, resource)
    })
}

/// Why the kubelet does not lower the memory limits, in its words.
fn refusal(run: &PodRun, pod: &Value, usage: i64, minor: u32) -> Option<String> {
    let mut parts = Vec::new();
    if minor < 36 {
        parts.extend(pod_refusal(run, usage));
    }
    for container in &run.containers {
        let of = |block| resources::amount(block, "limits", "memory");
        let (Some(new), old) = (of(&container.allocated), of(&container.actual)) else { continue };
        let lower = old.is_none_or(|old| new < old);
        if lower && new <= usage && !restarts_for(spec_of(pod, &container.name), "memory") {
            parts.push(format!(
                "attempting to set container {:?} memory limit ({new}) below current usage ({usage})",
                container.name
            ));
        }
    }
    match parts.as_slice() {
        [] => None,
        [one] => Some(format!("cannot decrease memory limits: {one}")),
        many => Some(format!("cannot decrease memory limits: [{}]", many.join(", "))),
    }
}

/// The limit of the whole pod may be named too, where every container has one. Both forms were seen on 1.34 and 1.37;
/// here each version keeps to one, so that both are tried.
fn pod_refusal(run: &PodRun, usage: i64) -> Option<String> {
    let total = |of: fn(&ContainerRun) -> &Value| -> Option<i64> {
        run.containers.iter().map(|c| resources::amount(of(c), "limits", "memory")).sum()
    };
    let (new, old) = (total(|c| &c.allocated)?, total(|c| &c.actual));
    let usage = usage * i64::try_from(run.containers.len()).ok()?;
    let refused = new <= usage && old.is_none_or(|old| new < old);
    refused.then(|| format!("attempting to set pod memory limit ({new}) below current usage ({usage})"))
}

/// The refusal reaches the status.
pub(super) fn refused(world: &mut World, uid: &str, epoch: u64, message: &str) {
    let minor = world.minor();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    if run.epoch != epoch || run.stopping {
        return;
    }
    let (key, generation) = (run.key.clone(), run.observed);
    let Some(progress) = run.progress.as_mut() else { return };
    progress.error = Some(message.to_owned());
    kubelet_status::write(world, uid);
    if minor >= 35
        && let Some(pod) = world.get(&PODS, &key)
    {
        let tail = tail(&pod, shown(world, generation), Some(message));
        kubelet::event(world, &pod, "Warning", "ResizeError", &format!("Pod resize error: {tail}"));
    }
}

/// Containers that were killed for a resize run again.
pub(super) fn restarted(world: &mut World, uid: &str) {
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    if run.stopping {
        return;
    }
    let key = run.key.clone();
    for container in &mut run.containers {
        if let ContainerState::Terminated(last) = &container.state {
            container.last = Some(last.clone());
            container.restarts += 1;
            container.id = world.ids.container();
            container.state = ContainerState::Running { since: now.clone() };
            container.actual = container.allocated.clone();
        }
    }
    let Some(pod) = world.get(&PODS, &key) else { return };
    let behaviour = world.rules.of(&pod);
    complete(world, uid);
    if !behaviour.never_ready {
        world.after(behaviour.ready_delay, Timer::Ready(uid.to_owned()));
    }
}

fn complete(world: &mut World, uid: &str) {
    let Some(run) = world.kubelets.pods.get(uid) else { return };
    let Some(pod) = world.get(&PODS, &run.key.clone()) else { return };
    let behaviour = world.rules.of(&pod);
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    for container in &mut run.containers {
        container.actual = container.allocated.clone();
        if behaviour.diverges && !resources::same(&container.allocated, &container.born) {
            diverge(&mut container.actual);
        }
    }
    let generation = run.progress.take().map_or(run.observed, |p| p.generation);
    if world.minor() >= 34 {
        let tail = tail(&pod, shown(world, generation), None);
        kubelet::event(world, &pod, "Normal", "ResizeCompleted", &format!("Pod resize completed: {tail}"));
    }
    kubelet_faults::after_resize(world, uid, &behaviour);
    kubelet_status::write(world, uid);
}

/// What a runtime plugin that rounds would report.
fn diverge(actual: &mut Value) {
    for section in ["requests", "limits"] {
        if let Some(cpu) = resources::amount(actual, section, "cpu") {
            actual[section]["cpu"] = format!("{}m", cpu + 1).into();
        }
        if let Some(memory) = resources::amount(actual, section, "memory") {
            actual[section]["memory"] = (memory + 4096).to_string().into();
        }
    }
}

/// A node has more room than before: those who wait for it are looked at again.
pub(super) fn room_changed(world: &mut World, node: &str) {
    if world.kubelets.nodes.get(node).is_some_and(|n| !n.deferred.is_empty()) {
        world.after(RETRY, Timer::Room(node.to_owned()));
    }
}

/// Looks at the Deferred resizes of a node in the kubelet's order: those that grow nothing, then priority, then
/// Guaranteed before Burstable, then the longest waiting.
pub(super) fn offer_room(world: &mut World, node: &str) {
    let Some(run) = world.kubelets.nodes.get(node) else { return };
    let mut waiting: Vec<_> = run
        .deferred
        .iter()
        .filter_map(|uid| {
            let run = world.kubelets.pods.get(uid)?;
            let pod = world.get(&PODS, &run.key)?;
            let grows = !resources::pod_requests(&pod["spec"]).fits(run.used);
            let guaranteed = resources::qos(&pod["spec"]) == "Guaranteed";
            let since = run.pending.as_ref().map(|p| p.since.clone());
            let priority = pod["spec"]["priority"].as_i64().unwrap_or(0);
            Some((grows, -priority, !guaranteed, since, uid.clone()))
        })
        .collect();
    waiting.sort();
    for (.., uid) in waiting {
        see(world, &uid);
    }
}

/// Events before 1.35 do not name the generation.
fn shown(world: &World, generation: i64) -> Option<i64> {
    (world.minor() >= 35).then_some(generation)
}

/// The JSON at the end of an event's message.
fn tail(pod: &Value, generation: Option<i64>, error: Option<&str>) -> Value {
    let entries = |field: &str, only_sidecars: bool| -> Vec<Value> {
        let list = pod["spec"][field].as_array().into_iter().flatten();
        list.filter(|c| !only_sidecars || c["restartPolicy"] == "Always")
            .map(|c| json!({"name": c["name"], "resources": c["resources"]}))
            .collect()
    };
    let mut tail = json!({"containers": entries("containers", false)});
    if let Some(generation) = generation {
        tail["generation"] = generation.into();
    }
    let sidecars = entries("initContainers", true);
    if !sidecars.is_empty() {
        tail["initContainers"] = sidecars.into();
    }
    if let Some(text) = error {
        tail["error"] = text.into();
    }
    tail
}
