//! Octets that are no certificate, or not quite one.

use crate::der::*;
use crate::make::*;
use crate::shape::{Shape, World};

pub fn all(world: &World) -> Vec<Shape> {
    let mut shapes = whole(world);
    shapes.extend(signed_faults(world));
    shapes.extend(other_things(world));
    shapes
}

/// Faults around what is signed.
fn whole(world: &World) -> Vec<Shape> {
    let parts = world.root.device(&world.device.key);
    let good = parts.signed_by(&world.root.signer);
    let signed = parts.to_be_signed(&world.root.signer);
    let signature = bit_string(&world.root.signer.sign(&signed));
    let algorithm = ecdsa_with_sha256();
    let contents = &good[4..];
    let length = [(contents.len() >> 8) as u8, contents.len() as u8];
    let of = |name, der: Vec<u8>| world.raw(name, der);
    vec![
        of("trailing-octet", [&good[..], &[0]].concat()),
        of("trailing-certificate", [&good[..], &good].concat()),
        of("cut-short", good[..good.len() - 1].to_vec()),
        of("cut-in-the-middle", good[..good.len() / 2].to_vec()),
        of("length-indefinite", [&[0x30, 0x80][..], contents, &[0, 0]].concat()),
        of(
            "length-in-three-octets",
            [&[0x30, 0x83, 0][..], &length, contents].concat(),
        ),
        of(
            "length-of-the-whole-memory",
            [&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF][..], contents].concat(),
        ),
        of(
            "length-in-nine-octets",
            [&[0x30, 0x89, 0, 0, 0, 0, 0, 0, 0][..], &length, contents].concat(),
        ),
        of("a-set-for-a-sequence", [&[0x31, 0x82][..], &length, contents].concat()),
        of(
            "tag-in-two-octets",
            [&[0x3F, 0x10, 0x82][..], &length, contents].concat(),
        ),
        of("a-fourth-part", sequence(&[&signed, &algorithm, &signature, &null()])),
        of("no-signature", sequence(&[&signed, &algorithm])),
        of("no-algorithm", sequence(&[&signed, &signature])),
        of(
            "algorithm-trailing",
            sequence(&[
                &signed,
                &sequence(&[&oid("1.2.840.10045.4.3.2"), &null(), &null()]),
                &signature,
            ]),
        ),
        of("empty", Vec::new()),
        of("one-octet", vec![0x30]),
        of("empty-sequence", sequence(&[])),
        of(
            "three-empty-sequences",
            sequence(&[&sequence(&[]), &sequence(&[]), &bit_string(&[])]),
        ),
        of(
            "10000-sequences-in-each-other",
            (0..10_000).fold(Vec::new(), |inside, _| sequence(&[&inside])),
        ),
        of("of-zeros", vec![0; 1_000]),
        of("of-ones", vec![0xFF; 1_000]),
    ]
}

