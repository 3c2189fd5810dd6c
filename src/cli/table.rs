//! Aligned columns for eyes.

use std::io::{self, Write};

use crate::telemetry::escape;

/// Rows under headings; the last column is not padded.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|heading| heading.to_uppercase()).collect()],
        }
    }

    /// Adds a row, which has as many cells as there are headings.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| escape::terminal(&cell).replace('\n', "\\n"))
                .collect(),
        );
    }

    /// Writes the table. Nothing when it has no rows but the headings.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.len() < 2 {
            return Ok(());
        }
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_cannot_break_out() {
        let mut table = Table::new(&["name", "tag"]);
        table.row(["Zürich".to_owned(), "zrh".to_owned()]);
        table.row(["a\nb\x1b[2J".to_owned(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "NAME           TAG\nZürich         zrh\na\\nb\\u{1b}[2J\n"
        );
    }
}
