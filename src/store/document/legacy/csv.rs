//! A table as CSV (RFC 4180), read as a stream: a header with the columns' names, then the rows. NULL is `\N`, or nothing.
//!
//! Quotes that do not fit are an error rather than a guess: what follows them would be in the wrong columns.

use std::io::BufRead;

use super::mysql::Sink;
use super::row::{MAX_VALUES, Row, Value};
use super::scanner::{DumpError, Scanner};

/// Reads the table `name` to its end.
pub(super) fn read(name: &str, input: impl BufRead, sink: &mut impl Sink) -> Result<(), DumpError> {
    let mut table = Table {
        scanner: Scanner::new(input),
        row: Row::default(),
    };
    table.byte_order_mark()?;
    let Some(line) = table.record()? else {
        return Err(DumpError::Syntax {
            line: 1,
            what: "the file is empty\nhint: its first line names the columns".to_owned(),
        });
    };
    sink.table(line, name, table.names());
    if !sink.insert(line, name, None) {
        return Ok(());
    }
    while let Some(line) = table.record()? {
        sink.row(line, &table.row);
    }
    Ok(())
}

struct Table<R> {
    scanner: Scanner<R>,
    row: Row,
}

impl<R: BufRead> Table<R> {
    /// What some programs put in front of UTF-8.
    fn byte_order_mark(&mut self) -> Result<(), DumpError> {
        if self.scanner.peek()? == Some(0xef) && self.scanner.second()? == Some(0xbb) {
            for _ in 0..3 {
                self.scanner.next()?;
            }
        }
        Ok(())
    }

    /// Reads a record into the row; the line where it begins, or none at the end. Empty lines are no records.
    fn record(&mut self) -> Result<Option<u32>, DumpError> {
        self.scanner
            .take_while(|octet| matches!(octet, b'\r' | b'\n'), |_| {})?;
        let line = self.scanner.line();
        if self.scanner.peek()?.is_none() {
            return Ok(None);
        }
        self.row.clear();
        while self.field(line)? {}
        Ok(Some(line))
    }

    /// Reads a field with what ends it; whether another follows.
    fn field(&mut self, line: u32) -> Result<bool, DumpError> {
        let row = &mut self.row;
        if self.scanner.take(b'"')? {
            loop {
                self.scanner
                    .take_while(|octet| octet != b'"', |piece| row.extend(piece))?;
                if self.scanner.next()?.is_none() {
                    return Err(quotes(line, "is not closed"));
                }
                if !self.scanner.take(b'"')? {
                    break;
                }
                row.extend(b"\"");
            }
        } else {
            let is_part = |octet: u8| !matches!(octet, b',' | b'"' | b'\r' | b'\n');
            self.scanner.take_while(is_part, |piece| row.extend(piece))?;
        }
        // One too many is enough to be refused; more are not kept.
        if row.len() > MAX_VALUES {
            row.drop_last();
        }
        match row.current() {
            b"" | b"\\N" => row.null(),
            _ => row.end(),
        }
        match self.scanner.next()? {
            Some(b',') => Ok(true),
            Some(b'\n') | None => Ok(false),
            Some(b'\r') if matches!(self.scanner.peek()?, Some(b'\n') | None) => {
                self.scanner.next()?;
                Ok(false)
            }
            Some(_) => Err(quotes(line, "is not where a value begins or ends")),
        }
    }

    /// The row as the columns' names.
    fn names(&self) -> Vec<String> {
        let name = |at| match self.row.value(at) {
            Some(Value::Octets(octets)) => String::from_utf8_lossy(octets).trim().to_owned(),
            _ => String::new(),
        };
        (0..self.row.len()).map(name).collect()
    }
}

fn quotes(line: u32, what: &str) -> DumpError {
    DumpError::Syntax {
        line,
        what: format!(
            "in the row that begins here a quote {what}\n\
             hint: a value with a quote, a comma or an end of line is put into quotes, and each quote in it is doubled"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Said(Vec<String>);

    impl Sink for Said {
        fn table(&mut self, line: u32, name: &str, columns: Vec<String>) {
            self.0.push(format!("{line}: {name} has {}", columns.join(" ")));
        }

        fn insert(&mut self, _: u32, _: &str, _: Option<Vec<String>>) -> bool {
            true
        }

        fn row(&mut self, line: u32, row: &Row) {
            let values = (0..row.len()).filter_map(|at| row.value(at)).map(|value| match value {
                Value::Octets(octets) => octets.escape_ascii().to_string(),
                other => format!("{other:?}"),
            });
            self.0.push(format!("{line}: {}", values.collect::<Vec<_>>().join("|")));
        }
    }

    fn said(text: &str) -> Vec<String> {
        let mut said = Said::default();
        if let Err(error) = read("t", text.as_bytes(), &mut said) {
            let line = match &error {
                DumpError::Syntax { line, .. } => *line,
                DumpError::Io(_) => 0,
            };
            said.0.push(format!("{line}! {error}"));
        }
        said.0
    }

    #[test]
    fn rows_with_their_lines() {
        let text = "\u{feff}id,name, tag\r\n1,\"a \"\"b\"\",\nc\",\\N\r\n\r\n\n2,,x\n\"3\"\n4,";
        let expected = [
            "1: t has id name tag",
            "2: 1|a \\\"b\\\",\\nc|Null",
            "6: 2|Null|x",
            "7: 3",
            "8: 4|Null",
        ];
        assert_eq!(said(text), expected);
    }

    #[test]
    fn what_is_no_table() {
        for (text, line, what) in [
            ("", 1, "the file is empty"),
            ("\n\r\n", 1, "the file is empty"),
            ("id\n1\n\"x\n", 3, "a quote is not closed"),
            ("id\n\"x\"y\n", 2, "a quote is not where a value begins or ends"),
            ("id\nx\"y\"\n", 2, "a quote is not where a value begins or ends"),
            (
                "id,name\n1,\"a\\\"b\"\n",
                2,
                "a quote is not where a value begins or ends",
            ),
        ] {
            let said = said(text);
            let last = said.last().map_or("", |line| line);
            assert!(
                last.starts_with(&format!("{line}! ")) && last.contains(what),
                "{text}: {last}"
            );
        }
        let wide = said(&format!("id\n{}\n", ",".repeat(3 * MAX_VALUES)));
        assert_eq!(wide[1].matches("Null").count(), MAX_VALUES + 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// What was written is read, wherever the buffer ends.
        #[test]
        fn rows_read_back(
            rows in prop::collection::vec(prop::collection::vec("[a\",\\r\\n\\\\N]{0,6}", 2..5), 0..5),
            size in 1_usize..9,
        ) {
            let mut text = "a,b\n".to_owned();
            for row in &rows {
                let values: Vec<String> = row.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect();
                text.push_str(&values.join(","));
                text.push_str("\r\n");
            }
            let mut said = Said::default();
            prop_assert!(read("t", BufReader::with_capacity(size, text.as_bytes()), &mut said).is_ok());
            let found: Vec<String> = said.0[1..].iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
            let show = |value: &String| match value.as_str() {
                "" | "\\N" => "Null".to_owned(),
                value => value.as_bytes().escape_ascii().to_string(),
            };
            let expected: Vec<String> = rows.iter().map(|row| row.iter().map(show).collect::<Vec<_>>().join("|")).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_text_breaks_the_reader(text in "[a\",\\r\\n\u{feff}]{0,40}") {
            let _ = said(&text);
        }
    }
}
