//! A second evaluator for tests, slow and obvious: section 2 of the contract over rows and facts of text, sentence by
//! sentence, sharing nothing with the real one but the types of rows. The property test holds them against each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::compile;
use super::compiled::CompiledSite;
use super::evaluate::{decide, needs};
use super::explain::{SeenText, explain};
use super::facts::{self, Facts};
use super::model::{Action, Method, Policy, ResponseRow, Rule};
use crate::radius::dictionary::Dictionary;

/// An attribute's values as text, in order; `None` is a malformed one.
type Known = BTreeMap<String, Vec<Option<String>>>;

#[derive(Clone, Debug)]
struct Site {
    policies: Vec<Policy>,
    fallback: Option<Policy>,
}

/// Action, reason, policy, responses as `Attribute = value`.
type Outcome = (Action, &'static str, Option<String>, Vec<String>);

fn reference(site: &Site, method: Method, endpoint: &[ResponseRow], known: &Known) -> Outcome {
    // "The site's policies that list the request's method are tried in ascending priority; the first whose rules all
    // match decides." "A policy with no rules matches nothing."
    for policy in &site.policies {
        if lists(policy, method) && !policy.rules.is_empty() && policy.rules.iter().all(|rule| rule_holds(rule, known))
        {
            return decided(policy, method, endpoint, known, "policy-accept", "policy-reject");
        }
    }
    // "no matching policy: the listing itself is the accept. The fallback does not apply."
    if method == Method::Mab {
        return accept("mac-listed", None, &[], endpoint, known);
    }
    // "None: the site's fallback decides, for the methods it lists", and where it has rules they must match.
    if let Some(fallback) = &site.fallback
        && lists(fallback, method)
        && fallback.rules.iter().all(|rule| rule_holds(rule, known))
    {
        return decided(fallback, method, endpoint, known, "fallback-accept", "fallback-reject");
    }
    // "No fallback: reject."
    (
        Action::Reject,
        if method == Method::MabUnknown {
            "mac-not-listed"
        } else {
            "no-fallback"
        },
        None,
        vec![],
    )
}

fn lists(policy: &Policy, method: Method) -> bool {
    // "`eap-tls` (what a policy has when it lists none)"
    if policy.methods.is_empty() {
        method == Method::EapTls
    } else {
        policy.methods.contains(&method)
    }
}

fn is_old_reject(row: &ResponseRow) -> bool {
    row.attribute == "Post-Auth-Type" && row.value == "Reject"
}

fn decided(
    policy: &Policy,
    method: Method,
    endpoint: &[ResponseRow],
    known: &Known,
    accepted: &'static str,
    rejected: &'static str,
) -> Outcome {
    let name = Some(policy.name.clone());
    // "`Post-Auth-Type = Reject` from older data reads as action `reject`."
    if policy.action == Action::Reject || policy.responses.iter().any(is_old_reject) {
        return (Action::Reject, rejected, name, rejecting(&policy.responses, known));
    }
    let endpoint = if method == Method::Mab { endpoint } else { &[] };
    accept(accepted, name, &policy.responses, endpoint, known)
}

/// "a reject carries only what a reject may"
fn rejecting(rows: &[ResponseRow], known: &Known) -> Vec<String> {
    let mut lines = vec![];
    for row in rows.iter().filter(|row| row.attribute == "Reply-Message") {
        lines.extend(filled(row, known).map(|value| format!("Reply-Message = {value}")));
    }
    lines
}

fn accept(
    reason: &'static str,
    policy: Option<String>,
    theirs: &[ResponseRow],
    own: &[ResponseRow],
    known: &Known,
) -> Outcome {
    if own.iter().any(is_old_reject) {
        return (Action::Reject, "policy-reject", policy, rejecting(own, known));
    }
    // "over which the endpoint's own responses go (same attribute: replaced)"
    let name = |row: &ResponseRow| row.attribute.split(':').next().unwrap_or_default().to_owned();
    let mut rows: Vec<&ResponseRow> = vec![];
    for row in theirs {
        if !own.iter().any(|each| name(each) == name(row)) {
            rows.push(row);
        }
    }
    rows.extend(own);
    let mut lines = vec![];
    for row in rows {
        // "is a reject (`response-failed`)"
        let Some(value) = filled(row, known) else {
            return (Action::Reject, "response-failed", policy, vec![]);
        };
        lines.push(format!("{} = {value}", row.attribute));
    }
    (Action::Accept, reason, policy, lines)
}

/// "`%{Fact-Name}` filled in one pass. A fact that is absent, has several values, holds a control octet, or does not fit
/// the type is a reject."
fn filled(row: &ResponseRow, known: &Known) -> Option<String> {
    let mut value = String::new();
    for piece in regex::Regex::new(r"%\{[^}]*\}|[^%]+|%").unwrap().find_iter(&row.value) {
        match piece
            .as_str()
            .strip_prefix("%{")
            .and_then(|piece| piece.strip_suffix('}'))
        {
            None => value.push_str(piece.as_str()),
            Some(fact) => match known.get(fact).map(|values| &values[..]) {
                Some([Some(text)]) if !text.chars().any(|c| (c as u32) < 32 || c as u32 == 127) => value.push_str(text),
                _ => return None,
            },
        }
    }
    match row.attribute.as_str() {
        "Session-Timeout" => value.parse::<u32>().ok().map(|number| number.to_string()),
        _ if value.is_empty() || value.len() > 252 => None,
        _ => Some(value),
    }
}

fn rule_holds(rule: &Rule, known: &Known) -> bool {
    let none = vec![];
    let values = known.get(&rule.attribute).unwrap_or(&none);
    // "An attribute that is present but malformed makes every rule on it false, complements too."
    if values.iter().any(Option::is_none) {
        return false;
    }
    let values: Vec<&String> = values.iter().flatten().collect();
    // "a positive operator holds if any value satisfies it; a complement is its negation"
    let (positive, complement) = match rule.operator.as_str() {
        "absent" => ("present", true),
        operator => match operator.strip_prefix("not-") {
            Some(positive) => (positive, true),
            None => (operator, false),
        },
    };
    let any = values
        .iter()
        .any(|value| satisfies(&rule.attribute, positive, &rule.value, value));
    any != complement
}

fn satisfies(attribute: &str, operator: &str, wanted: &str, seen: &str) -> bool {
    if operator == "present" {
        return true;
    }
    match attribute {
        "NAS-Port-Type" | "NAS-Port" => match operator {
            "contains" | "starts-with" | "ends-with" | "matches" => text(operator, wanted, &name(attribute, seen)),
            "in" => wanted
                .split(", ")
                .any(|item| number(attribute, item) == number(attribute, seen)),
            _ => order(operator, number(attribute, seen), number(attribute, wanted)),
        },
        "Time-Of-Day" if operator == "in" => wanted.split(", ").any(|item| item == seen),
        "Time-Of-Day" => order(operator, seen, wanted),
        "Framed-IP-Address" => match operator {
            "equals" => ip(seen) == ip(wanted),
            "in" => wanted.split(", ").any(|network| in_network(seen, network)),
            _ => text(operator, wanted, &ip(seen).to_string()),
        },
        "Calling-Station-Id" | "Called-Station-Id" | "User-Name" => match mac_form(seen) {
            None => text(operator, wanted, seen),
            Some(seen) => text(operator, wanted, &seen) || mac_text(operator, wanted, &seen),
        },
        _ => text(operator, wanted, seen),
    }
}

fn text(operator: &str, wanted: &str, seen: &str) -> bool {
    match operator {
        "equals" => seen == wanted,
        "contains" => seen.contains(wanted),
        "starts-with" => seen.starts_with(wanted),
        "ends-with" => seen.ends_with(wanted),
        "matches" => regex::Regex::new(wanted).unwrap().is_match(seen),
        "in" => wanted.split(", ").any(|item| item == seen),
        _ => panic!("{operator}"),
    }
}

/// "MACs are compared in the form `aa-bb-cc-dd-ee-ff`, on both sides, prefixes too": here all wanted pieces are whole
/// pairs, so that putting `-` between pairs of digits is all there is to it.
fn mac_text(operator: &str, wanted: &str, seen: &str) -> bool {
    if operator == "in" {
        return wanted.split(", ").any(|item| mac_form(item).as_deref() == Some(seen));
    }
    if let Some(whole) = mac_form(wanted) {
        return operator != "matches" && text(operator, &whole, seen);
    }
    let digits: String = wanted
        .chars()
        .filter(|c| !"-:.".contains(*c))
        .collect::<String>()
        .to_lowercase();
    if !wanted.chars().all(|c| c.is_ascii_hexdigit() || "-:.".contains(c)) {
        return false;
    }
    let pairs: Vec<&str> = (0..digits.len() / 2).map(|at| &digits[at * 2..at * 2 + 2]).collect();
    matches!(operator, "starts-with" | "ends-with" | "contains") && text(operator, &pairs.join("-"), seen)
}

fn mac_form(text: &str) -> Option<String> {
    let shape =
        r"^([0-9A-Fa-f]{12}|(?:[0-9A-Fa-f]{2}[-:.]){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{4}[-:.]){2}[0-9A-Fa-f]{4})(:.*)?$";
    let found = regex::Regex::new(shape).unwrap().captures(text)?;
    let digits: String = found[1]
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect::<String>()
        .to_lowercase();
    let pairs: Vec<&str> = (0..6).map(|at| &digits[at * 2..at * 2 + 2]).collect();
    Some(format!(
        "{}{}",
        pairs.join("-"),
        found.get(2).map_or("", |rest| rest.as_str())
    ))
}

const PORT_TYPES: [(&str, i64); 4] = [("Async", 0), ("Virtual", 5), ("Ethernet", 15), ("Wireless-802.11", 19)];

fn number(attribute: &str, text: &str) -> i64 {
    let named = PORT_TYPES
        .iter()
        .find(|(name, _)| attribute == "NAS-Port-Type" && *name == text);
    named.map_or_else(|| text.parse().unwrap(), |(_, number)| *number)
}

fn name(attribute: &str, text: &str) -> String {
    let value = number(attribute, text);
    let named = PORT_TYPES
        .iter()
        .find(|(_, number)| attribute == "NAS-Port-Type" && *number == value);
    named.map_or_else(|| value.to_string(), |(name, _)| (*name).to_owned())
}

fn order<T: PartialOrd>(operator: &str, seen: T, wanted: T) -> bool {
    match operator {
        "equals" => seen == wanted,
        "less-than" => seen < wanted,
        "at-most" => seen <= wanted,
        "greater-than" => seen > wanted,
        "at-least" => seen >= wanted,
        _ => panic!("{operator}"),
    }
}

fn ip(text: &str) -> std::net::Ipv4Addr {
    text.parse().unwrap()
}

fn in_network(seen: &str, network: &str) -> bool {
    let (network, bits) = network.split_once('/').unwrap_or((network, "32"));
    let shift = 32 - bits.parse::<u32>().unwrap();
    let prefix = |address: &str| u64::from(u32::from(ip(address))) >> shift;
    prefix(seen) == prefix(network)
}

// ---- what is tried ----

const TEXT: &[&str] = &[
    "equals",
    "not-equals",
    "contains",
    "not-contains",
    "starts-with",
    "ends-with",
    "matches",
    "not-matches",
    "in",
    "not-in",
];
const ORDER: &[&str] = &[
    "equals",
    "not-equals",
    "less-than",
    "at-most",
    "greater-than",
    "at-least",
    "in",
    "not-in",
];

fn rule() -> impl Strategy<Value = Rule> {
    let made = |attribute: &'static str, operators: Vec<&'static str>, values: &'static [&'static str]| {
        (select(operators), select(values)).prop_map(move |(operator, value)| Rule {
            attribute: attribute.to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
        })
    };
    let texts = || TEXT.to_vec();
    prop_oneof![
        made("NAS-Port-Type", ORDER.to_vec(), &["Ethernet", "15", "Virtual", "19"]),
        made(
            "NAS-Port-Type",
            vec!["contains", "starts-with", "ends-with", "matches"],
            &["E", "e", "net", "802", "1"]
        ),
        made("NAS-Port", ORDER.to_vec(), &["0", "5", "10", "4294967295"]),
        made("NAS-Port", vec!["in", "not-in"], &["5, 10", "10", "0, 9, 7"]),
        made("Time-Of-Day", ORDER.to_vec(), &["00:00", "09:30", "18:00"]),
        made(
            "Framed-IP-Address",
            vec!["equals", "not-equals"],
            &["10.0.0.1", "192.168.1.1"]
        ),
        made(
            "Framed-IP-Address",
            vec!["in", "not-in"],
            &["10.0.0.0/8", "10.0.0.1, 192.168.0.0/16", "0.0.0.0/0"]
        ),
        made("Framed-IP-Address", vec!["contains", "starts-with"], &["10.", "1"]),
        made("Filter-Id", texts(), &["staff", "sta", "a", "Staff"]),
        made(
            "User-Name",
            texts(),
            &["host/", "host/a", "00:1B:78", "001B78CAFE0F", "0f", "bo"]
        ),
        made(
            "Calling-Station-Id",
            texts(),
            &["00:1B:78:CA:FE:0F", "00-1b-78", "001b", "fe0f", "CA:FE"]
        ),
        made(
            "Called-Station-Id",
            texts(),
            &["001b.78ca.fe0f:Corp", "00-1b-78-ca-fe-0f", "Corp", ":Corp", "78CA"]
        ),
        (
            select(&["NAS-Port-Type", "Filter-Id", "User-Name"][..]),
            select(&["present", "absent"][..])
        )
            .prop_map(|(attribute, operator)| Rule {
                attribute: attribute.into(),
                operator: operator.into(),
                value: String::new()
            }),
    ]
}

