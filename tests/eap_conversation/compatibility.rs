//! Supplicants that do what the RFCs do not ask for, or not quite, and get in all the same: in EAP-TLS and in the tunnels.

use std::sync::Arc;

use portreeve::eap::method::EapType;
use portreeve::eap::packet::{Code, EapPacket, build};
use portreeve::eap::peer::{self, ClientTls, Peer, PeerSettings};
use portreeve::eap::server::{Conversation, FirstMessage, Settings, Step, Verdict};
use rustls::ClientConnection;
use rustls_pki_types::ServerName;

use super::inside::{drained, taken};
use super::support::*;
use super::tunnels::{KINDS, VERSIONS, only};

/// EAP-TLS and both tunnels, in both versions, with a supplicant that cuts messages to this size.
fn each(fragment_size: usize, run: impl Fn(Settings, Arc<PeerSettings>)) {
    let pki = Pki::shared(Key::P256);
    for version in VERSIONS {
        run(
            settings(pki.tls_server(), version, 1_024),
            peer_settings(client_tls(pki), fragment_size),
        );
        for kind in KINDS {
            run(only(kind, version, 1_024), tunnel_peer(pki, kind, fragment_size));
        }
    }
}

/// A conversation in which the supplicant says `before` ahead of some of its own responses, each answered like any other.
fn converse_saying(settings: Settings, peer: Arc<PeerSettings>, before: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let mut peer = Peer::new(peer);
    let mut random = counting();
    let identity = peer.identity_response(0);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let (mut said, mut last) = (0, 0);
    let ours = loop {
        step = match step {
            Step::Send(request) => {
                let peer::Step::Reply(mut response) = peer.step(&request) else {
                    panic!("no reply")
                };
                last = request[1];
                for mut extra in before(&response) {
                    extra[1] = response[1];
                    let Step::Send(acknowledgement) = conversation.step(&extra, &mut random) else {
                        panic!("refused: {extra:?}")
                    };
                    // empty, of the same type
                    assert_eq!(acknowledgement[4..], [response[4], 0]);
                    response[1] = acknowledgement[1];
                    said += 1;
                }
                conversation.step(&response, &mut random)
            }
            Step::Decide(_) => conversation.decide(Verdict::Accept),
            Step::Success { mut eap, msk } => {
                // the supplicant knows nothing of what was said for it
                eap[1] = last;
                let peer::Step::Success { msk: theirs } = peer.step(&eap) else {
                    panic!("no success")
                };
                break (msk, theirs);
            }
            other => panic!("{other:?}"),
        };
    };
    assert!(said > 0 && ours.0.is_some());
    assert_eq!(ours.0, ours.1);
}

fn is_tls(packet: &[u8]) -> bool {
    matches!(packet.get(4), Some(13 | 21 | 25))
}

#[test]
fn a_length_in_every_fragment() {
    for size in [200, 1_400] {
        each(size, |settings, peer| {
            let mut announced = 0;
            let mut lengths = 0;
            let (outcome, ..) = converse_with(settings, peer, &mut accept, &mut |way, _, packet| {
                if way == Way::ToPeer || !is_tls(&packet) || packet.len() <= 6 {
                    return packet;
                }
                let EapPacket {
                    identifier,
                    eap_type,
                    data,
                    ..
                } = EapPacket::parse(&packet).unwrap();
                let (flags, rest) = (data[0], &data[1..]);
                let records = match flags & 0x80 {
                    0 if flags & 0x40 == 0 && announced == 0 => {
                        announced = rest.len() as u32;
                        rest
                    }
                    0 => rest,
                    _ => {
                        announced = u32::from_be_bytes(rest[..4].try_into().unwrap());
                        &rest[4..]
                    }
                };
                let length = announced.to_be_bytes();
                if flags & 0x40 == 0 {
                    announced = 0;
                }
                lengths += 1;
                build(
                    Code::Response,
                    identifier,
                    eap_type.unwrap(),
                    &[&[flags | 0x80], &length, records],
                )
            });
            outcome.expect_keys();
            assert!(lengths >= 2);
        });
    }
}

