//! Edits that PostgreSQL takes in its own way: thousands of rows at once, TRUNCATE, COPY, keys, savepoints, roles.

use std::sync::Arc;
use std::time::Duration;

use portreeve::clients::SiteId;
use portreeve::store::directory::{Directory, Options};
use portreeve::store::{Snapshot, edit};
use tokio::time::timeout;

use crate::postgres::Cluster;
use crate::support::{Database, Plain, Result, SMALL};

/// A hundred more sites, each with a client and 50 addresses.
pub const CROWD: &str = "
    INSERT INTO sites (id, name, tag) SELECT n, 'Site ' || n, 'site-' || n FROM generate_series(10, 109) AS n;
    INSERT INTO clients (site_id, ip_range, shared_secret) SELECT n, '172.16.' || n || '.0/24', 'x' FROM generate_series(10, 109) AS n;
    INSERT INTO mac_authentication_bypasses (site_id, address)
        SELECT 10 + n % 100, lpad(to_hex(n), 12, '0') FROM generate_series(1, 5000) AS n;
";
const ALL: &[&str] = &["all -"];

pub async fn small() -> Result<(Database, Plain, Arc<Directory>)> {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let directory = database.directory().await;
    Ok((database, plain, directory))
}

/// What a node would answer by, in short.
pub fn seen(snapshot: &Snapshot) -> String {
    let sites = snapshot.sites().map(|(id, site)| {
        let source = site.source();
        let policies = source.map(|source| {
            source
                .policies
                .iter()
                .map(|policy| policy.policy.clone())
                .collect::<Vec<_>>()
        });
        (id, site.name().to_owned(), policies)
    });
    let mut sites: Vec<_> = sites.collect();
    sites.sort_by_key(|(id, ..)| *id);
    let (clients, macs) = (snapshot.clients.len(), snapshot.endpoints.len());
    format!("{} clients, {macs} macs, {sites:#?}", clients)
}

