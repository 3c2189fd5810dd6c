//! What is read from where: replicas while they keep up, the primary when they do not; and edits, which replicas refuse.

use std::time::{Duration, Instant};

use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Directory, Options};
use portreeve::store::{Settings, Store, StoreError, document, edit};

use crate::postgres::{Cluster, PATIENCE, Which};
use crate::support::{Database, Plain, Result, SMALL};

/// How far behind the server at `index` is.
fn lag(store: &Store, index: usize) -> Option<Duration> {
    store.servers().get(index)?.lag
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Result {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("never {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_read_as_long_as_they_keep_up() -> Result {
    let cluster = Cluster::start();
    let replica = cluster.server(Which::FirstReplica);
    let database = cluster.database();
    let alone = Settings {
        replicas: vec![database.url_of(Which::FirstReplica)],
        ..Settings::default()
    };
    // A node that starts right after a migration waits for its replica to replay it.
    replica.pause_replay();
    Store::migrate(&database.url()).await?;
    let resume = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        replica.resume_replay();
    };
    let (alone, ()) = tokio::join!(Store::attach(&alone), resume);
    let alone = alone?;
    let mut plain = Plain::postgres(&database.url()).await?;
    plain.run(SMALL).await?;
    cluster.settle();
    let read = plain.revision().await?;
    let both = Store::attach(&Settings {
        url: Some(database.url()),
        replicas: vec![database.url_of(Which::FirstReplica)],
        max_lag: Duration::from_secs(2),
        ..Settings::default()
    })
    .await?;
    let directory = Directory::start(alone.clone(), Dictionary::builtin(), Options::default()).await;
    assert_eq!(directory.snapshot().revision, read);

    // Idle is not late, however long.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(
        (lag(&alone, 0), lag(&both, 1)),
        (Some(Duration::ZERO), Some(Duration::ZERO))
    );
    assert!(
        directory.age().is_some_and(|age| age < Duration::from_secs(1)),
        "{:?}",
        directory.age()
    );

    replica.pause_replay();
    plain.run("UPDATE clients SET shared_secret = 'x'").await?;
    let now = plain.revision().await?;
    // What it has is read as long as it is not late.
    assert_eq!(both.revision().await?, read);
    until("late", || lag(&both, 1) > Some(Duration::from_secs(2))).await?;
    assert_eq!(both.revision().await?, now);
    // By what it received it knows by itself that it is late, and the node knows how old its policies are.
    assert!(lag(&alone, 0) > Some(Duration::from_secs(1)), "{:?}", alone.servers());
    assert_eq!(alone.revision().await?, read);
    assert!(
        directory.age().is_some_and(|age| age > Duration::from_secs(1)),
        "{:?}",
        directory.age()
    );

    replica.resume_replay();
    until("in time again", || {
        lag(&both, 1) == Some(Duration::ZERO) && lag(&alone, 0) == Some(Duration::ZERO)
    })
    .await?;
    tokio::time::timeout(PATIENCE, directory.applied(&now)).await?;
    assert_eq!(alone.revision().await?, now);

    // And it is read again, not the primary.
    replica.pause_replay();
    plain.run("UPDATE clients SET shared_secret = 'y'").await?;
    assert_eq!(both.revision().await?, now);
    replica.resume_replay();
    Ok(())
}

/// A replica has all that a node and its commands read, and takes no edits.
#[tokio::test]
async fn a_replica_is_read_and_not_written() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    Cluster::shared().settle();
    let url = database.server()?.replica_urls().remove(0);
    let store = Store::open(&url).await?;
    assert_eq!(store.revision().await?, plain.revision().await?);
    let directory = Directory::start(store.clone(), Dictionary::builtin(), Options::default()).await;
    assert_eq!(directory.snapshot().clients.len(), 2);
    let inspection = portreeve::store::inspect(&store, Dictionary::builtin()).await?;
    assert_eq!((inspection.sites.len(), inspection.errors.len()), (2, 0));
    let exported = document::export(&store, false).await?.text;
    assert_eq!(*exported, *document::export(&database.store, false).await?.text);

    let is_clear = |error: String| {
        assert!(
            error.contains("is a replica, and takes no edits\nhint: `[database] url` names the primary"),
            "{error}"
        );
    };
    is_clear(
        edit::sites::remove(&store, "york")
            .await
            .map(|_| ())
            .unwrap_err()
            .to_string(),
    );
    is_clear(store.new_epoch().await.unwrap_err().to_string());
    is_clear(Store::migrate(&url).await.map(|_| ()).unwrap_err().to_string());
    let mut psql = Plain::postgres(&url).await?;
    let refused = psql.refused("DELETE FROM clients").await?;
    assert!(refused.contains("read-only transaction"), "{refused}");

    let replicas = Store::attach(&Settings {
        replicas: vec![url],
        ..Settings::default()
    })
    .await?;
    assert!(matches!(replicas.new_epoch().await, Err(StoreError::NoPrimary)));
    Ok(())
}

/// The primary tells of each change, and nodes look at once, until their replica has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_wakes_nodes_up() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    Cluster::shared().settle();
    let store = Store::attach(&Settings {
        url: Some(database.url()),
        replicas: database.server()?.replica_urls(),
        ..Settings::default()
    })
    .await?;
    let options = Options {
        poll: Duration::from_secs(3600),
        ..Options::default()
    };
    let directory = Directory::start(store, Dictionary::builtin(), options).await;
    // It takes a moment to be heard.
    let listening =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'";
    let deadline = Instant::now() + PATIENCE;
    while plain.number(listening).await? == 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for secret in ["one", "two", "three"] {
        plain
            .run(&format!("UPDATE clients SET shared_secret = '{secret}'"))
            .await?;
        let revision = plain.revision().await?;
        let committed = Instant::now();
        tokio::time::timeout(PATIENCE, directory.applied(&revision)).await?;
        assert!(
            committed.elapsed() < Duration::from_secs(2),
            "{:?}",
            committed.elapsed()
        );
    }
    Ok(())
}
