//! What compiles, and is probably not meant (rule 2.5). Shown at import and by `check`; nothing is refused for it.

use super::attributes;
use super::compile::{CompiledPolicy, CompiledResponse, CompiledRule, CompiledSite, Content, Methods};
use super::condition::{Condition, TextTest, implies};
use super::model::{Action, Method};
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Parent, Value};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It may well be meant.
    Note,
    /// It does something else than it says, or lets in more than it should.
    Warning,
}

/// One thing that is probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// Which kind, in a word that stays.
    pub word: &'static str,
    /// ``policy `laptops` ``, ``site `leeds`, policy `laptops` ``, ``endpoint `aa-bb-cc-dd-ee-ff` ``.
    pub owner: String,
    /// What is odd.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\nhint: {}", self.owner, self.message, self.hint)
    }
}

/// What a reply of 4,096 octets has room for beside EAP, keys and authenticators.
const MOST_RESPONSE_OCTETS: usize = 3_600;

// RFC 2865, 2868 and 3580
const USER_NAME: u32 = 1;
const SESSION_TIMEOUT: u32 = 27;
const TERMINATION_ACTION: u32 = 29;
const TUNNEL_TYPE: u32 = 64;
const TUNNEL_MEDIUM_TYPE: u32 = 65;
const TUNNEL_PRIVATE_GROUP_ID: u32 = 81;

/// Looks at one policy.
pub fn policy(dictionary: &Dictionary, policy: &CompiledPolicy) -> Vec<Finding> {
    let mut lint = Lint {
        dictionary,
        owner: format!("policy `{}`", policy.name()),
        findings: Vec::new(),
    };
    lint.rules(policy);
    match policy.action() {
        Action::Accept => {
            lint.vlan(policy.responses(), true);
            lint.session_timeout(policy.responses());
            lint.size(policy.responses());
        }
        Action::Reject => lint.reject(policy.responses()),
    }
    lint.findings
}

/// Looks at the responses of an endpoint, which may add to a policy's.
pub fn endpoint(dictionary: &Dictionary, address: &str, responses: &[CompiledResponse]) -> Vec<Finding> {
    let mut lint = Lint {
        dictionary,
        owner: format!("endpoint `{address}`"),
        findings: Vec::new(),
    };
    lint.vlan(responses, false);
    lint.size(responses);
    lint.findings
}

/// Looks at the policies of a site together, not at each for itself.
pub fn site(site: &CompiledSite) -> Vec<Finding> {
    let policies: Vec<&CompiledPolicy> = site.policies().collect();
    let mut findings = Vec::new();
    for (at, later) in policies.iter().enumerate() {
        for method in later.methods().iter() {
            let earlier = policies.iter().take(at).find(|earlier| shadows(earlier, later, method));
            let Some(earlier) = earlier else { continue };
            findings.push(Finding {
                level: Level::Warning,
                word: "shadowed",
                owner: format!("site `{}`, policy `{}`", site.tag(), later.name()),
                message: format!(
                    "never decides for {method}: `{}` stands before it and matches whenever it would",
                    earlier.name()
                ),
                hint: "swap their priorities, or take one of them out of the site",
            });
        }
    }
    if let Some(fallback) = site
        .fallback()
        .filter(|fallback| fallback.methods().contains(Method::Mab))
    {
        findings.push(Finding {
            level: Level::Note,
            word: "fallback-mab",
            owner: format!("site `{}`, policy `{}`", site.tag(), fallback.name()),
            message: "is a fallback for `mab`, which is never asked: a listed MAC is accepted by its listing"
                .to_owned(),
            hint: "write a policy for `mab` that rejects, or take the MAC off the list",
        });
    }
    findings
}

/// Whether the earlier policy matches whenever the later one does: each of its rules follows from one of the later's.
fn shadows(earlier: &CompiledPolicy, later: &CompiledPolicy, method: Method) -> bool {
    let follows = |general: &CompiledRule| later.rules().iter().any(|special| rule_implies(special, general));
    earlier.methods().contains(method)
        && !earlier.rules().is_empty()
        && !later.rules().is_empty()
        && earlier.rules().iter().all(follows)
}

fn rule_implies(special: &CompiledRule, general: &CompiledRule) -> bool {
    special.attribute() == general.attribute()
        && match (special.is_complement(), general.is_complement()) {
            (false, false) => implies(special.condition(), general.condition()),
            (true, true) => implies(general.condition(), special.condition()),
            _ => false,
        }
}

