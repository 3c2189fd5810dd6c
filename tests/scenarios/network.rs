//! The wire between switches and the node: it loses, duplicates, delays and so reorders what it carries, and the switches
//! retransmit as theirs do, from a new port in the end. Whatever it does, nobody gets a wrong answer, and who is heard gets
//! in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::Duration;

use portreeve::eap::tls::TlsVersion;
use portreeve::nas::{Answer, Attempt, Fault};
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;

use crate::support::*;

/// How bad the wire is; in percent and milliseconds.
#[derive(Clone, Copy, Debug)]
struct Wire {
    loss: u64,
    duplication: u64,
    delay_ms: u64,
}

/// How often a switch sends a request, and how long it waits after each. The last ones go out from another port.
const TRANSMISSIONS: u32 = 8;
const FROM_OLD_PORT: u32 = 3;
const PATIENCE_MS: u64 = 600;
const TICK_MS: u64 = 250;

/// A switch port with a device that authenticates.
struct Port {
    switch: Switch,
    attempt: Attempt,
    /// The request that is out, how often it was sent, and since which round.
    request: Vec<u8>,
    transmissions: u32,
    round: u32,
    /// Whether any reply to this round has come through.
    heard: bool,
    end: Option<bool>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// To the node.
    Request(usize, SocketAddr, Vec<u8>),
    /// To the port that sent from there.
    Reply(usize, SocketAddr, Vec<u8>),
    /// The patience with a round is over.
    Timeout(usize, u32, u32),
    Tick,
}

struct World {
    node: Node,
    wire: Wire,
    dice: Dice,
    now_ms: u64,
    /// Events by time, in the order in which they were sent where times are equal.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    ports: Vec<Port>,
}

impl World {
    fn at(&mut self, delay_ms: u64, event: Event) {
        self.sequence += 1;
        self.events
            .push(Reverse((self.now_ms + delay_ms, self.sequence, event)));
    }

    /// What the wire makes of a datagram: nothing, or one or two copies, each in its own time.
    fn carry(&mut self, event: impl Fn() -> Event) {
        if self.dice.percent(self.wire.loss) {
            return;
        }
        let copies = 1 + u64::from(self.dice.percent(self.wire.duplication));
        for _ in 0..copies {
            let delay = 1 + self.dice.roll(self.wire.delay_ms);
            self.at(delay, event());
        }
    }

    fn transmit(&mut self, index: usize) {
        let port = &mut self.ports[index];
        if port.transmissions == FROM_OLD_PORT && port.round > 1 {
            // RFC 5080 section 2.2.1: a switch that gives a request up begins it anew, under another identifier.
            let next = port.switch.source.port() + 1;
            port.switch.source.set_port(next);
            port.request = port.switch.next(&mut port.attempt);
        }
        port.transmissions += 1;
        let (round, transmissions, source) = (port.round, port.transmissions, port.switch.source);
        let request = port.request.clone();
        self.carry(|| Event::Request(index, source, request.clone()));
        self.at(PATIENCE_MS, Event::Timeout(index, round, transmissions));
    }

    fn begin_round(&mut self, index: usize) {
        let port = &mut self.ports[index];
        (port.round, port.transmissions, port.heard) = (port.round + 1, 0, false);
        port.request = port.switch.next(&mut port.attempt);
        self.transmit(index);
    }

    /// Runs until every port has ended.
    fn run(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if self.ports.iter().all(|port| port.end.is_some()) {
                return;
            }
            let by = Duration::from_millis(at - self.now_ms);
            self.now_ms = at;
            self.node.clock.advance(by);
            match event {
                Event::Tick => {
                    self.node.advance(Duration::ZERO);
                    self.at(TICK_MS, Event::Tick);
                }
                Event::Request(index, source, datagram) => match self.node.deliver(source, &datagram) {
                    Response::Reply(reply) => self.carry(|| Event::Reply(index, source, reply.clone())),
                    Response::Silent => {}
                    Response::Later(_) => panic!("it waits"),
                },
                Event::Reply(index, source, datagram) => self.reply(index, source, &datagram),
                Event::Timeout(index, round, transmissions) => {
                    let port = &mut self.ports[index];
                    if port.end.is_some() || (port.round, port.transmissions) != (round, transmissions) {
                        continue;
                    }
                    if transmissions < TRANSMISSIONS {
                        self.transmit(index);
                    } else {
                        assert!(!port.heard, "port {index} heard of round {round}, and has no answer");
                        port.end = Some(false);
                    }
                }
            }
        }
    }

    fn reply(&mut self, index: usize, source: SocketAddr, datagram: &[u8]) {
        let port = &mut self.ports[index];
        if port.end.is_some() || port.switch.source != source {
            return;
        }
        match port.attempt.reply(datagram) {
            Ok(Answer::Challenge) => self.begin_round(index),
            Ok(Answer::Accept(packet)) => {
                assert_eq!(vlan(&packet).as_deref(), Some("120"));
                port.end = Some(true);
            }
            Ok(Answer::Reject(packet, why)) => panic!("port {index}, round {}: {packet:?} {why:?}", port.round),
            // A copy of a reply to an earlier request.
            Err(Fault::Reply(_) | Fault::Unasked) => {}
            Err(fault) => panic!("port {index}, round {}: {fault}", port.round),
        }
    }
}

