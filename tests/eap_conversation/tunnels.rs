//! EAP-TTLS and PEAP with EAP-TLS inside: what succeeds, how far it has come, which method is offered to whom.

use std::sync::Arc;

use portreeve::eap::method::{EapType, Method, Methods};
use portreeve::eap::packet::{Code, EapPacket, build};
use portreeve::eap::peer::{self, ClientTls, Peer, PeerSettings};
use portreeve::eap::server::{Conversation, Credentials, Discard, FirstMessage, Offer, Phase, Settings, Step, Verdict};
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use rcgen::ExtendedKeyUsagePurpose;
use rustls_pki_types::CertificateDer;

use super::support::*;

pub const KINDS: [Kind; 2] = [Kind::Ttls, Kind::Peap];
pub const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

/// Both kinds in both versions.
fn each(run: impl Fn(Kind, TlsVersion)) {
    for kind in KINDS {
        for version in VERSIONS {
            run(kind, version);
        }
    }
}

fn method(kind: Kind) -> Method {
    match kind {
        Kind::Ttls => Method::Ttls,
        Kind::Peap => Method::Peap,
    }
}

/// Settings that offer the tunnel at once.
pub fn only(kind: Kind, version: TlsVersion, fragment_size: usize) -> Settings {
    Settings {
        methods: Methods::new(&[method(kind)]).unwrap(),
        ..settings(Pki::shared(Key::P256).tls_server(), version, fragment_size)
    }
}

#[test]
fn every_tunnel_version_and_fragment_size_succeeds_with_equal_keys() {
    for key in [Key::P256, Key::Rsa2048] {
        let pki = Pki::shared(key);
        each(|kind, version| {
            for size in [100, 200, 1_024, 4_000] {
                let mut shown = None;
                let (outcome, conversation, peer) = converse_with(
                    settings(pki.tls_server(), version, size),
                    tunnel_peer(pki, kind, size),
                    &mut |credentials| {
                        let Credentials::Certificate { chain, resumed: false } = credentials else {
                            panic!("{credentials:?}")
                        };
                        shown = Some(chain);
                        Verdict::Accept
                    },
                    &mut |_, _, packet| packet,
                );
                outcome.expect_keys();
                // what was shown inside, and who is named outside
                assert_eq!(shown.as_deref(), Some(&pki.client.chain[..]));
                assert_eq!(conversation.presented(), Some(&pki.client.chain[..]));
                assert_eq!(conversation.identity(), b"anonymous@example");
                assert_eq!(conversation.inner_identity(), b"laptop-7@example");
                assert_eq!(conversation.method(), Some(method(kind)));
                assert_eq!(conversation.tls_version(), Some(version));
                assert_eq!(conversation.cipher(), peer.cipher());
                assert!(
                    outcome.packets.iter().all(|(_, packet)| packet.len() <= size),
                    "{kind:?} {version} {size}"
                );
            }
        });
    }
}

/// With a Nak of EAP-TLS at the beginning.
#[test]
fn round_trips_are_counted() {
    let pki = Pki::shared(Key::P256);
    for (kind, version, rounds) in [
        (Kind::Ttls, TlsVersion::V12, 8),
        (Kind::Ttls, TlsVersion::V13, 8),
        (Kind::Peap, TlsVersion::V12, 10),
        (Kind::Peap, TlsVersion::V13, 9),
    ] {
        let outcome = converse(
            settings(pki.tls_server(), version, 1_400),
            tunnel_peer(pki, kind, 1_400),
        );
        outcome.expect_keys();
        assert_eq!(outcome.rounds, rounds, "{kind:?} {version}");
    }
}

/// "No outer client certificate": a supplicant that has one is not asked for it. In TLS 1.2 the request for one would be
/// there for all to see.
#[test]
fn the_outer_handshake_asks_for_no_certificate() {
    let pki = Pki::shared(Key::P256);
    for kind in KINDS {
        let outcome = converse(only(kind, TlsVersion::V12, 4_000), tunnel_peer(pki, kind, 4_000));
        outcome.expect_keys();
        let flight = &outcome.packets[3].1;
        assert_eq!((flight[4], flight[6]), (kind.eap_type().0, 0x16));
        // one record with a header of 5 octets, and in it messages behind a type and three octets of length
        let mut rest = &flight[11..];
        let mut messages = Vec::new();
        while let Some((&[message, l0, l1, l2], body)) = rest.split_first_chunk() {
            messages.push(message);
            let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
            rest = &body[length..];
        }
        // ServerHello, Certificate, ServerKeyExchange, ServerHelloDone
        assert_eq!(messages, [2, 11, 12, 14]);
    }
}

