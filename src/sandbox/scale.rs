//! The `scale` subresource: another view of `spec.replicas`. May not: store.

use serde_json::{Value, json};

/// The Scale of a workload.
pub(super) fn of(object: &Value) -> Value {
    let meta = &object["metadata"];
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let selector: Vec<String> =
        labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"], "creationTimestamp": meta["creationTimestamp"]},
        "spec": {"replicas": object["spec"]["replicas"]},
        "status": {"replicas": object["status"].get("replicas").cloned().unwrap_or_else(|| 0.into()),
            "selector": selector.join(",")},
    })
}

/// The workload with the replicas and the version of a written Scale.
pub(super) fn applied(object: &Value, scale: &Value) -> Value {
    let mut object = object.clone();
    object["spec"]["replicas"] = scale["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
    if let Some(version) = scale["metadata"].get("resourceVersion") {
        object["metadata"]["resourceVersion"] = version.clone();
    }
    object
}
