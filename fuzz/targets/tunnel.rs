//! What is said inside a tunnel, to either end, named by the first octet: `t`, AVPs of EAP-TTLS; `p`, an inner packet of PEAP;
//! `x`, its TLVs.

use portreeve::eap::method::EapType;
use portreeve::eap::packet::{Code, EapPacket, build};
use portreeve::eap::tunnel::binding::TLV_OCTETS;
use portreeve::eap::tunnel::peap::{self, EXTENSIONS, Extensions};
use portreeve::eap::tunnel::ttls::{self, avps};

pub fn fuzz(data: &[u8]) {
    match data.split_first() {
        Some((b't', rest)) => ttls(rest),
        Some((b'p', rest)) => peap(rest),
        Some((b'x', rest)) => extensions(rest),
        _ => {}
    }
}

/// AVPs lie behind each other in what was said, an error is the last of them, and what is put together is what lay there.
fn ttls(octets: &[u8]) {
    let mut value_octets = 0;
    let mut failed = false;
    for avp in avps(octets) {
        assert!(!failed, "nothing follows an error");
        match avp {
            Ok(avp) => value_octets += 8 + avp.data.len(),
            Err(_) => failed = true,
        }
    }
    assert!(value_octets <= octets.len());
    match ttls::eap_packet(octets) {
        Ok(packet) => {
            assert!(!failed && packet.len() <= octets.len());
            let again = ttls::message(&packet);
            assert_eq!(ttls::eap_packet(&again).ok().as_deref(), Some(&*packet));
        }
        Err(refused) => assert!(refused.detail.is_some_and(|detail| detail.len() < 200)),
    }
}

/// With its header or without, a packet is the same.
fn peap(octets: &[u8]) {
    for code in [Code::Request, Code::Response] {
        let Some((eap_type, data)) = peap::inside(code, octets) else {
            assert!(octets.is_empty());
            continue;
        };
        assert!(data.len() < octets.len());
        let whole = build(code, 9, eap_type, &[data]);
        if EapPacket::parse(&whole).is_ok_and(|packet| packet.data == data) {
            assert_eq!(peap::inside(code, &whole), Some((eap_type, data)));
        }
    }
}

/// What is understood reads back.
fn extensions(data: &[u8]) {
    let Ok(read) = Extensions::parse(data) else { return };
    let packet = read.packet(Code::Response, 1);
    assert!(packet.len() <= 5 + 6 + TLV_OCTETS);
    let Some((EXTENSIONS, data)) = peap::inside(Code::Response, &packet) else {
        panic!("{packet:02x?}")
    };
    assert_eq!(Extensions::parse(data), Ok(read));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let identity = build(Code::Response, 0, EapType::IDENTITY, &[b"me"]);
    let result = Extensions {
        succeeded: Some(true),
        binding: Some(std::array::from_fn(|index| match index {
            1 => 0x0c,
            3 => 0x38,
            _ => index as u8,
        })),
    };
    let result = result.packet(Code::Request, 7);
    let password = [
        &[0, 0, 0, 1, 0x40, 0, 0, 10, b'm', b'e', 0, 0][..],
        &[0, 0, 0, 2, 0x40, 0, 0, 16, b's', b'e', b'c', b'r', b'e', b't', 0, 0],
    ]
    .concat();
    let vendor = [0, 0, 0, 25, 0xc0, 0, 0, 13, 0, 0, 1, 55, 1, 0, 0, 0];
    [
        (b't', ttls::message(&identity)),
        (b't', [ttls::message(&identity), ttls::message(&[1, 2, 3])].concat()),
        (b't', password),
        (b't', vendor.to_vec()),
        (b'p', peap::compressed(&identity).to_vec()),
        (b'p', identity),
        (b'p', result.clone()),
        (b'x', result.get(5..).unwrap_or_default().to_vec()),
        (b'x', vec![0x80, 3, 0, 2, 0, 2]),
    ]
    .into_iter()
    .map(|(kind, octets)| [&[kind], &octets[..]].concat())
    .collect()
}
