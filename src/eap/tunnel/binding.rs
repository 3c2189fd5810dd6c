//! The crypto-binding of PEAP: proof that who holds the tunnel's keys also holds those of the EAP-TLS inside
//! ([MS-PEAP], 3.1.5.5; draft-josefsson-pppext-eap-tls-eap-10, 4.5). Without it somebody in between could pass off the
//! EAP-TLS of a device that speaks to him, without a tunnel, as his own (RFC 5281, 14.1.11).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::eap::keys::{MSK_OCTETS, Msk};
use crate::eap::method::EapType;

/// Octets of the TLV, its header included.
pub const TLV_OCTETS: usize = 60;
/// Octets of a nonce.
pub const NONCE_OCTETS: usize = 32;
/// What the TLV begins with: type 12, which nobody has to understand, and 56 octets of value.
const HEADER: [u8; 4] = [0x00, 0x0c, 0x00, 0x38];
/// Octets of SHA-1.
const MAC_OCTETS: usize = 20;
const IPMK_OCTETS: usize = 40;
/// Octets of the Tunnel Key.
const TUNNEL_KEY_OCTETS: usize = IPMK_OCTETS + MAC_OCTETS;
/// Octets of the Inner Session Key.
const INNER_KEY_OCTETS: usize = 32;

/// Who says it: SubType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The server's request.
    Request = 0,
    /// The supplicant's response.
    Response = 1,
}

/// The Intermediate PEAP MAC Key and the Compound MAC Key; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct BindingKeys {
    ipmk: [u8; IPMK_OCTETS],
    cmk: [u8; MAC_OCTETS],
}

impl BindingKeys {
    /// Of a full authentication: the keys of the outer handshake and those of the inner EAP-TLS.
    pub fn new(outer: &Msk, inner: &Msk) -> BindingKeys {
        let (temporary, _) = outer.as_bytes().split_at(IPMK_OCTETS);
        let inner = inner.as_bytes().first_chunk::<INNER_KEY_OCTETS>();
        let seed: [&[u8]; 2] = [
            b"Inner Methods Compound Keys",
            inner.map_or(&[], |inner| inner.as_slice()),
        ];
        let mut both = Zeroizing::new([0; TUNNEL_KEY_OCTETS]);
        prf(temporary, seed, both.as_mut());
        BindingKeys::split(&both)
    }

    /// Of a resumption, where nothing runs inside: the Tunnel Key itself.
    pub fn of_resumption(outer: &Msk) -> BindingKeys {
        let key = outer.as_bytes().first_chunk().unwrap_or(&[0; TUNNEL_KEY_OCTETS]);
        BindingKeys::split(key)
    }

    fn split(both: &[u8; TUNNEL_KEY_OCTETS]) -> BindingKeys {
        BindingKeys {
            ipmk: *both.first_chunk().unwrap_or(&[0; IPMK_OCTETS]),
            cmk: *both.last_chunk().unwrap_or(&[0; MAC_OCTETS]),
        }
    }

    /// The TLV that one side sends.
    pub fn tlv(&self, side: Side, nonce: &[u8; NONCE_OCTETS]) -> [u8; TLV_OCTETS] {
        let mut tlv = [0; TLV_OCTETS];
        // Reserved, Version, RecvVersion, SubType
        let kind = [0, 0, 0, side as u8];
        let parts = HEADER.iter().chain(&kind).chain(nonce);
        for (place, octet) in tlv.iter_mut().zip(parts) {
            *place = *octet;
        }
        let mac = self.mac(&tlv);
        for (place, octet) in tlv.iter_mut().rev().zip(mac.as_ref().iter().rev()) {
            *place = *octet;
        }
        tlv
    }

    /// The nonce of a TLV, if it is the one that this side would have sent with it.
    pub fn verify(&self, side: Side, tlv: &[u8; TLV_OCTETS]) -> Option<[u8; NONCE_OCTETS]> {
        let (_, behind) = tlv.split_first_chunk::<8>()?;
        let nonce = behind.first_chunk::<NONCE_OCTETS>()?;
        let expected = self.tlv(side, nonce);
        verify_slices_are_equal(&expected, tlv).ok()?;
        Some(*nonce)
    }

