//! Octets that no supplicant should send: never a panic, never a success, never without a bound.

use std::sync::{Arc, LazyLock};

use portreeve::eap::method::EapType;
use portreeve::eap::packet::{Code, build};
use portreeve::eap::peer::{self, Peer, PeerSettings};
use portreeve::eap::server::{
    Conversation, Credentials, Discard, FirstMessage, Offer, Phase, ROUNDS_MAX, Settings, Step, Verdict,
};
use portreeve::eap::tls::TlsVersion;
use portreeve::reason::Reason;
use proptest::prelude::*;

use super::support::*;

static PEER: LazyLock<Arc<PeerSettings>> = LazyLock::new(|| peer_settings(client_tls(Pki::shared(Key::P256)), 400));

fn tls_settings(version: TlsVersion) -> Settings {
    settings(Pki::shared(Key::P256).tls_server(), version, 400)
}

/// A conversation after `responses` honest responses to its requests, accepted if it came so far, and the identifier
/// that is out.
fn advanced(settings: Settings, responses: usize) -> (Conversation, u8) {
    let mut random = counting();
    let mut peer = Peer::new(Arc::clone(&PEER));
    let identity = peer.identity_response(41);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let mut identifier = 41;
    for responded in 0..=responses {
        if let Step::Decide(_) = step {
            step = conversation.decide(Verdict::Accept);
        }
        let Step::Send(request) = &step else { break };
        identifier = request[1];
        if responded == responses {
            break;
        }
        let peer::Step::Reply(response) = peer.step(request) else {
            break;
        };
        step = conversation.step(&response, &mut random);
    }
    (conversation, identifier)
}

fn tls_response(identifier: u8, data: &[u8]) -> Vec<u8> {
    build(Code::Response, identifier, EapType::TLS, &[data])
}

/// A response as a stranger would make it: sometimes all right in its header.
fn response() -> impl Strategy<Value = (bool, Option<u8>, Vec<u8>)> {
    let eap_type = prop_oneof![
        Just(None),
        Just(Some(13)),
        Just(Some(3)),
        Just(Some(254)),
        any::<u8>().prop_map(Some)
    ];
    (any::<bool>(), eap_type, proptest::collection::vec(any::<u8>(), 0..600))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_responses_never_succeed(
        after in 0_usize..8,
        newer in any::<bool>(),
        md5 in any::<bool>(),
        responses in proptest::collection::vec(response(), 1..12),
    ) {
        let version = if newer { TlsVersion::V13 } else { TlsVersion::V12 };
        let offer = if md5 { Offer::Md5ThenTls } else { Offer::Tls };
        let (mut conversation, mut identifier) = advanced(Settings { offer, ..tls_settings(version) }, after);
        for (matching, eap_type, data) in responses {
            let awaits_acknowledgement = conversation.progress().phase == Phase::Finishing;
            let packet = match eap_type {
                Some(eap_type) => {
                    let identifier = if matching { identifier } else { identifier ^ 1 };
                    build(Code::Response, identifier, EapType(eap_type), &[&data])
                }
                None => data.clone(),
            };
            match conversation.step(&packet, &mut counting()) {
                Step::Send(request) => identifier = request[1],
                Step::Decide(Credentials::Md5 { .. }) => {
                    conversation.decide(Verdict::Refuse(Reason::MabPassword.into()));
                }
                Step::Decide(credentials) => prop_assert!(false, "{:?}", credentials),
                Step::Success { .. } => prop_assert!(awaits_acknowledgement && data.len() <= 5, "success"),
                Step::Failure { .. } | Step::Discard(_) => {}
            }
        }
    }

    /// Arbitrary requests to the supplicant: no panic, no success.
    #[test]
    fn arbitrary_requests_never_succeed(requests in proptest::collection::vec(response(), 1..12)) {
        let mut peer = Peer::new(Arc::clone(&PEER));
        for (number, (_, eap_type, data)) in requests.into_iter().enumerate() {
            let packet = match eap_type {
                Some(eap_type) => build(Code::Request, number as u8, EapType(eap_type), &[&data]),
                None => data,
            };
            let step = peer.step(&packet);
            let succeeded = matches!(step, peer::Step::Success { .. });
            prop_assert!(!succeeded);
        }
    }

    /// One packet of a real conversation is changed, in either direction: it fails, hangs, or both ends have the same
    /// keys; one end alone never takes other keys for good.
    #[test]
    fn a_changed_packet_never_leads_to_wrong_keys(
        newer in any::<bool>(),
        to_peer in any::<bool>(),
        number in 0_usize..9,
        position in any::<prop::sample::Index>(),
        change in 0_u8..5,
        octet in 1_u8..=255,
    ) {
        let version = if newer { TlsVersion::V13 } else { TlsVersion::V12 };
        let mut changed = false;
        let (outcome, ..) = converse_with(
            tls_settings(version),
            Arc::clone(&PEER),
            &mut accept,
            &mut |way, at, mut packet| {
                if (way == Way::ToPeer) == to_peer && at == number && !packet.is_empty() {
                    changed = true;
                    let position = position.index(packet.len());
                    match change {
                        0 => packet[position] ^= octet,
                        1 => packet.truncate(position),
                        2 => packet.insert(position, octet),
                        3 => {
                            // cut short, and the header says so: the change is the method's to find
                            packet.truncate(position.max(6));
                            fix_length(&mut packet);
                        }
                        _ => {
                            packet.push(octet);
                            fix_length(&mut packet);
                        }
                    }
                }
                packet
            },
        );
        match (&outcome.server, &outcome.peer) {
            (ServerEnd::Success(ours), Some(peer::Step::Success { msk })) => {
                prop_assert!(ours.is_some());
                prop_assert_eq!(ours, msk);
            }
            (ServerEnd::Success(ours), _) => {
                // the last packet was changed on its way to the supplicant
                prop_assert!(ours.is_some() && changed && to_peer);
            }
            (_, Some(peer::Step::Success { .. })) => prop_assert!(false, "{:?}", outcome.server),
            _ => {}
        }
    }
}

