//! What time it is. Sleeping is tokio's, so that tests can pause it.

use jiff::{SignedDuration, Timestamp};

pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// This machine's clock, corrected by what the API server's clock was seen to say: a record that another machine reads
/// is written in the cluster's time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock {
    /// Server time minus local time.
    pub correction: SignedDuration,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.checked_add(self.correction).unwrap_or(now)
    }
}

/// tokio's clock from a fixed start: moves when a test moves it.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Timestamp,
    zero: tokio::time::Instant,
}

impl TokioClock {
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, zero: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        crate::core::time::after(self.start, self.zero.elapsed())
    }
}

/// A moment on two clocks: the monotonic one stands still while the machine sleeps, the wall clock may be set.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub instant: tokio::time::Instant,
    wall: std::time::SystemTime,
}

impl Moment {
    pub fn now() -> Self {
        Self { instant: tokio::time::Instant::now(), wall: std::time::SystemTime::now() }
    }

    /// The longer of the two: after a sleep the wall clock knows better.
    pub fn elapsed(self) -> std::time::Duration {
        self.instant.elapsed().max(self.wall.elapsed().unwrap_or_default())
    }
}
