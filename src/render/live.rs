//! The live view: a scene drawn on stderr, again and again in place.
//!
//! The cursor rests at the beginning of the block, not below it. So a draw needs no count of lines that went before: it
//! writes over them and erases what is left of the old block. A window that was made narrower may have wrapped the old
//! lines into any number of rows, and somebody else may have written a line in between: both are simply drawn over.
//! That is also why this is not a progress bar library: those count lines back from below.

use std::fmt::Write as _;
use std::io;

use anstream::adapter::strip_str;
use jiff::{SignedDuration, Timestamp};

use super::scene::Scene;
use super::sink::Sink;
use super::{Reporter, text};
use crate::core::rollout::event::Event;

/// Columns and rows of the terminal, asked before each draw; `None` where it has none to tell.
pub type Size = Box<dyn Fn() -> Option<(u16, u16)> + Send>;

/// The size of the terminal behind stderr.
pub fn stderr_size() -> Option<(u16, u16)> {
    terminal_size::terminal_size_of(io::stderr()).map(|(columns, rows)| (columns.0, rows.0))
}

pub struct Live {
    to: Sink,
    size: Size,
    colored: bool,
    scene: Scene,
    /// When it was drawn last.
    drawn: Option<Timestamp>,
    /// The columns that each line of the last draw took.
    widths: Vec<usize>,
    /// Something happened since.
    stale: bool,
    /// Nothing is drawn any more.
    over: bool,
}

/// Not more often than this, however much happens.
const FASTEST: SignedDuration = SignedDuration::from_millis(100);
/// At least this often: ages grow.
const SLOWEST: SignedDuration = SignedDuration::from_secs(1);
/// What is assumed of a terminal that does not tell.
const USUAL_SIZE: (u16, u16) = (80, 24);

const HIDE_CURSOR: &str = "\x1b[?25l";
/// Terminals that know it show the new block at once; the others ignore it.
const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";
const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

/// Takes the block away and gives the cursor back, whatever was drawn. For a process that ends without unwinding: it
/// is written once to stderr by whoever calls `exit`.
pub const RESTORE: &str = "\r\x1b[J\x1b[?2026l\x1b[?25h";

impl Live {
    pub fn new(to: Sink, size: Size, colored: bool) -> Self {
        Self { to, size, colored, scene: Scene::default(), drawn: None, widths: Vec::new(), stale: false, over: false }
    }

    /// The view of somebody who only watches: Ctrl-C stops nothing but the view.
    #[must_use]
    pub fn watching(mut self, watching: bool) -> Self {
        self.scene.watching = watching;
        self
    }

    fn draw_if_due(&mut self, now: Timestamp) {
        let pause = if self.stale { FASTEST } else { SLOWEST };
        if !self.over && self.drawn.is_none_or(|drawn| now.duration_since(drawn) >= pause) {
            self.draw(now);
        }
    }

    fn draw(&mut self, now: Timestamp) {
        let (columns, rows) = (self.size)().filter(|(c, r)| *c > 0 && *r > 0).unwrap_or(USUAL_SIZE);
        // One column and one row stay free: a full last column makes some terminals wrap, a full screen scroll.
        let (width, height) = (usize::from(columns) - 1, usize::from(rows) - 1);
        let lines = self.scene.lines(width, height, now, self.colored);
        if lines.is_empty() {
            return;
        }
        let home = if self.overflows(usize::from(columns), usize::from(rows)) { HOME } else { "\r" };
        let mut out = format!("{BEGIN_UPDATE}{HIDE_CURSOR}{home}");
        for (i, line) in lines.iter().enumerate() {
            let _ = write!(out, "{}{line}{ERASE_LINE}", if i == 0 { "" } else { "\r\n" });
        }
        out.push_str(ERASE_BELOW);
        if lines.len() > 1 {
            let _ = write!(out, "\x1b[{}A", lines.len() - 1);
        }
        let _ = write!(out, "\r{END_UPDATE}");
        self.to.put(&out);
        self.widths = lines.iter().map(|line| text::width(&strip_str(line).to_string())).collect();
        self.drawn = Some(now);
        self.stale = false;
    }

    /// Whether the window became so small that the old block, each line wrapped at the new width, does not fit. Then
    /// its beginning has scrolled away, the cursor is anywhere, and everything on the screen is ours.
    fn overflows(&self, columns: usize, rows: usize) -> bool {
        self.widths.iter().map(|width| width.div_ceil(columns).max(1)).sum::<usize>() > rows
    }

    fn clear(&mut self) {
        if self.drawn.take().is_some() {
            self.to.put(RESTORE);
        }
        self.over = true;
    }
}

impl Reporter for Live {
    fn event(&mut self, at: Timestamp, event: &Event) {
        self.scene.apply(at, event);
        self.stale = true;
        if matches!(event, Event::Result(_)) {
            // The summary takes its place.
            self.clear();
        } else {
            self.draw_if_due(at);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        self.draw_if_due(now);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.clear();
        self.to.finish()
    }
}

impl Drop for Live {
    /// A panic or an early return must not leave a terminal without a cursor.
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::render::stories::{self, Paper, Story};

    /// A live view on a terminal of its own.
    struct Desk {
        live: Live,
        paper: Paper,
        seen: usize,
        size: Arc<Mutex<(u16, u16)>>,
        terminal: vt100::Parser,
    }

