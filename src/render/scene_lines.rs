//! The layout of the live view: a scene as lines that never wrap and are never more than the terminal has.
//!
//! The order is fixed: what and where, the steps, a tree of pods, what is waited for, what to know, what Ctrl-C does.
//! Columns only grow and rows keep their order, so that a reader's eye finds a pod where it was.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::look::{self, Class, Look, READ_OUT, Tally};
use super::paint::{Line, Paint};
use super::scene::{Head, Row, Scene, StepPhase, StepRow};
use super::{text, wording};
use crate::core::rollout::event::Level;

/// How much is left out for the height there is. Depends on the height alone, so that nothing comes and goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    Full,
    /// No blank lines, one line of changes.
    Compact,
    /// Steps, pods and the wait only.
    Tiny,
}

impl Room {
    fn of(height: usize) -> Self {
        match height {
            0..=11 => Self::Tiny,
            12..=19 => Self::Compact,
            _ => Self::Full,
        }
    }
}

/// Columns of the table of pods.
#[derive(Clone, Copy, Debug)]
struct Columns {
    name: usize,
    /// None where the message would have no room beside it.
    node: Option<usize>,
}

/// `├─ ✔ `.
const TREE: usize = 5;
/// `7h59m`.
const AGE: usize = 5;
/// Less than this and a message says nothing.
const LEAST_MESSAGE: usize = 12;
const WIDEST_NODE: usize = 30;
/// From this width on a wait is told in one line and what ends it in another; below, it gets two.
const WIDE: usize = 120;

impl Scene {
    /// At most `height` lines of at most `width` columns, as they are at `now`.
    pub fn lines(&self, width: usize, height: usize, now: Timestamp, colored: bool) -> Vec<String> {
        let Some(head) = &self.head else {
            return Vec::new();
        };
        let room = Room::of(height);
        let mut lines = head_lines(head, room, now);
        lines.push(self.bar(width));
        lines.extend(self.undo_lines(width, room));
        let foot = self.foot_lines(width, room, now);
        let left = height.saturating_sub(lines.len() + foot.len());
        lines.extend(self.tree(width, left, room, now));
        lines.extend(foot);
        lines.truncate(height);
        lines.iter().map(|line| line.show(width, colored)).collect()
    }

    /// `✔ 10% 2/2 · ◌ 25% 1/3 · 50% · 100%`; steps that are over make room for the present one.
    fn bar(&self, width: usize) -> Line {
        let steps = self.steps.iter().map(|row| self.bar_step(row)).collect::<Vec<_>>();
        let now = self.step_now().map_or(0, |(step, _)| step);
        let separator = " · ";
        let wide = |steps: &[Line]| steps.iter().map(|step| step.width() + text::width(separator)).sum::<usize>();
        let mut first = 0;
        while first < now && wide(&steps[first..]) + 4 > width {
            first += 1;
        }
        let mut line = Line::new();
        if first > 0 {
            line.add(Paint::Faint, format!("{}{separator}", text::ELLIPSIS));
        }
        for (i, step) in steps.into_iter().skip(first).enumerate() {
            line.add(Paint::Faint, if i == 0 { "" } else { separator });
            line.append(step);
        }
        line
    }

    fn bar_step(&self, row: &StepRow) -> Line {
        let (symbol, paint) = match row.phase {
            StepPhase::Ahead => return Line::new().with(Paint::Faint, row.share.to_string()),
            StepPhase::Working => (look::MOVING, Paint::Moving),
            StepPhase::AtTarget => (look::CLOCK, Paint::Attention),
            StepPhase::Passed => (look::GOOD, Paint::Good),
            StepPhase::Failed => (look::BAD, Paint::Bad),
        };
        let count = row.wanted.map_or(String::new(), |wanted| format!(" {}/{wanted}", self.done_now(row)));
        Line::new().with(paint, symbol).with(Paint::Strong, format!(" {}", row.share)).with(Paint::Plain, count)
    }