/// Makes the header say how long the packet is.
fn fix_length(packet: &mut [u8]) {
    let length = (packet.len() as u16).to_be_bytes();
    if let Some(field) = packet.get_mut(2..4) {
        field.copy_from_slice(&length);
    }
}

/// Octets of the client's flights, one after another: TLS notices every one, but for a record's version, which "MUST be
/// ignored for all purposes" (RFC 8446, 5.1).
#[test]
fn every_flipped_octet_of_a_handshake_is_noticed() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let settings = settings(Pki::shared(Key::P256).tls_server(), version, 1_400);
        let peer = peer_settings(client_tls(Pki::shared(Key::P256)), 1_400);
        // the hello and the flight with the certificate
        for number in [1, 2] {
            for position in (6..1_000).step_by(7) {
                let mut flipped = false;
                let tamper = &mut |way, at, mut packet: Vec<u8>| {
                    let here = way == Way::ToServer && at == number && position < packet.len();
                    if here && !is_record_version(&packet, position) {
                        packet[position] ^= 0x10;
                        flipped = true;
                    }
                    packet
                };
                let outcome = converse_with(settings.clone(), Arc::clone(&peer), &mut accept, tamper).0;
                if flipped {
                    let succeeded = matches!(outcome.server, ServerEnd::Success(_));
                    assert!(!succeeded, "{version}: response {number}, octet {position}");
                } else {
                    outcome.expect_keys();
                }
            }
        }
    }
}

/// Whether the octet is one of the two of a version, in the records of an unfragmented response.
fn is_record_version(packet: &[u8], position: usize) -> bool {
    let mut record = 6;
    while let Some(header) = packet.get(record..record + 5) {
        if (record + 1..record + 3).contains(&position) {
            return true;
        }
        record += 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
    }
    false
}

/// "An authenticator receiving a Response whose Identifier value does not match that of the currently outstanding
/// Request MUST silently discard the Response" (RFC 3748, 4.1); and nothing of the conversation is spoilt by it.
#[test]
fn discarded_responses_change_nothing() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let mut random = counting();
        let mut peer = Peer::new(Arc::clone(&PEER));
        let identity = peer.identity_response(41);
        let (mut conversation, mut step) =
            Conversation::begin(tls_settings(version), FirstMessage::Response(&identity), &mut random);
        loop {
            if let Step::Decide(_) = step {
                step = conversation.decide(Verdict::Accept);
            }
            let request = match step {
                Step::Send(request) => request,
                Step::Success { .. } => break,
                other => panic!("{other:?}"),
            };
            let peer::Step::Reply(response) = peer.step(&request) else {
                panic!("no reply")
            };
            let before = conversation.progress();
            let mut late = response.clone();
            late[1] = late[1].wrapping_sub(1);
            let mut other_type = response.clone();
            other_type[4] = 21;
            let mut too_short = response.clone();
            too_short.pop();
            let mut from_a_server = response.clone();
            from_a_server[0] = 1;
            let cases = [
                (late, Discard::Identifier),
                (other_type, Discard::Type),
                (too_short, Discard::Malformed),
                (from_a_server, Discard::Malformed),
                (
                    build(Code::Response, request[1], EapType::IDENTITY, &[b"x"]),
                    Discard::Type,
                ),
                (build(Code::Response, request[1], EapType::TLS, &[]), Discard::Malformed),
                (
                    build(Code::Response, request[1], EapType::TLS, &[&[0x80, 0, 0]]),
                    Discard::Malformed,
                ),
                (vec![], Discard::Malformed),
            ];
            for (packet, expected) in cases {
                let step = conversation.step(&packet, &mut random);
                assert!(
                    matches!(step, Step::Discard(discard) if discard == expected),
                    "{packet:?}: {step:?}"
                );
            }
            if before.phase != Phase::TlsOffered {
                // "An authenticator receiving an unexpected Nak SHOULD discard it" (RFC 3748, 2.1)
                let nak = build(Code::Response, request[1], EapType::NAK, &[&[25]]);
                assert!(matches!(
                    conversation.step(&nak, &mut random),
                    Step::Discard(Discard::Nak)
                ));
            }
            assert_eq!(conversation.progress(), before);
            step = conversation.step(&response, &mut random);
        }
    }
}

