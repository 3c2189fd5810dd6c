//! Everything through PgBouncer in transaction mode: each transaction may get another session, in which nothing of the last
//! one is left.

use std::time::Duration;

use portreeve::mac::MacAddress;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Directory, Options};
use portreeve::store::schema::VERSION;
use portreeve::store::{Settings, Store, document, edit, inspect};

use crate::postgres::{Cluster, PATIENCE};
use crate::support::{Place, Plain, Result, SMALL};

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_through_a_pooler() -> Result {
    let place = Place::new()?;
    let server = place.server()?;
    let [primary, replica, _] = Cluster::shared().poolers(server);

    let racers: Vec<_> = (0..5)
        .map(|_| {
            let url = primary.clone();
            tokio::spawn(async move { Store::migrate(&url).await.map(|(_, migrated)| migrated) })
        })
        .collect();
    let mut made = 0;
    for racer in racers {
        let migrated = racer.await??;
        assert_eq!(migrated.to, VERSION);
        made += usize::from(migrated.from == 0);
    }
    assert_eq!(made, 1);
    // Plain SQL goes directly, so that what a pooler does to it is not in question.
    let mut plain = Plain::postgres(&server.url()).await?;
    plain.run(SMALL).await?;
    Cluster::shared().settle();

    let settings = Settings {
        url: Some(primary.clone()),
        replicas: vec![replica.clone()],
        ..Settings::default()
    };
    let node = Store::attach(&settings).await?;
    for server in node.servers() {
        assert!(server.lag.is_some(), "{server:?}");
    }
    assert!(node.servers()[1].status.contains("a replica"), "{:?}", node.servers());
    let directory = Directory::start(node.clone(), Dictionary::builtin(), Options::default()).await;
    tokio::time::timeout(PATIENCE, directory.applied(&plain.revision().await?)).await?;
    assert_eq!(directory.snapshot().clients.len(), 2);

    // Commands, as many at once as there are connections and more.
    let store = Store::open(&primary).await?;
    let edits: Vec<_> = (0..12u64)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let mac = MacAddress::from_u64(0x0300_0000_0000 + number);
                edit::macs::add(
                    &store,
                    Dictionary::builtin(),
                    "leeds",
                    mac,
                    &edit::macs::Settings::default(),
                )
                .await
            })
        })
        .collect();
    for edit in edits {
        edit.await??;
    }
    let exported = document::export(&store, false).await?.text;
    let import = document::Options {
        merge: false,
        dry_run: false,
        force: false,
    };
    let changed = exported.replace("Filter-Id = printers", "Filter-Id = changed");
    let sources = vec![document::Source {
        name: "set.toml".to_owned(),
        text: changed.into(),
    }];
    let imported = document::import(&store, Dictionary::builtin(), sources, import).await?;
    assert!(imported.difference.contains("changed"), "{}", imported.difference);
    tokio::time::timeout(PATIENCE, directory.applied(&imported.revision)).await?;
    assert_eq!(directory.snapshot().endpoints.len(), 14);
    inspect(&store, Dictionary::builtin()).await?;

    // Nothing that one session was told is left for whoever gets it next.
    for _ in 0..20 {
        let mut session = Plain::postgres(&primary).await?;
        let left = session
            .texts(
                "SELECT concat_ws('|', current_setting('statement_timeout'), current_setting('lock_timeout'),
                    current_setting('transaction_read_only'))",
            )
            .await;
        assert_eq!(left?, ["0|0|off"]);
    }
    // A node goes on following by looking, since a pooler passes no notices on.
    plain.run("DELETE FROM clients WHERE id = 1").await?;
    let committed = std::time::Instant::now();
    tokio::time::timeout(PATIENCE, directory.applied(&plain.revision().await?)).await?;
    assert!(
        committed.elapsed() < Duration::from_secs(2),
        "{:?}",
        committed.elapsed()
    );
    assert_eq!(directory.health().problem, None);
    Ok(())
}
