//! The verifier of one handshake: the shared one, and a memory of what it was shown and why it refused.
//!
//! rustls knows a chain only once it was accepted; the log has to say whose certificate was not. After a resumption nothing
//! is shown: then it is the chain of the session resumed.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::reason::{Refused, alert_for};
use crate::reason::Reason;

#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<dyn ClientCertVerifier>,
    presented: OnceLock<Vec<CertificateDer<'static>>>,
    resumed: OnceLock<Vec<CertificateDer<'static>>>,
    refused: OnceLock<Refused>,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<dyn ClientCertVerifier>) -> Recorder {
        Recorder {
            shared,
            presented: OnceLock::new(),
            resumed: OnceLock::new(),
            refused: OnceLock::new(),
        }
    }

    /// The chain that was shown, accepted or not; the supplicant's own certificate first.
    pub(crate) fn presented(&self) -> Option<&[CertificateDer<'static>]> {
        self.presented.get().map(Vec::as_slice)
    }

    /// The chain that was shown, or else the one of the session resumed.
    pub(crate) fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        self.presented().or_else(|| self.resumed.get().map(Vec::as_slice))
    }

    /// A session was resumed, and this is its chain.
    pub(crate) fn resumed(&self, chain: &[CertificateDer<'static>]) {
        self.resumed.get_or_init(|| chain.to_vec());
    }

    /// The verifier behind this one.
    pub(crate) fn shared(&self) -> &dyn ClientCertVerifier {
        &*self.shared
    }

    /// Why the chain, or the proof of its key, was refused.
    pub(crate) fn refused(&self) -> Option<&Refused> {
        self.refused.get()
    }

    fn proof(&self, checked: Result<HandshakeSignatureValid, Error>) -> Result<HandshakeSignatureValid, Error> {
        checked.inspect_err(|error| {
            let refused = match error {
                Error::InvalidCertificate(CertificateError::BadSignature) => Refused::new(
                    Reason::TlsFailed,
                    "the supplicant's signature does not verify with its certificate",
                ),
                other => Refused::from(other),
            };
            // rustls gives up at the first error, so there is never a second
            let _ = self.refused.set(refused);
        })
    }
}

impl ClientCertVerifier for Recorder {
    /// "The EAP-TLS server SHOULD require the EAP-TLS peer to authenticate with a certificate" (RFC 9190, 2.1.1):
    /// this one does, whatever the shared verifier says.
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.shared.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain = std::iter::once(end_entity).chain(intermediates);
        let _ = self
            .presented
            .set(chain.map(|certificate| certificate.clone().into_owned()).collect());
        self.shared
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(|error| {
                let refused = Refused::from(&error);
                let _ = self.refused.set(refused.clone());
                alert_for(refused).into()
            })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proof(self.shared.verify_tls12_signature(message, certificate, signature))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proof(self.shared.verify_tls13_signature(message, certificate, signature))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.shared.supported_verify_schemes()
    }
}
