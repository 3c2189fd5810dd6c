//! Rules and responses as one line of text, both ways: `NAS-Port-Type == Ethernet`, `Tunnel-Type:1 = VLAN`.
//!
//! The value is the rest of the line, without the white space around it. One that text could not carry so (empty, white
//! space at an end, control characters, a `"` in front) is written as one quoted string, in which `\"`, `\\`, `\n`,
//! `\r`, `\t` and `\xNN` (the character of that number) stand for one character. What is written reads back to the same row.
//!
//! A list (`in`, `not-in`) is values with commas between, in brackets or not: `[a, b]`. An item that holds a comma, a
//! quote or white space at an end is quoted, and the list then goes into brackets.

use super::model::{ResponseRow, Rule};
use super::operator::Operator;

/// Why a text is no rule, response or list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Nothing but white space.
    #[error("an empty line\nhint: write `Attribute operator value`")]
    Empty,
    /// A rule without an operator.
    #[error("`{0}` has no operator\nhint: write `{0} == value`, or `{0} present`")]
    NoOperator(String),
    /// The operator is none.
    #[error("`{0}` is no operator\nhint: {hint}", hint = operator_hint(.0))]
    UnknownOperator(String),
    /// An operator that compares, and nothing to compare with.
    #[error("`{0}` needs a value\nhint: write `\"\"` for an empty one")]
    NoValue(String),
    /// `present` or `absent` with a value.
    #[error("`{0}` takes no value, but `{1}` follows\nhint: compare with `==`")]
    ValueNotTaken(String, String),
    /// A response without `=`.
    #[error("`{0}` has no `=`\nhint: write `Attribute = value` or `Attribute:tag = value`")]
    NoEquals(String),
    /// A `"` that is never closed, or a wrong escape.
    #[error("the quoted string `{0}` does not end\nhint: close it with `\"`, and write `\\\"` for a quote inside")]
    Unterminated(String),
    /// Text after a quoted string.
    #[error("`{0}` follows the closing quote\nhint: quote the whole value, and put a list of quoted items in brackets")]
    AfterQuote(String),
    /// A backslash in a quoted string with an unknown letter after it.
    #[error("`\\{0}` is no escape\nhint: write `\\\\` for a backslash in a quoted string")]
    Escape(String),
    /// A list with nothing between two commas, or none at all.
    #[error("an empty item in the list `{0}`\nhint: write `[a, b]`, and `\"\"` for an empty item")]
    EmptyItem(String),
    /// `[` without `]`.
    #[error("the list `{0}` does not end\nhint: close it with `]`")]
    UnterminatedList(String),
}

fn operator_hint(wrong: &str) -> String {
    match wrong {
        "=" => "write `==`".to_owned(),
        _ => {
            let words: Vec<_> = Operator::all().map(Operator::word).collect();
            format!("one of {}", words.join(", "))
        }
    }
}

impl std::str::FromStr for Rule {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Rule, TextError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TextError::Empty);
        }
        let (attribute, rest) = split_before(text, |c| c.is_whitespace() || is_symbol(c));
        let rest = rest.trim_start();
        let (word, rest) = match rest.starts_with(is_symbol) {
            true => split_before(rest, |c| !is_symbol(c)),
            false => split_before(rest, char::is_whitespace),
        };
        if word.is_empty() || attribute.is_empty() {
            return Err(TextError::NoOperator(text.to_owned()));
        }
        let operator = Operator::parse(word).ok_or_else(|| TextError::UnknownOperator(word.to_owned()))?;
        let rest = rest.trim_start();
        let value = match (operator.takes_value(), rest.is_empty()) {
            (false, true) => String::new(),
            (false, false) => return Err(TextError::ValueNotTaken(word.to_owned(), rest.to_owned())),
            (true, true) => return Err(TextError::NoValue(format!("{attribute} {word}"))),
            (true, false) => unquote(rest)?,
        };
        Ok(Rule {
            attribute: attribute.to_owned(),
            operator: operator.word().to_owned(),
            value,
        })
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let operator = Operator::parse(&self.operator);
        match operator {
            Some(operator) => write!(f, "{} {}", self.attribute, operator.symbol())?,
            None => write!(f, "{} {}", self.attribute, self.operator)?,
        }
        match operator.is_some_and(|operator| !operator.takes_value()) && self.value.is_empty() {
            true => Ok(()),
            false => write!(f, " {}", quote(&self.value)),
        }
    }
}

