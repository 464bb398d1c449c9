//! Drives the core against the ports: observe, step, record the intent, perform, observe. Knows no rule of the domain.

mod drive;
mod hold;
mod journal;
mod operate;
mod sighting;
mod watch;

pub use drive::{Drive, drive};
pub use hold::{Hold, HoldError, Holder, acquire};
pub use journal::{Appended, Journal};
pub use operate::{Decide, Failed, Intention, Operator};
pub use watch::{Reader, Show};

use jiff::Timestamp;

use crate::cluster::ClusterError;
use crate::core::rollout::event::Event;
use crate::store::StoreError;

/// Where the events go.
pub type Report<'a> = &'a mut dyn FnMut(Timestamp, &Event);

/// Why a run could not be driven to a conclusion. Refusals and failures of the rollout are results, not errors.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
