//! The main job: steps, pauses, rollback, deny-list.

use std::time::Duration;

use kapr::core::rollout::cause::Cause;
use kapr::core::rollout::observation::Command;
use kapr::core::rollout::outcome::{Conclusion, Ending, Stop};
use kapr::sandbox::{NodeConfig, SandboxConfig, Version};

use super::stage::{NAMESPACE, Stage, WEB, Wish, policy};

#[tokio::test(start_paused = true)]
async fn eleven_pods_go_2_3_11_and_are_validated() {
    let stage = Stage::eleven().await;
    let actor = stage.actor("ann");
    let result = actor.act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(result.exit_code, 0);
    assert!(stage.all_have("150m"), "{:?}", stage.cpus());
    assert!(stage.lease_is_free());
    let passed =
        actor.told().into_iter().filter(|event| event["kind"] == "StepPassed").map(|event| event["pods"].clone());
    assert_eq!(passed.collect::<Vec<_>>(), [2, 3, 11]);
    let born = &result.born_with["app"];
    assert_eq!(born.to_string(), "requests.cpu=100m");
}

#[tokio::test(start_paused = true)]
async fn one_patch_a_pod_and_few_writes() {
    let stage = Stage::eleven().await;
    stage.sandbox.clear_requests();
    let _ = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    let requests = stage.sandbox.requests();
    let resizes = requests.iter().filter(|r| r.method == "PATCH" && r.path.ends_with("/resize")).count();
    assert_eq!(resizes, 11);
    let records = requests.iter().filter(|r| r.is_write() && r.path.contains("/configmaps")).count();
    // Run started; for each of three steps taken, at target, passed; passed and ended go in one write.
    assert!(records <= 1 + 3 * 3, "{records} writes of the record");
}

#[tokio::test(start_paused = true)]
async fn infeasible_is_one_verdict_on_both_versions() {
    for version in [Version::V1_37, Version::V1_34] {
        let config = SandboxConfig { version, ..SandboxConfig::default() };
        let stage = Stage::with(config, WEB, 11).await;
        let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=200", policy())).await.unwrap();
        let Conclusion::Ended(Ending::RolledBack { cause: Cause::Infeasible { message, .. } }) = &result.conclusion
        else {
            panic!("{version:?}: {:?}", result.conclusion);
        };
        assert!(message.contains("cpu"), "{message}");
        assert_eq!(result.exit_code, 3);
        assert!(stage.all_have("100m"), "{:?}", stage.cpus());
        let again = stage.actor("bob").act(Wish::Rollout("app=requests.cpu=200", policy())).await;
        assert!(matches!(again, Err(kapr::engine::Failed::Declined(why)) if why.contains("Infeasible")));
    }
}

