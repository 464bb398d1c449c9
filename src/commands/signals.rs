//! Signals: the first one asks the run to stop safely, the second one stops at once.

use tokio::sync::mpsc::UnboundedSender;

use super::conduct::stop_now;
use crate::core::rollout::observation::Command;

/// Sends the first signal to the run; does not come back from the second.
pub async fn forward(run: UnboundedSender<Command>) {
    let Ok(mut signals) = Signals::listen() else { return };
    let first = signals.next().await;
    let _ = run.send(Command::Interrupt { signal: first });
    stop_now(signals.next().await);
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

    /// The number of the next signal. A hang-up counts as a request to terminate.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 15,
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
