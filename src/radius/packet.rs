//! A received packet: borrowed from the datagram, its header and attribute lengths checked once (RFC 2865 sections 3 and 5).
//!
//! What is checked here makes a packet well formed; nothing in it has been authenticated (`crypto`) and no attribute
//! has been looked into (`attribute`).

use std::borrow::Cow;
use std::fmt;

use super::code::Code;

/// Octets of the header: code, identifier, length, authenticator.
pub const HEADER_OCTETS: usize = 20;

/// The longest packet, header included.
pub const MAX_PACKET_OCTETS: usize = 4096;

/// The longest value of one attribute.
pub const MAX_VALUE_OCTETS: usize = 253;

/// Attributes of lower numbers are found without a walk: a request is asked for them some forty times.
const INDEXED: usize = 96;

/// Numbers of the attributes that the protocol itself is made of.
pub mod number {
    #![expect(missing_docs, reason = "the names are the RFCs'")]
    pub const USER_NAME: u8 = 1;
    pub const USER_PASSWORD: u8 = 2;
    pub const CHAP_PASSWORD: u8 = 3;
    pub const NAS_IP_ADDRESS: u8 = 4;
    pub const NAS_PORT: u8 = 5;
    pub const SERVICE_TYPE: u8 = 6;
    pub const FRAMED_MTU: u8 = 12;
    pub const REPLY_MESSAGE: u8 = 18;
    pub const STATE: u8 = 24;
    pub const VENDOR_SPECIFIC: u8 = 26;
    pub const CALLED_STATION_ID: u8 = 30;
    pub const CALLING_STATION_ID: u8 = 31;
    pub const NAS_IDENTIFIER: u8 = 32;
    pub const PROXY_STATE: u8 = 33;
    pub const CHAP_CHALLENGE: u8 = 60;
    pub const NAS_PORT_TYPE: u8 = 61;
    pub const EAP_MESSAGE: u8 = 79;
    pub const MESSAGE_AUTHENTICATOR: u8 = 80;
    pub const NAS_PORT_ID: u8 = 87;
}

/// A well-formed packet.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_OCTETS],
    octets: &'a [u8],
    /// Where the first attribute of a number begins; 0 where there is none.
    first: [u16; INDEXED],
    /// The numbers of which there are several, a bit for each.
    several: u128,
}

/// Why a datagram is no RADIUS packet. RFC 2865 section 3: such packets are silently discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer octets than a header has.
    #[error("{0} octets are no RADIUS packet: a header alone has 20")]
    Short(usize),
    /// The Length field is outside 20 to 4,096.
    #[error("the packet's Length field says {0}: 20 to 4096 are allowed")]
    Length(u16),
    /// The datagram is shorter than the Length field says.
    #[error("the packet's Length field says {length}, and only {received} octets arrived")]
    Truncated {
        /// The field.
        length: u16,
        /// Octets of the datagram.
        received: usize,
    },
    /// An attribute's length is below 2 or runs over the end of the packet.
    #[error("the attribute at octet {offset} is longer than the packet, or shorter than its own header")]
    Attribute {
        /// Where it begins, counted from the packet's first octet.
        offset: usize,
    },
}

/// One attribute as it stands in the packet. Its value is not decoded and may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAttribute<'a> {
    /// The type octet.
    pub number: u8,
    /// 0 to 253 octets.
    pub value: &'a [u8],
    /// Where the attribute (its type octet) begins, counted from the packet's first octet.
    pub offset: usize,
}

