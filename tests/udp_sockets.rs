//! The UDP listener over real sockets: addresses, ports, bursts, requests that wait, and the end.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portreeve::listen::{Arrival, Handled, Handler, ListenError, Listener, Lost, Running, Settings};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Says what it was asked; the first octet says how.
struct Echo {
    arrived: AtomicU64,
    waiting: AtomicU64,
    lost_waiting: AtomicU64,
    /// Lets as many through as it has permits.
    gate: Arc<Semaphore>,
}

const ECHO: u8 = b'e';
/// The answer is source, destination and worker as text.
const WHO: u8 = b'w';
const SILENT: u8 = b's';
/// The answer waits until the gate opens.
const LATER: u8 = b'l';
/// The future panics.
const BREAK: u8 = b'b';
/// The handler panics.
const PANIC: u8 = b'p';

impl Handler for Echo {
    type Worker = u64;
    type Late = Vec<u8>;

    fn worker(&self, _: usize) -> u64 {
        0
    }

    fn handle(&self, seen: &mut u64, arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Handled<Vec<u8>> {
        assert!(reply.is_empty());
        *seen += 1;
        self.arrived.fetch_add(1, Ordering::Relaxed);
        match arrival.datagram.first() {
            Some(&WHO) => {
                let who = format!("{} {} {}", arrival.source, arrival.destination, arrival.worker);
                reply.extend_from_slice(who.as_bytes());
                Handled::Reply
            }
            Some(&SILENT) => Handled::Silent,
            Some(&LATER) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let (datagram, gate) = (arrival.datagram.to_vec(), self.gate.clone());
                Handled::Later(Box::pin(async move {
                    if let Ok(permit) = gate.acquire().await {
                        permit.forget();
                    }
                    datagram
                }))
            }
            Some(&BREAK) => Handled::Later(Box::pin(async { resume_unwind(Box::new("as the test wants")) })),
            Some(&PANIC) => resume_unwind(Box::new("as the test wants")),
            _ => {
                reply.extend_from_slice(arrival.datagram);
                Handled::Reply
            }
        }
    }

    fn resume(&self, _: &mut u64, late: Vec<u8>, _: Instant, reply: &mut Vec<u8>) -> Handled<Vec<u8>> {
        reply.extend_from_slice(&late);
        Handled::Reply
    }

    fn lost(&self, lost: Lost, count: u64) {
        if lost == Lost::Waiting {
            self.lost_waiting.fetch_add(count, Ordering::Relaxed);
        }
    }
}

struct Server {
    running: Running,
    echo: Arc<Echo>,
    runtime: Runtime,
}

impl Server {
    fn start(addresses: &[&str], workers: usize) -> Fallible<Server> {
        Server::run(bind(addresses, workers)?)
    }

    fn run(listener: Listener) -> Fallible<Server> {
        let runtime = Runtime::new()?;
        let echo = Arc::new(Echo {
            arrived: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            lost_waiting: AtomicU64::new(0),
            gate: Arc::new(Semaphore::new(0)),
        });
        let guard = runtime.enter();
        let running = listener.start(echo.clone())?;
        drop(guard);
        Ok(Server { running, echo, runtime })
    }

    /// The first address that is bound.
    fn address(&self) -> Fallible<SocketAddr> {
        Ok(*self.running.addresses().first().ok_or("nothing is bound")?)
    }

    fn port(&self) -> Fallible<u16> {
        Ok(self.address()?.port())
    }
}

fn bind(addresses: &[&str], workers: usize) -> Fallible<Listener> {
    let addresses: Vec<SocketAddr> = addresses
        .iter()
        .map(|address| address.parse())
        .collect::<Result<_, _>>()?;
    Ok(Listener::bind(
        &addresses,
        &Settings {
            workers,
            ..Settings::default()
        },
    )?)
}

fn refused(address: SocketAddr, workers: usize) -> Fallible<ListenError> {
    let settings = Settings {
        workers,
        ..Settings::default()
    };
    Listener::bind(&[address], &settings)
        .err()
        .ok_or_else(|| format!("{address} could be bound").into())
}

fn client(address: &str) -> Fallible<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(socket)
}

