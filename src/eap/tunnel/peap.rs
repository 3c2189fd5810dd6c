//! What is said inside PEAP version 0: EAP packets without their header, and the result at the end
//! (draft-kamath-pppext-peapv0-00, 1.1 and 2; [MS-PEAP], 2.2.8 and 3.1.5.6).
//!
//! EAP-Success and EAP-Failure are never sent inside: a Result TLV in a packet of type [`EXTENSIONS`] says it, and the
//! supplicant answers with one. Of the other TLVs the crypto-binding is known.

use super::binding::TLV_OCTETS;
use crate::eap::method::EapType;
use crate::eap::packet::{Code, HEADER_OCTETS, build};

/// EAP Extensions, which many call EAP-TLV.
pub const EXTENSIONS: EapType = EapType(33);

/// Whoever does not know the TLV has to say so.
const MANDATORY: u16 = 0x8000;
const RESULT: u16 = 3;
const CRYPTO_BINDING: u16 = 12;
const SUCCESS: [u8; 2] = [0, 1];
const FAILURE: [u8; 2] = [0, 2];

/// An EAP packet as it is said inside: without Code, Identifier and Length.
pub fn compressed(packet: &[u8]) -> &[u8] {
    packet.get(HEADER_OCTETS..).unwrap_or_default()
}

/// The type and the data of what was said inside, `None` when there is none. Some send a packet with its header, and
/// those of type [`EXTENSIONS`] always have it. It is not taken for a type: that of a request or response of code 1 or 2
/// would be Identity or Notification, whose data no supplicant makes look like the rest of a header.
pub fn inside(code: Code, octets: &[u8]) -> Option<(EapType, &[u8])> {
    let whole = octets.split_first_chunk::<HEADER_OCTETS>();
    let body = match whole {
        Some((&[first, _, high, low], body))
            if first == code.octet()
                && !body.is_empty()
                && usize::from(u16::from_be_bytes([high, low])) == octets.len() =>
        {
            body
        }
        _ => octets,
    };
    let (eap_type, data) = body.split_first()?;
    Some((EapType(*eap_type), data))
}

/// What a packet of type [`EXTENSIONS`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Success or failure.
    pub succeeded: Option<bool>,
    /// The crypto-binding TLV, header included.
    pub binding: Option<[u8; TLV_OCTETS]>,
}

/// Why it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionsError {
    /// A TLV is longer than what is there, or has another length than its type.
    #[error("a tlv of a wrong length")]
    Length,
    /// A Result that is neither success nor failure, or one of two.
    #[error("a result that is neither success nor failure")]
    Result,
    /// A TLV that has to be understood and is not.
    #[error("a mandatory tlv {0} that is not known here")]
    Mandatory(u16),
}

impl Extensions {
    /// Reads the data behind the type.
    ///
    /// # Errors
    /// When it is no sequence of TLVs, contradicts itself, or demands what is not known.
    pub fn parse(data: &[u8]) -> Result<Extensions, ExtensionsError> {
        let mut extensions = Extensions::default();
        let mut rest = data;
        while !rest.is_empty() {
            let (&[k0, k1, l0, l1], behind) = rest.split_first_chunk().ok_or(ExtensionsError::Length)?;
            let length = usize::from(u16::from_be_bytes([l0, l1]));
            let (value, after) = behind.split_at_checked(length).ok_or(ExtensionsError::Length)?;
            let kind = u16::from_be_bytes([k0, k1]);
            // the second bit is reserved
            match kind & 0x3fff {
                RESULT => {
                    let succeeded = match value.try_into() {
                        Ok(SUCCESS) => true,
                        Ok(FAILURE) => false,
                        _ => return Err(ExtensionsError::Result),
                    };
                    if extensions.succeeded.replace(succeeded).is_some() {
                        return Err(ExtensionsError::Result);
                    }
                }
                CRYPTO_BINDING => {
                    let tlv = rest.first_chunk().filter(|_| 4 + length == TLV_OCTETS);
                    extensions.binding = Some(*tlv.ok_or(ExtensionsError::Length)?);
                }
                unknown if kind & MANDATORY != 0 => return Err(ExtensionsError::Mandatory(unknown)),
                _ => {}
            }
            rest = after;
        }
        Ok(extensions)
    }

