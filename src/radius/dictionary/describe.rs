//! An attribute in words, for `portreeve dict`, and what a mistyped name may have meant.

use std::fmt::Write;

use super::Dictionary;
use super::types::{AttributeId, DataType, Definition, Encryption, Parent};

/// Suggestions that one unknown name gets.
const MAX_SUGGESTIONS: usize = 3;

/// Why there is nothing to describe; one line, and a hint where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownAttribute(String);

/// What a dictionary knows of the attribute that `query` names: a name in any case, or a number (`81`, `26.9.1`,
/// `241.1`, the parts decimal or `0x` hexadecimal). Several lines, each with a line end.
pub fn describe(dictionary: &Dictionary, query: &str) -> Result<String, UnknownAttribute> {
    let query = query.trim();
    match dictionary.by_name(query).or_else(|| dictionary.by_oid(query)) {
        Some(id) => Ok(text(dictionary, id)),
        None => Err(UnknownAttribute(unknown(dictionary, query))),
    }
}

impl Dictionary {
    /// An attribute by its dotted number: `81`, `26.9.1`, `241.26.11344.1`.
    pub fn by_oid(&self, oid: &str) -> Option<AttributeId> {
        let mut parent = Some(Parent::Root);
        let mut container = None;
        let mut found = None;
        for part in oid.split('.') {
            let number = super::parser::number(part)?;
            match parent {
                // the vendor's number, after one that holds vendors
                None => {
                    parent = match container? {
                        (_, DataType::VendorSpecific) => Some(Parent::Vendor(number)),
                        (id, _) => Some(Parent::ExtendedVendor(id, number)),
                    };
                    found = None;
                }
                Some(at) => {
                    let id = self.by_number(at, number)?;
                    let data_type = self.definition(id).data_type;
                    container = Some((id, data_type));
                    parent = match data_type {
                        DataType::VendorSpecific | DataType::ExtendedVendorSpecific => None,
                        _ => Some(Parent::Attribute(id)),
                    };
                    found = Some(id);
                }
            }
        }
        found
    }

    /// Names that `name` may be a slip of, nearest first: at most three, none where nothing is near.
    pub fn suggest(&self, name: &str) -> Vec<&str> {
        let wanted = name.to_ascii_lowercase();
        if wanted.len() > super::parser::MAX_NAME {
            return Vec::new();
        }
        // one slip in four letters, and three at most
        let limit = (wanted.len() / 4).clamp(1, 3);
        let names = self.definitions.iter().map(|definition| &*definition.name);
        let mut near: Vec<(usize, &str)> = names
            .chain(self.aliases.iter().map(|(_, name)| &**name))
            .filter(|known| known.len().abs_diff(wanted.len()) <= limit)
            .map(|known| {
                (
                    distance(known.to_ascii_lowercase().as_bytes(), wanted.as_bytes()),
                    known,
                )
            })
            .filter(|(distance, _)| *distance <= limit)
            .collect();
        if near.is_empty() && wanted.len() >= 4 {
            // a beginning or an end of a name: `avpair` means `Cisco-AVPair`
            let parts = self
                .definitions
                .iter()
                .map(|definition| &*definition.name)
                .filter(|known| {
                    let known = known.to_ascii_lowercase();
                    known.ends_with(&wanted) || known.starts_with(&wanted)
                });
            near.extend(parts.map(|known| (known.len(), known)));
        }
        near.sort();
        near.dedup();
        near.into_iter().take(MAX_SUGGESTIONS).map(|(_, known)| known).collect()
    }
}

fn unknown(dictionary: &Dictionary, query: &str) -> String {
    let shown: String = query
        .chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if query.starts_with(|c: char| c.is_ascii_digit()) {
        return format!(
            "no attribute has the number `{shown}`\nhint: `[dictionaries] extra` loads more dictionaries; a vendor's attribute is 26.VENDOR.NUMBER"
        );
    }
    let suggestions = dictionary.suggest(query);
    let hint = if suggestions.is_empty() {
        "`[dictionaries] extra` loads more dictionaries".to_owned()
    } else {
        format!("did you mean `{}`?", suggestions.join("`, `"))
    };
    format!("unknown attribute `{shown}`\nhint: {hint}")
}

