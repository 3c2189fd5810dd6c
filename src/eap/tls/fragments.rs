//! A TLS message cut into EAP packets, and put together again (RFC 5216, 2.1.5; RFC 9190, 2.1.9).
//!
//! Both ends use it. The acknowledgements between the fragments are the callers' business.

use std::borrow::Cow;

use super::flags::{LENGTH, MORE, TlsData};
use crate::eap::method::EapType;
use crate::eap::packet::{self, Code, HEADER_OCTETS};

/// The longest message that is put together: "a reasonable choice of maximum acceptable message length might be 64 KB".
pub const MESSAGE_OCTETS_MAX: usize = 64 * 1024;
/// The smallest EAP packet that a message is cut into.
pub const FRAGMENT_OCTETS_MIN: usize = 64;
/// The largest: an EAP packet has to leave room in a RADIUS packet of 4,096 octets.
pub const FRAGMENT_OCTETS_MAX: usize = 4000;

/// How many fragments of a message may be empty. Some supplicants begin with one that has the length alone.
const EMPTY_FRAGMENTS_MAX: u16 = 4;

/// EAP header, Type, Flags.
const OVERHEAD_OCTETS: usize = HEADER_OCTETS + 2;
/// TLS Message Length.
const LENGTH_OCTETS: usize = 4;

/// Why fragments could not be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// More than [`MESSAGE_OCTETS_MAX`], announced or sent.
    #[error("a tls message of {0} octets")]
    TooLong(usize),
    /// Not what TLS Message Length said.
    #[error("a tls message announced with {announced} octets has {octets}")]
    Length {
        /// What the first fragment said.
        announced: usize,
        /// What came.
        octets: usize,
    },
    /// "More fragments", and again no data.
    #[error("nothing but empty fragments")]
    Empty,
}

/// Fragments that arrive.
#[derive(Debug, Default)]
pub struct Incoming {
    message: Vec<u8>,
    announced: Option<usize>,
    fragments: u16,
    empty: u16,
}

/// What a fragment led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// Acknowledge it, more will follow.
    More,
    /// The whole message.
    Complete(Cow<'a, [u8]>),
}

impl Incoming {
    /// Takes the next fragment. A length is taken from the first that has one, and one that contradicts it ignored:
    /// only the first fragment has to have it, and it is accepted anywhere.
    ///
    /// # Errors
    /// When the message is longer than the bound, its length not the announced one, or too many fragments empty.
    pub fn push<'a>(&mut self, fragment: TlsData<'a>) -> Result<Received<'a>, FragmentError> {
        if let (None, Some(announced)) = (self.announced, fragment.announced) {
            self.announced = Some(usize::try_from(announced).unwrap_or(usize::MAX));
        }
        let octets = self.message.len() + fragment.data.len();
        let longest = self.announced.unwrap_or(0).max(octets);
        if longest > MESSAGE_OCTETS_MAX {
            return Err(FragmentError::TooLong(longest));
        }
        if let Some(announced) = self.announced
            && (octets > announced || (octets < announced && !fragment.more()))
        {
            return Err(FragmentError::Length { announced, octets });
        }
        if fragment.more() {
            self.empty += u16::from(fragment.data.is_empty());
            if self.empty > EMPTY_FRAGMENTS_MAX {
                return Err(FragmentError::Empty);
            }
            self.message.extend_from_slice(fragment.data);
            self.fragments = self.fragments.saturating_add(1);
            return Ok(Received::More);
        }
        (self.announced, self.empty) = (None, 0);
        if self.fragments == 0 {
            return Ok(Received::Complete(Cow::Borrowed(fragment.data)));
        }
        self.fragments = 0;
        let mut message = std::mem::take(&mut self.message);
        message.extend_from_slice(fragment.data);
        Ok(Received::Complete(Cow::Owned(message)))
    }

    /// Fragments of an unfinished message, and their octets; `None` between messages.
    pub fn pending(&self) -> Option<(u16, usize)> {
        (self.fragments > 0).then_some((self.fragments, self.message.len()))
    }
}

