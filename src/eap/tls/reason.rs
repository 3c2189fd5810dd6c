//! Why a handshake failed, in the words that operators read: rustls's errors and the supplicants' alerts.
//!
//! A verifier that knows better than rustls's list returns its own [`Refused`] inside of
//! [`CertificateError::Other`]; the alert that fits the reason is found here too (`alert_for`).

use std::fmt;
use std::sync::Arc;

use rustls::{AlertDescription, CertRevocationListError, CertificateError, Error, OtherError, PeerIncompatible};

use crate::reason::{Kind, Reason};

/// A refusal: the word of the closed list, and a few more for the log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// Which alert, which limit; short, lower case. `None` where the reason says it all.
    pub detail: Option<String>,
}

impl Refused {
    /// A refusal with a detail.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Refused {
        Refused {
            reason,
            detail: Some(detail.into()),
        }
    }

    /// The same, saying that this alert was sent for it; `None` where only rustls knows which. A decision of the policies
    /// says nothing of its alert, which is always the same.
    pub(crate) fn with_alert(self, alert: Option<AlertDescription>) -> Refused {
        if !matches!(self.reason.kind(), Kind::Eap | Kind::Tls | Kind::Certificate) {
            return self;
        }
        let sent = match alert {
            Some(alert) => format!("we sent the alert {}", alert_name(alert)),
            None => "we sent an alert".to_owned(),
        };
        let detail = match self.detail {
            Some(detail) => format!("{detail}; {sent}"),
            None => sent,
        };
        Refused::new(self.reason, detail)
    }

    /// The error with which a certificate verifier says so to rustls.
    pub fn into_error(self) -> Error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(self))))
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        Refused { reason, detail: None }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail.as_deref().unwrap_or(self.reason.meaning()))
    }
}

impl std::error::Error for Refused {}

/// The reason for an error of the server's side of a handshake.
pub fn reason(error: &Error) -> Reason {
    Refused::from(error).reason
}

impl From<&Error> for Refused {
    fn from(error: &Error) -> Refused {
        match error {
            Error::AlertReceived(alert) => alert_received(*alert),
            Error::InvalidCertificate(error) => certificate(error),
            Error::InvalidCertRevocationList(error) => revocation_list(error),
            Error::NoCertificatesPresented => Reason::NoCertificate.into(),
            Error::PeerIncompatible(why) => Refused::new(incompatible(why), sentence(why)),
            // rustls's word for a resolver that had no certificate for the signature algorithms offered
            Error::General(text) if text.contains("certificate chain resolved") => Refused::new(
                Reason::TlsNoCommon,
                "none of the server's certificates fits the signature algorithms offered",
            ),
            Error::General(text) if text == "incompatible signing key" => Refused::new(
                Reason::TlsNoCommon,
                "the server's key fits none of the signature algorithms offered",
            ),
            Error::DecryptError => Refused::new(Reason::TlsFailed, "a record or the finished message does not verify"),
            Error::PeerMisbehaved(why) => Refused::new(Reason::TlsFailed, sentence(why)),
            Error::InvalidMessage(why) => Refused::new(Reason::TlsFailed, format!("message: {}", sentence(why))),
            Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
                Refused::new(Reason::TlsFailed, "a message out of turn")
            }
            Error::PeerSentOversizedRecord => Refused::new(Reason::TlsFailed, "an oversized record"),
            // no certificate is valid at a time that has none
            Error::FailedToGetCurrentTime => Refused::new(
                Reason::CertificateNotYetValid,
                "this machine's clock says a time before 1970",
            ),
            Error::FailedToGetRandomBytes => Refused::new(Reason::InternalError, error.to_string()),
            other => Refused::new(Reason::TlsFailed, other.to_string()),
        }
    }
}

fn incompatible(why: &PeerIncompatible) -> Reason {
    use PeerIncompatible as P;
    match why {
        P::Tls12NotOffered
        | P::Tls12NotOfferedOrEnabled
        | P::SupportedVersionsExtensionRequired
        | P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig => Reason::TlsVersion,
        P::EcPointsExtensionRequired
        | P::KeyShareExtensionRequired
        | P::NamedGroupsExtensionRequired
        | P::NoCertificateRequestSignatureSchemesInCommon
        | P::NoCipherSuitesInCommon
        | P::NoEcPointFormatsInCommon
        | P::NoKxGroupsInCommon
        | P::NoSignatureSchemesInCommon
        | P::SignatureAlgorithmsExtensionRequired
        | P::UncompressedEcPointsRequired => Reason::TlsNoCommon,
        _ => Reason::TlsFailed,
    }
}

