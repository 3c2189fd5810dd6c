//! Another program that writes to the node's database with plain SQL.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions};
use tokio::runtime::Runtime;

use super::Fallible;
use super::node::Node;

/// A session.
pub struct Sql {
    runtime: Runtime,
    connection: SqliteConnection,
}

impl Sql {
    pub fn open(node: &Node) -> Fallible<Sql> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // as a plain `sqlite3` session is
        let options = SqliteConnectOptions::new()
            .filename(node.folder().join("portreeve.db"))
            .foreign_keys(false)
            .busy_timeout(Duration::from_secs(10));
        let connection = runtime.block_on(options.connect())?;
        Ok(Sql { runtime, connection })
    }

    /// Runs statements; they are in the database when this returns.
    pub fn run(&mut self, sql: &str) -> Fallible {
        let sql = AssertSqlSafe(sql.to_owned());
        self.runtime
            .block_on(sqlx::raw_sql(sql).execute(&mut self.connection))?;
        Ok(())
    }
}
