//! Facts: all that a rule may look at, as typed values of dictionary attributes.
//!
//! Where they come from (a packet, a certificate, a clock, a command line) is the caller's business.

use super::condition::Problem;
use super::model::ResponseRow;
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};
use crate::radius::value;

/// The facts of one request. A few dozen at most, found by a walk over their ids: no hashing.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    dictionary: &'a Dictionary,
    ids: Vec<AttributeId>,
    /// Beside each id; `None` is a malformed value.
    values: Vec<Option<Value<'a>>>,
}

/// What is known of one attribute.
#[derive(Clone, Debug)]
pub enum Seen<'f, 'a> {
    /// Nothing.
    Absent,
    /// At least one of its values could not be decoded: no rule on it holds.
    Malformed,
    /// Its values, at least one, in the order they were pushed.
    Values(Values<'f, 'a>),
}

impl<'a> Facts<'a> {
    /// No facts yet; ids and values that are pushed must be those of `dictionary`.
    pub fn new(dictionary: &'a Dictionary) -> Facts<'a> {
        Facts {
            dictionary,
            ids: Vec::with_capacity(32),
            values: Vec::with_capacity(32),
        }
    }

    /// The dictionary that names the facts.
    pub fn dictionary(&self) -> &'a Dictionary {
        self.dictionary
    }

    /// Adds a value of an attribute; an attribute may have several.
    pub fn push(&mut self, id: AttributeId, value: Value<'a>) {
        self.ids.push(id);
        self.values.push(Some(value));
    }

    /// Notes that an attribute is present but cannot be decoded.
    pub fn push_malformed(&mut self, id: AttributeId) {
        self.ids.push(id);
        self.values.push(None);
    }

    /// What is known of an attribute.
    pub fn seen(&self, id: AttributeId) -> Seen<'_, 'a> {
        let mut entries = self.entries(id).peekable();
        if entries.peek().is_none() {
            return Seen::Absent;
        }
        match entries.all(|value| value.is_some()) {
            true => Seen::Values(Values { facts: self, id, at: 0 }),
            false => Seen::Malformed,
        }
    }

    /// The entries of one attribute in order; `None` is a malformed one.
    pub(crate) fn entries(&self, id: AttributeId) -> impl Iterator<Item = Option<&Value<'a>>> {
        let pairs = self.ids.iter().zip(&self.values);
        pairs
            .filter(move |(each, _)| **each == id)
            .map(|(_, value)| value.as_ref())
    }

    /// The ids that facts are known of, in the order they were pushed, one for each value.
    pub fn ids(&self) -> &[AttributeId] {
        &self.ids
    }
}

/// Reads a fact from text, as `decide` takes them: `NAS-Port-Type = Ethernet`.
pub fn parse(dictionary: &Dictionary, text: &str) -> Result<(AttributeId, Value<'static>), Problem> {
    let row: ResponseRow = text.parse()?;
    let id = dictionary.by_name(&row.attribute).ok_or_else(|| {
        Problem::new(
            format!("`{}` is in no dictionary", row.attribute),
            "`portreeve dict` finds names",
        )
    })?;
    let definition = dictionary.definition(id);
    match value::parse(definition, &row.value) {
        Ok(value) => Ok((id, value)),
        Err(error) => Err(Problem::new(
            error.to_string(),
            format!("`portreeve dict {}`", definition.name),
        )),
    }
}

/// The values of one attribute.
#[derive(Clone, Debug)]
pub struct Values<'f, 'a> {
    facts: &'f Facts<'a>,
    id: AttributeId,
    at: usize,
}

impl<'f, 'a> Iterator for Values<'f, 'a> {
    type Item = &'f Value<'a>;

    fn next(&mut self) -> Option<&'f Value<'a>> {
        loop {
            let id = self.facts.ids.get(self.at)?;
            let value = self.facts.values.get(self.at)?;
            self.at += 1;
            if let (true, Some(value)) = (*id == self.id, value) {
                return Some(value);
            }
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_2_8_one_malformed_value_makes_the_attribute_malformed() {
        let dictionary = Dictionary::empty();
        let (a, b, c) = (AttributeId(1), AttributeId(2), AttributeId(3));
        let mut facts = Facts::new(&dictionary);
        facts.push(a, Value::Unsigned(1));
        facts.push(b, Value::Unsigned(2));
        facts.push(a, Value::Unsigned(3));
        let Seen::Values(values) = facts.seen(a) else {
            panic!("values")
        };
        assert_eq!(values.collect::<Vec<_>>(), [&Value::Unsigned(1), &Value::Unsigned(3)]);
        assert!(matches!(facts.seen(c), Seen::Absent));
        facts.push_malformed(a);
        assert!(matches!(facts.seen(a), Seen::Malformed));
        assert!(matches!(facts.seen(b), Seen::Values(_)));
    }
}
