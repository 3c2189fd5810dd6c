//! What the supplicant finds wrong with servers: each violation is provoked, by a server that misbehaves or by what a
//! stranger on the wire could make of a good one's packets.

use std::io::Write;
use std::sync::Arc;

use portreeve::eap::method::EapType;
use portreeve::eap::packet::{Code, EapPacket, build, failure, success};
use portreeve::eap::peer::{ClientTls, Failure, Peer, PeerSettings, Step, Strictness, Violation};
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tunnel::Kind;
use portreeve::eap::tunnel::binding::Side;
use portreeve::eap::tunnel::peap::Extensions;
use rustls::server::ServerConnection;

use super::inside::{rogue_peap, rogue_server};
use super::support::*;

#[test]
fn every_violation_is_found() {
    for violation in Violation::ALL {
        let step = provoke(*violation);
        assert!(
            matches!(step, Step::Violation(found) if found == *violation),
            "{violation:?}: {step:?}"
        );
    }
}

/// What other servers do and no harm comes of: a tolerant supplicant goes on to the end.
#[test]
fn a_tolerant_supplicant_lives_with_the_harmless_ones() {
    for (size, tamper) in [
        (1_400, with_length_at(0) as fn(usize, Vec<u8>) -> Vec<u8>),
        (1_400, with_length_everywhere),
        (300, with_length_everywhere),
        (300, without_any_length),
        (300, with_reserved_flags),
    ] {
        let strict = tampered(TlsVersion::V13, Strictness::Strict, size, tamper);
        assert!(
            matches!(&strict, Step::Violation(violation) if violation.is_harmless()),
            "{strict:?}"
        );
        let tolerant = tampered(TlsVersion::V13, Strictness::Tolerant, size, tamper);
        assert!(matches!(tolerant, Step::Success { msk: Some(_) }), "{tolerant:?}");
    }
}

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut peer = Peer::new(tls_peer(Strictness::Strict));
    let start = build(Code::Request, 5, EapType::TLS, &[&[0x20]]);
    let (Step::Reply(first), Step::Reply(second)) = (peer.step(&start), peer.step(&start)) else {
        panic!("no reply")
    };
    assert_eq!(first, second);
    assert_eq!(peer.rounds(), 1);
}

#[test]
fn notifications_are_acknowledged_and_responses_ignored() {
    let mut peer = Peer::new(tls_peer(Strictness::Strict));
    let notification = build(Code::Request, 5, EapType::NOTIFICATION, &[b"hello"]);
    assert!(matches!(peer.step(&notification), Step::Reply(reply) if reply == [2, 5, 0, 5, 2]));
    assert!(matches!(
        peer.step(&build(Code::Response, 6, EapType::TLS, &[&[0]])),
        Step::Ignore
    ));
}

#[test]
fn nothing_is_answered_after_the_end() {
    let mut peer = Peer::new(tls_peer(Strictness::Strict));
    assert!(matches!(peer.step(&failure(3)), Step::Failure(Failure::Rejected)));
    assert!(matches!(
        peer.step(&build(Code::Request, 5, EapType::TLS, &[&[0x20]])),
        Step::Ignore
    ));
}

fn tls_peer(strictness: Strictness) -> Arc<PeerSettings> {
    let settings = peer_settings(client_tls(Pki::shared(Key::P256)), 1_400);
    Arc::new(PeerSettings {
        strictness,
        md5_password: Some(b"secret".to_vec().into()),
        ..(*settings).clone()
    })
}

/// What a strict supplicant says to these packets, the last answer.
fn told(packets: &[Vec<u8>]) -> Step {
    let mut peer = Peer::new(tls_peer(Strictness::Strict));
    packets.iter().map(|packet| peer.step(packet)).last().unwrap()
}

/// What a supplicant says in the end to our server's requests as `tamper` makes them, given their numbers.
fn tampered(
    version: TlsVersion,
    strictness: Strictness,
    size: usize,
    tamper: impl Fn(usize, Vec<u8>) -> Vec<u8>,
) -> Step {
    let pki = Pki::shared(Key::P256);
    let peer = peer_settings(client_tls(pki), size);
    let peer = Arc::new(PeerSettings {
        strictness,
        ..(*peer).clone()
    });
    let (outcome, ..) = converse_with(
        settings(pki.tls_server(), version, size),
        peer,
        &mut accept,
        &mut |way, number, packet| match way {
            Way::ToPeer => tamper(number, packet),
            Way::ToServer => packet,
        },
    );
    outcome.peer.unwrap_or_else(|| panic!("no end: {:?}", outcome.server))
}

fn strict(size: usize, tamper: impl Fn(usize, Vec<u8>) -> Vec<u8>) -> Step {
    tampered(TlsVersion::V13, Strictness::Strict, size, tamper)
}

