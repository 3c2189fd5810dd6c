//! What can happen to the servers of the database, and to the ways to them.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;

use crate::bench::{Bench, PACE};
use crate::editor::{Change, Controls};
use crate::faketime::Clocks;
use crate::judge::judge;
use crate::model::State;
use crate::node::Node;
use crate::postgres::{Cluster, PATIENCE, Server, wait_until};

/// Within this each request is answered.
pub const ANSWERED: Duration = Duration::from_secs(1);
/// Within this an edit is in force where all is well, and where only a replica is gone or late: the time to notice it, and
/// the time that it takes anyway.
pub const IN_FORCE: Duration = Duration::from_millis(1_500);
pub const IN_FORCE_AFTER_FAILOVER: Duration = Duration::from_millis(1_750);

pub fn seconds(count: u64) {
    sleep(Duration::from_secs(count));
}

#[test]
fn two_nodes_on_one_file() {
    let _turn = Bench::turn();
    let mut bench = Bench::sqlite();
    let report = bench.under_load("two nodes on one sqlite file", PACE, |edits| {
        seconds(5);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE);

    // whoever judges is not blind: as if no edit had changed anything
    let unchanged = bench.editor.history.iter().map(|change| Change {
        state: State::initial(),
        ..change.clone()
    });
    let report = judge(
        "as if nothing had changed",
        &bench.seen,
        &bench.nodes,
        &unchanged.collect::<Vec<_>>(),
        None,
    );
    assert!(report.wrong() > 50, "{report}");
}

/// 200 edits of each kind in each direction.
#[test]
fn edits_are_soon_in_force() {
    const EACH: usize = 400;
    let mut bench = Bench::shared();
    let report = bench.under_load("edits", Duration::ZERO, |edits| {
        wait_until("all edits", 2 * PATIENCE, || edits.made() > 6 * EACH);
        seconds(2);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.print_kinds();
    report.hold(ANSWERED);
    assert!(report.fewest_edits() >= EACH, "{}", report.fewest_edits());
    report.in_force_within(IN_FORCE);
}

fn kill_each_replica(cluster: &Cluster, edits: &Controls) {
    for replica in cluster.replicas() {
        replica.kill();
        seconds(2);
        replica.start();
        replica.caught_up(cluster.primary(), PATIENCE);
    }
    seconds(1);
    assert_eq!(edits.failures(), Vec::<String>::new());
}

#[test]
fn a_replica_is_killed() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    let report = bench.under_load("each replica killed in turn", PACE, |edits| {
        seconds(1);
        kill_each_replica(cluster, edits);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn both_replicas_are_killed() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    let report = bench.under_load("both replicas killed", PACE, |edits| {
        seconds(1);
        cluster.replicas().for_each(|replica| replica.kill());
        seconds(2);
        cluster.replicas().for_each(|replica| replica.start());
        seconds(2);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn the_primary_is_killed() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    let report = bench.under_load("the primary killed", PACE, |edits| {
        seconds(1);
        cluster.primary().kill();
        seconds(2);
        assert!(!edits.failures().is_empty());
        cluster.primary().start();
        cluster.settle();
        edits.healed();
        seconds(2);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn all_servers_are_killed() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    let report = bench.under_load("all servers killed", PACE, |edits| {
        seconds(1);
        cluster.servers().iter().for_each(|server| server.kill());
        seconds(2);
        cluster.servers().iter().for_each(|server| server.start());
        cluster.settle();
        edits.healed();
        seconds(2);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn a_server_accepts_and_stays_silent() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    let report = bench.under_load("each server silent in turn", PACE, |edits| {
        seconds(1);
        for server in cluster.servers() {
            server.pause();
            seconds(2);
            server.resume();
            cluster.settle();
        }
        seconds(1);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn a_replica_lags_by_ten_seconds() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    // at first they read the first replica
    let read = bench.nodes[0]
        .changed_over_to()
        .unwrap_or(cluster.replicas().next().unwrap().port());
    let report = bench.under_load("the replica that is read ten seconds late", PACE, |edits| {
        let replica = cluster.servers().iter().find(|server| server.port() == read).unwrap();
        seconds(1);
        replica.set_apply_delay(Duration::from_secs(10));
        seconds(12);
        replica.set_apply_delay(Duration::ZERO);
        replica.caught_up(cluster.primary(), PATIENCE);
        seconds(1);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn no_connection_is_free() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = bench.under_load("no connection free on any server", PACE, |edits| {
        let mut taken = Vec::new();
        seconds(1);
        for server in cluster.servers() {
            let url = server.url(database.name(), &database.password(), database.name());
            while let Ok(connection) = runtime.block_on(PgConnection::connect(&url)) {
                taken.push(connection);
                assert!(taken.len() < 1_000);
            }
        }
        // now those of the nodes, whose places are taken as soon as they are free
        for server in cluster.servers() {
            let url = server.url(database.name(), &database.password(), database.name());
            let of_nodes = format!(
                "FROM pg_stat_activity WHERE usename = '{}' AND application_name = 'portreeve'",
                database.name()
            );
            wait_until("a server without a connection of a node", PATIENCE, || {
                server.sql(&format!("SELECT pg_terminate_backend(pid, 1000) {of_nodes}"));
                while let Ok(connection) = runtime.block_on(PgConnection::connect(&url)) {
                    taken.push(connection);
                }
                server.sql(&format!("SELECT count(*) {of_nodes}")) == "0"
            });
        }
        seconds(3);
        runtime.block_on(async { drop(taken) });
        seconds(1);
        edits.healed();
        seconds(2);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn the_password_changes() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let file = bench.folder().join("password");
    let report = bench.under_load("the password rotated", PACE, |edits| {
        seconds(1);
        database.alter_password("another");
        cluster.settle();
        for server in cluster.servers() {
            server.sql(&format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'",
                database.name()
            ));
        }
        seconds(2);
        fs::write(&file, database.password()).unwrap();
        seconds(1);
        edits.healed();
        seconds(2);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

/// The servers are killed, the nodes too; the nodes start from what they kept on disk.
#[test]
fn nodes_start_without_a_database() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    bench.nodes.iter().for_each(Node::keeps);
    cluster.servers().iter().for_each(|server| server.kill());
    bench.nodes.iter_mut().for_each(Node::restart);
    let report = bench.under_load("nodes that start without a database", PACE, |edits| {
        seconds(3);
        assert!(edits.made() == 0);
        cluster.servers().iter().for_each(|server| server.start());
        cluster.settle();
        seconds(1);
        edits.healed();
        seconds(2);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

/// Through PgBouncer in transaction mode; a server behind it is killed too.
#[test]
fn poolers_stand_between() {
    let _turn = Bench::turn();
    let mut bench = Bench::pooled();
    let cluster = bench.cluster();
    let report = bench.under_load("poolers between", PACE, |edits| {
        seconds(3);
        kill_each_replica(cluster, edits);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

/// Replicas that cancel whatever reads what they replay, and tables that get another shape.
#[test]
fn readings_are_cancelled_and_tables_altered() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let report = bench.under_load("readings cancelled, tables altered", PACE, |edits| {
        for replica in cluster.replicas() {
            replica.set("max_standby_streaming_delay", "0");
        }
        for turn in 0..12 {
            let tables = ["clients", "responses", "policies", "mac_authentication_bypasses"];
            let table = tables[turn % tables.len()];
            database.sql(&format!("VACUUM FULL {table}"));
            database.sql(&format!("ALTER TABLE {table} ADD COLUMN later TEXT"));
            sleep(Duration::from_millis(300));
            database.sql(&format!("ALTER TABLE {table} DROP COLUMN later"));
        }
        for replica in cluster.replicas() {
            replica.set("max_standby_streaming_delay", "30s");
        }
        seconds(1);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

/// The clocks of the nodes and of the servers, each by itself, forward and back.
#[test]
fn the_clock_moves_by_a_day() {
    let _turn = Bench::turn();
    let clocks = Clocks::new();
    let mut bench = Bench::postgres_with(&clocks.variables("servers"), &clocks.variables("nodes"));
    let cluster = bench.cluster();
    let day = |server: &Server| server.sql("SELECT now() AT TIME ZONE 'UTC'")[..10].to_owned();
    let today = day(cluster.primary());
    let report = bench.under_load("the clock a day forward and back", PACE, |edits| {
        seconds(1);
        for (nodes, servers) in [
            ("+1d", "+0"),
            ("+1d", "+1d"),
            ("+0", "+1d"),
            ("-23h", "+0"),
            ("+0", "+0"),
        ] {
            clocks.set("nodes", nodes);
            clocks.set("servers", servers);
            seconds(1);
            assert_eq!(day(cluster.primary()) != today, servers == "+1d");
        }
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    assert!(bench.nodes.iter().all(|node| node.days().len() > 1), "the clocks moved");
    for node in &bench.nodes {
        assert!(
            node.says("the clock looks wrong: it jumped by") >= 3,
            "{:?}",
            node.said()
        );
    }
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE);
}

/// Somebody who ends sessions again and again: a passing thing, and no complaint.
#[test]
fn sessions_are_ended() {
    let mut bench = Bench::shared();
    let (cluster, name) = (bench.cluster(), bench.database().name());
    let complaints = |bench: &Bench| -> usize { bench.nodes.iter().map(|node| node.says("cannot be read, and")).sum() };
    let before = complaints(&bench);
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'");
    let report = bench.under_load("sessions ended", PACE, |edits| {
        for _ in 0..20 {
            cluster.servers().iter().for_each(|server| _ = server.sql(&end));
            sleep(Duration::from_millis(100));
        }
        seconds(2);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE);
    // A second try may meet the end of another session.
    let complaints = complaints(&bench) - before;
    assert!(complaints < 5, "{complaints}");
}
