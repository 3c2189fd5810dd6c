//! The closed list of operators: eleven positive ones, five of them with a complement (a complement holds exactly when
//! its positive operator does not, unless the attribute is malformed).

/// A positive operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The same value.
    Equals,
    /// The value stands somewhere in it.
    Contains,
    /// It begins with the value.
    StartsWith,
    /// It ends with the value.
    EndsWith,
    /// A regular expression is found in it.
    Matches,
    /// One of a list of values, or an address of one of the networks.
    In,
    /// Before the value.
    LessThan,
    /// Before the value or the same.
    AtMost,
    /// After the value.
    GreaterThan,
    /// After the value or the same.
    AtLeast,
    /// The attribute is there, whatever its value.
    Present,
}

/// An operator of a rule: a positive one or the complement of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The positive operator.
    pub base: Base,
    /// Whether the rule holds when the positive operator does not.
    pub complement: bool,
}

const fn positive(base: Base) -> Operator {
    Operator {
        base,
        complement: false,
    }
}

const fn complement(base: Base) -> Operator {
    Operator { base, complement: true }
}

/// Operator, word (database and text), symbol (text only; empty where there is none).
const TABLE: [(Operator, &str, &str); 16] = [
    (positive(Base::Equals), "equals", "=="),
    (complement(Base::Equals), "not-equals", "!="),
    (positive(Base::Contains), "contains", ""),
    (complement(Base::Contains), "not-contains", ""),
    (positive(Base::StartsWith), "starts-with", ""),
    (positive(Base::EndsWith), "ends-with", ""),
    (positive(Base::Matches), "matches", "=~"),
    (complement(Base::Matches), "not-matches", "!~"),
    (positive(Base::In), "in", ""),
    (complement(Base::In), "not-in", ""),
    (positive(Base::LessThan), "less-than", "<"),
    (positive(Base::AtMost), "at-most", "<="),
    (positive(Base::GreaterThan), "greater-than", ">"),
    (positive(Base::AtLeast), "at-least", ">="),
    (positive(Base::Present), "present", ""),
    (complement(Base::Present), "absent", ""),
];

impl Operator {
    /// Every operator, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Operator> {
        TABLE.into_iter().map(|(operator, _, _)| operator)
    }

    /// Reads a word or a symbol.
    pub fn parse(text: &str) -> Option<Operator> {
        let found = TABLE
            .iter()
            .find(|(_, word, symbol)| *word == text || (!symbol.is_empty() && *symbol == text));
        found.map(|(operator, _, _)| *operator)
    }

    fn row(self) -> (&'static str, &'static str) {
        let found = TABLE.iter().find(|(operator, _, _)| *operator == self);
        found.map_or(("", ""), |(_, word, symbol)| (word, symbol))
    }

    /// The word that the database holds.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// What text shows: the symbol where there is one, else the word.
    pub fn symbol(self) -> &'static str {
        match self.row() {
            (word, "") => word,
            (_, symbol) => symbol,
        }
    }

    /// Whether a value follows it.
    pub fn takes_value(self) -> bool {
        self.base != Base::Present
    }
}

impl std::fmt::Display for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_2_6_words_and_symbols_read_back() {
        for operator in Operator::all() {
            assert_eq!(Operator::parse(operator.word()), Some(operator));
            assert_eq!(Operator::parse(operator.symbol()), Some(operator));
        }
        let words = "equals contains starts-with ends-with matches in less-than at-most greater-than at-least present \
                     not-equals not-contains not-matches not-in absent";
        assert_eq!(words.split(' ').filter_map(Operator::parse).count(), 16);
        assert_eq!(
            "== != =~ !~ < <= > >=".split(' ').filter_map(Operator::parse).count(),
            8
        );
        for wrong in ["", "=", "Equals", "not-starts-with", "like"] {
            assert_eq!(Operator::parse(wrong), None, "{wrong}");
        }
    }
}
