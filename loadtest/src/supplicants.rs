//! The supplicants that devices with certificates are: one for each certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use portreeve::eap::peer::{ClientCertificate, ClientTls, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::tls::{TlsVersion, provider};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::DefaultTimeProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::options::EapTls;

/// Octets of the largest EAP packet that a device sends.
pub const FRAGMENT_OCTETS: usize = 1024;
/// The most certificates; each with its key takes some 4 kB.
const MOST_CERTIFICATES: usize = 100_000;

const HINT: &str =
    "hint: `portreeve demo` makes certificates to try with; others are named by --cert, --key and --ca, or --cert-dir";

/// What a device shows of itself.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    identity: String,
    certificate: PathBuf,
    key: PathBuf,
}

/// Reads the certificates and keys.
///
/// # Errors
/// What the user has to change.
pub fn supplicants(options: &EapTls) -> anyhow::Result<Vec<Arc<PeerSettings>>> {
    const IDENTITY: &str = "portreeve-load";
    let mut files = match &options.cert_dir {
        Some(folder) => pairs(folder)?,
        None => vec![Files {
            identity: IDENTITY.to_owned(),
            certificate: options.cert.clone(),
            key: options.key.clone(),
        }],
    };
    if let Some(identity) = &options.identity {
        for files in &mut files {
            files.identity.clone_from(identity);
        }
    }
    let base = base(options)?;
    files
        .iter()
        .map(|files| {
            let mut tls = base.clone();
            tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified(files)?));
            Ok(Arc::new(PeerSettings {
                identity: files.identity.clone().into_bytes(),
                md5_password: None,
                tls: Some(Arc::new(tls)),
                tunnel: None,
                fragment_size: FRAGMENT_OCTETS,
                strictness: Strictness::Strict,
            }))
        })
        .collect()
}

/// What all supplicants have in common: whom they believe, and what they offer. They share what was verified, too.
fn base(options: &EapTls) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for ca in certificates(&options.ca)? {
        roots
            .add(ca)
            .with_context(|| format!("cannot use a CA in `{}`", options.ca.display()))?;
    }
    let (min_version, max_version) = match options.tls {
        Some(version) => (version, version),
        None => (TlsVersion::V12, TlsVersion::V13),
    };
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(DefaultTimeProvider),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names: Vec::new(),
        },
        certificate: None::<ClientCertificate>,
        min_version,
        max_version,
    };
    Ok(Arc::unwrap_or_clone(tls.build()?))
}

/// Every `NAME.key` of a folder with its `NAME.pem`, by name. A certificate without a key, such as that of the CA, is not
/// for a device.
fn pairs(folder: &Path) -> anyhow::Result<Vec<Files>> {
    let cannot = || format!("cannot read the folder `{}`", folder.display());
    let mut pairs = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let key = entry.with_context(cannot)?.path();
        let Some(name) = key
            .file_stem()
            .filter(|_| key.extension().is_some_and(|extension| extension == "key"))
        else {
            continue;
        };
        if pairs.len() >= MOST_CERTIFICATES {
            bail!(
                "there are more than {MOST_CERTIFICATES} certificates in `{}`",
                folder.display()
            );
        }
        pairs.push(Files {
            identity: name.to_string_lossy().into_owned(),
            certificate: key.with_extension("pem"),
            key,
        });
    }
    if pairs.is_empty() {
        bail!(
            "no `NAME.key` with its `NAME.pem` is in `{}`\nhint: `portreeve-load certificates {0}` makes some",
            folder.display()
        );
    }
    pairs.sort_by(|one, other| one.identity.cmp(&other.identity));
    Ok(pairs)
}

fn certified(files: &Files) -> anyhow::Result<CertifiedKey> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("cannot read a private key from `{}`\n{HINT}", files.key.display()))?;
    let signer = provider()
        .key_provider
        .load_private_key(key)
        .with_context(|| format!("cannot use the private key in `{}`", files.key.display()))?;
    let certified = CertifiedKey::new(chain, signer);
    if let Err(error) = certified.keys_match() {
        bail!(
            "the private key in `{}` is not that of the certificate in `{}`: {error}",
            files.key.display(),
            files.certificate.display()
        );
    }
    Ok(certified)
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read certificates from `{}`\n{HINT}", path.display()))?;
    if certificates.is_empty() {
        bail!("no certificate in `{}`\n{HINT}", path.display());
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_pairs() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.key", "b.pem", "a.pem", "a.key", "ca.pem", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let pairs = pairs(folder.path()).unwrap();
        let names: Vec<_> = pairs.iter().map(|files| &*files.identity).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(pairs[1].certificate, folder.path().join("b.pem"));
        let empty = tempfile::tempdir().unwrap();
        let error = super::pairs(empty.path()).unwrap_err().to_string();
        assert!(error.contains("hint: `portreeve-load certificates "), "{error}");
    }
}
