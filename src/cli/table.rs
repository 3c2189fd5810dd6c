//! Lists: aligned columns for eyes, or JSON for programs.

use std::io::{self, Write};

use serde_json::{Map, Value};

use crate::telemetry::escape;

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table with these headings, which are JSON's names too.
    pub fn new(headings: &'static [&'static str]) -> Table {
        Table {
            headings,
            rows: Vec::new(),
        }
    }

    /// Adds a row, which has a value for each heading.
    pub fn row<const N: usize>(&mut self, cells: [Value; N]) {
        self.rows.push(cells.into());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the rows as columns. Nothing, not even headings, when there are none.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let headings = self
            .headings
            .iter()
            .map(|heading| heading.replace('_', " ").to_uppercase())
            .collect();
        let mut rows: Vec<Vec<String>> = vec![headings];
        rows.extend(self.rows.iter().map(|row| row.iter().map(cell).collect()));
        let mut widths = vec![0; self.headings.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &rows {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', 2 + width - cell.chars().count()));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Writes the rows as a JSON array of objects.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let object = |row: &Vec<Value>| {
            let names = self.headings.iter().map(ToString::to_string);
            Value::Object(names.zip(row.iter().cloned()).collect::<Map<_, _>>())
        };
        let rows: Vec<Value> = self.rows.iter().map(object).collect();
        serde_json::to_writer_pretty(&mut *out, &rows)?;
        writeln!(out)
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => escape::terminal(text).replace('\n', "\\n"),
        Value::Array(values) if values.is_empty() => "-".to_owned(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_cannot_break_out() {
        let mut table = Table::new(&["name", "tag", "valid_until"]);
        table.row(["Zürich".into(), "zrh".into(), Value::Null]);
        table.row(["a\nb\x1b[2J".into(), 5.into(), json!(["x", "y"])]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "NAME           TAG  VALID UNTIL\nZürich         zrh  -\na\\nb\\u{1b}[2J  5    x, y\n"
        );
        let mut out = Vec::new();
        table.write_json(&mut out).unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            json[1],
            json!({ "name": "a\nb\u{1b}[2J", "tag": 5, "valid_until": ["x", "y"] })
        );
    }
}