/// Sends, and returns the answer.
fn ask(client: &UdpSocket, to: SocketAddr, datagram: &[u8]) -> Fallible<Vec<u8>> {
    client.send_to(datagram, to)?;
    Ok(answer(client)?.0)
}

/// The next answer, and the address that it came from.
fn answer(client: &UdpSocket) -> Fallible<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 65_536];
    let (length, from) = client
        .recv_from(&mut buffer)
        .map_err(|error| format!("no answer within 10 seconds: {error}"))?;
    buffer.truncate(length);
    Ok((buffer, from))
}

/// What the server takes source and destination for, and where its answer came from.
fn who(client: &UdpSocket, to: SocketAddr) -> Fallible<(SocketAddr, IpAddr, SocketAddr)> {
    client.send_to(&[WHO], to)?;
    let (text, from) = answer(client)?;
    let text = String::from_utf8(text)?;
    let mut words = text.split(' ');
    let (source, destination) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Ok((source.parse()?, destination.parse()?, from))
}

/// A port that is free now, for both families.
fn free_port() -> Fallible<u16> {
    Ok(UdpSocket::bind("[::]:0")?.local_addr()?.port())
}

fn wait_until(what: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if what() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn a_reply_leaves_from_the_address_that_was_asked() -> Fallible<()> {
    let server = Server::start(&["0.0.0.0:0"], 2)?;
    let client = client("127.0.0.1:0")?;
    for last in [1, 2, 200] {
        let asked = SocketAddr::from(([127, 0, 0, last], server.port()?));
        let (source, destination, from) = who(&client, asked)?;
        assert_eq!((source, destination, from), (client.local_addr()?, asked.ip(), asked));
    }
    Ok(())
}

#[test]
fn replies_of_one_batch_leave_each_from_its_own_address() -> Fallible<()> {
    let listener = bind(&["0.0.0.0:0"], 1)?;
    let port = listener.addresses()[0].port();
    let client = client("127.0.0.1:0")?;
    // all are waiting before the first is taken
    let asked: Vec<SocketAddr> = (0..200u8)
        .map(|n| SocketAddr::from(([127, 0, 0, n / 3 % 7 + 1], port)))
        .collect();
    for (n, to) in asked.iter().enumerate() {
        client.send_to(&[ECHO, n as u8], to)?;
    }
    let _server = Server::run(listener)?;
    for (n, to) in asked.iter().enumerate() {
        assert_eq!(answer(&client)?, (vec![ECHO, n as u8], *to));
    }
    Ok(())
}

#[test]
fn a_wildcard_for_ipv6_alone_serves_both_families() -> Fallible<()> {
    let server = Server::start(&["[::]:0"], 2)?;
    let ipv4 = client("127.0.0.1:0")?;
    let asked = SocketAddr::from(([127, 0, 0, 3], server.port()?));
    // an IPv4 client is seen as one: its network in the client table is an IPv4 network
    assert_eq!(who(&ipv4, asked)?, (ipv4.local_addr()?, asked.ip(), asked));
    let ipv6 = client("[::1]:0")?;
    let asked = SocketAddr::new("::1".parse()?, server.port()?);
    assert_eq!(who(&ipv6, asked)?, (ipv6.local_addr()?, asked.ip(), asked));
    Ok(())
}

#[test]
fn both_families_can_be_bound_to_one_port() -> Fallible<()> {
    // a port may be taken between the question and the answer
    let free = |_| free_port().and_then(|port| bind(&[&format!("0.0.0.0:{port}"), &format!("[::]:{port}")], 2));
    let listener = (0..20)
        .map(free)
        .find_map(Result::ok)
        .ok_or("no port is free in both families")?;
    let server = Server::run(listener)?;
    let port = server.port()?;
    assert_eq!(server.running.workers(), 4);
    for (own, asked) in [("127.0.0.1:0", "127.0.0.2"), ("[::1]:0", "::1")] {
        let client = client(own)?;
        let asked = SocketAddr::new(asked.parse()?, port);
        assert_eq!(who(&client, asked)?, (client.local_addr()?, asked.ip(), asked));
    }
    Ok(())
}

#[test]
fn a_single_address_is_served_as_itself() -> Fallible<()> {
    for (listen, own) in [("127.0.0.9:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        let server = Server::start(&[listen], 1)?;
        let asked = server.address()?;
        let client = client(own)?;
        assert_eq!(who(&client, asked)?, (client.local_addr()?, asked.ip(), asked));
    }
    Ok(())
}

#[test]
fn a_taken_port_is_an_error_also_when_its_owner_would_share_it() -> Fallible<()> {
    // our own sockets have SO_REUSEPORT: a second server would get half of the packets in silence
    let first = bind(&["127.7.1.1:0"], 2)?;
    let address = first.addresses()[0];
    for workers in [1, 2] {
        let error = refused(address, workers)?;
        assert_eq!(error, ListenError::InUse(address));
        let port = address.port();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot listen on {address}: address already in use\nhint: `ss -lunp | grep {port}` shows who has it"
            )
        );
    }
    drop(first);
    let other = UdpSocket::bind(address)?;
    assert_eq!(refused(address, 2)?, ListenError::InUse(address));
    drop(other);
    bind(&[&address.to_string()], 2)?;
    Ok(())
}

