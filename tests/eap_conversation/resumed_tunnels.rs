//! Tunnels that are taken up again, where that is configured: what that proves, and what it must not.

use std::sync::Arc;

use portreeve::eap::method::{EapType, Methods};
use portreeve::eap::packet::{Code, build};
use portreeve::eap::peer::{self, PeerSettings, PeerTunnel, remembering};
use portreeve::eap::server::{Settings, Verdict};
use portreeve::eap::tls::ticket::{Offered, Scope, Tickets, TunnelSessions};
use portreeve::eap::tls::{TlsServer, TlsVersion};
use portreeve::eap::tunnel::{Kind, ttls};
use portreeve::reason::Reason;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::HandshakeKind;

use super::inside::Inside;
use super::resumption::{self, Clock, HOUR, at, keys, succeeds, the_decision_refuses_a_session};
use super::support::*;
use super::tunnel_resumption::{each, tunnel_at, what_was_broken_off_is_not_taken_up};
use super::tunnels::{VERSIONS, only};

/// A node of a fleet that shares one secret, and keeps the sessions of its own tunnels.
fn node(pki: &Pki, clock: &Clock) -> TlsServer {
    node_with(pki, clock, "fleet", pki, &Arc::default())
}

/// A node that shares this secret, lets in the clients of `authority`, and keeps the sessions of its tunnels here.
fn node_with(pki: &Pki, clock: &Clock, secret: &str, authority: &Pki, tunnels: &Arc<TunnelSessions>) -> TlsServer {
    let authority = authority.authority();
    let tickets = Tickets::new(keys(secret), 12 * HOUR, "default", [(&*authority, true)]);
    TlsServer {
        tickets: Some(Arc::new(tickets.with_tunnels(Arc::clone(tunnels)))),
        ..resumption::node(pki, clock)
    }
}

/// A device that remembers the sessions of its tunnel, and none of the EAP-TLS inside. Its own clock stands still.
fn device(kind: Kind, certificate: peer::ClientTls) -> Arc<PeerSettings> {
    let pki = Pki::shared(Key::P256);
    let settings = tunnel_peer(pki, kind, 1_400);
    let inner = certificate.build().unwrap();
    Arc::new(PeerSettings {
        tls: Some(inner),
        tunnel: settings.tunnel.clone().map(|tunnel| PeerTunnel {
            tls: remembering(&tunnel.tls, 8),
            ..tunnel
        }),
        ..(*settings).clone()
    })
}

/// The same, which remembers the sessions inside too.
fn remembering_inside(device: &PeerSettings) -> Arc<PeerSettings> {
    Arc::new(PeerSettings {
        tls: device.tls.as_ref().map(|tls| remembering(tls, 8)),
        ..device.clone()
    })
}

#[test]
fn a_tunnel_is_taken_up_again_with_the_chain_that_was_shown_inside_and_new_keys() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    each(|kind, version| {
        let device = device(kind, client_tls(pki));
        let (full, conversation, shown) = succeeds(tunnel_at(&node, kind, version), &device);
        assert!(!conversation.resumed());
        for _ in 0..3 {
            let (resumed, conversation, shown_again) = succeeds(tunnel_at(&node, kind, version), &device);
            assert!(conversation.resumed(), "{kind:?} {version}");
            assert_eq!(conversation.ticket(), Some(Offered::Resumed));
            assert_eq!(shown_again, shown);
            assert_eq!(conversation.presented(), Some(&shown[..]));
            assert_eq!(conversation.inner_identity(), b"laptop-7@example");
            assert_ne!(resumed.expect_keys(), full.expect_keys());
            let rounds = match (kind, version) {
                (Kind::Ttls, TlsVersion::V12) => 3,
                (Kind::Ttls, TlsVersion::V13) | (Kind::Peap, _) => 4,
            };
            assert_eq!(resumed.rounds, rounds, "{kind:?} {version}");
        }
    });
}

