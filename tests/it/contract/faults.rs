//! What goes wrong after a resize was accepted, and how it is cured.

use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, app_status, applied, condition, pod, to, version};

pub async fn below_usage_and_the_cure(cluster: &Cluster) {
    let resources = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "100Mi"}});
    let mut new = pod("a", resources);
    new["metadata"]["annotations"] = json!({"sandbox.kapr.dev/memory-usage": "50Mi"});
    let script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=48; touch /tmp/full; trap 'exit 0' TERM; while true; do sleep 0.2; done";
    new["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    new["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", "/tmp/full"]}, "periodSeconds": 1});
    cluster.pod_of(new).await;
    let (pod, seen) = lower_until_refused(cluster).await;
    let first = seen.iter().find_map(|p| condition(p, "PodResizeInProgress")).expect("it was in progress");
    assert_eq!(first.get("reason"), None, "there is no reason at first");
    let progress = condition(&pod, "PodResizeInProgress").expect("just seen");
    assert_eq!(progress["reason"], "Error");
    let words = progress["message"].as_str().expect("a message");
    let container = "attempting to set container \"app\" memory limit (33554432) below current usage (";
    // Either kubelet names the pod's limit too, or not, depending on how old its numbers for the pod are.
    let both = "[attempting to set pod memory limit (33554432) below current usage (";
    let rest = words.strip_prefix("cannot decrease memory limits: ").expect("the usual words");
    assert!(rest.starts_with(container) || (rest.starts_with(both) && rest.contains(container)), "{words}");
    assert_eq!(app_status(&pod)["resources"]["limits"]["memory"], "100Mi", "the old limit stays");
    assert_eq!(pod["status"]["observedGeneration"], pod["metadata"]["generation"]);
    let back = cluster.resize("a", &to(json!({"limits": {"memory": "100Mi"}}))).await.expect("taken back");
    let generation = &back["metadata"]["generation"];
    let done = |p: &Value| p["status"]["observedGeneration"] == *generation && applied(p, "10m");
    let (pod, _) = cluster.follow("a", version(&back), done).await;
    assert_eq!(app_status(&pod)["restartCount"], 0);
}

/// Asks for less memory than is in use. The kubelet's numbers are some seconds old: while it has not seen the usage it
/// does what is asked, which is then taken back and tried again.
async fn lower_until_refused(cluster: &Cluster) -> (Value, Vec<Value>) {
    for _ in 0..10 {
        let answer = cluster.resize("a", &to(json!({"limits": {"memory": "32Mi"}}))).await.expect("it is taken");
        let refused = |p: &Value| {
            let message = condition(p, "PodResizeInProgress").map_or("", |c| c["message"].as_str().unwrap_or(""));
            message.contains("below current usage")
        };
        let lowered = |p: &Value| app_status(p)["resources"]["limits"]["memory"] == "32Mi" && applied(p, "10m");
        let (pod, seen) = cluster.follow("a", version(&answer), |p| refused(p) || lowered(p)).await;
        if refused(&pod) {
            return (pod, seen);
        }
        let back = cluster.resize("a", &to(json!({"limits": {"memory": "100Mi"}}))).await.expect("taken back");
        let whole = |p: &Value| app_status(p)["resources"]["limits"]["memory"] == "100Mi" && applied(p, "10m");
        cluster.follow("a", version(&back), whole).await;
    }
    panic!("the kubelet never saw the usage");
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
