//! Unpredictable octets in small portions: States, challenges, salts.

use std::cell::RefCell;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of one draw, enough for a dozen conversations. A draw costs AWS-LC as much as a MAC authentication's signature,
/// whatever its length.
const DRAW_OCTETS: usize = 512;

/// What was drawn and not used yet. What is used is wiped.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Drawn {
    octets: [u8; DRAW_OCTETS],
    left: usize,
}

thread_local! {
    static DRAWN: RefCell<Drawn> = const {
        RefCell::new(Drawn {
            octets: [0; DRAW_OCTETS],
            left: 0,
        })
    };
}

/// Fills `octets`; no octet is ever given twice.
pub(super) fn random(octets: &mut [u8]) {
    if octets.len() > DRAW_OCTETS {
        return draw(octets);
    }
    DRAWN.with_borrow_mut(|drawn| {
        if drawn.left < octets.len() {
            draw(&mut drawn.octets);
            drawn.left = DRAW_OCTETS;
        }
        let first = DRAW_OCTETS - drawn.left;
        if let Some(given) = drawn.octets.get_mut(first..first + octets.len()) {
            octets.copy_from_slice(given);
            given.zeroize();
        }
        drawn.left -= octets.len();
    });
}

fn draw(octets: &mut [u8]) {
    // AWS-LC ends the process when the system has no randomness, rather than return: there is no error to handle.
    let _ = aws_lc_rs::rand::fill(octets);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nothing_is_given_twice_and_nothing_given_stays() {
        let mut seen = HashSet::new();
        for length in (0..10_000).map(|round| [16, 16, 2, 1, 600][round % 5]) {
            let mut octets = vec![0; length];
            random(&mut octets);
            DRAWN
                .with_borrow(|drawn| assert!(drawn.octets[..DRAW_OCTETS - drawn.left].iter().all(|octet| *octet == 0)));
            if length >= 16 {
                assert!(octets.iter().any(|octet| *octet != 0) && seen.insert(octets));
            }
        }
    }
}
