//! What real kubelets of 1.37.2 and 1.34.4 wrote during a resize, status by status, and what the product reads in it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kapr::cluster::translate::pod_view;
use kapr::core::pod::PodView;
use kapr::core::resize::{ResizeState, classify};
use kapr::core::resources::ContainerResources;
use kapr::source::set;
use rstest::rstest;

fn story(version: &str, name: &str) -> Vec<PodView> {
    let path = format!("{}/tests/fixtures/pods/{version}/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let pods: Vec<Pod> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    pods.iter().map(|pod| pod_view(pod).unwrap()).collect()
}

fn want(cpu: &str, memory_limit: &str) -> ContainerResources {
    set::parse_all(&[format!("app=requests.cpu={cpu},requests.memory=32Mi,limits.memory={memory_limit}")]).unwrap()
}

fn word(state: &ResizeState) -> &'static str {
    match state {
        ResizeState::Pending => "Pending",
        ResizeState::InProgress => "InProgress",
        ResizeState::Deferred(_) => "Deferred",
        ResizeState::Infeasible(_) => "Infeasible",
        ResizeState::Failed(_) => "Failed",
        ResizeState::Applied => "Applied",
        ResizeState::Diverged(_) => "Diverged",
        ResizeState::Foreign(_) => "Foreign",
        ResizeState::Gone(_) => "Gone",
    }
}

fn read(version: &str, name: &str, want: &ContainerResources) -> String {
    let states =
        story(version, name).iter().map(|view| word(&classify(view, want, Duration::ZERO))).collect::<Vec<_>>();
    states.join(" ")
}

#[rstest]
fn up(#[values("1.37", "1.34")] version: &str) {
    // The third status carries the new generation and the new grants, with the old resources.
    assert_eq!(read(version, "plain", &want("70m", "128Mi")), "Foreign Pending InProgress Applied");
}

#[rstest]
fn with_a_restart(#[values("1.37", "1.34")] version: &str) {
    assert_eq!(read(version, "restarts", &want("70m", "128Mi")), "Foreign Pending InProgress Applied");
    let last = story(version, "restarts").pop().unwrap();
    assert_eq!(last.containers["app"].restart_count, 1);
    assert!(last.containers["app"].restarts_on.cpu);
}

#[rstest]
fn a_memory_limit_below_use_and_back(#[values("1.37", "1.34")] version: &str) {
    let down = read(version, "hungry", &want("50m", "40Mi"));
    assert_eq!(down, "Foreign Pending InProgress Failed Foreign Foreign");
    let back = read(version, "hungry", &want("50m", "128Mi"));
    assert_eq!(back, "Applied Foreign Foreign Foreign Pending Applied");
    let failed = story(version, "hungry").into_iter().map(|view| classify(&view, &want("50m", "40Mi"), Duration::ZERO));
    let words = failed.filter_map(|state| if let ResizeState::Failed(words) = state { Some(words) } else { None });
    for words in words {
        assert!(words.contains("below current usage"), "{words}");
    }
}

#[rstest]
fn deferred_and_back(#[values("1.37", "1.34")] version: &str) {
    assert_eq!(read(version, "deferred", &want("1990m", "128Mi")), "Foreign Pending Deferred Foreign Foreign");
    assert_eq!(read(version, "deferred", &want("70m", "128Mi")), "Applied Foreign Foreign Pending Applied");
}

#[test]
fn infeasible_is_a_condition_on_1_34() {
    assert_eq!(read("1.34", "infeasible", &want("200", "128Mi")), "Foreign Pending Infeasible Foreign Foreign");
    assert_eq!(read("1.34", "infeasible", &want("70m", "128Mi")), "Applied Foreign Foreign Pending Applied");
}
