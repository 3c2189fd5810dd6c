//! Changes by another program come into force, what is broken does not, and nothing in force is lost by it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portreeve::clients::SiteId;
use portreeve::endpoints::Found;
use portreeve::mac::MacAddress;
use portreeve::radius::crypto::Secret;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Directory, Options, SiteState};
use portreeve::store::{Snapshot, Store};

use crate::BACKEND;
use crate::support::{Database, Plain, Result, SMALL};

const LEEDS: SiteId = SiteId(1);
const YORK: SiteId = SiteId(2);

/// Who is answered from an address: site and secret.
fn client(snapshot: &Snapshot, address: &str) -> Option<(i64, Arc<Secret>)> {
    let client = snapshot.clients.lookup(address.parse().ok()?, false)?;
    Some((client.site.0, Arc::clone(&client.secret)))
}

fn site_of(snapshot: &Snapshot, address: &str) -> Option<i64> {
    client(snapshot, address).map(|(site, _)| site)
}

fn listed(snapshot: &Snapshot, site: SiteId, mac: &str) -> &'static str {
    match MacAddress::parse(mac.as_bytes()).map(|mac| snapshot.endpoints.find(site, mac)) {
        Some(Found::Listed(endpoint)) if endpoint.responses.is_some() => "listed, with responses",
        Some(Found::Listed(endpoint)) if endpoint.is_expired(1_800_000_000) => "expired",
        Some(Found::Listed(_)) => "listed",
        Some(Found::Elsewhere(_)) => "elsewhere",
        Some(Found::Unknown) => "unknown",
        None => "no mac",
    }
}

/// The policies in force, as one text: names, rules and responses in the order of evaluation.
fn policies(snapshot: &Snapshot, site: SiteId) -> String {
    let Some(source) = snapshot.site(site).and_then(|site| site.source()) else {
        return "none".to_owned();
    };
    let mut text = String::new();
    for source in source.policies.iter().chain(&source.fallback) {
        let policy = &source.policy;
        let rules: Vec<String> = policy.rules.iter().map(ToString::to_string).collect();
        let responses: Vec<String> = policy.responses.iter().map(ToString::to_string).collect();
        text += &format!(
            "{} {} [{}] [{}]\n",
            policy.name,
            policy.action,
            rules.join(", "),
            responses.join(", ")
        );
    }
    text
}

async fn is_ready(directory: &Arc<Directory>, site: SiteId) -> bool {
    let snapshot = directory.snapshot();
    let ready = match directory.site(&snapshot, site) {
        SiteState::Load => directory.load(&snapshot, site).await,
        state => state,
    };
    matches!(ready, SiteState::Ready(_))
}

async fn small() -> Result<(Database, Plain, Arc<Directory>)> {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let directory = database.directory().await;
    Ok((database, plain, directory))
}

#[tokio::test]
async fn everything_is_read() -> Result {
    let (database, _, directory) = small().await?;
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.revision, database.store.revision().await?);
    assert_eq!(
        snapshot.revision.to_string().parse::<portreeve::store::Revision>()?,
        snapshot.revision
    );
    assert_eq!(
        client(&snapshot, "10.1.2.3"),
        Some((1, Arc::new(Secret::new(b"leeds-secret"))))
    );
    assert_eq!(site_of(&snapshot, "10.3.0.1"), None);
    assert_eq!(
        policies(&snapshot, LEEDS),
        "laptops accept [NAS-Port-Type == Ethernet] [Filter-Id = laptops]\n\
         printers accept [NAS-Port-Type == Ethernet] [Filter-Id = printers]\n\
         Leeds fallback reject [] []\n"
    );
    assert_eq!(listed(&snapshot, LEEDS, "020000000001"), "listed, with responses");
    assert_eq!(listed(&snapshot, YORK, "020000000002"), "listed");
    assert_eq!(listed(&snapshot, LEEDS, "020000000002"), "elsewhere");
    assert!(matches!(directory.site(&snapshot, LEEDS), SiteState::Ready(_)));
    assert_eq!(
        snapshot
            .site_by_tag("york")
            .map(|(id, site)| (id, site.name().to_owned())),
        Some((YORK, "York".to_owned()))
    );
    assert!(directory.age().is_some_and(|age| age < Duration::from_secs(60)));
    Ok(())
}

