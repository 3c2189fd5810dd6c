//! The keys that seal tickets: made of secrets that all nodes of a fleet share, or of one that a node keeps to itself.
//!
//! A ticket is `name (4) || day (4) || salt (16) || sealed content || tag (16)`. The name says which secret sealed it, and
//! the day when. Each ticket has a key of its own, HKDF-SHA256 over the day and the salt, so that no two nodes ever seal
//! under one key, and the nonce of AES-256-GCM may stand still. RFC 5077, 4, has the like.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use rustls::crypto::SecureRandom;
use zeroize::Zeroizing;

const NAME_OCTETS: usize = 4;
const DAY_OCTETS: usize = 4;
const SALT_OCTETS: usize = 16;
const TAG_OCTETS: usize = 16;
const HEAD_OCTETS: usize = NAME_OCTETS + DAY_OCTETS + SALT_OCTETS;
/// What a ticket is longer than its content.
pub(super) const OVERHEAD_OCTETS: usize = HEAD_OCTETS + TAG_OCTETS;

pub(super) const DAY_S: u64 = 86_400;

/// The secrets in force: the first seals, every one opens.
pub struct TicketKeys(Vec<Secret>);

struct Secret {
    name: [u8; NAME_OCTETS],
    key: Prk,
}

impl TicketKeys {
    /// Keys made of `secrets`, which are not guessable; with none, nothing is sealed.
    ///
    /// # Errors
    /// When the cryptographic library fails.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Result<TicketKeys, Unspecified> {
        secrets
            .into_iter()
            .map(Secret::new)
            .collect::<Result<_, _>>()
            .map(TicketKeys)
    }

    /// Seals `content` at `now`, Unix seconds, so that it opens only with the same `binding`.
    pub(super) fn seal(
        &self,
        now: u64,
        binding: &[u8],
        mut content: Vec<u8>,
        random: &dyn SecureRandom,
    ) -> Option<Vec<u8>> {
        let secret = self.0.first()?;
        let day = u32::try_from(now / DAY_S).ok()?.to_be_bytes();
        let mut salt = [0; SALT_OCTETS];
        random.fill(&mut salt).ok()?;
        // room for the tag, so that the content is not moved, and so not left behind, while it is readable
        content.reserve_exact(TAG_OCTETS);
        secret
            .ticket_key(day, salt)?
            .seal_in_place_append_tag(nonce(), Aad::from(binding), &mut content)
            .ok()?;
        let mut ticket = Vec::with_capacity(HEAD_OCTETS + content.len());
        ticket.extend(secret.name);
        ticket.extend(day);
        ticket.extend(salt);
        ticket.extend(content);
        Some(ticket)
    }

    /// Opens what [`TicketKeys::seal`] made within the last `lifetime_s` seconds, give or take a day.
    pub(super) fn open(&self, now: u64, lifetime_s: u64, binding: &[u8], ticket: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_OCTETS>()?;
        let (day, rest) = rest.split_first_chunk::<DAY_OCTETS>()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_OCTETS>()?;
        let today = now / DAY_S;
        let oldest = today.saturating_sub(lifetime_s / DAY_S + 1);
        if !(oldest..=today + 1).contains(&u64::from(u32::from_be_bytes(*day))) {
            return None;
        }
        let named = self.0.iter().filter(|secret| secret.name == *name);
        named
            .filter_map(|secret| secret.ticket_key(*day, *salt))
            .find_map(|key| {
                let mut content = Zeroizing::new(sealed.to_vec());
                let octets = key.open_in_place(nonce(), Aad::from(binding), &mut content).ok()?.len();
                content.truncate(octets);
                Some(content)
            })
    }
}

impl Secret {
    fn new(secret: &[u8]) -> Result<Secret, Unspecified> {
        let key = Salt::new(HKDF_SHA256, b"portreeve ticket").extract(secret);
        let mut name = [0; NAME_OCTETS];
        key.expand(&[b"name"], NameLength)?.fill(&mut name)?;
        Ok(Secret { name, key })
    }

    fn ticket_key(&self, day: [u8; DAY_OCTETS], salt: [u8; SALT_OCTETS]) -> Option<LessSafeKey> {
        let info = [&b"key"[..], &day, &salt];
        let key = self.key.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

/// The key is one ticket's alone.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[derive(Clone, Copy)]
struct NameLength;

impl KeyType for NameLength {
    fn len(&self) -> usize {
        NAME_OCTETS
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKeys({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eap::tls::provider;

    const NOON: u64 = 1_893_499_200;
    const WEEK_S: u64 = 7 * DAY_S;

    fn keys(secrets: &[&str]) -> TicketKeys {
        TicketKeys::new(secrets.iter().map(|secret| secret.as_bytes())).unwrap()
    }

    fn seal(keys: &TicketKeys) -> Vec<u8> {
        let random = provider().secure_random;
        keys.seal(NOON, b"here", b"content".to_vec(), random).unwrap()
    }

    #[test]
    fn the_first_secret_seals_and_every_one_opens() {
        let (old, both, new) = (keys(&["old"]), keys(&["new", "old"]), keys(&["new"]));
        let content =
            |keys: &TicketKeys, ticket: &[u8]| keys.open(NOON, WEEK_S, b"here", ticket).map(|octets| octets.to_vec());
        let (by_old, by_both) = (seal(&old), seal(&both));
        assert_eq!(by_old.len(), OVERHEAD_OCTETS + 7);
        assert_ne!(by_old, seal(&old));
        for (keys, opens_old, opens_new) in [(&old, true, false), (&both, true, true), (&new, false, true)] {
            assert_eq!(content(keys, &by_old).is_some(), opens_old);
            assert_eq!(content(keys, &by_both).is_some(), opens_new);
        }
        assert_eq!(content(&both, &by_old).as_deref(), Some(&b"content"[..]));
        assert_eq!(keys(&[]).seal(NOON, b"", Vec::new(), provider().secure_random), None);
    }

    #[test]
    fn nothing_opens_that_was_changed_or_is_bound_elsewhere() {
        let keys = keys(&["secret"]);
        let ticket = seal(&keys);
        assert!(keys.open(NOON, WEEK_S, b"there", &ticket).is_none());
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert!(keys.open(NOON, WEEK_S, b"here", &changed).is_none(), "octet {at}");
            assert!(keys.open(NOON, WEEK_S, b"here", &ticket[..at]).is_none(), "{at} octets");
        }
        let longer = [&ticket[..], &[0]].concat();
        assert!(keys.open(NOON, WEEK_S, b"here", &longer).is_none());
    }

    #[test]
    fn days_open_as_far_back_as_the_lifetime_reaches() {
        let keys = keys(&["secret"]);
        let ticket = seal(&keys);
        for (days, lifetime_days, opens) in [(0, 0, true), (1, 0, true), (2, 0, false), (8, 7, true), (9, 7, false)] {
            let opened = keys.open(NOON + days * DAY_S, lifetime_days * DAY_S, b"here", &ticket);
            assert_eq!(opened.is_some(), opens, "{days} days, {lifetime_days} allowed");
        }
        assert!(keys.open(NOON - DAY_S, WEEK_S, b"here", &ticket).is_some());
        assert!(keys.open(NOON - 2 * DAY_S, WEEK_S, b"here", &ticket).is_none());
        assert!(keys.open(0, WEEK_S, b"here", &ticket).is_none());
    }
}
