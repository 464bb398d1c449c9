//! `kubectl kapr`: resizes the running pods of a workload in place, a few at a time, proves it, or undoes it exactly.

pub mod core;
pub mod sandbox;