    fn undo_lines(&self, width: usize, room: Room) -> Vec<Line> {
        let Some(undo) = &self.undo else {
            return Vec::new();
        };
        let words = format!("rolling back {}: {}", text::plural(undo.pods, "pod"), undo.cause);
        marked(look::BAD, Paint::Bad, &words, width, if room == Room::Full { 2 } else { 1 })
    }

    /// The pods that there is room for, and a line for the others.
    fn tree(&self, width: usize, most: usize, room: Room, now: Timestamp) -> Vec<Line> {
        let columns = self.columns(width);
        let mut lines = Vec::new();
        if room != Room::Tiny && most > 2 {
            lines.push(column_heads(columns));
        }
        let most = most - lines.len();
        // The line for the others is needed when a pod is left out and when one was not started.
        let rest_line = self.rows.len() > most || self.not_started > 0;
        let (shown, rest) = self.shown_rows(most.saturating_sub(usize::from(rest_line)));
        let last = shown.len().saturating_sub(1);
        for (i, row) in shown.into_iter().enumerate() {
            let branch = if i == last && !rest_line { "└─ " } else { "├─ " };
            lines.push(pod_line(row, branch, columns, now));
        }
        if rest_line && most > 0 {
            lines.push(Line::new().with(Paint::Faint, "└─ ").with(Paint::Plain, self.rest_words(rest)));
        }
        lines
    }

    /// `… 37 more ok, 450 not started`.
    fn rest_words(&self, rest: Tally) -> String {
        let class = |state| Look::of(state, false).class;
        let (ok, all) = READ_OUT.into_iter().fold((0, 0), |(ok, all), state| {
            let count = rest.get(state);
            (if class(state) == Class::Ok { ok + count } else { ok }, all + count)
        });
        let mut parts = Vec::new();
        if all > 0 && ok == all {
            parts.push(format!("{} {all} more ok", text::ELLIPSIS));
        } else if all > 0 {
            parts.push(format!("{} {all} more: {}", text::ELLIPSIS, rest.words()));
        }
        match self.not_started {
            0 => {}
            count => parts.push(format!("{count} not started")),
        }
        parts.join(", ")
    }

    fn columns(&self, width: usize) -> Columns {
        let name = self.name_width.max(4).min(width * 2 / 5);
        let node = self.node_width.clamp(4, WIDEST_NODE);
        let fixed = TREE + name + 2 + look::WORD_WIDTH + 2 + AGE + 2 + LEAST_MESSAGE;
        Columns { name, node: (self.node_width > 0 && fixed + node + 2 <= width).then_some(node) }
    }

    fn foot_lines(&self, width: usize, room: Room, now: Timestamp) -> Vec<Line> {
        let mut lines = Vec::new();
        if room == Room::Full {
            lines.push(Line::new());
        }
        let most = if room == Room::Full && width < WIDE { 2 } else { 1 };
        let first = lines.len();
        if let Some(waiting) = &self.waiting {
            let words = format!("waiting {} {}", text::age_at(waiting.since, now), wording::waiting_for(waiting));
            lines.extend(marked(look::CLOCK, Paint::Attention, &words, width, most));
            // The time comes first: it is never the part that is cut off.
            let left = wording::time_left(waiting, now).map_or(String::new(), |left| format!("{left}, "));
            lines.push(Line::new().with(Paint::Plain, format!("  {left}{}", wording::waiting_until(waiting))));
        } else {
            lines.push(Line::new().with(Paint::Moving, look::MOVING).with(Paint::Plain, " working"));
        }
        // As many lines for every wait: what is below stays where it is.
        lines.resize(first + most + 1, Line::new());
        let notices = match room {
            Room::Full => 3,
            Room::Compact | Room::Tiny => 1,
        };
        for notice in self.notices.iter().skip(self.notices.len().saturating_sub(notices)) {
            let (symbol, paint) = match notice.level {
                Level::Info => ("·", Paint::Faint),
                Level::Warning => (look::WARNING, Paint::Attention),
            };
            let times = if notice.times > 1 { format!(" ({} times)", notice.times) } else { String::new() };
            lines.extend(marked(symbol, paint, &format!("{}{times}", notice.message), width, 1));
        }
        if room != Room::Tiny {
            let hint = if self.watching {
                "Ctrl-C stops watching; the run goes on"
            } else {
                "Ctrl-C stops safely; the run stays where it is"
            };
            lines.push(Line::new().with(Paint::Faint, hint));
        }
        lines
    }
}