/// How many of the ports got in.
async fn play(wire: Wire, seed: u64, ports: usize) -> usize {
    let node = Node::with(SITES, |setup| setup.settings.fragment_size = 600).await;
    let versions = [TlsVersion::V12, TlsVersion::V13];
    let peers = versions.map(|version| {
        Supplicant {
            fragment_size: 500,
            ..laptop().version(version)
        }
        .settings()
    });
    let mut world = World {
        node,
        wire,
        dice: Dice(seed),
        now_ms: 0,
        events: BinaryHeap::new(),
        sequence: 0,
        ports: Vec::new(),
    };
    for number in 0..ports {
        let lines = [
            "NAS-Port-Type = Ethernet".to_owned(),
            format!("NAS-Port-Id = Gi1/0/{number}"),
            format!("Calling-Station-Id = 02-00-00-00-01-{number:02x}"),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let address = ["192.0.2.1", "198.51.100.1"][number % 2];
        world.ports.push(Port {
            switch: Switch::new(&format!("{address}:{}", 40_000 + 100 * number)),
            attempt: eap_attempt(&peers[number / 2 % 2], &lines),
            request: Vec::new(),
            transmissions: 0,
            round: 0,
            heard: false,
            end: None,
        });
        world.begin_round(number);
    }
    world.at(TICK_MS, Event::Tick);
    world.run();
    let accepted = world.ports.iter().filter(|port| port.end == Some(true)).count();
    let records = world.node.records();
    let recorded = records
        .iter()
        .filter(|record| record.outcome == Outcome::Accept)
        .count();
    assert!(
        (accepted..=ports).contains(&recorded),
        "seed {seed}: {accepted} accepts came through, {recorded} were recorded"
    );
    // A copy of an old request that the wire held back until its conversation was over.
    let is_late = |reason| matches!(reason, Reason::SessionUnknown | Reason::PolicyAccept);
    assert!(
        records.iter().all(|record| is_late(record.reason)),
        "seed {seed}: {records:#?}"
    );
    accepted
}

#[tokio::test]
async fn on_a_good_wire_every_device_gets_in() {
    let wire = Wire {
        loss: 0,
        duplication: 0,
        delay_ms: 20,
    };
    assert_eq!(play(wire, 1, 8).await, 8);
}

#[tokio::test]
async fn loss_is_made_up_for_by_retransmissions() {
    let wire = Wire {
        loss: 20,
        duplication: 0,
        delay_ms: 50,
    };
    for seed in 1..=3 {
        let accepted = play(wire, seed, 8).await;
        assert!(accepted >= 7, "seed {seed}: {accepted}");
    }
}

#[tokio::test]
async fn duplicates_change_nothing() {
    let wire = Wire {
        loss: 0,
        duplication: 100,
        delay_ms: 50,
    };
    for seed in 1..=3 {
        assert_eq!(play(wire, seed, 8).await, 8, "seed {seed}");
    }
}

/// Delays above the switch's patience: requests and replies overtake each other, and answers come to requests that were
/// given up.
#[tokio::test]
async fn what_is_late_or_out_of_order_harms_nobody() {
    let wire = Wire {
        loss: 0,
        duplication: 30,
        delay_ms: 900,
    };
    for seed in 1..=3 {
        let accepted = play(wire, seed, 8).await;
        assert!(accepted >= 7, "seed {seed}: {accepted}");
    }
}

#[tokio::test]
async fn a_wire_that_does_it_all() {
    let wire = Wire {
        loss: 15,
        duplication: 15,
        delay_ms: 700,
    };
    for seed in 1..=6 {
        let accepted = play(wire, seed, 12).await;
        assert!(accepted >= 10, "seed {seed}: {accepted}");
    }
}