/// Issue: a change by plain SQL in another process is in force within one second, in both directions, for clients,
/// secrets, MACs, rules, responses, priorities, sites.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_in_force_within_a_second() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let directory = database.directory_with(Options::default()).await;
    type Look = fn(&Snapshot) -> String;
    let clients: Look = |snapshot| {
        format!(
            "{:?} {:?}",
            site_of(snapshot, "10.3.0.1"),
            site_of(snapshot, "10.2.0.1")
        )
    };
    let secret: Look = |snapshot| {
        client(snapshot, "10.1.0.1")
            .is_some_and(|(_, secret)| secret.is(b"leeds-secret"))
            .to_string()
    };
    let mac: Look = |snapshot| listed(snapshot, YORK, "020000000009").to_owned();
    let first: Look = |snapshot| listed(snapshot, LEEDS, "020000000001").to_owned();
    let leeds: Look = |snapshot| policies(snapshot, LEEDS);
    let york: Look = |snapshot| policies(snapshot, YORK);
    let cases: &[(Look, &str, &str)] = &[
        (
            clients,
            "INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (9, 1, '10.3.0.0/16', 'x')",
            "DELETE FROM clients WHERE id = 9",
        ),
        (clients, "UPDATE clients SET ip_range = '10.4.0.0/16' WHERE id = 2", "UPDATE clients SET ip_range = '10.2.0.0/16' WHERE id = 2"),
        (secret, "UPDATE clients SET shared_secret = 'other' WHERE id = 1", "UPDATE clients SET shared_secret = 'leeds-secret' WHERE id = 1"),
        (
            mac,
            "INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (9, 2, '02:00:00:00:00:09')",
            "DELETE FROM mac_authentication_bypasses WHERE id = 9",
        ),
        (
            first,
            "UPDATE mac_authentication_bypasses SET valid_until = '2020-01-01' WHERE id = 1; DELETE FROM responses WHERE id = 3",
            "UPDATE mac_authentication_bypasses SET valid_until = NULL WHERE id = 1;
             INSERT INTO responses (id, mac_authentication_bypass_id, response_attribute, value) VALUES (3, 1, 'Filter-Id', 'own')",
        ),
        (leeds, "UPDATE rules SET value = 'Virtual' WHERE id = 1", "UPDATE rules SET value = 'Ethernet' WHERE id = 1"),
        (york, "UPDATE rules SET value = 'Virtual' WHERE id = 1", "UPDATE rules SET value = 'Ethernet' WHERE id = 1"),
        (leeds, "UPDATE responses SET value = 'other' WHERE id = 2", "UPDATE responses SET value = 'printers' WHERE id = 2"),
        (leeds, "UPDATE policies SET action = 'reject' WHERE id = 2", "UPDATE policies SET action = 'accept' WHERE id = 2"),
        (leeds, "UPDATE site_policies SET priority = 5 WHERE policy_id = 2", "UPDATE site_policies SET priority = 20 WHERE policy_id = 2"),
        (york, "INSERT INTO site_policies VALUES (2, 2, 1)", "DELETE FROM site_policies WHERE site_id = 2 AND policy_id = 2"),
        (
            clients,
            "DELETE FROM sites WHERE id = 2",
            "INSERT INTO sites (id, name, tag) VALUES (2, 'York', 'york'); INSERT INTO site_policies VALUES (2, 1, 10), (2, 5, NULL);
             INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (2, 2, '10.2.0.0/16', 'york-secret')",
        ),
    ];
    for (look, there, back) in cases {
        let before = look(&directory.snapshot());
        for (sql, differs) in [(there, true), (back, false)] {
            plain.run(&format!("BEGIN; {sql}; COMMIT")).await?;
            let revision = plain.revision().await?;
            let committed = Instant::now();
            tokio::time::timeout(Duration::from_secs(10), directory.applied(&revision)).await?;
            assert!(
                committed.elapsed() < Duration::from_secs(1),
                "{sql}: {:?}",
                committed.elapsed()
            );
            let after = look(&directory.snapshot());
            assert_eq!(after != before, differs, "{sql}: {after}");
        }
    }
    Ok(())
}

