//! Each type: from text, to text, from octets, to octets.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Flags, Parent};

fn definition(name: &str) -> &'static Definition {
    let dictionary = Dictionary::builtin();
    dictionary.definition(dictionary.by_name(name).unwrap())
}

fn of_type(data_type: DataType) -> Definition {
    Definition {
        id: AttributeId(0),
        name: "Some-Attribute".into(),
        parent: Parent::Root,
        number: 240,
        data_type,
        flags: Flags::default(),
        values: Vec::new(),
    }
}

fn encoded(definition: &Definition, value: &Value<'_>) -> Result<Vec<u8>, ValueError> {
    let mut out = b"before".to_vec();
    let result = encode(definition, value, &mut out);
    assert_eq!(&out[..6], b"before");
    if result.is_err() {
        assert_eq!(out, b"before", "an error leaves the buffer as it was");
    }
    result.map(|()| out.split_off(6))
}

#[test]
fn named_values_have_no_case_and_are_displayed() {
    let port_type = definition("NAS-Port-Type");
    for text in ["Ethernet", "ethernet", "15", "0x0f", " 15 "] {
        assert_eq!(parse(port_type, text), Ok(Value::Unsigned(15)), "{text}");
    }
    assert_eq!(display(port_type, &Value::Unsigned(15)), "Ethernet");
    assert_eq!(display(port_type, &Value::Unsigned(4711)), "4711");
    assert_eq!(display(definition("EAP-Type"), &Value::Unsigned(4)), "MD5-Challenge");
    for text in ["MD5", "md5-challenge", "4"] {
        assert_eq!(parse(definition("EAP-Type"), text), Ok(Value::Unsigned(4)), "{text}");
    }
    assert_eq!(
        parse(port_type, "Carrier-Pigeon").unwrap_err().to_string(),
        "`Carrier-Pigeon` is no value of `NAS-Port-Type`: expected 0 to 4294967295, or Async, Sync, ISDN, ISDN-V120, \
         ISDN-V110, Virtual, PIAFS, HDLC-Clear-Channel …"
    );
}

#[test]
fn a_name_that_looks_like_a_number_is_not_shown() {
    let definition = Definition {
        values: vec![("9600".into(), 1), ("slow".into(), 1)],
        ..of_type(DataType::Byte)
    };
    assert_eq!(display(&definition, &Value::Unsigned(1)), "slow");
    let definition = Definition {
        values: vec![("96".into(), 1)],
        ..of_type(DataType::Byte)
    };
    assert_eq!(display(&definition, &Value::Unsigned(1)), "1");
    assert_eq!(parse(&definition, "96"), Ok(Value::Unsigned(96)));
}

#[test]
fn texts_and_what_they_mean() {
    use DataType as T;
    let address = |text: &str| Value::Address(text.parse().unwrap());
    let prefix = |text: &str| Value::Prefix(text.parse().unwrap());
    for (data_type, text, value) in [
        (T::Text, "a b", Value::Text("a b".into())),
        (T::Text, "1010", Value::Text("1010".into())),
        (T::Text, "", Value::Text("".into())),
        (T::Octets(None), "0x00fF", Value::Octets(vec![0, 255].into())),
        (T::Octets(None), "staff", Value::Octets(b"staff".as_slice().into())),
        (T::Octets(Some(2)), "0x0102", Value::Octets(vec![1, 2].into())),
        (T::Opaque, "0x", Value::Octets(vec![].into())),
        (T::Byte, "255", Value::Unsigned(255)),
        (T::Short, "0xffff", Value::Unsigned(65_535)),
        (T::Integer, "4294967295", Value::Unsigned(4_294_967_295)),
        (T::Integer64, "18446744073709551615", Value::Unsigned(u64::MAX)),
        (T::Signed, "-2147483648", Value::Signed(-2_147_483_648)),
        (T::Signed, "0x7fffffff", Value::Signed(2_147_483_647)),
        (T::Date, "1796040000", Value::Date(1_796_040_000)),
        (T::Date, "2026-11-30T12:00:00Z", Value::Date(1_796_040_000)),
        (T::Ipv4, "192.0.2.7", address("192.0.2.7")),
        (T::Ipv6, "2001:DB8::7", address("2001:db8::7")),
        (T::ComboIp, "192.0.2.7", address("192.0.2.7")),
        (T::ComboIp, "2001:db8::7", address("2001:db8::7")),
        (T::Ipv4Prefix, "192.0.2.0/24", prefix("192.0.2.0/24")),
        (T::Ipv4Prefix, "192.0.2.7", prefix("192.0.2.7/32")),
        (T::Ipv6Prefix, "2001:db8::/32", prefix("2001:db8::/32")),
        (
            T::InterfaceId,
            "0011:2233:4455:6677",
            Value::InterfaceId([0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]),
        ),
        (T::InterfaceId, "0:0:0:1", Value::InterfaceId([0, 0, 0, 0, 0, 0, 0, 1])),
        (
            T::Ether,
            "AA:bb:CC:00:01:02",
            Value::Mac(MacAddress([0xaa, 0xbb, 0xcc, 0, 1, 2])),
        ),
    ] {
        assert_eq!(parse(&of_type(data_type), text), Ok(value), "{text}");
    }
}

