//! A RADIUS server of one thread on the library's floor 0, right but for one fault.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use portreeve::eap::keys::Msk;
use portreeve::eap::method::Methods;
use portreeve::eap::server::{Conversation, Credentials, FirstMessage, Offer, Settings, Step, Verdict};
use portreeve::eap::tls::ticket::{Scope, TicketKeys, Tickets};
use portreeve::eap::tls::{TlsServer, TlsVersion, provider};
use portreeve::mac::MacAddress;
use portreeve::radius::code::Code;
use portreeve::radius::crypto::{self, MessageAuthenticator, Salts, Secret};
use portreeve::radius::packet::{Packet, number};
use portreeve::radius::writer::Writer;
use portreeve::reason::Reason;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::DefaultTimeProvider;
use rustls_pki_types::PrivateKeyDer;

pub const SECRET: &str = "testing123";
pub const LISTED: &str = "02-00-00-00-00-01";

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    /// Accepts into VLAN 666.
    WrongVlan,
    /// Sends keys that are not the conversation's.
    WrongKeys,
    /// Sends no keys.
    NoKeys,
    /// Flips a bit of the response authenticator of accepts.
    BadAuthenticator,
    /// Signs replies with Message-Authenticator behind other attributes.
    MessageAuthenticatorLast,
    /// Sends no Message-Authenticator.
    NoMessageAuthenticator,
    /// Flips a bit of Message-Authenticator, and puts it last; the response authenticator is right.
    BadMessageAuthenticator,
    /// Accepts without the octet 0x00 (RFC 9190 section 2.5).
    NoCommitment,
    /// Refuses everybody.
    Rejects,
    /// Lets everybody in.
    LetsAllIn,
    /// Answers nothing.
    Silence,
    /// Answers a request only when the next one comes.
    Late,
    /// Answers no request before it came a second time, and then only if the octets are the same.
    DropsTheFirst,
    /// Sends every answer twice.
    AnswersTwice,
    /// Answers with octets that are no packet.
    Garbage,
    /// Does nothing for 300 ms when the tenth request comes.
    Stalls,
    /// Takes 5 ms for each request.
    Slow,
}

/// A server that runs until the test process ends.
pub struct Server {
    pub address: SocketAddr,
    /// Where every request came from.
    pub requests: Receiver<SocketAddr>,
}

impl Server {
    pub fn start(fault: Fault) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (told, requests) = channel();
        let serving = Serving {
            fault,
            socket,
            secret: Secret::new(SECRET.as_bytes()),
            conversations: HashMap::new(),
            states: 0,
            seen: HashMap::new(),
            held: None,
            told,
        };
        std::thread::spawn(move || serving.run());
        Server { address, requests }
    }
}

struct Serving {
    fault: Fault,
    socket: UdpSocket,
    secret: Secret,
    conversations: HashMap<Vec<u8>, Conversation>,
    states: u64,
    /// Requests that came once, by source and identifier.
    seen: HashMap<(SocketAddr, u8), Vec<u8>>,
    held: Option<(Vec<u8>, SocketAddr)>,
    told: Sender<SocketAddr>,
}