/// The node that keeps the session is another one: there the tunnel is new, and the EAP-TLS inside goes on.
#[test]
fn at_another_node_the_eap_tls_inside_is_taken_up() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let (one, other) = (node(pki, &clock), node(pki, &clock));
    each(|kind, version| {
        let device = remembering_inside(&device(kind, client_tls(pki)));
        let (_, _, shown) = succeeds(tunnel_at(&one, kind, version), &device);
        let (outcome, conversation, shown_again) = succeeds(tunnel_at(&other, kind, version), &device);
        assert!(conversation.resumed() && outcome.rounds > 4, "{kind:?} {version}");
        assert_eq!(shown_again, shown);
        // and from there on the tunnel
        let (outcome, conversation, _) = succeeds(tunnel_at(&other, kind, version), &device);
        assert!(conversation.resumed() && outcome.rounds <= 4, "{kind:?} {version}");
    });
}

/// "A TTLS server MUST NOT permit a session to be resumed if that session did not result in a successful authentication of
/// the user during phase 2. The consequence of incorrectly implementing this ... would be catastrophic" (RFC 5281, 7.5).
#[test]
fn a_tunnel_in_which_nobody_was_let_in_is_never_taken_up() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    each(|kind, version| {
        what_was_broken_off_is_not_taken_up(pki, &node, kind, version, Some(Offered::Unusable));
        // refused by the policies; and then by the certificate
        let device = device(kind, client_tls(pki));
        for _ in 0..2 {
            let refuse = &mut |_| Verdict::Refuse(Reason::PolicyReject.into());
            let (outcome, conversation, _) = converse_with(
                tunnel_at(&node, kind, version),
                device.clone(),
                refuse,
                &mut |_, _, packet| packet,
            );
            assert_eq!(outcome.reason(), Some(Reason::PolicyReject));
            assert!(!conversation.resumed(), "{kind:?} {version}");
        }
    });
}

/// What was given for a tunnel is of no use to another method, nor what was given for EAP-TLS to a tunnel.
#[test]
fn a_session_is_of_no_use_to_another_method() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    let methods = [None, Some(Kind::Ttls), Some(Kind::Peap)];
    for version in VERSIONS {
        for first in methods {
            for second in methods.into_iter().filter(|second| *second != first) {
                // one memory for everything that the device does
                let tls = remembering(&client_tls(pki).build().unwrap(), 8);
                let by = |kind: Option<Kind>| {
                    let settings = Settings {
                        methods: kind.map_or(Methods::TLS, |kind| only(kind, version, 1_024).methods),
                        ..at(&node, version)
                    };
                    let device = PeerSettings {
                        tls: Some(tls.clone()),
                        tunnel: kind.map(|kind| PeerTunnel {
                            kind,
                            tls: tls.clone(),
                            identity: b"laptop-7".to_vec(),
                        }),
                        ..(*peer_settings(client_tls(pki), 1_400)).clone()
                    };
                    succeeds(settings, &Arc::new(device)).1
                };
                by(first);
                let conversation = by(second);
                assert!(!conversation.resumed(), "{first:?} {second:?} {version}");
            }
        }
    }
}

#[test]
fn a_tunnel_is_not_taken_up_elsewhere_later_or_for_a_certificate_that_has_ended() {
    let pki = Pki::shared(Key::P256);
    let noon = rcgen::date_time_ymd(2030, 1, 1) + 12 * HOUR;
    let mut params = params("laptop-7", ExtendedKeyUsagePurpose::ClientAuth);
    params.not_after = noon + 6 * HOUR;
    let short = pki.issue(params);
    type Change = fn(&mut Settings, &Clock);
    let unchanged: Change = |_, _| ();
    let other = Pki::named(Key::P256, "Another CA");
    let cases: [(&str, &str, &Pki, Change, Offered); 6] = [
        ("as it was", "fleet", pki, unchanged, Offered::Resumed),
        (
            "another site",
            "fleet",
            pki,
            |settings, _| settings.scope = Scope::at(2),
            Offered::Unusable,
        ),
        ("other client CAs", "fleet", &other, unchanged, Offered::Unusable),
        ("other secrets", "another", pki, unchanged, Offered::Unusable),
        (
            "too late",
            "fleet",
            pki,
            |_, clock| clock.advance(12 * HOUR),
            Offered::Expired,
        ),
        (
            "no more good",
            "fleet",
            pki,
            |_, clock| clock.advance(7 * HOUR),
            Offered::Refused,
        ),
    ];
    for (name, secret, authority, change, offered) in cases {
        each(|kind, version| {
            let (clock, tunnels) = (Clock::default(), Arc::default());
            let certificate = match name {
                "no more good" => certificate(&short),
                _ => certificate(&pki.client),
            };
            let device = device(
                kind,
                peer::ClientTls {
                    certificate: Some(certificate),
                    ..client_tls(pki)
                },
            );
            let before = node_with(pki, &clock, "fleet", pki, &tunnels);
            succeeds(tunnel_at(&before, kind, version), &device);
            // the same sessions, looked at by who is to judge them now
            let now = node_with(pki, &clock, secret, authority, &tunnels);
            let mut settings = tunnel_at(&now, kind, version);
            change(&mut settings, &clock);
            let (outcome, conversation, _) = converse_with(settings, device, &mut accept, &mut |_, _, packet| packet);
            assert_eq!(conversation.ticket(), Some(offered), "{name} {kind:?} {version}");
            assert_eq!(
                conversation.resumed(),
                offered == Offered::Resumed,
                "{name} {kind:?} {version}"
            );
            match name {
                "no more good" => assert_eq!(outcome.reason(), Some(Reason::CertificateExpired)),
                _ => drop(outcome.expect_keys()),
            }
        });
    }
}

