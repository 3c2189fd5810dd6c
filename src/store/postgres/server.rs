//! One PostgreSQL server: its connections, and how it is.
//!
//! sqlx's pool is not used for it: that tries again and again within its time-out where a server refuses, and then says
//! only that time is up; here the first refusal is the answer, since there is another server to ask.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Row};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::session::{Session, broken, dead};
use crate::store::settings::without_password;
use crate::store::{Settings, StoreError};

/// A connection is used no longer than this, so that a name that points elsewhere now is noticed.
pub(super) const LIFETIME: Duration = Duration::from_secs(300);

/// How long a server is passed over whose data is older than what is in force, or whose reading failed.
const PASSED_OVER: Duration = Duration::from_secs(5);

/// A server.
pub(crate) struct Server {
    /// Host and port, as configured: how log, metrics and `check` call it.
    pub(crate) name: String,
    /// Whether it is `[database] url`.
    pub(crate) is_primary: bool,
    database: String,
    options: PgConnectOptions,
    password_file: Option<PathBuf>,
    connect_timeout: Duration,
    statement_timeout: Duration,
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Pooled>>,
    /// Until when it is read only where no other can be.
    passed_over: Mutex<Option<Instant>>,
    status: watch::Sender<Status>,
}

/// A connection, and since when it is one.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) connection: PgConnection,
    pub(super) born: Instant,
}

/// How a server was when it was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It was not asked yet.
    Unknown,
    /// It does not answer, and why.
    Down(String),
    /// It answers.
    Up(Facts),
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// It replays another server's writes.
    pub(crate) is_standby: bool,
    /// It is connected to the server whose writes it replays; false for a primary.
    pub(crate) is_streaming: bool,
    /// Position in the write-ahead log of what can be read here, in octets.
    pub(crate) position: u64,
    /// The furthest position that it knows of.
    pub(crate) received: u64,
    /// How far behind it is.
    pub(crate) lag: Duration,
}

/// How the server is asked how it is: as one plain statement, which a pooler takes between transactions.
const PROBE: &str = "SELECT standby, EXISTS (SELECT 1 FROM pg_stat_wal_receiver), \
    (CASE WHEN standby THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')::bigint, \
    (CASE WHEN standby THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
          ELSE pg_current_wal_lsn() END - '0/0')::bigint \
    FROM (SELECT pg_is_in_recovery() AS standby OFFSET 0) AS role";

