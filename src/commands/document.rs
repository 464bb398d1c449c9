//! What a reading command prints: a value as JSON or YAML, and the width that a table has.

use std::io::{self, IsTerminal};

use serde_json::Value;

use super::flags::OutputFormat;
use crate::core::exit::Exit;
use crate::error::{CommandError, CommandResult};

/// The value as the format wants it; `None` for the formats that are for people.
pub fn document(format: &OutputFormat, value: impl FnOnce() -> Value) -> CommandResult<Option<String>> {
    match format {
        OutputFormat::Json => Ok(Some(format!("{:#}\n", value()))),
        OutputFormat::Yaml => yaml(&value()).map(Some),
        OutputFormat::Table | OutputFormat::Wide | OutputFormat::Name | OutputFormat::JsonPath(_) => Ok(None),
    }
}

fn yaml(value: &Value) -> CommandResult<String> {
    serde_saphyr::to_string(value).map_err(|error| CommandError::new(Exit::Unexpected, error))
}

/// Columns of the terminal behind stdout; no limit where there is none, so that nothing is cut in a pipe.
pub fn columns() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    terminal_size::terminal_size_of(io::stdout()).map_or(80, |(columns, _)| usize::from(columns.0))
}
