//! A datagram from anywhere: parsed, walked with the built-in dictionary, shown, its keys looked for. What decodes to a value
//! is shown so that it reads back, and encodes to octets that decode to it.

use portreeve::mac::MacAddress;
use portreeve::radius::attribute::{Found, Revealing, encode_attribute, visit};
use portreeve::radius::crypto::{self, Secret};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::dictionary::types::{DataType, Value};
use portreeve::radius::packet::Packet;
use portreeve::radius::{display, reply, value};

/// The request's authenticator, where the datagram is taken for a reply.
const AUTHENTICATOR: [u8; 16] = [0x5A; 16];

pub fn fuzz(data: &[u8]) {
    let secret = Secret::new(b"testing123");
    let Ok(packet) = Packet::parse(data) else { return };
    assert!(packet.as_bytes().len() <= data.len() && packet.as_bytes().len() >= 20);
    let octets: usize = packet.attributes().map(|attribute| attribute.value.len() + 2).sum();
    assert_eq!(octets + 20, packet.as_bytes().len());
    let _ = packet.eap_message();
    let _ = crypto::verify_message_authenticator(&packet, &secret);
    let _ = crypto::verify_request_authenticator(&packet, &secret);
    let _ = reply::verify(data, packet.identifier(), &AUTHENTICATOR, &secret);
    let _ = reply::mppe_keys(&packet, &AUTHENTICATOR, &secret);
    for attribute in packet.attributes() {
        if let Some(mac) = MacAddress::parse(attribute.value) {
            assert_eq!(MacAddress::parse(mac.to_string().as_bytes()), Some(mac));
        }
    }
    let dictionary = Dictionary::builtin();
    let revealing = Revealing {
        secret: &secret,
        request_authenticator: packet.authenticator(),
    };
    for line in display::attributes(dictionary, &packet, Some(revealing)) {
        assert!(!line.contains('\n'), "{line}");
    }
    visit(dictionary, &packet, None, &mut |found| known(dictionary, found));
}

fn known(dictionary: &Dictionary, found: Found<'_>) {
    let Found::Known {
        id,
        tag,
        value: Ok(value),
    } = found
    else {
        return;
    };
    let definition = dictionary.definition(id);
    assert!(tag.is_none_or(|tag| (1..=31).contains(&tag)), "{}", definition.name);
    let text = value::display(definition, &value);
    let read = value::parse(definition, &text);
    assert_eq!(read.as_ref(), Ok(&value), "`{text}` of {}", definition.name);
    let mut octets = vec![1, 1, 0, 0];
    octets.extend([0; 16]);
    let encoded = encode_attribute(dictionary, id, tag, &value, None, &mut octets);
    // what cannot be sent although it came: containers as a whole, and what is empty or longer than one attribute holds
    if encoded.is_err() {
        let empty = match &value {
            Value::Text(text) => text.is_empty(),
            Value::Octets(octets) => octets.is_empty(),
            _ => false,
        };
        let container = matches!(
            definition.data_type,
            DataType::VendorSpecific
                | DataType::Extended { .. }
                | DataType::ExtendedVendorSpecific
                | DataType::Tlv
                | DataType::Opaque
        );
        let long = matches!(&value, Value::Octets(octets) if octets.len() > 240)
            || matches!(&value, Value::Text(text) if text.len() > 240);
        assert!(empty || container || long, "{}: {encoded:?}", definition.name);
        return;
    }
    let length = u16::try_from(octets.len()).unwrap_or(u16::MAX).to_be_bytes();
    for (place, octet) in octets.iter_mut().skip(2).zip(length) {
        *place = octet;
    }
    let Ok(packet) = Packet::parse(&octets) else {
        assert!(octets.len() > 4096, "{}", definition.name);
        return;
    };
    let mut again = false;
    visit(dictionary, &packet, None, &mut |found| {
        again |= matches!(found, Found::Known { id: i, tag: t, value: Ok(v) } if i == id && t == tag && v == value);
    });
    assert!(again, "{} = {text}, tag {tag:?}: {octets:02x?}", definition.name);
}

/// The packets of the golden files: every run of hexadecimal after `request`, `reply`, `match`.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../tests/golden/rfc2865.txt"),
        include_str!("../../tests/golden/rfc2868.txt"),
        include_str!("../../tests/golden/rfc3579.txt"),
        include_str!("../../tests/golden/rfc5997.txt"),
        include_str!("../../tests/golden/rfc6929.txt"),
        include_str!("../../tests/golden/hidden.txt"),
        include_str!("../../tests/golden/values.txt"),
        include_str!("../../tests/golden/vendors.txt"),
    ];
    let text = files.join("\n").replace("\n ", " ");
    let mut seeds = Vec::new();
    for line in text.lines() {
        let Some((_, hex)) = line.split_once(' ') else { continue };
        let digits: String = hex.split_whitespace().collect();
        let octets: Option<Vec<u8>> = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        let Some(octets) = octets.filter(|octets| octets.len() > 1) else {
            continue;
        };
        // whole packets as they are; attributes in a packet of their own
        let whole = Packet::parse(&octets).is_ok();
        let mut packet = Vec::new();
        if !whole {
            let length = u16::try_from(octets.len() + 20).unwrap_or(u16::MAX);
            packet.extend([2, 1]);
            packet.extend(length.to_be_bytes());
            packet.extend([0; 16]);
        }
        packet.extend(octets);
        seeds.push(packet);
    }
    seeds
}
