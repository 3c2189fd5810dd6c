//! All rows of all files, each with its place. What a row says by itself is checked while it is read; what rows say together
//! waits until all are there, since a dump has its tables in the order of their names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io::BufRead;

use super::mysql::Sink;
use super::row::Row;
use super::rows::{Client, Link, Mac, Policy, PolicyRule, Response, Site};
use super::scanner::DumpError;
use super::table::{Fields, Layout, Table};
use super::{csv, mysql};
use crate::store::document::build::Problem;

/// All rows of all files.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) sites: Vec<Entry<Site>>,
    pub(super) clients: Vec<Entry<Client>>,
    pub(super) policies: Vec<Entry<Policy>>,
    pub(super) links: Vec<Entry<Link>>,
    pub(super) rules: Vec<Entry<PolicyRule>>,
    pub(super) responses: Vec<Entry<Response>>,
    pub(super) macs: Vec<Entry<Mac>>,
    /// Tables that nothing reads.
    pub(super) ignored_tables: BTreeSet<String>,
    /// Columns that nothing reads, of tables that are read.
    pub(super) ignored_columns: BTreeSet<String>,
    pub(super) problems: Problems,
    /// How many rows each table had so far; none: no such table yet.
    rows: HashMap<Table, u32>,
}

/// A row and where it stands.
pub(super) struct Entry<T> {
    pub(super) place: Place,
    pub(super) value: T,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    table: Table,
    key: Key,
    file: u32,
    line: u32,
}

/// What a row is known by. Their order is the one in which the older system reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Id(i64),
    /// Where the table has no such column: the row of the table, counted from 1.
    Row(u32),
}

/// What is wrong, and with which files.
#[derive(Default)]
pub(super) struct Problems {
    files: Vec<String>,
    found: Vec<Problem>,
    /// Rows that are no good, so that nobody says of them that they do not exist.
    refused: HashSet<(Table, i64)>,
}

impl Collected {
    /// Reads a dump.
    pub(super) fn dump(&mut self, name: &str, input: impl BufRead) {
        self.file(name, false, |file| mysql::read(input, file));
    }

    /// Reads the table `table` as CSV.
    pub(super) fn csv(&mut self, name: &str, table: &str, input: impl BufRead) {
        self.file(name, true, |file| csv::read(table, input, file));
    }

    /// Tables that none of the files had.
    pub(super) fn missing(&self) -> Vec<Table> {
        let is_missing = |table: &Table| !self.rows.contains_key(table);
        Table::ALL.into_iter().filter(is_missing).collect()
    }

    fn file(&mut self, name: &str, is_csv: bool, read: impl FnOnce(&mut File<'_>) -> Result<(), DumpError>) {
        self.problems.files.push(name.to_owned());
        let mut file = File {
            all: self,
            is_csv,
            layouts: HashMap::new(),
            current: None,
        };
        match read(&mut file) {
            Ok(()) => {}
            Err(DumpError::Syntax { line, what }) => self.problems.of_file(line, what),
            Err(DumpError::Io(error)) => self.problems.of_file(1, format!("cannot be read on: {error}")),
        }
    }

    /// Takes a row of which all columns are there.
    fn push(&mut self, place: Place, fields: Fields<'_>) -> Result<(), String> {
        fn entry<T>(place: Place, value: T) -> Entry<T> {
            Entry { place, value }
        }
        match place.table {
            Table::Sites => self.sites.push(entry(place, Site::read(fields)?)),
            Table::Clients => self.clients.push(entry(place, Client::read(fields)?)),
            Table::Policies => self.policies.push(entry(place, Policy::read(fields)?)),
            Table::SitePolicies => self.links.push(entry(place, Link::read(fields)?)),
            Table::Rules => self.rules.push(entry(place, PolicyRule::read(fields)?)),
            Table::Responses => self.responses.push(entry(place, Response::read(fields)?)),
            Table::Macs => self.macs.push(entry(place, Mac::read(fields)?)),
        }
        Ok(())
    }
}

impl Problems {
    /// Something is wrong with a row.
    pub(super) fn of_row(&mut self, place: Place, what: impl fmt::Display) {
        if let Key::Id(id) = place.key {
            self.refused.insert((place.table, id));
        }
        self.found.push(Problem {
            file: self.name(place.file),
            line: place.line.try_into().unwrap_or(usize::MAX),
            what: format!("{place}: {what}"),
        });
    }

