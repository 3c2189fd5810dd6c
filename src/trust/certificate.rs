//! A certificate read into a borrowed view (RFC 5280 section 4.1): what verification, facts, summaries and checks look
//! at, parsed once, strings left where they are.
//!
//! This view decides nothing. Whether a certificate is to be trusted is `verify`'s business, over rustls-webpki.

use rustls_pki_types::UnixTime;

use super::algorithm::{algorithm, key};
use super::der::{Element, Malformed, Reader, tag};
use super::names::{Name, Text, dotted};
use super::time::Time;

pub use super::algorithm::{Curve, Key, Signature};

/// What a certificate says. [`Certificate::parse`] has checked the structure of everything that is given out here.
#[derive(Clone, Debug)]
pub struct Certificate<'a> {
    /// 1, 2 or 3.
    pub version: u32,
    /// The serial number's octets as encoded: big-endian, two's complement.
    pub serial: &'a [u8],
    /// Who signed it.
    pub issuer: Name<'a>,
    /// Whose it is.
    pub subject: Name<'a>,
    /// From when it is valid.
    pub not_before: Time<'a>,
    /// Until when it is valid, that second included.
    pub not_after: Time<'a>,
    /// The encoded SubjectPublicKeyInfo with its header.
    pub public_key: &'a [u8],
    /// The key's kind and size.
    pub key: Key,
    /// How the issuer signed.
    pub signature: Signature<'a>,
    /// basicConstraints: whether it may sign certificates at all.
    pub is_ca: bool,
    /// keyUsage, where present.
    pub key_usage: Option<KeyUsage>,
    /// subjectKeyIdentifier.
    pub key_id: Option<&'a [u8]>,
    /// authorityKeyIdentifier's key identifier: which key of the issuer signed.
    pub authority_key_id: Option<&'a [u8]>,
    /// The object identifier of a critical extension that this view does not know.
    pub unknown_critical: Option<&'a [u8]>,
    /// issuerUniqueID or subjectUniqueID, of X.509 version 2.
    pub has_unique_id: bool,
    /// id-pkix-ocsp-nocheck (RFC 6960 section 4.2.2.2.1): an OCSP responder's certificate whose own revocation is not to be
    /// looked at.
    pub is_exempt_from_revocation: bool,
    extended_key_usage: Option<&'a [u8]>,
    alternative_names: &'a [u8],
    authority_information: &'a [u8],
    distribution_points: &'a [u8],
    name_constraints: &'a [u8],
}

/// keyUsage's bits (RFC 5280 section 4.2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUsage(u8);