#[test]
fn an_address_of_another_machine_is_an_error_with_a_hint() -> Fallible<()> {
    let address = "192.0.2.77:1812".parse()?;
    let error = refused(address, 1)?;
    assert_eq!(error, ListenError::NoSuchAddress(address));
    assert!(error.to_string().contains("hint: `ip address`"));
    Ok(())
}

#[test]
fn a_burst_of_4000_packets_waits_in_the_kernel() -> Fallible<()> {
    // an Access-Request of 174 octets each, all before the first is read; 212,992 octets of buffer hold 277 of them
    let listener = bind(&["127.0.0.1:0"], 1)?;
    let client = client("127.0.0.1:0")?;
    for _ in 0..4000 {
        client.send_to(&[SILENT; 174], listener.addresses()[0])?;
    }
    let server = Server::run(listener)?;
    let arrived = || server.echo.arrived.load(Ordering::Relaxed);
    assert!(
        wait_until(|| arrived() >= 4000),
        "{} of 4000 packets arrived",
        arrived()
    );
    Ok(())
}

#[test]
fn the_kernels_drops_are_counted() -> Fallible<()> {
    struct Counting(AtomicU64, AtomicU64);
    impl Handler for Counting {
        type Worker = ();
        type Late = ();
        fn worker(&self, _: usize) {}
        fn handle(&self, (): &mut (), _: &Arrival<'_>, _: &mut Vec<u8>) -> Handled<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Handled::Silent
        }
        fn resume(&self, (): &mut (), (): (), _: Instant, _: &mut Vec<u8>) -> Handled<()> {
            Handled::Silent
        }
        fn lost(&self, lost: Lost, count: u64) {
            assert_eq!(lost, Lost::InKernel);
            self.1.fetch_add(count, Ordering::Relaxed);
        }
    }
    let settings = Settings {
        workers: 1,
        receive_buffer_bytes: 16 << 10,
    };
    let listener = Listener::bind(&["127.0.0.1:0".parse()?], &settings)?;
    let (address, client) = (listener.addresses()[0], client("127.0.0.1:0")?);
    for _ in 0..500 {
        client.send_to(&[0; 174], address)?;
    }
    let runtime = Runtime::new()?;
    let counting = Arc::new(Counting(AtomicU64::new(0), AtomicU64::new(0)));
    let _running = runtime.block_on(async { listener.start(counting.clone()) })?;
    let (arrived, dropped) = (
        || counting.0.load(Ordering::Relaxed),
        || counting.1.load(Ordering::Relaxed),
    );
    // the kernel tells with the first packet that comes after the drops
    let told = wait_until(|| client.send_to(&[0; 174], address).is_ok() && dropped() > 0);
    assert!(told, "{} arrived, {} dropped", arrived(), dropped());
    assert!(
        arrived() > 0 && dropped() >= 300,
        "{} arrived, {} dropped",
        arrived(),
        dropped()
    );
    Ok(())
}

/// Works a millisecond on each datagram. What begins with `GOES_ON` comes first.
#[derive(Default)]
struct Slow {
    in_overload: AtomicU64,
}

const BEGINS: u8 = b'b';
const GOES_ON: u8 = b'g';

