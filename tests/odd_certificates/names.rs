//! Subjects, issuers and alternative names.

use crate::der::*;
use crate::make::*;
use crate::shape::{Shape, World};

pub fn all(world: &World) -> Vec<Shape> {
    let mut shapes = subjects(world);
    shapes.extend(strings(world));
    shapes.extend(issuers(world));
    shapes.extend(alternatives(world));
    shapes.extend(other_names(world));
    shapes
}

fn subject(world: &World, name: &'static str, subject: Vec<u8>) -> Shape {
    world.shape(name, |parts| parts.subject = subject)
}

fn subjects(world: &World) -> Vec<Shape> {
    let cn = |text: &str| attribute(COMMON_NAME, &utf8(text));
    let of = |slug, sets: &[Vec<u8>]| subject(world, slug, name(sets));
    let two_in_one = set(&[
        &sequence(&[&oid(COMMON_NAME), &utf8("laptop-7")]),
        &sequence(&[&oid("2.5.4.5"), &printable("C02XK1")]),
    ]);
    let many: Vec<Vec<u8>> = (0..100)
        .map(|number| attribute("2.5.4.11", &utf8(&format!("unit {number}"))))
        .collect();
    vec![
        of("subject-empty", &[]),
        world.shape("no-name-at-all", |parts| {
            parts.subject = name(&[]);
            parts.without(ALTERNATIVE_NAMES);
        }),
        of("two-common-names", &[cn("laptop-7"), cn("seven")]),
        of("names-in-one-set", &[two_in_one]),
        of(
            "subject-with-email",
            &[cn("Seven"), attribute(EMAIL_ADDRESS, &ia5("seven@example.com"))],
        ),
        of(
            "subject-of-active-directory",
            &[
                attribute(DOMAIN_COMPONENT, &ia5("com")),
                attribute(DOMAIN_COMPONENT, &ia5("example")),
                attribute("2.5.4.11", &utf8("Laptops")),
                cn("LAPTOP-7"),
            ],
        ),
        of(
            "subject-of-an-unknown-kind",
            &[cn("laptop-7"), attribute("1.3.6.1.4.1.99999.7", &utf8("blue"))],
        ),
        of("subject-of-100-parts", &many),
        of(
            "country-of-three-letters",
            &[attribute(COUNTRY, &printable("GBR")), cn("laptop-7")],
        ),
        subject(world, "subject-of-the-issuer", world.root.name.clone()),
        of("subject-with-an-empty-set", &[cn("laptop-7"), set(&[])]),
        of(
            "subject-with-half-an-attribute",
            &[set(&[&sequence(&[&oid(COMMON_NAME)])])],
        ),
        of(
            "subject-with-a-third-part",
            &[set(&[&sequence(&[&oid(COMMON_NAME), &utf8("a"), &utf8("b")])])],
        ),
        subject(world, "subject-of-one-text", sequence(&[&utf8("laptop-7")])),
    ]
}

/// Encodings of a common name, and what may stand in it.
fn strings(world: &World) -> Vec<Shape> {
    let cn = |slug, value: Vec<u8>| subject(world, slug, common_name(&value));
    let text = |slug, text: &str| cn(slug, utf8(text));
    let wide = |text: &str| -> Vec<u8> { text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect() };
    vec![
        cn("cn-printable-string", printable("laptop-7")),
        cn("cn-ia5-string", ia5("laptop-7")),
        cn("cn-numeric-string", element(0x12, &[b"0077"])),
        cn("cn-visible-string", element(0x1A, &[b"laptop-7"])),
        cn("cn-t61-string", element(0x14, &[b"M\xFCller"])),
        cn("cn-bmp-string", bmp("M\u{fc}ller")),
        cn("cn-universal-string", element(0x1C, &[&wide("M\u{fc}ller \u{1F511}")])),
        cn("cn-octet-string", octet_string(b"laptop-7")),
        cn("cn-integer", integer(&[7])),
        cn("cn-empty", utf8("")),
        text("cn-umlaut", "M\u{fc}ller"),
        text("cn-of-100-letters", &"a".repeat(100)),
        text("cn-of-5000-letters", &"a".repeat(5_000)),
        cn("cn-with-nul", printable("laptop-7\0.evil.example")),
        text("cn-with-slash", "laptop-7/CN=admin"),
        text("cn-with-comma", "laptop-7, O=Elsewhere"),
        text("cn-with-backslash", "EXAMPLE\\laptop-7"),
        text("cn-with-line-feed", "laptop-7\nreason=policy-accept"),
        text("cn-with-escape", "\u{1b}[2Jlaptop-7"),
        text("cn-turned-round", "laptop-\u{202e}7"),
        text("cn-with-a-space-unseen", "laptop\u{200b}-7"),
        text("cn-with-spaces", "  laptop-7  "),
        text("cn-in-hebrew", "\u{5de}\u{5d7}\u{5e9}\u{5d1}"),
        cn("cn-overlong-utf8", element(0x0C, &[b"laptop\xC0\xAF7"])),
        cn("cn-not-utf8", element(0x0C, &[b"laptop-\xFF"])),
        cn("cn-half-a-bmp-unit", element(0x1E, &[&[0, b'a', 0]])),
        cn("cn-lone-surrogate", element(0x1E, &[&[0xD8, 0, 0, b'a']])),
        cn("cn-beyond-unicode", element(0x1C, &[&[0, 0x11, 0, 0]])),
        text("cn-wildcard", "*.example.com"),
        text("cn-mac-address", "02-00-00-00-00-07"),
        text("cn-template", "%{User-Name}"),
        text("cn-regex", ".*"),
    ]
}