impl KeyUsage {
    /// The key may sign a handshake.
    pub fn digital_signature(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// The key may sign certificates.
    pub fn key_cert_sign(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// The key may sign lists of revoked certificates.
    pub fn crl_sign(self) -> bool {
        self.0 & 0x02 != 0
    }
}

/// An alternative name of the subject (RFC 5280 section 4.2.1.6), of the kinds that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeName<'a> {
    /// rfc822Name.
    Email(&'a [u8]),
    /// dNSName.
    Dns(&'a [u8]),
    /// uniformResourceIdentifier.
    Uri(&'a [u8]),
    /// Microsoft's user principal name, an otherName: UTF-8.
    Upn(&'a [u8]),
    /// iPAddress: 4 or 16 octets.
    Address(&'a [u8]),
    /// A kind that no fact is made of.
    Other,
}

impl<'a> Certificate<'a> {
    /// Reads a certificate.
    ///
    /// # Errors
    /// [`Malformed`], with the part that is.
    pub fn parse(der: &'a [u8]) -> Result<Certificate<'a>, Malformed> {
        let mut outer = Reader::new(der, "certificate");
        let mut whole = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        let mut fields = whole.inside(tag::SEQUENCE)?;
        let signature = algorithm(&mut whole)?;
        whole.bit_string()?;
        whole.end()?;

        let version = match fields.optional(tag::constructed(0))? {
            None => 1,
            Some(explicit) => {
                let mut explicit = Reader::new(explicit.contents, "version");
                let version = explicit.small_integer()?;
                explicit.end()?;
                version
                    .checked_add(1)
                    .filter(|version| *version <= 3)
                    .ok_or(Malformed("version"))?
            }
        };
        let serial = fields.contents(tag::INTEGER)?;
        if serial.is_empty() {
            return Err(Malformed("serial number"));
        }
        fields.element(tag::SEQUENCE)?; // the signature algorithm again; webpki compares the two
        let issuer = Name::parse(fields.contents(tag::SEQUENCE)?)?;
        let mut validity = fields.inside(tag::SEQUENCE)?;
        let (not_before, not_after) = (Time::read(&mut validity)?, Time::read(&mut validity)?);
        validity.end()?;
        let subject = Name::parse(fields.contents(tag::SEQUENCE)?)?;
        let public_key = fields.element(tag::SEQUENCE)?;
        let key = key(public_key.contents)?;
        let issuer_unique_id = fields.optional(tag::context(1))?;
        let subject_unique_id = fields.optional(tag::context(2))?;

        let mut certificate = Certificate {
            version,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            public_key: public_key.raw,
            key,
            signature,
            is_ca: false,
            key_usage: None,
            key_id: None,
            authority_key_id: None,
            unknown_critical: None,
            has_unique_id: issuer_unique_id.or(subject_unique_id).is_some(),
            is_exempt_from_revocation: false,
            extended_key_usage: None,
            alternative_names: &[],
            authority_information: &[],
            distribution_points: &[],
            name_constraints: &[],
        };
        if let Some(explicit) = fields.optional(tag::constructed(3))? {
            let mut explicit = Reader::new(explicit.contents, "list of extensions");
            let mut extensions = explicit.inside(tag::SEQUENCE)?;
            explicit.end()?;
            let mut seen = 0;
            while !extensions.is_at_end() {
                certificate.extension(extensions.inside(tag::SEQUENCE)?, &mut seen)?;
            }
        }
        fields.end()?;
        Ok(certificate)
    }

    /// Whether subject and issuer are one: a root, or a certificate signed with its own key.
    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Whether `issuer` can have issued this certificate, by name and key identifier. Its signature is not looked at.
    pub fn names_as_issuer(&self, issuer: &Certificate<'_>) -> bool {
        self.issuer == issuer.subject
            && match (self.authority_key_id, issuer.key_id) {
                (Some(wanted), Some(offered)) => wanted == offered,
                _ => true,
            }
    }

    /// Whether `time` lies within its validity.
    pub fn is_valid_at(&self, time: UnixTime) -> bool {
        let now = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        self.not_before.unix <= now && now <= self.not_after.unix
    }

    /// Whether it may sign certificates: basicConstraints, and keyUsage where present (RFC 5280 section 6.1.4 (k), (n)).
    /// A version 1 certificate can say neither.
    pub fn may_sign_certificates(&self) -> bool {
        self.is_ca && self.key_usage.is_none_or(KeyUsage::key_cert_sign)
    }

    /// The purposes of extKeyUsage; none when it is absent.
    pub fn extended_key_usages(&self) -> impl Iterator<Item = Purpose<'a>> {
        let mut purposes = Reader::new(self.extended_key_usage.unwrap_or_default(), "extKeyUsage");
        std::iter::from_fn(move || purposes.contents(tag::OID).ok().map(Purpose))
    }

    /// Whether extKeyUsage is there.
    pub fn restricts_usage(&self) -> bool {
        self.extended_key_usage.is_some()
    }

    /// The subject's alternative names, in order.
    pub fn alternative_names(&self) -> impl Iterator<Item = AlternativeName<'a>> {
        let mut names = Reader::new(self.alternative_names, "subjectAltName");
        std::iter::from_fn(move || names.any().ok().and_then(|name| alternative_name(name).ok()))
    }

    /// Where the issuer's OCSP responders are asked, in order, as they are written: `http://ocsp.example.com`. What is not
    /// well-formed is nowhere: that is for whoever needs an answer to refuse.
    pub fn ocsp_urls(&self) -> Vec<&'a str> {
        authority_information(self.authority_information, OCSP).unwrap_or_default()
    }

    /// Where a list of the issuer's that covers this certificate lies, in order, as they are written; not those of partial
    /// lists, nor of lists that another CA signs. What is not well-formed is nowhere.
    pub fn crl_urls(&self) -> Vec<&'a str> {
        distribution_points(self.distribution_points).unwrap_or_default()
    }

    /// Whether a CA's name constraints are about other names than DNS names and addresses. None of those is understood
    /// here: webpki refuses what they touch. What cannot be read is none of them.
    pub(super) fn has_unusual_name_constraints(&self) -> bool {
        let is_unusual = |base: Element<'_>| ![tag::context(2), tag::context(7)].contains(&base.tag);
        let mut lists = Reader::new(self.name_constraints, "nameConstraints")
            .inside(tag::SEQUENCE)
            .into_iter()
            .flat_map(|mut lists| std::iter::from_fn(move || lists.any().ok()));
        lists.any(|list| {
            let mut subtrees = Reader::new(list.contents, "nameConstraints");
            let mut bases = std::iter::from_fn(move || subtrees.inside(tag::SEQUENCE).ok()?.any().ok());
            bases.any(is_unusual)
        })
    }

    fn extension(&mut self, mut extension: Reader<'a>, seen: &mut u8) -> Result<(), Malformed> {
        let oid = extension.contents(tag::OID)?;
        let critical = extension.optional_boolean()?;
        let value = extension.contents(tag::OCTET_STRING)?;
        extension.end()?;
        let [0x55, 0x1D, number] = oid else {
            match oid {
                AUTHORITY_INFORMATION => self.authority_information = value,
                OCSP_NO_CHECK => self.is_exempt_from_revocation = true,
                _ => {}
            }
            if critical {
                self.unknown_critical = self.unknown_critical.or(Some(oid));
            }
            return Ok(());
        };
        let mut once = |bit: u8| {
            // RFC 5280 section 4.2: a certificate must not have two of one extension
            let first = *seen & 1 << bit == 0;
            *seen |= 1 << bit;
            if first {
                Ok(())
            } else {
                Err(Malformed("list of extensions"))
            }
        };
        match number {
            14 => {
                once(0)?;
                self.key_id = Some(whole(value, "subjectKeyIdentifier", tag::OCTET_STRING)?);
            }
            15 => {
                once(1)?;
                let bits = whole(value, "keyUsage", tag::BIT_STRING)?;
                let (unused, bits) = bits.split_first().ok_or(Malformed("keyUsage"))?;
                if *unused > 7 {
                    return Err(Malformed("keyUsage"));
                }
                self.key_usage = Some(KeyUsage(bits.first().copied().unwrap_or(0)));
            }
            17 => {
                once(2)?;
                let names = whole(value, "subjectAltName", tag::SEQUENCE)?;
                let mut reader = Reader::new(names, "subjectAltName");
                while !reader.is_at_end() {
                    alternative_name(reader.any()?)?;
                }
                self.alternative_names = names;
            }
            19 => {
                once(3)?;
                let mut constraints = Reader::new(whole(value, "basicConstraints", tag::SEQUENCE)?, "basicConstraints");
                self.is_ca = constraints.optional_boolean()?;
                constraints.optional(tag::INTEGER)?;
                constraints.end()?;
            }
            35 => {
                once(4)?;
                let mut identifier = Reader::new(
                    whole(value, "authorityKeyIdentifier", tag::SEQUENCE)?,
                    "authorityKeyIdentifier",
                );
                self.authority_key_id = identifier.optional(tag::context(0))?.map(|key_id| key_id.contents);
            }
            37 => {
                once(5)?;
                let purposes = whole(value, "extKeyUsage", tag::SEQUENCE)?;
                let mut reader = Reader::new(purposes, "extKeyUsage");
                while !reader.is_at_end() {
                    reader.contents(tag::OID)?;
                }
                self.extended_key_usage = Some(purposes);
            }
            30 => self.name_constraints = value,
            31 => self.distribution_points = value,
            _ if critical => self.unknown_critical = self.unknown_critical.or(Some(oid)),
            _ => {}
        }
        Ok(())
    }
}

/// The contents of the one element that an extension's value is.
fn whole<'a>(value: &'a [u8], what: &'static str, tag: u8) -> Result<&'a [u8], Malformed> {
    let mut reader = Reader::new(value, what);
    let contents = reader.contents(tag)?;
    reader.end()?;
    Ok(contents)
}

fn alternative_name(name: Element<'_>) -> Result<AlternativeName<'_>, Malformed> {
    const EMAIL: u8 = tag::context(1);
    const DNS: u8 = tag::context(2);
    const URI: u8 = tag::context(6);
    const ADDRESS: u8 = tag::context(7);
    const OTHER: u8 = tag::constructed(0);
    Ok(match name.tag {
        EMAIL => AlternativeName::Email(name.contents),
        DNS => AlternativeName::Dns(name.contents),
        URI => AlternativeName::Uri(name.contents),
        ADDRESS => AlternativeName::Address(name.contents),
        OTHER => {
            let mut other = Reader::new(name.contents, "otherName");
            let kind = other.contents(tag::OID)?;
            let mut value = other.inside(tag::constructed(0))?;
            let value = value.any()?;
            if kind == UPN && value.tag == tag::UTF8_STRING {
                AlternativeName::Upn(value.contents)
            } else {
                AlternativeName::Other
            }
        }
        _ => AlternativeName::Other,
    })
}

/// The URLs of one access method (RFC 5280 section 4.2.2.1).
fn authority_information<'a>(value: &'a [u8], method: &[u8]) -> Result<Vec<&'a str>, Malformed> {
    const WHAT: &str = "authorityInfoAccess";
    let mut descriptions = Reader::new(whole(value, WHAT, tag::SEQUENCE)?, WHAT);
    let mut urls = Vec::new();
    while !descriptions.is_at_end() {
        let mut description = descriptions.inside(tag::SEQUENCE)?;
        let is_wanted = description.contents(tag::OID)? == method;
        urls.extend(uri(description.any()?).filter(|_| is_wanted));
    }
    Ok(urls)
}

/// The URLs of complete lists that the issuer itself signs (RFC 5280 section 4.2.1.13).
fn distribution_points(value: &[u8]) -> Result<Vec<&str>, Malformed> {
    const WHAT: &str = "cRLDistributionPoints";
    let mut points = Reader::new(whole(value, WHAT, tag::SEQUENCE)?, WHAT);
    let mut urls = Vec::new();
    while !points.is_at_end() {
        let mut point = points.inside(tag::SEQUENCE)?;
        let name = point.optional(tag::constructed(0))?;
        let is_partial = point.optional(tag::context(1))?.is_some();
        let is_of_another_issuer = point.optional(tag::constructed(2))?.is_some();
        point.end()?;
        if let Some(name) = name.filter(|_| !is_partial && !is_of_another_issuer) {
            urls.extend(full_name(name.contents, WHAT)?);
        }
    }
    Ok(urls)
}

/// The URLs of a DistributionPointName; none of one that is relative to the issuer's name.
pub(super) fn full_name<'a>(name: &'a [u8], what: &'static str) -> Result<Vec<&'a str>, Malformed> {
    let mut name = Reader::new(name, what);
    let choice = name.any()?;
    name.end()?;
    let mut urls = Vec::new();
    if choice.tag == tag::constructed(0) {
        let mut names = Reader::new(choice.contents, what);
        while !names.is_at_end() {
            urls.extend(uri(names.any()?));
        }
    }
    Ok(urls)
}

/// The URL of a GeneralName that is one.
fn uri(name: Element<'_>) -> Option<&str> {
    let octets = Some(name.contents).filter(|_| name.tag == tag::context(6))?;
    std::str::from_utf8(octets).ok()
}

impl<'a> AlternativeName<'a> {
    /// The value as a rule compares it; addresses as addresses are written.
    pub fn text(&self) -> Option<std::borrow::Cow<'a, str>> {
        match self {
            AlternativeName::Email(octets)
            | AlternativeName::Dns(octets)
            | AlternativeName::Uri(octets)
            | AlternativeName::Upn(octets) => Some(
                Text {
                    tag: tag::UTF8_STRING,
                    octets,
                }
                .text(),
            ),
            AlternativeName::Address(octets) => match <[u8; 4]>::try_from(*octets) {
                Ok(four) => Some(std::net::Ipv4Addr::from(four).to_string().into()),
                Err(_) => <[u8; 16]>::try_from(*octets)
                    .ok()
                    .map(|all| std::net::Ipv6Addr::from(all).to_string().into()),
            },
            AlternativeName::Other => None,
        }
    }
}

/// A purpose of extKeyUsage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose<'a>(&'a [u8]);

impl<'a> Purpose<'a> {
    /// TLS server authentication.
    pub const SERVER_AUTH: Purpose<'static> = Purpose(&[0x2B, 6, 1, 5, 5, 7, 3, 1]);
    /// TLS client authentication.
    pub const CLIENT_AUTH: Purpose<'static> = Purpose(&[0x2B, 6, 1, 5, 5, 7, 3, 2]);
    /// Any purpose; not enough here (RFC 5280 section 4.2.1.12 lets an application demand its own).
    pub const ANY: Purpose<'static> = Purpose(&[0x55, 0x1D, 37, 0]);

