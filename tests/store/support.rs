//! A database in a temporary folder, and a second program that writes to it with plain SQL.

use std::sync::Arc;
use std::time::Duration;

use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Directory, Options};
use portreeve::store::{Revision, Store};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub struct Database {
    folder: tempfile::TempDir,
    pub store: Store,
}

impl Database {
    pub async fn new() -> Result<Database> {
        let folder = tempfile::tempdir()?;
        let (store, _) = Store::migrate(&url(&folder)).await?;
        Ok(Database { folder, store })
    }

    pub fn url(&self) -> String {
        url(&self.folder)
    }

    /// A session as `sqlite3` begins one: no foreign keys, no recursive triggers.
    pub async fn plain(&self) -> Result<Plain> {
        let options = SqliteConnectOptions::new()
            .filename(self.store.path().ok_or("no file")?)
            .foreign_keys(false)
            .busy_timeout(Duration::from_secs(10));
        Ok(Plain(options.connect().await?))
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

fn url(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("test.db").display())
}

/// Another program's session.
pub struct Plain(SqliteConnection);

impl Plain {
    pub async fn run(&mut self, sql: &str) -> Result {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&mut self.0)
            .await?;
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
        Ok(sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&mut self.0)
            .await?)
    }

    pub async fn texts(&mut self, sql: &str) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_all(&mut self.0)
            .await?)
    }

    pub async fn revision(&mut self) -> Result<Revision> {
        let row = sqlx::query("SELECT epoch, number FROM revision")
            .fetch_one(&mut self.0)
            .await?;
        let number: i64 = row.try_get(1)?;
        Ok(Revision {
            epoch: row.try_get::<String, _>(0)?.into(),
            number: number.try_into()?,
        })
    }
}

/// Two sites, a shared policy, a policy and a fallback for each, a client and a listed address for each.
pub const SMALL: &str = "
    INSERT INTO sites (id, name, tag) VALUES (1, 'Leeds', 'leeds'), (2, 'York', 'york');
    INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (1, 1, '10.1.0.0/16', 'leeds-secret'), (2, 2, '10.2.0.0/16', 'york-secret');
    INSERT INTO policies (id, name, methods) VALUES (1, 'laptops', 'eap-tls'), (2, 'printers', 'mab'), (3, 'unused', NULL);
    INSERT INTO policies (id, name, fallback, action) VALUES (4, 'Leeds fallback', 1, 'reject'), (5, 'York fallback', 1, 'reject');
    INSERT INTO rules (id, policy_id, request_attribute, operator, value) VALUES
        (1, 1, 'NAS-Port-Type', 'equals', 'Ethernet'), (2, 2, 'NAS-Port-Type', 'equals', 'Ethernet'), (3, 3, 'User-Name', 'equals', 'x');
    INSERT INTO responses (id, policy_id, response_attribute, value) VALUES (1, 1, 'Filter-Id', 'laptops'), (2, 2, 'Filter-Id', 'printers');
    INSERT INTO site_policies (site_id, policy_id, priority) VALUES (1, 1, 10), (2, 1, 10), (1, 2, 20), (1, 4, NULL), (2, 5, NULL);
    INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (1, 1, '02-00-00-00-00-01'), (2, 2, '02:00:00:00:00:02');
    INSERT INTO responses (id, mac_authentication_bypass_id, response_attribute, value) VALUES (3, 1, 'Filter-Id', 'own');
";
