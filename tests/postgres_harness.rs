//! The private PostgreSQL of the tests keeps its own promises: replication, everything that may happen to a server, and that
//! nothing of it outlives the test process.
#![cfg(feature = "server")]

#[cfg(test)]
#[path = "common/postgres.rs"]
mod postgres;

#[cfg(test)]
mod harness {
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use nix::unistd::Pid;

    use crate::postgres::{Cluster, PATIENCE, Server, Which, is_alive, wait_until};

    /// Set for a test process that another starts, with how it is to end.
    const VICTIM: &str = "PORTREEVE_TEST_VICTIM";

    #[test]
    fn a_database_is_the_tests_own_and_on_both_replicas() {
        let cluster = Cluster::shared();
        let (mine, other) = (cluster.database(), cluster.database());
        assert_ne!(mine.name(), other.name());
        assert_eq!(
            mine.as_owner("CREATE TABLE t (x TEXT); INSERT INTO t VALUES ('one')")
                .unwrap(),
            ""
        );
        assert!(
            other
                .as_owner("SELECT * FROM t")
                .unwrap_err()
                .contains("does not exist")
        );
        assert_eq!(mine.replica_urls().len(), 2);
        cluster.settle();
        for replica in cluster.replicas() {
            assert_eq!(mine.sql_at(replica, "SELECT x FROM t"), "one");
            let refused = replica.sql_in(mine.name(), "INSERT INTO t VALUES ('two')").unwrap_err();
            assert!(refused.contains("read-only"), "{refused}");
        }

        let name = mine.name().to_owned();
        drop(mine);
        let left = format!(
            "SELECT datname FROM pg_database WHERE datname = '{name}' UNION SELECT rolname FROM pg_roles WHERE rolname = '{name}'"
        );
        assert_eq!(other.sql(&left), "");
    }

    #[test]
    fn a_password_is_needed_and_changes() {
        let database = Cluster::shared().database();
        let before = database.url();
        database.alter_password("rotated");
        assert_eq!(database.password(), "rotated");
        assert!(database.url().contains("rotated"));
        assert_eq!(database.as_owner("SELECT 1").unwrap(), "1");
        let psql = Command::new("psql").args([&before, "-c", "SELECT 1"]).output().unwrap();
        let said = String::from_utf8_lossy(&psql.stderr);
        assert!(said.contains("password authentication failed"), "{said}");
    }

    #[test]
    fn a_server_is_killed_stopped_paused_delayed_and_comes_back() {
        let started = Instant::now();
        let cluster = Cluster::start();
        println!("a primary and two replicas started in {:?}", started.elapsed());
        let (primary, one, two) = (
            cluster.server(Which::Primary),
            cluster.server(Which::FirstReplica),
            cluster.server(Which::SecondReplica),
        );
        primary.sql("CREATE TABLE t (x INT)");
        let count = |server: &Server| server.sql("SELECT count(*) FROM t");
        let mut rows = 0;
        let mut insert = || {
            primary.sql("INSERT INTO t VALUES (1)");
            rows += 1;
            rows.to_string()
        };

        one.kill();
        two.stop();
        assert!(!one.is_running() && !two.is_running());
        assert!(one.sql_in("postgres", "SELECT 1").unwrap_err().contains("refused"));
        let all = insert();
        for replica in [one, two] {
            replica.start();
            replica.caught_up(primary, PATIENCE);
            assert_eq!(count(replica), all);
        }

        one.pause();
        let mut silent = std::net::TcpStream::connect(("127.0.0.1", one.port())).expect("the kernel takes it");
        silent.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        std::io::Write::write_all(&mut silent, &[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
        assert!(
            std::io::Read::read(&mut silent, &mut [0]).is_err(),
            "and nobody answers"
        );
        let all = insert();
        one.resume();
        one.caught_up(primary, PATIENCE);
        assert_eq!(count(one), all);

        one.set_apply_delay(Duration::from_secs(3_600));
        two.pause_replay();
        let behind = all;
        let all = insert();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!([count(one), count(two)], [behind.clone(), behind]);
        one.set_apply_delay(Duration::ZERO);
        two.resume_replay();
        cluster.settle();
        assert_eq!([count(one), count(two)], [all.clone(), all]);
    }

    #[test]
    fn a_replica_is_promoted_and_an_older_backup_restored() {
        let cluster = Cluster::start();
        let (first, one, two) = (
            cluster.server(Which::Primary),
            cluster.server(Which::FirstReplica),
            cluster.server(Which::SecondReplica),
        );
        first.sql("CREATE TABLE t (x INT); INSERT INTO t VALUES (1)");
        let backup = first.backup();
        let count = |server: &Server| server.sql("SELECT count(*) FROM t");
        first.sql("INSERT INTO t VALUES (2)");
        cluster.settle();

        first.kill();
        cluster.promote(Which::FirstReplica);
        assert!(!one.is_replica() && two.is_replica());
        assert_eq!(cluster.primary().port(), one.port());
        one.sql("INSERT INTO t VALUES (3)");
        two.follow(one);
        first.rebuild(one);
        assert!(first.is_replica());
        cluster.settle();
        assert_eq!([count(first), count(two)], ["3", "3"]);

        cluster.restore(&backup, true);
        assert!(!first.is_replica() && one.is_replica() && two.is_replica());
        first.sql("INSERT INTO t VALUES (4)");
        cluster.settle();
        assert_eq!([first, one, two].map(count), ["2", "2", "2"]);
        // the database that was made before the servers changed is gone with the cluster
        let folder = cluster.folder().to_owned();
        drop(cluster);
        assert!(!folder.exists());
    }

    #[test]
    fn nothing_outlives_a_test_process_that_is_killed_or_panics() {
        let mut killed = Victim::start("sleep");
        killed.child.kill().unwrap();
        killed.leaves_nothing();
        Victim::start("panic").leaves_nothing();
    }

    /// Another process of this test binary, with a cluster one of whose servers does not react.
    struct Victim {
        child: Child,
        folder: PathBuf,
        processes: Vec<Pid>,
    }

    impl Victim {
        fn start(end: &str) -> Victim {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "harness::a_test_process_that_ends_as_it_is_told",
                    "--nocapture",
                ])
                .env(VICTIM, end)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let line = lines.find(|line| line.contains("victim ")).unwrap();
            let mut words = line.split_once("victim ").unwrap().1.split(' ');
            let folder = PathBuf::from(words.next().unwrap());
            let processes: Vec<Pid> = words.map(|word| Pid::from_raw(word.parse().unwrap())).collect();
            // a postmaster and at least three more in each
            assert!(processes.len() >= 12, "{line}");
            Victim {
                child,
                folder,
                processes,
            }
        }

        fn leaves_nothing(mut self) {
            assert!(!self.child.wait().unwrap().success());
            let folder: &Path = &self.folder;
            wait_until("gone without a trace", PATIENCE, || {
                !folder.exists() && !self.processes.iter().any(|process| is_alive(*process))
            });
        }
    }

    #[test]
    fn a_test_process_that_ends_as_it_is_told() {
        // only for the test above
        let Ok(end) = std::env::var(VICTIM) else { return };
        let cluster = Cluster::shared();
        cluster.server(Which::FirstReplica).pause();
        let processes = cluster.servers().iter().flat_map(Server::processes);
        let processes: Vec<String> = processes.map(|process| process.to_string()).collect();
        println!("victim {} {}", cluster.folder().display(), processes.join(" "));
        assert_eq!(end, "sleep", "this panic is meant");
        std::thread::sleep(PATIENCE);
    }
}
