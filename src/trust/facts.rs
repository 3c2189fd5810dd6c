//! A certificate as rules see it: `TLS-Client-Cert-*` of the device's certificate, `TLS-Cert-*` of the CA that issued it,
//! under the names and in the forms that FreeRADIUS users know.
//!
//! Only a certificate that was verified may become facts; that is the caller's to see to. What is not in a certificate is
//! absent, what cannot be a value (too long, too many) is malformed, so that no rule on it holds: neither `present` nor
//! `absent`. So is everything of a certificate that cannot be read.

use std::borrow::Cow;

use super::certificate::{AlternativeName, Certificate};
use super::summary::{fingerprint, serial};
use crate::policy::facts::Facts;
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};

/// Values of one kind in a certificate. Real ones have a handful; a rule would walk over all of them.
const VALUES_MAX: usize = 64;
/// Octets of one value: twice what FreeRADIUS cuts a subject off at.
const VALUE_OCTETS_MAX: usize = 2_048;

/// One thing that a certificate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Lower-case hexadecimal digits.
    Serial,
    /// notAfter as encoded: `YYMMDDHHMMSSZ`, from 2050 on with four digits for the year.
    Expiration,
    /// notBefore in the same form.
    ValidSince,
    /// `/C=GB/O=Example/CN=Example CA`
    Issuer,
    /// `/C=GB/O=Example/CN=laptop-7`
    Subject,
    /// Each common name of the subject.
    CommonName,
    /// Each dNSName.
    Dns,
    /// Each rfc822Name.
    Email,
    /// Each Microsoft user principal name.
    Upn,
    /// Each URI.
    Uri,
    /// The purposes in one value, `TLS Web Client Authentication, …`, dotted where they have no name.
    ExtendedKeyUsage,
    /// Each purpose, dotted.
    ExtendedKeyUsageOid,
    /// SHA-256 of the certificate, lower-case hexadecimal digits.
    Fingerprint,
}

impl Fact {
    /// All, in the order they are written.
    pub const ALL: [Fact; 13] = [
        Fact::Serial,
        Fact::Expiration,
        Fact::ValidSince,
        Fact::Issuer,
        Fact::Subject,
        Fact::CommonName,
        Fact::Dns,
        Fact::Email,
        Fact::Upn,
        Fact::Uri,
        Fact::ExtendedKeyUsage,
        Fact::ExtendedKeyUsageOid,
        Fact::Fingerprint,
    ];

    /// The attribute's name after `TLS-Client-Cert-` or `TLS-Cert-`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Fact::Serial => "Serial",
            Fact::Expiration => "Expiration",
            Fact::ValidSince => "Valid-Since",
            Fact::Issuer => "Issuer",
            Fact::Subject => "Subject",
            Fact::CommonName => "Common-Name",
            Fact::Dns => "Subject-Alt-Name-Dns",
            Fact::Email => "Subject-Alt-Name-Email",
            Fact::Upn => "Subject-Alt-Name-Upn",
            Fact::Uri => "Subject-Alt-Name-Uri",
            Fact::ExtendedKeyUsage => "X509v3-Extended-Key-Usage",
            Fact::ExtendedKeyUsageOid => "X509v3-Extended-Key-Usage-OID",
            Fact::Fingerprint => "Fingerprint",
        }
    }
}

/// Whose certificate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The device's: `TLS-Client-Cert-*`.
    Client,
    /// The CA's that issued it: `TLS-Cert-*`.
    Issuer,
}

impl Role {
    /// What the names of its facts begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Role::Client => "TLS-Client-Cert-",
            Role::Issuer => "TLS-Cert-",
        }
    }
}

/// The attributes that certificates' facts have in one dictionary: looked up once.
#[derive(Clone, Debug)]
pub struct FactIds {
    client: [Option<AttributeId>; Fact::ALL.len()],
    issuer: [Option<AttributeId>; Fact::ALL.len()],
}

impl FactIds {
    /// Those that `dictionary` defines; a fact that it does not is left out.
    pub fn new(dictionary: &Dictionary) -> FactIds {
        let ids = |role: Role| Fact::ALL.map(|fact| dictionary.by_name(&format!("{}{}", role.prefix(), fact.suffix())));
        FactIds {
            client: ids(Role::Client),
            issuer: ids(Role::Issuer),
        }
    }