struct Lint<'d> {
    dictionary: &'d Dictionary,
    owner: String,
    findings: Vec<Finding>,
}

impl Lint<'_> {
    fn find(&mut self, level: Level, word: &'static str, message: impl Into<String>, hint: &'static str) {
        let (owner, message) = (self.owner.clone(), message.into());
        self.findings.push(Finding {
            level,
            word,
            owner,
            message,
            hint,
        });
    }

    fn standard(&self, id: AttributeId) -> Option<u32> {
        let definition = self.dictionary.definition(id);
        (definition.parent == Parent::Root).then_some(definition.number)
    }

    fn rules(&mut self, policy: &CompiledPolicy) {
        let (rules, accepts) = (policy.rules(), policy.action() == Action::Accept);
        if rules.is_empty() {
            if !policy.is_fallback() {
                self.find(
                    Level::Warning,
                    "no-rules",
                    "has no rules, so it never matches",
                    "give it a rule, or make it the fallback of its sites",
                );
            }
        } else if accepts && rules.iter().all(CompiledRule::is_complement) {
            self.find(
                Level::Warning,
                "only-negative",
                "accepts whatever some attributes are not, and so also what has none of them",
                "add a rule that says what the device is",
            );
        }
        let mut positive = rules.iter().filter(|rule| !rule.is_complement()).peekable();
        let any = positive.peek().is_some();
        // What a policy for `mab` adds to is the listing, and the MAC there is no claim of a name.
        let by_name = policy.methods() != Methods::of(&[Method::Mab]);
        if accepts && by_name && any && positive.all(|rule| self.standard(rule.attribute()) == Some(USER_NAME)) {
            self.find(
                Level::Warning,
                "user-name-alone",
                "trusts User-Name alone, which a device may send as it likes",
                "ask for a fact of the certificate, such as TLS-Client-Cert-Common-Name",
            );
        }
        if accepts && policy.is_fallback() && policy.methods().contains(Method::MabUnknown) && !any {
            self.find(
                Level::Warning,
                "fallback-accepts-unknown",
                "is a fallback that accepts every MAC address that the site does not list",
                "let it reject, or give it responses for a guest network",
            );
        }
        let mab = Methods::of(&[Method::Mab, Method::MabUnknown])
            .iter()
            .any(|method| policy.methods().contains(method));
        for rule in rules {
            let definition = self.dictionary.definition(rule.attribute());
            if mab && attributes::is_internal(definition) && definition.name.to_ascii_lowercase().starts_with("tls-") {
                let message = format!(
                    "is for `mab`, and asks for {}, which only a certificate has: `{}` {} there",
                    definition.name,
                    rule.text(),
                    if rule.is_complement() {
                        "always holds"
                    } else {
                        "never holds"
                    }
                );
                self.find(
                    Level::Warning,
                    "certificate-fact-in-mab",
                    message,
                    "make a policy for each method",
                );
            }
            if let Condition::MacText(tests) = rule.condition()
                && let TextTest::Matches(pattern) = &tests.0
                && looks_like_colons(pattern.as_str())
            {
                self.find(
                    Level::Warning,
                    "mac-pattern",
                    format!(
                        "`{}`: MAC addresses are compared in the form `aa-bb-cc-dd-ee-ff`",
                        rule.text()
                    ),
                    "write the pattern in lower case with `-`, or use `starts-with`, which reads any spelling",
                );
            }
        }
    }

    /// RFC 3580 section 3.31: a VLAN is Tunnel-Type VLAN (13), Tunnel-Medium-Type 802 (6) and Tunnel-Private-Group-ID,
    /// tied together by an equal tag (RFC 2868 section 3.1).
    fn vlan(&mut self, responses: &[CompiledResponse], whole: bool) {
        let of = |number: u32| {
            let found: Vec<_> = responses
                .iter()
                .filter(|each| self.standard(each.attribute()) == Some(number))
                .collect();
            found
        };
        let members = [
            ("Tunnel-Type", of(TUNNEL_TYPE)),
            ("Tunnel-Medium-Type", of(TUNNEL_MEDIUM_TYPE)),
            ("Tunnel-Private-Group-Id", of(TUNNEL_PRIVATE_GROUP_ID)),
        ];
        let mut tags: Vec<u8> = members
            .iter()
            .flat_map(|(_, found)| found)
            .filter_map(|each| each.tag())
            .collect();
        tags.sort_unstable();
        tags.dedup();
        let mut findings = Vec::new();
        let absent: Vec<_> = members
            .iter()
            .filter(|(_, found)| found.is_empty())
            .map(|(name, _)| *name)
            .collect();
        let has = |found: &[&CompiledResponse], tag: u8| found.iter().any(|each| each.tag() == Some(tag));
        let equal = |tag: &u8| members.iter().all(|(_, found)| found.is_empty() || has(found, *tag));
        if !tags.iter().all(equal) {
            let each = members
                .iter()
                .flat_map(|(name, found)| found.iter().map(move |each| (name, each.tag())));
            let each: Vec<_> = each
                .map(|(name, tag)| format!("{name} has tag {}", tag.unwrap_or(0)))
                .collect();
            findings.push((
                "vlan-tags",
                format!("{}: switches see no whole VLAN in that", each.join(", ")),
                "give all three attributes of a VLAN the same tag, or none",
            ));
        }
        if whole && !absent.is_empty() && !tags.is_empty() {
            findings.push((
                "vlan-incomplete",
                format!(
                    "{} is missing beside the other attributes of a VLAN",
                    absent.join(" and ")
                ),
                "a VLAN is Tunnel-Type = VLAN, Tunnel-Medium-Type = IEEE-802 and Tunnel-Private-Group-Id",
            ));
        }
        for (number, expected, found) in [
            (TUNNEL_TYPE, 13, of(TUNNEL_TYPE)),
            (TUNNEL_MEDIUM_TYPE, 6, of(TUNNEL_MEDIUM_TYPE)),
        ] {
            let is_other = |each: &&CompiledResponse| {
                matches!(each.content(),
                Content::Fixed { value: Value::Unsigned(value), .. } if *value != expected)
            };
            if found.iter().any(is_other) && !of(TUNNEL_PRIVATE_GROUP_ID).is_empty() {
                let name = if number == TUNNEL_TYPE {
                    "Tunnel-Type"
                } else {
                    "Tunnel-Medium-Type"
                };
                findings.push((
                    "vlan-type",
                    format!("{name} is not {expected}, which makes Tunnel-Private-Group-Id no VLAN"),
                    "write Tunnel-Type = VLAN and Tunnel-Medium-Type = IEEE-802 (RFC 3580 section 3.31)",
                ));
            }
        }
        for (word, message, hint) in findings {
            self.find(Level::Warning, word, message, hint);
        }
    }

    /// RFC 3580 section 3.17: without Termination-Action a Session-Timeout ends the session, with it the device is
    /// authenticated again.
    fn session_timeout(&mut self, responses: &[CompiledResponse]) {
        let has = |number| {
            responses
                .iter()
                .any(|each| self.standard(each.attribute()) == Some(number))
        };
        if has(SESSION_TIMEOUT) && !has(TERMINATION_ACTION) {
            self.find(
                Level::Warning,
                "session-timeout",
                "has Session-Timeout without Termination-Action: switches cut the device off when the time is over",
                "add `Termination-Action = RADIUS-Request`, so that they authenticate it again",
            );
        }
    }

    fn reject(&mut self, responses: &[CompiledResponse]) {
        let dropped: Vec<_> = responses
            .iter()
            .filter(|response| !response.in_reject())
            .map(|response| &*self.dictionary.definition(response.attribute()).name)
            .collect();
        if !dropped.is_empty() {
            let message = format!("rejects, and a reject does not carry {}", dropped.join(", "));
            self.find(
                Level::Warning,
                "reject-responses",
                message,
                "accept into a quarantine VLAN instead",
            );
        }
    }

    fn size(&mut self, responses: &[CompiledResponse]) {
        let octets: usize = responses
            .iter()
            .map(|response| match response.content() {
                Content::Fixed { encoded, .. } => encoded.len(),
                Content::Hidden { .. } | Content::Template(_) | Content::Reject => 0,
            })
            .sum();
        if octets > MOST_RESPONSE_OCTETS {
            let message =
                format!("has {octets} octets of responses; a reply has room for about {MOST_RESPONSE_OCTETS}");
            self.find(Level::Warning, "reply-too-long", message, "name fewer responses");
        }
    }
}