    /// The packet, which keeps its header inside the tunnel.
    pub fn packet(&self, code: Code, identifier: u8) -> Vec<u8> {
        let mut data = Vec::new();
        if let Some(succeeded) = self.succeeded {
            data.extend((MANDATORY | RESULT).to_be_bytes());
            data.extend([0, 2]);
            data.extend(if succeeded { SUCCESS } else { FAILURE });
        }
        data.extend(self.binding.iter().flatten());
        build(code, identifier, EXTENSIONS, &[&data])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_read_with_and_without_their_header() {
        let packet = build(Code::Response, 7, EapType::TLS, &[&[0x00, 1, 2]]);
        let expected = Some((EapType::TLS, &[0x00, 1, 2][..]));
        assert_eq!(inside(Code::Response, compressed(&packet)), expected);
        assert_eq!(inside(Code::Response, &packet), expected);
        assert_eq!(
            inside(Code::Response, &[1, b'm', b'e']),
            Some((EapType::IDENTITY, &b"me"[..]))
        );
        assert_eq!(inside(Code::Response, &[2]), Some((EapType::NOTIFICATION, &[][..])));
        assert_eq!(inside(Code::Request, &[1]), Some((EapType::IDENTITY, &[][..])));
        assert_eq!(inside(Code::Response, &[]), None);
        // a header whose length is another's is none
        assert_eq!(
            inside(Code::Response, &[2, 7, 0, 9, 13]),
            Some((EapType::NOTIFICATION, &[7, 0, 9, 13][..]))
        );
    }

    #[test]
    fn a_result_is_read_back() {
        let both = Extensions {
            succeeded: Some(true),
            binding: Some(std::array::from_fn(|index| match index {
                1 => 0x0c,
                3 => 0x38,
                _ => 0,
            })),
        };
        let packet = both.packet(Code::Request, 9);
        assert_eq!(packet[..11], [1, 9, 0, 71, 33, 0x80, 3, 0, 2, 0, 1]);
        assert_eq!(Extensions::parse(&packet[5..]), Ok(both));
        let failure = Extensions {
            succeeded: Some(false),
            binding: None,
        };
        let packet = failure.packet(Code::Response, 9);
        assert_eq!(packet, [2, 9, 0, 11, 33, 0x80, 3, 0, 2, 0, 2]);
        assert_eq!(Extensions::parse(&packet[5..]), Ok(failure));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        use ExtensionsError as E;
        for (data, error) in [
            (&[0x80, 3, 0, 2, 0][..], E::Length),
            (&[0x80, 3, 0], E::Length),
            (&[0x80, 3, 0, 1, 1], E::Result),
            (&[0x80, 3, 0, 2, 0, 3], E::Result),
            (&[0x80, 3, 0, 2, 0, 1, 0x80, 3, 0, 2, 0, 2], E::Result),
            (&[0x00, 12, 0, 2, 0, 1], E::Length),
            (&[0x80, 7, 0, 0], E::Mandatory(7)),
        ] {
            assert_eq!(Extensions::parse(data), Err(error), "{data:?}");
        }
        // one that nobody has to understand
        let vendor = [0x00, 7, 0, 1, 9, 0x80, 3, 0, 2, 0, 1];
        assert_eq!(Extensions::parse(&vendor).map(|read| read.succeeded), Ok(Some(true)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn arbitrary_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Extensions::parse(&octets);
            for code in [Code::Request, Code::Response] {
                let inside = inside(code, &octets);
                prop_assert_eq!(inside.is_none(), octets.is_empty());
            }
        }
    }
}