/// The issuer's name otherwise than the CA has it: webpki compares octets.
fn issuers(world: &World) -> Vec<Shape> {
    let of = |slug, sets: &[Vec<u8>]| world.shape(slug, |parts| parts.issuer = name(sets));
    let (c, o) = (
        attribute(COUNTRY, &printable("GB")),
        attribute(ORGANISATION, &utf8("Example")),
    );
    let cn = |value: Vec<u8>| attribute(COMMON_NAME, &value);
    vec![
        of(
            "issuer-in-another-encoding",
            &[c.clone(), o.clone(), cn(printable("Example Root"))],
        ),
        of(
            "issuer-in-other-letters",
            &[c.clone(), o.clone(), cn(utf8("EXAMPLE ROOT"))],
        ),
        of(
            "issuer-with-a-space",
            &[c.clone(), o.clone(), cn(utf8("Example Root "))],
        ),
        of(
            "issuer-in-another-order",
            &[cn(utf8("Example Root")), o.clone(), c.clone()],
        ),
        of("issuer-cut-short", &[c, o]),
        of("issuer-empty", &[]),
    ]
}

fn named(world: &World, slug: &'static str, names: &[Vec<u8>]) -> Shape {
    world.shape(slug, |parts| parts.set(alternative_names(names)))
}

fn alternatives(world: &World) -> Vec<Shape> {
    let of = |slug, names: &[Vec<u8>]| named(world, slug, names);
    let numbered = |number: usize| dns(&format!("laptop-{number}.example.com"));
    let mut shapes = vec![
        world.shape("san-absent", |parts| parts.without(ALTERNATIVE_NAMES)),
        of("san-empty", &[]),
        of(
            "san-of-each-kind",
            &[
                dns("a.example"),
                email("a@example"),
                uri("urn:a"),
                upn("a@b.example"),
                implicit(7, &[192, 0, 2, 7]),
            ],
        ),
        of("san-dns-twice", &[numbered(7), numbered(7)]),
        of("san-64-names", &(0..64).map(numbered).collect::<Vec<_>>()),
        of("san-1000-names", &(0..1_000).map(numbered).collect::<Vec<_>>()),
        of("san-dns-empty", &[dns("")]),
        of("san-dns-wildcard", &[dns("*.example.com")]),
        of("san-dns-underscore", &[dns("my_laptop.example.com")]),
        of("san-dns-one-label", &[dns("LAPTOP-7")]),
        of("san-dns-dot-at-the-end", &[dns("laptop-7.example.com.")]),
        of("san-dns-with-nul", &[implicit(2, b"laptop-7\0.evil.example")]),
        of("san-dns-not-ascii", &[dns("m\u{fc}ller.example.com")]),
        of("san-dns-address", &[dns("192.0.2.7")]),
        of("san-email-not-ascii", &[email("m\u{fc}ller@example.com")]),
        of("san-email-without-domain", &[email("seven")]),
        of("san-uri-without-scheme", &[uri("laptop-7")]),
        of("san-uri-of-8000-octets", &[uri(&"x".repeat(8_000))]),
        of("san-address-4", &[implicit(7, &[192, 0, 2, 7])]),
        of(
            "san-address-6",
            &[implicit(7, &[0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7])],
        ),
        of("san-address-of-5-octets", &[implicit(7, &[192, 0, 2, 7, 24])]),
        of("san-registered-id", &[implicit(8, &oid_octets("1.3.6.1.4.1.99999.7"))]),
        of("san-directory-name", &[explicit(4, &[&example("laptop-7")])]),
        of("san-x400-address", &[explicit(3, &[&sequence(&[])])]),
        of("san-edi-party-name", &[explicit(5, &[&explicit(1, &[&utf8("seven")])])]),
        of("san-of-an-unknown-kind", &[implicit(9, b"seven")]),
        of("san-of-a-text", &[utf8("seven")]),
        world.shape("san-critical", |parts| {
            parts.set(alternative_names(&[dns("laptop-7.example.com")]).critical());
        }),
        world.shape("san-critical-subject-empty", |parts| {
            parts.subject = name(&[]);
            parts.set(alternative_names(&[dns("laptop-7.example.com")]).critical());
        }),
        world.shape("san-extension-twice", |parts| {
            parts.extensions.push(alternative_names(&[dns("admin.example.com")]));
        }),
    ];
    for (slug, value) in [
        ("san-no-sequence", dns("laptop-7")),
        ("san-trailing", [sequence(&[&dns("laptop-7")]), null()].concat()),
        ("san-cut", sequence(&[&[0x82, 20, b'a']])),
    ] {
        shapes.push(world.shape(slug, |parts| parts.set(Extension::new(ALTERNATIVE_NAMES, &value))));
    }
    shapes
}

