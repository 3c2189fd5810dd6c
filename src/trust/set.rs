//! One set of certificates: what the server shows, and whose certificates it accepts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, UnixTime};
use zeroize::Zeroizing;

use super::authorities::Authorities;
use super::error::TrustError;
use super::facts::{self, FactIds, Role};
use super::identity::IdentityCheck;
use super::server_certificate::{ServerCertificate, ServerCertificates};
use super::settings::{Resumption, Settings};
use super::ticket_keys;
use super::verify::{ClientVerifier, Demands};
use crate::eap::tls::ticket::{TicketKeys, Tickets, TunnelSessions};
use crate::eap::tls::{TlsServer, TlsVersion, provider};
use crate::policy::facts::Facts;
use crate::radius::dictionary::types::AttributeId;

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(elapsed.as_secs())))
    }
}

/// One set of certificates: never changed, only replaced.
#[derive(Debug)]
pub struct TrustSet {
    /// The profile's name; [`DEFAULT_NAME`](super::DEFAULT_NAME) for the default.
    pub name: String,
    /// What EAP-TLS runs on.
    pub tls: Arc<TlsServer>,
    /// The oldest TLS version, where the client says nothing else.
    pub min_version: TlsVersion,
    /// The newest.
    pub max_version: TlsVersion,
    /// Which of a device's names its EAP identity must be.
    pub identity_check: IdentityCheck,
    servers: Arc<ServerCertificates>,
    verifier: Arc<ClientVerifier>,
    pub(super) ticket_keys_file: Option<PathBuf>,
}

impl TrustSet {
    /// Reads a set from its files. `time` is what certificates are checked against in handshakes.
    ///
    /// # Errors
    /// Whatever of the set is missing, malformed or does not belong together. Certificates that are merely expired, or
    /// unwise, load: `check` has more to say.
    pub fn load(settings: &Settings, time: Arc<dyn TimeProvider>) -> Result<TrustSet, TrustError> {
        TrustSet::load_after(settings, time, None, Arc::default())
    }

    /// The same; `before` is the set whose place it takes, `tunnels` has the sessions of the node's tunnels.
    pub(super) fn load_after(
        settings: &Settings,
        time: Arc<dyn TimeProvider>,
        before: Option<&TrustSet>,
        tunnels: Arc<TunnelSessions>,
    ) -> Result<TrustSet, TrustError> {
        let provider = settings.ciphers.provider();
        let servers = Arc::new(ServerCertificates::load(
            &settings.certificates,
            &provider,
            Arc::clone(&time),
        )?);
        let authorities = Arc::new(Authorities::load(&settings.client_ca)?);
        let tickets = match &settings.resumption {
            Some(resumption) => {
                let keys = ticket_keys(resumption, before)?;
                let all = authorities.iter();
                let all = all.map(|authority| (&*authority.der, authority.is_anchor));
                let tickets = Tickets::new(keys, resumption.lifetime, &settings.name, all);
                Some(Arc::new(match settings.resume_tunnels {
                    true => tickets.with_tunnels(tunnels),
                    false => tickets,
                }))
            }
            None => None,
        };
        let verifier = Arc::new(ClientVerifier::new(authorities, settings.demands));
        let tls = Arc::new(TlsServer {
            provider,
            certificates: Arc::clone(&servers) as _,
            verifier: Arc::clone(&verifier) as _,
            time,
            tickets,
        });
        Ok(TrustSet {
            name: settings.name.clone(),
            tls,
            min_version: settings.min_version,
            max_version: settings.max_version,
            identity_check: settings.identity_check,
            servers,
            verifier,
            ticket_keys_file: settings
                .resumption
                .as_ref()
                .and_then(|resumption| resumption.keys_file.clone()),
        })
    }

    /// The server's certificate; of several the preferred one.
    pub fn server(&self) -> &ServerCertificate {
        self.servers.first()
    }

    /// All certificates of the server, the preferred one first.
    pub fn servers(&self) -> impl Iterator<Item = &ServerCertificate> {
        self.servers.iter()
    }

    /// The client CAs.
    pub fn authorities(&self) -> &Authorities {
        self.verifier.authorities()
    }

    /// The verifier of supplicants' certificates.
    pub fn verifier(&self) -> &ClientVerifier {
        &self.verifier
    }

    /// The same server for supplicants of another CA, and of that one only: the node's own probe. It resumes nothing.
    ///
    /// # Errors
    /// When `ca` is no CA's certificate.
    pub fn for_clients_of(&self, ca: CertificateDer<'static>) -> Result<TlsServer, TrustError> {
        let authorities = Arc::new(Authorities::of(ca)?);
        Ok(TlsServer {
            verifier: Arc::new(ClientVerifier::new(authorities, Demands::default())),
            tickets: None,
            ..(*self.tls).clone()
        })
    }

    /// Adds the `wanted` facts of a chain that this set's verifier has accepted: the device's certificate, and its
    /// issuing CA. Where either cannot be found or read, which of an accepted chain never happens, its facts are malformed:
    /// no rule on them holds, not even that they are absent (rule 2.8).
    pub fn push_facts<'a>(
        &'a self,
        chain: &'a [CertificateDer<'static>],
        ids: &FactIds,
        wanted: impl Fn(AttributeId) -> bool,
        now: UnixTime,
        facts: &mut Facts<'a>,
    ) {
        match chain.first() {
            Some(leaf) => facts::push(leaf, Role::Client, ids, &wanted, facts),
            None => facts::push_malformed(Role::Client, ids, &wanted, facts),
        }
        if ids.any(Role::Issuer, &wanted) {
            match self.verifier.issuer(chain, now) {
                Some(issuer) => facts::push(issuer, Role::Issuer, ids, &wanted, facts),
                None => facts::push_malformed(Role::Issuer, ids, &wanted, facts),
            }
        }
    }
}

/// The secrets of the file. Those of a node's own go on from set to set: nobody is to begin anew because a certificate was
/// renewed.
fn ticket_keys(resumption: &Resumption, before: Option<&TrustSet>) -> Result<Arc<TicketKeys>, TrustError> {
    let before = before.and_then(|set| set.tls.tickets.as_ref());
    match (&resumption.keys_file, before) {
        (Some(path), _) => ticket_keys::load(path),
        (None, Some(before)) => Ok(Arc::clone(before.keys())),
        (None, None) => {
            let mut own = Zeroizing::new([0; 32]);
            let filled = provider().secure_random.fill(&mut *own);
            filled.map_err(|_| TrustError::Cryptography)?;
            let keys = TicketKeys::new([&own[..]]);
            keys.map(Arc::new).map_err(|_| TrustError::Cryptography)
        }
    }
}