    /// "The Compound_MAC field ... zeroed out", and the type of the tunnel's method behind.
    fn mac(&self, tlv: &[u8; TLV_OCTETS]) -> hmac::Tag {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.cmk);
        let mut context = hmac::Context::with_key(&key);
        let (data, _) = tlv.split_at(TLV_OCTETS - MAC_OCTETS);
        context.update(data);
        context.update(&[0; MAC_OCTETS]);
        context.update(&[EapType::PEAP.0]);
        context.sign()
    }

    /// The first half of the Compound Session Key, which takes the place of the outer handshake's MSK.
    pub fn msk(&self) -> Msk {
        let mut msk = Zeroizing::new([0; MSK_OCTETS]);
        // "the ASCII values for the string ... appended with a NULL(0x00) byte"
        prf(&self.ipmk, [b"Session Key Generating Function", &[0]], msk.as_mut());
        Msk::new(*msk)
    }
}

/// PRF+ of PEAP version 0: T1 is HMAC-SHA1 over the seed and 01 00 00, each further Tn over the one before, the seed, n
/// and 00 00.
fn prf(key: &[u8], seed: [&[u8]; 2], output: &mut [u8]) {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    let mut before: Option<hmac::Tag> = None;
    for (part, counter) in output.chunks_mut(MAC_OCTETS).zip(1_u8..) {
        let mut context = hmac::Context::with_key(&key);
        context.update(before.as_ref().map_or(&[], |tag| tag.as_ref()));
        seed.iter().for_each(|piece| context.update(piece));
        context.update(&[counter, 0, 0]);
        let tag = context.sign();
        for (place, octet) in part.iter_mut().zip(tag.as_ref()) {
            *place = *octet;
        }
        before = Some(tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// Computed with Python's `hmac` from the formulas of [MS-PEAP].
    #[test]
    fn keys_are_those_of_the_formulas() {
        let outer = Msk::new(std::array::from_fn(|index| index as u8));
        let inner = Msk::new(std::array::from_fn(|index| 0xff - index as u8));
        let keys = BindingKeys::new(&outer, &inner);
        assert_eq!(
            hex(&keys.ipmk),
            "1b167266a58f2f7e1e3948b77e3335025764aaf02c58c7bf7231b7277d41380bd25370a51eb4dd8e"
        );
        assert_eq!(hex(&keys.cmk), "bacf0256697549a35498a86a86431adbde225f77");
        assert_eq!(
            hex(keys.msk().as_bytes()),
            "12148492a52b7fb88ae7d234345b3622d385be8d7d071a622b451fbebd888ef759a3b3eed142caddfd4e78907a59b59b62e153e44a0359e40326e81d1cb806f2"
        );
        let tlv = keys.tlv(Side::Request, &[0xab; NONCE_OCTETS]);
        assert_eq!(hex(&tlv[..8]), "000c003800000000");
        assert_eq!(hex(&tlv[40..]), "1ad16489692830cd67142c6ac935ce89178dd341");
        let resumed = BindingKeys::of_resumption(&outer);
        assert_eq!((resumed.ipmk[39], resumed.cmk[0], resumed.cmk[19]), (39, 40, 59));
    }

    #[test]
    fn only_the_other_side_with_the_same_keys_is_believed() {
        let (one, other) = (Msk::new([1; MSK_OCTETS]), Msk::new([2; MSK_OCTETS]));
        let keys = BindingKeys::new(&one, &other);
        let mut tlv = keys.tlv(Side::Response, &[7; NONCE_OCTETS]);
        assert_eq!(keys.verify(Side::Response, &tlv), Some([7; NONCE_OCTETS]));
        assert_eq!(keys.verify(Side::Request, &tlv), None);
        assert_eq!(BindingKeys::new(&one, &one).verify(Side::Response, &tlv), None);
        assert_eq!(BindingKeys::of_resumption(&one).verify(Side::Response, &tlv), None);
        for octet in 0..TLV_OCTETS {
            tlv[octet] ^= 1;
            assert_eq!(keys.verify(Side::Response, &tlv), None, "{octet}");
            tlv[octet] ^= 1;
        }
    }
}
