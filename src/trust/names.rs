//! Names inside certificates as text: distinguished names in the one-line form that FreeRADIUS users write in their
//! rules (`/C=GB/O=Example/CN=laptop-7`), and single values.
//!
//! A certificate's strings come in half a dozen encodings and may hold anything. What can't be shown as itself is
//! written `\xNN`, an octet of its UTF-8 each; so no text made here holds a control character, or one that hides or turns
//! round what stands beside it, and in the one-line form no value can pass for a further attribute.

use std::borrow::Cow;
use std::fmt::Write;

use super::der::{Malformed, Reader, tag};

/// A distinguished name (RFC 5280 section 4.1.2.4), checked to be well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The contents of the outer SEQUENCE, as trust anchors have it too.
    contents: &'a [u8],
}

impl<'a> Name<'a> {
    /// Reads the contents of a Name's SEQUENCE.
    ///
    /// # Errors
    /// [`Malformed`] when it is no sequence of sets of attributes.
    pub fn parse(contents: &'a [u8]) -> Result<Name<'a>, Malformed> {
        let name = Name { contents };
        let mut attributes = name.attributes();
        attributes.by_ref().for_each(drop);
        if attributes.failed {
            Err(Malformed("distinguished name"))
        } else {
            Ok(name)
        }
    }

    /// The encoded name without its outer header: equal names of CA and certificate are equal octets.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.contents
    }

    /// No attribute at all: lawful in a leaf whose names are alternative names.
    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// The common names, in order. There are several in some.
    pub fn common_names(&self) -> impl Iterator<Item = Cow<'a, str>> {
        self.attributes()
            .filter(|attribute| attribute.oid == COMMON_NAME)
            .map(|attribute| attribute.value.text())
    }

    /// The common names themselves, as far as they are text, rather than as they are shown.
    pub(super) fn exact_common_names(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let names = self.attributes().filter(|attribute| attribute.oid == COMMON_NAME);
        names.filter_map(|attribute| match attribute.value.octets() {
            Cow::Borrowed(octets) => std::str::from_utf8(octets).ok().map(Cow::Borrowed),
            Cow::Owned(octets) => String::from_utf8(octets).ok().map(Cow::Owned),
        })
    }

    /// Whether the names say the same in other octets: another encoding, other letters, spaces or order.
    pub(super) fn is_otherwise_written_than(&self, other: &Name<'_>) -> bool {
        let plain = |name: &Name<'_>| {
            let mut attributes: Vec<_> = name
                .attributes()
                .map(|attribute| {
                    let text = attribute.value.text().to_lowercase();
                    let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
                    (attribute.oid.to_vec(), words)
                })
                .collect();
            attributes.sort_unstable();
            attributes
        };
        self != other && plain(self) == plain(other)
    }

    /// Whether both names are of one organisation: an organisation, or the domain components altogether, are the same.
    pub(super) fn has_owner_of(&self, other: &Name<'_>) -> bool {
        let all = |name: &Name<'_>, oid: &[u8]| -> Vec<String> {
            let attributes = name.attributes().filter(|attribute| attribute.oid == oid);
            attributes
                .map(|attribute| attribute.value.text().to_lowercase())
                .collect()
        };
        let (own, others) = (all(self, ORGANISATION), all(other, ORGANISATION));
        let domain = all(self, DOMAIN_COMPONENT);
        own.iter().any(|organisation| others.contains(organisation))
            || (!domain.is_empty() && domain == all(other, DOMAIN_COMPONENT))
    }

    /// `/C=GB/O=Example/CN=laptop-7`: `/`, `\` and everything but printable ASCII inside a value as `\xNN`.
    pub fn one_line(&self) -> String {
        let mut line = String::with_capacity(self.contents.len());
        for Attribute { oid, value } in self.attributes() {
            line.push('/');
            match short_name(oid) {
                Some(name) => line.push_str(name),
                None => line.push_str(&dotted(oid)),
            }
            line.push('=');
            for octet in value.octets().iter() {
                match octet {
                    b'/' | b'\\' => hexadecimal(&mut line, *octet),
                    b' '..=b'~' => line.push(char::from(*octet)),
                    _ => hexadecimal(&mut line, *octet),
                }
            }
        }
        line
    }

    /// The one line as it stands in a sentence: see [`quoted`].
    pub(super) fn quoted(&self) -> String {
        quoted(&self.one_line())
    }

    fn attributes(&self) -> Attributes<'a> {
        let nothing = Reader::new(&[], "distinguished name");
        Attributes {
            sets: Reader::new(self.contents, "distinguished name"),
            set: nothing,
            failed: false,
        }
    }
}

