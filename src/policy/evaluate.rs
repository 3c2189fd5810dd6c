//! The decision: total, without a way to fail, and without allocating for rules.
//!
//! - The site's policies for the method, in order; the first whose rules all hold decides (rule 2.2).
//! - `eap-tls`: if none matches, the fallback decides where it is for that method (rule 2.2), else it is a reject.
//! - `mab`: the listing is the accept where no policy says otherwise, and the endpoint's responses go over the
//!   policy's; the fallback does not apply (rule 2.4).
//! - `mab-unknown`: as `eap-tls`, but a fallback is asked only if it lists `mab-unknown`; a MAC that nothing accepts is
//!   `mac-not-listed` (rules 2.2 and 2.4).
//! - A policy without rules matches nothing; a fallback needs none, and if it has rules they must hold (rule 2.5).
//! - An accept whose response can't be filled is a reject (rule 2.10).
//!
//! What the caller decides before: whether the client is known, the certificate good, the MAC listed and still valid.

use std::borrow::Cow;

use super::compile::{self, CompiledPolicy, CompiledResponse, CompiledRule, CompiledSite, Content};
use super::compiled::{Candidate, Evaluated};
use super::facts::Facts;
use super::model::{Action, Method, ResponseRow};
use super::prepared::Prepared;
use super::template::{self, Unfilled};
use crate::radius::attribute::{Item, encode_items};
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, DataType, Parent, Value};
use crate::radius::value;
use crate::reason::Reason;

/// What is to be answered, and why.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// Accept or reject.
    pub action: Action,
    /// Why, as log and metrics name it.
    pub reason: Reason,
    /// The policy that decided; none where none matched.
    pub policy: Option<&'a CompiledPolicy>,
    /// Where no policy matched: the first rule that failed, of the policy that came nearest to matching.
    pub failed_rule: Option<FailedRule<'a>>,
    /// With the reason `response-failed`: which response, and why.
    pub failed_response: Option<(&'a CompiledResponse, Unfilled)>,
    /// What the accept comes to, where that was known when the policy was compiled.
    pub prepared: Option<&'a Prepared>,
    /// Where it was not: what the reply carries.
    filled: Vec<Response<'a>>,
}

impl<'a> Decision<'a> {
    /// What the reply carries, in order. A reject has only what a reject may carry.
    pub fn responses(&self) -> Cow<'_, [Response<'a>]> {
        match (self.prepared, self.policy) {
            (Some(_), Some(policy)) => policy.responses().iter().filter_map(fixed).collect(),
            _ => Cow::Borrowed(&self.filled),
        }
    }
}

/// A rule that kept a policy from matching.
#[derive(Clone, Copy, Debug)]
pub struct FailedRule<'a> {
    /// The policy.
    pub policy: &'a CompiledPolicy,
    /// The first of its rules that does not hold.
    pub rule: &'a CompiledRule,
    /// The rule's place in the policy, counted from 0: so many rules hold before it.
    pub at: usize,
}

/// One attribute of the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Which attribute.
    pub attribute: AttributeId,
    /// Its tag; `Some` just where the attribute has tags, and then 0 means none.
    pub tag: Option<u8>,
    /// Its value.
    pub value: Cow<'a, Value<'static>>,
    /// The whole attribute, ready to be appended to the reply; empty where the response before it has this one inside
    /// its TLV. `None` where the value has to be hidden (`flags.encryption` of its definition), which only the writer of
    /// the reply can do.
    pub encoded: Option<Cow<'a, [u8]>>,
}

impl Response<'_> {
    /// The response as a row, for people. A value that is hidden on the wire is not shown.
    pub fn row(&self, dictionary: &Dictionary) -> ResponseRow {
        let definition = dictionary.definition(self.attribute);
        let attribute = match self.tag {
            None | Some(0) => definition.name.to_string(),
            Some(tag) => format!("{}:{tag}", definition.name),
        };
        let value = match self.encoded {
            Some(_) => value::display(definition, &self.value),
            None => "(hidden)".to_owned(),
        };
        ResponseRow { attribute, value }
    }
}

