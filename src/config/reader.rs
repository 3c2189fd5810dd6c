//! Reads a TOML text and the environment into typed values, and collects every complaint with the place it is about.
//!
//! The file is flattened to `section.key`, the environment laid over it, and each key taken out by name and type. What
//! nobody took is unknown. So one run tells every error, each with its line or its variable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::units;

/// What environment variables that mean us begin with.
const PREFIX: &str = "PORTREEVE__";

/// Sections of which there may be several, `[[section]]`: each is flattened under its number, from 0.
const LISTS: [&str; 1] = ["eap.tls.profile"];

/// One complaint about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `portreeve.toml:12`, or `environment variable PORTREEVE__…`.
    pub place: String,
    /// What is wrong, lower case.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if !self.hint.is_empty() {
            write!(f, "\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// A value and where it was written.
#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    place: String,
}

#[derive(Clone, Debug)]
enum Value {
    String(String),
    Integer(i64),
    Boolean(bool),
    Array(Vec<Value>),
    /// A type that no key has; named for the message.
    Other(&'static str),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Boolean(_) => "a boolean",
            Value::Array(_) => "a list",
            Value::Other(kind) => kind,
        }
    }
}

/// The flattened configuration while it is being taken apart.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    entries: BTreeMap<String, Entry>,
    /// Tables of the file by dotted name, with the place of their header.
    tables: BTreeMap<String, String>,
    /// Sections and keys that were asked for: what may be written.
    known: Vec<(&'static str, &'static str)>,
    problems: Vec<Problem>,
}

impl Reader {
    /// Reads `text`, which came from `file`, and lays `environment` over it. Relative paths are relative to the file's folder.
    pub fn new(file: &Path, text: &str, environment: impl IntoIterator<Item = (String, String)>) -> Reader {
        let mut reader = Reader {
            folder: file.parent().map(Path::to_path_buf).unwrap_or_default(),
            entries: BTreeMap::new(),
            tables: BTreeMap::new(),
            known: Vec::new(),
            problems: Vec::new(),
        };
        let place = |offset: usize| format!("{}:{}", file.display(), line(text, offset));
        match DeTable::parse(text) {
            Ok(table) => reader.flatten("", table.get_ref(), &place),
            Err(error) => reader.problems.push(Problem {
                place: place(error.span().map_or(0, |span| span.start)),
                message: error.message().to_owned(),
                hint: String::new(),
            }),
        }
        for (name, value) in environment {
            if let Some(key) = name.strip_prefix(PREFIX) {
                let key = key.to_ascii_lowercase().replace("__", ".");
                let place = format!("environment variable {name}");
                reader.entries.insert(
                    key,
                    Entry {
                        value: literal(&value),
                        place,
                    },
                );
            }
        }
        reader
    }

