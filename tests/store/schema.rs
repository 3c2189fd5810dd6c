//! What the schema itself refuses, and that it tells every change: all by plain SQL.

use std::sync::Arc;

use portreeve::store::schema::VERSION;
use portreeve::store::{Store, StoreError};

use crate::BACKEND;
use crate::support::{Database, Place, Result, SMALL};

/// Whether a refusal says that something is there twice, and what.
fn is_double(refusal: &str, what: &str) -> bool {
    let unique = BACKEND.either(
        "UNIQUE constraint failed",
        "duplicate key value violates unique constraint",
    );
    refusal.contains(unique) && refusal.contains(what)
}

/// Section 6: the schema refuses equal client networks of one kind, in any spelling that the database can read.
#[tokio::test]
async fn equal_client_networks_of_one_kind_are_refused() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain
        .run("INSERT INTO sites (id, name, tag) VALUES (1, 'a', 'a')")
        .await?;
    let insert = |network: &str, radsec: bool| {
        format!("INSERT INTO clients (site_id, ip_range, shared_secret, radsec) VALUES (1, '{network}', 'x', {radsec})")
    };
    plain.run(&insert("10.1.2.3/16", false)).await?;
    plain.run(&insert("192.0.2.7", false)).await?;
    plain.run(&insert("2001:DB8::/32", false)).await?;
    plain.run(&insert("10.1.0.0/16", true)).await?;
    plain.run(&insert("10.1.0.0/24", false)).await?;
    assert_eq!(
        plain.texts("SELECT ip_range FROM clients ORDER BY id").await?,
        [
            "10.1.0.0/16",
            "192.0.2.7/32",
            "2001:db8::/32",
            "10.1.0.0/16",
            "10.1.0.0/24"
        ]
    );
    for network in [
        "10.1.0.0/16",
        "10.1.255.1/16",
        "192.0.2.7/32",
        "192.0.2.7",
        "2001:db8::/32",
        // SQLite can only bring IPv6 to lower case; nodes find the rest.
        BACKEND.either("2001:DB8::/32", "2001:0db8:0:0:0::ffff/32"),
    ] {
        assert!(
            is_double(&plain.refused(&insert(network, false)).await?, "ip_range"),
            "{network}"
        );
    }
    for network in [
        "",
        "/8",
        "10.1/16",
        "10.1.0.256/32",
        "10.1.0.0/33",
        "10.1.0.0/+1",
        "10.1.0.0/08",
        "010.1.0.0/16",
        "host",
        "::/129",
        "::g/1",
    ] {
        assert!(
            plain
                .refused(&insert(network, false))
                .await?
                .contains("ip_range is no network"),
            "{network}"
        );
    }
    let refused = plain
        .refused("UPDATE clients SET ip_range = '10.1.0.9/24' WHERE id = 1")
        .await?;
    assert!(is_double(&refused, "ip_range"), "{refused}");
    let refused = plain.refused("UPDATE clients SET shared_secret = ''").await?;
    assert!(refused.contains("shared_secret"), "{refused}");
    assert_eq!(plain.number("SELECT count(*) FROM clients").await?, 5);
    Ok(())
}

/// Section 6: a second equal priority in a site is refused, and NULL is only for fallbacks.
#[tokio::test]
async fn priorities() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let link = |policy: i64, priority: &str| format!("INSERT INTO site_policies VALUES (1, {policy}, {priority})");
    let refused = plain.refused(&link(3, "10")).await?;
    assert!(is_double(&refused, "priority"), "{refused}");
    assert!(
        plain
            .refused(&link(3, "NULL"))
            .await?
            .contains("only a fallback policy may be without priority")
    );
    assert!(
        plain
            .refused("UPDATE site_policies SET priority = NULL WHERE policy_id = 1")
            .await?
            .contains("only a fallback")
    );
    assert!(
        plain
            .refused(&link(5, "NULL"))
            .await?
            .contains("a site has one fallback policy")
    );
    assert!(
        plain
            .refused("UPDATE policies SET fallback = FALSE WHERE id = 4")
            .await?
            .contains("as its fallback")
    );
    assert!(
        plain
            .refused("UPDATE policies SET fallback = TRUE WHERE id = 1")
            .await?
            .contains("has a fallback policy already")
    );
    assert!(
        plain
            .refused("DELETE FROM policies WHERE id = 1")
            .await?
            .contains("remove it from its sites first")
    );
    plain.run("DELETE FROM policies WHERE id = 3").await?;
    assert_eq!(plain.number("SELECT count(*) FROM rules WHERE policy_id = 3").await?, 0);
    Ok(())
}

