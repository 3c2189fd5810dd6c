//! PostgreSQL: one primary that takes the edits, and replicas that nodes read.
//!
//! - `server` is one server with its connections, `session` a transaction on it.
//! - `replicas` knows how each server is, and which one to read.
//!
//! Everything works through a pooler in transaction mode (PgBouncer): no statement is named, no setting outlives its
//! transaction. Only LISTEN does not; nodes then see a change at their next look.

pub(crate) mod replicas;
pub(crate) mod server;
pub(crate) mod session;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection;
use tokio::sync::watch;

use self::replicas::Prober;
use self::server::{Server, Status};
use self::session::Session;
use super::db::{Transaction, query_scalar};
use super::schema::{self, Migrated};
use super::{ServerState, Settings, StoreError};

/// How long an edit waits for another one's transaction. Too low: an edit during a large import fails; too high: a command
/// seems to hang behind a session that never commits.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a replica may take at a start to replay a migration that the primary just made.
const REPLAY: Duration = Duration::from_secs(5);

/// Epoch, number, and where the table is if it is not where the epoch began: a restored dump makes the table anew, with
/// other identifiers, and replicas have their primary's. Empty where the dump is not all there yet: it makes the triggers of
/// the seven tables last.
pub(super) const REVISION: &str = "SELECT epoch, number, CASE \
        WHEN origin = here THEN NULL \
        WHEN (SELECT count(*) FROM pg_trigger WHERE tgname = 'revision_lock') < 7 THEN '' \
        ELSE here END \
    FROM revision, (SELECT revision_place() AS here OFFSET 0) AS place";

/// Keeps TRUNCATE away until a reading ends: it empties a table for transactions that began before it, too, and they would
/// see the one table without its rows beside others with them. Before the first SELECT, so that what is seen is not older.
/// PostgreSQL looks for a deadlock after a second: a reading gives up before it could cost somebody an edit.
pub(super) const HOLD_TABLES: &str = "SET LOCAL lock_timeout = '500ms'; \
    LOCK TABLE sites, clients, policies, site_policies, rules, responses, mac_authentication_bypasses IN ACCESS SHARE MODE";

/// Begins a new epoch here and now.
pub(super) const NEW_EPOCH: &str = "UPDATE revision SET epoch = replace(gen_random_uuid()::text, '-', ''), \
    origin = revision_place(), timeline = revision_timeline()";

/// Begins a migration: under a lock with a number of its own, the name's octets.
const MIGRATE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(x'706f727472656576'::bigint)";

/// The servers of one database.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    servers: Arc<[Arc<Server>]>,
    /// Which server was read last.
    current: Arc<Mutex<Option<usize>>>,
    max_lag: Duration,
    prober: Option<Arc<Prober>>,
}

impl PostgresStore {
    /// Connects, and looks at the schema.
    pub(super) async fn open(settings: Settings) -> Result<PostgresStore, StoreError> {
        let store = PostgresStore::new(&settings)?;
        let mut transaction = store.read().await?;
        schema::check(&mut transaction).await?;
        transaction.end().await?;
        Ok(store)
    }

    /// Watches the servers from now on. Those that answer now have to have a schema that is right.
    pub(super) async fn attach(settings: Settings) -> Result<PostgresStore, StoreError> {
        let mut store = PostgresStore::new(&settings)?;
        let prober = Prober::start(Arc::clone(&store.servers), &settings).await;
        store.prober = Some(Arc::new(prober));
        match store.check_schema().await {
            Err(wrong @ (StoreError::SchemaTooOld { .. } | StoreError::SchemaTooNew { .. })) => return Err(wrong),
            Err(error) => tracing::warn!("no database answers yet: {error}"),
            Ok(()) => {}
        }
        Ok(store)
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + REPLAY;
        loop {
            let mut transaction = self.read().await?;
            let may_come = transaction.is_of_standby() && Instant::now() < deadline;
            let checked = schema::check(&mut transaction).await;
            transaction.end().await?;
            match checked {
                Err(StoreError::SchemaTooOld { .. }) if may_come => tokio::time::sleep(REPLAY / 50).await,
                checked => return checked,
            }
        }
    }

    /// Brings the primary to this program's schema.
    pub(super) async fn migrate(settings: Settings) -> Result<(PostgresStore, Migrated), StoreError> {
        let store = PostgresStore::new(&settings)?;
        // Says so where it is a replica.
        let mut looking = store.begin_write().await?;
        let mut from = schema::version(&mut looking).await?;
        looking.end().await?;
        let to = from.max(schema::VERSION);
        schema::check_version(to)?;
        if from < to {
            let mut connection = store.primary()?.connect().await?;
            // Whoever comes second waits here, and then finds nothing left to do.
            let mut transaction = connection.begin_with(MIGRATE).await?;
            from = schema::postgres_version(&mut transaction).await?;
            let done = schema::migrator(false).run_direct(None, &mut *transaction, false).await;
            done.map_err(|error| StoreError::Migration(Box::new(error)))?;
            transaction.commit().await?;
        }
        Ok((store, Migrated { from, to }))
    }

