//! POST, PUT and PATCH: from the written object to the stored one. The order of the checks is the real server's:
//! version, then what the strategy of the resource keeps, then validation (422), then admission (403).

use std::sync::Arc;

use serde_json::{Value, json};

use super::admission;
use super::answer::{Cause, Failure};
use super::defaults;
use super::patch;
use super::reads::Reply;
use super::registry::{Kind, NAMESPACES, PODS, SERVICE_ACCOUNTS};
use super::request::Ask;
use super::resize;
use super::scale;
use super::storage::Key;
use super::world::World;

pub(super) fn create(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let dry_run = ask.dry_run("CreateOptions")?;
    let object = create_object(world, ask, ask.object()?, dry_run)?;
    Ok(Reply::Object { code: 201, object })
}

fn create_object(world: &mut World, ask: &Ask, mut object: Value, dry_run: bool) -> Result<Arc<Value>, Failure> {
    let (kind, target) = (ask.target.kind, &ask.target);
    object["kind"] = kind.kind.into();
    object["apiVersion"] = kind.api_version().into();
    let name = new_name(world, kind, &mut object)?;
    if kind.namespaced {
        let space = target.space().to_owned();
        if object["metadata"]["namespace"].as_str().is_some_and(|ns| ns != space) {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if world.get(&NAMESPACES, &(String::new(), space.clone())).is_none() {
            return Err(Failure::not_found(&NAMESPACES, &space));
        }
        object["metadata"]["namespace"] = space.into();
    }
    if kind.plural == "pods" {
        admission::mutate_pod(world, &mut object)?;
    }
    defaults::apply(kind, &mut object)?;
    defaults::check(kind, &object)?;
    born(world, kind, &mut object);
    if kind.plural == "pods" {
        defaults::pod(&mut object);
        admission::check_new_pod(world, &object)?;
    }
    manage(world, ask, &mut object, "Update");
    if world.get(kind, &(target.space().to_owned(), name.clone())).is_some() {
        return Err(Failure::already_exists(kind, &name));
    }
    if dry_run {
        return Ok(Arc::new(object));
    }
    let stored = world.put(kind, object);
    if kind.id == NAMESPACES.id {
        service_account(world, &name);
    }
    Ok(stored)
}

/// A namespace and what its controllers put into it.
pub(super) fn create_namespace(world: &mut World, name: &str) {
    let metadata = world.metadata("", name);
    world.put(
        &NAMESPACES,
        json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}}),
    );
    service_account(world, name);
}

fn service_account(world: &mut World, namespace: &str) {
    let metadata = world.metadata(namespace, "default");
    world.put(&SERVICE_ACCOUNTS, json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}));
}

fn new_name(world: &mut World, kind: &Kind, object: &mut Value) -> Result<String, Failure> {
    if let Some(name) = object["metadata"]["name"].as_str().filter(|n| !n.is_empty()) {
        return Ok(name.to_owned());
    }
    let Some(prefix) = object["metadata"]["generateName"].as_str().filter(|n| !n.is_empty()) else {
        let cause = Cause::required("metadata.name", "name or generateName is required");
        return Err(Failure::invalid(kind.group, kind.kind, "", &[cause]));
    };
    let prefix = prefix.to_owned();
    let space = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let name = loop {
        let name = format!("{prefix}{}", world.ids.suffix());
        if world.store.get(kind.id, &space, &name).is_none() {
            break name;
        }
    };
    object["metadata"]["name"] = name.clone().into();
    Ok(name)
}

fn born(world: &mut World, kind: &Kind, object: &mut Value) {
    let metadata = &mut object["metadata"];
    metadata["uid"] = world.ids.uid().into();
    metadata["creationTimestamp"] = world.clock.stamp().into();
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "managedFields"] {
        metadata.as_object_mut().map(|m| m.remove(field));
    }
    if kind.counted {
        metadata["generation"] = 1.into();
    }
    match kind.plural {
        "nodes" => {}
        "namespaces" => object["status"] = json!({"phase": "Active"}),
        _ if kind.has_status() => object["status"] = json!({}),
        _ => {}
    }
}