/// Section 2.11: a site whose rows do not compile keeps its last good version, addresses and all.
#[tokio::test]
async fn rule_2_11_a_broken_site_keeps_its_last_good_version() -> Result {
    let (_database, mut plain, directory) = small().await?;
    let good = directory.snapshot();
    let breaks = [
        (
            "UPDATE rules SET request_attribute = 'No-Such-Attribute' WHERE id = 1",
            "UPDATE rules SET request_attribute = 'NAS-Port-Type' WHERE id = 1",
        ),
        (
            "UPDATE policies SET methods = 'peap' WHERE id = 1",
            "UPDATE policies SET methods = 'eap-tls' WHERE id = 1",
        ),
    ];
    for (break_it, repair) in breaks {
        let before = directory.snapshot().revision.clone();
        plain.run(break_it).await?;
        // A second change while it is broken: the first is not to be forgotten.
        plain.run("UPDATE responses SET value = 'changed' WHERE id = 1").await?;
        plain
            .run("DELETE FROM mac_authentication_bypasses WHERE id = 1")
            .await?;
        plain
            .run("UPDATE clients SET shared_secret = 'rotated' WHERE id = 2")
            .await?;
        directory.refresh().await?;
        let snapshot = directory.snapshot();
        for site in [LEEDS, YORK] {
            assert_eq!(policies(&snapshot, site), policies(&good, site), "{break_it}");
            assert_eq!(snapshot.revision_of(snapshot.site(site).map(|site| &**site)), &before);
            let broken = snapshot.site(site).and_then(|site| site.broken()).ok_or("not broken")?;
            assert_eq!(broken.last_good.as_ref(), Some(&before));
            assert!(
                broken
                    .errors
                    .iter()
                    .any(|error| error.table == "policies" && error.id == 1 && error.what.contains("hint:"))
            );
            assert!(is_ready(&directory, site).await);
        }
        assert_eq!(listed(&snapshot, LEEDS, "020000000001"), "listed, with responses");
        // Clients are not part of it: a new secret is the only one that works.
        assert!(client(&snapshot, "10.2.0.1").is_some_and(|(_, secret)| secret.is(b"rotated")));

        plain.run(repair).await?;
        directory.refresh().await?;
        let snapshot = directory.snapshot();
        assert!(policies(&snapshot, LEEDS).contains("Filter-Id = changed"));
        assert!(snapshot.site(LEEDS).is_some_and(|site| site.broken().is_none()));
        assert_eq!(
            snapshot.revision_of(snapshot.site(LEEDS).map(|site| &**site)),
            &snapshot.revision
        );
        assert_eq!(listed(&snapshot, LEEDS, "020000000001"), "unknown");
        plain
            .run("UPDATE responses SET value = 'laptops' WHERE id = 1;
                  INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (1, 1, '02-00-00-00-00-01');
                  INSERT INTO responses (id, mac_authentication_bypass_id, response_attribute, value) VALUES (3, 1, 'Filter-Id', 'own')")
            .await?;
        directory.refresh().await?;
        assert_eq!(policies(&directory.snapshot(), LEEDS), policies(&good, LEEDS));
    }
    Ok(())
}

/// Section 2.11: with no good version it rejects; a broken site never touches another.
#[tokio::test]
async fn rule_2_11_broken_from_the_start() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    plain
        .run("UPDATE rules SET request_attribute = 'No-Such-Attribute' WHERE id = 2")
        .await?;
    let directory = database.directory().await;
    let snapshot = directory.snapshot();
    assert!(matches!(directory.site(&snapshot, LEEDS), SiteState::Broken(errors) if !errors.is_empty()));
    assert!(matches!(directory.load(&snapshot, LEEDS).await, SiteState::Broken(_)));
    assert_eq!(listed(&snapshot, LEEDS, "020000000001"), "unknown");
    assert!(is_ready(&directory, YORK).await);
    plain
        .run("UPDATE rules SET request_attribute = 'NAS-Port-Type' WHERE id = 2")
        .await?;
    directory.refresh().await?;
    assert!(is_ready(&directory, LEEDS).await);
    assert_eq!(
        listed(&directory.snapshot(), LEEDS, "020000000001"),
        "listed, with responses"
    );
    Ok(())
}

