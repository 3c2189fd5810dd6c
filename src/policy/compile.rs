//! From rows to what is evaluated: every error is found here, so that evaluation has none.
//!
//! A policy compiles whole or not at all (rule 2.11): a rule or response that is left out would change what the policy
//! means. Compiled policies are shared between sites, and hold nothing that can be derived from the dictionary.

use std::sync::Arc;

use super::attributes::{self, Refusal};
pub use super::compiled::{CompiledPolicy, CompiledResponse, CompiledRule, CompiledSite, Content, Methods};
use super::condition::{Condition, Problem};
use super::model::{Action, Policy, ResponseRow, Rule};
use super::operator::Operator;
use super::prepared::Prepared;
pub use super::rule::Tests;
use super::template::{self, Part, TemplateError};
use crate::radius::attribute::encode_attribute;
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, DataType, Definition, Encryption, Parent, Value};
use crate::radius::value;

/// Rules that a policy may have.
pub const MAX_RULES: usize = 256;
/// Responses that a policy or an endpoint may have: more than fit into a reply.
pub const MAX_RESPONSES: usize = 1_024;

/// Where in a policy or endpoint an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the policy as a whole.
    Whole,
    /// In this one of its rules, counted from 0.
    Rule(usize),
    /// In this one of its responses, counted from 0.
    Response(usize),
}

/// Why rows do not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CompileError {
    /// ``policy `laptops` `` or ``endpoint `aa-bb-cc-dd-ee-ff` ``.
    pub owner: String,
    /// Where in it.
    pub place: Place,
    /// The row as text; empty for [`Place::Whole`].
    pub row: String,
    /// What is wrong.
    pub problem: String,
    /// What to do; may be empty.
    pub hint: String,
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CompileError {
            owner,
            place,
            row,
            problem,
            hint,
        } = self;
        match place {
            Place::Whole => write!(f, "{owner}: {problem}")?,
            Place::Rule(at) => write!(f, "{owner}, rule {} `{row}`: {problem}", at.saturating_add(1))?,
            Place::Response(at) => write!(f, "{owner}, response {} `{row}`: {problem}", at.saturating_add(1))?,
        }
        match hint.as_str() {
            "" => Ok(()),
            hint => write!(f, "\nhint: {hint}"),
        }
    }
}

/// Compiles a policy. All its errors are returned, not just the first.
pub fn policy(dictionary: &Dictionary, policy: &Policy) -> Result<CompiledPolicy, Vec<CompileError>> {
    policy_sharing(dictionary, policy, &Tests::default())
}

