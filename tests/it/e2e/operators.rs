//! Two operators, and runs that take the place of others.

use kapr::core::rollout::outcome::{Ending, Stop};
use rstest::rstest;

use super::Place;
use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, deployment};

const FIRST: &str = "app=requests.cpu=25m";
const SECOND: &str = "app=requests.cpu=30m";

#[rstest]
fn one_works_the_other_is_told_and_takes_over_when_it_is_gone(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "two") else { return };
    place.start(&deployment("web", 3), 3);
    let mut first = place.spawn_rollout("web", FIRST, &["--steps=1,100%", "--pause=45s"]);
    first.wait_at_target(0);

    let rollout = ["rollout", "deploy/web", "--set", FIRST, "--yes", "-o=json"];
    let second = place.spawn(&rollout).end().expect(6);
    let operator = first.events()[0]["operator"].as_str().unwrap().to_owned();
    assert!(operator.contains('@'), "{operator}");
    let told = format!("deployment/web is held by {operator} (pid {}) since 20", first.id());
    assert!(second.stderr.contains(&told), "{}", second.stderr);
    assert!(second.took.as_secs() < 40, "took {:?}", second.took);

    first.kill();
    let taken_over = place.spawn(&rollout).end().expect(0);
    assert_eq!(taken_over.result()["run"], 1);
    place.assert_all_at("web", "requests.cpu", "25m");
    assert!(taken_over.took.as_secs() >= 55, "not before the lease is over: {:?}", taken_over.took);
}

#[rstest]
fn a_wish_to_supersede_is_heard(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "wish") else { return };
    place.start(&deployment("web", 4), 4);
    let mut first = place.spawn_rollout("web", FIRST, &["--steps=2,100%", "--pause=120s"]);
    first.wait_at_target(0);
    let args =
        ["rollout", "deploy/web", "--set", SECOND, "--yes", "-o=json", "--supersede", "--pause=1s", "--min-ready=1s"];
    let second = place.spawn(&[&args[..], &["--steps=1,100%"]].concat()).end().expect(0);
    let stopped = first.end().expect(6);
    assert_eq!(stopped.result()["outcome"], "SupersedeWished");
    assert!(stopped.result()["by"].is_string());

    // The pod that only the first run had taken went back before the second began.
    assert_eq!(second.said("Restored").len(), 1);
    place.assert_all_at("web", "requests.cpu", "30m");
    let record = place.record("deployment-web");
    assert_eq!(record.folded.runs[0].ending, Ending::Superseded { by_run: 2 });

    // The baselines are those from before both runs.
    place.kapr(&["rollback", "deploy/web", "--yes"]).expect(0);
    place.assert_all_at("web", "requests.cpu", CPU);
}

#[rstest]
fn an_abort_leaves_the_pods_as_they_are(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "abort") else { return };
    place.start(&deployment("web", 4), 4);
    let mut running = place.spawn_rollout("web", FIRST, &["--steps=2,100%", "--pause=120s"]);
    running.wait_at_target(0);
    running.signal("INT");
    running.end().expect(130);
    assert_eq!(place.last_run("web").stopped, Some(Stop::Interrupted { signal: 2 }));
    assert_eq!(place.holder("web"), None, "the lease was given back");

    let aborted = place.kapr(&["abort", "deploy/web", "--yes", "-o=json"]).expect(0);
    assert_eq!(aborted.result()["outcome"], "Aborted");
    assert_eq!(place.count_at("web", "requests.cpu", "25m"), 2);
    assert_eq!(place.count_at("web", "requests.cpu", CPU), 2);
    let again = place.kapr(&["resume", "deploy/web", "--yes"]).expect(7);
    assert!(again.stderr.contains("has ended"), "{}", again.stderr);

    // Not denied, and what was left can still be undone.
    place.kapr(&["rollback", "deploy/web", "--yes"]).expect(0);
    place.assert_all_at("web", "requests.cpu", CPU);
}
