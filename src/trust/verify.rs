//! Whether a supplicant's certificate is good: the path to a client CA (RFC 5280 section 6, by rustls-webpki), and what
//! webpki leaves out: the leaf's key and keyUsage, the CAs' keyUsage, an anchor's own dates.
//!
//! A refusal says why in the words of the closed list; finding the words costs nothing where a certificate is good
//! (`diagnose` is reached by refusals only). Revocation is not looked at here.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use super::authorities::Authorities;
use super::certificate::Certificate;
use super::diagnose::{self, Failure};
use crate::eap::tls::Refused;
use crate::reason::Reason;

/// Certificates that a supplicant may send beside its own. webpki follows six intermediates; some send the root too.
const PRESENTED_MAX: usize = 10;

/// CA names sent in the CertificateRequest, in octets altogether. Windows picks the certificate by them; a long list would
/// cost a fragment in each conversation, and an empty one means any CA.
const HINTS_OCTETS_MAX: usize = 512;

/// Intermediates of supplicants that are remembered as verified.
const VERIFIED_MAX: usize = 64;

/// Verifies supplicants' certificates against one set of client CAs.
#[derive(Debug)]
pub struct ClientVerifier {
    authorities: Arc<Authorities>,
    algorithms: WebPkiSupportedAlgorithms,
    hints: Vec<DistinguishedName>,
    /// Issuers that supplicants sent and that were part of a verified path: only such a one is the issuing CA of a
    /// certificate for `TLS-Cert-*`, since anybody can send a certificate with a CA's name and key in it.
    verified: Mutex<Vec<CertificateDer<'static>>>,
}

impl ClientVerifier {
    /// A verifier over `authorities`, with the signature algorithms of the provider.
    pub fn new(authorities: Arc<Authorities>, algorithms: WebPkiSupportedAlgorithms) -> ClientVerifier {
        let hints = hints(&authorities);
        ClientVerifier {
            authorities,
            algorithms,
            hints,
            verified: Mutex::default(),
        }
    }

