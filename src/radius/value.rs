//! Values: typed from text and to text, encoded and decoded by their dictionary type.
//!
//! The types are those of RFC 2865 section 5, RFC 3162, RFC 6572 and RFC 8044, without attribute headers, tags or
//! hiding: `attribute` adds those. Lengths are strict: four octets of an address are an address, five are malformed.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::dictionary::types::{DataType, Definition, Value};
use crate::mac::MacAddress;

mod date;

/// Why a text or octets are no value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub String);

/// Reads `text` as a value of `definition`: a named value, a number, an address …
///
/// Numbers are decimal or `0x` hexadecimal and win over names that look like numbers; octets are `0x` hexadecimal, or
/// the text's own octets; dates are `2026-11-30T12:00:00Z` or seconds since 1970; a prefix without a length is one host.
pub fn parse(definition: &Definition, text: &str) -> Result<Value<'static>, ValueError> {
    let expected = |what: &str| ValueError(format!("`{}` is no {what}", shown(text)));
    let trimmed = text.trim();
    Ok(match definition.data_type {
        DataType::Text => Value::Text(Cow::Owned(text.to_owned())),
        DataType::Octets(length) => {
            let octets = match trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")) {
                Some(digits) => hex(digits).ok_or_else(|| expected("pairs of hexadecimal digits after `0x`"))?,
                None => text.as_bytes().to_vec(),
            };
            if let Some(length) = length.filter(|&length| usize::from(length) != octets.len()) {
                let found = octets.len();
                return Err(ValueError(format!(
                    "`{}` has {found} octets: expected {length}",
                    shown(text)
                )));
            }
            Value::Octets(Cow::Owned(octets))
        }
        DataType::AscendBinary
        | DataType::Tlv
        | DataType::VendorSpecific
        | DataType::ExtendedVendorSpecific
        | DataType::Extended { .. }
        | DataType::Opaque => {
            let digits = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X"));
            Value::Octets(Cow::Owned(
                digits.and_then(hex).ok_or_else(|| expected("octets, written `0x…`"))?,
            ))
        }
        DataType::Byte => Value::Unsigned(unsigned(definition, trimmed, 0xff)?),
        DataType::Short => Value::Unsigned(unsigned(definition, trimmed, 0xffff)?),
        DataType::Integer => Value::Unsigned(unsigned(definition, trimmed, 0xffff_ffff)?),
        DataType::Integer64 => Value::Unsigned(unsigned(definition, trimmed, u64::MAX)?),
        DataType::Signed => Value::Signed(signed(definition, trimmed)?),
        DataType::Date => match number(trimmed).and_then(|seconds| u32::try_from(seconds).ok()) {
            Some(seconds) => Value::Date(seconds),
            None => match named(definition, trimmed).and_then(|seconds| u32::try_from(seconds).ok()) {
                Some(seconds) => Value::Date(seconds),
                None => Value::Date(date::parse(trimmed).ok_or_else(|| {
                    expected("date between 1970 and 2106: expected `2026-11-30T12:00:00Z` or seconds since 1970")
                })?),
            },
        },
        DataType::Ipv4 => Value::Address(IpAddr::V4(trimmed.parse().map_err(|_| expected("IPv4 address"))?)),
        DataType::Ipv6 => Value::Address(IpAddr::V6(trimmed.parse().map_err(|_| expected("IPv6 address"))?)),
        DataType::ComboIp => Value::Address(trimmed.parse().map_err(|_| expected("IPv4 or IPv6 address"))?),
        DataType::Ipv4Prefix => Value::Prefix(prefix(trimmed, "IPv4 prefix", false)?),
        DataType::Ipv6Prefix => Value::Prefix(prefix(trimmed, "IPv6 prefix", true)?),
        DataType::InterfaceId => Value::InterfaceId(
            interface_id(trimmed)
                .ok_or_else(|| expected("interface identifier: expected the form `0011:2233:4455:6677`"))?,
        ),
        DataType::Ether => Value::Mac(
            MacAddress::parse(trimmed.as_bytes())
                .ok_or_else(|| expected("MAC address: expected the form `aa-bb-cc-dd-ee-ff`"))?,
        ),
    })
}

