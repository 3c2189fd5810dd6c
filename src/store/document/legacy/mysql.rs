//! A MySQL dump, read as a stream: which tables it makes with which columns, and the rows that it puts into them.
//!
//! What `mysqldump` and its likes write is understood; anything that would change rows in another way is an error, so that
//! no file is taken for less than it says. Nothing is executed: what MySQL alone can compute (`now()`) is only marked so.

use std::io::BufRead;

use super::row::{MAX_VALUE, MAX_VALUES, Row};
use super::scanner::{DumpError, Scanner};

/// Who is told what a dump says.
pub(super) trait Sink {
    /// A table is made, with these columns.
    fn table(&mut self, line: u32, name: &str, columns: Vec<String>);
    /// Rows are put into a table, whose columns may be named here. Whether they are wanted.
    fn insert(&mut self, line: u32, name: &str, columns: Option<Vec<String>>) -> bool;
    /// One of them, and the line where it begins.
    fn row(&mut self, line: u32, row: &Row);
}

/// Reads a dump to its end.
pub(super) fn read(input: impl BufRead, sink: &mut impl Sink) -> Result<(), DumpError> {
    let mut dump = Dump {
        scanner: Scanner::new(input),
        row: Row::default(),
    };
    while dump.statement(sink)? {}
    Ok(())
}

/// Statements that change no row of a table that was dumped.
const WITHOUT_ROWS: [&str; 12] = [
    "ALTER", "ANALYZE", "BEGIN", "CHANGE", "COMMIT", "DROP", "FLUSH", "LOCK", "SET", "START", "UNLOCK", "USE",
];

/// What begins a line of `CREATE TABLE` that is no column, unless it is quoted.
const NO_COLUMNS: [&str; 10] = [
    "CHECK",
    "CONSTRAINT",
    "FOREIGN",
    "FULLTEXT",
    "INDEX",
    "KEY",
    "PERIOD",
    "PRIMARY",
    "SPATIAL",
    "UNIQUE",
];

struct Dump<R> {
    scanner: Scanner<R>,
    row: Row,
}

impl<R: BufRead> Dump<R> {
    /// Reads a statement; whether there was one.
    fn statement(&mut self, sink: &mut impl Sink) -> Result<bool, DumpError> {
        self.scanner.blank()?;
        let line = self.scanner.line();
        match self.scanner.peek()? {
            None => return Ok(false),
            Some(b';') => {
                self.scanner.next()?;
                return Ok(true);
            }
            Some(_) => {}
        }
        let word = self.scanner.word()?;
        match word.as_str() {
            "" => return Err(self.scanner.unexpected("a statement should begin here")?),
            "CREATE" => self.create(line, sink)?,
            "INSERT" | "REPLACE" => self.insert(line, sink)?,
            "DELIMITER" => {
                return Err(DumpError::Syntax {
                    line,
                    what: "`DELIMITER`: the dump holds triggers or routines\n\
                           hint: dump again with `--skip-triggers`, and without `--routines` and `--events`"
                        .to_owned(),
                });
            }
            word if WITHOUT_ROWS.contains(&word) => self.rest()?,
            word => {
                return Err(DumpError::Syntax {
                    line,
                    what: format!(
                        "`{word}` is no statement of a MySQL dump\nhint: give the file as `mysqldump` writes it"
                    ),
                });
            }
        }
        Ok(true)
    }

    /// Behind `CREATE`.
    fn create(&mut self, line: u32, sink: &mut impl Sink) -> Result<(), DumpError> {
        let mut word = self.next_word()?;
        if word == "TEMPORARY" {
            word = self.next_word()?;
        }
        if word != "TABLE" {
            return self.rest();
        }
        self.scanner.blank()?;
        let mut name = self.scanner.name()?;
        // A table may be called so, but not without quotes.
        if name.eq_ignore_ascii_case("if") {
            for expected in ["NOT", "EXISTS"] {
                if self.next_word()? != expected {
                    return Err(self.scanner.unexpected(&format!("`{expected}` is missing"))?);
                }
            }
            name = self.scanner.name()?;
        }
        self.scanner.blank()?;
        if !self.scanner.take(b'(')? {
            return self.rest();
        }
        let mut columns = Vec::new();
        loop {
            self.scanner.blank()?;
            let is_quoted = matches!(self.scanner.peek()?, Some(b'`' | b'"'));
            let first = self.scanner.name()?;
            if is_quoted || !NO_COLUMNS.iter().any(|word| first.eq_ignore_ascii_case(word)) {
                self.column(&mut columns, first)?;
            }
            if self.end_of_definition()? {
                break;
            }
        }
        self.rest()?;
        sink.table(line, &name, columns);
        Ok(())
    }

