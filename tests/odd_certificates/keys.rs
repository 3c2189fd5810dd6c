//! Keys of devices and CAs, and signatures.

use portreeve::eap::tls::TlsVersion;
use rcgen::{KeyPair, RsaKeySize};

use crate::der::*;
use crate::make::*;
use crate::shape::{Shape, World};

const RSA: &str = "1.2.840.113549.1.1.1";
const RSASSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";

pub fn all(world: &World) -> Vec<Shape> {
    let rsa = Signer::of(
        KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
        rsa_with_sha256(),
    );
    // of five primes, which are found in a tenth of the time
    let large = Signer::openssl(
        &[
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:8192",
            "-pkeyopt",
            "rsa_keygen_primes:5",
        ],
        rsa_with_sha256(),
        &["-sha256"],
    );
    let mut shapes = rsa_keys(world, &rsa, &large);
    shapes.extend(curves(world));
    shapes.extend(other_keys(world, &rsa));
    shapes.extend(signatures(world, &rsa));
    shapes.extend(issuers(world, &rsa, &large));
    shapes
}

/// A key of RSA that nobody has the other half of.
fn rsa_key(octets: usize, first: u8, exponent: &[u8]) -> Vec<u8> {
    let mut modulus = vec![0xC5; octets];
    modulus[0] = first;
    let modulus = match first {
        0x80.. => [&[0][..], &modulus].concat(),
        _ => modulus,
    };
    rsa_info(&algorithm(RSA, &[&null()]), &modulus, exponent)
}

fn rsa_info(algorithm: &[u8], modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = sequence(&[&integer(modulus), &integer(exponent)]);
    sequence(&[algorithm, &bit_string(&key)])
}

const F4: &[u8] = &[1, 0, 1];

fn rsa_keys(world: &World, rsa: &Signer, large: &Signer) -> Vec<Shape> {
    let of = |name, octets, first| world.public(name, &rsa_key(octets, first, F4));
    let exponent = |name, exponent: &[u8]| world.public(name, &rsa_key(256, 0xC5, exponent));
    let modulus = [&[0][..], &[0xC5; 256]].concat();
    let medium = Signer::of(
        KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072).unwrap(),
        rsa_with_sha256(),
    );
    vec![
        of("rsa-512", 64, 0xC5),
        of("rsa-1024", 128, 0xC5),
        of("rsa-2040", 255, 0xC5),
        of("rsa-2047", 256, 0x65),
        world.keyed("rsa-2048", rsa),
        world.keyed("rsa-3072", &medium),
        of("rsa-4096", 512, 0xC5),
        world.keyed("rsa-8192", large).without_key(),
        of("rsa-8200", 1_025, 0xC5),
        of("rsa-16384", 2_048, 0xC5),
        exponent("rsa-exponent-3", &[3]),
        exponent("rsa-exponent-1", &[1]),
        exponent("rsa-exponent-even", &[1, 0, 0]),
        exponent("rsa-exponent-zero", &[0]),
        exponent("rsa-exponent-negative", &[0xFF]),
        world.public(
            "rsa-modulus-negative",
            &rsa_info(&algorithm(RSA, &[&null()]), &[0xC5; 256], F4),
        ),
        world.public("rsa-modulus-zero", &rsa_info(&algorithm(RSA, &[&null()]), &[0], F4)),
        world.public("rsa-without-parameters", &rsa_info(&algorithm(RSA, &[]), &modulus, F4)),
        world.public(
            "rsa-key-of-garbage",
            &sequence(&[&algorithm(RSA, &[&null()]), &bit_string(b"no key")]),
        ),
        world.public(
            "rsa-key-empty",
            &sequence(&[&algorithm(RSA, &[&null()]), &bit_string(&[])]),
        ),
        world.public("rsa-pss", &rsa_info(&algorithm(RSASSA_PSS, &[]), &modulus, F4)),
        world.public(
            "rsa-pss-sha256",
            &rsa_info(&pss("2.16.840.1.101.3.4.2.1", 32), &modulus, F4),
        ),
        world.public(
            "rsa-pss-sha1",
            &rsa_info(&algorithm(RSASSA_PSS, &[&sequence(&[])]), &modulus, F4),
        ),
        world.public(
            "rsa-pss-1024",
            &rsa_info(&algorithm(RSASSA_PSS, &[]), &modulus[..129], F4),
        ),
    ]
}