/// A message that is being sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    message: Vec<u8>,
    /// Octets of the message that have left.
    sent: usize,
    /// Octets of the largest EAP packet.
    packet_octets: usize,
    fragments_sent: u16,
}

impl Outgoing {
    /// Begins to send `message` in EAP packets of at most `packet_octets`, which is taken into the bounds of
    /// [`FRAGMENT_OCTETS_MIN`] and [`FRAGMENT_OCTETS_MAX`].
    pub fn new(message: Vec<u8>, packet_octets: usize) -> Outgoing {
        let packet_octets = packet_octets.clamp(FRAGMENT_OCTETS_MIN, FRAGMENT_OCTETS_MAX);
        Outgoing {
            message,
            sent: 0,
            packet_octets,
            fragments_sent: 0,
        }
    }

    /// Whether something is left to send.
    pub fn is_pending(&self) -> bool {
        self.sent < self.message.len()
    }

    /// The fragments that have left, and how many there are. Both zero before the first message.
    pub fn count(&self) -> (u16, u16) {
        (self.fragments_sent, self.fragments_sent + self.fragments_left())
    }

    fn fragments_left(&self) -> u16 {
        let left = self.message.len() - self.sent;
        let fragments = match left {
            0 => 0,
            _ if self.sent > 0 || left <= self.room() => left.div_ceil(self.room()),
            _ => 1 + (left + LENGTH_OCTETS - self.room()).div_ceil(self.room()),
        };
        u16::try_from(fragments).unwrap_or(u16::MAX)
    }

    fn room(&self) -> usize {
        self.packet_octets.max(FRAGMENT_OCTETS_MIN) - OVERHEAD_OCTETS
    }

