//! Why a certificate was refused, in a word of the closed list and a sentence that says which certificate and what.
//!
//! webpki's errors are exact about the path that came closest; what they do not say (whether an issuer is a stranger or
//! was merely not sent) is read from the certificates at hand.

use rustls_pki_types::UnixTime;

use super::authorities::Authorities;
use super::certificate::{Certificate, Purpose};
use super::names::{dotted, quoted};
use super::summary::moment;
use crate::eap::tls::Refused;
use crate::reason::Reason;

/// How the path was lost.
#[derive(Debug)]
pub(super) enum Failure {
    Webpki(webpki::Error),
    /// This many certificates were sent.
    TooMany(usize),
}

impl From<webpki::Error> for Failure {
    fn from(error: webpki::Error) -> Failure {
        Failure::Webpki(error)
    }
}

/// All that is known about a refused certificate.
pub(super) struct Case<'a> {
    pub(super) max_depth: usize,
    pub(super) leaf: &'a Certificate<'a>,
    /// What came with it, so far as it can be read.
    pub(super) presented: &'a [Certificate<'a>],
    /// Intermediates that other supplicants sent.
    pub(super) verified: &'a [Certificate<'a>],
    pub(super) authorities: &'a Authorities,
}

impl Case<'_> {
    pub(super) fn reason(&self, failure: Failure) -> Refused {
        use webpki::Error as E;
        let error = match failure {
            Failure::Webpki(error) => error,
            Failure::TooMany(count) => {
                return Refused::new(
                    Reason::CertificateConstraint,
                    format!("a chain of {count} certificates"),
                );
            }
        };
        match error {
            E::CertExpired { not_after, .. } => self.expired(not_after),
            E::CertNotValidYet { not_before, .. } => Refused::new(
                Reason::CertificateNotYetValid,
                format!(
                    "{}valid from {}",
                    self.whose(|c| c.not_before.unix, not_before),
                    date(not_before)
                ),
            ),
            E::InvalidCertValidity => malformed("it ends before it begins"),
            E::UnsupportedCertVersion => {
                malformed(&format!("X.509 version {}, where 3 is required", self.leaf.version))
            }
            E::UnknownIssuer => self.unknown_issuer(),
            E::InvalidSignatureForPublicKey => self.bad_signature(),
            E::RequiredEkuNotFoundContext(_) => match allows_clients(self.leaf) {
                true => Refused::new(
                    Reason::CertificateWrongUsage,
                    "an issuer in its chain is not for client authentication",
                ),
                false => wrong_usage(self.leaf),
            },
            E::EmptyEkuExtension => malformed("its extKeyUsage is empty"),
            E::CaUsedAsEndEntity => Refused::new(Reason::CertificateWrongUsage, "it is a CA's certificate"),
            E::EndEntityUsedAsCa => Refused::new(
                Reason::CertificateConstraint,
                "an issuer in its chain may not sign certificates",
            ),
            E::UnsupportedSignatureAlgorithmContext(_) | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
                self.signature_algorithm()
            }
            E::UnsupportedCriticalExtension => {
                let all = std::iter::once(self.leaf).chain(self.presented);
                let which = all
                    .filter_map(|certificate| certificate.unknown_critical)
                    .next()
                    .map(dotted);
                let which = which.unwrap_or_else(|| "of a known kind, with an unknown content".into());
                Refused::new(
                    Reason::CertificateConstraint,
                    format!("a critical extension that is not understood: {which}"),
                )
            }
            E::NameConstraintViolation => Refused::new(
                Reason::CertificateConstraint,
                "a CA of its chain is not for its names (name constraints)",
            ),
            E::PathLenConstraintViolated => Refused::new(
                Reason::CertificateConstraint,
                "more CAs in its chain than one of them allows (path length)",
            ),
            E::CertDistrusted => Refused::new(Reason::UnknownCa, "a CA of its chain is distrusted"),
            E::MaximumPathDepthExceeded => Refused::new(
                Reason::CertificateConstraint,
                format!(
                    "more than {} CAs between it and a client CA (`max_depth`)",
                    self.max_depth
                ),
            ),
            E::MaximumPathBuildCallsExceeded
            | E::MaximumSignatureChecksExceeded
            | E::MaximumNameConstraintComparisonsExceeded => Refused::new(
                Reason::CertificateConstraint,
                "a chain too long or too tangled to follow",
            ),
            E::MalformedNameConstraint | E::InvalidNetworkMaskConstraint | E::MalformedDnsIdentifier => Refused::new(
                Reason::CertificateConstraint,
                "name constraints of its chain cannot be read",
            ),
            E::SignatureAlgorithmMismatch => malformed("it names two signature algorithms"),
            other => malformed(&format!("{other:?}")),
        }
    }

    fn expired(&self, not_after: UnixTime) -> Refused {
        let whose = self.whose(|certificate| certificate.not_after.unix, not_after);
        Refused::new(
            Reason::CertificateExpired,
            format!("{whose}expired at {}", date(not_after)),
        )
    }

    /// Nothing when the leaf has this date, else the issuer that has it.
    fn whose(&self, date: impl Fn(&Certificate<'_>) -> i64, wanted: UnixTime) -> String {
        let wanted = seconds(wanted);
        if date(self.leaf) == wanted {
            return String::new();
        }
        if let Some(issuer) = self.presented.iter().find(|certificate| date(certificate) == wanted) {
            return format!("its issuer {} ", issuer.subject.quoted());
        }
        let mut configured = self.authorities.iter();
        let ca = configured.find(|ca| ca.summary.not_after == wanted || ca.summary.not_before == wanted);
        ca.map_or_else(
            || "an issuer ".into(),
            |ca| format!("the client CA {} ", quoted(&ca.summary.subject)),
        )
    }

    /// Walks up from the leaf to the certificate whose issuer is not at hand.
    fn unknown_issuer(&self) -> Refused {
        let mut top = self.leaf;
        for _ in 0..self.presented.len() {
            match self
                .presented
                .iter()
                .find(|issuer| !top.is_self_issued() && top.names_as_issuer(issuer))
            {
                Some(issuer) => top = issuer,
                None => break,
            }
        }
        if top.is_self_issued() {
            let what = if std::ptr::eq(top, self.leaf) {
                "self-signed"
            } else {
                "its root is"
            };
            let line = top.subject.quoted();
            return Refused::new(
                Reason::UnknownCa,
                if what == "self-signed" {
                    format!("self-signed: {line}")
                } else {
                    format!("{what} {line}")
                },
            );
        }
        let issuer = top.issuer.one_line();
        let is_known = self.authorities.iter().any(|ca| ca.summary.subject == issuer);
        let issuer = quoted(&issuer);
        if is_known {
            // the name is a client CA's, and the path was lost for it: another key by its key identifier or signature
            return Refused::new(
                Reason::UnknownCa,
                format!("issued by another key than the client CA {issuer} has"),
            );
        }
        if self.verified.iter().any(|ca| top.names_as_issuer(ca)) {
            return Refused::new(
                Reason::ChainIncomplete,
                format!("its issuer {issuer} was not sent, as others do, and is not in client_ca"),
            );
        }
        if let Some(ca) = self.same_owner(top) {
            return Refused::new(
                Reason::ChainIncomplete,
                format!(
                    "its issuer {issuer} was not sent and is not in client_ca, where {ca} has the same organisation"
                ),
            );
        }
        Refused::new(Reason::UnknownCa, format!("issued by {issuer}"))
    }

    /// A client CA of the same organisation as the issuer that is missing: then an intermediate of it is missing, as a
    /// rule, rather than that a stranger has come.
    fn same_owner(&self, top: &Certificate<'_>) -> Option<String> {
        self.authorities.iter().find_map(|ca| {
            let certificate = Certificate::parse(&ca.der).ok()?;
            let same = certificate.subject.has_owner_of(&top.issuer);
            same.then(|| quoted(&ca.summary.subject))
        })
    }

    fn bad_signature(&self) -> Refused {
        let configured: Vec<_> = self
            .authorities
            .iter()
            .filter_map(|ca| Certificate::parse(&ca.der).ok())
            .collect();
        let all = std::iter::once(self.leaf).chain(self.presented);
        for certificate in all {
            for issuer in self.presented.iter().chain(&configured) {
                if certificate.names_as_issuer(issuer)
                    && let Some(refused) = weak_key(&format!("its issuer {} has ", issuer.subject.quoted()), issuer)
                {
                    return refused;
                }
            }
        }
        let issuer = self.leaf.issuer.quoted();
        Refused::new(
            Reason::UnknownCa,
            format!("{issuer} has not signed it, or its chain: another CA of the same name"),
        )
    }

    fn signature_algorithm(&self) -> Refused {
        let mut all = std::iter::once(self.leaf).chain(self.presented);
        match all.find(|certificate| certificate.signature.is_weak() && !certificate.is_self_issued()) {
            Some(weak) => {
                let whose = if std::ptr::eq(weak, self.leaf) {
                    String::new()
                } else {
                    format!("its issuer {} is ", weak.subject.quoted())
                };
                Refused::new(
                    Reason::CertificateWeak,
                    format!("{whose}signed with {}", weak.signature.name()),
                )
            }
            None => {
                let name = self.leaf.signature.name();
                Refused::new(
                    Reason::CertificateWeak,
                    format!("signed with {name}, which is not accepted"),
                )
            }
        }
    }
}