/// Section 6: a malformed MAC and a MAC twice in one site are refused; section 10: `AAAA-BBBB-CCCC` is one like any other.
#[tokio::test]
async fn mac_addresses() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain
        .run("INSERT INTO sites (id, name, tag) VALUES (1, 'a', 'a'), (2, 'b', 'b')")
        .await?;
    let insert = |site: i64, address: &str| {
        format!("INSERT INTO mac_authentication_bypasses (site_id, address) VALUES ({site}, {address})")
    };
    plain.run(&insert(1, "'aa-aa-bb-bb-cc-cc'")).await?;
    plain.run(&insert(2, "'AAAA-BBBB-CCCC'")).await?;
    for spelling in [
        "AAAA-BBBB-CCCC",
        "aaaa.bbbb.cccc",
        "AA:AA:BB:BB:CC:CC",
        "aaaabb-bbcccc",
        "aaaabbbbcccc",
        "a:a:a:a:b:b:b:b:c:c:c:c",
    ] {
        let refused = plain.refused(&insert(1, &format!("'{spelling}'"))).await?;
        assert!(is_double(&refused, "address"), "{spelling}: {refused}");
    }
    for malformed in [
        "''",
        "'aa-aa-bb-bb-cc'",
        "'aa-aa-bb-bb-cc-cg'",
        "'aa-aa:bb-bb-cc-cc'",
        "'aaa-abbbbccc-c'",
        "'aa-aa-bb-bb-cc-cc '",
        "'aa-aa-bb-bb-cc-cc-'",
        "'aaaabbbbccc\u{e9}'",
        "'aaaabbbbcccd\n'",
        "NULL",
    ] {
        let refused = plain.refused(&insert(1, malformed)).await?;
        assert!(refused.contains("address"), "{malformed}: {refused}");
    }
    let until = |until: &str| format!("UPDATE mac_authentication_bypasses SET valid_until = {until}");
    for time in [
        BACKEND.either("datetime('now')", "now()"),
        "'2027-01-31'",
        "'2027-01-31T12:00:00Z'",
        "1800000000",
        "NULL",
    ] {
        plain.run(&until(time)).await?;
    }
    for time in ["''", "'tomorrow'", "'-5'", "'31.1.2027'"] {
        assert!(
            plain.refused(&until(time)).await?.contains("valid_until is no time"),
            "{time}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn words_and_ranges() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    for sql in [
        "UPDATE policies SET action = 'permit'",
        "UPDATE policies SET fallback = 2",
        "UPDATE policies SET name = 'laptops'",
        "UPDATE sites SET tag = 'leeds'",
        "UPDATE rules SET operator = 'like'",
        "UPDATE rules SET policy_id = 'one'",
        "UPDATE clients SET min_tls = '1.1'",
        "UPDATE clients SET fragment_size = 63",
        "UPDATE clients SET mab_identity = 'none'",
        "INSERT INTO responses (response_attribute, value) VALUES ('Filter-Id', 'x')",
        "INSERT INTO responses (policy_id, mac_authentication_bypass_id, response_attribute, value) VALUES (1, 1, 'Filter-Id', 'x')",
        "INSERT INTO revision VALUES ('second', 1)",
        "DELETE FROM revision",
    ] {
        plain.refused(sql).await?;
    }
    Ok(())
}