/// What a supplicant's alert says of us, and what it means when a supplicant sends it.
fn alert_received(alert: AlertDescription) -> Refused {
    use AlertDescription as A;
    use Reason::{ServerCertificateRefused, TlsFailed, TlsNoCommon, TlsVersion};
    let (reason, meaning) = match alert {
        A::UnknownCA => (ServerCertificateRefused, "it does not have the ca of our certificate"),
        A::BadCertificate | A::CertificateUnknown => (
            ServerCertificateRefused,
            "it expects another ca or another server name than our certificate has",
        ),
        A::CertificateExpired => (
            ServerCertificateRefused,
            "our certificate has expired or is not valid yet, by the device's clock",
        ),
        A::CertificateRevoked => (
            ServerCertificateRefused,
            "our certificate, or a ca above it, was revoked",
        ),
        A::UnsupportedCertificate => (
            ServerCertificateRefused,
            "our certificate's usage, key or signature is none that it accepts",
        ),
        A::BadCertificateStatusResponse => (
            ServerCertificateRefused,
            "it wants a good ocsp response with our certificate",
        ),
        A::BadCertificateHashValue | A::CertificateUnobtainable => {
            (ServerCertificateRefused, "it could not get our certificate")
        }
        A::AccessDenied => (
            ServerCertificateRefused,
            "its user, or its configuration, declined our certificate",
        ),
        A::ProtocolVersion | A::InappropriateFallback => (TlsVersion, "it speaks no tls version that we speak"),
        A::InsufficientSecurity => (TlsNoCommon, "our ciphers or keys are too weak for it"),
        A::HandshakeFailure => (
            TlsFailed,
            "it found no common parameters, or no certificate of its own to show",
        ),
        A::UserCanceled => (TlsFailed, "its user gave up"),
        A::InternalError => (TlsFailed, "it failed by itself: perhaps its key cannot be used"),
        A::CloseNotify => (
            TlsFailed,
            "it hung up: often a user, or a profile, that declined our certificate",
        ),
        A::DecryptError | A::BadRecordMac | A::DecodeError | A::UnexpectedMessage | A::IllegalParameter => (
            TlsFailed,
            "it could not read what we sent, or could not verify our signature",
        ),
        _ => (TlsFailed, "its own log says why"),
    };
    Refused::new(
        reason,
        format!("the supplicant sent the alert {}: {meaning}", alert_name(alert)),
    )
}

/// The alert that rustls sends for an error of the server's side; `None` where it depends.
pub(crate) fn alert_sent(error: &Error) -> Option<AlertDescription> {
    use AlertDescription as A;
    Some(match error {
        Error::InvalidCertificate(error) => error.clone().into(),
        Error::InvalidMessage(error) => (*error).into(),
        Error::NoCertificatesPresented => A::CertificateRequired,
        Error::PeerSentOversizedRecord => A::RecordOverflow,
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => A::UnexpectedMessage,
        _ => return None,
    })
}

