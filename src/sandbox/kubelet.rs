//! The simulated kubelets: what each knows of its pods, and the life of a pod from binding to its end.
//! Resizing is in `kubelet_resize`, rendering of status in `kubelet_status`, misbehaviour in `kubelet_faults`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::quantity;
use super::registry::{EVENTS, NODES, PODS};
use super::resources::{self, Amounts};
use super::storage::Key;
use super::world::{Work, World, is_deleting};
use super::{kubelet_faults, kubelet_resize, kubelet_status};

/// Something a kubelet does later. The number is the pod's resize epoch: a timer of an older epoch is void.
#[derive(Clone, Debug)]
pub(super) enum Timer {
    Start(String),
    Ready(String),
    Stopped(String),
    See(String),
    Actuate(String, u64),
    Refused(String, u64, String),
    Restart(String),
    Crash {
        uid: String,
        epoch: u64,
        oom: bool,
    },
    Recover(String, u64),
    Room(String),
    /// A controller looks again.
    Queue(Work),
}

impl Timer {
    fn uid(&self) -> Option<&str> {
        match self {
            Self::Start(uid)
            | Self::Ready(uid)
            | Self::Stopped(uid)
            | Self::See(uid)
            | Self::Actuate(uid, _)
            | Self::Refused(uid, _, _)
            | Self::Restart(uid)
            | Self::Crash { uid, .. }
            | Self::Recover(uid, _) => Some(uid),
            Self::Room(_) | Self::Queue(_) => None,
        }
    }
}

/// What a container is doing, as `state` and `lastState` show it.
#[derive(Clone, Debug)]
pub(super) enum ContainerState {
    Waiting { reason: &'static str, message: String },
    Running { since: String },
    Terminated(Value),
}

/// One long-running container as its kubelet knows it.
#[derive(Clone, Debug)]
pub(super) struct ContainerRun {
    pub name: String,
    pub sidecar: bool,
    pub image: String,
    pub id: String,
    pub restarts: u32,
    pub state: ContainerState,
    pub last: Option<Value>,
    pub ready: bool,
    /// What the kubelet has admitted.
    pub allocated: Value,
    /// What the runtime has.
    pub actual: Value,
    /// What it was started with, before any resize.
    pub born: Value,
}

/// A resize that waits (`PodResizePending`).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    pub reason: &'static str,
    pub message: String,
    pub generation: i64,
    pub since: String,
}

/// A resize under way (`PodResizeInProgress`).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Progress {
    pub generation: i64,
    pub error: Option<String>,
    pub since: String,
}

/// One pod as its kubelet knows it.
#[derive(Clone, Debug)]
pub(super) struct PodRun {
    pub key: Key,
    pub uid: String,
    pub node: String,
    pub containers: Vec<ContainerRun>,
    pub started: bool,
    pub start_time: String,
    pub stopping: bool,
    pub observed: i64,
    pub pending: Option<Pending>,
    pub progress: Option<Progress>,
    pub epoch: u64,
    pub crashes: u32,
    /// What the kubelet counts for it: the larger of allocated and actual.
    pub used: Amounts,
    /// What the scheduler counts for it: also what is desired, unless infeasible.
    pub reserved: Amounts,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeRun {
    pub allocatable: Amounts,
    pub pods_allowed: usize,
    pub ready: bool,
    pub unschedulable: bool,
    pub labels: Value,
    pub taints: Value,
    pub used: Amounts,
    pub reserved: Amounts,
    pub pods: usize,
    /// UIDs of pods whose resize is Deferred.
    pub deferred: BTreeSet<String>,
    /// Timers that came due while the node was not ready.
    pub parked: Vec<Timer>,
}

#[derive(Debug, Default)]
pub(super) struct Kubelets {
    pub pods: BTreeMap<String, PodRun>,
    pub nodes: BTreeMap<String, NodeRun>,
    pub unscheduled: BTreeSet<Key>,
}

impl Kubelets {
    pub(super) fn node_changed(&mut self, name: &str, after: Option<&Value>) {
        let Some(node) = after else {
            self.nodes.remove(name);
            return;
        };
        let run = self.nodes.entry(name.to_owned()).or_default();
        let of = |resource: &str| {
            let status = &node["status"];
            let text = status["allocatable"].get(resource).or(status["capacity"].get(resource));
            text.and_then(quantity::text_of).and_then(|t| quantity::amount(resource, &t)).unwrap_or(0)
        };
        run.allocatable = Amounts { cpu: of("cpu"), memory: of("memory") };
        run.pods_allowed = usize::try_from(of("pods")).unwrap_or(0);
        run.ready = super::world::condition(node, "Ready").is_some_and(|c| c["status"] == "True");
        run.unschedulable = node["spec"]["unschedulable"] == true;
        run.labels = node["metadata"]["labels"].clone();
        run.taints = node["spec"]["taints"].clone();
    }