    /// Servers and database, for messages.
    pub(super) fn name(&self) -> String {
        let names: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let database = self.servers.first().map(|server| server.database()).unwrap_or_default();
        format!("{database} on {}", names.join(", "))
    }

    /// How each server is.
    pub(super) fn servers(&self) -> Vec<ServerState> {
        let state = |server: &Arc<Server>| {
            let status = server.status().borrow().clone();
            ServerState {
                name: server.name.clone(),
                lag: match &status {
                    Status::Up(facts) => Some(facts.lag),
                    Status::Unknown | Status::Down(_) => None,
                },
                is_url: server.is_primary,
                is_standby: matches!(&status, Status::Up(facts) if facts.is_standby),
                status: status.to_string(),
            }
        };
        self.servers.iter().map(state).collect()
    }

    /// What this transaction reads is of no use: other servers go before its server for a while.
    pub(super) fn pass_over(session: &Session) {
        session.server().pass_over();
    }

    /// How far behind the server of a transaction is.
    pub(super) fn lag(session: &Session) -> Duration {
        match &*session.server().status().borrow() {
            Status::Up(facts) => facts.lag,
            Status::Unknown | Status::Down(_) => Duration::ZERO,
        }
    }

    /// Whether the server of a transaction replays another one's writes.
    pub(super) fn is_standby(session: &Session) -> bool {
        matches!(&*session.server().status().borrow(), Status::Up(facts) if facts.is_standby)
    }

    /// A transaction that reads one state of the data, on the server that is best to read.
    pub(super) async fn read(&self) -> Result<Transaction, StoreError> {
        let current = *self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusals = Vec::new();
        for index in replicas::order(&self.servers, current, self.max_lag) {
            let Some(server) = self.servers.get(index) else {
                continue;
            };
            match server.read().await {
                Ok(session) => {
                    let before = self
                        .current
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .replace(index);
                    if self.prober.is_some() && before != Some(index) {
                        tracing::info!(server = server.name, "reading the policies from this server");
                    }
                    return Ok(Transaction::Postgres(session));
                }
                Err(error) => {
                    if let Some(prober) = &self.prober {
                        prober.failed(index, &error);
                    }
                    refusals.push((&server.name, error));
                }
            }
        }
        // One error is told with its own hint.
        match (refusals.len(), refusals.pop()) {
            (1, Some((_, error))) if self.servers.len() == 1 => Err(error),
            (_, last) => {
                refusals.extend(last);
                let all: Vec<String> = match refusals.is_empty() {
                    true => self
                        .servers
                        .iter()
                        .map(|server| format!("{}: {}", server.name, *server.status().borrow()))
                        .collect(),
                    false => refusals
                        .iter()
                        .map(|(name, error)| format!("{name}: {}", error.to_string().replace('\n', "; ")))
                        .collect(),
                };
                Err(StoreError::NoServer(all.join("; ")))
            }
        }
    }

    /// A transaction on the primary, the only one that writes: what it read is still so when it writes.
    pub(super) async fn write(&self) -> Result<Transaction, StoreError> {
        let mut transaction = self.begin_write().await?;
        schema::check(&mut transaction).await?;
        transaction
            .run("SELECT number FROM revision FOR UPDATE".to_owned())
            .await?;
        Ok(transaction)
    }

    async fn begin_write(&self) -> Result<Transaction, StoreError> {
        let primary = self.primary()?;
        let mut transaction = Transaction::Postgres(primary.write(PATIENCE).await?);
        let is_standby: bool = query_scalar("SELECT pg_is_in_recovery()")
            .fetch_one(&mut transaction)
            .await?;
        match is_standby {
            false => Ok(transaction),
            true => Err(StoreError::ReadOnly {
                server: primary.name.clone(),
            }),
        }
    }

    fn primary(&self) -> Result<&Arc<Server>, StoreError> {
        let primary = self.servers.iter().find(|server| server.is_primary);
        primary.ok_or(StoreError::NoPrimary)
    }

    /// The number of the last revision that the primary told of; 0: none yet.
    pub(super) fn announced(&self) -> Option<watch::Receiver<u64>> {
        self.prober.as_ref().map(|prober| prober.announced())
    }

    pub(super) fn close(&self) {
        for server in self.servers.iter() {
            server.close();
        }
    }

    fn new(settings: &Settings) -> Result<PostgresStore, StoreError> {
        let primary = settings.url.iter().map(|url| Server::new(url, true, settings));
        let replicas = settings.replicas.iter().map(|url| Server::new(url, false, settings));
        let servers: Result<Vec<Arc<Server>>, StoreError> =
            primary.chain(replicas).map(|server| server.map(Arc::new)).collect();
        Ok(PostgresStore {
            servers: servers?.into(),
            current: Arc::default(),
            max_lag: settings.max_lag,
            prober: None,
        })
    }
}
