//! The server's own certificates, their chains put in order, and their keys.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::CertificateDer;

use super::authorities::{Read, certificates};
use super::certificate::Certificate;
use super::error::TrustError;
use super::key;
use super::settings::CertificateFiles;
use super::staple::Staple;
use super::summary::Summary;
use super::verify::Link;

/// The certificates of one set, at least one: an ECDSA and an RSA certificate side by side, as a rule. A supplicant gets
/// the first whose key can sign in a way that it offers, by its signature_algorithms and, in TLS 1.2, its cipher suites.
#[derive(Debug)]
pub(super) struct ServerCertificates {
    first: ServerCertificate,
    others: Vec<ServerCertificate>,
    time: Arc<dyn TimeProvider>,
}

impl ServerCertificates {
    /// Reads all of them.
    pub(super) fn load(
        files: &[CertificateFiles],
        provider: &CryptoProvider,
        time: Arc<dyn TimeProvider>,
    ) -> Result<ServerCertificates, TrustError> {
        let (first, others) = files.split_first().ok_or(TrustError::NoServerCertificate)?;
        let others = others.iter().map(|files| ServerCertificate::load(files, provider));
        Ok(ServerCertificates {
            first: ServerCertificate::load(first, provider)?,
            others: others.collect::<Result<_, _>>()?,
            time,
        })
    }

    pub(super) fn first(&self) -> &ServerCertificate {
        &self.first
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ServerCertificate> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl ResolvesServerCert for ServerCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let mut fitting = self
            .iter()
            .filter(|server| server.certified.key.choose_scheme(offered).is_some());
        let now = self.time.current_time().map_or(0, |now| now.as_secs());
        fitting.next().map(|server| server.certified(now))
    }
}

/// The certificate that supplicants are shown.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// What it says.
    pub summary: Summary,
    /// What is sent: the certificate, then each issuer after the one it issued. A root is left out: a supplicant has it,
    /// or does not trust it, and it would cost a round trip.
    pub chain: Vec<CertificateDer<'static>>,
    /// The names of certificates in the file that are no part of the chain.
    pub unused: Vec<String>,
    /// The certificate's file.
    pub path: PathBuf,
    /// The key's.
    pub key_path: PathBuf,
    certified: Arc<CertifiedKey>,
    /// Who issued it, where that is in the file.
    issuer: Option<CertificateDer<'static>>,
    pub(super) staple: Arc<Staple>,
}

impl ServerCertificate {
    /// Reads certificate, chain and key. Their order in the file does not matter: the key says which is the server's.
    fn load(files: &CertificateFiles, provider: &CryptoProvider) -> Result<ServerCertificate, TrustError> {
        let read = certificates(&files.certificate)?;
        let (key, line) = key::load(&files.private_key, files.passphrase_file.as_deref())?;
        let unusable = |what: String| TrustError::KeyUnusable {
            path: files.private_key.clone(),
            line,
            what,
        };
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| unusable(reason(&error)))?;
        let public_key = key
            .public_key()
            .ok_or_else(|| unusable("it has no public part".into()))?;

        let mut rest = Vec::with_capacity(read.len());
        for Read { der, path, line } in &read {
            let malformed = |source| TrustError::Certificate {
                path: path.clone(),
                line: *line,
                source,
            };
            rest.push((Certificate::parse(der).map_err(malformed)?, der));
        }
        let own = rest
            .iter()
            .position(|(certificate, _)| certificate.public_key == public_key.as_ref());
        let Some(own) = own else {
            return Err(TrustError::KeyMismatch {
                certificate: files.certificate.clone(),
                private_key: files.private_key.clone(),
            });
        };
        let (leaf, der) = rest.swap_remove(own);
        let summary = Summary::from_certificate(&leaf, der);
        let mut chain = vec![der.clone()];
        let mut issuers = Vec::new();
        let mut last = leaf;
        while !last.is_self_issued()
            && let Some(next) = rest.iter().position(|(issuer, _)| last.names_as_issuer(issuer))
        {
            let (issuer, der) = rest.swap_remove(next);
            issuers.push(der.clone());
            if !issuer.is_self_issued() {
                chain.push(der.clone());
            }
            last = issuer;
        }
        let unused = rest
            .iter()
            .map(|(certificate, _)| certificate.subject.one_line())
            .collect();
        let certified = Arc::new(CertifiedKey::new(chain.clone(), key));
        Ok(ServerCertificate {
            summary,
            chain,
            unused,
            path: files.certificate.clone(),
            key_path: files.private_key.clone(),
            certified,
            issuer: issuers.into_iter().next(),
            staple: Arc::new(Staple::new()),
        })
    }

    /// What is shown at this time, Unix seconds: with its OCSP response while there is a good one.
    fn certified(&self, now: u64) -> Arc<CertifiedKey> {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let stapled = self.staple.certified(now);
        stapled.unwrap_or_else(|| Arc::clone(&self.certified))
    }

    /// The certificate and its issuer, where that is in the file.
    pub(super) fn link(&self) -> Option<Link> {
        Some(Link {
            certificate: self.chain.first()?.clone(),
            issuer: self.issuer.clone()?,
        })
    }

    /// Sends this OCSP response beside it from now on, until this second; whether there was none before.
    pub(super) fn put_staple(&self, response: Vec<u8>, until: i64) -> bool {
        let CertifiedKey { cert, key, .. } = &*self.certified;
        let mut certified = CertifiedKey::new(cert.clone(), Arc::clone(key));
        certified.ocsp = Some(response);
        self.staple.put(certified, until)
    }
}

fn reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::General(text) => text.clone(),
        other => other.to_string(),
    }
}
