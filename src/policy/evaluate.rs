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
use super::facts::Facts;
use super::model::{Action, Method, ResponseRow};
use super::template::{self, Unfilled};
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};
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
    /// What the reply carries, in order. A reject has only what a reject may carry.
    pub responses: Vec<Response<'a>>,
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
    /// The whole attribute, ready to be appended to the reply. `None` where the value has to be hidden
    /// (`flags.encryption` of its definition), which only the writer of the reply can do.
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
    let theirs = policy.map(CompiledPolicy::responses).unwrap_or_default();
    // An endpoint of older data can say `Post-Auth-Type = Reject` for itself.
    let own_reject = action == Action::Accept && own.iter().any(|response| *response.content() == Content::Reject);
    if own_reject {
        let (action, reason) = (Action::Reject, Reason::PolicyReject);
        let responses = fill_reject(own, facts);
        return Decision {
            action,
            reason,
            policy,
            failed_rule,
            failed_response: None,
            responses,
        };
    }
    let decision = Decision {
        action,
        reason,
        policy,
        failed_rule,
        failed_response: None,
        responses: Vec::new(),
    };
    match action {
        Action::Accept => match fill_all(theirs, own, facts) {
            Ok(responses) => Decision { responses, ..decision },
            Err(failed) => Decision {
                action: Action::Reject,
                reason: Reason::ResponseFailed,
                failed_response: Some(failed),
                ..decision
            },
        },
        Action::Reject => Decision {
            responses: fill_reject(theirs, facts),
            ..decision
        },
    }
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
    let mut nearest: Option<FailedRule<'a>> = None;
    for policy in site.policies_for(method) {
        match policy.failed(facts) {
            Some((at, rule)) => {
                if nearest.is_none_or(|nearest| nearest.at < at) {
                    nearest = Some(FailedRule { policy, rule, at });
                }
            }
            None if policy.rules().is_empty() => {}
            None => return (Verdict::by(policy, Reason::PolicyAccept, Reason::PolicyReject), None),
        }
    }
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
    for response in theirs.iter().filter(|response| !replaced(response)).chain(own) {
        responses.extend(fill(response, facts).map_err(|why| (response, why))?);
    }
    Ok(responses)
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
        Content::Fixed { value, encoded } => (Cow::Borrowed(value), Some(Cow::Borrowed(&**encoded))),
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
