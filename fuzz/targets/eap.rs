//! EAP conversations in three ways, named by the first octet: `s`, a server is given arbitrary responses; `p`, a supplicant is
//! given arbitrary requests; `h`, the two talk to each other and some of what they say is spoiled on the way.
//!
//! What must hold: nobody succeeds who was not let in, requests are well formed and small enough, their identifiers move, both
//! ends have the same keys, and a conversation ends.

use std::sync::{Arc, LazyLock};

use portreeve::eap::method::Methods;
use portreeve::eap::packet::{Code, EapPacket};
use portreeve::eap::peer::{
    self, ClientCertificate, ClientTls, Peer, PeerSettings, PeerTunnel, ServerTrust, Strictness,
};
use portreeve::eap::server::{Conversation, FirstMessage, Offer, Settings, Step, Verdict};
use portreeve::eap::tls::ticket::Scope;
use portreeve::eap::tls::{TlsServer, TlsVersion, provider};
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

/// Round trips of one conversation here; the server's own bound is tested elsewhere.
const MAX_ROUNDS: usize = 64;
const FRAGMENT_OCTETS: usize = 300;

pub fn fuzz(data: &[u8]) {
    match data.split_first() {
        Some((b's', rest)) => server(rest),
        Some((b'p', rest)) => supplicant(rest),
        Some((b'h', rest)) => both(rest),
        _ => {}
    }
}

/// Octets as long as they last, zeros after that.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn octet(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A packet behind its length in two octets.
    fn packet(&mut self) -> &'a [u8] {
        let length = usize::from(u16::from_be_bytes([self.octet(), self.octet()]));
        let (packet, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        packet
    }
}

/// A server and what it may do.
struct Server {
    conversation: Conversation,
    accepted: bool,
    outstanding: Option<u8>,
}

impl Server {
    fn begin(offer: Offer, version: TlsVersion, first: FirstMessage<'_>) -> (Server, Outcome) {
        let settings = Settings {
            tls: Arc::clone(&PKI.server),
            min_version: TlsVersion::V12,
            max_version: version,
            fragment_size: FRAGMENT_OCTETS,
            scope: Scope::at(1),
            methods: Methods::ALL,
            offer,
        };
        let (conversation, step) = Conversation::begin(settings, first, &mut random);
        let mut server = Server {
            conversation,
            accepted: false,
            outstanding: None,
        };
        let outcome = server.look(step, true);
        (server, outcome)
    }

    fn step(&mut self, response: &[u8], accept: bool) -> Outcome {
        let step = self.conversation.step(response, &mut random);
        self.look(step, accept)
    }

    fn look(&mut self, mut step: Step, accept: bool) -> Outcome {
        if let Step::Decide(_) = step {
            self.accepted = accept;
            step = self.conversation.decide(match accept {
                true => Verdict::Accept,
                false => Verdict::Refuse(Reason::PolicyReject.into()),
            });
        }
        let _ = self.conversation.progress().likely_cause();
        let _ = self.conversation.identity();
        match step {
            Step::Send(eap) => {
                assert!(eap.len() <= FRAGMENT_OCTETS);
                let Ok(request) = EapPacket::parse(&eap) else {
                    panic!("{eap:02x?}")
                };
                assert_eq!(request.code, Code::Request);
                assert_ne!(self.outstanding, Some(request.identifier));
                self.outstanding = Some(request.identifier);
                Outcome::Say(eap)
            }
            Step::Decide(_) => panic!("a decision leads to another"),
            Step::Success { eap, msk } => {
                assert!(self.accepted, "nobody was let in");
                assert_eq!((eap.len(), eap.first()), (4, Some(&3)));
                Outcome::End(eap, Some(msk.map(|msk| [*msk.recv_key(), *msk.send_key()].concat())))
            }
            Step::Failure { eap, .. } => {
                assert_eq!((eap.len(), eap.first()), (4, Some(&4)));
                Outcome::End(eap, None)
            }
            Step::Discard(_) => Outcome::Nothing,
        }
    }
}

