//! The same shapes with an octet changed, a piece cut out or doubled: whatever becomes of them, nothing panics.

use std::sync::LazyLock;

use portreeve::trust::TrustSet;
use proptest::prelude::*;
use proptest::sample::Index;
use rustls_pki_types::CertificateDer;

use crate::outcome::{outcome_at, set};
use crate::shape::Shape;

/// Shapes, and what each is shown to. The large ones would take the time of all others.
static SETS: LazyLock<Vec<(&Shape, TrustSet)>> = LazyLock::new(|| {
    let is_small = |shape: &&Shape| shape.chain.iter().map(Vec::len).sum::<usize>() < 6_000;
    let small = crate::page::SHAPES.iter().filter(is_small);
    small.map(|shape| (shape, set(shape))).collect()
});

#[derive(Clone, Debug)]
enum Change {
    Octet(Index, u8),
    Cut(Index, Index),
    Double(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, octet)| Change::Octet(at, octet)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Cut(from, to)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Double(from, to)),
    ]
}

fn apply(der: &mut Vec<u8>, change: &Change) {
    if der.is_empty() {
        return;
    }
    let span = |one: &Index, other: &Index, length| {
        let (one, other) = (one.index(length), other.index(length));
        one.min(other)..one.max(other)
    };
    match change {
        Change::Octet(at, octet) => {
            let at = at.index(der.len());
            der[at] = *octet;
        }
        Change::Cut(from, to) => drop(der.drain(span(from, to, der.len()))),
        Change::Double(from, to) => {
            let part = der[span(from, to, der.len())].to_vec();
            der.extend(part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    #[test]
    fn a_mutated_chain_is_accepted_or_refused(
        shape in any::<Index>(),
        which in any::<Index>(),
        changes in proptest::collection::vec(change(), 1..4),
    ) {
        let (shape, set) = shape.get(&SETS);
        let mut chain = shape.chain.clone();
        let der = which.index(chain.len());
        changes.iter().for_each(|change| apply(&mut chain[der], change));
        let chain: Vec<CertificateDer<'static>> = chain.into_iter().map(Into::into).collect();
        outcome_at(set, &chain);
    }
}