/// Writes a value as text: a named value where one is defined (the last one, where a number has several names).
/// `parse` reads it back.
pub fn display(definition: &Definition, value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.clone().into_owned(),
        Value::Octets(octets) => hex_text(octets),
        Value::Unsigned(number) => match i64::try_from(*number).ok().and_then(|number| name(definition, number)) {
            Some(name) => name.to_owned(),
            None => number.to_string(),
        },
        Value::Signed(number) => name(definition, *number).map_or_else(|| number.to_string(), str::to_owned),
        Value::Date(seconds) => date::display(*seconds),
        Value::Address(address) => address.to_string(),
        Value::Prefix(prefix) => prefix.to_string(),
        Value::InterfaceId([a, b, c, d, e, f, g, h]) => {
            format!("{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}")
        }
        Value::Mac(mac) => mac.to_string(),
    }
}

/// Decodes the octets of one (unhidden, untagged, joined) value. An error is an attribute that is present but malformed.
///
/// Text that isn't UTF-8 is malformed (RFC 2865 section 5: text is UTF-8), and so is a prefix with bits outside of its
/// length (RFC 3162 section 2.3: they "must be zero").
pub fn decode<'a>(definition: &Definition, octets: &'a [u8]) -> Result<Value<'a>, ValueError> {
    let length = |expected: &str| ValueError(format!("{} octets: expected {expected}", octets.len()));
    Ok(match definition.data_type {
        DataType::Text => {
            Value::Text(Cow::Borrowed(str::from_utf8(octets).map_err(|error| {
                ValueError(format!("not UTF-8 at octet {}", error.valid_up_to()))
            })?))
        }
        DataType::Octets(Some(expected)) if usize::from(expected) != octets.len() => {
            return Err(length(&expected.to_string()));
        }
        DataType::Octets(_)
        | DataType::AscendBinary
        | DataType::Tlv
        | DataType::VendorSpecific
        | DataType::ExtendedVendorSpecific
        | DataType::Extended { .. }
        | DataType::Opaque => Value::Octets(Cow::Borrowed(octets)),
        DataType::Byte => Value::Unsigned(u8::from_be_bytes(fixed(octets).ok_or_else(|| length("1"))?).into()),
        DataType::Short => Value::Unsigned(u16::from_be_bytes(fixed(octets).ok_or_else(|| length("2"))?).into()),
        DataType::Integer => Value::Unsigned(u32::from_be_bytes(fixed(octets).ok_or_else(|| length("4"))?).into()),
        DataType::Integer64 => Value::Unsigned(u64::from_be_bytes(fixed(octets).ok_or_else(|| length("8"))?)),
        DataType::Signed => Value::Signed(i32::from_be_bytes(fixed(octets).ok_or_else(|| length("4"))?).into()),
        DataType::Date => Value::Date(u32::from_be_bytes(fixed(octets).ok_or_else(|| length("4"))?)),
        DataType::Ipv4 => Ipv4Addr::from(fixed::<4>(octets).ok_or_else(|| length("4"))?).into(),
        DataType::Ipv6 => Ipv6Addr::from(fixed::<16>(octets).ok_or_else(|| length("16"))?).into(),
        DataType::ComboIp => match (fixed::<4>(octets), fixed::<16>(octets)) {
            (Some(octets), _) => Ipv4Addr::from(octets).into(),
            (_, Some(octets)) => Ipv6Addr::from(octets).into(),
            _ => return Err(length("4 or 16")),
        },
        DataType::Ipv4Prefix => {
            // RFC 6572 section 4.1.3: a reserved octet, the length in bits, the address
            let [_reserved, bits, a, b, c, d] = fixed(octets).ok_or_else(|| length("6"))?;
            let prefix = Ipv4Net::new(Ipv4Addr::new(a, b, c, d), bits)
                .map_err(|_| ValueError(format!("prefix length {bits}: expected 0 to 32")))?;
            Value::Prefix(no_host_bits(prefix.into())?)
        }
        DataType::Ipv6Prefix => {
            let Some((&[_reserved, bits], prefix)) = octets.split_first_chunk() else {
                return Err(length("2 to 18"));
            };
            let mut address = [0; 16];
            address
                .get_mut(..prefix.len())
                .ok_or_else(|| length("2 to 18"))?
                .copy_from_slice(prefix);
            let prefix = Ipv6Net::new(address.into(), bits)
                .map_err(|_| ValueError(format!("prefix length {bits}: expected 0 to 128")))?;
            Value::Prefix(no_host_bits(prefix.into())?)
        }
        DataType::InterfaceId => Value::InterfaceId(fixed(octets).ok_or_else(|| length("8"))?),
        DataType::Ether => Value::Mac(MacAddress(fixed(octets).ok_or_else(|| length("6"))?)),
    })
}