    /// Drops a pod and answers the node that has its room back.
    pub(super) fn forget(&mut self, uid: &str) -> Option<String> {
        let run = self.pods.remove(uid)?;
        let node = self.nodes.get_mut(&run.node)?;
        node.used = node.used.minus(run.used);
        node.reserved = node.reserved.minus(run.reserved);
        node.pods -= 1;
        node.deferred.remove(uid);
        Some(run.node)
    }
}

/// A pod with a node has changed: its kubelet reads it.
pub(super) fn read(world: &mut World, key: &Key) {
    let Some(pod) = world.get(&PODS, key) else { return };
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let behaviour = world.rules.of(&pod);
    if !world.kubelets.pods.contains_key(&uid) {
        admit(world, key, &uid, &pod);
        world.after(behaviour.start_delay, Timer::Start(uid.clone()));
    }
    recount(world, &uid, &pod);
    let Some(run) = world.kubelets.pods.get_mut(&uid) else { return };
    if is_deleting(&pod) {
        if !run.stopping {
            run.stopping = true;
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
            world.after(behaviour.stop_delay.min(Duration::from_secs(grace)), Timer::Stopped(uid));
        }
    } else if run.started && pod["metadata"]["generation"].as_i64() != Some(run.observed) && !behaviour.deaf {
        world.after(behaviour.resize_delay, Timer::See(uid));
    }
}

fn admit(world: &mut World, key: &Key, uid: &str, pod: &Value) {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let containers = resources::long_running(&pod["spec"])
        .map(|(c, sidecar)| ContainerRun {
            name: c["name"].as_str().unwrap_or_default().to_owned(),
            sidecar,
            image: c["image"].as_str().unwrap_or_default().to_owned(),
            id: String::new(),
            restarts: 0,
            state: ContainerState::Waiting { reason: "ContainerCreating", message: String::new() },
            last: None,
            ready: false,
            allocated: c["resources"].clone(),
            actual: c["resources"].clone(),
            born: c["resources"].clone(),
        })
        .collect();
    let run = PodRun {
        key: key.clone(),
        uid: uid.to_owned(),
        node: node.clone(),
        containers,
        started: false,
        start_time: world.clock.stamp(),
        stopping: false,
        observed: pod["metadata"]["generation"].as_i64().unwrap_or(1),
        pending: None,
        progress: None,
        epoch: 0,
        crashes: 0,
        used: Amounts::default(),
        reserved: Amounts::default(),
    };
    world.kubelets.pods.insert(uid.to_owned(), run);
    if let Some(node) = world.kubelets.nodes.get_mut(&node) {
        node.pods += 1;
    }
}

/// Counts again what a pod takes of its node; room that became free is offered to those who wait for it.
pub(super) fn recount(world: &mut World, uid: &str, pod: &Value) {
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    let mut used = Amounts::default();
    for container in &run.containers {
        used = used.plus(resources::requests(&container.allocated).max(resources::requests(&container.actual)));
    }
    let infeasible = run.pending.as_ref().is_some_and(|p| p.reason == "Infeasible");
    let mut reserved = if infeasible { used } else { used.max(resources::pod_requests(&pod["spec"])) };
    if ended {
        (used, reserved) = (Amounts::default(), Amounts::default());
    }
    let (old_used, old_reserved) = (run.used, run.reserved);
    (run.used, run.reserved) = (used, reserved);
    let name = run.node.clone();
    let Some(node) = world.kubelets.nodes.get_mut(&name) else { return };
    node.used = node.used.plus(used).minus(old_used);
    node.reserved = node.reserved.plus(reserved).minus(old_reserved);
    if !old_used.fits(used) {
        kubelet_resize::room_changed(world, &name);
    }
    if !old_reserved.fits(reserved) {
        world.queue_unscheduled();
    }
}

/// Does what is due, unless the node is not ready: then it waits for it.
pub(super) fn fire(world: &mut World, timer: Timer) {
    if let Some(uid) = timer.uid() {
        let Some(run) = world.kubelets.pods.get(uid) else { return };
        if let Some(node) = world.kubelets.nodes.get_mut(&run.node)
            && !node.ready
        {
            node.parked.push(timer);
            return;
        }
    }
    match timer {
        Timer::Start(uid) => start(world, &uid),
        Timer::Ready(uid) => ready(world, &uid),
        Timer::Stopped(uid) => stopped(world, &uid),
        Timer::See(uid) => kubelet_resize::see(world, &uid),
        Timer::Actuate(uid, epoch) => kubelet_resize::actuate(world, &uid, epoch),
        Timer::Refused(uid, epoch, message) => kubelet_resize::refused(world, &uid, epoch, &message),
        Timer::Restart(uid) => kubelet_resize::restarted(world, &uid),
        Timer::Crash { uid, epoch, oom } => kubelet_faults::crash(world, &uid, epoch, oom),
        Timer::Recover(uid, epoch) => kubelet_faults::recover(world, &uid, epoch),
        Timer::Room(node) => kubelet_resize::offer_room(world, &node),
        Timer::Queue(work) => world.queue(work),
    }
}

fn start(world: &mut World, uid: &str) {
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    if run.stopping {
        return;
    }
    run.started = true;
    let key = run.key.clone();
    let Some(pod) = world.get(&PODS, &key) else { return };
    let behaviour = world.rules.of(&pod);
    let ready = behaviour.ready_delay.is_zero() && !behaviour.never_ready;
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    run.observed = pod["metadata"]["generation"].as_i64().unwrap_or(1);
    let specs: Vec<Value> = resources::long_running(&pod["spec"]).map(|(c, _)| c["resources"].clone()).collect();
    for (container, spec) in run.containers.iter_mut().zip(specs) {
        container.id = world.ids.container();
        container.state = ContainerState::Running { since: now.clone() };
        container.ready = ready;
        container.allocated = spec.clone();
        container.actual = spec.clone();
        container.born = spec;
    }
    kubelet_status::write(world, uid);
    if !ready && !behaviour.never_ready {
        world.after(behaviour.ready_delay, Timer::Ready(uid.to_owned()));
    }
}

fn ready(world: &mut World, uid: &str) {
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    for container in &mut run.containers {
        container.ready = matches!(container.state, ContainerState::Running { .. });
    }
    kubelet_status::write(world, uid);
}

/// The containers of a deleted pod have ended: the object goes.
fn stopped(world: &mut World, uid: &str) {
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    let key = run.key.clone();
    let finalizers =
        world.get(&PODS, &key).is_some_and(|p| p["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty()));
    if finalizers {
        kubelet_faults::end(world, uid);
    } else {
        world.remove(&PODS, &key);
    }
}

/// Sets a node ready or not. A node that is not ready does nothing; its pods lose their readiness.
pub(super) fn set_node_ready(world: &mut World, name: &str, ready: bool) {
    let now = world.clock.stamp();
    let key = (String::new(), name.to_owned());
    world.update(&NODES, &key, |node| {
        let (status, reason) = if ready { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
        node["status"]["conditions"] = json!([{"type": "Ready", "status": status, "reason": reason,
            "lastHeartbeatTime": now, "lastTransitionTime": now}]);
    });
    let uids: Vec<String> =
        world.kubelets.pods.values().filter(|r| r.node == name && r.started).map(|r| r.uid.clone()).collect();
    for uid in uids {
        kubelet_status::write_with_node(world, &uid, ready);
    }
    if ready && let Some(node) = world.kubelets.nodes.get_mut(name) {
        let parked = std::mem::take(&mut node.parked);
        for timer in parked {
            world.after(Duration::ZERO, timer);
        }
    }
}

/// Writes an event about a pod, as the kubelet's recorder does.
pub(super) fn event(world: &mut World, pod: &Value, kind: &str, reason: &str, message: &str) {
    let (meta, now) = (&pod["metadata"], world.clock.stamp());
    let (namespace, pod_name) = (meta["namespace"].as_str().unwrap_or_default(), meta["name"].as_str());
    let name = format!("{}.{:016x}", pod_name.unwrap_or_default(), world.ids.number());
    let metadata = world.metadata(namespace, &name);
    let host = pod["spec"]["nodeName"].clone();
    let object = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": metadata, "type": kind, "reason": reason, "message": message,
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "namespace": namespace,
            "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
        "count": 1, "eventTime": null, "firstTimestamp": now, "lastTimestamp": now,
        "reportingComponent": "kubelet", "reportingInstance": host, "source": {"component": "kubelet", "host": host},
    });
    world.put(&EVENTS, object);
}
