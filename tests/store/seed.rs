//! `portreeve seed`: the data set has the shape that it says, compiles, and is answered as its plan says.

use portreeve::policy::explain::explain;
use portreeve::policy::facts::{self, Facts};
use portreeve::policy::model::Method;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::SiteState;
use portreeve::store::seed::{Case, Counts, Nacs, Options, Plan, SeedError, seed};
use portreeve::store::{document, inspect};

use crate::support::{Database, Result};

async fn write(database: &Database, counts: Counts, replace: bool) -> std::result::Result<Nacs, SeedError> {
    let nacs = Nacs::new(counts)?;
    seed(&database.store, &nacs, Options { replace }, &mut |_| ()).await?;
    Ok(nacs)
}

/// Small, and no two counts alike.
const SMALL: Counts = Counts {
    sites: 6,
    policies: 7,
    rules: 5,
    responses: 4,
    policies_per_site: 3,
    clients: 2,
    macs: 8,
};

fn plan(nacs: &Nacs) -> Result<Plan> {
    let mut octets = Vec::new();
    nacs.write_plan(&mut octets)?;
    Ok(toml::from_str(std::str::from_utf8(&octets)?)?)
}

#[tokio::test]
async fn nacs_has_the_numbers_of_the_published_test_and_nothing_to_complain_of() -> Result {
    let database = Database::new().await?;
    write(&database, Counts::default(), false).await?;
    let mut plain = database.plain().await?;
    for (sql, count) in [
        ("SELECT count(*) FROM sites", 1_750),
        ("SELECT count(*) FROM policies WHERE NOT fallback", 1_000),
        ("SELECT count(*) FROM policies WHERE fallback", 1_750),
        ("SELECT count(*) FROM rules", 5_000),
        ("SELECT count(*) FROM responses", 6_750),
        ("SELECT count(*) FROM site_policies WHERE priority IS NOT NULL", 8_750),
        ("SELECT count(*) FROM site_policies WHERE priority IS NULL", 1_750),
        (
            "SELECT count(*) FROM clients WHERE shared_secret = 'testing123'",
            17_500,
        ),
        ("SELECT count(*) FROM mac_authentication_bypasses", 17_500),
        (
            "SELECT min(n) FROM (SELECT count(*) n FROM rules GROUP BY policy_id) AS each",
            5,
        ),
        (
            "SELECT max(n) FROM (SELECT count(*) n FROM clients GROUP BY site_id) AS each",
            10,
        ),
        (
            "SELECT min(n) FROM (SELECT count(*) n FROM mac_authentication_bypasses GROUP BY site_id) AS each",
            10,
        ),
    ] {
        assert_eq!(plain.number(sql).await?, count, "{sql}");
    }
    let found = inspect(&database.store, Dictionary::builtin()).await?;
    assert!(found.errors.is_empty(), "{:?}", found.errors.first());
    assert!(found.findings.is_empty(), "{:?}", found.findings.first());
    Ok(())
}

#[tokio::test]
async fn equal_counts_give_equal_rows_and_plans() -> Result {
    let counts = Counts {
        sites: 2,
        policies: 2,
        rules: 2,
        responses: 1,
        policies_per_site: 2,
        clients: 1,
        macs: 1,
    };
    let database = Database::new().await?;
    let nacs = write(&database, counts, false).await?;
    let exported = document::export(&database.store, false).await?.text;
    let (stamp, set) = exported.split_once("\n\n").ok_or("no stamp")?;
    assert!(stamp.starts_with("revision = "), "{stamp}");
    assert_eq!(set, SET);
    let mut octets = Vec::new();
    nacs.write_plan(&mut octets)?;
    assert_eq!(String::from_utf8(octets)?, PLAN);
    Ok(())
}