/// Iterates over attributes in the packet's order.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Packet<'a> {
    /// Checks header and attribute lengths.
    ///
    /// RFC 2865 section 3: octets outside the range of the Length field are padding and ignored; a datagram shorter than
    /// the Length field, or a Length outside 20 to 4,096, is an error. Section 5: an attribute whose length runs over the
    /// packet is an error too.
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, PacketError> {
        let Some(header) = datagram.first_chunk::<HEADER_OCTETS>() else {
            return Err(PacketError::Short(datagram.len()));
        };
        let length = u16::from_be_bytes([header[2], header[3]]);
        if !(HEADER_OCTETS..=MAX_PACKET_OCTETS).contains(&usize::from(length)) {
            return Err(PacketError::Length(length));
        }
        let Some(octets) = datagram.get(..usize::from(length)) else {
            return Err(PacketError::Truncated {
                length,
                received: datagram.len(),
            });
        };
        let mut packet = Packet {
            header,
            octets,
            first: [0; INDEXED],
            several: 0,
        };
        let mut attributes = packet.attributes();
        for attribute in &mut attributes {
            match packet.first.get_mut(usize::from(attribute.number)) {
                Some(first @ 0) => *first = attribute.offset as u16,
                Some(_) => packet.several |= 1 << attribute.number,
                None => {}
            }
        }
        if !attributes.rest.is_empty() {
            return Err(PacketError::Attribute {
                offset: attributes.offset,
            });
        }
        Ok(packet)
    }

    /// What the packet is.
    pub fn code(&self) -> Code {
        Code::from(self.header[0])
    }

    /// The octet that matches a reply to its request.
    pub fn identifier(&self) -> u8 {
        self.header[1]
    }

    /// The request or response authenticator, whichever the code says it is.
    pub fn authenticator(&self) -> &'a [u8; 16] {
        // The header is an array, so this never falls back.
        self.header.last_chunk().unwrap_or(&[0; 16])
    }

    /// The whole packet, without padding.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.octets
    }

    /// All attributes, in order.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes {
            rest: self.octets.get(HEADER_OCTETS..).unwrap_or_default(),
            offset: HEADER_OCTETS,
        }
    }

    /// The value of the first attribute of that number.
    pub fn first(&self, number: u8) -> Option<&'a [u8]> {
        self.all(number).next()
    }

    /// The values of all attributes of that number, in order.
    pub fn all(&self, number: u8) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.all_raw(number).map(|attribute| attribute.value)
    }

    /// All attributes of that number, in order.
    pub fn all_raw(&self, number: u8) -> impl Iterator<Item = RawAttribute<'a>> + use<'a> {
        self.part_with(number)
            .filter(move |attribute| attribute.number == number)
    }

    /// A part of the packet that has all attributes of that number: the attribute itself, where there is one.
    fn part_with(&self, number: u8) -> Attributes<'a> {
        let Some(offset) = self.first.get(usize::from(number)).copied().map(usize::from) else {
            return self.attributes();
        };
        let rest = match offset {
            0 => &[],
            offset => self.octets.get(offset..).unwrap_or_default(),
        };
        let length = match rest {
            [_, length, ..] if self.several & (1 << number) == 0 => usize::from(*length),
            _ => rest.len(),
        };
        Attributes {
            rest: rest.get(..length).unwrap_or_default(),
            offset,
        }
    }

    /// The EAP packet that the EAP-Message attributes make up, joined in their order (RFC 3579 section 3.1). `None` when
    /// there is none, `Some` of nothing for EAP-Start (an EAP-Message without data, section 2.1).
    pub fn eap_message(&self) -> Option<Cow<'a, [u8]>> {
        let mut fragments = self.all(number::EAP_MESSAGE);
        let mut message = Cow::Borrowed(fragments.next()?);
        for fragment in fragments {
            message.to_mut().extend_from_slice(fragment);
        }
        Some(message)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = RawAttribute<'a>;

    fn next(&mut self) -> Option<RawAttribute<'a>> {
        let &[number, length] = self.rest.first_chunk::<2>()?;
        let (whole, rest) = self.rest.split_at_checked(length.into())?;
        let attribute = RawAttribute {
            number,
            value: whole.get(2..)?,
            offset: self.offset,
        };
        self.rest = rest;
        self.offset += whole.len();
        Some(attribute)
    }
}

