//! MAC addresses: every vendor's spelling in, one out.
//!
//! Switches write the same address as `aa-bb-cc-dd-ee-ff`, `AA:BB:CC:DD:EE:FF`, `aabb.ccdd.eeff`, `aabbcc-ddeeff`,
//! `AABBCCDDEEFF` and more: groups of 1, 2, 4, 6 or 12 hexadecimal digits with `-`, `:`, `.` or nothing between them, in
//! either case. All are read; what this software writes, stores and compares is `aa-bb-cc-dd-ee-ff`.

use std::fmt;
use std::str::FromStr;

/// A MAC address. Displayed as `aa-bb-cc-dd-ee-ff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

/// A text that is no MAC address in any spelling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no MAC address\nhint: write twelve hexadecimal digits, for example `aa-bb-cc-dd-ee-ff` or `aabb.ccdd.eeff`"
)]
pub struct NoMacAddress(pub String);

impl MacAddress {
    /// Reads an address in any spelling: twelve hexadecimal digits in equal groups of 1, 2, 4, 6 or 12, all separated by
    /// the same one of `-`, `:` and `.`. `None` for anything else: more, fewer, mixed or unequal groups, other octets
    /// before or after.
    pub fn parse(text: &[u8]) -> Option<MacAddress> {
        if let Some(address) = read_pairs(text) {
            return Some(address);
        }
        let (digits, count) = read_digits(text)?;
        let last_is_digit = text.last().is_some_and(u8::is_ascii_hexdigit);
        (count == DIGITS && last_is_digit).then(|| MacAddress(pack(&digits)))
    }

    /// Whether the address is locally administered: set by software, perhaps a random one of a phone or a laptop.
    pub fn is_local(self) -> bool {
        self.0[0] & 0x02 != 0
    }

    /// The address as a number below 2^48, in the order of its octets.
    pub fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The inverse of [`MacAddress::to_u64`]; the upper 16 bits are ignored.
    pub fn from_u64(number: u64) -> MacAddress {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        MacAddress([a, b, c, d, e, f])
    }

    /// Every spelling in lower and in upper case, 26 in all. A CHAP or MD5 response does not show which one the switch
    /// hashed, so each has to be tried. The order is that of how common they are; addresses without letters repeat.
    pub fn spellings(self) -> impl Iterator<Item = Spelling> {
        SHAPES.iter().flat_map(move |&(group, separator)| {
            [LOWER, UPPER]
                .into_iter()
                .map(move |digits| spell(self, group, separator, digits))
        })
    }
}

/// One way to write an address.
#[derive(Clone, Copy)]
pub struct Spelling {
    octets: [u8; LONGEST_SPELLING],
    length: u8,
}

impl Spelling {
    /// The text, 12 to 23 octets of ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spelling({})", self.as_bytes().escape_ascii())
    }
}

