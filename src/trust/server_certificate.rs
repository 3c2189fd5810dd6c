//! The server's own certificate, its chain put in order, and its key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

use super::authorities::{Read, certificates};
use super::certificate::Certificate;
use super::error::TrustError;
use super::key;
use super::summary::Summary;

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
    pub(super) certified: Arc<CertifiedKey>,
}

impl ServerCertificate {
    /// Reads certificate, chain and key. Their order in the file does not matter: the key says which is the server's.
    pub(super) fn load(
        certificate: &Path,
        private_key: &Path,
        passphrase_file: Option<&Path>,
        provider: &CryptoProvider,
    ) -> Result<ServerCertificate, TrustError> {
        let read = certificates(certificate)?;
        let (key, line) = key::load(private_key, passphrase_file)?;
        let unusable = |what: String| TrustError::KeyUnusable {
            path: private_key.to_owned(),
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
                certificate: certificate.to_owned(),
                private_key: private_key.to_owned(),
            });
        };
        let (leaf, der) = rest.swap_remove(own);
        let summary = Summary::from_certificate(&leaf, der);
        let mut chain = vec![der.clone()];
        let mut last = leaf;
        while !last.is_self_issued()
            && let Some(next) = rest.iter().position(|(issuer, _)| last.names_as_issuer(issuer))
        {
            let (issuer, der) = rest.swap_remove(next);
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
            path: certificate.to_owned(),
            key_path: private_key.to_owned(),
            certified,
        })
    }
}

fn reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::General(text) => text.clone(),
        other => other.to_string(),
    }
}
