//! `portreeve migrate` from many processes at once.

use std::process::{Command, Stdio};

use portreeve::store::Store;

use crate::support::{Place, Result};

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