/// RSASSA-PSS with one hash throughout.
fn pss(hash: &str, salt: u8) -> Vec<u8> {
    let hash = algorithm(hash, &[&null()]);
    let mask = algorithm("1.2.840.113549.1.1.8", &[&hash]);
    let parameters = [
        explicit(0, &[&hash]),
        explicit(1, &[&mask]),
        explicit(2, &[&integer(&[salt])]),
    ];
    algorithm(RSASSA_PSS, &[&sequence(&[&parameters.concat()])])
}

fn curves(world: &World) -> Vec<Shape> {
    let key = |pair: &'static rcgen::SignatureAlgorithm| Signer::of(KeyPair::generate_for(pair).unwrap(), Vec::new());
    let by_openssl = |curve: &str, encoding: &str| {
        let (curve, encoding) = (format!("ec_paramgen_curve:{curve}"), format!("ec_param_enc:{encoding}"));
        Signer::openssl(
            &["-algorithm", "EC", "-pkeyopt", &curve, "-pkeyopt", &encoding],
            Vec::new(),
            &[],
        )
        .key
    };
    let point = world.device.key[world.device.key.len() - 65..].to_vec();
    let p256 = algorithm(EC, &[&oid(P256)]);
    let with_point = |point: &[u8]| sequence(&[&p256, &bit_string(point)]);
    let (x, y) = (&point[1..33], &point[33..]);
    let parity = y[31] & 1;
    let compressed = with_point(&[&[2 | parity][..], x].concat());
    let private = world.device.private.clone();
    vec![
        world.keyed("p384", &key(&rcgen::PKCS_ECDSA_P384_SHA384)),
        world.keyed("p521", &key(&rcgen::PKCS_ECDSA_P521_SHA512)),
        world.public("p224", &by_openssl("P-224", "named_curve")),
        world.public("p192", &by_openssl("prime192v1", "named_curve")),
        world.public("secp256k1", &by_openssl("secp256k1", "named_curve")),
        world.public("brainpool-p256", &by_openssl("brainpoolP256r1", "named_curve")),
        world.public("sm2", &by_openssl("SM2", "named_curve")),
        world.public("p256-with-explicit-parameters", &by_openssl("P-256", "explicit")),
        Shape {
            private,
            ..world.public("p256-point-compressed", &compressed)
        },
        world.public("p256-point-hybrid", &with_point(&[&[6 | parity][..], x, y].concat())),
        world.public("p256-point-short", &with_point(&point[..64])),
        world.public("p256-point-long", &with_point(&[&point[..], &[0]].concat())),
        world.public("p256-point-at-infinity", &with_point(&[0])),
        world.public("p256-point-empty", &with_point(&[])),
        world.public(
            "ec-without-curve",
            &sequence(&[&algorithm(EC, &[]), &bit_string(&point)]),
        ),
    ]
}

fn other_keys(world: &World, rsa: &Signer) -> Vec<Shape> {
    let by_openssl = |name: &str| Signer::openssl(&["-algorithm", name], Vec::new(), &[]);
    let key = |dotted: &str, octets: usize| sequence(&[&algorithm(dotted, &[]), &bit_string(&vec![7; octets])]);
    let ed25519 = by_openssl("ED25519");
    let dsa = sequence(&[
        &algorithm(
            "1.2.840.10040.4.1",
            &[&sequence(&[
                &integer(&[0x75; 128]),
                &integer(&[0x75; 20]),
                &integer(&[0x35; 128]),
            ])],
        ),
        &bit_string(&integer(&[0x35; 128])),
    ]);
    let bits_left = sequence(&[&algorithm(RSA, &[&null()]), &element(0x03, &[&[3], &rsa.key])]);
    let lattice = Signer::of(KeyPair::generate_for(&rcgen::PKCS_ML_DSA_65).unwrap(), Vec::new());
    vec![
        Shape {
            // TLS 1.2 has no signatures of this kind
            versions: &[TlsVersion::V13],
            ..world.keyed("ml-dsa-65", &lattice)
        },
        world.keyed("ed25519", &ed25519),
        world.public("ed25519-of-31-octets", &key("1.3.101.112", 31)),
        world.public("ed448", &by_openssl("ED448").key),
        world.public("x25519", &by_openssl("X25519").key),
        world.public("dsa", &dsa),
        world.public("gost", &key("1.2.643.7.1.1.1.1", 66)),
        world.public("key-of-a-vendor", &key("1.3.6.1.4.1.99999.5", 32)),
        world.public("key-with-bits-left", &bits_left),
        world.public("key-of-nothing", &sequence(&[])),
        world.public("key-no-sequence", &null()),
    ]
}

