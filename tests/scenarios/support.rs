//! A node, its clock and its policy data; with the other ends, everything that a test needs.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use portreeve::conversations::Limits;
use portreeve::eap::method::Methods;
use portreeve::eap::peer::Failure;
use portreeve::listen::{Arrival, Exchange, Handled, Handler};
use portreeve::nas::{self, Attempt};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::packet::Packet;
use portreeve::reason::Reason;
use portreeve::server::metrics::Metrics;
use portreeve::server::probe::Probe;
pub use portreeve::server::record::Text;
use portreeve::server::record::{Authentication, Next, Records, Sink};
use portreeve::server::{self, Late, Server, Worker};
use portreeve::store::directory::{self, Directory};
use portreeve::store::document::{self, Source};
use portreeve::store::{Revision, Store};
use portreeve::telemetry::exporter::Exporter;
use portreeve::trust::revocation::{self, Revocation};
use portreeve::trust::{self, TrustStore};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::pki;
pub use crate::supplicant::*;
pub use crate::switch::*;

/// Of the switch at Leeds.
pub const LEEDS: &str = "192.0.2.1:50000";

/// Two sites: laptops by certificate get VLAN 120, listed printers 130.
pub const SITES: &str = r#"
[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Common-Name == laptop-7"]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120"]

[[policy]]
name = "printers"
methods = ["mab"]
rules = ["NAS-Port-Type == Ethernet"]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 130"]

[[policy]]
name = "nobody else"
fallback = true
action = "reject"

[[site]]
name = "Leeds"
tag = "leeds"
fallback = "nobody else"
policies = [{ policy = "laptops", priority = 1 }, { policy = "printers", priority = 2 }]
[[site.client]]
network = "192.0.2.0/24"
secret = "testing123"
[[site.mac]]
address = "02-00-00-00-00-01"

[[site]]
name = "York"
tag = "york"
fallback = "nobody else"
policies = [{ policy = "laptops", priority = 1 }]
[[site.client]]
network = "198.51.100.0/24"
secret = "testing123"
[[site.mac]]
address = "02-00-00-00-00-02"
"#;

/// A clock that stands until a test moves it.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    wall: SystemTime,
    elapsed_us: Arc<AtomicU64>,
    /// What the wall clock is off by.
    off_s: Arc<AtomicI64>,
}

impl Clock {
    fn new() -> Clock {
        Clock {
            start: Instant::now(),
            wall: SystemTime::now(),
            elapsed_us: Arc::default(),
            off_s: Arc::default(),
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.elapsed_us.load(Ordering::Relaxed))
    }

    pub fn now(&self) -> Instant {
        self.start + self.elapsed()
    }

    pub fn wall(&self) -> SystemTime {
        let right = self.wall + self.elapsed();
        let off = self.off_s.load(Ordering::Relaxed);
        let by = Duration::from_secs(off.unsigned_abs());
        if off < 0 { right - by } else { right + by }
    }

    /// Puts the wall clock wrong by so much; time goes on as before.
    pub fn is_off_by(&self, seconds: i64) {
        self.off_s.store(seconds, Ordering::Relaxed);
    }

