//! Who may sign an OCSP response (RFC 6960 section 4.2.2.2): the CA that issued the certificate in question, or whoever
//! holds a certificate that this very CA issued for the purpose.

use rustls_pki_types::SignatureVerificationAlgorithm;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use super::ocsp::Response;
use crate::trust::certificate::Certificate;

/// id-kp-OCSPSigning.
const OCSP_SIGNING: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 3, 9];

/// Who has signed a response.
pub(super) enum Signer<'a> {
    /// The issuer of the certificate in question.
    Issuer,
    /// Whoever holds this certificate of the issuer's.
    Delegate(&'a [u8]),
}

/// Why nobody who may has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignerError {
    #[error("sends a response of somebody who is neither the certificate's issuer nor was given that task by it")]
    Stranger,
    #[error("has a certificate that is not for signing OCSP responses")]
    Usage,
    #[error("has a certificate that has expired, or is not valid yet")]
    Expired,
    #[error("sends a response whose signature does not verify")]
    Signature,
}

/// Finds the signer of a response, and verifies that it may and did sign.
///
/// # Errors
/// What came closest.
pub(super) fn signer<'a>(
    response: &Response<'a>,
    issuer: &CertificateDer<'_>,
    algorithms: &[&'static dyn SignatureVerificationAlgorithm],
    now: UnixTime,
) -> Result<Signer<'a>, SignerError> {
    let authority = Certificate::parse(issuer).map_err(|_| SignerError::Stranger)?;
    if response.responder.is(&authority) {
        return match response.signed.is_by(authority.public_key, algorithms) {
            true => Ok(Signer::Issuer),
            false => Err(SignerError::Signature),
        };
    }
    let mut closest = SignerError::Stranger;
    for der in &response.certificates {
        let Ok(delegate) = Certificate::parse(der) else {
            continue;
        };
        if !response.responder.is(&delegate) {
            continue;
        }
        match may_sign(der, issuer, algorithms, now) {
            Ok(()) if response.signed.is_by(delegate.public_key, algorithms) => return Ok(Signer::Delegate(der)),
            Ok(()) => closest = SignerError::Signature,
            Err(error) => closest = error,
        }
    }
    Err(closest)
}

/// "Systems relying on responses MUST recognize a delegation certificate as being issued by the CA that issued the
/// certificate in question only if the delegation certificate and the certificate being checked for revocation were signed
/// by the same key", and its extKeyUsage must be there and name the purpose.
fn may_sign(
    delegate: &[u8],
    issuer: &CertificateDer<'_>,
    algorithms: &[&'static dyn SignatureVerificationAlgorithm],
    now: UnixTime,
) -> Result<(), SignerError> {
    let anchor = webpki::anchor_from_trusted_cert(issuer).map_err(|_| SignerError::Stranger)?;
    let der = CertificateDer::from(delegate);
    let delegate = EndEntityCert::try_from(&der).map_err(|_| SignerError::Stranger)?;
    let usage = KeyUsage::required(OCSP_SIGNING);
    match delegate.verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None) {
        Ok(_) => Ok(()),
        Err(webpki::Error::RequiredEkuNotFoundContext(_)) => Err(SignerError::Usage),
        Err(webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. }) => Err(SignerError::Expired),
        Err(_) => Err(SignerError::Stranger),
    }
}
