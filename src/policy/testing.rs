//! What the tests of this room share: policies from lines of text.

use std::sync::Arc;

use super::compile;
use super::compiled::{CompiledPolicy, CompiledSite};
use super::facts::{self, Facts};
use super::model::{Action, Method, Policy};
use crate::radius::dictionary::Dictionary;

/// A policy from text: `accept laptops eap-tls,mab`, its rules, its responses; `fallback-accept …` is a fallback.
pub(super) fn policy(head: &str, rules: &[&str], responses: &[&str]) -> Policy {
    let mut words = head.split(' ');
    let action = words.next().unwrap();
    Policy {
        name: words.next().unwrap().to_owned(),
        description: String::new(),
        action: Action::parse(action.trim_start_matches("fallback-")).unwrap(),
        methods: Method::parse_list(words.next().unwrap_or_default()).unwrap(),
        rules: rules.iter().map(|text| text.parse().unwrap()).collect(),
        responses: responses.iter().map(|text| text.parse().unwrap()).collect(),
        fallback: action.starts_with("fallback-"),
    }
}

pub(super) fn compiled(head: &str, rules: &[&str], responses: &[&str]) -> Arc<CompiledPolicy> {
    let compiled = compile::policy(Dictionary::builtin(), &policy(head, rules, responses));
    Arc::new(compiled.unwrap_or_else(|errors| panic!("{}", errors[0])))
}

pub(super) fn site(policies: &[Arc<CompiledPolicy>], fallback: Option<Arc<CompiledPolicy>>) -> CompiledSite {
    CompiledSite::new("leeds", policies.iter().cloned(), fallback)
}

pub(super) fn facts(lines: &[&str]) -> Facts<'static> {
    let dictionary = Dictionary::builtin();
    let mut facts = Facts::new(dictionary);
    for line in lines {
        let (id, value) = facts::parse(dictionary, line).unwrap_or_else(|problem| panic!("{line}: {problem:?}"));
        facts.push(id, value);
    }
    facts
}
