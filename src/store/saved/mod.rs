//! The last set on disk: what a node serves that starts while no database answers.
//!
//! It is a SQLite file of the same tables, so the same reading loads it. Shared secrets in it are sealed (see [`key`]); the rest
//! is what any switch port shows. It is written beside and then renamed, so there is always a whole one or none, and it says
//! when the database last confirmed it: its age counts from there, by the machine's clock.

pub mod key;
mod tables;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use key::Key;

use super::db::{Transaction, query, query_scalar};
use super::sqlite::SqliteStore;
use super::{Revision, StoreError, changes};

/// Where the set is kept, and the key of the secrets in it.
#[derive(Clone, Debug)]
pub struct Saved {
    path: PathBuf,
    key: Key,
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

    /// Writes what `source` reads; all of it or nothing.
    pub(super) async fn write(&self, source: &mut Transaction, confirmed: SystemTime) -> Result<Revision, StoreError> {
        let revision = changes::revision(source).await?;
        let beside = self.beside();
        remove(&beside)?;
        let (store, _) = SqliteStore::migrate(&url(&beside)).await?;
        let mut target = store.write().await?;
        // The rows are whole already: nothing is to be checked, counted or passed on.
        let triggers: Vec<String> = query_scalar("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            .fetch_all(&mut target)
            .await?;
        for trigger in triggers {
            target.run(format!("DROP TRIGGER \"{trigger}\"")).await?;
        }
        tables::copy(source, &mut target, &self.key).await?;
        query("UPDATE revision SET epoch = $1, number = $2")
            .bind(&*revision.epoch)
            .bind(i64::try_from(revision.number).unwrap_or(i64::MAX))
            .execute(&mut target)
            .await?;
        target
            .run("CREATE TABLE saved (confirmed INTEGER NOT NULL, proof TEXT NOT NULL) STRICT".to_owned())
            .await?;
        query("INSERT INTO saved (confirmed, proof) VALUES ($1, $2)")
            .bind(seconds(confirmed))
            .bind(self.key.seal(PROOF)?)
            .execute(&mut target)
            .await?;
        target.commit().await?;
        store.close().await;
        std::fs::rename(&beside, &self.path).map_err(|error| self.failed(&error))?;
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

    /// Opens what is kept, if something is, and says how old it is at `now`.
    pub(super) async fn open(&self, now: SystemTime) -> Result<Option<(Transaction, Duration)>, StoreError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let store = SqliteStore::open(&url(&self.path)).await?;
        let mut transaction = store.read().await?;
        let (confirmed, proof): (i64, String) = query("SELECT confirmed, proof FROM saved")
            .fetch_one(&mut transaction)
            .await?;
        if self.key.open(&proof).is_ok_and(|proof| *proof == PROOF) {
            let age = seconds(now).saturating_sub(confirmed);
            // A clock that went back makes nothing younger than new.
            return Ok(Some((
                transaction,
                Duration::from_secs(u64::try_from(age).unwrap_or(0)),
            )));
        }
        Err(StoreError::SavedKey {
            path: self.path.clone(),
        })
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        name.into()
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

/// Removes a file that a writer left behind who did not finish, with what SQLite keeps beside it.
fn remove(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
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
