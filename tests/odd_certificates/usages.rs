//! What a certificate is for: keyUsage, extKeyUsage, basicConstraints; and the other extensions.

use portreeve::trust::Demands;

use crate::der::*;
use crate::make::*;
use crate::shape::{Shape, World};

pub fn all(world: &World) -> Vec<Shape> {
    let mut shapes = key_usages(world);
    shapes.extend(purposes(world));
    shapes.extend(constraints(world));
    shapes.extend(extensions(world));
    shapes.extend(identifiers(world));
    shapes
}

fn extended(world: &World, name: &'static str, extension: Extension) -> Shape {
    world.shape(name, |parts| parts.set(extension))
}

fn key_usages(world: &World) -> Vec<Shape> {
    let of = |name, bits: u8| extended(world, name, key_usage(bits));
    let raw = |name, octets: &[u8]| extended(world, name, Extension::new(KEY_USAGE, &element(0x03, &[octets])));
    let plain = |name, value: &[u8]| extended(world, name, Extension::new(KEY_USAGE, value));
    vec![
        world.shape("ku-absent", |parts| parts.without(KEY_USAGE)),
        of("ku-signature-and-encipherment", 0xA0),
        of("ku-encipherment-only", 0x20),
        of("ku-agreement-only", 0x08),
        of("ku-non-repudiation-only", 0x40),
        of("ku-signature-and-cert-sign", 0x84),
        raw("ku-not-critical", &[7, 0x80]),
        raw("ku-nine-bits", &[7, 0x80, 0x80]),
        raw("ku-unused-bits-set", &[7, 0xFF]),
        raw("ku-unused-bits-not-counted", &[0, 0x80]),
        raw("ku-no-bits", &[0]),
        raw("ku-nine-unused-bits", &[9, 0x80]),
        plain("ku-empty", &[]),
        plain("ku-empty-bit-string", &[0x03, 0]),
        plain("ku-octet-string", &octet_string(&[0x80])),
        world.shape("ku-twice", |parts| parts.extensions.push(key_usage(0x80))),
    ]
}

fn purposes(world: &World) -> Vec<Shape> {
    let of = |name, purposes: &[&str]| extended(world, name, extended_key_usage(purposes));
    let any_allowed = |shape: Shape| Shape {
        demands: Demands {
            allow_any_eku: true,
            ..Demands::default()
        },
        ..shape
    };
    vec![
        world.shape("eku-absent", |parts| parts.without(EXTENDED_KEY_USAGE)),
        of("eku-client-and-server", &[SERVER_AUTH, CLIENT_AUTH]),
        of("eku-server-only", &[SERVER_AUTH]),
        of("eku-any-only", &[ANY_USAGE]),
        any_allowed(of("eku-any-only-allowed", &[ANY_USAGE])),
        any_allowed(of("eku-server-only-any-allowed", &[SERVER_AUTH])),
        of("eku-any-and-client", &[ANY_USAGE, CLIENT_AUTH]),
        of("eku-smart-card-only", &["1.3.6.1.4.1.311.20.2.2"]),
        of("eku-smart-card-and-client", &["1.3.6.1.4.1.311.20.2.2", CLIENT_AUTH]),
        of("eku-email-only", &["1.3.6.1.5.5.7.3.4"]),
        of("eku-code-signing-only", &["1.3.6.1.5.5.7.3.3"]),
        of("eku-eap-over-lan-only", &["1.3.6.1.5.5.7.3.14"]),
        of("eku-ipsec-only", &["1.3.6.1.5.5.8.2.2"]),
        of("eku-of-a-vendor-only", &["1.3.6.1.4.1.99999.1"]),
        of("eku-of-a-vendor-and-client", &["1.3.6.1.4.1.99999.1", CLIENT_AUTH]),
        of(
            "eku-user-template",
            &["1.3.6.1.4.1.311.10.3.4", "1.3.6.1.5.5.7.3.4", CLIENT_AUTH],
        ),
        of("eku-client-twice", &[CLIENT_AUTH, CLIENT_AUTH]),
        of(
            "eku-100-purposes",
            &[&["1.3.6.1.4.1.99999.1"; 99][..], &[CLIENT_AUTH]].concat(),
        ),
        extended(world, "eku-critical", extended_key_usage(&[CLIENT_AUTH]).critical()),
        of("eku-empty", &[]),
        extended(
            world,
            "eku-no-sequence",
            Extension::new(EXTENDED_KEY_USAGE, &oid(CLIENT_AUTH)),
        ),
        extended(
            world,
            "eku-of-a-text",
            Extension::new(EXTENDED_KEY_USAGE, &sequence(&[&utf8("clientAuth")])),
        ),
        world.shape("eku-twice", |parts| {
            parts.extensions.push(extended_key_usage(&[SERVER_AUTH]))
        }),
    ]
}

