//! A transaction on one PostgreSQL server, under a watch: a server that falls silent is given up.

use std::sync::Arc;
use std::time::Duration;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::server::{Pooled, Server, Status};

/// A connection inside a transaction. Dropped without an end, the connection is closed: what is half done on it, or half
/// read from it, is nobody's next transaction.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Option<Pooled>,
    guard: Guard,
    /// Its place among the connections that the server may have.
    permit: OwnedSemaphorePermit,
    server: Arc<Server>,
}

/// Gives an operation up when the server is found dead, or after the longest time that a statement may take.
#[derive(Debug)]
pub(crate) struct Guard {
    status: watch::Receiver<Status>,
    limit: Duration,
}

impl Session {
    /// Begins with `statement` on a connection of `server`; gives the permit back where that fails.
    pub(super) async fn begin(
        server: Arc<Server>,
        connection: Pooled,
        permit: OwnedSemaphorePermit,
        statement: &str,
        limit: Duration,
    ) -> Result<Session, (OwnedSemaphorePermit, sqlx::Error)> {
        let guard = Guard {
            status: server.status(),
            limit,
        };
        let mut session = Session {
            connection: Some(connection),
            guard,
            permit,
            server,
        };
        let patience = session.server.connect_timeout();
        let (connection, guard) = session.parts();
        let begin = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection);
        let begun = tokio::time::timeout(patience, guard.run(begin)).await;
        match begun.unwrap_or_else(|_| Err(broken("it accepted, and stays silent".to_owned()))) {
            Ok(_) => Ok(session),
            Err(error) => Err((session.permit, error)),
        }
    }

    /// The connection, and the watch over it.
    #[expect(
        clippy::expect_used,
        reason = "only an end takes the connection, and an end takes the session too"
    )]
    pub(crate) fn parts(&mut self) -> (&mut PgConnection, &Guard) {
        let pooled = self.connection.as_mut().expect("a connection until the end");
        (&mut pooled.connection, &self.guard)
    }

    pub(crate) async fn commit(mut self) -> sqlx::Result<()> {
        let (connection, guard) = self.parts();
        guard.run(sqlx::raw_sql("COMMIT").execute(connection)).await?;
        self.put_back();
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> sqlx::Result<()> {
        let (connection, guard) = self.parts();
        guard.run(sqlx::raw_sql("ROLLBACK").execute(connection)).await?;
        self.put_back();
        Ok(())
    }

    /// Whose data it is.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    fn put_back(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.server.put_back(connection);
        }
    }
}

impl Guard {
    /// Waits for an operation, as long as there is hope.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        tokio::select! {
            biased;
            result = work => result,
            why = dead(self.status.clone()) => Err(broken(why)),
            () = tokio::time::sleep(self.limit) => {
                Err(broken(format!("no answer within {} s", self.limit.as_secs_f32())))
            }
        }
    }
}

/// Waits until a server is found dead; says why.
pub(super) async fn dead(mut status: watch::Receiver<Status>) -> String {
    // An error says that the server is no longer watched: then only time ends the wait.
    let why = status.wait_for(|status| matches!(status, Status::Down(_))).await;
    match why.map(|status| status.to_string()) {
        Ok(why) => why,
        Err(_) => std::future::pending().await,
    }
}

/// What sqlx says of a connection that is no more.
pub(super) fn broken(why: String) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
}