#[test]
fn a_first_message_that_is_no_identity_is_discarded() {
    for (packet, expected) in [
        (vec![], Discard::Malformed),
        (vec![2], Discard::Malformed),
        (vec![1, 0, 0, 5, 1], Discard::Malformed),
        (vec![2, 0, 0, 9, 1], Discard::Malformed),
        (vec![2, 0, 0, 6, 13, 0], Discard::Type),
        (vec![2, 0, 0, 6, 3, 13], Discard::Type),
    ] {
        let first = FirstMessage::Response(&packet);
        let (_, step) = Conversation::begin(tls_settings(TlsVersion::V13), first, &mut counting());
        assert!(
            matches!(step, Step::Discard(discard) if discard == expected),
            "{packet:?}: {step:?}"
        );
    }
}

#[test]
fn fragments_without_an_end_have_one() {
    // as small as can be: the number of requests is the bound
    let (mut conversation, mut identifier) = advanced(tls_settings(TlsVersion::V13), 0);
    let mut rounds = 0;
    let (reason, detail) = loop {
        match conversation.step(&tls_response(identifier, &[0x40, 0x16]), &mut counting()) {
            Step::Send(request) => identifier = request[1],
            Step::Failure { reason, detail, .. } => break (reason, detail),
            other => panic!("{other:?}"),
        }
        assert_eq!(conversation.progress().phase, Phase::ClientHelloArriving);
        rounds += 1;
        assert!(rounds <= ROUNDS_MAX);
    };
    assert_eq!(
        (reason, detail.as_deref()),
        (Reason::EapInvalid, Some("more than 200 round trips"))
    );
    // as large as can be: 16 KiB are, as long as no ClientHello is whole
    let (mut conversation, mut identifier) = advanced(tls_settings(TlsVersion::V13), 0);
    let mut fragment = vec![0x16; 4_001];
    fragment[0] = 0x40;
    let detail = loop {
        match conversation.step(&tls_response(identifier, &fragment), &mut counting()) {
            Step::Send(request) => identifier = request[1],
            Step::Failure {
                reason: Reason::EapInvalid,
                detail,
                ..
            } => break detail,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(detail.as_deref(), Some("a tls message of 20000 octets"));
}

#[test]
fn lengths_that_are_not_true() {
    for (data, detail) in [
        (
            vec![0xc0, 0xff, 0xff, 0xff, 0xff, 1],
            "a tls message of 4294967295 octets",
        ),
        (vec![0xc0, 0, 1, 0, 1, 1], "a tls message of 65537 octets"),
        (vec![0x80, 0, 0, 0, 2, 1], "a tls message announced with 2 octets has 1"),
        (
            vec![0xc0, 0, 0, 0, 1, 1, 1],
            "a tls message announced with 1 octets has 2",
        ),
    ] {
        let (mut conversation, identifier) = advanced(tls_settings(TlsVersion::V13), 0);
        let step = conversation.step(&tls_response(identifier, &data), &mut counting());
        let Step::Failure {
            eap,
            reason,
            detail: seen,
        } = step
        else {
            panic!("{step:?}")
        };
        assert_eq!(
            (eap, reason, seen.as_deref()),
            (vec![4, identifier, 0, 4], Reason::EapInvalid, Some(detail))
        );
    }
}

/// One fragment with the length alone is put up with, some supplicants begin so; nothing but such is not.
#[test]
fn empty_fragments() {
    let (mut conversation, mut identifier) = advanced(tls_settings(TlsVersion::V13), 0);
    let mut answered = 0;
    let detail = loop {
        match conversation.step(&tls_response(identifier, &[0xc0, 0, 0, 0, 9]), &mut counting()) {
            Step::Send(request) => identifier = request[1],
            Step::Failure {
                reason: Reason::EapInvalid,
                detail,
                ..
            } => break detail,
            other => panic!("{other:?}"),
        }
        answered += 1;
    };
    assert_eq!((answered, detail.as_deref()), (4, Some("nothing but empty fragments")));
}

/// One acknowledgement too many is put up with; nothing but acknowledgements is not.
#[test]
fn acknowledgements_that_nobody_asked_for() {
    let (mut conversation, mut identifier) = advanced(tls_settings(TlsVersion::V13), 0);
    let mut answered = 0;
    let detail = loop {
        match conversation.step(&tls_response(identifier, &[0x00]), &mut counting()) {
            Step::Send(request) => {
                assert_eq!(request[4..], [13, 0]);
                identifier = request[1];
            }
            Step::Failure {
                reason: Reason::EapInvalid,
                detail,
                ..
            } => break detail,
            other => panic!("{other:?}"),
        }
        answered += 1;
    };
    assert_eq!((answered, detail.as_deref()), (4, Some("nothing but acknowledgements")));

    // a whole conversation in which the supplicant says one empty word too many after Start
    let mut random = counting();
    let mut peer = Peer::new(Arc::clone(&PEER));
    let identity = peer.identity_response(41);
    let (mut conversation, step) = Conversation::begin(
        tls_settings(TlsVersion::V13),
        FirstMessage::Response(&identity),
        &mut random,
    );
    let Step::Send(start) = step else { panic!("{step:?}") };
    let peer::Step::Reply(mut hello) = peer.step(&start) else {
        panic!("no hello")
    };
    let step = conversation.step(&tls_response(start[1], &[0x00]), &mut random);
    let Step::Send(request) = step else { panic!("{step:?}") };
    hello[1] = request[1];
    assert!(matches!(conversation.step(&hello, &mut random), Step::Send(_)));
    assert!(conversation.has_client_hello());
}

#[test]
fn data_where_a_fragment_had_to_be_acknowledged() {
    let pki = Pki::shared(Key::Rsa2048);
    let mut peer = Peer::new(peer_settings(client_tls(pki), 1_400));
    let mut random = counting();
    let identity = peer.identity_response(41);
    let settings = settings(pki.tls_server(), TlsVersion::V13, 400);
    let (mut conversation, step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let Step::Send(start) = step else { panic!("{step:?}") };
    let peer::Step::Reply(hello) = peer.step(&start) else {
        panic!("no hello")
    };
    let Step::Send(fragment) = conversation.step(&hello, &mut random) else {
        panic!("no flight")
    };
    assert_eq!(fragment[5], 0xc0);
    let step = conversation.step(&tls_response(fragment[1], &[0, 22, 3, 3]), &mut random);
    assert!(matches!(
        step,
        Step::Failure {
            reason: Reason::EapInvalid,
            ..
        }
    ));
}

/// "The EAP-Response packet sent by the peer MAY encapsulate a TLS client_hello handshake message, in which case the
/// EAP server MAY allow the EAP-TLS conversation to be restarted" (RFC 5216, 2.1.3): this one does not.
#[test]
fn after_our_alert_there_is_only_failure() {
    let (mut conversation, identifier) = advanced(tls_settings(TlsVersion::V13), 0);
    let out_of_turn = [0x00, 0x17, 3, 3, 0, 1, 9];
    let Step::Send(alert) = conversation.step(&tls_response(identifier, &out_of_turn), &mut counting()) else {
        panic!("no alert")
    };
    assert_eq!(alert[5..8], [0x00, 0x15, 0x03]);
    assert_eq!(conversation.progress().phase, Phase::AlertSent);
    let mut peer = Peer::new(Arc::clone(&PEER));
    let peer::Step::Reply(hello) = peer.step(&build(Code::Request, alert[1], EapType::TLS, &[&[0x20]])) else {
        panic!("no hello")
    };
    let step = conversation.step(&hello, &mut counting());
    assert!(
        matches!(
            step,
            Step::Failure {
                reason: Reason::TlsFailed,
                ..
            }
        ),
        "{step:?}"
    );
}

#[test]
fn the_identifier_wraps() {
    let pki = Pki::shared(Key::P256);
    let mut random = |octets: &mut [u8]| octets.fill(254);
    let settings = settings(pki.tls_server(), TlsVersion::V13, 1_400);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Start, &mut random);
    let mut peer = Peer::new(Arc::clone(&PEER));
    let mut identifiers = Vec::new();
    loop {
        if let Step::Decide(_) = step {
            step = conversation.decide(Verdict::Accept);
        }
        let Step::Send(request) = &step else { break };
        identifiers.push(request[1]);
        let peer::Step::Reply(response) = peer.step(request) else {
            panic!("no reply")
        };
        step = conversation.step(&response, &mut random);
    }
    assert!(matches!(step, Step::Success { .. }), "{step:?}");
    assert_eq!(identifiers[..4], [255, 0, 1, 2]);
}