enum Outcome {
    Say(Vec<u8>),
    /// With the keys that belong to a success.
    End(Vec<u8>, Option<Option<Vec<u8>>>),
    Nothing,
}

fn server(data: &[u8]) {
    let mut script = Script(data);
    let options = script.octet();
    let offer = if options & 1 == 0 {
        Offer::Tls
    } else {
        Offer::Md5ThenTls
    };
    let version = if options & 2 == 0 {
        TlsVersion::V13
    } else {
        TlsVersion::V12
    };
    let first = script.packet();
    let first = match options & 4 {
        0 => FirstMessage::Response(b"\x02\x07\x00\x09\x01host"),
        _ if first.is_empty() => FirstMessage::Start,
        _ => FirstMessage::Response(first),
    };
    let (mut server, mut outcome) = Server::begin(offer, version, first);
    for _ in 0..MAX_ROUNDS {
        if matches!(outcome, Outcome::End(..)) || script.0.is_empty() {
            break;
        }
        let options = script.octet();
        let mut response = script.packet().to_vec();
        if options & 1 == 0 {
            let identifier = server.outstanding.unwrap_or_default();
            repair(&mut response, Code::Response, identifier);
        }
        outcome = server.step(&response, options & 2 == 0);
    }
    if let Outcome::End(..) = outcome {
        let after = server.step(b"\x02\x01\x00\x05\x01", true);
        assert!(matches!(after, Outcome::Nothing), "the conversation is over");
    }
}

fn supplicant(data: &[u8]) {
    let mut script = Script(data);
    let options = script.octet();
    let strictness = if options & 1 == 0 {
        Strictness::Strict
    } else {
        Strictness::Tolerant
    };
    let mut peer = peer(
        strictness,
        options & 2 == 0,
        options & 4 == 0,
        TlsVersion::V13,
        tunnel(options),
    );
    let mut identifier = 0;
    for _ in 0..MAX_ROUNDS {
        if script.0.is_empty() {
            break;
        }
        let options = script.octet();
        let mut request = script.packet().to_vec();
        if options & 1 == 0 {
            identifier = u8::wrapping_add(identifier, 1);
            repair(&mut request, Code::Request, identifier);
        }
        match peer.step(&request) {
            peer::Step::Reply(response) => {
                assert!(response.len() <= FRAGMENT_OCTETS.max(request.len() + 64));
                let Ok(response) = EapPacket::parse(&response) else {
                    panic!("{response:02x?}")
                };
                assert_eq!(
                    (response.code, Some(&response.identifier)),
                    (Code::Response, request.get(1))
                );
            }
            peer::Step::Success { msk } => assert!(msk.is_none(), "nobody has the server's key"),
            peer::Step::Failure(_) | peer::Step::Violation(_) | peer::Step::Ignore => {}
        }
    }
}

/// The code, the identifier and the length that the other end wants, where the packet has room for them.
fn repair(packet: &mut [u8], code: Code, identifier: u8) {
    let length = u16::try_from(packet.len()).unwrap_or(u16::MAX).to_be_bytes();
    let right = [code.octet(), identifier, length[0], length[1]];
    for (place, octet) in packet.iter_mut().zip(right) {
        *place = octet;
    }
}

