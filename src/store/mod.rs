//! The policy data: the database that holds it, and what of it a node keeps in memory.
//!
//! - [`Store`] opens, migrates and reads the database (SQLite; PostgreSQL's place is kept by the enum).
//! - [`directory::Directory`] is what authentications use: a snapshot of everything, swapped within a second of a change.
//! - [`document`] is the policy set as TOML, [`edit`] are the single edits of the command line.
//!
//! The store knows rows and policies, never packets.

pub mod cache;
pub mod changes;
pub mod directory;
pub mod document;
pub mod edit;
pub mod inspect;
mod load;
pub mod rows;
pub mod schema;
pub mod set;
mod snapshot;
pub mod source;
pub mod time;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite};

pub use directory::{Directory, Snapshot};
pub use inspect::{Inspection, inspect};

/// How long a connection waits for another process's write. Too low: an edit during a large import fails; too high: a
/// command seems to hang behind a process that never commits.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections: one for the watcher, one for an edit, and some room. Too low: a long export delays the watcher; too high
/// costs a thread and a page cache (2 MB) each.
pub const CONNECTIONS: u32 = 4;

/// A transaction of the store's database.
pub(crate) type Transaction = sqlx::Transaction<'static, Sqlite>;

/// The database of policy data. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Store {
    /// A file on this machine.
    Sqlite(SqliteStore),
}

/// A SQLite file in WAL mode: readers never wait for a writer.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    pool: SqlitePool,
    path: Arc<Path>,
    /// Device and inode of the file that was opened.
    identity: Option<(u64, u64)>,
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

impl Store {
    /// Opens the database at `url` (`sqlite:portreeve.db`), whose schema must be this program's.
    pub async fn open(url: &str) -> Result<Store, StoreError> {
        let options = sqlite_options(url)?;
        let path: Arc<Path> = options.get_filename().into();
        if !path.exists() {
            return Err(StoreError::Missing {
                path: path.to_path_buf(),
            });
        }
        let pool = pool(options).await.map_err(|error| cannot_open(&path, error))?;
        let store = SqliteStore::new(pool, path);
        let mut connection = store.pool.acquire().await?;
        schema::check(schema::version(&mut connection).await?)?;
        drop(connection);
        Ok(Store::Sqlite(store))
    }

    /// Brings the database at `url` to this program's schema, making the file where there is none, and opens it.
    /// Any number of processes may do it at once.
    pub async fn migrate(url: &str) -> Result<(Store, Migrated), StoreError> {
        let options = sqlite_options(url)?.create_if_missing(true);
        let path: Arc<Path> = options.get_filename().into();
        make_private(&path);
        let pool = pool(options).await.map_err(|error| cannot_open(&path, error))?;
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
        let from = schema::version(&mut transaction).await?;
        if from > schema::VERSION {
            return Err(StoreError::SchemaTooNew { found: from });
        }
        schema::migrate(&mut transaction).await?;
        transaction.commit().await?;
        let migrated = Migrated {
            from,
            to: schema::VERSION,
        };
        Ok((Store::Sqlite(SqliteStore::new(pool, path)), migrated))
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        let Store::Sqlite(store) = self;
        &store.path
    }

    /// The database's revision now.
    pub async fn revision(&self) -> Result<Revision, StoreError> {
        let mut transaction = self.read().await?;
        changes::revision(&mut transaction).await
    }

    /// Gives the data a new epoch, so that nodes take a restored database for what it is and read everything.
    pub async fn new_epoch(&self) -> Result<Revision, StoreError> {
        let mut transaction = self.write().await?;
        sqlx::query("UPDATE revision SET epoch = lower(hex(randomblob(16)))")
            .execute(&mut *transaction)
            .await?;
        let revision = changes::revision(&mut transaction).await?;
        transaction.commit().await?;
        Ok(revision)
    }

    /// Closes all connections; the write-ahead log is merged into the file.
    pub async fn close(&self) {
        let Store::Sqlite(store) = self;
        store.pool.close().await;
    }

    /// A transaction in which every query sees one state of the data.
    pub(crate) async fn read(&self) -> Result<Transaction, StoreError> {
        let Store::Sqlite(store) = self;
        store.check_identity()?;
        Ok(store.pool.begin().await?)
    }

    /// A transaction that holds the write lock from its beginning, so that what it read is still so when it writes.
    pub(crate) async fn write(&self) -> Result<Transaction, StoreError> {
        let Store::Sqlite(store) = self;
        store.check_identity()?;
        Ok(store.pool.begin_with("BEGIN IMMEDIATE").await?)
    }
}

impl SqliteStore {
    fn new(pool: SqlitePool, path: Arc<Path>) -> SqliteStore {
        let identity = identity(&path);
        SqliteStore { pool, path, identity }
    }