    /// The section `name`, dotted where nested.
    pub fn section(&mut self, name: &'static str) -> Section<'_> {
        Section {
            reader: self,
            name,
            path: name.to_owned(),
        }
    }

    /// The numbers of the sections of the list `name` that the file and the environment have.
    pub fn numbers(&self, name: &'static str) -> BTreeSet<usize> {
        let paths = self.tables.keys().chain(self.entries.keys());
        let inside = paths.filter_map(|path| path.strip_prefix(name)?.strip_prefix('.'));
        inside.filter_map(|rest| rest.split('.').next()?.parse().ok()).collect()
    }

    /// The section with this number of the list `name`.
    pub fn numbered(&mut self, name: &'static str, number: usize) -> Section<'_> {
        Section {
            reader: self,
            name,
            path: format!("{name}.{number}"),
        }
    }

    /// Every section and key that was asked for.
    #[cfg(test)]
    pub fn known(&self) -> &[(&'static str, &'static str)] {
        &self.known
    }

    /// All complaints, unknown keys included: to be called when every key has been taken.
    pub fn finish(mut self) -> Vec<Problem> {
        let sections: Vec<&str> = self.known.iter().map(|(section, _)| *section).collect();
        let is_section = |name: &str| sections.iter().any(|known| *known == name || is_parent(name, known));
        for (table, place) in &self.tables {
            let (table, is_numbered) = without_number(table);
            if LISTS.contains(&table) {
                if !is_numbered {
                    self.problems.push(Problem {
                        place: place.clone(),
                        message: format!("[{table}] is one of a list"),
                        hint: format!("write [[{table}]]"),
                    });
                }
                continue;
            }
            let inside_unknown = table
                .rsplit_once('.')
                .is_some_and(|(parent, _)| self.tables.contains_key(parent) && !is_section(without_number(parent).0));
            if !is_section(table) && !inside_unknown {
                self.problems.push(Problem {
                    place: place.clone(),
                    message: format!("unknown section [{table}]"),
                    hint: suggestion(table, sections.iter().copied(), |name| format!("[{name}]")),
                });
            }
        }
        for (path, entry) in &self.entries {
            let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
            let has_complaint = LISTS.contains(&section) || !is_section(without_number(section).0);
            if !section.is_empty() && has_complaint && self.tables.contains_key(section) {
                continue; // the section's own complaint covers it
            }
            let (section, _) = without_number(section);
            let of_section = self
                .known
                .iter()
                .filter(|(known, _)| *known == section)
                .map(|(_, key)| *key);
            let (message, hint) = if section.is_empty() {
                let hint = suggestion(key, sections.iter().copied(), |name| format!("[{name}], a section"));
                (format!("unknown key `{key}` outside any section"), hint)
            } else if is_section(section) {
                (
                    format!("unknown key `{key}` in {}", shown(section)),
                    suggestion(key, of_section, |name| format!("`{name}`")),
                )
            } else {
                let hint = suggestion(section, sections.iter().copied(), |name| format!("[{name}]"));
                (format!("unknown section [{section}]"), hint)
            };
            self.problems.push(Problem {
                place: entry.place.clone(),
                message,
                hint,
            });
        }
        self.problems
    }

    fn flatten(&mut self, path: &str, table: &DeTable<'_>, place: &dyn Fn(usize) -> String) {
        for (key, value) in table {
            let path = if path.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{path}.{}", key.get_ref())
            };
            let place_of_key = place(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => {
                    self.tables.insert(path.clone(), place_of_key);
                    self.flatten(&path, inner, place);
                }
                DeValue::Array(items)
                    if LISTS.contains(&path.as_str()) && items.iter().all(|item| item.get_ref().is_table()) =>
                {
                    for (number, item) in items.iter().enumerate() {
                        let path = format!("{path}.{number}");
                        self.tables.insert(path.clone(), place(item.span().start));
                        if let DeValue::Table(inner) = item.get_ref() {
                            self.flatten(&path, inner, place);
                        }
                    }
                }
                other => {
                    self.entries.insert(
                        path,
                        Entry {
                            value: convert(other),
                            place: place_of_key,
                        },
                    );
                }
            }
        }
    }
}

/// What [`Section::switch_or_list`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchOrList {
    /// On or off.
    Switch(bool),
    /// For these.
    List(Vec<String>),
}

/// One section of the configuration: takes its keys. A wrong value is a complaint and reads as absent.
#[derive(Debug)]
pub struct Section<'r> {
    reader: &'r mut Reader,
    name: &'static str,
    /// The name, with its number where there are several.
    path: String,
}

