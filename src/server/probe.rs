//! The node authenticates to itself, over its own sockets: what `/readyz` rests on.
//!
//! The prober's sockets are known by address and port, so that its requests need no client in the policy data and can't
//! come from anybody else: another process can't have the port, nor another host a loopback or local address. They go the
//! whole way of any request, from the socket through conversation, handshake with the server's own certificate, policy
//! and reply; only the client CA and the policy are the probe's own, and exist in memory alone.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use ipnet::{IpNet, Ipv4Net};

use super::random::random;
use crate::clients::{Client, SiteId};
use crate::eap::tls::TlsServer;
use crate::mab::{MabIdentity, MabPassword};
use crate::mac::MacAddress;
use crate::policy::compile::{self, CompiledSite};
use crate::policy::model::{Action, Method, Policy, Rule};
use crate::radius::crypto::Secret;
use crate::radius::dictionary::Dictionary;
use crate::trust::{TrustSet, pki};

/// The address that the probe lists: locally administered, so no device's.
pub const MAC: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0]);

/// The request path's side of the probe.
#[derive(Debug)]
pub struct Probe {
    pki: pki::Probe,
    client: Arc<Client>,
    site: CompiledSite,
    sources: ArcSwap<Vec<SocketAddr>>,
    /// A bit for each of their ports, modulo 64: nearly every request is told at once from the probe's.
    ports: AtomicU64,
    worker: AtomicUsize,
    /// The probe's verifier beside the server's certificate, for the trust set it was made of.
    tls: Mutex<Option<(Arc<TlsServer>, Arc<TlsServer>)>>,
}

/// Why there is no probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Its certificates could not be made.
    #[error("the probe's certificates could not be made: {0}")]
    Pki(#[from] pki::InitError),
    /// The dictionary in force lacks what its policy needs.
    #[error(
        "the probe's policy does not compile: {0}\nhint: look for a definition in `[dictionaries] extra` that replaces `TLS-Client-Cert-Common-Name`"
    )]
    Policy(String),
}

impl Probe {
    /// Makes CA, client and policy; `now` is in Unix seconds.
    pub fn new(dictionary: &Dictionary, now: i64) -> Result<Probe, ProbeError> {
        let pki = pki::probe(now)?;
        let mut secret = [0; 16];
        random(&mut secret);
        let policy = Policy {
            name: "probe".to_owned(),
            action: Action::Accept,
            methods: vec![Method::EapTls],
            rules: vec![Rule {
                attribute: "TLS-Client-Cert-Common-Name".to_owned(),
                operator: "equals".to_owned(),
                value: "probe".to_owned(),
            }],
            description: String::new(),
            responses: Vec::new(),
            fallback: false,
        };
        let compiled = compile::policy(dictionary, &policy).map_err(|errors| {
            ProbeError::Policy(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        Ok(Probe {
            pki,
            client: Arc::new(Client {
                id: -1,
                site: SiteId(-1),
                network: IpNet::V4(Ipv4Net::default()),
                secret: Arc::new(Secret::new(&secret)),
                radsec: false,
                require_message_authenticator: true,
                limit_proxy_state: true,
                min_tls: None,
                max_tls: None,
                fragment_size: None,
                mab_password: MabPassword::Mac,
                mab_identity: MabIdentity::CallingStationId,
            }),
            site: CompiledSite::new("probe", [Arc::new(compiled)], None),
            sources: ArcSwap::default(),
            ports: AtomicU64::new(0),
            worker: AtomicUsize::new(usize::MAX),
            tls: Mutex::new(None),
        })
    }

    /// What the prober shows: its certificate and key.
    pub fn pki(&self) -> &pki::Probe {
        &self.pki
    }

    /// What the prober signs with.
    pub fn secret(&self) -> &Secret {
        &self.client.secret
    }

    /// The addresses of the prober's sockets, all of them.
    pub fn register(&self, sources: Vec<SocketAddr>) {
        let ports = sources.iter().fold(0, |bits, source| bits | bit(source.port()));
        self.sources.store(Arc::new(sources));
        self.ports.store(ports, Ordering::Release);
    }

    /// Which worker took the prober's last request.
    pub fn last_worker(&self) -> usize {
        self.worker.load(Ordering::Acquire)
    }

    pub(super) fn seen_by(&self, worker: usize) {
        self.worker.store(worker, Ordering::Release);
    }

    /// The client, if `source` is one of the prober's sockets.
    pub(super) fn client(&self, source: SocketAddr) -> Option<&Arc<Client>> {
        let may_be = self.ports.load(Ordering::Acquire) & bit(source.port()) != 0;
        (may_be && self.sources.load().contains(&source)).then_some(&self.client)
    }

    pub(super) fn site(&self) -> &CompiledSite {
        &self.site
    }

    /// The server of `trust`, for clients of the probe's CA only.
    pub(super) fn tls(&self, trust: &TrustSet) -> Arc<TlsServer> {
        let mut tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        match &*tls {
            Some((of, probe)) if Arc::ptr_eq(of, &trust.tls) => Arc::clone(probe),
            _ => match trust.for_clients_of(self.pki.ca.clone()) {
                Ok(server) => {
                    let server = Arc::new(server);
                    *tls = Some((Arc::clone(&trust.tls), Arc::clone(&server)));
                    server
                }
                // Its own CA is one; were it otherwise, the real verifier refuses the probe, and `/readyz` says so.
                Err(_) => Arc::clone(&trust.tls),
            },
        }
    }
}

fn bit(port: u16) -> u64 {
    1 << (port % 64)
}
