//! What can happen to the order of edits: transactions that cross or hold, replicas that become the primary, older copies.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::bench::{Bench, PACE};
use crate::postgres::{Cluster, Server, Which};
use crate::scenarios::{ANSWERED, IN_FORCE, IN_FORCE_AFTER_FAILOVER, seconds};

/// Kills the primary, and makes a replica the primary that the other one follows. The old one.
pub fn fail_over(cluster: &Cluster) -> &Server {
    let old = cluster.primary();
    old.kill();
    let is_next = |which: &Which| cluster.server(*which).port() != old.port();
    cluster.promote([Which::FirstReplica, Which::Primary].into_iter().find(is_next).unwrap());
    let new = cluster.primary();
    cluster
        .replicas()
        .filter(|replica| replica.is_running())
        .for_each(|replica| replica.follow(new));
    old
}

#[test]
fn a_replica_is_promoted() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let report = bench.under_load("a replica promoted", PACE, |edits| {
        seconds(1);
        edits.pause();
        cluster.settle();
        let old = fail_over(cluster);
        edits.resume(&cluster.primary().admin_url(database.name()));
        edits.healed();
        seconds(2);
        // the old one comes back as a replica
        old.rebuild(cluster.primary());
        seconds(2);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn a_transaction_holds_the_revision() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = bench.under_load("a transaction that holds the revision", PACE, |edits| {
        seconds(1);
        let made = runtime.block_on(async {
            let mut session = PgConnection::connect(&cluster.primary().admin_url(database.name()))
                .await
                .unwrap();
            session
                .execute("BEGIN; UPDATE policies SET description = 'held'")
                .await
                .unwrap();
            let made = edits.made();
            tokio::time::sleep(Duration::from_secs(4)).await;
            session.execute("ROLLBACK").await.unwrap();
            made
        });
        assert!(edits.made() <= made + 2, "nobody else edits meanwhile");
        edits.healed();
        seconds(2);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE);
}

/// By recovery, which begins a new timeline: the next edit begins a new epoch.
#[test]
fn an_older_backup_is_recovered() {
    older_files("an older backup recovered", true);
}

/// As a copy that is just started: the timeline stays the same, and numbers are used a second time.
#[test]
fn an_older_copy_is_started() {
    older_files("an older copy started", false);
}

fn older_files(scenario: &str, recover: bool) {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let (backup, then) = (cluster.primary().backup(), bench.editor.state().clone());
    let report = bench.under_load(scenario, PACE, |edits| {
        seconds(2);
        edits.pause();
        cluster.restore(&backup, recover);
        edits.resume_from(&cluster.primary().admin_url(database.name()), then);
        edits.healed();
        seconds(2);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

/// A replica is promoted that never had what the nodes have seen already.
#[test]
fn a_replica_is_promoted_that_misses_edits() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let report = bench.under_load("a replica promoted that misses edits", PACE, |edits| {
        seconds(1);
        edits.pause();
        cluster.settle();
        let then = edits.state();
        cluster.replicas().for_each(|replica| replica.isolate());
        let made = edits.made();
        edits.resume(&cluster.primary().admin_url(database.name()));
        seconds(7);
        edits.pause();
        assert!(edits.made() > made + 20);
        let old = fail_over(cluster);
        edits.resume_from(&cluster.primary().admin_url(database.name()), then);
        edits.healed();
        seconds(2);
        old.rebuild(cluster.primary());
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

#[test]
fn transactions_commit_in_another_order_than_they_began() {
    let mut bench = Bench::shared();
    bench.editor.is_crossing = true;
    let report = bench.under_load("transactions of which the earlier commit last", PACE, |edits| {
        seconds(5);
        assert_eq!(edits.failures(), Vec::<String>::new());
    });
    bench.editor.is_crossing = false;
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE);
}

/// The only server that is left is a replica that missed when the primary was started again, and all since.
#[test]
fn a_replica_of_an_older_epoch_is_left_alone() {
    let mut bench = Bench::shared();
    let cluster = bench.cluster();
    let report = bench.under_load("only a replica of an older epoch left", PACE, |edits| {
        seconds(1);
        let (old, other) = (cluster.replicas().next().unwrap(), cluster.replicas().nth(1).unwrap());
        old.isolate();
        cluster.primary().kill();
        cluster.primary().start();
        seconds(2);
        other.kill();
        cluster.primary().kill();
        seconds(2);
        cluster.primary().start();
        other.start();
        old.follow(cluster.primary());
        cluster.settle();
        edits.healed();
        seconds(2);
    });
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}
