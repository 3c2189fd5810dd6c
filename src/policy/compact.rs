//! Texts and numbers of rules and sites in little room, so that one is read with one access to memory.

use std::fmt;

/// A text. What is short, as nearly all are, stands in place.
#[derive(Clone)]
pub struct Short(Repr);

/// Octets that stand in place.
const INLINE: usize = 22;

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE]),
    Heap(Box<str>),
}

impl Short {
    /// The text's octets.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(length, octets) => octets.get(..usize::from(*length)).unwrap_or_default(),
            Repr::Heap(text) => text.as_bytes(),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The octets of memory that it takes beside its own place.
    pub fn heap_octets(&self) -> usize {
        match &self.0 {
            Repr::Inline(..) => 0,
            Repr::Heap(text) => text.len(),
        }
    }
}

impl From<&str> for Short {
    fn from(text: &str) -> Short {
        let mut inline = [0; INLINE];
        match (inline.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(text.as_bytes());
                Short(Repr::Inline(length, inline))
            }
            _ => Short(Repr::Heap(text.into())),
        }
    }
}

impl PartialEq for Short {
    fn eq(&self, other: &Short) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A number of a rule, without the 16 octets' alignment that would make every rule larger.
#[derive(Clone, Copy, PartialEq)]
#[repr(Rust, packed(8))]
pub struct Number(i128);

impl Number {
    /// The number.
    pub fn get(self) -> i128 {
        self.0
    }
}

impl From<i128> for Number {
    fn from(number: i128) -> Number {
        Number(number)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_is_kept_whole() {
        for length in [0, 1, 21, 22, 23, 300] {
            let text = "x".repeat(length);
            assert_eq!(Short::from(&*text).as_str(), text);
        }
        let text = format!("{}\u{e9}", "x".repeat(INLINE - 1));
        assert_eq!(Short::from(&*text).as_str(), text);
        assert_ne!(Short::from("a"), Short::from("b"));
    }
}
