use std::fmt::Write as _;

use anstyle::Style;

/// Columns of text, aligned; the last one is as long as it likes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
struct Cell {
    text: String,
    style: Style,
}

impl Table {
    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(&str, Style); N]) {
        let cell = |(text, style): (&str, Style)| Cell { text: super::one_line(text), style };
        let mut row: Vec<Cell> = cells.into_iter().map(cell).collect();
        let used = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |last| last + 1);
        row.truncate(used);
        self.rows.push(row);
    }

    /// Adds a row without colour.
    pub(crate) fn plain<const N: usize>(&mut self, cells: [&str; N]) {
        self.row(cells.map(|text| (text, Style::new())));
    }

    /// The rows, each indented by two spaces and ended by a newline.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let not_last = self.rows.iter().filter(|row| row.len() > column + 1);
            not_last.map(|row| row[column].text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut gap = 2;
            for (cell, width) in row.iter().zip(&widths) {
                let Cell { text, style } = cell;
                let _ = write!(out, "{:gap$}{style}{text}{style:#}", "");
                gap = width.saturating_sub(text.chars().count()) + 2;
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_but_the_last() {
        let mut table = Table::default();
        table.plain(["a", "bé", "one"]);
        table.plain(["long", "b", "a longer last cell"]);
        table.plain(["x", ""]);
        assert_eq!(table.render(), "  a     bé  one\n  long  b   a longer last cell\n  x\n");
    }
}
