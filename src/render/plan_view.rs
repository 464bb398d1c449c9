//! The plan as a table and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::page::Page;
use super::table::{Column, Cut, Table};
use super::text;
use crate::core::plan::{Plan, PodPlan};
use crate::core::policy::Policy;
use crate::core::resources::{ContainerResources, Key};
use crate::core::revision::Revision;
use crate::core::workload::WorkloadRef;

/// Everything that is shown of a plan.
pub struct PlanView<'a> {
    pub context: Option<&'a str>,
    pub workload: &'a WorkloadRef,
    pub revision: &'a Revision,
    pub target: &'a ContainerResources,
    pub plan: &'a Plan,
    pub policy: &'a Policy,
    pub refused: &'a [ServerRefusal],
    /// The node is too small: sentences.
    pub too_large: &'a [String],
}

/// What the API server's dry run refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerRefusal {
    /// The pod that was asked for.
    pub pod: String,
    /// Pods that would be answered alike.
    pub pods: usize,
    pub code: &'static str,
    /// Reads after `pod web-0: `.
    pub message: String,
}

/// Pods of a table without `-o wide`.
pub const MOST_ROWS: usize = 40;
/// Pods named in a sentence.
const NAMED: usize = 3;

const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::wide("NODE"),
    Column::new("STEP"),
    Column::new("VERDICT"),
    Column::new("CHANGE"),
    Column::wide("RESTARTS"),
    Column::new("NOTE"),
];
const NAME: usize = 0;
const CHANGE: usize = 4;
const NOTE: usize = 6;

/// The plan for people, in lines of at most `columns`.
pub fn table(view: &PlanView<'_>, wide: bool, columns: usize) -> String {
    let mut page = Page::new(if wide { usize::MAX } else { columns });
    head(view, &mut page);
    page.gap();
    let (shown, left_out) = rows(view.plan, wide);
    let mut table = Table::new(COLUMNS, wide);
    for pod in &shown {
        table.row(row(view, pod, wide));
    }
    table.fit(page.columns(), &[(CHANGE, Cut::End), (NOTE, Cut::End), (NAME, Cut::Middle)]);
    if view.plan.pods.is_empty() {
        page.line("the workload has no pods");
    } else if !table.is_empty() {
        page.table(&table);
    }
    if left_out > 0 {
        page.line(&format!("{} {left_out} more: -o wide shows all", text::ELLIPSIS));
    }
    page.gap();
    notes(view, &mut page);
    page.gap();
    page.line(&counts(view));
    page.into_text()
}

fn head(view: &PlanView<'_>, page: &mut Page) {
    if let Some(context) = view.context {
        page.field("context", &text::clean(context));
    }
    page.field("namespace", &text::clean(&view.workload.namespace));
    page.field("workload", &text::clean(&view.workload.to_string()));
    page.field("revision", view.revision.short());
    page.fields("change", &changes(view));
    let steps = view.plan.steps.iter().map(|step| format!("{} ({})", step.share, text::plural(step.pods, "pod")));
    page.field("steps", &steps.collect::<Vec<_>>().join(", "));
}

/// `app: requests.cpu 20m → 25m`, a line for each container; several values before are all named.
fn changes(view: &PlanView<'_>) -> Vec<String> {
    let line = |(name, wanted): (&String, &crate::core::resources::Resources)| {
        let values = wanted.present().map(|(key, value)| {
            let before = before(view.plan, name, key);
            let shown = key.show(value);
            if before.iter().all(|old| *old == Some(value)) {
                return format!("{key} {shown}");
            }
            let before = before.iter().map(|old| old.map_or("none".to_owned(), |old| key.show(old)));
            format!("{key} {} → {shown}", before.collect::<Vec<_>>().join(" or "))
        });
        format!("{}: {}", text::clean(name), values.collect::<Vec<_>>().join(", "))
    };
    view.target.iter().map(line).collect()
}

/// What the pods that change have now; what all of them have where none changes.
fn before(plan: &Plan, container: &str, key: Key) -> BTreeSet<Option<u64>> {
    let of = |pod: &PodPlan| Some(pod.before.get(container)?.get(key));
    let change = plan.eligible().filter(|(_, eligible)| !eligible.at_target).filter_map(|(pod, _)| of(pod));
    let change = change.collect::<BTreeSet<_>>();
    if change.is_empty() { plan.pods.iter().filter_map(of).collect() } else { change }
}

