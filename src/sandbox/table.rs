//! Tables for `kubectl get`: the columns of the resources people look at, name and age for the rest.

use serde_json::{Value, json};

use super::registry::Kind;
use super::world::condition;

/// A `Table` of objects.
pub(super) fn of<'a>(
    kind: &Kind,
    items: impl Iterator<Item = &'a Value>,
    metadata: &Value,
    with_object: bool,
    now: i64,
) -> Value {
    let columns = columns(kind);
    let definitions: Vec<Value> = columns
        .iter()
        .map(|(name, _)| {
            let (format, integer) = (if *name == "Name" { "name" } else { "" }, is_number(name));
            let typed = if integer { "integer" } else { "string" };
            json!({"name": name, "type": typed, "format": format, "description": "", "priority": 0})
        })
        .collect();
    let rows: Vec<Value> = items
        .map(|object| {
            let cells: Vec<Value> = columns
                .iter()
                .map(|(name, cell)| match *name {
                    "Age" | "Last Seen" => age(&cell(object), now),
                    _ => cell(object),
                })
                .collect();
            let shown = if with_object {
                object.clone()
            } else {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
            };
            json!({"cells": cells, "object": shown})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions,
        "rows": rows})
}

fn is_number(column: &str) -> bool {
    matches!(column, "Desired" | "Current" | "Allowed Disruptions")
}

type Cell = fn(&Value) -> Value;

fn columns(kind: &Kind) -> Vec<(&'static str, Cell)> {
    let middle: Vec<(&'static str, Cell)> = match kind.plural {
        "pods" => vec![("Ready", pod_ready), ("Status", pod_status), ("Restarts", pod_restarts)],
        "deployments" => vec![
            ("Ready", replicas_ready),
            ("Up-to-date", |o| number(&o["status"]["updatedReplicas"])),
            ("Available", |o| number(&o["status"]["availableReplicas"])),
        ],
        "statefulsets" => vec![("Ready", replicas_ready)],
        "replicasets" => vec![
            ("Desired", |o| number(&o["spec"]["replicas"])),
            ("Current", |o| number(&o["status"]["replicas"])),
            ("Ready", |o| number(&o["status"]["readyReplicas"])),
        ],
        "daemonsets" => vec![
            ("Desired", |o| number(&o["status"]["desiredNumberScheduled"])),
            ("Current", |o| number(&o["status"]["currentNumberScheduled"])),
            ("Ready", |o| number(&o["status"]["numberReady"])),
            ("Up-to-date", |o| number(&o["status"]["updatedNumberScheduled"])),
            ("Available", |o| number(&o["status"]["numberAvailable"])),
        ],
        "poddisruptionbudgets" => vec![
            ("Min Available", |o| or_none(&o["spec"]["minAvailable"])),
            ("Max Unavailable", |o| or_none(&o["spec"]["maxUnavailable"])),
            ("Allowed Disruptions", |o| number(&o["status"]["disruptionsAllowed"])),
        ],
        "nodes" => vec![
            ("Status", node_status),
            ("Roles", |_| "<none>".into()),
            ("Version", |o| o["status"]["nodeInfo"]["kubeletVersion"].clone()),
        ],
        "namespaces" => vec![("Status", |o| o["status"]["phase"].clone())],
        "configmaps" => vec![("Data", |o| number(&o["data"].as_object().map_or(0, serde_json::Map::len).into()))],
        "leases" => vec![("Holder", |o| o["spec"]["holderIdentity"].clone())],
        "events" => {
            return vec![
                ("Last Seen", |o| o["lastTimestamp"].clone()),
                ("Type", |o| o["type"].clone()),
                ("Reason", |o| o["reason"].clone()),
                ("Object", involved),
                ("Message", |o| o["message"].clone()),
            ];
        }
        _ => Vec::new(),
    };
    let mut all: Vec<(&'static str, Cell)> = vec![("Name", |o| o["metadata"]["name"].clone())];
    all.extend(middle);
    all.push(("Age", |o| o["metadata"]["creationTimestamp"].clone()));
    all
}

fn number(value: &Value) -> Value {
    if value.is_null() { 0.into() } else { value.clone() }
}

fn or_none(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(_) => value.clone(),
        other => other.to_string().into(),
    }
}

fn involved(event: &Value) -> Value {
    let object = &event["involvedObject"];
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("kind").to_lowercase(), text("name")).into()
}

fn replicas_ready(object: &Value) -> Value {
    format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"])).into()
}

fn node_status(node: &Value) -> Value {
    let ready = condition(node, "Ready").is_some_and(|c| c["status"] == "True");
    let text = if ready { "Ready" } else { "NotReady" };
    if node["spec"]["unschedulable"] == true { format!("{text},SchedulingDisabled").into() } else { text.into() }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["status"]["containerStatuses"].as_array().into_iter().flatten()
}

fn pod_ready(pod: &Value) -> Value {
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    format!("{}/{all}", containers(pod).filter(|c| c["ready"] == true).count()).into()
}

fn pod_status(pod: &Value) -> Value {
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    let reason = |c: &Value| {
        let state = &c["state"];
        state["waiting"]["reason"].as_str().or(state["terminated"]["reason"].as_str()).map(str::to_owned)
    };
    containers(pod).find_map(reason).map_or_else(|| pod["status"]["phase"].clone(), Value::from)
}

fn pod_restarts(pod: &Value) -> Value {
    containers(pod).filter_map(|c| c["restartCount"].as_u64()).sum::<u64>().to_string().into()
}

/// The age of a time as kubectl prints it. `now` is the cluster's time in seconds.
fn age(since: &Value, now: i64) -> Value {
    let parsed = since.as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
    let Some(at) = parsed else { return "<unknown>".into() };
    let seconds = (now - at.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0..=1) => format!("{seconds}s"),
        (0, 0, 2..=9) if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        (0, 0..=2, _) => format!("{minutes}m"),
        (0..=1, _, _) => format!("{hours}h"),
        _ => format!("{days}d"),
    }
    .into()
}