    fn of(&self, role: Role) -> &[Option<AttributeId>] {
        match role {
            Role::Client => &self.client,
            Role::Issuer => &self.issuer,
        }
    }

    /// Whether the dictionary has a name for this fact.
    pub fn has(&self, role: Role, fact: Fact) -> bool {
        Fact::ALL
            .into_iter()
            .zip(self.of(role))
            .any(|(known, id)| known == fact && id.is_some())
    }

    /// Whether any fact of `role` is wanted: finding the issuing CA is not free.
    pub fn any(&self, role: Role, wanted: impl Fn(AttributeId) -> bool) -> bool {
        self.of(role).iter().flatten().any(|id| wanted(*id))
    }
}

/// Adds the facts of an encoded certificate that are `wanted`. Of what is no certificate each is malformed; one that was
/// verified never is.
pub fn push<'a>(der: &'a [u8], role: Role, ids: &FactIds, wanted: impl Fn(AttributeId) -> bool, facts: &mut Facts<'a>) {
    let Ok(certificate) = Certificate::parse(der) else {
        return push_malformed(role, ids, wanted, facts);
    };
    for (fact, id) in Fact::ALL.into_iter().zip(ids.of(role)) {
        let Some(id) = id.filter(|id| wanted(*id)) else {
            continue;
        };
        each(&certificate, der, fact, |value| match value {
            Some(text) => facts.push(id, Value::Text(text)),
            None => facts.push_malformed(id),
        });
    }
}

/// Notes of each fact that is `wanted` that there is a certificate which says it, and that it cannot be read.
pub fn push_malformed(role: Role, ids: &FactIds, wanted: impl Fn(AttributeId) -> bool, facts: &mut Facts<'_>) {
    for id in ids.of(role).iter().flatten().filter(|id| wanted(**id)) {
        facts.push_malformed(*id);
    }
}

/// Calls `value` with each value of one fact; `None` is a malformed one. `der` is what `certificate` was read from.
pub fn each<'a>(certificate: &Certificate<'a>, der: &[u8], fact: Fact, mut value: impl FnMut(Option<Cow<'a, str>>)) {
    let mut count = 0;
    let mut one = |text: Cow<'a, str>| {
        count += 1;
        match text.len() {
            0 => {}
            _ if count > VALUES_MAX + 1 => {}
            1..=VALUE_OCTETS_MAX if count <= VALUES_MAX => value(Some(text)),
            _ => value(None),
        }
    };
    let mut names = |wanted: fn(&AlternativeName<'a>) -> bool| {
        certificate
            .alternative_names()
            .filter(wanted)
            .filter_map(|name| name.text())
            .for_each(&mut one);
    };
    match fact {
        Fact::Dns => names(|name| matches!(name, AlternativeName::Dns(_))),
        Fact::Email => names(|name| matches!(name, AlternativeName::Email(_))),
        Fact::Upn => names(|name| matches!(name, AlternativeName::Upn(_))),
        Fact::Uri => names(|name| matches!(name, AlternativeName::Uri(_))),
        Fact::Serial => one(serial(certificate.serial).into()),
        Fact::Expiration => one(certificate.not_after.text.into()),
        Fact::ValidSince => one(certificate.not_before.text.into()),
        Fact::Issuer => one(certificate.issuer.one_line().into()),
        Fact::Subject => one(certificate.subject.one_line().into()),
        Fact::CommonName => certificate.subject.common_names().for_each(one),
        Fact::ExtendedKeyUsage => {
            let names = certificate
                .extended_key_usages()
                .map(|purpose| purpose.name().map_or_else(|| purpose.dotted(), Into::into));
            one(names.collect::<Vec<_>>().join(", ").into());
        }
        Fact::ExtendedKeyUsageOid => certificate
            .extended_key_usages()
            .for_each(|purpose| one(purpose.dotted().into())),
        Fact::Fingerprint => one(fingerprint(der).into()),
    }
}
