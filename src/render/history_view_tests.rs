//! A history with every kind of end.

use rstest::rstest;

use super::*;
use crate::render::pictures::{self, Scribe};

fn story() -> Scribe {
    let (mut scribe, pods) = (Scribe::new(), pictures::pods(11));
    pictures::failed(&mut scribe, &pods[..2]);
    scribe.pass(7200);
    scribe.start('3', pictures::TWO, 11, Some("the nightly numbers, as agreed with the shop team in the meeting"));
    for (step, (from, to)) in [(0, 2), (2, 3), (3, 6), (6, 11)].into_iter().enumerate() {
        scribe.step(step, &pods[from..to], to);
    }
    scribe.end(Ending::ValidatedWithoutPersistence, &[]);
    scribe.pass(86_400);
    scribe.start('7', pictures::ONE, 11, None);
    scribe.take(0, &pods[..2]);
    let cause = Cause::NotReady { pod: pods[0].name.clone(), waited: std::time::Duration::from_mins(5) };
    scribe.pass(400);
    scribe.write(vec![crate::core::journal::Entry::RollbackStarted { cause: cause.clone() }]);
    scribe.end(Ending::RollbackIncomplete { cause }, &["payments-7d4b9c6f5-zbqdb"]);
    scribe.pass(100);
    scribe.start('9', pictures::ONE, 11, None);
    scribe.step(0, &pods[..2], 2);
    scribe
}

#[rstest]
#[case("80", false, 80)]
#[case("140", false, 140)]
#[case("wide", true, 80)]
fn tables(#[case] name: &str, #[case] wide: bool, #[case] columns: usize) {
    let scribe = story();
    let now = pictures::at(scribe.now);
    let text = table(&chapters(&scribe.record, &pictures::held(), now), wide, columns, now);
    if !wide {
        pictures::assert_fits(&text, columns);
    }
    insta::assert_snapshot!(format!("history_{name}"), text);
}

#[rstest]
#[case("failed", 0)]
#[case("validated", 1)]
#[case("incomplete", 2)]
#[case("going_on", 3)]
fn details(#[case] name: &str, #[case] at: usize) {
    let scribe = story();
    let now = pictures::at(scribe.now);
    let chapters = chapters(&scribe.record, &pictures::held(), now);
    let text = detail(&pictures::reference(), &chapters[at], &scribe.record, 80, now);
    pictures::assert_fits(&text, 80);
    insta::assert_snapshot!(format!("history_run_{name}"), text);
}

#[test]
fn the_deny_list() {
    let scribe = story();
    let text = denied_table(&scribe.record, false, 80, pictures::at(scribe.now));
    pictures::assert_fits(&text, 80);
    insta::assert_snapshot!("denied_80", text);
    let json = denied_json(&pictures::reference(), &scribe.record);
    assert_eq!(json["items"][0]["cause"]["reason"], "Infeasible");
}

#[test]
fn a_run_that_goes_on_has_no_ending_in_json() {
    let scribe = story();
    let now = pictures::at(scribe.now);
    let json = json(&pictures::reference(), &chapters(&scribe.record, &pictures::held(), now), &scribe.record);
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[0]["denied"], true);
    assert_eq!((&runs[3]["ending"], &runs[3]["state"]), (&Value::Null, &"Stepping".into()));
}
