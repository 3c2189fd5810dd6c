//! One test's database.

use std::sync::Mutex;

use super::{Cluster, Server, Which, random_word};

/// A database with a role of its own that owns it; both are dropped with it.
pub struct Database<'c> {
    cluster: &'c Cluster,
    name: String,
    password: Mutex<String>,
}

impl<'c> Database<'c> {
    pub(super) fn create(cluster: &'c Cluster, name: String) -> Database<'c> {
        let password = random_word();
        let primary = cluster.primary();
        let role = format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'");
        let database = format!("CREATE DATABASE {name} OWNER {name}");
        let made = primary.psql_each(&primary.admin_url("postgres"), &[&role, &database]);
        made.unwrap_or_else(|error| panic!("{database}: {error}"));
        Database {
            cluster,
            name,
            password: Mutex::new(password),
        }
    }

    /// The database and its role have one name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn password(&self) -> String {
        self.password.lock().unwrap().clone()
    }

    /// On the server that takes writes now.
    pub fn url(&self) -> String {
        self.url_at(self.cluster.primary())
    }

    pub fn replica_urls(&self) -> Vec<String> {
        self.cluster.replicas().map(|replica| self.url_at(replica)).collect()
    }

    /// On the server that was this at the start.
    pub fn url_of(&self, which: Which) -> String {
        self.url_at(self.cluster.server(which))
    }

    fn url_at(&self, server: &Server) -> String {
        server.url(&self.name, &self.password(), &self.name)
    }

    /// Runs statements on the primary as the superuser; rows come back one a line, columns apart by `|`.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> String {
        self.sql_at(self.cluster.primary(), statements)
    }

    #[track_caller]
    pub fn sql_at(&self, server: &Server, statements: &str) -> String {
        server
            .sql_in(&self.name, statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements with what [`Database::url`] says: as the role that a node has.
    pub fn as_owner(&self, statements: &str) -> Result<String, String> {
        self.cluster.primary().psql(&self.url(), statements)
    }

    /// What `pg_dump` makes of it, as its owner.
    #[track_caller]
    pub fn dump(&self, options: &[&str]) -> String {
        let url = self.url();
        let output = self.cluster.keeper.run("pg_dump", &[options, &[&url]].concat());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Loads a dump as its owner does; the first refusal ends it.
    pub fn load(&self, dump: &str) -> Result<(), String> {
        let keeper = &self.cluster.keeper;
        let file = keeper.folder().join(format!("{}.sql", self.name));
        keeper.write(&file, dump);
        let mut psql = keeper.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]);
        let output = psql.arg(file).arg(self.url()).output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Gives the role another password, which URLs have from now on. Connections that exist stay.
    pub fn alter_password(&self, password: &str) {
        let role = &self.name;
        self.cluster
            .primary()
            .sql(&format!("ALTER ROLE {role} PASSWORD '{password}'"));
        password.clone_into(&mut self.password.lock().unwrap());
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let (name, primary) = (&self.name, self.cluster.primary());
        // a test that broke its servers, or is failing already, ends its whole cluster soon
        if primary.is_running() {
            let drops = [
                format!("DROP DATABASE {name} WITH (FORCE)"),
                format!("DROP ROLE {name}"),
            ];
            let _ = primary.psql_each(&primary.admin_url("postgres"), &[&drops[0], &drops[1]]);
        }
    }
}