fn both(data: &[u8]) {
    let mut script = Script(data);
    let options = script.octet();
    let accept = options & 1 == 0;
    let offer = if options & 2 == 0 {
        Offer::Tls
    } else {
        Offer::Md5ThenTls
    };
    let version = if options & 4 == 0 {
        TlsVersion::V13
    } else {
        TlsVersion::V12
    };
    let mut peer = peer(Strictness::Strict, true, options & 8 == 0, version, tunnel(options));
    let mut spoilt = false;
    let first = peer.identity_response(0);
    let (mut server, mut outcome) = Server::begin(offer, version, FirstMessage::Response(&first));
    let mut peer_success = None;
    for _ in 0..MAX_ROUNDS {
        let (request, end) = match &outcome {
            Outcome::Say(eap) => (eap.clone(), None),
            Outcome::End(eap, keys) => (eap.clone(), Some(keys.clone())),
            Outcome::Nothing => break,
        };
        let request = spoil(request, &mut script, &mut spoilt);
        let step = peer.step(&request);
        if let peer::Step::Success { msk } = &step {
            peer_success = Some(msk.as_ref().map(|msk| [*msk.recv_key(), *msk.send_key()].concat()));
        }
        if let Some(keys) = end {
            if let (Some(ours), Some(theirs)) = (&peer_success, &keys) {
                assert_eq!(ours, theirs, "both ends have the same keys");
            }
            assert!(spoilt || keys.is_some() == accept, "an honest supplicant is let in");
            assert!(spoilt || peer_success.is_some() == accept, "and knows it");
            return;
        }
        let peer::Step::Reply(response) = step else { break };
        let response = spoil(response, &mut script, &mut spoilt);
        outcome = server.step(&response, accept);
    }
    assert!(spoilt, "an honest conversation comes to its end");
}

/// What arrives of a packet.
fn spoil(mut packet: Vec<u8>, script: &mut Script<'_>, spoilt: &mut bool) -> Vec<u8> {
    let how = script.octet();
    if how == 0 {
        return packet;
    }
    *spoilt = true;
    let at = usize::from(u16::from_be_bytes([script.octet(), script.octet()])) % packet.len().max(1);
    match how % 4 {
        0 => packet.truncate(at),
        1 => packet.insert(at, script.octet()),
        2 => packet = script.packet().to_vec(),
        _ => {
            let octet = script.octet();
            if let Some(place) = packet.get_mut(at) {
                *place ^= octet;
            }
        }
    }
    packet
}

/// Around EAP-TLS, by two bits of a script's options.
fn tunnel(options: u8) -> Option<Kind> {
    match options & 0x30 {
        0x10 => Some(Kind::Ttls),
        0x20 => Some(Kind::Peap),
        _ => None,
    }
}

fn peer(strictness: Strictness, tls: bool, md5: bool, version: TlsVersion, tunnel: Option<Kind>) -> Peer {
    static SETTINGS: LazyLock<Vec<(u8, Arc<PeerSettings>)>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for key in 0..0x30 {
            all.push((key, peer_settings(key)));
        }
        all
    });
    let key = u8::from(strictness == Strictness::Tolerant)
        | u8::from(tls) << 1
        | u8::from(md5) << 2
        | u8::from(version == TlsVersion::V12) << 3
        | tunnel.map_or(0, |kind| if kind == Kind::Ttls { 0x10 } else { 0x20 });
    let settings = SETTINGS.iter().find(|(known, _)| *known == key);
    let settings = settings.map_or_else(|| peer_settings(key), |(_, settings)| Arc::clone(settings));
    Peer::new(settings)
}

fn peer_settings(key: u8) -> Arc<PeerSettings> {
    let tls = || ClientTls {
        provider: provider(),
        time: Arc::new(Noon),
        trust: ServerTrust::Ca {
            roots: Arc::clone(&PKI.roots),
            names: Vec::new(),
        },
        certificate: Some(ClientCertificate {
            chain: PKI.client.0.clone(),
            key: PKI.client.1.clone_key(),
        }),
        min_version: TlsVersion::V12,
        max_version: if key & 8 == 0 { TlsVersion::V13 } else { TlsVersion::V12 },
    };
    Arc::new(PeerSettings {
        identity: b"host".to_vec(),
        md5_password: (key & 4 != 0).then(|| b"password".to_vec().into()),
        tls: (key & 2 != 0).then(|| tls().build().ok()).flatten(),
        tunnel: tunnel(key).and_then(|kind| {
            Some(PeerTunnel {
                kind,
                tls: tls().build().ok()?,
                identity: b"inside".to_vec(),
            })
        }),
        fragment_size: FRAGMENT_OCTETS,
        strictness: if key & 1 == 0 {
            Strictness::Strict
        } else {
            Strictness::Tolerant
        },
    })
}