/// Broken rows of an address hold the site's version like those of a policy.
#[tokio::test]
async fn rule_2_11_a_broken_address_keeps_the_sites_version() -> Result {
    let (_database, mut plain, directory) = small().await?;
    plain
        .run("UPDATE responses SET response_attribute = 'No-Such-Attribute' WHERE id = 3; UPDATE responses SET value = 'changed' WHERE id = 1")
        .await?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert!(policies(&snapshot, LEEDS).contains("Filter-Id = laptops"));
    assert!(policies(&snapshot, YORK).contains("Filter-Id = changed"));
    assert_eq!(listed(&snapshot, LEEDS, "020000000001"), "listed, with responses");
    plain.run("DELETE FROM responses WHERE id = 3").await?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert!(policies(&snapshot, LEEDS).contains("Filter-Id = changed"));
    assert_eq!(listed(&snapshot, LEEDS, "020000000001"), "listed");
    Ok(())
}

/// Rows that belong to nothing, which a session without foreign keys leaves behind, neither crash nor accept.
#[tokio::test]
async fn orphans() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    database
        .lawless()
        .await?
        .run("INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (8, 99, '10.1.9.0/24', 'x');
              INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (8, 99, '020000000088');
              INSERT INTO rules (policy_id, request_attribute, operator, value) VALUES (99, 'User-Name', 'equals', 'x');
              INSERT INTO responses (policy_id, response_attribute, value) VALUES (99, 'Filter-Id', 'x');
              INSERT INTO responses (mac_authentication_bypass_id, response_attribute, value) VALUES (99, 'Filter-Id', 'x');
              INSERT INTO site_policies VALUES (99, 1, 1)")
        .await?;
    let directory = database.directory().await;
    let snapshot = directory.snapshot();
    // The orphan's network is not left to the wider network's secret.
    assert_eq!(site_of(&snapshot, "10.1.9.1"), None);
    assert_eq!(site_of(&snapshot, "10.1.8.1"), Some(1));
    assert_eq!(listed(&snapshot, LEEDS, "020000000088"), "unknown");
    assert!(is_ready(&directory, LEEDS).await);
    // The site comes later: its client and address are then its own.
    plain
        .run("INSERT INTO sites (id, name, tag) VALUES (99, 'Hull', 'hull')")
        .await?;
    directory.refresh().await?;
    assert_eq!(site_of(&directory.snapshot(), "10.1.9.1"), Some(99));
    assert_eq!(listed(&directory.snapshot(), SiteId(99), "020000000088"), "listed");
    // A link to a policy that is gone: the site is broken, and keeps what it had.
    database
        .without_triggers()
        .await?
        .run("DELETE FROM policies WHERE id = 1; UPDATE revision SET number = number + 1")
        .await?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert!(snapshot.site(LEEDS).is_some_and(|site| site.broken().is_some()));
    assert!(policies(&snapshot, LEEDS).starts_with("laptops"));
    Ok(())
}

