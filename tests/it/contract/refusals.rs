//! What a resize is refused for, and in which words.

use serde_json::{Value, json};

use super::cluster::{Cluster, burstable, container, cpu, pod, to, version};

const IMMUTABLE: &str = "only cpu and memory resources are mutable";

pub async fn refused_by_validation(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let at = "spec.containers[0].resources";
    for (patch, cause, words) in [
        (to(json!({"requests": {"cpu": null}})), "FieldValueForbidden", format!("{at}.requests: Forbidden: resource requests cannot be removed")),
        (to(json!({"limits": {"memory": null}})), "FieldValueForbidden", format!("{at}.limits: Forbidden: resource limits cannot be removed")),
        (to(json!({"requests": {"memory": "64Mi"}})), "FieldValueInvalid",
            format!("{at}.requests: Invalid value: \"64Mi\": must be less than or equal to memory limit of 32Mi")),
        (to(json!({"requests": {"cpu": "-5m"}})), "FieldValueInvalid",
            format!("{at}.requests[cpu]: Invalid value: \"-5m\": must be greater than or equal to 0")),
        (to(json!({"requests": {"ephemeral-storage": "1Gi"}})), "FieldValueForbidden", format!("spec: Forbidden: {IMMUTABLE}")),
        (to(json!({"requests": {"memory": "32Mi"}, "limits": {"cpu": "10m"}})), "FieldValueInvalid",
            "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing".to_owned()),
        (json!({"spec": {"containers": [{"name": "app", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]}}),
            "FieldValueForbidden", format!("spec: Forbidden: {IMMUTABLE}")),
        (json!({"spec": {"containers": [{"name": "nope", "resources": {"requests": {"cpu": "10m"}}}]}}), "FieldValueRequired",
            "[spec.containers[0].image: Required value, spec.containers: Forbidden: containers may not be added or removed on resize]".to_owned()),
    ] {
        let refusal = cluster.resize("a", &patch).await.expect_err("it is refused");
        assert_eq!(refusal.all(), (422, "Invalid", format!("Pod \"a\" is invalid: {words}").as_str()));
        assert_eq!(refusal.cause(), cause);
    }
    cluster.pod("best", json!({})).await;
    let refusal = cluster.resize("best", &cpu("10m")).await.expect_err("it is refused");
    assert!(refusal.message().contains("Invalid value: \"BestEffort\": Pod QOS Class may not change"), "{refusal:?}");
}

pub async fn refused_by_the_main_endpoint(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let path = cluster.pod_path("a");
    let answer = cluster.send("PATCH", &path, "application/strategic-merge-patch+json", &cpu("20m")).await;
    let refusal = answer.expect_err("it is refused");
    assert_eq!((refusal.code, refusal.reason()), (422, "Invalid"));
    assert!(refusal.message().starts_with(
        "Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    ));
}

pub async fn refused_patches(cluster: &Cluster) {
    let before = cluster.pod("a", burstable()).await;
    let path = cluster.pod_path("a/resize");
    let json_patch = |op: &str, value: &str| -> Value {
        json!([{"op": op, "path": "/spec/containers/0/resources/requests/cpu", "value": value}])
    };
    let answer = cluster.send("PATCH", &path, "application/json-patch+json", &json_patch("test", "99m")).await;
    let refusal = answer.expect_err("the test fails");
    let words = "the server rejected our request due to an error in our request";
    assert_eq!(refusal.all(), (422, "Invalid", words));
    let answer = cluster.send("PATCH", &path, "application/merge-patch+json", &cpu("20m")).await;
    let refusal = answer.expect_err("a JSON merge replaces the list");
    assert!(refusal.message().contains("resource limits cannot be removed"), "{refusal:?}");
    let answer = cluster.send("PATCH", &path, "text/plain", &json!({})).await;
    assert_eq!(answer.expect_err("not a patch").code, 415);
    let answer = cluster.send_bytes("PATCH", &path, "application/strategic-merge-patch+json", b"{bad".to_vec()).await;
    assert_eq!(answer.expect_err("not JSON").code, 400);
    let answer = cluster.resize("a", &cpu("abc")).await.expect_err("not a quantity");
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("quantities must match the regular expression"), "{answer:?}");
    assert_eq!(cluster.get("a").await["metadata"]["generation"], before["metadata"]["generation"]);
    let answer = cluster.send("PATCH", &path, "application/json-patch+json", &json_patch("replace", "20m")).await;
    assert_eq!(answer.expect("a JSON patch works")["metadata"]["generation"], 2);
    let refusal = cluster.resize("nobody", &cpu("20m")).await.expect_err("there is none");
    assert_eq!(refusal.all(), (404, "NotFound", "pods \"nobody\" not found"));
}

pub async fn node_capacity(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let patch = cpu("200");
    if cluster.minor >= 36 {
        for path in ["a/resize", "a/resize?dryRun=All"] {
            let path = cluster.pod_path(path);
            let answer = cluster.send("PATCH", &path, "application/strategic-merge-patch+json", &patch).await;
            let refusal = answer.expect_err("the node is too small");
            let words = "pods \"a\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 200000, allocatable: 2000";
            assert_eq!(refusal.all(), (403, "Forbidden", words));
            assert_eq!(refusal.cause(), "NodeCapacity");
        }
        return;
    }
    let answer = cluster.resize("a", &patch).await.expect("an older server takes it");
    let pod = cluster.wait("a", |p| super::cluster::condition(p, "PodResizePending").is_some()).await;
    let pending = super::cluster::condition(&pod, "PodResizePending").expect("just seen");
    assert_eq!(pending["reason"], "Infeasible");
    assert_eq!(pending["message"], "Node didn't have enough capacity: cpu, requested: 200000, capacity: 2000");
    assert_eq!(pending["observedGeneration"], answer["metadata"]["generation"]);
    assert_eq!(pod["status"].get("resize"), None);
}

pub async fn limit_range(cluster: &Cluster) {
    cluster.pod("a", json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "50m"}})).await;
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}, "min": {"cpu": "5m"}}]}});
    cluster.create(range).await.expect("a LimitRange");
    for (patch, words) in [
        (
            to(json!({"limits": {"cpu": "200m"}})),
            "pods \"a\" is forbidden: maximum cpu usage per Container is 100m, but limit is 200m",
        ),
        (
            to(json!({"requests": {"cpu": "1m"}})),
            "pods \"a\" is forbidden: minimum cpu usage per Container is 5m, but request is 1m",
        ),
    ] {
        for query in ["", "?dryRun=All"] {
            let path = cluster.pod_path(&format!("a/resize{query}"));
            let answer = eventually_refused(cluster, &path, &patch).await;
            assert_eq!((answer.code, answer.reason(), answer.message()), (403, "Forbidden", words));
        }
    }
}

