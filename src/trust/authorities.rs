//! The client CAs: whose certificates are accepted at all.
//!
//! All the CA certificates that `client_ca` names are trusted to issue. One whose issuer is among them too is an
//! intermediate: its own signature, dates and constraints are verified, and it completes the chains of supplicants that do
//! not send it. Every other one is an anchor, whether it signed itself or not.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};

use super::certificate::Certificate;
use super::der::Malformed;
use super::error::TrustError;
use super::pem;
use super::summary::Summary;

/// Above this somebody has named the system's bundle of public CAs, of which each lets strangers in.
const AUTHORITIES_MAX: usize = 1_000;

/// Extensions of the files that are read in a folder.
pub(super) const FOLDER_EXTENSIONS: [&str; 3] = ["pem", "crt", "cer"];

/// One CA certificate of `client_ca`.
#[derive(Clone, Debug)]
pub struct Authority {
    /// The certificate.
    pub der: CertificateDer<'static>,
    /// What it says.
    pub summary: Summary,
    /// It is trusted as it stands; else its issuer is among the client CAs.
    pub is_anchor: bool,
    /// Where it was read; empty for one that was not read from a file.
    pub path: PathBuf,
    /// The line that its block begins on.
    pub line: usize,
    /// The encoded subject, to find it by without reading the certificate again.
    name: Box<[u8]>,
}

/// The client CAs of one trust set.
#[derive(Debug)]
pub struct Authorities {
    all: Vec<Authority>,
    pub(super) anchors: Vec<TrustAnchor<'static>>,
    pub(super) intermediates: Vec<CertificateDer<'static>>,
}

/// A certificate and where it was read.
pub(super) struct Read {
    pub(super) der: CertificateDer<'static>,
    pub(super) path: PathBuf,
    pub(super) line: usize,
}

impl Authorities {
    /// Reads the CAs from files, and from the files `*.pem`, `*.crt` and `*.cer` of folders.
    ///
    /// # Errors
    /// A file that cannot be read, holds no certificate, or one that is no CA's; no CA at all.
    pub fn load(paths: &[PathBuf]) -> Result<Authorities, TrustError> {
        let mut read: Vec<Read> = Vec::new();
        for path in paths {
            for file in files(path)? {
                for certificate in certificates(&file)? {
                    if !read.iter().any(|known| known.der == certificate.der) {
                        read.push(certificate);
                    }
                }
                if read.len() > AUTHORITIES_MAX {
                    return Err(TrustError::TooManyCertificates {
                        path: file,
                        most: AUTHORITIES_MAX,
                    });
                }
            }
        }
        if read.is_empty() {
            return Err(TrustError::NoAuthority);
        }
        Authorities::new(read)
    }

    /// A CA that is not read from a file.
    pub(super) fn of(der: CertificateDer<'static>) -> Result<Authorities, TrustError> {
        Authorities::new(vec![Read {
            der,
            path: PathBuf::new(),
            line: 0,
        }])
    }

    fn new(read: Vec<Read>) -> Result<Authorities, TrustError> {
        let mut parsed = Vec::with_capacity(read.len());
        for Read { der, path, line } in &read {
            let malformed = |source| TrustError::Certificate {
                path: path.clone(),
                line: *line,
                source,
            };
            let certificate = Certificate::parse(der).map_err(malformed)?;
            if let Some(why) = why_no_authority(&certificate) {
                let subject = certificate.subject.one_line();
                return Err(TrustError::NotAnAuthority {
                    path: path.clone(),
                    line: *line,
                    subject,
                    why,
                });
            }
            parsed.push(certificate);
        }
        let is_anchor = anchors(&parsed);
        let summaries: Vec<(Summary, Box<[u8]>)> = parsed
            .iter()
            .zip(&read)
            .map(|(certificate, read)| {
                let summary = Summary::from_certificate(certificate, &read.der);
                (summary, certificate.subject.as_bytes().into())
            })
            .collect();
        drop(parsed);

        let mut authorities = Authorities {
            all: Vec::new(),
            anchors: Vec::new(),
            intermediates: Vec::new(),
        };
        for ((Read { der, path, line }, (summary, name)), is_anchor) in read.into_iter().zip(summaries).zip(is_anchor) {
            if is_anchor {
                let anchor = webpki::anchor_from_trusted_cert(&der).map(|anchor| anchor.to_owned());
                let malformed = |_| TrustError::Certificate {
                    path: path.clone(),
                    line,
                    source: Malformed("CA certificate"),
                };
                authorities.anchors.push(anchor.map_err(malformed)?);
            } else {
                authorities.intermediates.push(der.clone());
            }
            authorities.all.push(Authority {
                der,
                summary,
                is_anchor,
                path,
                line,
                name,
            });
        }
        Ok(authorities)
    }

