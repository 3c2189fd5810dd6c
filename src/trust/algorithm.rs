//! Keys and signatures by their object identifiers: which they are, and whether they are strong enough.

use super::der::{Malformed, Reader, tag};
use super::names::dotted;
use super::pss;

/// A public key's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// RSA, with the modulus' size in bits.
    Rsa(usize),
    /// RSA that signs by RSASSA-PSS only, with the modulus' size in bits.
    RsaPss(usize),
    /// An elliptic curve for ECDSA.
    Curve(Curve),
    /// Ed25519.
    Ed25519,
    /// ML-DSA (FIPS 204), by the number in its name.
    MlDsa(u8),
    /// Anything else, which cannot be used here.
    Other,
}

/// A named curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
    /// NIST P-521.
    P521,
    /// Any other, which cannot be used here.
    Other,
}

impl Key {
    /// `RSA-2048`, `P-256`, `Ed25519`.
    pub fn name(self) -> String {
        match self {
            Key::Rsa(bits) => format!("RSA-{bits}"),
            Key::RsaPss(bits) => format!("RSA-PSS-{bits}"),
            Key::Curve(Curve::P256) => "P-256".into(),
            Key::Curve(Curve::P384) => "P-384".into(),
            Key::Curve(Curve::P521) => "P-521".into(),
            Key::Curve(Curve::Other) => "an unsupported curve".into(),
            Key::Ed25519 => "Ed25519".into(),
            Key::MlDsa(size) => format!("ML-DSA-{size}"),
            Key::Other => "an unsupported kind of key".into(),
        }
    }

    /// Whether it is as strong as EAP-TLS here demands, and can be used: RSA of 2,048 to 8,192 bits, P-256.
    pub fn is_strong(self) -> bool {
        match self {
            Key::Rsa(bits) | Key::RsaPss(bits) => (2_048..=8_192).contains(&bits),
            Key::Curve(curve) => curve != Curve::Other,
            Key::Ed25519 | Key::MlDsa(_) => true,
            Key::Other => false,
        }
    }
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    pub(super) oid: &'a [u8],
    /// RSASSA-PSS without parameters means SHA-1.
    parameters: &'a [u8],
}

impl Signature<'_> {
    /// `ecdsa-with-SHA256`; dotted where it has no name here.
    pub fn name(&self) -> String {
        if self.is_pss() {
            return match self.pss_is_sha1() {
                true => "rsassaPss with SHA-1".into(),
                false => "rsassaPss".into(),
            };
        }
        SIGNATURES
            .iter()
            .find(|(oid, ..)| *oid == self.oid)
            .map_or_else(|| dotted(self.oid), |(_, name, _)| (*name).into())
    }

    /// Made with MD2, MD4, MD5 or SHA-1, for which two certificates with one signature can be made.
    pub fn is_weak(&self) -> bool {
        if self.is_pss() {
            return self.pss_is_sha1();
        }
        SIGNATURES.iter().any(|(oid, _, weak)| *oid == self.oid && *weak)
    }

    /// RSASSA-PSS, which has its hash and salt in the parameters.
    pub(super) fn is_pss(&self) -> bool {
        self.oid == RSASSA_PSS
    }

    /// RFC 4055 section 3.1: hashAlgorithm `[0]` defaults to SHA-1.
    fn pss_is_sha1(&self) -> bool {
        let hash = || {
            let mut parameters = Reader::new(self.parameters, "RSASSA-PSS parameters")
                .inside(tag::SEQUENCE)
                .ok()?;
            parameters
                .inside(tag::constructed(0))
                .ok()?
                .inside(tag::SEQUENCE)
                .ok()?
                .contents(tag::OID)
                .ok()
        };
        hash().is_none_or(|hash| hash == SHA1)
    }
}

/// An AlgorithmIdentifier.
pub(super) fn algorithm<'a>(reader: &mut Reader<'a>) -> Result<Signature<'a>, Malformed> {
    let mut algorithm = reader.inside(tag::SEQUENCE)?;
    let oid = algorithm.contents(tag::OID)?;
    let parameters = if algorithm.is_at_end() {
        &[][..]
    } else {
        algorithm.any()?.raw
    };
    algorithm.end()?;
    Ok(Signature { oid, parameters })
}