/// The same; what its rules test is shared with the policies that were compiled with these.
pub fn policy_sharing(
    dictionary: &Dictionary,
    policy: &Policy,
    shared: &Tests,
) -> Result<CompiledPolicy, Vec<CompileError>> {
    let owner = format!("policy `{}`", policy.name);
    let mut errors = Vec::new();
    let rules = policy.rules.len();
    if rules > MAX_RULES {
        let problem = Problem::new(
            format!("{rules} rules: at most {MAX_RULES}"),
            "use `in` for a list of values",
        );
        errors.push(error(&owner, Place::Whole, String::new(), problem));
    }
    let mut compiled_rules = Vec::with_capacity(rules.min(MAX_RULES));
    for (at, row) in policy.rules.iter().enumerate().take(MAX_RULES) {
        match rule(dictionary, row) {
            Ok(rule) => compiled_rules.push(rule.of_policy(&policy.name, shared)),
            Err(problem) => errors.push(error(&owner, Place::Rule(at), row.to_string(), problem)),
        }
    }
    let mut compiled_responses = compile_responses(dictionary, &owner, &policy.responses, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    // Rule 2.10: older data writes a reject so.
    let rejects = compiled_responses
        .iter()
        .any(|response| response.content == Content::Reject);
    compiled_responses.retain(|response| response.content != Content::Reject);
    let action = if rejects { Action::Reject } else { policy.action };
    let prepared = match action {
        Action::Accept => Prepared::new(dictionary, &policy.name, &compiled_responses),
        Action::Reject => None,
    };
    Ok(CompiledPolicy {
        name: policy.name.as_str().into(),
        action,
        methods: Methods::of(&policy.methods),
        fallback: policy.fallback,
        rules: compiled_rules.into(),
        responses: compiled_responses.into(),
        prepared,
    })
}

/// Compiles the responses of an endpoint; `address` names it in errors.
pub fn endpoint_responses(
    dictionary: &Dictionary,
    address: &str,
    rows: &[ResponseRow],
) -> Result<Arc<[CompiledResponse]>, Vec<CompileError>> {
    let mut errors = Vec::new();
    let responses = compile_responses(dictionary, &format!("endpoint `{address}`"), rows, &mut errors);
    match errors.is_empty() {
        true => Ok(responses.into()),
        false => Err(errors),
    }
}

/// Compiles a rule.
pub fn rule(dictionary: &Dictionary, row: &Rule) -> Result<CompiledRule, Problem> {
    let definition = defined(dictionary, &row.attribute)?;
    refuse(definition, attributes::refused_as_fact(dictionary, definition))?;
    let operator = Operator::parse(&row.operator)
        .ok_or_else(|| Problem::from(super::text::TextError::UnknownOperator(row.operator.clone())))?;
    let condition = Condition::compile(definition, operator, &row.value)?;
    Ok(CompiledRule::new(
        definition.id,
        operator.complement,
        condition,
        &row.to_string(),
    ))
}

/// Compiles a response.
pub fn response(dictionary: &Dictionary, row: &ResponseRow) -> Result<CompiledResponse, Problem> {
    let (name, tag) = match row.attribute.split_once(':') {
        Some((name, tag)) => (name, Some(read_tag(tag)?)),
        None => (row.attribute.as_str(), None),
    };
    let definition = match dictionary.by_name(name) {
        Some(id) => dictionary.definition(id),
        None if attributes::is_post_auth_type(name) => return post_auth_type(AttributeId(u32::MAX), &row.value),
        None => defined(dictionary, name)?,
    };
    if attributes::is_post_auth_type(name) {
        return post_auth_type(definition.id, &row.value);
    }
    refuse(definition, attributes::refused_in_reply(dictionary, definition))?;
    if tag.is_some() && !definition.flags.has_tag {
        return Err(Problem::new(
            format!("{} has no tags", definition.name),
            format!("write `{} = …`", definition.name),
        ));
    }
    let tag = definition.flags.has_tag.then(|| tag.unwrap_or(0));
    let parts = template::parse(&row.value, |name| dictionary.by_name(name)).map_err(|error| {
        let hint = match error {
            TemplateError::Unterminated(_) => "write `%{Fact-Name}`, or `%%{` for the characters `%{`",
            TemplateError::Unknown(_) => "`portreeve dict NAME` shows an attribute; nothing else is expanded",
        };
        Problem::new(error.to_string(), hint)
    })?;
    let content = match &*parts {
        [] => fixed(dictionary, definition, tag, "")?,
        [Part::Literal(text)] => fixed(dictionary, definition, tag, text)?,
        parts => {
            for part in parts {
                if let Part::Fact(id) = part {
                    check_template_fact(dictionary, definition, *id)?;
                }
            }
            Content::Template(parts.into())
        }
    };
    let in_tlv = match definition.parent {
        Parent::Attribute(container) => dictionary.definition(container).data_type == DataType::Tlv,
        _ => false,
    };
    Ok(CompiledResponse {
        attribute: definition.id,
        tag,
        in_reject: attributes::allowed_in_reject(definition),
        in_tlv,
        content,
    })
}

/// Reads a response's value: text as it is, anything else by the dictionary.
pub(super) fn typed(definition: &Definition, text: &str) -> Result<Value<'static>, Problem> {
    if definition.data_type == DataType::Text {
        return Ok(Value::Text(text.to_owned().into()));
    }
    value::parse(definition, text)
        .map_err(|error| Problem::new(error.to_string(), format!("`portreeve dict {}`", definition.name)))
}

