//! The development PKI: a CA, a server's and a client's certificate, made in a moment for a first try, for tests and
//! for the node's own probe. P-256 throughout (EAP-TLS then needs no fragments).
//!
//! Not for production: the CA's private key is thrown away, so nothing can ever be added to it; `certs/README.md` says how
//! to make a PKI that lasts.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, OtherNameValue, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The name in the server's certificate, unless another is given.
pub const SERVER_NAME: &str = "radius.example";
/// The name in the client's certificate, unless another is given.
pub const CLIENT_NAME: &str = "laptop-7";

/// Microsoft's user principal name, an otherName of the subject's alternative names.
const UPN: &[u64] = &[1, 3, 6, 1, 4, 1, 311, 20, 2, 3];

const DAY: Duration = Duration::from_secs(86_400);
/// Longer than any development should take; the leaves, which begin a day early, last the 825 days that
/// Apple's supplicants accept at most.
const CA_DAYS: u32 = 3_650;
const LEAF_DAYS: u32 = 824;
/// Probes live as long as the process, which nobody should have to count.
const PROBE_DAYS: u32 = 36_500;

/// Why a development PKI was not made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A file is in the way; nothing was written.
    #[error("`{}` exists already, and is not overwritten\nhint: choose another folder, or move it away first", .0.display())]
    Exists(PathBuf),
    /// A file or folder could not be written.
    #[error("cannot write `{}`: {source}\nhint: choose a folder that this user may write to", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The names given fit no certificate.
    #[error("cannot make a certificate: {0}\nhint: names of hosts are written in ASCII letters, digits, `-` and `.`")]
    Certificate(#[from] rcgen::Error),
}

/// Names for [`init`]; the default is [`SERVER_NAME`] and [`CLIENT_NAME`].
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// What supplicants check: the common name and dNSName of the server's certificate.
    pub server: &'a str,
    /// Whose the client's certificate is.
    pub client: &'a str,
}

impl Default for Names<'_> {
    fn default() -> Self {
        Names {
            server: SERVER_NAME,
            client: CLIENT_NAME,
        }
    }
}

/// Where [`init`] has put what it made: PEM, keys readable by their owner only.
#[derive(Clone, Debug)]
pub struct Files {
    /// The CA's certificate, for `client_ca` and for supplicants.
    pub ca: PathBuf,
    /// The server's certificate.
    pub server: PathBuf,
    /// Its key, PKCS#8.
    pub server_key: PathBuf,
    /// A client's certificate, with a dNSName, an e-mail address and a user principal name.
    pub client: PathBuf,
    /// Its key, PKCS#8.
    pub client_key: PathBuf,
}

impl Files {
    /// The names of the files in `dir`, whether they exist or not.
    pub fn in_folder(dir: &Path) -> Files {
        Files {
            ca: dir.join("ca.pem"),
            server: dir.join("server.pem"),
            server_key: dir.join("server.key"),
            client: dir.join("client.pem"),
            client_key: dir.join("client.key"),
        }
    }

    fn all(&self) -> [&PathBuf; 5] {
        [&self.ca, &self.server, &self.server_key, &self.client, &self.client_key]
    }
}

/// Makes a development PKI in `dir` (made when absent), valid from a day before `now` (Unix seconds), since clocks of
/// devices are not always right.
///
/// # Errors
/// A file that exists is never overwritten: then nothing is written at all.
pub fn init(dir: &Path, names: Names<'_>, now: i64) -> Result<Files, InitError> {
    let files = Files::in_folder(dir);
    if let Some(path) = files.all().into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(InitError::Exists(path.clone()));
    }
    let made = Pki::make("Portreeve development", names, now, CA_DAYS, LEAF_DAYS)?;
    fs::create_dir_all(dir).map_err(|source| InitError::Write {
        path: dir.to_owned(),
        source,
    })?;
    let contents = [
        (&files.ca, made.ca.pem(), Access::Everybody),
        (&files.server, made.server.0.pem(), Access::Everybody),
        (&files.server_key, made.server.1.serialize_pem(), Access::Owner),
        (&files.client, made.client.0.pem(), Access::Everybody),
        (&files.client_key, made.client.1.serialize_pem(), Access::Owner),
    ];
    let mut written: Vec<&PathBuf> = Vec::new();
    for (path, text, access) in contents {
        if let Err(source) = write_new(path, &text, access) {
            // Half a PKI would stand in the way of the next attempt; these files are ours, made a moment ago.
            for done in written {
                let _ = fs::remove_file(done);
            }
            return Err(InitError::Write {
                path: path.clone(),
                source,
            });
        }
        written.push(path);
    }
    Ok(files)
}

