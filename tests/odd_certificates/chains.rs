//! What comes with the certificate, and what the server has: order, gaps, strangers, and CAs with something odd about them.

use portreeve::trust::Demands;

use crate::der::*;
use crate::make::*;
use crate::shape::{Shape, World};

pub fn all(world: &World) -> Vec<Shape> {
    let mut shapes = orders(world);
    shapes.extend(depths(world));
    shapes.extend(strangers(world));
    shapes.extend(odd_issuers(world));
    shapes.extend(name_constraints(world));
    shapes
}

/// A device under an issuer, which comes with it.
fn through(world: &World, name: &'static str, issuer: &Authority) -> Shape {
    world.under(name, issuer, |_| ()).with(&[issuer])
}

fn orders(world: &World) -> Vec<Shape> {
    let root = &world.root;
    let first = Authority::under(root, "Example CA 1");
    let second = Authority::under(&first, "Example CA 2");
    let third = Authority::under(&second, "Example CA 3");
    let stranger = Authority::root("Stranger", Signer::p256());
    let of = |name, issuer: &Authority| world.under(name, issuer, |_| ());
    let plain = || world.root.device(&world.device.key).signed_by(&world.root.signer);
    let other_device = || root.device(&Signer::p256().key).signed_by(&root.signer);
    vec![
        of("one-intermediate", &first).with(&[&first]),
        of("one-intermediate-and-the-root", &first).with(&[&first, root]),
        of("the-root-before-the-intermediate", &first).with(&[root, &first]),
        of("three-intermediates", &third).with(&[&third, &second, &first]),
        of("three-intermediates-backwards", &third).with(&[&first, &second, &third]),
        of("an-intermediate-twice", &first).with(&[&first, &first]),
        of("a-stranger-beside", &first).with(&[&stranger, &first]),
        world.shape("the-root-beside", |_| ()).with(&[root]),
        world.shape("itself-again", |_| ()).with_der(plain()),
        world.shape("another-devices-beside", |_| ()).with_der(other_device()),
        world
            .shape("garbage-beside", |_| ())
            .with_der(b"no certificate".to_vec()),
        world.shape("nothing-beside", |_| ()).with_der(Vec::new()),
        of("intermediate-configured", &first).trusting(&[root, &first]),
        of("intermediate-configured-and-sent", &first)
            .with(&[&first])
            .trusting(&[root, &first]),
        of("lower-intermediate-configured", &second)
            .with(&[&first])
            .trusting(&[root, &second]),
        of("all-intermediates-configured", &third).trusting(&[&second, &third, root, &first]),
        of("intermediate-trusted-as-it-stands", &first).trusting(&[&first]),
        of("intermediate-missing", &first),
        of("middle-intermediate-missing", &third).with(&[&third, &first]),
        of("one-root-of-many", &first)
            .with(&[&first])
            .trusting(&[&stranger, root]),
    ]
}

fn depths(world: &World) -> Vec<Shape> {
    let mut all = vec![Authority::under(&world.root, "Example CA 1")];
    for number in 2..=7 {
        let next = Authority::under(&all[number - 2], &format!("Example CA {number}"));
        all.push(next);
    }
    let of = |name, depth: usize| {
        let sent: Vec<_> = all[..depth].iter().rev().collect();
        world.under(name, &all[depth - 1], |_| ()).with(&sent)
    };
    let strangers: Vec<_> = (0..11)
        .map(|number| Authority::root(&format!("Stranger {number}"), Signer::p256()))
        .collect();
    let crowd = |name, count: usize| {
        world
            .shape(name, |_| ())
            .with(&strangers[..count].iter().collect::<Vec<_>>())
    };
    vec![
        of("six-intermediates", 6),
        of("seven-intermediates", 7),
        Shape {
            demands: Demands {
                max_depth: 1,
                ..Demands::default()
            },
            ..of("two-intermediates-where-one-is-allowed", 2)
        },
        crowd("ten-others-beside", 10),
        crowd("eleven-others-beside", 11),
    ]
}

