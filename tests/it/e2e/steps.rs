//! The main job: a recommendation goes over the pods in steps, always the same pods.

use std::collections::BTreeSet;

use kapr::core::pod::PodUid;
use kapr::core::rollout::outcome::Ending;
use kapr::core::selection::stable_order;
use rstest::rstest;

use super::Place;
use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, deployment};

#[rstest]
fn eleven_pods_go_2_then_3_then_11(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "steps") else { return };
    let pods = place.start(&deployment("web", 11), 11);

    let mut running = place.spawn_rollout("web", "app=requests.cpu=25m", &["--steps=10%,25%,100%", "--pause=2s"]);
    for (step, expected) in [2, 3, 11].into_iter().enumerate() {
        running.wait_at_target(step);
        assert_eq!(place.count_at("web", "requests.cpu", "25m"), expected, "in the pause after step {step}");
    }
    let ran = running.end().expect(0);

    // The pods of a step are those of the step before and the next ones in the stable order.
    let uid = place.get(&["deployment", "web"])["metadata"]["uid"].as_str().unwrap().to_owned();
    let uids = pods.iter().map(|pod| PodUid::new(&pod.uid)).collect::<Vec<_>>();
    let order = stable_order(&uid, &uids);
    let names = |uids: &[PodUid]| {
        let name = |uid: &PodUid| pods.iter().find(|pod| pod.uid == *uid.0).unwrap().name.clone();
        uids.iter().map(name).collect::<BTreeSet<_>>()
    };
    let taken = ran.taken().into_iter().map(BTreeSet::from_iter).collect::<Vec<_>>();
    assert_eq!(taken, [names(&order[..2]), names(&order[2..3]), names(&order[3..])]);

    let result = ran.result();
    assert_eq!(result["outcome"], "ValidatedWithoutPersistence");
    assert_eq!(result["bornWith"]["app"]["requests"]["cpu"], CPU);
    let run = place.last_run("web");
    assert_eq!(run.steps.iter().map(|step| step.pods).collect::<Vec<_>>(), [2, 3, 11]);
    let pods_now = place.pods("web");
    assert!(pods_now.iter().all(|pod| pod.restarts("app") == 0), "resized without a restart");
    assert_eq!(place.holder("web"), None);
}

#[rstest]
fn another_machine_takes_the_same_pods_and_the_same_again_is_done(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "machines") else { return };
    place.start(&deployment("web", 5), 5);
    let first = place.rollout("web", "app=requests.cpu=25m", &["--steps=25%"]).expect(0);
    assert_eq!(place.count_at("web", "requests.cpu", "25m"), 2);

    // Undone after it was validated.
    let undone = place.kapr(&["rollback", "deployment/web", "--yes", "-o", "json"]).expect(0);
    assert_eq!(undone.result()["outcome"], "RolledBack");
    place.assert_all_at("web", "requests.cpu", CPU);

    let args = ["rollout", "deploy", "web", "--set=app=requests.cpu=25m", "--steps=25%,100%", "--yes", "-o=json"];
    let second = place.spawn(&[&args[..], &["--pause=1s", "--min-ready=1s"]].concat());
    let second = second.end().expect(0);
    assert_eq!(second.taken()[0], first.taken()[0]);
    place.assert_all_at("web", "requests.cpu", "25m");

    let record = place.record("deployment-web");
    assert_eq!(record.run.unwrap().started.run, 2);
    let before = &record.folded.runs;
    assert_eq!(before.len(), 1);
    assert!(matches!(before[0].ending, Ending::RolledBack { .. }), "{:?}", before[0].ending);

    let again = place.kapr(&["rollout", "deploy/web", "--set=app=requests.cpu=25m", "--yes"]).expect(0);
    assert!(again.stdout.contains("unchanged"), "{again:?}");
}

#[rstest]
fn plan_and_dry_run_change_nothing(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "plan") else { return };
    place.start(&deployment("web", 3), 3);
    let set = "--set=app=requests.cpu=25m";
    place.kapr(&["plan", "deploy/web", set, "--exit-code"]).expect(10);
    place.kapr(&["rollout", "deploy/web", set, "--dry-run=server"]).expect(0);
    // Without a terminal and without --yes there is nobody to ask.
    place.kapr(&["rollout", "deploy/web", set]).expect(2);
    place.assert_all_at("web", "requests.cpu", CPU);
    assert!(place.pods("web").iter().all(|pod| pod.json["metadata"]["generation"] == 1));
    place.kapr(&["rollout", "deploy/nothing", set, "--yes"]).expect(7);
}
