//! Values: typed from text and to text, encoded and decoded by their dictionary type.

use super::dictionary::types::{Definition, Value};

/// Why a text or octets are no value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub String);

/// Reads `text` as a value of `definition`: a named value, a number, an address …
pub fn parse(_definition: &Definition, _text: &str) -> Result<Value<'static>, ValueError> {
    todo!()
}

/// Writes a value as text: a named value where one is defined. `parse` reads it back.
pub fn display(_definition: &Definition, _value: &Value<'_>) -> String {
    todo!()
}

/// Decodes the octets of one (unhidden, untagged, joined) value. An error is an attribute that is present but malformed.
pub fn decode<'a>(_definition: &Definition, _octets: &'a [u8]) -> Result<Value<'a>, ValueError> {
    todo!()
}

/// Encodes a value to its octets (without attribute header, tag or hiding).
pub fn encode(_definition: &Definition, _value: &Value<'_>, _out: &mut Vec<u8>) -> Result<(), ValueError> {
    todo!()
}