    /// Takes what follows a column's name, with the comma or bracket after it; whether it was the bracket.
    fn end_of_definition(&mut self) -> Result<bool, DumpError> {
        let mut depth = 0_usize;
        loop {
            self.scanner.blank()?;
            match self.scanner.peek()? {
                Some(quote @ (b'\'' | b'"')) => {
                    self.scanner.string(quote, |_| {})?;
                    continue;
                }
                Some(b'`') => {
                    self.scanner.name()?;
                    continue;
                }
                Some(b'(') => depth += 1,
                Some(b')') if depth > 0 => depth -= 1,
                Some(octet @ (b',' | b')')) if depth == 0 => {
                    self.scanner.next()?;
                    return Ok(octet == b')');
                }
                None | Some(b';') => return Err(self.scanner.unexpected("a bracket is not closed")?),
                Some(_) => {}
            }
            self.scanner.next()?;
        }
    }

    /// Behind `INSERT`.
    fn insert(&mut self, line: u32, sink: &mut impl Sink) -> Result<(), DumpError> {
        let name = loop {
            self.scanner.blank()?;
            let is_quoted = matches!(self.scanner.peek()?, Some(b'`' | b'"'));
            let name = self.scanner.name()?;
            let words = ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"];
            if is_quoted || !words.iter().any(|word| name.eq_ignore_ascii_case(word)) {
                break name;
            }
        };
        self.scanner.blank()?;
        let columns = match self.scanner.take(b'(')? {
            true => Some(self.names()?),
            false => None,
        };
        let word = self.next_word()?;
        if word != "VALUES" && word != "VALUE" {
            return Err(DumpError::Syntax {
                line,
                what: format!("`INSERT` into `{name}` without `VALUES`\nhint: give the file as `mysqldump` writes it"),
            });
        }
        if !sink.insert(line, &name, columns) {
            return self.rest();
        }
        loop {
            self.scanner.blank()?;
            let line = self.scanner.line();
            if !self.scanner.take(b'(')? {
                return Err(self.scanner.unexpected("`(` of a row is missing")?);
            }
            self.values()?;
            sink.row(line, &self.row);
            self.scanner.blank()?;
            if self.scanner.take(b';')? {
                return Ok(());
            }
            if !self.scanner.take(b',')? {
                return Err(self.scanner.unexpected("`,` or `;` should follow a row")?);
            }
        }
    }

    /// The names of columns, behind `(`, with the `)`.
    fn names(&mut self) -> Result<Vec<String>, DumpError> {
        let mut names = Vec::new();
        loop {
            let name = self.scanner.name()?;
            self.column(&mut names, name)?;
            if self.scanner.take(b')')? {
                return Ok(names);
            }
            if !self.scanner.take(b',')? {
                return Err(self.scanner.unexpected("`,` or `)` should follow a column's name")?);
            }
        }
    }

    fn column(&mut self, columns: &mut Vec<String>, name: String) -> Result<(), DumpError> {
        if columns.len() == MAX_VALUES {
            return Err(self.too_many());
        }
        columns.push(name);
        Ok(())
    }

    /// The values of a row, behind `(`, with the `)`.
    fn values(&mut self) -> Result<(), DumpError> {
        self.row.clear();
        self.scanner.blank()?;
        // `INSERT INTO t () VALUES ()` is a row of defaults.
        if self.scanner.take(b')')? {
            return Ok(());
        }
        loop {
            if self.row.len() == MAX_VALUES {
                return Err(self.too_many());
            }
            self.value()?;
            self.scanner.blank()?;
            if self.scanner.take(b')')? {
                return Ok(());
            }
            if !self.scanner.take(b',')? {
                return Err(self.scanner.unexpected("`,` or `)` should follow a value")?);
            }
        }
    }

    fn value(&mut self) -> Result<(), DumpError> {
        self.scanner.blank()?;
        match self.scanner.peek()? {
            Some(b'\'' | b'"') => self.text(),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            Some(octet) if octet.is_ascii_alphabetic() || octet == b'_' => self.named_value(),
            _ => Err(self.scanner.unexpected("a value is missing")?),
        }
    }

    fn text(&mut self) -> Result<(), DumpError> {
        let quote = self.scanner.peek()?.unwrap_or_default();
        let row = &mut self.row;
        self.scanner.string(quote, |piece| row.extend(piece))?;
        self.row.end();
        Ok(())
    }

