//! What an authentication costs: processor time of the server's process, over real sockets, beside what it cannot cost less
//! than: the server's half of a bare rustls handshake, and a datagram sent back by a process that does nothing else.
//!
//! `cargo bench --bench authentication`, with `-- TEXT` for the lines that contain the text. Machines drift, so all are
//! measured in one run, in turn, and medians are compared. `portreeve-load` is the devices: `cargo build --release
//! --workspace` makes it. Ends with 1 when a ratio is above its limit.

mod certificates;
mod child;
mod echo;
mod handshake;
mod portreeve;
mod processor;

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use certificates::{Kind, Pki};
use child::Server;
use handshake::Bare;
use portreeve::Node;
use tempfile::TempDir;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROUNDS: usize = 7;
/// Devices, or datagrams, under way at once.
const AT_ONCE: usize = 64;
/// Devices with a certificate that nobody has shown before.
const CERTIFICATES: usize = 10_000;
const LAPTOPS: &[&str] = &[
    "eap-tls",
    "--cert",
    "client.pem",
    "--key",
    "client.key",
    "--ca",
    "ca.pem",
    "--tls",
];
/// Of one measurement in one round.
const TURN: Duration = Duration::from_millis(700);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some(echo::ROLE) => echo::serve().map(|()| true),
        Some(echo::ROLE_OF_LISTENER) => echo::serve_by_listener().map(|()| true),
        // from `cargo bench`; `cargo test --all-targets` runs this program as well
        _ if arguments.iter().any(|argument| argument == "--bench") => {
            let text = arguments.iter().find(|argument| !argument.starts_with('-'));
            measure(text.map_or("", String::as_str))
        }
        _ => {
            println!("nothing is measured: `cargo bench --bench authentication`");
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One line of the table.
struct Line<'a> {
    what: &'static str,
    /// Measures once: what one of it costs on average.
    turn: Box<dyn Fn() -> Fallible<Duration> + 'a>,
    /// The line that it is compared with, and how many times that it may cost.
    limit: Option<(usize, f64)>,
    rounds: Vec<Duration>,
}

impl<'a> Line<'a> {
    fn new(what: &'static str, limit: Option<(usize, f64)>, turn: impl Fn() -> Fallible<Duration> + 'a) -> Line<'a> {
        Line {
            what,
            turn: Box::new(turn),
            limit,
            rounds: Vec::new(),
        }
    }

    /// In microseconds: least, median, most; `None` if it was not measured.
    fn summary(&self) -> Option<[f64; 3]> {
        let mut micros: Vec<f64> = self.rounds.iter().map(|round| round.as_secs_f64() * 1e6).collect();
        micros.sort_by(f64::total_cmp);
        Some([*micros.first()?, *micros.get(micros.len() / 2)?, *micros.last()?])
    }
}

