//! Workloads of the tests: small pods that do nothing, unless told otherwise.

use serde_json::{Value, json};

/// What every container begins with.
pub const CPU: &str = "20m";
pub const MEMORY: &str = "16Mi";

/// A container that sleeps, with requests only.
pub fn container(name: &str) -> Value {
    json!({
        "name": name,
        "image": "kapr.test/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "exec sleep 100000"],
        "resources": {"requests": {"cpu": CPU, "memory": MEMORY}},
    })
}

/// One that runs a script instead.
pub fn script(name: &str, script: &str) -> Value {
    let mut container = container(name);
    container["command"] = json!(["sh", "-c", script]);
    container
}

/// One that restarts when this resource is resized.
pub fn restarting(mut container: Value, resource: &str) -> Value {
    container["resizePolicy"] = json!([{"resourceName": resource, "restartPolicy": "RestartContainer"}]);
    container
}

pub fn deployment(name: &str, replicas: usize) -> Value {
    workload("Deployment", name, replicas, vec![container("app")])
}

/// A workload of any kind. Its pods end at once when they are deleted.
#[expect(clippy::needless_pass_by_value, reason = "called with vec!")]
pub fn workload(kind: &str, name: &str, replicas: usize, containers: Vec<Value>) -> Value {
    let labels = json!({"app": name});
    let mut spec = json!({
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "containers": containers,
            },
        },
    });
    if kind != "DaemonSet" {
        spec["replicas"] = json!(replicas);
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
        spec["podManagementPolicy"] = json!("Parallel");
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}
