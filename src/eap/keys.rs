//! The Master Session Key and how it is cut (RFC 5216, 2.3; RFC 9190, 2.3; RFC 2548, 2.4).

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of an MSK: the first half of the exported key material.
pub const MSK_OCTETS: usize = 64;

/// What the two ends of a finished conversation share; 64 octets, wiped when dropped, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Msk([u8; MSK_OCTETS]);

impl Msk {
    /// Wraps 64 octets of key material.
    pub fn new(octets: [u8; MSK_OCTETS]) -> Self {
        Self(octets)
    }

    /// Peer to authenticator, what RADIUS calls MS-MPPE-Recv-Key and 802.11 the PMK: the first 32 octets.
    pub fn recv_key(&self) -> &[u8; 32] {
        self.0.first_chunk().unwrap_or(&[0; 32])
    }

    /// Authenticator to peer, what RADIUS calls MS-MPPE-Send-Key: the last 32 octets.
    pub fn send_key(&self) -> &[u8; 32] {
        self.0.last_chunk().unwrap_or(&[0; 32])
    }

    /// All of it.
    pub fn as_bytes(&self) -> &[u8; MSK_OCTETS] {
        &self.0
    }
}

impl PartialEq for Msk {
    fn eq(&self, other: &Self) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for Msk {}

impl fmt::Debug for Msk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Msk(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_in_the_order_of_rfc_5216() {
        let mut octets = [0; MSK_OCTETS];
        for (index, octet) in octets.iter_mut().enumerate() {
            *octet = index as u8;
        }
        let msk = Msk::new(octets);
        assert_eq!(msk.recv_key()[..2], [0, 1]);
        assert_eq!(msk.send_key()[..2], [32, 33]);
        assert_eq!(format!("{msk:?}"), "Msk(redacted)");
    }
}
