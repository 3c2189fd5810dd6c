//! The key of the secrets in a set on disk: AES-256-GCM with a random nonce for each, under a key that HKDF-SHA256 makes of the
//! text in the configuration or the environment.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::store::StoreError;

/// A text that is shorter is guessed.
pub const SHORTEST: usize = 32;

/// Seals and opens texts.
#[derive(Clone)]
pub struct Key(Arc<RandomizedNonceKey>);

impl Key {
    /// A key made of a text of at least [`SHORTEST`] octets.
    pub fn new(text: &str) -> Result<Key, StoreError> {
        if text.len() < SHORTEST {
            return Err(StoreError::KeyTooShort);
        }
        let mut octets = Zeroizing::new([0; 32]);
        let secret = Salt::new(HKDF_SHA256, b"portreeve snapshot").extract(text.as_bytes());
        let filled = secret
            .expand(&[b"shared secrets, AES-256-GCM"], Length)
            .and_then(|key| key.fill(&mut *octets));
        let key = filled.and_then(|()| RandomizedNonceKey::new(&AES_256_GCM, &*octets));
        key.map(|key| Key(Arc::new(key))).map_err(|_| StoreError::Sealed)
    }

    /// Seals a text: nonce, ciphertext and tag, in hexadecimal digits.
    pub(super) fn seal(&self, text: &str) -> Result<String, StoreError> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::empty(), &mut sealed);
        let nonce = nonce.map_err(|_| StoreError::Sealed)?;
        let octets = nonce.as_ref().iter().chain(&sealed);
        Ok(octets.map(|octet| format!("{octet:02x}")).collect())
    }

    /// A column's text as it was before a key, if there is one, sealed it: the hook of all that reads a set from the disk.
    pub(in crate::store) fn opened(key: Option<&Key>, text: String) -> sqlx::Result<Zeroizing<String>> {
        match key {
            Some(key) => key.open(&text).map_err(|error| sqlx::Error::Decode(error.into())),
            None => Ok(text.into()),
        }
    }

    /// Opens what [`Key::seal`] made.
    pub(super) fn open(&self, sealed: &str) -> Result<Zeroizing<String>, StoreError> {
        let digits = sealed.as_bytes().chunks(2);
        let octets: Option<Vec<u8>> = digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let mut octets = Zeroizing::new(octets.ok_or(StoreError::Sealed)?);
        let (nonce, sealed) = octets.split_at_mut_checked(NONCE_LEN).ok_or(StoreError::Sealed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| StoreError::Sealed)?;
        let opened = self.0.open_in_place(nonce, Aad::empty(), sealed);
        let text = str::from_utf8(opened.map_err(|_| StoreError::Sealed)?);
        text.map(|text| Zeroizing::new(text.to_owned()))
            .map_err(|_| StoreError::Sealed)
    }
}

/// Octets of the key.
#[derive(Clone, Copy)]
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_under_its_key_alone() {
        let key = Key::new(&"k".repeat(32)).unwrap();
        let other = Key::new(&"l".repeat(32)).unwrap();
        let sealed = key.seal("testing123").unwrap();
        assert_ne!(sealed, key.seal("testing123").unwrap());
        assert_eq!(*key.open(&sealed).unwrap(), "testing123");
        assert!(other.open(&sealed).is_err());
        for broken in ["", "0", "zz", &sealed[2..], &sealed[..sealed.len() - 2], "é"] {
            assert!(key.open(broken).is_err(), "{broken}");
        }
        assert!(Key::new("short").is_err());
    }
}