fn request(identifier: u8, eap_type: EapType, data: &[u8]) -> Vec<u8> {
    build(Code::Request, identifier, eap_type, &[data])
}

/// The packet with other flags, and with or without a length.
fn reframed(packet: &[u8], flags: impl Fn(u8) -> u8, length: Option<u32>) -> Vec<u8> {
    let parsed = EapPacket::parse(packet).unwrap();
    let (old, mut rest) = parsed.data.split_first().unwrap();
    if old & 0x80 != 0 {
        rest = &rest[4..];
    }
    let length = length.map(u32::to_be_bytes);
    let parts = [
        &[flags(*old)][..],
        length.as_ref().map_or(&[], |length| &length[..]),
        rest,
    ];
    build(parsed.code, parsed.identifier, parsed.eap_type.unwrap(), &parts)
}

fn is_tls(packet: &[u8]) -> bool {
    packet.len() > 5 && packet[0] == 1 && packet[4] == 13
}

fn with_length_at(number: usize) -> fn(usize, Vec<u8>) -> Vec<u8> {
    assert_eq!(number, 0);
    |number, packet| {
        if number == 0 {
            reframed(&packet, |flags| flags | 0x80, Some(0))
        } else {
            packet
        }
    }
}

/// As servers do that are told to include the length always: in each fragment, the length of the whole.
fn with_length_everywhere(number: usize, packet: Vec<u8>) -> Vec<u8> {
    if number == 0 || !is_tls(&packet) || packet.len() == 6 || packet[5] & 0x80 != 0 {
        return packet;
    }
    let length = if packet[5] & 0x40 != 0 {
        900
    } else {
        packet.len() as u32 - 6
    };
    reframed(&packet, |flags| flags | 0x80, Some(length))
}

fn without_any_length(_: usize, packet: Vec<u8>) -> Vec<u8> {
    if is_tls(&packet) {
        reframed(&packet, |flags| flags & !0x80, None)
    } else {
        packet
    }
}

fn with_reserved_flags(number: usize, packet: Vec<u8>) -> Vec<u8> {
    if number == 1 && is_tls(&packet) {
        let length = u32::from_be_bytes([packet[6], packet[7], packet[8], packet[9]]);
        return reframed(&packet, |flags| flags | 0x01, Some(length));
    }
    packet
}

/// A server that does to the supplicant what the violation forbids. The match is exhaustive on purpose.
fn provoke(violation: Violation) -> Step {
    let start = request(5, EapType::TLS, &[0x20]);
    let challenge = [16; 17];
    match violation {
        Violation::Malformed => told(&[vec![1, 2, 3]]),
        Violation::IdentifierStood => told(&[start, request(5, EapType::TLS, &[0x00])]),
        Violation::ResultIdentifier => told(&[start, failure(6)]),
        Violation::ResultData => told(&[start, vec![4, 5, 0, 5, 0]]),
        Violation::SuccessEarly => told(&[start, success(5)]),
        Violation::NakRequested => told(&[request(5, EapType::NAK, &[13])]),
        Violation::IdentityAgain => told(&[start, request(6, EapType::IDENTITY, &[])]),
        Violation::MethodChanged => told(&[start, request(6, EapType::MD5, &challenge)]),
        Violation::Md5Malformed => told(&[request(5, EapType::MD5, &[0])]),
        Violation::Md5Again => told(&[
            request(5, EapType::MD5, &challenge),
            request(6, EapType::MD5, &challenge),
        ]),
        Violation::NoFlags => told(&[request(5, EapType::TLS, &[])]),
        Violation::NoStart => told(&[request(5, EapType::TLS, &[0x00])]),
        Violation::StartAgain => told(&[start, request(6, EapType::TLS, &[0x20])]),
        Violation::StartLength => told(&[request(5, EapType::TLS, &[0xa0, 0, 0, 0, 0])]),
        Violation::StartData => told(&[request(5, EapType::TLS, &[0x20, 1])]),
        Violation::ReservedFlags => strict(300, with_reserved_flags),
        Violation::LengthUnfragmented => strict(1_400, with_length_everywhere),
        Violation::LengthMissing => strict(300, without_any_length),
        Violation::LengthLater => strict(300, with_length_everywhere),
        Violation::Fragments => strict(300, |number, packet| match number {
            1 => reframed(&packet, |flags| flags, Some(301)),
            _ => packet,
        }),
        Violation::DataBeforeAcknowledgement => {
            // the supplicant's hello in fragments of 64, and data in place of the first acknowledgement
            let pki = Pki::shared(Key::P256);
            let mut peer = Peer::new(peer_settings(client_tls(pki), 64));
            peer.step(&start);
            peer.step(&request(6, EapType::TLS, &[0x00, 1, 2, 3]))
        }
        Violation::NothingSaid => told(&[start, request(6, EapType::TLS, &[0x00])]),
        Violation::ApplicationData => {
            let two = rogue(Trick::Says(&[0, 0]));
            let other = rogue(Trick::Says(&[1]));
            assert!(matches!(two, Step::Violation(Violation::ApplicationData)), "{two:?}");
            other
        }
        Violation::CommitmentEarly => rogue(Trick::Early),
        Violation::CommitmentMissing => rogue(Trick::Says(&[])),
        Violation::AfterCommitment => {
            let more = rogue(Trick::RequestAfter);
            assert!(matches!(more, Step::Violation(Violation::AfterCommitment)), "{more:?}");
            rogue(Trick::FailureAfter)
        }
        Violation::TunnelEarly => {
            let early = rogue_of(EapType::PEAP, Trick::Early);
            assert!(matches!(early, Step::Violation(Violation::TunnelEarly)), "{early:?}");
            rogue_of(EapType::TTLS, Trick::Early)
        }
        Violation::TunnelData => rogue_of(EapType::TTLS, Trick::Says(&[0, 0, 0, 79])),
        Violation::ResultMissing => rogue_peap(|_| None),
        Violation::BindingMissing => rogue_peap(|_| {
            Some(Extensions {
                succeeded: Some(true),
                binding: None,
            })
        }),
        Violation::BindingWrong => rogue_peap(|keys| {
            Some(Extensions {
                succeeded: Some(true),
                binding: Some(keys.tlv(Side::Response, &[0; 32])),
            })
        }),
        Violation::TlsAfterAlert => {
            let pki = Pki::shared(Key::P256);
            let peer = ClientTls {
                certificate: None,
                ..client_tls(pki)
            };
            let (outcome, ..) = converse_with(
                settings(pki.tls_server(), TlsVersion::V13, 1_400),
                peer_settings(peer, 1_400),
                &mut accept,
                // in place of the Failure
                &mut |way, _, packet| match (way, packet[0]) {
                    (Way::ToPeer, 4) => request(packet[1].wrapping_add(1), EapType::TLS, &[0x00, 1]),
                    _ => packet,
                },
            );
            outcome.peer.unwrap()
        }
    }
}

