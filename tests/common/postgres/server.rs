//! One server, and what may happen to it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use super::keeper::Keeper;
use super::process::{children, is_alive};
use super::{ADMIN, PATIENCE, text, wait_until};

/// In `postgresql.conf` of every server. Small, and nothing is flushed: a test never survives the machine's own crash. Numbers
/// of connections and processes stay what `initdb` took: a replica made from its files must not have fewer.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 16MB
fsync = off
wal_level = replica
hot_standby = on
wal_keep_size = 256MB
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 100ms
jit = off
";
/// Passwords everywhere: the machine may have other users.
const ACCESS: &str = "\
host all         all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
";

/// A server with its own data, port and log.
pub struct Server {
    slot: usize,
    port: u16,
    /// The superuser's.
    password: String,
    data: PathBuf,
    process: Mutex<State>,
    keeper: Arc<Keeper>,
}

#[derive(Clone, Copy, Default)]
struct State {
    running: Option<Pid>,
    /// Stopped by a signal, or its replay held back: nobody waits for it to catch up.
    held: bool,
}

/// A copy of a server's data, as it was when [`Server::backup`] was called.
pub struct Backup(PathBuf);

impl Server {
    pub(super) fn new(slot: usize, port: u16, password: &str, keeper: Arc<Keeper>) -> Server {
        Server {
            slot,
            port,
            password: password.to_owned(),
            data: keeper.folder().join(slot.to_string()),
            process: Mutex::default(),
            keeper,
        }
    }

    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self, user: &str, password: &str, database: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// The superuser's, who may still come when the connection limit is reached.
    pub fn admin_url(&self, database: &str) -> String {
        self.url(ADMIN, &self.password, database)
    }

    /// What it logged since the cluster began.
    pub fn log(&self) -> String {
        fs::read_to_string(self.keeper.folder().join(format!("{}.log", self.slot))).unwrap_or_default()
    }

    // ---- statements

    /// Runs statements in database `postgres` as the superuser.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> String {
        self.sql_in("postgres", statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    pub fn sql_in(&self, database: &str, statements: &str) -> Result<String, String> {
        self.psql(&self.admin_url(database), statements)
    }

    pub(super) fn psql(&self, url: &str, statements: &str) -> Result<String, String> {
        self.psql_each(url, &[statements])
    }

    /// Each for itself, in one session: a program to start costs more than most statements.
    pub(super) fn psql_each(&self, url: &str, statements: &[&str]) -> Result<String, String> {
        let mut psql = self.keeper.command("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
            url,
        ]);
        for statements in statements {
            psql.args(["--command", statements]);
        }
        let output = psql.stdin(Stdio::null()).output().unwrap();
        let said = |octets: &[u8]| String::from_utf8_lossy(octets).trim_end().to_owned();
        match output.status.success() {
            true => Ok(said(&output.stdout)),
            false => Err(said(&output.stderr)),
        }
    }

    /// Changes a setting that a reload is enough for; it stays over a restart.
    pub fn set(&self, name: &str, value: &str) {
        self.sql(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        let before = self.sql("SELECT pg_conf_load_time()");
        self.sql("SELECT pg_reload_conf()");
        // every process reads it by itself; new sessions have it when the server has
        wait_until("a reloaded configuration", PATIENCE, || {
            self.sql("SELECT pg_conf_load_time()") != before
        });
    }

    // ---- running and not

    pub fn is_running(&self) -> bool {
        self.state().running.is_some_and(is_alive)
    }

    /// Its processes, the postmaster first.
    pub fn processes(&self) -> Vec<Pid> {
        let postmaster = self.state().running.filter(|process| is_alive(*process));
        postmaster
            .into_iter()
            .chain(postmaster.into_iter().flat_map(children))
            .collect()
    }

    /// Starts it, and returns when it takes connections.
    pub fn start(&self) {
        if !self.is_running() {
            self.launch();
        }
        self.ready().unwrap();
    }

    /// Starts it, and does not wait.
    pub(super) fn launch(&self) {
        *self.process.lock().unwrap() = State {
            running: Some(
                self.keeper
                    .launch(self.slot, "postgres", &[Path::new("-D"), &self.data]),
            ),
            held: false,
        };
    }

    pub(super) fn ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let postmaster = self.state().running.ok_or("it was never started")?;
        while Instant::now() < deadline && is_alive(postmaster) {
            let file = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = file.lines().map(str::trim).collect();
            if lines.first() == Some(&postmaster.to_string().as_str()) && lines.get(7) == Some(&"ready") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("server {} does not start; its log:\n{}", self.slot, self.log()))
    }

    /// A clean end: sessions are cut, all is written.
    pub fn stop(&self) {
        let Some(postmaster) = self.state().running.filter(|process| is_alive(*process)) else {
            return;
        };
        self.resume();
        let processes = self.processes();
        let _ = signal::kill(postmaster, Signal::SIGINT);
        self.gone(&processes);
    }

    /// All its processes at once by SIGKILL, as by a reset of its machine.
    pub fn kill(&self) {
        let Some(postmaster) = self.state().running.filter(|process| is_alive(*process)) else {
            return;
        };
        // a stopped one makes no more children
        let _ = signal::kill(postmaster, Signal::SIGSTOP);
        let processes = self.processes();
        for process in processes.iter().rev() {
            let _ = signal::kill(*process, Signal::SIGKILL);
        }
        self.gone(&processes);
    }

    fn gone(&self, processes: &[Pid]) {
        wait_until("an ended server", PATIENCE, || {
            !processes.iter().any(|process| is_alive(*process))
        });
        *self.process.lock().unwrap() = State::default();
    }