fn head_lines(head: &Head, room: Room, now: Timestamp) -> Vec<Line> {
    let mut what = Line::new().with(Paint::Strong, head.workload.clone());
    what.add(Paint::Faint, "  namespace ");
    what.add(Paint::Plain, head.namespace.clone());
    if let Some(context) = &head.context {
        what.add(Paint::Faint, "  context ");
        what.add(Paint::Plain, context.clone());
    }
    if room == Room::Tiny {
        return vec![what];
    }
    let mut run = format!("{}, {}, by {}", head.run, text::age_at(head.at, now), head.operator);
    if head.resumed {
        run.push_str(", taken up where it stopped");
    }
    if let Some(before) = head.supersedes {
        let _ = write!(run, ", supersedes run {before}");
    }
    let mut lines = vec![what, Line::new().with(Paint::Plain, run)];
    let most = if room == Room::Full { 3 } else { 1 };
    let whole = if head.changes.len() > most { most - 1 } else { most };
    lines.extend(head.changes.iter().take(whole).map(|change| Line::new().with(Paint::Plain, change.clone())));
    if head.changes.len() > whole {
        let more = text::plural(head.changes.len() - whole, "more container");
        lines.push(Line::new().with(Paint::Faint, format!("{} {more}", text::ELLIPSIS)));
    }
    if room == Room::Full {
        lines.push(Line::new());
    }
    lines
}

fn column_heads(columns: Columns) -> Line {
    let mut heads = format!("{:TREE$}{:2$}  ", "", "POD", columns.name);
    if let Some(node) = columns.node {
        let _ = write!(heads, "{:node$}  ", "NODE");
    }
    let _ = write!(heads, "{:1$}  {2:AGE$}  MESSAGE", "STATE", look::WORD_WIDTH, "SINCE");
    Line::new().with(Paint::Faint, heads)
}

fn pod_line(row: &Row, branch: &'static str, columns: Columns, now: Timestamp) -> Line {
    let look = Look::of(row.state, row.restoring);
    let body = match look.class {
        Class::Failing => Paint::Bad,
        Class::Queued | Class::Gone => Paint::Faint,
        Class::Waiting | Class::Moving | Class::LeftOut | Class::Ok => Paint::Plain,
    };
    let mut line = Line::new().with(Paint::Faint, branch).with(look.paint, look.symbol).with(Paint::Plain, " ");
    line.add(Paint::Plain, text::pad(&text::fit_middle(&row.name, columns.name), columns.name + 2));
    if let Some(node) = columns.node {
        line.add(Paint::Faint, text::pad(&text::fit_middle(&row.node, node), node + 2));
    }
    line.add(body, text::pad(look.word, look::WORD_WIDTH + 2));
    line.add(Paint::Faint, text::pad(&text::age_at(row.since, now), AGE + 2));
    line.add(Paint::Plain, row.message.clone());
    line
}