fn response() -> impl Strategy<Value = ResponseRow> {
    select(
        &[
            "Filter-Id = staff",
            "Filter-Id = role-%{TLS-Client-Cert-Common-Name}",
            "Tunnel-Private-Group-Id:1 = 120",
            "Tunnel-Private-Group-Id:2 = %{TLS-Client-Cert-Common-Name}",
            "Session-Timeout = 60",
            "Session-Timeout = %{TLS-Client-Cert-Common-Name}",
            "Reply-Message = hello %{User-Name} 5 %",
            "Reply-Message = port %{NAS-Port}",
            "Reply-Message = plain",
            "Post-Auth-Type = Reject",
        ][..],
    )
    .prop_map(|text| text.parse().unwrap())
}

fn policy() -> impl Strategy<Value = Policy> {
    let rules = prop::collection::vec(rule(), 0..3);
    let methods = prop::collection::vec(select(&Method::ALL[..]), 0..3);
    let responses = prop::collection::vec(response(), 0..4);
    (any::<bool>(), methods, rules, responses).prop_map(|(accept, methods, rules, responses)| Policy {
        name: String::new(),
        description: String::new(),
        action: if accept { Action::Accept } else { Action::Reject },
        methods,
        rules,
        responses,
        fallback: false,
    })
}

