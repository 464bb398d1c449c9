//! The records of a namespace or of the cluster: a row for each workload.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::page::Page;
use super::table::{Column, Cut, Table};
use super::text;
use crate::core::journal::{Fate, Record, Run};
use crate::core::lock::readable;
use crate::core::status::{Operator, ending_word, next_verbs, state_since, state_word, step_of};
use crate::core::workload::WorkloadRef;

/// A record, or why it cannot be read.
pub struct Listed {
    pub workload: WorkloadRef,
    pub record: Result<Record, String>,
    pub operator: Operator,
}

const COLUMNS: &[Column] = &[
    Column::new("WORKLOAD"),
    Column::new("RUN"),
    Column::wide("REVISION"),
    Column::new("STATE"),
    Column::new("STEP"),
    Column::new("PODS"),
    Column::new("HOLDER"),
    Column::new("AGE"),
    Column::new("NEXT"),
];

const ALL_COLUMNS: &[Column] = &[
    Column::new("NAMESPACE"),
    Column::new("WORKLOAD"),
    Column::new("RUN"),
    Column::wide("REVISION"),
    Column::new("STATE"),
    Column::wide("STEP"),
    Column::new("PODS"),
    Column::new("HOLDER"),
    Column::new("AGE"),
    Column::new("NEXT"),
];

/// The rows as a table; `all` names the namespaces too, as kubectl does with `-A`.
pub fn table(listed: &[Listed], all: bool, wide: bool, columns: usize, now: Timestamp) -> String {
    let columns = if wide { usize::MAX } else { columns };
    let mut page = Page::new(columns);
    // A reason is longer than a column: where there is an edge it stands below.
    let below = columns != usize::MAX;
    let rows = listed.iter().map(|one| row(one, wide, below, now));
    if all {
        let mut table = Table::new(ALL_COLUMNS, wide);
        for (one, [workload, run, revision, state, step, pods, holder, age, next]) in listed.iter().zip(rows) {
            let namespace = one.workload.namespace.clone();
            table.row([namespace, workload, run, revision, state, step, pods, holder, age, next]);
        }
        table.fit(columns, &[(7, Cut::End), (1, Cut::Middle), (0, Cut::Middle), (4, Cut::End)]);
        page.table(&table);
    } else {
        let mut table = Table::new(COLUMNS, wide);
        rows.for_each(|row| table.row(row));
        table.fit(columns, &[(6, Cut::End), (0, Cut::Middle), (3, Cut::End)]);
        page.table(&table);
    }
    for one in listed.iter().filter(|_| below) {
        if let Err(reason) = &one.record {
            let (namespace, workload) = (&one.workload.namespace, one.workload.to_string());
            page.line(&text::clean(&format!("{namespace}/{workload}: {}", unreadable(reason))));
        }
    }
    page.into_text()
}

fn unreadable(reason: &str) -> String {
    format!("<unreadable: {reason}>")
}

fn row(listed: &Listed, wide: bool, below: bool, now: Timestamp) -> [String; 9] {
    let dash = || "-".to_owned();
    let workload = listed.workload.to_string();
    let holder = match &listed.operator {
        Operator::Nobody => dash(),
        Operator::Held { identity, silent: None, .. } => who(identity),
        Operator::Held { identity, silent: Some(_), .. } => format!("{}?", who(identity)),
        Operator::Unknown(_) => "<unknown>".to_owned(),
    };
    let record = match &listed.record {
        Ok(record) => record,
        Err(reason) => {
            let state = if below { "<unreadable>".to_owned() } else { unreadable(reason) };
            return [workload, dash(), dash(), state, dash(), dash(), holder, dash(), dash()];
        }
    };
    let Some(run) = &record.run else {
        return [workload, dash(), dash(), "None".to_owned(), dash(), dash(), holder, dash(), dash()];
    };
    let step = step_of(run).and_then(|step| run.started.policy.steps.shares().get(step));
    [
        workload,
        run.started.run.to_string(),
        run.started.revision.to_string(),
        if wide { state_word(run, &listed.operator) } else { short(run, &listed.operator) }.to_owned(),
        step.map_or_else(dash, ToString::to_string),
        format!("{}/{}", taken(run), run.started.eligible),
        holder,
        text::age_at(state_since(run, &listed.operator), now),
        next_verbs(run, &listed.operator).first().copied().unwrap_or("-").to_owned(),
    ]
}

/// `user@host` alone.
fn who(identity: &str) -> String {
    let readable = readable(identity);
    readable.split(" (pid").next().unwrap_or_default().to_owned()
}

/// The long word has no room beside everything else.
fn short(run: &Run, operator: &Operator) -> &'static str {
    match state_word(run, operator) {
        "ValidatedWithoutPersistence" => "Validated",
        "RollbackIncomplete" => "Incomplete",
        word => word,
    }
}

fn taken(run: &Run) -> usize {
    run.intents.values().filter(|intent| matches!(intent.fate, Fate::Taken { .. })).count()
}

pub fn json(listed: &[Listed]) -> Value {
    json!({"kind": "StatusList", "items": listed.iter().map(item).collect::<Vec<_>>()})
}

/// One record as JSON; also what `-w -o json` prints for each change.
pub fn item(listed: &Listed) -> Value {
    let mut out = json!({"workload": listed.workload});
    match &listed.operator {
        Operator::Nobody => out["holder"] = Value::Null,
        Operator::Unknown(reason) => out["holder"] = json!({"unknown": reason}),
        Operator::Held { identity, since, silent, .. } => {
            out["holder"] = json!({"name": readable(identity), "since": since, "atWork": silent.is_none()});
        }
    }
    match &listed.record {
        Err(reason) => out["unreadable"] = reason.as_str().into(),
        Ok(record) => {
            out["run"] = record.run.as_ref().map_or(Value::Null, |run| {
                json!({
                    "run": run.started.run,
                    "revision": run.started.revision,
                    "state": state_word(run, &listed.operator),
                    "since": state_since(run, &listed.operator),
                    "step": step_of(run),
                    "taken": taken(run),
                    "eligible": run.started.eligible,
                    "next": next_verbs(run, &listed.operator),
                })
            });
            out["lastFinished"] = record.folded.runs.last().map_or(
                Value::Null,
                |run| json!({"run": run.started.run, "outcome": ending_word(&run.ending), "endedAt": run.ended}),
            );
            out["denied"] = record.folded.denied.keys().cloned().collect();
        }
    }
    out
}

#[cfg(test)]
#[path = "status_list_tests.rs"]
mod tests;
