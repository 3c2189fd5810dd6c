//! Octets from the network as text that cannot break a line, a JSON document or a terminal.

/// Appends `octets` as a JSON string, quotes included. Control characters, and characters that reorder or break lines,
/// become `\uNNNN`; octets that are no UTF-8 become the text `\xNN`.
pub fn json_string(octets: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if are_all(octets, is_plain) {
        out.extend_from_slice(octets);
    } else {
        for chunk in octets.utf8_chunks() {
            for character in chunk.valid().chars() {
                json_character(character, out);
            }
            for octet in chunk.invalid() {
                out.extend_from_slice(b"\\\\x");
                hexadecimal(u32::from(*octet), 2, out);
            }
        }
    }
    out.push(b'"');
}

/// Appends `octets` as they are where they can be taken for nothing else in a `key=value` line, and as a JSON string
/// where not.
pub fn word(octets: &[u8], out: &mut Vec<u8>) {
    let is_safe = |octet| is_plain(octet) & (octet != b' ') & (octet != b'=') & (octet != b'\'');
    if !octets.is_empty() && are_all(octets, is_safe) {
        out.extend_from_slice(octets);
    } else {
        json_string(octets, out);
    }
}

/// `text` for a terminal: control characters, line ends apart, become `\u{…}`.
pub fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\n' && is_dangerous(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

fn json_character(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        character if is_dangerous(character) => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(b"\\u");
                hexadecimal(u32::from(*unit), 4, out);
            }
        }
        character => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Printable ASCII that JSON needs no escape for.
fn is_plain(octet: u8) -> bool {
    (b' '..=b'~').contains(&octet) & (octet != b'"') & (octet != b'\\')
}

/// Whether all octets are such; looks at eight at a time.
fn are_all(octets: &[u8], is_such: impl Fn(u8) -> bool) -> bool {
    let (eights, rest) = octets.as_chunks::<8>();
    eights
        .iter()
        .all(|eight| eight.iter().fold(true, |all, octet| all & is_such(*octet)))
        && rest.iter().all(|octet| is_such(*octet))
}

/// C0, C1 and DEL; line and paragraph separators; what turns the direction of writing, or is not to be seen.
fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(character, '\u{e0000}'..='\u{e007f}')
}

fn hexadecimal(value: u32, digits: u32, out: &mut Vec<u8>) {
    for shift in (0..digits).rev() {
        let digit = (value >> (shift * 4)) & 0xF;
        out.extend(char::from_digit(digit, 16).map(|digit| digit as u8));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(octets: &[u8]) -> String {
        let mut out = Vec::new();
        json_string(octets, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_gets_through_that_breaks_a_line_or_a_terminal() {
        assert_eq!(json(b"laptop-7"), r#""laptop-7""#);
        assert_eq!(json(b"a\"b\\c\nd\re\tf"), r#""a\"b\\c\nd\re\tf""#);
        assert_eq!(json(b"\x00\x1b[31m\x7f"), r#""\u0000\u001b[31m\u007f""#);
        assert_eq!(
            json("\u{9b}31m \u{202e}txt \u{2028}".as_bytes()),
            r#""\u009b31m \u202etxt \u2028""#
        );
        assert_eq!(json("\u{e0041}".as_bytes()), r#""\udb40\udc41""#);
        assert_eq!(json("Zürich 日本".as_bytes()), "\"Zürich 日本\"");
        assert_eq!(json(b"\xff\xfe"), r#""\\xff\\xfe""#);
    }

    #[test]
    fn a_word_is_quoted_when_it_could_be_taken_for_more() {
        for (octets, expected) in [
            (&b"Gi1/0/12"[..], "Gi1/0/12"),
            (b"", "\"\""),
            (b"a b", "\"a b\""),
            (b"x outcome=accept", "\"x outcome=accept\""),
            (b"x\noutcome=accept", "\"x\\noutcome=accept\""),
            (b"a=b", "\"a=b\""),
        ] {
            let mut out = Vec::new();
            word(octets, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        assert_eq!(terminal("a\nb\x1b[0m"), "a\nb\\u{1b}[0m");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_octets_become_one_line_of_json(octets: Vec<u8>) {
            let text = json(&octets);
            prop_assert!(!text.chars().any(|character| character.is_control()));
            let back: String = serde_json::from_str(&text).unwrap();
            if let Ok(original) = std::str::from_utf8(&octets) {
                prop_assert_eq!(back, original);
            }
        }
    }
}