fn strangers(world: &World) -> Vec<Shape> {
    let root = &world.root;
    let foreign = Authority::root("Foreign Root", Signer::p256());
    let namesake = Authority::root("Example Root", Signer::p256());
    let device = &world.device;
    let elsewhere = {
        let name = name(&[
            attribute(ORGANISATION, &utf8("Elsewhere")),
            attribute(COMMON_NAME, &utf8("Their Root")),
        ]);
        let signer = Signer::p256();
        let der = Authority::parts(&name, &name, &signer.key).signed_by(&signer);
        Authority { name, signer, der }
    };
    let self_signed = |name, subject: &[u8]| {
        let mut parts = root.device(&device.key);
        (parts.issuer, parts.subject) = (subject.to_vec(), subject.to_vec());
        world.raw(name, parts.signed_by(device))
    };
    // a new root, signed by the old one for those that do not know it yet
    let new = Authority::root("New Root", Signer::p256());
    let crossed = Authority::parts(&root.name, &new.name, &new.signer.key).signed_by(&root.signer);
    let issuing = Authority::under(&new, "Example CA 1");
    let cross = |name| world.under(name, &issuing, |_| ()).with(&[&issuing]);
    // two CAs that have signed each other, and nobody else
    let (one, other) = (Signer::p256(), Signer::p256());
    let names = (example("One"), example("Other"));
    let loop_of = [
        Authority::parts(&names.1, &names.0, &one.key).signed_by(&other),
        Authority::parts(&names.0, &names.1, &other.key).signed_by(&one),
    ];
    let mut in_loop = root.device(&device.key);
    in_loop.issuer = names.0;
    let in_loop = in_loop.signed_by(&one);
    // the same CA twice: under its old certificate, which has expired, and under the new one over the same key
    let expired = Authority::under_with(root, "Example CA 1", Signer::p256(), |parts| {
        parts.validity = sequence(&[&utc_time("200101000000Z"), &utc_time("260101000000Z")]);
    });
    let renewed = Authority::parts(&root.name, &expired.name, &expired.signer.key).signed_by(&root.signer);
    vec![
        world.under("of-a-stranger", &elsewhere, |_| ()),
        world
            .under("of-a-stranger-with-its-root", &elsewhere, |_| ())
            .with(&[&elsewhere]),
        world.under("of-another-root-of-the-house", &foreign, |_| ()),
        world.under("of-a-namesake", &namesake, |_| ()),
        world
            .under("of-a-namesake-with-its-root", &namesake, |_| ())
            .with(&[&namesake]),
        self_signed("self-signed", &example("laptop-7")),
        self_signed("self-signed-without-a-name", &name(&[])),
        self_signed("self-signed-as-the-root", &root.name),
        world.raw("the-root-itself", root.der.clone()).without_key(),
        cross("cross-signed-old-root").with_der(crossed.clone()),
        cross("cross-signed-new-root")
            .with_der(crossed.clone())
            .trusting(&[&new]),
        cross("cross-signed-both-roots")
            .with_der(crossed.clone())
            .trusting(&[&new, root]),
        cross("cross-certificate-missing"),
        Shape {
            authorities: vec![root.der.clone(), crossed],
            ..cross("cross-certificate-configured")
        },
        world
            .raw("a-loop-of-cas", in_loop)
            .with_der(loop_of[0].clone())
            .with_der(loop_of[1].clone()),
        through(world, "intermediate-expired", &expired),
        through(world, "intermediate-expired-and-renewed", &expired).with_der(renewed),
    ]
}

fn odd_issuers(world: &World) -> Vec<Shape> {
    let root = &world.root;
    let ca = |change: fn(&mut Parts)| Authority::under_with(root, "Example CA 1", Signer::p256(), change);
    let of = |name, change: fn(&mut Parts)| through(world, name, &ca(change));
    let shallow = Authority::under_with(root, "Example CA 1", Signer::p256(), |parts| {
        parts.set(authority(Some(0)))
    });
    let below = Authority::under(&shallow, "Example CA 2");
    let weak = Authority::under_with(
        root,
        "Example CA 1",
        Signer::openssl(
            &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"],
            rsa_with_sha256(),
            &["-sha256"],
        ),
        |_| (),
    );
    let by_sha1 = {
        let signer = Signer::p256();
        let name = example("Example CA 1");
        let sha1 = root.signer.by_openssl(algorithm("1.2.840.10045.4.1", &[]), &["-sha1"]);
        let der = Authority::parts(&root.name, &name, &signer.key).signed_by(&sha1);
        Authority { name, signer, der }
    };
    let device_as_ca = Authority::under_with(root, "laptop-8", Signer::p256(), |parts| {
        *parts = Parts {
            subject: parts.subject.clone(),
            ..root.device(&parts.key)
        };
    });
    // a root of before extensions existed, which only one who trusts it as it stands can use
    let old = {
        let (name, signer) = (example("Old Root"), Signer::p256());
        let mut parts = Authority::parts(&name, &name, &signer.key);
        parts.version = Vec::new();
        parts.instead_of_extensions = Some(Vec::new());
        let der = parts.signed_by(&signer);
        Authority { name, signer, der }
    };
    let expired_root = {
        let (name, signer) = (example("Expired Root"), Signer::p256());
        let mut parts = Authority::parts(&name, &name, &signer.key);
        parts.validity = sequence(&[&utc_time("200101000000Z"), &utc_time("270101000000Z")]);
        let der = parts.signed_by(&signer);
        Authority { name, signer, der }
    };
    vec![
        through(world, "issuer-path-length-0", &shallow),
        world
            .under("issuer-path-length-exceeded", &below, |_| ())
            .with(&[&below, &shallow]),
        of("issuer-without-basic-constraints", |parts| {
            parts.without(BASIC_CONSTRAINTS)
        }),
        of("issuer-without-key-usage", |parts| parts.without(KEY_USAGE)),
        of("issuer-for-crls-only", |parts| parts.set(key_usage(0x02))),
        of("issuer-for-servers-only", |parts| {
            parts.set(extended_key_usage(&[SERVER_AUTH]))
        }),
        of("issuer-for-any-usage", |parts| {
            parts.set(extended_key_usage(&[ANY_USAGE]))
        }),
        of("issuer-with-policies-critical", |parts| {
            parts.set(Extension::new("2.5.29.32", &sequence(&[&sequence(&[&oid("2.5.29.32.0")])])).critical());
        }),
        of("issuer-with-policy-constraints", |parts| {
            parts.set(Extension::new("2.5.29.36", &sequence(&[&implicit(0, &[0])])).critical());
        }),
        of("issuer-with-an-unknown-critical-extension", |parts| {
            parts.set(Extension::new("1.3.6.1.4.1.99999.3", &null()).critical());
        }),
        of("issuer-of-version-1", |parts| {
            parts.version = Vec::new();
            parts.instead_of_extensions = Some(Vec::new());
        }),
        of("issuer-from-next-year", |parts| {
            parts.validity = sequence(&[&utc_time("280101000000Z"), &utc_time("290101000000Z")]);
        }),
        through(world, "issuer-with-a-weak-key", &weak),
        through(world, "issuer-signed-with-sha1", &by_sha1),
        through(world, "issuer-is-a-device", &device_as_ca),
        world.under("root-of-version-1", &old, |_| ()).trusting(&[&old]),
        world.under("root-of-version-1-sent", &old, |_| ()).with(&[&old]),
        world
            .under("root-expired", &expired_root, |_| ())
            .trusting(&[&expired_root]),
    ]
}