#[test]
fn the_decision_falls_before_any_success_inside() {
    let pki = Pki::shared(Key::P256);
    each(|kind, version| {
        let (mut conversation, mut supplicant, credentials) =
            until_decision(only(kind, version, 1_024), &tunnel_peer(pki, kind, 1_024));
        assert!(matches!(
            credentials,
            Some(Credentials::Certificate { resumed: false, .. })
        ));
        assert_eq!(conversation.progress().phase, Phase::Deciding);
        let step = conversation.step(&build(Code::Response, 0, kind.eap_type(), &[&[0]]), &mut counting());
        assert!(matches!(step, Step::Discard(Discard::NotAwaited)));
        // what has left by now is no success to anybody
        let early = supplicant.step(&[3, supplicant.rounds() as u8 + 41, 0, 4]);
        assert!(
            matches!(
                early,
                peer::Step::Violation(peer::Violation::SuccessEarly | peer::Violation::CommitmentMissing)
            ),
            "{kind:?} {version}: {early:?}"
        );
        assert!(matches!(conversation.decide(Verdict::Accept), Step::Send(_)));
    });
}

/// The alert comes inside; in PEAP the result says it again.
#[test]
fn a_refusal_by_policy_is_told_by_an_alert_inside() {
    let pki = Pki::shared(Key::P256);
    each(|kind, version| {
        let (outcome, conversation, _) = converse_with(
            only(kind, version, 1_024),
            tunnel_peer(pki, kind, 1_024),
            &mut |_| Verdict::Refuse(Reason::PolicyReject.into()),
            &mut |_, _, packet| packet,
        );
        assert_eq!(outcome.reason(), Some(Reason::PolicyReject), "{kind:?} {version}");
        let alert = peer::Failure::Alert("access_denied".to_owned());
        assert!(
            matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == alert),
            "{kind:?} {version}: {:?}",
            outcome.peer
        );
        assert_eq!(conversation.presented(), Some(&pki.client.chain[..]));
    });
}

#[test]
fn the_inner_certificate_is_refused_for_its_own_reason() {
    let pki = Pki::shared(Key::P256);
    let wrong = pki.issue(params("printer", ExtendedKeyUsagePurpose::ServerAuth));
    let stranger = Pki::named(Key::P256, "Another CA").client;
    let cases = [
        (Some(&wrong), Reason::CertificateWrongUsage, "unsupported_certificate"),
        (Some(&stranger), Reason::UnknownCa, "unknown_ca"),
        (None, Reason::NoCertificate, "certificate_required"),
    ];
    each(|kind, version| {
        for (identity, reason, alert) in cases {
            let tls = ClientTls {
                certificate: identity.map(certificate),
                ..client_tls(pki)
            };
            let peer = PeerSettings {
                tls: Some(tls.build().unwrap()),
                ..(*tunnel_peer(pki, kind, 1_024)).clone()
            };
            let (outcome, conversation, _) = converse_with(
                only(kind, version, 1_024),
                Arc::new(peer),
                &mut accept,
                &mut |_, _, packet| packet,
            );
            assert_eq!(outcome.reason(), Some(reason), "{kind:?} {version}");
            let presented: Option<&[CertificateDer<'_>]> = identity.map(|identity| &identity.chain[..]);
            assert_eq!(conversation.presented(), presented);
            let expected = peer::Failure::Alert(alert.to_owned());
            assert!(
                matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected),
                "{kind:?} {version} {reason}: {:?}",
                outcome.peer
            );
        }
    });
}

/// The outer handshake goes wrong: the supplicant does not know the CA.
#[test]
fn a_supplicant_that_does_not_trust_the_server() {
    let stranger = Pki::named(Key::P256, "Another CA");
    let pki = Pki::shared(Key::P256);
    each(|kind, version| {
        let outcome = converse(only(kind, version, 1_024), tunnel_peer(&stranger, kind, 1_024));
        assert_eq!(
            outcome.reason(),
            Some(Reason::ServerCertificateRefused),
            "{kind:?} {version}"
        );
        assert_eq!(
            outcome.detail(),
            Some("the supplicant sent the alert unknown_ca: it does not have the ca of our certificate")
        );
        // and inside, where it is told another CA
        let mut peer = (*tunnel_peer(pki, kind, 1_024)).clone();
        peer.tls = Some(client_tls(&stranger).build().unwrap());
        let outcome = converse(only(kind, version, 1_024), Arc::new(peer));
        assert_eq!(
            outcome.reason(),
            Some(Reason::ServerCertificateRefused),
            "{kind:?} {version}"
        );
    });
}

fn offered(methods: &[Method], offer: Offer) -> (Conversation, Vec<u8>) {
    let settings = Settings {
        methods: Methods::new(methods).unwrap(),
        offer,
        ..settings(Pki::shared(Key::P256).tls_server(), TlsVersion::V13, 1_024)
    };
    let identity = build(Code::Response, 9, EapType::IDENTITY, &[b"someone"]);
    let (conversation, step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut counting());
    let Step::Send(request) = step else { panic!("{step:?}") };
    (conversation, request)
}