#[test]
fn what_no_value_is() {
    use DataType as T;
    for (data_type, text, error) in [
        (
            T::Octets(None),
            "0x0",
            "`0x0` is no pairs of hexadecimal digits after `0x`",
        ),
        (
            T::Octets(None),
            "0xgg",
            "`0xgg` is no pairs of hexadecimal digits after `0x`",
        ),
        (T::Octets(Some(3)), "0x0102", "`0x0102` has 2 octets: expected 3"),
        (T::Opaque, "words", "`words` is no octets, written `0x…`"),
        (T::Byte, "256", "`256` is too large: expected 0 to 255"),
        (T::Integer, "-1", "`-1` is no number: expected 0 to 4294967295"),
        (T::Integer, "+1", "`+1` is no number: expected 0 to 4294967295"),
        (T::Integer, "", "`` is no number: expected 0 to 4294967295"),
        (T::Integer, "1.0", "`1.0` is no number: expected 0 to 4294967295"),
        (
            T::Signed,
            "2147483648",
            "`2147483648` is no number: expected -2147483648 to 2147483647",
        ),
        (
            T::Date,
            "tomorrow",
            "`tomorrow` is no date between 1970 and 2106: expected `2026-11-30T12:00:00Z` or seconds since 1970",
        ),
        (T::Ipv4, "192.0.2", "`192.0.2` is no IPv4 address"),
        (T::Ipv4, "2001:db8::7", "`2001:db8::7` is no IPv4 address"),
        (T::Ipv6, "192.0.2.7", "`192.0.2.7` is no IPv6 address"),
        (T::ComboIp, "host", "`host` is no IPv4 or IPv6 address"),
        (T::Ipv4Prefix, "2001:db8::/32", "`2001:db8::/32` is no IPv4 prefix"),
        (T::Ipv4Prefix, "192.0.2.0/33", "`192.0.2.0/33` is no IPv4 prefix"),
        (
            T::Ipv4Prefix,
            "192.0.2.7/24",
            "prefix `192.0.2.7/24` has bits set outside of its length: expected `192.0.2.0/24`",
        ),
        (
            T::Ipv6Prefix,
            "2001:db8::1/32",
            "prefix `2001:db8::1/32` has bits set outside of its length: expected `2001:db8::/32`",
        ),
        (
            T::InterfaceId,
            "1:2:3",
            "`1:2:3` is no interface identifier: expected the form `0011:2233:4455:6677`",
        ),
        (
            T::InterfaceId,
            "1:2:3:+4",
            "`1:2:3:+4` is no interface identifier: expected the form `0011:2233:4455:6677`",
        ),
        (
            T::Ether,
            "aa-bb-cc",
            "`aa-bb-cc` is no MAC address: expected the form `aa-bb-cc-dd-ee-ff`",
        ),
    ] {
        assert_eq!(
            parse(&of_type(data_type), text),
            Err(ValueError(error.into())),
            "{text}"
        );
    }
}