/// Octets of a name in a sentence. A stranger's certificate may have a name of 60 KB.
const QUOTED_OCTETS_MAX: usize = 120;

/// A name as it stands in a sentence: between backticks, cut where it is long, a backtick in it written `\x60`.
pub fn quoted(name: &str) -> String {
    let mut end = QUOTED_OCTETS_MAX.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let (kept, cut) = name.split_at(end);
    let dots = if cut.is_empty() { "" } else { "..." };
    format!("`{}{dots}`", kept.replace('`', "\\x60"))
}

/// One attribute of a name.
struct Attribute<'a> {
    oid: &'a [u8],
    value: Text<'a>,
}

/// The attributes in order; several in one set come one after another.
struct Attributes<'a> {
    sets: Reader<'a>,
    set: Reader<'a>,
    failed: bool,
}

impl<'a> Attributes<'a> {
    fn read(&mut self) -> Result<Option<Attribute<'a>>, Malformed> {
        if self.set.is_at_end() {
            if self.sets.is_at_end() {
                return Ok(None);
            }
            self.set = self.sets.inside(tag::SET)?;
        }
        let mut attribute = self.set.inside(tag::SEQUENCE)?;
        let oid = attribute.contents(tag::OID)?;
        let value = attribute.any()?;
        attribute.end()?;
        Ok(Some(Attribute {
            oid,
            value: Text {
                tag: value.tag,
                octets: value.contents,
            },
        }))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.ok().flatten()
    }
}

/// A string in whichever encoding its tag says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) tag: u8,
    pub(super) octets: &'a [u8],
}

impl<'a> Text<'a> {
    /// As UTF-8 where the encoding is known and sound, else as it stands.
    fn octets(&self) -> Cow<'a, [u8]> {
        let decoded = match self.tag {
            tag::BMP_STRING => wide::<2>(self.octets, |pair| {
                char::decode_utf16(pair.iter().map(|unit| u16::from_be_bytes(*unit)))
                    .collect::<Result<String, _>>()
                    .ok()
            }),
            tag::UNIVERSAL_STRING => wide::<4>(self.octets, |quad| {
                quad.iter()
                    .map(|unit| char::from_u32(u32::from_be_bytes(*unit)))
                    .collect()
            }),
            _ => None,
        };
        decoded.map_or(Cow::Borrowed(self.octets), |text| Cow::Owned(text.into_bytes()))
    }

    /// Text as a rule compares it: control characters, and octets that are no UTF-8, as `\xNN`.
    pub(super) fn text(&self) -> Cow<'a, str> {
        match self.octets() {
            Cow::Borrowed(octets) => printable(octets),
            Cow::Owned(octets) => Cow::Owned(printable(&octets).into_owned()),
        }
    }
}

fn wide<const N: usize>(octets: &[u8], decode: impl FnOnce(&[[u8; N]]) -> Option<String>) -> Option<String> {
    let (units, rest) = octets.as_chunks::<N>();
    if rest.is_empty() { decode(units) } else { None }
}

/// Octets as text: characters that cannot be seen, and octets that are no UTF-8, as `\xNN`; borrowed when there are none.
pub(super) fn printable(octets: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(octets)
        && !text.contains(is_unseen)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(octets.len() + 16);
    for chunk in octets.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_unseen(character) {
                character
                    .encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|octet| hexadecimal(&mut out, octet));
            } else {
                out.push(character);
            }
        }
        chunk.invalid().iter().for_each(|octet| hexadecimal(&mut out, *octet));
    }
    Cow::Owned(out)
}

/// Control characters, and those that have no width, break a line or change the direction of the text around them: with
/// them two names look the same, or one like another.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{AD}' // soft hyphen
            | '\u{61C}' | '\u{180E}'
            | '\u{200B}'..='\u{200F}' // without width, and marks of direction
            | '\u{2028}'..='\u{202E}' // separators of lines and paragraphs, embeddings and overrides
            | '\u{2060}'..='\u{206F}' // joiners, isolates, old format characters
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E0FFF}' // tags and variations
        )
}

