//! Signals: the first one asks the run to stop safely, the second one stops at once.

use tokio::sync::mpsc::UnboundedSender;

use super::conduct::{Shared, lock};
use super::session::tell;
use crate::clock::{Clock, SystemClock};
use crate::core::rollout::event::{Event, Level};
use crate::core::rollout::observation::Command;

/// Sends the first signal to the run; does not come back from the second.
pub async fn forward(run: UnboundedSender<Command>, shared: Shared, clock: SystemClock) {
    let Ok(mut signals) = Signals::listen() else { return };
    let first = signals.next().await;
    let message = "stopping: nothing new is started, requests in flight are let in; a second signal stops at once";
    lock(&shared).event(clock.now(), &Event::Notice { level: Level::Info, message: message.to_owned() });
    let _ = run.send(Command::Interrupt { signal: first });
    stop_now(signals.next().await, &shared);
}

/// The record and the lease are in the cluster; nothing here has to be saved. The lock is kept so that nobody draws over
/// the last words.
fn stop_now(signal: i32, shared: &Shared) -> ! {
    let mut reporter = lock(shared);
    let _ = reporter.finish();
    tell("stopped at once; go on with `kubectl kapr resume`, undo with `kubectl kapr rollback`\n");
    std::process::exit(128 + if signal == 1 { 15 } else { signal })
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next signal.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> i32 {
        let _ = tokio::signal::ctrl_c().await;
        2
    }
}