    /// The next packet, of `eap_type`: TLS Message Length in the first of several only ("Implementations MUST NOT set the L bit in
    /// unfragmented messages"), M in all but the last. An empty one, an acknowledgement, when nothing is left.
    pub fn packet(&mut self, code: Code, identifier: u8, eap_type: EapType) -> Vec<u8> {
        let left = self.message.get(self.sent..).unwrap_or_default();
        let first_of_several = self.sent == 0 && left.len() > self.room();
        let room = if first_of_several {
            self.room() - LENGTH_OCTETS
        } else {
            self.room()
        };
        let (data, rest) = left.split_at(room.min(left.len()));
        let mut flags = if rest.is_empty() { 0 } else { MORE };
        let packet = if first_of_several {
            flags |= LENGTH;
            let length = u32::try_from(self.message.len()).unwrap_or(u32::MAX).to_be_bytes();
            packet::build(code, identifier, eap_type, &[&[flags], &length, data])
        } else {
            packet::build(code, identifier, eap_type, &[&[flags], data])
        };
        if !data.is_empty() {
            self.fragments_sent = self.fragments_sent.saturating_add(1);
        }
        self.sent += data.len();
        if !self.is_pending() {
            // the packet is kept by the floor above, the message by nobody
            self.message = Vec::new();
            self.sent = 0;
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eap::packet::EapPacket;
    use proptest::prelude::*;

    fn fragment(flags: u8, announced: Option<u32>, data: &[u8]) -> TlsData<'_> {
        TlsData { flags, announced, data }
    }

    #[test]
    fn an_unfragmented_message_has_no_length() {
        let mut outgoing = Outgoing::new(vec![7; 58], 64);
        assert_eq!(outgoing.count(), (0, 1));
        let packet = outgoing.packet(Code::Request, 1, EapType::TLS);
        assert_eq!(packet.len(), 64);
        assert_eq!(packet[5], 0);
        assert!(!outgoing.is_pending());
        assert_eq!(outgoing.count(), (1, 1));
        assert_eq!(outgoing.packet(Code::Request, 2, EapType::TLS), [1, 2, 0, 6, 13, 0]);
    }

    #[test]
    fn one_octet_more_makes_two_fragments_and_only_the_first_has_a_length() {
        let mut outgoing = Outgoing::new(vec![7; 59], 64);
        assert_eq!(outgoing.count(), (0, 2));
        let first = outgoing.packet(Code::Request, 1, EapType::TLS);
        assert_eq!(
            (first.len(), first[5], &first[6..10]),
            (64, LENGTH | MORE, &[0, 0, 0, 59][..])
        );
        let second = outgoing.packet(Code::Request, 2, EapType::TLS);
        assert_eq!((second.len(), second[5]), (6 + 5, 0));
        assert!(!outgoing.is_pending());
    }

    #[test]
    fn lengths_are_held_to() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.push(fragment(0xc0, Some(4), &[1, 2])), Ok(Received::More));
        assert_eq!(incoming.pending(), Some((1, 2)));
        let beyond = incoming.push(fragment(0, None, &[3, 4, 5]));
        assert_eq!(
            beyond,
            Err(FragmentError::Length {
                announced: 4,
                octets: 5
            })
        );
        let short = Incoming::default().push(fragment(0x80, Some(4), &[1, 2]));
        assert_eq!(
            short,
            Err(FragmentError::Length {
                announced: 4,
                octets: 2
            })
        );
    }

    #[test]
    fn a_message_is_bounded_announced_or_not() {
        let announced = Incoming::default().push(fragment(0xc0, Some(1 << 17), &[1]));
        assert_eq!(announced, Err(FragmentError::TooLong(1 << 17)));
        let mut incoming = Incoming::default();
        let piece = [0; 4000];
        let error = (0..20).find_map(|_| incoming.push(fragment(0x40, None, &piece)).err());
        assert_eq!(error, Some(FragmentError::TooLong(68_000)));
    }

    #[test]
    fn a_few_fragments_may_be_empty() {
        let mut incoming = Incoming::default();
        for _ in 0..EMPTY_FRAGMENTS_MAX {
            assert_eq!(incoming.push(fragment(0xc0, Some(2), &[])), Ok(Received::More));
        }
        assert_eq!(incoming.pending(), Some((4, 0)));
        let whole = incoming.push(fragment(0x00, None, &[1, 2]));
        assert_eq!(whole, Ok(Received::Complete(vec![1, 2].into())));
        let last = (0..=EMPTY_FRAGMENTS_MAX)
            .map(|_| incoming.push(fragment(0x40, None, &[])).err())
            .last();
        assert_eq!(last, Some(Some(FragmentError::Empty)));
    }

    #[test]
    fn a_length_is_accepted_anywhere() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.push(fragment(0x40, None, &[1])), Ok(Received::More));
        assert_eq!(incoming.push(fragment(0xc0, Some(3), &[2])), Ok(Received::More));
        assert_eq!(
            incoming.push(fragment(0x80, Some(9), &[3])),
            Ok(Received::Complete(vec![1, 2, 3].into()))
        );
        assert_eq!(incoming.pending(), None);
        let whole = incoming.push(fragment(0x80, Some(1), &[4]));
        assert!(matches!(whole, Ok(Received::Complete(Cow::Borrowed(&[4])))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Whatever is cut is put together again, in as many packets as was said, none larger than allowed.
        #[test]
        fn cut_and_joined(message in proptest::collection::vec(any::<u8>(), 1..9000), size in 0_usize..5000) {
            let mut outgoing = Outgoing::new(message.clone(), size);
            let mut incoming = Incoming::default();
            let (_, fragments) = outgoing.count();
            let mut packets = 0;
            let mut joined = None;
            while outgoing.is_pending() {
                let packet = outgoing.packet(Code::Response, 0, EapType::PEAP);
                packets += 1;
                prop_assert!(packet.len() <= size.clamp(FRAGMENT_OCTETS_MIN, FRAGMENT_OCTETS_MAX));
                let data = TlsData::parse(EapPacket::parse(&packet).unwrap().data).unwrap();
                prop_assert_eq!(data.announced.is_some(), packets == 1 && fragments > 1);
                if let Received::Complete(whole) = incoming.push(data).unwrap() {
                    joined = Some(whole.into_owned());
                }
            }
            prop_assert_eq!(packets, fragments);
            prop_assert_eq!(joined, Some(message));
        }
    }
}
