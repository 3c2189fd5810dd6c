//! MAC addresses inside text: the one form in which they are compared.
//!
//! Rule 2.7: "MACs are compared in the form `aa-bb-cc-dd-ee-ff`, on both sides, prefixes too". That concerns the text
//! attributes that carry MACs: User-Name, Called-Station-Id and Calling-Station-Id. What is seen there and is a MAC in
//! some spelling, alone or with `:` and more behind it (RFC 3580 section 3.20: a Called-Station-Id is
//! `00-10-A4-23-19-C0:AP1`), is put into that form, and what stands behind it stays. A rule's value is read as a MAC or
//! a piece of one where it can be, and as plain text besides.

use std::borrow::Cow;
use std::fmt::Write;

use super::operator::Base;
use crate::mac::{MacAddress, normalise_prefix};
use crate::radius::dictionary::types::{DataType, Definition, Parent};

/// Lengths of a MAC's spellings: twelve groups of one digit, six of two, three of four, two of six, one of twelve.
const LENGTHS: [usize; 5] = [23, 17, 14, 13, 12];

/// Whether values of this attribute may be MACs written as text.
pub(super) fn may_carry(definition: &Definition) -> bool {
    // User-Name, Called-Station-Id, Calling-Station-Id
    let number = matches!(definition.number, 1 | 30 | 31);
    definition.parent == Parent::Root && number && definition.data_type == DataType::Text
}

/// Splits a text into the MAC that it begins with and what follows: nothing, or `:` and more.
pub(super) fn split(text: &str) -> Option<(MacAddress, &str)> {
    if let Some(mac) = MacAddress::parse(text.as_bytes()) {
        return Some((mac, ""));
    }
    LENGTHS.into_iter().find_map(|length| {
        let (mac, rest) = text.split_at_checked(length)?;
        rest.starts_with(':')
            .then(|| MacAddress::parse(mac.as_bytes()))?
            .map(|mac| (mac, rest))
    })
}

/// Room for a normal form: as long as an attribute's text can be with its MAC in the shortest spelling.
pub(super) type Room = Inline<264>;

/// The normal form of a text that is a MAC, alone or with more behind it. Texts that no RADIUS attribute could hold do
/// not fit the room and are allocated.
pub(super) fn normal<'a>(text: &str, room: &'a mut Room) -> Option<Cow<'a, str>> {
    let (mac, rest) = split(text)?;
    match write!(room, "{mac}{rest}") {
        Ok(()) => Some(Cow::Borrowed(room.as_str())),
        Err(_) => Some(Cow::Owned(format!("{mac}{rest}"))),
    }
}

/// A rule's value read as a MAC, or as the piece of one that the operator looks for.
pub(super) fn normal_value(base: Base, value: &str) -> Option<String> {
    if let Some((mac, rest)) = split(value) {
        return Some(format!("{mac}{rest}"));
    }
    let is_separator = |c| matches!(c, '-' | ':' | '.');
    let inner = value.strip_prefix(is_separator);
    let before = if inner.is_some() { "-" } else { "" };
    let piece = normalise_prefix(inner.unwrap_or(value))?;
    match base {
        Base::StartsWith if inner.is_none() => Some(piece),
        Base::Contains => Some(format!("{before}{piece}")),
        Base::EndsWith if !value.ends_with(is_separator) => Some(format!("{before}{}", paired_from_the_end(&piece))),
        _ => None,
    }
}

/// `45-5` as `4-55`: the last digit of a MAC ends a pair.
fn paired_from_the_end(piece: &str) -> String {
    let digits: Vec<char> = piece.chars().filter(|c| *c != '-').collect();
    let mut text = String::with_capacity(piece.len());
    for (at, digit) in digits.iter().enumerate() {
        if at > 0 && digits.len().saturating_sub(at) % 2 == 0 {
            text.push('-');
        }
        text.push(*digit);
    }
    text
}

/// Text on the stack, written by `write!`; an error where it does not fit.
pub(super) struct Inline<const N: usize> {
    octets: [u8; N],
    length: usize,
}

impl<const N: usize> Inline<N> {
    pub(super) fn new() -> Inline<N> {
        Inline {
            octets: [0; N],
            length: 0,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        let written = self.octets.get(..self.length).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default()
    }
}

impl<const N: usize> Write for Inline<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length.checked_add(text.len()).ok_or(std::fmt::Error)?;
        let place = self.octets.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(text: &str) -> Option<String> {
        normal(text, &mut Room::new()).map(Cow::into_owned)
    }

    #[test]
    fn rule_2_7_what_is_seen() {
        for (text, expected) in [
            ("001B.78CA.FE0F", "00-1b-78-ca-fe-0f"),
            ("001b78-cafe0f", "00-1b-78-ca-fe-0f"),
            ("0:0:1:b:7:8:c:a:f:e:0:f", "00-1b-78-ca-fe-0f"),
            ("00-1B-78-CA-FE-0F:Corp", "00-1b-78-ca-fe-0f:Corp"),
            ("00:1B:78:CA:FE:0F:Corp:5GHz", "00-1b-78-ca-fe-0f:Corp:5GHz"),
            ("001B78CAFE0F:", "00-1b-78-ca-fe-0f:"),
            ("00:1B:78:CA:FE:0F:00:11", "00-1b-78-ca-fe-0f:00:11"),
        ] {
            assert_eq!(normalised(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "host/laptop",
            "00:1B:78:CA:FE",
            "001B78CAFE0F-Corp",
            "001b78cafe0g",
            "ünïcödé-text",
        ] {
            assert_eq!(normalised(text), None, "{text}");
        }
        let long = format!("001B78CAFE0F:{}", "x".repeat(400));
        assert_eq!(
            normalised(&long),
            Some(format!("00-1b-78-ca-fe-0f:{}", "x".repeat(400)))
        );
    }

    #[test]
    fn rule_2_7_what_a_rule_says() {
        for (base, text, expected) in [
            (Base::Equals, "001B.78CA.FE0F", Some("00-1b-78-ca-fe-0f")),
            (Base::In, "001B78CAFE0F:Corp", Some("00-1b-78-ca-fe-0f:Corp")),
            (Base::Equals, "00:1B:78", None),
            (Base::StartsWith, "00:1B:78", Some("00-1b-78")),
            (Base::StartsWith, "001b.7", Some("00-1b-7")),
            (Base::StartsWith, "001B78CAFE0F:Co", Some("00-1b-78-ca-fe-0f:Co")),
            (Base::StartsWith, "host/", None),
            (Base::Contains, ":CA:FE", Some("-ca-fe")),
            (Base::Contains, "1B:78", Some("1b-78")),
            (Base::EndsWith, "FE:0F", Some("fe-0f")),
            (Base::EndsWith, "E0F", Some("e-0f")),
            (Base::EndsWith, ":0F", Some("-0f")),
            (Base::EndsWith, "Corp", None),
            (Base::Matches, "001b", None),
        ] {
            assert_eq!(normal_value(base, text).as_deref(), expected, "{base:?} {text}");
        }
    }
}