/// How the root has signed.
fn signatures(world: &World, rsa: &Signer) -> Vec<Shape> {
    const ECDSA: &str = "1.2.840.10045.4.3";
    const PKCS1: &str = "1.2.840.113549.1.1";
    let ecdsa = |name, dotted: String, options| {
        let signer = world.root.signer.by_openssl(algorithm(&dotted, &[]), options);
        signed(world, name, &signer)
    };
    let with_rsa = |name, algorithm: Vec<u8>, options| {
        let root = Authority::root("RSA Root", rsa.by_openssl(algorithm, options));
        world.under(name, &root, |_| ()).trusting(&[&root])
    };
    let pkcs1 =
        |name, number: u8, options| with_rsa(name, algorithm(&format!("{PKCS1}.{number}"), &[&null()]), options);
    let plain = world.root.device(&world.device.key);
    let signature = |name, signature: &[u8]| {
        let signed = plain.to_be_signed(&world.root.signer);
        world.raw(name, sequence(&[&signed, &ecdsa_with_sha256(), signature]))
    };
    let good = world.root.signer.sign(&plain.to_be_signed(&world.root.signer));
    let mut bent = good.clone();
    *bent.last_mut().unwrap() ^= 1;
    vec![
        ecdsa("signed-ecdsa-sha1", "1.2.840.10045.4.1".into(), &["-sha1"]),
        ecdsa("signed-ecdsa-sha224", format!("{ECDSA}.1"), &["-sha224"]),
        ecdsa("signed-ecdsa-sha384", format!("{ECDSA}.3"), &["-sha384"]),
        ecdsa("signed-ecdsa-sha512", format!("{ECDSA}.4"), &["-sha512"]),
        ecdsa("signed-ecdsa-sha3", "2.16.840.1.101.3.4.3.10".into(), &["-sha3-256"]),
        pkcs1("signed-rsa-md5", 4, &["-md5"]),
        pkcs1("signed-rsa-sha1", 5, &["-sha1"]),
        pkcs1("signed-rsa-sha224", 14, &["-sha224"]),
        pkcs1("signed-rsa-sha256", 11, &["-sha256"]),
        pkcs1("signed-rsa-sha384", 12, &["-sha384"]),
        pkcs1("signed-rsa-sha512", 13, &["-sha512"]),
        pkcs1("signed-rsa-sha512-256", 16, &["-sha512-256"]),
        with_rsa(
            "signed-rsa-sha256-without-null",
            algorithm("1.2.840.113549.1.1.11", &[]),
            &["-sha256"],
        ),
        with_rsa("signed-pss-sha256", pss("2.16.840.1.101.3.4.2.1", 32), PSS_SHA256),
        with_rsa(
            "signed-pss-sha384",
            pss("2.16.840.1.101.3.4.2.2", 48),
            &[
                "-sha384",
                "-sigopt",
                "rsa_padding_mode:pss",
                "-sigopt",
                "rsa_pss_saltlen:48",
            ],
        ),
        with_rsa(
            "signed-pss-sha512",
            pss("2.16.840.1.101.3.4.2.3", 64),
            &[
                "-sha512",
                "-sigopt",
                "rsa_padding_mode:pss",
                "-sigopt",
                "rsa_pss_saltlen:64",
            ],
        ),
        with_rsa(
            "signed-pss-sha1",
            algorithm(RSASSA_PSS, &[&sequence(&[])]),
            &[
                "-sha1",
                "-sigopt",
                "rsa_padding_mode:pss",
                "-sigopt",
                "rsa_pss_saltlen:20",
            ],
        ),
        with_rsa(
            "signed-pss-salt-20",
            pss("2.16.840.1.101.3.4.2.1", 20),
            &[
                "-sha256",
                "-sigopt",
                "rsa_padding_mode:pss",
                "-sigopt",
                "rsa_pss_saltlen:20",
            ],
        ),
        with_rsa(
            "signed-pss-salt-222",
            pss("2.16.840.1.101.3.4.2.1", 222),
            &[
                "-sha256",
                "-sigopt",
                "rsa_padding_mode:pss",
                "-sigopt",
                "rsa_pss_saltlen:222",
            ],
        ),
        world.shape("signed-otherwise-than-said", |parts| {
            parts.algorithm = Some(algorithm("1.2.840.10045.4.3.3", &[]))
        }),
        signature("signature-bent", &bit_string(&bent)),
        signature("signature-of-zeros", &bit_string(&[0; 64])),
        signature("signature-empty", &bit_string(&[])),
        signature("signature-trailing", &bit_string(&[&good[..], &[0]].concat())),
        signature("signature-with-bits-left", &element(0x03, &[&[1], &good])),
        signature("signature-no-bit-string", &octet_string(&good)),
        signed(world, "signed-by-another-key", &Signer::p256()),
    ]
}

