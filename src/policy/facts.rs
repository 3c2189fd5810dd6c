//! Facts: all that a rule may look at, as typed values of dictionary attributes.
//!
//! Where they come from (a packet, a certificate, a clock, a command line) is the caller's business.

use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};

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
