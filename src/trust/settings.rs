//! Where the certificates are and what is asked of the devices': `[eap.tls]` of the configuration and its profiles, paths
//! made absolute.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::identity::IdentityCheck;
use super::verify::Demands;
use crate::eap::tls::TlsVersion;
use crate::eap::tls::cipher::Ciphers;

/// What the set of `[eap.tls]` itself is called. No profile may have this name.
pub const DEFAULT_NAME: &str = "default";

/// What one set of certificates is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The profile's name; [`DEFAULT_NAME`] for the default.
    pub name: String,
    /// The server's certificates, the preferred one first: one of each kind of key.
    pub certificates: Vec<CertificateFiles>,
    /// PEM: the CAs that issue the devices' certificates; a folder stands for the `*.pem`, `*.crt` and `*.cer` in it.
    pub client_ca: Vec<PathBuf>,
    /// The oldest TLS version, where the client says nothing else.
    pub min_version: TlsVersion,
    /// The newest.
    pub max_version: TlsVersion,
    /// The cipher suites.
    pub ciphers: Ciphers,
    /// What else is asked of a device's chain.
    pub demands: Demands,
    /// Which of a device's names its EAP identity must be.
    pub identity_check: IdentityCheck,
    /// How sessions are resumed; `None`: not at all.
    pub resumption: Option<Resumption>,
    /// Whether tunnels are resumed too, and not only the EAP-TLS inside.
    pub resume_tunnels: bool,
}

/// How sessions are resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// How long after a full handshake, at most [`LIFETIME_MAX`](crate::eap::tls::ticket::LIFETIME_MAX).
    pub lifetime: Duration,
    /// The secrets that all nodes share. Without, a node resumes its own sessions, until it is restarted.
    pub keys_file: Option<PathBuf>,
}

impl Default for Resumption {
    /// For a day, at this node.
    fn default() -> Resumption {
        Resumption {
            lifetime: Duration::from_secs(86_400),
            keys_file: None,
        }
    }
}

/// A certificate of the server and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the certificate and the chain that leads to its root.
    pub certificate: PathBuf,
    /// PEM: its key; may be the same file.
    pub private_key: PathBuf,
    /// The key's passphrase, when it is encrypted: the first line.
    pub passphrase_file: Option<PathBuf>,
}

/// Another set of certificates, for some clients and sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it is made of.
    pub settings: Settings,
    /// Tags of the sites that it is for.
    pub sites: Vec<String>,
    /// Networks, canonical: it is for the clients whose networks lie within one.
    pub clients: Vec<IpNet>,
}

impl Settings {
    /// The default set with one certificate, everything else as it is where the configuration does not say.
    pub fn new(certificate: impl Into<PathBuf>, private_key: impl Into<PathBuf>, client_ca: Vec<PathBuf>) -> Settings {
        let files = CertificateFiles {
            certificate: certificate.into(),
            private_key: private_key.into(),
            passphrase_file: None,
        };
        Settings {
            name: DEFAULT_NAME.to_owned(),
            certificates: vec![files],
            client_ca,
            min_version: TlsVersion::V12,
            max_version: TlsVersion::V13,
            ciphers: Ciphers::default(),
            demands: Demands::default(),
            identity_check: IdentityCheck::None,
            resumption: Some(Resumption::default()),
            resume_tunnels: false,
        }
    }
}
