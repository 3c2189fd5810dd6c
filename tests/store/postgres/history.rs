//! A database that is not what it was: a dump restored here or elsewhere, a replica promoted that had not seen everything.

use portreeve::clients::SiteId;
use portreeve::store::directory::{Directory, Options};
use portreeve::store::schema::VERSION;
use portreeve::store::{Settings, Snapshot, Store};

use crate::postgres::{Cluster, PATIENCE, Which};
use crate::support::{Database, Place, Plain, Result, SMALL};

fn site_of(snapshot: &Snapshot, address: &str) -> Option<SiteId> {
    let client = snapshot.clients.lookup(address.parse().ok()?, false)?;
    Some(client.site)
}

/// Whether an epoch is one of its own, rather than one that was taken from another database.
fn is_own(epoch: &str) -> bool {
    epoch.len() == 32 && epoch.bytes().all(|octet| octet.is_ascii_hexdigit())
}

#[tokio::test]
async fn a_restored_dump_is_a_new_epoch_at_once() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let directory = database.directory().await;
    let dumped = directory.snapshot().revision.clone();
    assert!(is_own(&dumped.epoch));
    let dump = database.server()?.dump(&["--clean", "--if-exists", "--no-owner"]);
    plain.run("DELETE FROM clients WHERE id = 1").await?;
    directory.refresh().await?;
    assert_eq!(site_of(&directory.snapshot(), "10.1.0.1"), None);

    database.server()?.load(&dump)?;
    directory.refresh().await?;
    let restored = directory.snapshot();
    assert_ne!(restored.revision.epoch, dumped.epoch);
    assert_eq!(restored.revision.number, dumped.number);
    assert_eq!(site_of(&restored, "10.1.0.1"), Some(SiteId(1)));
    assert_eq!(database.store.revision().await?, restored.revision);
    // Its first edit makes an epoch of its own, which then stays.
    plain.run("UPDATE sites SET timezone = 'UTC' WHERE id = 1").await?;
    directory.refresh().await?;
    let edited = directory.snapshot().revision.clone();
    assert!(is_own(&edited.epoch) && edited.epoch != dumped.epoch);
    assert_eq!(edited.number, dumped.number + 1);
    plain.run("UPDATE sites SET timezone = 'UTC' WHERE id = 1").await?;
    assert_eq!(plain.revision().await?.epoch, edited.epoch);

    // Into another database, where an operator asks for the new epoch.
    let elsewhere = Place::new()?;
    elsewhere.server()?.load(&dump)?;
    let store = Store::open(&elsewhere.url()).await?;
    let there = store.revision().await?.epoch;
    assert!(there != dumped.epoch && there != restored.revision.epoch);
    let asked = store.new_epoch().await?.epoch;
    assert!(is_own(&asked) && asked != dumped.epoch);
    let mut plain = Plain::postgres(&elsewhere.url()).await?;
    plain.run("DELETE FROM clients WHERE id = 1").await?;
    assert_eq!(store.revision().await?.epoch, asked);
    assert_eq!(Store::migrate(&elsewhere.url()).await?.1.from, VERSION);
    Ok(())
}

/// Data alone, into tables that a migration made: edits like others.
#[tokio::test]
async fn a_dump_of_data_alone_is_an_edit() -> Result {
    let database = Database::new().await?;
    database.plain().await?.run(SMALL).await?;
    let dump = database.server()?.dump(&[
        "--data-only",
        "--exclude-table=_sqlx_migrations",
        "--exclude-table=revision",
        "--exclude-table=changes",
    ]);
    let other = Database::new().await?;
    let directory = other.directory().await;
    let before = directory.snapshot().revision.clone();
    other.server()?.load(&dump)?;
    directory.refresh().await?;
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.revision.epoch, before.epoch);
    assert!(snapshot.revision.number > before.number);
    assert_eq!(site_of(&snapshot, "10.2.0.1"), Some(SiteId(2)));
    assert_eq!(snapshot.endpoints.len(), 2);
    let mut plain = other.plain().await?;
    plain
        .run("INSERT INTO sites (name, tag) VALUES ('Hull', 'hull')")
        .await?;
    assert_eq!(plain.number("SELECT max(id) FROM sites").await?, 3);
    Ok(())
}

