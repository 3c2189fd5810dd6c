//! What `portreeve check` has to say about certificates: what supplicants will stumble over, what will end soon, and what
//! lets strangers in.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::authorities::Authority;
use super::certificate::{Certificate, Key, Purpose};
use super::der::Malformed;
use super::server_certificate::ServerCertificate;
use super::set::TrustSet;
use super::summary::moment;
use crate::eap::tls::span;

/// Apple's supplicants refuse server certificates that last longer, of private CAs too.
const SERVER_SECONDS_MAX: i64 = 825 * 86_400;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Something will not work for some, or not for long.
    Warning,
    /// Something does not work, or is not safe.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, with file and line.
    pub text: String,
    /// What to do about it.
    pub hint: &'static str,
    /// It is about a validity that ends, has ended or not begun: it changes while nothing else does.
    pub is_of_dates: bool,
}

/// All that is to be said about sets that have loaded, at `now` in Unix seconds; of each the server's certificates first.
/// What is the same in several is said once. A certificate that ends within `expiry_warning` is one of the things.
pub fn findings<'a>(sets: impl IntoIterator<Item = &'a TrustSet>, now: i64, expiry_warning: Duration) -> Vec<Finding> {
    let soon = i64::try_from(expiry_warning.as_secs()).unwrap_or(i64::MAX);
    let mut findings = Findings {
        all: Vec::new(),
        now,
        soon,
    };
    for set in sets {
        for server in set.servers() {
            findings.server(server);
            findings.secret_file(&server.key_path, "the server's private key");
            findings.missing_intermediate(server, set);
        }
        findings.never_shown(set);
        if let Some(path) = &set.ticket_keys_file {
            findings.secret_file(path, "the secrets that sessions are sealed under");
        }
        for authority in set.authorities().iter() {
            findings.authority(authority);
        }
    }
    findings.all
}

/// The name of the public CA that this certificate is, or was issued by: one whose root is in Mozilla's list.
pub fn public_authority(der: &[u8]) -> Result<Option<String>, Malformed> {
    let certificate = Certificate::parse(der)?;
    let root = webpki_roots::TLS_SERVER_ROOTS.iter().find(|root| {
        let subject: &[u8] = root.subject.as_ref();
        let key: &[u8] = root.subject_public_key_info.as_ref();
        // the list has the contents of the key's SEQUENCE, without its header
        certificate.public_key.ends_with(key) || certificate.issuer.as_bytes() == subject
    });
    Ok(root.map(|_| certificate.issuer.one_line()))
}

/// What a supplicant chooses a certificate by.
#[derive(PartialEq, Eq)]
enum Kind {
    Rsa,
    Other(Key),
}

impl Kind {
    fn of(der: &[u8]) -> Option<Kind> {
        Some(match Certificate::parse(der).ok()?.key {
            Key::Rsa(_) | Key::RsaPss(_) => Kind::Rsa,
            other => Kind::Other(other),
        })
    }
}

struct Findings {
    all: Vec<Finding>,
    now: i64,
    /// Seconds in which an end is near.
    soon: i64,
}

impl Findings {
    fn add(&mut self, severity: Severity, text: String, hint: &'static str) {
        self.add_finding(severity, text, hint, false);
    }

    fn add_finding(&mut self, severity: Severity, text: String, hint: &'static str, is_of_dates: bool) {
        let finding = Finding {
            severity,
            text,
            hint,
            is_of_dates,
        };
        if !self.all.contains(&finding) {
            self.all.push(finding);
        }
    }