/// Section 6: the revision moves with every change of any table, and `changes` names the sites whose
/// decisions the row takes part in.
#[tokio::test]
async fn each_change_moves_the_revision_once_and_names_its_sites() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let cases: &[(&str, &[&str])] = &[
        (
            "INSERT INTO sites (id, name, tag) VALUES (3, 'Hull', 'hull')",
            &["sites 3"],
        ),
        ("UPDATE sites SET timezone = 'Europe/London' WHERE id = 1", &["sites 1"]),
        ("DELETE FROM sites WHERE id = 3", &["sites 3"]),
        (
            "INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (3, 2, '10.3.0.0/16', 'x')",
            &["clients 2"],
        ),
        ("UPDATE clients SET shared_secret = 'y' WHERE id = 3", &["clients 2"]),
        (
            "UPDATE clients SET site_id = 1 WHERE id = 3",
            &["clients 1", "clients 2"],
        ),
        ("DELETE FROM clients WHERE id = 3", &["clients 1"]),
        ("INSERT INTO policies (id, name) VALUES (6, 'new')", &["policies -"]),
        (
            "UPDATE policies SET action = 'reject' WHERE id = 1",
            &["policies 1", "policies 2"],
        ),
        ("UPDATE policies SET description = 'x' WHERE id = 3", &["policies -"]),
        ("DELETE FROM policies WHERE id = 6", &["policies -"]),
        ("INSERT INTO site_policies VALUES (2, 2, 20)", &["site_policies 2"]),
        (
            "UPDATE site_policies SET priority = 30 WHERE site_id = 2 AND policy_id = 2",
            &["site_policies 2"],
        ),
        (
            "DELETE FROM site_policies WHERE site_id = 2 AND policy_id = 2",
            &["site_policies 2"],
        ),
        (
            "INSERT INTO rules (id, policy_id, request_attribute, operator, value) VALUES (9, 1, 'User-Name', 'equals', 'x')",
            &["rules 1", "rules 2"],
        ),
        ("UPDATE rules SET value = 'y' WHERE id = 9", &["rules 1", "rules 2"]),
        ("UPDATE rules SET policy_id = 2 WHERE id = 9", &["rules 1", "rules 2"]),
        ("UPDATE rules SET policy_id = 3 WHERE id = 9", &["rules 1"]),
        ("DELETE FROM rules WHERE id = 9", &["rules -"]),
        (
            "INSERT INTO responses (id, policy_id, response_attribute, value) VALUES (8, 2, 'Filter-Id', 'x')",
            &["responses 1"],
        ),
        (
            "INSERT INTO responses (id, mac_authentication_bypass_id, response_attribute, value) VALUES (9, 2, 'Filter-Id', 'x')",
            &["responses 2"],
        ),
        ("UPDATE responses SET value = 'y' WHERE id = 9", &["responses 2"]),
        (
            "UPDATE responses SET policy_id = 1 WHERE id = 8",
            &["responses 1", "responses 2"],
        ),
        ("DELETE FROM responses WHERE id = 8", &["responses 1", "responses 2"]),
        ("DELETE FROM responses WHERE id = 9", &["responses 2"]),
        (
            "INSERT INTO mac_authentication_bypasses (id, site_id, address) VALUES (3, 1, '020000000003')",
            &["mac_authentication_bypasses 1"],
        ),
        (
            "UPDATE mac_authentication_bypasses SET name = 'x' WHERE id = 3",
            &["mac_authentication_bypasses 1"],
        ),
        (
            "UPDATE mac_authentication_bypasses SET site_id = 2 WHERE id = 3",
            &["mac_authentication_bypasses 1", "mac_authentication_bypasses 2"],
        ),
        (
            "DELETE FROM mac_authentication_bypasses WHERE id = 3",
            &["mac_authentication_bypasses 2"],
        ),
    ];
    for (sql, expected) in cases {
        let before = plain.revision().await?;
        plain.run(sql).await?;
        let after = plain.revision().await?;
        assert_eq!(
            (&after.epoch, after.number),
            (&before.epoch, before.number + 1),
            "{sql}"
        );
        assert_eq!(plain.changes(&before).await?, *expected, "{sql}");
    }
    // What is rolled back never was.
    let before = plain.revision().await?;
    plain.run("BEGIN; DELETE FROM rules; ROLLBACK").await?;
    assert_eq!(plain.revision().await?, before);
    Ok(())
}

/// Children go with their parent, and each is told.
#[tokio::test]
async fn cascades_are_seen() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let before = plain.revision().await?;
    plain.run("DELETE FROM sites WHERE id = 1").await?;
    // SQLite's triggers take the responses away before their address, PostgreSQL's foreign keys after it.
    let responses = BACKEND.either("responses 1", "responses -");
    assert_eq!(
        plain.changes(&before).await?,
        [
            "clients 1",
            "mac_authentication_bypasses 1",
            responses,
            "site_policies 1",
            "sites 1"
        ]
    );
    assert_eq!(
        plain
            .number("SELECT count(*) FROM responses WHERE mac_authentication_bypass_id = 1")
            .await?,
        0
    );
    assert_eq!(plain.number("SELECT count(*) FROM policies").await?, 5);
    Ok(())
}

