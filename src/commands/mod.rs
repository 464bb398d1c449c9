//! One file for each command: its arguments (the help text is their doc comment) and its `run`.
//! May not: decide anything about the domain.

pub mod candidates;
pub mod check;
pub mod completion;
pub mod flags;
pub mod reference;
