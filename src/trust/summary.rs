//! A certificate in a few fields: for the log line, `cert show`, `check` and the expiry metric.

use std::fmt;

use aws_lc_rs::digest;

use super::certificate::{AlternativeName, Certificate};
use super::der::Malformed;
use super::names::hex;

/// What people want to know of a certificate. All text is free of control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The first common name, if there is one.
    pub common_name: Option<String>,
    /// `/C=GB/O=Example/CN=laptop-7`; empty where the subject is.
    pub subject: String,
    /// In the same form.
    pub issuer: String,
    /// Lower-case hexadecimal digits, as [`serial`] writes them.
    pub serial: String,
    /// Valid from, in Unix seconds.
    pub not_before: i64,
    /// Valid until, in Unix seconds.
    pub not_after: i64,
    /// The alternative names that facts are made of, and addresses: kind (`dns`, `email`, `upn`, `uri`, `ip`) and value.
    pub alternative_names: Vec<(&'static str, String)>,
    /// The purposes of extKeyUsage by name, dotted where there is none; empty when it is absent.
    pub extended_key_usage: Vec<String>,
    /// URLs of OCSP responders, as they are written.
    pub ocsp: Vec<String>,
    /// URLs of lists of revoked certificates, as they are written.
    pub crl: Vec<String>,
    /// `P-256`, `RSA-2048`.
    pub key: String,
    /// `ecdsa-with-SHA256`.
    pub signature_algorithm: String,
    /// SHA-256 over the certificate, lower-case hexadecimal digits.
    pub fingerprint: String,
    /// Whether basicConstraints make it a CA.
    pub is_ca: bool,
    /// Whether subject and issuer are the same.
    pub is_self_issued: bool,
}

impl Summary {
    /// Of an encoded certificate.
    ///
    /// # Errors
    /// [`Malformed`], when it is none.
    pub fn of(der: &[u8]) -> Result<Summary, Malformed> {
        Ok(Summary::from_certificate(&Certificate::parse(der)?, der))
    }

    pub(super) fn from_certificate(certificate: &Certificate<'_>, der: &[u8]) -> Summary {
        Summary {
            common_name: certificate.subject.common_names().next().map(Into::into),
            subject: certificate.subject.one_line(),
            issuer: certificate.issuer.one_line(),
            serial: serial(certificate.serial),
            not_before: certificate.not_before.unix,
            not_after: certificate.not_after.unix,
            alternative_names: certificate
                .alternative_names()
                .filter_map(|name| Some((kind(&name)?, name.text()?.into_owned())))
                .collect(),
            extended_key_usage: certificate
                .extended_key_usages()
                .map(|purpose| purpose.name().map_or_else(|| purpose.dotted(), Into::into))
                .collect(),
            ocsp: shown(certificate.ocsp_urls()),
            crl: shown(certificate.crl_urls()),
            key: certificate.key.name(),
            signature_algorithm: certificate.signature.name(),
            fingerprint: fingerprint(der),
            is_ca: certificate.is_ca,
            is_self_issued: certificate.is_self_issued(),
        }
    }

    /// What to call it: its common name, else its subject, else its serial number.
    pub fn name(&self) -> &str {
        match &self.common_name {
            Some(name) => name,
            None if !self.subject.is_empty() => &self.subject,
            None => &self.serial,
        }
    }
}