fn text(dictionary: &Dictionary, id: AttributeId) -> String {
    let definition = dictionary.definition(id);
    let mut text = format!("{}\n", definition.name);
    let mut line = |label: &str, value: &str| {
        // writing to a String can't fail
        let _ = writeln!(text, "  {label:<9} {value}");
    };
    match dictionary.oid(id) {
        Some(oid) => line("number", &oid),
        None if dictionary.is_fact(id) => line("number", "none: a fact that policies may ask for, never in a packet"),
        None => line("number", "none: internal to another server, never in a packet"),
    }
    line("type", &type_name(definition.data_type));
    let flags = flags(definition);
    if !flags.is_empty() {
        line("flags", &flags);
    }
    if let Parent::Vendor(vendor) | Parent::ExtendedVendor(_, vendor) = definition.parent {
        let name = dictionary.vendor_name(vendor).unwrap_or("unknown");
        line("vendor", &format!("{name} ({vendor})"));
    }
    let mut others: Vec<&str> = dictionary
        .aliases
        .iter()
        .filter(|(of, name)| *of == id && !name.eq_ignore_ascii_case(&definition.name))
        .filter(|(_, name)| dictionary.by_name(name) == Some(id))
        .map(|(_, name)| &**name)
        .collect();
    others.sort_unstable();
    others.dedup();
    if !others.is_empty() {
        line("also", &others.join(", "));
    }
    if let Some((file, number)) = dictionary.source(id) {
        line("defined", &format!("{file}:{number}"));
    }
    let current = dictionary.current(id);
    if current != id {
        let name = &dictionary.definition(current).name;
        line(
            "but",
            &format!("a later definition gave its number to {name}, and requests show that"),
        );
    }
    if !definition.values.is_empty() {
        line("values", "");
        let mut values: Vec<_> = definition.values.iter().collect();
        values.sort_by_key(|(_, number)| *number);
        let width = values.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, number) in values {
            let _ = writeln!(text, "    {name:<width$}  {number}");
        }
    }
    text
}

/// A type as a dictionary file writes it.
fn type_name(data_type: DataType) -> String {
    match data_type {
        DataType::Text => "string",
        DataType::Octets(None) => "octets",
        DataType::Octets(Some(length)) => return format!("octets[{length}]"),
        DataType::Byte => "byte",
        DataType::Short => "short",
        DataType::Integer => "integer",
        DataType::Integer64 => "integer64",
        DataType::Signed => "signed",
        DataType::Date => "date",
        DataType::Ipv4 => "ipaddr",
        DataType::Ipv4Prefix => "ipv4prefix",
        DataType::Ipv6 => "ipv6addr",
        DataType::Ipv6Prefix => "ipv6prefix",
        DataType::ComboIp => "combo-ip",
        DataType::InterfaceId => "ifid",
        DataType::Ether => "ether",
        DataType::AscendBinary => "abinary",
        DataType::Tlv => "tlv",
        DataType::VendorSpecific => "vsa",
        DataType::ExtendedVendorSpecific => "evs",
        DataType::Extended { long: false } => "extended",
        DataType::Extended { long: true } => "long-extended",
        DataType::Opaque => "octets (of a type that is not decoded)",
    }
    .into()
}

fn flags(definition: &Definition) -> String {
    let flags = definition.flags;
    let encryption = match flags.encryption {
        Encryption::None => None,
        Encryption::UserPassword => Some("hidden as User-Password is"),
        Encryption::TunnelPassword => Some("hidden as Tunnel-Password is"),
        Encryption::AscendSecret => Some("hidden as Ascend's secrets are"),
    };
    let words = [
        flags.has_tag.then_some("tagged"),
        encryption,
        flags.concat.then_some("joined over several attributes"),
        flags.array.then_some("several values in one attribute"),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Edit distance (Levenshtein) of two short texts.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            left = best;
            *cell = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