#[test]
fn an_empty_first_fragment() {
    each(1_400, |settings, peer| {
        converse_saying(settings, peer, |response| {
            let EapPacket { eap_type, data, .. } = EapPacket::parse(response).unwrap();
            if !is_tls(response) || data.len() < 2 || data[0] != 0 {
                return vec![];
            }
            let length = (data.len() as u32 - 1).to_be_bytes();
            vec![build(Code::Response, 0, eap_type.unwrap(), &[&[0xc0], &length])]
        });
    });
}

#[test]
fn an_acknowledgement_that_nobody_needs() {
    each(1_400, |settings, peer| {
        let is_first = std::cell::Cell::new(true);
        converse_saying(settings, peer, |response| {
            let EapPacket { eap_type, data, .. } = EapPacket::parse(response).unwrap();
            // the ClientHello, which nothing stands between
            if !is_tls(response) || data.len() < 2 || !is_first.replace(false) {
                return vec![];
            }
            vec![build(Code::Response, 0, eap_type.unwrap(), &[&[0x00]])]
        });
    });
}

/// EAP-TLS by hand: what rustls says, and how it is put into packets.
pub struct ByHand {
    pub tls: ClientConnection,
    pub conversation: Conversation,
    pub identifier: u8,
}

impl ByHand {
    pub fn begin(settings: Settings, tls: ClientTls) -> ByHand {
        let identity = build(Code::Response, 7, EapType::IDENTITY, &[b"anonymous"]);
        let (conversation, step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut counting());
        let Step::Send(start) = step else { panic!("{step:?}") };
        let mut config = (*tls.build().unwrap()).clone();
        config.enable_secret_extraction = true;
        ByHand {
            tls: ClientConnection::new(Arc::new(config), ServerName::try_from("radius.example").unwrap()).unwrap(),
            conversation,
            identifier: start[1],
        }
    }

    /// To the end of the handshake: only its acknowledgement is missing.
    pub fn finish(&mut self) {
        loop {
            let records = drained(&mut self.tls);
            if records.is_empty() {
                break;
            }
            assert!(!self.respond(0, &records));
        }
        assert!(!self.tls.is_handshaking());
    }

    /// One response; true when that was all.
    fn respond(&mut self, flags: u8, records: &[u8]) -> bool {
        let response = build(Code::Response, self.identifier, EapType::TLS, &[&[flags], records]);
        let mut step = self.conversation.step(&response, &mut counting());
        if let Step::Decide(_) = step {
            step = self.conversation.decide(Verdict::Accept);
        }
        match step {
            Step::Send(request) => {
                self.identifier = request[1];
                taken(&mut self.tls, &request[6..]);
                false
            }
            Step::Success { msk, .. } => msk.is_some(),
            other => panic!("{other:?}"),
        }
    }
}

/// In place of the acknowledgement, or with nothing left to say.
#[test]
fn close_notify_at_the_end() {
    let pki = Pki::shared(Key::P256);
    for version in VERSIONS {
        let mut supplicant = ByHand::begin(settings(pki.tls_server(), version, 4_000), client_tls(pki));
        supplicant.finish();
        supplicant.tls.send_close_notify();
        let goodbye = drained(&mut supplicant.tls);
        assert!(supplicant.respond(0, &goodbye), "{version}");
    }
}

/// Packets of 4,096 octets, which fill a RADIUS packet and more.
#[test]
fn packets_of_4096_octets() {
    let pki = Pki::shared(Key::Rsa2048);
    for version in VERSIONS {
        // a chain with a few certificates that nobody needs
        let mut certificate = certificate(&pki.client);
        let spare = pki.server.chain[0].clone();
        certificate.chain.extend(std::iter::repeat_n(spare, 5));
        let tls = ClientTls {
            certificate: Some(certificate),
            ..client_tls(pki)
        };
        let mut supplicant = ByHand::begin(settings(pki.tls_server(), version, 4_000), tls);
        let mut largest = 0;
        let succeeded = loop {
            let records = drained(&mut supplicant.tls);
            let mut pieces: Vec<&[u8]> = records.chunks(4_096 - 6).collect();
            let last = pieces.pop().unwrap_or_default();
            for piece in pieces {
                largest = largest.max(piece.len() + 6);
                assert!(!supplicant.respond(0x40, piece));
            }
            if supplicant.respond(0, last) {
                break true;
            }
        };
        assert!(succeeded);
        assert_eq!(largest, 4_096, "{version}");
    }
}
