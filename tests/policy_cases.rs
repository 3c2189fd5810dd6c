//! Decisions as data: each file of `tests/policy/` is a policy document with `[[case]]`s (facts in, decision out) and
//! `[[refused]]` rows (what does not compile, and why). The same files run through `portreeve decide` elsewhere.

#![cfg(feature = "server")]

#[cfg(test)]
mod cases {
    use std::collections::HashMap;
    use std::path::Path;
    use std::sync::Arc;

    use portreeve::mac::MacAddress;
    use portreeve::policy::compile;
    use portreeve::policy::compiled::{CompiledResponse, CompiledSite};
    use portreeve::policy::facts::{self, Facts};
    use portreeve::policy::model::{Action, Method, Policy, ResponseRow, Rule};
    use portreeve::policy::{decide, explain};
    use portreeve::radius::dictionary::Dictionary;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        #[serde(default)]
        policy: Vec<PolicyRow>,
        #[serde(default)]
        site: Vec<SiteRow>,
        #[serde(default)]
        case: Vec<Case>,
        #[serde(default)]
        refused: Vec<Refused>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct PolicyRow {
        name: String,
        #[serde(default)]
        description: String,
        #[serde(default = "accept")]
        action: String,
        #[serde(default)]
        methods: Vec<String>,
        #[serde(default)]
        rules: Vec<String>,
        #[serde(default)]
        responses: Vec<String>,
        #[serde(default)]
        fallback: bool,
    }

