use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use proptest::prelude::*;

use super::super::dictionary::Dictionary;
use super::super::dictionary::parser::ReadError;
use super::super::dictionary::types::{AttributeId, DataType, Definition, Encryption, Parent, Value};
use super::super::packet::Packet;
use super::*;
use crate::mac::MacAddress;

const AUTHENTICATOR: [u8; 16] = [0x5A; 16];
const DEBIAN: &str = "/usr/share/freeradius/dictionary";

/// FreeRADIUS's dictionaries over ours: every type, flag and vendor's format there is.
fn debian() -> &'static Dictionary {
    static DICTIONARY: OnceLock<Dictionary> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        assert!(
            Path::new(DEBIAN).exists(),
            "{DEBIAN} is missing: this test reads FreeRADIUS's dictionaries; install the Debian package freeradius-common"
        );
        let mut dictionary = Dictionary::builtin().clone();
        let mut read = |path: &Path| std::fs::read_to_string(path).map_err(|error| ReadError::Other(error.to_string()));
        dictionary.extend(Path::new(DEBIAN), &mut read).unwrap();
        dictionary
    })
}

fn packet(attributes: &[u8]) -> Vec<u8> {
    let length = (attributes.len() as u16 + 20).to_be_bytes();
    [&[1, 0], &length[..], &AUTHENTICATOR, attributes].concat()
}

fn found(dictionary: &Dictionary, attributes: &[u8], secret: Option<&Secret>) -> Vec<Found<'static>> {
    let octets = packet(attributes);
    let packet = Packet::parse(&octets).unwrap();
    let revealing = secret.map(|secret| Revealing {
        secret,
        request_authenticator: &AUTHENTICATOR,
    });
    let mut all = Vec::new();
    visit(dictionary, &packet, revealing, &mut |found| {
        all.push(found.into_owned())
    });
    all
}

/// A value of the attribute's type, made of `octets` (32 of them), or `None` for types that have none of their own.
fn value(definition: &Definition, octets: &[u8; 32]) -> Option<Value<'static>> {
    let number = u64::from_be_bytes(octets[..8].try_into().unwrap());
    let long: Vec<u8> = octets[..1 + usize::from(octets[31] % 16)].to_vec();
    Some(match definition.data_type {
        DataType::Text => Value::Text(Cow::Owned(
            long.iter().map(|&octet| char::from(b' ' + octet % 94)).collect(),
        )),
        DataType::Octets(Some(length)) => {
            Value::Octets(Cow::Owned(octets.iter().copied().cycle().take(length.into()).collect()))
        }
        DataType::Octets(None) | DataType::AscendBinary | DataType::Opaque => Value::Octets(Cow::Owned(long)),
        DataType::Byte => Value::Unsigned(number & 0xFF),
        DataType::Short => Value::Unsigned(number & 0xFFFF),
        DataType::Integer if definition.flags.has_tag => Value::Unsigned(number & 0xFF_FFFF),
        DataType::Integer => Value::Unsigned(number & 0xFFFF_FFFF),
        DataType::Integer64 => Value::Unsigned(number),
        DataType::Signed => Value::Signed((number as i32).into()),
        DataType::Date => Value::Date(number as u32),
        DataType::Ipv4 => Value::Address(std::net::Ipv4Addr::from(number as u32).into()),
        DataType::Ipv6 | DataType::ComboIp => {
            Value::Address(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&octets[..16]).unwrap()).into())
        }
        DataType::Ipv4Prefix => {
            let prefix = ipnet::Ipv4Net::new(std::net::Ipv4Addr::from(number as u32), octets[31] % 33).unwrap();
            Value::Prefix(prefix.trunc().into())
        }
        DataType::Ipv6Prefix => {
            let address = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&octets[..16]).unwrap());
            Value::Prefix(ipnet::Ipv6Net::new(address, octets[31] % 129).unwrap().trunc().into())
        }
        DataType::InterfaceId => Value::InterfaceId(number.to_be_bytes()),
        DataType::Ether => Value::Mac(MacAddress::from_u64(number)),
        DataType::Tlv | DataType::VendorSpecific | DataType::ExtendedVendorSpecific | DataType::Extended { .. } => {
            return None;
        }
    })
}

