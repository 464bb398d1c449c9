//! What kapr relies on of other objects: compare-and-swap, create conflicts, lists, watches, deletions.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, PATIENCE, burstable, container, cpu, version};

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": name}}, "data": {"k": value}})
}

pub async fn config_map_compare_and_swap(cluster: &Cluster) {
    let created = cluster.create(config_map("c", "1")).await.expect("a ConfigMap");
    let old = version(&created).to_owned();
    let swap = |version: &str, value: &str| json!({"metadata": {"resourceVersion": version}, "data": {"k": value}});
    let second = cluster.patch_config_map("c", swap(&old, "2")).await.expect("the version is right");
    assert_ne!(version(&second), old);
    let stale = cluster.patch_config_map("c", swap(&old, "3")).await;
    let words = "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply your changes to the latest version and try again";
    assert!(matches!(stale, Err(kube::Error::Api(s)) if s.code == 409 && s.reason == "Conflict" && s.message == words));
    let path = format!("{}/c", cluster.collection(&created_kind("ConfigMap")));
    let mut put = config_map("c", "4");
    put["metadata"]["resourceVersion"] = old.into();
    let refusal = cluster.send("PUT", &path, "application/json", &put).await.expect_err("stale");
    assert_eq!(refusal.all(), (409, "Conflict", words));
    let same = cluster.patch_config_map("c", json!({"data": {"k": "2"}})).await.expect("no change");
    assert_eq!(version(&same), version(&second), "a patch that changes nothing writes nothing");
    let refusal = cluster.create(config_map("c", "5")).await.expect_err("it is there");
    assert_eq!(refusal.all(), (409, "AlreadyExists", "configmaps \"c\" already exists"));
}

fn created_kind(kind: &str) -> Value {
    json!({"kind": kind})
}

pub async fn lease_conflict(cluster: &Cluster) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.123456Z"}});
    let created = cluster.create(lease.clone()).await.expect("a Lease");
    assert_eq!(created["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
    let refusal = cluster.create(lease).await.expect_err("it is there");
    assert_eq!(refusal.all(), (409, "AlreadyExists", "leases.coordination.k8s.io \"l\" already exists"));
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/l", cluster.namespace);
    let patch = json!({"metadata": {"resourceVersion": version(&created)}, "spec": {"holderIdentity": "b"}});
    let taken = cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await.expect("taken over");
    assert_eq!(taken["spec"]["holderIdentity"], "b");
    let refusal = cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await.expect_err("too late");
    assert_eq!((refusal.code, refusal.reason()), (409, "Conflict"));
}

pub async fn pages(cluster: &Cluster) {
    for n in 0..5 {
        cluster.create(config_map(&format!("page-{n}"), "")).await.expect("a ConfigMap");
    }
    let maps: Api<ConfigMap> = cluster.api();
    let first = maps.list(&ListParams::default().limit(2)).await.expect("a page");
    assert_eq!(first.items.len(), 2);
    assert!(first.metadata.remaining_item_count.is_some_and(|n| n >= 3));
    let (mut names, mut token, at) =
        (Vec::new(), first.metadata.continue_.clone(), first.metadata.resource_version.clone());
    names.extend(first.items.into_iter().filter_map(|m| m.metadata.name));
    while let Some(next) = token.filter(|t| !t.is_empty()) {
        let page = maps.list(&ListParams::default().limit(2).continue_token(&next)).await.expect("a page");
        assert_eq!(page.metadata.resource_version, at, "every page is of the same version");
        names.extend(page.items.into_iter().filter_map(|m| m.metadata.name));
        token = page.metadata.continue_;
    }
    names.retain(|n| n.starts_with("page-"));
    assert_eq!(names, ["page-0", "page-1", "page-2", "page-3", "page-4"]);
    let path = format!("{}?limit=1&continue=abc", cluster.collection(&created_kind("ConfigMap")));
    let refusal = cluster.send("GET", &path, "application/json", &Value::Null).await.expect_err("no token");
    assert_eq!(refusal.code, 400);
}

async fn events(cluster: &Cluster, params: WatchParams, version: &str, count: usize) -> Vec<(String, String, Value)> {
    let maps: Api<ConfigMap> = cluster.api();
    let stream = maps.watch(&params.timeout(280), version).await.expect("a watch");
    let take = stream.take(count).map_ok(|event| {
        let (kind, object) = match event {
            WatchEvent::Added(o) => ("ADDED", o),
            WatchEvent::Modified(o) => ("MODIFIED", o),
            WatchEvent::Deleted(o) => ("DELETED", o),
            other => panic!("unexpected: {other:?}"),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        (kind.to_owned(), name, serde_json::to_value(object).expect("JSON"))
    });
    tokio::time::timeout(PATIENCE, take.try_collect()).await.expect("in time").expect("a watch event")
}

pub async fn watch_from_a_version(cluster: &Cluster) {
    let created = cluster.create(config_map("w", "1")).await.expect("a ConfigMap");
    cluster.patch_config_map("w", json!({"data": {"k": "2"}})).await.expect("a patch");
    let path = format!("{}/w", cluster.collection(&created_kind("ConfigMap")));
    cluster.send("DELETE", &path, "application/json", &Value::Null).await.expect("a deletion");
    let params = WatchParams::default().fields("metadata.name=w");
    let seen = events(cluster, params, version(&created), 2).await;
    assert_eq!((seen[0].0.as_str(), &seen[0].2["data"]["k"]), ("MODIFIED", &json!("2")));
    assert_eq!((seen[1].0.as_str(), &seen[1].2["data"]["k"]), ("DELETED", &json!("2")));
    assert_ne!(version(&seen[1].2), version(&seen[0].2), "a deletion has a version of its own");
}

pub async fn watch_with_a_selector(cluster: &Cluster) {
    let created = cluster.create(config_map("s", "1")).await.expect("a ConfigMap");
    for on in [json!("yes"), Value::Null] {
        let patch = json!({"metadata": {"labels": {"on": on}}});
        cluster.patch_config_map("s", patch).await.expect("a patch");
    }
    let seen = events(cluster, WatchParams::default().labels("on=yes"), version(&created), 2).await;
    let kinds: Vec<&str> = seen.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "DELETED"], "an object that stops matching is deleted for this watch");
}

