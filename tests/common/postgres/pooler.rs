//! PgBouncer in transaction mode before each server.

use std::net::TcpStream;
use std::path::Path;

use super::{Cluster, Database, PATIENCE, SERVERS, free_ports, text, wait_until};

impl Cluster {
    /// Starts a pooler before each server, in the order of [`Cluster::servers`], for the role of one database. URLs of that
    /// database through them. They end with the cluster; it has them once.
    pub fn poolers(&self, database: &Database<'_>) -> [String; SERVERS] {
        let (keeper, ports) = (&self.keeper, free_ports());
        let (name, password) = (database.name(), database.password());
        let users = keeper.folder().join("poolers");
        keeper.write(&users, &format!("\"{name}\" \"{password}\"\n"));
        for (server, port) in self.servers.iter().zip(ports) {
            let slot = SERVERS + server.slot();
            let settings = keeper.folder().join(format!("{slot}.ini"));
            let content = format!(
                "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\nserver_round_robin = 1\nmin_pool_size = 3\n",
                server.port(),
                text(&users)
            );
            keeper.write(&settings, &content);
            keeper.launch(slot, "pgbouncer", &[Path::new(&settings)]);
            // it is not there on every machine
            wait_until(
                "a pooler that listens (Debian: apt-get install pgbouncer)",
                PATIENCE,
                || TcpStream::connect(("127.0.0.1", port)).is_ok(),
            );
        }
        ports.map(|port| format!("postgres://{name}:{password}@127.0.0.1:{port}/{name}"))
    }
}
