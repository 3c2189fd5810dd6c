//! The supplicant's TLS: a rustls configuration made once and shared by thousands of conversations.

use std::sync::{Arc, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::eap::tls::{TlsVersion, versions};

/// Whom the supplicant believes to be its server.
#[derive(Clone, Debug)]
pub enum ServerTrust {
    /// Whoever has a certificate of one of these CAs, for one of these names where there are any ("if any of the
    /// configured names match any of the names in the SAN extension, then the name check passes", RFC 9190, 2.2).
    /// Many supplicants check the CA only.
    Ca {
        /// The CAs.
        roots: Arc<RootCertStore>,
        /// The names; with none, the name is not checked.
        names: Vec<ServerName<'static>>,
    },
    /// Anybody. For measurements.
    Anybody,
}

/// What the supplicant shows of itself.
#[derive(Debug)]
pub struct ClientCertificate {
    /// The certificates, its own first. They are sent as they are: not parsed, not compared with the key.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key that signs.
    pub key: PrivateKeyDer<'static>,
}

/// How to make a [`ClientConfig`].
#[derive(Debug)]
pub struct ClientTls {
    /// [`crate::eap::tls::provider`], as a rule.
    pub provider: Arc<CryptoProvider>,
    /// The clock that the server's certificate is checked against.
    pub time: Arc<dyn TimeProvider>,
    /// Whom to believe.
    pub trust: ServerTrust,
    /// What to show; `None` answers the request for a certificate with an empty list.
    pub certificate: Option<ClientCertificate>,
    /// The oldest version offered.
    pub min_version: TlsVersion,
    /// The newest version offered.
    pub max_version: TlsVersion,
}

impl ClientTls {
    /// The configuration. No resumption ([`remembering`] adds it), no server name in the hello, no early data.
    ///
    /// # Errors
    /// When no version is left, or the key is none that the provider can load.
    pub fn build(self) -> Result<Arc<ClientConfig>, Error> {
        let verifier = Arc::new(Verifier {
            trust: self.trust,
            believed: RwLock::new(None),
            algorithms: self.provider.signature_verification_algorithms,
        });
        let key_provider = self.provider.key_provider;
        let versions = versions(self.min_version, self.max_version);
        if versions.is_empty() {
            return Err(Error::General("no tls version is left to offer".to_owned()));
        }
        let builder = ClientConfig::builder_with_details(self.provider, self.time)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.certificate {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { chain, key }) => {
                let key = key_provider.load_private_key(key)?;
                let resolver = SingleCertAndKey::from(CertifiedKey::new(chain, key));
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
        };
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// The supplicant of `config` with a memory of its own for `sessions` sessions. Each device has one: a session belongs to
/// the device that began it, and to no other that shows the same certificate.
pub fn remembering(config: &ClientConfig, sessions: usize) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(sessions);
    Arc::new(config)
}

/// Checks the chain, and the name only where one is known: rustls's own verifier always wants a name.
#[derive(Debug)]
struct Verifier {
    trust: ServerTrust,
    /// Thousands of conversations meet the same server: its chain is verified again after a while, its signature each time.
    believed: RwLock<Option<Believed>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A chain that was verified.
#[derive(Debug)]
struct Believed {
    end_entity: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    at: UnixTime,
}

/// How long a chain is believed without being verified again.
const BELIEVE_SECONDS: u64 = 10;

impl Believed {
    fn is(&self, end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>], now: UnixTime) -> bool {
        let age = now.as_secs().checked_sub(self.at.as_secs());
        age.is_some_and(|age| age < BELIEVE_SECONDS)
            && self.end_entity == *end_entity
            && self.intermediates == intermediates
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let ServerTrust::Ca { roots, names } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let believed = self.believed.read();
        if believed.is_ok_and(|believed| {
            believed
                .as_ref()
                .is_some_and(|it| it.is(end_entity, intermediates, now))
        }) {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, self.algorithms.all)?;
        if !names.is_empty() && !names.iter().any(|name| verify_server_name(&certificate, name).is_ok()) {
            return Err(CertificateError::NotValidForName.into());
        }
        if let Ok(mut believed) = self.believed.write() {
            *believed = Some(Believed {
                end_entity: end_entity.clone().into_owned(),
                intermediates: intermediates.iter().map(|it| it.clone().into_owned()).collect(),
                at: now,
            });
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;
    use crate::eap::tls::provider;

    #[test]
    fn a_chain_is_believed_for_a_while_and_no_other_with_it() {
        let authority = || {
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let (ca, stranger) = (authority(), authority());
        let certificate = |ca: &CertifiedIssuer<'_, KeyPair>| {
            let mut params = CertificateParams::new(vec!["radius.example".to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 1, 2);
            let certificate = params.signed_by(&KeyPair::generate().unwrap(), ca).unwrap();
            certificate.der().clone()
        };
        let mut roots = RootCertStore::empty();
        roots.add(ca.der().clone()).unwrap();
        let verifier = Verifier {
            trust: ServerTrust::Ca {
                roots: Arc::new(roots),
                names: Vec::new(),
            },
            believed: RwLock::new(None),
            algorithms: provider().signature_verification_algorithms,
        };
        let name = ServerName::try_from("eap.invalid").unwrap();
        let verify = |certificate: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>], at: u64| {
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
            verifier
                .verify_server_cert(certificate, intermediates, &name, &[], now)
                .is_ok()
        };
        let end = rcgen::date_time_ymd(2020, 1, 2).unix_timestamp() as u64;
        let (server, other) = (certificate(&ca), certificate(&stranger));
        assert!(verify(&server, &[], end - 5));
        assert!(verify(&server, &[], end + 4), "looked at a while ago, and not again");
        assert!(!verify(&server, &[], end + 5) && !verify(&server, &[], end - 6 - 86_400));
        assert!(!verify(&other, &[], end - 5) && !verify(&other, std::slice::from_ref(&server), end - 5));
        assert!(verify(&server, &[other], end - 5));
    }
}
