//! A packet's attributes as lines of text, for people: `Tunnel-Private-Group-Id:1 = "120"`.
//!
//! What the dictionary does not know is shown by number (`Attr-26.9.250 = 0x0102`), what is malformed with the reason.
//! Passwords and keys are shown as `hidden`, unless the caller reveals them.

use super::attribute::{Found, Malformed, Revealing, visit};
use super::dictionary::Dictionary;
use super::dictionary::types::{Parent, Value};
use super::packet::Packet;
use super::value;

/// One line for each value of the packet, in its order.
pub fn attributes(dictionary: &Dictionary, packet: &Packet<'_>, revealing: Option<Revealing<'_>>) -> Vec<String> {
    let mut lines = Vec::new();
    visit(dictionary, packet, revealing, &mut |found| {
        lines.push(line(dictionary, found))
    });
    lines
}

/// One line.
pub fn line(dictionary: &Dictionary, found: Found<'_>) -> String {
    match found {
        Found::Known { id, tag, value } => {
            let definition = dictionary.definition(id);
            let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
            let value = match value {
                Ok(Value::Text(text)) => quoted(&text),
                Ok(value) => value::display(definition, &value),
                Err(Malformed::Hidden) => "hidden".to_owned(),
                Err(reason) => format!("malformed ({reason})"),
            };
            format!("{}{tag} = {value}", definition.name)
        }
        Found::Unknown { parent, number, octets } => {
            let space = match parent {
                Parent::Vendor(vendor) => format!("26.{vendor}."),
                Parent::Attribute(container) => format!("{}.", dictionary.oid(container).unwrap_or_default()),
                Parent::ExtendedVendor(container, vendor) => {
                    format!("{}.{vendor}.", dictionary.oid(container).unwrap_or_default())
                }
                Parent::Root | Parent::Internal => String::new(),
            };
            let oid = match number {
                Some(number) => format!("{space}{number}"),
                None => space.trim_end_matches('.').to_owned(),
            };
            let octets: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("Attr-{oid} = 0x{octets}")
        }
    }
}

/// Text in quotes, with quotes, backslashes and control characters escaped as Rust does.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.extend(control.escape_default()),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_on_one_line() {
        assert_eq!(quoted("bob"), "\"bob\"");
        assert_eq!(quoted("a\"b\\c\nd\u{1b}é"), "\"a\\\"b\\\\c\\nd\\u{1b}é\"");
    }
}