fn certificate(error: &CertificateError) -> Refused {
    use CertificateError as C;
    match error {
        C::BadEncoding => Reason::CertificateMalformed.into(),
        C::Expired => Reason::CertificateExpired.into(),
        C::ExpiredContext { time, not_after } => {
            let ago = span(time.as_secs().saturating_sub(not_after.as_secs()));
            Refused::new(Reason::CertificateExpired, format!("expired {ago} ago"))
        }
        C::NotValidYet => Reason::CertificateNotYetValid.into(),
        C::NotValidYetContext { time, not_before } => {
            let ahead = span(not_before.as_secs().saturating_sub(time.as_secs()));
            Refused::new(Reason::CertificateNotYetValid, format!("valid in {ahead}"))
        }
        C::Revoked => Reason::CertificateRevoked.into(),
        C::UnhandledCriticalExtension => Refused::new(Reason::CertificateConstraint, "an unknown critical extension"),
        C::UnknownIssuer => Reason::UnknownCa.into(),
        C::UnknownRevocationStatus => Reason::RevocationUnknown.into(),
        C::ExpiredRevocationList | C::ExpiredRevocationListContext { .. } => {
            Refused::new(Reason::RevocationUnavailable, "the revocation list has expired")
        }
        // the name of a CA that is known, over the key of one that is not
        C::BadSignature => Refused::new(
            Reason::UnknownCa,
            "a signature of the chain does not verify: perhaps another ca of the same name",
        ),
        C::UnsupportedSignatureAlgorithmContext { .. } | C::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Refused::new(Reason::CertificateWeak, "a signature algorithm that is not accepted")
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            Refused::new(Reason::CertificateConstraint, "not for this name")
        }
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => Reason::CertificateWrongUsage.into(),
        C::InvalidOcspResponse => Refused::new(Reason::RevocationUnavailable, "an invalid ocsp response"),
        C::Other(OtherError(error)) => match error.downcast_ref::<Refused>() {
            Some(refused) => refused.clone(),
            None => other_certificate(&error.to_string()),
        },
        #[expect(deprecated, reason = "rustls-webpki's own verifier may still return it")]
        C::UnsupportedSignatureAlgorithm => {
            Refused::new(Reason::CertificateWeak, "a signature algorithm that is not accepted")
        }
        other => Refused::new(Reason::CertificateMalformed, other.to_string()),
    }
}

/// rustls-webpki's errors without a word in rustls's list; only their names reach this floor.
fn other_certificate(name: &str) -> Refused {
    let reason = match name {
        "UnsupportedCertVersion" => Reason::CertificateMalformed,
        "CaUsedAsEndEntity" | "EndEntityUsedAsCa" => Reason::CertificateWrongUsage,
        _ if name.contains("Constraint") => Reason::CertificateConstraint,
        _ if name.contains("Exceeded") => Reason::CertificateConstraint,
        _ => Reason::CertificateMalformed,
    };
    Refused::new(reason, words(name))
}

fn revocation_list(error: &CertRevocationListError) -> Refused {
    Refused::new(
        Reason::RevocationUnavailable,
        format!("revocation list: {}", sentence(error)),
    )
}

/// The error whose alert tells a supplicant about `refused`: rustls chooses the alert by its own list, in which a CA
/// made anew under its old name is a decrypt_error, and everything it has no word for certificate_unknown.
pub(crate) fn alert_for(refused: Refused) -> CertificateError {
    match refused.reason {
        Reason::UnknownCa | Reason::ChainIncomplete => CertificateError::UnknownIssuer,
        Reason::CertificateExpired => CertificateError::Expired,
        Reason::CertificateNotYetValid => CertificateError::NotValidYet,
        // unsupported_certificate
        Reason::CertificateWrongUsage | Reason::CertificateWeak => CertificateError::InvalidPurpose,
        Reason::CertificateRevoked => CertificateError::Revoked,
        // bad_certificate
        Reason::CertificateMalformed | Reason::CertificateConstraint => CertificateError::BadEncoding,
        // certificate_unknown: "some other (unspecified) issue"
        reason if reason.kind() == Kind::Certificate => CertificateError::Other(OtherError(Arc::new(refused))),
        // access_denied
        _ => CertificateError::ApplicationVerificationFailure,
    }
}

/// An alert's name in the RFCs.
pub fn alert_name(alert: AlertDescription) -> String {
    words(&format!("{alert:?}")).replace(' ', "_")
}

fn sentence(error: &dyn fmt::Debug) -> String {
    words(&format!("{error:?}"))
}

/// `NoCipherSuitesInCommon` as `no cipher suites in common`, `UnknownCA` as `unknown ca`.
fn words(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    let mut before = '(';
    for letter in name.chars() {
        if letter.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
        before = letter;
    }
    text
}

