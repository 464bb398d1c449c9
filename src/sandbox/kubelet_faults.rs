//! Containers that end: crashes and OOM kills after a resize, and ends on purpose. A pod whose values are back to those
//! it was born with is healthy again. May not: decide about resizes.

use std::time::Duration;

use serde_json::{Value, json};

use super::kubelet::{ContainerState, PodRun, Timer};
use super::kubelet_status;
use super::registry::PODS;
use super::resources;
use super::rules::Behaviour;
use super::world::World;

/// The kubelet's first crash-loop wait, doubled with each crash up to the maximum.
const BACKOFF: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_mins(5);

fn changed_since_birth(run: &PodRun) -> bool {
    run.containers.iter().any(|c| !resources::same(&c.allocated, &c.born))
}

/// After a resize was actuated: arms the faults of the pod, or heals it.
pub(super) fn after_resize(world: &mut World, uid: &str, behaviour: &Behaviour) {
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    let epoch = run.epoch;
    if !changed_since_birth(run) {
        heal(run, &now, behaviour);
        return;
    }
    if behaviour.unready_after_resize {
        for container in &mut run.containers {
            container.ready = false;
        }
    }
    let uid = uid.to_owned();
    if let Some(wait) = behaviour.crash_after_resize {
        world.after(wait, Timer::Crash { uid: uid.clone(), epoch, oom: false });
    }
    if let Some(wait) = behaviour.oom_after_resize {
        world.after(wait, Timer::Crash { uid, epoch, oom: true });
    }
}

fn heal(run: &mut PodRun, now: &str, behaviour: &Behaviour) {
    run.crashes = 0;
    for container in &mut run.containers {
        if matches!(container.state, ContainerState::Waiting { .. }) {
            container.state = ContainerState::Running { since: now.to_owned() };
            container.restarts += 1;
        }
        let running = matches!(container.state, ContainerState::Running { .. });
        container.ready = running && !behaviour.never_ready && (container.ready || behaviour.ready_delay.is_zero());
    }
}

/// A container ends by itself: the first time it starts again at once, then it waits longer and longer.
pub(super) fn crash(world: &mut World, uid: &str, epoch: u64, oom: bool) {
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    if run.epoch != epoch || run.stopping {
        return;
    }
    run.crashes += 1;
    let (crashes, key) = (run.crashes, run.key.clone());
    let Some(index) = run.containers.iter().position(|c| !c.sidecar) else { return };
    let (reason, code) = if oom { ("OOMKilled", 137) } else { ("Error", 1) };
    terminate(world, uid, index, reason, code);
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    let container = &mut run.containers[index];
    if let ContainerState::Terminated(last) = &container.state {
        container.last = Some(last.clone());
    }
    if crashes == 1 {
        container.restarts += 1;
        container.id = world.ids.container();
        container.state = ContainerState::Running { since: now };
        container.ready = true;
        again(world, uid, epoch, oom);
    } else {
        let wait = BACKOFF.saturating_mul(1 << (crashes - 2).min(5)).min(BACKOFF_MAX);
        let message = format!(
            "back-off {} restarting failed container={} pod={}_{}({uid})",
            humantime::format_duration(wait),
            container.name,
            key.1,
            key.0
        );
        container.state = ContainerState::Waiting { reason: "CrashLoopBackOff", message };
        world.after(wait, Timer::Recover(uid.to_owned(), epoch));
    }
    kubelet_status::write(world, uid);
}

fn again(world: &mut World, uid: &str, epoch: u64, oom: bool) {
    let key = world.kubelets.pods.get(uid).map(|r| r.key.clone());
    let Some(pod) = key.and_then(|k| world.get(&PODS, &k)) else { return };
    let behaviour = world.rules.of(&pod);
    let wait = if oom { behaviour.oom_after_resize } else { behaviour.crash_after_resize };
    if let Some(wait) = wait {
        world.after(wait, Timer::Crash { uid: uid.to_owned(), epoch, oom });
    }
}

/// The wait after a crash is over: the container starts, to crash again.
pub(super) fn recover(world: &mut World, uid: &str, epoch: u64) {
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    if run.epoch != epoch || run.stopping {
        return;
    }
    let mut oom = false;
    for container in &mut run.containers {
        if matches!(container.state, ContainerState::Waiting { reason: "CrashLoopBackOff", .. }) {
            oom |= container.last.as_ref().is_some_and(|l| l["reason"] == "OOMKilled");
            container.state = ContainerState::Running { since: now.clone() };
            container.restarts += 1;
            container.id = world.ids.container();
            container.ready = true;
        }
    }
    again(world, uid, epoch, oom);
    kubelet_status::write(world, uid);
}

/// Ends one container, without writing the status.
pub(super) fn terminate(world: &mut World, uid: &str, index: usize, reason: &str, code: i32) {
    let now = world.clock.stamp();
    let Some(run) = world.kubelets.pods.get_mut(uid) else { return };
    let Some(container) = run.containers.get_mut(index) else { return };
    let started = match &container.state {
        ContainerState::Running { since } => Value::from(since.clone()),
        ContainerState::Waiting { .. } | ContainerState::Terminated(_) => Value::from(now.clone()),
    };
    container.ready = false;
    container.state = ContainerState::Terminated(json!({"exitCode": code, "reason": reason, "startedAt": started,
        "finishedAt": now, "containerID": container.id}));
}

/// Ends every container of a pod that stays in the API because of a finalizer.
pub(super) fn end(world: &mut World, uid: &str) {
    let count = world.kubelets.pods.get(uid).map_or(0, |r| r.containers.len());
    for index in 0..count {
        terminate(world, uid, index, "Completed", 0);
    }
    kubelet_status::write(world, uid);
}