    impl Desk {
        fn new(columns: u16, rows: u16) -> Self {
            let (paper, size) = (Paper::default(), Arc::new(Mutex::new((columns, rows))));
            let asked = Arc::clone(&size);
            let live =
                Live::new(Sink::new(Box::new(paper.clone())), Box::new(move || Some(*asked.lock().unwrap())), false);
            Self { live, paper, seen: 0, size, terminal: vt100::Parser::new(rows, columns, 100) }
        }

        fn resize(&mut self, columns: u16, rows: u16) {
            *self.size.lock().unwrap() = (columns, rows);
            self.terminal.screen_mut().set_size(rows, columns);
        }

        fn tell(&mut self, story: &Story) {
            for (at, event) in &story.events {
                self.live.event(*at, event);
            }
        }

        /// What a person sees.
        fn screen(&mut self) -> String {
            let text = self.paper.text();
            self.terminal.process(&text.as_bytes()[self.seen..]);
            self.seen = text.len();
            self.terminal.screen().contents()
        }
    }

    fn unfinished() -> Story {
        let mut story = stories::deferred();
        story.events.pop();
        story
    }

    #[test]
    fn the_first_event_is_drawn_at_once_and_the_rest_in_place() {
        let story = unfinished();
        let mut desk = Desk::new(80, 24);
        desk.live.event(story.events[0].0, &story.events[0].1);
        assert!(desk.screen().starts_with("deployment/payments  namespace shop"), "{}", desk.screen());
        desk.tell(&story);
        desk.live.tick(story.now());
        let screen = desk.screen();
        assert_eq!(screen.matches("deployment/payments").count(), 1, "{screen}");
        assert!(screen.contains("waiting 95s for room on a node"), "{screen}");
        assert!(desk.terminal.screen().hide_cursor());
    }

    #[test]
    fn a_window_of_another_size_is_drawn_over() {
        let story = unfinished();
        let mut desk = Desk::new(140, 40);
        desk.tell(&story);
        desk.screen();
        for (i, (columns, rows)) in [(60, 20), (100, 10), (80, 24)].into_iter().enumerate() {
            desk.resize(columns, rows);
            desk.live.tick(story.now() + SignedDuration::from_secs(2 * i64::try_from(i).unwrap()));
            let screen = desk.screen();
            assert_eq!(screen.matches("deployment/payments").count(), 1, "{screen}");
            assert_eq!(screen.matches("◌ 25% 2/3").count(), 1, "{screen}");
        }
    }

    #[test]
    fn a_window_that_is_too_small_for_the_old_block_is_cleared() {
        let mut desk = Desk::new(80, 24);
        let story = unfinished();
        desk.tell(&story);
        desk.screen();
        // What a terminal does that keeps the last lines: the beginning of the block and the cursor are elsewhere.
        desk.resize(80, 10);
        desk.terminal.process(b"\x1b[5;9H");
        desk.live.tick(story.now());
        let screen = desk.screen();
        assert!(screen.starts_with("deployment/payments"), "{screen}");
        assert_eq!(screen.matches("deployment/payments").count(), 1, "{screen}");
    }

    #[test]
    fn a_line_from_elsewhere_stays_above() {
        let story = unfinished();
        let mut desk = Desk::new(80, 24);
        desk.tell(&story);
        desk.screen();
        desk.terminal.process(b"warning from elsewhere\x1b[K\r\n");
        desk.live.tick(story.now());
        let screen = desk.screen();
        assert!(screen.starts_with("warning from elsewhere\ndeployment/payments"), "{screen}");
        assert_eq!(screen.matches("deployment/payments").count(), 1, "{screen}");
    }

    #[test]
    fn the_result_takes_the_view_away_and_gives_the_cursor_back() {
        let mut desk = Desk::new(80, 24);
        desk.tell(&stories::deferred());
        desk.live.finish().unwrap();
        assert_eq!(desk.screen().trim(), "");
        assert!(!desk.terminal.screen().hide_cursor());
    }

    #[test]
    fn a_view_that_is_dropped_gives_the_cursor_back() {
        let mut desk = Desk::new(80, 24);
        desk.tell(&unfinished());
        desk.live = Live::new(Sink::new(Box::new(Paper::default())), Box::new(|| None), false);
        assert_eq!(desk.screen().trim(), "");
        assert!(!desk.terminal.screen().hide_cursor());
    }

    #[test]
    fn drawn_ten_times_a_second_whatever_happens() {
        let mut story = Story::begin(10_000, "100%");
        let pods = story.step(0);
        let mut desk = Desk::new(80, 24);
        desk.tell(&story);
        let begun = story.now();
        for (i, pod) in pods.enumerate() {
            let event = crate::core::rollout::event::PodEvent {
                name: Story::name(pod),
                node: None,
                step: 0,
                state: crate::core::rollout::event::PodState::Ready,
                message: String::new(),
                restoring: false,
            };
            let at = begun + SignedDuration::from_micros(100 * i64::try_from(i).unwrap());
            desk.live.event(at, &Event::Pod(event));
        }
        let draws = desk.paper.text().matches(BEGIN_UPDATE).count();
        assert!((9..=11).contains(&draws), "{draws} draws in a second");
    }
}
