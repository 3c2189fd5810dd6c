//! What policies compile to: types, and the small questions that they answer.
//!
//! Made by [`super::compile`] only, so that whoever holds one knows that its attributes exist and its values fit.

use std::collections::HashMap;
use std::sync::Arc;

use super::compact::Short;
use super::facts::Facts;
use super::model::{Action, Method};
use super::prepared::Prepared;
pub use super::rule::{CompiledRule, Test};
use super::template::Part;
use crate::radius::dictionary::types::{AttributeId, Value};

/// Which methods, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Methods(u8);

impl Methods {
    /// The set of these; of `eap-tls` where there are none.
    pub fn of(methods: &[Method]) -> Methods {
        match methods {
            [] => Methods::of(&[Method::EapTls]),
            _ => Methods(methods.iter().fold(0, |set, method| set | Methods::bit(*method))),
        }
    }

    fn bit(method: Method) -> u8 {
        match method {
            Method::EapTls => 1,
            Method::Mab => 2,
            Method::MabUnknown => 4,
        }
    }

    /// Whether this one is in it.
    pub fn contains(self, method: Method) -> bool {
        self.0 & Methods::bit(method) != 0
    }

    /// Whether all of `other` are in it.
    pub fn covers(self, other: Methods) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those in it.
    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |method| self.contains(*method))
    }
}

/// What a response puts into the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// This value, and the whole attribute as octets.
    Fixed {
        /// The value.
        value: Value<'static>,
        /// The attribute (or several, where the value was split), with header and tag.
        encoded: Box<[u8]>,
    },
    /// This value, which the writer of the reply has to hide, for each reply anew.
    Hidden {
        /// The value.
        value: Value<'static>,
    },
    /// What comes of filling facts in.
    Template(Box<[Part]>),
    /// Nothing: the answer is a reject (`Post-Auth-Type = Reject` of older data, on an endpoint).
    Reject,
}

/// One attribute of the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledResponse {
    pub(super) attribute: AttributeId,
    pub(super) tag: Option<u8>,
    pub(super) in_reject: bool,
    pub(super) in_tlv: bool,
    pub(super) content: Content,
}

impl CompiledResponse {
    /// Which attribute.
    pub fn attribute(&self) -> AttributeId {
        self.attribute
    }

    /// Its tag, `Some` just where the attribute has tags: 0 to 0x1F, and 0 where the row names none.
    pub fn tag(&self) -> Option<u8> {
        self.tag
    }

    /// Whether a reject carries it too.
    pub fn in_reject(&self) -> bool {
        self.in_reject
    }

    /// Whether it stands inside a TLV, which it shares with its neighbours.
    pub(super) fn in_tlv(&self) -> bool {
        self.in_tlv
    }

    /// What is put there.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The facts that its template names.
    pub fn facts(&self) -> impl Iterator<Item = AttributeId> {
        let parts = match &self.content {
            Content::Template(parts) => &**parts,
            _ => &[],
        };
        parts.iter().filter_map(|part| match part {
            Part::Fact(id) => Some(*id),
            Part::Literal(_) => None,
        })
    }
}

/// A policy, ready to be evaluated.
#[derive(Clone, Debug)]
pub struct CompiledPolicy {
    pub(super) name: Box<str>,
    pub(super) action: Action,
    pub(super) methods: Methods,
    pub(super) fallback: bool,
    pub(super) rules: Box<[CompiledRule]>,
    pub(super) responses: Box<[CompiledResponse]>,
    /// What an accept comes to, where that is known now.
    pub(super) prepared: Option<Prepared>,
}

impl CompiledPolicy {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does when it matches.
    pub fn action(&self) -> Action {
        self.action
    }

    /// For which methods it is.
    pub fn methods(&self) -> Methods {
        self.methods
    }

    /// Whether it is meant as a fallback.
    pub fn is_fallback(&self) -> bool {
        self.fallback
    }

    /// Its rules.
    pub fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// Its responses.
    pub fn responses(&self) -> &[CompiledResponse] {
        &self.responses
    }

    /// The first rule that does not hold, with its place.
    pub(super) fn failed(&self, facts: &Facts<'_>) -> Option<(usize, &CompiledRule)> {
        self.rules.iter().enumerate().find(|(_, rule)| !rule.holds(facts))
    }
}

/// A site's policies in order, and its fallback. What a decision reads of it lies close together: the numbers of the
/// rules and, by number, the test of each.
#[derive(Clone, Debug)]
pub struct CompiledSite {
    tag: Short,
    policies: Box<[InOrder]>,
    /// The number of each rule of each policy, in order. Rules that say the same have the same number: policies of a site
    /// resemble each other.
    numbers: Box<[u16]>,
    /// By number; those that are [`BEYOND`] are found in their policies.
    tests: Box<[Arc<Test>]>,
    pub(super) fallback: Option<Arc<CompiledPolicy>>,
    facts: Box<[AttributeId]>,
}

/// A policy in its place. What tells whether it has to be looked at stands beside it.
#[derive(Clone, Debug)]
struct InOrder {
    policy: Arc<CompiledPolicy>,
    methods: Methods,
    /// How many of the numbers are its rules'.
    rules: u16,
}

/// The number of rules for which there are no numbers left.
const BEYOND: u16 = u16::MAX;

