//! The last words: a block that names context, namespace, workload, run, counts, outcome and the next commands.
//!
//! It is the result, so it goes to stdout; it says everything again, because what was above it may have scrolled away.

use std::fmt::Write as _;
use std::io;

use jiff::Timestamp;

use super::Reporter;
use super::look::{Class, Look, Tally};
use super::paint::{Line, Paint};
use super::sink::Sink;
use super::{text, wording};
use crate::core::rollout::event::{Event, Started};
use crate::core::rollout::outcome::{PodResult, RunResult};

/// Says nothing until the result, and then all of it.
pub struct Summary {
    to: Sink,
    colored: bool,
    began: Option<Began>,
}

/// What the result does not carry.
struct Began {
    at: Timestamp,
    context: Option<String>,
    operator: String,
}

/// Pods named one by one; more are counted.
const NAMED: usize = 20;

impl Summary {
    pub fn new(to: Sink, colored: bool) -> Self {
        Self { to, colored, began: None }
    }

    fn block(&self, at: Timestamp, result: &RunResult) -> String {
        let mut lines = vec![outcome_line(result)];
        if let Some(cause) = wording::cause(result) {
            lines.push(Line::new().with(Paint::Plain, "  ").with(Paint::Plain, cause));
        }
        lines.push(Line::new());
        if let Some(context) = self.began.as_ref().and_then(|began| began.context.as_deref()) {
            lines.push(field("context", text::clean(context).into_owned()));
        }
        lines.push(field("namespace", text::clean(&result.workload.namespace).into_owned()));
        lines.push(field("workload", text::clean(&result.workload.to_string()).into_owned()));
        lines.push(field("run", self.run(at, result)));
        lines.push(field("pods", pods(result)));
        lines.extend(named_pods(&result.pods));
        if !result.born_with.is_empty() {
            let born = format!("get {} from the template", wording::values(&result.born_with));
            lines.push(field("new pods", born));
        }
        for (i, command) in result.next.iter().enumerate() {
            lines.push(field(if i == 0 { "next" } else { "" }, text::clean(command).into_owned()));
        }
        lines.iter().fold(String::new(), |mut out, line| {
            let _ = writeln!(out, "{}", line.show(usize::MAX, self.colored));
            out
        })
    }

    fn run(&self, at: Timestamp, result: &RunResult) -> String {
        let mut out = format!("{}, revision {}", result.run, result.revision);
        if let Some(began) = &self.began {
            let _ = write!(out, ", by {}, {}", text::clean(&began.operator), text::age_at(began.at, at));
        }
        out
    }
}

fn outcome_line(result: &RunResult) -> Line {
    let (symbol, paint, words) = wording::outcome(result);
    Line::new().with(paint, symbol).with(Paint::Plain, " ").with(Paint::Strong, words)
}

fn field(name: &'static str, value: String) -> Line {
    Line::new().with(Paint::Faint, text::pad(&format!("  {name}"), 13)).with(Paint::Plain, value)
}

fn pods(result: &RunResult) -> String {
    let tally = result.pods.iter().map(|pod| pod.state).collect::<Tally>();
    match result.pods.len() {
        0 => "none was changed".to_owned(),
        count => format!("{count}: {}", tally.words()),
    }
}

/// The pods that are not as they should be, each with its reason.
fn named_pods(pods: &[PodResult]) -> Vec<Line> {
    let class = |pod: &PodResult| Look::of(pod.state, false).class;
    let mut odd = pods.iter().filter(|pod| !matches!(class(pod), Class::Ok | Class::Gone)).collect::<Vec<_>>();
    odd.sort_by_key(|pod| class(pod));
    let wide = odd.iter().take(NAMED).map(|pod| text::width(&text::clean(&pod.name))).max().unwrap_or(0);
    let row = |pod: &&PodResult| {
        let look = Look::of(pod.state, false);
        field("", String::new())
            .with(look.paint, look.symbol)
            .with(Paint::Plain, format!(" {}  ", text::pad(&text::clean(&pod.name), wide)))
            .with(Paint::Plain, wording::state_and_message(pod.state, false, &pod.message))
    };
    let mut lines = odd.iter().take(NAMED).map(row).collect::<Vec<_>>();
    if odd.len() > NAMED {
        lines.push(field("", format!("{} {} more: -o json names all", text::ELLIPSIS, odd.len() - NAMED)));
    }
    lines
}

impl Reporter for Summary {
    fn event(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Started(started) => {
                let Started { context, operator, .. } = started.as_ref();
                self.began = Some(Began { at, context: context.clone(), operator: operator.clone() });
            }
            Event::Result(result) => {
                let block = self.block(at, result);
                self.to.put(&block);
            }
            Event::StepStarted { .. }
            | Event::Pod(_)
            | Event::StepAtTarget { .. }
            | Event::StepPassed { .. }
            | Event::RollbackStarted { .. }
            | Event::Waiting { .. }
            | Event::Notice { .. } => {}
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.finish()
    }
}