/// Encodes a value to its octets (without attribute header, tag or hiding), appended to `out`, which an error leaves
/// as it was.
///
/// Empty text and empty octets are refused: RFC 2865 section 5 says that they "MUST NOT be sent".
pub fn encode(definition: &Definition, value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let refuse = || {
        Err(ValueError(format!(
            "a value of another type than `{}` has",
            definition.name
        )))
    };
    let limited = |number: u64, most: u64| {
        if number <= most {
            Ok(())
        } else {
            Err(ValueError(format!("{number} is too large: at most {most}")))
        }
    };
    match (definition.data_type, value) {
        (DataType::Text, Value::Text(text)) => not_empty(text.as_bytes(), out)?,
        (DataType::Octets(Some(length)), Value::Octets(octets)) if octets.len() != usize::from(length) => {
            return Err(ValueError(format!("{} octets: expected {length}", octets.len())));
        }
        (
            DataType::Octets(_)
            | DataType::AscendBinary
            | DataType::Tlv
            | DataType::VendorSpecific
            | DataType::ExtendedVendorSpecific
            | DataType::Extended { .. }
            | DataType::Opaque,
            Value::Octets(octets),
        ) => not_empty(octets, out)?,
        (DataType::Byte, Value::Unsigned(number)) => {
            limited(*number, 0xff)?;
            out.extend(number.to_be_bytes().last());
        }
        (DataType::Short, Value::Unsigned(number)) => {
            limited(*number, 0xffff)?;
            out.extend(number.to_be_bytes().last_chunk::<2>().into_iter().flatten());
        }
        (DataType::Integer, Value::Unsigned(number)) => {
            limited(*number, 0xffff_ffff)?;
            out.extend(number.to_be_bytes().last_chunk::<4>().into_iter().flatten());
        }
        (DataType::Integer64, Value::Unsigned(number)) => out.extend(number.to_be_bytes()),
        (DataType::Signed, Value::Signed(number)) => {
            let number =
                i32::try_from(*number).map_err(|_| ValueError(format!("{number} needs more than 4 octets")))?;
            out.extend(number.to_be_bytes());
        }
        (DataType::Date, Value::Date(seconds)) => out.extend(seconds.to_be_bytes()),
        (DataType::Ipv4 | DataType::ComboIp, Value::Address(IpAddr::V4(address))) => out.extend(address.octets()),
        (DataType::Ipv6 | DataType::ComboIp, Value::Address(IpAddr::V6(address))) => out.extend(address.octets()),
        (DataType::Ipv4Prefix, Value::Prefix(IpNet::V4(prefix))) => {
            out.extend([0, prefix.prefix_len()]);
            out.extend(prefix.network().octets());
        }
        (DataType::Ipv6Prefix, Value::Prefix(IpNet::V6(prefix))) => {
            out.extend([0, prefix.prefix_len()]);
            out.extend(prefix.network().octets());
        }
        (DataType::InterfaceId, Value::InterfaceId(octets)) => out.extend(octets),
        (DataType::Ether, Value::Mac(mac)) => out.extend(mac.0),
        _ => return refuse(),
    }
    Ok(())
}

fn not_empty(octets: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    if octets.is_empty() {
        return Err(ValueError(
            "an empty value can't be sent: leave the attribute out".into(),
        ));
    }
    out.extend_from_slice(octets);
    Ok(())
}

fn fixed<const N: usize>(octets: &[u8]) -> Option<[u8; N]> {
    octets.try_into().ok()
}

