//! EAP packets: the header, and the Nak's list (RFC 3748, 4 and 5.3).
//!
//! What a type's data means is left to the methods.

use super::method::EapType;

/// Code, Identifier, Length.
pub const HEADER_OCTETS: usize = 4;

/// How many types of a Nak are remembered; supplicants name two or three.
const NAK_TYPES_MAX: usize = 16;

/// The first octet of a packet (RFC 3748, 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// From the server; carries a type.
    Request,
    /// From the supplicant; carries a type.
    Response,
    /// The end, access granted; four octets.
    Success,
    /// The end, access denied; four octets.
    Failure,
}

impl Code {
    /// The octet on the wire.
    pub const fn octet(self) -> u8 {
        match self {
            Code::Request => 1,
            Code::Response => 2,
            Code::Success => 3,
            Code::Failure => 4,
        }
    }
}

/// What is wrong with octets that should be an EAP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer octets than the header, or than Length says ("MUST be silently discarded").
    #[error("an eap packet of {octets} octets that says it has {length}")]
    Short {
        /// Octets there are.
        octets: usize,
        /// Octets there should be.
        length: usize,
    },
    /// A code other than 1 to 4 ("MUST be silently discarded").
    #[error("eap code {0} does not exist")]
    Code(u8),
    /// A request or response without the Type octet.
    #[error("an eap request or response without a type")]
    NoType,
}

/// A view of one packet whose header was checked; octets past Length are padding and were cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EapPacket<'a> {
    /// Request, Response, Success or Failure.
    pub code: Code,
    /// What ties a response to its request.
    pub identifier: u8,
    /// The type of a request or response, `None` in Success and Failure.
    pub eap_type: Option<EapType>,
    /// What follows the type, or the header where there is no type.
    pub data: &'a [u8],
}

impl<'a> EapPacket<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// When the header is cut short, Length exceeds what is there, the code is unknown or the type missing.
    pub fn parse(octets: &'a [u8]) -> Result<EapPacket<'a>, PacketError> {
        let short = |length| PacketError::Short {
            octets: octets.len(),
            length,
        };
        let Some((&[code, identifier, high, low], _)) = octets.split_first_chunk::<HEADER_OCTETS>() else {
            return Err(short(HEADER_OCTETS));
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let body = octets
            .get(HEADER_OCTETS..length)
            .ok_or_else(|| short(length.max(HEADER_OCTETS)))?;
        let code = match code {
            1 => Code::Request,
            2 => Code::Response,
            3 => Code::Success,
            4 => Code::Failure,
            other => return Err(PacketError::Code(other)),
        };
        let (eap_type, data) = match code {
            Code::Request | Code::Response => {
                let (&eap_type, data) = body.split_first().ok_or(PacketError::NoType)?;
                (Some(EapType(eap_type)), data)
            }
            Code::Success | Code::Failure => (None, body),
        };
        Ok(EapPacket {
            code,
            identifier,
            eap_type,
            data,
        })
    }
}

/// A request or response.
///
/// `parts` are joined; their sum is at most 65,530 octets, which the callers' own bounds see to: more is cut off.
pub fn build(code: Code, identifier: u8, eap_type: EapType, parts: &[&[u8]]) -> Vec<u8> {
    let room = usize::from(u16::MAX) - HEADER_OCTETS - 1;
    let data: usize = parts.iter().map(|part| part.len()).sum::<usize>().min(room);
    let length = HEADER_OCTETS + 1 + data;
    let mut packet = Vec::with_capacity(length);
    packet.extend([code.octet(), identifier]);
    packet.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    packet.push(eap_type.0);
    for part in parts {
        let left = length - packet.len();
        packet.extend_from_slice(part.get(..left).unwrap_or(part));
    }
    packet
}

/// Success: four octets, no data (RFC 3748, 4.2).
pub fn success(identifier: u8) -> Vec<u8> {
    vec![Code::Success.octet(), identifier, 0, 4]
}

/// Failure: four octets, no data (RFC 3748, 4.2).
pub fn failure(identifier: u8) -> Vec<u8> {
    vec![Code::Failure.octet(), identifier, 0, 4]
}

/// The types that a Nak asks for instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nak {
    types: Vec<EapType>,
}

impl Nak {
    /// Reads a response's data as a Nak: type 3, or type 254 with vendor 0 and vendor type 3, whose entries of other
    /// vendors count as [`EapType::EXPANDED`]. `None` when it is none, or names nothing: at least one octet MUST
    /// follow, zero for "no alternative" (RFC 3748, 5.3).
    pub fn parse(eap_type: EapType, data: &[u8]) -> Option<Nak> {
        let types = match eap_type {
            EapType::NAK => data.iter().copied().take(NAK_TYPES_MAX).map(EapType).collect(),
            EapType::EXPANDED => {
                let entries = data.strip_prefix(&[0, 0, 0, 0, 0, 0, 3])?;
                entries
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .take(NAK_TYPES_MAX)
                    .map(expanded_type)
                    .collect::<Option<Vec<_>>>()?
            }
            _ => return None,
        };
        (!types.is_empty()).then_some(Nak { types })
    }