fn site() -> impl Strategy<Value = Site> {
    (prop::collection::vec(policy(), 0..4), prop::option::of(policy())).prop_map(|(mut policies, mut fallback)| {
        for (at, policy) in policies.iter_mut().enumerate() {
            policy.name = format!("policy {at}");
        }
        if let Some(fallback) = &mut fallback {
            fallback.name = "fallback".to_owned();
            fallback.fallback = true;
        }
        Site { policies, fallback }
    })
}

fn known() -> impl Strategy<Value = Known> {
    let values = |attribute: &'static str, values: &'static [&'static str]| {
        let value = prop_oneof![9 => select(values).prop_map(|value| Some(value.to_owned())), 1 => Just(None)];
        let several = prop_oneof![
            3 => Just(vec![]),
            5 => prop::collection::vec(value.clone(), 1),
            2 => prop::collection::vec(value, 2..4),
        ];
        several.prop_map(move |values| (attribute.to_owned(), values))
    };
    (
        values("NAS-Port-Type", &["Ethernet", "15", "Virtual", "19", "77"]),
        values("NAS-Port", &["0", "5", "9", "10", "4294967295"]),
        values("Time-Of-Day", &["00:00", "09:30", "17:59", "18:00"]),
        values(
            "Framed-IP-Address",
            &["10.0.0.1", "10.255.0.1", "192.168.1.1", "172.16.0.1"],
        ),
        values("Filter-Id", &["staff", "Staff", "a", ""]),
        values(
            "User-Name",
            &["host/a", "001b78cafe0f", "00-1B-78-CA-FE-0F", "bob", "bell\u{7}"],
        ),
        values(
            "Calling-Station-Id",
            &["001B.78CA.FE0F", "00:1b:78:ca:fe:10", "port 7", "00-1B-79-CA-FE-0F"],
        ),
        values(
            "Called-Station-Id",
            &[
                "00-1B-78-CA-FE-0F:Corp",
                "001b78cafe0f",
                "00:1B:78:CA:FE:0F:cafe",
                "Corp",
            ],
        ),
        values(
            "TLS-Client-Cert-Common-Name",
            &["120", "laptop", "%{User-Name}", "tab\t", ""],
        ),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i)| {
            [a, b, c, d, e, f, g, h, i]
                .into_iter()
                .filter(|(_, values)| !values.is_empty())
                .collect()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_compiled_evaluator_decides_as_the_reference_does(
        site in site(),
        method in select(&Method::ALL[..]),
        endpoint in prop::collection::vec(response(), 0..3),
        known in known(),
    ) {
        let expected = reference(&site, method, &endpoint, &known);

        let dictionary = Dictionary::builtin();
        let compiled = |policy: &Policy| {
            Arc::new(compile::policy(dictionary, policy).unwrap_or_else(|errors| panic!("{}", errors[0])))
        };
        let compiled = CompiledSite::new("leeds", site.policies.iter().map(compiled), site.fallback.as_ref().map(compiled));
        let listing = compile::endpoint_responses(dictionary, "", &endpoint).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let mut facts = Facts::new(dictionary);
        for (name, values) in &known {
            let id = dictionary.by_name(name).unwrap();
            for value in values {
                match value {
                    Some(text) => facts.push(id, facts::parse(dictionary, &row(name, text)).unwrap().1),
                    None => facts.push_malformed(id),
                }
            }
        }
        let decision = decide(&compiled, method, Some(&*listing), &facts);
        let responses = decision.responses();
        let lines = responses.iter().map(|response| {
            let ResponseRow { attribute, value } = response.row(dictionary);
            format!("{attribute} = {value}")
        });
        let found: Outcome = (
            decision.action,
            decision.reason.word(),
            decision.policy.map(|policy| policy.name().to_owned()),
            lines.collect(),
        );
        prop_assert_eq!(&found, &expected, "{:?}", known);

        // Nothing but an accept has an accept's reason.
        let accepts = decision.reason.kind() == crate::reason::Kind::Accept;
        prop_assert_eq!(decision.action == Action::Accept, accepts);
        // What is ready to be sent is what the dictionary reads back.
        for response in &*responses {
            prop_assert!(response.encoded.as_ref().is_some_and(|octets| octets.len() > 2));
        }
        if let Some(prepared) = decision.prepared {
            let each = responses.iter().filter_map(|response| response.encoded.as_deref());
            prop_assert_eq!(prepared.attributes(), each.collect::<Vec<_>>().concat());
        }

        // Rule 2.12: the explanation is of the same decision, and agrees with itself.
        let explanation = explain(&compiled, method, Some(&*listing), &facts);
        prop_assert_eq!(explanation.action, decision.action);
        prop_assert_eq!(explanation.reason, decision.reason);
        prop_assert_eq!(&explanation.policy, &found.2);
        let matched: Vec<_> = explanation.trace.iter().filter(|policy| policy.matched).collect();
        prop_assert_eq!(matched.first().map(|policy| &policy.policy), explanation.policy.as_ref());
        prop_assert!(matched.len() <= 1);
        for rule in explanation.trace.iter().flat_map(|policy| &policy.rules) {
            let row: Rule = rule.rule.parse().unwrap();
            prop_assert_eq!(rule.holds, rule_holds(&row, &known), "{}", rule.rule);
            prop_assert_eq!(rule.seen == SeenText::Absent, !known.contains_key(&row.attribute));
        }
        if let Some(failed) = decision.failed_rule {
            prop_assert!(!failed.rule.holds(&facts));
            prop_assert!(failed.policy.rules().iter().take(failed.at).all(|rule| rule.holds(&facts)));
        }
        prop_assert!(!explanation.to_string().contains(|c: char| c.is_control() && c != '\n'));

        // The site says which facts it needs: no others change anything.
        let mut needed = Facts::new(dictionary);
        for (name, values) in &known {
            let id = dictionary.by_name(name).unwrap();
            if needs(&compiled, Some(&*listing), id) {
                for value in values {
                    match value {
                        Some(text) => needed.push(id, facts::parse(dictionary, &row(name, text)).unwrap().1),
                        None => needed.push_malformed(id),
                    }
                }
            }
        }
        let again = decide(&compiled, method, Some(&*listing), &needed);
        prop_assert_eq!(again.reason, decision.reason);
        prop_assert_eq!(again.responses(), responses);
    }
}

fn row(name: &str, value: &str) -> String {
    ResponseRow {
        attribute: name.to_owned(),
        value: value.to_owned(),
    }
    .to_string()
}
