//! One rule's test, compiled: an operator and a value, typed by the attribute they are for.
//!
//! Which operators there are for which type, and what they compare (rules 2.6 and 2.7):
//!
//! | type | `equals` `in` | `contains` `starts-with` `ends-with` `matches` | `less-than` … `at-least` |
//! |---|---|---|---|
//! | text | with case | with case | only Time-Of-Day |
//! | User-Name, Called- and Calling-Station-Id | MACs in one form, the rest with case | as left | no |
//! | number, date | as numbers, by name too | as displayed (no dates) | as numbers |
//! | address | by value, `in` networks | as displayed | no |
//! | prefix | by value, `in` networks that contain it | as displayed | no |
//! | interface identifier | by value | as displayed | no |
//! | MAC (`ether`) | by value | in the form `aa-bb-cc-dd-ee-ff` | no |
//! | octets | by value | octets, without `matches` | no |
//!
//! A value whose type is not the attribute's (facts can come from anywhere) counts as malformed.

mod build;

use ipnet::IpNet;
use memchr::memmem;
use regex::Regex;

use super::compact::{Number, Short};
use super::macs::{self, Inline, Room};
use super::text;
use crate::radius::dictionary::types::Value;

/// Octets that a rule's value may have.
pub const MAX_VALUE: usize = 65_536;
/// Octets that a regular expression may have.
pub const MAX_PATTERN: usize = 4_096;
/// Octets that a compiled regular expression may take, and its cache of states.
pub const MAX_COMPILED_PATTERN: usize = 256 * 1024;

/// What is wrong with a rule or a response, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, with the input quoted.
    pub problem: String,
    /// What to do; may be empty.
    pub hint: String,
}

impl Problem {
    pub(super) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem {
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}

impl From<text::TextError> for Problem {
    fn from(error: text::TextError) -> Problem {
        let text = error.to_string();
        let (problem, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        Problem::new(problem, hint)
    }
}

/// A positive operator with its value. Complements are the rule's.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Any value will do.
    Present,
    /// Of text.
    Text(TextTest),
    /// Of text that may be a MAC: the plain reading of the rule's value, and its reading as a MAC or a piece of one.
    MacText(Box<(TextTest, Option<TextTest>)>),
    /// Of a MAC's form `aa-bb-cc-dd-ee-ff`.
    Mac(TextTest),
    /// Of octets.
    Octets(OctetsTest),
    /// Of a number or date.
    Number(NumberTest),
    /// Of `HH:MM`, in minutes.
    Time(NumberTest),
    /// Of a number's text: what holds for each number that has a name, and the test for those that have none.
    NumberText(Box<(Vec<(i128, bool)>, TextTest)>),
    /// Of an address, or of a prefix: in one of the networks.
    Networks(Box<[IpNet]>),
    /// Of the text form of an address, prefix or interface identifier.
    Displayed(TextTest),
}

/// A test of text.
#[derive(Clone, Debug, PartialEq)]
pub enum TextTest {
    /// The same text.
    Equals(Short),
    /// Any of these, in order.
    In(Box<[Box<str>]>),
    /// It stands somewhere in it.
    Contains(Short),
    /// It begins with it.
    StartsWith(Short),
    /// It ends with it.
    EndsWith(Short),
    /// The pattern is found in it.
    Matches(Box<Pattern>),
}

/// A compiled regular expression; equal to one of the same text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Pattern {
    /// Its text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// A test of octets.
#[derive(Clone, Debug, PartialEq)]
pub enum OctetsTest {
    /// One of these.
    In(Box<[Box<[u8]>]>),
    /// They stand somewhere in it.
    Contains(Box<[u8]>),
    /// It begins with them.
    StartsWith(Box<[u8]>),
    /// It ends with them.
    EndsWith(Box<[u8]>),
}

/// A test of a number.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberTest {
    /// The same.
    Equals(Number),
    /// Any of these, in order.
    In(Box<[i128]>),
    /// Below.
    LessThan(Number),
    /// Below or the same.
    AtMost(Number),
    /// Above.
    GreaterThan(Number),
    /// Above or the same.
    AtLeast(Number),
}

impl Condition {
    /// Whether a value satisfies it; `None` where the value is of a type that the attribute does not have.
    pub fn holds(&self, value: &Value<'_>) -> Option<bool> {
        Some(match (self, value) {
            (Condition::Present, _) => true,
            (Condition::Text(test), Value::Text(text)) => test.holds(text),
            (Condition::MacText(tests), Value::Text(text)) => {
                let (plain, mac) = &**tests;
                match macs::normal(text, &mut Room::new()) {
                    Some(normal) => plain.holds(&normal) || mac.as_ref().is_some_and(|test| test.holds(&normal)),
                    None => plain.holds(text),
                }
            }
            (Condition::Mac(test), Value::Mac(mac)) => displayed(test, mac),
            (Condition::Octets(test), Value::Octets(octets)) => test.holds(octets),
            (Condition::Number(test), value) => test.holds(as_number(value)?),
            (Condition::NumberText(tests), value) => {
                let (named, test) = &**tests;
                let number = as_number(value)?;
                match named.binary_search_by_key(&number, |(number, _)| *number) {
                    Ok(at) => named.get(at).is_some_and(|(_, holds)| *holds),
                    Err(_) => displayed(test, &number),
                }
            }
            (Condition::Time(test), Value::Text(text)) => test.holds(minutes(text)?),
            (Condition::Networks(networks), Value::Address(address)) => {
                networks.iter().any(|network| network.contains(address))
            }
            (Condition::Networks(networks), Value::Prefix(prefix)) => {
                networks.iter().any(|network| network.contains(prefix))
            }
            (Condition::Displayed(test), Value::Address(address)) => displayed(test, address),
            (Condition::Displayed(test), Value::Prefix(prefix)) => displayed(test, prefix),
            (Condition::Displayed(test), Value::InterfaceId(octets)) => {
                let [a, b, c, d] = [[0, 1], [2, 3], [4, 5], [6, 7]]
                    .map(|pair| pair.map(|at: usize| octets.get(at).copied().unwrap_or_default()))
                    .map(u16::from_be_bytes);
                displayed(test, &format_args!("{a:04x}:{b:04x}:{c:04x}:{d:04x}"))
            }
            _ => return None,
        })
    }
}

