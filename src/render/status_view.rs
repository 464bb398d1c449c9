//! The status of one workload as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::look::{Class, Look, Tally};
use super::page::Page;
use super::table::{Column, Cut, Table};
use super::{text, wording};
use crate::core::journal::{Run, RunSummary, Stage};
use crate::core::lock::readable;
use crate::core::resources::Key;
use crate::core::rollout::event::PodState;
use crate::core::rollout::outcome::Stop;
use crate::core::status::{
    Drift, Operator, PodStatus, Status, ending_word, next_verbs, state_since, state_word, step_of,
};

/// Everything that is shown of a workload.
pub struct StatusView<'a> {
    pub context: Option<&'a str>,
    pub status: &'a Status,
    pub now: Timestamp,
}

/// Pods of a table without `-o wide`.
const MOST_ROWS: usize = 40;
/// Pods named in a sentence.
const NAMED: usize = 3;

const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::wide("NODE"),
    Column::new("STEP"),
    Column::new("STATE"),
    Column::new("TEMPLATE"),
    Column::new("SPEC"),
    Column::new("ALLOCATED"),
    Column::new("ACTUAL"),
    Column::new("AGE"),
    Column::wide("MESSAGE"),
];

/// Where there are several values, they have a table of their own.
const SHORT_COLUMNS: &[Column] =
    &[Column::new("NAME"), Column::new("STEP"), Column::new("STATE"), Column::new("AGE"), Column::new("MESSAGE")];

const VALUE_COLUMNS: &[Column] = &[
    Column::new("CONTAINER"),
    Column::new("VALUE"),
    Column::new("TEMPLATE"),
    Column::new("SPEC"),
    Column::new("ALLOCATED"),
    Column::new("ACTUAL"),
    Column::new("PODS"),
];

/// After a value that a replacement of the pod would not have.
const LOST: char = '*';

/// The status for people, in lines of at most `columns`.
pub fn table(view: &StatusView<'_>, wide: bool, columns: usize) -> String {
    let mut page = Page::new(if wide { usize::MAX } else { columns });
    head(view, &mut page);
    match &view.status.record.run {
        Some(run) => run_fields(view, run, &mut page),
        None => page.field("run", "none is recorded"),
    }
    page.gap();
    pods(view, wide, &mut page);
    page.gap();
    foot(view, &mut page);
    page.into_text()
}

fn head(view: &StatusView<'_>, page: &mut Page) {
    let status = view.status;
    if let Some(context) = view.context {
        page.field("context", &text::clean(context));
    }
    page.field("namespace", &text::clean(&status.workload.namespace));
    page.field("workload", &text::clean(&status.workload.to_string()));
    if let Some(gone) = &status.gone {
        page.field("gone", &text::clean(gone));
    }
    if status.foreign_record {
        page.field(
            "note",
            "the record here is of an earlier workload of this name, which was deleted: it does not count",
        );
    }
    page.field("held by", &holder(&status.operator, view.now));
}

/// Who works on it, for how long, and whether that can be believed.
pub fn holder(operator: &Operator, now: Timestamp) -> String {
    match operator {
        Operator::Nobody => "nobody".to_owned(),
        Operator::Unknown(reason) => format!("unknown: {}", text::clean(reason)),
        Operator::Held { identity, since, silent, .. } => {
            let mut line = text::clean(&readable(identity)).into_owned();
            if let Some(since) = since {
                let _ = write!(line, " for {}", text::age_at(*since, now));
            }
            if let Some(silent) = silent {
                let silent = text::age(jiff::SignedDuration::try_from(*silent).unwrap_or_default());
                let _ = write!(line, ", silent for {silent}: its process may have died; others may take over");
            }
            line
        }
    }
}

fn run_fields(view: &StatusView<'_>, run: &Run, page: &mut Page) {
    let status = view.status;
    let started = &run.started;
    let (by, age) = (text::clean(&run.by), text::age_at(run.at, view.now));
    page.field("run", &format!("{}, revision {}, by {by}, started {age} ago", started.run, started.revision));
    if let Some(reason) = &started.reason {
        page.field("reason", &text::clean(reason));
    }
    page.fields("values", &wording::changes(&started.target, &most_frequent_baseline(run), "→"));
    page.field("state", &state(view, run));
    if let Some(waiting) = status.survey.as_ref().and_then(|seen| seen.waiting.as_ref()) {
        if status.operator.may_be_at_work() {
            let age = text::age_at(waiting.since, view.now);
            let left = wording::time_left(waiting, view.now).map_or(String::new(), |left| format!(", {left}"));
            let (what, until) = (wording::waiting_for(waiting), wording::waiting_until(waiting));
            page.field("waiting", &format!("{age} {what}, {until}{left}"));
        } else if !run.is_ended() {
            page.field("pending", &wording::waiting_for(waiting).replacen("for ", "", 1));
        }
    }
    if let Stage::RollingBack { cause, .. } = &run.stage {
        page.field("cause", &text::clean(&cause.to_string()));
    }
    if let Some(result) = status.survey.as_ref().and_then(|seen| seen.result.as_ref()) {
        page.fields("cause", &wording::cause(result).into_iter().collect::<Vec<_>>());
    }
    let workload = format!("{} -n {}", status.workload, status.workload.namespace);
    let next = verbs(status, run).iter().map(|verb| {
        let verb_and_flags = verb.split_once(' ');
        let (verb, flags) = verb_and_flags.map_or((*verb, String::new()), |(verb, f)| (verb, format!(" {f}")));
        text::clean(&format!("kubectl kapr {verb} {workload}{flags}")).into_owned()
    });
    page.fields("next", &next.collect::<Vec<_>>());
}

