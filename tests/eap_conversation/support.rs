//! Certificates, settings, and the wire between the two ends.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use portreeve::eap::keys::Msk;
use portreeve::eap::method::Methods;
use portreeve::eap::peer;
use portreeve::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, PeerTunnel, ServerTrust, Strictness};
use portreeve::eap::server::{Conversation, Credentials, FirstMessage, Offer, Settings, Step, Verdict};
use portreeve::eap::tls::ticket::Scope;
use portreeve::eap::tls::{TlsServer, TlsVersion, provider};
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

/// Noon of some day in 2030, by everybody's clock.
#[derive(Debug)]
pub struct Noon;

impl TimeProvider for Noon {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_893_499_200)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    P256,
    P384,
    Rsa2048,
}

impl Key {
    pub fn pair(self) -> KeyPair {
        KeyPair::generate_for(match self {
            Key::P256 => &PKCS_ECDSA_P256_SHA256,
            Key::P384 => &PKCS_ECDSA_P384_SHA384,
            Key::Rsa2048 => &PKCS_RSA_SHA256,
        })
        .unwrap()
    }
}

/// A CA and what it has issued.
pub struct Pki {
    ca: CertifiedIssuer<'static, KeyPair>,
    key: Key,
    pub server: Identity,
    pub client: Identity,
}

/// A chain and its key.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Identity {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

pub fn params(name: &str, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = CertificateParams::new(vec![format!("{name}.example")]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![usage];
    params
}

impl Pki {
    pub fn new(key: Key) -> Pki {
        Pki::named(key, "Example CA")
    }

    pub fn named(key: Key, name: &str) -> Pki {
        let mut ca = CertificateParams::new(vec![]).unwrap();
        ca.distinguished_name.push(DnType::CommonName, name);
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let ca = CertifiedIssuer::self_signed(ca, key.pair()).unwrap();
        let server = issue(&ca, key, params("radius", ExtendedKeyUsagePurpose::ServerAuth));
        let client = issue(&ca, key, params("laptop-7", ExtendedKeyUsagePurpose::ClientAuth));
        Pki {
            ca,
            key,
            server,
            client,
        }
    }

    /// One of each kind of key, made once.
    pub fn shared(key: Key) -> &'static Pki {
        static P256: LazyLock<Pki> = LazyLock::new(|| Pki::new(Key::P256));
        static P384: LazyLock<Pki> = LazyLock::new(|| Pki::new(Key::P384));
        static RSA: LazyLock<Pki> = LazyLock::new(|| Pki::new(Key::Rsa2048));
        match key {
            Key::P256 => &P256,
            Key::P384 => &P384,
            Key::Rsa2048 => &RSA,
        }
    }

    pub fn issue(&self, params: CertificateParams) -> Identity {
        issue(&self.ca, self.key, params)
    }

    pub fn authority(&self) -> CertificateDer<'static> {
        self.ca.der().clone()
    }

    pub fn roots(&self) -> Arc<RootCertStore> {
        roots([self.ca.der().clone()])
    }

    /// A server with this PKI's certificate, for clients of this PKI.
    pub fn tls_server(&self) -> Arc<TlsServer> {
        tls_server(&self.server, self.roots())
    }
}

pub fn roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Arc<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        store.add(certificate).unwrap();
    }
    Arc::new(store)
}

fn issue(ca: &CertifiedIssuer<'static, KeyPair>, key: Key, params: CertificateParams) -> Identity {
    let pair = key.pair();
    let certificate = params.signed_by(&pair, ca).unwrap();
    Identity {
        chain: vec![certificate.der().clone()],
        key: PrivateKeyDer::try_from(pair.serialize_der()).unwrap(),
    }
}

pub fn tls_server(identity: &Identity, client_roots: Arc<RootCertStore>) -> Arc<TlsServer> {
    let verifier = WebPkiClientVerifier::builder_with_provider(client_roots, provider())
        .build()
        .unwrap();
    let key = provider()
        .key_provider
        .load_private_key(identity.key.clone_key())
        .unwrap();
    Arc::new(TlsServer {
        provider: provider(),
        certificates: Arc::new(SingleCertAndKey::from(CertifiedKey::new(identity.chain.clone(), key))),
        verifier,
        time: Arc::new(Noon),
        tickets: None,
    })
}

pub fn settings(tls: Arc<TlsServer>, version: TlsVersion, fragment_size: usize) -> Settings {
    Settings {
        tls,
        min_version: version,
        max_version: version,
        fragment_size,
        scope: Scope::at(1),
        methods: Methods::ALL,
        offer: Offer::Tls,
    }
}

pub fn client_tls(pki: &Pki) -> ClientTls {
    ClientTls {
        provider: provider(),
        time: Arc::new(Noon),
        trust: ServerTrust::Ca {
            roots: pki.roots(),
            names: vec![],
        },
        certificate: Some(certificate(&pki.client)),
        min_version: TlsVersion::V12,
        max_version: TlsVersion::V13,
    }
}

pub fn certificate(identity: &Identity) -> ClientCertificate {
    ClientCertificate {
        chain: identity.chain.clone(),
        key: identity.key.clone_key(),
    }
}

pub fn peer_settings(tls: ClientTls, fragment_size: usize) -> Arc<PeerSettings> {
    Arc::new(PeerSettings {
        identity: b"@example".to_vec(),
        md5_password: None,
        tls: Some(tls.build().unwrap()),
        tunnel: None,
        fragment_size,
        strictness: Strictness::Strict,
    })
}

