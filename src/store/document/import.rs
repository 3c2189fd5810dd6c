//! Reads documents, checks them, shows or writes what differs.

use super::apply;
use super::build::{self, Built, Problem};
use super::difference::Difference;
use super::legacy::{self, OlderFile, Refusal};
use super::parse::{Document, Source};
use crate::policy::lint;
use crate::radius::dictionary::Dictionary;
use crate::store::rows::Scope;
use crate::store::set::{self, PolicySet};
use crate::store::source::RowError;
use crate::store::{Revision, Store, StoreError, changes};

/// How to import.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Add and change only; else the documents replace the set.
    pub merge: bool,
    /// Only show what would change.
    pub dry_run: bool,
    /// Import a document although it was exported at another revision.
    pub force: bool,
}

/// What an import did, or would do.
#[derive(Clone, Debug)]
pub struct Imported {
    /// `+`, `-` and `~` lines; empty: nothing differs.
    pub difference: String,
    /// Rows that belong to nothing or cannot be read, which a replacing import deletes.
    pub deleted: Vec<RowError>,
    /// What of the older system's set is not as it was there, or was not read.
    pub notes: Vec<String>,
    /// What is probably not meant.
    pub findings: Vec<lint::Finding>,
    /// The revision now.
    pub revision: Revision,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be opened.
    #[error("cannot read `{}`: {source}\nhint: is it there, and may this user read it?", path.display())]
    Unreadable {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The files have errors: all of them, by file and line.
    #[error("{}", join(.0))]
    Invalid(Vec<Problem>),
    /// A document is of another revision.
    #[error(
        "{file}:{line}: the document was exported at revision {found}, and the database is at {now}\n\
         hint: export again and repeat the change; or `--force`, which undoes what was changed since"
    )]
    OtherRevision {
        /// The document.
        file: String,
        /// The stamp's line.
        line: usize,
        /// The document's.
        found: String,
        /// The database's.
        now: Revision,
    },
    /// The database failed, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> ImportError {
        ImportError::Store(error.into())
    }
}

/// Imports the union of the documents, in one transaction: all of it or nothing.
pub async fn import(
    store: &Store,
    dictionary: &Dictionary,
    sources: Vec<Source>,
    options: Options,
) -> Result<Imported, ImportError> {
    let mut documents = Vec::with_capacity(sources.len());
    let mut problems = Vec::new();
    for source in sources {
        match source.parse() {
            Ok(document) => documents.push((source, document)),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(ImportError::Invalid(problems));
    }
    put(store, &documents, options, |base| {
        build::build(dictionary, &documents, base)
    })
    .await
}

/// Imports the set that files of the older system are together, in one transaction: all of it or nothing.
pub async fn import_older(
    store: &Store,
    dictionary: &Dictionary,
    files: &[OlderFile],
    options: Options,
) -> Result<Imported, ImportError> {
    // Reading takes long: the write lock is not held for it.
    let mut older = legacy::read(dictionary, files).map_err(|refusal| match refusal {
        Refusal::Unreadable(path, source) => ImportError::Unreadable { path, source },
        Refusal::Problems(problems) => ImportError::Invalid(problems),
    })?;
    let notes = std::mem::take(&mut older.notes);
    let imported = put(store, &[], options, |base| older.over(dictionary, base)).await?;
    Ok(Imported { notes, ..imported })
}

/// Writes what differs between the database's set and the one that `build` makes, over the database's where that is wanted.
async fn put(
    store: &Store,
    documents: &[(Source, Document)],
    options: Options,
    build: impl FnOnce(Option<PolicySet>) -> Result<Built, Vec<Problem>>,
) -> Result<Imported, ImportError> {
    let mut transaction = match options.dry_run {
        true => store.read().await?,
        false => store.write().await?,
    };
    let now = changes::revision(&mut transaction).await?;
    if !options.force {
        for (source, document) in documents {
            let Some(stamp) = &document.revision else { continue };
            if *stamp.get_ref() != now.to_string() {
                return Err(ImportError::OtherRevision {
                    file: source.name.clone(),
                    line: source.line(stamp.span().start),
                    found: stamp.get_ref().clone(),
                    now,
                });
            }
        }
    }
    let current = set::read(&mut transaction, Scope::All).await?;
    let base = options.merge.then(|| current.set.clone());
    let built = build(base).map_err(ImportError::Invalid)?;
    let difference = Difference::between(&current.set, &built.set);
    let deleted = if options.merge {
        Vec::new()
    } else {
        current.strays.clone()
    };
    let text = difference.to_string();
    let differs = !difference.is_empty() || !deleted.is_empty();
    if differs && !options.dry_run {
        apply::apply(&mut transaction, &current, &difference, !options.merge).await?;
    }
    let revision = changes::revision(&mut transaction).await?;
    transaction.commit().await?;
    Ok(Imported {
        difference: text,
        deleted,
        notes: Vec::new(),
        findings: built.findings,
        revision,
    })
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