impl Section<'_> {
    /// Whether the file or the environment says anything in this section.
    pub fn is_present(&self) -> bool {
        self.reader.tables.contains_key(&self.path) || self.reader.entries.keys().any(|key| is_parent(&self.path, key))
    }

    /// A complaint about a key that is required and absent.
    pub fn missing(&mut self, key: &str, hint: &str) {
        let place = self.header();
        self.complain(&place, format!("`{key}` is missing in {}", shown(self.name)), hint);
    }

    /// A text.
    pub fn string(&mut self, key: &'static str) -> Option<String> {
        let entry = self.take(key)?;
        self.text(key, &entry)
    }

    /// A text that `parse` understands; its error completes "`key`: …".
    pub fn parsed<T>(&mut self, key: &'static str, hint: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let entry = self.take(key)?;
        let text = self.text(key, &entry)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.complain(&entry.place, format!("`{key}`: {error}"), hint);
                None
            }
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let entry = self.take(key)?;
        let text = self.text(key, &entry)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.complain(
                &entry.place,
                format!("`{key}` is `{text}`, and may be {}", all.join(" or ")),
                "",
            );
        }
        found
    }

    /// A list of texts, or one text.
    pub fn strings(&mut self, key: &'static str) -> Option<Vec<String>> {
        let entry = self.take(key)?;
        let items = match entry.value {
            Value::Array(ref items) => items.clone(),
            ref one => vec![one.clone()],
        };
        let mut texts = Vec::with_capacity(items.len());
        for value in items {
            texts.push(self.text(
                key,
                &Entry {
                    value,
                    place: entry.place.clone(),
                },
            )?);
        }
        Some(texts)
    }

    /// A list of `address:port`, or one of them.
    pub fn addresses(&mut self, key: &'static str) -> Option<Vec<SocketAddr>> {
        let place = self.place(key);
        let texts = self.strings(key)?;
        let mut addresses = Vec::with_capacity(texts.len());
        for text in &texts {
            match text.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => {
                    let message = format!("`{key}`: `{text}` is no address and port");
                    self.complain(&place, message, "write `0.0.0.0:1812`, or `[::]:1812` for IPv6");
                    return None;
                }
            }
        }
        Some(addresses)
    }

    /// A file or folder; relative ones are relative to the configuration file's folder.
    pub fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let text = self.string(key)?;
        Some(self.reader.folder.join(text))
    }

    /// A list of files or folders, or one.
    pub fn paths(&mut self, key: &'static str) -> Option<Vec<PathBuf>> {
        let texts = self.strings(key)?;
        Some(texts.iter().map(|text| self.reader.folder.join(text)).collect())
    }

    /// The configuration file's folder.
    pub fn folder(&self) -> &Path {
        &self.reader.folder
    }

    /// Whether `key` is written; ask before it is taken.
    pub fn has(&self, key: &str) -> bool {
        self.reader.entries.contains_key(&format!("{}.{key}", self.path))
    }

    /// `true`, `false`, or a list of texts.
    pub fn switch_or_list(&mut self, key: &'static str) -> Option<SwitchOrList> {
        let entry = self.reader.entries.get(&format!("{}.{key}", self.path));
        match entry.map(|entry| &entry.value) {
            Some(Value::Array(_)) => self.strings(key).map(SwitchOrList::List),
            _ => self.boolean(key).map(SwitchOrList::Switch),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let entry = self.take(key)?;
        match entry.value {
            Value::Boolean(value) => Some(value),
            _ => self.wrong_type(key, &entry, "true or false", ""),
        }
    }

    /// A whole number.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let entry = self.take(key)?;
        let Value::Integer(number) = entry.value else {
            return self.wrong_type(key, &entry, "an integer", "");
        };
        let number = u64::try_from(number).ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.out_of_range(key, &entry, &range.start(), &range.end());
        }
        number
    }

    /// A number of octets: an integer, or a text with a unit, `16MiB`.
    pub fn size(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<usize> {
        let entry = self.take(key)?;
        let parsed = match &entry.value {
            Value::Integer(octets) => u64::try_from(*octets).ok(),
            Value::String(text) => units::parse_size(text),
            _ => None,
        };
        let Some(octets) = parsed else {
            return self.wrong_type(
                key,
                &entry,
                "a number of octets",
                "write `16MiB`, `512KiB` or a number of octets",
            );
        };
        if !range.contains(&octets) {
            self.out_of_range(key, &entry, &units::size(*range.start()), &units::size(*range.end()));
            return None;
        }
        usize::try_from(octets).ok()
    }

    /// A span of time: a text with its unit, `30s`.
    pub fn duration(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let entry = self.take(key)?;
        let parsed = match &entry.value {
            Value::String(text) => units::parse_duration(text),
            _ => None,
        };
        let Some(duration) = parsed else {
            return self.wrong_type(
                key,
                &entry,
                "a span of time",
                "write a number and its unit: `500ms`, `30s`, `5m`, `24h`, `7d`",
            );
        };
        if !range.contains(&duration) {
            self.out_of_range(
                key,
                &entry,
                &units::duration(*range.start()),
                &units::duration(*range.end()),
            );
            return None;
        }
        Some(duration)
    }

    /// A complaint about `key` that only the caller can find.
    pub fn complain_about(&mut self, key: &'static str, place: &str, message: &str, hint: &str) {
        self.complain(place, format!("`{key}` {message}"), hint);
    }

    /// Where `key` is written; ask before it is taken.
    pub fn place(&self, key: &str) -> String {
        let entry = self.reader.entries.get(&format!("{}.{key}", self.path));
        entry.map_or_else(|| self.header(), |entry| entry.place.clone())
    }

    /// Where the section begins.
    pub fn header(&self) -> String {
        let place = self.reader.tables.get(&self.path).cloned();
        place.unwrap_or_else(|| shown(self.name))
    }

    fn take(&mut self, key: &'static str) -> Option<Entry> {
        self.reader.known.push((self.name, key));
        self.reader.entries.remove(&format!("{}.{key}", self.path))
    }

    fn text(&mut self, key: &'static str, entry: &Entry) -> Option<String> {
        match &entry.value {
            Value::String(text) => Some(text.clone()),
            _ => self.wrong_type(key, entry, "a string", "strings stand in quotes"),
        }
    }

    fn wrong_type<T>(&mut self, key: &str, entry: &Entry, wanted: &str, hint: &str) -> Option<T> {
        let message = match &entry.value {
            Value::String(text) => format!("`{key}` must be {wanted}, not `{text}`"),
            Value::Integer(number) => format!("`{key}` must be {wanted}, not `{number}`"),
            Value::Boolean(value) => format!("`{key}` must be {wanted}, not `{value}`"),
            other => format!("`{key}` must be {wanted}, not {}", other.kind()),
        };
        self.complain(&entry.place, message, hint);
        None
    }

    fn out_of_range(&mut self, key: &str, entry: &Entry, low: &dyn fmt::Display, high: &dyn fmt::Display) {
        let value = match &entry.value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => other.kind().to_owned(),
        };
        self.complain(
            &entry.place,
            format!("`{key}` is {value}, and may be {low} to {high}"),
            "",
        );
    }

    fn complain(&mut self, place: &str, message: String, hint: &str) {
        self.reader.problems.push(Problem {
            place: place.to_owned(),
            message,
            hint: hint.to_owned(),
        });
    }
}

