//! Conversations that succeed: versions, keys, fragments, loss and repetition, MD5 and Nak.

use std::sync::Arc;

use portreeve::eap::method::{EapType, Method};
use portreeve::eap::packet::EapPacket;
use portreeve::eap::peer::{self, Peer};
use portreeve::eap::server::{Conversation, Credentials, Discard, FirstMessage, Offer, Phase, Settings, Step, Verdict};
use portreeve::eap::tls::{TlsServer, TlsVersion, provider};
use portreeve::reason::Reason;

use super::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

#[test]
fn every_key_version_and_fragment_size_succeeds_with_equal_keys() {
    for key in [Key::P256, Key::P384, Key::Rsa2048] {
        let pki = Pki::shared(key);
        for version in VERSIONS {
            for size in [64, 200, 1_024, 1_400, 4_000] {
                let settings = settings(pki.tls_server(), version, size);
                let (outcome, conversation, peer) = converse_with(
                    settings,
                    peer_settings(client_tls(pki), size),
                    &mut accept,
                    &mut |_, _, packet| packet,
                );
                outcome.expect_keys();
                assert_eq!(conversation.tls_version(), Some(version), "{key:?} {size}");
                assert_eq!(peer.tls_version(), Some(version));
                assert_eq!(conversation.cipher(), peer.cipher());
                assert!(
                    outcome.packets.iter().all(|(_, packet)| packet.len() <= size),
                    "{key:?} {version} {size}"
                );
            }
        }
    }
}

#[test]
fn a_p256_handshake_in_fragments_of_1024_takes_four_round_trips() {
    let pki = Pki::shared(Key::P256);
    for version in VERSIONS {
        let (outcome, conversation, _) = converse_with(
            settings(pki.tls_server(), version, 1_024),
            peer_settings(client_tls(pki), 1_400),
            &mut accept,
            &mut |_, _, packet| packet,
        );
        outcome.expect_keys();
        assert_eq!(outcome.rounds, 4, "{version}");
        assert_eq!(conversation.progress().rounds, 4, "{version}");
    }
}

#[test]
fn the_identifier_moves_with_every_request_and_the_result_repeats_the_last() {
    let pki = Pki::shared(Key::P256);
    let outcome = converse(
        settings(pki.tls_server(), TlsVersion::V13, 64),
        peer_settings(client_tls(pki), 64),
    );
    outcome.expect_keys();
    let identifiers: Vec<u8> = outcome
        .packets
        .iter()
        .filter(|(way, _)| *way == Way::ToPeer)
        .map(|(_, packet)| packet[1])
        .collect();
    let (result, requests) = identifiers.split_last().unwrap();
    for (index, identifier) in requests.iter().enumerate() {
        assert_eq!(*identifier, 42_u8.wrapping_add(index as u8));
    }
    assert_eq!(Some(result), requests.last());
    // "Success and Failure packets MUST NOT contain additional data" (RFC 3748, 4.2)
    assert_eq!(outcome.packets.last().unwrap().1, [3, *result, 0, 4]);
}

#[test]
fn only_the_first_of_several_fragments_has_a_length_and_start_has_none() {
    let pki = Pki::shared(Key::Rsa2048);
    let outcome = converse(
        settings(pki.tls_server(), TlsVersion::V12, 1_024),
        peer_settings(client_tls(pki), 1_024),
    );
    outcome.expect_keys();
    let requests: Vec<_> = outcome.packets.iter().filter(|(way, _)| *way == Way::ToPeer).collect();
    assert_eq!(requests[0].1, [1, 42, 0, 6, 13, 0x20]);
    let flags: Vec<u8> = requests
        .iter()
        .filter(|(_, packet)| packet.len() > 5)
        .map(|(_, packet)| packet[5] & 0xe0)
        .collect();
    assert_eq!(flags, [0x20, 0xc0, 0x00, 0x00, 0x00]);
}

