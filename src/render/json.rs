//! One JSON object a line for each event: `{"at":…,"kind":…}`. The last one is the result.

use std::io;

use jiff::Timestamp;
use serde::Serialize;

use super::Reporter;
use super::sink::Sink;
use crate::core::rollout::event::Event;

/// Nothing is left out and nothing is made prettier: serde escapes what came from the cluster.
pub struct Json {
    to: Sink,
}

impl Json {
    pub fn new(to: Sink) -> Self {
        Self { to }
    }
}

/// `Stamped` without taking the event.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    #[serde(flatten)]
    event: &'a Event,
}

impl Reporter for Json {
    fn event(&mut self, at: Timestamp, event: &Event) {
        let mut line = serde_json::to_string(&Line { at, event }).expect("an event has string keys and finite numbers");
        line.push('\n');
        self.to.put(&line);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.finish()
    }
}