fn name_constraints(world: &World) -> Vec<Shape> {
    let under = |permitted: &[Vec<u8>], excluded: &[Vec<u8>]| {
        let subtrees = |number, names: &[Vec<u8>]| match names {
            [] => Vec::new(),
            names => explicit(
                number,
                &[&names.iter().flat_map(|name| sequence(&[name])).collect::<Vec<u8>>()],
            ),
        };
        let value = sequence(&[&subtrees(0, permitted), &subtrees(1, excluded)]);
        Authority::under_with(&world.root, "Example CA 1", Signer::p256(), |parts| {
            parts.set(Extension::new("2.5.29.30", &value).critical());
        })
    };
    let of = |slug, permitted: &[Vec<u8>], excluded: &[Vec<u8>], names: &[Vec<u8>]| {
        let issuer = under(permitted, excluded);
        let names = alternative_names(names);
        world.under(slug, &issuer, |parts| parts.set(names)).with(&[&issuer])
    };
    let home = || dns("example.com");
    let laptop = || dns("laptop-7.example.com");
    let network = implicit(7, &[192, 0, 2, 0, 255, 255, 255, 0]);
    let directory = || explicit(4, &[&name(&[attribute(COUNTRY, &printable("GB"))])]);
    vec![
        of("constraint-dns-kept", &[home()], &[], &[laptop()]),
        of(
            "constraint-dns-broken",
            &[home()],
            &[],
            &[dns("laptop-7.elsewhere.example")],
        ),
        of("constraint-dns-excluded", &[], &[home()], &[laptop()]),
        of(
            "constraint-dns-and-no-dns-name",
            &[home()],
            &[],
            &[upn("seven@elsewhere.example")],
        ),
        of(
            "constraint-address-kept",
            std::slice::from_ref(&network),
            &[],
            &[implicit(7, &[192, 0, 2, 7])],
        ),
        of(
            "constraint-address-broken",
            &[network],
            &[],
            &[implicit(7, &[198, 51, 100, 7])],
        ),
        of("constraint-directory-name", &[directory()], &[], &[laptop()]),
        of("constraint-directory-name-excluded", &[], &[directory()], &[laptop()]),
        of(
            "constraint-email",
            &[implicit(1, b"example.com")],
            &[],
            &[email("seven@example.com")],
        ),
        of(
            "constraint-email-and-no-email",
            &[implicit(1, b"example.com")],
            &[],
            &[laptop()],
        ),
        of(
            "constraint-uri",
            &[implicit(6, b".example.com")],
            &[],
            &[uri("https://laptop.example.com/")],
        ),
        of(
            "constraint-upn",
            &[other_name(UPN, &utf8("@example.com"))],
            &[],
            &[upn("seven@example.com")],
        ),
        of("constraint-empty", &[], &[], &[laptop()]),
    ]
}