pub(super) fn update(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let dry_run = ask.dry_run("UpdateOptions")?;
    let written = ask.object()?;
    let kind = ask.target.kind;
    let key = key(ask);
    let old = world.get(kind, &key).ok_or_else(|| Failure::not_found(kind, &key.1))?;
    if written["metadata"]["name"].as_str().is_some_and(|n| n != key.1) {
        let why = "the name of the object does not match the name on the URL";
        return Err(Failure::bad_request(format!("{why} ({})", key.1)));
    }
    let uid = written["metadata"]["uid"].as_str().filter(|u| !u.is_empty());
    if let Some(uid) = uid.filter(|uid| old["metadata"]["uid"] != **uid) {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            kind.plural,
            key.0,
            key.1,
            old["metadata"]["uid"].as_str().unwrap_or_default()
        );
        return Err(Failure::conflict(kind, &key.1, &why));
    }
    finish(world, ask, &old, written, dry_run, "Update")
}

pub(super) fn patch(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let dry_run = ask.dry_run("PatchOptions")?;
    let kind = ask.target.kind;
    let key = key(ask);
    let content_type = ask.content_type.split(';').next().unwrap_or_default().trim().to_owned();
    let applying = content_type == "application/apply-patch+yaml";
    if applying && ask.param("fieldManager").is_none() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &[cause]));
    }
    let Some(old) = world.get(kind, &key) else {
        if applying && ask.target.sub.is_none() {
            let object = create_object(world, ask, super::request::parse("yaml", &ask.body)?, dry_run)?;
            return Ok(Reply::Object { code: 201, object });
        }
        return Err(Failure::not_found(kind, &key.1));
    };
    let scaling = ask.target.sub.as_deref() == Some("scale");
    let base = if scaling { scale::of(&old) } else { (*old).clone() };
    let patched = if applying {
        let mut merged = base;
        let mut applied = super::request::parse("yaml", &ask.body)?;
        applied["metadata"].as_object_mut().map(|m| m.remove("managedFields"));
        patch::strategic(&mut merged, applied, "");
        merged
    } else {
        patch::apply(&content_type, &base, &ask.body)?
    };
    finish(world, ask, &old, patched, dry_run, if applying { "Apply" } else { "Update" })
}

fn key(ask: &Ask) -> Key {
    (ask.target.space().to_owned(), ask.target.name().to_owned())
}

