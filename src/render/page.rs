//! A page of text for stdout: fields with their names, tables, blank lines; wrapped between words to the width there is.

use std::fmt::Write as _;

use super::table::Table;
use super::text;

/// The page as it grows. Everything added must be clean already (`text::clean`); tables clean their own cells.
#[derive(Debug)]
pub struct Page {
    columns: usize,
    text: String,
}

/// The width of the names of fields, with the gap.
const LABEL: usize = 11;
/// A value gets at most this many lines.
const LINES: usize = 12;

impl Page {
    /// `columns`: of the terminal; `usize::MAX` where nothing is to be wrapped.
    pub fn new(columns: usize) -> Self {
        Self { columns, text: String::new() }
    }

    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// `name       value`; an empty name goes on with the field above.
    pub fn field(&mut self, name: &str, value: &str) {
        let room = if self.columns == usize::MAX { usize::MAX } else { self.columns.saturating_sub(LABEL).max(LABEL) };
        let lines = if room == usize::MAX { vec![value.into()] } else { text::wrap(value, room, LINES) };
        for (at, line) in lines.iter().enumerate() {
            let label = text::pad(if at == 0 { name } else { "" }, LABEL);
            // A name as long as the column still has to be told from its value.
            let gap = if label.ends_with(' ') || line.is_empty() { "" } else { " " };
            let _ = writeln!(self.text, "{}", format!("{label}{gap}{line}").trim_end());
        }
    }

    /// The same name for several values.
    pub fn fields(&mut self, name: &str, values: &[String]) {
        for (at, value) in values.iter().enumerate() {
            self.field(if at == 0 { name } else { "" }, value);
        }
    }

    pub fn line(&mut self, line: &str) {
        let lines = if self.columns == usize::MAX { vec![line.into()] } else { text::wrap(line, self.columns, LINES) };
        for line in lines {
            let _ = writeln!(self.text, "{line}");
        }
    }

    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub fn table(&mut self, table: &Table) {
        let _ = write!(self.text, "{table}");
    }

    /// The page without blank lines at its end.
    pub fn into_text(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        self.text.push('\n');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_wrapped_under_themselves() {
        let mut page = Page::new(40);
        page.field("workload", "deployment/web");
        page.field("note", "one two three four five six seven eight");
        page.gap();
        page.line("the end");
        let want =
            "workload   deployment/web\nnote       one two three four five six\n           seven eight\n\nthe end\n";
        assert_eq!(page.into_text(), want);
    }
}