impl TextTest {
    /// Whether a text satisfies it.
    pub fn holds(&self, text: &str) -> bool {
        match self {
            TextTest::Equals(value) => text.as_bytes() == value.as_bytes(),
            TextTest::In(values) => values.binary_search_by(|value| (**value).cmp(text)).is_ok(),
            // What is UTF-8 stands in UTF-8 only where a character begins: octets do.
            TextTest::Contains(value) => memmem::find(text.as_bytes(), value.as_bytes()).is_some(),
            TextTest::StartsWith(value) => text.as_bytes().starts_with(value.as_bytes()),
            TextTest::EndsWith(value) => text.as_bytes().ends_with(value.as_bytes()),
            TextTest::Matches(pattern) => pattern.0.is_match(text),
        }
    }
}

impl OctetsTest {
    fn holds(&self, octets: &[u8]) -> bool {
        match self {
            OctetsTest::In(values) => values.iter().any(|value| **value == *octets),
            OctetsTest::Contains(value) => memmem::find(octets, value).is_some(),
            OctetsTest::StartsWith(value) => octets.starts_with(value),
            OctetsTest::EndsWith(value) => octets.ends_with(value),
        }
    }
}

impl NumberTest {
    fn holds(&self, number: i128) -> bool {
        match self {
            NumberTest::Equals(value) => number == value.get(),
            NumberTest::In(values) => values.binary_search(&number).is_ok(),
            NumberTest::LessThan(value) => number < value.get(),
            NumberTest::AtMost(value) => number <= value.get(),
            NumberTest::GreaterThan(value) => number > value.get(),
            NumberTest::AtLeast(value) => number >= value.get(),
        }
    }
}

/// Runs a test over a value's text, which is short, without allocating.
fn displayed(test: &TextTest, value: &dyn std::fmt::Display) -> bool {
    let mut room = Inline::<64>::new();
    match std::fmt::Write::write_fmt(&mut room, format_args!("{value}")) {
        Ok(()) => test.holds(room.as_str()),
        Err(_) => test.holds(&value.to_string()),
    }
}

fn as_number(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Unsigned(number) => Some((*number).into()),
        Value::Signed(number) => Some((*number).into()),
        Value::Date(seconds) => Some((*seconds).into()),
        _ => None,
    }
}

/// Whether whatever satisfies `special` satisfies `general` too, as far as that is easily seen.
pub fn implies(special: &Condition, general: &Condition) -> bool {
    if special == general || *general == Condition::Present {
        return true;
    }
    let text = |text: &str| general.holds(&Value::Text(text.into())) == Some(true);
    let number = |number: i128| {
        let unsigned = u64::try_from(number).is_ok_and(|n| general.holds(&Value::Unsigned(n)) == Some(true));
        let signed = i64::try_from(number).is_ok_and(|n| general.holds(&Value::Signed(n)) == Some(true));
        matches!(general, Condition::Number(_)) && (unsigned || signed)
    };
    match special {
        Condition::Text(TextTest::Equals(value)) => text(value.as_str()),
        Condition::Text(TextTest::In(values)) => values.iter().all(|value| text(value)),
        Condition::MacText(tests) => match &tests.0 {
            TextTest::Equals(value) => text(value.as_str()),
            TextTest::In(values) => values.iter().all(|value| text(value)),
            _ => false,
        },
        Condition::Number(NumberTest::Equals(value)) => number(value.get()),
        Condition::Number(NumberTest::In(values)) => values.iter().all(|value| number(*value)),
        Condition::Networks(networks) => match general {
            Condition::Networks(wide) => networks
                .iter()
                .all(|network| wide.iter().any(|each| each.contains(network))),
            _ => false,
        },
        Condition::Text(TextTest::StartsWith(value)) => match general {
            Condition::Text(TextTest::StartsWith(short) | TextTest::Contains(short)) => {
                value.as_bytes().starts_with(short.as_bytes())
            }
            _ => false,
        },
        _ => false,
    }
}

/// `HH:MM` as minutes since midnight.
fn minutes(text: &str) -> Option<i128> {
    let &[a, b, b':', c, d] = text.as_bytes() else {
        return None;
    };
    let number = |tens: u8, ones: u8| {
        let digit = |octet| char::from(octet).to_digit(10);
        Some(digit(tens)? * 10 + digit(ones)?)
    };
    let (hour, minute) = (number(a, b)?, number(c, d)?);
    (hour < 24 && minute < 60).then(|| (hour * 60 + minute).into())
}
