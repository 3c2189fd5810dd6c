//! The last set on disk: what a node serves that starts while no database answers.
//!
//! It is a SQLite file of the same tables, so the same reading loads it, and a newer program migrates it. Secrets in it are
//! sealed (see [`key`]), and all values of responses, of which some are secrets; the rest is what any switch port shows. It is
//! written beside and then renamed, so there is always a whole one or none, and it says
//! when the database last confirmed it: its age counts from there, by the machine's clock.

pub mod key;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use key::Key;

use super::db::{Transaction, query};
use super::sqlite::SqliteStore;
use super::{Revision, StoreError, changes};

/// Where the set is kept, and the key of the secrets in it.
#[derive(Clone, Debug)]
pub struct Saved {
    path: PathBuf,
    key: Key,
}

/// What is kept.
pub(super) struct Kept {
    /// Of which state of the database it is.
    pub(super) revision: Revision,
    /// Epochs that were in force before.
    pub(super) left: Vec<Arc<str>>,
    /// How long ago the database confirmed it.
    pub(super) age: Duration,
    /// Reads it.
    pub(super) transaction: Transaction,
}

impl Saved {
    /// A set that is kept at `path`.
    pub fn new(path: PathBuf, key: Key) -> Saved {
        Saved { path, key }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Writes what `source` reads; all of it or nothing. `left` are the epochs that were in force before.
    pub(super) async fn write(
        &self,
        source: &mut Transaction,
        confirmed: SystemTime,
        left: &[Arc<str>],
    ) -> Result<Revision, StoreError> {
        let revision = changes::revision(source).await?;
        let beside = self.beside();
        self.remove_abandoned();
        remove(&beside, &[""])?;
        remove(&beside, OF_SQLITE)?;
        let (store, _) = SqliteStore::migrate(&url(&beside)).await?;
        let mut target = store.write().await?;
        // The rows are whole already: nothing is to be checked, counted or passed on.
        let triggers: Vec<(String, String)> = query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            .fetch_all(&mut target)
            .await?;
        for (name, _) in &triggers {
            target.run(format!("DROP TRIGGER \"{name}\"")).await?;
        }
        tables::copy(source, &mut target, &self.key).await?;
        query("UPDATE revision SET epoch = $1, number = $2")
            .bind(&*revision.epoch)
            .bind(i64::try_from(revision.number).unwrap_or(i64::MAX))
            .execute(&mut target)
            .await?;
        target
            .run(
                "CREATE TABLE saved (confirmed INTEGER NOT NULL, proof TEXT NOT NULL, epochs TEXT NOT NULL) STRICT"
                    .to_owned(),
            )
            .await?;
        query("INSERT INTO saved (confirmed, proof, epochs) VALUES ($1, $2, $3)")
            .bind(seconds(confirmed))
            .bind(self.key.seal(PROOF)?)
            .bind(left.join(" "))
            .execute(&mut target)
            .await?;
        // The next program's migrations find the schema that they expect.
        for (_, sql) in triggers {
            target.run(sql).await?;
        }
        target.commit().await?;
        store.close().await;
        self.replace(&beside)?;
        Ok(revision)
    }

    /// The database confirms that the set which is kept is still the one.
    pub(super) async fn confirm(&self, at: SystemTime) -> Result<(), StoreError> {
        let store = SqliteStore::open(&url(&self.path)).await?;
        let mut transaction = store.write().await?;
        query("UPDATE saved SET confirmed = $1")
            .bind(seconds(at))
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        store.close().await;
        Ok(())
    }

    /// Opens what is kept, if something is.
    pub(super) async fn open(&self, now: SystemTime) -> Result<Option<Kept>, StoreError> {
        if !self.path.exists() {
            return Ok(None);
        }
        // An older program may have written it.
        let (store, _) = SqliteStore::migrate(&url(&self.path)).await?;
        self.kept(&store, now).await.map(Some)
    }

    /// Of which state of the database the file is, and how long ago that was confirmed; none: nothing is kept. The file is
    /// left as it is.
    ///
    /// # Errors
    /// When it cannot be read, is of another program's schema, or is sealed under another key.
    pub async fn look(&self, now: SystemTime) -> Result<Option<(Revision, Duration)>, StoreError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let store = SqliteStore::open(&url(&self.path)).await?;
        let kept = self.kept(&store, now).await?;
        kept.transaction.end().await?;
        store.close().await;
        Ok(Some((kept.revision, kept.age)))
    }

    async fn kept(&self, store: &SqliteStore, now: SystemTime) -> Result<Kept, StoreError> {
        let mut transaction = store.read().await?;
        let (confirmed, proof, left): (i64, String, String) = query("SELECT confirmed, proof, epochs FROM saved")
            .fetch_one(&mut transaction)
            .await?;
        if !self.key.open(&proof).is_ok_and(|proof| *proof == PROOF) {
            return Err(StoreError::SavedKey {
                path: self.path.clone(),
            });
        }
        // A clock that went back makes nothing younger than new.
        let age = u64::try_from(seconds(now).saturating_sub(confirmed)).unwrap_or(0);
        Ok(Kept {
            revision: changes::revision(&mut transaction).await?,
            left: left.split_whitespace().map(Arc::from).collect(),
            age: Duration::from_secs(age),
            transaction,
        })
    }

    /// Puts a written file in the place of the one before.
    fn replace(&self, beside: &Path) -> Result<(), StoreError> {
        // A log that a killed process left belongs to the file before, and would be read into this one.
        remove(&self.path, OF_SQLITE)?;
        std::fs::rename(beside, &self.path)
            .and_then(|()| std::fs::File::open(self.folder())?.sync_all())
            .map_err(|error| self.failed(&error))
    }

    /// The file that this process writes.
    fn beside(&self) -> PathBuf {
        with_suffix(&self.path, &format!(".{}.new", std::process::id()))
    }

    fn folder(&self) -> &Path {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new("."))
    }

    /// Removes what processes left that were killed while they wrote. What fails costs room on the disk alone.
    fn remove_abandoned(&self) {
        let Some(name) = self.path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        for entry in std::fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            let process = entry.file_name().to_str().and_then(|found| {
                let (process, _) = found.strip_prefix(name)?.strip_prefix('.')?.split_once(".new")?;
                process.parse::<u32>().ok()
            });
            if process.is_some_and(is_gone) {
                _ = std::fs::remove_file(entry.path());
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::Saved {
            path: self.path.clone(),
            detail: error.to_string(),
        }
    }
}

/// What the key's holder can read.
const PROOF: &str = "portreeve";

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What SQLite keeps beside a file.
const OF_SQLITE: &[&str] = &["-wal", "-shm", "-journal"];

/// Removes files with these suffixes, those that are there.
fn remove(path: &Path, suffixes: &[&str]) -> Result<(), StoreError> {
    for suffix in suffixes {
        match std::fs::remove_file(with_suffix(path, suffix)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(StoreError::Saved {
                    path: path.to_path_buf(),
                    detail: error.to_string(),
                });
            }
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether no such process runs, as far as this system says.
fn is_gone(process: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
}
