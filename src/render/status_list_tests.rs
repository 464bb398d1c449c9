//! The list of records.

use super::*;
use crate::render::pictures::{self, Scribe};

fn listed(name: &str, record: Result<Record, String>, operator: Operator) -> Listed {
    Listed { workload: WorkloadRef { name: name.into(), ..pictures::reference() }, record, operator }
}

#[test]
fn every_record_has_a_row() {
    let (working, _) = pictures::deferred(500, pictures::ONE);
    let mut failed = Scribe::new();
    pictures::failed(&mut failed, &pictures::pods(2));
    let now = pictures::at(working.now);
    let all = [
        listed("payments", Ok(working.record), pictures::held()),
        listed("front", Ok(failed.record), Operator::Nobody),
        listed("cart", Err("invalid gzip header\x1b[2J".into()), Operator::Nobody),
        listed("fresh", Ok(Record::default()), Operator::Nobody),
    ];
    let (narrow, broad) = (table(&all, false, false, 80, now), table(&all, true, false, 80, now));
    pictures::assert_fits(&narrow, 80);
    pictures::assert_fits(&broad, 80);
    insta::assert_snapshot!("status_list_80", narrow);
    insta::assert_snapshot!("status_list_all_80", broad);
    insta::assert_snapshot!("status_list_wide", table(&all, true, true, 80, now));
    let json = json(&all);
    assert_eq!(json["items"][0]["run"]["state"], "Stepping");
    assert_eq!(json["items"][2]["unreadable"], "invalid gzip header\u{1b}[2J");
}