    /// Open connections go on reading a file that was deleted or replaced, and would never see a change again.
    fn check_identity(&self) -> Result<(), StoreError> {
        match identity(&self.path) == self.identity {
            true => Ok(()),
            false => Err(StoreError::Replaced {
                path: self.path.to_path_buf(),
            }),
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path)
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0 where there was none.
    pub from: i64,
    /// The schema version now.
    pub to: i64,
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no SQLite file.
    #[error(
        "`{url}` is no database that can be opened: {detail}\nhint: write `sqlite:portreeve.db`, or a path after `sqlite:`"
    )]
    Url {
        /// As configured.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no such file.
    #[error("there is no database `{}`\nhint: `portreeve migrate` makes it", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened.
    #[error("cannot open the database `{}`: {source}\nhint: the file and its folder must be writable by this user", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: sqlx::Error,
    },
    /// The schema is older than the program.
    #[error(
        "the database has schema version {found}, and this program needs {}\nhint: run `portreeve migrate`",
        schema::VERSION
    )]
    SchemaTooOld {
        /// Its version; 0: none of our tables.
        found: i64,
    },
    /// The schema is newer than the program.
    #[error(
        "the database has schema version {found}, and this program knows {} only\nhint: use the newer program that migrated it",
        schema::VERSION
    )]
    SchemaTooNew {
        /// Its version.
        found: i64,
    },
    /// A migration failed; nothing was changed.
    #[error("the migration failed, and nothing was changed: {0}\nhint: is the file a database of another program?")]
    Migration(Box<sqlx::migrate::MigrateError>),
    /// The table `revision` is not as the migrations made it.
    #[error(
        "the table `revision` has no row\nhint: INSERT INTO revision (epoch, number) VALUES (lower(hex(randomblob(16))), 1);"
    )]
    NoRevision,
    /// The text is no revision.
    #[error("`{0}` is no revision\nhint: a revision looks like `5f1c…:42`, as `portreeve export` writes it")]
    NotARevision(String),
    /// The file is another than the one that was opened.
    #[error(
        "the database `{}` was deleted or replaced\nhint: restart this program; a backup is restored in place by \
         `sqlite3 DATABASE \".restore BACKUP\"`",
        path.display()
    )]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A query failed.
    #[error("the database failed: {0}{hint}", hint = hint(.0))]
    Database(#[from] sqlx::Error),
}

impl Revision {
    /// What a node is at before it read anything.
    pub fn none() -> Revision {
        Revision {
            epoch: "".into(),
            number: 0,
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

fn sqlite_options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    let refuse = |detail: &str| StoreError::Url {
        url: url.to_owned(),
        detail: detail.to_owned(),
    };
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        return Err(refuse("PostgreSQL is not supported by this version"));
    }
    if !url.starts_with("sqlite:") {
        return Err(refuse("it does not begin with `sqlite:`"));
    }
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(refuse("a database in memory is seen by no other process"));
    }
    let options = SqliteConnectOptions::from_str(url).map_err(|error| refuse(&error.to_string()))?;
    Ok(options
        .journal_mode(SqliteJournalMode::Wal)
        // An edit that was confirmed survives a power cut; NORMAL would lose the last ones in WAL mode.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // Deletions by REPLACE fire triggers as well.
        .pragma("recursive_triggers", "on")
        // Sorting and undoing a statement need no file.
        .pragma("temp_store", "memory")
        .disable_statement_logging())
}

/// What to do about a failure, where a person can do something.
fn hint(error: &sqlx::Error) -> &'static str {
    let code = error.as_database_error().and_then(|error| error.code());
    // https://www.sqlite.org/rescode.html, the primary codes: the extended ones have them in the lower octet.
    match code.and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff) {
        Some(5 | 6) => "\nhint: another program writes to it for long: let it commit",
        Some(8) => "\nhint: the file and its folder must be writable by this user",
        Some(10 | 13) => "\nhint: is the disk full, or failing?",
        Some(11 | 26) => "\nhint: the file is damaged, or no database: restore a backup",
        _ if matches!(error, sqlx::Error::PoolTimedOut) => "\nhint: other commands and reloads keep it busy; try again",
        _ => "",
    }
}

/// Makes the file where there is none, for its owner alone: it holds the clients' shared secrets. SQLite gives the files
/// beside it the same mode. What fails here fails again when SQLite opens it, and is told then.
fn make_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let _ = options.open(path);
}

async fn pool(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(BUSY_TIMEOUT)
        // A file does not hang up.
        .test_before_acquire(false)
        .connect_with(options)
        .await
}

fn cannot_open(path: &Path, source: sqlx::Error) -> StoreError {
    StoreError::Open {
        path: path.to_path_buf(),
        source,
    }
}