#[tokio::test]
async fn decisions_are_those_of_the_plan_and_each_earlier_policy_fails_at_its_last_rule() -> Result {
    for counts in [
        SMALL,
        Counts {
            policies: 60,
            policies_per_site: 50,
            rules: 1,
            responses: 0,
            ..SMALL
        },
        Counts {
            rules: 64,
            responses: 48,
            macs: 0,
            ..SMALL
        },
    ] {
        let database = Database::new().await?;
        let nacs = write(&database, counts, false).await?;
        let directory = database.directory().await;
        let snapshot = directory.snapshot();
        let plan = plan(&nacs)?;
        assert_eq!(plan.cases.len(), counts.sites as usize);
        for case in plan.cases {
            let (id, _) = snapshot.site_by_tag(&case.site).ok_or("no such site")?;
            let SiteState::Ready(site) = directory.site(&snapshot, id) else {
                return Err(format!("{} is not ready", case.site).into());
            };
            let methods: &[&str] = if counts.macs == 0 {
                &["eap-tls"]
            } else {
                &["mab", "eap-tls"]
            };
            assert_eq!(case.methods, methods);
            for method in &case.methods {
                let method = Method::parse(method).ok_or("no method")?;
                let explained = explain(&site, method, None, &facts_of(&case)?);
                assert_eq!(explained.action.word(), case.outcome);
                assert_eq!(explained.reason.to_string(), case.reason);
                assert_eq!(explained.policy.as_ref(), Some(&case.policy));
                assert_eq!(explained.responses, case.responses);
                assert_eq!(explained.trace.len(), counts.policies_per_site as usize);
                let (last, earlier) = explained.trace.split_last().ok_or("nothing was tried")?;
                assert!(last.matched && last.rules.iter().all(|rule| rule.holds), "{last:?}");
                for policy in earlier {
                    let holds: Vec<bool> = policy.rules.iter().map(|rule| rule.holds).collect();
                    let (last, before) = holds.split_last().ok_or("no rules")?;
                    assert_eq!(holds.len(), counts.rules as usize);
                    assert!(!last && before.iter().all(|holds| *holds), "{policy:?}");
                }
            }
        }
    }
    Ok(())
}

fn facts_of(case: &Case) -> Result<Facts<'static>> {
    let dictionary = Dictionary::builtin();
    let mut facts = Facts::new(dictionary);
    let site = format!("Client-Shortname = {}", case.site);
    for line in case.attributes.iter().chain([&site]) {
        let (id, value) = facts::parse(dictionary, line).map_err(|problem| format!("{line}: {problem:?}"))?;
        facts.push(id, value);
    }
    Ok(facts)
}