/// Everything from the written object on, for PUT and PATCH alike.
fn finish(
    world: &mut World,
    ask: &Ask,
    old: &Arc<Value>,
    written: Value,
    dry_run: bool,
    operation: &str,
) -> Result<Reply, Failure> {
    let kind = ask.target.kind;
    let name = ask.target.name();
    let sub = ask.target.sub.as_deref();
    let version = written["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && old["metadata"]["resourceVersion"] != version {
        return Err(Failure::modified(kind, name));
    }
    let new_uid = written["metadata"]["uid"].as_str().filter(|u| !u.is_empty());
    if let Some(uid) = new_uid.filter(|uid| old["metadata"]["uid"] != **uid) {
        let cause = Cause::invalid("metadata.uid", uid, "field is immutable");
        return Err(Failure::invalid(kind.group, kind.kind, name, &[cause]));
    }
    let mut new = strategy(kind, sub, old, written, ask, world.minor())?;
    if sub == Some("resize") && resized(old, &new) {
        admission::check_resize(world, old, &new)?;
    }
    if kind.counted && sub != Some("status") && new["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        new["metadata"]["generation"] = generation.into();
    }
    if new == **old {
        return Ok(answer(sub, old.clone()));
    }
    manage(world, ask, &mut new, operation);
    if dry_run {
        return Ok(answer(sub, Arc::new(new)));
    }
    let finalizers = new["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    let stored = world.put(kind, new);
    if super::world::is_deleting(&stored) && finalizers == 0 && kind.plural != "pods" && kind.plural != "namespaces" {
        world.remove(kind, &key(ask));
    }
    Ok(answer(sub, stored))
}

fn resized(old: &Value, new: &Value) -> bool {
    old["spec"] != new["spec"]
}

fn answer(sub: Option<&str>, object: Arc<Value>) -> Reply {
    let object = if sub == Some("scale") { Arc::new(scale::of(&object)) } else { object };
    Reply::Object { code: 200, object }
}

/// What of a written object counts, by resource and subresource.
fn strategy(
    kind: &Kind,
    sub: Option<&str>,
    old: &Value,
    mut written: Value,
    ask: &Ask,
    minor: u32,
) -> Result<Value, Failure> {
    match sub {
        Some("status") => {
            let mut new = old.clone();
            new["status"] = written["status"].take();
            Ok(new)
        }
        Some("scale") => {
            let new = scale::applied(old, &written);
            if new["spec"]["replicas"].as_i64().is_none_or(|n| n < 0) {
                let text = new["spec"]["replicas"].to_string();
                let cause = Cause::invalid("spec.replicas", &text, "must be greater than or equal to 0");
                return Err(Failure::invalid("autoscaling", "Scale", ask.target.name(), &[cause]));
            }
            Ok(restore(kind, old, new))
        }
        Some("resize") => {
            decode(kind, &mut written, ask)?;
            let new = resize::prepare(old, &written);
            resize::check(old, &new, minor)?;
            Ok(new)
        }
        _ => {
            decode(kind, &mut written, ask)?;
            if kind.has_status() && kind.plural != "nodes" {
                match old.get("status") {
                    Some(status) => written["status"] = status.clone(),
                    None => {
                        written.as_object_mut().map(|o| o.remove("status"));
                    }
                }
            }
            let new = restore(kind, old, written);
            defaults::check(kind, &new)?;
            immutable(kind, old, &new)?;
            Ok(new)
        }
    }
}

/// Canonical quantities and defaults of a written object; the complaint shows the patch, as the server's does.
fn decode(kind: &Kind, written: &mut Value, ask: &Ask) -> Result<(), Failure> {
    defaults::apply(kind, written).map_err(|mut failure| {
        if ask.method == http::Method::PATCH
            && let Ok(patch) = serde_json::from_slice::<Value>(&ask.body)
        {
            let shown = go_map(&patch);
            let cause = failure.details["causes"][0]["message"].as_str().unwrap_or_default().to_owned();
            let sentence = cause.split_once("\": ").map_or(cause.as_str(), |(_, s)| s).to_owned();
            failure = Failure::invalid("", "", "", &[Cause::invalid("patch", &shown, &sentence)]);
            failure.details = json!({"causes": failure.details["causes"]});
        }
        failure
    })
}

/// A value as Go prints a map.
fn go_map(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_map(v))).collect();
            format!("map[{}]", parts.join(" "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(go_map).collect::<Vec<_>>().join(" ")),
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// Puts back what no client may change.
fn restore(kind: &Kind, old: &Value, mut new: Value) -> Value {
    new["kind"] = kind.kind.into();
    new["apiVersion"] = kind.api_version().into();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
        "resourceVersion",
        "managedFields",
    ] {
        match old["metadata"].get(field) {
            Some(value) => new["metadata"][field] = value.clone(),
            None => {
                new["metadata"].as_object_mut().map(|m| m.remove(field));
            }
        }
    }
    new
}

const POD_UPDATE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn immutable(kind: &Kind, old: &Value, new: &Value) -> Result<(), Failure> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    if kind.id == PODS.id {
        let masked = |pod: &Value| {
            let mut spec = pod["spec"].clone();
            for field in ["containers", "initContainers"] {
                for container in spec[field].as_array_mut().into_iter().flatten() {
                    container.as_object_mut().map(|c| c.remove("image"));
                }
            }
            for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
                spec.as_object_mut().map(|s| s.remove(field));
            }
            spec
        };
        if masked(old) != masked(new) {
            return Err(Failure::invalid("", kind.kind, name, &[Cause::forbidden("spec", POD_UPDATE)]));
        }
    }
    if kind.group == "apps" && old["spec"]["selector"] != new["spec"]["selector"] {
        let cause = Cause::invalid("spec.selector", &new["spec"]["selector"].to_string(), "field is immutable");
        return Err(Failure::invalid(kind.group, kind.kind, name, &[cause]));
    }
    Ok(())
}

/// Notes the last writer.
fn manage(world: &World, ask: &Ask, object: &mut Value, operation: &str) {
    let manager = ask.manager();
    let sub = ask.target.sub.as_deref();
    let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": ask.target.kind.api_version(),
        "time": world.clock.stamp(), "fieldsType": "FieldsV1", "fieldsV1": {}});
    if let Some(sub) = sub.filter(|s| *s != "scale") {
        entry["subresource"] = sub.into();
    }
    if !object["metadata"]["managedFields"].is_array() {
        object["metadata"]["managedFields"] = json!([]);
    }
    let Some(list) = object["metadata"]["managedFields"].as_array_mut() else { return };
    list.retain(|e| {
        e["manager"] != entry["manager"]
            || e["operation"] != entry["operation"]
            || e.get("subresource") != entry.get("subresource")
    });
    list.push(entry);
}
