//! GET: one object, a list in pages, and where a watch begins. May not: write.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use super::answer::Failure;
use super::request::Ask;
use super::selectors::{FieldSelector, LabelSelector};
use super::storage::Key;
use super::world::World;

/// What an answer is made of; the encoder gives it the form that was asked for.
pub(super) enum Reply {
    Object { code: u16, object: Arc<Value> },
    List { items: Vec<Arc<Value>>, metadata: Value },
    Watch(WatchFrom),
}

/// Where a watch begins and what it lets through.
pub(super) struct WatchFrom {
    pub version: u64,
    /// Objects to announce first.
    pub first: Vec<Arc<Value>>,
    pub filter: Filter,
    pub timeout: Option<u64>,
    pub bookmarks: bool,
    pub initial_end: bool,
}

/// What a list or watch lets through.
#[derive(Clone)]
pub(super) struct Filter {
    pub namespace: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Filter {
    fn of(ask: &Ask) -> Result<Self, Failure> {
        let mut fields = FieldSelector::parse(ask.param("fieldSelector").unwrap_or(""), ask.target.kind)?;
        if let Some(name) = &ask.target.name {
            fields = FieldSelector::parse(&format!("metadata.name={name}"), ask.target.kind)?;
        }
        Ok(Self {
            namespace: ask.target.namespace.clone(),
            labels: LabelSelector::parse(ask.param("labelSelector").unwrap_or(""))?,
            fields,
        })
    }

    pub(super) fn passes(&self, namespace: &str, object: &Value) -> bool {
        self.namespace.as_deref().is_none_or(|ns| ns == namespace)
            && self.labels.matches(object)
            && self.fields.matches(object)
    }
}

pub(super) fn get(world: &World, ask: &Ask) -> Result<Reply, Failure> {
    let target = &ask.target;
    let found = world.store.get(target.kind.id, target.space(), target.name()).cloned();
    let object = found.ok_or_else(|| Failure::not_found(target.kind, target.name()))?;
    if target.sub.as_deref() == Some("scale") {
        return Ok(Reply::Object { code: 200, object: Arc::new(super::scale::of(&object)) });
    }
    Ok(Reply::Object { code: 200, object })
}

pub(super) fn list(world: &World, ask: &Ask) -> Result<Reply, Failure> {
    let filter = Filter::of(ask)?;
    let id = ask.target.kind.id;
    let limit = ask.param("limit").and_then(|l| l.parse::<usize>().ok()).filter(|l| *l > 0);
    let mut version = world.store.version();
    let mut rest: Box<dyn Iterator<Item = (&Key, &Arc<Value>)>> = world.store.list(id, filter.namespace.as_deref());
    if let Some(token) = ask.param("continue") {
        let (at, key) = read_token(token)?;
        world.store.check_version(id, at).map_err(|_| token_expired())?;
        version = at;
        rest = world.store.after(id, &key);
    }
    let mut matching = rest.filter(|((ns, _), object)| filter.passes(ns, object));
    let mut metadata = json!({});
    let items: Vec<Arc<Value>> = match limit {
        None => matching.map(|(_, object)| object.clone()).collect(),
        Some(limit) => {
            let page: Vec<(&Key, &Arc<Value>)> = matching.by_ref().take(limit).collect();
            let more = matching.count();
            if let Some((key, _)) = page.last().filter(|_| more > 0) {
                metadata["continue"] = token(version, key).into();
                if filter.labels.is_everything() && filter.fields.is_everything() {
                    metadata["remainingItemCount"] = more.into();
                }
            }
            page.into_iter().map(|(_, object)| object.clone()).collect()
        }
    };
    metadata["resourceVersion"] = version.to_string().into();
    Ok(Reply::List { items, metadata })
}

fn token(version: u64, key: &Key) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json!([version, key.0, key.1]).to_string())
}

fn read_token(token: &str) -> Result<(u64, Key), Failure> {
    let read = || -> Option<(u64, Key)> {
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok()?;
        let (version, namespace, name) = serde_json::from_slice(&bytes).ok()?;
        Some((version, (namespace, name)))
    };
    read().ok_or_else(|| {
        Failure::bad_request("invalid continue token: continue key is not valid: illegal base64 data at input byte 0")
    })
}

fn token_expired() -> Failure {
    Failure::new(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You must start a new list \
         without the continue parameter.",
    )
}

pub(super) fn watch(world: &World, ask: &Ask) -> Result<Reply, Failure> {
    let filter = Filter::of(ask)?;
    let kind = ask.target.kind;
    let asked = ask.param("resourceVersion").unwrap_or("");
    let version: u64 = if asked.is_empty() {
        0
    } else {
        asked.parse().map_err(|_| Failure::bad_request(format!("Invalid value: {asked:?}: strconv.ParseUint")))?
    };
    let initial = ask.flag("sendInitialEvents");
    let (version, first) = if version == 0 || initial {
        let all = world.store.list(kind.id, filter.namespace.as_deref());
        let first = all.filter(|((ns, _), o)| filter.passes(ns, o)).map(|(_, o)| o.clone()).collect();
        (world.store.version(), first)
    } else {
        (version, Vec::new())
    };
    Ok(Reply::Watch(WatchFrom {
        version,
        first,
        filter,
        timeout: ask.param("timeoutSeconds").and_then(|t| t.parse().ok()),
        bookmarks: ask.flag("allowWatchBookmarks"),
        initial_end: initial,
    }))
}