/// Encodes a value as a whole attribute; checks only that it fits where the writer hides it.
pub(super) fn encoded(
    dictionary: &Dictionary,
    definition: &Definition,
    tag: Option<u8>,
    value: &Value<'_>,
) -> Result<Option<Box<[u8]>>, Problem> {
    let unfit = |error: &dyn std::fmt::Display| Problem::new(error.to_string(), "");
    let mut octets = Vec::new();
    let most = match definition.flags.encryption {
        Encryption::None => {
            encode_attribute(dictionary, definition.id, tag, value, None, &mut octets)
                .map_err(|error| unfit(&error))?;
            return Ok(Some(octets.into()));
        }
        // RFC 2865 section 5.2: at most 128 octets
        Encryption::UserPassword | Encryption::AscendSecret => 128,
        // RFC 2868 section 3.5: salt, length octet and padding to 16 octets, inside 255
        Encryption::TunnelPassword => 239,
    };
    value::encode(definition, value, &mut octets).map_err(|error| unfit(&error))?;
    match octets.len() <= most {
        true => Ok(None),
        false => Err(Problem::new(
            format!("{} octets: at most {most} can be hidden", octets.len()),
            "",
        )),
    }
}

fn compile_responses(
    dictionary: &Dictionary,
    owner: &str,
    rows: &[ResponseRow],
    errors: &mut Vec<CompileError>,
) -> Vec<CompiledResponse> {
    if rows.len() > MAX_RESPONSES {
        let problem = Problem::new(format!("{} responses: at most {MAX_RESPONSES}", rows.len()), "");
        errors.push(error(owner, Place::Whole, String::new(), problem));
    }
    let mut responses = Vec::with_capacity(rows.len().min(MAX_RESPONSES));
    for (at, row) in rows.iter().enumerate().take(MAX_RESPONSES) {
        match response(dictionary, row) {
            Ok(response) => responses.push(response),
            Err(problem) => errors.push(error(owner, Place::Response(at), row.to_string(), problem)),
        }
    }
    responses
}

fn fixed(dictionary: &Dictionary, definition: &Definition, tag: Option<u8>, text: &str) -> Result<Content, Problem> {
    if text.is_empty() {
        return Err(Problem::new(
            "an empty value, which must not be sent (RFC 2865 section 5)",
            "leave the response out",
        ));
    }
    let value = typed(definition, text)?;
    Ok(match encoded(dictionary, definition, tag, &value)? {
        Some(encoded) => Content::Fixed { value, encoded },
        None => Content::Hidden { value },
    })
}

fn check_template_fact(dictionary: &Dictionary, definition: &Definition, fact: AttributeId) -> Result<(), Problem> {
    let fact = dictionary.definition(fact);
    refuse(fact, attributes::refused_as_fact(dictionary, fact))?;
    if attributes::is_authorisation(definition) && !attributes::is_trusted(dictionary, fact.id) {
        return Err(Problem::new(
            format!(
                "{} decides what the device may reach, and {} is sent by it or the switch",
                definition.name, fact.name
            ),
            "use a fact of the certificate (`TLS-Client-Cert-…`) or the site (`Client-Shortname`)",
        ));
    }
    Ok(())
}

fn post_auth_type(attribute: AttributeId, value: &str) -> Result<CompiledResponse, Problem> {
    match value.trim().eq_ignore_ascii_case("reject") {
        true => Ok(CompiledResponse {
            attribute,
            tag: None,
            in_reject: false,
            in_tlv: false,
            content: Content::Reject,
        }),
        false => Err(Problem::new(
            format!("`Post-Auth-Type = {value}` means nothing here"),
            "`Post-Auth-Type = Reject` is read as the action `reject`; leave any other out",
        )),
    }
}

/// RFC 2868 section 3.1: tags are 0x01 to 0x1F, and 0 is none.
fn read_tag(text: &str) -> Result<u8, Problem> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let digits = text.bytes().all(|b| b.is_ascii_alphanumeric());
    number.ok().filter(|tag| *tag <= 0x1F && digits).ok_or_else(|| {
        Problem::new(
            format!("`{text}` is no tag"),
            "a tag is a number from 0 (none) to 31 (RFC 2868 section 3.1)",
        )
    })
}

