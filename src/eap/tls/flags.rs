//! The octets between EAP's Type and the TLS records: Flags and TLS Message Length (RFC 5216, 3.1 and 3.2).

/// Length included.
pub const LENGTH: u8 = 0x80;
/// More fragments follow.
pub const MORE: u8 = 0x40;
/// Start, in the server's first request only.
pub const START: u8 = 0x20;
/// The version of EAP-TTLS or PEAP (RFC 5281, 9.1); reserved in EAP-TLS.
pub const VERSION: u8 = 0x07;

/// One fragment as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsData<'a> {
    /// L, M, S and the reserved bits, which "MUST be ignored on reception".
    pub flags: u8,
    /// TLS Message Length, octets of the whole message, where L is set.
    pub announced: Option<u32>,
    /// TLS records, or a part of them.
    pub data: &'a [u8],
}

impl<'a> TlsData<'a> {
    /// Reads what follows the type. `None` without a flags octet, or when L is set and the length is cut short.
    pub fn parse(octets: &'a [u8]) -> Option<TlsData<'a>> {
        let (&flags, rest) = octets.split_first()?;
        if flags & LENGTH == 0 {
            return Some(TlsData {
                flags,
                announced: None,
                data: rest,
            });
        }
        let (length, data) = rest.split_first_chunk()?;
        Some(TlsData {
            flags,
            announced: Some(u32::from_be_bytes(*length)),
            data,
        })
    }

    /// Whether more fragments follow.
    pub fn more(&self) -> bool {
        self.flags & MORE != 0
    }

    /// Whether it is a Start.
    pub fn start(&self) -> bool {
        self.flags & START != 0
    }

    /// No data and none to follow: it acknowledges a fragment, or the last flight.
    pub fn is_acknowledgement(&self) -> bool {
        self.data.is_empty() && !self.more()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_read_only_where_l_is_set() {
        let with = TlsData::parse(&[0xc0, 0, 0, 1, 2, 9]).unwrap();
        assert_eq!((with.announced, with.data, with.more()), (Some(258), &[9][..], true));
        let without = TlsData::parse(&[0x00, 0, 0]).unwrap();
        assert_eq!((without.announced, without.data), (None, &[0, 0][..]));
        assert!(TlsData::parse(&[0x00]).unwrap().is_acknowledgement());
        assert!(!TlsData::parse(&[0x40]).unwrap().is_acknowledgement());
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        assert_eq!(TlsData::parse(&[]), None);
        assert_eq!(TlsData::parse(&[0x80, 0, 0, 1]), None);
    }
}
