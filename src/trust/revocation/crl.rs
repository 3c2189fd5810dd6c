//! A certificate revocation list (RFC 5280 section 5), read once: whose it is, how long it is good for, which certificates
//! it covers, and an index of the serial numbers in it.
//!
//! Lists that say less than their looks are refused whole: delta lists, lists of other CAs' certificates (indirect), of
//! attribute certificates or of some reasons only, and those with a critical extension that is not known here. Who signed
//! a list is the caller's to verify, by [`Crl::signed`].

use std::cmp::Ordering;

use super::signature::Signed;
use crate::trust::certificate::{Certificate, full_name};
use crate::trust::der::{Malformed, Reader, tag};
use crate::trust::names::Name;
use crate::trust::time::Time;

/// A list. Its index costs 8 to 16 octets for each entry beside the list itself.
pub(super) struct Crl {
    /// tbsCertList, with its header: what is signed, and what the index points into.
    to_be_signed: Box<[u8]>,
    algorithm: Box<[u8]>,
    signature: Box<[u8]>,
    /// The issuer's name without its outer header.
    pub(super) issuer: Box<[u8]>,
    /// Which of the issuer's keys signed it, where it says so.
    pub(super) authority_key_id: Option<Box<[u8]>>,
    /// Unix seconds.
    pub(super) this_update: i64,
    /// Unix seconds.
    pub(super) next_update: i64,
    /// cRLNumber: big-endian, no zero octet in front; empty where there is none.
    pub(super) number: Box<[u8]>,
    /// Which of the issuer's certificates it is about.
    pub(super) scope: Scope,
    entries: Index,
}

/// Which certificates of its issuer a list covers (issuingDistributionPoint, RFC 5280 section 5.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Those that name one of these URLs; `None` where the list is not divided.
    urls: Option<Vec<String>>,
    /// Only CAs, or only others.
    is_ca: Option<bool>,
}

/// What a list says of a certificate that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Since when, Unix seconds.
    pub since: i64,
    /// Why, where it is said.
    pub reason: Option<&'static str>,
}

/// Why a list cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrlError {
    /// It is none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It says less than it seems to, or something that is not understood.
    #[error("{0}, which is not read")]
    Unsupported(&'static str),
}

impl Crl {
    /// Reads a list.
    ///
    /// # Errors
    /// What is no list, or one that is not read here.
    pub(super) fn parse(der: &[u8]) -> Result<Crl, CrlError> {
        let mut outer = Reader::new(der, WHAT);
        let mut whole = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        let Signed {
            message,
            algorithm,
            signature,
        } = Signed::read(&mut whole)?;
        whole.end()?;

        let mut list = Reader::new(message, WHAT).inside(tag::SEQUENCE)?;
        // version 1 has no number for itself, and no extensions
        if let Some(version) = list.optional(tag::INTEGER)?
            && version.contents != [1]
        {
            return Err(Malformed(WHAT).into());
        }
        if list.contents(tag::SEQUENCE)? != algorithm {
            return Err(Malformed(WHAT).into());
        }
        let issuer = Name::parse(list.contents(tag::SEQUENCE)?)?;
        let this_update = Time::read(&mut list)?.unix;
        // "Conforming CRL issuers MUST include the nextUpdate field in all CRLs": one that never ends is none
        let next_update = Time::read(&mut list)?.unix;
        let entries = list.optional(tag::SEQUENCE)?;
        let entries = Index::new(message, entries.map_or(&[], |entries| entries.contents))?;
        let mut crl = Crl {
            to_be_signed: message.into(),
            algorithm: algorithm.into(),
            signature: signature.into(),
            issuer: issuer.as_bytes().into(),
            authority_key_id: None,
            this_update,
            next_update,
            number: Box::default(),
            scope: Scope::default(),
            entries,
        };
        if let Some(explicit) = list.optional(tag::constructed(0))? {
            let mut explicit = Reader::new(explicit.contents, WHAT);
            let mut extensions = explicit.inside(tag::SEQUENCE)?;
            explicit.end()?;
            while !extensions.is_at_end() {
                crl.extension(extensions.inside(tag::SEQUENCE)?)?;
            }
        }
        list.end()?;
        Ok(crl)
    }