/// Turns the beginning of an address, in any spelling, into the beginning of the one this software compares:
/// `00:1B:78`, `001b.78` and `001B78` become `00-1b-78`. A separator at the end is dropped. `None` when the text is no
/// beginning of an address: no digits or more than twelve, mixed separators, unequal groups.
pub fn normalise_prefix(text: &str) -> Option<String> {
    let (digits, count) = read_digits(text.as_bytes())?;
    let mut prefix = String::with_capacity(17);
    for (at, digit) in digits.into_iter().take(count).enumerate() {
        if at > 0 && at % 2 == 0 {
            prefix.push('-');
        }
        prefix.push(char::from_digit(digit.into(), 16)?);
    }
    Some(prefix)
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rules compare addresses in this form, each one anew: without the formatter's machinery.
        let mut text = [b'-'; 17];
        for (place, octet) in text.chunks_mut(3).zip(self.0) {
            for (digit, value) in place.iter_mut().zip([octet >> 4, octet & 0x0F]) {
                *digit = LOWER.get(usize::from(value)).copied().unwrap_or(b'0');
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl FromStr for MacAddress {
    type Err = NoMacAddress;

    fn from_str(text: &str) -> Result<Self, NoMacAddress> {
        MacAddress::parse(text.as_bytes()).ok_or_else(|| NoMacAddress(text.to_owned()))
    }
}

const DIGITS: usize = 12;
/// Twelve groups of one digit.
const LONGEST_SPELLING: usize = 23;
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";
/// Digits of a group and the separator, most common first.
const SHAPES: [(usize, Option<u8>); 13] = [
    (12, None),
    (2, Some(b'-')),
    (2, Some(b':')),
    (4, Some(b'.')),
    (6, Some(b'-')),
    (4, Some(b'-')),
    (2, Some(b'.')),
    (4, Some(b':')),
    (6, Some(b':')),
    (6, Some(b'.')),
    (1, Some(b'-')),
    (1, Some(b':')),
    (1, Some(b'.')),
];

/// An address in one of the spellings that nearly all switches use: pairs of digits with the same separator between them,
/// or with none. Each request has one in several places.
fn read_pairs(text: &[u8]) -> Option<MacAddress> {
    let mut octets = [0; 6];
    match text.as_chunks::<2>() {
        (pairs, []) if text.len() == DIGITS => {
            for (octet, &[high, low]) in octets.iter_mut().zip(pairs) {
                *octet = read_pair(high, low)?;
            }
        }
        _ => {
            let (groups, &[high, low]) = text.as_chunks::<3>() else {
                return None;
            };
            let &[_, _, separator] = groups.first().filter(|_| groups.len() == 5)?;
            if !matches!(separator, b'-' | b':' | b'.') {
                return None;
            }
            for (octet, &[high, low, between]) in octets.iter_mut().zip(groups) {
                *octet = read_pair(high, low).filter(|_| between == separator)?;
            }
            *octets.last_mut()? = read_pair(high, low)?;
        }
    }
    Some(MacAddress(octets))
}

fn read_pair(high: u8, low: u8) -> Option<u8> {
    Some(digit(high)? << 4 | digit(low)?)
}

fn digit(octet: u8) -> Option<u8> {
    match octet {
        b'0'..=b'9' => Some(octet - b'0'),
        b'a'..=b'f' => Some(octet - b'a' + 10),
        b'A'..=b'F' => Some(octet - b'A' + 10),
        _ => None,
    }
}

/// The digits of an address or of its beginning, and how many there are (1 to 12). The groups before the last are equal
/// and as long as an address allows, the last is no longer than they.
fn read_digits(text: &[u8]) -> Option<([u8; DIGITS], usize)> {
    let mut digits = [0; DIGITS];
    let mut count = 0;
    let mut separator = None;
    let mut group_size = None;
    let mut in_group = 0;
    for &octet in text {
        if let Some(digit) = digit(octet) {
            if group_size == Some(in_group) {
                return None;
            }
            *digits.get_mut(count)? = digit;
            count += 1;
            in_group += 1;
        } else {
            if !matches!(octet, b'-' | b':' | b'.') || *separator.get_or_insert(octet) != octet {
                return None;
            }
            if !matches!(in_group, 1 | 2 | 4 | 6) || *group_size.get_or_insert(in_group) != in_group {
                return None;
            }
            in_group = 0;
        }
    }
    (count > 0).then_some((digits, count))
}

fn pack(digits: &[u8; DIGITS]) -> [u8; 6] {
    let mut octets = [0; 6];
    for (octet, pair) in octets.iter_mut().zip(digits.as_chunks::<2>().0) {
        *octet = pair[0] << 4 | pair[1];
    }
    octets
}

fn spell(address: MacAddress, group: usize, separator: Option<u8>, digits: &[u8; 16]) -> Spelling {
    let mut spelling = Spelling {
        octets: [0; LONGEST_SPELLING],
        length: 0,
    };
    let mut push = |octet| {
        if let Some(place) = spelling.octets.get_mut(usize::from(spelling.length)) {
            *place = octet;
            spelling.length += 1;
        }
    };
    let nibbles = address.0.into_iter().flat_map(|octet| [octet >> 4, octet & 0x0F]);
    for (at, nibble) in nibbles.enumerate() {
        if let Some(separator) = separator.filter(|_| at > 0 && at % group == 0) {
            push(separator);
        }
        push(digits.get(usize::from(nibble)).copied().unwrap_or_default());
    }
    spelling
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADDRESS: MacAddress = MacAddress([0x00, 0x1b, 0x78, 0xca, 0xfe, 0x0f]);

    #[test]
    fn every_vendors_spelling_is_read() {
        for text in [
            "001b78cafe0f",
            "001B78CAFE0F",
            "00-1b-78-ca-fe-0f",
            "00:1B:78:CA:FE:0F",
            "00.1b.78.ca.fe.0f",
            "001b.78ca.fe0f",
            "001B-78CA-FE0F",
            "001b:78ca:fe0f",
            "001b78-cafe0f",
            "001b78:cafe0f",
            "0-0-1-b-7-8-c-a-f-e-0-f",
            "00-1B-78-ca-FE-0f",
        ] {
            assert_eq!(MacAddress::parse(text.as_bytes()), Some(ADDRESS), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_address() {
        for text in [
            "",
            "-",
            "001b78cafe0",
            "001b78cafe0f0",
            "001b78cafe0f-",
            "-001b78cafe0f",
            "00-1b-78-ca-fe",
            "00-1b-78-ca-fe-0f-",
            "00--1b-78-ca-fe-0f",
            "00-1b:78-ca-fe-0f",
            "001-b78-caf-e0f",
            "001b78ca-fe0f",
            "0-01b78cafe0f",
            "00-1b-78-ca-fe0f",
            "001b78cafe0f\0",
            " 001b78cafe0f",
            "001b78cafe0g",
            "00_1b_78_ca_fe_0f",
            "00-1B-78-CA-FE-0F:office",
            "0:1b:78:ca:fe:f",
        ] {
            assert_eq!(MacAddress::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!("printer".parse::<MacAddress>(), Err(NoMacAddress("printer".into())));
    }

    #[test]
    fn all_spellings_are_different_and_read_back() {
        let all: Vec<Vec<u8>> = ADDRESS
            .spellings()
            .map(|spelling| spelling.as_bytes().to_vec())
            .collect();
        assert_eq!(all.len(), 26);
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(unique.len(), 26);
        for text in all {
            assert_eq!(MacAddress::parse(&text), Some(ADDRESS), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn prefixes_take_the_form_that_is_compared() {
        for (text, expected) in [
            ("00:1B:78", Some("00-1b-78")),
            ("00:1B:78:", Some("00-1b-78")),
            ("001B.78", Some("00-1b-78")),
            ("001B78", Some("00-1b-78")),
            ("001B-78CA-F", Some("00-1b-78-ca-f")),
            ("0", Some("0")),
            ("00-1b-78-ca-fe-0f", Some("00-1b-78-ca-fe-0f")),
            ("", None),
            (":", None),
            ("00:1B-78", None),
            ("00:1", Some("00-1")),
            ("00:1B:789", None),
            ("0:1B", None),
            ("001", Some("00-1")),
            ("001:", None),
            ("printer", None),
            ("001b78cafe0f0", None),
        ] {
            assert_eq!(normalise_prefix(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn local_addresses_are_told_apart() {
        assert!(MacAddress([0x02, 0, 0, 0, 0, 1]).is_local());
        assert!(!ADDRESS.is_local());
    }

    proptest! {
        #[test]
        fn text_and_number_are_read_back(octets: [u8; 6]) {
            let address = MacAddress(octets);
            prop_assert_eq!(address.to_string().parse::<MacAddress>(), Ok(address));
            prop_assert_eq!(MacAddress::from_u64(address.to_u64()), address);
        }

        #[test]
        fn no_octets_break_the_reader(text: Vec<u8>) {
            let _ = MacAddress::parse(&text);
        }

        #[test]
        fn the_short_way_reads_what_the_long_one_does(text in "[0-9a-fA-F:.-]{11,18}|([0-9a-fA-F]{2}[-:.]?){6}") {
            if let Some(address) = read_pairs(text.as_bytes()) {
                let (digits, count) = read_digits(text.as_bytes()).unwrap();
                prop_assert_eq!((address.0, count), (pack(&digits), DIGITS));
            }
        }
    }
}
