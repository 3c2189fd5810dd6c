//! Switches: authentications begin at a fixed rate, to each node in turn, whatever became of those before. A request that
//! gets no answer is sent again each second, as switches do.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portreeve::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::nas::{Answer, Attempt, Credentials};
use portreeve::radius::crypto::Secret;
use portreeve::radius::packet::Packet;
use portreeve::trust::Clock;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::UdpSocket;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::model::{Device, LAPTOPS, MACS, Verdict, address};

/// Authentications that begin in a second, over all nodes.
pub const MAC_RATE: u32 = 150;
pub const EAP_RATE: u32 = 50;
const RETRANSMIT_AFTER: Duration = Duration::from_secs(1);
const TRANSMISSIONS: u32 = 4;
const SECRET: &[u8] = b"testing123";

/// One authentication, as its switch saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// NAS-Identifier, which is in the log line too.
    pub name: String,
    pub node: usize,
    pub device: Device,
    pub began: Instant,
    pub ended: Instant,
    /// The longest that one request waited for its answer, from its first transmission.
    pub worst: Duration,
    pub retransmissions: u32,
    /// What it got, or what went wrong.
    pub end: Result<Verdict, String>,
}

/// A running load.
pub struct Load {
    runtime: Runtime,
    pulse: JoinHandle<Duration>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Seen>>>,
    sources: Vec<tokio::task::JoinHandle<JoinSet<()>>>,
}

impl Load {
    pub fn start(nodes: &[SocketAddr], certificates: &Path) -> Load {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let switch = Arc::new(Switch {
            nodes: nodes.to_vec(),
            secret: Arc::new(Secret::new(SECRET)),
            supplicants: [TlsVersion::V12, TlsVersion::V13].map(|version| supplicant(certificates, version)),
        });
        let sources = [(MAC_RATE, false), (EAP_RATE, true)].map(|(rate, is_eap)| {
            runtime.spawn(source(
                rate,
                is_eap,
                Arc::clone(&switch),
                Arc::clone(&stop),
                Arc::clone(&seen),
            ))
        });
        let beating = Arc::clone(&stop);
        Load {
            runtime,
            pulse: std::thread::spawn(move || pulse(&beating)),
            stop,
            seen,
            sources: sources.into(),
        }
    }

    /// Ends it, and returns what was seen when the last authentication is over; and how long the machine had no time for
    /// somebody who only looks at the clock.
    pub fn stop(self) -> (Vec<Seen>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.runtime.block_on(async {
            for source in self.sources {
                source.await.unwrap().join_all().await;
            }
        });
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        (seen, self.pulse.join().unwrap())
    }
}

/// The longest that a short sleep took beyond its time.
fn pulse(stop: &AtomicBool) -> Duration {
    let (beat, mut longest) = (Duration::from_millis(5), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        std::thread::sleep(beat);
        longest = longest.max(began.elapsed().saturating_sub(beat));
    }
    longest
}

struct Switch {
    nodes: Vec<SocketAddr>,
    secret: Arc<Secret>,
    supplicants: [Arc<PeerSettings>; 2],
}

