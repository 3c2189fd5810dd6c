//! The same decision with its reasons: policy by policy, rule by rule, with the value seen (rule 2.12).

use std::fmt;

use super::compile::{CompiledPolicy, CompiledResponse, CompiledSite};
use super::compiled::Candidate;
use super::evaluate::{Decision, decide};
use super::facts::{Facts, Seen};
use super::model::{Action, Method};
use super::text::quote;
use crate::radius::value;
use crate::reason::Reason;

/// A decision, explained. As JSON it is what `decide --json` prints, without the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "server", derive(serde::Serialize))]
pub struct Explanation {
    /// Accept or reject.
    #[cfg_attr(feature = "server", serde(serialize_with = "word"))]
    pub action: Action,
    /// Why.
    #[cfg_attr(feature = "server", serde(serialize_with = "word"))]
    pub reason: Reason,
    /// The site's tag.
    pub site: String,
    /// The policy that decided.
    pub policy: Option<String>,
    /// The method.
    #[cfg_attr(feature = "server", serde(serialize_with = "word"))]
    pub method: Method,
    /// What the reply carries, each as a line of text. Hidden values are not shown.
    pub responses: Vec<String>,
    /// More about the reason, as a sentence.
    #[cfg_attr(feature = "server", serde(skip_serializing_if = "Option::is_none"))]
    pub detail: Option<String>,
    /// Each policy that was tried, in order, up to the one that decided.
    pub trace: Vec<TracedPolicy>,
}

/// A policy that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "server", derive(serde::Serialize))]
pub struct TracedPolicy {
    /// Its name.
    pub policy: String,
    /// Whether it matched.
    pub matched: bool,
    /// All its rules.
    pub rules: Vec<TracedRule>,
}

/// A rule that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "server", derive(serde::Serialize))]
pub struct TracedRule {
    /// The rule as text.
    pub rule: String,
    /// What the attribute was.
    pub seen: SeenText,
    /// Whether it holds.
    pub holds: bool,
}

/// The value seen. As JSON: null, a text, several texts, or `{"malformed": true}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenText {
    /// None.
    Absent,
    /// Present, but not to be decoded.
    Malformed,
    /// These values, as text.
    Values(Vec<String>),
}

/// Decides as [`decide`] does, and explains it.
pub fn explain(
    site: &CompiledSite,
    method: Method,
    listing: Option<&[CompiledResponse]>,
    facts: &Facts<'_>,
) -> Explanation {
    let decision = decide(site, method, listing, facts);
    let mut trace: Vec<TracedPolicy> = Vec::new();
    for policy in site.policies_for(method).map(Candidate::policy) {
        let traced = traced(policy, !policy.rules().is_empty(), facts);
        let decided = traced.matched;
        trace.push(traced);
        if decided {
            break;
        }
    }
    if method != Method::Mab && !trace.iter().any(|policy| policy.matched) {
        let fallback = site.fallback().filter(|fallback| fallback.methods().contains(method));
        trace.extend(fallback.map(|fallback| traced(fallback, true, facts)));
    }
    Explanation {
        action: decision.action,
        reason: decision.reason,
        site: site.tag().to_owned(),
        policy: decision.policy.map(|policy| policy.name().to_owned()),
        method,
        responses: decision
            .responses()
            .iter()
            .map(|response| response.row(facts.dictionary()).to_string())
            .collect(),
        detail: detail(&decision, facts),
        trace,
    }
}

fn traced(policy: &CompiledPolicy, can_match: bool, facts: &Facts<'_>) -> TracedPolicy {
    let rules: Vec<_> = policy
        .rules()
        .iter()
        .map(|rule| {
            let definition = facts.dictionary().definition(rule.attribute());
            let seen = match facts.seen(rule.attribute()) {
                Seen::Absent => SeenText::Absent,
                Seen::Malformed => SeenText::Malformed,
                Seen::Values(values) => {
                    SeenText::Values(values.map(|value| value::display(definition, value)).collect())
                }
            };
            TracedRule {
                rule: rule.text().to_owned(),
                seen,
                holds: rule.holds(facts),
            }
        })
        .collect();
    let matched = can_match && rules.iter().all(|rule| rule.holds);
    TracedPolicy {
        policy: policy.name().to_owned(),
        matched,
        rules,
    }
}

fn detail(decision: &Decision<'_>, facts: &Facts<'_>) -> Option<String> {
    if let Some((response, why)) = &decision.failed_response {
        let name = &facts.dictionary().definition(response.attribute()).name;
        return Some(format!("{name} cannot be filled: {}", why.sentence(facts.dictionary())));
    }
    let contradicted = decision.policy.is_none_or(|policy| policy.action() == Action::Accept);
    (decision.reason == Reason::PolicyReject && contradicted)
        .then(|| "the endpoint's own responses say `Post-Auth-Type = Reject`".to_owned())
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation {
            action,
            reason,
            site,
            policy,
            method,
            responses,
            detail,
            trace,
        } = self;
        writeln!(f, "{}  {reason}: {}", action.word().to_uppercase(), reason.meaning())?;
        if let Some(detail) = detail {
            writeln!(f, "        {}", safe(detail))?;
        }
        write!(f, "        site {}, method {method}", safe(site))?;
        match policy {
            Some(policy) => writeln!(f, ", policy {}", safe(policy))?,
            None => writeln!(f)?,
        }
        for response in responses {
            writeln!(f, "        {}", safe(response))?;
        }
        for policy in trace {
            let matched = match (policy.matched, policy.rules.is_empty()) {
                (true, _) => "matches",
                (false, true) => "has no rules, so it never matches",
                (false, false) => "does not match",
            };
            writeln!(f, "\n{} {matched}", safe(&policy.policy))?;
            let widths = policy.rules.iter().map(|rule| safe(&rule.rule).chars().count());
            let width = widths.max().unwrap_or(0).min(60);
            for rule in &policy.rules {
                let holds = if rule.holds { "  ok  " } else { "  NO  " };
                writeln!(f, "{holds}{:width$}  seen: {}", safe(&rule.rule), rule.seen)?;
            }
        }
        match (action, reason.hint()) {
            // that `decide` would show the rules: they stand above
            (_, hint) if hint.is_empty() || hint.starts_with("`portreeve decide`") => Ok(()),
            (Action::Reject, hint) => writeln!(f, "\nhint: {hint}"),
            (Action::Accept, _) => Ok(()),
        }
    }
}

