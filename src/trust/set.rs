//! The set of certificates in force, and its replacement without a pause.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::authorities::Authorities;
use super::error::TrustError;
use super::facts::{self, FactIds, Role};
use super::server_certificate::ServerCertificate;
use super::summary::moment;
use super::verify::ClientVerifier;
use super::watch::Look;
use crate::eap::tls::{TlsServer, provider};
use crate::policy::facts::Facts;
use crate::radius::dictionary::types::AttributeId;

/// Where the certificates are: `[eap.tls]` of the configuration, paths made absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// PEM: the server's certificate and the chain that leads to its root.
    pub certificate: PathBuf,
    /// PEM: its key; may be the same file.
    pub private_key: PathBuf,
    /// The key's passphrase, when it is encrypted: the first line.
    pub private_key_passphrase_file: Option<PathBuf>,
    /// PEM: the CAs that issue the devices' certificates; a folder stands for the `*.pem`, `*.crt` and `*.cer` in it.
    pub client_ca: Vec<PathBuf>,
}

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
    /// What EAP-TLS runs on.
    pub tls: Arc<TlsServer>,
    /// The server's certificate.
    pub server: ServerCertificate,
    verifier: Arc<ClientVerifier>,
}

impl TrustSet {
    /// Reads a set from its files. `time` is what certificates are checked against in handshakes.
    ///
    /// # Errors
    /// Whatever of the set is missing, malformed or does not belong together. Certificates that are merely expired, or
    /// unwise, load: `check` has more to say.
    pub fn load(settings: &Settings, time: Arc<dyn TimeProvider>) -> Result<TrustSet, TrustError> {
        let provider = provider();
        let server = ServerCertificate::load(
            &settings.certificate,
            &settings.private_key,
            settings.private_key_passphrase_file.as_deref(),
            &provider,
        )?;
        let authorities = Arc::new(Authorities::load(&settings.client_ca)?);
        let verifier = Arc::new(ClientVerifier::new(
            authorities,
            provider.signature_verification_algorithms,
        ));
        let certificates = Arc::new(SingleCertAndKey::from(Arc::clone(&server.certified)));
        let tls = Arc::new(TlsServer {
            provider,
            certificates,
            verifier: Arc::clone(&verifier) as _,
            time,
        });
        Ok(TrustSet { tls, server, verifier })
    }

    /// The client CAs.
    pub fn authorities(&self) -> &Authorities {
        self.verifier.authorities()
    }

    /// The verifier of supplicants' certificates.
    pub fn verifier(&self) -> &ClientVerifier {
        &self.verifier
    }

    /// The same server for supplicants of another CA, and of that one only: the node's own probe.
    ///
    /// # Errors
    /// When `ca` is no CA's certificate.
    pub fn for_clients_of(&self, ca: CertificateDer<'static>) -> Result<TlsServer, TrustError> {
        let authorities = Arc::new(Authorities::of(ca)?);
        let algorithms = self.tls.provider.signature_verification_algorithms;
        Ok(TlsServer {
            verifier: Arc::new(ClientVerifier::new(authorities, algorithms)),
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

/// The set in force.
#[derive(Debug)]
pub struct TrustStore {
    settings: Settings,
    time: Arc<dyn TimeProvider>,
    current: ArcSwap<TrustSet>,
    /// How the files looked when they were last read, whether they loaded or not.
    look: Mutex<Look>,
}

impl TrustStore {
    /// Loads the first set.
    ///
    /// # Errors
    /// As [`TrustSet::load`].
    pub fn load(settings: Settings, time: Arc<dyn TimeProvider>) -> Result<TrustStore, TrustError> {
        let look = Mutex::new(Look::at(&settings)); // before the files are read: what changes meanwhile is seen later
        let current = ArcSwap::from_pointee(TrustSet::load(&settings, Arc::clone(&time))?);
        Ok(TrustStore {
            settings,
            time,
            current,
            look,
        })
    }

    /// The set in force now. A conversation keeps the one that it began with.
    pub fn current(&self) -> Arc<TrustSet> {
        self.current.load_full()
    }

    /// Where the set is read from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a file has changed since the set was last read.
    pub(super) fn has_changed(&self) -> bool {
        *self.look.lock().unwrap_or_else(PoisonError::into_inner) != Look::at(&self.settings)
    }

    /// Reads the files again, and puts the new set in force. Blocks on files, and on a passphrase's derivation.
    ///
    /// # Errors
    /// As [`TrustSet::load`], and when the new server certificate is not valid now while the one in force is. The set in
    /// force stays then.
    pub fn reload(&self) -> Result<Arc<TrustSet>, TrustError> {
        *self.look.lock().unwrap_or_else(PoisonError::into_inner) = Look::at(&self.settings);
        let set = TrustSet::load(&self.settings, Arc::clone(&self.time))?;
        let now = self
            .time
            .current_time()
            .map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let is_valid =
            |server: &ServerCertificate| (server.summary.not_before..=server.summary.not_after).contains(&now);
        if !is_valid(&set.server) && is_valid(&self.current.load().server) {
            return Err(TrustError::NotValidNow {
                path: set.server.path,
                from: moment(set.server.summary.not_before),
                until: moment(set.server.summary.not_after),
            });
        }
        let set = Arc::new(set);
        self.current.store(Arc::clone(&set));
        Ok(set)
    }
}
