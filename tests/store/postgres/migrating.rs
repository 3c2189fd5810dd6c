//! `portreeve migrate`: from many processes at once, into a schema of one's own, and by a role that may not.

use std::process::{Command, Stdio};

use portreeve::radius::dictionary::Dictionary;
use portreeve::store::Store;
use portreeve::store::directory::{Directory, Options};

use crate::postgres::Cluster;
use crate::support::{Place, Plain, Result, SMALL};

#[tokio::test]
async fn ten_processes_at_once() -> Result {
    let place = Place::new()?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("portreeve.toml"), "")?;
    let start = |_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
        command.arg("migrate").current_dir(folder.path()).env_clear();
        command.env("PORTREEVE__DATABASE__URL", place.url());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let processes: Vec<_> = (0..10).map(start).collect::<std::io::Result<_>>()?;
    let mut made = 0;
    for process in processes {
        let output = process.wait_with_output()?;
        let said = String::from_utf8(output.stdout)?;
        assert!(
            output.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        made += usize::from(said.contains(" made: "));
        assert!(said.contains(" made: ") || said.contains(" is up to date"), "{said}");
        let password = place.server()?.password();
        assert!(!said.contains(&password), "{said}");
    }
    assert_eq!(made, 1);
    Store::open(&place.url()).await?;
    Ok(())
}

/// A role that has a schema of its name finds and makes its tables there.
#[tokio::test]
async fn tables_in_a_schema_of_their_own() -> Result {
    let place = Place::new()?;
    let name = place.server()?.name();
    place.server()?.sql(&format!("CREATE SCHEMA AUTHORIZATION {name}"));
    let (store, _) = Store::migrate(&place.url()).await?;
    let mut plain = Plain::postgres(&place.url()).await?;
    plain.run(SMALL).await?;
    let schemas =
        "SELECT DISTINCT schemaname::text FROM pg_tables WHERE tablename IN ('sites', 'revision', '_sqlx_migrations')";
    assert_eq!(plain.texts(schemas).await?, [name]);
    let directory = Directory::start(store, Dictionary::builtin(), Options::default()).await;
    assert_eq!(directory.snapshot().clients.len(), 2);
    plain
        .run(&format!(
            "BEGIN; SET LOCAL search_path = ''; DELETE FROM {name}.clients WHERE id = 1; COMMIT"
        ))
        .await?;
    directory.refresh().await?;
    assert_eq!(directory.snapshot().clients.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_not_make_tables_is_told() -> Result {
    let place = Place::new()?;
    let server = place.server()?;
    let guest = format!("{}_guest", server.name());
    server.sql(&format!("CREATE ROLE {guest} LOGIN PASSWORD 'guest'"));
    let url = Cluster::shared().primary().url(&guest, "guest", server.name());
    let error = Store::migrate(&url).await.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("permission denied for schema public")
            && error.contains("hint: the user of `[database] url` must own"),
        "{error}"
    );
    server.sql(&format!("DROP ROLE {guest}"));
    Ok(())
}
