//! What a scenario works on: two nodes, their database, the certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::editor::{Controls, Editor};
use crate::judge::{Report, judge};
use crate::load::{Load, Seen};
use crate::model::document;
use crate::node::{Node, done};
use crate::postgres::{Cluster, Database};

/// Between two edits, as a rule.
pub const PACE: Duration = Duration::from_millis(60);

static SHARED: Mutex<Option<Bench>> = Mutex::new(None);

/// Two nodes on one database.
pub struct Bench {
    pub nodes: Vec<Node>,
    pub editor: Editor,
    pub data: Data,
    /// What the last load saw.
    pub seen: Vec<Seen>,
    folder: TempDir,
}

/// Where the policies are.
pub enum Data {
    Sqlite,
    Postgres(&'static Cluster, &'static Database<'static>),
}

impl Bench {
    /// On one SQLite file.
    pub fn sqlite() -> Bench {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite:{}/portreeve.db", folder.path().display());
        Bench::new(folder, Data::Sqlite, &url, &format!("[database]\nurl = \"{url}\""), &[])
    }

    /// On a primary with two replicas, all three known to both nodes.
    pub fn postgres() -> Bench {
        Bench::postgres_with(&[], &[])
    }

    /// The same, with these variables in the environment of the servers and of the nodes.
    pub fn postgres_with(servers: &[(&str, String)], nodes: &[(&str, String)]) -> Bench {
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start_with(servers)));
        let database: &'static Database<'static> = Box::leak(Box::new(cluster.database()));
        Bench::on(cluster, database, &database.url(), &database.replica_urls(), nodes)
    }

    /// On the same, with a pooler before each server.
    pub fn pooled() -> Bench {
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start()));
        let database: &'static Database<'static> = Box::leak(Box::new(cluster.database()));
        let [primary, replicas @ ..] = cluster.poolers(database);
        Bench::on(cluster, database, &primary, &replicas, &[])
    }

    fn on(
        cluster: &'static Cluster,
        database: &'static Database<'static>,
        primary: &str,
        replicas: &[String],
        nodes: &[(&str, String)],
    ) -> Bench {
        let folder = TempDir::new().unwrap();
        // one password for all servers, and it will change
        let password = folder.path().join("password");
        fs::write(&password, database.password()).unwrap();
        let section = format!(
            "[database]\nurl = \"{primary}\"\nreplicas = {replicas:?}\npassword_file = {password:?}\n\
             [cache]\nsnapshot_key = \"{}\"",
            "key of a test ".repeat(4)
        );
        // the editor is the superuser, who comes in also when nobody else does
        let url = cluster.primary().admin_url(database.name());
        Bench::new(folder, Data::Postgres(cluster, database), &url, &section, nodes)
    }

    fn new(folder: TempDir, data: Data, url: &str, section: &str, variables: &[(&str, String)]) -> Bench {
        let path = folder.path();
        done(path, &["cert", "init", "certs"], &[]);
        let certificates = path.join("certs");
        let configuration = format!(
            "[eap.tls]\ncertificate = \"certs/server.pem\"\nprivate_key = \"certs/server.key\"\nclient_ca = \"certs/ca.pem\"\n{section}\n"
        );
        fs::write(path.join("portreeve.toml"), configuration).unwrap();
        fs::write(path.join("set.toml"), document()).unwrap();
        done(path, &["migrate"], &[]);
        done(path, &["import", "set.toml"], &[]);
        if let Data::Postgres(cluster, _) = &data {
            cluster.settle();
        }
        let nodes = ["node-a", "node-b"].map(|name| Node::start(name, &certificates, section, variables));
        Bench {
            nodes: nodes.into(),
            editor: Editor::new(url),
            data,
            seen: Vec::new(),
            folder,
        }
    }

    /// For a scenario with a bench of its own: no other runs meanwhile.
    pub fn turn() -> MutexGuard<'static, Option<Bench>> {
        SHARED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bench that most scenarios with PostgreSQL use, one after another. One that failed leaves no trace.
    pub fn shared() -> Shared {
        let mut bench = Bench::turn();
        if bench.is_none() {
            *bench = Some(Bench::postgres());
        }
        Shared(bench)
    }

    pub fn certificates(&self) -> PathBuf {
        self.folder.path().join("certs")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn cluster(&self) -> &'static Cluster {
        match &self.data {
            Data::Postgres(cluster, _) => cluster,
            Data::Sqlite => panic!("no servers"),
        }
    }

    pub fn database(&self) -> &'static Database<'static> {
        match &self.data {
            Data::Postgres(_, database) => database,
            Data::Sqlite => panic!("no servers"),
        }
    }

    /// Load and edits while `meanwhile` runs; what came of it.
    pub fn under_load(&mut self, scenario: &str, pace: Duration, meanwhile: impl FnOnce(&Controls)) -> Report {
        let addresses: Vec<_> = self.nodes.iter().map(|node| node.radius).collect();
        let load = Load::start(&addresses, &self.certificates());
        let healed = self.editor.during(pace, meanwhile);
        let (seen, stalled) = load.stop();
        let mut report = judge(scenario, &seen, &self.nodes, &self.editor.history, healed);
        report.stalled = stalled;
        self.seen = seen;
        report
    }
}

/// The shared bench, locked.
pub struct Shared(MutexGuard<'static, Option<Bench>>);

impl std::ops::Deref for Shared {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        self.0.as_ref().unwrap()
    }
}

impl std::ops::DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Bench {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0 = None;
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Data::Postgres(cluster, _) = &self.data {
            cluster.servers().iter().for_each(|server| server.kill());
        }
    }
}
