//! Every kind of workload, and pods with more than one container.

use rstest::rstest;
use serde_json::json;

use super::Place;
use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, MEMORY, container, workload};

#[rstest]
#[case::stateful_set("StatefulSet", 3)]
#[case::daemon_set("DaemonSet", 1)]
#[case::replica_set("ReplicaSet", 3)]
fn every_kind(#[case] kind: &str, #[case] pods: usize, #[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, &kind.to_lowercase()) else { return };
    place.start(&workload(kind, "web", pods, vec![container("app")]), pods);
    let name = format!("{}/web", kind.to_lowercase());
    let ran = place.rollout(&name, "app=requests.cpu=25m,requests.memory=20Mi", &["--steps=1,100%"]).expect(0);
    assert_eq!(ran.result()["workload"]["kind"], kind);
    place.assert_all_at("web", "requests.cpu", "25m");
    place.assert_all_at("web", "requests.memory", "20Mi");
    place.kapr(&["rollback", &name, "--yes"]).expect(0);
    place.assert_all_at("web", "requests.cpu", CPU);
    place.assert_all_at("web", "requests.memory", MEMORY);
}

#[rstest]
fn a_partial_recommendation_for_a_pod_with_a_sidecar(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "sidecar") else { return };
    let mut manifest = workload("Deployment", "web", 2, vec![container("app"), container("log")]);
    let mut proxy = container("proxy");
    proxy["restartPolicy"] = json!("Always");
    manifest["spec"]["template"]["spec"]["initContainers"] = json!([proxy]);
    place.start(&manifest, 2);
    let flags = ["--steps=100%", "--set=proxy=requests.memory=20Mi"];
    place.rollout("web", "app=requests.cpu=25m", &flags).expect(0);
    let is = |expected: &[(&str, &str, &str)]| {
        for pod in place.pods("web") {
            for (container, key, value) in expected {
                assert!(pod.has(container, key, value), "{container} {key}: {:?}", pod.values(container, key));
            }
        }
    };
    is(&[
        ("app", "requests.cpu", "25m"),
        ("app", "requests.memory", MEMORY),
        ("proxy", "requests.cpu", CPU),
        ("proxy", "requests.memory", "20Mi"),
        ("log", "requests.cpu", CPU),
        ("log", "requests.memory", MEMORY),
    ]);
    place.kapr(&["rollback", "deploy/web", "--yes"]).expect(0);
    for container in ["app", "proxy", "log"] {
        is(&[(container, "requests.cpu", CPU), (container, "requests.memory", MEMORY)]);
    }
}
