//! What the server says of itself: groups, resources, version. May not: read objects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Version;
use super::registry::{KINDS, Kind};

pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]})
}

pub(super) fn groups() -> Value {
    let mut seen: BTreeMap<&str, Value> = BTreeMap::new();
    for kind in KINDS.iter().filter(|k| !k.group.is_empty()) {
        seen.entry(kind.group).or_insert_with(|| group_of(kind));
    }
    let groups: Vec<Value> = seen.into_values().collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_of(kind: &Kind) -> Value {
    let version = json!({"groupVersion": kind.api_version(), "version": kind.version});
    json!({"name": kind.group, "versions": [version], "preferredVersion": version})
}

pub(super) fn group(name: &str) -> Option<Value> {
    let kind = KINDS.iter().find(|k| k.group == name)?;
    let mut group = group_of(kind);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

pub(super) fn resources(group: &str, version: &str) -> Option<Value> {
    let kinds: Vec<&Kind> = KINDS.iter().copied().filter(|k| k.group == group && k.version == version).collect();
    let first = kinds.first()?;
    let mut list = Vec::new();
    for kind in &kinds {
        list.push(resource(kind));
        for sub in kind.sub {
            list.push(subresource(kind, sub));
        }
    }
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(), "resources": list}))
}

fn resource(kind: &Kind) -> Value {
    let verbs: &[&str] = if kind.plural == "selfsubjectaccessreviews" {
        &["create"]
    } else {
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    };
    let mut entry = json!({"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": verbs, "shortNames": kind.short});
    if matches!(kind.plural, "pods" | "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "services") {
        entry["categories"] = json!(["all"]);
    }
    entry
}

fn subresource(kind: &Kind, sub: &str) -> Value {
    let (typed, verbs) = match sub {
        "eviction" => ("Eviction", json!(["create"])),
        "binding" => ("Binding", json!(["create"])),
        "scale" => ("Scale", json!(["get", "patch", "update"])),
        _ => (kind.kind, json!(["get", "patch", "update"])),
    };
    let mut entry = json!({"name": format!("{}/{sub}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
        "kind": typed, "verbs": verbs});
    match sub {
        "eviction" => (entry["group"], entry["version"]) = ("policy".into(), "v1".into()),
        "scale" => (entry["group"], entry["version"]) = ("autoscaling".into(), "v1".into()),
        _ => {}
    }
    entry
}

pub(super) fn version(version: Version) -> Value {
    let Version { minor, patch } = version;
    json!({
        "major": "1", "minor": minor.to_string(), "emulationMajor": "1", "emulationMinor": minor.to_string(),
        "gitVersion": format!("v1.{minor}.{patch}"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.25.0", "compiler": "gc", "platform": "linux/amd64",
    })
}