/// The random octets of EAP itself; TLS has its own.
fn random(octets: &mut [u8]) {
    octets.fill(0x5A);
}

/// Noon of some day in 2030, by everybody's clock.
#[derive(Debug)]
struct Noon;

impl TimeProvider for Noon {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            1_893_499_200,
        )))
    }
}

struct Pki {
    server: Arc<TlsServer>,
    client: (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    roots: Arc<RootCertStore>,
}

static PKI: LazyLock<Pki> = LazyLock::new(|| match pki() {
    Ok(pki) => pki,
    Err(error) => panic!("{error}"),
});

fn pki() -> Result<Pki, Box<dyn std::error::Error>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let issue = |usage| -> Result<_, Box<dyn std::error::Error>> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()])?;
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;
        Ok((
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der())?,
        ))
    };
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone())?;
    let roots = Arc::new(roots);
    let (chain, key) = issue(ExtendedKeyUsagePurpose::ServerAuth)?;
    let key = provider().key_provider.load_private_key(key)?;
    let server = TlsServer {
        provider: provider(),
        certificates: Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))),
        verifier: WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build()?,
        time: Arc::new(Noon),
        tickets: None,
    };
    Ok(Pki {
        server: Arc::new(server),
        client: issue(ExtendedKeyUsagePurpose::ClientAuth)?,
        roots,
    })
}

/// Honest conversations of every kind, some spoilt, and what was said in them for the other two ways.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..0x30).map(|options| vec![b'h', options]).collect();
    for at in 0..12_u8 {
        let mut seed = vec![b'h', at & 4 | (at % 3) << 4];
        seed.extend(std::iter::repeat_n(0, usize::from(at)));
        seed.extend([3, 0, 20, 1]);
        seeds.push(seed);
    }
    for options in [0_u8, 2, 4, 6, 0x10, 0x14, 0x20, 0x24] {
        let (to_server, to_peer) = record(options);
        let script = |kind: u8, first: &[u8], packets: &[Vec<u8>]| {
            let mut seed = vec![kind];
            seed.extend(first);
            for packet in packets {
                seed.push(0);
                seed.extend((packet.len() as u16).to_be_bytes());
                seed.extend(packet);
            }
            seed
        };
        seeds.push(script(b's', &[options >> 1 & 3, 0, 0], &to_server));
        seeds.push(script(b'p', &[options & 0x30], &to_peer));
    }
    let nak = [b's', 1, 0, 0, 0, 0, 6, 2, 0, 0, 6, 3, 13, 0, 0, 6, 2, 0, 0, 6, 13, 0];
    seeds.push(nak.to_vec());
    seeds
}

/// What is said in an honest conversation, to the server and to the supplicant.
fn record(options: u8) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let offer = if options & 2 == 0 {
        Offer::Tls
    } else {
        Offer::Md5ThenTls
    };
    let version = if options & 4 == 0 {
        TlsVersion::V13
    } else {
        TlsVersion::V12
    };
    let mut peer = peer(Strictness::Strict, true, true, version, tunnel(options));
    let first = peer.identity_response(0);
    let (mut server, mut outcome) = Server::begin(offer, version, FirstMessage::Response(&first));
    let (mut to_server, mut to_peer) = (Vec::new(), Vec::new());
    while let Outcome::Say(request) = &outcome {
        to_peer.push(request.clone());
        let peer::Step::Reply(response) = peer.step(request) else {
            break;
        };
        to_server.push(response.clone());
        outcome = server.step(&response, true);
    }
    (to_server, to_peer)
}