/// A symbol and words, in at most `most` lines; what is left over is cut.
fn marked(symbol: &'static str, paint: Paint, words: &str, width: usize, most: usize) -> Vec<Line> {
    let wrapped = text::wrap(words, width.saturating_sub(2), most).into_iter();
    let lines = wrapped.enumerate().map(|(i, words)| {
        let (symbol, paint) = if i == 0 { (symbol, paint) } else { (" ", Paint::Plain) };
        Line::new().with(paint, symbol).with(Paint::Plain, format!(" {words}"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;
    use crate::render::stories::{self, Story};

    /// The scene some seconds after the beginning, and that time.
    fn at(story: &Story, seconds: i64) -> (Scene, Timestamp) {
        let now = story.events[0].0 + SignedDuration::from_secs(seconds);
        let mut scene = Scene::default();
        for (at, event) in story.events.iter().filter(|(at, _)| *at <= now) {
            scene.apply(*at, event);
        }
        (scene, now)
    }

    #[rstest]
    #[case("healthy", &stories::healthy(), 0, 80, 24)]
    #[case("healthy", &stories::healthy(), 1, 80, 24)]
    #[case("healthy", &stories::healthy(), 40, 80, 24)]
    #[case("healthy", &stories::healthy(), 80, 140, 40)]
    #[case("healthy", &stories::healthy(), 220, 80, 24)]
    #[case("healthy", &stories::healthy(), 220, 140, 40)]
    #[case("deferred", &stories::deferred(), 100, 80, 24)]
    #[case("deferred", &stories::deferred(), 100, 140, 40)]
    #[case("deferred", &stories::deferred(), 100, 60, 15)]
    #[case("deferred", &stories::deferred(), 100, 40, 8)]
    #[case("rolled_back", &stories::rolled_back(), 146, 80, 24)]
    #[case("rolled_back", &stories::rolled_back(), 146, 140, 40)]
    #[case("many", &stories::many(500), 90, 80, 24)]
    #[case("many", &stories::many(500), 90, 140, 40)]
    #[case("many", &stories::many(10_000), 300, 80, 24)]
    fn looks(
        #[case] name: &str,
        #[case] story: &Story,
        #[case] seconds: i64,
        #[case] width: usize,
        #[case] height: usize,
    ) {
        let (scene, now) = at(story, seconds);
        // As the live view asks: a column and a row stay free.
        let lines = scene.lines(width - 1, height - 1, now, false).join("\n");
        insta::assert_snapshot!(format!("scene_{name}_{seconds}s_{width}x{height}"), lines);
    }

    #[test]
    fn always_within_the_terminal() {
        for story in [stories::healthy(), stories::deferred(), stories::rolled_back(), stories::many(500)] {
            for seconds in [0, 1, 12, 80, 145, 200] {
                let (scene, now) = at(&story, seconds);
                for (width, height) in [(1, 1), (7, 3), (20, 5), (40, 12), (79, 23), (79, 6), (200, 60)] {
                    let lines = scene.lines(width, height, now, false);
                    assert!(lines.len() <= height, "{} lines in {width}x{height}", lines.len());
                    for line in &lines {
                        assert!(text::width(line) <= width, "{line:?} in {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_pod_that_is_done_moves_no_other_row() {
        let mut story = Story::begin(500, "100%");
        for pod in story.step(0).take(32) {
            story.pod(pod, crate::core::rollout::event::PodState::Pending, "");
        }
        let before = at(&story, 0).0;
        story.pod(3, crate::core::rollout::event::PodState::Ready, "");
        story.pod(32, crate::core::rollout::event::PodState::Pending, "");
        let (after, now) = at(&story, 0);
        let lines = |scene: &Scene| scene.lines(79, 23, now, false);
        let names = |pod: usize| Story::name(pod).to_string();
        let (before, after) = (lines(&before), lines(&after));
        let changed = before.iter().zip(&after).filter(|(b, a)| b != a).collect::<Vec<_>>();
        let tree = changed.iter().filter(|(b, _)| b.contains("payments-7d")).collect::<Vec<_>>();
        assert_eq!(tree.len(), 1, "{changed:?}");
        assert!(tree[0].0.contains(&names(3)) && tree[0].1.contains(&names(32)), "{changed:?}");
    }

    #[test]
    fn colours_are_of_the_sixteen_and_never_behind_the_text() {
        let (scene, now) = at(&stories::rolled_back(), 146);
        let text = scene.lines(139, 39, now, true).join("\n");
        let codes = text.split("\x1b[").skip(1).map(|rest| rest.split('m').next().unwrap());
        for code in codes {
            assert!(matches!(code, "0" | "1" | "2" | "31" | "32" | "33" | "36"), "{code}");
        }
    }
}
