//! Faults that overlap, in an order that nobody thought of. The seed is printed; `PORTREEVE_CHAOS=SEED,SECONDS` runs one again,
//! or for longer.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::bench::{Bench, PACE};
use crate::histories::fail_over;
use crate::postgres::{Cluster, Server};
use crate::scenarios::{ANSWERED, IN_FORCE_AFTER_FAILOVER, seconds};

/// As long as the tests have time for.
const USUAL: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Killed,
    Silent,
    Late,
    NotReplaying,
    CutOff,
}

#[test]
fn whatever_happens_in_any_order() {
    let mut bench = Bench::shared();
    let (cluster, database) = (bench.cluster(), bench.database());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let wanted = std::env::var("PORTREEVE_CHAOS").unwrap_or_default();
    let mut wanted = wanted.split(',').map(|word| word.parse::<u64>().ok());
    let seed = wanted.next().flatten().unwrap_or(now.as_micros() as u64);
    let length = wanted.next().flatten().unwrap_or(USUAL);
    println!("    PORTREEVE_CHAOS={seed},{length}");
    let mut dice = Dice(seed);
    let mut faults: [Option<Fault>; 3] = [None; 3];
    let began = Instant::now();
    let say = |what: &str, server: &Server| {
        if length > USUAL {
            println!(
                "    {:.1?} {} {what} {}",
                began.elapsed(),
                jiff::Timestamp::now(),
                server.port()
            );
        }
    };
    let report = bench.under_load("whatever happens, in any order", PACE, |edits| {
        let end = Instant::now() + Duration::from_secs(length);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(dice.below(1_200)));
            let place = dice.below(3) as usize;
            let server = &cluster.servers()[place];
            let is_primary = server.port() == cluster.primary().port();
            let is_alone = faults.iter().all(Option::is_none);
            match faults[place] {
                Some(fault) => {
                    say(&format!("healed of {fault:?}:"), server);
                    heal(cluster, server, fault);
                    faults[place] = None;
                }
                // a new primary, where the replicas miss nothing
                None if is_primary && is_alone && dice.below(3) == 0 => {
                    edits.pause();
                    cluster.settle();
                    let old = fail_over(cluster);
                    say("new primary:", cluster.primary());
                    edits.resume(&cluster.primary().admin_url(database.name()));
                    old.rebuild(cluster.primary());
                }
                None => {
                    let kinds = if is_primary { 2 } else { 5 };
                    let fault = [
                        Fault::Killed,
                        Fault::Silent,
                        Fault::Late,
                        Fault::NotReplaying,
                        Fault::CutOff,
                    ][dice.below(kinds) as usize];
                    // a replica is told by statement, and may not be there to hear it
                    say(&format!("{fault:?}:"), server);
                    strike(server, fault);
                    faults[place] = Some(fault);
                }
            }
        }
        // the primary first: the others may have to hear of it
        let order = cluster.servers().iter().enumerate();
        let (first, others): (Vec<_>, Vec<_>) =
            order.partition(|(_, server)| server.port() == cluster.primary().port());
        for (place, server) in first.into_iter().chain(others) {
            if let Some(fault) = faults[place] {
                heal(cluster, server, fault);
            }
        }
        cluster.settle();
        seconds(1);
        edits.healed();
        seconds(2);
    });
    if length > USUAL
        && let Some((committed, node, time)) = report.latest()
    {
        bench.nodes[node].said().iter().for_each(|line| println!("    {line}"));
        println!(
            "    the latest edit: {:.1?} on node {node} took {time:.1?}",
            committed - began
        );
    }
    report.hold(ANSWERED);
    report.in_force_within(IN_FORCE_AFTER_FAILOVER);
}

fn strike(server: &Server, fault: Fault) {
    match fault {
        Fault::Killed => server.kill(),
        Fault::Silent => server.pause(),
        Fault::Late => server.set_apply_delay(Duration::from_secs(3)),
        Fault::NotReplaying => server.pause_replay(),
        Fault::CutOff => server.isolate(),
    }
}

fn heal(cluster: &Cluster, server: &Server, fault: Fault) {
    match fault {
        Fault::Killed => server.start(),
        Fault::Silent => server.resume(),
        Fault::Late => server.set_apply_delay(Duration::ZERO),
        Fault::NotReplaying => server.resume_replay(),
        Fault::CutOff => server.follow(cluster.primary()),
    }
}

/// Numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
