//! Pod status as a kubelet writes it: from what it knows of the pod to the JSON of `status`. May not: decide.

use serde_json::{Map, Value, json};

use super::kubelet::{self, ContainerRun, ContainerState, PodRun};
use super::registry::PODS;
use super::resources;
use super::world::{World, condition};

/// Writes the status of a pod as its kubelet knows it.
pub(super) fn write(world: &mut World, uid: &str) {
    write_with_node(world, uid, true);
}

/// The same, with the readiness of the node taken into account.
pub(super) fn write_with_node(world: &mut World, uid: &str, node_ready: bool) {
    let Some(run) = world.kubelets.pods.get(uid) else { return };
    let Some(pod) = world.get(&PODS, &run.key) else { return };
    if pod["metadata"]["uid"] != uid {
        return;
    }
    let (now, minor) = (world.clock.stamp(), world.minor());
    let status = render(run, &pod, &now, minor, node_ready);
    let key = run.key.clone();
    if let Some(pod) = world.update(&PODS, &key, |pod| pod["status"] = status) {
        kubelet::recount(world, uid, &pod);
    }
}

fn render(run: &PodRun, pod: &Value, now: &str, minor: u32, node_ready: bool) -> Value {
    let spec = &pod["spec"];
    let statuses = |sidecar: bool| -> Vec<Value> {
        run.containers.iter().filter(|c| c.sidecar == sidecar).map(container_status).collect()
    };
    let ended = run.stopping && run.containers.iter().all(|c| matches!(c.state, ContainerState::Terminated(_)));
    let phase = match (ended, run.started) {
        (true, _) => "Succeeded",
        (false, true) => "Running",
        (false, false) => "Pending",
    };
    let mut status = json!({
        "phase": phase,
        "conditions": conditions(run, pod, now, minor, node_ready),
        "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}],
        "startTime": run.start_time,
        "containerStatuses": statuses(false),
        "qosClass": resources::qos(spec),
    });
    if minor >= 34 {
        status["observedGeneration"] = run.observed.into();
    }
    let mut init = statuses(true);
    init.extend(finished_init_containers(spec, &run.start_time));
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    if run.started {
        let address = address(&run.uid);
        status["podIP"] = address.clone().into();
        status["podIPs"] = json!([{"ip": address}]);
        if minor >= 36 {
            let (allocated, actual) = (total(run, |c| &c.allocated), total(run, |c| &c.actual));
            status["allocatedResources"] = allocated["requests"].clone();
            status["resources"] = actual;
        }
    }
    status
}

fn total(run: &PodRun, of: impl Fn(&ContainerRun) -> &Value) -> Value {
    let mut sum = json!({});
    for section in ["requests", "limits"] {
        for resource in ["cpu", "memory"] {
            let amounts = run.containers.iter().map(|c| resources::amount(of(c), section, resource));
            let known: Option<Vec<i64>> =
                if section == "limits" { amounts.collect() } else { Some(amounts.flatten().collect()) };
            let Some(known) = known.filter(|k| !k.is_empty()) else { continue };
            let n: i64 = known.iter().sum();
            let text = if resource == "cpu" { format!("{n}m") } else { binary_text(n) };
            sum[section][resource] = super::quantity::canonical(&text).unwrap_or(text).into();
        }
    }
    sum
}

fn binary_text(bytes: i64) -> String {
    if bytes % 1024 == 0 { format!("{}Ki", bytes / 1024) } else { bytes.to_string() }
}

fn address(uid: &str) -> String {
    let hash = super::clock::fnv(uid);
    format!("10.244.{}.{}", (hash >> 8) & 0xff, hash & 0xff)
}

