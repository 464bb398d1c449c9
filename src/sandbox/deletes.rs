//! DELETE: preconditions, grace, finalizers, propagation. May not: take care of dependents (the garbage collector's).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Failure;
use super::reads::{self, Reply};
use super::registry::{Kind, PODS};
use super::request::Ask;
use super::storage::Key;
use super::world::{World, is_deleting};

/// The options of a deletion. A body replaces the query: a server reads `dryRun` of the URL only when there is no body.
pub(super) struct Options {
    pub grace: Option<u64>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub dry_run: bool,
    pub propagation: Option<String>,
}

impl Options {
    pub(super) fn of(ask: &Ask) -> Result<Self, Failure> {
        if ask.body.is_empty() {
            return Ok(Self {
                grace: ask.param("gracePeriodSeconds").and_then(|g| g.parse().ok()),
                uid: None,
                version: None,
                dry_run: ask.dry_run("DeleteOptions")?,
                propagation: ask.param("propagationPolicy").map(str::to_owned),
            });
        }
        Ok(Self::of_object(&ask.object()?))
    }

    pub(super) fn of_object(options: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            grace: options["gracePeriodSeconds"].as_u64(),
            uid: text(&options["preconditions"]["uid"]),
            version: text(&options["preconditions"]["resourceVersion"]),
            dry_run: options["dryRun"].as_array().is_some_and(|d| d.iter().any(|v| v == "All")),
            propagation: text(&options["propagationPolicy"]),
        }
    }

    /// Refuses when the object is not the one that was meant.
    pub(super) fn check(&self, kind: &Kind, object: &Value) -> Result<(), Failure> {
        let meta = &object["metadata"];
        let (name, text) = (meta["name"].as_str().unwrap_or_default(), |v: &Value| v.as_str().unwrap_or("").to_owned());
        let refuse = |why: String| {
            let mut failure = Failure::conflict(kind, name, &why);
            failure.message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.kind);
            failure.details = json!({"name": name, "kind": kind.kind});
            Err(failure)
        };
        if let Some(uid) = self.uid.as_ref().filter(|uid| meta["uid"] != ***uid) {
            return refuse(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have \
                 been deleted and then recreated",
                text(&meta["uid"])
            ));
        }
        if let Some(version) = self.version.as_ref().filter(|v| meta["resourceVersion"] != ***v) {
            return refuse(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
                 ({}). The object might have been modified",
                text(&meta["resourceVersion"])
            ));
        }
        Ok(())
    }
}

pub(super) fn delete(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let options = Options::of(ask)?;
    let kind = ask.target.kind;
    let key = (ask.target.space().to_owned(), ask.target.name().to_owned());
    let object = world.get(kind, &key).ok_or_else(|| Failure::not_found(kind, &key.1))?;
    options.check(kind, &object)?;
    if !options.dry_run {
        if options.propagation.as_deref() == Some("Orphan") {
            orphan(world, &object);
        }
        start(world, kind, &key, options.grace);
    }
    let left = world.get(kind, &key);
    let object = match (left, kind.plural) {
        (Some(left), _) => left,
        (None, "pods") => object,
        (None, _) => Arc::new(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": key.1, "kind": kind.plural, "uid": object["metadata"]["uid"]}})),
    };
    Ok(Reply::Object { code: 200, object })
}

pub(super) fn delete_collection(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let options = Options::of(ask)?;
    let Reply::List { items, metadata } = reads::list(world, ask)? else { return Err(Failure::no_such_resource()) };
    if !options.dry_run {
        for item in &items {
            start(world, ask.target.kind, &super::world::key_of(item), options.grace);
        }
    }
    Ok(Reply::List { items, metadata })
}

fn orphan(world: &mut World, owner: &Value) {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    for place in world.all_dependents(&uid) {
        let Some(kind) = super::world::kind_of(place.id) else { continue };
        world.update(kind, &place.key, |object| {
            if let Some(list) = object["metadata"]["ownerReferences"].as_array_mut() {
                list.retain(|r| r["uid"] != uid.as_str());
            }
        });
    }
}

/// Begins the end of an object: at once, or when its grace period or its finalizers are over.
pub(super) fn start(world: &mut World, kind: &'static Kind, key: &Key, grace: Option<u64>) {
    if kind.id == PODS.id {
        pod_gracefully(world, key, grace);
        return;
    }
    let Some(object) = world.get(kind, key) else { return };
    let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    if !finalizers && kind.plural != "namespaces" {
        world.remove(kind, key);
        return;
    }
    let stamp = world.clock.stamp();
    world.update(kind, key, |object| {
        if !is_deleting(object) {
            object["metadata"]["deletionTimestamp"] = stamp.into();
            if kind.plural == "namespaces" {
                object["status"]["phase"] = "Terminating".into();
            }
        }
    });
}

/// Begins the graceful end of a pod; a pod without a node, ended, or with no grace goes at once.
pub(super) fn pod_gracefully(world: &mut World, key: &Key, grace: Option<u64>) {
    let Some(pod) = world.get(&PODS, key) else { return };
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    let usual = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    let homeless = pod["spec"]["nodeName"].is_null();
    let grace = if ended || homeless { 0 } else { grace.unwrap_or(usual) };
    let finalizers = pod["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    if grace == 0 && !finalizers {
        world.remove(&PODS, key);
        return;
    }
    let until = world.clock.stamp_in(Duration::from_secs(grace));
    world.update(&PODS, key, |pod| {
        let metadata = &mut pod["metadata"];
        if metadata.get("deletionTimestamp").is_none() {
            let generation = metadata["generation"].as_i64().unwrap_or(0) + 1;
            metadata["deletionTimestamp"] = until.into();
            metadata["deletionGracePeriodSeconds"] = grace.into();
            metadata["generation"] = generation.into();
        }
    });
}
