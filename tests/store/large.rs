//! The size that users have: 1,750 sites with 10 clients and 10 listed addresses each, 1,000 shared policies of 5 rules
//! and 5 responses, 5 of them for each site, and a fallback for each site.

use std::time::{Duration, Instant};

use portreeve::clients::SiteId;
use portreeve::endpoints::Found;
use portreeve::mac::MacAddress;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Options, SiteState};
use portreeve::store::document::{self, Source};

use crate::BACKEND;
use crate::support::{Database, Plain, Result};

const POLICIES: &str = "
    CREATE TEMP TABLE n (i INTEGER PRIMARY KEY);
    WITH RECURSIVE c (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM c WHERE i < 17499) INSERT INTO n SELECT i FROM c;
    INSERT INTO policies (id, name, action, methods) SELECT i, 'policy-' || i, 'accept', 'eap-tls,mab' FROM n WHERE i < 1000;
    INSERT INTO policies (id, name, fallback, action) SELECT 1000 + i, 'fallback-' || i, TRUE, 'reject' FROM n WHERE i < 1750;
    INSERT INTO rules (policy_id, request_attribute, operator, value)
        SELECT i / 5, 'User-Name', 'contains', 'user-' || (i % 5) FROM n WHERE i < 5000;
    INSERT INTO responses (policy_id, response_attribute, value, position)
        SELECT i / 5, 'Filter-Id', 'acl-' || i, i % 5 FROM n WHERE i < 5000;
    INSERT INTO responses (policy_id, response_attribute, value) SELECT 1000 + i, 'Session-Timeout', i + 1 FROM n WHERE i < 1750;
    INSERT INTO sites (id, name, tag) SELECT i, 'Site ' || i, 'site-' || i FROM n WHERE i < 1750;
    INSERT INTO site_policies (site_id, policy_id, priority) SELECT i / 5, (i / 5 * 7 + i % 5 * 200) % 1000, i % 5 FROM n WHERE i < 8750;
    INSERT INTO site_policies (site_id, policy_id) SELECT i, 1000 + i FROM n WHERE i < 1750;
    INSERT INTO clients (site_id, ip_range, shared_secret)
        SELECT i / 10, '127.' || (1 + i / 65536) || '.' || (i / 256 % 256) || '.' || (i % 256) || '/32', 'testing123' FROM n;
";

fn large() -> String {
    let address = BACKEND.either(
        "printf('02-00-00-00-%02x-%02x', i / 256, i % 256)",
        "'02-00-00-00-' || lpad(to_hex(i / 256), 2, '0') || '-' || lpad(to_hex(i % 256), 2, '0')",
    );
    format!(
        "BEGIN; {POLICIES}
        INSERT INTO mac_authentication_bypasses (site_id, address) SELECT i / 10, {address} FROM n; COMMIT"
    )
}

/// Commits `sql`, and waits until the directory has it.
async fn in_force(plain: &mut Plain, directory: &portreeve::store::Directory, sql: &str) -> Result<Duration> {
    plain.run(sql).await?;
    let revision = plain.revision().await?;
    let committed = Instant::now();
    tokio::time::timeout(Duration::from_secs(20), directory.applied(&revision)).await?;
    Ok(committed.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_large_set_are_in_force_within_a_second() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(&large()).await?;
    let directory = database.directory_with(Options::default()).await;
    let snapshot = directory.snapshot();
    assert_eq!(
        (
            snapshot.clients.len(),
            snapshot.endpoints.len(),
            snapshot.sites().count()
        ),
        (17_500, 17_500, 1_750)
    );
    for id in 0..1750 {
        assert!(
            matches!(directory.site(&snapshot, SiteId(id)), SiteState::Ready(_)),
            "{id}"
        );
    }
    drop(snapshot);

    let small = [
        "UPDATE clients SET shared_secret = 'x' WHERE id = 5000",
        "DELETE FROM mac_authentication_bypasses WHERE id = 7",
        "UPDATE rules SET value = 'x' WHERE id = 1",
        "UPDATE site_policies SET priority = 9 WHERE site_id = 3 AND priority = 0",
        "DELETE FROM sites WHERE id = 1749",
    ];
    for sql in small {
        let took = in_force(&mut plain, &directory, sql).await?;
        assert!(took < Duration::from_secs(1), "{sql}: {took:?}");
    }
    // A policy that every site uses: each of them follows.
    let all = "BEGIN; INSERT INTO policies (id, name, action, methods) VALUES (9999, 'everywhere', 'reject', 'mab');
        INSERT INTO rules (id, policy_id, request_attribute, operator, value) VALUES (99999, 9999, 'User-Name', 'equals', 'x');
        INSERT INTO site_policies SELECT id, 9999, 100 FROM sites; COMMIT";
    for sql in [all, "UPDATE rules SET value = 'y' WHERE id = 99999"] {
        in_force(&mut plain, &directory, sql).await?;
    }
    in_force(&mut plain, &directory, "UPDATE revision SET epoch = 'restored'").await?;
    let mac = MacAddress::from_u64(0x0200_0000_0006);
    assert!(matches!(
        directory.snapshot().endpoints.find(SiteId(0), mac),
        Found::Unknown
    ));
    Ok(())
}

/// A document as large as a set can be is read in time that grows with it: its lines are not counted for each of its parts.
#[tokio::test]
async fn a_large_document_is_read_in_time_that_grows_with_it() -> Result {
    let text_of = |macs: u32| {
        let mut text = String::from("[[site]]\nname = \"Leeds\"\ntag = \"leeds\"\n");
        for mac in 0..macs {
            text += &format!("[[site.mac]]\naddress = \"{}\"\n", MacAddress::from_u64(mac.into()));
        }
        text
    };
    let mut took = Vec::new();
    for macs in [2_500, 40_000] {
        let database = Database::new().await?;
        let source = Source {
            name: "large.toml".to_owned(),
            text: text_of(macs).into(),
        };
        let options = document::Options {
            dry_run: true,
            ..document::Options::default()
        };
        let began = Instant::now();
        document::import(&database.store, Dictionary::builtin(), vec![source], options).await?;
        took.push(began.elapsed());
    }
    // Sixteen times as many: were the text before each counted, it would take some 256 times as long.
    let [few, many] = took[..] else {
        return Err("two".into());
    };
    assert!(many < few * 80, "{took:?}");
    Ok(())
}
