//! A MySQL dump, or a table as CSV, from anywhere. However it comes in, it says the same; what is kept of it has bounds; and the
//! rows that were read, written as `mysqldump` writes them, read back.

#[path = "../../src/store/document/legacy/csv.rs"]
mod csv;
#[path = "../../src/store/document/legacy/mysql.rs"]
mod mysql;
#[path = "../../src/store/document/legacy/row.rs"]
mod row;
#[path = "../../src/store/document/legacy/scanner.rs"]
mod scanner;

use std::io::{BufRead, BufReader};

use mysql::Sink;
use row::{MAX_VALUE, MAX_VALUES, Row, Value};
use scanner::DumpError;

/// What a dump says, and the text of a dump that says the same.
#[derive(Default, PartialEq, Debug)]
struct Said {
    events: Vec<String>,
    text: Vec<u8>,
    columns: usize,
}

impl Sink for Said {
    fn table(&mut self, line: u32, name: &str, columns: Vec<String>) {
        assert!(columns.len() <= MAX_VALUES);
        self.events.push(format!("{line} table {name} {columns:?}"));
    }

    fn insert(&mut self, line: u32, name: &str, columns: Option<Vec<String>>) -> bool {
        self.events.push(format!("{line} insert {name} {columns:?}"));
        !name.starts_with('z')
    }

    fn row(&mut self, line: u32, row: &Row) {
        assert!(row.len() <= MAX_VALUES && row.value(row.len()).is_none());
        self.columns += row.len();
        let mut values: Vec<Vec<u8>> = Vec::new();
        for at in 0..row.len() {
            values.push(match row.value(at) {
                Some(Value::Octets(octets)) => {
                    assert!(octets.len() <= MAX_VALUE);
                    written(octets)
                }
                Some(Value::Null) => b"NULL".to_vec(),
                Some(Value::Expression) => b"now()".to_vec(),
                Some(Value::TooLong) => written(&[b'x'; MAX_VALUE + 1]),
                None => panic!("value {at} of {} is not there", row.len()),
            });
        }
        self.events.push(format!("{line} row of {}", values.len()));
        self.text.extend(b"INSERT INTO `a` VALUES (");
        self.text.extend(values.join(&b","[..]));
        self.text.extend(b");\n");
    }
}

fn written(octets: &[u8]) -> Vec<u8> {
    let mut text = b"'".to_vec();
    for octet in octets {
        match octet {
            b'\'' | b'"' | b'\\' => text.extend([b'\\', *octet]),
            b'\n' => text.extend(b"\\n"),
            0 => text.extend(b"\\0"),
            octet => text.push(*octet),
        }
    }
    text.push(b'\'');
    text
}

fn read(input: impl BufRead, is_csv: bool) -> (Said, String) {
    let mut said = Said::default();
    let read = match is_csv {
        true => csv::read("a", input, &mut said),
        false => mysql::read(input, &mut said),
    };
    let end = match read {
        Ok(()) => String::new(),
        Err(DumpError::Syntax { line, what }) => format!("{line}: {what}"),
        Err(DumpError::Io(error)) => panic!("{error}"),
    };
    (said, end)
}

pub fn fuzz(data: &[u8]) {
    for is_csv in [false, true] {
        let whole = read(data, is_csv);
        let in_pieces = read(BufReader::with_capacity(1 + data.len() % 7, data), is_csv);
        assert_eq!(whole, in_pieces);
        let (again, end) = read(&whole.0.text[..], false);
        assert_eq!((end.as_str(), again.columns), ("", whole.0.columns));
        assert!(again.text == whole.0.text);
    }
}

/// A whole dump, its lines, and what is at their edges.
pub fn seeds() -> Vec<Vec<u8>> {
    let dump = include_str!("../../tests/older/nac.sql");
    let mut seeds: Vec<String> = dump
        .lines()
        .filter(|line| line.starts_with("INSERT"))
        .map(str::to_owned)
        .collect();
    seeds.extend(dump.split("\n\n").map(str::to_owned));
    seeds.push(dump.to_owned());
    seeds.extend(
        [
            "INSERT IGNORE INTO `d`.`a` (`b`,c) VALUES (_binary 'a\\0\\'',0xC0FFEE),(X'61',b'101'), (TRUE,-1.5e-3),(now(6),NULL);",
            "REPLACE INTO a VALUES ('two\nlines','it''s',\"x\"\"y\");-- end",
            "CREATE TABLE IF NOT EXISTS `a``b` (`id` int DEFAULT '1)', KEY `k` (`id`(3)), c enum('x','y)') /*!80023 INVISIBLE */);",
            "/*!50001 CREATE VIEW `v` AS select '*/' */;\n/*M!999999\\- sandbox */ # x\nSET NAMES 'utf8';",
            "INSERT INTO a () VALUES (); INSERT INTO z VALUES ('skipped; ('' \\'');",
            "DELIMITER ;;",
            "id,name\r\n1,\"a \"\"b\"\",\nc\"\r\n\r\n2,\\N\n3,",
        ]
        .map(str::to_owned),
    );
    seeds.into_iter().map(String::into_bytes).collect()
}