impl Handler for Slow {
    type Worker = ();
    type Late = ();
    fn worker(&self, _: usize) {}
    fn handle(&self, (): &mut (), arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Handled<()> {
        std::thread::sleep(Duration::from_millis(1));
        reply.extend_from_slice(arrival.datagram);
        Handled::Reply
    }
    fn resume(&self, (): &mut (), (): (), _: Instant, _: &mut Vec<u8>) -> Handled<()> {
        Handled::Silent
    }
    fn comes_first(&self, datagram: &[u8], _: SocketAddr) -> bool {
        datagram.first() == Some(&GOES_ON)
    }
    fn lost(&self, lost: Lost, count: u64) {
        assert_eq!(lost, Lost::InOverload);
        self.in_overload.fetch_add(count, Ordering::Relaxed);
    }
}

#[test]
fn in_overload_what_was_begun_comes_first_and_the_rest_is_bounded() -> Fallible<()> {
    let slow = Arc::new(Slow::default());
    let runtime = Runtime::new()?;
    let listener = bind(&["127.0.0.1:0"], 1)?;
    let address = listener.addresses()[0];
    let _running = runtime.block_on(async { listener.start(slow.clone()) })?;
    let (crowd, begun) = (client("127.0.0.1:0")?, client("127.0.0.1:0")?);
    begun.set_read_timeout(Some(Duration::from_secs(5)))?;

    // five times what it can do, for two seconds
    let rush = Duration::from_secs(2);
    let crowd = std::thread::spawn(move || -> Fallible<u64> {
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < rush {
            for _ in 0..50 {
                crowd.send_to(&[BEGINS; 174], address)?;
            }
            sent += 50;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(sent)
    });
    let (start, mut waits) = (Instant::now(), Vec::new());
    while start.elapsed() < rush {
        let asked = Instant::now();
        assert_eq!(ask(&begun, address, &[GOES_ON; 174])?.first(), Some(&GOES_ON));
        waits.push((start.elapsed(), asked.elapsed()));
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = crowd.join().map_err(|_| "the crowd's thread panicked")??;
    // before it is known to be behind, each waits its turn
    let mut sorted: Vec<Duration> = waits
        .iter()
        .filter(|(at, _)| *at > Duration::from_secs(1))
        .map(|(_, wait)| *wait)
        .collect();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    assert!(sorted.len() > 20, "{waits:?}");
    assert!(median < Duration::from_millis(20), "{median:?} of {sorted:?}");
    let lost = slow.in_overload.load(Ordering::Relaxed);
    assert!(lost > sent / 4, "{lost} of {sent} dropped");

    // soon after the crowd is gone, who begins something is answered at once
    std::thread::sleep(Duration::from_millis(700));
    let asked = Instant::now();
    assert_eq!(ask(&begun, address, &[BEGINS; 174])?.first(), Some(&BEGINS));
    assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
    Ok(())
}

#[test]
fn a_port_of_a_client_stays_with_one_worker_and_several_workers_share_the_clients() -> Fallible<()> {
    let server = Server::start(&["127.0.0.1:0"], 2)?;
    let asked = server.address()?;
    let mut workers = std::collections::HashSet::new();
    for _ in 0..200 {
        let client = client("127.0.0.1:0")?;
        let answers: Vec<Vec<u8>> = (0..3).map(|_| ask(&client, asked, &[WHO])).collect::<Result<_, _>>()?;
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
        workers.insert(answers[0].last().copied());
        if workers.len() == 2 {
            return Ok(());
        }
    }
    Err("one worker took all of 200 clients".into())
}

#[test]
fn a_datagram_above_4096_octets_is_cut_and_an_empty_one_does_no_harm() -> Fallible<()> {
    let server = Server::start(&["127.0.0.1:0"], 1)?;
    let (asked, client) = (server.address()?, client("127.0.0.1:0")?);
    client.send_to(&[], asked)?;
    assert_eq!(ask(&client, asked, &[ECHO; 9000])?, [ECHO; 4096]);
    assert_eq!(ask(&client, asked, &[ECHO; 4096])?, [ECHO; 4096]);
    assert_eq!(ask(&client, asked, &[ECHO; 1])?, [ECHO; 1]);
    Ok(())
}

#[test]
fn others_are_answered_while_a_request_waits() -> Fallible<()> {
    let server = Server::start(&["0.0.0.0:0"], 1)?;
    let client = client("127.0.0.1:0")?;
    let asked = SocketAddr::from(([127, 0, 0, 4], server.port()?));
    client.send_to(&[LATER, 1], asked)?;
    assert_eq!(ask(&client, asked, &[ECHO, 2])?, [ECHO, 2]);
    server.echo.gate.add_permits(1);
    // and the late reply, too, leaves from the address that was asked
    assert_eq!(answer(&client)?, (vec![LATER, 1], asked));
    Ok(())
}

#[test]
fn many_that_are_done_at_once_all_have_their_answers() -> Fallible<()> {
    let server = Server::start(&["127.0.0.1:0"], 1)?;
    let (asked, client) = (server.address()?, client("127.0.0.1:0")?);
    for number in 0..200 {
        client.send_to(&[LATER, number], asked)?;
    }
    assert!(wait_until(|| server.echo.waiting.load(Ordering::Relaxed) == 200));
    server.echo.gate.add_permits(200);
    let answered = (0..200)
        .map(|_| Ok(answer(&client)?.0.get(1).copied()))
        .collect::<Fallible<Option<Vec<u8>>>>();
    let mut answered = answered?.unwrap_or_default();
    answered.sort();
    assert_eq!(answered, (0..200).collect::<Vec<u8>>());
    Ok(())
}

#[test]
fn a_request_that_breaks_down_while_it_waits_is_counted_and_the_worker_goes_on() -> Fallible<()> {
    let server = Server::start(&["127.0.0.1:0"], 1)?;
    let (asked, client) = (server.address()?, client("127.0.0.1:0")?);
    client.send_to(&[BREAK], asked)?;
    assert!(wait_until(|| server.echo.lost_waiting.load(Ordering::Relaxed) == 1));
    assert_eq!(ask(&client, asked, &[ECHO])?, [ECHO]);
    Ok(())
}

#[test]
fn a_client_whose_port_is_closed_disturbs_nobody() -> Fallible<()> {
    let server = Server::start(&["127.0.0.1:0"], 1)?;
    let (asked, client) = (server.address()?, client("127.0.0.1:0")?);
    for _ in 0..20 {
        // its reply is answered by ICMP port unreachable
        UdpSocket::bind("127.0.0.1:0")?.send_to(&[ECHO], asked)?;
        assert_eq!(ask(&client, asked, &[ECHO, 1])?, [ECHO, 1]);
    }
    Ok(())
}

#[test]
fn a_stop_lets_those_that_wait_have_their_answers() -> Fallible<()> {
    let mut server = Server::start(&["127.7.1.2:0"], 1)?;
    let (asked, client) = (server.address()?, client("127.0.0.1:0")?);
    client.send_to(&[LATER, 1], asked)?;
    client.send_to(&[LATER, 2], asked)?;
    assert!(wait_until(|| server.echo.waiting.load(Ordering::Relaxed) == 2));
    server.running.stop(Duration::from_secs(60));
    server.echo.gate.add_permits(2);
    let mut answers = [answer(&client)?.0, answer(&client)?.0];
    answers.sort();
    assert_eq!(answers, [[LATER, 1], [LATER, 2]]);
    server.runtime.block_on(server.running.ended())?;
    // and the port is free again
    UdpSocket::bind(asked)?;
    Ok(())
}

#[test]
fn a_stop_does_not_wait_longer_than_told() -> Fallible<()> {
    let mut server = Server::start(&["127.0.0.1:0"], 1)?;
    let (asked, client) = (server.address()?, client("127.0.0.1:0")?);
    client.send_to(&[LATER], asked)?;
    assert!(wait_until(|| server.echo.waiting.load(Ordering::Relaxed) == 1));
    server.running.stop(Duration::ZERO);
    server.runtime.block_on(server.running.ended())?;
    assert_eq!(server.echo.lost_waiting.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn a_worker_that_breaks_down_is_reported() -> Fallible<()> {
    let mut server = Server::start(&["127.0.0.1:0"], 1)?;
    let asked = server.address()?;
    client("127.0.0.1:0")?.send_to(&[PANIC], asked)?;
    assert_eq!(server.runtime.block_on(server.running.ended()).unwrap_err().0, 0);
    Ok(())
}