/// Admission reads from a cache: right after the rule was made, the server may not know it.
async fn eventually_refused(cluster: &Cluster, path: &str, patch: &Value) -> super::cluster::Refusal {
    let dry = if path.contains('?') { path.to_owned() } else { format!("{path}?dryRun=All") };
    for _ in 0..100 {
        if cluster.send("PATCH", &dry, "application/strategic-merge-patch+json", patch).await.is_err() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let answer = cluster.send("PATCH", path, "application/strategic-merge-patch+json", patch).await;
    answer.expect_err("it is refused")
}

pub async fn quota(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "50m", "pods": "5"}}});
    cluster.create(quota).await.expect("a quota");
    let path = cluster.pod_path("a/resize");
    let refusal = eventually_refused(cluster, &path, &cpu("60m")).await;
    let words = "pods \"a\" is forbidden: exceeded quota: q, requested: requests.cpu=50m, used: requests.cpu=10m, limited: requests.cpu=50m";
    assert_eq!(refusal.all(), (403, "Forbidden", words));
    cluster.resize("a", &cpu("40m")).await.expect("within the quota");
}

pub async fn wrong_uid(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let mut patch = cpu("20m");
    let other = "00000000-0000-0000-0000-000000000000";
    patch["metadata"] = json!({"uid": other});
    let refusal = cluster.resize("a", &patch).await.expect_err("another pod was meant");
    let words = format!("Pod \"a\" is invalid: metadata.uid: Invalid value: \"{other}\": field is immutable");
    assert_eq!(refusal.all(), (422, "Invalid", words.as_str()));
    patch["metadata"]["uid"] = cluster.get("a").await["metadata"]["uid"].clone();
    cluster.resize("a", &patch).await.expect("the right one");
}

pub async fn order_of_containers(cluster: &Cluster) {
    let mut new = pod("a", burstable());
    new["spec"]["containers"] = json!([container("app", burstable()), container("other", burstable())]);
    cluster.pod_of(new).await;
    let cpu = |name: &str| json!({"name": name, "resources": {"requests": {"cpu": "20m"}}});
    let patch = json!({"spec": {"containers": [cpu("other"), cpu("app")]}});
    let refusal = cluster.resize("a", &patch).await.expect_err("the patch's order becomes the pod's");
    let words = "containers may not be renamed or reordered on resize";
    let words = format!(
        "Pod \"a\" is invalid: [spec.containers[0].name: Forbidden: {words}, spec.containers[1].name: Forbidden: {words}]"
    );
    if cluster.minor >= 36 {
        assert_eq!(refusal.all(), (422, "Invalid", words.as_str()));
    } else {
        assert_eq!(refusal.code, 422);
    }
    let patch = json!({"spec": {"containers": [cpu("other")]}});
    cluster.resize("a", &patch).await.expect("one container alone keeps its place");
}

pub async fn stale_version(cluster: &Cluster) {
    let before = cluster.pod("a", burstable()).await;
    let old = version(&before).to_owned();
    cluster.resize("a", &cpu("20m")).await.expect("a resize");
    let mut patch = cpu("30m");
    patch["metadata"] = json!({"resourceVersion": old});
    let refusal = cluster.resize("a", &patch).await.expect_err("the pod was changed since");
    let words = "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(refusal.all(), (409, "Conflict", words));
}
