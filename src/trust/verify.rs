//! Whether a supplicant's certificate is good: the path to a client CA (RFC 5280 section 6, by rustls-webpki), and what
//! webpki leaves out: the leaf's key and keyUsage, the CAs' keyUsage, an anchor's own dates.
//!
//! A refusal says why in the words of the closed list; finding the words costs nothing where a certificate is good
//! (`diagnose` is reached by refusals only). Revocation is not looked at here.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage, RequiredEkuNotFoundContext,
    VerifiedPath,
};

use super::authorities::Authorities;
use super::certificate::{Certificate, Purpose};
use super::diagnose::{self, Failure, Sent};
use super::pss;
use super::verified::{Digest, Issuers, Verified, Window};
use crate::eap::tls::{Refused, provider};
use crate::reason::Reason;

/// Certificates that a supplicant may send beside its own. webpki follows six intermediates; some send the root too.
const PRESENTED_MAX: usize = 10;

/// Octets of a certificate. webpki reads no larger one.
const CERTIFICATE_OCTETS_MAX: usize = 0xFFFF;

/// CA names sent in the CertificateRequest, in octets altogether. Windows picks the certificate by them; a long list would
/// cost a fragment in each conversation, and an empty one means any CA.
const HINTS_OCTETS_MAX: usize = 512;

/// Intermediates of supplicants that are remembered as verified.
const VERIFIED_MAX: usize = 64;

/// The most CAs that may stand between a device's certificate and the client CA that is trusted. webpki follows no more.
pub const DEPTH_MAX: usize = 6;

/// What is asked of a chain beside that it leads to a client CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demands {
    /// How many CAs may stand between the device's certificate and the client CA that is trusted, [`DEPTH_MAX`] at most.
    pub max_depth: usize,
    /// Whether anyExtendedKeyUsage alone makes a certificate one for client authentication.
    pub allow_any_eku: bool,
}

impl Default for Demands {
    fn default() -> Self {
        Demands {
            max_depth: DEPTH_MAX,
            allow_any_eku: false,
        }
    }
}

/// The algorithms of signatures in chains, and of what CAs sign beside.
pub(super) fn chain_algorithms() -> Vec<&'static dyn SignatureVerificationAlgorithm> {
    let pss_keys = pss::SCHEMES.iter().flat_map(|(_, algorithms)| algorithms);
    let all = provider().signature_verification_algorithms.all;
    all.iter().chain(pss_keys).copied().collect()
}

/// Verifies supplicants' certificates against one set of client CAs.
#[derive(Debug)]
pub struct ClientVerifier {
    authorities: Arc<Authorities>,
    demands: Demands,
    /// Of signatures in handshakes, but for keys of RSASSA-PSS.
    algorithms: WebPkiSupportedAlgorithms,
    /// Of signatures in chains.
    chain_algorithms: Vec<&'static dyn SignatureVerificationAlgorithm>,
    hints: Vec<DistinguishedName>,
    /// Issuers that supplicants sent and that were part of a verified path: only such a one is the issuing CA of a
    /// certificate for `TLS-Cert-*`, since anybody can send a certificate with a CA's name and key in it.
    verified: Mutex<Vec<CertificateDer<'static>>>,
    chains: Verified,
}

/// A certificate of a verified path, and the CA that issued it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The device's certificate, or a CA's.
    pub certificate: CertificateDer<'static>,
    /// The issuing CA's. Of several over one key, which are one CA, any.
    pub issuer: CertificateDer<'static>,
}

