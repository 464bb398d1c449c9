//! What is refused: by the node, by the rules of in-place resize, by the rights of the user.

use kapr::core::rollout::cause::Cause;
use kapr::core::rollout::outcome::Ending;
use rstest::rstest;
use serde_json::json;

use super::Place;
use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, MEMORY, deployment};

/// More than any node of the test cluster.
const HUGE: &str = "app=requests.cpu=500";

#[rstest]
fn larger_than_the_node_is_infeasible_rolled_back_and_denied(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "huge") else { return };
    place.start(&deployment("web", 3), 3);
    let ran = place.rollout("web", HUGE, &["--steps=1,100%"]).expect(3);

    // 1.37 refuses the patch, 1.34 lets the kubelet say it: the same verdict.
    let said = ran.said("Infeasible").pop().unwrap();
    assert!(said.to_lowercase().contains("node didn't have enough"), "{said}");
    let result = ran.result();
    assert_eq!((&result["outcome"], &result["cause"]["reason"]), (&json!("RolledBack"), &json!("Infeasible")));
    place.assert_all_at("web", "requests.cpu", CPU);

    let record = place.record("deployment-web");
    let run = record.run.clone().unwrap();
    let revision = run.started.revision.clone();
    assert!(matches!(record.denial(&revision).unwrap().cause, Cause::Infeasible { .. }));
    assert_eq!(run.intents.len(), 1, "the first step found it out");

    // Sticky: refused with the evidence, and nothing is tried.
    let again = place.rollout("web", HUGE, &[]).expect(7);
    for evidence in ["denied", "Infeasible", &said, &revision.to_string(), "kubectl kapr allow"] {
        assert!(again.stderr.contains(evidence), "no {evidence:?} in {}", again.stderr);
    }
    // Allowed again, it is tried again.
    place.kapr(&["allow", "deploy/web", revision.short()]).expect(0);
    place.rollout("web", HUGE, &["--steps=1,100%"]).expect(3);
    place.assert_all_at("web", "requests.cpu", CPU);
    // Another revision of the same workload is not concerned.
    place.rollout("web", "app=requests.cpu=25m", &["--steps=100%"]).expect(0);
}

#[rstest]
fn infeasible_after_a_good_step_brings_every_pod_back(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "mixed") else { return };
    place.start(&deployment("web", 4), 4);
    let mut running = place.spawn_rollout("web", "app=requests.cpu=25m", &["--steps=50%,100%", "--pause=60s"]);
    running.wait_at_target(0);
    running.signal("INT");
    running.end().expect(130);
    assert_eq!(place.count_at("web", "requests.cpu", "25m"), 2);

    // A new revision supersedes it; it fails, and the baselines are those from before both.
    let ran = place.rollout("web", HUGE, &["--steps=1,100%"]).expect(3);
    assert_eq!(ran.result()["cause"]["reason"], "Infeasible");
    place.assert_all_at("web", "requests.cpu", CPU);
    let record = place.record("deployment-web");
    assert_eq!(record.folded.runs.last().unwrap().ending, Ending::Superseded { by_run: 2 });
}

#[rstest]
fn an_added_limit_is_one_way(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "oneway") else { return };
    place.start(&deployment("web", 2), 2);
    let refused = place.rollout("web", "app=limits.cpu=100m", &[]).expect(7);
    assert!(refused.stderr.contains("limits.cpu") && refused.stderr.contains("--allow-one-way"), "{}", refused.stderr);
    assert!(place.pods("web").iter().all(|pod| pod.json["metadata"]["generation"] == 1), "nothing was changed");

    place.rollout("web", "app=limits.cpu=100m", &["--allow-one-way", "--steps=100%"]).expect(0);
    place.assert_all_at("web", "limits.cpu", "100m");

    // It cannot be taken away again: the rollback says so and names the pods.
    let undone = place.kapr(&["rollback", "deploy/web", "--yes", "-o=json"]).expect(4);
    assert_eq!(undone.said("NotRestored").len(), 2);
    assert!(undone.said("NotRestored")[0].contains("cannot be removed in place"), "{:?}", undone.said("NotRestored"));
}

#[rstest]
fn an_edge_of_quality_of_service_is_refused(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "qos") else { return };
    place.start(&deployment("web", 1), 1);
    let set = format!("app=limits.cpu={CPU},limits.memory={MEMORY}");
    let refused = place.rollout("web", &set, &["--allow-one-way"]).expect(7);
    assert!(refused.stderr.contains("Guaranteed"), "{}", refused.stderr);
}

#[rstest]
fn a_limit_range_is_asked_before_anything_is_changed(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "ranges") else { return };
    place.start(&deployment("web", 2), 2);
    place.apply(&json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": "15m"}}]},
    }));
    let refused = place.rollout("web", "app=requests.cpu=10m", &[]).expect(7);
    assert!(refused.stderr.contains("minimum cpu usage per Container is 15m"), "{}", refused.stderr);
    assert!(place.pods("web").iter().all(|pod| pod.json["metadata"]["generation"] == 1));
}

#[rstest]
fn what_admission_would_add_is_refused(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "defaults") else { return };
    place.start(&deployment("web", 2), 2);
    // Later than the pods: they have no limit on CPU, and every resize from now on would give them one.
    place.apply(&json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "default"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "200m"}}]},
    }));
    let refused = place.rollout("web", "app=requests.cpu=25m", &[]).expect(7);
    assert!(refused.stderr.contains("would add limits.cpu=200m"), "{}", refused.stderr);
    assert!(place.pods("web").iter().all(|pod| pod.json["metadata"]["generation"] == 1));
}

#[rstest]
fn the_role_edit_alone_lacks_the_resize(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "rights") else { return };
    place.start(&deployment("web", 2), 2);
    place.kubectl(&["create", "rolebinding", "edit", "--clusterrole=edit", "--user=eve"]);
    let refused = place.rollout("web", "app=requests.cpu=25m", &["--as=eve"]).expect(7);
    assert!(refused.stderr.contains("patch pods/resize"), "{}", refused.stderr);

    // The YAML that it prints is enough.
    let yaml = refused.stderr.split_once("grant it with:\n").unwrap().1;
    place.try_kubectl(&["apply", "-f", "-"], yaml).unwrap();
    super::wait_for("the right", 20, || {
        place.try_kubectl(&["auth", "can-i", "patch", "pods", "--subresource=resize", "--as=eve"], "").ok()
    });
    place.rollout("web", "app=requests.cpu=25m", &["--as=eve", "--steps=100%"]).expect(0);
    place.assert_all_at("web", "requests.cpu", "25m");
}
