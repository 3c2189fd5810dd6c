//! Whatever is edited in whatever order, by programs with and without foreign keys, what a node has is what a node that
//! starts now would have, and decides the same; and a site that does not compile keeps exactly what it had.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portreeve::clients::SiteId;
use portreeve::endpoints::Found;
use portreeve::mac::MacAddress;
use portreeve::policy::compile::Tests;
use portreeve::policy::{CompiledPolicy, CompiledSite, Facts, Method, decide, facts};
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::Snapshot;
use portreeve::store::directory::{Directory, Options, SiteState};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::BACKEND;
use crate::support::{Backend, Database, Plain, Result, SMALL};

/// One statement; refused ones are part of it.
fn edit() -> impl Strategy<Value = String> {
    let (site, policy, mac) = (0..5i64, 1..8i64, 0..6i64);
    let attribute = prop_oneof![4 => Just("NAS-Port-Type"), 4 => Just("User-Name"), 1 => Just("No-Such-Attribute")];
    let network = prop_oneof![
        Just("10.1.0.0/16"),
        Just("10.1.7.7/24"),
        Just("10.2.0.0/16"),
        Just("2001:db8::/32"),
        Just("2001:db8:0::/32")
    ];
    let number = 0..4i64;
    (site, policy, mac, attribute, network, number, 0..38u8, any::<bool>()).prop_map(
        |(site, policy, mac, attribute, network, number, kind, replace)| {
            // Rows that are there already are replaced in SQLite; in PostgreSQL they stay, or are changed.
            let insert = |row: &str, otherwise: &str| match (BACKEND, replace) {
                (_, false) => format!("INSERT INTO {row}"),
                (Backend::Sqlite, true) => format!("INSERT OR REPLACE INTO {row}"),
                (Backend::Postgres, true) => format!("INSERT INTO {row} ON CONFLICT {otherwise}"),
            };
            let all = |table: &str| match (BACKEND, replace) {
                (Backend::Postgres, true) => format!("TRUNCATE {table} CASCADE"),
                _ => format!("DELETE FROM {table}"),
            };
            match kind {
                0 | 1 => insert(&format!("sites (id, name, tag) VALUES ({site}, 'site {number}', 'site-{number}')"), "DO NOTHING"),
                2 => format!("DELETE FROM sites WHERE id = {site}"),
                3 => format!("UPDATE sites SET timezone = CASE {number} WHEN 0 THEN 'Nowhere' WHEN 1 THEN 'UTC' END WHERE id = {site}"),
                4..=6 => insert(
                    &format!("clients (site_id, ip_range, shared_secret) VALUES ({site}, '{network}', 'secret-{number}')"),
                    "(ip_range, radsec) DO UPDATE SET site_id = EXCLUDED.site_id",
                ),
                7 if replace => format!("UPDATE {} clients SET ip_range = '{network}' WHERE id = {mac}", BACKEND.either("OR REPLACE", "")),
                7 => format!("UPDATE clients SET shared_secret = 'secret-{number}', site_id = {site} WHERE id = {mac}"),
                8 => format!("DELETE FROM clients WHERE site_id = {site}"),
                9 | 10 => insert(
                    &format!("policies (id, name, fallback) VALUES ({policy}, 'policy {number}', {replace})"),
                    "(name) DO UPDATE SET fallback = NOT policies.fallback",
                ),
                11 => format!("UPDATE policies SET action = 'reject', methods = CASE {number} WHEN 0 THEN 'peap' ELSE 'mab' END WHERE id = {policy}"),
                12 => format!("DELETE FROM policies WHERE id = {policy}"),
                13 | 14 => insert(
                    &format!("site_policies VALUES ({site}, {policy}, {number})"),
                    "(site_id, policy_id) DO UPDATE SET priority = EXCLUDED.priority",
                ),
                15 => insert(&format!("site_policies VALUES ({site}, {policy}, NULL)"), "DO NOTHING"),
                16 => format!("UPDATE site_policies SET priority = {number} WHERE policy_id = {policy}"),
                17 => format!("DELETE FROM site_policies WHERE site_id = {site}"),
                18 | 19 => insert(
                    &format!("rules (policy_id, request_attribute, operator, value) VALUES ({policy}, '{attribute}', 'equals', '{number}')"),
                    "DO NOTHING",
                ),
                20 => format!("UPDATE rules SET request_attribute = '{attribute}', policy_id = {policy} WHERE id = {number}"),
                21 => format!("DELETE FROM rules WHERE policy_id = {policy}"),
                22 => format!("INSERT INTO responses (policy_id, response_attribute, value, position) VALUES ({policy}, 'Filter-Id', '{number}', {number})"),
                23 => format!("INSERT INTO responses (mac_authentication_bypass_id, response_attribute, value) VALUES ({mac}, '{attribute}', '{number}')"),
                24 => format!("UPDATE responses SET policy_id = NULL, mac_authentication_bypass_id = {mac} WHERE id = {number}"),
                25 => format!("DELETE FROM responses WHERE id = {mac} OR response_attribute <> 'Filter-Id'"),
                26 | 27 => insert(
                    &format!("mac_authentication_bypasses (id, site_id, address) VALUES ({mac}, {site}, '02000000000{number}')"),
                    "(id) DO UPDATE SET site_id = EXCLUDED.site_id, address = EXCLUDED.address",
                ),
                28 => format!("UPDATE mac_authentication_bypasses SET site_id = {site}, valid_until = '200{number}-01-01' WHERE id = {mac}"),
                29 => format!("DELETE FROM mac_authentication_bypasses WHERE site_id = {site}"),
                30 => format!("UPDATE clients SET shared_secret = 'secret-{number}' WHERE id <> 100"),
                31 => format!("UPDATE rules SET value = '{number}'"),
                32 => format!("INSERT INTO responses (policy_id, response_attribute, value) SELECT id, 'Filter-Id', name FROM policies WHERE id > {policy}"),
                33 => all("rules"),
                34 => all("responses"),
                35 => all("site_policies"),
                36 => all("mac_authentication_bypasses"),
                _ => format!("DELETE FROM sites WHERE id > {site} AND id <> 100"),
            }
        },
    )
}