impl ClientVerifier {
    /// A verifier over `authorities`.
    pub fn new(authorities: Arc<Authorities>, demands: Demands) -> ClientVerifier {
        let hints = hints(&authorities);
        let algorithms = provider().signature_verification_algorithms;
        ClientVerifier {
            authorities,
            demands,
            algorithms,
            chain_algorithms: chain_algorithms(),
            hints,
            verified: Mutex::default(),
            chains: Verified::new(),
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
        self.issuers(certificate, presented, now).map(drop)
    }

    /// The same for a chain, the device's certificate first: its path, from that certificate up to the one that a trusted CA
    /// issued.
    ///
    /// # Errors
    /// As [`ClientVerifier::verify`].
    pub fn path(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Vec<Arc<Link>>, Refused> {
        let (first, presented) = chain.split_first().ok_or(Reason::NoCertificate)?;
        let issuers = self.issuers(first, presented, now)?;
        let certificates = std::iter::once(first).chain(&*issuers);
        let links = certificates.zip(&*issuers).map(|(certificate, issuer)| Link {
            certificate: certificate.clone().into_owned(),
            issuer: issuer.clone(),
        });
        Ok(links.map(Arc::new).collect())
    }

    /// The CAs above a certificate that is good.
    fn issuers(
        &self,
        certificate: &CertificateDer<'_>,
        presented: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Issuers, Refused> {
        if certificate.len() > CERTIFICATE_OCTETS_MAX {
            let what = format!("more than {CERTIFICATE_OCTETS_MAX} octets");
            return Err(Refused::new(Reason::CertificateMalformed, what));
        }
        let chain = Digest::of(certificate, presented);
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if let Some(issuers) = self.chains.path(&chain, seconds) {
            return Ok(issuers);
        }
        let leaf = Certificate::parse(certificate)
            .map_err(|malformed| Refused::new(Reason::CertificateMalformed, malformed.to_string()))?;
        let (mut window, mut anchor, mut issuers) = (None, None, Vec::new());
        self.with_path(certificate, presented, now, |path| {
            let above = path.intermediate_certificates().map(|issuer| issuer.der().into_owned());
            issuers.extend(above);
            if let Some(issuer) = issuers.first() {
                self.remember(issuer);
            }
            window = self.window(path, &leaf, seconds);
            anchor = self.authorities.of_anchor(path.anchor());
        })
        .map_err(|failure| self.diagnose(failure, &leaf, presented))?;
        if let Some(refused) = diagnose::weak_key("", &leaf) {
            return Err(refused);
        }
        if !self.is_for_clients(&leaf) {
            return Err(diagnose::wrong_usage(&leaf));
        }
        if !leaf
            .key_usage
            .is_none_or(super::certificate::KeyUsage::digital_signature)
        {
            let what = "its keyUsage lacks digitalSignature";
            return Err(Refused::new(Reason::CertificateWrongUsage, what));
        }
        // an anchor is always one of the client CAs; without it the path would look shorter than it is
        issuers.push(anchor.ok_or(Reason::InternalError)?.der.clone());
        Ok(match window {
            Some(window) => self.chains.remember(chain, window, issuers),
            None => issuers.into(),
        })
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

    /// Whether extKeyUsage is absent or has clientAuth. anyExtendedKeyUsage is enough where the configuration says so: an
    /// application may demand its own purpose (RFC 5280 section 4.2.1.12).
    fn is_for_clients(&self, leaf: &Certificate<'_>) -> bool {
        let is_enough =
            |purpose| purpose == Purpose::CLIENT_AUTH || (purpose == Purpose::ANY && self.demands.allow_any_eku);
        !leaf.restricts_usage() || leaf.extended_key_usages().any(is_enough)
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
        let leaf = EndEntityCert::try_from(certificate).map_err(Failure::Leaf)?;
        let configured = &self.authorities.intermediates;
        let is_readable = |der: &&CertificateDer<'_>| EndEntityCert::try_from(*der).is_ok();
        let joined: Vec<CertificateDer<'_>>;
        // What cannot be read is no issuer, and is left out, or webpki would speak of it rather than of what is missing.
        let intermediates = if configured.is_empty() && presented.iter().all(|der| is_readable(&der)) {
            presented
        } else {
            let readable = presented.iter().filter(is_readable);
            let all = configured.iter().chain(readable);
            joined = all.map(|der| CertificateDer::from(der.as_ref())).collect();
            &joined
        };
        let path = leaf.verify_for_usage(
            &self.chain_algorithms,
            &self.authorities.anchors,
            intermediates,
            now,
            ClientAuthOrAny,
            None,
            Some(&|path| self.check_issuers(path, now)),
        );
        let path = path.map_err(Failure::Path)?;
        seen(&path);
        Ok(())
    }

    /// What webpki leaves out of a path.
    fn check_issuers(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<(), webpki::Error> {
        if path.intermediate_certificates().count() > self.demands.max_depth {
            return Err(webpki::Error::MaximumPathDepthExceeded);
        }
        for issuer in path.intermediate_certificates() {
            let der = issuer.der();
            let issuer = Certificate::parse(&der).map_err(|_| webpki::Error::BadDer)?;
            if !issuer.may_sign_certificates() {
                return Err(webpki::Error::EndEntityUsedAsCa);
            }
        }
        self.authorities.check_dates(path.anchor(), now)
    }

    /// When all of a path that is valid at `now` is; none: it cannot be said.
    fn window(&self, path: &VerifiedPath<'_>, leaf: &Certificate<'_>, now: i64) -> Option<Window> {
        let of = |certificate: &Certificate<'_>| Window {
            not_before: certificate.not_before.unix,
            not_after: certificate.not_after.unix,
        };
        let anchor = self.authorities.valid_anchor(path.anchor(), now)?;
        let anchor = Window {
            not_before: anchor.summary.not_before,
            not_after: anchor.summary.not_after,
        };
        path.intermediate_certificates()
            .try_fold(of(leaf).and(anchor), |window, issuer| {
                let der = issuer.der();
                Some(window.and(of(&Certificate::parse(&der).ok()?)))
            })
    }

    fn diagnose(&self, failure: Failure, leaf: &Certificate<'_>, presented: &[CertificateDer<'_>]) -> Refused {
        let presented: Vec<_> = presented
            .iter()
            .take(PRESENTED_MAX)
            .filter_map(|der| {
                let certificate = Certificate::parse(der).ok()?;
                let unreadable = EndEntityCert::try_from(der).err();
                Some(Sent {
                    certificate,
                    unreadable,
                })
            })
            .collect();
        let verified = self.verified().clone();
        let verified: Vec<_> = verified.iter().filter_map(|der| Certificate::parse(der).ok()).collect();
        diagnose::Case {
            max_depth: self.demands.max_depth,
            leaf,
            sent: &presented,
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

/// What extKeyUsage of any certificate of a path must allow. Of a CA's, anyExtendedKeyUsage is no restriction; of a leaf's
/// [`ClientVerifier::is_for_clients`] has the last word.
struct ClientAuthOrAny;

impl ExtendedKeyUsageValidator for ClientAuthOrAny {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut is_restricted = false;
        for purpose in purposes {
            let purpose = purpose?;
            let is = |wanted: Purpose<'static>| purpose == KeyPurposeId::new(wanted.as_bytes());
            if is(Purpose::CLIENT_AUTH) || is(Purpose::ANY) {
                return Ok(());
            }
            is_restricted = true;
        }
        match is_restricted {
            false => Ok(()),
            true => Err(webpki::Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext {
                required: KeyUsage::client_auth(),
                present: Vec::new(),
            })),
        }
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
        match pss::algorithms(dss.scheme) {
            Some(algorithms) => verify_signature(message, cert, dss, algorithms),
            None => verify_tls12_signature(message, cert, dss, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match pss::algorithms(dss.scheme) {
            Some(algorithms) => verify_signature(message, cert, dss, algorithms),
            None => verify_tls13_signature(message, cert, dss, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let pss_keys = pss::SCHEMES.iter().map(|(scheme, _)| *scheme);
        self.algorithms
            .supported_schemes()
            .into_iter()
            .chain(pss_keys)
            .collect()
    }
}

/// A signature over a handshake by whichever of the algorithms goes with the key.
fn verify_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> Result<HandshakeSignatureValid, Error> {
    let malformed = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let certificate = EndEntityCert::try_from(certificate).map_err(malformed)?;
    let mut verified = algorithms
        .iter()
        .map(|algorithm| certificate.verify_signature(*algorithm, message, signature.signature()));
    match verified.any(|verified| verified.is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
    }
}
