//! The kinds of PATCH: strategic merge, JSON merge, JSON patch. Pure functions over JSON.

use serde_json::{Map, Value};

use super::answer::Failure;

/// The list of objects that a strategic merge joins by key; `None` means the list is replaced.
fn merge_key(parent: &str, field: &str) -> Option<&'static str> {
    Some(match (parent, field) {
        (_, "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "imagePullSecrets") => "name",
        ("containers" | "initContainers", "ports") => "containerPort",
        ("spec", "ports") => "port",
        (_, "volumeMounts") => "mountPath",
        (_, "volumeDevices") => "devicePath",
        (_, "conditions" | "addresses") => "type",
        (_, "ownerReferences") => "uid",
        (_, "hostAliases") => "ip",
        (_, "taints") => "key",
        (_, "topologySpreadConstraints") => "topologyKey",
        _ => return None,
    })
}

fn merges_primitives(field: &str) -> bool {
    field == "finalizers"
}

/// Applies a patch of a content type to an object.
pub(super) fn apply(content_type: &str, object: &Value, body: &[u8]) -> Result<Value, Failure> {
    let parse = || -> Result<Value, Failure> {
        serde_json::from_slice(body).map_err(|_| Failure::bad_request("invalid JSON patch"))
    };
    let mut result = object.clone();
    match content_type {
        "application/strategic-merge-patch+json" => strategic(&mut result, parse()?, ""),
        "application/merge-patch+json" => json_merge(&mut result, parse()?),
        "application/json-patch+json" => json_patch(&mut result, &parse()?)?,
        _ => {
            let refused = Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            return Err(Failure { details: serde_json::json!({}), ..refused });
        }
    }
    Ok(result)
}

/// RFC 7396.
pub(super) fn json_merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    let map = as_map(target);
    for (key, value) in patch {
        if value.is_null() {
            map.remove(&key);
        } else {
            json_merge(map.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object on the line above")
}

/// Strategic merge: like a JSON merge, but lists with a merge key are joined.
pub(super) fn strategic(target: &mut Value, patch: Value, parent: &str) {
    let Value::Object(mut patch) = patch else {
        *target = patch;
        return;
    };
    if patch.remove("$patch").as_ref().and_then(Value::as_str) == Some("replace") {
        *target = Value::Object(patch);
        return;
    }
    if let Some(Value::Array(kept)) = patch.remove("$retainKeys") {
        as_map(target).retain(|key, _| kept.iter().any(|k| k == key));
    }
    let map = as_map(target);
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix("$deleteFromPrimitiveList/") {
            delete_primitives(map.get_mut(field), &value);
        } else if key.starts_with("$setElementOrder/") {
            // The order of the elements changes nothing that the sandbox decides.
        } else if value.is_null() {
            map.remove(&key);
        } else if let Value::Array(items) = value {
            let list = map.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
            merge_list(list, items, parent, &key);
        } else {
            strategic(map.entry(key.clone()).or_insert(Value::Null), value, &key);
        }
    }
}

fn delete_primitives(list: Option<&mut Value>, gone: &Value) {
    if let (Some(Value::Array(list)), Value::Array(gone)) = (list, gone) {
        list.retain(|item| !gone.contains(item));
    }
}

fn merge_list(list: &mut Value, items: Vec<Value>, parent: &str, field: &str) {
    if merges_primitives(field) {
        let Value::Array(old) = list else { return };
        for item in items {
            if !old.contains(&item) {
                old.push(item);
            }
        }
        return;
    }
    let key = merge_key(parent, field);
    let (Some(key), Value::Array(old)) = (key, &mut *list) else {
        *list = Value::Array(items);
        return;
    };
    if items.iter().any(|i| i.get("$patch").and_then(Value::as_str) == Some("replace")) {
        *old = items.into_iter().filter(|i| i.get("$patch").is_none()).collect();
        return;
    }
    let named: Vec<Value> =
        items.iter().filter(|i| i.get("$patch").is_none()).filter_map(|i| i.get(key).cloned()).collect();
    let before: Vec<Value> = old.iter().filter_map(|o| o.get(key).cloned()).collect();
    for item in items {
        join(old, item, key, field);
    }
    reorder(old, key, &named, &before);
}

fn join(list: &mut Vec<Value>, item: Value, key: &str, field: &str) {
    let at = list.iter().position(|o| o.get(key).is_some() && o.get(key) == item.get(key));
    let deletes = item.get("$patch").and_then(Value::as_str) == Some("delete");
    match (at, deletes) {
        (Some(at), true) => {
            list.remove(at);
        }
        (None, true) => {}
        (Some(at), false) => strategic(&mut list[at], item, field),
        (None, false) => {
            let mut fresh = Value::Null;
            strategic(&mut fresh, item, field);
            list.push(fresh);
        }
    }
}

/// The order a real server leaves: the items of the patch in the patch's order, the others in theirs, merged by where
/// they were before; an item that is new comes before those that it is compared with. So a patch that names two
/// containers in the wrong order reorders them.
fn reorder(list: &mut Vec<Value>, key: &str, named: &[Value], before: &[Value]) {
    let place = |order: &[Value], item: &Value| order.iter().position(|k| Some(k) == item.get(key));
    let (mut named_ones, others): (Vec<Value>, Vec<Value>) =
        std::mem::take(list).into_iter().partition(|item| place(named, item).is_some());
    named_ones.sort_by_key(|item| place(named, item));
    let (mut first, mut rest) = (named_ones.into_iter().peekable(), others.into_iter().peekable());
    while let Some(item) = first.peek() {
        let comes_now = rest.peek().is_none_or(|other| match (place(before, item), place(before, other)) {
            (Some(a), Some(b)) => a < b,
            _ => true,
        });
        list.extend(if comes_now { first.next() } else { rest.next() });
    }
    list.extend(rest);
}

/// RFC 6902; the whole patch or nothing.
fn json_patch(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let operations = patch.as_array().ok_or_else(|| Failure::bad_request("invalid JSON patch"))?;
    for operation in operations {
        let at = operation["path"].as_str().unwrap_or_default();
        let done = match operation["op"].as_str().unwrap_or_default() {
            "add" => insert(object, at, operation["value"].clone(), false),
            "replace" => insert(object, at, operation["value"].clone(), true),
            "remove" => take(object, at).map(|_| ()),
            "test" => (object.pointer(at).unwrap_or(&Value::Null) == &operation["value"]).then_some(()),
            "copy" => {
                let from = operation["from"].as_str().unwrap_or_default();
                object.pointer(from).cloned().and_then(|v| insert(object, at, v, false))
            }
            "move" => {
                let from = operation["from"].as_str().unwrap_or_default();
                take(object, from).and_then(|v| insert(object, at, v, false))
            }
            _ => None,
        };
        done.ok_or_else(|| {
            let message = "the server rejected our request due to an error in our request";
            Failure { details: serde_json::json!({}), ..Failure::new(422, "Invalid", message) }
        })?;
    }
    Ok(())
}

fn place<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (above, last) = path.rsplit_once('/')?;
    Some((object.pointer_mut(above)?, last.replace("~1", "/").replace("~0", "~")))
}

