//! Decisions as data: each file of `tests/policy/` is a policy document with `[[case]]`s (facts in, decision out) and
//! `[[refused]]` rows (what does not compile, and why). The cases run through the library, and through the binary's
//! `portreeve decide --json` over a database that the same document was imported into: both must say the same.

#![cfg(feature = "server")]

#[cfg(test)]
mod cases {
    use std::collections::HashMap;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};
    use std::sync::{Arc, Mutex};

    use portreeve::mac::MacAddress;
    use portreeve::policy::compile;
    use portreeve::policy::compiled::{CompiledResponse, CompiledSite};
    use portreeve::policy::explain::Explanation;
    use portreeve::policy::facts::{self, Facts};
    use portreeve::policy::model::{Action, Method, Policy, ResponseRow, Rule};
    use portreeve::policy::{decide, explain};
    use portreeve::radius::dictionary::Dictionary;
    use portreeve::radius::dictionary::types::Value;
    use serde::Deserialize;
    use tempfile::TempDir;

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
        /// Without it `accept`, of a fallback `reject`: as in a document.
        action: Option<String>,
        #[serde(default)]
        methods: Vec<String>,
        #[serde(default)]
        rules: Vec<String>,
        #[serde(default)]
        responses: Vec<String>,
        #[serde(default)]
        fallback: bool,
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

    /// Cases of which no command line can be written: an attribute that cannot be decoded has no text.
    const LIBRARY_ONLY: [&str; 5] = [
        "a malformed fact",
        "malformed satisfies no positive operator, even with a good value beside",
        "a complement does not hold for a malformed attribute",
        "neither in nor not in, when malformed",
        "malformed is neither present nor absent",
    ];

    /// Commands that run at a time: a machine has other things to do, and each opens the database.
    const AT_ONCE: usize = 4;

    #[test]
    fn all_files() {
        let mut wrong = Vec::new();
        for (name, _, document) in documents() {
            file(&name, &document, &mut wrong);
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    #[test]
    fn the_command_decides_as_the_library_does() {
        let documents = documents();
        let dictionary = Dictionary::builtin();
        let nodes: Vec<_> = documents.iter().map(|(_, text, _)| node(text)).collect();
        let mut library_only = Vec::new();
        let mut asked = Vec::new();
        for ((name, _, document), node) in documents.iter().zip(&nodes) {
            let sites = sites(dictionary, document);
            for case in &document.case {
                if !case.malformed.is_empty() {
                    library_only.push(case.name.as_str());
                    continue;
                }
                let tag = case.site.as_deref().unwrap_or(&document.site[0].tag);
                let expected = serde_json::to_value(explanation(dictionary, &sites[tag], case)).unwrap();
                asked.push((format!("{name}: `{}`", case.name), node.path(), tag, case, expected));
            }
        }
        assert_eq!(library_only, LIBRARY_ONLY);
        assert!(asked.len() > 50, "{}", asked.len());
        let (next, wrong) = (Mutex::new(asked.iter()), Mutex::new(Vec::new()));
        let work = || {
            while let Some((name, folder, tag, case, expected)) = { next.lock().unwrap().next() } {
                let mut found = by_command(folder, tag, case);
                let revision = found.as_object_mut().unwrap().remove("revision");
                assert!(revision.is_some_and(|revision| revision.is_string()), "{name}");
                if found != *expected {
                    let found = format!("{name}:\nthe library {expected:#}\nthe command {found:#}");
                    wrong.lock().unwrap().push(found);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(work);
            }
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    /// The files, each with its name and text.
    fn documents() -> Vec<(String, String, Document)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policy");
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        assert!(files.len() > 4, "{files:?}");
        let read = |path: PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let document = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, text, document)
        };
        files.into_iter().map(read).collect()
    }

    /// A folder with a database that holds the document's policies and sites.
    fn node(document: &str) -> TempDir {
        let folder = TempDir::new().unwrap();
        let mut set: toml::Table = toml::from_str(document).unwrap();
        set.remove("case");
        set.remove("refused");
        std::fs::write(folder.path().join("set.toml"), set.to_string()).unwrap();
        std::fs::write(folder.path().join("portreeve.toml"), "").unwrap();
        for args in [&["migrate"][..], &["import", "set.toml"]] {
            let output = portreeve(folder.path(), args);
            assert!(output.status.success(), "{args:?}: {output:?}");
        }
        folder
    }

    fn by_command(folder: &Path, tag: &str, case: &Case) -> serde_json::Value {
        let mut args = vec!["decide", "--json", "--site", tag];
        if let Some(mac) = &case.mac {
            args.extend(["--mac", mac]);
        }
        args.extend(case.attributes.iter().map(String::as_str));
        let output = portreeve(folder, &args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn portreeve(folder: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
        command.current_dir(folder).env_clear().args(args).output().unwrap()
    }

    fn file(name: &str, document: &Document, wrong: &mut Vec<String>) {
        let dictionary = Dictionary::builtin();
        let sites = sites(dictionary, document);
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

    /// What is to be decided: the method, what the site lists of the device, the facts.
    fn question<'a>(
        dictionary: &'a Dictionary,
        site: &'a Site,
        case: &Case,
    ) -> (Method, Option<&'a [CompiledResponse]>, Facts<'a>) {
        let mut facts = Facts::new(dictionary);
        for text in &case.attributes {
            let (id, value) = facts::parse(dictionary, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            facts.push(id, value);
        }
        for name in &case.malformed {
            facts.push_malformed(dictionary.by_name(name).unwrap());
        }
        let mac = case.mac.as_ref().map(|mac| MacAddress::parse(mac.as_bytes()).unwrap());
        // a request that is MAC authentication has the address in both
        for (name, mac) in ["User-Name", "Calling-Station-Id"]
            .into_iter()
            .zip(mac.into_iter().cycle())
        {
            let id = dictionary.by_name(name).unwrap();
            if !facts.ids().contains(&id) {
                facts.push(id, Value::Text(mac.to_string().into()));
            }
        }
        let listing = mac.and_then(|mac| site.macs.get(&mac));
        let method = match (mac, listing) {
            (None, _) => Method::EapTls,
            (Some(_), Some(_)) => Method::Mab,
            (Some(_), None) => Method::MabUnknown,
        };
        (method, listing.map(|responses| &**responses), facts)
    }

    fn explanation(dictionary: &Dictionary, site: &Site, case: &Case) -> Explanation {
        let (method, listing, facts) = question(dictionary, site, case);
        explain(&site.compiled, method, listing, &facts)
    }

    fn run(dictionary: &Dictionary, site: &Site, case: &Case) -> Vec<String> {
        let (method, listing, facts) = question(dictionary, site, case);
        let decision = decide(&site.compiled, method, listing, &facts);
        let explanation = explain(&site.compiled, method, listing, &facts);
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

    fn sites<'a>(dictionary: &Dictionary, document: &'a Document) -> HashMap<&'a str, Site> {
        let rows = document.site.iter();
        rows.map(|row| (row.tag.as_str(), site(dictionary, document, row)))
            .collect()
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
            action: match &row.action {
                Some(word) => Action::parse(word).unwrap(),
                None if row.fallback => Action::Reject,
                None => Action::Accept,
            },
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