    fn server(&mut self, server: &ServerCertificate) {
        use Severity::{Error, Note, Warning};
        let what = format!(
            "{}: the server certificate `{}`",
            server.path.display(),
            server.summary.name()
        );
        let mut certificates = server.chain.iter().filter_map(|der| Certificate::parse(der).ok());
        let Some(leaf) = certificates.next() else { return };
        self.validity(
            &what,
            (server.summary.not_before, server.summary.not_after),
            "renew it, and put the new file in its place: it is loaded without a restart",
        );
        if server.summary.not_after - server.summary.not_before > SERVER_SECONDS_MAX {
            self.add(
                Warning,
                format!("{what} is valid for more than 825 days"),
                "Apple's devices refuse it; issue it for a shorter time",
            );
        }
        if leaf.restricts_usage() {
            if !leaf
                .extended_key_usages()
                .any(|purpose| purpose == Purpose::SERVER_AUTH)
            {
                self.add(
                    Error,
                    format!("{what} is not for TLS servers"),
                    "issue it with the extended key usage serverAuth; supplicants refuse it otherwise",
                );
            }
        } else {
            self.add(
                Warning,
                format!("{what} has no extended key usage"),
                "issue it with serverAuth; Windows and Apple's devices refuse it otherwise",
            );
        }
        if leaf.key_usage.is_some_and(|usage| !usage.digital_signature()) {
            self.add(
                Error,
                format!("{what} has a keyUsage without digitalSignature"),
                "issue it with digitalSignature; TLS 1.3 and all modern ciphers sign",
            );
        }
        if leaf.is_ca {
            self.add(
                Warning,
                format!("{what} is a CA's"),
                "issue one of its own for the server; many supplicants refuse a CA's",
            );
        } else if leaf.is_self_issued() {
            self.add(
                Warning,
                format!("{what} is self-signed"),
                "issue it by a CA that the devices know; a self-signed one has to be replaced on each device",
            );
        }
        let mut names = server
            .summary
            .alternative_names
            .iter()
            .filter(|(kind, _)| *kind == "dns")
            .peekable();
        if names.peek().is_none() {
            self.add(
                Warning,
                format!("{what} has no dNSName among its alternative names"),
                "issue it with one; Android and others compare the server's name with nothing else",
            );
        }
        if names
            .chain([&("cn", server.summary.common_name.clone().unwrap_or_default())])
            .any(|(_, name)| name.starts_with('*'))
        {
            self.add(
                Warning,
                format!("{what} has a wildcard in its name"),
                "issue it with the server's full name; Windows refuses wildcards in EAP",
            );
        }
        self.strength(&what, &leaf);
        for issuer in certificates {
            let whose = format!(
                "{}: the intermediate `{}`",
                server.path.display(),
                issuer.subject.one_line()
            );
            self.strength(&whose, &issuer);
            self.validity(
                &whose,
                (issuer.not_before.unix, issuer.not_after.unix),
                "replace it by the CA's present one",
            );
        }
        for unused in &server.unused {
            let text = format!(
                "{}: `{unused}` is no part of the server certificate's chain",
                server.path.display()
            );
            self.add(Note, text, "it is not sent; leave it out");
        }
    }

    /// A certificate after another with the same kind of key: no supplicant can need it.
    fn never_shown(&mut self, set: &TrustSet) {
        let mut kinds: Vec<(Kind, &ServerCertificate)> = Vec::new();
        for server in set.servers() {
            let Some(kind) = server.chain.first().and_then(|der| Kind::of(der)) else {
                continue;
            };
            match kinds.iter().find(|(known, _)| *known == kind) {
                Some((_, first)) => {
                    let text = format!(
                        "{}: this certificate is never shown, since `{}` before it has the same kind of key",
                        server.path.display(),
                        first.path.display()
                    );
                    self.add(
                        Severity::Warning,
                        text,
                        "name one of each kind, the preferred one first; leave the other out",
                    );
                }
                None => kinds.push((kind, server)),
            }
        }
    }