    pub fn advance(&self, by: Duration) {
        self.elapsed_us.fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.wall().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

/// What a test may choose of a node.
pub struct Setup {
    pub settings: server::Settings,
    pub directory: directory::Options,
    pub trust: trust::Settings,
    pub profiles: Vec<trust::Profile>,
    pub revocation: Option<revocation::Settings>,
}

impl Setup {
    fn new() -> Setup {
        Setup {
            settings: server::Settings {
                node: 7,
                conversations: Limits {
                    total: 1_000,
                    per_client: 500,
                    idle: Duration::from_secs(30),
                    keep_final: Duration::from_secs(5),
                },
                duplicate_bytes: 1 << 20,
                unknown_state_is_silent: false,
                observe_message_authenticator: false,
                probe_users: vec!["radius-test".to_owned()],
                methods: Methods::ALL,
                fragment_size: 1_024,
                timezone: jiff::tz::TimeZone::UTC,
                max_stale: Duration::from_secs(86_400),
            },
            // The directory looks at the database when a test tells it to.
            directory: directory::Options {
                poll: Duration::from_secs(3_600),
                ..directory::Options::default()
            },
            trust: trust_files("server", &["ca"]),
            profiles: Vec::new(),
            revocation: None,
        }
    }
}

/// Of `tests/common/pki.rs`.
pub fn trust_files(server: &str, authorities: &[&str]) -> trust::Settings {
    let dir = pki::folder().unwrap();
    trust::Settings::new(
        dir.join(format!("{server}.pem")),
        dir.join(format!("{server}.key")),
        authorities.iter().map(|name| dir.join(format!("{name}.pem"))).collect(),
    )
}

/// A server and all that it stands on.
pub struct Node {
    pub server: Server,
    pub directory: Arc<Directory>,
    pub trust: Arc<TrustStore>,
    pub revocation: Option<Arc<Revocation>>,
    pub clock: Clock,
    pub workers: Vec<Worker>,
    records: Records,
    exporter: Exporter,
    store: Store,
    _folder: tempfile::TempDir,
}

/// What a datagram led to.
pub enum Response {
    Reply(Vec<u8>),
    Silent,
    Later(Pending),
}

/// A request that waits, and the worker that took it.
pub struct Pending {
    worker: usize,
    future: std::pin::Pin<Box<dyn Future<Output = Late> + Send>>,
}

impl Response {
    #[track_caller]
    pub fn reply(self) -> Vec<u8> {
        match self {
            Response::Reply(octets) => octets,
            Response::Silent => panic!("no answer"),
            Response::Later(_) => panic!("it waits"),
        }
    }

    #[track_caller]
    pub fn later(self) -> Pending {
        match self {
            Response::Later(pending) => pending,
            Response::Reply(_) => panic!("answered at once"),
            Response::Silent => panic!("no answer"),
        }
    }

    pub fn is_silent(&self) -> bool {
        matches!(self, Response::Silent)
    }
}

impl Node {
    pub async fn start(document: &str) -> Node {
        Node::with(document, |_| ()).await
    }

    /// A node over a database filled from `document`.
    pub async fn with(document: &str, change: impl FnOnce(&mut Setup)) -> Node {
        let (folder, store) = database().await;
        import(&store, document).await;
        Node::over(folder, store, change).await
    }

    /// A node over a database that is closed before it was read.
    pub async fn without_database() -> Node {
        let (folder, store) = database().await;
        store.close().await;
        Node::over(folder, store, |_| ()).await
    }

    async fn over(folder: tempfile::TempDir, store: Store, change: impl FnOnce(&mut Setup)) -> Node {
        let mut setup = Setup::new();
        change(&mut setup);
        let clock = Clock::new();
        let dictionary = Dictionary::builtin();
        let directory = Directory::start(store.clone(), dictionary, setup.directory).await;
        let trust = Arc::new(TrustStore::load(setup.trust, setup.profiles, Arc::new(clock.clone())).unwrap());
        let (sink, records) = Sink::channel(Sink::CAPACITY);
        let (exporter, registry) = Exporter::new().unwrap();
        let probe = Probe::new(dictionary, unix_seconds(clock.wall())).unwrap();
        let wall = clock.clone();
        let revocation = setup.revocation.map(|settings| {
            let revocation = Revocation::new(&settings, Arc::new(clock.clone()));
            assert!(revocation.reload().is_empty());
            Arc::new(revocation)
        });
        let server = Server::new(
            setup.settings,
            Arc::clone(&directory),
            Arc::clone(&trust),
            sink,
            Arc::new(Metrics::new(registry)),
            probe,
            Arc::new(move || wall.wall()),
        )
        .with_revocation(revocation.clone());
        Node {
            workers: (0..2).map(|index| server.worker(index)).collect(),
            server,
            directory,
            trust,
            revocation,
            clock,
            records,
            exporter,
            store,
            _folder: folder,
        }
    }

    /// Replaces the policy data, and puts it in force.
    pub async fn import(&self, document: &str) -> Revision {
        import(&self.store, document).await;
        self.directory.refresh().await.unwrap();
        self.directory.snapshot().revision.clone()
    }

    /// Runs plain SQL as another program does, and puts what it wrote in force.
    pub async fn sql(&self, sql: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.store.path().unwrap());
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        self.directory.refresh().await.unwrap();
    }

    /// Hands a datagram to the worker that the kernel would choose by its source.
    pub fn deliver(&mut self, source: SocketAddr, datagram: &[u8]) -> Response {
        self.deliver_to(source, datagram, true)
    }

    pub fn deliver_to(&mut self, source: SocketAddr, datagram: &[u8], may_wait: bool) -> Response {
        let index = usize::from(source.port()) % self.workers.len();
        let now = self.clock.now();
        let arrival = Arrival {
            datagram,
            source,
            destination: IpAddr::from([203, 0, 113, 1]),
            now,
            worker: index,
            may_wait,
        };
        let mut reply = Vec::new();
        let handled = self.server.handle(&mut self.workers[index], &arrival, &mut reply);
        respond(index, handled, reply)
    }

    /// Hands the first worker datagrams that it took at once.
    pub fn deliver_together(&mut self, datagrams: &[(SocketAddr, Vec<u8>)]) -> Vec<Response> {
        let now = self.clock.now();
        let mut exchanges = Vec::new();
        for (source, datagram) in datagrams {
            exchanges.push(Exchange {
                arrival: Arrival {
                    datagram,
                    source: *source,
                    destination: IpAddr::from([203, 0, 113, 1]),
                    now,
                    worker: 0,
                    may_wait: true,
                },
                reply: Vec::new(),
                handled: Handled::Silent,
            });
        }
        self.server.handle_all(&mut self.workers[0], &mut exchanges);
        let responses = exchanges.into_iter();
        responses
            .map(|exchange| respond(0, exchange.handled, exchange.reply))
            .collect()
    }

    /// Hands each worker a datagram at the same moment.
    pub fn deliver_at_once(&mut self, datagrams: &[(SocketAddr, Vec<u8>)]) -> Vec<Response> {
        let (server, now) = (&self.server, self.clock.now());
        let barrier = std::sync::Barrier::new(datagrams.len());
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (index, (worker, (source, datagram))) in self.workers.iter_mut().zip(datagrams).enumerate() {
                let barrier = &barrier;
                threads.push(scope.spawn(move || {
                    let arrival = Arrival {
                        datagram,
                        source: *source,
                        destination: IpAddr::from([203, 0, 113, 1]),
                        now,
                        worker: index,
                        may_wait: true,
                    };
                    let mut reply = Vec::new();
                    barrier.wait();
                    let handled = server.handle(worker, &arrival, &mut reply);
                    respond(index, handled, reply)
                }));
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Waits for what a request waits for, and goes on with it.
    pub async fn resume(&mut self, pending: Pending) -> Response {
        let late = pending.future.await;
        let (now, mut reply) = (self.clock.now(), Vec::new());
        let worker = &mut self.workers[pending.worker];
        let handled = self.server.resume(worker, late, now, &mut reply);
        respond(pending.worker, handled, reply)
    }

    /// Moves the clock, as the server's own tick sees it.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.server.tick(self.clock.now());
    }

    /// What was recorded since the last look.
    pub fn records(&mut self) -> Vec<Authentication> {
        let mut records = Vec::new();
        while let Next::Record(record) = self.records.take() {
            records.push(record);
        }
        assert_eq!(self.records.take_lost(), 0);
        records
    }

    /// The one thing that was recorded since the last look.
    #[track_caller]
    pub fn record(&mut self) -> Authentication {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }

    /// How many packets got no answer for this reason.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.counted(&format!(
            "portreeve_dropped_packets_total{{reason=\"{}\"}}",
            reason.word()
        ))
    }

    /// What one line of `/metrics` says.
    pub fn counted(&self, name: &str) -> u64 {
        let text = self.exporter.render();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// One authentication, to its end.
    #[track_caller]
    pub fn authenticate(&mut self, switch: &mut Switch, attempt: &mut Attempt) -> End {
        for _ in 0..200 {
            match self.round(switch, attempt) {
                Told::Challenge => {}
                Told::End(end) => return end,
            }
        }
        panic!("no end: {:?}", self.records());
    }

    /// One request and its reply.
    #[track_caller]
    pub fn round(&mut self, switch: &mut Switch, attempt: &mut Attempt) -> Told {
        let request = switch.next(attempt);
        match self.deliver(switch.source, &request) {
            Response::Silent => Told::End(End::Silent),
            response => told(attempt, &response.reply()),
        }
    }

    /// So many rounds, which all have to end in challenges.
    #[track_caller]
    pub fn rounds(&mut self, switch: &mut Switch, attempt: &mut Attempt, count: usize) {
        for number in 0..count {
            let told = self.round(switch, attempt);
            assert!(matches!(told, Told::Challenge), "round {number}: {told:?}");
        }
    }
}