#[derive(Clone, Copy)]
enum Trick {
    /// This application data in place of 0x00, then Success.
    Says(&'static [u8]),
    /// 0x00 in the flight with the server's own Finished.
    Early,
    /// Another request after 0x00.
    RequestAfter,
    /// Failure after 0x00.
    FailureAfter,
}

/// A server of TLS 1.3 without fragments that plays a trick; the supplicant's last word.
fn rogue(trick: Trick) -> Step {
    rogue_of(EapType::TLS, trick)
}

/// The same, of another method.
fn rogue_of(eap_type: EapType, trick: Trick) -> Step {
    let mut tls = rogue_server(true);
    let mut peer = Peer::new(match eap_type {
        EapType::TTLS => tunnel_peer(Pki::shared(Key::P256), Kind::Ttls, 4_000),
        EapType::PEAP => tunnel_peer(Pki::shared(Key::P256), Kind::Peap, 4_000),
        _ => tls_peer(Strictness::Strict),
    });
    let mut identifier = 5;
    let mut say = |peer: &mut Peer, data: &[u8]| {
        identifier += 1;
        (peer.step(&request(identifier, eap_type, data)), identifier)
    };
    let (mut step, _) = say(&mut peer, &[0x20]);
    while tls.is_handshaking() {
        let Step::Reply(reply) = &step else { return step };
        tls.read_tls(&mut &reply[6..]).unwrap();
        tls.process_new_packets().unwrap();
        if !tls.is_handshaking() {
            break;
        }
        if let Trick::Early = trick {
            tls.writer().write_all(&[0]).unwrap();
        }
        (step, _) = say(&mut peer, &drained(&mut tls));
    }
    let octets: &[u8] = if let Trick::Says(octets) = trick { octets } else { &[0] };
    tls.writer().write_all(octets).unwrap();
    let records = drained(&mut tls);
    let (step, last) = if octets.is_empty() {
        (step, 7)
    } else {
        say(&mut peer, &records)
    };
    let Step::Reply(_) = step else { return step };
    match trick {
        Trick::RequestAfter => say(&mut peer, &[0x00]).0,
        Trick::FailureAfter => peer.step(&failure(last)),
        _ => peer.step(&success(last)),
    }
}

/// Flags and records.
fn drained(tls: &mut ServerConnection) -> Vec<u8> {
    let mut records = vec![0x00];
    while tls.wants_write() {
        tls.write_tls(&mut records).unwrap();
    }
    records
}