impl Serving {
    fn run(mut self) {
        let mut datagram = [0; 4096];
        for number in 1_u64.. {
            let (octets, from) = self.socket.recv_from(&mut datagram).unwrap();
            if self.fault == Fault::Stalls && number == 10 {
                std::thread::sleep(Duration::from_millis(300));
            }
            if self.fault == Fault::Slow {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = self.told.send(from);
            let request = Packet::parse(&datagram[..octets]).unwrap();
            let verdict = crypto::verify_message_authenticator(&request, &self.secret);
            if self.fault == Fault::Silence || verdict != MessageAuthenticator::Valid {
                continue;
            }
            if self.fault == Fault::DropsTheFirst {
                let key = (from, request.identifier());
                match self.seen.insert(key, request.as_bytes().to_vec()) {
                    Some(earlier) if earlier == request.as_bytes() => {}
                    _ => continue,
                }
            }
            let Some(reply) = self.answer(&request) else { continue };
            if self.fault == Fault::Late {
                if let Some((reply, from)) = self.held.replace((reply, from)) {
                    self.socket.send_to(&reply, from).unwrap();
                }
                continue;
            }
            self.socket.send_to(&reply, from).unwrap();
            if self.fault == Fault::AnswersTwice {
                self.socket.send_to(&reply, from).unwrap();
            }
        }
    }

    fn answer(&mut self, request: &Packet<'_>) -> Option<Vec<u8>> {
        if self.fault == Fault::Garbage {
            return Some(vec![2, request.identifier(), 0, 200]);
        }
        if let Some(eap) = request.eap_message() {
            return self.eap(request, &eap);
        }
        let mac = MacAddress::parse(request.first(number::USER_NAME)?)?;
        let plain = format!("{:012x}", mac.to_u64());
        let right = match (
            request.first(number::USER_PASSWORD),
            request.first(number::CHAP_PASSWORD),
        ) {
            (Some(hidden), None) => {
                let password = crypto::reveal_user_password(hidden, &self.secret, request.authenticator())?;
                password.as_bytes() == plain.as_bytes()
            }
            (None, Some([ident, response @ ..])) => {
                crypto::verify_chap(*ident, plain.as_bytes(), request.authenticator(), response)
            }
            (None, None) => true,
            _ => false,
        };
        Some(match right && self.is_let_in(mac) {
            true => self.reply(request, Code::AccessAccept, 130, |_| {}),
            false => self.reply(request, Code::AccessReject, 0, |_| {}),
        })
    }

    fn is_let_in(&self, mac: MacAddress) -> bool {
        match self.fault {
            Fault::Rejects => false,
            Fault::LetsAllIn => true,
            _ => mac.to_string() == LISTED,
        }
    }

    fn eap(&mut self, request: &Packet<'_>, eap: &[u8]) -> Option<Vec<u8>> {
        let mac = MacAddress::parse(request.first(number::USER_NAME)?);
        let (mut conversation, mut step) = match request.first(number::STATE) {
            Some(state) => {
                let mut conversation = self.conversations.remove(state)?;
                let step = conversation.step(eap, &mut random);
                (conversation, step)
            }
            None => {
                let offer = if mac.is_some() { Offer::Md5ThenTls } else { Offer::Tls };
                Conversation::begin(settings(offer), FirstMessage::Response(eap), &mut random)
            }
        };
        if let Step::Decide(credentials) = &step {
            let right = match credentials {
                Credentials::Certificate { .. } => self.fault != Fault::Rejects,
                Credentials::Md5 {
                    identifier,
                    challenge,
                    response,
                } => {
                    let mac = mac?;
                    let plain = format!("{:012x}", mac.to_u64());
                    self.is_let_in(mac) && crypto::verify_chap(*identifier, plain.as_bytes(), challenge, response)
                }
            };
            if self.fault == Fault::NoCommitment {
                return Some(self.reply(request, Code::AccessAccept, 120, |writer| {
                    writer.eap_message(&[3, eap[1], 0, 4]);
                }));
            }
            step = conversation.decide(match right {
                true => Verdict::Accept,
                false => Verdict::Refuse(Reason::PolicyReject.into()),
            });
        }
        let fault = self.fault;
        match step {
            Step::Send(eap) => {
                self.states += 1;
                let state = self.states.to_be_bytes();
                self.conversations.insert(state.to_vec(), conversation);
                Some(self.reply(request, Code::AccessChallenge, 0, |writer| {
                    writer.eap_message(&eap).attribute(number::STATE, &state);
                }))
            }
            Step::Success { eap, msk } => {
                let vlan = if msk.is_some() { 120 } else { 130 };
                Some(self.reply(request, Code::AccessAccept, vlan, |writer| {
                    writer.eap_message(&eap);
                    if let Some(msk) = msk.filter(|_| fault != Fault::NoKeys) {
                        keys(writer, &msk, fault);
                    }
                }))
            }
            Step::Failure { eap, .. } => Some(self.reply(request, Code::AccessReject, 0, |writer| {
                writer.eap_message(&eap);
            })),
            Step::Discard(_) | Step::Decide(_) => None,
        }
    }

    fn reply(&self, request: &Packet<'_>, code: Code, mut vlan: u32, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let (secret, authenticator) = (&self.secret, request.authenticator());
        let mut reply = Vec::new();
        let mut writer = Writer::reply(&mut reply, code, request.identifier(), secret, authenticator);
        write(&mut writer);
        if code == Code::AccessAccept {
            if self.fault == Fault::WrongVlan {
                vlan = 666;
            }
            let vlan = vlan.to_string();
            writer
                .attribute(64, &[1, 0, 0, 13])
                .attribute(65, &[1, 0, 0, 6])
                .attribute(81, &[&[1], vlan.as_bytes()].concat());
        }
        writer.finish().unwrap();
        match self.fault {
            Fault::BadAuthenticator if code == Code::AccessAccept => reply[19] ^= 1,
            Fault::MessageAuthenticatorLast => self.sign_last(&mut reply, authenticator),
            Fault::NoMessageAuthenticator => {
                reply.drain(20..38);
                reply[3] -= 18;
                self.authenticate(&mut reply, authenticator);
            }
            Fault::BadMessageAuthenticator => {
                self.sign_last(&mut reply, authenticator);
                let last = reply.len() - 1;
                reply[last] ^= 1;
                self.authenticate(&mut reply, authenticator);
            }
            _ => {}
        }
        reply
    }

    /// Moves Message-Authenticator behind all other attributes, and signs again.
    fn sign_last(&self, reply: &mut [u8], authenticator: &[u8; 16]) {
        reply[20..].rotate_left(18);
        let at = reply.len() - 16;
        reply[4..20].copy_from_slice(authenticator);
        reply[at..].fill(0);
        let mac = crypto::message_authenticator(reply, at, &self.secret, authenticator).unwrap();
        reply[at..].copy_from_slice(&mac);
        self.authenticate(reply, authenticator);
    }

    /// Writes the response authenticator anew.
    fn authenticate(&self, reply: &mut [u8], authenticator: &[u8; 16]) {
        let authenticator = crypto::response_authenticator(reply, authenticator, &self.secret);
        reply[4..20].copy_from_slice(&authenticator);
    }
}

fn keys(writer: &mut Writer<'_>, msk: &Msk, fault: Fault) {
    let mut salts = Salts::new(&mut random);
    match fault {
        Fault::WrongKeys => writer.mppe_keys(&[7; 32], msk.send_key(), &mut salts),
        _ => writer.mppe_keys(msk.recv_key(), msk.send_key(), &mut salts),
    };
}

fn random(octets: &mut [u8]) {
    provider().secure_random.fill(octets).unwrap();
}

fn settings(offer: Offer) -> Settings {
    Settings {
        tls: Arc::clone(&Pki::shared().tls),
        min_version: TlsVersion::V12,
        max_version: TlsVersion::V13,
        fragment_size: 1024,
        scope: Scope::at(1),
        methods: Methods::ALL,
        offer,
    }
}

/// Certificates, as files for the client and loaded for the server.
pub struct Pki {
    folder: tempfile::TempDir,
    tls: Arc<TlsServer>,
}

impl Pki {
    pub fn shared() -> &'static Pki {
        static PKI: LazyLock<Pki> = LazyLock::new(Pki::make);
        &PKI
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make() -> Pki {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        let ca = authority("Example CA");
        write("ca.pem", ca.pem());
        write("ca.key", ca.key().serialize_pem());
        write("other-ca.pem", authority("Another CA").pem());
        let issue = |name: &str, usage| {
            let mut params = CertificateParams::new(vec![format!("{name}.example")]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            (params.signed_by(&key, &ca).unwrap(), key)
        };
        let (client, client_key) = issue("laptop-7", ExtendedKeyUsagePurpose::ClientAuth);
        write("client.pem", client.pem());
        write("client.key", client_key.serialize_pem());
        let (server, server_key) = issue("radius", ExtendedKeyUsagePurpose::ServerAuth);
        let mut roots = RootCertStore::empty();
        roots.add(ca.der().clone()).unwrap();
        let key = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
        let key = provider().key_provider.load_private_key(key).unwrap();
        let tls = TlsServer {
            provider: provider(),
            certificates: Arc::new(SingleCertAndKey::from(CertifiedKey::new(
                vec![server.der().clone()],
                key,
            ))),
            verifier: WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                .build()
                .unwrap(),
            time: Arc::new(DefaultTimeProvider),
            tickets: Some(Arc::new(tickets(&ca))),
        };
        Pki {
            folder,
            tls: Arc::new(tls),
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn tickets(ca: &CertifiedIssuer<'static, KeyPair>) -> Tickets {
    let keys = Arc::new(TicketKeys::new([&b"secret"[..]]).unwrap());
    Tickets::new(keys, Duration::from_secs(3_600), "default", [(&**ca.der(), true)])
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}
