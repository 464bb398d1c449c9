//! Events in, text out: the live view, plain lines, JSON lines and the summary read the same stream.
//!
//! What may not happen here: reading the cluster, the environment or the clock (time comes with each call), and deciding
//! anything about a run. What came from the cluster passes `text::clean` before it reaches a terminal.

pub mod history_view;
pub mod json;
pub mod live;
pub mod look;
pub mod mode;
pub mod page;
pub mod paint;
pub mod plain;
pub mod plan_view;
pub mod scene;
mod scene_lines;
pub mod sink;
pub mod status_list;
pub mod status_view;
pub mod summary;
pub mod table;
pub mod text;
pub mod wording;

#[cfg(test)]
mod pictures;
#[cfg(test)]
mod stories;

use std::io::{self, Write};
use std::time::Duration;

use jiff::Timestamp;

use self::json::Json;
use self::live::{Live, Size};
use self::mode::{Mode, OutputFlag, Progress};
use self::plain::Plain;
use self::sink::Sink;
use self::summary::Summary;
use crate::core::rollout::event::Event;

/// Somebody who reads the events of a run. Never fails in the middle of one: what went wrong with the writing is told by
/// `finish`.
pub trait Reporter: Send {
    /// `at`: when it was noticed. Never goes back from one call to the next.
    fn event(&mut self, at: Timestamp, event: &Event);

    /// Time passed. To be called every `TICK`, whether something happened or not.
    fn tick(&mut self, _now: Timestamp) {}

    /// Writes what is left and gives the terminal back. A reader that went away (`BrokenPipe`) is no error.
    fn finish(&mut self) -> io::Result<()>;
}

/// How often `Reporter::tick` is called: the live view draws at most as often.
pub const TICK: Duration = Duration::from_millis(100);

/// Where the text goes.
pub struct Streams {
    /// Results: the summary, or the JSON lines of `-o json`.
    pub stdout: Box<dyn Write + Send>,
    /// What is told while the run goes on.
    pub stderr: Box<dyn Write + Send>,
    /// The terminal behind stderr (`live::stderr_size`).
    pub size: Size,
    /// Somebody else drives the run.
    pub watching: bool,
}

/// The reporter for a mode.
pub fn reporter(mode: Mode, streams: Streams) -> Box<dyn Reporter> {
    let stdout = Sink::new(streams.stdout);
    let output: Box<dyn Reporter> = match mode.output {
        OutputFlag::Text => Box::new(Summary::new(stdout, mode.color_stdout)),
        OutputFlag::Json => Box::new(Json::new(stdout)),
    };
    let stderr = Sink::new(streams.stderr);
    let progress: Box<dyn Reporter> = match mode.progress {
        Progress::Live => Box::new(Live::new(stderr, streams.size, mode.color_stderr).watching(streams.watching)),
        Progress::Plain => Box::new(Plain::new(stderr)),
        Progress::Json => Box::new(Json::new(stderr)),
        Progress::Quiet => return output,
    };
    Box::new(Both(progress, output))
}

/// Two readers; the first one speaks first.
struct Both(Box<dyn Reporter>, Box<dyn Reporter>);

impl Reporter for Both {
    fn event(&mut self, at: Timestamp, event: &Event) {
        self.0.event(at, event);
        self.1.event(at, event);
    }

    fn tick(&mut self, now: Timestamp) {
        self.0.tick(now);
        self.1.tick(now);
    }

    fn finish(&mut self) -> io::Result<()> {
        let first = self.0.finish();
        self.1.finish().and(first)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::stories::{self, Paper, Story};
    use super::*;

    #[rstest]
    #[case("healthy", &stories::healthy())]
    #[case("deferred", &stories::deferred())]
    #[case("rolled_back", &stories::rolled_back())]
    #[case("many", &stories::many(500))]
    fn plain(#[case] name: &str, #[case] story: &Story) {
        let paper = Paper::default();
        stories::tell(story, &mut Plain::new(Sink::new(Box::new(paper.clone()))));
        insta::assert_snapshot!(format!("plain_{name}"), paper.text());
    }

    #[rstest]
    #[case("deferred", &stories::deferred())]
    #[case("rolled_back", &stories::rolled_back())]
    fn json(#[case] name: &str, #[case] story: &Story) {
        let paper = Paper::default();
        stories::tell(story, &mut Json::new(Sink::new(Box::new(paper.clone()))));
        for line in paper.text().lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value["at"].is_string() && value["kind"].is_string(), "{line}");
        }
        insta::assert_snapshot!(format!("json_{name}"), paper.text());
    }

    #[rstest]
    #[case("healthy", &stories::healthy())]
    #[case("deferred", &stories::deferred())]
    #[case("rolled_back", &stories::rolled_back())]
    fn summary(#[case] name: &str, #[case] story: &Story) {
        let paper = Paper::default();
        stories::tell(story, &mut Summary::new(Sink::new(Box::new(paper.clone())), false));
        insta::assert_snapshot!(format!("summary_{name}"), paper.text());
    }

    #[test]
    fn each_stream_gets_what_is_its_own() {
        let (stdout, stderr) = (Paper::default(), Paper::default());
        let mode =
            Mode { progress: Progress::Plain, output: OutputFlag::Text, color_stdout: false, color_stderr: false };
        let streams = Streams {
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
            size: Box::new(|| None),
            watching: false,
        };
        stories::tell(&stories::healthy(), &mut *reporter(mode, streams));
        assert!(stdout.text().starts_with("✔ validated without persistence"), "{}", stdout.text());
        assert!(stderr.text().lines().all(|line| line.starts_with("2026-03-01T10:0")), "{}", stderr.text());

        let (stdout, stderr) = (Paper::default(), Paper::default());
        let mode = Mode { progress: Progress::Quiet, output: OutputFlag::Json, ..mode };
        let streams = Streams {
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
            size: Box::new(|| None),
            watching: false,
        };
        stories::tell(&stories::healthy(), &mut *reporter(mode, streams));
        let last: serde_json::Value = serde_json::from_str(stdout.text().lines().last().unwrap()).unwrap();
        assert_eq!((&last["kind"], &last["outcome"]), (&"Result".into(), &"ValidatedWithoutPersistence".into()));
        assert_eq!(stderr.text(), "");
    }
}
