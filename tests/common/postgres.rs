//! A private PostgreSQL: a primary and two streaming replicas, for every test that needs one. A test file includes this file
//! by its path, `#[cfg(test)] #[path = "common/postgres.rs"] mod postgres;`.
//!
//! [`Cluster::shared`] is one cluster for the test binary, and [`Cluster::database`] an empty database in it with a role of
//! its own, so tests do not see each other. A test that stops, kills, promotes or delays servers starts its own by
//! [`Cluster::start`]; [`Server`] has what can be done to one.
//!
//! It takes the newest of Debian's `/usr/lib/postgresql/*/bin`, or what `PATH` has, and works as any user; as root the servers
//! run as `postgres` or `nobody`. Ports, passwords and the folder are its own, and nothing outlives the test process, however
//! that ends: `postgres/keeper.sh` says how. What goes wrong in here is a panic, as it is in a test.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

#[path = "postgres/database.rs"]
mod database;
#[path = "postgres/keeper.rs"]
mod keeper;
#[path = "postgres/pooler.rs"]
mod pooler;
#[path = "postgres/process.rs"]
mod process;
#[path = "postgres/programs.rs"]
mod programs;
#[path = "postgres/server.rs"]
mod server;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use database::Database;
use keeper::Keeper;
pub use process::is_alive;
use programs::Programs;
pub use server::{Backup, Server};

/// How long anything here may take before a test fails, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The superuser.
const ADMIN: &str = "admin";
const SERVERS: usize = 3;
/// Below the ports that the kernel gives to outgoing connections, so that a stopped server finds its own again.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A server, by what it was at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Primary,
    FirstReplica,
    SecondReplica,
}

/// A primary and two replicas, stopped and their folder removed when dropped.
pub struct Cluster {
    servers: [Server; SERVERS],
    /// The index of the server that takes writes.
    primary: AtomicUsize,
    databases: AtomicU32,
    /// Two databases made at once would wait for each other's template.
    creating: Mutex<()>,
    keeper: Arc<Keeper>,
}

impl Cluster {
    /// The cluster of this test binary, for tests that leave its servers alone.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(Cluster::start)
    }

    /// A cluster of one's own; some three seconds.
    pub fn start() -> Cluster {
        Cluster::start_with(&[])
    }

    /// A cluster whose servers have these variables in their environment.
    pub fn start_with(variables: &[(&str, String)]) -> Cluster {
        let programs = Programs::find();
        let mut last = String::new();
        // another process may take a port between the look and the start
        for _ in 0..3 {
            match Cluster::try_start(&programs, variables) {
                Ok(cluster) => return cluster,
                Err(error) => last = error,
            }
        }
        panic!("no postgresql: {last}");
    }

    fn try_start(programs: &Programs, variables: &[(&str, String)]) -> Result<Cluster, String> {
        let keeper = Arc::new(Keeper::start(programs, variables));
        let password = random_word();
        initdb(&keeper, &password);
        let ports = free_ports();
        let servers = [0, 1, 2].map(|slot| Server::new(slot, ports[slot], &password, Arc::clone(&keeper)));
        let [primary, replicas @ ..] = &servers;
        for replica in replicas {
            // a database that was never started, copied as it lies there, is as good as a backup
            keeper.run("cp", &["-a", &text(primary.data()), &text(replica.data())]);
            replica.follow(primary);
        }
        primary.lead();
        for server in &servers {
            server.launch();
        }
        for server in &servers {
            server.ready()?;
        }
        Ok(Cluster {
            servers,
            primary: AtomicUsize::new(0),
            databases: AtomicU32::new(0),
            creating: Mutex::new(()),
            keeper,
        })
    }

    pub fn server(&self, which: Which) -> &Server {
        &self.servers[which as usize]
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server that takes writes.
    pub fn primary(&self) -> &Server {
        &self.servers[self.primary.load(Ordering::Relaxed)]
    }

    /// The servers that do not, whatever state they are in.
    pub fn replicas(&self) -> impl Iterator<Item = &Server> {
        let primary = self.primary().slot();
        self.servers.iter().filter(move |server| server.slot() != primary)
    }

    /// Makes a replica the primary. The old one must not run any more, or there are two; the other replica still follows the
    /// old one until it is told to [`Server::follow`] this one.
    pub fn promote(&self, which: Which) {
        self.server(which).promote();
        self.primary.store(which as usize, Ordering::Relaxed);
    }

    /// Stops what runs, restores a backup as the primary ([`Server::restore`]), makes both replicas from it, and starts all.
    pub fn restore(&self, backup: &Backup, recovery: bool) {
        let [primary, replicas @ ..] = &self.servers;
        self.servers.iter().for_each(Server::stop);
        self.primary.store(0, Ordering::Relaxed);
        primary.restore(backup, recovery);
        replicas.iter().for_each(|replica| replica.rebuild(primary));
    }

    /// An empty database on the primary, owned by a role of its own, already on every replica that keeps up.
    pub fn database(&self) -> Database<'_> {
        let database = self.database_of_primary();
        self.settle();
        database
    }

    /// The same, for a test that asks the primary alone, or waits for the replicas when it needs them.
    pub fn database_of_primary(&self) -> Database<'_> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let _one_at_a_time = self.creating.lock();
        Database::create(self, format!("portreeve_{number}"))
    }

    /// Waits until every replica that runs and is not held back has all that the primary has committed.
    pub fn settle(&self) {
        let primary = self.primary();
        for replica in self.replicas().filter(|replica| replica.keeps_up()) {
            replica.caught_up(primary, PATIENCE);
        }
    }

    /// Where its files lie.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.keeper.end();
    }
}

/// Waits until it holds; `what` says in the failure what never did.
#[track_caller]
pub fn wait_until(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "after {within:?}: never {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn initdb(keeper: &Keeper, password: &str) {
    let (data, file) = (keeper.folder().join("0"), keeper.folder().join("password"));
    keeper.write(&file, password);
    let user = format!("--username={ADMIN}");
    let options = [
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--wal-segsize=4",
        "--no-sync",
        &user,
    ];
    let password_file = format!("--pwfile={}", text(&file));
    keeper.run(
        "initdb",
        &[&options[..], &[&password_file, "--pgdata", &text(&data)]].concat(),
    );
}

fn free_ports() -> [u16; SERVERS] {
    let span = u32::from(PORTS.end - PORTS.start);
    let from = u32::from_be_bytes(random());
    let mut held = (0..span).filter_map(|step| {
        let port = PORTS.start + u16::try_from((from.wrapping_add(step)) % span).ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(port)
    });
    [0; SERVERS].map(|_| held.next().expect("no port is free"))
}

/// For passwords: safe in SQL, in a connection string and in a URL.
fn random_word() -> String {
    random::<12>().iter().map(|octet| format!("{octet:02x}")).collect()
}

fn random<const N: usize>() -> [u8; N] {
    let mut octets = [0; N];
    aws_lc_rs::rand::fill(&mut octets).unwrap();
    octets
}

fn text(path: &Path) -> String {
    PathBuf::from(path).into_os_string().into_string().unwrap()
}