fn constraints(world: &World) -> Vec<Shape> {
    let of = |name, parts: &[&[u8]]| {
        extended(
            world,
            name,
            Extension::new(BASIC_CONSTRAINTS, &sequence(parts)).critical(),
        )
    };
    vec![
        of("bc-no-ca", &[]),
        of("bc-no-ca-written", &[&boolean(0)]),
        of("bc-no-ca-with-path-length", &[&boolean(0), &integer(&[0])]),
        of("bc-path-length-only", &[&integer(&[3])]),
        of("bc-ca", &[&boolean(0xFF)]),
        of("bc-ca-as-ber", &[&boolean(1)]),
        of("bc-path-length-negative", &[&integer(&[0xFF])]),
        of("bc-path-length-of-9-octets", &[&integer(&[1; 9])]),
        of("bc-trailing", &[&boolean(0), &null()]),
        extended(world, "bc-no-sequence", Extension::new(BASIC_CONSTRAINTS, &boolean(0))),
    ]
}

fn extensions(world: &World) -> Vec<Shape> {
    let of = |name, dotted: &str, value: &[u8]| extended(world, name, Extension::new(dotted, value));
    let critical = |name, dotted: &str, value: &[u8]| extended(world, name, Extension::new(dotted, value).critical());
    let policies = sequence(&[&sequence(&[&oid("1.3.6.1.4.1.99999.2")])]);
    let point = |uri: &str| {
        let name = implicit(6, uri.as_bytes());
        sequence(&[&sequence(&[&explicit(0, &[&explicit(0, &[&name])])])])
    };
    let subtree = sequence(&[&explicit(0, &[&sequence(&[&implicit(2, b"example.com")])])]);
    let deep = (0..2_000).fold(null(), |inside, _| sequence(&[&inside]));
    let many: Vec<Extension> = (0..100)
        .map(|number| Extension::new(&format!("1.3.6.1.4.1.99999.3.{number}"), &null()))
        .collect();
    let mut false_written = Extension::new("1.3.6.1.4.1.99999.3", &null());
    false_written.critical = boolean(0);
    let mut true_as_ber = false_written.clone();
    true_as_ber.critical = boolean(1);
    let mut true_in_two_octets = false_written.clone();
    true_in_two_octets.critical = element(0x01, &[&[0xFF, 0xFF]]);
    vec![
        world.shape("no-extensions", |parts| parts.extensions.clear()),
        world.shape("extensions-100", |parts| parts.extensions.extend(many)),
        of("extension-unknown", "1.3.6.1.4.1.99999.3", &null()),
        critical("extension-unknown-critical", "1.3.6.1.4.1.99999.3", &null()),
        of("extension-empty", "1.3.6.1.4.1.99999.3", &[]),
        of("extension-of-garbage", "1.3.6.1.4.1.99999.3", b"\xFF\xFF\xFF"),
        of("extension-2000-deep", "1.3.6.1.4.1.99999.3", &deep),
        of(
            "extension-of-20000-octets",
            "1.3.6.1.4.1.99999.3",
            &octet_string(&[7; 20_000]),
        ),
        world.shape("extension-unknown-twice", |parts| {
            parts
                .extensions
                .extend([1, 2].map(|_| Extension::new("1.3.6.1.4.1.99999.3", &null())));
        }),
        extended(world, "critical-false-written", false_written),
        extended(world, "critical-as-ber", true_as_ber),
        extended(world, "critical-in-two-octets", true_in_two_octets),
        of("policies", "2.5.29.32", &policies),
        critical("policies-critical", "2.5.29.32", &policies),
        of("policy-constraints", "2.5.29.36", &sequence(&[&implicit(0, &[0])])),
        of("name-constraints-on-a-leaf", "2.5.29.30", &subtree),
        critical("name-constraints-on-a-leaf-critical", "2.5.29.30", &subtree),
        of("crl-point-http", "2.5.29.31", &point("http://crl.example.com/a.crl")),
        of(
            "crl-point-ldap",
            "2.5.29.31",
            &point("ldap:///CN=Example%20Root,CN=CDP,DC=example,DC=com?certificateRevocationList?base"),
        ),
        critical(
            "crl-point-critical",
            "2.5.29.31",
            &point("http://crl.example.com/a.crl"),
        ),
        of("crl-point-garbage", "2.5.29.31", b"\xFF"),
        of("freshest-crl", "2.5.29.46", &point("http://crl.example.com/delta.crl")),
        of(
            "authority-information",
            "1.3.6.1.5.5.7.1.1",
            &sequence(&[&sequence(&[
                &oid("1.3.6.1.5.5.7.48.1"),
                &implicit(6, b"http://ocsp.example.com"),
            ])]),
        ),
        of("must-staple", "1.3.6.1.5.5.7.1.24", &sequence(&[&integer(&[5])])),
        of("netscape-type", "2.16.840.1.113730.1.1", &element(0x03, &[&[7, 0x80]])),
        of(
            "netscape-comment",
            "2.16.840.1.113730.1.13",
            &ia5("OpenSSL Generated Certificate"),
        ),
        of(
            "issuer-alternative-name",
            "2.5.29.18",
            &sequence(&[&dns("ca.example.com")]),
        ),
        of(
            "private-key-usage-period",
            "2.5.29.16",
            &sequence(&[&implicit(1, b"20270101000000Z")]),
        ),
        critical(
            "proxy-certificate",
            "1.3.6.1.5.5.7.1.14",
            &sequence(&[&sequence(&[&oid("1.3.6.1.5.5.7.21.1")])]),
        ),
    ]
}