fn finished_init_containers(spec: &Value, at: &str) -> Vec<Value> {
    let all = spec["initContainers"].as_array().into_iter().flatten();
    all.filter(|c| c["restartPolicy"] != "Always")
        .map(|c| {
            json!({"name": c["name"], "image": c["image"], "imageID": "", "ready": true, "started": false,
                "restartCount": 0, "lastState": {}, "state": {"terminated":
                {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}})
        })
        .collect()
}

fn container_status(run: &ContainerRun) -> Value {
    let running = matches!(run.state, ContainerState::Running { .. });
    let state = match &run.state {
        ContainerState::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
        ContainerState::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        ContainerState::Running { since } => json!({"running": {"startedAt": since}}),
        ContainerState::Terminated(end) => json!({"terminated": end}),
    };
    let mut status = json!({
        "name": run.name, "image": run.image, "imageID": "", "restartCount": run.restarts, "ready": run.ready,
        "started": running, "state": state,
        "lastState": run.last.as_ref().map_or(json!({}), |last| json!({"terminated": last})),
    });
    if !run.id.is_empty() {
        status["containerID"] = run.id.clone().into();
        status["allocatedResources"] = run.allocated.get("requests").cloned().unwrap_or_else(|| json!({}));
        // A container that does not run reports what is allocated, as the kubelet does.
        status["resources"] = if running { run.actual.clone() } else { run.allocated.clone() };
    }
    status
}

fn conditions(run: &PodRun, pod: &Value, now: &str, minor: u32, node_ready: bool) -> Value {
    let mut list = resize_conditions(run);
    let ended = run.stopping && run.containers.iter().all(|c| matches!(c.state, ContainerState::Terminated(_)));
    let unready: Vec<&str> = run.containers.iter().filter(|c| !c.ready).map(|c| c.name.as_str()).collect();
    let (reason, message) = if ended {
        ("PodCompleted", String::new())
    } else {
        ("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
    };
    let ready = unready.is_empty() && !ended;
    for (kind, holds) in [
        ("PodReadyToStartContainers", run.started && !ended),
        ("Initialized", true),
        ("Ready", ready && node_ready),
        ("ContainersReady", ready),
        ("PodScheduled", true),
    ] {
        let mut entry = Map::new();
        entry.insert("type".into(), kind.into());
        entry.insert("status".into(), if holds { "True" } else { "False" }.into());
        entry.insert("lastProbeTime".into(), Value::Null);
        if !holds && matches!(kind, "Ready" | "ContainersReady") && (node_ready || !ready) {
            entry.insert("reason".into(), reason.into());
            if !message.is_empty() {
                entry.insert("message".into(), message.clone().into());
            }
        }
        list.push(entry);
    }
    for entry in &mut list {
        if minor >= 34 && !entry.contains_key("observedGeneration") {
            entry.insert("observedGeneration".into(), run.observed.into());
        }
        if minor < 34 {
            entry.remove("observedGeneration");
        }
        if !entry.contains_key("lastTransitionTime") {
            let kind = entry["type"].as_str().unwrap_or_default();
            let old = condition(pod, kind).filter(|old| old["status"] == entry["status"]);
            let since = old.map_or_else(|| Value::from(now), |o| o["lastTransitionTime"].clone());
            entry.insert("lastTransitionTime".into(), since);
        }
    }
    Value::Array(list.into_iter().map(Value::Object).collect())
}

fn resize_conditions(run: &PodRun) -> Vec<Map<String, Value>> {
    let mut list = Vec::new();
    let mut add = |kind: &str, generation: i64, since: &str, reason: Option<&str>, message: Option<&str>| {
        let mut entry = Map::new();
        entry.insert("type".into(), kind.into());
        entry.insert("status".into(), "True".into());
        entry.insert("observedGeneration".into(), generation.into());
        entry.insert("lastProbeTime".into(), Value::Null);
        entry.insert("lastTransitionTime".into(), since.into());
        if let Some(reason) = reason {
            entry.insert("reason".into(), reason.into());
        }
        if let Some(message) = message {
            entry.insert("message".into(), message.into());
        }
        list.push(entry);
    };
    if let Some(p) = &run.pending {
        add("PodResizePending", p.generation, &p.since, Some(p.reason), Some(&p.message));
    }
    if let Some(p) = &run.progress {
        add("PodResizeInProgress", p.generation, &p.since, p.error.as_ref().map(|_| "Error"), p.error.as_deref());
    }
    list
}