/// Statements that are seen together: in one transaction or each for itself.
type Batch = (bool, Vec<String>);

/// All that a snapshot says of clients.
fn clients(snapshot: &Snapshot) -> Vec<String> {
    let addresses = ["10.1.0.1", "10.1.7.1", "10.2.0.1", "2001:db8::1"];
    let secrets: Vec<String> = (0..4)
        .map(|number| format!("secret-{number}"))
        .chain(["leeds-secret".to_owned(), "york-secret".to_owned()])
        .collect();
    addresses
        .into_iter()
        .map(|address| {
            match address
                .parse()
                .ok()
                .and_then(|address| snapshot.clients.lookup(address, false))
            {
                None => format!("{address}: nobody"),
                Some(client) => {
                    let secret = secrets.iter().find(|secret| client.secret.is(secret.as_bytes()));
                    format!("{address}: {:?} {} {secret:?}", client.site, client.network)
                }
            }
        })
        .collect()
}

/// All that decides for a site: its policies in order, and its addresses.
fn in_force(snapshot: &Snapshot, id: SiteId) -> Option<String> {
    let source = snapshot.site(id)?.source()?;
    let mut text = format!("{:?} {:?}\n", source.site, source.timezone.is_some());
    for policy in source.policies.iter().chain(&source.fallback) {
        text += &format!("{:?}\n", policy.policy);
    }
    for number in 0..4 {
        let found = match snapshot
            .endpoints
            .find(id, MacAddress::from_u64(0x0200_0000_0000 + number))
        {
            Found::Listed(endpoint) => format!("{:?} {:?}", endpoint.valid_until, endpoint.responses),
            // Elsewhere may be at a site that is broken here and unknown there.
            Found::Elsewhere(_) | Found::Unknown => "not listed".to_owned(),
        };
        text += &format!("{number}: {found}\n");
    }
    Some(text)
}

type Sites = BTreeMap<i64, (Option<String>, bool)>;

fn sites(snapshot: &Snapshot) -> Sites {
    snapshot
        .sites()
        .map(|(id, site)| (id.0, (in_force(snapshot, id), site.broken().is_some())))
        .collect()
}

/// One database for all cases: what a case leaves behind the next begins with taking away.
async fn run(database: &Database, batches: Vec<Batch>) -> Result {
    let mut plain = database.plain().await?;
    let mut strict = strict(database).await?;
    for table in [
        "site_policies",
        "rules",
        "responses",
        "mac_authentication_bypasses",
        "clients",
        "sites",
        "policies",
    ] {
        plain
            .run(&BACKEND.either(
                format!("DELETE FROM {table}"),
                format!("TRUNCATE {table} RESTART IDENTITY CASCADE"),
            ))
            .await?;
    }
    plain.run(SMALL).await?;
    // Never the last client: that set would not be applied.
    plain.run("INSERT INTO sites (id, name, tag) VALUES (100, 'stays', 'stays'); INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (100, 100, '192.0.2.1', 'x')").await?;
    let options = Options {
        poll: Duration::from_secs(3600),
        // Little enough that compiled sites are given up now and then.
        cache_octets: 2048,
        ..Options::default()
    };
    let directory = database.directory_with(options).await;
    for (at, (together, batch)) in batches.iter().enumerate() {
        let before = sites(&directory.snapshot());
        let session = if at % 3 == 0 { &mut strict } else { &mut plain };
        match together {
            true => {
                let whole = format!("BEGIN; {}; COMMIT", batch.join("; "));
                if session.run(&whole).await.is_err() {
                    session.run("ROLLBACK").await?;
                }
            }
            false => {
                for sql in batch {
                    _ = session.run(sql).await;
                }
            }
        }
        directory.refresh().await?;
        let fresh = database.directory().await;
        compare(&before, &directory, &fresh)
            .await
            .map_err(|what| format!("{what}\nafter {batch:#?}"))?;
    }
    Ok(())
}