/// The type of the next request after a Nak, or why there is none.
fn nak(conversation: &mut Conversation, request: &mut Vec<u8>, wanted: &[u8]) -> Result<EapType, String> {
    let nak = build(Code::Response, request[1], EapType::NAK, &[wanted]);
    match conversation.step(&nak, &mut counting()) {
        Step::Send(next) => {
            // a Start: flags, version 0, no data
            assert_eq!((next.len(), next[5]), (6, 0x20));
            *request = next;
            Ok(EapPacket::parse(request).unwrap().eap_type.unwrap())
        }
        Step::Failure {
            reason: Reason::MethodRefused,
            detail,
            ..
        } => Err(detail.unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_nak_leads_to_what_is_allowed_in_our_order_and_never_twice() {
    let all = [Method::Tls, Method::Ttls, Method::Peap];
    let (mut conversation, mut request) = offered(&all, Offer::Tls);
    assert_eq!(request[4], EapType::TLS.0);
    assert_eq!(nak(&mut conversation, &mut request, &[25, 21]), Ok(EapType::TTLS));
    assert_eq!(nak(&mut conversation, &mut request, &[13, 25]), Ok(EapType::PEAP));
    assert_eq!(conversation.method(), Some(Method::Peap));
    let refused = nak(&mut conversation, &mut request, &[21, 13]);
    assert_eq!(refused, Err("offered PEAP, wanted EAP-TTLS, EAP-TLS".to_owned()));

    let (mut conversation, mut request) = offered(&[Method::Peap, Method::Tls], Offer::Tls);
    assert_eq!(request[4..], [25, 0x20]);
    let refused = nak(&mut conversation, &mut request, &[21]);
    let detail = "offered PEAP, wanted EAP-TTLS, which is not among the methods allowed";
    assert_eq!(refused, Err(detail.to_owned()));

    let (mut conversation, mut request) = offered(&[Method::Tls], Offer::Md5ThenTls);
    assert_eq!(request[4], EapType::MD5.0);
    assert!(nak(&mut conversation, &mut request, &[25]).is_err());
    let (mut conversation, mut request) = offered(&all, Offer::Md5ThenTls);
    assert_eq!(nak(&mut conversation, &mut request, &[25, 26]), Ok(EapType::PEAP));
}

#[test]
fn progress_tells_where_a_tunnel_stopped() {
    let pki = Pki::shared(Key::Rsa2048);
    each(|kind, version| {
        let settings = Settings {
            tls: pki.tls_server(),
            ..only(kind, version, 500)
        };
        let mut peer = Peer::new(tunnel_peer(pki, kind, 600));
        let mut random = counting();
        let identity = peer.identity_response(0);
        let (mut conversation, mut step) =
            Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
        let mut seen = vec![conversation.progress()];
        while let Step::Send(request) = &step {
            let peer::Step::Reply(response) = peer.step(request) else {
                panic!("no reply")
            };
            step = conversation.step(&response, &mut random);
            if let Step::Decide(_) = step {
                step = conversation.decide(Verdict::Accept);
            }
            seen.push(conversation.progress());
        }
        let mut words: Vec<_> = seen.iter().map(|progress| progress.phase.word()).collect();
        words.dedup();
        let mut expected = vec!["tls-offered", "server-flight-sending", "tunnel-pending"];
        if kind == Kind::Ttls || version == TlsVersion::V12 {
            expected.push("inner-identity-pending");
        }
        if kind == Kind::Peap && version == TlsVersion::V13 {
            expected.push("inner-identity-pending");
        }
        expected.extend([
            "inner-tls-offered",
            "inner-server-flight-sending",
            "inner-certificate-pending",
            "inner-certificate-arriving",
            "finishing",
        ]);
        if kind == Kind::Peap {
            expected.push("result-pending");
        }
        expected.push("succeeded");
        assert_eq!(words, expected, "{kind:?} {version}");
        let cause = |phase| {
            let at = seen.iter().find(|progress| progress.phase == phase).unwrap();
            (at.reason(), at.likely_cause())
        };
        let (reason, text) = cause(Phase::InnerServerFlightSending);
        assert_eq!(reason, Reason::FragmentLost);
        assert!(text.starts_with("fragment 1 of "), "{text}");
        let (reason, text) = cause(Phase::TunnelPending);
        assert_eq!(reason, Reason::SupplicantStopped);
        assert!(text.contains("does not trust the server's certificate"), "{text}");
        let (_, text) = cause(Phase::InnerTlsOffered);
        assert!(text.contains("configured for eap-tls as its inner method"), "{text}");
    });
}

#[test]
fn another_version_of_the_tunnel_is_refused() {
    for kind in KINDS {
        let (mut conversation, request) = offered(&[method(kind)], Offer::Tls);
        let response = build(Code::Response, request[1], kind.eap_type(), &[&[0x01, 22, 3, 1]]);
        let Step::Failure { reason, detail, .. } = conversation.step(&response, &mut counting()) else {
            panic!("no failure")
        };
        assert_eq!(reason, Reason::MethodRefused);
        let detail = detail.unwrap();
        assert!(detail.starts_with("the supplicant speaks version 1 of "), "{detail}");
    }
}
