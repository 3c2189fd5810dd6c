//! A database of the test's own, and a second program that writes to it with plain SQL. Which database it is the test
//! binary says, as `crate::BACKEND`.
#![allow(dead_code, reason = "each test binary is of one database, and uses a part of it")]

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Directory, Options};
use portreeve::store::{Revision, Store, document};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use crate::BACKEND;
use crate::postgres::{self, Cluster};

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What a test binary runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
}

impl Backend {
    /// What differs between the two, most often a piece of SQL.
    pub fn either<T>(self, sqlite: T, postgres: T) -> T {
        match self {
            Backend::Sqlite => sqlite,
            Backend::Postgres => postgres,
        }
    }
}

pub struct Database {
    place: Place,
    pub store: Store,
}

/// Where a database is.
pub enum Place {
    File(tempfile::TempDir),
    Server(postgres::Database<'static>),
}

impl Place {
    /// Of a database that is empty, or not made yet.
    pub fn new() -> Result<Place> {
        Ok(match BACKEND {
            Backend::Sqlite => Place::File(tempfile::tempdir()?),
            Backend::Postgres => Place::Server(Cluster::shared().database_of_primary()),
        })
    }

    /// The database of the private cluster.
    pub fn server(&self) -> Result<&postgres::Database<'static>> {
        match self {
            Place::Server(database) => Ok(database),
            Place::File(_) => Err("it is a file".into()),
        }
    }

    pub fn url(&self) -> String {
        match self {
            Place::File(folder) => format!("sqlite:{}", folder.path().join("test.db").display()),
            Place::Server(database) => database.url(),
        }
    }
}

impl Database {
    pub async fn new() -> Result<Database> {
        let place = Place::new()?;
        let (store, _) = Store::migrate(&place.url()).await?;
        Ok(Database { place, store })
    }

    /// Of PostgreSQL, it is the primary's alone.
    pub fn url(&self) -> String {
        self.place.url()
    }

    /// The database of the private cluster.
    pub fn server(&self) -> Result<&postgres::Database<'static>> {
        self.place.server()
    }

    /// A session as `sqlite3` or `psql` begins one. In SQLite's there are no foreign keys and no recursive triggers.
    pub async fn plain(&self) -> Result<Plain> {
        match &self.place {
            Place::File(_) => {
                let options = SqliteConnectOptions::new()
                    .filename(self.store.path().ok_or("no file")?)
                    .foreign_keys(false)
                    .busy_timeout(Duration::from_secs(10));
                Ok(Plain::Sqlite(options.connect().await?))
            }
            Place::Server(database) => Plain::postgres(&database.url()).await,
        }
    }

    /// A session whose edits no trigger sees, which therefore move no revision; nor does any foreign key hold them.
    pub async fn without_triggers(&self) -> Result<Plain> {
        match &self.place {
            Place::File(_) => {
                let mut plain = self.plain().await?;
                let triggers = "SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger'";
                for drop in plain.texts(triggers).await? {
                    plain.run(&drop).await?;
                }
                Ok(plain)
            }
            Place::Server(database) => {
                let url = Cluster::shared().primary().admin_url(database.name());
                let mut plain = Plain::postgres(&url).await?;
                plain.run("SET session_replication_role = replica").await?;
                Ok(plain)
            }
        }
    }

    /// A session that may write what the schema's constraints forbid.
    pub async fn lawless(&self) -> Result<Plain> {
        match &self.place {
            Place::File(_) => {
                let mut plain = self.plain().await?;
                plain.run("PRAGMA ignore_check_constraints = on").await?;
                Ok(plain)
            }
            Place::Server(_) => {
                let mut plain = self.without_triggers().await?;
                let checks = "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) \
                              FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace";
                for drop in plain.texts(checks).await? {
                    plain.run(&drop).await?;
                }
                Ok(plain)
            }
        }
    }

    /// A directory that looks only when told to, so that tests decide what is seen together.
    pub async fn directory(&self) -> Arc<Directory> {
        self.directory_with(Options {
            poll: Duration::from_secs(3600),
            ..Options::default()
        })
        .await
    }

    pub async fn directory_with(&self, options: Options) -> Arc<Directory> {
        Directory::start(self.store.clone(), Dictionary::builtin(), options).await
    }
}

/// Another program's session.
pub enum Plain {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Plain {
    pub async fn postgres(url: &str) -> Result<Plain> {
        // A pooler refuses what sqlx would set here.
        let options = PgConnectOptions::from_str(url)?.extra_float_digits(None);
        let options = options.disable_statement_logging();
        Ok(Plain::Postgres(options.connect().await?))
    }