fn insert(object: &mut Value, path: &str, value: Value, replace: bool) -> Option<()> {
    if path.is_empty() {
        *object = value;
        return Some(());
    }
    let (holder, last) = place(object, path)?;
    match holder {
        Value::Object(map) => {
            if replace && !map.contains_key(&last) {
                return None;
            }
            map.insert(last, value);
        }
        Value::Array(items) => {
            let at = if last == "-" { items.len() } else { last.parse().ok()? };
            if replace {
                *items.get_mut(at)? = value;
            } else if at <= items.len() {
                items.insert(at, value);
            } else {
                return None;
            }
        }
        _ => return None,
    }
    Some(())
}

fn take(object: &mut Value, path: &str) -> Option<Value> {
    let (holder, last) = place(object, path)?;
    match holder {
        Value::Object(map) => map.remove(&last),
        Value::Array(items) => {
            let at: usize = last.parse().ok()?;
            (at < items.len()).then(|| items.remove(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({"spec": {"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}, {"name": "b"}]}})
    }

    fn patched(content_type: &str, patch: &Value) -> Result<Value, Failure> {
        apply(&format!("application/{content_type}"), &pod(), patch.to_string().as_bytes())
    }

    #[test]
    fn strategic_merge_joins_containers_by_name() {
        let patch =
            json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2", "memory": null}}}]}});
        let result = patched("strategic-merge-patch+json", &patch).expect("a patch");
        assert_eq!(
            result["spec"]["containers"],
            json!([{"name": "a", "resources": {"requests": {"cpu": "2"}}}, {"name": "b"}])
        );
    }

    #[test]
    fn strategic_merge_orders_as_the_patch_does() {
        let names = |patch: Value| -> Vec<String> {
            let result =
                patched("strategic-merge-patch+json", &json!({"spec": {"containers": patch}})).expect("a patch");
            let list = result["spec"]["containers"].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
        };
        assert_eq!(names(json!([{"name": "b", "x": 1}])), ["a", "b"]);
        assert_eq!(names(json!([{"name": "b"}, {"name": "a"}])), ["b", "a"]);
        assert_eq!(names(json!([{"name": "new"}])), ["new", "a", "b"]);
    }

    #[test]
    fn strategic_merge_deletes_and_orders() {
        let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}],
            "containers": [{"name": "a", "$patch": "delete"}]}});
        let result = patched("strategic-merge-patch+json", &patch).expect("a patch");
        assert_eq!(result, json!({"spec": {"containers": [{"name": "b"}]}}));
    }

    #[test]
    fn json_merge_replaces_lists() {
        let result = patched("merge-patch+json", &json!({"spec": {"containers": []}, "x": 1})).expect("a patch");
        assert_eq!(result, json!({"spec": {"containers": []}, "x": 1}));
    }

    #[test]
    fn json_patch_is_all_or_nothing() {
        let path = "/spec/containers/0/resources/requests/cpu";
        let good = json!([{"op": "test", "path": path, "value": "1"}, {"op": "replace", "path": path, "value": "3"}]);
        let result = patched("json-patch+json", &good).expect("a patch");
        assert_eq!(result.pointer(path), Some(&json!("3")));
        let bad = json!([{"op": "test", "path": path, "value": "9"}]);
        assert_eq!(patched("json-patch+json", &bad).map_err(|f| f.code), Err(422));
        assert_eq!(patched("json-patch+json", &json!({})).map_err(|f| f.code), Err(400));
    }

    #[test]
    fn other_content_types_are_refused() {
        assert_eq!(apply("text/plain", &pod(), b"{}").map_err(|f| f.code), Err(415));
        let path = apply("application/strategic-merge-patch+json", &pod(), b"{bad").map_err(|f| f.message);
        assert_eq!(path, Err("invalid JSON patch".to_owned()));
    }
}
