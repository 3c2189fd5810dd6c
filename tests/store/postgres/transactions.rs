//! Transactions side by side: what waits for what, and what a node that reads meanwhile sees.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use portreeve::clients::SiteId;
use portreeve::store::Snapshot;
use portreeve::store::directory::Options;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::edits::{CROWD, seen, small};
use crate::support::Result;

fn secret_is(snapshot: &Snapshot, address: &str, secret: &[u8]) -> bool {
    let client = address
        .parse()
        .ok()
        .and_then(|address| snapshot.clients.lookup(address, false));
    client.is_some_and(|client| client.secret.is(secret))
}

/// Of two open transactions the one that began later may commit first: its number is the smaller, and a node that looks in
/// between sees it alone, and then the other.
#[tokio::test]
async fn numbers_rise_in_commit_order() -> Result {
    let (database, mut plain, directory) = small().await?;
    let before = plain.revision().await?.number;
    let (mut first, mut second) = (database.plain().await?, database.plain().await?);
    first.run("BEGIN; SELECT count(*) FROM sites").await?;
    second
        .run("BEGIN; UPDATE clients SET shared_secret = 'second' WHERE id = 2")
        .await?;
    {
        let mut waiting = pin!(first.run("UPDATE clients SET shared_secret = 'first' WHERE id = 1"));
        assert!(timeout(Duration::from_millis(200), waiting.as_mut()).await.is_err());
        directory.refresh().await?;
        assert_eq!(directory.snapshot().revision.number, before);
        second.run("COMMIT").await?;
        waiting.await?;
    }
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.revision.number, before + 1);
    assert!(secret_is(&snapshot, "10.2.0.1", b"second") && secret_is(&snapshot, "10.1.0.1", b"leeds-secret"));
    first.run("COMMIT").await?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.revision.number, before + 2);
    assert!(secret_is(&snapshot, "10.2.0.1", b"second") && secret_is(&snapshot, "10.1.0.1", b"first"));
    Ok(())
}

/// Many at once that edit the same rows, each in its own order: nobody waits in a circle, and no look at the database sees
/// half of one or misses one.
#[tokio::test]
async fn edits_in_opposite_order_neither_deadlock_nor_are_missed() -> Result {
    const WRITERS: u64 = 6;
    const ROUNDS: u64 = 15;
    let (database, mut plain, _) = small().await?;
    let before = plain.revision().await?.number;
    plain.run("UPDATE clients SET shared_secret = 'begin'").await?;
    let options = Options {
        poll: Duration::from_millis(2),
        ..Options::default()
    };
    let directory = database.directory_with(options).await;
    let local = LocalSet::new();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let mut session = database.plain().await?;
        writers.push(local.spawn_local(async move {
            for round in 0..ROUNDS {
                let mut rows = [1, 2];
                if (writer + round) % 2 == 0 {
                    rows.reverse();
                }
                session.run("BEGIN").await?;
                for row in rows {
                    let secret = format!("{writer}-{round}");
                    session
                        .run(&format!(
                            "UPDATE clients SET shared_secret = '{secret}' WHERE id = {row}"
                        ))
                        .await?;
                    tokio::task::yield_now().await;
                }
                session.run("COMMIT").await?;
            }
            Result::Ok(())
        }));
    }
    let watch = async {
        let mut looks = 0;
        let mut revisions = directory.subscribe();
        while writers.iter().any(|writer| !writer.is_finished()) {
            _ = timeout(Duration::from_millis(20), revisions.changed()).await;
            let snapshot = directory.snapshot();
            let secret = |address: &str| {
                snapshot
                    .clients
                    .lookup(address.parse().unwrap(), false)
                    .map(|c| Arc::clone(&c.secret))
            };
            assert_eq!(secret("10.1.0.1"), secret("10.2.0.1"), "at {}", snapshot.revision);
            looks += 1;
        }
        looks
    };
    let looks = timeout(Duration::from_secs(60), local.run_until(watch)).await?;
    for writer in writers {
        writer.await??;
    }
    let after = plain.revision().await?;
    assert_eq!(after.number, before + 1 + WRITERS * ROUNDS, "{looks} looks");
    timeout(Duration::from_secs(10), directory.applied(&after)).await?;
    let last = plain.texts("SELECT shared_secret FROM clients WHERE id = 1").await?;
    assert!(secret_is(&directory.snapshot(), "10.1.0.1", last[0].as_bytes()));
    Ok(())
}

