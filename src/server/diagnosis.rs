//! What the log line says of a handshake that failed, behind its reason: the cause, the alert and who sent it (both
//! `eap::tls`'s), and what was presented by whom, so that an engineer knows which certificate to look at.
//!
//! Everything here is bounded, and a name from a certificate stands between backticks that it cannot end.

use rustls_pki_types::CertificateDer;

use crate::reason::{Kind, Reason};
use crate::trust::certificate::Certificate;
use crate::trust::{TrustSet, quoted};

/// Names of one list; more are counted.
const NAMES_MAX: usize = 4;

/// `why` of a conversation that ended for `reason`, with the names that belong to it.
pub(super) fn detail(
    reason: Reason,
    why: Option<String>,
    presented: Option<&[CertificateDer<'static>]>,
    trust: &TrustSet,
) -> Option<String> {
    let names = match (reason, presented) {
        (Reason::ServerCertificateRefused, _) => Some(ours(trust)),
        (Reason::NoCertificate, _) => Some(asked_for(trust)),
        (_, Some([leaf, others @ ..])) if matches!(reason.kind(), Kind::Tls | Kind::Certificate) => {
            Some(shown(leaf, others))
        }
        _ => None,
    };
    let parts: Vec<String> = [why, names].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What a supplicant has to believe in; where the server has several certificates, it saw one of them.
pub(super) fn ours(trust: &TrustSet) -> String {
    let mut ours: Vec<String> = Vec::new();
    for server in trust.servers() {
        let last = server.chain.last().and_then(|last| Certificate::parse(last).ok());
        let issuer = last.map_or_else(|| "nobody".to_owned(), |last| quoted(&last.issuer.one_line()));
        let one = format!("{}, under {issuer}", quoted(server.summary.name()));
        if !ours.contains(&one) {
            ours.push(one);
        }
    }
    format!("our certificate is {}", ours.join(", or "))
}

/// What a supplicant without a certificate was asked for: the CAs of the CertificateRequest, by which Windows chooses.
fn asked_for(trust: &TrustSet) -> String {
    let authorities = trust.authorities().iter().map(|ca| ca.summary.subject.as_str());
    format!("it was asked for a certificate of {}", list(authorities, " or "))
}

/// The chain that a supplicant sent.
fn shown(leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> String {
    let subject = |der: &CertificateDer<'_>| match Certificate::parse(der) {
        Ok(certificate) => certificate.subject.one_line(),
        Err(malformed) => malformed.to_string(),
    };
    let name = quoted(&subject(leaf));
    match others {
        [] => format!("it presented {name} and nothing else"),
        others => {
            let others: Vec<String> = others.iter().map(subject).collect();
            format!(
                "it presented {name} and with it {}",
                list(others.iter().map(String::as_str), ", ")
            )
        }
    }
}

/// The first names, and how many more there are.
fn list<'a>(names: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut names = names.fuse();
    let first: Vec<String> = names.by_ref().take(NAMES_MAX).map(quoted).collect();
    match names.count() {
        0 => first.join(separator),
        more => format!("{}{separator}{more} more", first.join(separator)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_the_first_and_counts_the_others() {
        let names = ["a", "b", "c", "d", "e", "f"];
        assert_eq!(list(names.into_iter(), ", "), "`a`, `b`, `c`, `d`, 2 more");
        assert_eq!(list(["a", "b"].into_iter(), " or "), "`a` or `b`");
    }

    #[test]
    fn octets_that_are_no_certificate_are_said_to_be_none() {
        let text = shown(&CertificateDer::from(vec![1, 2, 3]), &[]);
        assert!(
            text.starts_with("it presented `") && text.ends_with("` and nothing else"),
            "{text}"
        );
    }
}
