//! The world changes during a run: each change has a defined outcome (docs/rollout.md).

use std::time::Duration;

use bytes::Bytes;
use kapr::core::rollout::cause::Cause;
use kapr::core::rollout::event::PodState;
use kapr::core::rollout::outcome::{Conclusion, Ending};
use serde_json::{Value, json};

use super::stage::{NAMESPACE, Stage, Wish, policy};

const MERGE: &str = "application/merge-patch+json";

/// Sends one request to the cluster after a while.
fn later(stage: &Stage, seconds: u64, method: &'static str, path: String, body: Value) {
    let sandbox = stage.sandbox.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        sandbox.request(method, &path, MERGE, body).await.unwrap();
    });
}

fn deployment() -> String {
    "/apis/apps/v1/namespaces/shop/deployments/web".to_owned()
}

async fn rollout(stage: &Stage) -> kapr::core::rollout::outcome::RunResult {
    stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_replaced_and_the_step_fills_up() {
    let stage = Stage::eleven().await;
    let sandbox = stage.sandbox.clone();
    tokio::spawn(async move {
        let resized = sandbox.wait_until(Duration::from_mins(1), |view| resized(view).is_some()).await.unwrap();
        let path = format!("/api/v1/namespaces/shop/pods/{}", self::resized(&resized).unwrap());
        sandbox.request("DELETE", &path, MERGE, Bytes::new()).await.unwrap();
    });
    let result = rollout(&stage).await;
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(result.pods.iter().filter(|pod| pod.state == PodState::Gone).count(), 1);
    assert!(stage.all_have("150m"), "{:?}", stage.cpus());
}

/// The name of a pod at the new values.
fn resized(view: &kapr::sandbox::View) -> Option<String> {
    let pods = view.list("pods", NAMESPACE);
    let pod = pods.into_iter().find(|pod| {
        pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "150m"
            && pod["metadata"]["deletionTimestamp"].is_null()
    })?;
    pod["metadata"]["name"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn scaled_up_pods_are_taken_by_the_steps_that_follow() {
    let stage = Stage::eleven().await;
    later(&stage, 4, "PATCH", deployment(), json!({"spec": {"replicas": 20}}));
    let result = rollout(&stage).await;
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(stage.cpus().len(), 20);
    assert!(stage.all_have("150m"), "{:?}", stage.cpus());
}

#[tokio::test(start_paused = true)]
async fn scaled_down_pods_are_not_waited_for() {
    let stage = Stage::eleven().await;
    later(&stage, 4, "PATCH", deployment(), json!({"spec": {"replicas": 3}}));
    let result = rollout(&stage).await;
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(stage.cpus().len(), 3);
    assert!(stage.all_have("150m"));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_rollout_gives_new_pods_and_the_run_takes_them() {
    let stage = Stage::eleven().await;
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}});
    later(&stage, 4, "PATCH", deployment(), restart);
    let result = rollout(&stage).await;
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(stage.cpus().len(), 11);
    assert!(stage.all_have("150m"), "{:?}", stage.cpus());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_edits_is_left_alone() {
    let stage = Stage::eleven().await;
    let sandbox = stage.sandbox.clone();
    tokio::spawn(async move {
        let view = sandbox.wait_until(Duration::from_mins(1), |view| resized(view).is_some()).await.unwrap();
        let path = format!("/api/v1/namespaces/shop/pods/{}/resize", self::resized(&view).unwrap());
        let patch = json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "777m"}}}]}});
        let strategic = "application/strategic-merge-patch+json";
        sandbox.request("PATCH", &path, strategic, patch.to_string().into()).await.unwrap();
    });
    let result = rollout(&stage).await;
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(result.exit_code, 8);
    assert_eq!(result.pods.iter().filter(|pod| pod.state == PodState::Foreign).count(), 1);
    let foreign = stage.cpus().into_iter().filter(|(asked, has)| asked == "777m" && has == "777m").count();
    assert_eq!(foreign, 1, "{:?}", stage.cpus());
    // And it is not rolled back either.
    let undone = stage.actor("ann").act(Wish::RollBack).await.unwrap();
    assert_eq!(undone.exit_code, 8);
    assert_eq!(stage.cpus().iter().filter(|(asked, _)| asked == "777m").count(), 1);
    assert_eq!(stage.cpus().iter().filter(|(asked, _)| asked == "100m").count(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_workload_ends_the_run_without_a_denial() {
    let stage = Stage::eleven().await;
    later(&stage, 4, "DELETE", deployment(), Value::Null);
    let result = rollout(&stage).await;
    let Conclusion::Ended(Ending::RolledBack { cause }) = &result.conclusion else { panic!("{:?}", result.conclusion) };
    assert!(matches!(cause, Cause::WorkloadGone { .. }), "{cause:?}");
    assert!(!cause.denies());
}

#[tokio::test(start_paused = true)]
async fn a_workload_made_again_under_its_name_is_another_one() {
    let stage = Stage::eleven().await;
    let sandbox = stage.sandbox.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(4)).await;
        sandbox.request("DELETE", &deployment(), MERGE, Bytes::new()).await.unwrap();
        sandbox.apply_yaml(super::stage::WEB).await.unwrap();
    });
    let result = rollout(&stage).await;
    assert!(
        matches!(&result.conclusion, Conclusion::Ended(Ending::RolledBack { cause: Cause::WorkloadGone { .. } })),
        "{result:?}"
    );
    stage.sandbox.wait_until(Duration::from_mins(1), |view| view.ready_pods(NAMESPACE, "web") == 11).await.unwrap();
    assert!(stage.all_have("100m"), "{:?}", stage.cpus());
}
