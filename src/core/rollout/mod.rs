//! A run: from the first recorded intent to the last pod seen at its target, or back at its baseline.
//!
//! `step` is the one place where a phase changes. It takes the rollout by value and returns the next one with the
//! effects, the events and what it waits for; what was seen and what time it is come in the observation.

pub mod cause;
pub mod effect;
pub mod event;
#[cfg(test)]
mod laws;
mod look;
pub mod observation;
pub mod outcome;
mod send;
mod state;
mod step;
pub mod survey;
mod take;
mod wait;
pub mod waiting;

pub use state::Rollout;
pub use step::{Step, step};
