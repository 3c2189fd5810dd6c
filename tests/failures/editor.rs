//! Whoever edits the policies: one transaction after another, and a record of what each revision must lead to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::runtime::Runtime;

use crate::model::{KINDS, State};
use crate::postgres::{PATIENCE, wait_until};

/// What log lines call the state of the data.
const REVISION: &str = "SELECT epoch || ':' || number FROM revision";

/// A committed revision.
#[derive(Clone, Debug)]
pub struct Change {
    pub revision: String,
    pub state: State,
    /// Which of [`KINDS`], and when the database said that it is committed. None: it was there before, or the answer was lost.
    pub edit: Option<(usize, Instant)>,
}

/// A session that edits.
pub struct Editor {
    runtime: Runtime,
    url: String,
    session: Option<Session>,
    /// Every revision that was ever committed, in commit order.
    pub history: Vec<Change>,
    /// Written, and not known to be committed.
    pending: Option<Change>,
    turns: [u16; KINDS.len()],
    /// Whether every other transaction begins before the one that commits before it.
    pub is_crossing: bool,
    /// A transaction that began, and has written nothing.
    early: Option<Session>,
}

enum Session {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// What a scenario tells the editor while it works.
pub struct Controls {
    stopped: AtomicBool,
    paused: AtomicBool,
    /// Whether it is between two edits and stays there.
    idle: AtomicBool,
    url: Mutex<String>,
    /// Where the edits are while they pause.
    state: Mutex<State>,
    /// What the database of that URL was restored to.
    restored: Mutex<Option<State>>,
    /// From when on all is well again.
    healed: Mutex<Option<Instant>>,
    made: AtomicUsize,
    /// Why edits failed, as a rule because their server is gone.
    failures: Mutex<Vec<String>>,
}

impl Editor {
    /// Of a database that holds the initial document.
    pub fn new(url: &str) -> Editor {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut editor = Editor {
            runtime,
            url: url.to_owned(),
            session: None,
            history: Vec::new(),
            pending: None,
            turns: [0; KINDS.len()],
            is_crossing: false,
            early: None,
        };
        editor.begin_with(State::initial());
        editor
    }

    /// The database is in this state now, whatever it was: it was made, or restored.
    pub fn begin_with(&mut self, state: State) {
        self.session = None;
        self.pending = None;
        let revision = self.run(&[REVISION.to_owned()]).unwrap();
        self.history.push(Change {
            revision,
            state,
            edit: None,
        });
    }

    /// The state that the last revision led to.
    pub fn state(&self) -> &State {
        &self.history.last().unwrap().state
    }

