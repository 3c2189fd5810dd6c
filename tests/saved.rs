//! The policy set on disk: what a node of PostgreSQL serves that starts while no database answers.
#![cfg(feature = "server")]

#[cfg(test)]
#[path = "common/postgres.rs"]
mod postgres;

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portreeve::clients::SiteId;
use portreeve::endpoints::Found;
use portreeve::mac::MacAddress;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::directory::{Directory, Options, SiteState};
use portreeve::store::saved::{Key, Saved};
use portreeve::store::{Settings, Store};
use postgres::Cluster;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SET: &str = "
    INSERT INTO sites (id, name, tag) VALUES (7, 'Leeds', 'leeds');
    INSERT INTO clients (id, site_id, ip_range, shared_secret, mab_password)
        VALUES (3, 7, '10.1.0.0/16', 'a-secret-of-leeds', 'a-password-of-leeds');
    INSERT INTO policies (id, name, methods) VALUES (1, 'printers', 'mab');
    INSERT INTO policies (id, name, fallback, action) VALUES (2, 'no', TRUE, 'reject');
    INSERT INTO rules (policy_id, request_attribute, operator, value) VALUES (1, 'NAS-Port-Type', 'equals', 'Ethernet');
    INSERT INTO responses (policy_id, response_attribute, value) VALUES (1, 'Filter-Id', 'printers'), (1, 'Session-Timeout', '3600'),
        (1, 'Tunnel-Password:1', 'a-tunnel-of-printers');
    INSERT INTO site_policies (site_id, policy_id, priority) VALUES (7, 1, 10), (7, 2, NULL);
    INSERT INTO mac_authentication_bypasses (id, site_id, address, valid_until) VALUES (9, 7, '02-00-00-00-00-01', '2099-01-01');
    INSERT INTO responses (mac_authentication_bypass_id, response_attribute, value) VALUES (9, 'Filter-Id', 'own'), (9, 'Session-Timeout', '60'),
        (9, 'Tunnel-Password:1', 'a-tunnel-of-its-own');
";

fn saved(path: &Path, key: &str) -> Result<Saved> {
    Ok(Saved::new(path.to_owned(), Key::new(&key.repeat(32))?))
}

fn options(saved: Saved) -> Options {
    Options {
        poll: Duration::from_millis(20),
        saved: Some(saved),
        calm: Duration::from_millis(50),
        ..Options::default()
    }
}

async fn start(settings: Settings, saved: Saved) -> Result<Arc<Directory>> {
    let store = Store::attach(settings).await?;
    Ok(Directory::start(store, Dictionary::builtin(), options(saved)).await)
}

/// A server that refuses every connection.
fn nowhere() -> Result<Settings> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(Settings::from(
        format!("postgres://nobody:none@127.0.0.1:{port}/none").as_str(),
    ))
}

fn secret(directory: &Directory) -> Option<Vec<u8>> {
    let snapshot = directory.snapshot();
    let client = snapshot.clients.lookup("10.1.2.3".parse().ok()?, false)?;
    ["a-secret-of-leeds", "another-secret"]
        .iter()
        .find(|text| client.secret.is(text.as_bytes()))
        .map(|text| text.as_bytes().to_vec())
}

