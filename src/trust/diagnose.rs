//! Why a certificate was refused, in a word of the closed list and a sentence that says which certificate and what.
//!
//! webpki's errors are exact about the path that came closest; what they do not say (whether an issuer is a stranger or
//! was merely not sent) is read from the certificates at hand.

use rustls_pki_types::UnixTime;

use super::authorities::Authorities;
use super::certificate::{Certificate, Purpose};
use super::names::{Name, dotted, quoted};
use super::summary::moment;
use crate::eap::tls::Refused;
use crate::reason::Reason;

/// How the path was lost.
#[derive(Debug)]
pub(super) enum Failure {
    /// The certificate itself is not read.
    Leaf(webpki::Error),
    /// No path leads from it to a client CA.
    Path(webpki::Error),
    /// This many certificates were sent.
    TooMany(usize),
}

/// A certificate that came with the device's own.
pub(super) struct Sent<'a> {
    pub(super) certificate: Certificate<'a>,
    /// Why webpki does not read it; then it can be nobody's issuer.
    pub(super) unreadable: Option<webpki::Error>,
}

/// All that is known about a refused certificate.
pub(super) struct Case<'a> {
    pub(super) max_depth: usize,
    pub(super) leaf: &'a Certificate<'a>,
    /// What came with it, so far as it can be read.
    pub(super) sent: &'a [Sent<'a>],
    /// Intermediates that other supplicants sent.
    pub(super) verified: &'a [Certificate<'a>],
    pub(super) authorities: &'a Authorities,
}