    /// `-12.5e-3`, `0xC0FFEE`, `0b101`.
    fn number(&mut self) -> Result<(), DumpError> {
        let row = &mut self.row;
        let is_part = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'+' | b'.' | b'_');
        self.scanner.take_while(is_part, |piece| row.extend(piece))?;
        match self.row.current() {
            [b'0', b'x' | b'X', ..] => self.literal(2, 16),
            [b'0', b'b' | b'B', ..] => self.literal(2, 2),
            written if is_number(written) || written.len() > MAX_VALUE => {
                self.row.end();
                Ok(())
            }
            _ => Err(self.no_value()),
        }
    }

    /// Puts what digits stand for into their place, those behind the first `skip` octets of the value.
    fn literal(&mut self, skip: usize, radix: u32) -> Result<(), DumpError> {
        let written = self.row.current();
        // One that is too long was not kept whole.
        if written.len() <= MAX_VALUE {
            let Some(octets) = from_digits(written.get(skip..).unwrap_or_default(), radix) else {
                return Err(self.no_value());
            };
            self.row.replace(&octets);
        }
        self.row.end();
        Ok(())
    }

    /// `NULL`, `_binary 'a'`, `X'61'`, `b'1'`, `now()`.
    fn named_value(&mut self) -> Result<(), DumpError> {
        let word = self.scanner.word()?;
        let is_before_quote = self.scanner.peek()? == Some(b'\'');
        match word.as_str() {
            "NULL" => self.row.null(),
            "TRUE" | "FALSE" => {
                self.row.extend(if word == "TRUE" { b"1" } else { b"0" });
                self.row.end();
            }
            "N" if is_before_quote => self.text()?,
            "X" | "B" if is_before_quote => {
                let row = &mut self.row;
                self.scanner.string(b'\'', |piece| row.extend(piece))?;
                self.literal(0, if word == "X" { 16 } else { 2 })?;
            }
            // A character set, as in `_binary 'a'`: the value follows.
            word if word.starts_with('_') => {
                self.scanner.blank()?;
                return match self.scanner.peek()? {
                    Some(b'\'' | b'"') => self.text(),
                    Some(b'0') => self.number(),
                    Some(b'x' | b'X' | b'b' | b'B') => self.literal_behind_character_set(),
                    _ => Err(self.scanner.unexpected("a string should follow the character set")?),
                };
            }
            _ => {
                self.scanner.blank()?;
                if self.scanner.take(b'(')? {
                    self.end_of_brackets()?;
                }
                self.row.expression();
            }
        }
        Ok(())
    }

    /// `X'61'` behind `_binary`: no second character set may follow.
    fn literal_behind_character_set(&mut self) -> Result<(), DumpError> {
        match self.scanner.second()? {
            Some(b'\'') => self.named_value(),
            _ => Err(self.scanner.unexpected("a string should follow the character set")?),
        }
    }

    /// Takes the rest of what is in brackets, behind `(`, with the `)`.
    fn end_of_brackets(&mut self) -> Result<(), DumpError> {
        while !self.end_of_definition()? {}
        Ok(())
    }

    /// Takes the rest of a statement, with the `;`. The last of a file needs none.
    fn rest(&mut self) -> Result<(), DumpError> {
        loop {
            self.scanner.blank()?;
            match self.scanner.peek()? {
                Some(quote @ (b'\'' | b'"')) => self.scanner.string(quote, |_| {})?,
                Some(b'`') => _ = self.scanner.name()?,
                None => return Ok(()),
                Some(octet) => {
                    self.scanner.next()?;
                    if octet == b';' {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn next_word(&mut self) -> Result<String, DumpError> {
        self.scanner.blank()?;
        Ok(self.scanner.word()?)
    }

    fn too_many(&self) -> DumpError {
        DumpError::Syntax {
            line: self.scanner.line(),
            what: format!("more than {MAX_VALUES} columns\nhint: give the file as `mysqldump` writes it"),
        }
    }

    /// What was read is no value. It is not shown: it may be a secret without its quotes.
    fn no_value(&self) -> DumpError {
        DumpError::Syntax {
            line: self.scanner.line(),
            what: "a value that is neither a string nor a number\nhint: give the file as `mysqldump` writes it"
                .to_owned(),
        }
    }
}

/// An optional sign, digits with a point among them, an optional exponent.
fn is_number(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.bytes().any(|octet| octet.is_ascii_digit()) && !text.contains('_') && text.parse::<f64>().is_ok()
}

/// The octets of a hexadecimal or binary literal, filled up with zeros in front.
fn from_digits(digits: &[u8], radix: u32) -> Option<Vec<u8>> {
    let (in_octet, bits) = if radix == 16 { (2, 4) } else { (8, 1) };
    let mut octets = Vec::with_capacity(digits.len().div_ceil(in_octet));
    for group in digits.rchunks(in_octet).rev() {
        let mut octet = 0_u32;
        for digit in group {
            octet = octet << bits | char::from(*digit).to_digit(radix)?;
        }
        octets.push(u8::try_from(octet).ok()?);
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::super::row::Value;
    use super::*;

    /// What a dump said, as text.
    #[derive(Default)]
    struct Said(Vec<String>);

    impl Sink for Said {
        fn table(&mut self, line: u32, name: &str, columns: Vec<String>) {
            self.0.push(format!("{line}: {name} has {}", columns.join(" ")));
        }

        fn insert(&mut self, line: u32, name: &str, columns: Option<Vec<String>>) -> bool {
            let columns = columns.map_or_else(|| "?".to_owned(), |names| names.join(" "));
            self.0.push(format!("{line}: into {name} ({columns})"));
            name != "ignored"
        }

        fn row(&mut self, line: u32, row: &Row) {
            let values = (0..row.len()).filter_map(|at| row.value(at)).map(show);
            self.0.push(format!("{line}: {}", values.collect::<Vec<_>>().join("|")));
        }
    }

    fn show(value: Value<'_>) -> String {
        match value {
            Value::Octets(octets) => octets.escape_ascii().to_string(),
            other => format!("{other:?}"),
        }
    }

    fn said(text: &str) -> Vec<String> {
        let mut said = Said::default();
        if let Err(error) = read(text.as_bytes(), &mut said) {
            let line = match &error {
                DumpError::Syntax { line, .. } => *line,
                DumpError::Io(_) => 0,
            };
            said.0.push(format!("{line}! {error}"));
        }
        said.0
    }

    const DUMP: &str = r"-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!50503 SET NAMES utf8mb4 */;
SET @@SESSION.SQL_LOG_BIN= 0;

DROP TABLE IF EXISTS `a`;
CREATE TABLE IF NOT EXISTS `db`.`a` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `key` decimal(10,2) DEFAULT '0.00' COMMENT 'it''s (a, b)',
  kind enum('x','y)') /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`),
  UNIQUE KEY `index_a` (`key`,`kind`),
  CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `b` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8;
LOCK TABLES `a` WRITE;
/*!40000 ALTER TABLE `a` DISABLE KEYS */;
INSERT INTO `a` VALUES (1,'it\'s; (''x''), -- no',NULL),(-2,1.5e-05,_binary 'b\0'),
  (0x6162,X'636',b'101'), (TRUE, now(), CURRENT_TIMESTAMP);
INSERT INTO `ignored` VALUES (1,'); INSERT INTO `a` VALUES (''x'');');
INSERT IGNORE INTO a (`kind`, id) VALUES (_utf8mb4 0x61, 7);
UNLOCK TABLES;
-- Dump completed on 2026-11-30 18:42:00
";

    #[test]
    fn what_mysqldump_writes() {
        assert_eq!(
            said(DUMP),
            [
                "7: a has id key kind",
                "17: into a (?)",
                "17: 1|it\\'s; (\\'x\\'), -- no|Null",
                "17: -2|1.5e-05|b\\x00",
                "18: ab|\\x066|\\x05",
                "18: 1|Expression|Expression",
                "19: into ignored (?)",
                "20: into a (kind id)",
                "20: a|7",
            ]
        );
    }

    #[test]
    fn anything_else_is_refused_with_its_line() {
        for (text, line, what) in [
            ("\nDELIMITER ;;\n", 2, "`DELIMITER`: the dump holds triggers"),
            ("UPDATE a SET x = 1;", 1, "`UPDATE` is no statement"),
            ("COPY a FROM stdin;", 1, "`COPY` is no statement"),
            ("\n\n[[policy]]", 3, "a statement should begin here, `[` stands there"),
            ("INSERT INTO a SELECT 1;", 1, "`INSERT` into `a` without `VALUES`"),
            (
                "INSERT INTO a VALUES (1)",
                1,
                "the file ends here: is the dump complete?",
            ),
            (
                "INSERT INTO a VALUES (1),\n",
                2,
                "`(` of a row is missing, the file ends",
            ),
            (
                "INSERT INTO a VALUES (1,\n'x",
                2,
                "the string that begins here has no end",
            ),
            (
                "INSERT INTO a VALUES (1) ON DUPLICATE KEY UPDATE x = 1;",
                1,
                "`,` or `;` should follow a row, `O`",
            ),
            (
                "INSERT INTO a VALUES (1 + 1);",
                1,
                "`,` or `)` should follow a value, `+`",
            ),
            ("INSERT INTO a VALUES (1a2);", 1, "neither a string nor a number"),
            ("INSERT INTO a VALUES (0xg);", 1, "neither a string nor a number"),
            ("INSERT INTO a VALUES (-);", 1, "neither a string nor a number"),
            ("INSERT INTO a VALUES (,);", 1, "a value is missing, `,` stands there"),
            (
                "INSERT INTO a VALUES (_binary _binary 'x');",
                1,
                "a string should follow the character set",
            ),
            (
                "CREATE TABLE a (\nid int;",
                2,
                "a bracket is not closed, `;` stands there",
            ),
            ("CREATE TABLE a (id int", 1, "a bracket is not closed, the file ends"),
            ("/* x", 1, "the comment that begins here has no end"),
        ] {
            let said = said(text);
            let last = said.last().map_or("", |line| line);
            assert!(
                last.starts_with(&format!("{line}! ")) && last.contains(what),
                "{text}: {last}"
            );
        }
        let many = format!("INSERT INTO a VALUES ({}1);", "1,".repeat(MAX_VALUES));
        assert!(
            said(&many)
                .last()
                .is_some_and(|last| last.contains("more than 4096 columns"))
        );
    }

    #[test]
    fn long_values_are_not_kept() {
        let long = "x".repeat(MAX_VALUE + 1);
        let text = format!(
            "INSERT INTO a VALUES ('{long}', 'b'), ('{y}', 0x{long}, X'{long}', 1{long});",
            y = "y".repeat(MAX_VALUE)
        );
        let said = said(&text);
        assert_eq!(said[1], "1: TooLong|b");
        assert!(said[2].ends_with("yyy|TooLong|TooLong|TooLong"), "{}", said.len());
    }

    /// A value as `mysqldump` writes it.
    fn written(value: &Option<Vec<u8>>, style: u8) -> Vec<u8> {
        let Some(value) = value else { return b"NULL".to_vec() };
        if style == 0 && !value.is_empty() {
            let digits: String = value.iter().map(|octet| format!("{octet:02X}")).collect();
            return format!("0x{digits}").into_bytes();
        }
        let mut text = if style == 1 {
            b"_binary '".to_vec()
        } else {
            b"'".to_vec()
        };
        for octet in value {
            match octet {
                b'\'' if style == 2 => text.extend(b"''"),
                b'\'' | b'"' | b'\\' => text.extend([b'\\', *octet]),
                b'\n' => text.extend(b"\\n"),
                0 => text.extend(b"\\0"),
                _ => text.push(*octet),
            }
        }
        text.push(b'\'');
        text
    }

    fn rows(values: &[Vec<Option<Vec<u8>>>]) -> Vec<String> {
        let show = |value: &Option<Vec<u8>>| match value {
            None => "Null".to_owned(),
            Some(octets) => octets.escape_ascii().to_string(),
        };
        values
            .iter()
            .map(|row| row.iter().map(show).collect::<Vec<_>>().join("|"))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// What was dumped is read, wherever the buffer ends.
        #[test]
        fn rows_read_back(
            values in prop::collection::vec(prop::collection::vec(any::<Option<Vec<u8>>>(), 1..5), 1..5),
            styles in prop::collection::vec(0_u8..4, 1..20),
            size in 1_usize..9,
        ) {
            let mut text = b"INSERT INTO `a` VALUES ".to_vec();
            let mut styles = styles.iter().cycle();
            for (at, row) in values.iter().enumerate() {
                text.extend(if at == 0 { &b"("[..] } else { b",(" });
                for (at, value) in row.iter().enumerate() {
                    text.extend(if at == 0 { &b""[..] } else { b"," });
                    text.extend(written(value, *styles.next().unwrap()));
                }
                text.push(b')');
            }
            text.extend(b";\n");
            let mut said = Said::default();
            prop_assert!(read(BufReader::with_capacity(size, &text[..]), &mut said).is_ok());
            let found: Vec<String> =
                said.0[1..].iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
            prop_assert_eq!(found, rows(&values));
        }

        #[test]
        fn no_octets_break_the_reader(
            octets: Vec<u8>,
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "INSERT INTO a VALUES ", "CREATE TABLE a ", "(", ")", ",", ";", "'", "`", "\"", "\\", "--", "#", "/*!", "*/",
                    "0x", "X'", "_binary ", "NULL", "1", "\n", "now()", ".",
                ]),
                0..30,
            ),
        ) {
            let _ = read(&octets[..], &mut Said::default());
            let _ = read(words.concat().as_bytes(), &mut Said::default());
        }
    }
}