/// Eligible pods come first in a plan; the refused ones of a large workload are told by their sentences alone.
fn rows(plan: &Plan, wide: bool) -> (Vec<&PodPlan>, usize) {
    if wide || plan.pods.len() <= MOST_ROWS {
        return (plan.pods.iter().collect(), 0);
    }
    let eligible = plan.eligible().map(|(pod, _)| pod).collect::<Vec<_>>();
    let left_out = eligible.len().saturating_sub(MOST_ROWS);
    (eligible.into_iter().take(MOST_ROWS).collect(), left_out)
}

fn row(view: &PlanView<'_>, pod: &PodPlan, wide: bool) -> [String; 7] {
    let share = pod.step.and_then(|step| view.plan.steps.get(step)).map(|step| step.share.to_string());
    let (change, restarts) = match &pod.verdict {
        Ok(eligible) => (change(pod, &eligible.changes), eligible.restarts.join(",")),
        Err(_) => (String::new(), String::new()),
    };
    let node = pod.node.as_deref().unwrap_or_default().to_owned();
    let dash = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
    let (share, remark) = (share.unwrap_or_default(), note(pod, wide));
    [pod.name.to_string(), node, dash(share), verdict(pod).into(), dash(change), dash(restarts), dash(remark)]
}

const fn verdict(pod: &PodPlan) -> &'static str {
    match &pod.verdict {
        Ok(eligible) if eligible.at_target => "at target",
        Ok(_) => "resize",
        Err(_) => "refused",
    }
}

/// `requests.cpu 20m→25m`; the container is named where there are several.
fn change(pod: &PodPlan, changes: &ContainerResources) -> String {
    let one = |(name, block): (&String, &crate::core::resources::Resources)| {
        let before = pod.before.get(name).copied().unwrap_or_default();
        let values = block.present().map(|(key, value)| {
            let old = before.get(key).map_or("none".to_owned(), |old| key.show(old));
            format!("{key} {old}→{}", key.show(value))
        });
        let values = values.collect::<Vec<_>>().join(", ");
        if pod.before.len() > 1 { format!("{name}: {values}") } else { values }
    };
    changes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The names of what is to be known, whose sentences stand below the table; with `-o wide` the sentences.
fn note(pod: &PodPlan, wide: bool) -> String {
    if wide {
        let all = sentences(pod).into_iter().filter(|(kind, _)| *kind != Kind::Restarts);
        return all.map(|(_, sentence)| sentence).collect::<Vec<_>>().join("; ");
    }
    let mut codes = sentences(pod).into_iter().map(|(kind, _)| kind.code()).collect::<Vec<_>>();
    codes.dedup();
    codes.join(",")
}

/// What a sentence is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Refused(&'static str),
    OneWay,
    Restarts,
    Concern(&'static str),
}

impl Kind {
    const fn code(self) -> &'static str {
        match self {
            Self::Refused(code) | Self::Concern(code) => code,
            Self::OneWay => "one-way",
            Self::Restarts => "restart",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::OneWay => "one way",
            Self::Restarts => "restarts",
            Self::Concern(_) => "note",
        }
    }
}

fn sentences(pod: &PodPlan) -> Vec<(Kind, String)> {
    let mut out = Vec::new();
    match &pod.verdict {
        Err(refusal) => out.push((Kind::Refused(refusal.code()), refusal.to_string())),
        Ok(eligible) => {
            out.extend(pod.one_way.iter().map(|one_way| (Kind::OneWay, one_way.to_string())));
            if !eligible.restarts.is_empty() {
                let names = eligible.restarts.join(", ");
                out.push((Kind::Restarts, format!("container {names} restarts, as its resizePolicy says")));
            }
            out.extend(eligible.concerns.iter().map(|c| (Kind::Concern(c.code()), c.to_string())));
        }
    }
    out
}