impl Case<'_> {
    pub(super) fn reason(&self, failure: Failure) -> Refused {
        match failure {
            Failure::Leaf(error) => self.unreadable(&error),
            Failure::Path(error) => self.no_path(error),
            Failure::TooMany(count) => constraint(format!("a chain of {count} certificates")),
        }
    }

    /// What is wrong with the device's certificate itself.
    fn unreadable(&self, error: &webpki::Error) -> Refused {
        use webpki::Error as E;
        match error {
            E::UnsupportedCertVersion => {
                malformed(&format!("X.509 version {}, where 3 is required", self.leaf.version))
            }
            E::UnsupportedCriticalExtension => critical_extension("", self.leaf),
            E::SignatureAlgorithmMismatch => malformed("it names two signature algorithms"),
            _ if self.leaf.has_unique_id => malformed("a unique identifier of X.509 version 2, which is not read"),
            _ => malformed("not DER throughout: a tag, length or value is encoded otherwise"),
        }
    }

    fn no_path(&self, error: webpki::Error) -> Refused {
        use webpki::Error as E;
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
            E::BadDerTime if self.leaf.not_before.unix < 0 => malformed("dates before 1970 are not read"),
            E::UnknownIssuer => self.unknown_issuer(),
            E::InvalidSignatureForPublicKey => self.bad_signature(),
            E::RequiredEkuNotFoundContext(_) => match allows_clients(self.leaf) {
                true => {
                    let issuer = self.issuer_that(|issuer| !allows_clients(issuer));
                    Refused::new(
                        Reason::CertificateWrongUsage,
                        format!("{issuer}is not for client authentication"),
                    )
                }
                false => wrong_usage(self.leaf),
            },
            E::EmptyEkuExtension => malformed("its extKeyUsage is empty"),
            E::CaUsedAsEndEntity => Refused::new(Reason::CertificateWrongUsage, "it is a CA's certificate"),
            E::EndEntityUsedAsCa => {
                let issuer = self.issuer_that(|issuer| !issuer.may_sign_certificates());
                constraint(format!("{issuer}may not sign certificates"))
            }
            E::UnsupportedSignatureAlgorithmContext(_) | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
                self.signature_algorithm()
            }
            E::NameConstraintViolation => constraint(match self.has_unusual_name_constraints() {
                true => "a CA of its chain has name constraints of a kind that is not understood here",
                false => "a CA of its chain is not for its names (name constraints)",
            }),
            E::PathLenConstraintViolated => constraint("more CAs in its chain than one of them allows (path length)"),
            E::CertDistrusted => Refused::new(Reason::UnknownCa, "a CA of its chain is distrusted"),
            E::MaximumPathDepthExceeded => constraint(format!(
                "more CAs between it and a client CA than `max_depth`, {}",
                self.max_depth
            )),
            E::MaximumPathBuildCallsExceeded
            | E::MaximumSignatureChecksExceeded
            | E::MaximumNameConstraintComparisonsExceeded => constraint("a chain too long or too tangled to follow"),
            E::MalformedNameConstraint | E::InvalidNetworkMaskConstraint | E::MalformedDnsIdentifier => {
                constraint("name constraints of its chain cannot be read")
            }
            _ => malformed("it or its chain is not DER throughout: a tag, length or value is encoded otherwise"),
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
        if let Some(sent) = self.sent.iter().find(|sent| date(&sent.certificate) == wanted) {
            return format!("its issuer {} ", sent.certificate.subject.quoted());
        }
        let mut configured = self.authorities.iter();
        let ca = configured.find(|ca| ca.summary.not_after == wanted || ca.summary.not_before == wanted);
        ca.map_or_else(
            || "an issuer ".into(),
            |ca| format!("the client CA {} ", quoted(&ca.summary.subject)),
        )
    }

    /// The issuers that were sent, from the leaf up.
    fn walk(&self) -> impl Iterator<Item = &Sent<'_>> {
        let mut top = self.leaf;
        let next = move || {
            let issuer = |sent: &&Sent<'_>| !top.is_self_issued() && top.names_as_issuer(&sent.certificate);
            let next = self.sent.iter().find(issuer)?;
            top = &next.certificate;
            Some(next)
        };
        std::iter::from_fn(next).take(self.sent.len())
    }

    /// The issuer with this fault, sent or configured, as the beginning of a sentence.
    fn issuer_that(&self, is_wrong: impl Fn(&Certificate<'_>) -> bool) -> String {
        let sent = self.walk().map(|sent| &sent.certificate);
        if let Some(wrong) = sent.into_iter().find(|issuer| is_wrong(issuer)) {
            return format!("its issuer {} ", wrong.subject.quoted());
        }
        let configured = self.authorities.iter().filter(|ca| !ca.is_anchor);
        let wrong = configured
            .filter_map(|ca| Certificate::parse(&ca.der).ok())
            .find(|ca| is_wrong(ca));
        wrong.map_or_else(
            || "an issuer in its chain ".to_owned(),
            |ca| format!("the client CA {} ", ca.subject.quoted()),
        )
    }

    fn has_unusual_name_constraints(&self) -> bool {
        let mut configured = self
            .authorities
            .iter()
            .filter_map(|ca| Certificate::parse(&ca.der).ok());
        self.walk().any(|sent| sent.certificate.has_unusual_name_constraints())
            || configured.any(|ca| ca.has_unusual_name_constraints())
    }

    /// Why the path ended at the topmost issuer that was sent.
    fn unknown_issuer(&self) -> Refused {
        let mut top = self.leaf;
        for sent in self.walk() {
            if let Some(error) = &sent.unreadable
                && !sent.certificate.is_self_issued()
            {
                return unusable_issuer(&sent.certificate, error);
            }
            top = &sent.certificate;
        }
        let unknown = |what: String| Refused::new(Reason::UnknownCa, what);
        if top.is_self_issued() {
            return unknown(match (std::ptr::eq(top, self.leaf), top.subject.is_empty()) {
                (true, true) => "self-signed, without a name".to_owned(),
                (true, false) => format!("self-signed: {}", top.subject.quoted()),
                (false, _) => format!("its root is {}", top.subject.quoted()),
            });
        }
        if top.issuer.is_empty() {
            return unknown("it names no issuer".to_owned());
        }
        let issuer = top.issuer.quoted();
        if self.authorities.iter().any(|ca| ca.has_name(top.issuer.as_bytes())) {
            // the path was lost for its key, by its key identifier or signature
            return unknown(format!("issued by another key than the client CA {issuer} has"));
        }
        if self.sent.iter().any(|sent| top.names_as_issuer(&sent.certificate)) {
            return unknown(format!("the CAs above it, {issuer} among them, have signed each other"));
        }
        if let Some(ca) = self.configured(|ca| ca.is_otherwise_written_than(&top.issuer)) {
            // RFC 5280 section 4.1.2.6: a CA's name is to be encoded alike in its own certificate and in those it issues
            return unknown(format!(
                "its issuer {issuer} is written otherwise than the client CA {ca}: in encoding, letters, spaces or order"
            ));
        }
        if self.verified.iter().any(|ca| top.names_as_issuer(ca)) {
            return Refused::new(
                Reason::ChainIncomplete,
                format!("its issuer {issuer} was not sent, as others do, and is not in client_ca"),
            );
        }
        // Then an intermediate of that CA is missing, as a rule, rather than that a stranger has come.
        if let Some(ca) = self.configured(|ca| ca.has_owner_of(&top.issuer)) {
            return Refused::new(
                Reason::ChainIncomplete,
                format!(
                    "its issuer {issuer} was not sent and is not in client_ca, where {ca} has the same organisation"
                ),
            );
        }
        unknown(format!("issued by {issuer}"))
    }

    /// The client CA with such a name.
    fn configured(&self, is_wanted: impl Fn(&Name<'_>) -> bool) -> Option<String> {
        self.authorities.iter().find_map(|ca| {
            let certificate = Certificate::parse(&ca.der).ok()?;
            is_wanted(&certificate.subject).then(|| quoted(&ca.summary.subject))
        })
    }

    /// An issuer whose key cannot verify anything here.
    fn weak_issuer(&self) -> Option<Refused> {
        let configured: Vec<_> = self
            .authorities
            .iter()
            .filter_map(|ca| Certificate::parse(&ca.der).ok())
            .collect();
        let sent = || self.sent.iter().map(|sent| &sent.certificate);
        let issued = std::iter::once(self.leaf).chain(sent());
        let mut pairs = issued.flat_map(|issued| sent().chain(&configured).map(move |issuer| (issued, issuer)));
        pairs.find_map(|(issued, issuer)| {
            let prefix = format!("its issuer {} has ", issuer.subject.quoted());
            issued.names_as_issuer(issuer).then(|| weak_key(&prefix, issuer))?
        })
    }

    fn bad_signature(&self) -> Refused {
        self.weak_issuer().unwrap_or_else(|| {
            let issuer = self.leaf.issuer.quoted();
            let what = format!("{issuer} has not signed it, or its chain: another CA of the same name");
            Refused::new(Reason::UnknownCa, what)
        })
    }

    fn signature_algorithm(&self) -> Refused {
        let mut all = std::iter::once(self.leaf).chain(self.sent.iter().map(|sent| &sent.certificate));
        if let Some(weak) = all.find(|certificate| certificate.signature.is_weak() && !certificate.is_self_issued()) {
            let whose = match std::ptr::eq(weak, self.leaf) {
                true => String::new(),
                false => format!("its issuer {} is ", weak.subject.quoted()),
            };
            return Refused::new(
                Reason::CertificateWeak,
                format!("{whose}signed with {}", weak.signature.name()),
            );
        }
        self.weak_issuer().unwrap_or_else(|| {
            let name = self.leaf.signature.name();
            Refused::new(
                Reason::CertificateWeak,
                match self.leaf.signature.is_pss() {
                    true => {
                        format!("signed with {name} of other parameters than one SHA-2 hash and a salt of its length")
                    }
                    false => format!("signed with {name}, which is not accepted"),
                },
            )
        })
    }
}

/// An issuer that was sent, and that nobody can be verified with.
fn unusable_issuer(issuer: &Certificate<'_>, error: &webpki::Error) -> Refused {
    let whose = format!("its issuer {} ", issuer.subject.quoted());
    match error {
        webpki::Error::UnsupportedCertVersion => constraint(format!(
            "{whose}is of X.509 version {}, which cannot say that it is a CA's",
            issuer.version
        )),
        webpki::Error::UnsupportedCriticalExtension => critical_extension(&format!("{whose}has "), issuer),
        _ => constraint(format!("{whose}is not DER throughout")),
    }
}

fn critical_extension(prefix: &str, certificate: &Certificate<'_>) -> Refused {
    let which = certificate
        .unknown_critical
        .map_or_else(|| "one of a known kind, with an unknown content".to_owned(), dotted);
    constraint(format!("{prefix}a critical extension that is not understood: {which}"))
}

fn constraint(what: impl Into<String>) -> Refused {
    Refused::new(Reason::CertificateConstraint, what)
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
