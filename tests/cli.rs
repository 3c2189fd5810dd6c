//! The binary from outside: exit codes, and what is said on which stream.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn portreeve(folder: &Path, args: &[&str]) -> Output {
    portreeve_with(folder, args, &[])
}

fn portreeve_with(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
    command
        .current_dir(folder)
        .args(args)
        .env_clear()
        .envs(environment.iter().copied());
    match command.output() {
        Ok(output) => output,
        Err(error) => std::panic::panic_any(error.to_string()),
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn folder(config: &str) -> TempDir {
    match TempDir::new()
        .and_then(|folder| std::fs::write(folder.path().join("portreeve.toml"), config).map(|()| folder))
    {
        Ok(folder) => folder,
        Err(error) => std::panic::panic_any(error.to_string()),
    }
}

#[test]
fn help_and_version_are_results() {
    let here = folder("");
    for args in [&["--help"][..], &["--version"], &["why", "--help"]] {
        let output = portreeve(here.path(), args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(text(&output.stdout).contains("portreeve"), "{args:?}");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn wrong_usage_is_2() {
    let here = folder("");
    for args in [
        &[][..],
        &["frobnicate"],
        &["check", "--frobnicate"],
        &["why", "--node", "nowhere"],
    ] {
        let output = portreeve(here.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        assert!(text(&output.stderr).contains("--help"), "{args:?}");
    }
}

#[test]
fn a_broken_configuration_is_one_clear_line_a_hint_and_1() {
    let here = folder("[radius]\nlisen = \"0.0.0.0:1812\"\n");
    let output = portreeve(here.path(), &["why"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "error: portreeve.toml:2: unknown key `lisen` in [radius]\nhint: did you mean `listen`?\n"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn check_says_everything_that_is_wrong_and_1() {
    let here = folder(
        "[radius]\nlisen = \"0.0.0.0:1812\"\nworkers = 0\n[eap.tls]\ncertificate = \"a.pem\"\nprivate_key = \"a.key\"\nclient_ca = \"ca.pem\"\n",
    );
    let output = portreeve(here.path(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(
        said.contains("error: portreeve.toml:2: unknown key `lisen` in [radius]\n  hint: did you mean"),
        "{said}"
    );
    assert!(
        said.contains("error: portreeve.toml:3: `workers` is 0, and may be 1 to 256\n"),
        "{said}"
    );
    assert!(said.ends_with("2 errors, 0 warnings\n"), "{said}");
    // the configuration is right now, and names files that are not there
    let config = text(&std::fs::read(here.path().join("portreeve.toml")).unwrap_or_default());
    let config = config
        .replace("lisen =", "listen =")
        .replace("workers = 0", "workers = 1");
    let here = folder(&config);
    let output = portreeve(here.path(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("ok: configuration `portreeve.toml`\n"), "{said}");
    assert!(said.contains("error: cannot read `a.pem`: "), "{said}");
}

#[test]
fn a_variable_overrides_the_file_and_is_named_when_it_is_wrong() {
    let here = folder("");
    let output = portreeve_with(here.path(), &["why"], &[("PORTREEVE__RADIUS__WORKERS", "none")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: environment variable PORTREEVE__RADIUS__WORKERS: `workers`"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_missing_configuration_says_what_to_do() {
    let here = folder("");
    let output = portreeve(here.path(), &["--config", "elsewhere.toml", "why"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("error: elsewhere.toml: ") && said.contains("\nhint: `--config FILE`"),
        "{said}"
    );
}

#[test]
fn why_without_a_running_node_says_so() {
    let here = folder("[ops]\nlisten = \"127.0.0.1:1\"\n");
    let output = portreeve(here.path(), &["why", "00:1b:78:00:00:01"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("error: cannot reach the node at `127.0.0.1:1`: "),
        "{said}"
    );
    assert!(said.contains("\nhint: is `portreeve serve` running"), "{said}");
}