/// A certificate whose extKeyUsage does not let it authenticate a client.
pub(super) fn wrong_usage(leaf: &Certificate<'_>) -> Refused {
    let purposes: Vec<_> = leaf.extended_key_usages().collect();
    let names = purposes.iter().take(4);
    let names: Vec<_> = names
        .map(|purpose| purpose.name().map_or_else(|| purpose.dotted(), Into::into))
        .collect();
    let mut text = format!("only for {}", names.join(", "));
    if purposes.contains(&Purpose::ANY) {
        text.push_str(", which `allow_any_eku` would let in");
    }
    Refused::new(Reason::CertificateWrongUsage, text)
}

fn allows_clients(certificate: &Certificate<'_>) -> bool {
    let mut purposes = certificate.extended_key_usages();
    !certificate.restricts_usage() || purposes.any(|purpose| [Purpose::CLIENT_AUTH, Purpose::ANY].contains(&purpose))
}

/// A key that is not strong enough: `prefix` says whose.
pub(super) fn weak_key(prefix: &str, certificate: &Certificate<'_>) -> Option<Refused> {
    (!certificate.key.is_strong())
        .then(|| Refused::new(Reason::CertificateWeak, format!("{prefix}{}", certificate.key.name())))
}

fn malformed(what: &str) -> Refused {
    Refused::new(Reason::CertificateMalformed, what)
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn date(time: UnixTime) -> String {
    moment(seconds(time))
}