    /// Edits all kinds in turn, one edit each `pace`, while `meanwhile` runs.
    /// When all was well again, if that was said.
    pub fn during(&mut self, pace: Duration, meanwhile: impl FnOnce(&Controls)) -> Option<Instant> {
        let controls = Controls {
            stopped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            url: Mutex::new(self.url.clone()),
            state: Mutex::new(self.state().clone()),
            restored: Mutex::default(),
            healed: Mutex::default(),
            made: AtomicUsize::new(0),
            failures: Mutex::default(),
        };
        // also when it panics, or the thread is never joined
        struct Stop<'a>(&'a Controls);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.stopped.store(true, Ordering::SeqCst);
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.work(pace, &controls));
            let _stop = Stop(&controls);
            meanwhile(&controls);
        });
        controls.healed.into_inner().unwrap()
    }

    fn work(&mut self, pace: Duration, controls: &Controls) {
        let mut kind = 0;
        while !controls.stopped.load(Ordering::SeqCst) {
            let paused = controls.paused.load(Ordering::SeqCst);
            if paused {
                self.state().clone_into(&mut controls.state.lock().unwrap());
            }
            controls.idle.store(paused, Ordering::SeqCst);
            if !paused {
                let url = controls.url.lock().unwrap().clone();
                if url != self.url {
                    (self.url, self.session) = (url, None);
                }
                if let Some(state) = controls.restored.lock().unwrap().take() {
                    self.begin_with(state);
                }
                match self.edit(kind % KINDS.len()) {
                    Ok(()) => {
                        controls.made.fetch_add(1, Ordering::SeqCst);
                        kind += 1;
                    }
                    Err(error) => controls.failures.lock().unwrap().push(error),
                }
            }
            std::thread::sleep(pace);
        }
        // what was in doubt when the work ended is known before anybody judges
        wait_until(
            "a database that says whether the last edit is committed",
            PATIENCE,
            || self.settle().is_ok(),
        );
    }

    /// One edit of a kind. An error says nothing about whether it is committed; the next edit finds out first.
    pub fn edit(&mut self, kind: usize) -> Result<(), String> {
        self.settle()?;
        let edit = self.state().next(kind, self.turns[kind]);
        let (state, mut statements) = self.state().after(edit);
        match self.early.take() {
            Some(early) => self.session = Some(early),
            None => {
                if self.is_crossing {
                    self.early = Some(self.begin_early()?);
                }
                statements.insert(0, "BEGIN".to_owned());
            }
        }
        statements.push(REVISION.to_owned());
        let revision = self.run(&statements)?;
        self.pending = Some(Change {
            revision,
            state,
            edit: None,
        });
        self.turns[kind] += 1;
        self.run(&["COMMIT".to_owned()])?;
        if let Some(change) = self.pending.take() {
            let edit = Some((kind, Instant::now()));
            self.history.push(Change { edit, ..change });
        }
        Ok(())
    }

    fn begin_early(&self) -> Result<Session, String> {
        let begun = self.runtime.block_on(async {
            let mut session = Session::open(&self.url).await?;
            session.run("BEGIN").await?;
            // from here on it has its place in the order of transactions
            session.run("SELECT txid_current()").await?;
            Ok(session)
        });
        begun.map_err(|error: sqlx::Error| error.to_string())
    }

    /// Finds out what became of an edit whose end was not seen.
    fn settle(&mut self) -> Result<(), String> {
        if self.session.is_none() || self.pending.is_some() {
            self.session = None;
            let revision = self.run(&[REVISION.to_owned()])?;
            if let Some(change) = self.pending.take()
                && change.revision == revision
            {
                self.history.push(change);
            }
        }
        Ok(())
    }

    /// Runs statements; the last one's only value, if it has one.
    fn run(&mut self, statements: &[String]) -> Result<String, String> {
        let (url, session) = (self.url.clone(), &mut self.session);
        let result = self.runtime.block_on(async {
            let session = match session {
                Some(session) => session,
                None => session.insert(Session::open(&url).await?),
            };
            let mut value = String::new();
            for statement in statements {
                value = session.run(statement).await?;
            }
            Ok(value)
        });
        if result.is_err() {
            self.session = None;
        }
        result.map_err(|error: sqlx::Error| error.to_string())
    }
}

impl Session {
    async fn open(url: &str) -> Result<Session, sqlx::Error> {
        match url.starts_with("sqlite:") {
            // as a plain `sqlite3` session is
            true => Ok(Session::Sqlite(
                url.parse::<SqliteConnectOptions>()?
                    .foreign_keys(false)
                    .connect()
                    .await?,
            )),
            false => Ok(Session::Postgres(PgConnection::connect(url).await?)),
        }
    }

    async fn run(&mut self, statement: &str) -> Result<String, sqlx::Error> {
        let reads = statement == REVISION;
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Session::Sqlite(session) if reads => sqlx::query_scalar(statement).fetch_one(session).await,
            Session::Postgres(session) if reads => sqlx::query_scalar(statement).fetch_one(session).await,
            Session::Sqlite(session) => sqlx::raw_sql(statement).execute(session).await.map(|_| String::new()),
            Session::Postgres(session) => sqlx::raw_sql(statement).execute(session).await.map(|_| String::new()),
        }
    }
}

impl Controls {
    /// Returns when no edit is under way, and none begins until [`Controls::resume`].
    pub fn pause(&self) {
        self.idle.store(false, Ordering::SeqCst);
        self.paused.store(true, Ordering::SeqCst);
        wait_until("an editor that pauses", PATIENCE, || self.idle.load(Ordering::SeqCst));
    }

    /// What the last edit led to, during a pause.
    pub fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    /// Edits go on, on the server of this URL.
    pub fn resume(&self, url: &str) {
        url.clone_into(&mut self.url.lock().unwrap());
        self.paused.store(false, Ordering::SeqCst);
    }

    /// The same, on a database that was restored to this state.
    pub fn resume_from(&self, url: &str, state: State) {
        *self.restored.lock().unwrap() = Some(state);
        self.resume(url);
    }

    /// All is well again: edits from now on are soon in force.
    pub fn healed(&self) {
        *self.healed.lock().unwrap() = Some(Instant::now());
    }

    /// Why edits failed so far.
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap().clone()
    }

    /// How many edits were made.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}
