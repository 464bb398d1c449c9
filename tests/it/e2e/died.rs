//! The process goes away: killed, interrupted, out of time. Another one finishes the run from an empty home.

use kapr::core::journal::{Run, Stage};
use kapr::core::rollout::outcome::{Ending, Stop};
use rstest::rstest;

use super::Place;
use super::Running;
use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, container, deployment, restarting, workload};

const SET: &str = "app=requests.cpu=25m";
const STEPS: [&str; 2] = ["--steps=1,2,100%", "--pause=3s"];

/// What is the same of two runs however often they were interrupted.
fn outcome(run: &Run) -> (Stage, Vec<usize>, usize) {
    let mut stage = run.stage.clone();
    if let Stage::Ended { at, .. } = &mut stage {
        *at = jiff::Timestamp::UNIX_EPOCH;
    }
    (stage, run.steps.iter().map(|step| step.pods).collect(), run.intents.len())
}

fn validated(run: &Run) {
    let ending = Ending::ValidatedWithoutPersistence;
    let stage = Stage::Ended { ending, at: jiff::Timestamp::UNIX_EPOCH, not_restored: Vec::new() };
    assert_eq!(outcome(run), (stage, vec![1, 2, 4], 4));
    assert!(run.steps.iter().all(|step| step.at_target.is_some() && step.passed.is_some()));
}

/// The moment at which the process is killed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Moment {
    /// The intent is in the record; patches may be out.
    Taking,
    /// The first pod was seen on its way.
    Resizing,
    /// Every pod of the step is at target.
    Pausing,
}

fn wait_until(running: &mut Running, step: usize, moment: Moment) {
    running.wait_event(&format!("{moment:?} of step {step}"), |event| match moment {
        Moment::Taking => event["kind"] == "StepStarted" && event["step"] == step,
        Moment::Resizing => event["kind"] == "Pod" && event["step"] == step && event["state"] != "Chosen",
        Moment::Pausing => event["kind"] == "StepAtTarget" && event["step"] == step,
    });
}

// Every step and every moment, but not every pair of them: each costs the minute of the lease.
#[rstest]
#[case::first(0, Moment::Taking)]
#[case::second(1, Moment::Resizing)]
#[case::third(2, Moment::Pausing)]
fn killed_in_a_step_and_resumed(#[case] step: usize, #[case] moment: Moment, #[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "killed") else { return };
    place.start(&deployment("web", 4), 4);
    let mut running = place.spawn_rollout("web", SET, &STEPS);
    wait_until(&mut running, step, moment);
    let killed = running.kill();
    assert_eq!(killed.code, None);

    let resumed = place.spawn(&["resume", "deployment/web", "--yes", "-o=json"]).end().expect(0);
    assert_eq!(resumed.result()["run"], 1);
    assert_eq!(resumed.events()[0]["kind"], "Notice", "says whom it waits for");
    place.assert_all_at("web", "requests.cpu", "25m");
    validated(&place.last_run("web"));
    // No pod was patched twice.
    assert!(place.pods("web").iter().all(|pod| pod.json["metadata"]["generation"] == 2));
    // What was passed is not repeated.
    let repeated =
        resumed.of_kind("StepPassed").iter().filter(|event| event["step"].as_u64() < Some(step as u64)).count();
    assert_eq!(repeated, 0);
}

#[rstest]
fn killed_in_the_rollback_and_resumed(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "undone") else { return };
    // Restarting pods come back one by one, which leaves time to be killed in between.
    place.start(&workload("Deployment", "web", 3, vec![restarting(container("app"), "cpu")]), 3);
    place.rollout("web", SET, &["--steps=100%"]).expect(0);
    let mut running = place.spawn(&["rollback", "deployment/web", "--yes", "-o=json"]);
    running.wait_event("the first pod back", |event| event["kind"] == "Pod" && event["state"] == "Restored");
    running.kill();
    assert!(matches!(place.last_run("web").stage, Stage::RollingBack { .. }));

    let resumed = place.spawn(&["resume", "deployment/web", "--yes", "-o=json"]).end().expect(0);
    assert_eq!(resumed.result()["outcome"], "RolledBack");
    place.assert_all_at("web", "requests.cpu", CPU);
    assert!(place.pods("web").iter().all(|pod| pod.restarts("app") == 2), "there and back, once each");
    let run = place.last_run("web");
    assert!(
        matches!(&run.stage, Stage::Ended { ending: Ending::RolledBack { .. }, not_restored, .. } if not_restored.is_empty())
    );
}

#[rstest]
#[case::sigint("INT", 130)]
#[case::sigterm("TERM", 143)]
fn interrupted_and_resumed(#[case] signal: &str, #[case] code: i32, #[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "signal") else { return };
    place.start(&deployment("web", 4), 4);
    let mut running = place.spawn_rollout("web", SET, &STEPS);
    running.wait_at_target(1);
    running.signal(signal);
    let stopped = running.end().expect(code);
    assert!(
        stopped.result()["next"][0].as_str().unwrap().contains("kubectl kapr resume deployment/web"),
        "{stopped:?}"
    );
    let number = if signal == "INT" { 2 } else { 15 };
    let run = place.last_run("web");
    assert_eq!(run.stopped, Some(Stop::Interrupted { signal: number }));
    assert_eq!(place.holder("web"), None, "the lease was given back");
    assert_eq!(place.count_at("web", "requests.cpu", "25m"), 2);

    place.spawn(&["resume", "deploy/web", "--yes", "-o=json"]).end().expect(0);
    validated(&place.last_run("web"));
}

#[rstest]
fn out_of_time_and_run_again(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "timeout") else { return };
    place.start(&deployment("web", 4), 4);
    let stopped = place.rollout("web", SET, &["--steps=1,2,100%", "--pause=4s", "--timeout=3s"]).expect(5);
    assert_eq!(stopped.result()["outcome"], "TimedOut");
    assert_eq!(place.last_run("web").stopped, Some(Stop::TimedOut));
    // The same command goes on where it stopped.
    let ran = place.rollout("web", SET, &STEPS).expect(0);
    assert_eq!((&ran.result()["run"], &ran.events()[0]["resumed"]), (&1.into(), &true.into()));
    validated(&place.last_run("web"));
}