    /// The object identifier's octets.
    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// `1.3.6.1.5.5.7.3.2`
    pub fn dotted(&self) -> String {
        dotted(self.0)
    }

    /// The name that FreeRADIUS shows, where it has one.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.0 {
            [0x2B, 6, 1, 5, 5, 7, 3, number] => match number {
                1 => "TLS Web Server Authentication",
                2 => "TLS Web Client Authentication",
                3 => "Code Signing",
                4 => "E-mail Protection",
                5 => "IPSec End System",
                6 => "IPSec Tunnel",
                7 => "IPSec User",
                8 => "Time Stamping",
                9 => "OCSP Signing",
                10 => "dvcs",
                17 => "ipsec Internet Key Exchange",
                _ => return None,
            },
            [0x2B, 6, 1, 4, 1, 0x82, 0x37, 20, 2, 2] => "Microsoft Smartcard Login",
            [0x2B, 6, 1, 4, 1, 0x82, 0x37, 10, 3, 4] => "Microsoft Encrypted File System",
            [0x2B, 6, 1, 5, 2, 3, 4] => "PKINIT Client Auth",
            [0x2B, 6, 1, 5, 2, 3, 5] => "Signing KDC Response",
            [0x55, 0x1D, 37, 0] => "Any Extended Key Usage",
            _ => return None,
        })
    }
}

