//! Those who begin and never finish, and those who only want to get in.

use std::time::{Duration, Instant};

use portreeve::conversations::Limits;
use portreeve::eap::method::EapType;
use portreeve::eap::packet;
use portreeve::nas::Attempt;
use portreeve::radius::code::Code;
use portreeve::radius::packet::number;
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;

use crate::memory::resident_octets;
use crate::support::*;

/// A site with switches from 10.0.0.1 up, each a client of its own, and the laptops' policy.
fn switches(count: usize) -> String {
    let clients: String = (1..=count)
        .map(|number| format!("[[site.client]]\nnetwork = \"10.0.0.{number}\"\nsecret = \"testing123\"\n"))
        .collect();
    format!(
        "{SITES}\n[[site]]\nname = \"Hull\"\ntag = \"hull\"\npolicies = [{{ policy = \"laptops\", priority = 1 }}]\n{clients}"
    )
}

/// The first request of a device that will send no other, as EAP-Response/Identity.
fn begun(switch: &mut Switch, device: usize) -> Vec<u8> {
    let station = format!(
        "02-00-01-{:02x}-{:02x}-{:02x}",
        device >> 16,
        device >> 8 & 255,
        device & 255
    );
    switch.write(Code::AccessRequest, |writer| {
        let identity = packet::build(packet::Code::Response, 1, EapType::IDENTITY, &[b"anonymous"]);
        writer
            .message_authenticator()
            .attribute(number::USER_NAME, b"anonymous")
            .eap_message(&identity)
            .attribute(number::CALLING_STATION_ID, station.as_bytes())
            .attribute(number::NAS_PORT, &[0, 0, 0, 1]);
    })
}

struct Honest {
    switch: Switch,
    attempt: Attempt,
    end: Option<End>,
}

/// 50,000 conversations begun and never finished, over 25 switches, with room for 20,000: the table stays bounded, those
/// without a ClientHello go first, and everybody who goes on gets in.
#[tokio::test]
async fn fifty_thousand_conversations_begun_and_never_finished_keep_nobody_out() {
    const FLOOD: usize = 50_000;
    const ROUND: usize = 500;
    const LIMITS: (usize, usize) = (20_000, 5_000);
    let mut node = Node::with(&switches(25), |setup| {
        setup.settings.conversations = Limits {
            total: LIMITS.0,
            per_client: LIMITS.1,
            ..setup.settings.conversations
        };
    })
    .await;
    let mut flood: Vec<Switch> = (1..=25)
        .map(|number| Switch::new(&format!("10.0.0.{number}:50000")))
        .collect();
    let settings = laptop().settings();
    let mut honest: Vec<Honest> = Vec::new();
    let (mut evicted, mut spent, mut most) = (0, Duration::ZERO, 0);
    let before = resident_kib();
    for round in 0..FLOOD / ROUND {
        for number in round * ROUND..(round + 1) * ROUND {
            let at = number % flood.len();
            let datagram = begun(&mut flood[at], number);
            node.clock.advance(Duration::from_micros(100));
            let begin = Instant::now();
            let response = node.deliver(flood[at].source, &datagram);
            spent += begin.elapsed();
            response.reply();
        }
        // One more honest device in each turn, and one round for each that is under way.
        let station = format!("Calling-Station-Id = 02-00-02-00-00-{round:02x}");
        honest.push(Honest {
            switch: Switch::new(["192.0.2.1:50000", "10.0.0.1:50000"][round % 2]),
            attempt: eap_attempt(&settings, &[&station, "NAS-Port = 1"]),
            end: None,
        });
        for each in honest.iter_mut().filter(|each| each.end.is_none()) {
            if let Told::End(end) = node.round(&mut each.switch, &mut each.attempt) {
                each.end = Some(end);
            }
        }
        most = most.max(node.server.open_conversations());
        for record in node.records() {
            if record.outcome == Outcome::Accept {
                continue;
            }
            evicted += 1;
            assert_eq!(
                (record.outcome, record.reason),
                (Outcome::Unfinished, Reason::SessionEvicted)
            );
            assert_eq!(record.phase, Some("tls-offered"), "only those without a ClientHello");
        }
    }
    let after = resident_kib();
    for each in honest.iter_mut().filter(|each| each.end.is_none()) {
        each.end = Some(node.authenticate(&mut each.switch, &mut each.attempt));
    }
    for each in &honest {
        assert_eq!(vlan(&each.end.as_ref().unwrap().accept()).as_deref(), Some("120"));
    }
    assert!(most <= LIMITS.0, "{most}");
    assert!(evicted >= FLOOD - LIMITS.0, "{evicted}");
    println!(
        "{FLOOD} begun, at most {most} open, {evicted} evicted; {} us each; resident memory from {before} to {after} KiB",
        spent.as_micros() / FLOOD as u128
    );
}