/// Each statement is one revision that names this, and in force after one look.
async fn each_is_one_revision(
    database: &Database,
    plain: &mut Plain,
    directory: &Arc<Directory>,
    cases: &[(&str, &[&str])],
) -> Result {
    for (sql, named) in cases {
        let before = plain.revision().await?;
        plain.run(sql).await?;
        let after = plain.revision().await?;
        assert_eq!(
            (&after.epoch, after.number),
            (&before.epoch, before.number + 1),
            "{sql}"
        );
        let changes = plain.changes(&before).await?;
        // Where all is named, nothing else matters.
        let changes = if changes.contains(&ALL[0].to_owned()) {
            &changes[..1]
        } else {
            &changes
        };
        assert_eq!(changes, *named, "{sql}");
        directory.refresh().await?;
        let fresh = database.directory().await;
        assert_eq!(seen(&directory.snapshot()), seen(&fresh.snapshot()), "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn a_statement_over_thousands_of_rows_is_one_revision() -> Result {
    let (database, mut plain, directory) = small().await?;
    plain.run(CROWD).await?;
    directory.refresh().await?;
    let named = |table: &str, sites: std::ops::RangeInclusive<u8>| {
        let mut names: Vec<_> = sites.map(|site| format!("{table} {site}")).collect();
        names.sort();
        names
    };
    let macs = "mac_authentication_bypasses";
    let (sixty_four, thirty) = (named(macs, 10..=73), named(macs, 10..=39));
    let going: Vec<String> = ["clients", macs, "sites"]
        .into_iter()
        .flat_map(|table| named(table, 40..=49))
        .collect();
    let text = |names: &Vec<String>| -> Vec<&'static str> { names.iter().map(|name| &*name.clone().leak()).collect() };
    let (sixty_four, thirty, going) = (text(&sixty_four), text(&thirty), text(&going));
    each_is_one_revision(
        &database,
        &mut plain,
        &directory,
        &[
            ("UPDATE mac_authentication_bypasses SET name = 'x'", ALL),
            // As many as are read one by one, and one more.
            (
                "UPDATE mac_authentication_bypasses SET name = 'y' WHERE site_id BETWEEN 10 AND 73",
                &sixty_four,
            ),
            (
                "UPDATE mac_authentication_bypasses SET name = 'z' WHERE site_id BETWEEN 10 AND 74",
                ALL,
            ),
            (
                "DELETE FROM mac_authentication_bypasses WHERE site_id BETWEEN 10 AND 39",
                &thirty,
            ),
            ("DELETE FROM mac_authentication_bypasses WHERE id % 3 = 0", ALL),
            ("UPDATE clients SET shared_secret = 'y'", ALL),
            ("INSERT INTO site_policies SELECT id, 3, 90 FROM sites", ALL),
            ("UPDATE rules SET value = 'y' WHERE policy_id = 3", ALL),
            ("DELETE FROM site_policies WHERE policy_id = 3", ALL),
            // Foreign keys delete row by row; it is one statement all the same.
            ("DELETE FROM sites WHERE id BETWEEN 40 AND 49", &going),
            ("DELETE FROM sites WHERE id >= 10", ALL),
        ],
    )
    .await
}

#[tokio::test]
async fn truncate() -> Result {
    let (database, mut plain, directory) = small().await?;
    let truncations: &[(&str, &[&str])] = &[
        ("TRUNCATE rules", ALL),
        ("TRUNCATE rules, responses RESTART IDENTITY", ALL),
        ("TRUNCATE mac_authentication_bypasses CASCADE", ALL),
        ("TRUNCATE policies CASCADE", ALL),
        ("TRUNCATE changes; DELETE FROM clients WHERE id = 1", &["clients 1"]),
    ];
    each_is_one_revision(&database, &mut plain, &directory, truncations).await?;
    assert!(
        plain
            .refused("TRUNCATE revision")
            .await?
            .contains("revision has one row")
    );
    plain.run("TRUNCATE sites CASCADE").await?;
    directory.refresh().await?;
    let problem = directory.health().problem.unwrap_or_default();
    assert!(problem.contains("no client left"), "{problem}");
    assert_eq!(directory.snapshot().sites().count(), 2);
    Ok(())
}

#[tokio::test]
async fn copy() -> Result {
    let (database, mut plain, directory) = small().await?;
    let before = plain.revision().await?;
    let rows: String = (0..3000)
        .map(|n| format!("{}\t{}\t{n:012x}\n", 100 + n, 1 + n % 2))
        .collect();
    plain
        .copy("mac_authentication_bypasses (id, site_id, address)", &rows)
        .await?;
    assert_eq!(plain.revision().await?.number, before.number + 1);
    assert_eq!(
        plain.changes(&before).await?,
        ["mac_authentication_bypasses 1", "mac_authentication_bypasses 2"]
    );
    directory.refresh().await?;
    assert_eq!(directory.snapshot().endpoints.len(), 3002);
    plain
        .run("INSERT INTO mac_authentication_bypasses (site_id, address) VALUES (1, 'ffff-ffff-ffff')")
        .await?;
    assert_eq!(
        plain.number("SELECT max(id) FROM mac_authentication_bypasses").await?,
        3100
    );
    // One row that is refused refuses all, and nothing moved.
    let before = plain.revision().await?;
    let refused = plain
        .copy(
            "clients (site_id, ip_range, shared_secret)",
            "1\t10.7.0.0/16\tx\n1\tnonsense\tx\n",
        )
        .await;
    assert!(refused.is_err_and(|error| error.to_string().contains("ip_range is no network")));
    assert_eq!(plain.revision().await?, before);
    drop(database);
    Ok(())
}

/// Whoever restores rows with their keys, or numbers them himself, does not make the next INSERT fail.
#[tokio::test]
async fn explicit_keys_move_the_sequence() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    let mut next = 0;
    let mut insert = async |id: Option<i64>, expected: i64| -> Result {
        next += 1;
        let (columns, key) = match id {
            Some(id) => ("id, name, tag", format!("{id}, ")),
            None => ("name, tag", String::new()),
        };
        plain
            .run(&format!(
                "INSERT INTO sites ({columns}) VALUES ({key}'{next}', '{next}')"
            ))
            .await?;
        let id = plain
            .number(&format!("SELECT id FROM sites WHERE tag = '{next}'"))
            .await?;
        assert_eq!(id, expected);
        Ok(())
    };
    insert(Some(1), 1).await?;
    insert(None, 2).await?;
    insert(Some(-7), -7).await?;
    insert(None, 3).await?;
    insert(Some(1_000), 1_000).await?;
    insert(Some(500), 500).await?;
    insert(None, 1_001).await?;
    for table in [
        "clients",
        "policies",
        "rules",
        "responses",
        "mac_authentication_bypasses",
    ] {
        let row = match table {
            "clients" => "(id, site_id, ip_range, shared_secret) VALUES (70, 1, '10.1.0.0/16', 'x')",
            "policies" => "(id, name) VALUES (70, 'x')",
            "rules" => "(id, policy_id, request_attribute, operator) VALUES (70, 70, 'SSID', 'present')",
            "responses" => "(id, policy_id, response_attribute, value) VALUES (70, 70, 'Filter-Id', 'x')",
            _ => "(id, site_id, address) VALUES (70, 1, 'aaaa-bbbb-cccc')",
        };
        plain.run(&format!("INSERT INTO {table} {row}")).await?;
        let last = format!("SELECT nextval(pg_get_serial_sequence('{table}', 'id'))");
        assert_eq!(plain.number(&last).await?, 71, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn a_statement_that_touches_no_row_moves_nothing() -> Result {
    let (_database, mut plain, _) = small().await?;
    let before = plain.revision().await?;
    for sql in [
        "UPDATE sites SET name = 'x' WHERE FALSE",
        "UPDATE clients SET shared_secret = 'x' WHERE id = 99",
        "UPDATE policies SET action = 'reject' WHERE id = 99",
        "DELETE FROM rules WHERE policy_id = 99",
        "DELETE FROM site_policies WHERE site_id = 99",
        "INSERT INTO responses (policy_id, response_attribute, value) SELECT policy_id, 'Filter-Id', 'x' FROM rules WHERE FALSE",
        "INSERT INTO clients (site_id, ip_range, shared_secret) VALUES (2, '10.1.7.7/16', 'x') ON CONFLICT DO NOTHING",
        "DELETE FROM mac_authentication_bypasses WHERE address = 'x'",
    ] {
        plain.run(sql).await?;
        assert_eq!(plain.revision().await?, before, "{sql}");
    }
    Ok(())
}

/// A transaction is one revision, however many statements it has, and each moved thing is named once: so the cost of a
/// statement does not grow with those before it.
#[tokio::test]
async fn a_transaction_is_one_revision() -> Result {
    let (database, mut plain, directory) = small().await?;
    let before = plain.revision().await?;
    plain
        .run(
            "DO $$ BEGIN FOR n IN 1..5000 LOOP
                  INSERT INTO mac_authentication_bypasses (site_id, address) VALUES (1, lpad(to_hex(n), 12, '0'));
              END LOOP; END $$",
        )
        .await?;
    assert_eq!(plain.revision().await?.number, before.number + 1);
    let rows = format!("SELECT count(*) FROM changes WHERE revision > {}", before.number);
    assert_eq!(plain.number(&rows).await?, 1);
    directory.refresh().await?;
    assert_eq!(directory.snapshot().endpoints.len(), 5002);

    let mut savepoints = async |sql: &str, named: &[&str]| -> Result {
        let before = plain.revision().await?;
        plain.run(&format!("BEGIN; {sql}; COMMIT")).await?;
        assert_eq!(plain.revision().await?.number, before.number + 1, "{sql}");
        assert_eq!(plain.changes(&before).await?, named, "{sql}");
        directory.refresh().await?;
        let fresh = database.directory().await;
        assert_eq!(seen(&directory.snapshot()), seen(&fresh.snapshot()), "{sql}");
        Ok(())
    };
    let client = "UPDATE clients SET shared_secret = 'x' WHERE id = 1";
    let rules = "SAVEPOINT s; DELETE FROM rules WHERE id = 2; ROLLBACK TO s";
    savepoints(&format!("{client}; {rules}"), &["clients 1"]).await?;
    savepoints(&format!("{rules}; {client}"), &["clients 1"]).await?;
    savepoints(&format!("SAVEPOINT s; {client}; RELEASE s; {client}"), &["clients 1"]).await?;
    savepoints(
        &format!("{client}; DELETE FROM rules WHERE id = 1"),
        &["clients 1", "rules 1", "rules 2"],
    )
    .await
}

#[tokio::test]
async fn changes_are_pruned() -> Result {
    let (_database, mut plain, _) = small().await?;
    for number in 0..5 {
        plain.run(&format!("UPDATE sites SET timezone = '{number}'")).await?;
    }
    let before = plain.revision().await?.number;
    plain.run("UPDATE revision SET number = number + 9998").await?;
    plain.run("UPDATE sites SET timezone = NULL").await?;
    assert_eq!(
        plain.number("SELECT min(revision) FROM changes").await?,
        i64::try_from(before)?
    );
    Ok(())
}

/// A session that looks for tables in another schema first, or in none, as one that loads a dump of data alone.
#[tokio::test]
async fn triggers_find_their_tables_under_any_search_path() -> Result {
    let (_database, mut plain, directory) = small().await?;
    for path in ["''", "pg_catalog", "elsewhere"] {
        let before = plain.revision().await?;
        plain
            .run(&format!(
                "BEGIN; SET LOCAL search_path = {path};
                 INSERT INTO public.clients (site_id, ip_range, shared_secret) VALUES (1, '10.9.0.0/16', 'x');
                 UPDATE public.site_policies SET priority = 11 WHERE site_id = 1 AND policy_id = 1;
                 DELETE FROM public.clients WHERE ip_range = '10.9.0.0/16'; COMMIT"
            ))
            .await?;
        assert_eq!(
            plain.changes(&before).await?,
            ["clients 1", "site_policies 1"],
            "{path}"
        );
        directory.refresh().await?;
        assert_eq!(directory.health().problem, None);
    }
    Ok(())
}

/// What roles need: to read, SELECT; to edit with plain SQL, rights on the edited tables alone.
#[tokio::test]
async fn roles() -> Result {
    let (database, mut plain, directory) = small().await?;
    let server = database.server()?;
    let name = server.name();
    server.sql(&format!(
        "CREATE ROLE {name}_node LOGIN PASSWORD 'node';
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}_node;
         CREATE ROLE {name}_editor LOGIN PASSWORD 'editor';
         GRANT SELECT, INSERT, UPDATE, DELETE ON sites, clients, policies, site_policies, rules, responses,
             mac_authentication_bypasses TO {name}_editor"
    ));
    let url = |role: &str| Cluster::shared().primary().url(&format!("{name}_{role}"), role, name);

    let store = portreeve::store::Store::attach(&url("node")).await?;
    let dictionary = directory.dictionary();
    let node = Directory::start(store.clone(), dictionary, Options::default()).await;
    assert_eq!(seen(&node.snapshot()), seen(&directory.snapshot()));
    assert_eq!(node.health().problem, None);
    portreeve::store::inspect(&store, dictionary).await?;
    portreeve::store::document::export(&store, false).await?;
    let refused = edit::sites::remove(&store, "york")
        .await
        .map(|_| ())
        .map_err(|error| error.to_string());
    let refused = refused.err().ok_or("not refused")?;
    assert!(
        refused.contains("permission denied") && refused.contains("hint: GRANT"),
        "{refused}"
    );
    let mut reader = Plain::postgres(&url("node")).await?;
    for sql in [
        "SELECT revision_number()",
        "SELECT revision_record('all', '{}')",
        "UPDATE revision SET number = 0",
        "BEGIN; LOCK revision",
    ] {
        assert!(reader.refused(sql).await?.contains("permission denied"), "{sql}");
    }

    let mut editor = Plain::postgres(&url("editor")).await?;
    let before = plain.revision().await?;
    editor
        .run(
            "INSERT INTO sites (id, name, tag) VALUES (9, 'Hull', 'hull');
              INSERT INTO clients (site_id, ip_range, shared_secret) VALUES (9, '10.9.0.0/16', 'x');
              INSERT INTO site_policies VALUES (9, 1, 1);
              UPDATE policies SET action = 'reject' WHERE id = 2;
              DELETE FROM mac_authentication_bypasses WHERE site_id = 2",
        )
        .await?;
    let after = plain.revision().await?;
    assert_eq!(after.number, before.number + 1);
    timeout(Duration::from_secs(10), node.applied(&after)).await?;
    assert!(node.snapshot().site(SiteId(9)).is_some());
    // Our commands hold the revision from their beginning, and look at the schema.
    let commands = portreeve::store::Store::open(&url("editor")).await;
    assert!(commands.is_err_and(|error| error.to_string().contains("hint: GRANT")));
    server.sql(&format!(
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}_editor; GRANT UPDATE ON revision TO {name}_editor"
    ));
    let commands = portreeve::store::Store::open(&url("editor")).await?;
    edit::sites::remove(&commands, "hull").await?;
    server.sql(&format!("REVOKE UPDATE ON revision FROM {name}_editor"));
    let refused = edit::sites::remove(&commands, "york")
        .await
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("hint: GRANT"), "{refused}");
    assert!(
        editor
            .refused("UPDATE revision SET number = 0")
            .await?
            .contains("permission denied")
    );
    node.store().close().await;
    drop((reader, editor, node));
    server.sql(&format!(
        "DROP OWNED BY {name}_node, {name}_editor; DROP ROLE {name}_node, {name}_editor"
    ));
    Ok(())
}