#[test]
fn octets_of_each_type() {
    use DataType as T;
    let address = |text: &str| Value::Address(text.parse().unwrap());
    let mut ipv6_prefix = vec![0, 32, 0x20, 0x01, 0x0d, 0xb8];
    ipv6_prefix.resize(18, 0);
    for (data_type, octets, value) in [
        (T::Text, "grüß".as_bytes(), Value::Text("grüß".into())),
        (T::Octets(None), &[1, 2][..], Value::Octets(vec![1, 2].into())),
        (T::Octets(Some(1)), &[9], Value::Octets(vec![9].into())),
        (T::Byte, &[0xfe], Value::Unsigned(0xfe)),
        (T::Short, &[1, 2], Value::Unsigned(0x0102)),
        (T::Integer, &[1, 2, 3, 4], Value::Unsigned(0x0102_0304)),
        (
            T::Integer64,
            &[1, 2, 3, 4, 5, 6, 7, 8],
            Value::Unsigned(0x0102_0304_0506_0708),
        ),
        (T::Signed, &[0xff, 0xff, 0xff, 0xfe], Value::Signed(-2)),
        (T::Date, &[0, 0, 0, 1], Value::Date(1)),
        (T::Ipv4, &[192, 0, 2, 7], address("192.0.2.7")),
        (T::ComboIp, &[192, 0, 2, 7], address("192.0.2.7")),
        (T::Ipv6, &[0; 16], address("::")),
        (T::ComboIp, &[0; 16], address("::")),
        (
            T::Ipv4Prefix,
            &[0, 24, 192, 0, 2, 0],
            Value::Prefix("192.0.2.0/24".parse().unwrap()),
        ),
        (
            T::Ipv6Prefix,
            &ipv6_prefix,
            Value::Prefix("2001:db8::/32".parse().unwrap()),
        ),
        (T::InterfaceId, &[1; 8], Value::InterfaceId([1; 8])),
        (
            T::Ether,
            &[1, 2, 3, 4, 5, 6],
            Value::Mac(MacAddress([1, 2, 3, 4, 5, 6])),
        ),
    ] {
        let definition = of_type(data_type);
        assert_eq!(decode(&definition, octets), Ok(value.clone()), "{data_type:?}");
        assert_eq!(encoded(&definition, &value), Ok(octets.to_vec()), "{data_type:?}");
    }
}

/// RFC 2865 section 5: an attribute of a length that its type doesn't have is malformed, and never read in part.
#[test]
fn malformed_octets() {
    use DataType as T;
    let long = [0; 17];
    for (data_type, wrong) in [
        (T::Octets(Some(3)), vec![0, 2, 4]),
        (T::Byte, vec![0, 2]),
        (T::Short, vec![0, 1, 3]),
        (T::Integer, vec![0, 3, 5]),
        (T::Integer64, vec![0, 7, 9]),
        (T::Signed, vec![0, 3, 5]),
        (T::Date, vec![0, 3, 5]),
        (T::Ipv4, vec![0, 3, 5, 16]),
        (T::Ipv6, vec![0, 4, 15, 17]),
        (T::ComboIp, vec![0, 3, 5, 15, 17]),
        (T::Ipv4Prefix, vec![0, 2, 5, 7]),
        (T::Ipv6Prefix, vec![0, 1]),
        (T::InterfaceId, vec![0, 7, 9]),
        (T::Ether, vec![0, 5, 7]),
    ] {
        for length in wrong {
            let octets = if data_type == T::Octets(Some(3)) && length == 2 {
                &[1, 2][..]
            } else {
                &long[..length]
            };
            let error = decode(&of_type(data_type), octets).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{length} octets: expected ")),
                "{data_type:?} {length}: {error}"
            );
        }
    }
    let too_long = decode(&of_type(T::Ipv6Prefix), &[0; 19]).unwrap_err().to_string();
    assert_eq!(too_long, "19 octets: expected 2 to 18");
    assert_eq!(
        decode(&of_type(T::Text), b"ok\xff").unwrap_err().to_string(),
        "not UTF-8 at octet 2"
    );
}