/// Decides. For [`Method::Mab`], which says that the site lists the MAC, `listing` is the endpoint's own responses;
/// `None` is none. Other methods ignore it.
pub fn decide<'a>(
    site: &'a CompiledSite,
    method: Method,
    listing: Option<&'a [CompiledResponse]>,
    facts: &Facts<'_>,
) -> Decision<'a> {
    let own = match method {
        Method::Mab => listing.unwrap_or_default(),
        Method::EapTls | Method::MabUnknown => &[],
    };
    let (Verdict { action, reason, policy }, failed_rule) = choose(site, method, facts);
    let mut decision = Decision {
        action,
        reason,
        policy,
        failed_rule,
        failed_response: None,
        prepared: None,
        filled: Vec::new(),
    };
    // An endpoint of older data can say `Post-Auth-Type = Reject` for itself.
    if action == Action::Accept && own.iter().any(|response| *response.content() == Content::Reject) {
        (decision.action, decision.reason) = (Action::Reject, Reason::PolicyReject);
        decision.filled = fill_reject(own, facts);
        return decision;
    }
    let theirs = || policy.map(CompiledPolicy::responses).unwrap_or_default();
    match action {
        Action::Accept => {
            decision.prepared = policy
                .and_then(|policy| policy.prepared.as_ref())
                .filter(|_| own.is_empty());
            if decision.prepared.is_some() {
                return decision;
            }
            match fill_all(theirs(), own, facts) {
                Ok(responses) => decision.filled = responses,
                Err(failed) => {
                    (decision.action, decision.reason) = (Action::Reject, Reason::ResponseFailed);
                    decision.failed_response = Some(failed);
                }
            }
        }
        Action::Reject => decision.filled = fill_reject(theirs(), facts),
    }
    decision
}

/// Whether [`decide`] looks at this fact: a rule or template of the site names it, or a template of the endpoint. No
/// other facts need be found out.
pub fn needs(site: &CompiledSite, listing: Option<&[CompiledResponse]>, fact: AttributeId) -> bool {
    site.needs(fact)
        || listing
            .unwrap_or_default()
            .iter()
            .any(|response| response.facts().any(|each| each == fact))
}

struct Verdict<'a> {
    action: Action,
    reason: Reason,
    policy: Option<&'a CompiledPolicy>,
}

impl<'a> Verdict<'a> {
    fn by(policy: &'a CompiledPolicy, accept: Reason, reject: Reason) -> Verdict<'a> {
        let action = policy.action();
        let reason = match action {
            Action::Accept => accept,
            Action::Reject => reject,
        };
        Verdict {
            action,
            reason,
            policy: Some(policy),
        }
    }

    fn without(action: Action, reason: Reason) -> Verdict<'a> {
        Verdict {
            action,
            reason,
            policy: None,
        }
    }
}

fn choose<'a>(site: &'a CompiledSite, method: Method, facts: &Facts<'_>) -> (Verdict<'a>, Option<FailedRule<'a>>) {
    // Looked at only where no policy matches: the policies themselves are not read before.
    let mut nearest: Option<(Candidate<'a>, usize)> = None;
    let mut evaluated = Evaluated::default();
    for candidate in site.policies_for(method) {
        match candidate.failed_at(facts, &mut evaluated) {
            Some(at) if nearest.is_none_or(|(_, nearest)| nearest < at) => nearest = Some((candidate, at)),
            Some(_) => {}
            None if candidate.has_no_rules() => {}
            None => {
                let verdict = Verdict::by(candidate.policy(), Reason::PolicyAccept, Reason::PolicyReject);
                return (verdict, None);
            }
        }
    }
    let mut nearest = nearest.and_then(|(candidate, at)| {
        let policy = candidate.policy();
        let failed = policy.rules().get(at);
        failed.map(|rule| FailedRule { policy, rule, at })
    });
    if method == Method::Mab {
        return (Verdict::without(Action::Accept, Reason::MacListed), nearest);
    }
    if let Some(fallback) = site.fallback().filter(|fallback| fallback.methods().contains(method)) {
        match fallback.failed(facts) {
            None => {
                return (
                    Verdict::by(fallback, Reason::FallbackAccept, Reason::FallbackReject),
                    nearest,
                );
            }
            Some((at, rule)) => {
                nearest = nearest.or(Some(FailedRule {
                    policy: fallback,
                    rule,
                    at,
                }))
            }
        }
    }
    let reason = match method {
        Method::MabUnknown => Reason::MacNotListed,
        Method::EapTls | Method::Mab => Reason::NoFallback,
    };
    (Verdict::without(Action::Reject, reason), nearest)
}

