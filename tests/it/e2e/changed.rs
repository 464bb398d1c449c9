//! The world changes while a run is at work.

use kapr::core::journal::Fate;
use rstest::rstest;
use serde_json::json;

use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, deployment};
use super::{Place, wait_for};

const SET: &str = "app=requests.cpu=25m";

#[rstest]
fn a_pod_that_somebody_else_resized_is_left_alone(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "foreign") else { return };
    place.start(&deployment("web", 3), 3);
    let mut running = place.spawn_rollout("web", SET, &["--steps=2,100%", "--pause=3s"]);
    let taken = running.wait_event("step", |event| event["kind"] == "StepStarted")["pods"][0].clone();
    let taken = taken.as_str().unwrap();
    running.wait_at_target(0);
    place.resize_by_hand(taken, "app", &json!({"requests": {"cpu": "33m"}}));
    let ran = running.end().expect(8);

    let result = ran.result();
    let pods = result["pods"].as_array().unwrap();
    let foreign = pods.iter().filter(|pod| pod["state"] == "Foreign").collect::<Vec<_>>();
    assert_eq!(foreign.len(), 1, "{pods:?}");
    assert_eq!(foreign[0]["name"], taken);
    assert!(foreign[0]["message"].as_str().unwrap().contains("requests.cpu to 33m"), "{foreign:?}");
    assert_eq!(place.count_at("web", "requests.cpu", "25m"), 2);

    // Nor is it rolled back.
    place.kapr(&["rollback", "deploy/web", "--yes"]).expect(8);
    assert_eq!(place.count_at("web", "requests.cpu", CPU), 2);
    assert_eq!(place.count_at("web", "requests.cpu", "33m"), 1);
    let run = place.last_run("web");
    assert_eq!(run.intents.values().filter(|intent| intent.fate == Fate::Foreign).count(), 1);
}

#[rstest]
fn pods_that_are_added_are_taken_too(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "scaled") else { return };
    place.start(&deployment("web", 2), 2);
    let mut running = place.spawn_rollout("web", SET, &["--steps=1,100%", "--pause=6s"]);
    running.wait_at_target(0);
    place.kubectl(&["scale", "deployment/web", "--replicas=5"]);
    place.ready_pods("web", 5);
    running.end().expect(0);
    place.assert_all_at("web", "requests.cpu", "25m");
}

#[rstest]
fn a_taken_pod_that_is_deleted_is_replaced_by_another(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "replaced") else { return };
    place.start(&deployment("web", 4), 4);
    let mut running = place.spawn_rollout("web", SET, &["--steps=2,3", "--pause=4s"]);
    let taken = running.wait_event("step", |event| event["kind"] == "StepStarted")["pods"][0].clone();
    running.wait_at_target(0);
    place.kubectl(&["delete", "pod", taken.as_str().unwrap(), "--wait=false"]);
    running.end().expect(0);
    wait_for("three of four at target", 20, || (place.count_at("web", "requests.cpu", "25m") == 3).then_some(()));
}

#[rstest]
fn a_workload_that_is_deleted_ends_the_run(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "deleted") else { return };
    place.start(&deployment("web", 2), 2);
    let mut running = place.spawn_rollout("web", SET, &["--steps=1,100%", "--pause=120s"]);
    running.wait_at_target(0);
    place.kubectl(&["delete", "deployment/web", "--wait=false"]);
    let ran = running.end().expect(3);
    assert!(ran.took.as_secs() < 60, "{:?}", ran.took);
    assert_eq!(ran.result()["cause"]["reason"], "WorkloadGone");
}

#[rstest]
fn pods_that_outlive_their_workload_are_brought_back(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "orphans") else { return };
    place.start(&deployment("web", 3), 3);
    let mut running = place.spawn_rollout("web", SET, &["--steps=2,100%", "--pause=120s"]);
    running.wait_at_target(0);
    place.kubectl(&["delete", "deployment/web", "--cascade=orphan"]);
    let ran = running.end().expect(3);
    assert_eq!(ran.result()["cause"]["reason"], "WorkloadGone");
    assert_eq!(ran.said("Restored").len(), 2);
    place.assert_all_at("web", "requests.cpu", CPU);
}
