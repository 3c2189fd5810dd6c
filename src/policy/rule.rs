//! A rule, compiled: what it tests, which all policies with that rule share, and what it is called in its policy.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::condition::Condition;
use super::facts::Facts;
use crate::radius::dictionary::types::AttributeId;

/// What a rule tests. All that a decision reads of a rule, and small: a node has many thousands.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    attribute: AttributeId,
    complement: bool,
    condition: Condition,
}

impl Test {
    /// Whether it holds (rule 2.8): a positive operator if any value satisfies it, a complement if none does and so
    /// for an absent attribute too, neither if any value is malformed.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        let mut satisfied = false;
        for value in facts.entries(self.attribute) {
            match value.and_then(|value| self.condition.holds(value)) {
                Some(holds) => satisfied |= holds,
                None => return false,
            }
        }
        satisfied != self.complement
    }
}

/// A rule of a policy.
#[derive(Clone, Debug)]
pub struct CompiledRule {
    test: Arc<Test>,
    /// `policy: rule`, the name as far as one is known.
    labelled: Arc<str>,
    /// Where in it the rule begins.
    text_at: usize,
}

impl CompiledRule {
    /// A rule of no policy yet.
    pub(super) fn new(attribute: AttributeId, complement: bool, condition: Condition, text: &str) -> CompiledRule {
        CompiledRule {
            test: Arc::new(Test {
                attribute,
                complement,
                condition,
            }),
            labelled: text.into(),
            text_at: 0,
        }
    }

    /// The same, of this policy.
    pub(super) fn of_policy(self, name: &str, shared: &Tests) -> CompiledRule {
        CompiledRule {
            labelled: format!("{name}: {}", self.text()).into(),
            text_at: name.len() + 2,
            test: shared.share(self.text(), Arc::clone(&self.test)),
        }
    }

    /// What it looks at.
    pub fn attribute(&self) -> AttributeId {
        self.test.attribute
    }

    /// Whether it holds when its condition does not.
    pub fn is_complement(&self) -> bool {
        self.test.complement
    }

    /// What it tests.
    pub fn condition(&self) -> &Condition {
        &self.test.condition
    }

    pub(super) fn test(&self) -> &Arc<Test> {
        &self.test
    }

    /// The rule as a person writes it.
    pub fn text(&self) -> &str {
        self.labelled.get(self.text_at..).unwrap_or_default()
    }

    /// The rule behind its policy's name, `policy: rule`: what a log line says of a refusal, made when it is compiled.
    pub fn labelled(&self) -> &Arc<str> {
        &self.labelled
    }

    /// Whether it holds, see [`Test::holds`].
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.test.holds(facts)
    }
}

/// The tests in use, so that policies with the same rule share its test: what the decisions of a whole node read stays
/// small. A test that no policy has any more is forgotten.
#[derive(Debug, Default)]
pub struct Tests(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By a hash of the rule's text.
    tests: HashMap<u64, Weak<Test>>,
    /// How many there may be before those that nobody has are looked for.
    room: usize,
}

impl Tests {
    /// The test that others have of this text, where it is the same; else this one.
    fn share(&self, text: &str, test: Arc<Test>) -> Arc<Test> {
        let known = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = known.tests.hasher().hash_one(text);
        if let Some(first) = known.tests.get(&hash).and_then(Weak::upgrade)
            && *first == *test
        {
            return first;
        }
        if known.tests.len() >= known.room {
            known.tests.retain(|_, test| test.strong_count() > 0);
            known.room = 2 * known.tests.len() + 64;
        }
        known.tests.insert(hash, Arc::downgrade(&test));
        test
    }
}

#[cfg(test)]
mod tests {
    use super::super::{compile, testing};
    use super::*;
    use crate::radius::dictionary::Dictionary;

    fn compiled(rules: &[&str], shared: &Tests) -> Vec<CompiledRule> {
        let policy = testing::policy("accept a", rules, &[]);
        let policy = compile::policy_sharing(Dictionary::builtin(), &policy, shared).unwrap();
        policy.rules().to_vec()
    }

    #[test]
    fn policies_share_the_tests_that_they_have_in_common() {
        let shared = Tests::default();
        let a = compiled(&["NAS-Port == 1", "SSID contains Corp"], &shared);
        let b = compiled(&["SSID contains Corp", "NAS-Port != 1"], &shared);
        assert!(Arc::ptr_eq(a[1].test(), b[0].test()));
        assert!(!Arc::ptr_eq(a[0].test(), b[1].test()));
        assert_ne!(*a[0].test(), *b[1].test());
    }

    #[test]
    fn a_test_that_no_policy_has_is_forgotten() {
        let shared = Tests::default();
        let kept = compiled(&["NAS-Port == 1"], &shared);
        for number in 0..1_000 {
            drop(compiled(&[&format!("NAS-Port == {number}")], &shared));
        }
        assert!(shared.0.lock().unwrap().tests.len() < 100);
        let again = compiled(&["NAS-Port == 1"], &shared);
        assert!(Arc::ptr_eq(kept[0].test(), again[0].test()));
    }

    #[test]
    fn a_test_fits_a_line_of_the_processors_cache_beside_its_two_counters() {
        assert!(size_of::<Test>() <= 48, "{}", size_of::<Test>());
    }
}
