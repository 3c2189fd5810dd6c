//! The devices of the data set `nacs`, and the switches that they stand at.

use std::sync::Arc;

use portreeve::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::nas::{Attempt, Credentials};
use portreeve::policy::facts;
use portreeve::radius::attribute::encode_attribute;
use portreeve::radius::crypto::Secret;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::seed::{Nacs, SECRET};
use portreeve::trust::pki::{Files, SERVER_NAME};
use rustls::RootCertStore;
use rustls::time_provider::DefaultTimeProvider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::Fallible;

/// How devices authenticate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By MAC address, PAP.
    Mab,
    /// By certificate, TLS 1.3.
    EapTls,
}

impl Method {
    pub const ALL: [Method; 2] = [Method::Mab, Method::EapTls];

    pub fn word(self) -> &'static str {
        match self {
            Method::Mab => "mab",
            Method::EapTls => "eap-tls",
        }
    }

    pub fn parse(word: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.word() == word)
    }
}

/// Any site's switch.
pub struct Switch {
    secret: Arc<Secret>,
    laptop: Option<Arc<PeerSettings>>,
    sent: u64,
}

impl Switch {
    pub fn new(files: &Files, method: Method) -> Fallible<Switch> {
        let laptop = match method {
            Method::Mab => None,
            Method::EapTls => Some(Arc::new(laptop(files)?)),
        };
        Ok(Switch {
            secret: Arc::new(Secret::new(SECRET.as_bytes())),
            laptop,
            sent: 0,
        })
    }

    /// A device at a port of the site; by MAC address it is the one that the site lists.
    pub fn attempt(&self, nacs: &Nacs, site: u32) -> Fallible<Attempt> {
        let mac = nacs.macs_of(site).next().ok_or("a site without a listed address")?;
        let mut attributes = nacs.request_attributes(site);
        attributes.push(format!("Calling-Station-Id = {mac}").parse()?);
        let (dictionary, mut encoded) = (Dictionary::builtin(), Vec::new());
        for row in &attributes {
            let (id, value) = facts::parse(dictionary, &row.to_string()).map_err(|problem| format!("{problem:?}"))?;
            encode_attribute(dictionary, id, None, &value, None, &mut encoded)?;
        }
        let (user_name, credentials) = match &self.laptop {
            None => {
                let spelling = mac.to_string().replace('-', "").into_bytes();
                (spelling.clone(), Credentials::Pap(spelling))
            }
            Some(laptop) => (
                laptop.identity.clone(),
                Credentials::Eap(Box::new(Peer::new(Arc::clone(laptop)))),
            ),
        };
        Ok(Attempt::new(
            Arc::clone(&self.secret),
            user_name,
            encoded.into(),
            credentials,
        ))
    }

    /// The next request. Its authenticator is not random, but never the same.
    pub fn request(&mut self, attempt: &mut Attempt) -> Fallible<Vec<u8>> {
        self.sent += 1;
        let authenticator = u128::from(self.sent).to_be_bytes();
        let [.., identifier] = authenticator;
        let mut request = Vec::new();
        attempt.request(identifier, authenticator, &mut request)?;
        Ok(request)
    }
}

fn laptop(files: &Files) -> Fallible<PeerSettings> {
    let chain = |path| -> Fallible<Vec<CertificateDer<'static>>> {
        Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
    };
    let mut roots = RootCertStore::empty();
    for ca in chain(&files.ca)? {
        roots.add(ca)?;
    }
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(DefaultTimeProvider),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names: vec![ServerName::try_from(SERVER_NAME)?],
        },
        certificate: Some(ClientCertificate {
            chain: chain(&files.client)?,
            key: PrivateKeyDer::from_pem_file(&files.client_key)?,
        }),
        min_version: TlsVersion::V13,
        max_version: TlsVersion::V13,
    };
    Ok(PeerSettings {
        identity: b"laptop-7".to_vec(),
        md5_password: None,
        tls: Some(tls.build()?),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    })
}
