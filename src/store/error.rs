//! What can be wrong with a database, and what to do about it.

use std::path::PathBuf;

use sqlx::migrate::MigrateError;

use super::schema;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no database.
    #[error(
        "`{url}` is no database that can be opened: {detail}\nhint: write `sqlite:portreeve.db`, or \
         `postgres://user@host/database`"
    )]
    Url {
        /// As configured, without its password.
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
        "the database has schema version {found}, and this program knows {} and the next\nhint: use the newer program that migrated it",
        schema::VERSION
    )]
    SchemaTooNew {
        /// Its version.
        found: i64,
    },
    /// A migration failed; nothing was changed.
    #[error("the migration failed, and nothing was changed: {0}\nhint: {hint}", hint = migration_hint(.0))]
    Migration(Box<MigrateError>),
    /// The table `revision` is not as the migrations made it.
    #[error("the table `revision` has no row\nhint: INSERT INTO revision (epoch, number) VALUES ('a-new-word', 1);")]
    NoRevision,
    /// Tables are there, and their triggers are not.
    #[error(
        "the database is not whole: the triggers of its tables are missing\nhint: a dump makes them last: is it being restored? \
         If that failed, restore again"
    )]
    Restoring,
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
    /// None of the PostgreSQL servers can be read.
    #[error("no database server can be read: {0}\nhint: `portreeve check` tries each of them")]
    NoServer(String),
    /// An edit was sent to a server that replays another one's.
    #[error(
        "`{server}` is a replica, and takes no edits\nhint: `[database] url` names the primary, and replicas go to \
         `replicas`; was another server promoted?"
    )]
    ReadOnly {
        /// Host and port.
        server: String,
    },
    /// Edits need the primary, and none is configured.
    #[error(
        "there is no primary to write to\nhint: `[database] url` names it; a node with `replicas` alone takes no edits"
    )]
    NoPrimary,
    /// The file with the password cannot be read.
    #[error("cannot read `password_file` `{}`: {detail}\nhint: a file that holds the password alone, readable by this user", path.display())]
    PasswordFile {
        /// As configured.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The set on disk cannot be written or read.
    #[error("cannot keep the policy set in `{}`: {detail}\nhint: `[cache] snapshot` names a file in a folder that this user may write", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The set on disk is under another key.
    #[error("the policy set in `{}` was kept under another key\nhint: `[cache] snapshot_key` is what it was; or delete the file, and the next one is written", path.display())]
    SavedKey {
        /// The file.
        path: PathBuf,
    },
    /// The key's text can be guessed.
    #[error(
        "`snapshot_key` is shorter than {} characters\nhint: `openssl rand -hex 32` makes one",
        super::saved::key::SHORTEST
    )]
    KeyTooShort,
    /// A sealed text does not open.
    #[error("a secret in the policy set on disk does not open\nhint: the file is damaged: delete it")]
    Sealed,
    /// A query failed.
    #[error("the database failed: {what}{hint}", what = what(.0), hint = hint(.0))]
    Database(#[from] sqlx::Error),
}

impl StoreError {
    /// Whether the same reading may well succeed if it is tried again at once.
    pub(super) fn is_passing(&self) -> bool {
        let StoreError::Database(error) = self else {
            return false;
        };
        match error {
            sqlx::Error::Io(_) => true,
            // serialization_failure (a conflict with recovery too), deadlock_detected, query_canceled, admin_shutdown, and
            // feature_not_supported: a plan that was made before the schema changed.
            sqlx::Error::Database(error) => error
                .code()
                .is_some_and(|code| ["40001", "40P01", "57014", "57P01", "0A000"].contains(&&*code)),
            _ => false,
        }
    }

    /// Whether the connection is gone, or never came about.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self, StoreError::Database(sqlx::Error::Io(_)))
    }

    /// Whether a server kept silent, rather than say what is wrong.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, StoreError::Database(sqlx::Error::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut)
    }
}

fn migration_hint(error: &MigrateError) -> &'static str {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return "does the database belong to another program?";
    };
    let code = error.as_database_error().and_then(|error| error.code());
    match code.as_deref() {
        Some("42501") => "the user of `[database] url` must own the database, or be granted CREATE on its schema",
        _ => "does the database belong to another program?",
    }
}

/// A failure in the server's or the system's own words, without the library's around them.
fn what(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// What to do about a failure, where a person can do something.
fn hint(error: &sqlx::Error) -> &'static str {
    let code = error.as_database_error().and_then(|error| error.code());
    if let Some(hint) = code.as_deref().and_then(postgres_hint) {
        return hint;
    }
    // https://www.sqlite.org/rescode.html, the primary codes: the extended ones have them in the lower octet.
    match code.and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff) {
        Some(5 | 6) => "\nhint: another program writes to it for long: let it commit",
        Some(8) => "\nhint: the file and its folder must be writable by this user",
        Some(10 | 13) => "\nhint: is the disk full, or failing?",
        Some(11 | 26) => "\nhint: the file is damaged, or no database: restore a backup",
        _ if matches!(error, sqlx::Error::Io(_)) => "\nhint: is the server running, and are its name and port right?",
        _ if matches!(error, sqlx::Error::PoolTimedOut) => {
            "\nhint: all connections are in use: try again, or raise `[database] connections`"
        }
        _ => "",
    }
}

/// https://www.postgresql.org/docs/current/errcodes-appendix.html: five characters, where SQLite has a number.
fn postgres_hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "28P01" | "28000" => {
            "\nhint: user and password are those of `[database]`, and pg_hba.conf lets this machine in?"
        }
        "3D000" => "\nhint: CREATE DATABASE makes it, and `portreeve migrate` its tables",
        "42501" => "\nhint: GRANT the rights on the tables to the user of `[database] url`",
        "42P01" => "\nhint: run `portreeve migrate`",
        "53300" => "\nhint: raise max_connections, or use fewer connections elsewhere",
        "55P03" => {
            "\nhint: another transaction holds the row of `revision`, or a table: pg_stat_activity tells whose; let it commit"
        }
        "57014" => "\nhint: `[database] statement_timeout` is too low for a server as busy as this",
        "57P03" => "\nhint: it starts, recovers or shuts down; try again",
        "25006" => "\nhint: `[database] url` names the primary; was it demoted?",
        _ => return None,
    })
}