/// Begins authentications at the times that the rate gives, also when it is late.
async fn source(
    rate: u32,
    is_eap: bool,
    switch: Arc<Switch>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> JoinSet<()> {
    let mut running = JoinSet::new();
    let began = tokio::time::Instant::now();
    for number in 0.. {
        sleep_until(began + Duration::from_secs(1) * number / rate).await;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        while running.try_join_next().is_some() {}
        let (switch, seen) = (Arc::clone(&switch), Arc::clone(&seen));
        running.spawn(async move {
            let one = switch.authenticate(number as usize, is_eap).await;
            seen.lock().unwrap().push(one);
        });
    }
    running
}

impl Switch {
    async fn authenticate(&self, number: usize, is_eap: bool) -> Seen {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let name = format!("load-{}", NAMES.fetch_add(1, Ordering::Relaxed));
        let node = number % self.nodes.len();
        // every device asks every node
        let turn = u16::try_from(number / self.nodes.len() % 10_000).unwrap();
        let (device, port) = match is_eap {
            true => (Device::Laptop(turn % LAPTOPS), turn % LAPTOPS),
            false => (Device::Mac(turn % MACS), 1),
        };
        let calling = match device {
            Device::Mac(mac) => address(mac),
            Device::Laptop(laptop) => format!("02-00-00-01-00-{laptop:02x}"),
        };
        let attributes = attributes(&[
            (32, name.as_bytes()),
            (31, calling.as_bytes()),
            (61, &15u32.to_be_bytes()),
            (5, &u32::from(port).to_be_bytes()),
        ]);
        let (user, credentials) = match device {
            Device::Mac(_) => (calling.clone().into_bytes(), Credentials::Pap(calling.into_bytes())),
            Device::Laptop(_) => {
                let settings = &self.supplicants[usize::from(turn) / usize::from(LAPTOPS) % 2];
                let peer = Peer::new(Arc::clone(settings));
                (settings.identity.clone(), Credentials::Eap(Box::new(peer)))
            }
        };
        let attempt = Attempt::new(Arc::clone(&self.secret), user, attributes.into(), credentials);
        let began = Instant::now();
        let mut seen = Seen {
            name,
            node,
            device,
            began,
            ended: began,
            worst: Duration::ZERO,
            retransmissions: 0,
            end: Err(String::new()),
        };
        seen.end = self.converse(attempt, &mut seen).await;
        seen.ended = Instant::now();
        seen
    }

    async fn converse(&self, mut attempt: Attempt, seen: &mut Seen) -> Result<Verdict, String> {
        let socket = UdpSocket::bind("127.0.0.1:0")
            .await
            .map_err(|error| error.to_string())?;
        socket
            .connect(self.nodes[seen.node])
            .await
            .map_err(|error| error.to_string())?;
        let (mut request, mut reply) = (Vec::new(), [0; 4_096]);
        loop {
            let mut authenticator = [0; 16];
            aws_lc_rs::rand::fill(&mut authenticator).unwrap();
            request.clear();
            attempt
                .request(authenticator[0], authenticator, &mut request)
                .map_err(|error| error.to_string())?;
            let asked = Instant::now();
            let mut answer = None;
            for transmission in 0..TRANSMISSIONS {
                seen.retransmissions += u32::from(transmission > 0);
                socket.send(&request).await.map_err(|error| error.to_string())?;
                if let Ok(received) = timeout(RETRANSMIT_AFTER, socket.recv(&mut reply)).await {
                    answer = Some(received.map_err(|error| error.to_string())?);
                    break;
                }
            }
            seen.worst = seen.worst.max(asked.elapsed());
            let length = answer.ok_or("lost")?;
            match attempt
                .reply(&reply[..length])
                .map_err(|fault| format!("wrong answer: {fault}"))?
            {
                Answer::Challenge => {}
                Answer::Accept(packet) => return Ok(Some(vlan(&packet).ok_or("an accept without a vlan")?)),
                Answer::Reject(..) => return Ok(None),
            }
        }
    }
}

/// Tunnel-Private-Group-Id, with or without a tag before it.
fn vlan(packet: &Packet<'_>) -> Option<u16> {
    let octets = packet.first(81)?;
    let text = octets.strip_prefix(&[0]).unwrap_or(octets);
    str::from_utf8(text).ok()?.parse().ok()
}

/// A supplicant with the certificate that `portreeve cert init` made.
fn supplicant(certificates: &Path, version: TlsVersion) -> Arc<PeerSettings> {
    let file = |name: &str| certificates.join(name);
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("ca.pem")).unwrap())
        .unwrap();
    let chain = CertificateDer::pem_file_iter(file("client.pem"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(Clock),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names: Vec::new(),
        },
        certificate: Some(ClientCertificate {
            chain,
            key: PrivateKeyDer::from_pem_file(file("client.key")).unwrap(),
        }),
        min_version: version,
        max_version: version,
    };
    Arc::new(PeerSettings {
        identity: b"laptop".to_vec(),
        md5_password: None,
        tls: Some(tls.build().unwrap()),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    })
}

fn attributes(attributes: &[(u8, &[u8])]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (number, value) in attributes {
        octets.extend_from_slice(&[*number, u8::try_from(value.len() + 2).unwrap()]);
        octets.extend_from_slice(value);
    }
    octets
}