/// Plain SQL can write anything: rows that even the constraints would refuse.
#[tokio::test]
async fn rows_that_no_constraint_stopped() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let mut lawless = database.lawless().await?;
    lawless
        .run("INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (7, 2, '10.1.7.0/24', '');
              INSERT INTO clients (id, site_id, ip_range, shared_secret, fragment_size) VALUES (8, 2, '10.1.8.0/24', 'x', 70000);
              INSERT INTO clients (id, site_id, ip_range, shared_secret, min_tls) VALUES (9, 2, '10.1.9.0/24', 'x', 'ssl');
              INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (10, 2, '2001:db8:0:0::/64', 'x'), (11, 2, '2001:db8::/64', 'y'), (12, 1, '2001:db8::/32', 'z');
              INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (13, 2, ':::/64', 'x');
              UPDATE policies SET action = 'permit' WHERE id = 1;
              UPDATE sites SET timezone = 'Middle/Earth' WHERE id = 2;
              INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (9, 2, 'nonsense');
              INSERT INTO mac_authentication_bypasses (id, site_id, address, valid_until) VALUES (10, 2, '02000000000a', 'never')")
        .await?;
    // PostgreSQL takes no text that is not UTF-8.
    let name = BACKEND.either("CAST(x'ff00fe' AS TEXT)", "E'\\x7f'");
    lawless
        .run(&format!("UPDATE sites SET name = {name} WHERE id = 2"))
        .await?;
    let directory = database.directory().await;
    let snapshot = directory.snapshot();
    for address in ["10.1.7.1", "10.1.8.1", "10.1.9.1", "2001:db8::1"] {
        assert_eq!(site_of(&snapshot, address), None, "{address}");
    }
    assert_eq!(site_of(&snapshot, "2001:db8:1::1"), Some(1));
    assert!(!is_ready(&directory, LEEDS).await);
    let SiteState::Broken(errors) = directory.site(&snapshot, YORK) else {
        return Err("york is not broken".into());
    };
    let tables: Vec<_> = errors.iter().map(|error| (error.table, error.id)).collect();
    assert_eq!(
        tables,
        [
            ("sites", 2),
            ("policies", 1),
            ("mac_authentication_bypasses", 9),
            ("mac_authentication_bypasses", 10)
        ]
    );
    Ok(())
}

/// `portreeve check` names every such row, those that no site uses too, and what is probably not meant.
#[tokio::test]
async fn everything_that_is_wrong_is_named() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let sound = portreeve::store::inspect(&database.store, Dictionary::builtin()).await?;
    assert_eq!(
        (sound.sites.len(), sound.policies, sound.clients.len(), sound.macs),
        (2, 5, 2, 2)
    );
    assert_eq!(sound.errors, []);
    database
        .lawless()
        .await?
        .run(
            "UPDATE rules SET request_attribute = 'No-Such-Attribute' WHERE id = 3;
              UPDATE policies SET action = 'permit' WHERE id = 2;
              UPDATE responses SET response_attribute = 'No-Such-Attribute' WHERE id = 3;
              UPDATE sites SET timezone = 'Middle/Earth' WHERE id = 2;
              UPDATE clients SET shared_secret = '' WHERE id = 1;
              UPDATE mac_authentication_bypasses SET valid_until = 'never' WHERE id = 2;
              INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (9, 99, '10.9.0.0/16', 'x');
              INSERT INTO policies (id, name) VALUES (9, 'matches nothing')",
        )
        .await?;
    let inspection = portreeve::store::inspect(&database.store, Dictionary::builtin()).await?;
    let mut rows: Vec<_> = inspection.errors.iter().map(|error| (error.table, error.id)).collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            ("clients", 1),
            ("clients", 9),
            ("mac_authentication_bypasses", 1),
            ("mac_authentication_bypasses", 2),
            ("policies", 2),
            ("policies", 3),
            ("sites", 2)
        ]
    );
    assert!(
        inspection
            .findings
            .iter()
            .any(|finding| finding.owner.contains("matches nothing"))
    );
    Ok(())
}

/// Section 6: a set that lost all its clients is not applied.
#[tokio::test]
async fn a_set_without_clients_is_not_applied() -> Result {
    let (_database, mut plain, directory) = small().await?;
    let before = directory.snapshot();
    plain
        .run("DELETE FROM clients; UPDATE responses SET value = 'x'")
        .await?;
    directory.refresh().await?;
    directory.refresh().await?;
    assert_eq!(directory.snapshot().revision, before.revision);
    assert!(
        directory
            .health()
            .problem
            .is_some_and(|problem| problem.contains("no client left"))
    );
    assert!(is_ready(&directory, LEEDS).await);
    plain
        .run("INSERT INTO clients (site_id, ip_range, shared_secret) VALUES (1, '10.9.0.0/16', 'x')")
        .await?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert_eq!(site_of(&snapshot, "10.9.0.1"), Some(1));
    assert_eq!(site_of(&snapshot, "10.1.0.1"), None);
    assert!(policies(&snapshot, LEEDS).contains("Filter-Id = x"));
    assert_eq!(directory.health().problem, None);
    Ok(())
}

