//! `kubectl kapr`: resizes the running pods of a workload in place, a few at a time, proves it, or undoes it exactly.
//!
//! The modules in the direction of the arrows (docs/architecture.md): `commands` wires ports and calls `engine`; `engine`
//! drives `core` against the ports `cluster` and `store`; `render` reads the events that come out.

pub mod clock;
pub mod cluster;
pub mod commands;
pub mod core;
pub mod engine;
pub mod error;
pub mod render;
pub mod source;
pub mod store;

use std::process::ExitCode;

use clap::Parser;

use crate::core::exit::Exit;

/// Answers the shell when it asks for completions, otherwise runs the command line of this process.
pub fn main() -> ExitCode {
    commands::completion::answer_shell(commands::command);
    // The one TLS provider; whoever installed one before us is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match commands::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with 0, usage errors to stderr with 2; a closed pipe is no reason to panic.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            commands::session::tell(&format!("error: cannot start: {error}\n"));
            return ExitCode::from(Exit::Unexpected.code());
        }
    };
    let exit = match runtime.block_on(commands::run(cli)) {
        Ok(exit) => exit,
        Err(error) => {
            commands::session::tell(&error.render());
            error.exit
        }
    };
    // Requests that nobody waits for any more must not hold the process back.
    runtime.shutdown_background();
    ExitCode::from(exit.code())
}
pub mod sandbox;
