//! `kubectl kapr`: resizes the running pods of a workload in place, a few at a time, proves it, or undoes it exactly.
//!
//! The modules in the direction of the arrows (docs/architecture.md): `commands` wires ports and calls `engine`; `engine`
//! drives `core` against the ports `cluster` and `store`; `render` reads the events that come out.

pub mod clock;
pub mod cluster;
pub mod commands;
pub mod core;
pub mod engine;
pub mod render;
pub mod source;
pub mod store;