impl fmt::Debug for Packet<'_> {
    /// Without values: they hold passwords and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<u8> = self.attributes().map(|attribute| attribute.number).collect();
        f.debug_struct("Packet")
            .field("code", &self.code())
            .field("identifier", &self.identifier())
            .field("octets", &self.octets.len())
            .field("attributes", &numbers)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(length: u16, attributes: &[u8]) -> Vec<u8> {
        let mut octets = vec![1, 7];
        octets.extend(length.to_be_bytes());
        octets.extend(100..116);
        octets.extend(attributes);
        octets
    }

    #[test]
    fn the_header_is_read() {
        let octets = packet(25, &[1, 5, b'b', b'o', b'b']);
        let packet = Packet::parse(&octets).unwrap();
        assert_eq!(packet.code(), Code::AccessRequest);
        assert_eq!(packet.identifier(), 7);
        assert_eq!(packet.authenticator()[..2], [100, 101]);
        assert_eq!(packet.first(number::USER_NAME), Some(&b"bob"[..]));
        assert_eq!(packet.first(number::STATE), None);
    }

    #[test]
    fn octets_past_length_are_padding() {
        // RFC 2865 section 3: "Octets outside the range of the Length field MUST be treated as padding and ignored"
        let octets = packet(25, &[1, 5, b'b', b'o', b'b', 1, 200, 0]);
        let packet = Packet::parse(&octets).unwrap();
        assert_eq!(packet.as_bytes().len(), 25);
        assert_eq!(packet.attributes().count(), 1);
    }

    #[test]
    fn lengths_outside_the_allowed_are_refused() {
        // section 3: "If the packet is shorter than the Length field indicates, it MUST be silently discarded"
        assert_eq!(
            Packet::parse(&packet(22, &[])).unwrap_err(),
            PacketError::Truncated {
                length: 22,
                received: 20
            }
        );
        assert_eq!(Packet::parse(&packet(19, &[])).unwrap_err(), PacketError::Length(19));
        assert_eq!(
            Packet::parse(&packet(4097, &[0; 4077])).unwrap_err(),
            PacketError::Length(4097)
        );
        assert_eq!(
            Packet::parse(&packet(20, &[])[..19]).unwrap_err(),
            PacketError::Short(19)
        );
        assert_eq!(Packet::parse(&[]).unwrap_err(), PacketError::Short(0));
        assert!(Packet::parse(&packet(20, &[])).is_ok());
        let longest: Vec<u8> = [2, 2].into_iter().cycle().take(4076).collect();
        assert!(Packet::parse(&packet(4096, &longest)).is_ok());
    }

    #[test]
    fn attributes_that_overrun_are_refused() {
        for attributes in [&[1, 0][..], &[1, 1], &[1], &[1, 3], &[1, 3, 0, 24]] {
            let octets = packet(20 + attributes.len() as u16, attributes);
            let error = Packet::parse(&octets).unwrap_err();
            assert!(
                matches!(error, PacketError::Attribute { .. }),
                "{attributes:?}: {error}"
            );
        }
        assert_eq!(
            Packet::parse(&packet(24, &[1, 3, 0, 24])).unwrap_err(),
            PacketError::Attribute { offset: 23 }
        );
    }

    #[test]
    fn eap_messages_are_joined_in_order() {
        let octets = packet(20 + 12, &[79, 4, 1, 2, 24, 3, 9, 79, 5, 3, 4, 5]);
        let packet = Packet::parse(&octets).unwrap();
        assert_eq!(packet.eap_message().as_deref(), Some(&[1, 2, 3, 4, 5][..]));
    }

    #[test]
    fn eap_start_is_an_empty_message_not_none() {
        let octets = packet(22, &[79, 2]);
        assert_eq!(Packet::parse(&octets).unwrap().eap_message().as_deref(), Some(&[][..]));
        let octets = packet(20, &[]);
        assert_eq!(Packet::parse(&octets).unwrap().eap_message(), None);
    }

    proptest! {
        #[test]
        fn no_octets_break_the_parser(octets in proptest::collection::vec(any::<u8>(), 0..300), length in 0u16..300) {
            let mut octets = octets;
            let _ = Packet::parse(&octets);
            if let Some(field) = octets.get_mut(2..4) {
                field.copy_from_slice(&length.to_be_bytes());
            }
            if let Ok(packet) = Packet::parse(&octets) {
                let walked: usize = packet.attributes().map(|attribute| attribute.value.len() + 2).sum();
                prop_assert_eq!(walked + HEADER_OCTETS, packet.as_bytes().len());
                let _ = packet.eap_message();
                for number in 0..=255 {
                    let walked = packet.attributes().filter(|attribute| attribute.number == number);
                    prop_assert!(walked.eq(packet.all_raw(number)));
                }
            }
        }
    }
}