/// RFC 3162 section 2.3: a prefix is up to 16 octets, its length 0 to 128, and bits outside of it must be zero.
#[test]
fn ipv6_prefixes_on_the_wire() {
    let definition = definition("Framed-IPv6-Prefix");
    let prefix = |text: &str| Ok(Value::Prefix(text.parse().unwrap()));
    assert_eq!(decode(definition, &[0, 0]), prefix("::/0"));
    assert_eq!(decode(definition, &[0, 16, 0x20, 0x01]), prefix("2001::/16"));
    // the reserved octet says nothing
    assert_eq!(decode(definition, &[7, 16, 0x20, 0x01]), prefix("2001::/16"));
    let mut longest = [0xff; 18];
    longest[..2].copy_from_slice(&[0, 128]);
    assert_eq!(
        decode(definition, &longest),
        prefix("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")
    );
    for octets in [&[0, 129][..], &[0, 255, 1], &[0, 15, 0x20, 0x01], &[0, 0, 1]] {
        assert!(decode(definition, octets).is_err(), "{octets:?}");
    }
    assert!(decode(&of_type(DataType::Ipv4Prefix), &[0, 33, 0, 0, 0, 0]).is_err());
    assert!(decode(&of_type(DataType::Ipv4Prefix), &[0, 8, 10, 1, 0, 0]).is_err());
}

/// RFC 2865 section 5: text and strings "of length zero (0) MUST NOT be sent".
#[test]
fn what_can_not_be_encoded() {
    use DataType as T;
    for (data_type, value, error) in [
        (
            T::Text,
            Value::Text("".into()),
            "an empty value can't be sent: leave the attribute out",
        ),
        (
            T::Octets(None),
            Value::Octets(vec![].into()),
            "an empty value can't be sent: leave the attribute out",
        ),
        (
            T::Octets(Some(2)),
            Value::Octets(vec![1].into()),
            "1 octets: expected 2",
        ),
        (T::Byte, Value::Unsigned(256), "256 is too large: at most 255"),
        (T::Short, Value::Unsigned(65_536), "65536 is too large: at most 65535"),
        (
            T::Integer,
            Value::Unsigned(4_294_967_296),
            "4294967296 is too large: at most 4294967295",
        ),
        (
            T::Signed,
            Value::Signed(2_147_483_648),
            "2147483648 needs more than 4 octets",
        ),
        (
            T::Integer,
            Value::Text("1".into()),
            "a value of another type than `Some-Attribute` has",
        ),
        (
            T::Ipv4,
            Value::Address(Ipv6Addr::LOCALHOST.into()),
            "a value of another type than `Some-Attribute` has",
        ),
        (
            T::Ipv4Prefix,
            Value::Prefix("::/0".parse().unwrap()),
            "a value of another type than `Some-Attribute` has",
        ),
    ] {
        assert_eq!(encoded(&of_type(data_type), &value), Err(ValueError(error.into())));
    }
}

#[test]
fn every_named_value_of_the_built_in_set_there_and_back() {
    for definition in Dictionary::builtin().definitions() {
        for (name, number) in &definition.values {
            let value = parse(definition, name).unwrap();
            assert_eq!(
                parse(definition, &display(definition, &value)),
                Ok(value.clone()),
                "{name}"
            );
            assert_eq!(parse(definition, &number.to_string()), Ok(value), "{name}");
        }
    }
}

#[test]
fn every_named_value_of_freeradius_there_and_back() {
    let mut dictionary = Dictionary::empty();
    let root = Path::new("/usr/share/freeradius/dictionary");
    assert!(
        root.exists(),
        "{} is missing: install the Debian package freeradius-common",
        root.display()
    );
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| crate::radius::dictionary::parser::ReadError::Other(error.to_string()))
    };
    dictionary.extend(root, &mut { read }).unwrap();
    let mut values = 0;
    for definition in dictionary.definitions() {
        for (_, number) in &definition.values {
            let value = parse(definition, &number.to_string()).unwrap();
            assert_eq!(
                parse(definition, &display(definition, &value)),
                Ok(value),
                "{}",
                definition.name
            );
            values += 1;
        }
    }
    assert!(values > 7_000, "{values}");
}