fn small_node() -> SandboxConfig {
    SandboxConfig { nodes: vec![NodeConfig::new("small", "1500m", "8Gi")], ..SandboxConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn deferred_goes_on_when_there_is_room() {
    let stage = Stage::with(small_node(), WEB, 11).await;
    let actor = stage.actor("ann");
    let sandbox = stage.sandbox.clone();
    let room = tokio::spawn(async move {
        // Nine pods at 200m do not fit beside the two of the first step: one of them is told to wait.
        let deferred = sandbox.wait_until(Duration::from_mins(10), |view| {
            view.list("pods", NAMESPACE).iter().any(|pod| pod["status"]["conditions"].to_string().contains("Deferred"))
        });
        deferred.await.expect("a pod is deferred");
        sandbox
            .request(
                "DELETE",
                "/apis/apps/v1/namespaces/shop/deployments/other",
                "application/json",
                bytes::Bytes::default(),
            )
            .await
            .unwrap();
    });
    stage
        .sandbox
        .apply_yaml(
            &WEB.replace("name: web,", "name: other,")
                .replace("app: web", "app: other")
                .replace("replicas: 11", "replicas: 3"),
        )
        .await
        .unwrap();
    let slow = kapr::core::policy::Policy { deferred_timeout: Duration::from_hours(1), ..policy() };
    let result = actor.act(Wish::Rollout("app=requests.cpu=130m", slow)).await.unwrap();
    room.await.unwrap();
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    let waits =
        actor.told().into_iter().filter(|event| event["kind"] == "Waiting" && event["on"]["reason"] == "Deferred");
    let words = waits.map(|wait| wait["on"]["message"].to_string()).collect::<Vec<_>>();
    assert!(words.iter().any(|message| message.contains("enough resource")), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn deferred_for_too_long_is_rolled_back_and_denied() {
    let stage = Stage::with(small_node(), WEB, 11).await;
    let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=500m", policy())).await.unwrap();
    assert!(
        matches!(&result.conclusion, Conclusion::Ended(Ending::RolledBack { cause: Cause::DeferredTooLong { waited, .. } })
            if *waited >= policy().deferred_timeout),
        "{:?}",
        result.conclusion
    );
    assert!(stage.all_have("100m"), "{:?}", stage.cpus());
    assert_eq!(stage.record().await.folded.denied.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_memory_limit_below_what_is_used_fails_and_is_put_back() {
    let stage = Stage::eleven().await;
    stage.sandbox.behave(NAMESPACE, "web", |behaviour| behaviour.memory_usage = 100 << 20);
    let actor = stage.actor("ann");
    let result = actor.act(Wish::Rollout("app=limits.memory=80Mi", policy())).await.unwrap();
    let Conclusion::Ended(Ending::RolledBack { cause: Cause::ResizeFailed { message, .. } }) = &result.conclusion
    else {
        panic!("{:?}", result.conclusion);
    };
    assert!(message.contains("below current usage"), "{message}");
    let view = stage.sandbox.view();
    for pod in view.list("pods", NAMESPACE) {
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["memory"], "128Mi");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_resize_fails_the_step() {
    let stage = Stage::eleven().await;
    stage.sandbox.behave(NAMESPACE, "web", |behaviour| behaviour.crash_after_resize = Some(Duration::from_secs(3)));
    let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert!(
        matches!(&result.conclusion, Conclusion::Ended(Ending::RolledBack { cause: Cause::Unhealthy { .. } })),
        "{:?}",
        result.conclusion
    );
    assert!(stage.all_have("100m"), "{:?}", stage.cpus());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_restarts_by_policy_restarts_once_and_one_at_a_time() {
    let restarting = WEB.replace(
        "image: kapr.test/busybox:1",
        "image: kapr.test/busybox:1\n        resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]",
    );
    let stage = Stage::with(SandboxConfig::default(), &restarting, 11).await;
    let sandbox = stage.sandbox.clone();
    let watch = tokio::spawn(async move {
        let away = sandbox.wait_until(Duration::from_hours(1), |view| view.ready_pods(NAMESPACE, "web") < 10);
        away.await.is_ok()
    });
    let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert!(!watch.is_finished(), "two pods were away at the same time");
    watch.abort();
    for pod in stage.sandbox.view().list("pods", NAMESPACE) {
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_ready_in_time_fails_the_step() {
    let stage = Stage::eleven().await;
    stage.sandbox.behave(NAMESPACE, "web", |behaviour| behaviour.unready_after_resize = true);
    let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert!(
        matches!(&result.conclusion, Conclusion::Ended(Ending::RolledBack { cause: Cause::NotReady { .. } })),
        "{:?}",
        result.conclusion
    );
    assert!(stage.all_have("100m"), "{:?}", stage.cpus());
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_kubelet_runs_into_the_resize_timeout_and_the_rollback_says_so() {
    let stage = Stage::eleven().await;
    stage.sandbox.behave(NAMESPACE, "web", |behaviour| behaviour.deaf = true);
    let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert!(
        matches!(
            &result.conclusion,
            Conclusion::Ended(Ending::RollbackIncomplete { cause: Cause::ResizeTimeout { .. } })
        ),
        "{:?}",
        result.conclusion
    );
    assert_eq!(result.exit_code, 4);
}

#[tokio::test(start_paused = true)]
async fn a_signal_stops_and_resume_finishes() {
    let stage = Stage::eleven().await;
    let first = stage.actor("ann");
    let commands = first.commands.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let _ = commands.send(Command::Interrupt { signal: 2 });
    });
    let stopped = first.act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert_eq!(stopped.conclusion, Conclusion::Stopped(Stop::Interrupted { signal: 2 }));
    assert_eq!(stopped.exit_code, 130);
    assert!(stage.lease_is_free());
    let record = stage.record().await;
    assert_eq!(record.active().unwrap().stopped, Some(Stop::Interrupted { signal: 2 }));
    let result = stage.actor("bob").act(Wish::Resume).await.unwrap();
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert!(stage.all_have("150m"));
}

#[tokio::test(start_paused = true)]
async fn rollback_after_validation_restores_and_does_not_deny() {
    let stage = Stage::eleven().await;
    let _ = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    let result = stage.actor("ann").act(Wish::RollBack).await.unwrap();
    assert!(matches!(result.conclusion, Conclusion::Ended(Ending::RolledBack { cause: Cause::Asked { .. } })));
    assert_eq!(result.exit_code, 0);
    assert!(stage.all_have("100m"));
    assert!(stage.record().await.folded.denied.is_empty());
}

#[tokio::test(start_paused = true)]
async fn abort_leaves_the_pods_as_they_are() {
    let stage = Stage::eleven().await;
    let first = stage.actor("ann");
    let commands = first.commands.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let _ = commands.send(Command::Interrupt { signal: 15 });
    });
    let _ = first.act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    let before = stage.cpus();
    let result = stage.actor("ann").act(Wish::Abort).await.unwrap();
    assert!(matches!(result.conclusion, Conclusion::Ended(Ending::Aborted { .. })));
    assert_eq!(stage.cpus(), before);
    assert!(stage.record().await.active().is_none());
}