    fn secret_file(&mut self, path: &Path, what: &str) {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            const OTHERS_READ: u32 = 0o004;
            if std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & OTHERS_READ != 0) {
                let text = format!("{}: every user of this machine can read {what}", path.display());
                self.add(
                    Severity::Warning,
                    text,
                    "`chmod 600` it, or 640 with the group of the user that runs portreeve",
                );
            }
        }
    }

    fn authority(&mut self, authority: &Authority) {
        use Severity::{Error, Note, Warning};
        let Ok(certificate) = Certificate::parse(&authority.der) else {
            return;
        };
        let place = if authority.path == Path::new("") {
            String::new()
        } else {
            format!("{} line {}: ", authority.path.display(), authority.line)
        };
        let what = format!("{place}the client CA `{}`", authority.summary.subject);
        if let Ok(Some(root)) = public_authority(&authority.der) {
            self.add(
                Error,
                format!("{what} is a public CA's (`{root}`)"),
                "anybody can have a certificate from it, and would be let in; name only CAs of your own",
            );
        }
        self.validity(
            &what,
            (authority.summary.not_before, authority.summary.not_after),
            "certificates of an expired CA are refused; renew it",
        );
        if !certificate.key.is_strong() {
            self.strength(&what, &certificate);
        } else if !authority.is_anchor {
            self.strength(&what, &certificate); // an anchor's own signature is never looked at
        }
        if certificate.version < 3 {
            self.add(
                Warning,
                format!("{what} is of X.509 version {}", certificate.version),
                "such a CA cannot say what it may do; replace it when you can",
            );
        }
        let mut purposes = certificate.extended_key_usages();
        let is_for_clients = |purpose| [Purpose::CLIENT_AUTH, Purpose::ANY].contains(&purpose);
        if certificate.restricts_usage() && !purposes.any(is_for_clients) {
            match authority.is_anchor {
                true => self.add(
                    Warning,
                    format!("{what} is not for client authentication, by its extended key usage"),
                    "it is trusted all the same, since no root's is looked at; are these the CAs of the devices?",
                ),
                false => self.add(
                    Error,
                    format!("{what} is not for client authentication, by its extended key usage"),
                    "every certificate of it is refused; name the CA that issues the devices' certificates",
                ),
            }
        }
        if authority.is_anchor && !certificate.is_self_issued() {
            self.add(
                Note,
                format!("{what} is trusted as it stands: its issuer is not among the client CAs"),
                "name its root too if that one is to be trusted, or leave it so",
            );
        }
    }

    /// An intermediate that the client CAs show to exist, and the server does not send.
    fn missing_intermediate(&mut self, server: &ServerCertificate, set: &TrustSet) {
        let Some(last) = server.chain.last().and_then(|der| Certificate::parse(der).ok()) else {
            return;
        };
        let missing = set.authorities().iter().find(|authority| {
            !authority.is_anchor && Certificate::parse(&authority.der).is_ok_and(|issuer| last.names_as_issuer(&issuer))
        });
        if let Some(missing) = missing {
            let text = format!(
                "{}: the intermediate `{}` of the server's chain is missing",
                server.path.display(),
                missing.summary.subject
            );
            self.add(
                Severity::Warning,
                text,
                "append it to the file; supplicants that have only the root refuse the server otherwise",
            );
        }
    }

    fn validity(&mut self, what: &str, (from, until): (i64, i64), hint: &'static str) {
        let (severity, text, hint) = if self.now < from {
            (
                Severity::Error,
                format!("{what} is not valid before {}", moment(from)),
                "check this machine's clock, or wait",
            )
        } else if self.now > until {
            (Severity::Error, format!("{what} expired at {}", moment(until)), hint)
        } else if until - self.now < self.soon {
            let left = span(u64::try_from(until - self.now).unwrap_or(0));
            (
                Severity::Warning,
                format!("{what} expires in {left}, at {}", moment(until)),
                hint,
            )
        } else {
            return;
        };
        self.add_finding(severity, text, hint, true);
    }

    fn strength(&mut self, what: &str, certificate: &Certificate<'_>) {
        const HINT: &str = "replace it by one of P-256, or RSA of 2,048 bits, signed with SHA-256";
        if !certificate.key.is_strong() {
            self.add(
                Severity::Error,
                format!("{what} has a weak key: {}", certificate.key.name()),
                HINT,
            );
        }
        if certificate.signature.is_weak() && !certificate.is_self_issued() {
            self.add(
                Severity::Error,
                format!("{what} is signed with {}", certificate.signature.name()),
                HINT,
            );
        }
    }
}