fn respond(worker: usize, handled: Handled<Late>, reply: Vec<u8>) -> Response {
    match handled {
        Handled::Reply => Response::Reply(reply),
        Handled::Silent => Response::Silent,
        Handled::Later(future) => Response::Later(Pending { worker, future }),
    }
}

async fn database() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.db").display());
    let (store, _) = Store::migrate(&url).await.unwrap();
    (folder, store)
}

async fn import(store: &Store, text: &str) {
    let source = Source {
        name: "test.toml".to_owned(),
        text: text.to_owned().into(),
    };
    let options = document::Options {
        force: true,
        ..document::Options::default()
    };
    let imported = document::import(store, Dictionary::builtin(), vec![source], options).await;
    imported.unwrap_or_else(|error| panic!("{error}"));
}

pub fn unix_seconds(wall: SystemTime) -> i64 {
    let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

/// What a round led to.
#[derive(Debug)]
pub enum Told {
    Challenge,
    End(End),
}

/// How an authentication ended, as the switch saw it.
#[derive(Debug)]
pub enum End {
    Accept(Vec<u8>),
    Reject(Vec<u8>, Option<Failure>),
    Silent,
}

impl End {
    #[track_caller]
    pub fn accept(&self) -> Packet<'_> {
        match self {
            End::Accept(octets) => Packet::parse(octets).unwrap(),
            other => panic!("no accept: {other:?}"),
        }
    }

    #[track_caller]
    pub fn reject(&self) -> Packet<'_> {
        match self {
            End::Reject(octets, _) => Packet::parse(octets).unwrap(),
            other => panic!("no reject: {other:?}"),
        }
    }
}

