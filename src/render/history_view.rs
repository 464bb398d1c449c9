//! The runs of a workload and its deny-list, as tables and as JSON.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::page::Page;
use super::table::{Column, Cut, Table};
use super::{text, wording};
use crate::core::journal::{Denial, Record, Run, RunSummary, StepRecord};
use crate::core::resources::ContainerResources;
use crate::core::revision::SHORT;
use crate::core::rollout::cause::Cause;
use crate::core::rollout::outcome::Ending;
use crate::core::status::{Operator, ending_word, state_word};
use crate::core::workload::WorkloadRef;

/// One run, finished or not, as far as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Chapter {
    pub summary: RunSummary,
    /// `None`: the summary's ending is not one, the run goes on; the word says where it stands.
    pub ended: Option<Timestamp>,
    pub state: &'static str,
}

/// Every run of the record, oldest first.
pub fn chapters(record: &Record, operator: &Operator, now: Timestamp) -> Vec<Chapter> {
    let finished = record.folded.runs.iter().map(|summary| Chapter {
        ended: Some(summary.ended),
        state: ending_word(&summary.ending),
        summary: summary.clone(),
    });
    let last = record.run.as_ref().map(|run: &Run| {
        let summary = run.summary(record.next_run_number(), now);
        Chapter { ended: run.is_ended().then_some(summary.ended), state: state_word(run, operator), summary }
    });
    finished.chain(last).collect()
}

impl Chapter {
    fn pods(&self) -> usize {
        self.summary.before.iter().map(|(_, pods)| pods).sum()
    }

    fn duration(&self, now: Timestamp) -> SignedDuration {
        self.ended.unwrap_or(now).duration_since(self.summary.at)
    }

    fn cause(&self) -> Option<&Cause> {
        match (&self.summary.ending, self.ended) {
            (Ending::RolledBack { cause } | Ending::RollbackIncomplete { cause }, Some(_)) => Some(cause),
            _ => None,
        }
    }
}

const COLUMNS: &[Column] = &[
    Column::new("RUN"),
    Column::new("REVISION"),
    Column::new("OUTCOME"),
    Column::new("PODS"),
    Column::new("STARTED"),
    Column::new("DURATION"),
    Column::new("BY"),
    Column::new("REASON"),
    Column::wide("ORIGIN"),
    Column::wide("CAUSE"),
];

