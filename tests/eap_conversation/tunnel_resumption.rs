//! What is taken up again in tunnels where nothing else is configured: the EAP-TLS inside, and never the tunnel.

use std::sync::Arc;

use portreeve::eap::method::{EapType, Methods};
use portreeve::eap::peer::{self, PeerSettings, PeerTunnel, remembering};
use portreeve::eap::server::Settings;
use portreeve::eap::tls::ticket::Offered;
use portreeve::eap::tls::{TlsServer, TlsVersion};
use portreeve::eap::tunnel::Kind;
use rustls::HandshakeKind;

use super::inside::Inside;
use super::resumption::{Clock, HOUR, at, node, succeeds, the_decision_refuses_a_session};
use super::support::*;
use super::tunnels::{KINDS, VERSIONS, only};

pub fn each(run: impl Fn(Kind, TlsVersion)) {
    for kind in KINDS {
        for version in VERSIONS {
            run(kind, version);
        }
    }
}

/// The tunnel at once, at this node.
pub fn tunnel_at(node: &TlsServer, kind: Kind, version: TlsVersion) -> Settings {
    Settings {
        methods: only(kind, version, 1_024).methods,
        ..at(node, version)
    }
}

/// Breaks a tunnel off when it stands, and when the inner identity was said, and comes back: it is never taken up, and what it
/// may try it with is `offered` in vain.
pub fn what_was_broken_off_is_not_taken_up(
    pki: &Pki,
    node: &TlsServer,
    kind: Kind,
    version: TlsVersion,
    offered: Option<Offered>,
) {
    for words in 0..2 {
        let config = remembering(&client_tls(pki).build().unwrap(), 8);
        let settings = tunnel_at(node, kind, version);
        let mut inside = Inside::begin_with(settings.clone(), kind, config.clone());
        assert_eq!(inside.tls.handshake_kind(), Some(HandshakeKind::Full));
        inside.send();
        for _ in 0..words {
            inside.respond(EapType::IDENTITY, b"me", 0);
        }
        let again = Inside::begin_with(settings, kind, config);
        assert_eq!(
            again.tls.handshake_kind(),
            Some(HandshakeKind::Full),
            "{kind:?} {version}"
        );
        assert_eq!(again.conversation.ticket(), offered, "{kind:?} {version}");
    }
}

/// A device that remembers the sessions of its tunnel and of the EAP-TLS inside.
fn device(kind: Kind, clock: &Clock) -> Arc<PeerSettings> {
    let tls = || {
        let tls = peer::ClientTls {
            time: Arc::new(clock.clone()),
            ..client_tls(Pki::shared(Key::P256))
        };
        remembering(&tls.build().unwrap(), 8)
    };
    Arc::new(PeerSettings {
        tls: Some(tls()),
        tunnel: Some(PeerTunnel {
            kind,
            tls: tls(),
            identity: b"laptop-7".to_vec(),
        }),
        ..(*peer_settings(client_tls(Pki::shared(Key::P256)), 1_400)).clone()
    })
}

#[test]
fn the_eap_tls_inside_is_taken_up_at_any_node_with_the_same_chain_and_new_keys() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let (one, other) = (node(pki, &clock), node(pki, &clock));
    each(|kind, version| {
        let device = device(kind, &clock);
        let (full, conversation, shown) = succeeds(tunnel_at(&one, kind, version), &device);
        assert!(!conversation.resumed());
        for _ in 0..3 {
            clock.advance(HOUR);
            let (resumed, conversation, shown_again) = succeeds(tunnel_at(&other, kind, version), &device);
            assert!(conversation.resumed(), "{kind:?} {version}");
            assert_eq!(conversation.ticket(), Some(Offered::Resumed));
            assert_eq!(shown_again, shown);
            assert_eq!(conversation.presented(), Some(&shown[..]));
            assert_ne!(resumed.expect_keys(), full.expect_keys());
            assert!(resumed.rounds <= full.rounds, "{} {}", resumed.rounds, full.rounds);
        }
    });
}

/// "A TTLS server MUST NOT permit a session to be resumed if that session did not result in a successful authentication of
/// the user during phase 2. The consequence of incorrectly implementing this ... would be catastrophic" (RFC 5281, 7.5).
#[test]
fn a_tunnel_is_never_taken_up() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    each(|kind, version| {
        // there is nothing to try it with
        what_was_broken_off_is_not_taken_up(pki, &node, kind, version, None);
        // nor after a success
        let device = device(kind, &clock);
        succeeds(tunnel_at(&node, kind, version), &device);
        let config = device.tunnel.as_ref().unwrap().tls.clone();
        let again = Inside::begin_with(tunnel_at(&node, kind, version), kind, config);
        assert_eq!(
            again.tls.handshake_kind(),
            Some(HandshakeKind::Full),
            "{kind:?} {version}"
        );
    });
}

/// What was given inside a tunnel is of no use without one or in the other, nor what was given for EAP-TLS inside a tunnel.
#[test]
fn a_session_is_of_no_use_to_another_method() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    let methods = [None, Some(Kind::Ttls), Some(Kind::Peap)];
    for version in VERSIONS {
        for first in methods {
            for second in methods {
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
                            tls: client_tls(pki).build().unwrap(),
                            identity: b"laptop-7".to_vec(),
                        }),
                        ..(*peer_settings(client_tls(pki), 1_400)).clone()
                    };
                    succeeds(settings, &Arc::new(device)).1
                };
                by(first);
                let conversation = by(second);
                assert_eq!(
                    conversation.resumed(),
                    first == second,
                    "{first:?} {second:?} {version}"
                );
                let offered = if first == second {
                    Offered::Resumed
                } else {
                    Offered::Unusable
                };
                assert_eq!(conversation.ticket(), Some(offered), "{first:?} {second:?} {version}");
            }
        }
    }
}

/// The decision is made anew, and falls before any success; in TLS 1.2 our inner Finished has left by then, and with it the
/// last chance of an alert.
#[test]
fn a_session_taken_up_inside_is_refused_by_the_decision_like_any_other() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    each(|kind, version| {
        let device = device(kind, &clock);
        succeeds(tunnel_at(&node, kind, version), &device);
        let expected = match version {
            TlsVersion::V12 => peer::Failure::Rejected,
            TlsVersion::V13 => peer::Failure::Alert("access_denied".to_owned()),
        };
        the_decision_refuses_a_session(tunnel_at(&node, kind, version), &device, &expected);
    });
}