pub async fn label_selector(cluster: &Cluster) {
    for name in ["a", "b", "c"] {
        cluster.create(config_map(name, "")).await.expect("a ConfigMap");
    }
    let maps: Api<ConfigMap> = cluster.api();
    for (selector, wanted) in
        [("n in (a,c)", vec!["a", "c"]), ("n=b", vec!["b"]), ("n,n!=b", vec!["a", "c"]), ("n=x", vec![])]
    {
        let list = maps.list(&ListParams::default().labels(selector)).await.expect("a list");
        let names: Vec<String> = list.items.into_iter().filter_map(|m| m.metadata.name).collect();
        assert_eq!(names, wanted, "{selector}");
    }
    let path = format!("{}?fieldSelector=foo%3Dbar", cluster.collection(&created_kind("Pod")));
    let refusal = cluster.send("GET", &path, "application/json", &Value::Null).await.expect_err("no such field");
    assert_eq!(refusal.all(), (400, "BadRequest", "field label not supported: foo"));
}

fn workload(kind: &str, replicas: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container("app", burstable())]}}}})
}

async fn wait_for(cluster: &Cluster, path: &str, wish: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let object = cluster.send("GET", path, "application/json", &Value::Null).await.expect("it is there");
            if wish(&object) {
                return object;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("in time")
}

pub async fn deployment_generations(cluster: &Cluster) {
    let created = cluster.create(workload("Deployment", 2)).await.expect("a Deployment");
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/web", cluster.namespace);
    let up = |n: u64| move |d: &Value| d["status"]["readyReplicas"] == n && d["status"]["updatedReplicas"] == n;
    let object = wait_for(cluster, &path, up(2)).await;
    assert_eq!(object["status"]["observedGeneration"], 1);
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let answer = cluster.send("PATCH", &path, "application/merge-patch+json", &labels).await.expect("a patch");
    assert_eq!(answer["metadata"]["generation"], 1, "labels do not count");
    let scale = json!({"spec": {"replicas": 1}});
    let answer = cluster.send("PATCH", &format!("{path}/scale"), "application/merge-patch+json", &scale).await;
    let answer = answer.expect("a scale");
    assert_eq!((&answer["kind"], &answer["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    let object = wait_for(cluster, &path, |d| d["status"]["observedGeneration"] == 2 && up(1)(d)).await;
    assert_eq!(object["metadata"]["generation"], 2);
    let pods = cluster.pods().list(&ListParams::default().labels("app=web")).await.expect("pods");
    let pod = pods.items.iter().find(|p| p.metadata.deletion_timestamp.is_none()).expect("one is left");
    let labels = pod.metadata.labels.as_ref().expect("labels");
    let hash = labels.get("pod-template-hash").expect("the hash of the template");
    let owner = &pod.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("ReplicaSet", Some(true)));
    assert_eq!(owner.name, format!("web-{hash}"));
    let name = pod.metadata.name.clone().expect("a name");
    assert!(name.starts_with(&format!("web-{hash}-")), "{name}");
}

pub async fn stateful_names(cluster: &Cluster) {
    let mut set = workload("StatefulSet", 2);
    set["spec"]["serviceName"] = "web".into();
    cluster.create(set).await.expect("a StatefulSet");
    let path = format!("/apis/apps/v1/namespaces/{}/statefulsets/web", cluster.namespace);
    let set = wait_for(cluster, &path, |s| s["status"]["readyReplicas"] == 2).await;
    let first = cluster.get("web-0").await;
    assert_eq!(first["metadata"]["labels"]["controller-revision-hash"], set["status"]["updateRevision"]);
    let uid = first["metadata"]["uid"].clone();
    cluster.send("DELETE", &cluster.pod_path("web-0"), "application/json", &Value::Null).await.expect("a deletion");
    let again = cluster.wait("web-0", |p| p["metadata"]["uid"] != uid && super::cluster::ready(p)).await;
    let mut patch = cpu("20m");
    patch["metadata"] = json!({"uid": uid});
    let refusal = cluster.resize("web-0", &patch).await.expect_err("the name is another pod's now");
    assert!(refusal.message().contains("metadata.uid: Invalid value"), "{refusal:?}");
    assert_eq!(again["metadata"]["generation"], 1);
}

pub async fn delete_preconditions(cluster: &Cluster) {
    let created = cluster.create(config_map("d", "1")).await.expect("a ConfigMap");
    let path = format!("{}/d", cluster.collection(&created_kind("ConfigMap")));
    let other = "00000000-0000-0000-0000-000000000000";
    let options = json!({"preconditions": {"uid": other}});
    let refusal = cluster.send("DELETE", &path, "application/json", &options).await.expect_err("another was meant");
    assert_eq!((refusal.code, refusal.reason()), (409, "Conflict"));
    assert!(refusal.message().starts_with(&format!(
        "Operation cannot be fulfilled on ConfigMap \"d\": the UID in the precondition ({other}) does not match"
    )));
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    let refusal = cluster.send("DELETE", &path, "application/json", &options).await.expect_err("an older was meant");
    assert!(refusal.message().contains("the ResourceVersion in the precondition (1) does not match"));
    let options = json!({"preconditions": {"uid": created["metadata"]["uid"]}});
    let answer = cluster.send("DELETE", &path, "application/json", &options).await.expect("the right one");
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
}

pub async fn delete_with_a_body_ignores_the_query(cluster: &Cluster) {
    let path = |name: &str| format!("{}/{name}?dryRun=All", cluster.collection(&created_kind("ConfigMap")));
    for name in ["kept", "gone"] {
        cluster.create(config_map(name, "")).await.expect("a ConfigMap");
    }
    cluster.send("DELETE", &path("kept"), "application/json", &Value::Null).await.expect("a dry run");
    cluster.send("DELETE", &path("gone"), "application/json", &json!({})).await.expect("not a dry run");
    let maps: Api<ConfigMap> = cluster.api();
    assert!(maps.get_opt("kept").await.expect("an answer").is_some());
    assert!(maps.get_opt("gone").await.expect("an answer").is_none(), "a body takes the place of the query");
}

pub async fn metadata_only(cluster: &Cluster) {
    cluster.create(config_map("m", "1")).await.expect("a ConfigMap");
    let maps: Api<ConfigMap> = cluster.api();
    let one = maps.get_metadata("m").await.expect("an answer");
    assert_eq!(one.metadata.name.as_deref(), Some("m"));
    let list = maps.list_metadata(&ListParams::default().labels("n=m")).await.expect("a list");
    assert_eq!(list.items.len(), 1);
}

pub async fn access_review(cluster: &Cluster) {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
        "resourceAttributes": {"verb": "patch", "resource": "pods", "subresource": "resize", "namespace": cluster.namespace}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = cluster.send("POST", path, "application/json", &review).await.expect("an answer");
    assert_eq!(answer["status"]["allowed"], true);
}

pub async fn missing_things(cluster: &Cluster) {
    let ns = &cluster.namespace;
    for (path, words) in [
        (format!("/apis/apps/v1/namespaces/{ns}/deployments/x"), "deployments.apps \"x\" not found"),
        (format!("/api/v1/namespaces/{ns}/pods/x"), "pods \"x\" not found"),
        (format!("/api/v1/namespaces/{ns}/nope"), "the server could not find the requested resource"),
    ] {
        let refusal = cluster.send("GET", &path, "application/json", &Value::Null).await.expect_err("nothing there");
        assert_eq!(refusal.all(), (404, "NotFound", words));
    }
    let refusal = cluster.send("GET", "/apis/nope.example/v1", "application/json", &Value::Null).await;
    assert_eq!(refusal.expect_err("nothing there").code, 404);
    let path = "/api/v1/namespaces/no-such-namespace/configmaps";
    let refusal = cluster.send("POST", path, "application/json", &config_map("x", "")).await.expect_err("nowhere");
    assert_eq!(refusal.all(), (404, "NotFound", "namespaces \"no-such-namespace\" not found"));
}