const UPN: &[u8] = &[0x2B, 6, 1, 4, 1, 0x82, 0x37, 20, 2, 3];
const AUTHORITY_INFORMATION: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 1, 1];
const OCSP: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 48, 1];
const OCSP_NO_CHECK: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 48, 1, 5];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The certificates of the development PKI, which have most of what is read here.
    fn samples() -> Vec<Vec<u8>> {
        let probe = super::super::pki::probe(1_790_000_000).unwrap();
        vec![probe.ca.to_vec(), probe.client.first().unwrap().to_vec()]
    }

    #[test]
    fn agrees_with_another_parser() {
        for der in samples() {
            let (_, other) = x509_parser::parse_x509_certificate(&der).unwrap();
            let ours = Certificate::parse(&der).unwrap();
            assert_eq!(ours.version, other.version().0 + 1);
            assert_eq!(ours.serial, other.raw_serial());
            assert_eq!(
                (ours.not_before.unix, ours.not_after.unix),
                (
                    other.validity().not_before.timestamp(),
                    other.validity().not_after.timestamp()
                )
            );
            assert_eq!(ours.public_key, other.public_key().raw);
            assert_eq!(ours.is_ca, other.is_ca());
            let names = other
                .subject_alternative_name()
                .unwrap()
                .map_or(0, |names| names.value.general_names.len());
            assert_eq!(ours.alternative_names().count(), names);
            assert_eq!(
                ours.common_name_for_test(),
                other.subject().iter_common_name().next().unwrap().as_str().unwrap()
            );
        }
    }

    impl Certificate<'_> {
        fn common_name_for_test(&self) -> String {
            self.subject.common_names().next().unwrap().into_owned()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn a_broken_certificate_is_read_or_refused(position in any::<prop::sample::Index>(), octet in any::<u8>(), cut in any::<prop::sample::Index>()) {
            for der in samples() {
                let mut changed = der.clone();
                *changed.get_mut(position.index(der.len())).unwrap() = octet;
                if let Ok(certificate) = Certificate::parse(&changed) {
                    let _ = (certificate.subject.one_line(), certificate.alternative_names().count(), certificate.key.name());
                }
                prop_assert!(Certificate::parse(&der[..cut.index(der.len())]).is_err());
            }
        }
    }
}
