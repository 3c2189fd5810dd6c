//! What is SQLite's alone: one file, sessions without foreign keys, rows that REPLACE takes away, any octets as text.

use portreeve::store::directory::SiteState;
use portreeve::store::{Store, StoreError};

use crate::support::{Database, Result, SMALL};

/// Connections would go on reading a file that is no longer there: that is said, and what is in force stays.
#[tokio::test]
async fn a_replaced_file_is_noticed() -> Result {
    let database = Database::new().await?;
    database.plain().await?.run(SMALL).await?;
    let directory = database.directory().await;
    let other = Database::new().await?;
    other.store.close().await;
    std::fs::rename(other.store.path().unwrap(), database.store.path().unwrap())?;
    let error = directory.refresh().await.map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("was deleted or replaced\nhint: restart this program")));
    let snapshot = directory.snapshot();
    let leeds = directory.load(&snapshot, portreeve::clients::SiteId(1)).await;
    assert!(matches!(leeds, SiteState::Ready(_)));
    Ok(())
}

#[tokio::test]
async fn addresses_of_odd_octets() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain
        .run("INSERT INTO sites (id, name, tag) VALUES (1, 'a', 'a')")
        .await?;
    for malformed in [
        "'aaaabbbbcccd' || char(0)",
        "'aaaabbbbcccd' || char(0) || 'x'",
        "x'616161616262626263636364'",
    ] {
        let insert = format!("INSERT INTO mac_authentication_bypasses (site_id, address) VALUES (1, {malformed})");
        let refused = plain.refused(&insert).await?;
        assert!(refused.contains("address"), "{malformed}: {refused}");
    }
    Ok(())
}

/// `INSERT OR REPLACE` deletes without a delete trigger in a plain session; the replaced row's site is named all the same.
#[tokio::test]
async fn replaced_rows_are_seen() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let before = plain.revision().await?;
    plain
        .run(
            "INSERT OR REPLACE INTO clients (id, site_id, ip_range, shared_secret) VALUES (7, 2, '10.1.0.0/16', 'new')",
        )
        .await?;
    assert_eq!(plain.changes(&before).await?, ["clients 1", "clients 2"]);
    Ok(())
}

#[tokio::test]
async fn changes_are_pruned() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain
        .run("INSERT INTO sites (id, name, tag) VALUES (1, 'a', 'a')")
        .await?;
    plain
        .run(
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
              INSERT INTO mac_authentication_bypasses (site_id, address) SELECT 1, printf('%012x', i) FROM n",
        )
        .await?;
    assert_eq!(plain.number("SELECT number FROM revision").await?, 10_501);
    assert_eq!(plain.number("SELECT count(*) FROM changes").await?, 10_000);
    Ok(())
}

/// A failure says what can be done about it.
#[tokio::test]
async fn failures_have_hints() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run("BEGIN IMMEDIATE").await?;
    // Reading waits for no writer.
    assert!(Store::open(&database.url()).await?.revision().await.is_ok());
    let folder = tempfile::tempdir()?;
    let missing = format!("sqlite:{}", folder.path().join("new.db").display());
    assert!(matches!(Store::open(&missing).await, Err(StoreError::Missing { .. })));
    let path = folder.path().join("text.db");
    std::fs::write(
        &path,
        "this is no database, but a text of some length, longer than a header of one hundred octets is, to be sure of it",
    )?;
    let error = Store::open(&format!("sqlite:{}", path.display()))
        .await
        .map(|_| ())
        .map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("hint:")));
    Ok(())
}