type Failed<'a> = (&'a CompiledResponse, Unfilled);

/// The policy's responses, but of attributes that the endpoint names only the endpoint's (rule 2.4): all values and
/// tags of the attribute.
fn fill_all<'a>(
    theirs: &'a [CompiledResponse],
    own: &'a [CompiledResponse],
    facts: &Facts<'_>,
) -> Result<Vec<Response<'a>>, Failed<'a>> {
    let replaced = |response: &&CompiledResponse| own.iter().any(|each| each.attribute() == response.attribute());
    let mut responses = Vec::with_capacity(theirs.len().saturating_add(own.len()));
    let mut in_tlv = false;
    for response in theirs.iter().filter(|response| !replaced(response)).chain(own) {
        in_tlv |= response.in_tlv();
        responses.extend(fill(response, facts).map_err(|why| (response, why))?);
    }
    if in_tlv {
        share_tlvs(facts.dictionary(), &mut responses);
    }
    Ok(responses)
}

/// Neighbours inside one TLV share it, as devices that read a TLV as one record need. Rare, and so done here rather than
/// at compile time, when it is not known yet which responses will be neighbours.
fn share_tlvs(dictionary: &Dictionary, responses: &mut [Response<'_>]) {
    let in_tlv = |response: &Response<'_>| match dictionary.definition(response.attribute).parent {
        Parent::Attribute(container) => dictionary.definition(container).data_type == DataType::Tlv,
        _ => false,
    };
    let shares = |response: &Response<'_>| response.encoded.is_some() && in_tlv(response);
    for run in responses.chunk_by_mut(|left, right| shares(left) && shares(right)) {
        let items: Vec<_> = run
            .iter()
            .map(
                |Response {
                     attribute, tag, value, ..
                 }| Item {
                    id: *attribute,
                    tag: *tag,
                    value,
                },
            )
            .collect();
        let mut octets = Vec::new();
        // What each is encoded as already is right too: an error, which there is no cause for, leaves it.
        if run.len() > 1 && encode_items(dictionary, &items, None, &mut octets).is_ok() {
            let mut all = Some(Cow::Owned(octets));
            for response in run {
                response.encoded = all.take().or(Some(Cow::Borrowed(&[])));
            }
        }
    }
}

/// What a reject may carry. It stays a reject, whether its text can be filled or not.
fn fill_reject<'a>(responses: &'a [CompiledResponse], facts: &Facts<'_>) -> Vec<Response<'a>> {
    let allowed = responses.iter().filter(|response| response.in_reject());
    allowed
        .filter_map(|response| fill(response, facts).ok().flatten())
        .collect()
}

fn fill<'a>(response: &'a CompiledResponse, facts: &Facts<'_>) -> Result<Option<Response<'a>>, Unfilled> {
    let (attribute, tag) = (response.attribute(), response.tag());
    let (value, encoded) = match response.content() {
        Content::Reject => return Ok(None),
        Content::Fixed { .. } => return Ok(fixed(response)),
        Content::Hidden { value } => (Cow::Borrowed(value), None),
        Content::Template(parts) => {
            let text = template::fill(parts, facts)?;
            let definition = facts.dictionary().definition(attribute);
            let unfit = |problem: super::condition::Problem| Unfilled::Unfit(problem.problem);
            let value = compile::typed(definition, &text).map_err(unfit)?;
            let encoded = compile::encoded(facts.dictionary(), definition, tag, &value).map_err(unfit)?;
            (Cow::Owned(value), encoded.map(|octets| Cow::Owned(octets.into_vec())))
        }
    };
    Ok(Some(Response {
        attribute,
        tag,
        value,
        encoded,
    }))
}