/// Encodes a value of the attribute and decodes it again; what comes back must be it, alone.
fn check_round_trip(dictionary: &Dictionary, id: AttributeId, octets: &[u8; 32]) -> bool {
    let definition = dictionary.definition(id);
    let is_current = dictionary.by_number(definition.parent, definition.number) == Some(id);
    let Some(value) = value(definition, octets).filter(|_| is_current && definition.parent != Parent::Internal) else {
        return false;
    };
    let secret = Secret::new(b"testing123");
    let tag = definition
        .flags
        .has_tag
        .then_some(octets[30] % 32)
        .filter(|tag| *tag > 0);
    let mut salts = Salts::new(&mut |salt| salt.copy_from_slice(&octets[28..30]));
    let hiding = Hiding {
        secret: &secret,
        request_authenticator: &AUTHENTICATOR,
        salts: &mut salts,
    };
    let mut out = Vec::new();
    match encode_attribute(dictionary, id, tag, &value, Some(hiding), &mut out) {
        Ok(()) => {}
        Err(EncodeError::NotOnTheWire(_)) => return false,
        // Ascend's secrets have one block.
        Err(EncodeError::Hide(_)) => return false,
        Err(error) => panic!("{} {value:?}: {error}", definition.name),
    }
    let back = found(dictionary, &out, Some(&secret));
    assert_eq!(
        back,
        [Found::Known {
            id,
            tag,
            value: Ok(value)
        }],
        "{} {out:02x?}",
        definition.name
    );
    true
}

#[test]
fn every_attribute_of_freeradius_is_read_back() {
    let dictionary = debian();
    let mut octets = [0u8; 32];
    let mut state = 1u64;
    let mut checked = 0;
    let mut not_on_the_wire = Vec::new();
    for definition in dictionary.definitions() {
        for octet in &mut octets {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            *octet = (state >> 56) as u8;
        }
        if check_round_trip(dictionary, definition.id, &octets) {
            checked += 1;
        } else if value(definition, &octets).is_some()
            && definition.parent != Parent::Internal
            && dictionary.current(definition.id) == definition.id
        {
            not_on_the_wire.push(&*definition.name);
        }
    }
    assert!(checked > 6_000, "{checked}");
    assert_eq!(not_on_the_wire, [""; 0]);
}

#[test]
fn hidden_values_stay_hidden_without_the_secret() {
    let dictionary = Dictionary::builtin();
    let password = dictionary.by_name("User-Password").unwrap();
    let mut seen = Vec::new();
    let octets = packet(&[&[2, 18][..], &[7; 16]].concat());
    for_each_value(
        dictionary,
        &Packet::parse(&octets).unwrap(),
        &|_| true,
        |id, tag, value| seen.push((id, tag, value)),
    );
    assert_eq!(seen, [(password, None, Err(Malformed::Hidden))]);
    let refused = encode_attribute(
        dictionary,
        password,
        None,
        &Value::Text("x".into()),
        None,
        &mut Vec::new(),
    );
    assert_eq!(refused, Err(EncodeError::NeedsSecret("User-Password".into())));
}

