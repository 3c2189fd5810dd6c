//! The background probe behind `/readyz`: each second a MAC authentication and an EAP-TLS over the node's own sockets, in
//! turn over all workers.
//!
//! The kernel chooses a socket of a shared port by the source's address and port. So the prober opens sockets until it has
//! one for each worker, and keeps it: the worker says which requests it saw.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::CertificateDer;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use crate::eap::tls::{TlsVersion, provider};
use crate::nas::{Answer, Attempt, Credentials};
use crate::radius::crypto::Secret;
use crate::radius::packet::number;
use crate::server::Server;
use crate::server::probe::MAC;
use crate::server::readiness::{Condition, Readiness};
use crate::trust::Clock;

/// Between two probes.
const EVERY: Duration = Duration::from_secs(1);
/// How long a reply may take: a node that is slower sends its clients to the next one.
const PATIENCE: Duration = Duration::from_secs(2);
/// Sockets that are opened to find one worker: with 64 workers, one is missed once in 10^13 starts.
const TRIES_PER_WORKER: usize = 30;

/// The prober of one node.
pub struct Prober {
    server: Arc<Server>,
    readiness: Arc<Readiness>,
    /// Where each worker listens, and the socket that reaches it.
    workers: Vec<Worker>,
    peer: Arc<PeerSettings>,
    secret: Arc<Secret>,
    identifier: u8,
}

struct Worker {
    target: SocketAddr,
    socket: Option<Arc<UdpSocket>>,
    /// What its last probe said; `Ok` after one that succeeded.
    verdict: Result<(), String>,
}

impl Prober {
    /// A prober of `server`, whose worker number n listens at `listeners[n]`.
    ///
    /// # Errors
    /// When the probe's own certificate can't be used.
    pub fn new(
        server: Arc<Server>,
        readiness: Arc<Readiness>,
        listeners: &[SocketAddr],
    ) -> Result<Prober, rustls::Error> {
        let pki = server.probe().pki();
        let tls = ClientTls {
            provider: provider(),
            time: Arc::new(Clock),
            // The server certificate's validity is a condition of its own. What the probe asks is whether it answers.
            trust: ServerTrust::Anybody,
            certificate: Some(ClientCertificate {
                chain: pki.client.iter().cloned().map(CertificateDer::into_owned).collect(),
                key: pki.client_key.clone_key(),
            }),
            min_version: TlsVersion::V12,
            max_version: TlsVersion::V13,
        };
        let peer = PeerSettings {
            identity: b"probe".to_vec(),
            md5_password: None,
            tls: Some(tls.build()?),
            tunnel: None,
            fragment_size: 1_024,
            strictness: Strictness::Strict,
        };
        let secret = Arc::new(server.probe().secret().clone());
        let workers = listeners
            .iter()
            .map(|listener| Worker {
                target: reachable(*listener),
                socket: None,
                verdict: Err("not probed yet".to_owned()),
            })
            .collect();
        Ok(Prober {
            server,
            readiness,
            workers,
            peer: Arc::new(peer),
            secret,
            identifier: 0,
        })
    }

    /// Probes for ever.
    pub async fn run(mut self) {
        // The first turn goes over all workers at once, so that a node that starts is soon known to be ready.
        for index in 0..self.workers.len() {
            self.turn(index).await;
        }
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for index in (0..self.workers.len()).cycle() {
            ticks.tick().await;
            self.turn(index).await;
        }
    }

    async fn turn(&mut self, index: usize) {
        let verdict = self.probe(index).await;
        if let Some(worker) = self.workers.get_mut(index) {
            worker.verdict = verdict;
        }
        let failed = self.workers.iter().enumerate().find_map(|(index, worker)| {
            let why = worker.verdict.as_ref().err()?;
            Some(format!("worker {index} at {}: {why}", worker.target))
        });
        match failed {
            // Two turns more than one round takes: then the prober itself has died.
            None => self.readiness.good(
                Condition::Probe,
                Some(Instant::now() + EVERY + 2 * (EVERY + 2 * PATIENCE)),
            ),
            Some(why) => self.readiness.failed(Condition::Probe, why),
        }
    }