async fn compare(before: &Sites, cached: &Arc<Directory>, fresh: &Arc<Directory>) -> std::result::Result<(), String> {
    let (snapshot, new) = (cached.snapshot(), fresh.snapshot());
    let equal = |what: &str, left: &dyn std::fmt::Debug, right: &dyn std::fmt::Debug| match format!("{left:?}")
        == format!("{right:?}")
    {
        true => Ok(()),
        false => Err(format!("{what}: {left:#?}\ninstead of {right:#?}")),
    };
    equal("revision", &snapshot.revision, &new.revision)?;
    equal("clients", &clients(&snapshot), &clients(&new))?;
    let (now, expected) = (sites(&snapshot), sites(&new));
    equal(
        "sites",
        &now.keys().collect::<Vec<_>>(),
        &expected.keys().collect::<Vec<_>>(),
    )?;
    for (id, (text, broken)) in &now {
        let Some((fresh_text, fresh_broken)) = expected.get(id) else {
            continue;
        };
        equal(&format!("site {id} broken"), broken, fresh_broken)?;
        let right = match broken {
            false => fresh_text.clone(),
            true => before.get(id).and_then(|(text, _)| text.clone()),
        };
        equal(&format!("site {id}"), text, &right)?;
        let state = cached.load(&snapshot, SiteId(*id)).await;
        equal(
            &format!("site {id} loads"),
            &matches!(state, SiteState::Ready(_)),
            &text.is_some(),
        )?;
        if let (SiteState::Ready(site), false) = (state, broken) {
            let uncached = new.site(SiteId(*id)).and_then(|site| site.source());
            let uncached = uncached.and_then(|source| source.compile(cached.dictionary(), &Tests::default()).ok());
            let uncached = uncached.ok_or("the site does not compile")?;
            equal(
                &format!("decisions of site {id}"),
                &decisions(&snapshot, SiteId(*id), &site)?,
                &decisions(&new, SiteId(*id), &uncached)?,
            )?;
        }
    }
    Ok(())
}

/// What is decided for requests of every kind.
fn decisions(snapshot: &Snapshot, id: SiteId, site: &CompiledSite) -> std::result::Result<Vec<String>, String> {
    let dictionary = Dictionary::builtin();
    let mut all = Vec::new();
    for text in [
        "User-Name = 0",
        "User-Name = 1",
        "NAS-Port-Type = 2",
        "NAS-Port-Type = Ethernet",
    ] {
        for method in Method::ALL {
            for number in 0..4 {
                let mac = MacAddress::from_u64(0x0200_0000_0000 + number);
                let listing = match snapshot.endpoints.find(id, mac) {
                    Found::Listed(endpoint) => endpoint.responses.clone(),
                    Found::Elsewhere(_) | Found::Unknown => None,
                };
                let mut facts = Facts::new(dictionary);
                let (attribute, value) = facts::parse(dictionary, text).map_err(|problem| problem.problem)?;
                facts.push(attribute, value);
                let decision = decide(site, method, listing.as_deref(), &facts);
                all.push(format!(
                    "{text} {method} {number}: {} {:?} {:?} {:?}",
                    decision.action,
                    decision.reason,
                    decision.policy.map(CompiledPolicy::name),
                    decision.responses()
                ));
            }
        }
    }
    Ok(all)
}

/// A session as our own commands have it.
async fn strict(database: &Database) -> Result<Plain> {
    let mut session = database.plain().await?;
    if BACKEND == Backend::Sqlite {
        session
            .run("PRAGMA foreign_keys = on; PRAGMA recursive_triggers = on")
            .await?;
    }
    Ok(session)
}

#[test]
fn cached_is_what_a_fresh_start_reads() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let database = runtime.block_on(Database::new()).expect("a database");
    let config = ProptestConfig {
        cases: 48,
        max_shrink_iters: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let batch = (any::<bool>(), vec(edit(), 1..8));
    let result = TestRunner::new(config).run(&vec(batch, 1..10), |batches| {
        let run = runtime.block_on(run(&database, batches));
        run.map_err(|error| TestCaseError::fail(error.to_string()))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