    /// All its processes by SIGSTOP: the kernel goes on taking connections, and nobody ever answers.
    pub fn pause(&self) {
        self.hold(true);
        self.processes().into_iter().for_each(|process| {
            let _ = signal::kill(process, Signal::SIGSTOP);
        });
    }

    pub fn resume(&self) {
        self.processes().into_iter().rev().for_each(|process| {
            let _ = signal::kill(process, Signal::SIGCONT);
        });
        self.hold(false);
    }

    // ---- replication

    /// Whether it takes no writes.
    pub fn is_replica(&self) -> bool {
        self.sql("SELECT pg_is_in_recovery()") == "t"
    }

    /// Whether it runs and nothing holds it back.
    pub(super) fn keeps_up(&self) -> bool {
        self.is_running() && !self.state().held
    }

    /// Makes a replica apply each commit so much later; zero ends it.
    pub fn set_apply_delay(&self, delay: Duration) {
        self.hold(!delay.is_zero());
        self.set("recovery_min_apply_delay", &format!("{}ms", delay.as_millis()));
    }

    /// Makes a replica receive and not apply.
    pub fn pause_replay(&self) {
        self.hold(true);
        self.sql("SELECT pg_wal_replay_pause()");
        wait_until("a paused replay", PATIENCE, || {
            self.sql("SELECT pg_get_wal_replay_pause_state()") == "paused"
        });
    }

    pub fn resume_replay(&self) {
        self.sql("SELECT pg_wal_replay_resume()");
        self.hold(false);
    }

    /// How far its data is: what it wrote, or what it applied.
    pub fn position(&self) -> u64 {
        let position = self.sql(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0'",
        );
        position.parse().unwrap_or(0)
    }

    /// Waits until it has applied all that another has.
    #[track_caller]
    pub fn caught_up(&self, other: &Server, within: Duration) {
        let target = other.position();
        wait_until("a replica that caught up", within, || self.position() >= target);
    }

    pub(super) fn promote(&self) {
        assert_eq!(self.sql("SELECT pg_promote(true, 30)"), "t");
    }

    /// Makes it a replica of another, whose history it must share. One that runs as a replica changes over at once; a stopped
    /// one does when it starts.
    pub fn follow(&self, primary: &Server) {
        self.keeper.write(&self.data.join("standby.signal"), "");
        self.configure(Some(primary));
        self.hold(false);
        if self.is_running() {
            self.sql("SELECT pg_reload_conf()");
        }
    }

    /// Cuts a replica off: it gets nothing more until it is told to follow.
    pub fn isolate(&self) {
        self.hold(true);
        self.configure(None);
        self.sql("SELECT pg_reload_conf()");
        wait_until("a replica that is cut off", PATIENCE, || {
            self.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
        });
    }

    /// Makes a stopped one a primary.
    pub(super) fn lead(&self) {
        let _ = fs::remove_file(self.data.join("standby.signal"));
        self.configure(None);
    }

    fn configure(&self, primary: Option<&Server>) {
        let mut settings = format!("port = {}\n{SETTINGS}", self.port);
        if self.keeper.programs().has_library("pg_stat_statements") {
            settings.push_str("shared_preload_libraries = 'pg_stat_statements'\n");
        }
        // asked only by a recovery: there is no archive beside the copy
        settings.push_str("restore_command = 'false'\n");
        if let Some(Server { port, password, .. }) = primary {
            let _ = writeln!(
                settings,
                "primary_conninfo = 'host=127.0.0.1 port={port} user={ADMIN} password={password} connect_timeout=5'"
            );
        }
        self.keeper.write(&self.data.join("postgresql.conf"), &settings);
        self.keeper.write(&self.data.join("pg_hba.conf"), ACCESS);
    }

    // ---- copies

    /// Throws its data away, takes a copy of what another has now, and starts as its replica.
    pub fn rebuild(&self, from: &Server) {
        self.kill();
        fs::remove_dir_all(&self.data).unwrap();
        from.copy_to(&self.data);
        self.follow(from);
        self.start();
    }

    /// A copy to go back to.
    pub fn backup(&self) -> Backup {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = self.keeper.folder().join(format!("backup-{number}"));
        self.copy_to(&folder);
        Backup(folder)
    }

    /// Goes back to a copy, as a primary, as an operator does after a disaster: by `recovery` to the end of what the copy has,
    /// which begins a new timeline, or by just starting it. Replicas of what it was know a future that it does not have, and
    /// must be rebuilt.
    pub fn restore(&self, Backup(folder): &Backup, recovery: bool) {
        self.kill();
        fs::remove_dir_all(&self.data).unwrap();
        self.keeper.run("cp", &["-a", &text(folder), &text(&self.data)]);
        self.lead();
        if recovery {
            self.keeper.write(&self.data.join("recovery.signal"), "");
        }
        self.start();
        wait_until("the end of the recovery", PATIENCE, || !self.is_replica());
    }

    fn copy_to(&self, folder: &Path) {
        let options = [
            "--no-sync",
            "--checkpoint=fast",
            "--wal-method=stream",
            "--pgdata",
            &text(folder),
            "--dbname",
        ];
        self.keeper
            .run("pg_basebackup", &[&options[..], &[&self.admin_url("")]].concat());
        // settings that were changed by statement are the other server's
        self.keeper.write(&folder.join("postgresql.auto.conf"), "");
    }

    fn state(&self) -> State {
        *self.process.lock().unwrap()
    }

    fn hold(&self, held: bool) {
        self.process.lock().unwrap().held = held;
    }
}