/// A CA and a client of it that exist in memory only: with them a node authenticates to itself for `/readyz`.
#[derive(Debug)]
pub struct Probe {
    /// The only CA that the probe's verifier trusts; no other verifier does.
    pub ca: CertificateDer<'static>,
    /// The client's certificate, alone: its CA signed it directly.
    pub client: Vec<CertificateDer<'static>>,
    /// Its key, PKCS#8.
    pub client_key: PrivateKeyDer<'static>,
}

/// Makes the probe's CA and client; `now` is in Unix seconds.
///
/// # Errors
/// Only when the system's randomness fails.
pub fn probe(now: i64) -> Result<Probe, InitError> {
    let names = Names {
        client: "probe",
        ..Names::default()
    };
    let made = Pki::make("Portreeve probe", names, now, PROBE_DAYS, PROBE_DAYS)?;
    let key = PrivatePkcs8KeyDer::from(made.client.1.serialize_der());
    Ok(Probe {
        ca: made.ca.der().clone(),
        client: vec![made.client.0.der().clone()],
        client_key: key.into(),
    })
}

struct Pki {
    ca: CertifiedIssuer<'static, KeyPair>,
    server: (rcgen::Certificate, KeyPair),
    client: (rcgen::Certificate, KeyPair),
}

impl Pki {
    fn make(organisation: &str, names: Names<'_>, now: i64, ca_days: u32, leaf_days: u32) -> Result<Pki, InitError> {
        let ca = {
            let mut params = params(organisation, &format!("{organisation} CA"), now, ca_days);
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            CertifiedIssuer::self_signed(params, KeyPair::generate()?)?
        };
        let server = {
            let mut params = params(organisation, names.server, now, leaf_days);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = vec![SanType::DnsName(names.server.try_into()?)];
            leaf(params, &ca)?
        };
        let client = {
            let mut params = params(organisation, names.client, now, leaf_days);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let address = format!("{}@example.com", names.client);
            params.subject_alt_names = vec![
                SanType::DnsName(format!("{}.example.com", names.client).try_into()?),
                SanType::Rfc822Name(address.as_str().try_into()?),
                SanType::OtherName((UPN.to_vec(), OtherNameValue::Utf8String(address))),
            ];
            leaf(params, &ca)?
        };
        Ok(Pki { ca, server, client })
    }
}

fn leaf(
    mut params: CertificateParams,
    ca: &CertifiedIssuer<'static, KeyPair>,
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, ca)?, key))
}

fn params(organisation: &str, name: &str, now: i64, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now).unwrap_or(0));
    params.not_before = now - DAY;
    params.not_after = now + DAY * days;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

#[derive(Clone, Copy)]
enum Access {
    Everybody,
    Owner,
}

/// Writes a file that did not exist: `create_new` also refuses a link that somebody has put there.
fn write_new(path: &Path, text: &str, access: Access) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(match access {
            Access::Everybody => 0o644,
            Access::Owner => 0o600,
        });
    }
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;

    #[test]
    fn makes_five_files_and_keys_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let files = init(&dir.path().join("deep/certs"), Names::default(), NOW).unwrap();
        for path in files.all() {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with("-----BEGIN "), "{}", path.display());
        }
        #[cfg(unix)]
        for key in [&files.server_key, &files.client_key] {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_else_written() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("client.key"), "mine").unwrap();
        let error = init(dir.path(), Names::default(), NOW).unwrap_err();
        assert!(
            matches!(&error, InitError::Exists(path) if path.ends_with("client.key")),
            "{error}"
        );
        assert!(error.to_string().contains("hint:"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(dir.path().join("client.key")).unwrap(), "mine");
    }

    #[test]
    fn a_probe_is_made_anew_each_time() {
        let (one, two) = (probe(NOW).unwrap(), probe(NOW).unwrap());
        assert_ne!(one.ca, two.ca);
        assert_eq!(one.client.len(), 1);
    }
}