/// One client that floods takes the places of its own conversations, and of nobody else's.
#[tokio::test]
async fn a_client_that_floods_hurts_only_itself() {
    let mut node = Node::with(&switches(1), |setup| {
        setup.settings.conversations = Limits {
            total: 1_000,
            per_client: 100,
            ..setup.settings.conversations
        };
    })
    .await;
    let mut victims: Vec<Honest> = (0..40)
        .map(|number| {
            let station = format!("Calling-Station-Id = 02-00-02-00-00-{number:02x}");
            Honest {
                switch: Switch::new(LEEDS),
                attempt: laptop().attempt(&[&station, "NAS-Port = 1"]),
                end: None,
            }
        })
        .collect();
    // Some have only begun, some have sent their ClientHello.
    for (number, victim) in victims.iter_mut().enumerate() {
        node.rounds(&mut victim.switch, &mut victim.attempt, 1 + number % 2);
    }
    let mut flood = Switch::new("10.0.0.1:50000");
    // A device behind that very switch, which is quicker than the flood takes to go once around.
    let mut neighbour = laptop().attempt(LAPTOP_PORT);
    let mut neighbour_is_in = false;
    for number in 0..2_000 {
        node.clock.advance(Duration::from_micros(100));
        let datagram = begun(&mut flood, number);
        node.deliver(flood.source, &datagram).reply();
        if number % 80 == 0 && number >= 400 && !neighbour_is_in {
            let told = node.round(&mut flood, &mut neighbour);
            neighbour_is_in = matches!(told, Told::End(End::Accept(_)));
        }
    }
    assert!(neighbour_is_in);
    assert_eq!(node.server.open_conversations(), 140);
    let mut records = node.records();
    records.retain(|record| record.outcome != Outcome::Accept);
    assert_eq!(records.len(), 1_900);
    assert!(records.iter().all(|record| record.client == flood.source.ip()));
    for victim in &mut victims {
        node.authenticate(&mut victim.switch, &mut victim.attempt).accept();
    }
}

/// An evicted supplicant that goes on is told so, and its switch begins anew at once.
#[tokio::test]
async fn an_evicted_conversation_that_goes_on_is_session_evicted() {
    let mut node = Node::with(&switches(1), |setup| {
        setup.settings.conversations.per_client = 1;
    })
    .await;
    let mut switch = Switch::new("10.0.0.1:50000");
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut attempt, 1);
    node.deliver(switch.source, &begun(&mut switch.clone(), 1)).reply();
    assert_eq!(node.record().reason, Reason::SessionEvicted);
    let End::Reject(..) = node.authenticate(&mut switch, &mut attempt) else {
        panic!("no reject")
    };
    let record = node.record();
    assert_eq!(
        (record.outcome, record.reason),
        (Outcome::Reject, Reason::SessionEvicted)
    );
}

/// Of this process, other tests included.
fn resident_kib() -> usize {
    resident_octets(std::process::id()).unwrap_or_default() >> 10
}