    /// All of them, in the order they were read.
    pub fn iter(&self) -> std::slice::Iter<'_, Authority> {
        self.all.iter()
    }

    /// The certificates that an anchor was made of: several where a root was renewed over its key.
    fn of_key(&self, anchor: &TrustAnchor<'_>) -> impl Iterator<Item = &Authority> {
        let anchors = self.all.iter().filter(|authority| authority.is_anchor);
        anchors.zip(&self.anchors).filter_map(move |(authority, known)| {
            let same =
                known.subject == anchor.subject && known.subject_public_key_info == anchor.subject_public_key_info;
            same.then_some(authority)
        })
    }

    /// The certificate that an anchor was made of; of several the one that lasts longest.
    pub(super) fn of_anchor(&self, anchor: &TrustAnchor<'_>) -> Option<&Authority> {
        self.of_key(anchor).max_by_key(|authority| authority.summary.not_after)
    }

    /// A certificate that an anchor was made of and that is valid at `now`, Unix seconds; of several the one that lasts longest.
    pub(super) fn valid_anchor(&self, anchor: &TrustAnchor<'_>, now: i64) -> Option<&Authority> {
        self.of_key(anchor)
            .filter(|authority| (authority.summary.not_before..=authority.summary.not_after).contains(&now))
            .max_by_key(|authority| authority.summary.not_after)
    }

    /// Whether an anchor is valid at `now`: of several certificates over one key, any. Their dates are nothing to
    /// webpki, but a CA that has expired must not go on letting devices in.
    pub(super) fn check_dates(&self, anchor: &TrustAnchor<'_>, now: UnixTime) -> Result<(), webpki::Error> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if self.valid_anchor(anchor, seconds).is_some() {
            return Ok(());
        }
        let Some(Authority { summary, .. }) = self.of_anchor(anchor) else {
            return Err(webpki::Error::UnknownIssuer);
        };
        let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        Err(if seconds < summary.not_before {
            webpki::Error::CertNotValidYet {
                time: now,
                not_before: time(summary.not_before),
            }
        } else {
            webpki::Error::CertExpired {
                time: now,
                not_after: time(summary.not_after),
            }
        })
    }
}

impl Authority {
    /// Whether this is its subject, as [`Name::as_bytes`](super::names::Name::as_bytes) has it.
    pub(super) fn has_name(&self, name: &[u8]) -> bool {
        *self.name == *name
    }
}

/// Which of the CAs are trusted as they stand: roots, those whose issuer is not among them, and those that have signed each
/// other, so that nobody stands above them.
fn anchors(all: &[Certificate<'_>]) -> Vec<bool> {
    let is_top = |certificate: &Certificate<'_>| {
        certificate.is_self_issued() || !all.iter().any(|issuer| certificate.names_as_issuer(issuer))
    };
    let mut anchors: Vec<bool> = all.iter().map(is_top).collect();
    let mut reached = anchors.clone();
    loop {
        let above: Vec<_> = all
            .iter()
            .zip(&reached)
            .filter_map(|(ca, reached)| reached.then_some(ca))
            .collect();
        let more: Vec<bool> = all
            .iter()
            .zip(&reached)
            .map(|(ca, reached)| *reached || above.iter().any(|issuer| ca.names_as_issuer(issuer)))
            .collect();
        if more == reached {
            break;
        }
        reached = more;
    }
    for (is_anchor, reached) in anchors.iter_mut().zip(reached) {
        *is_anchor |= !reached;
    }
    anchors
}

fn why_no_authority(certificate: &Certificate<'_>) -> Option<&'static str> {
    if certificate.version < 3 {
        // of before extensions existed: trusted as it stands or not at all
        return (!certificate.is_self_issued()).then_some("a certificate of version 1 must be a root to be trusted");
    }
    if !certificate.is_ca {
        return Some("its basicConstraints do not say `CA:TRUE`");
    }
    (!certificate.may_sign_certificates()).then_some("its keyUsage lacks `keyCertSign`")
}

/// A file is itself, a folder the files in it that may hold certificates.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, TrustError> {
    files_of(path, &FOLDER_EXTENSIONS).map_err(|source| TrustError::Read {
        path: path.to_owned(),
        source,
    })
}

/// A file is itself, a folder the files in it with one of these extensions, by name.
pub(super) fn files_of(path: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if has_extension(&file, extensions) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a file's name ends with one of these, which are lower case.
pub(super) fn has_extension(file: &Path, extensions: &[&str]) -> bool {
    let extension = file.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    extension.is_some_and(|extension| extensions.contains(&extension.as_str()))
}

/// The certificates of a PEM file.
pub(super) fn certificates(path: &Path) -> Result<Vec<Read>, TrustError> {
    let octets = pem::read(path)?;
    let blocks = pem::blocks(path, &octets)?.into_iter();
    let read: Vec<Read> = blocks
        .filter(|block| matches!(block.label.as_str(), "CERTIFICATE" | "X509 CERTIFICATE"))
        .map(|block| Read {
            der: block.contents.to_vec().into(),
            path: path.to_owned(),
            line: block.line,
        })
        .collect();
    if read.is_empty() {
        Err(TrustError::NoCertificate { path: path.to_owned() })
    } else {
        Ok(read)
    }
}
