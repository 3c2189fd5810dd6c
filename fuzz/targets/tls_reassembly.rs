//! Fragments of TLS messages, both ways: what arrives is never held beyond its bound, and what is cut is put together again.

use portreeve::eap::method::EapType;
use portreeve::eap::packet::{Code, EapPacket};
use portreeve::eap::tls::flags::TlsData;
use portreeve::eap::tls::fragments::{
    FRAGMENT_OCTETS_MAX, FRAGMENT_OCTETS_MIN, Incoming, MESSAGE_OCTETS_MAX, Outgoing, Received,
};

pub fn fuzz(data: &[u8]) {
    let Some((&[kind, high, low], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    match kind {
        b'o' => outgoing(rest, usize::from(u16::from_be_bytes([high, low]))),
        _ => incoming(data),
    }
}

/// Records of a length in two octets and the data of an EAP-TLS packet. The high bit of the length repeats it 64 times, so
/// that the bound is within reach.
fn incoming(mut data: &[u8]) {
    let mut incoming = Incoming::default();
    let mut sent = Vec::new();
    while let Some((&[high, low], rest)) = data.split_first_chunk::<2>() {
        let repeat = if high & 0x80 == 0 { 1 } else { 64 };
        let length = usize::from(u16::from_be_bytes([high & 0x7F, low])).min(rest.len());
        let (record, rest) = rest.split_at(length);
        data = rest;
        for _ in 0..repeat {
            let Some(fragment) = TlsData::parse(record) else { break };
            sent.extend_from_slice(fragment.data);
            match incoming.push(fragment) {
                Ok(Received::More) => {
                    let (_, octets) = incoming.pending().unwrap_or_default();
                    assert_eq!(octets, sent.len());
                    assert!(octets <= MESSAGE_OCTETS_MAX);
                }
                Ok(Received::Complete(message)) => {
                    assert_eq!(&*message, &*sent);
                    assert!(message.len() <= MESSAGE_OCTETS_MAX);
                    sent.clear();
                    assert_eq!(incoming.pending(), None);
                }
                // the conversation ends here
                Err(_) => return,
            }
        }
    }
}

fn outgoing(message: &[u8], packet_octets: usize) {
    let mut outgoing = Outgoing::new(message.to_vec(), packet_octets);
    let mut incoming = Incoming::default();
    let bound = packet_octets.clamp(FRAGMENT_OCTETS_MIN, FRAGMENT_OCTETS_MAX);
    let (_, expected) = outgoing.count();
    for identifier in 0..=u16::MAX {
        let packet = outgoing.packet(Code::Request, identifier as u8, EapType::TLS);
        assert!(packet.len() <= bound, "{} octets, {bound} allowed", packet.len());
        let parsed = EapPacket::parse(&packet);
        let Some(fragment) = parsed.ok().and_then(|packet| TlsData::parse(packet.data)) else {
            panic!("{packet:02x?}");
        };
        assert_eq!(fragment.more(), outgoing.is_pending());
        assert_eq!(fragment.announced.is_some(), identifier == 0 && fragment.more());
        match incoming.push(fragment) {
            Ok(Received::More) => {}
            Ok(Received::Complete(whole)) => {
                assert_eq!(&*whole, message);
                assert_eq!(identifier + 1, expected.max(1));
                return;
            }
            Err(error) => assert!(message.len() > MESSAGE_OCTETS_MAX, "{error}"),
        }
    }
}

/// Messages of one and of several fragments, whole and broken.
pub fn seeds() -> Vec<Vec<u8>> {
    let record = |flags: u8, announced: Option<u32>, data: &[u8]| {
        let mut record = vec![flags];
        record.extend(announced.into_iter().flat_map(u32::to_be_bytes));
        record.extend(data);
        let mut whole = (record.len() as u16).to_be_bytes().to_vec();
        whole.extend(record);
        whole
    };
    let mut many = record(0x40, None, &[22; 1000]);
    many[0] |= 0x80;
    vec![
        [record(0x20, None, &[]), record(0, None, b"hello")].concat(),
        [record(0xC0, Some(10), b"hello"), record(0x00, None, b"world")].concat(),
        [
            record(0xC0, Some(9), b"hello"),
            record(0x40, None, b"world"),
            record(0, None, b"!"),
        ]
        .concat(),
        [record(0x80, Some(5), b"hello"), record(0x80, Some(0xFFFF_FFFF), b"x")].concat(),
        many,
        [&b"o\x00\x40"[..], &[22; 500]].concat(),
        [&b"o\x04\x00"[..], &[22; 3000]].concat(),
        b"o\x00\x00".to_vec(),
    ]
}