fn is_listed(directory: &Directory, mac: &str) -> bool {
    let snapshot = directory.snapshot();
    let found = |mac| snapshot.endpoints.find(SiteId(7), mac);
    MacAddress::parse(mac.as_bytes()).is_some_and(|mac| matches!(found(mac), Found::Listed(_)))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the file has what is in force.
async fn until_kept(path: &Path, directory: &Directory) -> Result {
    let revision = directory.snapshot().revision.clone();
    let began = Instant::now();
    loop {
        let kept = saved(path, "k")?.look(SystemTime::now()).await;
        if kept.is_ok_and(|kept| kept.is_some_and(|(kept, _)| kept == revision)) {
            return Ok(());
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{revision} is never kept");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_from_its_last_set_while_no_database_answers() -> Result {
    let database = Cluster::shared().database();
    let (store, _) = Store::migrate(&database.url()).await?;
    store.close().await;
    database.as_owner(SET)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("portreeve.snapshot");

    let directory = start(Settings::from(&database.url()), saved(&path, "k")?).await?;
    assert_eq!(secret(&directory).as_deref(), Some(&b"a-secret-of-leeds"[..]));
    until("a set on disk", || path.exists()).await;
    database.as_owner("UPDATE clients SET shared_secret = 'another-secret'")?;
    until("the change", || {
        secret(&directory).as_deref() == Some(b"another-secret")
    })
    .await;
    until_kept(&path, &directory).await?;
    let revision = directory.snapshot().revision.clone();
    drop(directory);

    // Neither a secret nor a password stands in the file, and nobody else may read it.
    let octets = std::fs::read(&path)?;
    for clear in [
        "a-secret-of-leeds",
        "another-secret",
        "a-password-of-leeds",
        "a-tunnel-of-printers",
        "a-tunnel-of-its-own",
    ] {
        assert!(
            !octets.windows(clear.len()).any(|window| window == clear.as_bytes()),
            "{clear}"
        );
    }
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    assert!(octets.windows(5).any(|window| window == b"leeds"));

    // No database: the same set, secrets, addresses and policies (a Session-Timeout that is still sealed is no number), and
    // its age is known.
    let alone = start(nowhere()?, saved(&path, "k")?).await?;
    assert_eq!(alone.snapshot().revision, revision);
    assert_eq!(secret(&alone).as_deref(), Some(&b"another-secret"[..]));
    assert!(is_listed(&alone, "02-00-00-00-00-01") && !is_listed(&alone, "02-00-00-00-00-02"));
    let site = alone.load(&alone.snapshot(), SiteId(7)).await;
    assert!(matches!(site, SiteState::Ready(_)), "{site:?}");
    assert!(
        alone.age().is_some_and(|age| age < Duration::from_secs(90)),
        "{:?}",
        alone.age()
    );
    assert!(alone.health().problem.is_some());

    // Another key opens nothing, and neither does a damaged file: then there is no set at all.
    assert!(!start(nowhere()?, saved(&path, "l")?).await?.snapshot().is_loaded());
    let damaged = folder.path().join("damaged");
    std::fs::write(&damaged, &octets[..octets.len() / 2])?;
    assert!(!start(nowhere()?, saved(&damaged, "k")?).await?.snapshot().is_loaded());

    // The database is back, and has moved on: what moved is read, whoever started from the disk.
    let settings = Settings {
        replicas: vec![database.url()],
        ..nowhere()?
    };
    database.as_owner("DELETE FROM mac_authentication_bypasses")?;
    let back = start(settings, saved(&path, "k")?).await?;
    until("the deletion", || !is_listed(&back, "02-00-00-00-00-01")).await;
    Ok(())
}

/// What is kept says when the database confirmed it last, by the machine's clock.
#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_a_set_goes_on_while_no_node_runs() -> Result {
    let database = Cluster::shared().database();
    Store::migrate(&database.url()).await?.0.close().await;
    database.as_owner(SET)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("portreeve.snapshot");
    let directory = start(Settings::from(&database.url()), saved(&path, "k")?).await?;
    until_kept(&path, &directory).await?;
    drop(directory);
    let url = format!("sqlite:{}", path.display());
    let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await?;
    sqlx::raw_sql("UPDATE saved SET confirmed = confirmed - 7200")
        .execute(&mut connection)
        .await?;
    sqlx::Connection::close(connection).await?;
    let alone = start(nowhere()?, saved(&path, "k")?).await?;
    let age = alone.age().unwrap_or_default().as_secs();
    assert!((7200..7400).contains(&age), "{age}");
    Ok(())
}

/// What killed processes left does no harm, and neither does an upgrade of the program while no database answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_on_disk_outlives_kills_and_upgrades() -> Result {
    use std::os::unix::fs::MetadataExt;

    let database = Cluster::shared().database();
    Store::migrate(&database.url()).await?.0.close().await;
    database.as_owner(SET)?;
    // Several pages of rows.
    database.as_owner(
        "INSERT INTO mac_authentication_bypasses (site_id, address)
             SELECT 7, '02-00-00-01-' || lpad(to_hex(n / 256), 2, '0') || '-' || lpad(to_hex(n % 256), 2, '0')
             FROM generate_series(0, 4999) AS n",
    )?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("portreeve.snapshot");
    let directory = start(Settings::from(&database.url()), saved(&path, "k")?).await?;
    until_kept(&path, &directory).await?;
    drop(directory);

    // A process was killed after it wrote to the file, another while it wrote a new one.
    let url = format!("sqlite:{}", path.display());
    let log = folder.path().join("portreeve.snapshot-wal");
    let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await?;
    sqlx::raw_sql("UPDATE saved SET confirmed = 1; CREATE TABLE more AS SELECT * FROM mac_authentication_bypasses")
        .execute(&mut connection)
        .await?;
    let octets = std::fs::read(&log)?;
    assert!(!octets.is_empty());
    sqlx::Connection::close(connection).await?;
    std::fs::write(&log, octets)?;
    let abandoned = folder.path().join("portreeve.snapshot.4000000000.new");
    std::fs::write(&abandoned, "half")?;
    let other = folder.path().join("portreeve.snapshot.new");
    std::fs::write(&other, "whatever")?;

    let before = std::fs::metadata(&path)?.ino();
    database.as_owner("UPDATE clients SET shared_secret = 'another-secret'")?;
    let directory = start(Settings::from(&database.url()), saved(&path, "k")?).await?;
    until("the next set on disk", || {
        std::fs::metadata(&path).is_ok_and(|file| file.ino() != before)
    })
    .await;
    let revision = directory.snapshot().revision.clone();
    drop(directory);
    assert!(!abandoned.exists() && other.exists());
    let alone = start(nowhere()?, saved(&path, "k")?).await?;
    assert_eq!(alone.snapshot().revision, revision);
    assert!(alone.age().is_some_and(|age| age < Duration::from_secs(90)));
    for mac in ["02-00-00-00-00-01", "02-00-00-01-00-00", "02-00-00-01-13-87"] {
        assert!(is_listed(&alone, mac), "{mac}");
    }
    drop(alone);

    // The program before this one wrote the file: it has no last migration.
    let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await?;
    let last = include_str!("../migrations/sqlite/0003_revision_triggers.sql");
    let names = last.lines().filter_map(|line| line.strip_prefix("CREATE TRIGGER "));
    let drops = names.map(|rest| format!("DROP TRIGGER {};", rest.split(' ').next().unwrap_or_default()));
    let sql = drops.collect::<String>() + "DELETE FROM _sqlx_migrations WHERE version = 3";
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await?;
    sqlx::Connection::close(connection).await?;
    let alone = start(nowhere()?, saved(&path, "k")?).await?;
    assert_eq!(alone.snapshot().revision, revision);
    Ok(())
}

/// A restart does not forget what was in force: what is behind it is not taken, neither an older number nor an epoch that was
/// left, and the file on disk is served instead until the database has moved on.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_never_goes_back() -> Result {
    let database = Cluster::shared().database();
    Store::migrate(&database.url()).await?.0.close().await;
    database.as_owner(SET)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("portreeve.snapshot");
    let settings = || Settings::from(&database.url());
    let first = database.sql("SELECT epoch FROM revision");
    let directory = start(settings(), saved(&path, "k")?).await?;
    until_kept(&path, &directory).await?;
    database.sql("UPDATE revision SET epoch = 'the-second'");
    database.as_owner("UPDATE clients SET shared_secret = 'another-secret'")?;
    until("the second epoch", || {
        secret(&directory).as_deref() == Some(b"another-secret")
    })
    .await;
    until_kept(&path, &directory).await?;
    let kept = directory.snapshot().revision.clone();
    drop(directory);

    // As a replica shows it that was cut off before: the old secret, under the old epoch, or under an older number.
    database.as_owner("UPDATE clients SET shared_secret = 'a-secret-of-leeds'")?;
    for older in [
        format!("UPDATE revision SET epoch = '{first}', number = 1000"),
        format!(
            "UPDATE revision SET epoch = '{}', number = {}",
            kept.epoch,
            kept.number - 1
        ),
    ] {
        database.sql(&older);
        let again = start(settings(), saved(&path, "k")?).await?;
        assert_eq!(again.snapshot().revision, kept, "{older}");
        assert_eq!(secret(&again).as_deref(), Some(&b"another-secret"[..]), "{older}");
        let problem = again.health().problem.unwrap_or_default();
        assert!(problem.contains("the older is not applied"), "{older}: {problem}");
    }
    database.sql(&format!("UPDATE revision SET number = {}", kept.number + 1));
    let again = start(settings(), saved(&path, "k")?).await?;
    until("what came after", || {
        secret(&again).as_deref() == Some(b"a-secret-of-leeds")
    })
    .await;
    Ok(())
}

