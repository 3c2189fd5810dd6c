//! Policies from anywhere, one line each: `r` a rule, `s` a response, `f` a fact, `l` a list. Whatever is read is written so
//! that it reads back; what compiles decides, and the explanation says the same.

use std::sync::Arc;

use portreeve::policy::compile::{self, CompiledSite};
use portreeve::policy::evaluate::decide;
use portreeve::policy::explain::explain;
use portreeve::policy::facts::{self, Facts};
use portreeve::policy::model::{Action, Method, Policy, ResponseRow, Rule};
use portreeve::policy::{lint, text};
use portreeve::radius::dictionary::Dictionary;
use portreeve::reason::Reason;

/// Lines that are looked at: each may hold a regular expression of the largest size.
const MAX_LINES: usize = 16;

pub fn fuzz(data: &[u8]) {
    let dictionary = Dictionary::builtin();
    let whole = String::from_utf8_lossy(data);
    let (mut rules, mut responses) = (Vec::new(), Vec::new());
    let mut seen = Facts::new(dictionary);
    for line in whole.split('\n').take(MAX_LINES) {
        let Some(line) = line.get(1..).map(|rest| (line.as_bytes().first(), rest)) else {
            continue;
        };
        match line {
            (Some(b'r'), line) => {
                if let Ok(rule) = line.parse::<Rule>() {
                    assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule), "{rule}");
                    rules.push(rule);
                }
            }
            (Some(b's'), line) => {
                if let Ok(row) = line.parse::<ResponseRow>() {
                    assert_eq!(row.to_string().parse::<ResponseRow>().as_ref(), Ok(&row), "{row}");
                    responses.push(row);
                }
            }
            (Some(b'f'), line) => {
                if let Ok((id, value)) = facts::parse(dictionary, line) {
                    seen.push(id, value);
                }
            }
            (Some(b'l'), line) => {
                for item in text::list(line).unwrap_or_default() {
                    assert_eq!(text::unquote(&text::quote(&item)).as_ref(), Ok(&item));
                }
            }
            _ => {}
        }
    }
    let policy = Policy {
        name: "p".to_owned(),
        description: String::new(),
        action: Action::Accept,
        methods: Method::ALL.to_vec(),
        rules,
        responses,
        fallback: false,
    };
    let compiled = match compile::policy(dictionary, &policy) {
        Ok(compiled) => Arc::new(compiled),
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                let _ = error.to_string();
            }
            return;
        }
    };
    let _ = lint::policy(dictionary, &compiled);
    let _ = lint::endpoint(dictionary, "00-00-00-00-00-01", compiled.responses());
    let fallback = Some(Arc::clone(&compiled));
    let site = CompiledSite::new("s", [Arc::clone(&compiled), compiled], fallback);
    let _ = lint::site(&site);
    for method in Method::ALL {
        let decision = decide(&site, method, None, &seen);
        let explanation = explain(&site, method, None, &seen);
        assert_eq!(
            (decision.action, decision.reason),
            (explanation.action, explanation.reason)
        );
        let last = explanation.trace.last();
        if let Some(traced) = last.filter(|_| decision.action == Action::Accept && method != Method::Mab) {
            assert!(traced.matched && traced.rules.iter().all(|rule| rule.holds));
            // without rules only the fallback matches
            assert!(!traced.rules.is_empty() || decision.reason == Reason::FallbackAccept);
        }
    }
}

/// The rules and responses of the policy cases, and facts for them.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../tests/policy/order.toml"),
        include_str!("../../tests/policy/mab.toml"),
        include_str!("../../tests/policy/responses.toml"),
        include_str!("../../tests/policy/values.toml"),
        include_str!("../../tests/policy/refused.toml"),
    ];
    let mut seeds: Vec<String> = Vec::new();
    for line in files.iter().flat_map(|text| text.lines()) {
        let kind = match line.trim_start() {
            line if line.starts_with("responses") => 's',
            line if line.starts_with("facts") => 'f',
            _ => 'r',
        };
        let mut seed = String::new();
        for (at, item) in line.split(['"', '\'']).enumerate() {
            if at % 2 == 1 && item.contains(' ') {
                seed.push(kind);
                seed.push_str(item);
                seed.push('\n');
            }
        }
        if !seed.is_empty() {
            seeds.push(seed);
        }
    }
    seeds.extend(
        [
            "rUser-Name =~ ^host/([a-z]{1,9}\\.)+example$\nfUser-Name = host/a.b.example\n",
            "rFramed-IP-Address in 10.0.0.0/8, 192.168.0.0/16\nfFramed-IP-Address = 10.1.2.3\n",
            "rCalling-Station-Id starts-with 00:1B:78\nfCalling-Station-Id = 001b.7801.0203\nsFilter-Id = a%{User-Name}%%\n",
            "rTime-Of-Day >= 08:00\nrDay-Of-Week in [mon, fri]\nsTunnel-Type:1 = VLAN\nsTunnel-Private-Group-Id:1 = 120\n",
            "rSSID == \"a\\t\\\"\\x7f\"\nsPost-Auth-Type = Reject\n",
            "l[\"a, b\", c, \"\"]\nlx, y\n",
        ]
        .map(str::to_owned),
    );
    seeds.into_iter().map(String::into_bytes).collect()
}
