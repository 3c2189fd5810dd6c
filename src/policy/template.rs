//! Templates: a response's value with `%{Fact-Name}` in it.
//!
//! `%{Fact-Name}` is replaced by that fact, in one pass: what is filled in is never looked at again. `%%` is one `%`,
//! and any other `%` is itself.

use super::facts::{Facts, Seen};
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::AttributeId;
use crate::radius::value;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that stays.
    Literal(Box<str>),
    /// A fact that is filled in.
    Fact(AttributeId),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `%{` without `}`.
    #[error("`{0}` does not end")]
    Unterminated(String),
    /// No such fact.
    #[error("`{0}` is no fact")]
    Unknown(String),
}

/// Why a template could not be filled from the facts of a request: the reject's reason is `response-failed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfilled {
    /// The fact is absent.
    Absent(AttributeId),
    /// The fact is malformed.
    Malformed(AttributeId),
    /// The fact has several values, and nothing says which is meant.
    Several(AttributeId),
    /// The fact holds a control octet.
    Control(AttributeId),
    /// What came out is no value of the response's attribute; says why.
    Unfit(String),
}

impl Unfilled {
    /// The reason as a sentence.
    pub fn sentence(&self, dictionary: &Dictionary) -> String {
        let name = |id: &AttributeId| &dictionary.definition(*id).name;
        match self {
            Unfilled::Absent(id) => format!("{} is absent", name(id)),
            Unfilled::Malformed(id) => format!("{} is malformed", name(id)),
            Unfilled::Several(id) => format!("{} has several values", name(id)),
            Unfilled::Control(id) => format!("{} holds a control octet", name(id)),
            Unfilled::Unfit(why) => why.clone(),
        }
    }
}

/// Reads a template. A text without facts is one literal (or none, where it is empty).
pub fn parse(text: &str, mut fact: impl FnMut(&str) -> Option<AttributeId>) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        literal.push_str(before);
        if let Some(inner) = after.strip_prefix('{') {
            let Some((name, after)) = inner.split_once('}') else {
                return Err(TemplateError::Unterminated(format!("%{after}")));
            };
            let id = fact(name).ok_or_else(|| TemplateError::Unknown(name.to_owned()))?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Fact(id));
            rest = after;
        } else {
            literal.push('%');
            rest = after.strip_prefix('%').unwrap_or(after);
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal.into()));
    }
    Ok(parts)
}

/// Fills a template from the facts.
pub fn fill(parts: &[Part], facts: &Facts<'_>) -> Result<String, Unfilled> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Fact(id) => text.push_str(&fact(*id, facts)?),
        }
    }
    Ok(text)
}

fn fact(id: AttributeId, facts: &Facts<'_>) -> Result<String, Unfilled> {
    let mut values = match facts.seen(id) {
        Seen::Absent => return Err(Unfilled::Absent(id)),
        Seen::Malformed => return Err(Unfilled::Malformed(id)),
        Seen::Values(values) => values,
    };
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Unfilled::Several(id));
    };
    let text = value::display(facts.dictionary().definition(id), value);
    match text.contains(char::is_control) {
        true => Err(Unfilled::Control(id)),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Part>, TemplateError> {
        parse(text, |name| (name == "A").then_some(AttributeId(1)))
    }

    fn literal(text: &str) -> Part {
        Part::Literal(text.into())
    }

    #[test]
    fn rule_2_10_templates() {
        let a = Part::Fact(AttributeId(1));
        for (text, parts) in [
            ("", vec![]),
            ("120", vec![literal("120")]),
            ("%{A}", vec![a.clone()]),
            ("x%{A}y%{A}", vec![literal("x"), a.clone(), literal("y"), a.clone()]),
            ("100%", vec![literal("100%")]),
            ("100 % of %%{A}", vec![literal("100 % of %{A}")]),
            ("%%%{A}", vec![literal("%"), a.clone()]),
            ("{A}", vec![literal("{A}")]),
        ] {
            assert_eq!(parsed(text), Ok(parts), "{text}");
        }
        assert_eq!(parsed("a%{A"), Err(TemplateError::Unterminated("%{A".into())));
        assert_eq!(parsed("%{B}"), Err(TemplateError::Unknown("B".into())));
        assert_eq!(parsed("%{}"), Err(TemplateError::Unknown("".into())));
    }
}
