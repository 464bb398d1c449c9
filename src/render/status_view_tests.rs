//! Status at 11 and 500 pods.

use rstest::rstest;

use super::*;
use crate::core::journal::{Entry, Record};
use crate::core::rollout::outcome::Ending;
use crate::render::pictures::{self, Scribe};

fn show(status: &Status, now: Timestamp, wide: bool, columns: usize) -> String {
    table(&StatusView { context: Some("kind-shop"), status, now }, wide, columns)
}

#[rstest]
#[case("one_11x80", 11, pictures::ONE, false, 80)]
#[case("one_500x80", 500, pictures::ONE, false, 80)]
#[case("two_11x80", 11, pictures::TWO, false, 80)]
#[case("two_11x140", 11, pictures::TWO, false, 140)]
#[case("two_11_wide", 11, pictures::TWO, true, 80)]
fn a_run_at_work(
    #[case] name: &str,
    #[case] pods: usize,
    #[case] target: &[(&str, &str)],
    #[case] wide: bool,
    #[case] columns: usize,
) {
    let (scribe, pods) = pictures::deferred(pods, target);
    let now = pictures::at(scribe.now);
    let status = pictures::picture(scribe.record, pods, pictures::held(), now);
    let text = show(&status, now, wide, columns);
    if !wide {
        pictures::assert_fits(&text, columns);
    }
    insta::assert_snapshot!(format!("status_{name}"), text);
}

#[test]
fn an_interrupted_run_says_what_to_do() {
    let (mut scribe, pods) = pictures::deferred(11, pictures::ONE);
    scribe.write(vec![Entry::Stopped(Stop::Interrupted { signal: 2 })]);
    let now = pictures::at(scribe.now + 300);
    let status = pictures::picture(scribe.record, pods, Operator::Nobody, now);
    insta::assert_snapshot!("status_interrupted", show(&status, now, false, 80));
}

#[test]
fn a_validated_run_says_that_nothing_keeps_it() {
    let (mut scribe, mut pods) = (Scribe::new(), pictures::pods(3));
    scribe.start('3', pictures::TWO, 3, None);
    scribe.step(0, &pods, 3);
    scribe.end(Ending::ValidatedWithoutPersistence, &[]);
    for pod in &mut pods[..2] {
        pictures::bring_to_target(pod, pictures::TWO);
    }
    // One was replaced since: born from the template.
    pods[2].uid = crate::core::pod::PodUid::new("another");
    let now = pictures::at(scribe.now + 3600);
    let status = pictures::picture(scribe.record, pods, Operator::Nobody, now);
    insta::assert_snapshot!("status_validated", show(&status, now, false, 80));
}

#[test]
fn without_a_record_the_drift_is_shown_all_the_same() {
    let mut pods = pictures::pods(3);
    pictures::bring_to_target(&mut pods[1], pictures::ONE);
    let now = pictures::at(100);
    let status = pictures::picture(Record::default(), pods, Operator::Nobody, now);
    insta::assert_snapshot!("status_no_record", show(&status, now, false, 80));
}

#[test]
fn json_names_every_pod_with_its_values() {
    let (scribe, pods) = pictures::deferred(500, pictures::ONE);
    let now = pictures::at(scribe.now);
    let status = pictures::picture(scribe.record, pods, pictures::held(), now);
    let json = json(&StatusView { context: None, status: &status, now });
    assert_eq!(json["pods"].as_array().unwrap().len(), 500);
    assert_eq!(json["run"]["waiting"]["reason"], "Deferred");
    assert_eq!(json["holder"]["atWork"], true);
    let first = &json["pods"][0];
    assert_eq!((&first["state"], &first["lostWhenReplaced"]), (&"Ready".into(), &true.into()));
    let want = json!({
        "container": "app", "value": "requests.cpu", "template": "20m", "spec": "25m", "allocated": "25m", "actual": "25m",
    });
    assert_eq!(first["values"][0], want);
}