/// A row for each run, newest last.
pub fn table(chapters: &[Chapter], wide: bool, columns: usize, now: Timestamp) -> String {
    let mut table = Table::new(COLUMNS, wide);
    for chapter in chapters {
        let RunSummary { started, at, by, .. } = &chapter.summary;
        table.row([
            started.run.to_string(),
            started.revision.to_string(),
            if wide { chapter.state } else { short(chapter.state) }.to_owned(),
            chapter.pods().to_string(),
            if wide { text::time(*at) } else { format!("{} ago", text::age_at(*at, now)) },
            text::age(chapter.duration(now)),
            by.clone(),
            started.reason.clone().unwrap_or_default(),
            started.origin.clone(),
            chapter.cause().map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    table.fit(if wide { usize::MAX } else { columns }, &[(7, Cut::End), (6, Cut::End)]);
    table.to_string()
}

fn short(word: &'static str) -> &'static str {
    match word {
        "ValidatedWithoutPersistence" => "Validated",
        "RollbackIncomplete" => "Incomplete",
        word => word,
    }
}

/// Everything that is kept of one run.
pub fn detail(workload: &WorkloadRef, chapter: &Chapter, record: &Record, columns: usize, now: Timestamp) -> String {
    let RunSummary { started, at, by, not_restored, steps, before, .. } = &chapter.summary;
    let mut page = Page::new(columns);
    page.field("namespace", &text::clean(&workload.namespace));
    page.field("workload", &text::clean(&workload.to_string()));
    page.field("run", &started.run.to_string());
    page.field("revision", started.revision.full());
    page.field("outcome", chapter.state);
    if let Some(cause) = chapter.cause() {
        page.field("cause", &text::clean(&cause.to_string()));
    }
    if !not_restored.is_empty() {
        page.field("stuck", &format!("not restored: {}", text::list(not_restored.iter().map(AsRef::as_ref), 20)));
    }
    let denial = record.denial(&started.revision);
    page.field("denied", denied_words(denial, started.run).as_str());
    page.gap();
    page.field("by", &text::clean(by));
    page.field("reason", &started.reason.as_deref().map_or("none given".into(), text::clean));
    page.field("origin", &text::clean(&started.origin));
    page.field("started", &text::time(*at));
    let duration = text::age(chapter.duration(now));
    page.field(
        "ended",
        &chapter.ended.map_or("not yet".to_owned(), |at| format!("{}, after {duration}", text::time(at))),
    );
    page.fields("supersedes", &started.supersedes.map(|run| format!("run {run}")).into_iter().collect::<Vec<_>>());
    page.field("program", &text::clean(&started.program));
    page.field("steps", &started.policy.steps.to_string());
    page.gap();
    for (i, (block, pods)) in before.iter().enumerate() {
        for (j, change) in changes(&started.target, block).iter().enumerate() {
            let label = if i + j == 0 { "change" } else { "" };
            page.field(label, &format!("{change} ({})", text::plural(*pods, "pod")));
        }
    }
    if before.is_empty() {
        page.field("change", &format!("no pod was taken; wanted {}", wording::values(&started.target)));
    }
    page.gap();
    for (i, step) in steps.iter().enumerate() {
        page.field(if i == 0 { "took" } else { "" }, &step_words(chapter, step));
    }
    page.into_text()
}

fn changes(target: &ContainerResources, before: &ContainerResources) -> Vec<String> {
    wording::changes(target, before, "→")
}

fn denied_words(denial: Option<&Denial>, run: u32) -> String {
    match denial {
        None => "no".to_owned(),
        Some(denial) if denial.run == run => "yes, by this run".to_owned(),
        Some(denial) => format!("yes, by run {}", denial.run),
    }
}

/// `10%: 2 pods, 2026-03-01T10:00:00Z, at target after 12s, passed after 72s`.
fn step_words(chapter: &Chapter, step: &StepRecord) -> String {
    let shares = chapter.summary.started.policy.steps.shares();
    let share = shares.get(step.step).map_or_else(|| step.step.to_string(), ToString::to_string);
    let mut out = format!("{share}: {}, {}", text::plural(step.pods, "pod"), text::time(step.started));
    for (word, at) in [("at target", step.at_target), ("passed", step.passed)] {
        let Some(at) = at else {
            let _ = write!(out, ", not {word}");
            break;
        };
        let _ = write!(out, ", {word} after {}", text::age_at(step.started, at));
    }
    out
}

/// Everything that is kept, of all runs or of the one that was asked for.
pub fn json(workload: &WorkloadRef, chapters: &[Chapter], record: &Record) -> Value {
    json!({
        "kind": "History",
        "workload": workload,
        "runs": chapters.iter().map(|chapter| chapter_json(chapter, record)).collect::<Vec<_>>(),
        "denied": record.folded.denied.keys().collect::<Vec<_>>(),
    })
}

fn chapter_json(chapter: &Chapter, record: &Record) -> Value {
    let RunSummary { started, at, by, not_restored, steps, before, ending, .. } = &chapter.summary;
    let before = before.iter().map(|(values, pods)| json!({"values": values, "pods": pods}));
    json!({
        "run": started.run,
        "revision": started.revision,
        "state": chapter.state,
        "ending": chapter.ended.map(|_| ending),
        "startedAt": at,
        "endedAt": chapter.ended,
        "by": by,
        "reason": started.reason,
        "origin": started.origin,
        "supersedes": started.supersedes,
        "program": started.program,
        "policy": started.policy,
        "eligible": started.eligible,
        "pods": chapter.pods(),
        "before": before.collect::<Vec<_>>(),
        "target": started.target,
        "steps": steps,
        "notRestored": not_restored,
        "denied": record.denial(&started.revision).is_some(),
    })
}

const DENIED_COLUMNS: &[Column] = &[
    Column::new("REVISION"),
    Column::new("DENIED"),
    Column::new("BY"),
    Column::new("RUN"),
    Column::new("CAUSE"),
    Column::new("VALUES"),
];

/// The cause needs the room more than the values, which the revision stands for.
const DENIED_VALUES: usize = 20;

/// The deny-list, oldest first.
pub fn denied_table(record: &Record, wide: bool, columns: usize, now: Timestamp) -> String {
    let mut table = Table::new(DENIED_COLUMNS, wide);
    let most = if wide || columns == usize::MAX { usize::MAX } else { DENIED_VALUES };
    for (revision, denial) in denials(record) {
        table.row([
            if wide { revision.to_owned() } else { revision[..SHORT.min(revision.len())].to_owned() },
            format!("{} ago", text::age_at(denial.at, now)),
            denial.by.clone(),
            denial.run.to_string(),
            denial.cause.to_string(),
            text::fit(&wording::values(&denial.target), most).into_owned(),
        ]);
    }
    table.fit(if wide { usize::MAX } else { columns }, &[(4, Cut::End), (5, Cut::End), (2, Cut::End)]);
    table.to_string()
}

fn denials(record: &Record) -> Vec<(&str, &Denial)> {
    let mut all = record.folded.denied.iter().map(|(revision, denial)| (revision.as_str(), denial)).collect::<Vec<_>>();
    all.sort_by_key(|(_, denial)| denial.at);
    all
}

pub fn denied_json(workload: &WorkloadRef, record: &Record) -> Value {
    let items = denials(record).into_iter().map(|(revision, denial)| {
        json!({
            "revision": revision,
            "deniedAt": denial.at,
            "by": denial.by,
            "run": denial.run,
            "cause": denial.cause,
            "message": denial.cause.to_string(),
            "values": denial.target,
        })
    });
    json!({"kind": "DeniedList", "workload": workload, "items": items.collect::<Vec<_>>()})
}

#[cfg(test)]
#[path = "history_view_tests.rs"]
mod tests;
