//! The devices: laptops and what they show, printers and what is said of them.

use std::path::PathBuf;
use std::sync::Arc;

use portreeve::eap::peer::{
    self, ClientCertificate, ClientTls, Peer, PeerSettings, PeerTunnel, ServerTrust, Strictness,
};
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::eap::tunnel::Kind;
use portreeve::nas::{Attempt, Credentials};
use portreeve::radius::crypto::Secret;
use portreeve::trust;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::pki;
use crate::switch::{SECRET, attributes};

/// A listed printer.
pub const PRINTER: &str = "02-00-00-00-00-01";
/// What a switch says of a laptop at its port 7.
pub const LAPTOP_PORT: &[&str] = &[
    "NAS-Identifier = switch-1",
    "NAS-Port-Id = Gi1/0/7",
    "NAS-Port-Type = Ethernet",
    "Calling-Station-Id = 02-00-00-00-00-77",
];

/// A supplicant to be.
#[derive(Clone, Debug)]
pub struct Supplicant {
    pub identity: &'static str,
    /// The certificate's file; `None` shows none.
    pub certificate: Option<&'static str>,
    /// The CA that it believes.
    pub root: &'static str,
    pub names: Vec<&'static str>,
    pub versions: (TlsVersion, TlsVersion),
    pub fragment_size: usize,
    pub md5_password: Option<&'static str>,
    /// Without it, EAP-TLS is refused.
    pub speaks_tls: bool,
    /// A tunnel to run EAP-TLS in.
    pub tunnel: Option<Kind>,
}

/// The laptop that is let in.
pub fn laptop() -> Supplicant {
    Supplicant {
        identity: "anonymous",
        certificate: Some("client"),
        root: "ca",
        names: vec!["radius.example"],
        versions: (TlsVersion::V12, TlsVersion::V13),
        fragment_size: 1_024,
        md5_password: None,
        speaks_tls: true,
        tunnel: None,
    }
}

/// The printer, by EAP-MD5.
pub fn md5_printer(password: &'static str) -> Supplicant {
    Supplicant {
        identity: PRINTER,
        md5_password: Some(password),
        speaks_tls: false,
        ..laptop()
    }
}

impl Supplicant {
    pub fn version(self, version: TlsVersion) -> Supplicant {
        Supplicant {
            versions: (version, version),
            ..self
        }
    }

    pub fn certificate(self, name: &'static str) -> Supplicant {
        Supplicant {
            certificate: Some(name),
            ..self
        }
    }

    pub fn tunnel(self, kind: Kind) -> Supplicant {
        Supplicant {
            tunnel: Some(kind),
            ..self
        }
    }

    pub fn tls(&self) -> ClientTls {
        let certificate = self.certificate.map(|name| {
            // A key too weak to be loaded here is never asked to sign: its certificate is refused before.
            let key = if name == "rsa1024" { "client" } else { name };
            ClientCertificate {
                chain: certificates(name),
                key: PrivateKeyDer::from_pem_file(file(&format!("{key}.key"))).unwrap(),
            }
        });
        let mut roots = RootCertStore::empty();
        roots.add(certificates(self.root).remove(0)).unwrap();
        ClientTls {
            provider: provider(),
            time: Arc::new(trust::Clock),
            trust: ServerTrust::Ca {
                roots: Arc::new(roots),
                names: self
                    .names
                    .iter()
                    .map(|name| ServerName::try_from(*name).unwrap())
                    .collect(),
            },
            certificate,
            min_version: self.versions.0,
            max_version: self.versions.1,
        }
    }

    /// To be shared by many attempts.
    pub fn settings(&self) -> Arc<PeerSettings> {
        Arc::new(PeerSettings {
            identity: self.identity.as_bytes().to_vec(),
            md5_password: self.md5_password.map(|password| password.as_bytes().to_vec().into()),
            tls: self.speaks_tls.then(|| self.tls().build().unwrap()),
            tunnel: self.tunnel.map(|kind| PeerTunnel {
                kind,
                tls: self.tls().build().unwrap(),
                identity: b"laptop-7".to_vec(),
            }),
            fragment_size: self.fragment_size,
            strictness: Strictness::Strict,
        })
    }

    /// The same with a memory for sessions, which its attempts share.
    pub fn remembering(&self) -> Arc<PeerSettings> {
        let settings = self.settings();
        Arc::new(PeerSettings {
            tls: settings.tls.as_deref().map(|tls| peer::remembering(tls, 8)),
            ..(*settings).clone()
        })
    }

    /// An authentication at a port that the switch describes by `lines`.
    pub fn attempt(&self, lines: &[&str]) -> Attempt {
        eap_attempt(&self.settings(), lines)
    }
}

/// A supplicant of these settings.
pub fn settings_over(tls: ClientTls) -> Arc<PeerSettings> {
    Arc::new(PeerSettings {
        identity: b"anonymous".to_vec(),
        md5_password: None,
        tls: Some(tls.build().unwrap()),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    })
}

pub fn eap_attempt(settings: &Arc<PeerSettings>, lines: &[&str]) -> Attempt {
    Attempt::new(
        Arc::new(Secret::new(SECRET)),
        settings.identity.clone(),
        attributes(lines),
        Credentials::Eap(Box::new(Peer::new(Arc::clone(settings)))),
    )
}

/// MAC authentication of `user_name` without EAP.
pub fn mab_attempt(user_name: &str, credentials: Credentials, lines: &[&str]) -> Attempt {
    Attempt::new(
        Arc::new(Secret::new(SECRET)),
        user_name.as_bytes().to_vec(),
        attributes(lines),
        credentials,
    )
}

/// A printer as its switch shows it: one address, by PAP.
pub fn printer(mac: &str) -> Attempt {
    let station = format!("Calling-Station-Id = {mac}");
    mab_attempt(
        mac,
        Credentials::Pap(mac.as_bytes().to_vec()),
        &["NAS-Port-Type = Ethernet", "NAS-Port-Id = Gi1/0/1", &station],
    )
}

fn file(name: &str) -> PathBuf {
    pki::folder().unwrap().join(name)
}

pub fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_file_iter(file(&format!("{name}.pem"))).unwrap();
    certificates.map(Result::unwrap).collect()
}