impl fmt::Display for SeenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SeenText::Absent => f.write_str("(absent)"),
            SeenText::Malformed => f.write_str("(malformed)"),
            SeenText::Values(values) => {
                let values: Vec<_> = values.iter().map(|value| quote(value)).collect();
                f.write_str(&values.join(", "))
            }
        }
    }
}

/// Names come from people and values from the network: neither may steer the terminal.
fn safe(text: &str) -> String {
    match text.contains(char::is_control) {
        true => quote(text),
        false => text.to_owned(),
    }
}

#[cfg(feature = "server")]
fn word<S: serde::Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(feature = "server")]
impl serde::Serialize for SeenText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match self {
            SeenText::Absent => serializer.serialize_none(),
            SeenText::Malformed => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("malformed", &true)?;
                map.end()
            }
            SeenText::Values(values) => match &**values {
                [value] => serializer.serialize_str(value),
                values => serializer.collect_seq(values),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn printers_and_laptops() -> CompiledSite {
        let policies = [
            testing::compiled(
                "accept printers",
                &["NAS-Port-Type == Ethernet", "User-Name starts-with printer"],
                &[],
            ),
            testing::compiled("accept empty", &[], &[]),
            testing::compiled(
                "accept laptops",
                &["TLS-Client-Cert-Issuer contains O=Example", "Called-Station-Id absent"],
                &["Tunnel-Private-Group-Id:1 = 120", "Tunnel-Password:1 = secret"],
            ),
        ];
        testing::site(&policies, None)
    }

    #[test]
    fn rule_2_12_for_people() {
        let issuer = "TLS-Client-Cert-Issuer = /C=GB/O=Example/CN=CA";
        let facts = testing::facts(&["NAS-Port-Type = Ethernet", "User-Name = \"a\\x1b[2J\"", issuer]);
        let explanation = explain(&printers_and_laptops(), Method::EapTls, None, &facts);
        let expected = "\
ACCEPT  policy-accept: a policy of the site matched and accepts
        site leeds, method eap-tls, policy laptops
        Tunnel-Private-Group-Id:1 = 120
        Tunnel-Password:1 = (hidden)

printers does not match
  ok  NAS-Port-Type == Ethernet      seen: Ethernet
  NO  User-Name starts-with printer  seen: \"a\\x1b[2J\"

empty has no rules, so it never matches

laptops matches
  ok  TLS-Client-Cert-Issuer contains O=Example  seen: /C=GB/O=Example/CN=CA
  ok  Called-Station-Id absent                   seen: (absent)
";
        assert_eq!(explanation.to_string(), expected);

        let explanation = explain(&printers_and_laptops(), Method::EapTls, None, &testing::facts(&[]));
        let text = explanation.to_string();
        assert!(text.starts_with("REJECT  no-fallback: no policy matched"), "{text}");
        assert!(!text.contains("hint:"), "what the hint names stands above: {text}");
        let explanation = explain(&printers_and_laptops(), Method::MabUnknown, None, &testing::facts(&[]));
        let text = explanation.to_string();
        assert!(
            text.ends_with("\nhint: add it: `portreeve mac add SITE MAC`\n"),
            "{text}"
        );
    }

    #[cfg(feature = "server")]
    #[test]
    fn rule_2_12_for_programs() {
        let mut facts = testing::facts(&["NAS-Port-Type = Ethernet", "NAS-Port-Type = Virtual"]);
        facts.push_malformed(facts.dictionary().by_name("User-Name").unwrap());
        let explanation = explain(&printers_and_laptops(), Method::EapTls, None, &facts);
        let expected = serde_json::json!({
            "action": "reject", "reason": "no-fallback", "site": "leeds", "policy": null, "method": "eap-tls",
            "responses": [],
            "trace": [
                {"policy": "printers", "matched": false, "rules": [
                    {"rule": "NAS-Port-Type == Ethernet", "seen": ["Ethernet", "Virtual"], "holds": true},
                    {"rule": "User-Name starts-with printer", "seen": {"malformed": true}, "holds": false},
                ]},
                {"policy": "empty", "matched": false, "rules": []},
                {"policy": "laptops", "matched": false, "rules": [
                    {"rule": "TLS-Client-Cert-Issuer contains O=Example", "seen": null, "holds": false},
                    {"rule": "Called-Station-Id absent", "seen": null, "holds": true},
                ]},
            ],
        });
        assert_eq!(serde_json::to_value(&explanation).unwrap(), expected);
    }
}
