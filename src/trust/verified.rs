//! Chains that were found good lately: a device that comes again with the same certificates costs no signatures.
//!
//! What is remembered is that a path exists and whose it is, for as long as every certificate on it is valid. It belongs to
//! one set of client CAs, and is gone with it. Revocation is another question, asked each time.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls_pki_types::CertificateDer;

/// Chains that are remembered, some 100 octets each. Too few: a node whose devices are more verifies signatures again; too many:
/// only memory.
const CHAINS_MAX: u64 = 20_000;

/// Paths that are remembered once for all the chains that end in them: those of the CAs that issue devices' certificates.
const PATHS_MAX: u64 = 256;

/// The CAs of a path from the issuing one up, the trusted one's certificate last.
pub(super) type Issuers = Arc<[CertificateDer<'static>]>;

/// A leaf and what came with it, in that order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 32]);

/// From when to when every certificate of a path is valid; Unix seconds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// The memory.
pub(super) struct Verified {
    chains: moka::sync::Cache<Digest, (Window, Issuers)>,
    paths: moka::sync::Cache<Digest, Issuers>,
}

impl Digest {
    pub(super) fn of(leaf: &CertificateDer<'_>, presented: &[CertificateDer<'_>]) -> Digest {
        Digest::of_all(std::iter::once(leaf).chain(presented))
    }

    fn of_all<'a>(certificates: impl IntoIterator<Item = &'a CertificateDer<'a>>) -> Digest {
        let mut context = Context::new(&SHA256);
        for certificate in certificates {
            // What comes with a leaf may be no DER, which would say itself where it ends.
            context.update(&(certificate.len() as u64).to_be_bytes());
            context.update(certificate);
        }
        let mut digest = [0; 32];
        for (octet, value) in digest.iter_mut().zip(context.finish().as_ref()) {
            *octet = *value;
        }
        Digest(digest)
    }
}

impl Window {
    /// When both are open.
    pub(super) fn and(self, other: Window) -> Window {
        Window {
            not_before: self.not_before.max(other.not_before),
            not_after: self.not_after.min(other.not_after),
        }
    }

    fn is_open(self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

impl Verified {
    pub(super) fn new() -> Verified {
        Verified {
            chains: moka::sync::Cache::new(CHAINS_MAX),
            paths: moka::sync::Cache::new(PATHS_MAX),
        }
    }

    /// The path of this chain, if it was found good and still is at `now`, Unix seconds.
    pub(super) fn path(&self, chain: &Digest, now: i64) -> Option<Issuers> {
        let (_, issuers) = self.chains.get(chain).filter(|(window, _)| window.is_open(now))?;
        Some(issuers)
    }

    /// A path was found, all of which is valid in the window.
    pub(super) fn remember(&self, chain: Digest, window: Window, issuers: Vec<CertificateDer<'static>>) -> Issuers {
        let issuers = self.paths.get_with(Digest::of_all(&issuers), || issuers.into());
        self.chains.insert(chain, (window, Arc::clone(&issuers)));
        issuers
    }
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verified").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(octets: &[u8]) -> CertificateDer<'static> {
        octets.to_vec().into()
    }

    #[test]
    fn a_chain_is_known_while_all_of_it_is_valid() {
        let verified = Verified::new();
        let (leaf, issuer) = (der(&[0x30, 1, 7]), der(&[0x30, 1, 8]));
        let chain = Digest::of(&leaf, std::slice::from_ref(&issuer));
        let long = Window {
            not_before: 10,
            not_after: 100,
        };
        let window = long.and(Window {
            not_before: 20,
            not_after: 200,
        });
        assert!(verified.path(&chain, 50).is_none());
        let issuers = verified.remember(chain, window, vec![issuer.clone()]);
        let known: Vec<i64> = [19, 20, 100, 101]
            .into_iter()
            .filter(|now| verified.path(&chain, *now).is_some())
            .collect();
        assert_eq!(known, [20, 100]);
        for other in [
            Digest::of(&leaf, &[]),
            Digest::of(&issuer, std::slice::from_ref(&leaf)),
            Digest::of(&issuer, &[]),
        ] {
            assert!(verified.path(&other, 50).is_none());
        }
        assert_eq!(*issuers, *std::slice::from_ref(&issuer));
        let other = Digest::of(&der(&[0x30, 1, 9]), &[]);
        let same = verified.remember(other, long, vec![issuer]);
        assert!(Arc::ptr_eq(&issuers, &same), "the CAs are kept once");
    }
}