/// Section 6: an older revision of the same epoch is never applied; a new epoch is a full reload.
#[tokio::test]
async fn older_revisions_and_new_epochs() -> Result {
    let (_database, mut plain, directory) = small().await?;
    plain.run("UPDATE revision SET number = number + 100").await?;
    directory.refresh().await?;
    let before = directory.snapshot();
    plain
        .run("DELETE FROM clients WHERE id = 1; UPDATE revision SET number = number - 10")
        .await?;
    directory.refresh().await?;
    assert_eq!(directory.snapshot().revision, before.revision);
    assert!(
        directory
            .health()
            .problem
            .is_some_and(|problem| problem.contains("is not applied"))
    );
    // Restored and edited further, until the number passes: what moved in between is not known, so all is read.
    plain
        .run("UPDATE revision SET number = number + 8; UPDATE sites SET timezone = 'UTC' WHERE id = 2")
        .await?;
    assert_eq!(plain.revision().await?, before.revision);
    directory.refresh().await?;
    assert_eq!(site_of(&directory.snapshot(), "10.1.0.1"), None);

    plain
        .run(
            "UPDATE revision SET epoch = 'restored', number = 3;
              INSERT INTO clients (site_id, ip_range, shared_secret) VALUES (1, '10.1.0.0/16', 'x')",
        )
        .await?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.revision.to_string(), "restored:4");
    assert_eq!(site_of(&snapshot, "10.1.0.1"), Some(1));

    // A server that missed how the epoch began is behind as well, however high its number.
    let sql = format!(
        "DELETE FROM clients WHERE ip_range = '10.1.0.0/16'; UPDATE revision SET epoch = '{}', number = 1000",
        before.revision.epoch
    );
    plain.run(&sql).await?;
    directory.refresh().await?;
    assert_eq!(directory.snapshot().revision, snapshot.revision);
    assert_eq!(site_of(&directory.snapshot(), "10.1.0.1"), Some(1));
    plain.run("UPDATE revision SET epoch = 'next'").await?;
    directory.refresh().await?;
    assert_eq!(directory.snapshot().revision.to_string(), "next:1000");
    assert_eq!(site_of(&directory.snapshot(), "10.1.0.1"), None);
    Ok(())
}

/// Section 6: a gap is a full reload.
#[tokio::test]
async fn gaps() -> Result {
    let (_database, mut plain, directory) = small().await?;
    for sql in [
        "DELETE FROM clients WHERE id = 1",
        "UPDATE responses SET value = 'x' WHERE id = 2",
        "DELETE FROM changes WHERE table_name = 'clients'",
    ] {
        plain.run(sql).await?;
    }
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert_eq!(site_of(&snapshot, "10.1.0.1"), None);
    assert!(policies(&snapshot, LEEDS).contains("Filter-Id = x"));
    Ok(())
}

/// Section 6: an edit that bypassed the triggers is caught by comparing everything.
#[tokio::test]
async fn an_audit_finds_what_bypassed_the_triggers() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let never = database.directory().await;
    let options = Options {
        poll: Duration::from_secs(3600),
        audit: Duration::ZERO,
        ..Options::default()
    };
    let always = database.directory_with(options).await;
    let before = always.snapshot();
    always.refresh().await?;
    assert!(
        Arc::ptr_eq(&always.snapshot(), &before),
        "nothing differs, nothing is swapped"
    );
    let mut hidden = database.without_triggers().await?;
    let unseen = never.snapshot();
    for edit in [
        "UPDATE clients SET shared_secret = 'x' WHERE id = 1",
        "UPDATE rules SET value = 'Virtual' WHERE id = 1",
        "UPDATE mac_authentication_bypasses SET valid_until = '2020-01-01' WHERE id = 2",
        "UPDATE responses SET value = 'x' WHERE id = 3",
    ] {
        let revision = plain.revision().await?;
        hidden.run(edit).await?;
        assert_eq!(plain.revision().await?, revision);
        let before = always.snapshot();
        always.refresh().await?;
        never.refresh().await?;
        assert!(!Arc::ptr_eq(&always.snapshot(), &before), "{edit}");
        assert!(Arc::ptr_eq(&never.snapshot(), &unseen));
    }
    let snapshot = always.snapshot();
    assert!(client(&snapshot, "10.1.0.1").is_some_and(|(_, secret)| secret.is(b"x")));
    assert!(policies(&snapshot, YORK).contains("Virtual"));
    assert_eq!(listed(&snapshot, YORK, "020000000002"), "expired");
    assert!(policies(&never.snapshot(), YORK).contains("Ethernet"));
    Ok(())
}