const PSS_SHA256: &[&str] = &[
    "-sha256",
    "-sigopt",
    "rsa_padding_mode:pss",
    "-sigopt",
    "rsa_pss_saltlen:32",
];

fn signed(world: &World, name: &'static str, signer: &Signer) -> Shape {
    world.raw(name, world.root.device(&world.device.key).signed_by(signer))
}

/// The root's own key.
fn issuers(world: &World, rsa: &Signer, large: &Signer) -> Vec<Shape> {
    let under = |name, signer: Signer| {
        let root = Authority::root("Another Root", signer);
        world.under(name, &root, |_| ()).trusting(&[&root])
    };
    let rcgen = |pair: &'static rcgen::SignatureAlgorithm, dotted: &str| {
        Signer::of(KeyPair::generate_for(pair).unwrap(), algorithm(dotted, &[]))
    };
    let generated = |arguments: &[&str], algorithm: Vec<u8>, options| Signer::openssl(arguments, algorithm, options);
    let ecdsa_by = |curve: &str| {
        let curve = format!("ec_paramgen_curve:{curve}");
        generated(
            &["-algorithm", "EC", "-pkeyopt", &curve],
            ecdsa_with_sha256(),
            &["-sha256"],
        )
    };
    vec![
        under("ca-p384", rcgen(&rcgen::PKCS_ECDSA_P384_SHA384, "1.2.840.10045.4.3.3")),
        under("ca-p521", rcgen(&rcgen::PKCS_ECDSA_P521_SHA512, "1.2.840.10045.4.3.4")),
        under("ca-ed25519", rcgen(&rcgen::PKCS_ED25519, "1.3.101.112")),
        under("ca-ml-dsa-65", rcgen(&rcgen::PKCS_ML_DSA_65, "2.16.840.1.101.3.4.3.18")),
        under("ca-rsa-2048", rsa.by_openssl(rsa_with_sha256(), &["-sha256"])),
        under("ca-rsa-8192", large.by_openssl(rsa_with_sha256(), &["-sha256"])),
        under(
            "ca-rsa-1024",
            generated(
                &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"],
                rsa_with_sha256(),
                &["-sha256"],
            ),
        ),
        under(
            "ca-rsa-exponent-3",
            generated(
                &[
                    "-algorithm",
                    "RSA",
                    "-pkeyopt",
                    "rsa_keygen_bits:2048",
                    "-pkeyopt",
                    "rsa_keygen_pubexp:3",
                ],
                rsa_with_sha256(),
                &["-sha256"],
            ),
        ),
        under(
            "ca-rsa-pss",
            generated(
                &["-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"],
                pss("2.16.840.1.101.3.4.2.1", 32),
                PSS_SHA256,
            ),
        ),
        under(
            "ca-ed448",
            generated(&["-algorithm", "ED448"], algorithm("1.3.101.113", &[]), &[]),
        ),
        under("ca-secp256k1", ecdsa_by("secp256k1")),
        under("ca-p224", ecdsa_by("P-224")),
    ]
}
