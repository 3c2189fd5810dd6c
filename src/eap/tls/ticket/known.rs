//! Certificates that this node has seen in finished handshakes, so that a ticket can name them instead of carrying them.
//!
//! Supplicants send their intermediates along, the same ones all day; and a leaf of RSA 4096 alone is more than a fragment.
//! A node that does not know the name, since it has just started or another node made the ticket, makes a full handshake, and
//! knows it from then on. Client CAs need no names: the dictionary has them, on every node.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest;
use rustls_pki_types::CertificateDer;

use super::chain::CHAIN_OCTETS_MAX;

/// Octets of certificates that are known, some thousand of them. Too few: full handshakes where certificates are large; too
/// many: only memory.
const KNOWN_OCTETS_MAX: usize = 2 << 20;

/// A name: the first octets of the SHA-256 hash.
const NAME_OCTETS: usize = 16;
/// In place of a length: a name follows.
const NAMED: u8 = 0x80;

type Name = [u8; NAME_OCTETS];

/// The certificates; the oldest go first when there are too many.
#[derive(Default)]
pub(super) struct Known(Mutex<State>);

#[derive(Default)]
struct State {
    by_name: HashMap<Name, Box<[u8]>>,
    order: VecDeque<Name>,
    octets: usize,
}

impl Known {
    /// Writes a chain: each certificate behind its length in three octets, those for which `is_named` holds by name.
    pub(super) fn shorten(
        &self,
        chain: &[CertificateDer<'_>],
        is_named: impl Fn(usize, &CertificateDer<'_>) -> bool,
    ) -> Vec<u8> {
        let mut octets = Vec::new();
        for (at, der) in chain.iter().enumerate() {
            if is_named(at, der) {
                octets.push(NAMED);
                octets.extend(self.remember(der));
            } else {
                super::chain::write(der, &mut octets);
            }
        }
        octets
    }

    /// The chain as [`super::chain::encode`] writes it; `None` where a name is not known, or it is no chain.
    pub(super) fn expand(&self, mut short: &[u8]) -> Option<Vec<u8>> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut octets = Vec::with_capacity(short.len());
        while let Some((&first, after)) = short.split_first() {
            if first == NAMED {
                let (name, rest) = after.split_first_chunk::<NAME_OCTETS>()?;
                super::chain::write(state.by_name.get(name)?, &mut octets);
                short = rest;
            } else {
                let (der, rest) = super::chain::read(short)?;
                super::chain::write(der, &mut octets);
                short = rest;
            }
            if octets.len() > CHAIN_OCTETS_MAX {
                return None;
            }
        }
        Some(octets)
    }

    fn remember(&self, der: &[u8]) -> Name {
        let name = name(der);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.by_name.contains_key(&name) {
            state.octets += der.len();
            state.by_name.insert(name, der.into());
            state.order.push_back(name);
            while state.octets > KNOWN_OCTETS_MAX
                && let Some(oldest) = state.order.pop_front()
            {
                let gone = state.by_name.remove(&oldest).map_or(0, |der| der.len());
                state.octets = state.octets.saturating_sub(gone);
            }
        }
        name
    }
}

fn name(der: &[u8]) -> Name {
    let hash = digest::digest(&digest::SHA256, der);
    *hash.as_ref().first_chunk().unwrap_or(&[0; NAME_OCTETS])
}

#[cfg(test)]
mod tests {
    use super::super::chain;
    use super::*;

    fn der(octet: u8, length: usize) -> CertificateDer<'static> {
        vec![octet; length].into()
    }

    #[test]
    fn what_is_named_comes_back_where_it_is_known() {
        let (here, there) = (Known::default(), Known::default());
        let chain = [der(1, 300), der(2, 700), der(3, 700)];
        let short = here.shorten(&chain, |at, _| at > 0);
        assert_eq!(short.len(), 3 + 300 + 2 * (1 + NAME_OCTETS));
        assert_eq!(here.expand(&short), Some(chain::encode(&chain)));
        assert_eq!(there.expand(&short), None);
        assert_eq!(there.shorten(&chain, |_, _| false), chain::encode(&chain));
        for broken in [&[NAMED][..], &[NAMED, 1, 2], &[0, 0, 5, 1], &[0, 1]] {
            assert_eq!(here.expand(broken), None);
        }
    }

    #[test]
    fn what_is_known_is_bounded() {
        let known = Known::default();
        let first = known.shorten(&[der(0, 1_000)], |_, _| true);
        for number in 0..(KNOWN_OCTETS_MAX / 1_000 + 2) as u32 {
            let mut octets = vec![9; 1_000];
            octets[..4].copy_from_slice(&number.to_be_bytes());
            known.shorten(&[octets.into()], |_, _| true);
        }
        assert!(known.0.lock().unwrap().octets <= KNOWN_OCTETS_MAX);
        assert_eq!(known.expand(&first), None);
        // a chain that only grows by being written out is bounded too
        let large = known.shorten(&[der(7, 9_000)], |_, _| true);
        assert!(known.expand(&large).is_some());
        assert_eq!(known.expand(&large.repeat(2)), None);
    }
}