    fn accept() -> String {
        "accept".to_owned()
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SiteRow {
        name: String,
        tag: String,
        fallback: Option<String>,
        #[serde(default)]
        policies: Vec<SitePolicy>,
        #[serde(default)]
        mac: Vec<Mac>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SitePolicy {
        policy: String,
        priority: i64,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Mac {
        address: String,
        #[serde(default)]
        responses: Vec<String>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        name: String,
        /// The rule of the contract that it holds.
        rule: String,
        /// A site's tag; the file's only site where there is one.
        site: Option<String>,
        /// `mab` where the site lists it, `mab-unknown` where not; without it `eap-tls`.
        mac: Option<String>,
        #[serde(default)]
        attributes: Vec<String>,
        /// Attributes that are present and cannot be decoded: only the library can be given those.
        #[serde(default)]
        malformed: Vec<String>,
        expect: Expect,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Expect {
        action: String,
        reason: String,
        policy: Option<String>,
        responses: Option<Vec<String>>,
        failed_rule: Option<String>,
        detail: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Refused {
        rule: Option<String>,
        response: Option<String>,
        because: String,
    }

    struct Site {
        compiled: CompiledSite,
        macs: HashMap<MacAddress, Arc<[CompiledResponse]>>,
    }

    #[test]
    fn all_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policy");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        assert!(files.len() > 4, "{files:?}");
        let mut wrong = Vec::new();
        for path in files {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let document: Document = toml::from_str(&std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            file(&name, &document, &mut wrong);
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    fn file(name: &str, document: &Document, wrong: &mut Vec<String>) {
        let dictionary = Dictionary::builtin();
        let sites: HashMap<&str, Site> = document
            .site
            .iter()
            .map(|row| (row.tag.as_str(), site(dictionary, document, row)))
            .collect();
        for case in &document.case {
            let tag = case.site.as_deref().unwrap_or(&document.site[0].tag);
            for problem in run(dictionary, &sites[tag], case) {
                wrong.push(format!("{name}: `{}` (rule {}): {problem}", case.name, case.rule));
            }
        }
        for row in &document.refused {
            let text = row.rule.as_ref().or(row.response.as_ref()).unwrap();
            match refusal(dictionary, row) {
                None => wrong.push(format!("{name}: `{text}` compiles")),
                Some(because) if !because.contains(&row.because) => {
                    wrong.push(format!("{name}: `{text}` is refused because {because}"));
                }
                Some(_) => {}
            }
        }
    }

    fn run(dictionary: &Dictionary, site: &Site, case: &Case) -> Vec<String> {
        let mut facts = Facts::new(dictionary);
        for text in &case.attributes {
            let (id, value) = facts::parse(dictionary, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            facts.push(id, value);
        }
        for name in &case.malformed {
            facts.push_malformed(dictionary.by_name(name).unwrap());
        }
        let mac = case.mac.as_ref().map(|mac| MacAddress::parse(mac.as_bytes()).unwrap());
        let listing = mac.and_then(|mac| site.macs.get(&mac));
        let method = match (mac, listing) {
            (None, _) => Method::EapTls,
            (Some(_), Some(_)) => Method::Mab,
            (Some(_), None) => Method::MabUnknown,
        };
        let decision = decide(&site.compiled, method, listing.map(|responses| &**responses), &facts);
        let explanation = explain(&site.compiled, method, listing.map(|responses| &**responses), &facts);
        assert_eq!(explanation.action, decision.action);
        assert_eq!(explanation.reason, decision.reason);
        let failed = decision
            .failed_rule
            .map(|failed| format!("{}: {}", failed.policy.name(), failed.rule.text()));
        let Expect {
            action,
            reason,
            policy,
            responses,
            failed_rule,
            detail,
        } = &case.expect;
        let mut problems = Vec::new();
        let mut compare = |what: &str, expected: &dyn std::fmt::Debug, found: &dyn std::fmt::Debug| {
            let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
            if expected != found {
                problems.push(format!("{what} {expected} expected, found {found}\n{explanation}"));
            }
        };
        compare("action", action, &explanation.action.word());
        compare("reason", reason, &explanation.reason.word());
        compare("policy", policy, &explanation.policy);
        if let Some(responses) = responses {
            compare("responses", responses, &explanation.responses);
        }
        if failed_rule.is_some() {
            compare("failed rule", failed_rule, &failed);
        }
        if detail.is_some() {
            compare("detail", detail, &explanation.detail);
        }
        problems
    }

    fn site(dictionary: &Dictionary, document: &Document, row: &SiteRow) -> Site {
        assert!(!row.name.is_empty());
        let compiled = |name: &str| {
            let found = document.policy.iter().find(|policy| policy.name == name);
            let policy = policy(found.unwrap_or_else(|| panic!("no policy {name}")));
            Arc::new(compile::policy(dictionary, &policy).unwrap_or_else(|errors| panic!("{}", errors[0])))
        };
        let mut policies: Vec<_> = row.policies.iter().collect();
        policies.sort_by_key(|policy| policy.priority);
        let macs = row.mac.iter().map(|mac| {
            let rows = responses(&mac.responses);
            let compiled = compile::endpoint_responses(dictionary, &mac.address, &rows);
            (
                MacAddress::parse(mac.address.as_bytes()).unwrap(),
                compiled.unwrap_or_else(|errors| panic!("{}", errors[0])),
            )
        });
        Site {
            macs: macs.collect(),
            compiled: CompiledSite::new(
                &row.tag,
                policies.into_iter().map(|policy| compiled(&policy.policy)),
                row.fallback.as_deref().map(compiled),
            ),
        }
    }

    fn policy(row: &PolicyRow) -> Policy {
        Policy {
            name: row.name.clone(),
            description: row.description.clone(),
            action: Action::parse(&row.action).unwrap(),
            methods: row
                .methods
                .iter()
                .map(|method| Method::parse(method).unwrap())
                .collect(),
            rules: row.rules.iter().map(|rule| rule.parse().unwrap()).collect(),
            responses: responses(&row.responses),
            fallback: row.fallback,
        }
    }

    fn responses(rows: &[String]) -> Vec<ResponseRow> {
        rows.iter().map(|row| row.parse().unwrap()).collect()
    }

    fn refusal(dictionary: &Dictionary, row: &Refused) -> Option<String> {
        if let Some(text) = &row.rule {
            return match text.parse::<Rule>() {
                Ok(rule) => compile::rule(dictionary, &rule).err().map(|problem| problem.problem),
                Err(error) => Some(error.to_string()),
            };
        }
        match row.response.as_ref()?.parse::<ResponseRow>() {
            Ok(response) => compile::response(dictionary, &response)
                .err()
                .map(|problem| problem.problem),
            Err(error) => Some(error.to_string()),
        }
    }
}