    /// Judges a certificate at `now`; `presented` is what came with it.
    ///
    /// # Errors
    /// [`Refused`], with a reason of the certificate group.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        presented: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Refused> {
        let leaf = Certificate::parse(certificate)
            .map_err(|malformed| Refused::new(Reason::CertificateMalformed, malformed.to_string()))?;
        self.with_path(certificate, presented, now, |path| {
            if let Some(issuer) = path.intermediate_certificates().next() {
                self.remember(&issuer.der());
            }
        })
        .map_err(|failure| self.diagnose(failure, &leaf, presented))?;
        if let Some(refused) = diagnose::weak_key("", &leaf) {
            return Err(refused);
        }
        if !leaf
            .key_usage
            .is_none_or(super::certificate::KeyUsage::digital_signature)
        {
            let what = "its keyUsage lacks digitalSignature";
            return Err(Refused::new(Reason::CertificateWrongUsage, what));
        }
        Ok(())
    }

    /// The CA that issued `chain`'s first certificate, which was verified by this verifier before: one of the client CAs,
    /// or one of the certificates that came with it.
    pub fn issuer<'a>(
        &'a self,
        chain: &'a [CertificateDer<'static>],
        now: UnixTime,
    ) -> Option<&'a CertificateDer<'static>> {
        let (first, presented) = chain.split_first()?;
        let leaf = Certificate::parse(first).ok()?;
        let named = self
            .authorities
            .iter()
            .filter(|authority| authority.has_name(leaf.issuer.as_bytes()));
        let known = named.map(|authority| &authority.der);
        let is_verified = |der: &CertificateDer<'_>| self.verified().iter().any(|verified| verified == der);
        let candidates = known.chain(presented.iter().filter(|der| is_verified(der)));
        let mut candidates = candidates.filter_map(|der| {
            let issuer = Certificate::parse(der).ok()?;
            leaf.names_as_issuer(&issuer).then_some((issuer, der))
        });
        if let Some((issuer, der)) = candidates.next() {
            // several of one name and one key are one CA; of two keys only the path can say which has signed
            if candidates.all(|(other, _)| other.public_key == issuer.public_key) {
                return Some(der);
            }
        }
        let mut found = None;
        let _ = self.with_path(first, presented, now, |path| {
            found = match path.intermediate_certificates().next() {
                Some(issuer) => {
                    let der = issuer.der();
                    self.remember(&der);
                    let known = self.authorities.iter().map(|authority| &authority.der);
                    known.chain(presented).find(|candidate| **candidate == der)
                }
                None => self
                    .authorities
                    .of_anchor(path.anchor())
                    .map(|authority| &authority.der),
            };
        });
        found
    }

    /// The client CAs.
    pub fn authorities(&self) -> &Arc<Authorities> {
        &self.authorities
    }

    /// Builds and verifies the path, and shows it to `seen`.
    fn with_path(
        &self,
        certificate: &CertificateDer<'_>,
        presented: &[CertificateDer<'_>],
        now: UnixTime,
        seen: impl FnOnce(&VerifiedPath<'_>),
    ) -> Result<(), Failure> {
        if presented.len() > PRESENTED_MAX {
            return Err(Failure::TooMany(presented.len() + 1));
        }
        let leaf = EndEntityCert::try_from(certificate)?;
        let joined: Vec<CertificateDer<'_>>;
        let intermediates = if self.authorities.intermediates.is_empty() {
            presented
        } else {
            let own = self.authorities.intermediates.iter();
            joined = own
                .chain(presented)
                .map(|der| CertificateDer::from(der.as_ref()))
                .collect();
            &joined
        };
        let path = leaf.verify_for_usage(
            self.algorithms.all,
            &self.authorities.anchors,
            intermediates,
            now,
            KeyUsage::client_auth(),
            None,
            Some(&|path| self.check_issuers(path, now)),
        )?;
        seen(&path);
        Ok(())
    }

    /// What webpki leaves out of a path.
    fn check_issuers(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<(), webpki::Error> {
        for issuer in path.intermediate_certificates() {
            let der = issuer.der();
            let issuer = Certificate::parse(&der).map_err(|_| webpki::Error::BadDer)?;
            if !issuer.may_sign_certificates() {
                return Err(webpki::Error::EndEntityUsedAsCa);
            }
        }
        self.authorities.check_dates(path.anchor(), now)
    }

    fn diagnose(&self, failure: Failure, leaf: &Certificate<'_>, presented: &[CertificateDer<'_>]) -> Refused {
        let presented: Vec<_> = presented
            .iter()
            .take(PRESENTED_MAX)
            .filter_map(|der| Certificate::parse(der).ok())
            .collect();
        let verified = self.verified().clone();
        let verified: Vec<_> = verified.iter().filter_map(|der| Certificate::parse(der).ok()).collect();
        diagnose::Case {
            leaf,
            presented: &presented,
            verified: &verified,
            authorities: &self.authorities,
        }
        .reason(failure)
    }

    fn remember(&self, issuer: &CertificateDer<'_>) {
        if self.authorities.iter().any(|authority| authority.der == *issuer) {
            return;
        }
        let mut verified = self.verified();
        if !verified.iter().any(|known| known == issuer) {
            if verified.len() >= VERIFIED_MAX {
                verified.remove(0);
            }
            verified.push(issuer.clone().into_owned());
        }
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, Vec<CertificateDer<'static>>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CAs' names, as many kinds of them as fit: all, the anchors', none.
fn hints(authorities: &Authorities) -> Vec<DistinguishedName> {
    let names = |anchors_only: bool| {
        let mut names: Vec<DistinguishedName> = Vec::new();
        for authority in authorities
            .iter()
            .filter(|authority| authority.is_anchor || !anchors_only)
        {
            if let Ok(certificate) = Certificate::parse(&authority.der) {
                let name = DistinguishedName::in_sequence(certificate.subject.as_bytes());
                if !names.iter().any(|known| known.as_ref() == name.as_ref()) {
                    names.push(name);
                }
            }
        }
        let octets: usize = names.iter().map(|name| name.as_ref().len() + 2).sum();
        (octets <= HINTS_OCTETS_MAX).then_some(names)
    };
    names(false).or_else(|| names(true)).unwrap_or_default()
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates, now)
            .map_err(Refused::into_error)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