/// Measures what has `text` in its name, prints the table, and returns whether all is within its limits.
fn measure(text: &str) -> Fallible<bool> {
    let (p256, rsa) = (Pki::new(Kind::P256)?, Pki::new(Kind::Rsa2048)?);
    let (echo, listener) = (Server::role(echo::ROLE)?, Server::role(echo::ROLE_OF_LISTENER)?);
    let (tls_12, tls_13) = (&rustls::version::TLS12, &rustls::version::TLS13);
    let (bare_12, bare_13) = (Bare::new(&p256, tls_12, false)?, Bare::new(&p256, tls_13, false)?);
    let (bare_resumed, bare_rsa) = (Bare::new(&p256, tls_12, true)?, Bare::new(&rsa, tls_12, false)?);
    let (node, node_rsa) = (Node::start(&p256)?, Node::start(&rsa)?);
    let (newcomers_12, newcomers_13) = (Newcomers::new(&p256)?, Newcomers::new(&p256)?);

    let echoes = |server: &Server| server.measure(|address| echo::exchange(address, TURN));
    let mut lines = [
        Line::new("a bare UDP echo", None, || echoes(&echo)),
        Line::new("  the same by Portreeve's listener", None, || echoes(&listener)),
        Line::new("MAB, PAP", Some((0, 2.2)), || node.measure(&["mab"])),
        Line::new("MAB, EAP-MD5, 2 round trips", Some((0, 2.0 * 2.2)), || {
            node.measure(&["mab", "--method", "eap-md5"])
        }),
        Line::new("a bare rustls handshake, P-256, TLS 1.2", None, || handshakes(&bare_12)),
        Line::new("EAP-TLS, P-256, TLS 1.2", Some((4, 1.25)), || {
            node.measure(&[LAPTOPS, &["1.2"]].concat())
        }),
        Line::new("  10,000 certificates in turn", Some((4, 1.6)), || {
            newcomers_12.measure(&node, "1.2")
        }),
        Line::new("a bare rustls handshake, P-256, TLS 1.3", None, || handshakes(&bare_13)),
        Line::new("EAP-TLS, P-256, TLS 1.3", Some((7, 1.25)), || {
            node.measure(&[LAPTOPS, &["1.3"]].concat())
        }),
        Line::new("  10,000 certificates in turn", Some((7, 1.6)), || {
            newcomers_13.measure(&node, "1.3")
        }),
        Line::new("a bare rustls handshake, resumed, TLS 1.2", None, || {
            handshakes(&bare_resumed)
        }),
        Line::new("EAP-TLS, P-256, resumed, TLS 1.2", Some((10, 1.8)), || {
            node.measure_resumed(&[LAPTOPS, &["1.2", "--resume"]].concat())
        }),
        Line::new("a bare rustls handshake, RSA-2048, TLS 1.2", None, || {
            handshakes(&bare_rsa)
        }),
        Line::new("EAP-TLS, RSA-2048, TLS 1.2", Some((12, 1.2)), || {
            node_rsa.measure(&[LAPTOPS, &["1.2"]].concat())
        }),
    ];
    for round in 1..=ROUNDS {
        eprint!("\rround {round} of {ROUNDS}");
        for line in lines.iter_mut().filter(|line| line.what.contains(text)) {
            line.rounds.push((line.turn)()?);
        }
    }
    eprintln!();

    println!("processor time of the server, in microseconds: median, least and most of {ROUNDS} rounds");
    let mut within = true;
    for line in &lines {
        let Some([least, median, most]) = line.summary() else {
            continue;
        };
        print!("{:42} {median:7.1} {least:7.1} {most:7.1}", line.what);
        if let Some((floor, times)) = line.limit
            && let Some([_, floor, _]) = lines.get(floor).and_then(Line::summary)
        {
            let ratio = median / floor;
            within &= ratio <= times;
            let verdict = if ratio <= times { "within" } else { "ABOVE" };
            print!("   {ratio:.2} times the bare one: {verdict} {times}");
        }
        println!();
    }
    Ok(within)
}

/// Devices whose certificates the server has not seen: in each round others.
struct Newcomers {
    rounds: Vec<TempDir>,
    next: Cell<usize>,
}

impl Newcomers {
    const OF_A_ROUND: usize = CERTIFICATES / ROUNDS;

    fn new(pki: &Pki) -> Fallible<Newcomers> {
        let round = |_| {
            let folder = tempfile::tempdir()?;
            pki.write_devices(folder.path(), Self::OF_A_ROUND)?;
            Ok(folder)
        };
        let rounds = (0..ROUNDS).map(round).collect::<Fallible<_>>()?;
        let next = Cell::new(0);
        Ok(Newcomers { rounds, next })
    }

    fn measure(&self, node: &Node, version: &str) -> Fallible<Duration> {
        let round = self.rounds.get(self.next.get()).ok_or("no certificates are left")?;
        self.next.set(self.next.get() + 1);
        let devices = ["eap-tls", "--ca", "ca.pem", "--tls", version];
        node.measure_each(&devices, round.path(), Self::OF_A_ROUND)
    }
}

/// What the server's half of a handshake uses, on average over one turn.
fn handshakes(bare: &Bare) -> Fallible<Duration> {
    let (start, mut used, mut count) = (Instant::now(), Duration::ZERO, 0);
    while start.elapsed() < TURN {
        used += bare.run()?;
        count += 1;
    }
    Ok(used / count)
}
