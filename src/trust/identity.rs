//! Whether the EAP identity is a name of the certificate: asked only where the configuration asks it. Rules see what the
//! certificate says, and the identity decides nothing; but switches and accounting show it, and some want it to be true.
//!
//! Identities are compared as Windows writes them. Letters are equal in either case, as they are in domain names, in
//! Active Directory and in distinguished names (RFC 5280 section 7.1). What a supplicant that hides its name sends
//! (`anonymous@realm`, `@realm`: RFC 9190 section 2.1.3) is no name of any certificate.

use super::certificate::{AlternativeName, Certificate};

/// Which names of a certificate the EAP identity is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityCheck {
    /// Not at all.
    #[default]
    None,
    /// The common names of the subject.
    CommonName,
    /// The user principal names.
    Upn,
    /// The dNSNames.
    Dns,
    /// All of these, and the e-mail addresses.
    AnyName,
}

impl IdentityCheck {
    /// Every word of the configuration.
    pub const WORDS: [(&str, IdentityCheck); 5] = [
        ("none", IdentityCheck::None),
        ("cn", IdentityCheck::CommonName),
        ("upn", IdentityCheck::Upn),
        ("dns", IdentityCheck::Dns),
        ("any-name", IdentityCheck::AnyName),
    ];

    /// Whether a device with this certificate may call itself `identity`. Of what is no certificate nothing is the name.
    pub fn allows(self, identity: &[u8], certificate: &[u8]) -> bool {
        if self == IdentityCheck::None {
            return true;
        }
        let (Ok(certificate), Ok(identity)) = (Certificate::parse(certificate), std::str::from_utf8(identity)) else {
            return false;
        };
        let claim = Claim::of(identity);
        let is_common_name = || certificate.subject.exact_common_names().any(|name| claim.is(&name));
        let is_alternative_name = || {
            certificate.alternative_names().any(|name| {
                let octets = match (self, name) {
                    (IdentityCheck::Upn | IdentityCheck::AnyName, AlternativeName::Upn(octets))
                    | (IdentityCheck::Dns | IdentityCheck::AnyName, AlternativeName::Dns(octets))
                    | (IdentityCheck::AnyName, AlternativeName::Email(octets)) => octets,
                    _ => return false,
                };
                std::str::from_utf8(octets).is_ok_and(|name| claim.is(name))
            })
        };
        match self {
            IdentityCheck::None => true,
            IdentityCheck::CommonName => is_common_name(),
            IdentityCheck::Upn | IdentityCheck::Dns => is_alternative_name(),
            IdentityCheck::AnyName => is_common_name() || is_alternative_name(),
        }
    }
}

/// An identity as a name that a certificate may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim<'a> {
    /// The whole of it: `user@example.com`, `laptop-7`.
    Whole(&'a str),
    /// A Windows machine without its domain: `host/NAME`, `NAME$`. The certificate may have the domain behind it.
    Machine(&'a str),
}

impl<'a> Claim<'a> {
    fn of(identity: &'a str) -> Claim<'a> {
        let machine = identity
            .split_at_checked(5)
            .filter(|(prefix, _)| prefix.eq_ignore_ascii_case("host/"))
            .map(|(_, name)| name);
        match (machine, identity.strip_suffix('$')) {
            (Some(name), _) if name.contains('.') => Claim::Whole(name),
            (Some(name), _) | (None, Some(name)) => Claim::Machine(name),
            (None, None) => Claim::Whole(identity),
        }
    }

    fn is(self, name: &str) -> bool {
        let (claimed, name) = match self {
            Claim::Whole(claimed) => (claimed, name),
            Claim::Machine(claimed) => (claimed, name.split('.').next().unwrap_or(name)),
        };
        let fold = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
        !claimed.is_empty() && fold(claimed) == fold(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, OtherNameValue, SanType};

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn named() -> Vec<u8> {
        certificate(|params| {
            params.distinguished_name.push(
                DnType::CommonName,
                DnValue::BmpString("M\u{fc}ller".try_into().unwrap()),
            );
            let upn = OtherNameValue::Utf8String("Seven@corp.example.com".into());
            params.subject_alt_names = vec![
                SanType::DnsName("laptop-7.corp.example.com".try_into().unwrap()),
                SanType::DnsName("*.example.net".try_into().unwrap()),
                SanType::Rfc822Name("seven@example.com".try_into().unwrap()),
                SanType::URI("urn:uuid:7".try_into().unwrap()),
                SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], upn)),
            ];
        })
    }

    #[test]
    fn an_identity_is_compared_with_the_names_asked_for() {
        use IdentityCheck as C;
        let der = named();
        for (identity, allowed) in [
            ("M\u{dc}LLER", &[C::CommonName, C::AnyName][..]),
            ("seven@corp.example.com", &[C::Upn, C::AnyName]),
            ("seven@EXAMPLE.com", &[C::AnyName]),
            ("laptop-7.corp.example.com", &[C::Dns, C::AnyName]),
            ("host/LAPTOP-7.corp.example.com", &[C::Dns, C::AnyName]),
            ("HOST/laptop-7", &[C::Dns, C::AnyName]),
            ("LAPTOP-7$", &[C::Dns, C::AnyName]),
            // a part of a name, another domain, a domain that the certificate does not have
            ("laptop-7", &[]),
            ("host/laptop-7.example.com", &[]),
            ("CORP\\LAPTOP-7$", &[]),
            ("CORP\\seven", &[]),
            ("seven", &[]),
            ("laptop-7.corp.example.com$", &[]),
            // no pattern is a name, nor are URIs
            ("x.example.net", &[]),
            ("urn:uuid:7", &[]),
            // who hides has no name
            ("anonymous@corp.example.com", &[]),
            ("@corp.example.com", &[]),
            ("", &[]),
            ("$", &[]),
            ("host/", &[]),
        ] {
            for (word, check) in IdentityCheck::WORDS {
                let expected = check == C::None || allowed.contains(&check);
                assert_eq!(check.allows(identity.as_bytes(), &der), expected, "{identity} {word}");
            }
        }
        assert!(!C::AnyName.allows(b"M\xFCller", &der));
        assert!(!C::AnyName.allows(b"seven", b"no certificate"));
    }

    #[test]
    fn what_a_name_is_shown_as_is_not_its_name() {
        let der = certificate(|params| params.distinguished_name.push(DnType::CommonName, "a\0b"));
        assert!(IdentityCheck::CommonName.allows(b"a\0b", &der));
        assert!(!IdentityCheck::CommonName.allows(br"a\x00b", &der));
        assert!(!IdentityCheck::CommonName.allows(b"a", &der));
    }

    #[test]
    fn no_name_at_all_is_nobodys() {
        let der = certificate(|_| ());
        for (word, check) in IdentityCheck::WORDS {
            assert_eq!(check.allows(b"", &der), check == IdentityCheck::None, "{word}");
        }
    }
}
