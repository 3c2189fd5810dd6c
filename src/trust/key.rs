//! The server's private key: PKCS#8, PKCS#1 and SEC1, and PKCS#8 encrypted by a passphrase (PBES2, RFC 8018: what
//! `openssl genpkey -aes256` and `openssl pkcs8 -topk8` write).

use std::num::NonZeroU32;
use std::path::Path;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use zeroize::Zeroizing;

use super::TrustError;
use super::der::{Malformed, Reader, tag};
use super::pem::{self, Block};

/// OpenSSL uses 2,048, careful people a million; above this a start would take a minute.
const ITERATIONS_MAX: u32 = 50_000_000;

/// Reads the one private key of a PEM file, which may also hold certificates; and the line that it begins on.
///
/// # Errors
/// No key, several, one in a format that is not read, one whose passphrase is missing or wrong.
pub(super) fn load(path: &Path, passphrase_file: Option<&Path>) -> Result<(PrivateKeyDer<'static>, usize), TrustError> {
    let octets = pem::read(path)?;
    let mut keys = pem::blocks(path, &octets)?
        .into_iter()
        .filter(|block| block.label.ends_with("PRIVATE KEY"));
    let block = keys.next().ok_or_else(|| TrustError::NoKey { path: path.to_owned() })?;
    if let Some(second) = keys.next() {
        return Err(TrustError::SeveralKeys {
            path: path.to_owned(),
            line: second.line,
        });
    }
    let Block {
        label,
        line,
        contents,
        old_encryption,
    } = block;
    let path = path.to_owned();
    if old_encryption {
        return Err(TrustError::OldKeyEncryption { path, line });
    }
    let key = match label.as_str() {
        "PRIVATE KEY" => PrivatePkcs8KeyDer::from(contents.to_vec()).into(),
        "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(contents.to_vec()).into(),
        "EC PRIVATE KEY" => PrivateSec1KeyDer::from(contents.to_vec()).into(),
        "ENCRYPTED PRIVATE KEY" => {
            let Some(passphrase_file) = passphrase_file else {
                return Err(TrustError::PassphraseMissing { path, line });
            };
            match decrypt(&contents, &passphrase(passphrase_file)?) {
                Ok(key) => PrivatePkcs8KeyDer::from(key.to_vec()).into(),
                Err(Undecrypted::Passphrase) => {
                    return Err(TrustError::PassphraseWrong {
                        path,
                        line,
                        passphrase_file: passphrase_file.to_owned(),
                    });
                }
                Err(Undecrypted::Malformed(malformed)) => {
                    return Err(TrustError::KeyUnusable {
                        path,
                        line,
                        what: malformed.to_string(),
                    });
                }
                Err(Undecrypted::Unsupported(what)) => {
                    return Err(TrustError::KeyUnusable {
                        path,
                        line,
                        what: format!("it is encrypted by {what}"),
                    });
                }
            }
        }
        other => {
            return Err(TrustError::KeyUnusable {
                path,
                line,
                what: format!("`{other}` is not read here"),
            });
        }
    };
    Ok((key, line))
}

/// The first line of a file.
fn passphrase(path: &Path) -> Result<Zeroizing<Vec<u8>>, TrustError> {
    let octets = pem::read(path)?;
    let line = octets.split(|octet| *octet == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(TrustError::PassphraseEmpty { path: path.to_owned() });
    }
    Ok(Zeroizing::new(line.to_vec()))
}

#[derive(Debug)]
enum Undecrypted {
    Malformed(Malformed),
    Unsupported(&'static str),
    Passphrase,
}

impl From<Malformed> for Undecrypted {
    fn from(malformed: Malformed) -> Self {
        Undecrypted::Malformed(malformed)
    }
}

/// EncryptedPrivateKeyInfo (RFC 5958 section 3) with PBES2, PBKDF2 and AES in CBC mode (RFC 8018).
fn decrypt(der: &[u8], passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, Undecrypted> {
    let mut outer = Reader::new(der, "encrypted private key");
    let mut info = outer.inside(tag::SEQUENCE)?;
    outer.end()?;
    let mut scheme = info.inside(tag::SEQUENCE)?;
    let mut encrypted = info.contents(tag::OCTET_STRING)?.to_vec();
    info.end()?;
    if scheme.contents(tag::OID)? != PBES2 {
        return Err(Undecrypted::Unsupported("an older scheme than PBES2"));
    }
    let mut parameters = scheme.inside(tag::SEQUENCE)?;
    let mut derivation = parameters.inside(tag::SEQUENCE)?;
    let mut cipher = parameters.inside(tag::SEQUENCE)?;
    parameters.end()?;

    let oid = cipher.contents(tag::OID)?;
    let (algorithm, key_octets): (&Algorithm, usize) = match oid {
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2] => (&AES_128, 16),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 22] => (&AES_192, 24),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42] => (&AES_256, 32),
        _ => return Err(Undecrypted::Unsupported("another cipher than AES in CBC mode")),
    };
    let iv: [u8; 16] = cipher
        .contents(tag::OCTET_STRING)?
        .try_into()
        .map_err(|_| cipher.malformed())?;

    if derivation.contents(tag::OID)? != PBKDF2 {
        return Err(Undecrypted::Unsupported("another key derivation than PBKDF2"));
    }
    let mut derivation = derivation.inside(tag::SEQUENCE)?;
    let salt = derivation.contents(tag::OCTET_STRING)?;
    let iterations = NonZeroU32::new(derivation.small_integer()?).ok_or(derivation.malformed())?;
    if iterations.get() > ITERATIONS_MAX {
        return Err(Undecrypted::Unsupported("more than 50,000,000 iterations of PBKDF2"));
    }
    derivation.optional(tag::INTEGER)?; // keyLength: the cipher's
    let function = match derivation.optional(tag::SEQUENCE)? {
        None => pbkdf2::PBKDF2_HMAC_SHA1,
        Some(function) => match Reader::new(function.contents, "encrypted private key").contents(tag::OID)? {
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 2, 7] => pbkdf2::PBKDF2_HMAC_SHA1,
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 2, 9] => pbkdf2::PBKDF2_HMAC_SHA256,
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 2, 10] => pbkdf2::PBKDF2_HMAC_SHA384,
            [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 2, 11] => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(Undecrypted::Unsupported("PBKDF2 with another hash than SHA-1 or SHA-2")),
        },
    };

    let mut key = Zeroizing::new(vec![0; key_octets]);
    pbkdf2::derive(function, iterations, salt, passphrase, &mut key);
    let key = UnboundCipherKey::new(algorithm, &key).and_then(PaddedBlockDecryptingKey::cbc_pkcs7);
    let key = key.map_err(|_| Undecrypted::Unsupported("a cipher that this build lacks"))?;
    let plain = key.decrypt(&mut encrypted, DecryptionContext::Iv128(FixedLength::from(iv)));
    let plain = Zeroizing::new(plain.map_err(|_| Undecrypted::Passphrase)?.to_vec());
    // A wrong passphrase passes the padding once in 256 times; a PrivateKeyInfo is a SEQUENCE that fills it to the end.
    let mut check = Reader::new(&plain, "private key");
    if check.element(tag::SEQUENCE).and_then(|_| check.end()).is_err() {
        return Err(Undecrypted::Passphrase);
    }
    Ok(plain)
}

