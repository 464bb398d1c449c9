//! The real binary on real clusters, one file for each subject. What is asserted is what kubectl sees, what the process
//! said, and what the record holds.
//!
//! `tests/e2e.sh` brings the clusters up and takes them down. A test runs on the cluster whose folder `KAPR_E2E_137` or
//! `KAPR_E2E_134` names, and says "skipped: no cluster" where there is none.

mod changed;
mod cluster;
mod died;
mod kinds;
mod manifest;
mod operators;
mod process;
mod record;
mod refused;
mod restarts;
mod room;
mod steps;

pub use cluster::{Place, Pod, Version, wait_for};
pub use process::Running;
