//! The request log and the hook that tests put between client and server: it sees each request before it is handled
//! and after, and can fail it, delay it, lose it or lose its answer. May not: know what a request means.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::answer::Failure;

/// When the hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request has arrived and nothing was done.
    Before,
    /// The request was handled (its writes are stored) and the answer, with this status, was not sent yet.
    After(u16),
}

/// One request, as the log keeps it and the hook sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Number of the request, from 1.
    pub number: u64,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query, still encoded.
    pub query: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// Body.
    pub body: Bytes,
    /// Status of the answer; 0 while there is none.
    pub status: u16,
}

impl Seen {
    /// Whether the request writes (not GET, and not an access review).
    pub fn is_write(&self) -> bool {
        self.method != "GET" && !self.path.ends_with("accessreviews") && !self.query.contains("dryRun=All")
    }
}

/// What the hook makes of a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing: it goes on.
    None,
    /// It goes on after this time.
    Delay(Duration),
    /// This answer goes out instead.
    Answer(Failure),
    /// The connection breaks without an answer.
    Drop,
    /// No answer ever comes.
    Hang,
}

/// A hook, called for each request and phase.
pub type Interceptor = Arc<dyn Fn(Phase, &Seen) -> Fault + Send + Sync>;

/// The connection broke, as an interceptor wished.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by the sandbox")]
pub struct ConnectionLost;