impl std::str::FromStr for ResponseRow {
    type Err = TextError;

    fn from_str(text: &str) -> Result<ResponseRow, TextError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TextError::Empty);
        }
        let (attribute, value) = text
            .split_once('=')
            .ok_or_else(|| TextError::NoEquals(text.to_owned()))?;
        let (attribute, value) = (attribute.trim(), value.trim());
        if attribute.is_empty() || attribute.contains(char::is_whitespace) {
            return Err(TextError::NoEquals(text.to_owned()));
        }
        if value.is_empty() {
            return Err(TextError::NoValue(format!("{attribute} =")));
        }
        Ok(ResponseRow {
            attribute: attribute.to_owned(),
            value: unquote(value)?,
        })
    }
}

impl std::fmt::Display for ResponseRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.attribute, quote(&self.value))
    }
}

/// The items of a list, `[a, b]` or `a, b`, unquoted.
pub fn list(text: &str) -> Result<Vec<String>, TextError> {
    let whole = text.trim();
    let mut rest = match whole.strip_prefix('[') {
        Some(inner) => inner
            .strip_suffix(']')
            .ok_or_else(|| TextError::UnterminatedList(whole.to_owned()))?,
        None => whole,
    };
    let mut items = Vec::new();
    loop {
        rest = rest.trim_start();
        let after = if rest.starts_with('"') {
            let (item, after) = quoted(rest)?;
            items.push(item);
            after.trim_start()
        } else {
            let (item, after) = split_before(rest, |c| c == ',');
            if item.trim_end().is_empty() {
                return Err(TextError::EmptyItem(whole.to_owned()));
            }
            items.push(item.trim_end().to_owned());
            after
        };
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(items),
            None => return Err(TextError::AfterQuote(after.to_owned())),
        }
    }
}

/// A value as text: itself, or one quoted string where a line could not carry it.
pub fn quote(value: &str) -> String {
    let plain = !value.is_empty()
        && !value.starts_with('"')
        && !value.starts_with(char::is_whitespace)
        && !value.ends_with(char::is_whitespace)
        && !value.contains(char::is_control);
    if plain {
        return value.to_owned();
    }
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Reads [`quote`] back.
pub fn unquote(text: &str) -> Result<String, TextError> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    match quoted(text)? {
        (value, "") => Ok(value),
        (_, after) => Err(TextError::AfterQuote(after.to_owned())),
    }
}

/// The quoted string that `text` begins with, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), TextError> {
    let unterminated = || TextError::Unterminated(text.to_owned());
    let mut value = String::new();
    let mut rest = text.strip_prefix('"').ok_or_else(unterminated)?.chars();
    loop {
        match rest.next().ok_or_else(unterminated)? {
            '"' => return Ok((value, rest.as_str())),
            '\\' => value.push(match rest.next().ok_or_else(unterminated)? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c @ ('"' | '\\') => c,
                'x' => {
                    let digits: String = rest.by_ref().take(2).collect();
                    let code = match digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                        true => u8::from_str_radix(&digits, 16).ok(),
                        false => None,
                    };
                    code.ok_or_else(|| TextError::Escape(format!("x{digits}")))?.into()
                }
                c => return Err(TextError::Escape(c.to_string())),
            }),
            c => value.push(c),
        }
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '<' | '>' | '~')
}