/// Sites that use one policy share its compiled form, and an edit of one site leaves the others' as they are.
#[tokio::test]
async fn compiled_policies_are_shared() -> Result {
    let (_database, mut plain, directory) = small().await?;
    let compiled = |site: SiteId| match directory.site(&directory.snapshot(), site) {
        SiteState::Ready(compiled) => Some(compiled),
        _ => None,
    };
    let (leeds, york) = (compiled(LEEDS).ok_or("leeds")?, compiled(YORK).ok_or("york")?);
    let first = |site: &portreeve::policy::compile::CompiledSite| site.policies().next().map(std::ptr::from_ref);
    assert!(first(&leeds).is_some());
    assert_eq!(first(&leeds), first(&york));
    plain.run("UPDATE rules SET value = 'Virtual' WHERE id = 2").await?;
    directory.refresh().await?;
    let after = compiled(LEEDS).ok_or("leeds")?;
    assert!(!Arc::ptr_eq(&after, &leeds));
    assert_eq!(first(&after), first(&york));
    assert!(compiled(YORK).is_some_and(|same| Arc::ptr_eq(&same, &york)));
    Ok(())
}

/// Clients that did not change are in memory once, whatever is read again.
#[tokio::test]
async fn unchanged_clients_are_in_memory_once() -> Result {
    let (_database, mut plain, directory) = small().await?;
    let holders = |address: &str| {
        let snapshot = directory.snapshot();
        let client = snapshot.clients.lookup(address.parse().ok()?, false)?;
        Some((Arc::as_ptr(client), Arc::strong_count(client)))
    };
    let (leeds, york) = ("10.1.0.1", "10.2.0.1");
    let before = [holders(leeds), holders(york)];
    assert!(before.iter().all(Option::is_some));
    plain.run("UPDATE revision SET epoch = 'restored'").await?;
    directory.refresh().await?;
    assert_eq!(&*directory.snapshot().revision.epoch, "restored");
    assert_eq!([holders(leeds), holders(york)], before);

    let sql = "UPDATE clients SET fragment_size = 500 WHERE id = 1; UPDATE revision SET epoch = 'again'";
    plain.run(sql).await?;
    directory.refresh().await?;
    let (was, is) = (before[0].ok_or("was")?, holders(leeds).ok_or("is")?);
    assert!(is.0 != was.0 && is.1 == was.1, "{is:?} {was:?}");
    assert_eq!(holders(york), before[1]);
    Ok(())
}

/// A compiled site that the cache gave up is compiled again, without the database, and shares its policies.
#[tokio::test]
async fn evicted_sites_are_compiled_again() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let options = Options {
        poll: Duration::from_secs(3600),
        cache_octets: 0,
        ..Options::default()
    };
    let directory = database.directory_with(options).await;
    database.store.close().await;
    let snapshot = directory.snapshot();
    assert!(matches!(directory.load(&snapshot, LEEDS).await, SiteState::Ready(_)));
    assert!(directory.refresh().await.is_err());
    assert!(
        directory
            .health()
            .problem
            .is_some_and(|problem| problem.contains("stay in force"))
    );
    assert!(matches!(directory.load(&snapshot, YORK).await, SiteState::Ready(_)));
    Ok(())
}

/// Nothing is answered before something was read, and the start does not fail for it.
#[tokio::test]
async fn a_start_without_database() -> Result {
    let database = Database::new().await?;
    let store = Store::open(&database.url()).await?;
    store.close().await;
    let directory = Directory::start(store, Dictionary::builtin(), Options::default()).await;
    let snapshot = directory.snapshot();
    assert!(!snapshot.is_loaded() && snapshot.clients.is_empty());
    assert!(matches!(directory.site(&snapshot, LEEDS), SiteState::Broken(_)));
    assert_eq!(directory.age(), None);
    Ok(())
}
