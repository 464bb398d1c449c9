//! Stories of runs on the embedded cluster, in process and with tokio's clock paused: hours pass in milliseconds.

mod changing_world;
mod crashes;
mod faults;
mod main_job;
mod stage;
mod supersede;