    /// Statements one after the other. PostgreSQL makes one transaction of them where they say nothing else.
    pub async fn run(&mut self, sql: &str) -> Result {
        let statements = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Plain::Sqlite(connection) => _ = statements.execute(connection).await?,
            Plain::Postgres(connection) => _ = statements.execute(connection).await?,
        }
        Ok(())
    }

    /// The message of a refusal.
    pub async fn refused(&mut self, sql: &str) -> Result<String> {
        match self.run(sql).await {
            Ok(()) => Err(format!("not refused: {sql}").into()),
            Err(error) => Ok(error.to_string()),
        }
    }

    pub async fn number(&mut self, sql: &str) -> Result<i64> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(match self {
            Plain::Sqlite(connection) => sqlx::query_scalar(sql).fetch_one(connection).await?,
            Plain::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection).await?,
        })
    }

    pub async fn texts(&mut self, sql: &str) -> Result<Vec<String>> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(match self {
            Plain::Sqlite(connection) => sqlx::query_scalar(sql).fetch_all(connection).await?,
            Plain::Postgres(connection) => {
                let rows = sqlx::raw_sql(sql).fetch_all(connection).await?;
                rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?
            }
        })
    }

    /// Rows of a table as COPY takes them, columns apart by tabs.
    pub async fn copy(&mut self, table: &str, rows: &str) -> Result<u64> {
        let Plain::Postgres(connection) = self else {
            return Err("it is a file".into());
        };
        let mut copy = connection.copy_in_raw(&format!("COPY {table} FROM STDIN")).await?;
        copy.send(rows.as_bytes()).await?;
        Ok(copy.finish().await?)
    }

    pub async fn revision(&mut self) -> Result<Revision> {
        let query = "SELECT epoch, number FROM revision";
        let (epoch, number): (String, i64) = match self {
            Plain::Sqlite(connection) => sqlx::query_as(query).fetch_one(connection).await?,
            Plain::Postgres(connection) => sqlx::query_as(query).fetch_one(connection).await?,
        };
        Ok(Revision {
            epoch: epoch.into(),
            number: number.try_into()?,
        })
    }

    /// As a later release's migration would leave it, as far as this one can tell.
    pub async fn migrated_to(&mut self, version: i64) -> Result {
        self.run(&format!(
            "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) \
             SELECT {version}, 'from the future', installed_on, success, checksum, 0 FROM _sqlx_migrations WHERE version = 1"
        ))
        .await
    }

    /// What moved after `revision`: table and site, `-` for none, in order.
    pub async fn changes(&mut self, revision: &Revision) -> Result<Vec<String>> {
        let number = revision.number;
        self.texts(&format!(
            "SELECT DISTINCT table_name || ' ' || coalesce(CAST(site_id AS TEXT), '-') FROM changes \
             WHERE revision > {number} ORDER BY 1"
        ))
        .await
    }
}

/// How a document is imported.
pub const REPLACE: document::Options = document::Options {
    merge: false,
    dry_run: false,
    force: false,
};
pub const MERGE: document::Options = document::Options { merge: true, ..REPLACE };
pub const FORCE: document::Options = document::Options { force: true, ..REPLACE };
pub const DRY: document::Options = document::Options {
    dry_run: true,
    ..REPLACE
};

/// Two sites, a shared policy, a policy and a fallback for each, a client and a listed address for each.
pub const SMALL: &str = "
    INSERT INTO sites (id, name, tag) VALUES (1, 'Leeds', 'leeds'), (2, 'York', 'york');
    INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (1, 1, '10.1.0.0/16', 'leeds-secret'), (2, 2, '10.2.0.0/16', 'york-secret');
    INSERT INTO policies (id, name, methods) VALUES (1, 'laptops', 'eap-tls'), (2, 'printers', 'mab'), (3, 'unused', NULL);
    INSERT INTO policies (id, name, fallback, action) VALUES (4, 'Leeds fallback', TRUE, 'reject'), (5, 'York fallback', TRUE, 'reject');
    INSERT INTO rules (id, policy_id, request_attribute, operator, value) VALUES
        (1, 1, 'NAS-Port-Type', 'equals', 'Ethernet'), (2, 2, 'NAS-Port-Type', 'equals', 'Ethernet'), (3, 3, 'User-Name', 'equals', 'x');
    INSERT INTO responses (id, policy_id, response_attribute, value) VALUES (1, 1, 'Filter-Id', 'laptops'), (2, 2, 'Filter-Id', 'printers');
    INSERT INTO site_policies (site_id, policy_id, priority) VALUES (1, 1, 10), (2, 1, 10), (1, 2, 20), (1, 4, NULL), (2, 5, NULL);
    INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (1, 1, '02-00-00-00-00-01'), (2, 2, '02:00:00:00:00:02');
    INSERT INTO responses (id, mac_authentication_bypass_id, response_attribute, value) VALUES (3, 1, 'Filter-Id', 'own');
";
