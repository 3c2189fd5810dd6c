//! What lists say, and which are refused.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rcgen::{CrlDistributionPoint, CrlIssuingDistributionPoint, CrlScope};

use super::authority::{Ca, unix};
use crate::trust::certificate::Certificate;
use crate::trust::der::{Reader, tag};
use crate::trust::revocation::crl::{Crl, CrlError, Revoked};
use crate::trust::revocation::ocsp::encode;
use crate::trust::verify::chain_algorithms;

fn of(ca: &Ca, crl: &Crl) -> bool {
    let der = ca.der();
    let issuer = Certificate::parse(&der).unwrap();
    crl.signed().is_by(issuer.public_key, &chain_algorithms())
}

#[test]
fn a_list_says_whose_it_is_and_who_is_in_it() {
    let (ca, other, now) = (Ca::new("ca"), Ca::new("ca"), unix());
    let crl = Crl::parse(&ca.list(&[7, 300, 0xFF, 0x8000_0000_0000_0001, 2], now, 42)).unwrap();
    assert!(of(&ca, &crl) && !of(&other, &crl));
    assert_eq!(*crl.issuer, *Certificate::parse(&ca.der()).unwrap().subject.as_bytes());
    assert_eq!(
        (crl.this_update, crl.next_update, &*crl.number),
        (now, now + 86_400, &[42][..])
    );
    let revoked = Some(Revoked {
        since: now - 60,
        reason: Some("key compromise"),
    });
    for serial in [
        &[7][..],
        &[1, 44],
        &[0, 0xFF],
        &[0xFF],
        &[0x80, 0, 0, 0, 0, 0, 0, 1],
        &[0, 0, 2],
    ] {
        assert_eq!(crl.find(serial), revoked, "{serial:?}");
    }
    for serial in [
        &[][..],
        &[0],
        &[1],
        &[3],
        &[8],
        &[7, 0],
        &[1, 45],
        &[0xFF, 0],
        &[255; 21],
    ] {
        assert_eq!(crl.find(serial), None, "{serial:?}");
    }
    let empty = Crl::parse(&ca.list(&[], now, 1)).unwrap();
    assert_eq!((empty.len(), empty.find(&[1])), (0, None));
}

#[test]
fn of_two_lists_the_later_one_is_newer() {
    let (ca, now) = (Ca::new("ca"), unix());
    let list = |issued, number| Crl::parse(&ca.list(&[], issued, number)).unwrap();
    let first = list(now, 255);
    assert!(list(now + 1, 256).is_newer_than(&first) && list(now, 256).is_newer_than(&first));
    assert!(list(now + 1, 3).is_newer_than(&first), "a CA whose numbers began anew");
    for other in [list(now, 255), list(now, 9), list(now - 1, 9_000)] {
        assert!(!other.is_newer_than(&first));
    }
}

#[test]
fn a_divided_list_covers_its_part() {
    let (ca, now) = (Ca::new("ca"), unix());
    let divided = |url: &str, scope| {
        let list = ca.list_with(&[], now, 1, |params| {
            params.issuing_distribution_point = Some(CrlIssuingDistributionPoint {
                distribution_point: CrlDistributionPoint {
                    uris: vec![url.to_owned()],
                },
                scope,
            });
        });
        Crl::parse(&list).unwrap()
    };
    let part_1 = ca.issue("device", |params| {
        params.crl_distribution_points = vec![CrlDistributionPoint {
            uris: vec!["ldap:///1".to_owned(), "http://pki/1".to_owned()],
        }];
    });
    let certificate = Certificate::parse(&part_1.der).unwrap();
    let authority = ca.der();
    let authority = Certificate::parse(&authority).unwrap();
    assert_eq!(certificate.crl_urls(), ["ldap:///1", "http://pki/1"]);
    assert!(divided("http://pki/1", None).covers(&certificate));
    assert!(divided("http://pki/1", Some(CrlScope::UserCertsOnly)).covers(&certificate));
    assert!(!divided("http://pki/1", Some(CrlScope::CaCertsOnly)).covers(&certificate));
    assert!(!divided("http://pki/2", None).covers(&certificate));
    assert!(!divided("http://pki/1", None).covers(&authority), "it names no list");
    let whole = Crl::parse(&ca.list(&[], now, 1)).unwrap();
    assert!(whole.covers(&certificate) && whole.covers(&authority));
}