/// subjectKeyIdentifier and authorityKeyIdentifier: they help to find a path, and decide nothing.
fn identifiers(world: &World) -> Vec<Shape> {
    let of = |name, dotted: &str, value: &[u8]| extended(world, name, Extension::new(dotted, value));
    let by_serial = |serial: &[u8]| {
        let issuer = explicit(1, &[&explicit(4, &[&world.root.name])]);
        sequence(&[&issuer, &implicit(2, serial)])
    };
    vec![
        of("key-id", KEY_ID, &octet_string(&[7; 20])),
        of("key-id-of-1-octet", KEY_ID, &octet_string(&[7])),
        of("key-id-empty", KEY_ID, &octet_string(&[])),
        of("key-id-no-octet-string", KEY_ID, &[7; 20]),
        of(
            "authority-key-id-of-nobody",
            AUTHORITY_KEY_ID,
            &sequence(&[&implicit(0, &[9; 20])]),
        ),
        of("authority-key-id-empty", AUTHORITY_KEY_ID, &sequence(&[])),
        of(
            "authority-key-id-by-serial",
            AUTHORITY_KEY_ID,
            &by_serial(&[0x4D, 0x15]),
        ),
        of("authority-key-id-by-a-wrong-serial", AUTHORITY_KEY_ID, &by_serial(&[7])),
        of("authority-key-id-no-sequence", AUTHORITY_KEY_ID, &implicit(0, &[9; 20])),
    ]
}