/// A response that is the same each time; none: it is not.
fn fixed(response: &CompiledResponse) -> Option<Response<'_>> {
    match response.content() {
        Content::Fixed { value, encoded } => Some(Response {
            attribute: response.attribute(),
            tag: response.tag(),
            value: Cow::Borrowed(value),
            encoded: Some(Cow::Borrowed(encoded)),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn octets(responses: &[&str], facts: &Facts<'_>) -> Vec<Option<Vec<u8>>> {
        let site = testing::site(&[testing::compiled("accept a", &["NAS-Port == 1"], responses)], None);
        let decision = decide(&site, Method::EapTls, None, facts);
        assert_eq!(decision.reason, Reason::PolicyAccept);
        decision
            .responses()
            .iter()
            .map(|response| response.encoded.as_ref().map(|octets| octets.to_vec()))
            .collect()
    }

    #[test]
    fn rule_2_10_templates_are_encoded_as_constants_are() {
        let facts = testing::facts(&["NAS-Port = 1", "TLS-Client-Cert-Common-Name = 120"]);
        let filled = octets(&["Tunnel-Private-Group-Id:1 = %{TLS-Client-Cert-Common-Name}"], &facts);
        assert_eq!(filled, [Some(vec![81, 6, 1, b'1', b'2', b'0'])]);
        assert_eq!(filled, octets(&["Tunnel-Private-Group-Id:1 = 120"], &facts));
        assert_eq!(
            octets(&["Tunnel-Password:1 = %{TLS-Client-Cert-Common-Name}"], &facts),
            [None]
        );
    }

    #[test]
    fn rule_2_10_what_is_filled_in_must_fit() {
        let rows = ["Reply-Message = %{SSID}"];
        let site = testing::site(&[testing::compiled("accept a", &["NAS-Port == 1"], &rows)], None);
        for (length, reason) in [(253, Reason::PolicyAccept), (254, Reason::ResponseFailed)] {
            let facts = testing::facts(&["NAS-Port = 1", &format!("SSID = {}", "x".repeat(length))]);
            let decision = decide(&site, Method::EapTls, None, &facts);
            assert_eq!(decision.reason, reason, "{length}");
            assert_eq!(decision.action == Action::Accept, reason == Reason::PolicyAccept);
        }
    }

    /// RFC 6929 section 2.3: a TLV holds several attributes; here 241.5.1 and 241.5.2 beside 27.
    #[test]
    fn neighbours_in_a_tlv_share_it() {
        let mut dictionary = Dictionary::builtin().clone();
        let text = "ATTRIBUTE Test-Type 241.5.1 integer\nATTRIBUTE Test-Limit 241.5.2 integer\n";
        dictionary.extend("d".as_ref(), &mut |_| Ok(text.to_owned())).unwrap();
        let rows = ["Session-Timeout = 5", "Test-Type = 1", "Test-Limit = 7"];
        let policy = testing::policy("accept a", &["NAS-Port == 1"], &rows);
        let site = testing::site(&[compile::policy(&dictionary, &policy).unwrap().into()], None);
        let mut facts = Facts::new(&dictionary);
        facts.push(dictionary.by_name("NAS-Port").unwrap(), Value::Unsigned(1));
        let decision = decide(&site, Method::EapTls, None, &facts);
        let responses = decision.responses();
        let encoded: Vec<_> = responses
            .iter()
            .map(|response| response.encoded.as_deref().unwrap())
            .collect();
        assert_eq!(encoded[0], [27, 6, 0, 0, 0, 5]);
        assert_eq!(encoded[1], [241, 15, 5, 1, 6, 0, 0, 0, 1, 2, 6, 0, 0, 0, 7]);
        assert!(encoded[2].is_empty());
    }

    #[test]
    fn rule_2_4_a_mac_method_says_that_it_is_listed() {
        let facts = testing::facts(&[]);
        let site = testing::site(
            &[],
            Some(testing::compiled("fallback-accept f eap-tls,mab,mab-unknown", &[], &[])),
        );
        assert_eq!(decide(&site, Method::Mab, None, &facts).reason, Reason::MacListed);
        assert_eq!(
            decide(&site, Method::MabUnknown, Some(&[]), &facts).reason,
            Reason::FallbackAccept
        );
        let nobody = testing::site(&[], None);
        assert_eq!(
            decide(&nobody, Method::MabUnknown, None, &facts).reason,
            Reason::MacNotListed
        );
        assert_eq!(decide(&nobody, Method::EapTls, None, &facts).reason, Reason::NoFallback);
    }

    #[test]
    fn rule_2_8_a_value_of_another_type_is_malformed() {
        let facts = |value: Value<'static>| {
            let mut facts = testing::facts(&["SSID = Corp"]);
            facts.push(facts.dictionary().by_name("NAS-Port").unwrap(), value);
            facts
        };
        for rule in [
            "NAS-Port == 1",
            "NAS-Port != 1",
            "NAS-Port contains 1",
            "NAS-Port not-in 1, 2",
        ] {
            let site = testing::site(&[testing::compiled("accept a", &[rule], &[])], None);
            let decision = |value| decide(&site, Method::EapTls, None, &facts(value)).action;
            assert_eq!(decision(Value::Text("1".into())), Action::Reject, "{rule}");
        }
    }

    #[test]
    fn a_rule_that_policies_share_decides_each_of_them() {
        let shared = ["NAS-Port == 2", "SSID != Corp"];
        let policies = [
            testing::compiled("accept none", &["SSID == Corp", "NAS-Port == 2"], &[]),
            testing::compiled("accept far", &[shared[0], shared[1], "NAS-Port != 2"], &[]),
            testing::compiled("accept near", &[shared[1], shared[0]], &[]),
        ];
        let site = testing::site(&policies, None);
        let decided = |facts: &[&str]| {
            let facts = testing::facts(facts);
            let decision = decide(&site, Method::EapTls, None, &facts);
            let failed = decision.failed_rule.map(|failed| failed.rule.labelled().to_string());
            (decision.policy.map(CompiledPolicy::name).map(str::to_owned), failed)
        };
        assert_eq!(
            decided(&["NAS-Port = 2", "SSID = Guest"]),
            (Some("near".to_owned()), None)
        );
        assert_eq!(
            decided(&["NAS-Port = 2", "SSID = Corp"]),
            (Some("none".to_owned()), None)
        );
        assert_eq!(
            decided(&["NAS-Port = 3"]),
            (None, Some("near: NAS-Port == 2".to_owned()))
        );
    }

    #[test]
    fn of_more_rules_than_are_remembered_each_is_evaluated() {
        let rules: Vec<String> = (0..200)
            .map(|number| format!("NAS-Port != {}", number + 1_000))
            .collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let policies: Vec<_> = rules
            .chunks(10)
            .map(|rules| testing::compiled("reject all", rules, &[]))
            .chain([testing::compiled("accept last", &["NAS-Port == 1195"], &[])])
            .collect();
        let site = testing::site(&policies[19..], None);
        let facts = testing::facts(&["NAS-Port = 1195"]);
        assert_eq!(decide(&site, Method::EapTls, None, &facts).action, Action::Accept);
        let site = testing::site(&policies, None);
        assert_eq!(decide(&site, Method::EapTls, None, &facts).action, Action::Reject);
        let facts = testing::facts(&["NAS-Port = 7"]);
        let decision = decide(&site, Method::EapTls, None, &facts);
        assert_eq!(decision.policy.map(CompiledPolicy::name), Some("all"));
    }

    #[test]
    fn the_failed_rule_is_that_of_the_nearest_policy() {
        let policies = [
            testing::compiled("accept far", &["NAS-Port == 1", "SSID == Corp"], &[]),
            testing::compiled("accept near", &["NAS-Port == 2", "SSID == Corp"], &[]),
            testing::compiled("accept as-near", &["NAS-Port < 3", "SSID == Guest"], &[]),
        ];
        let site = testing::site(&policies, None);
        let facts = testing::facts(&["NAS-Port = 2"]);
        let failed = decide(&site, Method::EapTls, None, &facts).failed_rule.unwrap();
        assert_eq!(
            (failed.policy.name(), failed.rule.text(), failed.at),
            ("near", "SSID == Corp", 1)
        );
        assert_eq!(&**failed.rule.labelled(), "near: SSID == Corp");
    }
}
