//! The question before anything is changed.

use std::io::{self, BufRead, IsTerminal};

use super::session::tell;
use crate::error::{CommandError, CommandResult};

/// Asks when a person can answer; otherwise `--yes` has to have been given. `what` says context, namespace, workload and
/// counts. `false`: the person said no.
pub fn confirm(what: &str, yes: bool) -> CommandResult<bool> {
    if yes {
        return Ok(true);
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(CommandError::usage(format!("nobody can be asked here and --yes was not given: {what}"))
            .hint("add --yes to go on without a question"));
    }
    tell(&format!("{what}\nGo on? [y/N] "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
