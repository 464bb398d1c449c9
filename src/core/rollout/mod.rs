//! A run: from the first recorded intent to the last pod seen at its target, or back at its baseline.

pub mod cause;
pub mod event;
pub mod outcome;
pub mod waiting;
