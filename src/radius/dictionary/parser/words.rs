//! The words of a line: types, flags, formats, names and numbers.

use super::super::types::{DataType, Encryption, Flags, VendorFormat};
use super::MAX_NAME;

/// What the type and the flags of an ATTRIBUTE line say.
pub(super) struct Options {
    pub data_type: DataType,
    pub flags: Flags,
    /// `enum=name`: the values of that name are this attribute's.
    pub shared: Option<String>,
    /// A flag that this software knows and can't follow.
    pub note: Option<String>,
}

pub(super) fn options(type_name: &str, words: &[&str]) -> Result<Options, String> {
    let mut data_type = data_type(type_name).ok_or_else(|| format!("unknown type `{}`", shown(type_name)))?;
    let mut flags = Flags::default();
    let mut shared = None;
    let mut note = None;
    for option in words
        .iter()
        .flat_map(|words| words.split(','))
        .filter(|option| !option.is_empty())
    {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match (key.to_ascii_lowercase().as_str(), value.to_ascii_lowercase().as_str()) {
            ("has_tag", "") => flags.has_tag = true,
            ("concat", "") => flags.concat = true,
            ("array", "") => flags.array = true,
            ("virtual" | "internal", "") => flags.internal = true,
            ("encrypt", "1" | "user-password") => flags.encryption = Encryption::UserPassword,
            ("encrypt", "2" | "tunnel-password") => flags.encryption = Encryption::TunnelPassword,
            ("encrypt", "3" | "ascend-secret") => flags.encryption = Encryption::AscendSecret,
            ("extended", "") => data_type = DataType::Extended { long: false },
            ("long" | "long_extended" | "long-extended", "") => data_type = DataType::Extended { long: true },
            ("abinary", "") => data_type = DataType::AscendBinary,
            ("enum", name) if !name.is_empty() => shared = Some(name.into()),
            // about printing and adding up: nothing that this software does with a value
            ("secret" | "counter", "") => {}
            ("clone" | "ref" | "length" | "offset" | "precision" | "subtype" | "key", _) => {
                note = Some(format!(
                    "flag `{}` is not followed: the octets stay with the attribute",
                    shown(option)
                ));
            }
            _ => return Err(format!("unknown flag `{}`", shown(option))),
        }
    }
    Ok(Options {
        data_type,
        flags,
        shared,
        note,
    })
}

fn data_type(name: &str) -> Option<DataType> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "string" | "text" => DataType::Text,
        "octets" => DataType::Octets(None),
        "byte" | "uint8" | "bool" => DataType::Byte,
        "short" | "uint16" => DataType::Short,
        "integer" | "uint32" | "time_delta" => DataType::Integer,
        "integer64" | "uint64" => DataType::Integer64,
        "signed" | "int32" => DataType::Signed,
        "date" => DataType::Date,
        "ipaddr" | "ipv4addr" => DataType::Ipv4,
        "ipv4prefix" => DataType::Ipv4Prefix,
        "ipv6addr" => DataType::Ipv6,
        "ipv6prefix" => DataType::Ipv6Prefix,
        "combo-ip" | "combo_ip" => DataType::ComboIp,
        "ifid" => DataType::InterfaceId,
        "ether" | "ethernet" => DataType::Ether,
        "abinary" => DataType::AscendBinary,
        "tlv" => DataType::Tlv,
        "vsa" => DataType::VendorSpecific,
        "evs" => DataType::ExtendedVendorSpecific,
        "extended" => DataType::Extended { long: false },
        "long-extended" | "long_extended" => DataType::Extended { long: true },
        "struct" | "union" | "group" | "vendor" | "int8" | "int16" | "int64" | "float32" | "float64" | "size"
        | "combo-prefix" | "combo-ip-prefix" | "attribute" | "void" | "null" => DataType::Opaque,
        _ => {
            let (base, length) = lower.strip_suffix(']')?.split_once('[')?;
            let length = length
                .parse::<u16>()
                .ok()
                .filter(|length| (1..=4_096).contains(length))?;
            match base {
                "octets" => DataType::Octets(Some(length)),
                "string" => DataType::Text,
                "struct" => DataType::Opaque,
                _ => return None,
            }
        }
    })
}

/// `format=` of a vendor: `type,length[,c]`.
pub(super) fn vendor_format(text: &str) -> Option<VendorFormat> {
    let mut parts = text.split(',');
    let type_octets = parts
        .next()?
        .parse()
        .ok()
        .filter(|octets| matches!(octets, 1 | 2 | 4))?;
    let length_octets = parts.next()?.parse().ok().filter(|octets| matches!(octets, 0..=2))?;
    let continuation = match parts.next() {
        None => false,
        // WiMAX's octet is defined with one octet of type and one of length only
        Some("c") if (type_octets, length_octets) == (1, 1) => true,
        Some(_) => return None,
    };
    parts.next().is_none().then_some(VendorFormat {
        type_octets,
        length_octets,
        continuation,
    })
}

/// The first `N` words of a line, and what follows them.
pub(super) fn first<'w, 'a, const N: usize>(
    words: &'w [&'a str],
    expected: &str,
) -> Result<(&'w [&'a str; N], &'w [&'a str]), String> {
    words
        .split_first_chunk::<N>()
        .ok_or_else(|| format!("expected `{expected}`"))
}

pub(super) fn name(name: &str) -> Result<&str, String> {
    if name.len() <= MAX_NAME && name.bytes().all(|octet| octet.is_ascii_graphic()) {
        Ok(name)
    } else {
        Err(format!(
            "`{}` is no name: expected 1 to {MAX_NAME} ASCII characters",
            shown(name)
        ))
    }
}

/// A number of 32 bits, decimal or `0x` hexadecimal.
pub(in super::super) fn number(text: &str) -> Option<u32> {
    u32::try_from(signed(text)?).ok()
}

/// A number with an optional sign, decimal or `0x` hexadecimal.
pub(super) fn signed(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .map_or((digits, 10), |digits| (digits, 16));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

/// Input as a message may quote it: short, on one line.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