/// Nodes keep what they have seen and the new primary has not, until its first edit.
#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_that_missed_edits_begins_a_new_epoch() -> Result {
    let cluster = Cluster::start();
    let (old, new) = (cluster.server(Which::Primary), cluster.server(Which::FirstReplica));
    let database = cluster.database();
    let (store, _) = Store::migrate(&database.url()).await?;
    let mut plain = Plain::postgres(&database.url()).await?;
    plain.run(SMALL).await?;
    cluster.settle();
    new.isolate();
    plain.run("DELETE FROM clients WHERE id = 1").await?;
    let settings = Settings {
        url: None,
        replicas: vec![database.url_of(Which::Primary), database.url_of(Which::FirstReplica)],
        ..Settings::default()
    };
    let dictionary = portreeve::radius::dictionary::Dictionary::builtin();
    let directory = Directory::start(Store::attach(&settings).await?, dictionary, Options::default()).await;
    tokio::time::timeout(PATIENCE, directory.applied(&store.revision().await?)).await?;
    let seen = directory.snapshot();
    assert_eq!(site_of(&seen, "10.1.0.1"), None);

    drop(plain);
    old.kill();
    cluster.promote(Which::FirstReplica);
    let mut plain = Plain::postgres(&database.url()).await?;
    assert_eq!(plain.revision().await?.number + 1, seen.revision.number);
    let behind = async {
        while !directory
            .health()
            .problem
            .is_some_and(|problem| problem.contains("the older is not applied"))
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, behind).await?;
    assert_eq!(directory.snapshot().revision, seen.revision);

    plain.run("UPDATE sites SET timezone = 'UTC' WHERE id = 2").await?;
    let edited = plain.revision().await?;
    assert!(edited.epoch != seen.revision.epoch && is_own(&edited.epoch));
    // The same number, and yet other data.
    assert_eq!(edited.number, seen.revision.number);
    tokio::time::timeout(PATIENCE, directory.applied(&edited)).await?;
    assert_eq!(site_of(&directory.snapshot(), "10.1.0.1"), Some(SiteId(1)));
    Ok(())
}

/// A dump is loaded table by table, its triggers last: what is half there is not taken for the set.
#[tokio::test]
async fn a_dump_that_is_half_restored_is_not_in_force() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    let directory = database.directory().await;
    let dump = database.server()?.dump(&["--clean", "--if-exists", "--no-owner"]);
    let at = dump.find("CREATE TRIGGER").ok_or("no trigger in the dump")?;
    let rules = dump.find("COPY public.rules").ok_or("no rules in the dump")?;
    let sites = dump.find("COPY public.sites").ok_or("no sites in the dump")?;
    plain.run("UPDATE rules SET value = 'Virtual' WHERE id = 1").await?;
    directory.refresh().await?;
    let before = directory.snapshot();
    for half in [rules, sites, at] {
        database.server()?.load(&dump[..half])?;
        let error = directory.refresh().await.map_err(|error| error.to_string());
        let error = error.err().ok_or("not refused")?;
        assert!(error.contains("is not whole") && error.contains("hint:"), "{error}");
        assert_eq!(directory.snapshot().revision, before.revision);
        assert!(database.store.revision().await.is_err());
    }
    database.server()?.load(&dump)?;
    directory.refresh().await?;
    let restored = directory.snapshot();
    assert_ne!(restored.revision.epoch, before.revision.epoch);
    assert_eq!((restored.clients.len(), restored.endpoints.len()), (2, 2));
    assert_eq!(directory.health().problem, None);
    Ok(())
}