fn defined<'d>(dictionary: &'d Dictionary, name: &str) -> Result<&'d Definition, Problem> {
    match dictionary.by_name(name) {
        Some(id) => Ok(dictionary.definition(id)),
        None => Err(Problem::new(
            format!("`{name}` is in no dictionary"),
            "`portreeve dict` finds names; `[dictionaries] extra` loads more files",
        )),
    }
}

fn refuse(definition: &Definition, refusal: Option<Refusal>) -> Result<(), Problem> {
    match refusal {
        Some(Refusal { problem, hint }) => Err(Problem::new(format!("{} {problem}", definition.name), hint)),
        None => Ok(()),
    }
}

fn error(owner: &str, place: Place, row: String, problem: Problem) -> CompileError {
    let Problem { problem, hint } = problem;
    CompileError {
        owner: owner.to_owned(),
        place,
        row,
        problem,
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Method;
    use super::super::testing;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rule_2_11_all_errors_at_once_each_with_its_place_and_a_hint() {
        let row = testing::policy(
            "accept laptops",
            &[
                "NAS-Port-Typ == Ethernet",
                "NAS-Port-Type == Ethernet",
                "NAS-Port-Type == Ethernt",
            ],
            &["Filter-Id:1 = x"],
        );
        let errors = policy(Dictionary::builtin(), &row).unwrap_err();
        let places: Vec<_> = errors.iter().map(|error| error.place).collect();
        assert_eq!(places, [Place::Rule(0), Place::Rule(2), Place::Response(0)]);
        let texts: Vec<_> = errors.iter().map(CompileError::to_string).collect();
        assert!(
            texts[0].starts_with(
                "policy `laptops`, rule 1 `NAS-Port-Typ == Ethernet`: `NAS-Port-Typ` is in no dictionary\nhint: "
            ),
            "{}",
            texts[0]
        );
        assert!(
            texts[1].contains("rule 3 `NAS-Port-Type == Ethernt`: `Ethernt` is no value of"),
            "{}",
            texts[1]
        );
        assert!(
            texts[2].contains("response 1 `Filter-Id:1 = x`: Filter-Id has no tags\nhint: "),
            "{}",
            texts[2]
        );

        let rows = ["Filter-Idd = x".parse().unwrap()];
        let errors = endpoint_responses(Dictionary::builtin(), "00-00-5e-00-53-01", &rows).unwrap_err();
        assert!(
            errors[0]
                .to_string()
                .starts_with("endpoint `00-00-5e-00-53-01`, response 1 `"),
            "{}",
            errors[0]
        );
    }

    #[test]
    fn a_bound_on_rules_and_responses() {
        let rules = vec!["NAS-Port == 1"; MAX_RULES + 1];
        let errors = policy(Dictionary::builtin(), &testing::policy("accept a", &rules, &[])).unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "policy `a`: 257 rules: at most 256\nhint: use `in` for a list of values"
        );
        let responses = vec!["Session-Timeout = 1"; MAX_RESPONSES + 1];
        let errors = policy(Dictionary::builtin(), &testing::policy("accept a", &[], &responses)).unwrap_err();
        assert_eq!(errors[0].to_string(), "policy `a`: 1025 responses: at most 1024");
    }

    #[test]
    fn rule_2_3_a_policy_that_lists_no_method_is_for_eap_tls() {
        let methods = |head| testing::compiled(head, &[], &[]).methods().iter().collect::<Vec<_>>();
        assert_eq!(methods("accept a"), [Method::EapTls]);
        assert_eq!(methods("accept a mab-unknown,mab"), [Method::Mab, Method::MabUnknown]);
    }

    #[test]
    fn rule_2_10_responses_are_whole_attributes() {
        let octets = |text: &str| {
            let response = response(Dictionary::builtin(), &text.parse().unwrap()).unwrap();
            match response.content() {
                Content::Fixed { encoded, .. } => encoded.to_vec(),
                other => panic!("{other:?}"),
            }
        };
        // RFC 2868 section 3.1 and 3.2: the tag stands in place of the most significant octet
        assert_eq!(octets("Tunnel-Type:1 = VLAN"), [64, 6, 1, 0, 0, 13]);
        assert_eq!(octets("Tunnel-Type = VLAN"), [64, 6, 0, 0, 0, 13]);
        assert_eq!(octets("Tunnel-Medium-Type:2 = IEEE-802"), [65, 6, 2, 0, 0, 6]);
        assert_eq!(octets("Tunnel-Private-Group-Id:1 = 120"), [81, 6, 1, b'1', b'2', b'0']);
        // A VLAN is a text, and never the number.
        assert!(octets("Tunnel-Private-Group-Id = 1010").ends_with(b"1010"));
        assert_eq!(octets("Session-Timeout = 3600"), [27, 6, 0, 0, 14, 16]);
        assert_eq!(octets("Framed-IP-Address = 192.0.2.7"), [8, 6, 192, 0, 2, 7]);
        assert_eq!(octets("Filter-Id = 50%%"), [11, 5, b'5', b'0', b'%']);
    }

    #[test]
    fn rule_2_10_hidden_values_are_left_to_the_writer_and_checked_for_length() {
        let row = |length| ResponseRow {
            attribute: "Tunnel-Password:1".into(),
            value: "x".repeat(length),
        };
        let response = |length| response(Dictionary::builtin(), &row(length));
        assert!(matches!(response(239).unwrap().content(), Content::Hidden { .. }));
        assert_eq!(
            response(240).unwrap_err().problem,
            "240 octets: at most 239 can be hidden"
        );
    }

    #[test]
    fn rule_2_10_post_auth_type() {
        let policy = testing::compiled(
            "accept a",
            &["NAS-Port == 1"],
            &["post-auth-type = REJECT", "Filter-Id = x"],
        );
        assert_eq!((policy.action(), policy.responses().len()), (Action::Reject, 1));
    }

    #[test]
    fn a_site_knows_which_facts_it_needs() {
        let dictionary = Dictionary::builtin();
        let policies = [
            testing::compiled(
                "accept a",
                &["NAS-Port == 1", "SSID present"],
                &["Filter-Id = %{TLS-Cert-Serial}"],
            ),
            testing::compiled("accept b", &["NAS-Port == 2"], &[]),
        ];
        let site = testing::site(
            &policies,
            Some(testing::compiled("accept f", &["Day-Of-Week == mon"], &[])),
        );
        let names: Vec<_> = site
            .facts()
            .iter()
            .map(|id| &*dictionary.definition(*id).name)
            .collect();
        assert_eq!(names.len(), 4, "{names:?}");
        for name in ["NAS-Port", "SSID", "TLS-Cert-Serial", "Day-Of-Week"] {
            assert!(site.needs(dictionary.by_name(name).unwrap()), "{name}");
        }
        assert!(!site.needs(dictionary.by_name("Filter-Id").unwrap()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn arbitrary_rows_never_panic(at in 0_usize..10_000, operator in any::<String>(), value in any::<String>(), word in 0_usize..16) {
            let dictionary = Dictionary::builtin();
            let names: Vec<_> = dictionary.definitions().map(|definition| definition.name.to_string()).collect();
            let attribute = names[at % names.len()].clone();
            let known = Operator::all().nth(word).unwrap().word().to_owned();
            for operator in [operator, known] {
                let row = Rule { attribute: attribute.clone(), operator, value: value.clone() };
                if let Ok(compiled) = rule(dictionary, &row) {
                    let mut facts = crate::policy::Facts::new(dictionary);
                    facts.push(compiled.attribute(), Value::Text(value.as_str().into()));
                    compiled.holds(&facts);
                }
            }
            for attribute in [attribute.clone(), format!("{attribute}:{value}")] {
                let _ = response(dictionary, &ResponseRow { attribute, value: value.clone() });
            }
        }
    }
}