impl fmt::Display for Summary {
    /// Several lines, each with a label; the last without a line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = |text: &str| {
            if text.is_empty() {
                "none".to_owned()
            } else {
                text.to_owned()
            }
        };
        writeln!(f, "subject      {}", none(&self.subject))?;
        writeln!(f, "issuer       {}", none(&self.issuer))?;
        writeln!(f, "serial       {}", self.serial)?;
        writeln!(f, "valid from   {}", moment(self.not_before))?;
        writeln!(f, "valid until  {}", moment(self.not_after))?;
        for (kind, name) in &self.alternative_names {
            writeln!(f, "name         {kind} {name}")?;
        }
        writeln!(f, "usage        {}", none(&self.extended_key_usage.join(", ")))?;
        for url in &self.ocsp {
            writeln!(f, "ocsp         {url}")?;
        }
        for url in &self.crl {
            writeln!(f, "crl          {url}")?;
        }
        let role = match (self.is_ca, self.is_self_issued) {
            (true, true) => "root CA",
            (true, false) => "intermediate CA",
            (false, _) => "end entity",
        };
        writeln!(
            f,
            "kind         {role}, {}, signed with {}",
            self.key, self.signature_algorithm
        )?;
        write!(f, "sha-256      {}", self.fingerprint)
    }
}

/// URLs without control characters.
fn shown(urls: Vec<&str>) -> Vec<String> {
    let uris = urls.into_iter().map(|url| AlternativeName::Uri(url.as_bytes()));
    uris.filter_map(|uri| uri.text().map(Into::into)).collect()
}

fn kind(name: &AlternativeName<'_>) -> Option<&'static str> {
    Some(match name {
        AlternativeName::Dns(_) => "dns",
        AlternativeName::Email(_) => "email",
        AlternativeName::Upn(_) => "upn",
        AlternativeName::Uri(_) => "uri",
        AlternativeName::Address(_) => "ip",
        AlternativeName::Other => return None,
    })
}

/// A serial number as FreeRADIUS writes it: lower-case hexadecimal digits of its octets, without the zero octet that
/// DER puts before a number whose first bit is set. A negative one, which RFC 5280 forbids and some CAs made, keeps its
/// encoding after a `-`.
pub fn serial(octets: &[u8]) -> String {
    match octets {
        [0, rest @ ..] if !rest.is_empty() => hex(rest),
        [first, ..] if *first >= 0x80 => format!("-{}", hex(octets)),
        _ => hex(octets),
    }
}

/// SHA-256 over the whole certificate, lower-case hexadecimal digits without separators.
pub fn fingerprint(der: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, der).as_ref())
}

/// `2027-03-01T12:00:00Z`
pub(super) fn moment(unix: i64) -> String {
    jiff::Timestamp::from_second(unix).map_or_else(|_| unix.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::pki;

    #[test]
    fn serial_numbers() {
        for (octets, text) in [
            (&[0x00, 0xFF, 0x12][..], "ff12"),
            (&[0x01], "01"),
            (&[0], "00"),
            (&[0x0A, 0xBC], "0abc"),
            (&[0xFE], "-fe"),
        ] {
            assert_eq!(serial(octets), text);
        }
    }

    #[test]
    fn of_the_development_client() {
        let dir = tempfile::tempdir().unwrap();
        let files = pki::init(dir.path(), pki::Names::default(), 1_790_000_000).unwrap();
        use rustls_pki_types::pem::PemObject;
        let der = rustls_pki_types::CertificateDer::from_pem_file(&files.client).unwrap();
        let summary = Summary::of(&der).unwrap();
        assert_eq!(summary.name(), "laptop-7");
        assert_eq!(summary.subject, "/O=Portreeve development/CN=laptop-7");
        assert_eq!(summary.issuer, "/O=Portreeve development/CN=Portreeve development CA");
        assert_eq!(
            (summary.not_before, summary.not_after),
            (1_790_000_000 - 86_400, 1_790_000_000 + 824 * 86_400)
        );
        assert_eq!(summary.extended_key_usage, ["TLS Web Client Authentication"]);
        let names: Vec<_> = summary
            .alternative_names
            .iter()
            .map(|(kind, name)| format!("{kind} {name}"))
            .collect();
        assert_eq!(
            names,
            [
                "dns laptop-7.example.com",
                "email laptop-7@example.com",
                "upn laptop-7@example.com"
            ]
        );
        assert_eq!((summary.key.as_str(), summary.is_ca), ("P-256", false));
        assert!(summary.to_string().contains("valid until  2028-"), "{summary}");
    }
}