/// Shows the attempt a reply, which must be right.
#[track_caller]
pub fn told(attempt: &mut Attempt, reply: &[u8]) -> Told {
    let end = match attempt.reply(reply) {
        Ok(nas::Answer::Challenge) => return Told::Challenge,
        Ok(nas::Answer::Accept(packet)) => End::Accept(packet.as_bytes().to_vec()),
        Ok(nas::Answer::Reject(packet, failure)) => End::Reject(packet.as_bytes().to_vec(), failure),
        Err(fault) => panic!("{fault}"),
    };
    Told::End(end)
}

/// Drives an EAP conversation to the request that has to wait, and returns that with what waits.
pub fn until_it_waits(node: &mut Node, switch: &mut Switch, attempt: &mut Attempt) -> (Vec<u8>, Pending) {
    for _ in 0..20 {
        let request = switch.next(attempt);
        match node.deliver(switch.source, &request) {
            Response::Reply(reply) => assert!(matches!(told(attempt, &reply), Told::Challenge)),
            Response::Later(pending) => return (request, pending),
            Response::Silent => break,
        }
    }
    panic!("it never waited")
}

/// The VLAN of an accept, without its tag.
pub fn vlan(packet: &Packet<'_>) -> Option<String> {
    let octets = packet.first(81)?;
    let text = octets.strip_prefix(&[1]).unwrap_or(octets);
    Some(String::from_utf8_lossy(text).into_owned())
}

/// A record's text.
pub fn text(record: &Authentication, text: Text) -> String {
    String::from_utf8_lossy(record.text(text).unwrap_or_default()).into_owned()
}

/// The revision that decided.
pub fn decided_at(record: &Authentication) -> Option<Revision> {
    let number = record.revision?;
    Some(format!("{}:{number}", text(record, Text::Epoch)).parse().unwrap())
}

/// Pseudo-random numbers, so that a failing test names its seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.roll(100) < chance
    }
}