    /// Something is wrong with the file that is being read, or was read last.
    pub(super) fn of_file(&mut self, line: u32, what: String) {
        self.found.push(Problem {
            file: self.files.last().cloned().unwrap_or_default(),
            line: line.try_into().unwrap_or(usize::MAX),
            what,
        });
    }

    /// Whether there is a row with this id that is no good, as was said.
    pub(super) fn is_refused(&self, table: Table, id: i64) -> bool {
        self.refused.contains(&(table, id))
    }

    /// A place as part of a message about another.
    pub(super) fn show(&self, place: Place) -> String {
        format!("{place} ({}:{})", self.name(place.file), place.line)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of the files and their lines.
    pub(super) fn into_sorted(mut self) -> Vec<Problem> {
        let at = |problem: &Problem| self.files.iter().position(|name| *name == problem.file);
        self.found.sort_by_cached_key(|problem| (at(problem), problem.line));
        self.found
    }

    fn name(&self, file: u32) -> String {
        let at = usize::try_from(file).unwrap_or(usize::MAX);
        self.files.get(at).cloned().unwrap_or_default()
    }
}

/// A file that is being read.
struct File<'a> {
    all: &'a mut Collected,
    is_csv: bool,
    /// Of the tables that it makes; none where a table's columns are no good.
    layouts: HashMap<Table, Option<Layout>>,
    /// Of the rows that are being read.
    current: Option<Layout>,
}

impl File<'_> {
    fn layout(&mut self, line: u32, table: Table, columns: Vec<String>) -> Option<Layout> {
        match Layout::new(table, columns) {
            Ok((mut layout, ignored)) => {
                self.all.ignored_columns.extend(ignored);
                layout.is_backslash_doubtful = self.is_csv;
                Some(layout)
            }
            Err(what) => {
                self.all.problems.of_file(line, format!("{}: {what}", table.name()));
                None
            }
        }
    }

    fn read(&mut self, line: u32, layout: &Layout, row: &Row) {
        let rows = self.all.rows.entry(layout.table).or_default();
        *rows = rows.saturating_add(1);
        let mut place = Place {
            table: layout.table,
            key: Key::Row(*rows),
            file: u32::try_from(self.all.problems.files.len().saturating_sub(1)).unwrap_or(u32::MAX),
            line,
        };
        let read = layout.fields(row).and_then(|fields| {
            if let Some(id) = fields.number("id")? {
                place.key = Key::Id(id);
            }
            self.all.push(place, fields)
        });
        if let Err(what) = read {
            self.all.problems.of_row(place, what);
        }
    }
}

impl Sink for File<'_> {
    fn table(&mut self, line: u32, name: &str, columns: Vec<String>) {
        let Some(table) = Table::named(name) else {
            self.all.ignored_tables.insert(name.to_owned());
            return;
        };
        self.all.rows.entry(table).or_default();
        let layout = self.layout(line, table, columns);
        if self.layouts.insert(table, layout).is_some() {
            let what = format!(
                "the table `{name}` is made a second time: are there several databases in the dump?\n\
                 hint: dump the one database"
            );
            self.all.problems.of_file(line, what);
        }
    }

    fn insert(&mut self, line: u32, name: &str, columns: Option<Vec<String>>) -> bool {
        let Some(table) = Table::named(name) else {
            self.all.ignored_tables.insert(name.to_owned());
            return false;
        };
        self.all.rows.entry(table).or_default();
        self.current = match (columns, self.layouts.get(&table)) {
            (Some(columns), _) => self.layout(line, table, columns),
            (None, Some(layout)) => layout.clone(),
            (None, None) => {
                let what = format!(
                    "rows of `{name}`, and no `CREATE TABLE` before them says what its columns are\n\
                     hint: dump without `--no-create-info`, or with `--complete-insert`"
                );
                self.all.problems.of_file(line, what);
                None
            }
        };
        self.current.is_some()
    }

    fn row(&mut self, line: u32, row: &Row) {
        if let Some(layout) = self.current.take() {
            self.read(line, &layout, row);
            self.current = Some(layout);
        }
    }
}

impl Place {
    /// In which order the older system reads the table's rows.
    pub(super) fn key(&self) -> Key {
        self.key
    }
}

/// `sites 7`, or `site_policies, row 3` where the table has no ids.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            Key::Id(id) => write!(f, "{} {id}", self.table.name()),
            Key::Row(row) => write!(f, "{}, row {row}", self.table.name()),
        }
    }
}
