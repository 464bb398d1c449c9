//! Tables as kubectl prints them: no lines, upper-case heads, a gap of at least two spaces, so that `awk` can read them.

use std::fmt;

use comfy_table::presets::NOTHING;

use super::text;

/// A table with columns that are always shown and columns of `-o wide`.
pub struct Table {
    columns: &'static [Column],
    wide: bool,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    pub head: &'static str,
    pub shown: Shown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    Always,
    /// With `-o wide` only.
    Wide,
}

impl Column {
    pub const fn new(head: &'static str) -> Self {
        Self { head, shown: Shown::Always }
    }

    pub const fn wide(head: &'static str) -> Self {
        Self { head, shown: Shown::Wide }
    }
}

/// What a cell gives up where a line would be too wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    End,
    /// For names, which differ in their last letters.
    Middle,
}

/// Between two columns.
const GAP: usize = 2;
/// Less than this and a cell says nothing.
const LEAST: usize = 8;

/// What kubectl prints for a value that is not there.
const NONE: &str = "<none>";

impl Table {
    pub fn new(columns: &'static [Column], wide: bool) -> Self {
        Self { columns, wide, rows: Vec::new() }
    }

    /// A cell for each column, those of `-o wide` too. Cells are made safe here; an empty one becomes `<none>`.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len(), "a cell for each column");
        let safe = |cell: String| if cell.is_empty() { NONE.to_owned() } else { text::clean(&cell).into_owned() };
        self.rows.push(cells.into_iter().map(safe).collect());
    }

    /// Cuts cells until no line is wider than `columns`: those of the first named column, then those of the next. None is
    /// cut below `LEAST`, so that a terminal that is too narrow wraps rather than shows nothing.
    pub fn fit(&mut self, columns: usize, cuts: &[(usize, Cut)]) {
        for (index, cut) in cuts {
            let visible = self.visible().collect::<Vec<_>>();
            let widths = visible.iter().map(|at| self.column_width(*at)).collect::<Vec<_>>();
            let over = (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(columns);
            let Some(place) = visible.iter().position(|at| at == index).filter(|_| over > 0) else { continue };
            let most = widths[place].saturating_sub(over).max(LEAST).max(text::width(self.columns[*index].head));
            for row in &mut self.rows {
                let cell = &row[*index];
                let shorter = match cut {
                    Cut::End => text::fit(cell, most),
                    Cut::Middle => text::fit_middle(cell, most),
                };
                row[*index] = shorter.into_owned();
            }
        }
    }

    fn column_width(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| text::width(&row[index]));
        cells.max().unwrap_or(0).max(text::width(self.columns[index].head))
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn visible(&self) -> impl Iterator<Item = usize> + '_ {
        let shown = |column: &Column| self.wide || column.shown == Shown::Always;
        (0..self.columns.len()).filter(move |index| shown(&self.columns[*index]))
    }
}

impl fmt::Display for Table {
    /// Lines that end in a newline; the heads alone where there is no row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        table.set_header(self.visible().map(|index| self.columns[index].head));
        for row in &self.rows {
            table.add_row(self.visible().map(|index| row.get(index).map_or(NONE, String::as_str)));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, u16::try_from(GAP).unwrap_or(2)));
        }
        for line in table.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] =
        &[Column::new("POD"), Column::wide("NODE"), Column::new("STATE"), Column::new("MESSAGE")];

    fn table(wide: bool) -> Table {
        let mut table = Table::new(COLUMNS, wide);
        table.row(["web-1".into(), "worker-1".into(), "Ready".into(), String::new()]);
        table.row(["web-10".into(), String::new(), "Deferred".into(), "no room\x1b[2J\nforged  line".into()]);
        table
    }

    #[test]
    fn as_kubectl_prints_it() {
        let want = [
            "POD     STATE     MESSAGE\n",
            "web-1   Ready     <none>\n",
            "web-10  Deferred  no room\\x1b[2J\\nforged  line\n",
        ];
        assert_eq!(table(false).to_string(), want.concat());
    }

    #[test]
    fn wide_has_more_columns() {
        let want = [
            "POD     NODE      STATE     MESSAGE\n",
            "web-1   worker-1  Ready     <none>\n",
            "web-10  <none>    Deferred  no room\\x1b[2J\\nforged  line\n",
        ];
        assert_eq!(table(true).to_string(), want.concat());
    }

    #[test]
    fn cells_are_cut_to_the_width_in_the_order_given() {
        let mut table = Table::new(COLUMNS, false);
        table.row(["web-7d4b9c6f5-abcde".into(), String::new(), "Deferred".into(), "no room on the node".into()]);
        table.fit(48, &[(3, Cut::End), (0, Cut::Middle)]);
        assert_eq!(
            table.to_string(),
            "POD                  STATE     MESSAGE\nweb-7d4b9c6f5-abcde  Deferred  no room on the n…\n"
        );
        table.fit(36, &[(3, Cut::End), (0, Cut::Middle)]);
        assert_eq!(table.to_string(), "POD               STATE     MESSAGE\nweb-7d4…f5-abcde  Deferred  no room…\n");
    }

    #[test]
    fn no_row_leaves_the_heads() {
        assert_eq!(Table::new(COLUMNS, false).to_string(), "POD  STATE  MESSAGE\n");
    }
}