/// Every sentence once, with the pods that it is about; then the API server's answers.
fn notes(view: &PlanView<'_>, page: &mut Page) {
    let mut groups = BTreeMap::<(Kind, String), Vec<&str>>::new();
    for pod in &view.plan.pods {
        for (kind, sentence) in sentences(pod) {
            groups.entry((kind, sentence)).or_default().push(&pod.name);
        }
    }
    let mut last = "";
    for ((kind, sentence), pods) in &groups {
        let label = if kind.label() == last { "" } else { kind.label() };
        last = kind.label();
        let sentence = text::clean(sentence);
        let line = match kind {
            Kind::Refused(code) => format!("{} ({code}): {sentence}", named(pods, view.plan.pods.len())),
            Kind::OneWay | Kind::Restarts | Kind::Concern(_) => {
                format!("{}: {sentence}", named(pods, view.plan.pods.len()))
            }
        };
        page.field(label, &line);
    }
    for (at, refusal) in view.refused.iter().enumerate() {
        let label = if at == 0 { "server" } else { "" };
        let others = refusal.pods.saturating_sub(1);
        let alike = if others > 0 { format!(" (and {others} like it)") } else { String::new() };
        page.field(label, &format!("pod {}{alike}: {}", text::clean(&refusal.pod), text::clean(&refusal.message)));
    }
    for (at, sentence) in view.too_large.iter().enumerate() {
        let label = if at == 0 { "too large" } else { "" };
        page.field(label, &format!("{}: a rollout would find it Infeasible", text::clean(sentence)));
    }
}

/// `all 11 pods`, or `2 pods, web-1 and …`.
fn named(pods: &[&str], all: usize) -> String {
    if pods.len() == all && all > 1 {
        return format!("all {all} pods");
    }
    format!("{}, {}", text::plural(pods.len(), "pod"), text::list(pods.iter().copied(), NAMED))
}

fn counts(view: &PlanView<'_>) -> String {
    let plan = view.plan;
    let (eligible, refused) = (plan.eligible().count(), plan.refused().count());
    let change = plan.to_change();
    let mut line = format!("{change} to change, {} at target, {refused} refused", eligible - change);
    let by_server = view.refused.iter().map(|refusal| refusal.pods).sum::<usize>();
    if by_server > 0 {
        let _ = write!(line, "; the API server would refuse {by_server} of those to change");
    }
    line
}

/// The whole plan: nothing is grouped or left out.
pub fn json(view: &PlanView<'_>) -> Value {
    let plan = view.plan;
    let eligible = plan.eligible().count();
    let refused = view
        .refused
        .iter()
        .map(|r| json!({"pod": r.pod, "pods": r.pods, "code": r.code, "message": r.message}))
        .collect::<Vec<_>>();
    json!({
        "kind": "Plan",
        "context": view.context,
        "workload": view.workload,
        "revision": view.revision,
        "target": view.target,
        "policy": view.policy,
        "steps": plan.steps.iter().map(|s| json!({"share": s.share, "pods": s.pods})).collect::<Vec<_>>(),
        "pods": plan.pods.iter().map(pod_json).collect::<Vec<_>>(),
        "oneWay": plan.one_way().into_iter().map(|o| with_message(json!(o), o)).collect::<Vec<_>>(),
        "serverRefused": refused,
        "tooLarge": view.too_large,
        "counts": {
            "pods": plan.pods.len(),
            "eligible": eligible,
            "toChange": plan.to_change(),
            "atTarget": eligible - plan.to_change(),
            "refused": plan.pods.len() - eligible,
        },
    })
}

fn pod_json(pod: &PodPlan) -> Value {
    let mut out = json!({
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "step": pod.step,
        "before": pod.before,
        "oneWay": pod.one_way.iter().map(|o| with_message(json!(o), o)).collect::<Vec<_>>(),
    });
    match &pod.verdict {
        Ok(eligible) => {
            out["verdict"] = if eligible.at_target { "atTarget" } else { "resize" }.into();
            out["changes"] = json!(eligible.changes);
            out["restarts"] = json!(eligible.restarts);
            out["concerns"] = eligible.concerns.iter().map(|c| with_message(json!(c), c)).collect();
        }
        Err(refusal) => {
            out["verdict"] = "refused".into();
            out["refusal"] = with_message(json!(refusal), refusal);
        }
    }
    out
}

fn with_message(mut value: Value, sentence: &impl std::fmt::Display) -> Value {
    value["message"] = sentence.to_string().into();
    value
}

#[cfg(test)]
#[path = "plan_view_tests.rs"]
mod tests;
