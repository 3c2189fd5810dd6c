//! RSA keys that may sign by RSASSA-PSS only: those whose SubjectPublicKeyInfo says id-RSASSA-PSS (RFC 4055 section 3.1)
//! rather than rsaEncryption. rustls knows the signatures, and only the other kind of key.
//!
//! Such a key names a hash, or leaves it to the signature. TLS has signature schemes of its own for them (RFC 8446
//! section 4.2.3, `rsa_pss_pss_*`); a CA's signature looks the same with either kind of key.

use std::fmt;

use rustls::SignatureScheme;
use rustls_pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id};
use webpki::aws_lc_rs::{
    RSA_PSS_2048_8192_SHA256_LEGACY_KEY, RSA_PSS_2048_8192_SHA384_LEGACY_KEY, RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
};

/// id-RSASSA-PSS without parameters: the key goes with each hash.
const ANY_HASH: AlgorithmIdentifier =
    AlgorithmIdentifier::from_slice(&[0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 10]);

/// The signature schemes for such keys, and the algorithms of each: one for each way to write the key's.
pub(super) static SCHEMES: [(SignatureScheme, [&dyn SignatureVerificationAlgorithm; 2]); 3] = [
    (
        SignatureScheme::Unknown(0x0809), // rsa_pss_pss_sha256
        [
            &PssKey(ANY_HASH, RSA_PSS_2048_8192_SHA256_LEGACY_KEY),
            &PssKey(alg_id::RSA_PSS_SHA256, RSA_PSS_2048_8192_SHA256_LEGACY_KEY),
        ],
    ),
    (
        SignatureScheme::Unknown(0x080A), // rsa_pss_pss_sha384
        [
            &PssKey(ANY_HASH, RSA_PSS_2048_8192_SHA384_LEGACY_KEY),
            &PssKey(alg_id::RSA_PSS_SHA384, RSA_PSS_2048_8192_SHA384_LEGACY_KEY),
        ],
    ),
    (
        SignatureScheme::Unknown(0x080B), // rsa_pss_pss_sha512
        [
            &PssKey(ANY_HASH, RSA_PSS_2048_8192_SHA512_LEGACY_KEY),
            &PssKey(alg_id::RSA_PSS_SHA512, RSA_PSS_2048_8192_SHA512_LEGACY_KEY),
        ],
    ),
];

/// The algorithms of a signature scheme that is one of these; none for any other.
pub(super) fn algorithms(scheme: SignatureScheme) -> Option<&'static [&'static dyn SignatureVerificationAlgorithm]> {
    let known = SCHEMES.iter().find(|(known, _)| *known == scheme);
    known.map(|(_, algorithms)| &algorithms[..])
}

/// Whether a key of this kind, with these parameters as encoded, can be used at all.
pub(super) fn is_usable(parameters: &[u8]) -> bool {
    let mut all = SCHEMES.iter().flat_map(|(_, algorithms)| algorithms);
    // both have the object identifier before the parameters
    all.any(|algorithm| algorithm.public_key_alg_id().as_ref().get(ANY_HASH.as_ref().len()..) == Some(parameters))
}

/// Verifies as another algorithm does, with keys of this kind.
struct PssKey(AlgorithmIdentifier, &'static dyn SignatureVerificationAlgorithm);

impl SignatureVerificationAlgorithm for PssKey {
    fn verify_signature(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        self.1.verify_signature(public_key, message, signature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.0
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.1.signature_alg_id()
    }
}

impl fmt::Debug for PssKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PssKey").field(&self.1).finish()
    }
}
