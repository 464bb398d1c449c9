//! What goes wrong after a resize was accepted, and how it is cured.

use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, app_status, applied, condition, pod, to, version};

pub async fn below_usage_and_the_cure(cluster: &Cluster) {
    let resources = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "100Mi"}});
    let mut new = pod("a", resources);
    new["metadata"]["annotations"] = json!({"sandbox.kapr.dev/memory-usage": "50Mi"});
    let script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=48; trap 'exit 0' TERM; while true; do sleep 0.2; done";
    new["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    cluster.pod_of(new).await;
    let answer = cluster.resize("a", &to(json!({"limits": {"memory": "32Mi"}}))).await.expect("it is taken");
    let failed = |p: &Value| {
        let message = condition(p, "PodResizeInProgress").map_or("", |c| c["message"].as_str().unwrap_or(""));
        message.contains("below current usage")
    };
    let (pod, seen) = cluster.follow("a", version(&answer), failed).await;
    let first = seen.iter().find_map(|p| condition(p, "PodResizeInProgress")).expect("it was in progress");
    assert_eq!(first.get("reason"), None, "there is no reason at first");
    let progress = condition(&pod, "PodResizeInProgress").expect("just seen");
    assert_eq!(progress["reason"], "Error");
    let words = progress["message"].as_str().expect("a message");
    assert!(words.starts_with("cannot decrease memory limits: attempting to set container \"app\" memory limit (33554432) below current usage ("), "{words}");
    assert_eq!(app_status(&pod)["resources"]["limits"]["memory"], "100Mi", "the old limit stays");
    assert_eq!(pod["status"]["observedGeneration"], 2);
    let back = cluster.resize("a", &to(json!({"limits": {"memory": "100Mi"}}))).await.expect("taken back");
    let (pod, _) =
        cluster.follow("a", version(&back), |p| p["status"]["observedGeneration"] == 3 && applied(p, "10m")).await;
    assert_eq!(app_status(&pod)["restartCount"], 0);
}

pub async fn watch_too_old(cluster: &Cluster) {
    let Some(sandbox) = &cluster.sandbox else {
        eprintln!("skipped: a real server is not made to forget its log");
        return;
    };
    let old = version(&cluster.pod("a", json!({})).await).to_owned();
    cluster.resize("a", &json!({"metadata": {}})).await.expect("nothing changes");
    sandbox.apply_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: later}}").await.expect("a later write");
    sandbox.compact();
    let mut stream = Box::pin(cluster.pods().watch(&WatchParams::default(), &old).await.expect("a watch"));
    let event = futures::StreamExt::next(&mut stream).await.expect("an event").expect("an event");
    assert!(matches!(event, WatchEvent::Error(status) if status.code == 410));
}