/// Seconds in the largest unit that leaves a whole number above one: `3 h`, `12 days`.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::UnixTime;
    use std::time::Duration;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn alerts_have_their_names_from_the_rfcs() {
        assert_eq!(alert_name(AlertDescription::UnknownCA), "unknown_ca");
        assert_eq!(alert_name(AlertDescription::CertificateExpired), "certificate_expired");
        assert_eq!(alert_name(AlertDescription::BadRecordMac), "bad_record_mac");
    }

    #[test]
    fn alerts_about_our_certificate_and_others_are_told_apart() {
        use AlertDescription as A;
        for alert in [
            A::UnknownCA,
            A::BadCertificate,
            A::CertificateUnknown,
            A::CertificateExpired,
            A::AccessDenied,
        ] {
            assert_eq!(
                reason(&Error::AlertReceived(alert)),
                Reason::ServerCertificateRefused,
                "{alert:?}"
            );
        }
        assert_eq!(reason(&Error::AlertReceived(A::ProtocolVersion)), Reason::TlsVersion);
        assert_eq!(
            reason(&Error::AlertReceived(A::InsufficientSecurity)),
            Reason::TlsNoCommon
        );
        assert_eq!(reason(&Error::AlertReceived(A::HandshakeFailure)), Reason::TlsFailed);
        let detail = Refused::from(&Error::AlertReceived(A::UnknownCA)).detail;
        assert_eq!(
            detail.as_deref(),
            Some("the supplicant sent the alert unknown_ca: it does not have the ca of our certificate")
        );
    }

    #[test]
    fn a_refusal_names_the_alert_that_was_sent_for_it() {
        let sent = |refused: Refused, alert| refused.with_alert(alert).detail;
        let refused = Refused::new(Reason::CertificateExpired, "expired 3 days ago");
        assert_eq!(
            sent(refused, Some(AlertDescription::CertificateExpired)).as_deref(),
            Some("expired 3 days ago; we sent the alert certificate_expired")
        );
        assert_eq!(
            sent(Reason::CertificateRevoked.into(), None).as_deref(),
            Some("we sent an alert")
        );
        let by_policy = sent(Reason::PolicyReject.into(), Some(AlertDescription::AccessDenied));
        assert_eq!(by_policy, None);
    }

    #[test]
    fn certificate_errors_have_their_reasons() {
        use CertificateError as C;
        let cases = [
            (C::BadEncoding, Reason::CertificateMalformed),
            (C::Expired, Reason::CertificateExpired),
            (C::NotValidYet, Reason::CertificateNotYetValid),
            (C::Revoked, Reason::CertificateRevoked),
            (C::UnknownIssuer, Reason::UnknownCa),
            (C::BadSignature, Reason::UnknownCa),
            (C::InvalidPurpose, Reason::CertificateWrongUsage),
            (C::UnknownRevocationStatus, Reason::RevocationUnknown),
            (C::ExpiredRevocationList, Reason::RevocationUnavailable),
            (C::UnhandledCriticalExtension, Reason::CertificateConstraint),
        ];
        for (error, expected) in cases {
            assert_eq!(reason(&error.clone().into()), expected, "{error:?}");
        }
        assert_eq!(reason(&Error::NoCertificatesPresented), Reason::NoCertificate);
    }

    #[test]
    fn the_detail_says_how_long_ago() {
        let expired = CertificateError::ExpiredContext {
            time: at(1_000_000),
            not_after: at(1_000_000 - 3 * 86_400),
        };
        assert_eq!(
            Refused::from(&expired.into()).detail.as_deref(),
            Some("expired 3 days ago")
        );
        let early = CertificateError::NotValidYetContext {
            time: at(10),
            not_before: at(40),
        };
        assert_eq!(Refused::from(&early.into()).detail.as_deref(), Some("valid in 30 s"));
    }

    #[test]
    fn a_verifiers_own_reason_comes_through() {
        let refused = Refused::new(Reason::CertificateWeak, "rsa of 1,024 bits");
        assert_eq!(Refused::from(&refused.clone().into_error()), refused);
    }

    #[test]
    fn incompatible_peers() {
        let cases = [
            (PeerIncompatible::Tls12NotOfferedOrEnabled, Reason::TlsVersion),
            (PeerIncompatible::SupportedVersionsExtensionRequired, Reason::TlsVersion),
            (PeerIncompatible::NoCipherSuitesInCommon, Reason::TlsNoCommon),
            (PeerIncompatible::NoKxGroupsInCommon, Reason::TlsNoCommon),
            (PeerIncompatible::NullCompressionRequired, Reason::TlsFailed),
        ];
        for (why, expected) in cases {
            assert_eq!(reason(&Error::PeerIncompatible(why.clone())), expected, "{why:?}");
        }
        let detail = Refused::from(&Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon)).detail;
        assert_eq!(detail.as_deref(), Some("no cipher suites in common"));
    }
}