/// The name of a section of a list without its number, and whether it had one.
fn without_number(path: &str) -> (&str, bool) {
    match path.rsplit_once('.') {
        Some((name, number)) if LISTS.contains(&name) && number.parse::<usize>().is_ok() => (name, true),
        _ => (path, false),
    }
}

/// A section's header.
fn shown(section: &str) -> String {
    match LISTS.contains(&section) {
        true => format!("[[{section}]]"),
        false => format!("[{section}]"),
    }
}

/// `a` is a parent of `a.b`.
fn is_parent(parent: &str, child: &str) -> bool {
    child.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'))
}

/// 1-based line of a byte offset.
fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn convert(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix())
                .map_or(Value::Other("an integer beyond 64 bits"), Value::Integer)
        }
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| convert(item.get_ref())).collect()),
        DeValue::Float(_) => Value::Other("a floating-point number"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Table(_) => Value::Other("a table"),
    }
}

/// An environment variable's value: a TOML literal, else a string.
fn literal(text: &str) -> Value {
    let document = format!("value = {text}");
    match DeTable::parse(&document) {
        Ok(table) if table.get_ref().len() == 1 => table
            .get_ref()
            .iter()
            .next()
            .map_or(Value::Other("nothing"), |(_, value)| convert(value.get_ref())),
        _ => Value::String(text.to_owned()),
    }
}

/// "did you mean", where something is near enough.
fn suggestion<'a>(wrong: &str, names: impl Iterator<Item = &'a str>, show: impl Fn(&str) -> String) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(wrong, names.iter().copied()) {
        Some(name) => format!("did you mean {}?", show(name)),
        None => "docs/configuration.md lists every key".to_owned(),
    }
}

/// The name that fewest edits turn `wrong` into, when they are few.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wrong.len() / 3).max(2);
    names
        .map(|name| (distance(wrong, name), name))
        .min()
        .filter(|(edits, _)| *edits <= limit)
        .map(|(_, name)| name)
}

/// Levenshtein distance.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (index, from) in from.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, to) in row.iter_mut().skip(1).zip(to.chars()) {
            let changed = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = changed.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, edits) in [
            ("", "", 0),
            ("a", "", 1),
            ("lisen", "listen", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
        assert_eq!(nearest("lisen", ["workers", "listen"].into_iter()), Some("listen"));
        assert_eq!(nearest("zzzzzz", ["workers", "listen"].into_iter()), None);
    }

    #[test]
    fn an_environment_value_is_a_literal_or_a_string() {
        assert!(matches!(literal("5"), Value::Integer(5)));
        assert!(matches!(literal("\"5\""), Value::String(text) if text == "5"));
        assert!(matches!(literal("[\"a\", \"b\"]"), Value::Array(items) if items.len() == 2));
        assert!(matches!(literal("0.0.0.0:1812"), Value::String(text) if text == "0.0.0.0:1812"));
        assert!(matches!(literal("1\nother = 2"), Value::String(_)));
        assert!(matches!(literal(""), Value::String(text) if text.is_empty()));
    }
}