/// There is nothing to be done to a workload that is gone.
fn verbs(status: &Status, run: &Run) -> &'static [&'static str] {
    if status.gone.is_some() { &["history"] } else { next_verbs(run, &status.operator) }
}

fn most_frequent_baseline(run: &Run) -> crate::core::resources::ContainerResources {
    run.baselines().into_iter().next().map(|(block, _)| block).unwrap_or_default()
}

/// The state in a sentence: the step and its pods, since when, and why nobody works on it.
fn state(view: &StatusView<'_>, run: &Run) -> String {
    let since = text::age_at(state_since(run, &view.status.operator), view.now);
    let word = state_word(run, &view.status.operator);
    let result = view.status.survey.as_ref().and_then(|seen| seen.result.as_ref());
    if let Some(result) = result {
        let (symbol, _, words) = wording::outcome(result);
        return format!("{word}, {since} ago: {symbol} {words}");
    }
    let mut line = format!("{word} for {since}");
    if let Some(step) = step_of(run) {
        let shares = run.started.policy.steps.shares();
        let share = shares.get(step).map_or_else(String::new, |share| format!("{share} "));
        let _ =
            write!(line, ": step {share}({} of {}), {}", (step + 1).min(shares.len()), shares.len(), progress(view));
    }
    if !view.status.operator.may_be_at_work() {
        let why = run.stopped.as_ref().map_or("its process ended without a word".to_owned(), stopped);
        let _ = write!(line, "; nobody works on it: {why}");
    }
    line
}

fn progress(view: &StatusView<'_>) -> String {
    let tally = view.status.pods.iter().filter_map(PodStatus::state).collect::<Tally>();
    let words = tally.words();
    if words.is_empty() { "no pod was taken yet".to_owned() } else { words }
}

fn stopped(stop: &Stop) -> String {
    match stop {
        Stop::Interrupted { signal } => format!("it was interrupted by {}", wording::signal_name(*signal)),
        Stop::TimedOut => "--timeout had passed".to_owned(),
        Stop::SupersedeWished { by } => format!("it stopped for {}, who wanted to take over", text::clean(by)),
        Stop::LostLock { holder } => format!("{} had taken over", text::clean(holder)),
        Stop::Refused { message } => format!("it was refused: {}", text::clean(message)),
    }
}

fn pods(view: &StatusView<'_>, wide: bool, page: &mut Page) {
    let status = view.status;
    if status.pods.is_empty() {
        page.line("the workload has no pods");
        return;
    }
    let (shown, rest) = rows(&status.pods, wide);
    let inline = wide || status.values.len() == 1;
    if inline {
        page.line(&match status.values.as_slice() {
            [] => "every pod has the values of the template".to_owned(),
            values => format!("values: {}", values.iter().map(value_name).collect::<Vec<_>>().join(", ")),
        });
        let mut table = Table::new(COLUMNS, wide);
        for pod in &shown {
            table.row(row(view, pod));
        }
        table.fit(page.columns(), &[(0, Cut::Middle)]);
        page.table(&table);
    } else {
        let mut table = Table::new(SHORT_COLUMNS, wide);
        for pod in &shown {
            let [name, _, step, state, _, _, _, _, age, message] = row(view, pod);
            table.row([name, step, state, age, message]);
        }
        table.fit(page.columns(), &[(4, Cut::End), (0, Cut::Middle)]);
        page.table(&table);
    }
    if !rest.is_empty() {
        page.line(&format!("{} {} more: {}; -o wide shows all", text::ELLIPSIS, rest.len(), in_words(&rest)));
    }
    if !inline {
        page.gap();
        values_table(status, page);
    }
    page.gap();
    if !wide {
        messages(status, page);
    }
}

