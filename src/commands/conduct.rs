//! Conducting a run from a command: reporter, ticks and signals around the operator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::session::Session;
use crate::clock::{Clock, SystemClock};
use crate::core::exit::Exit;
use crate::core::revision::Revision;
use crate::core::rollout::event::Event;
use crate::core::rollout::observation::Command;
use crate::core::workload::WorkloadView;
use crate::engine::{Decide, Intention, Operator};
use crate::error::{CommandError, CommandResult};
use crate::render::{Reporter, Streams, TICK, live, reporter};

/// What a command wants done.
pub struct Task<'a> {
    pub workload: WorkloadView,
    pub decide: Decide<'a, CommandError>,
    /// Given to the machine at once: roll back, abort.
    pub command: Option<Command>,
    pub timeout: Option<Duration>,
    pub supersede: Option<Revision>,
}

/// The one reporter of a run, shared by the run, the ticks and the signals.
pub type Shared = Arc<Mutex<Box<dyn Reporter>>>;

/// Runs to a conclusion and returns its exit code.
pub async fn conduct(session: &Session, task: Task<'_>) -> CommandResult {
    let shared: Shared = Arc::new(Mutex::new(make_reporter(session)));
    let ticking = tokio::spawn(tick(shared.clone(), session.clock));
    let (send, commands) = mpsc::unbounded_channel();
    let signals = tokio::spawn(super::signals::forward(send, shared.clone(), session.clock));
    let operator = Operator {
        cluster: &session.cluster,
        store: &session.store,
        clock: &session.clock,
        holder: &session.holder,
        server_minor: session.version.minor,
        context: session.connection.context.clone(),
    };
    let intention: Intention<'_, CommandError> = Intention {
        workload: task.workload,
        decide: task.decide,
        first: task.command,
        commands,
        deadline: task.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        supersede: task.supersede,
    };
    let mut events = |at: Timestamp, event: &Event| lock(&shared).event(at, event);
    let outcome = operator.operate(intention, &mut events).await;
    signals.abort();
    ticking.abort();
    let finished = lock(&shared).finish();
    let result = outcome?;
    finished?;
    Ok(Exit::ALL.into_iter().find(|exit| exit.code() == result.exit_code).unwrap_or(Exit::Unexpected))
}

fn make_reporter(session: &Session) -> Box<dyn Reporter> {
    let streams = Streams {
        stdout: Box::new(std::io::stdout()),
        stderr: Box::new(std::io::stderr()),
        size: Box::new(live::stderr_size),
        watching: false,
    };
    reporter(session.mode(), streams)
}

/// The reporter, also after a panic elsewhere: it still has to give the terminal back.
pub fn lock(shared: &Shared) -> MutexGuard<'_, Box<dyn Reporter>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub async fn tick(shared: Shared, clock: SystemClock) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        lock(&shared).tick(clock.now());
    }
}