fn hexadecimal(out: &mut String, octet: u8) {
    let _ = write!(out, "\\x{octet:02X}");
}

/// Octets as lower-case hexadecimal digits without separators: serial numbers, fingerprints.
pub(super) fn hex(octets: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().map_or('?', char::from);
    octets
        .iter()
        .flat_map(|octet| [digit(octet >> 4), digit(octet & 0x0F)])
        .collect()
}

/// An object identifier's contents in dotted form; what is none is shown in hexadecimal.
pub(super) fn dotted(oid: &[u8]) -> String {
    let mut out = String::new();
    let mut arc: u64 = 0;
    let mut first = true;
    for (position, octet) in oid.iter().enumerate() {
        let fits = arc <= u64::MAX >> 7;
        if !fits || (octet & 0x80 != 0 && position + 1 == oid.len()) {
            return format!("0x{}", hex(oid));
        }
        arc = arc << 7 | u64::from(octet & 0x7F);
        if octet & 0x80 != 0 {
            continue;
        }
        let _ = if first {
            let root = (arc / 40).min(2);
            write!(out, "{root}.{}", arc - root * 40)
        } else {
            write!(out, ".{arc}")
        };
        (first, arc) = (false, 0);
    }
    out
}

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANISATION: &[u8] = &[0x55, 4, 10];
const DOMAIN_COMPONENT: &[u8] = &[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 25];