#[test]
fn the_version_follows_what_both_allow() {
    let pki = Pki::shared(Key::P256);
    for (server_max, client_max, expected) in [
        (TlsVersion::V13, TlsVersion::V13, TlsVersion::V13),
        (TlsVersion::V12, TlsVersion::V13, TlsVersion::V12),
        (TlsVersion::V13, TlsVersion::V12, TlsVersion::V12),
    ] {
        let settings = Settings {
            max_version: server_max,
            ..settings(pki.tls_server(), TlsVersion::V12, 1_024)
        };
        let tls = peer::ClientTls {
            max_version: client_max,
            ..client_tls(pki)
        };
        let (outcome, conversation, _) =
            converse_with(settings, peer_settings(tls, 1_024), &mut accept, &mut |_, _, packet| {
                packet
            });
        outcome.expect_keys();
        assert_eq!(conversation.tls_version(), Some(expected));
    }
}

#[test]
fn a_start_is_answered_with_a_request_for_the_identity() {
    let pki = Pki::shared(Key::P256);
    let mut random = counting();
    let settings = settings(pki.tls_server(), TlsVersion::V13, 1_024);
    let (mut conversation, step) = Conversation::begin(settings, FirstMessage::Start, &mut random);
    let Step::Send(request) = step else { panic!("{step:?}") };
    // the first identifier is random, here 1, and the request one higher
    assert_eq!(request, [1, 2, 0, 5, 1]);
    assert_eq!(conversation.progress().phase, Phase::IdentityRequested);
    let mut peer = Peer::new(peer_settings(client_tls(pki), 1_024));
    let peer::Step::Reply(identity) = peer.step(&request) else {
        panic!("no identity")
    };
    let step = conversation.step(&identity, &mut random);
    assert!(matches!(step, Step::Send(request) if request == [1, 3, 0, 6, 13, 0x20]));
    assert_eq!(conversation.identity(), b"@example");
    assert_eq!(conversation.method(), Some(Method::Tls));
}

#[test]
fn the_decision_falls_before_anything_of_the_end_has_left() {
    let pki = Pki::shared(Key::P256);
    for version in VERSIONS {
        let peer = peer_settings(client_tls(pki), 1_024);
        let (mut conversation, mut supplicant, credentials) =
            until_decision(settings(pki.tls_server(), version, 1_024), &peer);
        let Some(Credentials::Certificate { chain, resumed: false }) = credentials else {
            panic!("{credentials:?}")
        };
        assert_eq!(chain, pki.client.chain);
        assert_eq!(conversation.presented(), Some(&pki.client.chain[..]));
        assert_eq!(conversation.progress().phase, Phase::Deciding);
        // Success now would be a server's mistake, and the supplicant says so: the end is still with the server
        let early = supplicant.step(&[3, 43, 0, 4]);
        let expected = match version {
            TlsVersion::V12 => peer::Violation::SuccessEarly,
            TlsVersion::V13 => peer::Violation::CommitmentMissing,
        };
        assert!(
            matches!(early, peer::Step::Violation(violation) if violation == expected),
            "{version}: {early:?}"
        );
        // nothing is awaited while the decision is pending
        let step = conversation.step(&[2, 43, 0, 6, 13, 0], &mut counting());
        assert!(matches!(step, Step::Discard(Discard::NotAwaited)));
        assert!(matches!(conversation.decide(Verdict::Accept), Step::Send(_)));
        assert_eq!(conversation.progress().phase, Phase::Finishing);
    }
}

#[test]
fn md5_is_offered_first_where_settings_say_so() {
    let pki = Pki::shared(Key::P256);
    let offer = Settings {
        offer: Offer::Md5ThenTls,
        ..settings(pki.tls_server(), TlsVersion::V13, 1_024)
    };
    let mut seen = None;
    let (outcome, conversation, _) = converse_with(
        offer,
        md5_peer(b"020000000001"),
        &mut |credentials| {
            let Credentials::Md5 {
                identifier,
                challenge,
                response,
            } = credentials
            else {
                panic!("{credentials:?}")
            };
            seen = Some(response == portreeve::eap::md5::response(identifier, b"020000000001", &challenge));
            Verdict::Accept
        },
        &mut |_, _, packet| packet,
    );
    assert_eq!(seen, Some(true));
    assert!(matches!(outcome.server, ServerEnd::Success(None)));
    assert!(matches!(outcome.peer, Some(peer::Step::Success { msk: None })));
    assert_eq!(conversation.method(), Some(Method::Md5));
    assert_eq!(outcome.rounds, 2);
    let challenges = &outcome.packets[1].1;
    assert_eq!((challenges.len(), challenges[4], challenges[5]), (22, 4, 16));
}