/// Section 6: rows of the system that users migrate from load unchanged.
#[tokio::test]
async fn migrated_rows_load_unchanged() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain
        .run("
        INSERT INTO sites (id, name, tag) VALUES (1, 'HQ', 'hq');
        INSERT INTO clients (id, site_id, shared_secret, ip_range, radsec) VALUES (1, 1, 's', '10.1.2.3/24', FALSE);
        INSERT INTO policies (id, name, description, fallback, action) VALUES (1, 'p', 'd', FALSE, 'accept'), (2, 'f', 'd', TRUE, 'accept');
        INSERT INTO site_policies (site_id, policy_id, priority) VALUES (1, 1, 1), (1, 2, NULL);
        INSERT INTO rules (id, policy_id, request_attribute, operator, value) VALUES (1, 1, 'User-Name', 'equals', 'x'), (2, 1, 'User-Name', 'contains', 'y');
        INSERT INTO responses (id, response_attribute, value, policy_id, mac_authentication_bypass_id) VALUES (1, 'Tunnel-Type', 'VLAN', 1, NULL);
        INSERT INTO mac_authentication_bypasses (id, address, name, description, site_id) VALUES (1, 'aa-bb-cc-11-22-33', 'printer', NULL, 1);
        INSERT INTO responses (id, response_attribute, value, policy_id, mac_authentication_bypass_id) VALUES (2, 'Tunnel-Type', 'VLAN', NULL, 1);
        INSERT INTO policies (name) VALUES ('without action');
        ")
        .await?;
    assert_eq!(
        plain
            .texts("SELECT action FROM policies WHERE name = 'without action'")
            .await?,
        ["accept"]
    );
    Ok(())
}

/// Migration is safe from many tasks at once, and an unknown schema is refused clearly.
#[tokio::test(flavor = "multi_thread")]
async fn migrations() -> Result {
    let place = Place::new()?;
    let url = place.url();
    assert!(
        Store::open(&url)
            .await
            .is_err_and(|error| error.to_string().contains("`portreeve migrate`"))
    );
    let racers: Vec<_> = (0..10)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Store::migrate(&url).await.map(|(_, migrated)| migrated.from) })
        })
        .collect();
    let mut from = Vec::new();
    for racer in racers {
        from.push(racer.await??);
    }
    from.sort_unstable();
    assert_eq!(from, [vec![0], vec![VERSION; 9]].concat());
    let store = Store::open(&url).await?;
    let epoch = store.revision().await?.epoch;
    assert_eq!(epoch.len(), 32);
    assert_ne!(store.new_epoch().await?.epoch, epoch);

    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.migrated_to(VERSION + 2).await?;
    let too_new = |result: std::result::Result<(), StoreError>| matches!(result, Err(StoreError::SchemaTooNew { found }) if found == VERSION + 2);
    assert!(too_new(Store::open(&database.url()).await.map(|_| ())));
    assert!(too_new(Store::attach(&database.url()).await.map(|_| ())));
    assert!(too_new(Store::migrate(&database.url()).await.map(|_| ())));
    plain.run("DELETE FROM _sqlx_migrations WHERE version > 1").await?;
    let error = Store::open(&database.url())
        .await
        .map(|_| ())
        .map_err(|error| error.to_string());
    assert_eq!(
        error,
        Err(format!(
            "the database has schema version 1, and this program needs {VERSION}\nhint: run `portreeve migrate`"
        ))
    );
    Ok(())
}

/// A release serves the next one's schema too. What comes after that it does not read: what it has stays in force, and it
/// says so.
#[tokio::test]
async fn a_migration_under_a_running_node() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    plain.migrated_to(VERSION + 1).await?;
    Store::open(&database.url()).await?;
    let directory = database.directory().await;
    plain.run("DELETE FROM clients WHERE id = 1").await?;
    directory.refresh().await?;
    assert_eq!(
        (directory.snapshot().clients.len(), directory.health().problem),
        (1, None)
    );

    plain.migrated_to(VERSION + 2).await?;
    plain.run("UPDATE clients SET shared_secret = 'x'").await?;
    let before = directory.snapshot();
    assert!(matches!(
        directory.refresh().await,
        Err(StoreError::SchemaTooNew { .. })
    ));
    assert!(Arc::ptr_eq(&directory.snapshot(), &before));
    let problem = directory.health().problem.unwrap_or_default();
    assert!(
        problem.contains("stay in force") && problem.contains("hint: use the newer program"),
        "{problem}"
    );
    assert!(database.store.revision().await.is_ok());
    Ok(())
}

#[tokio::test]
async fn urls_of_no_database() -> Result {
    for url in ["portreeve.db", "sqlite::memory:", "mysql://db/x"] {
        assert!(matches!(Store::open(url).await, Err(StoreError::Url { .. })), "{url}");
    }
    Ok(())
}
