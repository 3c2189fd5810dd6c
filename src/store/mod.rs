//! The policy data: the database that holds it, and what of it a node keeps in memory.
//!
//! - [`Store`] opens, migrates and reads the database: a SQLite file, or PostgreSQL with its replicas.
//! - [`directory::Directory`] is what authentications use: a snapshot of everything, swapped within a second of a change.
//! - [`document`] is the policy set as TOML, [`edit`] are the single edits of the command line.
//!
//! The store knows rows and policies, never packets.

mod bulk;
pub mod cache;
pub mod changes;
mod db;
pub mod directory;
pub mod document;
pub mod edit;
mod error;
pub mod inspect;
mod keeping;
mod load;
pub mod postgres;
pub mod rows;
pub mod saved;
pub mod schema;
pub mod seed;
pub mod set;
mod settings;
mod snapshot;
pub mod source;
pub mod sqlite;
pub mod time;
mod write;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use db::{Transaction, query};
pub use directory::{Directory, Snapshot};
pub use error::StoreError;
pub use inspect::{Inspection, inspect};
use postgres::PostgresStore;
pub use schema::Migrated;
pub use settings::Settings;
use sqlite::SqliteStore;
use tokio::sync::watch;

/// The database of policy data. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Store {
    /// A file on this machine.
    Sqlite(SqliteStore),
    /// A PostgreSQL primary, replicas of it, or both.
    Postgres(PostgresStore),
}

/// Which state of the policy data: numbers rise with every change within an epoch, and a new epoch begins with a new or
/// restored database. Its text is `epoch:number`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision {
    /// Random at the database's creation; empty before anything was read.
    pub epoch: Arc<str>,
    /// Rises in commit order.
    pub number: u64,
}

/// How a server of the policy data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Host and port.
    pub name: String,
    /// How far behind the furthest server it is; none: it does not answer.
    pub lag: Option<Duration>,
    /// In words: its role, or why it does not answer.
    pub status: String,
    /// It is `[database] url`, the one that edits go to.
    pub is_url: bool,
    is_standby: bool,
}

impl ServerState {
    /// It answers, and replays nobody's writes.
    pub fn is_primary(&self) -> bool {
        self.lag.is_some() && !self.is_standby
    }
}

impl Store {
    /// Opens a database, whose schema must be this program's or the next one's.
    pub async fn open(settings: impl Into<Settings>) -> Result<Store, StoreError> {
        let settings = settings.into();
        match settings.sqlite_url()? {
            Some(url) => Ok(Store::Sqlite(SqliteStore::open(url).await?)),
            None => Ok(Store::Postgres(PostgresStore::open(settings).await?)),
        }
    }

    /// Opens a database for a node, which goes on without it: PostgreSQL's servers are watched from now on, and need not
    /// answer yet. A SQLite file has to be there.
    pub async fn attach(settings: impl Into<Settings>) -> Result<Store, StoreError> {
        let settings = settings.into();
        match settings.sqlite_url()? {
            Some(url) => Ok(Store::Sqlite(SqliteStore::open(url).await?)),
            None => Ok(Store::Postgres(PostgresStore::attach(settings).await?)),
        }
    }

    /// Brings the database to this program's schema, making a SQLite file where there is none, and opens it. Any number of
    /// processes may do it at once.
    pub async fn migrate(settings: impl Into<Settings>) -> Result<(Store, Migrated), StoreError> {
        let settings = settings.into();
        Ok(match settings.sqlite_url()? {
            Some(url) => {
                let (store, migrated) = SqliteStore::migrate(url).await?;
                (Store::Sqlite(store), migrated)
            }
            None => {
                let (store, migrated) = PostgresStore::migrate(settings).await?;
                (Store::Postgres(store), migrated)
            }
        })
    }

    /// The file, or the servers with their database, for messages.
    pub fn name(&self) -> String {
        match self {
            Store::Sqlite(store) => store.path().display().to_string(),
            Store::Postgres(store) => store.name(),
        }
    }

    /// The file; none: it is no file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Store::Sqlite(store) => Some(store.path()),
            Store::Postgres(_) => None,
        }
    }

    /// How each server is, where there are servers.
    pub fn servers(&self) -> Vec<ServerState> {
        match self {
            Store::Sqlite(_) => Vec::new(),
            Store::Postgres(store) => store.servers(),
        }
    }

    /// The database's revision now.
    pub async fn revision(&self) -> Result<Revision, StoreError> {
        let mut transaction = self.glance().await?;
        let revision = changes::revision(&mut transaction).await?;
        transaction.end().await?;
        Ok(revision)
    }

    /// Gives the data a new epoch, so that nodes take a restored database for what it is and read everything.
    pub async fn new_epoch(&self) -> Result<Revision, StoreError> {
        let mut transaction = self.write().await?;
        let sql = match self {
            Store::Sqlite(_) => "UPDATE revision SET epoch = lower(hex(randomblob(16)))",
            Store::Postgres(_) => postgres::NEW_EPOCH,
        };
        query(sql).execute(&mut transaction).await?;
        let revision = changes::revision(&mut transaction).await?;
        transaction.commit().await?;
        Ok(revision)
    }

    /// Closes all connections; SQLite's write-ahead log is merged into the file.
    pub async fn close(&self) {
        match self {
            Store::Sqlite(store) => store.close().await,
            Store::Postgres(store) => store.close(),
        }
    }

    /// Follows the number of the revision, as the primary tells it; none: nobody tells.
    fn notices(&self) -> Option<watch::Receiver<u64>> {
        match self {
            Store::Sqlite(_) => None,
            Store::Postgres(store) => store.announced(),
        }
    }

    /// A transaction in which every query sees one state of the data.
    async fn read(&self) -> Result<Transaction, StoreError> {
        let mut transaction = self.glance().await?;
        if let Store::Postgres(_) = self {
            transaction.run(postgres::HOLD_TABLES.to_owned()).await?;
        }
        Ok(transaction)
    }

    /// A transaction for a look at the revision alone, which waits for nobody.
    async fn glance(&self) -> Result<Transaction, StoreError> {
        match self {
            Store::Sqlite(store) => store.read().await,
            Store::Postgres(store) => store.read().await,
        }
    }

    /// A transaction that holds the write lock from its beginning, so that what it read is still so when it writes.
    async fn write(&self) -> Result<Transaction, StoreError> {
        match self {
            Store::Sqlite(store) => store.write().await,
            Store::Postgres(store) => store.write().await,
        }
    }
}

impl Revision {
    /// What a node is at before it read anything.
    pub fn none() -> Revision {
        Revision {
            epoch: "".into(),
            number: 0,
        }
    }

    /// As a row of `revision` has it. `restored` is set where the data was taken from another database, or from an older
    /// state of this one: until the first edit gives it an epoch of its own, it gets one made of the old one.
    fn of_row(epoch: String, number: i64, restored: Option<String>) -> Revision {
        let epoch = match restored {
            None => epoch,
            Some(mark) => format!("{epoch}~{mark}"),
        };
        Revision {
            epoch: epoch.into(),
            number: u64::try_from(number).unwrap_or(0),
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.number)
    }
}

impl FromStr for Revision {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Revision, StoreError> {
        text.rsplit_once(':')
            .filter(|(epoch, _)| !epoch.is_empty())
            .and_then(|(epoch, number)| {
                Some(Revision {
                    epoch: epoch.into(),
                    number: number.parse().ok()?,
                })
            })
            .ok_or_else(|| StoreError::NotARevision(text.to_owned()))
    }
}
