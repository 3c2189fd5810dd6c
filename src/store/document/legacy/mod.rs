//! The policy set of the system that users come from: a Rails application over MySQL that feeds FreeRADIUS, whose tables have
//! the names of ours.
//!
//! Read top-down: a file is a dump ([`mysql`], over [`scanner`]) or a table ([`csv`]); both give rows of values ([`row`]), which
//! are read by column ([`table`]) into what they mean ([`rows`]) and kept with their places ([`collect`]). When all files are
//! read, [`assemble`] puts the rows together, sites' policies in the older system's [`order`], and [`merge`] puts the result
//! over the set that the database has. Nothing is taken in silence: what cannot be is an error with its file and line, and
//! what is not as it was there is a note.

mod assemble;
mod collect;
mod csv;
mod merge;
mod mysql;
mod order;
mod row;
mod rows;
mod scanner;
mod table;
mod tag;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

pub(super) use assemble::Older;
use collect::Collected;

use super::build::Problem;
use crate::radius::dictionary::Dictionary;

/// Octets that are read at once.
const BUFFER: usize = 256 << 10;

/// A file of the older system.
#[derive(Clone, Debug)]
pub struct OlderFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Debug)]
enum Format {
    /// Of a database.
    Dump,
    /// Of the table of this name.
    Csv(String),
}

impl OlderFile {
    /// A file by its name: `*.sql` is a dump, `sites.csv` the table `sites`. None: it is neither.
    pub fn at(path: &Path) -> Option<OlderFile> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let format = match extension.as_str() {
            "sql" => Format::Dump,
            "csv" => Format::Csv(path.file_stem()?.to_string_lossy().to_ascii_lowercase()),
            _ => return None,
        };
        Some(OlderFile {
            path: path.to_path_buf(),
            format,
        })
    }
}

/// Why files of the older system cannot be taken.
pub(super) enum Refusal {
    /// A file cannot be opened.
    Unreadable(PathBuf, io::Error),
    /// All that is wrong.
    Problems(Vec<Problem>),
}

/// Reads files, which are one set together.
pub(super) fn read(dictionary: &Dictionary, files: &[OlderFile]) -> Result<Older, Refusal> {
    let mut rows = Collected::default();
    for file in files {
        let opened = File::open(&file.path).map_err(|error| Refusal::Unreadable(file.path.clone(), error))?;
        let name = file.path.display().to_string();
        let input = BufReader::with_capacity(BUFFER, opened);
        match &file.format {
            Format::Dump => rows.dump(&name, input),
            Format::Csv(table) => rows.csv(&name, table, input),
        }
    }
    for table in rows.missing() {
        let what = format!(
            "no file has the table `{}`\nhint: give all tables of the older system, those without rows as well",
            table.name()
        );
        rows.problems.of_file(1, what);
    }
    assemble::assemble(dictionary, rows).map_err(Refusal::Problems)
}