/// A type and a value of it that can be sent.
fn typed() -> impl Strategy<Value = (DataType, Value<'static>)> {
    use DataType as T;
    let ipv4 = any::<[u8; 4]>().prop_map(|octets| Value::from(Ipv4Addr::from(octets)));
    let ipv6 = any::<[u8; 16]>().prop_map(|octets| Value::from(Ipv6Addr::from(octets)));
    let octets = prop::collection::vec(any::<u8>(), 1..260).prop_map(|octets| Value::Octets(Cow::Owned(octets)));
    prop_oneof![
        "\\PC{1,40}".prop_map(|text| (T::Text, Value::Text(Cow::Owned(text)))),
        octets.clone().prop_map(|value| (T::Octets(None), value)),
        octets.clone().prop_map(|value| (T::AscendBinary, value)),
        octets.prop_map(|value| (T::Opaque, value)),
        any::<[u8; 7]>().prop_map(|octets| (T::Octets(Some(7)), Value::Octets(Cow::Owned(octets.to_vec())))),
        any::<u8>().prop_map(|number| (T::Byte, Value::Unsigned(number.into()))),
        any::<u16>().prop_map(|number| (T::Short, Value::Unsigned(number.into()))),
        any::<u32>().prop_map(|number| (T::Integer, Value::Unsigned(number.into()))),
        any::<u64>().prop_map(|number| (T::Integer64, Value::Unsigned(number))),
        any::<i32>().prop_map(|number| (T::Signed, Value::Signed(number.into()))),
        any::<u32>().prop_map(|seconds| (T::Date, Value::Date(seconds))),
        ipv4.clone().prop_map(|value| (T::Ipv4, value)),
        ipv4.prop_map(|value| (T::ComboIp, value)),
        ipv6.clone().prop_map(|value| (T::Ipv6, value)),
        ipv6.prop_map(|value| (T::ComboIp, value)),
        (any::<[u8; 4]>(), 0..=32u8).prop_map(|(octets, bits)| {
            let net = Ipv4Net::new(octets.into(), bits).unwrap().trunc();
            (T::Ipv4Prefix, Value::Prefix(net.into()))
        }),
        (any::<[u8; 16]>(), 0..=128u8).prop_map(|(octets, bits)| {
            let net = Ipv6Net::new(octets.into(), bits).unwrap().trunc();
            (T::Ipv6Prefix, Value::Prefix(net.into()))
        }),
        any::<[u8; 8]>().prop_map(|octets| (T::InterfaceId, Value::InterfaceId(octets))),
        any::<[u8; 6]>().prop_map(|octets| (T::Ether, Value::Mac(MacAddress(octets)))),
    ]
}

fn any_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        typed().prop_map(|(data_type, _)| data_type),
        Just(DataType::Tlv),
        Just(DataType::VendorSpecific)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn text_there_and_back((data_type, value) in typed()) {
        let definition = of_type(data_type);
        prop_assert_eq!(parse(&definition, &display(&definition, &value)), Ok(value));
    }

    #[test]
    fn octets_there_and_back((data_type, value) in typed()) {
        let definition = of_type(data_type);
        let octets = encoded(&definition, &value).unwrap();
        prop_assert_eq!(decode(&definition, &octets), Ok(value));
    }

    #[test]
    fn any_octets_are_a_value_or_malformed(data_type in any_type(), octets in prop::collection::vec(any::<u8>(), 0..40)) {
        let definition = of_type(data_type);
        if let Ok(value) = decode(&definition, &octets) && !octets.is_empty() {
            let again = encoded(&definition, &value).unwrap();
            prop_assert_eq!(decode(&definition, &again), Ok(value));
        }
    }

    #[test]
    fn any_text_is_a_value_or_an_error(data_type in any_type(), text in "\\PC{0,40}") {
        let definition = of_type(data_type);
        if let Ok(value) = parse(&definition, &text) {
            prop_assert_eq!(parse(&definition, &display(&definition, &value)), Ok(value));
        }
    }
}