#[test]
fn an_error_leaves_the_buffer_as_it_was() {
    let dictionary = Dictionary::builtin();
    let name = dictionary.by_name("User-Name").unwrap();
    let (good, bad) = (Value::Text("bob".into()), Value::Text("x".repeat(254).into()));
    let items = [&good, &bad].map(|value| Item {
        id: name,
        tag: None,
        value,
    });
    let mut out = vec![1, 2, 3];
    assert!(matches!(
        encode_items(dictionary, &items, None, &mut out),
        Err(EncodeError::TooLong { most: 253, .. })
    ));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn nesting_has_a_bound() {
    let mut dictionary = Dictionary::builtin().clone();
    let mut text = String::from("ATTRIBUTE Deep 241.1 tlv\nBEGIN-TLV Deep\n");
    for depth in 0..12 {
        text += &format!("ATTRIBUTE Deep-{depth} 1 tlv\nBEGIN-TLV Deep-{depth}\n");
    }
    let mut read = |_: &Path| Ok(text.clone());
    // However deep a dictionary lets them nest, and however deep they do.
    let _ = dictionary.extend(Path::new("deep"), &mut read);
    let mut octets = vec![1, 3, 0];
    while octets.len() < 250 {
        octets = [&[1, octets.len() as u8 + 2][..], &octets].concat();
    }
    let attribute = [&[241, octets.len() as u8 + 3, 1][..], &octets].concat();
    let all = found(&dictionary, &attribute, None);
    assert!(all.len() <= 2, "{all:?}");
}

#[test]
fn parts_of_parts_do_not_multiply() {
    // Each Vendor-Specific says that its only attribute goes on in the next: they are one, or none.
    let wimax = [26, 10, 0, 0, 0x60, 0xb5, 5, 4, 0x80, 0xaa];
    let all = found(debian(), &wimax.repeat(400), None);
    assert_eq!(all.len(), 1, "{all:?}");
    // The same with 82 attributes in each.
    let many = [&[26, 252, 0, 0, 0x60, 0xb5][..], &[5, 3, 0x80].repeat(82)].concat();
    assert!(found(debian(), &many.repeat(16), None).len() <= 4_000);
    let long = [&[245, 255, 4, 0x80][..], &[0xaa; 251]].concat();
    // the attribute and its container
    assert_eq!(found(debian(), &long.repeat(15), None).len(), 2);
}

/// Attributes that look right as far as their header, and often further.
fn attribute_like() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        4 => Just(26u8),
        2 => 241u8..=246,
        1 => prop::sample::select(vec![1u8, 2, 64, 69, 79, 80, 81, 97]),
        1 => any::<u8>(),
    ];
    let vendor = prop::sample::select(vec![9u32, 311, 429, 529, 4846, 5323, 8164, 24757, 14122, 0xFFFF_FFFF]);
    let inner = prop::collection::vec((0u8..8, 0u8..12, prop::collection::vec(any::<u8>(), 0..12)), 0..8);
    (number, vendor, inner, any::<bool>(), 0u8..=2).prop_map(|(number, vendor, inner, honest, flags)| {
        let mut octets = Vec::new();
        match number {
            26 => octets.extend(vendor.to_be_bytes()),
            241..=244 => octets.push(if honest { 26 } else { flags }),
            245 | 246 => octets.extend([flags, flags << 7]),
            _ => {}
        }
        for (kind, length, value) in inner {
            let length = if honest { value.len() as u8 + 2 } else { length };
            octets.extend([kind, length]);
            octets.extend(value);
        }
        octets.truncate(253);
        [&[number, octets.len() as u8 + 2][..], &octets].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_packet_breaks_the_decoder(attributes in prop::collection::vec(attribute_like(), 0..40)) {
        let mut attributes = attributes.concat();
        attributes.truncate(4076);
        let mut octets = packet(&attributes);
        if Packet::parse(&octets).is_err() {
            // Cut in the middle of the last attribute.
            octets[2..4].copy_from_slice(&[0, 20]);
        }
        let packet = Packet::parse(&octets).unwrap();
        let secret = Secret::new(b"testing123");
        for revealing in [None, Some(Revealing { secret: &secret, request_authenticator: &AUTHENTICATOR })] {
            let mut count = 0usize;
            visit(debian(), &packet, revealing, &mut |_| count += 1);
            prop_assert!(count <= octets.len(), "{count} values from {} octets", octets.len());
        }
    }

    #[test]
    fn values_are_read_back(at in any::<prop::sample::Index>(), octets: [u8; 32]) {
        let dictionary = debian();
        let definitions: Vec<AttributeId> = dictionary.definitions().map(|definition| definition.id).collect();
        check_round_trip(dictionary, *at.get(&definitions), &octets);
    }

    #[test]
    fn neighbours_in_tlvs_are_read_back(values in prop::collection::vec((0usize..5, 1usize..120), 1..40)) {
        let dictionary = debian();
        let names = ["WiMAX-Release", "WiMAX-Accounting-Capabilities", "WiMAX-Global-Service-Class-Name", "User-Name", "Cisco-AVPair"];
        let values: Vec<(AttributeId, Value<'_>)> = values
            .iter()
            .map(|&(which, length)| {
                let id = dictionary.by_name(names[which]).unwrap();
                let value = match which {
                    1 => Value::Unsigned(length as u64),
                    _ => Value::Text("t".repeat(length).into()),
                };
                (id, value)
            })
            .collect();
        let items: Vec<Item<'_>> = values.iter().map(|(id, value)| Item { id: *id, tag: None, value }).collect();
        let mut out = Vec::new();
        encode_items(dictionary, &items, None, &mut out).unwrap();
        if out.len() <= 4076 {
            let back = found(dictionary, &out, None);
            let expected: Vec<Found<'_>> =
                values.iter().map(|(id, value)| Found::Known { id: *id, tag: None, value: Ok(value.clone()) }).collect();
            prop_assert_eq!(back, expected);
        }
    }
}

#[test]
fn encryption_of_the_keys_is_in_the_dictionary() {
    // Without it the server would send the keys in the clear.
    for name in ["MS-MPPE-Send-Key", "MS-MPPE-Recv-Key", "Tunnel-Password"] {
        let definition = debian().definition(debian().by_name(name).unwrap());
        assert_eq!(definition.flags.encryption, Encryption::TunnelPassword, "{name}");
    }
}