fn unsigned(definition: &Definition, text: &str, most: u64) -> Result<u64, ValueError> {
    let found = number(text).or_else(|| named(definition, text).and_then(|number| u64::try_from(number).ok()));
    match found {
        Some(number) if number <= most => Ok(number),
        Some(_) => Err(ValueError(format!(
            "`{}` is too large: expected 0 to {most}",
            shown(text)
        ))),
        None => Err(no_number(definition, text, &format!("0 to {most}"))),
    }
}

fn signed(definition: &Definition, text: &str) -> Result<i64, ValueError> {
    let magnitude = match text.strip_prefix('-') {
        Some(digits) => number(digits)
            .and_then(|number| i64::try_from(number).ok())
            .map(|number| -number),
        None => number(text).and_then(|number| i64::try_from(number).ok()),
    };
    magnitude
        .or_else(|| named(definition, text))
        .filter(|&number| i32::try_from(number).is_ok())
        .ok_or_else(|| no_number(definition, text, &format!("{} to {}", i32::MIN, i32::MAX)))
}

fn no_number(definition: &Definition, text: &str, range: &str) -> ValueError {
    let names: Vec<&str> = definition.values.iter().take(8).map(|(name, _)| &**name).collect();
    let more = if definition.values.len() > names.len() {
        " …"
    } else {
        ""
    };
    ValueError(if names.is_empty() {
        format!("`{}` is no number: expected {range}", shown(text))
    } else {
        format!(
            "`{}` is no value of `{}`: expected {range}, or {}{more}",
            shown(text),
            definition.name,
            names.join(", ")
        )
    })
}

/// A number, decimal or `0x` hexadecimal; digits only.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .map_or((text, 10), |digits| (digits, 16));
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

fn named(definition: &Definition, text: &str) -> Option<i64> {
    definition
        .values
        .iter()
        .rev()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
        .map(|(_, number)| *number)
}

/// The name to show for a number: one that `parse` won't take for another number.
fn name(definition: &Definition, value: i64) -> Option<&str> {
    let names = definition
        .values
        .iter()
        .rev()
        .filter(|(_, number)| *number == value)
        .map(|(name, _)| &**name);
    let looks_like_a_number = |name: &str| number(name.strip_prefix('-').unwrap_or(name)).is_some();
    names.into_iter().find(|name| !looks_like_a_number(name))
}

fn prefix(text: &str, what: &str, ipv6: bool) -> Result<IpNet, ValueError> {
    let no = || ValueError(format!("`{}` is no {what}", shown(text)));
    let prefix: IpNet = if text.contains('/') {
        text.parse().map_err(|_| no())?
    } else {
        text.parse::<IpAddr>().map_err(|_| no())?.into()
    };
    if matches!(prefix, IpNet::V6(_)) != ipv6 {
        return Err(no());
    }
    no_host_bits(prefix)
}

fn no_host_bits(prefix: IpNet) -> Result<IpNet, ValueError> {
    let network = prefix.trunc();
    if network == prefix {
        Ok(prefix)
    } else {
        Err(ValueError(format!(
            "prefix `{prefix}` has bits set outside of its length: expected `{network}`"
        )))
    }
}

fn interface_id(text: &str) -> Option<[u8; 8]> {
    let mut octets = [0; 8];
    let mut groups = text.split(':');
    for pair in octets.chunks_exact_mut(2) {
        let group = groups.next().filter(|group| (1..=4).contains(&group.len()))?;
        let digits = group.bytes().all(|octet| octet.is_ascii_hexdigit());
        pair.copy_from_slice(&u16::from_str_radix(group, 16).ok().filter(|_| digits)?.to_be_bytes());
    }
    groups.next().is_none().then_some(octets)
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |octet: u8| {
        char::from(octet)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?))
        .collect()
}

fn hex_text(octets: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(octets.len().saturating_mul(2).saturating_add(2));
    text.push_str("0x");
    for octet in octets {
        // writing to a String can't fail
        let _ = write!(text, "{octet:02x}");
    }
    text
}

/// Input as a message may quote it: short, on one line.
fn shown(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