impl Server {
    pub(super) fn new(url: &str, is_primary: bool, settings: &Settings) -> Result<Server, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Url {
            url: without_password(url),
            detail: error.to_string(),
        })?;
        let host = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let options = options
            .application_name("portreeve")
            // A pooler in transaction mode gives each transaction another session: nothing may be kept in one, and of what
            // sqlx sets at the start it refuses this.
            .statement_cache_capacity(0)
            .extra_float_digits(None)
            .disable_statement_logging();
        Ok(Server {
            name: format!("{host}:{}", options.get_port()),
            is_primary,
            database: options.get_database().unwrap_or(options.get_username()).to_owned(),
            options,
            password_file: settings.password_file.clone(),
            connect_timeout: settings.connect_timeout,
            statement_timeout: settings.statement_timeout,
            slots: Arc::new(Semaphore::new(settings.connections.max(1) as usize)),
            idle: Mutex::default(),
            passed_over: Mutex::default(),
            status: watch::Sender::new(Status::Unknown),
        })
    }

    /// The database's name.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// How long it may take to accept a connection, or a transaction.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Follows how it is.
    pub(super) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// How it is. True if it was otherwise.
    pub(super) fn set_status(&self, status: Status) -> bool {
        let changed = std::mem::discriminant(&*self.status.borrow()) != std::mem::discriminant(&status);
        self.status.send_replace(status);
        changed
    }

    /// A transaction that only reads, all of it one state of the data.
    pub(super) async fn read(self: &Arc<Self>) -> Result<Session, StoreError> {
        let ms = self.statement_timeout.as_millis();
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {ms}");
        self.begin(begin, self.statement_timeout + Duration::from_secs(1)).await
    }

    /// A transaction that writes, one at a time. It waits for another one's end, and no longer than `patience`.
    pub(super) async fn write(self: &Arc<Self>, patience: Duration) -> Result<Session, StoreError> {
        // An import of a million rows is one transaction of many statements: each of them has the time.
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {}",
            patience.as_millis()
        );
        self.begin(begin, Duration::from_secs(3600)).await
    }

    async fn begin(self: &Arc<Self>, statement: String, limit: Duration) -> Result<Session, StoreError> {
        let slots = Arc::clone(&self.slots);
        let mut permit = timeout(self.connect_timeout, slots.acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        // One that waited for work may be to a server that was restarted since: that costs another try, not a failure.
        while let Some(connection) = self.idle() {
            match Session::begin(Arc::clone(self), connection, permit, &statement, limit).await {
                Ok(session) => return Ok(session),
                Err((held, _)) => permit = held,
            }
        }
        let connection = Pooled {
            connection: self.connect_watched().await?,
            born: Instant::now(),
        };
        let begun = Session::begin(Arc::clone(self), connection, permit, &statement, limit).await;
        begun.map_err(|(_, error)| error.into())
    }

    /// A new connection; its name is resolved now.
    pub(super) async fn connect(&self) -> Result<PgConnection, StoreError> {
        let options = self.connect_options()?;
        let connected = timeout(self.connect_timeout, options.connect()).await;
        let seconds = self.connect_timeout.as_secs_f32();
        Ok(connected.map_err(|_| broken(format!("no connection within {seconds} s")))??)
    }

    /// A new connection, given up when the server is found dead: another one can be asked sooner.
    async fn connect_watched(&self) -> Result<PgConnection, StoreError> {
        tokio::select! {
            biased;
            connected = self.connect() => connected,
            why = dead(self.status()) => Err(broken(why).into()),
        }
    }

    /// How to connect, with the password as it is now.
    pub(super) fn connect_options(&self) -> Result<PgConnectOptions, StoreError> {
        Ok(match &self.password_file {
            None => self.options.clone(),
            Some(path) => self.options.clone().password(&password(path)?),
        })
    }

    /// Asks it how it is.
    pub(super) async fn probe(&self, connection: &mut PgConnection, limit: Duration) -> Result<Facts, StoreError> {
        let row = timeout(limit, sqlx::raw_sql(PROBE).fetch_one(connection))
            .await
            .map_err(|_| broken(format!("no answer within {} s", limit.as_secs_f32())))??;
        let octets = |column: usize| -> sqlx::Result<u64> {
            Ok(u64::try_from(row.try_get::<Option<i64>, _>(column)?.unwrap_or(0)).unwrap_or(0))
        };
        Ok(Facts {
            is_standby: row.try_get(0)?,
            is_streaming: row.try_get(1)?,
            position: octets(2)?,
            received: octets(3)?,
            lag: Duration::ZERO,
        })
    }

    /// It answers, and what it says is of no use: others go before it for a while.
    pub(super) fn pass_over(&self) {
        let until = Instant::now() + PASSED_OVER;
        *self.passed_over.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    pub(super) fn is_passed_over(&self) -> bool {
        let until = *self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// For the next transaction.
    pub(super) fn put_back(&self, connection: Pooled) {
        if !self.slots.is_closed() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
    }

    pub(super) fn close(&self) {
        self.slots.close();
        self.forget();
    }

    /// Closes the connections that wait for work: they are to a server that went away.
    pub(super) fn forget(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn idle(&self) -> Option<Pooled> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| connection.born.elapsed() < LIFETIME);
        idle.pop()
    }
}

fn password(path: &std::path::Path) -> Result<Zeroizing<String>, StoreError> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|error| StoreError::PasswordFile {
        path: path.to_path_buf(),
        detail: error.to_string(),
    })?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Unknown => f.write_str("not asked yet"),
            Status::Down(why) => f.write_str(why),
            Status::Up(facts) if facts.is_standby => write!(f, "a replica, {} ms behind", facts.lag.as_millis()),
            Status::Up(_) => f.write_str("a primary"),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
