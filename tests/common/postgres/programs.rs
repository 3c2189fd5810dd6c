//! Where PostgreSQL's programs are, and who may run them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, geteuid};

#[derive(Clone)]
pub struct Programs {
    folder: PathBuf,
    /// The account that servers run under, where it is not this process's: PostgreSQL refuses root.
    pub account: Option<Account>,
}

#[derive(Clone, Copy)]
pub struct Account {
    pub user: Uid,
    pub group: Gid,
}

impl Programs {
    pub fn find() -> Programs {
        let folder = debian().or_else(on_path).expect(
            "these tests need PostgreSQL's server programs, and find none in /usr/lib/postgresql/*/bin or PATH\n\
             hint: on Debian: apt-get install postgresql",
        );
        let account = geteuid().is_root().then(|| {
            let named = ["postgres", "nobody"]
                .iter()
                .find_map(|name| User::from_name(name).ok().flatten());
            let user = named.expect("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`");
            Account {
                user: user.uid,
                group: user.gid,
            }
        });
        Programs { folder, account }
    }

    /// One of PostgreSQL's, or one for administrators only, else whatever `PATH` finds.
    pub fn path(&self, program: &str) -> PathBuf {
        let folders = [self.folder.as_path(), Path::new("/usr/sbin")];
        let found = folders
            .iter()
            .map(|folder| folder.join(program))
            .find(|path| path.exists());
        found.unwrap_or_else(|| PathBuf::from(program))
    }

    /// Whether a library can be preloaded; Debian has them all in one package.
    pub fn has_library(&self, name: &str) -> bool {
        let library = format!("{name}.so");
        ["../lib", "../lib/postgresql"]
            .iter()
            .any(|folder| self.folder.join(folder).join(&library).exists())
    }
}

/// The newest.
fn debian() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path().join("bin");
        is_server(&folder).then_some((version, folder))
    });
    Some(versions.max()?.1)
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let programs = env::split_paths(&path).filter_map(|folder| folder.join("initdb").canonicalize().ok());
    programs
        .filter_map(|initdb| initdb.parent().map(Path::to_owned))
        .find(|folder| is_server(folder))
}

fn is_server(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_basebackup", "psql"]
        .iter()
        .all(|program| folder.join(program).exists())
}