    fn extension(&mut self, extension: Reader<'_>) -> Result<(), CrlError> {
        let Extension { oid, critical, value } = Extension::read(extension)?;
        match oid {
            [0x55, 0x1D, 20] => {
                let mut number = Reader::new(value, "cRLNumber");
                self.number = unsigned(number.contents(tag::INTEGER)?).into();
            }
            [0x55, 0x1D, 27] => return Err(CrlError::Unsupported("a delta list")),
            [0x55, 0x1D, 28] => self.scope = Scope::read(value)?,
            [0x55, 0x1D, 35] => {
                let mut identifier = Reader::new(value, "authorityKeyIdentifier").inside(tag::SEQUENCE)?;
                let key_id = identifier.optional(tag::context(0))?;
                self.authority_key_id = key_id.map(|key_id| key_id.contents.into());
            }
            // "If a CRL contains a critical extension that the application cannot process, then the application MUST NOT
            // use that CRL to determine the status of certificates" (RFC 5280 section 5.2)
            _ if critical => return Err(CrlError::Unsupported("a list with an unknown critical extension")),
            _ => {}
        }
        Ok(())
    }

    /// What is signed and by which signature.
    pub(super) fn signed(&self) -> Signed<'_> {
        Signed {
            message: &self.to_be_signed,
            algorithm: &self.algorithm,
            signature: &self.signature,
        }
    }

    /// Whether it says of this certificate of its issuer that it is revoked, or else that it is not.
    pub(super) fn covers(&self, certificate: &Certificate<'_>) -> bool {
        let Scope { urls, is_ca } = &self.scope;
        let is_its_kind = is_ca.is_none_or(|is_ca| is_ca == certificate.is_ca);
        let is_its_part = || {
            urls.as_ref().is_none_or(|urls| {
                let named = certificate.crl_urls();
                urls.iter().any(|url| named.contains(&url.as_str()))
            })
        };
        is_its_kind && is_its_part()
    }

    /// The entry of a certificate with this serial number, as encoded in the certificate.
    pub(super) fn find(&self, serial: &[u8]) -> Option<Revoked> {
        let entry = self.entries.find(&self.to_be_signed, serial)?;
        // what follows was read when the list was
        let mut rest = Reader::new(entry, WHAT);
        rest.any().ok()?;
        let since = Time::read(&mut rest).ok()?.unix;
        let reason = rest.optional(tag::SEQUENCE).ok().flatten();
        let reason = reason.and_then(|extensions| reason_code(extensions.contents).ok().flatten());
        Some(Revoked { since, reason })
    }

    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.entries.count
    }

    /// Octets of memory.
    pub(super) fn octets_held(&self) -> usize {
        self.to_be_signed.len() + self.entries.slots.len() * size_of::<u32>()
    }

    /// Whether it was issued after `other`, a list of the same issuer and scope. Of two of one second the higher number is
    /// the later one.
    pub(super) fn is_newer_than(&self, other: &Crl) -> bool {
        let by_time = self.this_update.cmp(&other.this_update);
        by_time.then_with(|| compare(&self.number, &other.number)) == Ordering::Greater
    }
}

impl std::fmt::Debug for Crl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crl")
            .field("this_update", &self.this_update)
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}

impl Scope {
    fn read(value: &[u8]) -> Result<Scope, CrlError> {
        const WHAT: &str = "issuingDistributionPoint";
        let mut outer = Reader::new(value, WHAT);
        let mut point = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        let mut scope = Scope::default();
        if let Some(name) = point.optional(tag::constructed(0))? {
            let urls = full_name(name.contents, WHAT)?;
            scope.urls = Some(urls.into_iter().map(str::to_owned).collect());
        }
        let mut flag = |number| -> Result<bool, Malformed> {
            let flag = point.optional(tag::context(number))?;
            Ok(flag.is_some_and(|flag| flag.contents.iter().any(|octet| *octet != 0)))
        };
        let (users_only, authorities_only) = (flag(1)?, flag(2)?);
        if flag(3)? {
            return Err(CrlError::Unsupported("a list of some reasons only"));
        }
        if flag(4)? {
            return Err(CrlError::Unsupported("a list of other CAs' certificates"));
        }
        if flag(5)? || (users_only && authorities_only) {
            return Err(CrlError::Unsupported("a list of attribute certificates"));
        }
        point.end()?;
        scope.is_ca = (users_only || authorities_only).then_some(authorities_only);
        Ok(scope)
    }
}

struct Extension<'a> {
    oid: &'a [u8],
    critical: bool,
    value: &'a [u8],
}

impl<'a> Extension<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Extension<'a>, Malformed> {
        let extension = Extension {
            oid: reader.contents(tag::OID)?,
            critical: reader.optional_boolean()?,
            value: reader.contents(tag::OCTET_STRING)?,
        };
        reader.end()?;
        Ok(extension)
    }
}