    /// Whether it asks for `wanted`.
    pub fn asks_for(&self, wanted: EapType) -> bool {
        self.types.contains(&wanted)
    }

    /// What it asks for, in the supplicant's order; empty when it knows no alternative.
    pub fn types(&self) -> impl Iterator<Item = EapType> + '_ {
        self.types.iter().copied().filter(|eap_type| eap_type.0 != 0)
    }
}

/// Type 254, vendor (3 octets), vendor type (4): types below 256 of vendor 0 are the ordinary ones (RFC 3748, 5.7).
fn expanded_type(entry: &[u8; 8]) -> Option<EapType> {
    match *entry {
        [254, 0, 0, 0, 0, 0, 0, eap_type] => Some(EapType(eap_type)),
        [254, ..] => Some(EapType::EXPANDED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_past_length_are_padding() {
        // RFC 3748, 4: "Octets outside the range of the Length field should be treated as Data Link Layer padding".
        let packet = EapPacket::parse(&[2, 7, 0, 6, 1, b'x', 0, 0, 0]).unwrap();
        assert_eq!(packet.data, b"x");
        assert_eq!(
            (packet.code, packet.identifier, packet.eap_type),
            (Code::Response, 7, Some(EapType::IDENTITY))
        );
    }

    #[test]
    fn length_beyond_the_octets_is_an_error() {
        assert_eq!(
            EapPacket::parse(&[2, 7, 0, 7, 1, b'x']),
            Err(PacketError::Short { octets: 6, length: 7 })
        );
        assert_eq!(
            EapPacket::parse(&[2, 7, 0]),
            Err(PacketError::Short { octets: 3, length: 4 })
        );
        assert_eq!(
            EapPacket::parse(&[2, 7, 0, 3, 1]),
            Err(PacketError::Short { octets: 5, length: 4 })
        );
        assert_eq!(EapPacket::parse(&[2, 7, 0, 4, 1]), Err(PacketError::NoType));
        assert_eq!(EapPacket::parse(&[5, 7, 0, 5, 1]), Err(PacketError::Code(5)));
        assert_eq!(EapPacket::parse(&[]), Err(PacketError::Short { octets: 0, length: 4 }));
    }

    #[test]
    fn what_is_built_is_read_back() {
        let packet = build(Code::Request, 9, EapType::TLS, &[&[0x20], b"ab"]);
        assert_eq!(packet, [1, 9, 0, 8, 13, 0x20, b'a', b'b']);
        assert_eq!(EapPacket::parse(&packet).unwrap().data, [0x20, b'a', b'b']);
        assert_eq!(success(3), [3, 3, 0, 4]);
        assert_eq!(failure(3), [4, 3, 0, 4]);
    }

    #[test]
    fn what_no_packet_holds_is_cut_off() {
        let (first, second) = (vec![1; 40_000], vec![2; 40_000]);
        let packet = build(Code::Request, 9, EapType::TLS, &[&first, &second, &[3]]);
        assert_eq!((packet.len(), packet.last()), (65_535, Some(&2)));
        assert_eq!(EapPacket::parse(&packet).unwrap().data.len(), 65_530);
    }

    #[test]
    fn a_nak_is_read_in_both_forms() {
        let legacy = Nak::parse(EapType::NAK, &[25, 13]).unwrap();
        assert!(legacy.asks_for(EapType::TLS) && legacy.asks_for(EapType::PEAP) && !legacy.asks_for(EapType::MD5));
        // The example of RFC 3748, 5.3.2: OTP, and MIT's type 6.
        let expanded = [0, 0, 0, 0, 0, 0, 3, 254, 0, 0, 0, 0, 0, 0, 5, 254, 0, 0, 20, 0, 0, 0, 6];
        let expanded = Nak::parse(EapType::EXPANDED, &expanded).unwrap();
        assert_eq!(expanded.types().collect::<Vec<_>>(), [EapType(5), EapType::EXPANDED]);
    }

    #[test]
    fn zero_means_no_alternative_and_nothing_is_no_nak() {
        assert_eq!(Nak::parse(EapType::NAK, &[0]).unwrap().types().count(), 0);
        assert_eq!(Nak::parse(EapType::NAK, &[]), None);
        assert_eq!(Nak::parse(EapType::EXPANDED, &[0, 0, 0, 0, 0, 0, 3]), None);
        assert_eq!(
            Nak::parse(EapType::EXPANDED, &[0, 0, 9, 0, 0, 0, 3, 254, 0, 0, 0, 0, 0, 0, 13]),
            None
        );
        assert_eq!(Nak::parse(EapType::TLS, &[13]), None);
    }
}