/// Faults inside of what is signed: the CA has made them.
fn signed_faults(world: &World) -> Vec<Shape> {
    let of = |name, change: &dyn Fn(&mut Parts)| world.shape(name, change);
    let extensions = |parts: &Parts| -> Vec<u8> {
        parts
            .extensions
            .iter()
            .flat_map(|extension| sequence(&[&extension.oid, &extension.critical, &extension.value]))
            .collect()
    };
    let unique_id = |number| implicit(number, &[0, 7, 7]);
    vec![
        of("issuer-unique-id", &|parts| parts.unique_ids = unique_id(1)),
        of("subject-unique-id", &|parts| parts.unique_ids = unique_id(2)),
        of("version-2-with-unique-ids", &|parts| {
            parts.version = explicit(0, &[&integer(&[1])]);
            parts.unique_ids = [unique_id(1), unique_id(2)].concat();
            parts.instead_of_extensions = Some(Vec::new());
        }),
        of("extensions-empty", &|parts| {
            parts.instead_of_extensions = Some(explicit(3, &[&sequence(&[])]))
        }),
        of("extensions-without-a-list", &|parts| {
            parts.instead_of_extensions = Some(explicit(3, &[]))
        }),
        of("extensions-twice", &|parts| {
            let all = explicit(3, &[&sequence(&[&extensions(parts)])]);
            parts.instead_of_extensions = Some([&all[..], &all].concat());
        }),
        of("extensions-trailing", &|parts| {
            let all = sequence(&[&extensions(parts)]);
            parts.instead_of_extensions = Some(explicit(3, &[&all, &null()]));
        }),
        of("extensions-as-a-set", &|parts| {
            let all = set(&[&extensions(parts)]);
            parts.instead_of_extensions = Some(explicit(3, &[&all]));
        }),
        of("something-behind-the-extensions", &|parts| parts.behind = null()),
        of("extension-without-a-value", &|parts| {
            parts.set(Extension {
                value: Vec::new(),
                ..Extension::new("1.3.6.1.4.1.99999.3", &[])
            });
        }),
        of("extension-value-a-bit-string", &|parts| {
            parts.set(Extension {
                value: bit_string(&null()),
                ..Extension::new("1.3.6.1.4.1.99999.3", &[])
            });
        }),
        of("extension-value-constructed", &|parts| {
            parts.set(Extension {
                value: element(0x24, &[&octet_string(&null())]),
                ..Extension::new("1.3.6.1.4.1.99999.3", &[])
            });
        }),
        of("extension-of-an-empty-identifier", &|parts| {
            parts.set(Extension {
                oid: element(0x06, &[]),
                ..Extension::new("1.3.6.1.4.1.99999.3", &null())
            });
        }),
        of("extension-of-an-identifier-cut-short", &|parts| {
            parts.set(Extension {
                oid: element(0x06, &[&[0x2B, 0x86]]),
                ..Extension::new("1.3.6.1.4.1.99999.3", &null())
            });
        }),
        of("serial-as-a-text", &|parts| parts.serial = printable("4711")),
        of("serial-missing", &|parts| parts.serial = Vec::new()),
        of("key-missing", &|parts| parts.key = Vec::new()),
        of("names-exchanged-for-texts", &|parts| {
            parts.subject = utf8("CN=laptop-7")
        }),
        of("of-70000-octets", &|parts| {
            parts.set(Extension::new("1.3.6.1.4.1.99999.3", &octet_string(&vec![7; 70_000])));
        }),
    ]
}

/// Other files that end up where a certificate belongs.
fn other_things(world: &World) -> Vec<Shape> {
    let good = world.root.device(&world.device.key).signed_by(&world.root.signer);
    let pem = openssl(&["x509", "-inform", "DER"], &good);
    let request = {
        let information = sequence(&[
            &integer(&[0]),
            &example("laptop-7"),
            &world.device.key,
            &explicit(0, &[]),
        ]);
        let signature = bit_string(&world.device.sign(&information));
        sequence(&[&information, &ecdsa_with_sha256(), &signature])
    };
    let list = {
        let signed = sequence(&[
            &integer(&[1]),
            &ecdsa_with_sha256(),
            &world.root.name,
            &utc_time("270101000000Z"),
            &utc_time("280101000000Z"),
        ]);
        sequence(&[
            &signed,
            &ecdsa_with_sha256(),
            &bit_string(&world.root.signer.sign(&signed)),
        ])
    };
    let bundle = sequence(&[
        &oid("1.2.840.113549.1.7.2"),
        &explicit(
            0,
            &[&sequence(&[
                &integer(&[1]),
                &set(&[]),
                &sequence(&[&oid("1.2.840.113549.1.7.1")]),
                &explicit(0, &[&good]),
                &set(&[]),
            ])],
        ),
    ]);
    vec![
        world.raw("pem", pem),
        world.raw("certificate-request", request),
        world.raw("revocation-list", list),
        world.raw("pkcs7", bundle),
        world.raw("private-key", world.device.private.clone().unwrap()),
        world.raw("public-key", world.device.key.clone()),
        world.raw(
            "html",
            b"<!DOCTYPE html><html><body>404 Not Found</body></html>".to_vec(),
        ),
    ]
}