const PBES2: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 5, 12];

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::cipher::{EncryptionContext, PaddedBlockEncryptingKey};
    use proptest::prelude::*;

    fn wrap(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let inner = parts.concat();
        let length = u8::try_from(inner.len()).unwrap();
        let header = if length < 0x80 {
            vec![tag, length]
        } else {
            vec![tag, 0x81, length]
        };
        [header, inner].concat()
    }

    /// An EncryptedPrivateKeyInfo over `plain`, by AES-128-CBC and ten rounds of PBKDF2-HMAC-SHA-256.
    fn encrypted(plain: &[u8], passphrase: &[u8]) -> Vec<u8> {
        let (salt, iv) = ([7; 8], [9; 16]);
        let mut key = [0; 16];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            NonZeroU32::new(10).unwrap(),
            &salt,
            passphrase,
            &mut key,
        );
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_128, &key).unwrap()).unwrap();
        let mut octets = plain.to_vec();
        key.less_safe_encrypt(&mut octets, EncryptionContext::Iv128(FixedLength::from(iv)))
            .unwrap();
        let function = wrap(
            tag::SEQUENCE,
            &[&wrap(tag::OID, &[&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 2, 9]]), &[5, 0]],
        );
        let salted = wrap(
            tag::SEQUENCE,
            &[&wrap(tag::OCTET_STRING, &[&salt]), &[tag::INTEGER, 1, 10], &function],
        );
        let derivation = wrap(tag::SEQUENCE, &[&wrap(tag::OID, &[PBKDF2]), &salted]);
        let aes = wrap(tag::OID, &[&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2]]);
        let cipher = wrap(tag::SEQUENCE, &[&aes, &wrap(tag::OCTET_STRING, &[&iv])]);
        let scheme = wrap(
            tag::SEQUENCE,
            &[&wrap(tag::OID, &[PBES2]), &wrap(tag::SEQUENCE, &[&derivation, &cipher])],
        );
        wrap(tag::SEQUENCE, &[&scheme, &wrap(tag::OCTET_STRING, &[&octets])])
    }

    #[test]
    fn a_passphrase_opens_the_key_and_a_wrong_one_does_not() {
        let plain = wrap(tag::SEQUENCE, &[b"the key"]);
        let der = encrypted(&plain, b"secret");
        assert_eq!(*decrypt(&der, b"secret").unwrap(), plain);
        // some of these pass the padding by chance, and are found out by what comes out
        for attempt in 0..1_000 {
            let wrong = decrypt(&der, format!("secret {attempt}").as_bytes());
            assert!(matches!(wrong, Err(Undecrypted::Passphrase)), "{attempt}");
        }
    }

    #[test]
    fn a_passphrase_is_the_first_line_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passphrase");
        for (text, line) in [
            ("secret\r\nsecond\n", Some("secret")),
            (" a b ", Some(" a b ")),
            ("\n", None),
            ("", None),
        ] {
            std::fs::write(&path, text).unwrap();
            let read = passphrase(&path)
                .ok()
                .map(|octets| String::from_utf8(octets.to_vec()).unwrap());
            assert_eq!(read.as_deref(), line);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn broken_keys_are_refused(position in any::<prop::sample::Index>(), octet in any::<u8>()) {
            let mut der = encrypted(b"\x30\x02\x05\x00", b"secret");
            let at = position.index(der.len());
            der[at] = octet;
            let _ = decrypt(&der, b"secret");
        }
    }
}
