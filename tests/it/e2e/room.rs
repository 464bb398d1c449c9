//! Room on the node, now and later. These tests use up the node: one at a time.

use rstest::rstest;
use serde_json::{Value, json};

use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, container, deployment, script, workload};
use super::{Place, Running, wait_for};

/// A pod that takes so much of the node's two CPUs.
fn blocker(cpu: &str) -> Value {
    let mut app = container("app");
    app["resources"]["requests"]["cpu"] = json!(cpu);
    workload("Deployment", "blocker", 1, vec![app])
}

/// Fits the node, but not beside the blocker.
const LARGE: &str = "app=requests.cpu=900m";

fn wait_deferred(running: &mut Running) -> String {
    let event = running.wait_event("Deferred", |event| event["kind"] == "Pod" && event["state"] == "Deferred");
    event["message"].as_str().unwrap().to_owned()
}

#[rstest]
fn deferred_goes_on_when_another_pod_makes_room(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "room") else { return };
    place.start(&deployment("web", 1), 1);
    place.start(&blocker("1100m"), 1);
    let mut running = place.spawn_rollout("web", LARGE, &[]);
    let words = wait_deferred(&mut running);
    assert!(words.contains("Node didn't have enough resource: cpu"), "{words}");
    let waiting =
        running.wait_event("the wait", |event| event["kind"] == "Waiting" && event["on"]["reason"] == "Deferred");
    assert_eq!(waiting["on"]["message"], words);
    assert!(waiting["on"]["until"].is_string(), "{waiting}");

    place.kubectl(&["scale", "deployment/blocker", "--replicas=0"]);
    let ran = running.end().expect(0);
    assert_eq!(ran.result()["outcome"], "ValidatedWithoutPersistence");
    place.assert_all_at("web", "requests.cpu", "900m");
}

#[rstest]
fn deferred_for_too_long_is_rolled_back(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "deferred") else { return };
    place.start(&deployment("web", 2), 2);
    place.start(&blocker("1100m"), 1);
    let ran = place.rollout("web", LARGE, &["--steps=100%", "--deferred-timeout=3s"]).expect(3);
    assert!(ran.said("Deferred")[0].contains("Node didn't have enough resource: cpu"), "{:?}", ran.said("Deferred"));
    assert_eq!(ran.result()["cause"]["reason"], "DeferredTooLong");
    assert_eq!(ran.said("Restored").len(), 2);
    place.assert_all_at("web", "requests.cpu", CPU);
    place.rollout("web", LARGE, &[]).expect(7);
}

#[rstest]
fn deferred_for_too_long_can_be_left_out(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "skip") else { return };
    place.start(&deployment("web", 2), 2);
    // Room for one of two, whatever else is at work on the node.
    place.start(&blocker("650m"), 1);
    let flags = ["--steps=100%", "--deferred-timeout=3s", "--on-deferred=skip"];
    let ran = place.rollout("web", "app=requests.cpu=700m", &flags).expect(8);
    assert_eq!(ran.result()["outcome"], "ValidatedWithoutPersistence");
    let left_out = ran.result()["pods"].as_array().unwrap().iter().filter(|pod| pod["state"] == "Skipped").count();
    assert_eq!((left_out, place.count_at("web", "requests.cpu", "700m")), (1, 1));
    wait_for("the pod that was left out at its old values", 10, || {
        (place.count_at("web", "requests.cpu", CPU) == 1).then_some(())
    });
}

#[rstest]
fn a_memory_limit_below_what_is_used_fails_with_the_kubelets_words(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "memory") else { return };
    let mut app = script("app", "dd if=/dev/zero of=/dev/shm/held bs=1M count=40 2>/dev/null; exec sleep 100000");
    app["resources"]["limits"] = json!({"memory": "96Mi"});
    place.start(&workload("Deployment", "web", 3, vec![app]), 3);
    // Known to the kubelet only after its next look at the statistics.
    wait_for("40 MiB held", 30, || {
        let pods = place.pods("web");
        pods.iter()
            .all(|pod| place.kubectl(&["exec", &pod.name, "--", "du", "-m", "/dev/shm/held"]).starts_with("40"))
            .then_some(())
    });
    let ran = place.rollout("web", "app=limits.memory=24Mi", &["--steps=2,100%"]).expect(3);
    let said = ran.said("Failed").pop().unwrap_or_else(|| panic!("never Failed: {}", ran.stdout));
    assert!(said.contains("below current usage"), "{said}");
    let cause = ran.result()["cause"].clone();
    assert_eq!(cause["reason"], "ResizeFailed");
    assert!(cause["message"].as_str().unwrap().contains("below current usage"), "{cause}");
    place.assert_all_at("web", "limits.memory", "96Mi");
    assert!(place.pods("web").iter().all(|pod| pod.restarts("app") == 0));
}