/// Whether a pattern has two groups of a MAC with a colon between, or capital hexadecimal digits in pairs.
fn looks_like_colons(pattern: &str) -> bool {
    pattern.as_bytes().windows(5).any(|window| match window {
        [a, b, b':', c, d] => [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::compile::endpoint_responses;
    use super::super::testing;
    use super::*;

    const VLAN: [&str; 3] = [
        "Tunnel-Type = VLAN",
        "Tunnel-Medium-Type = IEEE-802",
        "Tunnel-Private-Group-Id = 120",
    ];

    fn words(head: &str, rules: &[&str], responses: &[&str]) -> Vec<&'static str> {
        let findings = policy(Dictionary::builtin(), &testing::compiled(head, rules, responses));
        findings.iter().map(|finding| finding.word).collect()
    }

    #[test]
    fn rule_2_5_rules() {
        let device = "TLS-Client-Cert-Issuer present";
        assert_eq!(words("accept a", &[device], &[]), [""; 0]);
        assert_eq!(words("accept a", &[], &[]), ["no-rules"]);
        assert_eq!(words("fallback-accept a", &[], &[]), [""; 0]);
        assert_eq!(
            words("accept a", &["SSID != Guest", "NAS-Port absent"], &[]),
            ["only-negative"]
        );
        assert_eq!(words("reject a", &["SSID != Guest"], &[]), [""; 0]);
        assert_eq!(
            words("accept a", &["User-Name starts-with host/"], &[]),
            ["user-name-alone"]
        );
        assert_eq!(
            words("accept a", &["User-Name == a", "SSID != Guest"], &[]),
            ["user-name-alone"]
        );
        assert_eq!(words("reject a", &["User-Name == bob"], &[]), [""; 0]);
        assert_eq!(words("accept a mab", &["User-Name starts-with 00:1b:78"], &[]), [""; 0]);
        assert_eq!(
            words("accept a mab-unknown", &["User-Name starts-with 00:1b:78"], &[]),
            ["user-name-alone"]
        );
        assert_eq!(words("accept a", &["User-Name == a", device], &[]), [""; 0]);
    }

    #[test]
    fn rules_that_cannot_be_meant() {
        let word = ["certificate-fact-in-mab"];
        assert_eq!(words("accept a mab", &["TLS-Client-Cert-Serial == 1"], &[]), word);
        assert_eq!(words("reject a mab-unknown", &["TLS-Cert-Serial != 1"], &[]), word);
        assert_eq!(
            words("accept a mab", &["Calling-Station-Id =~ ^00:1B:78"], &[]),
            ["mac-pattern"]
        );
        assert_eq!(
            words("accept a mab", &["Calling-Station-Id =~ ^00-1b-78"], &[]),
            [""; 0]
        );
        assert_eq!(
            words("fallback-accept a mab-unknown", &[], &[]),
            ["fallback-accepts-unknown"]
        );
        assert_eq!(words("fallback-reject a mab-unknown", &[], &[]), [""; 0]);
    }

    #[test]
    fn rule_2_5_responses() {
        let rules = ["TLS-Client-Cert-Issuer present"];
        let accept = |responses: &[&str]| words("accept a", &rules, responses);
        assert_eq!(accept(&VLAN), [""; 0]);
        assert_eq!(
            accept(&[
                "Tunnel-Type:1 = VLAN",
                "Tunnel-Medium-Type:1 = 6",
                "Tunnel-Private-Group-Id:1 = 7"
            ]),
            [""; 0]
        );
        assert_eq!(
            accept(&[
                "Tunnel-Type:1 = VLAN",
                "Tunnel-Medium-Type:1 = 6",
                "Tunnel-Private-Group-Id = 7"
            ]),
            ["vlan-tags"]
        );
        assert_eq!(accept(&VLAN[1..]), ["vlan-incomplete"]);
        assert_eq!(accept(&["Tunnel-Type = GRE", VLAN[1], VLAN[2]]), ["vlan-type"]);
        assert_eq!(accept(&["Session-Timeout = 60"]), ["session-timeout"]);
        assert_eq!(
            accept(&["Session-Timeout = 60", "Termination-Action = RADIUS-Request"]),
            [""; 0]
        );
        assert_eq!(words("reject a", &rules, &["Reply-Message = no"]), [""; 0]);
        let findings = policy(Dictionary::builtin(), &testing::compiled("reject a", &rules, &VLAN));
        assert_eq!(
            findings[0].to_string(),
            "policy `a`: rejects, and a reject does not carry Tunnel-Type, Tunnel-Medium-Type, Tunnel-Private-Group-Id\n\
             hint: accept into a quarantine VLAN instead"
        );
        let long = format!("Reply-Message = {}", "x".repeat(240));
        assert_eq!(accept(&[&*long; 16]), ["reply-too-long"]);
    }

    #[test]
    fn rule_2_5_endpoints() {
        let words = |rows: &[&str]| {
            let rows: Vec<_> = rows.iter().map(|row| row.parse().unwrap()).collect();
            let responses = endpoint_responses(Dictionary::builtin(), "00-00-5e-00-53-01", &rows).unwrap();
            let findings = endpoint(Dictionary::builtin(), "00-00-5e-00-53-01", &responses);
            findings.iter().map(|finding| finding.word).collect::<Vec<_>>()
        };
        // A policy may have the rest.
        assert_eq!(words(&["Tunnel-Private-Group-Id:1 = 130"]), [""; 0]);
        assert_eq!(
            words(&["Tunnel-Type = VLAN", "Tunnel-Private-Group-Id:1 = 130"]),
            ["vlan-tags"]
        );
    }

    #[test]
    fn rule_2_5_shadowed() {
        let shadowed = |earlier: (&str, &[&str]), later: (&str, &[&str])| {
            let policies = [
                testing::compiled(earlier.0, earlier.1, &[]),
                testing::compiled(later.0, later.1, &[]),
            ];
            site(&testing::site(&policies, None))
                .iter()
                .any(|finding| finding.word == "shadowed")
        };
        let a = "accept a";
        for (earlier, later) in [
            (&["SSID == Corp"][..], &["SSID == Corp", "NAS-Port == 1"][..]),
            (&["SSID present"], &["SSID == Corp"]),
            (&["SSID in Corp, Guest"], &["SSID == Guest"]),
            (&["SSID starts-with Co"], &["SSID == Corp"]),
            (&["SSID starts-with Co"], &["SSID starts-with Corp"]),
            (&["SSID =~ ^C"], &["SSID in Corp, Cafe"]),
            (&["NAS-Port < 10"], &["NAS-Port == 9"]),
            (&["NAS-Port-Type == Ethernet"], &["NAS-Port-Type == 15"]),
            (&["Framed-IP-Address in 10.0.0.0/8"], &["Framed-IP-Address == 10.1.2.3"]),
            (&["SSID != Corp"], &["SSID absent"]),
            (&["SSID != Corp"], &["SSID not-in Corp, Guest"]),
            (
                &["Calling-Station-Id starts-with 00:1B:78"],
                &["Calling-Station-Id == 001b.78ca.fe0f"],
            ),
        ] {
            assert!(shadowed((a, earlier), ("reject b", later)), "{earlier:?} {later:?}");
        }
        for (earlier, later) in [
            (&["SSID == Corp", "NAS-Port == 1"][..], &["SSID == Corp"][..]),
            (&[], &["SSID == Corp"]),
            (&["SSID == Corp"], &["SSID present"]),
            (&["SSID == Corp"], &["SSID in Corp, Guest"]),
            (&["SSID not-in Corp, Guest"], &["SSID != Corp"]),
            (&["SSID != Guest"], &["SSID == Corp"]),
            (&["NAS-Port < 10"], &["NAS-Port == 10"]),
            (&["Framed-IP-Address == 10.1.2.3"], &["Framed-IP-Address in 10.0.0.0/8"]),
        ] {
            assert!(!shadowed((a, earlier), ("reject b", later)), "{earlier:?} {later:?}");
        }
        assert!(!shadowed(("accept a mab", &["SSID == Corp"]), (a, &["SSID == Corp"])));
        assert!(shadowed(
            ("accept a mab,eap-tls", &["SSID == Corp"]),
            ("accept b mab", &["SSID == Corp"])
        ));
    }

    #[test]
    fn a_fallback_for_mab_is_never_asked() {
        let findings = site(&testing::site(
            &[],
            Some(testing::compiled("fallback-reject f mab", &[], &[])),
        ));
        assert_eq!(findings[0].word, "fallback-mab");
        assert_eq!(findings[0].level, Level::Note);
    }
}