fn other_names(world: &World) -> Vec<Shape> {
    let of = |slug, name: Vec<u8>| named(world, slug, &[name]);
    let kerberos = sequence(&[
        &explicit(0, &[&element(0x1B, &[b"EXAMPLE.COM"])]),
        &explicit(
            1,
            &[&sequence(&[
                &explicit(0, &[&integer(&[1])]),
                &explicit(1, &[&sequence(&[&element(0x1B, &[b"seven"])])]),
            ])],
        ),
    ]);
    let hardware = sequence(&[&oid("1.3.6.1.4.1.99999.1"), &octet_string(b"SN-0077")]);
    vec![
        of("upn", upn("seven@corp.example.com")),
        named(world, "upn-two", &[upn("seven@corp.example.com"), upn("7@example.com")]),
        of("upn-empty", upn("")),
        of("upn-not-ascii", upn("m\u{fc}ller@corp.example.com")),
        of(
            "upn-with-nul",
            other_name(UPN, &element(0x0C, &[b"admin@corp.example.com\0x"])),
        ),
        of("upn-turned-round", upn("seven\u{202e}@corp.example.com")),
        of("upn-ia5-string", other_name(UPN, &ia5("seven@corp.example.com"))),
        of("upn-bmp-string", other_name(UPN, &bmp("seven@corp.example.com"))),
        of(
            "upn-octet-string",
            other_name(UPN, &octet_string(b"seven@corp.example.com")),
        ),
        of(
            "upn-of-two-values",
            explicit(0, &[&oid(UPN), &explicit(0, &[&utf8("a@example"), &utf8("b@example")])]),
        ),
        of("upn-without-value", explicit(0, &[&oid(UPN), &explicit(0, &[])])),
        of(
            "upn-value-not-explicit",
            explicit(0, &[&oid(UPN), &utf8("seven@corp.example.com")]),
        ),
        of("other-name-without-value", explicit(0, &[&oid(UPN)])),
        of("other-name-kerberos", other_name("1.3.6.1.5.2.2", &kerberos)),
        of("other-name-hardware", other_name("1.3.6.1.5.5.7.8.4", &hardware)),
        of(
            "other-name-xmpp",
            other_name("1.3.6.1.5.5.7.8.5", &utf8("seven@example.com")),
        ),
        of(
            "other-name-smtp-utf8",
            other_name("1.3.6.1.5.5.7.8.9", &utf8("m\u{fc}ller@example.com")),
        ),
        of(
            "other-name-object-guid",
            other_name("1.3.6.1.4.1.311.25.1", &octet_string(&[7; 16])),
        ),
        of(
            "other-name-fasc-n",
            other_name("2.16.840.1.101.3.6.6", &octet_string(&[0xD4; 25])),
        ),
        of(
            "other-name-permanent-id",
            other_name("1.3.6.1.5.5.7.8.3", &sequence(&[&utf8("C02XK1")])),
        ),
    ]
}
