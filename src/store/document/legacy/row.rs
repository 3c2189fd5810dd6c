//! A row as a file has it: values by position, in one buffer that is used again for the next row.

use zeroize::Zeroizing;

/// Octets of one value: MySQL's TEXT holds no more, and no column that is read is larger.
pub(super) const MAX_VALUE: usize = 65_535;
/// Values of one row: MySQL's own bound.
pub(super) const MAX_VALUES: usize = 4_096;

/// The values of a row. `Debug` shows how many: secrets are among them.
#[derive(Default)]
pub(super) struct Row {
    octets: Zeroizing<Vec<u8>>,
    ends: Vec<(Kind, usize)>,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Null,
    /// A text without its quotes and escapes, the digits of a number, or what a hexadecimal or bit literal stands for.
    Octets(&'a [u8]),
    /// `now()` and other things that only MySQL can compute.
    Expression,
    /// More than [`MAX_VALUE`] octets, which were not kept.
    TooLong,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Octets,
    Expression,
    TooLong,
}

impl Row {
    /// Makes it empty.
    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
    }

    /// How many values it has.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The value at a position, counted from 0.
    pub(super) fn value(&self, at: usize) -> Option<Value<'_>> {
        let (kind, end) = *self.ends.get(at)?;
        let start = at
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |(_, end)| *end);
        Some(match kind {
            Kind::Null => Value::Null,
            Kind::Octets => Value::Octets(self.octets.get(start..end)?),
            Kind::Expression => Value::Expression,
            Kind::TooLong => Value::TooLong,
        })
    }

    /// Takes the last value back, and with it what was read since.
    pub(super) fn drop_last(&mut self) {
        self.ends.pop();
        let start = self.start();
        self.octets.truncate(start);
    }

    /// Adds octets to the value that is being read.
    pub(super) fn extend(&mut self, octets: &[u8]) {
        // One octet too many is kept, so that the end of the value knows.
        let room = (MAX_VALUE + 1).saturating_sub(self.octets.len() - self.start());
        self.octets.extend_from_slice(octets.get(..room).unwrap_or(octets));
    }

    /// The octets of the value that is being read.
    pub(super) fn current(&self) -> &[u8] {
        self.octets.get(self.start()..).unwrap_or_default()
    }

    /// Replaces the octets of the value that is being read.
    pub(super) fn replace(&mut self, octets: &[u8]) {
        let start = self.start();
        self.octets.truncate(start);
        self.extend(octets);
    }

    /// Ends the value that is being read.
    pub(super) fn end(&mut self) {
        let kind = match self.octets.len() - self.start() > MAX_VALUE {
            true => Kind::TooLong,
            false => Kind::Octets,
        };
        self.push(kind);
    }

    /// Adds NULL.
    pub(super) fn null(&mut self) {
        self.push(Kind::Null);
    }

    /// Adds an expression.
    pub(super) fn expression(&mut self) {
        self.push(Kind::Expression);
    }

    fn push(&mut self, kind: Kind) {
        if kind != Kind::Octets {
            let start = self.start();
            self.octets.truncate(start);
        }
        self.ends.push((kind, self.octets.len()));
    }

    fn start(&self) -> usize {
        self.ends.last().map_or(0, |(_, end)| *end)
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("values", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_apart_and_bounded() {
        let mut row = Row::default();
        row.extend(b"ab");
        row.extend(b"c");
        row.end();
        row.null();
        row.end();
        for _ in 0..3 {
            row.extend(&[b'x'; MAX_VALUE]);
        }
        row.end();
        row.extend(b"dropped");
        row.expression();
        row.extend(b"61");
        row.replace(b"a");
        row.end();
        let values: Vec<_> = (0..7).map(|at| row.value(at)).collect();
        let octets = |text: &'static str| Some(Value::Octets(text.as_bytes()));
        assert_eq!(
            values,
            [
                octets("abc"),
                Some(Value::Null),
                octets(""),
                Some(Value::TooLong),
                Some(Value::Expression),
                octets("a"),
                None
            ]
        );
        assert!(row.octets.len() < 10);
        assert_eq!(format!("{row:?}"), "Row { values: 6, .. }");
        row.extend(b"also dropped");
        row.drop_last();
        assert_eq!((row.len(), row.value(4)), (5, Some(Value::Expression)));
        row.clear();
        assert_eq!((row.len(), row.value(0)), (0, None));
    }
}