/// TRUNCATE empties a table for transactions that began before it as well. A table that is loaded anew in one transaction is
/// never seen empty all the same, nor does a reading cost the loader a deadlock.
#[tokio::test]
async fn a_table_that_is_loaded_anew_is_never_seen_empty() -> Result {
    const ROUNDS: u64 = 40;
    let (database, mut plain, _) = small().await?;
    plain.run(CROWD).await?;
    plain
        .run("CREATE TABLE kept_macs AS TABLE mac_authentication_bypasses; CREATE TABLE kept_rules AS TABLE rules")
        .await?;
    let before = plain.revision().await?.number;
    let options = Options {
        poll: Duration::from_millis(1),
        ..Options::default()
    };
    let directory = database.directory_with(options).await;
    let mut loader = database.plain().await?;
    let local = LocalSet::new();
    let load = local.spawn_local(async move {
        for _ in 0..ROUNDS {
            loader
                .run("BEGIN; TRUNCATE rules; INSERT INTO rules TABLE kept_rules; COMMIT;
                      BEGIN; DELETE FROM responses WHERE mac_authentication_bypass_id IS NOT NULL;
                      TRUNCATE mac_authentication_bypasses CASCADE; INSERT INTO mac_authentication_bypasses TABLE kept_macs; COMMIT")
                .await?;
        }
        Result::Ok(())
    });
    let watch = async {
        let mut seen = 0;
        let mut revisions = directory.subscribe();
        while !load.is_finished() {
            seen += u64::from(timeout(Duration::from_millis(20), revisions.changed()).await.is_ok());
            let snapshot = directory.snapshot();
            assert_eq!(snapshot.endpoints.len(), 5002, "at {}", snapshot.revision);
            let source = snapshot
                .site(SiteId(1))
                .and_then(|site| site.source())
                .ok_or("no site")?;
            let rules: Vec<usize> = source.policies.iter().map(|policy| policy.policy.rules.len()).collect();
            assert_eq!(rules, [1, 1], "at {}", snapshot.revision);
        }
        Result::Ok(seen)
    };
    let seen = timeout(Duration::from_secs(60), local.run_until(watch)).await??;
    load.await??;
    let after = plain.revision().await?;
    assert_eq!(after.number, before + 2 * ROUNDS);
    assert!(seen > 2, "only {seen} revisions were ever in force");
    timeout(Duration::from_secs(10), directory.applied(&after)).await?;
    Ok(())
}

/// TRUNCATE locks its table before a trigger can take the revision. Beside an edit that goes on to that table one of the two
/// is undone, and said so; who holds the revision first waits for his turn.
#[tokio::test]
async fn truncate_beside_an_edit() -> Result {
    let (database, _, directory) = small().await?;
    let (mut editor, mut loader) = (database.plain().await?, database.plain().await?);
    for (hold, both) in [("SELECT number FROM revision FOR UPDATE;", true), ("", false)] {
        editor.run("BEGIN; UPDATE sites SET timezone = 'UTC'").await?;
        let (edited, truncated) = {
            let load = format!("BEGIN; {hold} TRUNCATE rules; COMMIT");
            let mut truncate = pin!(loader.run(&load));
            assert!(timeout(Duration::from_millis(200), truncate.as_mut()).await.is_err());
            tokio::join!(editor.run("UPDATE rules SET value = 'x'; COMMIT"), truncate)
        };
        assert!(edited.is_ok() || truncated.is_ok());
        assert_eq!(edited.is_ok() && truncated.is_ok(), both, "{edited:?} {truncated:?}");
        for error in [edited.err(), truncated.err()].into_iter().flatten() {
            assert!(error.to_string().contains("deadlock detected"), "{error}");
        }
        editor.run("ROLLBACK").await?;
        loader.run("ROLLBACK").await?;
        directory.refresh().await?;
        let fresh = database.directory().await;
        assert_eq!(seen(&directory.snapshot()), seen(&fresh.snapshot()));
    }
    Ok(())
}