/// The short names that the one-line form uses, of the attributes that are met in certificates.
fn short_name(oid: &[u8]) -> Option<&'static str> {
    Some(match oid {
        [0x55, 4, number] => match number {
            3 => "CN",
            4 => "SN",
            5 => "serialNumber",
            6 => "C",
            7 => "L",
            8 => "ST",
            9 => "street",
            10 => "O",
            11 => "OU",
            12 => "title",
            13 => "description",
            15 => "businessCategory",
            16 => "postalAddress",
            17 => "postalCode",
            18 => "postOfficeBox",
            20 => "telephoneNumber",
            41 => "name",
            42 => "GN",
            43 => "initials",
            44 => "generationQualifier",
            45 => "x500UniqueIdentifier",
            46 => "dnQualifier",
            65 => "pseudonym",
            72 => "role",
            97 => "organizationIdentifier",
            _ => return None,
        },
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1] => "emailAddress",
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 2] => "unstructuredName",
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 8] => "unstructuredAddress",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, number] => match number {
            1 => "UID",
            3 => "mail",
            9 => "host",
            25 => "DC",
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quoted_name_cannot_end_its_quotes_and_is_not_endless() {
        assert_eq!(quoted("/CN=a`; all is well `"), "`/CN=a\\x60; all is well \\x60`");
        let cut = |name: &str, count| format!("`{}...`", name.repeat(count));
        assert_eq!(quoted(&"x".repeat(60_000)), cut("x", QUOTED_OCTETS_MAX));
        assert_eq!(quoted(&"\u{fc}".repeat(100)), cut("\u{fc}", QUOTED_OCTETS_MAX / 2));
    }

    fn attribute(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        let wrap = |tag: u8, inner: Vec<u8>| [&[tag, u8::try_from(inner.len()).unwrap()][..], &inner].concat();
        wrap(
            tag::SET,
            wrap(
                tag::SEQUENCE,
                [wrap(tag::OID, oid.to_vec()), wrap(tag, value.to_vec())].concat(),
            ),
        )
    }

    fn one_line(parts: &[Vec<u8>]) -> String {
        Name::parse(&parts.concat()).unwrap().one_line()
    }

    #[test]
    fn a_value_cannot_pass_for_another_attribute() {
        // PRODUCT section 2.9: `/` and control octets inside a value as `\xNN`
        assert_eq!(
            one_line(&[
                attribute(&[0x55, 4, 10], 0x0C, b"Evil/CN=admin"),
                attribute(COMMON_NAME, 0x13, b"a\0b\\c")
            ]),
            r"/O=Evil\x2FCN=admin/CN=a\x00b\x5Cc"
        );
    }

    #[test]
    fn other_encodings_are_decoded_or_shown_as_octets() {
        let bmp = attribute(COMMON_NAME, tag::BMP_STRING, &[0, b'M', 0, 0xFC]);
        assert_eq!(one_line(std::slice::from_ref(&bmp)), r"/CN=M\xC3\xBC");
        assert_eq!(Name::parse(&bmp).unwrap().common_names().collect::<Vec<_>>(), ["Mü"]);
        let universal = attribute(COMMON_NAME, tag::UNIVERSAL_STRING, &[0, 0, 0, b'x', 0, 1, 0xF5, 0x11]);
        assert_eq!(
            Name::parse(&universal).unwrap().common_names().collect::<Vec<_>>(),
            ["x\u{1F511}"]
        );
        // half a unit, a lone surrogate, Latin-1 in a T61String: the octets as they stand
        for (tag, octets, text) in [
            (tag::BMP_STRING, &[0, b'M', 0][..], r"\x00M\x00"),
            (tag::BMP_STRING, &[0xD8, 0], r"\xD8\x00"),
            (0x14, b"M\xFCller", r"M\xFCller"),
            // UTF-8 that is longer than it need be: `/` in two octets, NUL in two
            (0x0C, b"a\xC0\xAFb\xC0\x80", r"a\xC0\xAFb\xC0\x80"),
            // text that turns round what follows, a space without width
            (0x0C, "a\u{202E}b\u{200B}c".as_bytes(), r"a\xE2\x80\xAEb\xE2\x80\x8Bc"),
            // right-to-left text itself is text
            (0x0C, "\u{5D0}\u{5D1}".as_bytes(), "\u{5D0}\u{5D1}"),
        ] {
            assert_eq!(Text { tag, octets }.text(), text);
        }
    }

    #[test]
    fn unknown_attributes_are_dotted() {
        assert_eq!(one_line(&[attribute(&[0x2A, 3, 4], 0x0C, b"x")]), "/1.2.3.4=x");
        assert_eq!(dotted(&[0x88, 0x37, 0x81, 0x00]), "2.999.128");
        assert_eq!(dotted(&[0x2A, 0x80]), "0x2a80");
        assert_eq!(dotted(&[0xFF; 11]), format!("0x{}", "ff".repeat(11)));
    }

    #[test]
    fn owners_are_organisations_or_whole_domains() {
        let o = |value: &[u8]| attribute(ORGANISATION, 0x0C, value);
        let dc = |value: &[u8]| attribute(DOMAIN_COMPONENT, 0x16, value);
        let same = |one: &[Vec<u8>], two: &[Vec<u8>]| {
            let (one, two) = (one.concat(), two.concat());
            Name::parse(&one).unwrap().has_owner_of(&Name::parse(&two).unwrap())
        };
        assert!(same(
            &[o(b"Example")],
            &[attribute(COMMON_NAME, 0x0C, b"x"), o(b"EXAMPLE")]
        ));
        assert!(same(&[dc(b"com"), dc(b"example")], &[dc(b"com"), dc(b"example")]));
        assert!(!same(&[dc(b"com"), dc(b"example")], &[dc(b"com"), dc(b"elsewhere")]));
        assert!(!same(&[], &[]));
    }

    #[test]
    fn malformed_names_are_refused() {
        // an empty set, no set, an attribute without type and value, an end too early
        for bad in [&[0x31, 0][..], &[0x30, 0], &[0x31, 2, 0x30, 0], &[0x31, 5, 0x30]] {
            assert!(Name::parse(bad).is_err(), "{bad:02x?}");
        }
        assert!(Name::parse(&[]).unwrap().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn no_text_holds_what_cannot_be_seen(octets in proptest::collection::vec(any::<u8>(), 0..80), text in any::<String>(), tag in any::<u8>()) {
            for octets in [&octets, text.as_bytes()] {
                let text = Text { tag, octets }.text().into_owned();
                prop_assert!(!text.contains(is_unseen));
            }
        }

        #[test]
        fn one_line_is_ascii_and_has_a_slash_for_each_attribute(values in proptest::collection::vec(any::<Vec<u8>>(), 1..4)) {
            let parts: Vec<_> = values.iter().map(|value| attribute(COMMON_NAME, 0x0C, &value[..value.len().min(100)])).collect();
            let line = one_line(&parts);
            prop_assert!(line.bytes().all(|octet| (b' '..=b'~').contains(&octet)));
            prop_assert_eq!(line.matches('/').count(), parts.len());
        }
    }
}