/// A supplicant with a tunnel; the same certificates as `client_tls`, and none shown to the outer handshake unless asked.
pub fn tunnel_peer(pki: &Pki, kind: Kind, fragment_size: usize) -> Arc<PeerSettings> {
    let inner = peer_settings(client_tls(pki), fragment_size);
    Arc::new(PeerSettings {
        identity: b"anonymous@example".to_vec(),
        tunnel: Some(PeerTunnel {
            kind,
            tls: client_tls(pki).build().unwrap(),
            identity: b"laptop-7@example".to_vec(),
        }),
        ..(*inner).clone()
    })
}

pub fn md5_peer(password: &[u8]) -> Arc<PeerSettings> {
    Arc::new(PeerSettings {
        identity: b"020000000001".to_vec(),
        md5_password: Some(password.to_vec().into()),
        tls: None,
        tunnel: None,
        fragment_size: 1_400,
        strictness: Strictness::Strict,
    })
}

/// Octets that count up from 1.
pub fn counting() -> impl FnMut(&mut [u8]) {
    let mut next = 0_u8;
    move |octets| {
        for octet in octets {
            next = next.wrapping_add(1);
            *octet = next;
        }
    }
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToPeer,
    ToServer,
}

/// How the server's end ended.
#[derive(Debug)]
pub enum ServerEnd {
    Success(Option<Msk>),
    Failure(Reason, Option<String>),
    /// It discarded a response, and nothing else came.
    Discarded,
    /// It waits for a response that never comes, since the supplicant has ended.
    Waiting,
}

/// What became of a conversation.
#[derive(Debug)]
pub struct Outcome {
    pub server: ServerEnd,
    pub peer: Option<peer::Step>,
    /// Responses that the server took, the identity included.
    pub rounds: usize,
    /// Every packet as it was sent.
    pub packets: Vec<(Way, Vec<u8>)>,
}

impl Outcome {
    pub fn reason(&self) -> Option<Reason> {
        match &self.server {
            ServerEnd::Failure(reason, _) => Some(*reason),
            _ => None,
        }
    }

    pub fn detail(&self) -> Option<&str> {
        match &self.server {
            ServerEnd::Failure(_, detail) => detail.as_deref(),
            _ => None,
        }
    }

    /// Both ends succeeded, with the same keys.
    #[track_caller]
    pub fn expect_keys(&self) -> &Msk {
        match (&self.server, &self.peer) {
            (ServerEnd::Success(Some(ours)), Some(peer::Step::Success { msk: Some(theirs) })) => {
                assert_eq!(ours, theirs);
                ours
            }
            _ => panic!("no success: {:?}, {:?}", self.server, self.peer),
        }
    }
}

/// Accepts every certificate that was verified, and no password.
pub fn accept(credentials: Credentials) -> Verdict {
    match credentials {
        Credentials::Certificate { .. } => Verdict::Accept,
        Credentials::Md5 { .. } => Verdict::Refuse(Reason::MabPassword.into()),
    }
}

/// One conversation, from Response/Identity on.
pub fn converse(settings: Settings, peer: Arc<PeerSettings>) -> Outcome {
    converse_with(settings, peer, &mut accept, &mut |_, _, packet| packet).0
}

/// One conversation; `tamper` sees every packet with its number in that direction.
pub fn converse_with(
    settings: Settings,
    peer: Arc<PeerSettings>,
    decide: &mut dyn FnMut(Credentials) -> Verdict,
    tamper: &mut dyn FnMut(Way, usize, Vec<u8>) -> Vec<u8>,
) -> (Outcome, Conversation, Peer) {
    let mut peer = Peer::new(peer);
    let mut random = counting();
    let mut packets = Vec::new();
    let identity = tamper(Way::ToServer, 0, peer.identity_response(41));
    packets.push((Way::ToServer, identity.clone()));
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let mut rounds = 1;
    let (mut requests, mut responses) = (0, 1);
    let mut last = None;
    let server = loop {
        let (eap, end) = match step {
            Step::Send(eap) => (eap, None),
            Step::Decide(credentials) => {
                step = conversation.decide(decide(credentials));
                continue;
            }
            Step::Success { eap, msk } => (eap, Some(ServerEnd::Success(msk))),
            Step::Failure { eap, reason, detail } => (eap, Some(ServerEnd::Failure(reason, detail))),
            Step::Discard(_) => break ServerEnd::Discarded,
        };
        let eap = tamper(Way::ToPeer, requests, eap);
        requests += 1;
        packets.push((Way::ToPeer, eap.clone()));
        let answer = peer.step(&eap);
        if let Some(end) = end {
            last = Some(answer);
            break end;
        }
        let peer::Step::Reply(response) = answer else {
            last = Some(answer);
            break ServerEnd::Waiting;
        };
        let response = tamper(Way::ToServer, responses, response);
        responses += 1;
        packets.push((Way::ToServer, response.clone()));
        step = conversation.step(&response, &mut random);
        rounds += 1;
        assert!(rounds < 1_000, "endless");
    };
    (
        Outcome {
            server,
            peer: last,
            rounds,
            packets,
        },
        conversation,
        peer,
    )
}

/// Runs until the server asks for the decision, or the end.
pub fn until_decision(settings: Settings, peer: &Arc<PeerSettings>) -> (Conversation, Peer, Option<Credentials>) {
    let mut peer = Peer::new(Arc::clone(peer));
    let mut random = counting();
    let identity = peer.identity_response(41);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    loop {
        match step {
            Step::Decide(credentials) => return (conversation, peer, Some(credentials)),
            Step::Send(request) => match peer.step(&request) {
                peer::Step::Reply(response) => step = conversation.step(&response, &mut random),
                _ => return (conversation, peer, None),
            },
            _ => return (conversation, peer, None),
        }
    }
}

/// A small generator of pseudo-random numbers, so that a failing test names its seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
