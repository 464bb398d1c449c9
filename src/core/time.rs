//! Arithmetic on times that were given in. A clock that went backwards has made no progress: never negative.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How long ago `since` was; zero when it lies in the future.
pub fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// `at` plus a duration; the end of time when it does not fit.
pub fn after(at: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| at.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}