fn value_name((container, key): &(String, Key)) -> String {
    format!("{} {key}", text::clean(container))
}

/// All of them where they fit; otherwise the failing, waiting and moving ones first.
fn rows(pods: &[PodStatus], wide: bool) -> (Vec<&PodStatus>, Vec<&PodStatus>) {
    if wide || pods.len() <= MOST_ROWS {
        return (pods.iter().collect(), Vec::new());
    }
    let class = |pod: &&PodStatus| pod.in_run.as_ref().map_or(Class::Queued, |p| Look::of(p.state, p.restoring).class);
    let mut all = pods.iter().collect::<Vec<_>>();
    all.sort_by_key(class);
    let rest = all.split_off(MOST_ROWS);
    (all, rest)
}

fn in_words(pods: &[&PodStatus]) -> String {
    let tally = pods.iter().filter_map(|pod| pod.state()).collect::<Tally>();
    let outside = pods.iter().filter(|pod| pod.in_run.is_none()).count();
    let mut parts = vec![tally.words()];
    if outside > 0 {
        parts.push(format!("{outside} not in the run"));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn row(view: &StatusView<'_>, pod: &PodStatus) -> [String; 10] {
    let run = view.status.record.run.as_ref();
    let shares = run.map(|run| run.started.policy.steps.shares()).unwrap_or_default();
    let step = pod.in_run.as_ref().and_then(|event| shares.get(event.step)).map(ToString::to_string);
    let look = pod.in_run.as_ref().map(|event| Look::of(event.state, event.restoring).word.to_owned());
    let message = pod.in_run.as_ref().map(|event| event.message.clone());
    let cell = |of: fn(&Drift) -> Option<u64>, mark: bool| {
        let keys = view.status.values.iter().map(|(_, key)| *key);
        let one = |(key, drift): (Key, &Drift)| {
            let lost = if mark && drift.is_lost_when_replaced() { LOST.to_string() } else { String::new() };
            format!("{}{lost}", shown(key, of(drift)))
        };
        keys.zip(&pod.drift).map(one).collect::<Vec<_>>().join(",")
    };
    [
        pod.name.to_string(),
        pod.node.as_deref().unwrap_or_default().to_owned(),
        step.unwrap_or_else(|| "-".to_owned()),
        look.unwrap_or_else(|| "-".to_owned()),
        cell(|drift| drift.template, false),
        cell(|drift| drift.spec, true),
        cell(|drift| drift.allocated, false),
        cell(|drift| drift.actual, false),
        pod.created_at.map_or_else(|| "-".to_owned(), |at| text::age_at(at, view.now)),
        message.filter(|message| !message.is_empty()).unwrap_or_else(|| "-".to_owned()),
    ]
}

fn shown(key: Key, value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| key.show(value))
}

/// Each value, in each combination that occurs, with the number of pods that have it.
fn values_table(status: &Status, page: &mut Page) {
    let mut table = Table::new(VALUE_COLUMNS, false);
    for (at, (container, key)) in status.values.iter().enumerate() {
        let mut counts = BTreeMap::<Drift, usize>::new();
        for pod in status.pods.iter().filter(|pod| pod.state() != Some(PodState::Gone)) {
            *counts.entry(pod.drift[at]).or_default() += 1;
        }
        for (drift, pods) in counts {
            let lost = if drift.is_lost_when_replaced() { LOST.to_string() } else { String::new() };
            table.row([
                container.clone(),
                key.to_string(),
                shown(*key, drift.template),
                format!("{}{lost}", shown(*key, drift.spec)),
                shown(*key, drift.allocated),
                shown(*key, drift.actual),
                pods.to_string(),
            ]);
        }
    }
    table.fit(page.columns(), &[(0, Cut::End)]);
    if table.is_empty() {
        page.line("every pod has the values of the template");
    } else {
        page.table(&table);
    }
}

/// What the kubelet or the API server said, once, with the pods it is about.
fn messages(status: &Status, page: &mut Page) {
    let mut groups = BTreeMap::<(&'static str, &str), Vec<&str>>::new();
    for pod in &status.pods {
        if let Some(event) = pod.in_run.as_ref().filter(|event| !event.message.is_empty()) {
            let word = Look::of(event.state, event.restoring).word;
            groups.entry((word, &event.message)).or_default().push(&pod.name);
        }
    }
    for ((word, message), pods) in groups {
        let names = text::list(pods.iter().copied(), NAMED);
        page.field(word, &format!("{names}: {}", text::clean(message)));
    }
}

fn foot(view: &StatusView<'_>, page: &mut Page) {
    let status = view.status;
    let lost = status.pods.iter().filter(|pod| pod.is_lost_when_replaced()).count();
    if lost > 0 {
        page.line(&format!(
            "{LOST} lost when the pod is replaced: {} differ{} from the template",
            text::plural(lost, "pod"),
            if lost == 1 { "s" } else { "" }
        ));
    }
    if !status.born_with.is_empty() {
        let born = wording::values(&status.born_with);
        page.line(&format!("not persisted: pods born from the template get {born}"));
    }
    if let Some(last) = last_finished(status) {
        let (word, run) = (ending_word(&last.ending), last.started.run);
        let age = text::age_at(last.ended, view.now);
        page.line(&format!("last finished run: {run}, revision {}, {word} {age} ago", last.started.revision));
    }
    let denied = &status.record.folded.denied;
    if !denied.is_empty() {
        let short = denied.keys().map(|revision| &revision[..crate::core::revision::SHORT.min(revision.len())]);
        page.line(&format!("denied here: {}", text::list(short, 5)));
    }
}

/// The finished run before the one that is shown.
fn last_finished(status: &Status) -> Option<&RunSummary> {
    status.record.folded.runs.last()
}

/// The whole picture: no pod is left out.
pub fn json(view: &StatusView<'_>) -> Value {
    let status = view.status;
    json!({
        "kind": "Status",
        "context": view.context,
        "workload": status.workload,
        "gone": status.gone,
        "foreignRecord": status.foreign_record,
        "holder": holder_json(&status.operator),
        "run": status.record.run.as_ref().map(|run| run_json(status, run)),
        "pods": status.pods.iter().map(|pod| pod_json(status, pod)).collect::<Vec<_>>(),
        "persistence": {"mode": "none", "bornWith": status.born_with},
        "lastFinished": last_finished(status).map(|run| json!({
            "run": run.started.run,
            "revision": run.started.revision,
            "outcome": ending_word(&run.ending),
            "endedAt": run.ended,
        })),
        "denied": status.record.folded.denied.keys().collect::<Vec<_>>(),
    })
}

fn holder_json(operator: &Operator) -> Value {
    match operator {
        Operator::Nobody => Value::Null,
        Operator::Unknown(reason) => json!({"unknown": reason}),
        Operator::Held { identity, since, renewed, silent } => json!({
            "name": readable(identity),
            "identity": identity,
            "since": since,
            "renewedAt": renewed,
            "atWork": silent.is_none(),
        }),
    }
}

fn run_json(status: &Status, run: &Run) -> Value {
    let seen = status.survey.as_ref();
    let workload = format!("{} -n {}", status.workload, status.workload.namespace);
    let mut out = json!({
        "run": run.started.run,
        "revision": run.started.revision,
        "by": run.by,
        "startedAt": run.at,
        "reason": run.started.reason,
        "origin": run.started.origin,
        "supersedes": run.started.supersedes,
        "target": run.started.target,
        "eligible": run.started.eligible,
        "shares": run.started.policy.steps,
        "state": state_word(run, &status.operator),
        "since": state_since(run, &status.operator),
        "step": step_of(run),
        "steps": run.steps,
        "waiting": seen.and_then(|seen| seen.waiting.as_ref()),
        "stopped": run.stopped,
        "ended": run.is_ended(),
        "result": seen.and_then(|seen| seen.result.as_ref()).map(|result| &result.conclusion),
        "next": verbs(status, run)
            .iter()
            .map(|verb| verb.split_once(' ').map_or_else(
                || format!("kubectl kapr {verb} {workload}"),
                |(verb, flags)| format!("kubectl kapr {verb} {workload} {flags}"),
            ))
            .collect::<Vec<_>>(),
    });
    if let Stage::RollingBack { cause, .. } = &run.stage {
        out["cause"] = json!(cause);
    }
    out
}

fn pod_json(status: &Status, pod: &PodStatus) -> Value {
    let values = status.values.iter().zip(&pod.drift).map(|((container, key), drift)| {
        let shown = |value: Option<u64>| value.map(|value| key.show(value));
        json!({
            "container": container,
            "value": key,
            "template": shown(drift.template),
            "spec": shown(drift.spec),
            "allocated": shown(drift.allocated),
            "actual": shown(drift.actual),
        })
    });
    json!({
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "createdAt": pod.created_at,
        "step": pod.in_run.as_ref().map(|event| event.step),
        "state": pod.in_run.as_ref().map(|event| event.state),
        "restoring": pod.in_run.as_ref().is_some_and(|event| event.restoring),
        "message": pod.in_run.as_ref().map(|event| &event.message),
        "values": values.collect::<Vec<_>>(),
        "lostWhenReplaced": pod.is_lost_when_replaced(),
    })
}

#[cfg(test)]
#[path = "status_view_tests.rs"]
mod tests;
