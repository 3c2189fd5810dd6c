//! A reader of DER (X.690), as much as certificates, their revocation and private keys need: elements one after another,
//! borrowed.
//!
//! Strict where two readers could differ on what a certificate says (lengths are definite and shortest, nothing trails),
//! and total: every input ends in a value or in [`Malformed`].

/// Octets that are not what DER, or the structure read from it, demands; says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a well-formed {0}")]
pub struct Malformed(pub &'static str);

/// Universal and context tags of the structures read here; all below 31, one octet each.
pub(super) mod tag {
    pub(in crate::trust) const BOOLEAN: u8 = 0x01;
    pub(in crate::trust) const INTEGER: u8 = 0x02;
    pub(in crate::trust) const BIT_STRING: u8 = 0x03;
    pub(in crate::trust) const OCTET_STRING: u8 = 0x04;
    pub(in crate::trust) const NULL: u8 = 0x05;
    pub(in crate::trust) const OID: u8 = 0x06;
    pub(in crate::trust) const ENUMERATED: u8 = 0x0A;
    pub(in crate::trust) const UTF8_STRING: u8 = 0x0C;
    pub(in crate::trust) const UTC_TIME: u8 = 0x17;
    pub(in crate::trust) const GENERALIZED_TIME: u8 = 0x18;
    pub(in crate::trust) const UNIVERSAL_STRING: u8 = 0x1C;
    pub(in crate::trust) const BMP_STRING: u8 = 0x1E;
    pub(in crate::trust) const SEQUENCE: u8 = 0x30;
    pub(in crate::trust) const SET: u8 = 0x31;

    /// `[n]`, primitive: an IMPLICIT simple type.
    pub(in crate::trust) const fn context(number: u8) -> u8 {
        0x80 | number
    }

    /// `[n]`, constructed: EXPLICIT, or an IMPLICIT sequence.
    pub(in crate::trust) const fn constructed(number: u8) -> u8 {
        0xA0 | number
    }
}

/// One element: its tag, what is inside, and the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) contents: &'a [u8],
    pub(super) raw: &'a [u8],
}

/// Reads elements off the front of some octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` names the structure in errors.
    pub(super) fn new(octets: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { rest: octets, what }
    }

    /// The error that this reader's structure is malformed.
    pub(super) fn malformed(&self) -> Malformed {
        Malformed(self.what)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever it is.
    pub(super) fn any(&mut self) -> Result<Element<'a>, Malformed> {
        let whole = self.rest;
        let (&tag, rest) = whole.split_first().ok_or(self.malformed())?;
        if tag & 0x1F == 0x1F {
            return Err(self.malformed()); // a tag number of several octets: none of the structures has one
        }
        let (&first, mut rest) = rest.split_first().ok_or(self.malformed())?;
        let length = match first {
            0..=0x7F => usize::from(first),
            0x81..=0x84 => {
                let (octets, after) = rest
                    .split_at_checked(usize::from(first & 0x7F))
                    .ok_or(self.malformed())?;
                rest = after;
                let length = octets.iter().fold(0usize, |sum, &octet| sum << 8 | usize::from(octet));
                let shortest = if octets.len() == 1 {
                    length > 0x7F
                } else {
                    length >> (8 * (octets.len() - 1)) != 0
                };
                if !shortest {
                    return Err(self.malformed());
                }
                length
            }
            _ => return Err(self.malformed()), // indefinite, or above 4 GB
        };
        let (contents, rest) = rest.split_at_checked(length).ok_or(self.malformed())?;
        let raw = whole.get(..whole.len() - rest.len()).unwrap_or(whole);
        self.rest = rest;
        Ok(Element { tag, contents, raw })
    }

    /// The next element, which must have this tag.
    pub(super) fn element(&mut self, tag: u8) -> Result<Element<'a>, Malformed> {
        let element = self.any()?;
        if element.tag == tag {
            Ok(element)
        } else {
            Err(self.malformed())
        }
    }

    /// The contents of the next element, which must have this tag.
    pub(super) fn contents(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        Ok(self.element(tag)?.contents)
    }

    /// A reader of what is inside the next element, which must have this tag.
    pub(super) fn inside(&mut self, tag: u8) -> Result<Reader<'a>, Malformed> {
        Ok(Reader {
            rest: self.element(tag)?.contents,
            what: self.what,
        })
    }

    /// The next element if it has this tag; otherwise nothing is read.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        if self.rest.first() == Some(&tag) {
            self.any().map(Some)
        } else {
            Ok(None)
        }
    }

    /// A BOOLEAN that may be left out (false then). BER's "any octet is true" is met in the field, and harmless.
    pub(super) fn optional_boolean(&mut self) -> Result<bool, Malformed> {
        match self.optional(tag::BOOLEAN)? {
            None => Ok(false),
            Some(Element { contents: [octet], .. }) => Ok(*octet != 0),
            Some(_) => Err(self.malformed()),
        }
    }

    /// A BIT STRING of whole octets.
    pub(super) fn bit_string(&mut self) -> Result<&'a [u8], Malformed> {
        match self.contents(tag::BIT_STRING)?.split_first() {
            Some((0, octets)) => Ok(octets),
            _ => Err(self.malformed()),
        }
    }

    /// A small non-negative INTEGER.
    pub(super) fn small_integer(&mut self) -> Result<u32, Malformed> {
        unsigned(self.contents(tag::INTEGER)?).ok_or(self.malformed())
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.malformed())
        }
    }
}

