//! The port to the record and the lease of a workload. May not: know what the entries mean.

use std::future::Future;

use crate::core::journal::{Append, Folded, Record};
use crate::core::lock::LeaseView;
use crate::core::workload::WorkloadRef;

mod configmap;
mod encoding;
mod lease;

pub use configmap::KubeStore;

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub record: Record,
    /// What the next write has to name: somebody else's write changes it.
    pub version: Version,
}

/// The state of the stored object that a write builds on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Version {
    /// There is no object yet: the write creates it.
    Absent,
    /// The object belongs to a workload of the same name that is gone: the write replaces it.
    Foreign { resource_version: String },
    Present {
        resource_version: String,
        /// Keys of the entries, in order.
        keys: Vec<String>,
    },
}

/// One record of a list; what cannot be read is an error in its place.
pub type Listed = (Subject, Result<Stored, StoreError>);

/// The workload whose record it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    pub workload: WorkloadRef,
    pub uid: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else wrote in between.
    #[error("{what} was changed by somebody else")]
    Conflict { what: String },
    #[error("{operation}: {reason}")]
    Forbidden { operation: String, reason: String },
    /// Nothing is known; trying again is right.
    #[error("{operation}: {reason}")]
    Unknown { operation: String, reason: String },
    /// Trying again does not help.
    #[error("{what} cannot be read: {reason}")]
    Unreadable { what: String, reason: String },
    #[error("the record of {what} would be {size} bytes, more than the {limit} of a ConfigMap")]
    TooLarge { what: String, size: usize, limit: usize },
}

/// What the engine needs of durable state.
pub trait Store {
    fn read(&self, subject: &Subject) -> impl Future<Output = Result<Stored, StoreError>> + Send;

    /// Adds one write to the record if it is still at `version`. With `fold`, every earlier entry is replaced by it, in the
    /// same write.
    fn append(
        &self,
        subject: &Subject,
        version: &Version,
        append: &Append,
        fold: Option<&Folded>,
    ) -> impl Future<Output = Result<Version, StoreError>> + Send;

    fn read_lease(&self, subject: &Subject) -> impl Future<Output = Result<Option<LeaseView>, StoreError>> + Send;

    /// Takes or renews the lease if it is still at `seen` (`None`: if there is none). Returns the new version.
    fn hold_lease(
        &self,
        subject: &Subject,
        seen: Option<&str>,
        holder: &str,
        taking: bool,
    ) -> impl Future<Output = Result<String, StoreError>> + Send;

    /// Gives the lease back if it is still at `seen`.
    fn release_lease(&self, subject: &Subject, seen: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Every record in a namespace (`None`: in all), for `status -A` and `history`; what cannot be read is an error in
    /// its place.
    fn list(&self, namespace: Option<&str>) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;
}
