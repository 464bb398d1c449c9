//! `pods/NAME/eviction` and budgets.

use serde_json::{Value, json};

use super::cluster::{Cluster, Refusal, burstable};

async fn budget(cluster: &Cluster, min: usize, allowed: u64) {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"},
        "spec": {"minAvailable": min, "selector": {"matchLabels": {"app": "contract"}}}});
    cluster.create(budget).await.expect("a budget");
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/p", cluster.namespace);
    let look = async {
        loop {
            let p = cluster.send("GET", &path, "application/json", &Value::Null).await.expect("it is there");
            if p["status"]["observedGeneration"] == 1 && p["status"]["disruptionsAllowed"] == allowed {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(super::cluster::PATIENCE, look).await.expect("in time");
}

async fn evict(cluster: &Cluster, name: &str, options: Value) -> Result<Value, Refusal> {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": cluster.namespace}, "deleteOptions": options});
    cluster.send("POST", &cluster.pod_path(&format!("{name}/eviction")), "application/json", &body).await
}

pub async fn budget_allows_none(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    budget(cluster, 1, 0).await;
    let refusal = evict(cluster, "a", json!({})).await.expect_err("the budget allows none");
    let words = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!(refusal.all(), (429, "TooManyRequests", words));
    assert_eq!(refusal.cause(), "DisruptionBudget");
    let cause = &refusal.status["details"]["causes"][0]["message"];
    assert_eq!(cause, "The disruption budget p needs 1 healthy pods and has 1 currently");
}

pub async fn budget_counts_down(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    cluster.pod("b", burstable()).await;
    budget(cluster, 1, 1).await;
    evict(cluster, "a", json!({})).await.expect("one may go");
    let refusal = evict(cluster, "b", json!({})).await.expect_err("not the other");
    assert_eq!((refusal.code, refusal.cause()), (429, "DisruptionBudget"));
}

pub async fn uid_precondition(cluster: &Cluster) {
    let pod = cluster.pod("a", burstable()).await;
    let other = "00000000-0000-0000-0000-000000000000";
    let refusal = evict(cluster, "a", json!({"preconditions": {"uid": other}})).await.expect_err("another was meant");
    assert_eq!((refusal.code, refusal.reason()), (409, "Conflict"));
    assert!(refusal.message().contains("the UID in the precondition"), "{refusal:?}");
    let answer = evict(cluster, "a", json!({"preconditions": {"uid": pod["metadata"]["uid"]}})).await;
    let answer = answer.expect("the right one");
    assert_eq!(
        (&answer["kind"], &answer["status"], &answer["code"]),
        (&json!("Status"), &json!("Success"), &json!(201))
    );
    let refusal = evict(cluster, "nobody", json!({})).await.expect_err("there is none");
    assert_eq!(refusal.all(), (404, "NotFound", "pods \"nobody\" not found"));
}

pub async fn dry_run_of_an_eviction(cluster: &Cluster) {
    cluster.pod("a", burstable()).await;
    evict(cluster, "a", json!({"dryRun": ["All"]})).await.expect("it would go");
    let pod = cluster.get("a").await;
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
}