/// Where tunnels are no longer resumed the EAP-TLS inside still is; and nowhere at all where nothing is.
#[test]
fn a_tunnel_is_not_taken_up_any_more_where_that_is_turned_off() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    each(|kind, version| {
        for tickets in [None, resumption::node(pki, &clock).tickets] {
            let device = remembering_inside(&device(kind, client_tls(pki)));
            let node = node(pki, &clock);
            succeeds(tunnel_at(&node, kind, version), &device);
            let inside = tickets.is_some();
            let off = TlsServer { tickets, ..node };
            let (outcome, conversation, _) = succeeds(tunnel_at(&off, kind, version), &device);
            assert_eq!(conversation.resumed(), inside, "{kind:?} {version}");
            assert!(outcome.rounds > 4, "{kind:?} {version}");
        }
    });
}

#[test]
fn taking_it_up_does_not_make_it_younger() {
    let pki = Pki::shared(Key::P256);
    each(|kind, version| {
        let clock = Clock::default();
        let device = device(kind, client_tls(pki));
        let node = node(pki, &clock);
        succeeds(tunnel_at(&node, kind, version), &device);
        for hours in 1..=12 {
            clock.advance(HOUR);
            let (_, conversation, _) = succeeds(tunnel_at(&node, kind, version), &device);
            assert_eq!(conversation.resumed(), hours < 12, "{kind:?} {version}, {hours} hours");
        }
    });
}

/// By PEAP's result; in EAP-TTLS by an alert, but for TLS 1.2, where our Finished has left by then.
#[test]
fn a_tunnel_that_was_taken_up_is_refused_by_the_decision_like_any_other() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    each(|kind, version| {
        let device = device(kind, client_tls(pki));
        succeeds(tunnel_at(&node, kind, version), &device);
        let expected = match (kind, version) {
            (Kind::Ttls, TlsVersion::V13) => peer::Failure::Alert("access_denied".to_owned()),
            _ => peer::Failure::Rejected,
        };
        the_decision_refuses_a_session(tunnel_at(&node, kind, version), &device, &expected);
    });
}

/// A supplicant that begins inside, though it need not: "then that method MUST be followed" (RFC 9427, 4).
#[test]
fn who_begins_inside_a_tunnel_that_was_taken_up_has_to_go_through() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    for version in VERSIONS {
        let device = device(Kind::Ttls, client_tls(pki));
        succeeds(tunnel_at(&node, Kind::Ttls, version), &device);
        let config = device.tunnel.as_ref().unwrap().tls.clone();
        let mut inside = Inside::begin_with(tunnel_at(&node, Kind::Ttls, version), Kind::Ttls, config);
        assert_eq!(inside.tls.handshake_kind(), Some(HandshakeKind::Resumed));
        let identity = build(Code::Response, 3, EapType::IDENTITY, &[b"me"]);
        let said = inside.say(&ttls::message(&identity)).said();
        assert_eq!(
            ttls::eap_packet(&said).unwrap()[..],
            [1, 4, 0, 6, 13, 0x20],
            "{version}"
        );
    }
}