/// Ends a list's extensions by one more.
fn with_extension(list: &[u8], extension: &[u8]) -> Vec<u8> {
    let mut whole = Reader::new(list, "test").inside(tag::SEQUENCE).unwrap();
    let mut fields = whole.inside(tag::SEQUENCE).unwrap();
    let mut parts = Vec::new();
    while let Ok(field) = fields.any() {
        if field.tag == tag::constructed(0) {
            let extensions = Reader::new(field.contents, "test").contents(tag::SEQUENCE).unwrap();
            let extensions = encode(tag::SEQUENCE, &[extensions, extension]);
            parts.extend(encode(tag::constructed(0), &[&extensions]));
        } else {
            parts.extend(field.raw);
        }
    }
    let rest = [whole.any().unwrap().raw, whole.any().unwrap().raw].concat();
    encode(tag::SEQUENCE, &[&encode(tag::SEQUENCE, &[&parts]), &rest])
}

#[test]
fn lists_that_say_less_than_they_seem_to_are_refused() {
    let list = Ca::new("ca").list(&[7], unix(), 1);
    let extension = |oid: &[u8], critical: bool, value: &[u8]| {
        let critical = if critical { &[1, 1, 0xFF][..] } else { &[] };
        let parts = [
            &encode(tag::OID, &[oid]),
            critical,
            &encode(tag::OCTET_STRING, &[value]),
        ];
        encode(tag::SEQUENCE, &parts)
    };
    let point = |number: u8, value: &[u8]| {
        let value = encode(tag::SEQUENCE, &[&encode(tag::context(number), &[value])]);
        extension(&[0x55, 0x1D, 28], true, &value)
    };
    for (extension, what) in [
        (extension(&[0x55, 0x1D, 27], true, &[2, 1, 1]), "a delta list"),
        (
            extension(&[0x2A, 3], true, &[5, 0]),
            "a list with an unknown critical extension",
        ),
        (point(3, &[1, 0x40]), "a list of some reasons only"),
        (point(4, &[0xFF]), "a list of other CAs' certificates"),
        (point(5, &[0xFF]), "a list of attribute certificates"),
    ] {
        assert_eq!(
            Crl::parse(&with_extension(&list, &extension)).unwrap_err(),
            CrlError::Unsupported(what)
        );
    }
    let harmless = extension(&[0x2A, 3], false, &[5, 0]);
    assert!(Crl::parse(&with_extension(&list, &harmless)).is_ok());
}

/// The bounds hold without optimisation; with it, both are some twenty times as fast. The best of a few runs counts: what
/// else this machine does is no business of this test.
#[test]
fn a_hundred_thousand_entries_are_read_in_a_second_and_found_in_ten_microseconds() {
    let ca = Ca::new("ca");
    let serials: Vec<u64> = (1..=100_000_u64)
        .map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect();
    let list = ca.list(&serials, unix(), 1);
    let wanted: Vec<_> = serials.iter().step_by(10).map(|serial| serial.to_be_bytes()).collect();
    let others: Vec<_> = wanted.iter().map(|serial| [&serial[..], &[1]].concat()).collect();
    let (mut reading, mut finding) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let begun = Instant::now();
        let crl = Crl::parse(&list).unwrap();
        assert!(of(&ca, &crl));
        reading = reading.min(begun.elapsed());
        assert_eq!(crl.len(), 100_000);
        assert!(crl.octets_held() < list.len() + 16 * crl.len());

        let begun = Instant::now();
        let found = wanted.iter().filter(|serial| crl.find(&serial[..]).is_some()).count();
        let missed = others.iter().filter(|serial| crl.find(serial).is_some()).count();
        finding = finding.min(begun.elapsed() / u32::try_from(2 * wanted.len()).unwrap());
        assert_eq!((found, missed), (wanted.len(), 0));
    }
    println!(
        "100,000 entries, {} octets: read and verified in {reading:?}, a look-up {finding:?}",
        list.len()
    );
    assert!(reading < Duration::from_secs(1), "read in {reading:?}");
    assert!(finding < Duration::from_micros(10), "a look-up took {finding:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_broken_list_is_read_or_refused_and_signed_by_nobody(
        position in any::<prop::sample::Index>(), octet in any::<u8>(), cut in any::<prop::sample::Index>()
    ) {
        static LIST: std::sync::LazyLock<(Ca, Vec<u8>)> = std::sync::LazyLock::new(|| {
            let ca = Ca::new("ca");
            let list = ca.list(&[1, 0xFFFF, 0x8000_0000], unix(), 256);
            (ca, list)
        });
        let (ca, list) = &*LIST;
        let mut changed = list.clone();
        let at = position.index(list.len());
        changed[at] = octet;
        if let Ok(crl) = Crl::parse(&changed) {
            for serial in [&[1][..], &[0xFF, 0xFF], &[]] {
                crl.find(serial);
            }
            prop_assert!(changed == *list || !of(ca, &crl));
        }
        prop_assert!(Crl::parse(&list[..cut.index(list.len())]).is_err());
    }
}