#[test]
fn a_wrong_password_is_for_the_decision_to_refuse() {
    let pki = Pki::shared(Key::P256);
    let offer = Settings {
        offer: Offer::Md5ThenTls,
        ..settings(pki.tls_server(), TlsVersion::V13, 1_024)
    };
    let outcome = converse(offer, md5_peer(b"wrong"));
    assert_eq!(outcome.reason(), Some(Reason::MabPassword));
    assert!(matches!(
        outcome.peer,
        Some(peer::Step::Failure(peer::Failure::Rejected))
    ));
}

#[test]
fn tls_follows_a_nak_of_md5() {
    let pki = Pki::shared(Key::P256);
    let offer = Settings {
        offer: Offer::Md5ThenTls,
        ..settings(pki.tls_server(), TlsVersion::V13, 1_024)
    };
    let (outcome, conversation, _) = converse_with(
        offer,
        peer_settings(client_tls(pki), 1_024),
        &mut accept,
        &mut |_, _, packet| packet,
    );
    outcome.expect_keys();
    assert_eq!(conversation.method(), Some(Method::Tls));
    assert_eq!(
        EapPacket::parse(&outcome.packets[2].1).unwrap().eap_type,
        Some(EapType::NAK)
    );
}

#[test]
fn an_offer_can_be_changed_until_the_identity_has_come() {
    let pki = Pki::shared(Key::P256);
    let settings = settings(pki.tls_server(), TlsVersion::V13, 1_024);
    let (mut conversation, step) = Conversation::begin(settings, FirstMessage::Start, &mut counting());
    let Step::Send(request) = step else { panic!("{step:?}") };
    conversation.set_offer(Offer::Md5ThenTls);
    let identity = Peer::new(md5_peer(b"x")).identity_response(request[1]);
    let Step::Send(offer) = conversation.step(&identity, &mut counting()) else {
        panic!("no offer")
    };
    assert_eq!(offer[4], EapType::MD5.0);
}

#[test]
fn lost_and_repeated_packets_are_made_good() {
    let pki = Pki::shared(Key::Rsa2048);
    let tls = pki.tls_server();
    let peer = peer_settings(client_tls(pki), 400);
    for seed in 1..=48 {
        let version = VERSIONS[seed as usize % 2];
        lossy(settings(Arc::clone(&tls), version, 400), &peer, seed);
    }
}