/// A number for each rule, the same for those that say the same, and the test of each number.
fn numbered<'r>(rules: impl Iterator<Item = &'r CompiledRule>) -> (Box<[u16]>, Box<[Arc<Test>]>) {
    let mut known: HashMap<&str, u16> = HashMap::new();
    let mut tests: Vec<Arc<Test>> = Vec::new();
    let mut number = |rule: &'r CompiledRule| {
        let next = u16::try_from(tests.len()).unwrap_or(BEYOND);
        let number = *known.entry(rule.text()).or_insert(next);
        // a text has one meaning; if ever it had two, neither may stand for the other
        match tests.get(usize::from(number)) {
            Some(first) if **first == **rule.test() => return number,
            _ if next == BEYOND => return BEYOND,
            _ => tests.push(Arc::clone(rule.test())),
        }
        next
    };
    let numbers = rules.map(&mut number).collect();
    (numbers, tests.into())
}

/// What is known of a site's rules in the course of one decision, by their numbers: none is evaluated twice.
#[derive(Debug, Default)]
pub(super) struct Evaluated {
    known: u128,
    held: u128,
}

impl Evaluated {
    /// Rules of higher numbers are evaluated each time.
    const NUMBERS: u16 = 128;

    fn holds(&mut self, number: u16, evaluate: impl FnOnce() -> bool) -> bool {
        if number >= Evaluated::NUMBERS {
            return evaluate();
        }
        let bit = 1 << number;
        if self.known & bit == 0 {
            self.known |= bit;
            self.held |= if evaluate() { bit } else { 0 };
        }
        self.held & bit != 0
    }
}

/// A policy of a site, and the numbers of its rules there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'s> {
    site: &'s CompiledSite,
    policy: &'s Arc<CompiledPolicy>,
    numbers: &'s [u16],
}

impl<'s> Candidate<'s> {
    pub(super) fn policy(self) -> &'s CompiledPolicy {
        self.policy
    }

    /// Whether there is nothing that could hold.
    pub(super) fn has_no_rules(self) -> bool {
        self.numbers.is_empty()
    }

    /// The place of the first rule that does not hold.
    pub(super) fn failed_at(self, facts: &Facts<'_>, evaluated: &mut Evaluated) -> Option<usize> {
        let evaluate = |at, number| match self.site.tests.get(usize::from(number)) {
            Some(test) => test.holds(facts),
            None => {
                let rule = self.policy.rules.get(at);
                rule.is_some_and(|rule: &CompiledRule| rule.test().holds(facts))
            }
        };
        let mut numbers = self.numbers.iter().enumerate();
        let failed = numbers.find(|&(at, &number)| !evaluated.holds(number, || evaluate(at, number)));
        failed.map(|(at, _)| at)
    }
}

impl CompiledSite {
    /// A site from its policies in ascending priority, and its fallback.
    pub fn new(
        tag: &str,
        policies: impl IntoIterator<Item = Arc<CompiledPolicy>>,
        fallback: Option<Arc<CompiledPolicy>>,
    ) -> CompiledSite {
        let policies: Vec<Arc<CompiledPolicy>> = policies.into_iter().collect();
        let mut facts = Vec::new();
        for policy in policies.iter().chain(&fallback) {
            facts.extend(policy.rules.iter().map(CompiledRule::attribute));
            facts.extend(policy.responses.iter().flat_map(CompiledResponse::facts));
        }
        facts.sort_unstable();
        facts.dedup();
        let (numbers, tests) = numbered(policies.iter().flat_map(|policy| &policy.rules));
        let in_order = policies.into_iter().map(|policy| InOrder {
            methods: policy.methods,
            rules: u16::try_from(policy.rules.len()).unwrap_or(u16::MAX),
            policy,
        });
        CompiledSite {
            tag: tag.into(),
            policies: in_order.collect(),
            numbers,
            tests,
            fallback,
            facts: facts.into(),
        }
    }

    /// The site's tag.
    pub fn tag(&self) -> &str {
        self.tag.as_str()
    }

    /// Its policies in order, without the fallback.
    pub fn policies(&self) -> impl Iterator<Item = &CompiledPolicy> {
        self.policies.iter().map(|each| &*each.policy)
    }

    /// Its policies for one method, in order.
    pub(super) fn policies_for(&self, method: Method) -> impl Iterator<Item = Candidate<'_>> {
        let mut numbers = &*self.numbers;
        self.policies.iter().filter_map(move |each| {
            let (own, others) = numbers.split_at_checked(usize::from(each.rules)).unwrap_or_default();
            numbers = others;
            each.methods.contains(method).then_some(Candidate {
                site: self,
                policy: &each.policy,
                numbers: own,
            })
        })
    }

    /// Its fallback.
    pub fn fallback(&self) -> Option<&CompiledPolicy> {
        self.fallback.as_deref()
    }

    /// The facts that its rules and templates look at, in ascending order: no others need be found out. (An endpoint's
    /// templates may name more: [`super::evaluate::needs`].)
    pub fn facts(&self) -> &[AttributeId] {
        &self.facts
    }

    /// Whether a rule or template of the site looks at this fact.
    pub fn needs(&self, fact: AttributeId) -> bool {
        self.facts.binary_search(&fact).is_ok()
    }

    /// The octets of memory it takes, without its policies.
    pub fn octets(&self) -> usize {
        size_of::<CompiledSite>()
            + self.tag.heap_octets()
            + size_of_val(&*self.policies)
            + size_of_val(&*self.numbers)
            + size_of_val(&*self.tests)
            + size_of_val(&*self.facts)
    }
}