#[tokio::test]
async fn a_database_that_holds_something_is_left_alone_unless_it_is_to_be_replaced() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(crate::support::SMALL).await?;
    let before = document::export(&database.store, false).await?.text;
    let refused = write(&database, SMALL, false)
        .await
        .err()
        .ok_or("not refused")?
        .to_string();
    assert!(
        refused.starts_with("the database has 2 sites, 5 policies, 2 clients and 2 listed addresses\nhint: "),
        "{refused}"
    );
    assert_eq!(document::export(&database.store, false).await?.text, before);

    for _ in 0..2 {
        write(&database, SMALL, true).await?;
        for (sql, count) in [
            ("SELECT count(*) FROM sites WHERE tag LIKE 'site-%'", 6),
            ("SELECT count(*) FROM sites", 6),
            ("SELECT count(*) FROM policies", 13),
            ("SELECT count(*) FROM rules", 35),
            ("SELECT count(*) FROM responses", 34),
            ("SELECT count(*) FROM clients", 12),
            ("SELECT count(*) FROM mac_authentication_bypasses", 48),
        ] {
            assert_eq!(plain.number(sql).await?, count, "{sql}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn all_rows_are_written_and_told() -> Result {
    let database = Database::new().await?;
    // More of each than one statement takes.
    let counts = Counts {
        sites: 700,
        policies: 300,
        clients: 1,
        macs: 3,
        ..SMALL
    };
    let nacs = Nacs::new(counts)?;
    let mut told = Vec::new();
    seed(&database.store, &nacs, Options::default(), &mut |progress| {
        told.push(progress)
    })
    .await?;
    let mut plain = database.plain().await?;
    assert_eq!(
        plain
            .number("SELECT count(DISTINCT address) FROM mac_authentication_bypasses")
            .await?,
        2_100
    );
    assert_eq!(plain.number("SELECT count(DISTINCT ip_range) FROM clients").await?, 700);
    assert_eq!(plain.number("SELECT count(*) FROM rules").await?, 1_500);
    let mut rows = told.iter().filter_map(|progress| match progress {
        portreeve::store::seed::Progress::Rows { written, total } => Some((*written, *total)),
        _ => None,
    });
    let last = rows.next_back().ok_or("nothing was told")?;
    assert_eq!(last.0, last.1);
    let sql = "SELECT (SELECT count(*) FROM sites) + (SELECT count(*) FROM policies) + (SELECT count(*) FROM rules)
        + (SELECT count(*) FROM responses) + (SELECT count(*) FROM site_policies) + (SELECT count(*) FROM clients)
        + (SELECT count(*) FROM mac_authentication_bypasses)";
    assert_eq!(u64::try_from(plain.number(sql).await?)?, last.1);
    Ok(())
}

const SET: &str = r#"[[policy]]
name = "fallback-0001"
action = "accept"
methods = ["eap-tls"]
fallback = true
responses = [
    "Filter-Id = quarantine-0001",
]

[[policy]]
name = "fallback-0002"
action = "accept"
methods = ["eap-tls"]
fallback = true
responses = [
    "Filter-Id = quarantine-0002",
]

[[policy]]
name = "policy-0001"
action = "accept"
methods = ["eap-tls", "mab"]
rules = [
    "NAS-Port-Type == Ethernet",
    "NAS-Identifier contains role-0001",
]
responses = [
    "Filter-Id = acl-0001",
]

[[policy]]
name = "policy-0002"
action = "accept"
methods = ["eap-tls", "mab"]
rules = [
    "NAS-Port-Type == Ethernet",
    "NAS-Identifier contains role-0002",
]
responses = [
    "Filter-Id = acl-0002",
]

[[site]]
name = "Site 0001"
tag = "site-0001"
fallback = "fallback-0001"
policies = [
    { policy = "policy-0001", priority = 10 },
    { policy = "policy-0002", priority = 20 },
]

[[site.client]]
network = "127.1.0.0/32"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-01"

[[site]]
name = "Site 0002"
tag = "site-0002"
fallback = "fallback-0002"
policies = [
    { policy = "policy-0002", priority = 10 },
    { policy = "policy-0001", priority = 20 },
]

[[site.client]]
network = "127.1.0.1/32"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-02"
"#;
const PLAN: &str = r##"# What to send to a server with the data set `nacs`, and what it must answer. Made by `portreeve seed`.
dataset = "nacs"
secret = "testing123"

[[case]]
site = "site-0001"
methods = ["mab", "eap-tls"]
sources = "127.1.0.0"
macs = "02-00-00-00-00-01"
attributes = ["NAS-Identifier = switch.site-0001.role-0002", "NAS-Port-Type = Ethernet", "Connect-Info = CONNECT 1000Mbps Full Duplex Ethernet"]
outcome = "accept"
reason = "policy-accept"
policy = "policy-0002"
responses = ["Filter-Id = acl-0002"]

[[case]]
site = "site-0002"
methods = ["mab", "eap-tls"]
sources = "127.1.0.1"
macs = "02-00-00-00-00-02"
attributes = ["NAS-Identifier = switch.site-0002.role-0001", "NAS-Port-Type = Ethernet", "Connect-Info = CONNECT 1000Mbps Full Duplex Ethernet"]
outcome = "accept"
reason = "policy-accept"
policy = "policy-0001"
responses = ["Filter-Id = acl-0001"]
"##;
