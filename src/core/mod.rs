//! The pure core: everything that is decided, and nothing that is done.
//!
//! No async, no clock, no environment, no files, no randomness, no Kubernetes types. Time arrives as a field of the
//! observation; effects leave as data. The lint wall below and `tests/it/architecture.rs` keep it so.
#![deny(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::wildcard_enum_match_arm,
    clippy::iter_over_hash_type,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used
)]

pub mod admission;
pub mod eligibility;
pub mod exit;
pub mod follow;
pub mod health;
pub mod journal;
pub mod lock;
pub mod nearest;
pub mod plan;
pub mod pod;
pub mod policy;
pub mod qos;
pub mod quantity;
pub mod recommendation;
pub mod refusal;
pub mod resize;
pub mod resources;
pub mod reversibility;
pub mod revision;
pub mod rollout;
pub mod selection;
pub mod share;
pub mod status;
#[cfg(test)]
pub mod testing;
pub mod time;
pub mod workload;
