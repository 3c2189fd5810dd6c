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