/// The key in the contents of a SubjectPublicKeyInfo.
pub(super) fn key(info: &[u8]) -> Result<Key, Malformed> {
    let mut info = Reader::new(info, "public key");
    let Signature { oid, parameters } = algorithm(&mut info)?;
    let octets = info.bit_string()?;
    info.end()?;
    Ok(match oid {
        // RFC 3279 section 2.3.1: the parameters are NULL; rustls knows no other way to write the key
        RSA if parameters == NULL => Key::Rsa(rsa_bits(octets)?),
        RSASSA_PSS if pss::is_usable(parameters) => Key::RsaPss(rsa_bits(octets)?),
        EC => {
            let (curve, octets_each) = match parameters {
                [0x06, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7] => (Curve::P256, 32),
                [0x06, 5, 0x2B, 0x81, 0x04, 0, 0x22] => (Curve::P384, 48),
                [0x06, 5, 0x2B, 0x81, 0x04, 0, 0x23] => (Curve::P521, 66),
                _ => return Ok(Key::Curve(Curve::Other)),
            };
            // SEC 1 section 2.3.3: both coordinates, or one and the sign of the other
            let is_point = match octets.split_first() {
                Some((4, coordinates)) => coordinates.len() == 2 * octets_each,
                Some((2 | 3, coordinate)) => coordinate.len() == octets_each,
                _ => false,
            };
            if !is_point {
                return Err(Malformed("point of an elliptic curve"));
            }
            Key::Curve(curve)
        }
        ED25519 if octets.len() == 32 => Key::Ed25519,
        ED25519 => return Err(Malformed("Ed25519 key")),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, number @ 17..=19] => Key::MlDsa(match number {
            17 => 44,
            18 => 65,
            _ => 87,
        }),
        _ => Key::Other,
    })
}

const NULL: &[u8] = &[tag::NULL, 0];

/// The modulus' size; both numbers are positive. The exponent is odd and above one: with others a signature proves
/// nothing.
fn rsa_bits(key: &[u8]) -> Result<usize, Malformed> {
    let mut key = Reader::new(key, "RSA key").inside(tag::SEQUENCE)?;
    let (modulus, exponent) = (key.contents(tag::INTEGER)?, key.contents(tag::INTEGER)?);
    key.end()?;
    let is_negative = |number: &[u8]| number.first().is_none_or(|first| *first >= 0x80);
    let is_even = exponent.last().is_none_or(|last| last % 2 == 0);
    if is_negative(modulus) || is_negative(exponent) || is_even || exponent == [1] {
        return Err(key.malformed());
    }
    let leading = modulus.iter().take_while(|octet| **octet == 0).count();
    let first = modulus.get(leading).copied().unwrap_or(0);
    Ok(((modulus.len() - leading) * 8).saturating_sub(first.leading_zeros() as usize))
}

const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1];
const RSASSA_PSS: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 10];
const EC: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1];
const ED25519: &[u8] = &[0x2B, 0x65, 0x70];
const SHA1: &[u8] = &[0x2B, 0x0E, 3, 2, 0x1A];

/// Signature algorithms by name, and whether they are weak.
const SIGNATURES: &[(&[u8], &str, bool)] = &[
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 2],
        "md2WithRSAEncryption",
        true,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 3],
        "md4WithRSAEncryption",
        true,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 4],
        "md5WithRSAEncryption",
        true,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 5],
        "sha1WithRSAEncryption",
        true,
    ),
    (&[0x2B, 0x0E, 3, 2, 0x1D], "sha1WithRSA", true),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 14],
        "sha224WithRSAEncryption",
        false,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 16],
        "sha512-256WithRSAEncryption",
        false,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 11],
        "sha256WithRSAEncryption",
        false,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 12],
        "sha384WithRSAEncryption",
        false,
    ),
    (
        &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 13],
        "sha512WithRSAEncryption",
        false,
    ),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x38, 4, 3], "dsa-with-SHA1", true),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 1], "ecdsa-with-SHA1", true),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2], "ecdsa-with-SHA256", false),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 3], "ecdsa-with-SHA384", false),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 4], "ecdsa-with-SHA512", false),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 1], "ecdsa-with-SHA224", false),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 10], "ecdsa-with-SHA3-256", false),
    (ED25519, "ED25519", false),
    (&[0x2B, 0x65, 0x71], "ED448", false),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 17], "ML-DSA-44", false),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 18], "ML-DSA-65", false),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 19], "ML-DSA-87", false),
];