fn unsigned(octets: &[u8]) -> Option<u32> {
    let digits = match octets {
        [] => return None,
        [0, rest @ ..] => rest,
        [first, ..] if *first >= 0x80 => return None,
        all => all,
    };
    (digits.len() <= 4).then(|| digits.iter().fold(0u32, |sum, &octet| sum << 8 | u32::from(octet)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(octets: &[u8]) -> Result<Element<'_>, Malformed> {
        Reader::new(octets, "test").any()
    }

    #[test]
    fn lengths_are_definite_and_shortest() {
        assert_eq!(one(&[0x04, 0x01, 0xFF]).unwrap().contents, [0xFF]);
        let long = [&[0x04, 0x81, 0x80][..], &[7; 128]].concat();
        assert_eq!(one(&long).unwrap().contents.len(), 128);
        assert_eq!(one(&long).unwrap().raw, long);
        for bad in [
            &[0x04, 0x80, 0, 0][..],      // indefinite
            &[0x04, 0x81, 0x01, 0xFF],    // not the shortest form
            &[0x04, 0x82, 0x00, 0x80],    // nor this
            &[0x04, 0x02, 0xFF],          // runs past the end
            &[0x04, 0x84, 0, 0, 0, 0],    // nor this
            &[0x04, 0x85, 1, 0, 0, 0, 0], // longer than anything here
            &[0x1F, 0x81, 0x00, 0x00],    // a tag of several octets
            &[0x04],
            &[],
        ] {
            assert!(one(bad).is_err(), "{bad:02x?}");
        }
    }

    #[test]
    fn small_integers() {
        for (octets, value) in [
            (&[0x02, 1, 0][..], Some(0)),
            (&[0x02, 2, 0, 0xFF], Some(255)),
            (&[0x02, 1, 0xFF], None),
            (&[0x02, 0], None),
        ] {
            assert_eq!(Reader::new(octets, "test").small_integer().ok(), value, "{octets:02x?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_octets_end_in_elements_that_lie_side_by_side_or_in_an_error(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&octets, "test");
            let mut read = 0;
            while let Ok(element) = reader.any() {
                prop_assert_eq!(element.raw, &octets[read..read + element.raw.len()]);
                read += element.raw.len();
            }
            prop_assert!(read <= octets.len());
        }
    }
}
