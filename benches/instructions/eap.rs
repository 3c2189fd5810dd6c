//! The steps of EAP, the server's side alone: the supplicant is at work between them and is not counted.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use portreeve::eap::method::{EapType, Methods};
use portreeve::eap::packet::{Code, EapPacket};
use portreeve::eap::peer::{self, ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::server::{Conversation, FirstMessage, Offer, Settings, Step, Verdict};
use portreeve::eap::tls::cipher::Ciphers;
use portreeve::eap::tls::flags::TlsData;
use portreeve::eap::tls::fragments::{Incoming, Outgoing, Received};
use portreeve::eap::tls::ticket::Scope;
use portreeve::eap::tls::{TlsServer, TlsVersion, provider};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::callgrind::counted;
use super::{Fallible, TIMES, repeat};

/// A server's flight with an RSA chain: four fragments of 1,024 octets, cut and put together again.
pub fn fragments() -> Fallible<()> {
    let message = vec![22; 3_500];
    let through = || {
        let mut outgoing = Outgoing::new(message.clone(), 1_024);
        let mut incoming = Incoming::default();
        while outgoing.is_pending() {
            let packet = outgoing.packet(Code::Request, 1, EapType::TLS);
            let fragment = TlsData::parse(EapPacket::parse(black_box(&packet)).ok()?.data)?;
            if let Received::Complete(message) = incoming.push(fragment).ok()? {
                return Some(message.len());
            }
        }
        None
    };
    match through() {
        Some(3_500) => repeat(through),
        other => return Err(format!("of 3,500 octets came {other:?}").into()),
    }
    Ok(())
}

/// A MAC address by EAP-MD5, from the identity to EAP-Success; whether the response is right is for a higher floor to see.
pub fn md5() -> Fallible<()> {
    let pki = Pki::new()?;
    let peer = Arc::new(PeerSettings {
        identity: b"020000000001".to_vec(),
        md5_password: Some(b"020000000001".to_vec().into()),
        tls: None,
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    });
    conversations(&pki.settings(Offer::Md5ThenTls)?, &peer)
}

/// EAP-TLS with P-256, TLS 1.3, a full handshake from the identity to EAP-Success: nine tenths are the primitives'.
pub fn tls() -> Fallible<()> {
    let pki = Pki::new()?;
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(Noon),
        trust: ServerTrust::Ca {
            roots: pki.roots()?,
            names: vec![],
        },
        certificate: Some(ClientCertificate {
            chain: pki.client.0.clone(),
            key: pki.client.1.clone_key(),
        }),
        min_version: TlsVersion::V13,
        max_version: TlsVersion::V13,
    };
    let peer = Arc::new(PeerSettings {
        identity: b"@example".to_vec(),
        md5_password: None,
        tls: Some(tls.build()?),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    });
    conversations(&pki.settings(Offer::Tls)?, &peer)
}

/// Whole conversations, each to its success; a first one is not counted.
fn conversations(settings: &Settings, peer: &Arc<PeerSettings>) -> Fallible<()> {
    conversation(settings, peer, |work| work())?;
    for _ in 0..TIMES {
        conversation(settings, peer, |work| counted(work))?;
    }
    Ok(())
}

fn conversation(settings: &Settings, peer: &Arc<PeerSettings>, by: impl Fn(&mut dyn FnMut())) -> Fallible<()> {
    let mut peer = Peer::new(Arc::clone(peer));
    let mut random = |octets: &mut [u8]| octets.fill(7);
    let mut response = peer.identity_response(0);
    let conversation = RefCell::new(None::<Conversation>);
    for _ in 0..20 {
        let settings = settings.clone();
        let mut settings = Some(settings);
        let mut step = None;
        by(&mut || {
            let mut open = conversation.borrow_mut();
            let mut next = match open.as_mut() {
                Some(open) => open.step(black_box(&response), &mut random),
                None => {
                    let Some(settings) = settings.take() else { return };
                    let (begun, step) = Conversation::begin(settings, FirstMessage::Response(&response), &mut random);
                    *open = Some(begun);
                    step
                }
            };
            if let (Step::Decide(_), Some(open)) = (&next, open.as_mut()) {
                next = open.decide(Verdict::Accept);
            }
            if let Step::Success { .. } = next {
                *open = None;
            }
            step = Some(next);
        });
        match step {
            Some(Step::Send(request)) => match peer.step(&request) {
                peer::Step::Reply(next) => response = next,
                other => return Err(format!("the supplicant: {other:?}").into()),
            },
            Some(Step::Success { .. }) => return Ok(()),
            other => return Err(format!("the server: {other:?}").into()),
        }
    }
    Err("the conversation does not end".into())
}

/// Noon of some day in 2030, by everybody's clock.
#[derive(Debug)]
struct Noon;

impl TimeProvider for Noon {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_893_499_200)))
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A CA, a server and a client.
struct Pki {
    ca: CertificateDer<'static>,
    server: Identity,
    client: Identity,
}

impl Pki {
    fn new() -> Fallible<Pki> {
        let mut params = CertificateParams::new(vec![])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let issue = |name: &str, usage| -> Fallible<Identity> {
            let mut params = CertificateParams::new(vec![name.to_owned()])?;
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &ca)?.der().clone();
            Ok((vec![certificate], PrivateKeyDer::try_from(key.serialize_der())?))
        };
        Ok(Pki {
            ca: ca.der().clone(),
            server: issue("radius.example", ExtendedKeyUsagePurpose::ServerAuth)?,
            client: issue("laptop-7.example", ExtendedKeyUsagePurpose::ClientAuth)?,
        })
    }

    fn roots(&self) -> Fallible<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.clone())?;
        Ok(Arc::new(roots))
    }

    fn settings(&self, offer: Offer) -> Fallible<Settings> {
        let key = provider().key_provider.load_private_key(self.server.1.clone_key())?;
        let tls = TlsServer {
            provider: Ciphers::default().provider(),
            certificates: Arc::new(SingleCertAndKey::from(CertifiedKey::new(self.server.0.clone(), key))),
            verifier: WebPkiClientVerifier::builder_with_provider(self.roots()?, provider()).build()?,
            time: Arc::new(Noon),
            tickets: None,
        };
        Ok(Settings {
            tls: Arc::new(tls),
            min_version: TlsVersion::V12,
            max_version: TlsVersion::V13,
            fragment_size: 1_024,
            scope: Scope::at(1),
            methods: Methods::ALL,
            offer,
        })
    }
}