    async fn probe(&mut self, index: usize) -> Result<(), String> {
        let socket = self.socket(index).await?;
        let result = self
            .authenticate(&socket, self.mab())
            .await
            .map_err(|why| format!("mac authentication: {why}"));
        let result = match result {
            Ok(()) => self
                .authenticate(&socket, self.eap_tls())
                .await
                .map_err(|why| format!("eap-tls: {why}")),
            failed => failed,
        };
        let seen = self.server.probe().last_worker();
        if result.is_err() || seen != index {
            // Another worker took it, since the set of sockets changed: look for this one again next time.
            if let Some(worker) = self.workers.get_mut(index) {
                worker.socket = None;
            }
            self.register();
        }
        result
    }

    /// The socket that reaches a worker: found once, then kept.
    async fn socket(&mut self, index: usize) -> Result<Arc<UdpSocket>, String> {
        let worker = self.workers.get(index).ok_or("no such worker")?;
        if let Some(socket) = &worker.socket {
            return Ok(Arc::clone(socket));
        }
        let target = worker.target;
        let alike = self.workers.iter().filter(|worker| worker.target == target).count();
        for _ in 0..TRIES_PER_WORKER * alike {
            let socket = connect(target)
                .await
                .map_err(|error| format!("no socket to probe with: {error}"))?;
            if let Some(worker) = self.workers.get_mut(index) {
                worker.socket = Some(Arc::clone(&socket));
            }
            self.register();
            let answered = self.authenticate(&socket, self.mab()).await;
            let seen = self.server.probe().last_worker();
            if seen == index {
                return Ok(socket);
            }
            if let Some(other) = self.workers.get_mut(seen)
                && other.socket.is_none()
                && answered.is_ok()
            {
                other.socket = Some(socket);
            }
            if let Some(worker) = self.workers.get_mut(index) {
                worker.socket = None;
            }
            answered?;
        }
        Err("none of the sockets tried reaches it".to_owned())
    }

    fn register(&self) {
        let sources = self
            .workers
            .iter()
            .filter_map(|worker| worker.socket.as_ref()?.local_addr().ok())
            .collect();
        self.server.probe().register(sources);
    }

    fn mab(&self) -> Attempt {
        let name = MAC.to_string().into_bytes();
        let mut attributes = vec![number::CALLING_STATION_ID, 19];
        attributes.extend_from_slice(&name);
        Attempt::new(Arc::clone(&self.secret), name, attributes.into(), Credentials::None)
    }

    fn eap_tls(&self) -> Attempt {
        let peer = Box::new(Peer::new(Arc::clone(&self.peer)));
        let name = self.peer.identity.clone();
        Attempt::new(Arc::clone(&self.secret), name, Arc::new([]), Credentials::Eap(peer))
    }

    /// One authentication; anything but an accept is an error.
    async fn authenticate(&mut self, socket: &UdpSocket, mut attempt: Attempt) -> Result<(), String> {
        let (mut request, mut reply) = (Vec::new(), vec![0; 4_096]);
        loop {
            request.clear();
            self.identifier = self.identifier.wrapping_add(1);
            let mut authenticator = [0; 16];
            aws_lc_rs::rand::fill(&mut authenticator).map_err(|_| "the system has no randomness")?;
            attempt
                .request(self.identifier, authenticator, &mut request)
                .map_err(|error| error.to_string())?;
            socket
                .send(&request)
                .await
                .map_err(|error| format!("cannot send: {error}"))?;
            let octets = timeout(PATIENCE, socket.recv(&mut reply))
                .await
                .map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?
                .map_err(|error| format!("no answer: {error}"))?;
            match attempt.reply(reply.get(..octets).unwrap_or_default()) {
                Ok(Answer::Challenge) => {}
                Ok(Answer::Accept(_)) => return Ok(()),
                Ok(Answer::Reject(_, why)) => {
                    return Err(why.map_or_else(|| "rejected".to_owned(), |why| why.to_string()));
                }
                Err(fault) => return Err(fault.to_string()),
            }
        }
    }
}

/// A wildcard address is reached at the loopback of its family.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let mut target = listener;
    match listener.ip() {
        IpAddr::V4(address) if address.is_unspecified() => target.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(address) if address.is_unspecified() => target.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    target
}

async fn connect(target: SocketAddr) -> std::io::Result<Arc<UdpSocket>> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(target).await?;
    Ok(Arc::new(socket))
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober")
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}