/// What an operator is told of the file: before it is there, when it is, and where another key is configured.
#[tokio::test(flavor = "multi_thread")]
async fn check_tells_of_the_set_on_disk() -> Result {
    let database = Cluster::shared().database();
    Store::migrate(&database.url()).await?.0.close().await;
    database.as_owner(SET)?;
    let folder = tempfile::tempdir()?;
    let check = |key: Option<&str>| -> Result<String> {
        let key = key.map_or(String::new(), |key| format!("snapshot_key = \"{}\"", key.repeat(32)));
        let configuration = format!("[database]\nurl = \"{}\"\n[cache]\n{key}\n", database.url());
        std::fs::write(folder.path().join("portreeve.toml"), configuration)?;
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_portreeve"));
        let output = command.arg("check").current_dir(folder.path()).output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    for (key, said) in [
        (None, "no policies are kept on disk"),
        (Some("k"), "portreeve.snapshot`: not written yet"),
    ] {
        let found = check(key)?;
        assert!(found.contains(said), "{found}");
    }
    let path = folder.path().join("portreeve.snapshot");
    let directory = start(Settings::from(&database.url()), saved(&path, "k")?).await?;
    until_kept(&path, &directory).await?;
    let kept = format!("portreeve.snapshot`: revision {}, ", directory.snapshot().revision);
    for (key, said) in [("k", &*kept), ("w", "snapshot_key")] {
        let found = check(Some(key))?;
        assert!(found.contains(said), "{found}");
    }
    Ok(())
}
