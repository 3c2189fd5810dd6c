//! The embedded database: one SQLite file in WAL mode, in which readers never wait for a writer.

use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use super::StoreError;
use super::db::Transaction;
use super::schema::{self, Migrated};
use super::settings::without_password;

/// How long a connection waits for another process's write. Too low: an edit during a large import fails; too high: a
/// command seems to hang behind a process that never commits.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections: one for the watcher, one for an edit, and some room. Too low: a long export delays the watcher; too high
/// costs a thread and a page cache (2 MB) each.
pub const CONNECTIONS: u32 = 4;

/// How soon opening is tried again where SQLite does not wait by itself.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    pool: SqlitePool,
    path: Arc<Path>,
    /// Device and inode of the file that was opened.
    identity: Option<(u64, u64)>,
}

impl SqliteStore {
    /// Opens the file at `url` (`sqlite:portreeve.db`), whose schema must be this program's.
    pub(super) async fn open(url: &str) -> Result<SqliteStore, StoreError> {
        let options = options(url)?;
        let path: Arc<Path> = options.get_filename().into();
        if !path.exists() {
            return Err(StoreError::Missing {
                path: path.to_path_buf(),
            });
        }
        let pool = pool(options).await.map_err(|error| cannot_open(&path, error))?;
        let store = SqliteStore::new(pool, path);
        let mut transaction = store.read().await?;
        schema::check(&mut transaction).await?;
        transaction.end().await?;
        Ok(store)
    }

    /// Brings the file to this program's schema, making it where there is none, and opens it.
    pub(super) async fn migrate(url: &str) -> Result<(SqliteStore, Migrated), StoreError> {
        let options = options(url)?.create_if_missing(true);
        let path: Arc<Path> = options.get_filename().into();
        make_private(&path);
        let pool = pool(options).await.map_err(|error| cannot_open(&path, error))?;
        // The identity is taken after SQLite made the file.
        let store = SqliteStore::new(pool, path);
        let mut transaction = store.write().await?;
        let from = schema::version(&mut transaction).await?;
        let to = from.max(schema::VERSION);
        schema::check_version(to)?;
        if let (true, Transaction::Sqlite(transaction)) = (from < to, &mut transaction) {
            // `run` is generic over `Acquire`, which makes this future one that tokio cannot spawn.
            let done = schema::migrator(true).run_direct(None, &mut **transaction, false).await;
            done.map_err(|error| StoreError::Migration(Box::new(error)))?;
        }
        transaction.commit().await?;
        Ok((store, Migrated { from, to }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A transaction in which every query sees one state of the data.
    pub(super) async fn read(&self) -> Result<Transaction, StoreError> {
        self.check_identity()?;
        Ok(Transaction::Sqlite(self.pool.begin().await?))
    }

    /// A transaction that holds the write lock from its beginning.
    pub(super) async fn write(&self) -> Result<Transaction, StoreError> {
        self.check_identity()?;
        Ok(Transaction::Sqlite(self.pool.begin_with("BEGIN IMMEDIATE").await?))
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

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
    std::fs::metadata(path)
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

fn options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    let refuse = |detail: &str| StoreError::Url {
        url: without_password(url),
        detail: detail.to_owned(),
    };
    if !url.starts_with("sqlite:") {
        return Err(refuse("it begins with neither `sqlite:` nor `postgres:`"));
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

/// Makes the file where there is none, for its owner alone: it holds the clients' shared secrets. SQLite gives the files
/// beside it the same mode. What fails here fails again when SQLite opens it, and is told then.
fn make_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    options.mode(0o600);
    let _ = options.open(path);
}

/// SQLite does not wait for a lock where it could wait for ever: of several processes that make one file a WAL database at
/// the same time, some are told at once that it is locked.
async fn pool(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let start = Instant::now();
    loop {
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(BUSY_TIMEOUT)
            // A file does not hang up.
            .test_before_acquire(false)
            .connect_with(options.clone())
            .await;
        match pool {
            Err(error) if is_locked(&error) && start.elapsed() < BUSY_TIMEOUT => tokio::time::sleep(AGAIN_AFTER).await,
            outcome => return outcome,
        }
    }
}

/// SQLITE_BUSY, which is the lower octet of what SQLite calls an extended result code.
fn is_locked(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse::<u32>().ok())
        .is_some_and(|code| code & 0xff == 5)
}

fn cannot_open(path: &Path, source: sqlx::Error) -> StoreError {
    StoreError::Open {
        path: path.to_path_buf(),
        source,
    }
}