fn split_before(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.find(stop)
        .and_then(|at| text.split_at_checked(at))
        .unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> (String, String, String) {
        let rule: Rule = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (rule.attribute, rule.operator, rule.value)
    }

    fn triple(attribute: &str, operator: &str, value: &str) -> (String, String, String) {
        (attribute.to_owned(), operator.to_owned(), value.to_owned())
    }

    #[test]
    fn rule_2_6_lines() {
        for (text, attribute, operator, value) in [
            ("NAS-Port-Type == Ethernet", "NAS-Port-Type", "equals", "Ethernet"),
            ("NAS-Port-Type==Ethernet", "NAS-Port-Type", "equals", "Ethernet"),
            (
                "  NAS-Port-Type   equals   Ethernet  ",
                "NAS-Port-Type",
                "equals",
                "Ethernet",
            ),
            ("User-Name starts-with host/", "User-Name", "starts-with", "host/"),
            ("SSID == Guest \"Wifi\"", "SSID", "equals", "Guest \"Wifi\""),
            ("SSID == \" a\\t\"", "SSID", "equals", " a\t"),
            ("SSID != \"\"", "SSID", "not-equals", ""),
            ("Called-Station-Id in [a, b]", "Called-Station-Id", "in", "[a, b]"),
            (
                "Framed-IP-Address in 10.0.0.0/8, 192.168.0.0/16",
                "Framed-IP-Address",
                "in",
                "10.0.0.0/8, 192.168.0.0/16",
            ),
            (
                "TLS-Client-Cert-Serial present",
                "TLS-Client-Cert-Serial",
                "present",
                "",
            ),
            ("Time-Of-Day >= 08:00", "Time-Of-Day", "at-least", "08:00"),
            (
                "User-Name =~ ^host/.*\\.example$",
                "User-Name",
                "matches",
                "^host/.*\\.example$",
            ),
        ] {
            assert_eq!(rule(text), triple(attribute, operator, value), "{text}");
        }
    }

    #[test]
    fn what_is_no_rule() {
        for (text, part) in [
            ("", "empty line"),
            ("   ", "empty line"),
            ("NAS-Port-Type", "no operator"),
            ("== 5", "no operator"),
            ("NAS-Port-Type = Ethernet", "`==`"),
            ("NAS-Port-Type like Ethernet", "`like` is no operator"),
            ("NAS-Port-Type ==", "needs a value"),
            ("SSID present yes", "takes no value"),
            ("SSID == \"abc", "does not end"),
            ("SSID == \"a\" b", "follows the closing quote"),
            ("SSID == \"\\q\"", "no escape"),
            ("SSID == \"\\xf\"", "no escape"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("hint: "), "{text}: {error}");
        }
    }

    #[test]
    fn rule_2_10_response_lines() {
        let row: ResponseRow = "Tunnel-Private-Group-Id:1 = 120".parse().unwrap();
        assert_eq!(
            (row.attribute.as_str(), row.value.as_str()),
            ("Tunnel-Private-Group-Id:1", "120")
        );
        let row: ResponseRow = "Cisco-AVPair=ip:inacl#10=permit ip any any".parse().unwrap();
        assert_eq!(
            (row.attribute.as_str(), row.value.as_str()),
            ("Cisco-AVPair", "ip:inacl#10=permit ip any any")
        );
        for text in ["", "Filter-Id", "Filter-Id =", "= x", "Filter Id = x", "Filter-Id := x"] {
            assert!(text.parse::<ResponseRow>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists() {
        for (text, items) in [
            ("a", vec!["a"]),
            ("a, b", vec!["a", "b"]),
            ("[a,b c ]", vec!["a", "b c"]),
            ("[\"a, b\", c, \"\"]", vec!["a, b", "c", ""]),
        ] {
            assert_eq!(list(text).unwrap(), items, "{text}");
        }
        for text in ["", "[]", "a,", ",a", "a,,b", "[a", "[\"a\" b]", "\"a"] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn rules_read_back(attribute in "[A-Za-z0-9.:_-]{1,20}", at in 0_usize..16, value in any::<String>()) {
            let operator = Operator::all().nth(at).unwrap();
            let value = if operator.takes_value() { value } else { String::new() };
            let rule = Rule { attribute, operator: operator.word().to_owned(), value };
            prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }

        #[test]
        fn responses_read_back(attribute in "[A-Za-z0-9.:_-]{1,20}", value in any::<String>()) {
            let row = ResponseRow { attribute, value };
            prop_assert_eq!(row.to_string().parse::<ResponseRow>(), Ok(row));
        }

        #[test]
        fn arbitrary_text_never_panics(text in any::<String>(), policy_like in "[A-Za-z]{1,3}[ =!<>~\"\\\\x\\[\\],]{1,12}") {
            for text in [text, policy_like] {
                let _ = text.parse::<Rule>();
                let _ = text.parse::<ResponseRow>();
                let _ = list(&text);
                let _ = unquote(&text);
            }
        }
    }
}
