//! How a resize that was accepted goes, as the pod's status shows it.

use serde_json::{Value, json};

use super::cluster::{
    Cluster, actual_cpu, app_status, applied, burstable, condition, container, cpu, pod, to, version,
};

pub async fn status_order(cluster: &Cluster) {
    let before = cluster.pod("a", burstable()).await;
    assert_eq!(before["metadata"]["generation"], 1);
    assert_eq!(before["status"]["observedGeneration"], 1);
    let answer = cluster.resize("a", &cpu("20m")).await.expect("a resize");
    assert_eq!(answer["metadata"]["generation"], 2);
    assert_eq!(answer["status"]["observedGeneration"], 1);
    assert_eq!(actual_cpu(&answer), "10m");
    let (last, seen) = cluster.follow("a", version(&answer), |p| applied(p, "20m")).await;
    let of_new = |p: &&Value| p["status"]["observedGeneration"] == 2;
    for state in seen.iter().filter(of_new).filter(|p| actual_cpu(p) == "10m") {
        // The new generation with the old resources: only the condition says that it is not over.
        assert_eq!(app_status(state)["allocatedResources"]["cpu"], "20m");
        let progress = condition(state, "PodResizeInProgress").expect("it is in progress");
        assert_eq!((&progress["status"], &progress["observedGeneration"]), (&json!("True"), &json!(2)));
        assert_eq!(progress.get("reason"), None);
    }
    if cluster.sandbox.is_some() {
        // A real kubelet under load may write both steps as one.
        let first = seen.iter().find(of_new).expect("the kubelet saw it");
        assert_eq!(actual_cpu(first), "10m");
    }
    assert_eq!(app_status(&last)["restartCount"], 0);
    assert_eq!(app_status(&last)["containerID"], app_status(&before)["containerID"]);
    assert_eq!(
        app_status(&last)["resources"],
        json!({"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}})
    );
}

pub async fn no_change(cluster: &Cluster) {
    let before = cluster.pod("a", burstable()).await;
    let answer = cluster.resize("a", &cpu("0.01")).await.expect("the same in other words");
    assert_eq!(answer["metadata"]["generation"], 1);
    assert_eq!(answer["spec"]["containers"][0]["resources"], before["spec"]["containers"][0]["resources"]);
}

pub async fn dry_run(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let path = cluster.pod_path("a/resize?dryRun=All");
    let answer = cluster.send("PATCH", &path, "application/strategic-merge-patch+json", &cpu("20m")).await;
    let answer = answer.expect("it would be taken");
    assert_eq!(answer["spec"]["containers"][0]["resources"]["requests"]["cpu"], "20m");
    assert_eq!(answer["metadata"]["generation"], 2);
    let now = cluster.get("a").await;
    assert_eq!(now["metadata"]["generation"], 1);
    assert_eq!(now["spec"]["containers"][0]["resources"]["requests"]["cpu"], "10m");
    let path = cluster.pod_path("a/resize?dryRun=wrong");
    let answer = cluster.send("PATCH", &path, "application/strategic-merge-patch+json", &json!({})).await;
    assert_eq!(answer.expect_err("no such dry run").code, 422);
}

/// A pod and one that leaves it no room for 1500m on a node of 2 CPUs.
async fn crowd(cluster: &Cluster) -> Value {
    cluster.pod("a", json!({"requests": {"cpu": "10m"}})).await;
    cluster.pod("big", json!({"requests": {"cpu": "800m"}})).await;
    let answer = cluster.resize("a", &cpu("1300m")).await.expect("it is taken");
    let (pod, seen) = cluster.follow("a", version(&answer), |p| condition(p, "PodResizePending").is_some()).await;
    let pending = condition(&pod, "PodResizePending").expect("just seen");
    assert_eq!(pending["reason"], "Deferred");
    let words = pending["message"].as_str().expect("a message");
    assert!(words.starts_with("Node didn't have enough resource: cpu, requested: 1300, used: "), "{words}");
    assert!(words.ends_with("capacity: 2000"), "{words}");
    assert_eq!(pending["observedGeneration"], 2);
    assert_eq!(pod["status"]["observedGeneration"], 2);
    assert_eq!(actual_cpu(&pod), "10m");
    assert_eq!(app_status(&pod)["allocatedResources"]["cpu"], "10m");
    assert!(seen.iter().all(|p| condition(p, "PodResizeInProgress").is_none()));
    pod
}

pub async fn deferred_until_room(cluster: &Cluster) {
    crowd(cluster).await;
    // The way to cancel a resize that waits is to ask for the old values.
    let back = cluster.resize("a", &cpu("10m")).await.expect("taken back");
    cluster.follow("a", version(&back), |p| p["status"]["observedGeneration"] == 3 && applied(p, "10m")).await;
    let answer = cluster.resize("a", &cpu("1300m")).await.expect("once more");
    let (pod, _) = cluster.follow("a", version(&answer), |p| condition(p, "PodResizePending").is_some()).await;
    cluster.resize("big", &cpu("10m")).await.expect("it shrinks");
    let (done, _) = cluster.follow("a", version(&pod), |p| applied(p, "1300m")).await;
    assert_eq!(done["metadata"]["generation"], 4);
}

pub async fn restart_container(cluster: &Cluster) {
    let mut new = pod("a", burstable());
    new["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let before = cluster.pod_of(new).await;
    let answer = cluster.resize("a", &cpu("20m")).await.expect("a resize of CPU");
    let (pod, _) = cluster.follow("a", version(&answer), |p| applied(p, "20m")).await;
    assert_eq!(app_status(&pod)["restartCount"], 0, "only memory restarts");
    let patch = to(json!({"requests": {"memory": "20Mi"}, "limits": {"memory": "40Mi"}}));
    let answer = cluster.resize("a", &patch).await.expect("a resize of memory");
    let done = |p: &Value| app_status(p)["restartCount"] == 1 && applied(p, "20m");
    let (pod, seen) = cluster.follow("a", version(&answer), done).await;
    assert_ne!(app_status(&pod)["containerID"], app_status(&before)["containerID"]);
    assert!(app_status(&pod)["lastState"].get("terminated").is_some());
    assert_eq!(app_status(&pod)["resources"]["limits"]["memory"], "40Mi");
    assert_eq!(pod["metadata"]["uid"], before["metadata"]["uid"]);
    // Whether anybody sees it not ready depends on how fast it restarts: a real kubelet without a probe often writes one
    // status for the whole restart. What is certain: the restart is counted in the status that shows the new values.
    assert!(seen.iter().all(|p| app_status(p)["resources"]["limits"]["memory"] != "40Mi"
        || app_status(p)["restartCount"] == 1
        || app_status(p)["state"].get("running").is_none()));
}

pub async fn sidecar(cluster: &Cluster) {
    let mut new = pod("a", burstable());
    let mut side = container("side", burstable());
    side["restartPolicy"] = "Always".into();
    new["spec"]["initContainers"] = json!([side]);
    let before = cluster.pod_of(new).await;
    assert_eq!(before["status"]["initContainerStatuses"][0]["resources"]["requests"]["cpu"], "10m");
    let patch = json!({"spec": {"initContainers": [{"name": "side", "resources": {"requests": {"cpu": "20m"}}}]}});
    let answer = cluster.resize("a", &patch).await.expect("a resize");
    let done = |p: &Value| {
        let side = &p["status"]["initContainerStatuses"][0];
        side["resources"]["requests"]["cpu"] == "20m" && applied(p, "10m")
    };
    let (pod, _) = cluster.follow("a", version(&answer), done).await;
    assert_eq!(pod["status"]["initContainerStatuses"][0]["restartCount"], 0);
}

pub async fn adds_a_limit(cluster: &Cluster) {
    cluster.pod("a", json!({"requests": {"cpu": "10m"}})).await;
    let answer = cluster.resize("a", &to(json!({"limits": {"cpu": "50m"}}))).await.expect("a limit is added");
    let done = |p: &Value| app_status(p)["resources"]["limits"]["cpu"] == "50m" && applied(p, "10m");
    cluster.follow("a", version(&answer), done).await;
    let refusal = cluster.resize("a", &to(json!({"limits": {"cpu": null}}))).await.expect_err("it stays");
    assert!(refusal.message().contains("resource limits cannot be removed"));
}

pub async fn events(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let answer = cluster.resize("a", &cpu("20m")).await.expect("a resize");
    cluster.follow("a", version(&answer), |p| applied(p, "20m")).await;
    let path = format!("/api/v1/namespaces/{}/events?fieldSelector=involvedObject.name%3Da", cluster.namespace);
    let wanted: &[(&str, &str)] = if cluster.minor >= 35 {
        &[("ResizeStarted", "Pod resize started: "), ("ResizeCompleted", "Pod resize completed: ")]
    } else {
        &[("ResizeCompleted", "Pod resize completed: ")]
    };
    for (reason, start) in wanted {
        let mut found = None;
        for _ in 0..100 {
            let list = cluster.send("GET", &path, "application/json", &Value::Null).await.expect("a list");
            found = list["items"].as_array().expect("items").iter().find(|e| e["reason"] == *reason).cloned();
            if found.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let event = found.unwrap_or_else(|| panic!("no event {reason}"));
        let message = event["message"].as_str().expect("a message");
        let tail: Value = serde_json::from_str(message.strip_prefix(start).expect("the usual words")).expect("JSON");
        let generation = if cluster.minor >= 35 { json!(2) } else { Value::Null };
        assert_eq!(tail["generation"], generation);
        assert_eq!(tail["containers"][0]["name"], "app");
        if cluster.sandbox.is_some() {
            // A real kubelet was seen to name the old values under the new generation: an event proves nothing.
            assert_eq!(tail["containers"][0]["resources"]["requests"]["cpu"], "20m");
        }
        assert_eq!((&event["type"], &event["source"]["component"]), (&json!("Normal"), &json!("kubelet")));
    }
}

pub async fn managed_fields(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    let path = cluster.pod_path("a/resize?fieldManager=contract");
    let answer = cluster.send("PATCH", &path, "application/strategic-merge-patch+json", &cpu("20m")).await;
    let answer = answer.expect("a resize");
    let entries = answer["metadata"]["managedFields"].as_array().expect("entries");
    let entry = entries.iter().find(|e| e["manager"] == "contract").expect("ours");
    assert_eq!((&entry["operation"], &entry["subresource"]), (&json!("Update"), &json!("resize")));
    assert_eq!(entry["apiVersion"], "v1");
}