/// Where the entries lie in what is signed, by their serial numbers: a table with open addressing.
struct Index {
    /// A power of two of them, half of them empty or more: where an entry's serial number begins, or [`EMPTY`].
    slots: Box<[u32]>,
    count: usize,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    /// Reads `entries`, which are a part of `message`.
    fn new(message: &[u8], entries: &[u8]) -> Result<Index, CrlError> {
        let mut found = Vec::new();
        let mut reader = Reader::new(entries, WHAT);
        while !reader.is_at_end() {
            let mut entry = reader.inside(tag::SEQUENCE)?;
            let serial = entry.element(tag::INTEGER)?;
            Time::read(&mut entry)?;
            if let Some(extensions) = entry.optional(tag::SEQUENCE)? {
                reason_code(extensions.contents)?;
            }
            entry.end()?;
            // how far it lies behind the beginning, the addresses tell
            let at = serial.raw.as_ptr().addr() - message.as_ptr().addr();
            let at = u32::try_from(at)
                .ok()
                .filter(|at| *at != EMPTY)
                .ok_or(Malformed(WHAT))?;
            found.push((at, hash(serial.contents)));
        }
        let mut index = Index {
            slots: vec![EMPTY; (2 * found.len()).next_power_of_two()].into(),
            count: found.len(),
        };
        for (at, hash) in found {
            let free = index.probe(hash).find(|slot| index.slots.get(*slot) == Some(&EMPTY));
            if let Some(slot) = free.and_then(|slot| index.slots.get_mut(slot)) {
                *slot = at;
            }
        }
        Ok(index)
    }

    /// The entry with this serial number, from there on.
    fn find<'a>(&self, message: &'a [u8], serial: &[u8]) -> Option<&'a [u8]> {
        let wanted = unsigned(serial);
        for slot in self.probe(hash(serial)) {
            let at = *self.slots.get(slot).filter(|at| **at != EMPTY)?;
            let entry = message.get(usize::try_from(at).ok()?..)?;
            if unsigned(Reader::new(entry, WHAT).contents(tag::INTEGER).ok()?) == wanted {
                return Some(entry);
            }
        }
        None
    }

    /// All slots, from the one of this hash on.
    fn probe(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len() - 1;
        let first = usize::try_from(hash & u64::try_from(mask).unwrap_or(u64::MAX)).unwrap_or_default();
        (0..=mask).map(move |step| first.wrapping_add(step) & mask)
    }
}

/// FNV-1a, and its upper half folded in. The CA chooses the numbers: nobody gains by making them collide.
fn hash(serial: &[u8]) -> u64 {
    let hash = unsigned(serial).iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01B3)
    });
    hash ^ (hash >> 32)
}

/// The reason in an entry's extensions (RFC 5280 section 5.3.1).
fn reason_code(extensions: &[u8]) -> Result<Option<&'static str>, CrlError> {
    let mut extensions = Reader::new(extensions, WHAT);
    let mut reason = None;
    while !extensions.is_at_end() {
        let Extension { oid, critical, value } = Extension::read(extensions.inside(tag::SEQUENCE)?)?;
        match oid {
            [0x55, 0x1D, 21] => {
                let mut code = Reader::new(value, "reasonCode");
                reason = code
                    .contents(tag::ENUMERATED)?
                    .first()
                    .and_then(|code| reason_word(*code));
            }
            // certificateIssuer, of lists of other CAs' certificates, is such a one
            _ if critical => return Err(CrlError::Unsupported("a list with an unknown critical extension")),
            _ => {}
        }
    }
    Ok(reason)
}

/// A CRLReason in words.
pub(super) fn reason_word(code: u8) -> Option<&'static str> {
    Some(match code {
        1 => "key compromise",
        2 => "ca compromise",
        3 => "affiliation changed",
        4 => "superseded",
        5 => "cessation of operation",
        6 => "on hold",
        9 => "privilege withdrawn",
        10 => "aa compromise",
        _ => return None,
    })
}

/// A number without zero octets in front: some CAs write the same serial number with and without one.
fn unsigned(octets: &[u8]) -> &[u8] {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    octets.get(zeros..).unwrap_or_default()
}

/// Compares numbers without zero octets in front.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

const WHAT: &str = "certificate revocation list";

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use rcgen::{CrlDistributionPoint, CrlIssuingDistributionPoint, CrlScope};

    use super::*;
    use crate::eap::tls::provider;
    use crate::trust::revocation::testing::{Ca, unix};

    fn of(ca: &Ca, crl: &Crl) -> bool {
        let der = ca.der();
        let issuer = Certificate::parse(&der).unwrap();
        crl.signed()
            .is_by(issuer.public_key, &provider().signature_verification_algorithms)
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
        use crate::trust::revocation::ocsp::encode;
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
        use crate::trust::revocation::ocsp::encode;
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
}
