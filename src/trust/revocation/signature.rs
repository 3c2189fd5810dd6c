//! Signatures over what is no certificate: lists and responses.

use rustls_pki_types::SignatureVerificationAlgorithm;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use webpki::RawPublicKeyEntity;

use crate::trust::der::{Malformed, Reader, tag};

/// The parts of a SIGNED structure (RFC 5280 section 4.1.1): what was signed, how, and the signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'a> {
    /// With its header.
    pub(super) message: &'a [u8],
    /// The contents of the AlgorithmIdentifier.
    pub(super) algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
}

impl<'a> Signed<'a> {
    /// Reads the three off the front.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Signed<'a>, Malformed> {
        Ok(Signed {
            message: reader.element(tag::SEQUENCE)?.raw,
            algorithm: reader.contents(tag::SEQUENCE)?,
            signature: reader.bit_string()?,
        })
    }

    /// Whether the key of this SubjectPublicKeyInfo has signed it, by an algorithm that is accepted: SHA-1 is not.
    pub(super) fn is_by(&self, public_key: &[u8], algorithms: &[&'static dyn SignatureVerificationAlgorithm]) -> bool {
        let key = SubjectPublicKeyInfoDer::from(public_key);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
            return false;
        };
        let mut named = algorithms
            .iter()
            .filter(|algorithm| *algorithm.signature_alg_id() == *self.algorithm);
        // several where the curve is the key's to say
        named.any(|algorithm| key.verify_signature(*algorithm, self.message, self.signature).is_ok())
    }
}