/// A NAS that repeats its request until a response comes, over a path that loses and repeats packets both ways and
/// brings old responses late; and the floor above the conversation, which answers the last response again.
fn lossy(settings: Settings, peer: &Arc<peer::PeerSettings>, seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut random = counting();
    let mut peer = Peer::new(Arc::clone(peer));
    let identity = peer.identity_response(7);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let mut answered = identity;
    let mut old: Vec<Vec<u8>> = Vec::new();
    let mut ours = None;
    for _ in 0..5_000 {
        if let Step::Decide(_) = step {
            step = conversation.decide(Verdict::Accept);
        }
        let request = match &step {
            Step::Send(eap) => eap.clone(),
            Step::Success { eap, msk } => {
                ours = msk.clone();
                eap.clone()
            }
            other => panic!("seed {seed}: {other:?}"),
        };
        // to the supplicant: lost, once or twice
        let mut response = None;
        for _ in 0..dice.roll(3) {
            match peer.step(&request) {
                peer::Step::Reply(reply) => response = Some(reply),
                peer::Step::Success { msk } => {
                    assert_eq!(msk, ours, "seed {seed}");
                    assert!(msk.is_some());
                    return;
                }
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        // to the server: lost, once or twice, among stragglers
        let Some(response) = response else { continue };
        if dice.roll(4) == 0 && !old.is_empty() {
            let straggler = &old[dice.roll(old.len() as u64) as usize];
            if *straggler != answered {
                let stale = conversation.step(straggler, &mut random);
                assert!(matches!(stale, Step::Discard(_)), "seed {seed}: {stale:?}");
            }
        }
        for _ in 0..dice.roll(3) {
            if response != answered {
                step = match conversation.step(&response, &mut random) {
                    Step::Decide(_) => conversation.decide(Verdict::Accept),
                    other => other,
                };
                old.push(std::mem::replace(&mut answered, response.clone()));
            }
        }
    }
    panic!("seed {seed}: no end");
}

#[test]
fn progress_tells_where_a_conversation_stopped() {
    let pki = Pki::shared(Key::Rsa2048);
    let mut peer = Peer::new(peer_settings(client_tls(pki), 600));
    let mut random = counting();
    let identity = peer.identity_response(0);
    let settings = settings(pki.tls_server(), TlsVersion::V12, 500);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let mut phases = vec![conversation.progress()];
    assert!(!conversation.has_client_hello());
    while let Step::Send(request) = &step {
        let peer::Step::Reply(response) = peer.step(request) else {
            panic!("no reply")
        };
        step = conversation.step(&response, &mut random);
        if let Step::Decide(_) = step {
            step = conversation.decide(Verdict::Accept);
        }
        phases.push(conversation.progress());
    }
    assert!(conversation.has_client_hello());
    let words: Vec<_> = phases.iter().map(|progress| progress.phase.word()).collect();
    assert_eq!(words.first(), Some(&"tls-offered"));
    assert_eq!(words.last(), Some(&"succeeded"));
    let sending = phases
        .iter()
        .find(|progress| progress.phase == Phase::ServerFlightSending)
        .unwrap();
    let (sent, of) = sending.sent_fragments;
    assert_eq!(
        (sent, sending.last_sent_octets, sending.reason()),
        (1, 500, Reason::FragmentLost)
    );
    assert_eq!(
        sending.likely_cause(),
        format!(
            "fragment 1 of {of} of the server's certificate was never acknowledged: 500-octet fragments, check the \
             path mtu or set a smaller `fragment_size`"
        )
    );
    let arriving = phases
        .iter()
        .find(|progress| progress.phase == Phase::ClientCertificateArriving)
        .unwrap();
    assert_eq!(arriving.reason(), Reason::FragmentLost);
    assert_eq!(
        arriving.likely_cause(),
        "the rest of the client's certificate never arrived: 600-octet fragments, check the path mtu"
    );
    let pending = phases
        .iter()
        .find(|progress| progress.phase == Phase::ClientCertificatePending)
        .unwrap();
    assert_eq!(pending.reason(), Reason::SupplicantStopped);
    assert!(
        pending
            .likely_cause()
            .starts_with("the client's certificate never arrived")
    );
}

/// "When this message is encountered, it will increase the number of round trips" (RFC 9190, 2.1).
#[test]
fn a_hello_retry_request_costs_one_round_trip() {
    use rustls::crypto::aws_lc_rs::kx_group;
    let pki = Pki::shared(Key::P256);
    let groups = vec![kx_group::SECP384R1, kx_group::X25519];
    let theirs = rustls::crypto::CryptoProvider {
        kx_groups: groups,
        ..(*provider()).clone()
    };
    let ours = rustls::crypto::CryptoProvider {
        kx_groups: vec![kx_group::X25519],
        ..(*provider()).clone()
    };
    let tls = TlsServer {
        provider: Arc::new(ours),
        ..(*pki.tls_server()).clone()
    };
    let peer = peer::ClientTls {
        provider: Arc::new(theirs),
        ..client_tls(pki)
    };
    let outcome = converse(
        settings(Arc::new(tls), TlsVersion::V13, 1_400),
        peer_settings(peer, 1_400),
    );
    outcome.expect_keys();
    assert_eq!(outcome.rounds, 5);
}

/// Conversations are held by the ten thousand: what one costs before its hello is next to nothing.
#[test]
fn a_conversation_is_small() {
    let octets = size_of::<Conversation>();
    assert!(octets <= 104, "{octets}");
}
