//! What is said inside a tunnel: by a supplicant that says what the test wants, and by a server that does.

use std::io::{Read, Write};
use std::sync::Arc;

use portreeve::eap::keys::{MSK_OCTETS, Msk};
use portreeve::eap::method::{EapType, Methods};
use portreeve::eap::packet::{Code, build, success};
use portreeve::eap::peer::{self, Peer};
use portreeve::eap::server::{Conversation, FirstMessage, Settings, Step, Verdict};
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::eap::tunnel::binding::{BindingKeys, Side};
use portreeve::eap::tunnel::peap::{self, EXTENSIONS, Extensions, compressed};
use portreeve::eap::tunnel::{Kind, ttls};
use portreeve::reason::Reason;
use proptest::prelude::*;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConnection, SideData};
use rustls_pki_types::ServerName;

use super::support::*;
use super::tunnels::{KINDS, VERSIONS, only};

/// A supplicant behind the outer handshake, which says inside whatever it is told to.
pub struct Inside {
    kind: Kind,
    pub tls: ClientConnection,
    pub conversation: Conversation,
    identifier: u8,
}

/// What the server made of it.
#[derive(Debug)]
pub enum Heard {
    /// It said this inside; nothing, where it only asks for more.
    Said(Vec<u8>),
    Success,
    Failure(Reason, String),
}

impl Heard {
    #[track_caller]
    pub fn said(self) -> Vec<u8> {
        let Heard::Said(octets) = self else { panic!("{self:?}") };
        octets
    }

    #[track_caller]
    fn failure(self) -> (Reason, String) {
        let Heard::Failure(reason, detail) = self else {
            panic!("{self:?}")
        };
        (reason, detail)
    }
}

impl Inside {
    /// To where the supplicant has the word: in PEAP the inner identity has been asked for.
    fn open(kind: Kind, version: TlsVersion) -> Inside {
        let mut inside = Inside::begin(kind, version);
        // what is sent is our Finished, in TLS 1.2 the acknowledgement of theirs: there EAP-TTLS has the word at once
        if (kind, version) != (Kind::Ttls, TlsVersion::V12) {
            let asked: &[u8] = if kind == Kind::Peap { &[1] } else { &[] };
            assert_eq!(inside.send().said(), asked);
        }
        inside
    }

    /// To the end of the handshake; in TLS 1.3 the supplicant's Finished has not gone yet.
    fn begin(kind: Kind, version: TlsVersion) -> Inside {
        let config = client_tls(Pki::shared(Key::P256)).build().unwrap();
        Inside::begin_with(only(kind, version, 4_000), kind, config)
    }

    /// The same with these settings at either end.
    pub fn begin_with(settings: Settings, kind: Kind, config: Arc<ClientConfig>) -> Inside {
        let identity = build(Code::Response, 7, EapType::IDENTITY, &[b"anonymous"]);
        let (conversation, step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut counting());
        let Step::Send(start) = step else { panic!("{step:?}") };
        let mut inside = Inside {
            kind,
            tls: ClientConnection::new(config, ServerName::try_from("eap.invalid").unwrap()).unwrap(),
            conversation,
            identifier: start[1],
        };
        while inside.tls.is_handshaking() {
            assert!(inside.send().said().is_empty());
        }
        inside
    }

    /// Says these octets inside.
    pub fn say(&mut self, octets: &[u8]) -> Heard {
        self.tls.writer().write_all(octets).unwrap();
        self.send()
    }

    /// An inner EAP response.
    pub fn respond(&mut self, eap_type: EapType, data: &[u8], identifier: u8) -> Heard {
        let packet = build(Code::Response, identifier, eap_type, &[data]);
        match self.kind {
            Kind::Ttls => self.say(&ttls::message(&packet)),
            Kind::Peap => self.say(compressed(&packet)),
        }
    }

    /// To where EAP-TLS was offered inside.
    fn offered(&mut self) -> u8 {
        let said = self.respond(EapType::IDENTITY, b"me", 0).said();
        let request = match self.kind {
            Kind::Ttls => ttls::eap_packet(&said).unwrap().into_owned(),
            Kind::Peap => [&[1, 0, 0, 0], &said[..]].concat(),
        };
        assert_eq!(request[4..], [13, 0x20]);
        request[1]
    }

    /// One round: what TLS has to send.
    pub fn send(&mut self) -> Heard {
        let records = drained(&mut self.tls);
        let response = build(Code::Response, self.identifier, self.kind.eap_type(), &[&[0], &records]);
        let mut step = self.conversation.step(&response, &mut counting());
        if let Step::Decide(_) = step {
            step = self.conversation.decide(Verdict::Accept);
        }
        match step {
            Step::Send(request) => {
                self.identifier = request[1];
                assert_eq!((request[4], request[5]), (self.kind.eap_type().0, 0));
                Heard::Said(taken(&mut self.tls, &request[6..]))
            }
            Step::Success { .. } => Heard::Success,
            Step::Failure { reason, detail, .. } => Heard::Failure(reason, detail.unwrap_or_default()),
            other => panic!("{other:?}"),
        }
    }

    fn msk(&self, label: &[u8], context: Option<&[u8]>) -> Msk {
        let material = self.tls.export_keying_material([0; 128], label, context).unwrap();
        Msk::new(*material.first_chunk::<MSK_OCTETS>().unwrap())
    }
}

/// What TLS has to send.
pub fn drained<S: SideData>(tls: &mut ConnectionCommon<S>) -> Vec<u8> {
    let mut records = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut records).unwrap();
    }
    records
}

/// What was said in these records.
pub fn taken<S: SideData>(tls: &mut ConnectionCommon<S>, mut records: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    while !records.is_empty() {
        tls.read_tls(&mut records).unwrap();
        let state = tls.process_new_packets().unwrap();
        let mut octets = vec![0; state.plaintext_bytes_to_read()];
        tls.reader().read_exact(&mut octets).unwrap();
        said.extend(octets);
    }
    said
}

fn each(run: impl Fn(Kind, TlsVersion)) {
    for kind in KINDS {
        for version in VERSIONS {
            run(kind, version);
        }
    }
}

#[test]
fn password_methods_are_refused_by_their_names() {
    for version in VERSIONS {
        let user = [0, 0, 0, 1, 0x40, 0, 0, 10, b'm', b'e', 0, 0];
        for (name, avp) in [
            (
                "pap",
                &[0, 0, 0, 2, 0x40, 0, 0, 16, b's', b'e', b'c', b'r', b'e', b't', 0, 0][..],
            ),
            ("chap", &[0, 0, 0, 3, 0x40, 0, 0, 9, 1, 0, 0, 0]),
            ("ms-chap-v2", &[0, 0, 0, 25, 0xc0, 0, 0, 13, 0, 0, 1, 55, 1, 0, 0, 0]),
        ] {
            let heard = Inside::open(Kind::Ttls, version).say(&[&user, avp].concat());
            let detail = format!("inside eap-ttls the supplicant tries {name}: configure eap-tls as its inner method");
            assert_eq!(heard.failure(), (Reason::MethodRefused, detail));
        }
    }
    // EAP-MSCHAPv2, by a Nak of EAP-TLS; in PEAP the result says so first
    each(|kind, version| {
        let mut inside = Inside::open(kind, version);
        let identifier = inside.offered();
        let mut heard = inside.respond(EapType::NAK, &[26], identifier);
        if kind == Kind::Peap {
            assert_eq!(heard.said()[4..], [33, 0x80, 3, 0, 2, 0, 2]);
            heard = inside.say(&[2, 9, 0, 11, 33, 0x80, 3, 0, 2, 0, 2]);
        }
        let name = if kind == Kind::Ttls { "eap-ttls" } else { "peap" };
        let detail = format!(
            "inside {name}: offered EAP-TLS, wanted EAP-MSCHAPv2: configure eap-tls as the supplicant's inner method"
        );
        assert_eq!(heard.failure(), (Reason::MethodRefused, detail));
    });
}

/// A tunnel inside of a tunnel is not offered, whatever is allowed outside.
#[test]
fn there_is_no_tunnel_inside_a_tunnel() {
    each(|kind, version| {
        let mut inside = Inside::open(kind, version);
        let identifier = inside.offered();
        let mut heard = inside.respond(EapType::NAK, &[21, 25], identifier);
        if kind == Kind::Peap {
            heard.said();
            heard = inside.say(&[]);
        }
        let (reason, detail) = heard.failure();
        assert_eq!(reason, Reason::MethodRefused);
        assert!(detail.contains("which is not among the methods allowed"), "{detail}");
    });
}

/// The first AVPs may come with the Finished that ends the handshake (RFC 5281, 7.4; RFC 9427, 3).
#[test]
fn what_comes_with_the_finished_is_looked_at() {
    let mut inside = Inside::begin(Kind::Ttls, TlsVersion::V13);
    let identity = build(Code::Response, 3, EapType::IDENTITY, &[b"me"]);
    let said = inside.say(&ttls::message(&identity)).said();
    assert_eq!(ttls::eap_packet(&said).unwrap()[..], [1, 4, 0, 6, 13, 0x20]);
    // in PEAP nobody has been asked yet
    let heard = Inside::begin(Kind::Peap, TlsVersion::V13).say(&[1, b'm', b'e']);
    let expected = "inside peap: a response that nobody asked for".to_owned();
    assert_eq!(heard.failure(), (Reason::EapInvalid, expected));
}

#[test]
fn peap_takes_inner_packets_with_their_header_too() {
    for version in VERSIONS {
        let mut inside = Inside::open(Kind::Peap, version);
        let identity = build(Code::Response, 250, EapType::IDENTITY, &[b"me"]);
        assert_eq!(inside.say(&identity).said(), [13, 0x20]);
    }
}

/// "Errors that would result in silent discard ... SHOULD be treated as such in preference to being silently discarded"
/// (RFC 5281, 11.2.1).
#[test]
fn what_is_no_answer_is_an_error_inside() {
    each(|kind, version| {
        let name = if kind == Kind::Ttls { "eap-ttls" } else { "peap" };
        let open = || {
            let mut inside = Inside::open(kind, version);
            let identifier = inside.offered();
            (inside, identifier)
        };
        let (mut inside, identifier) = open();
        let heard = inside.respond(EapType(55), &[1], identifier);
        let detail = format!("inside {name}: a response of another type than the request");
        assert_eq!(heard.failure(), (Reason::EapInvalid, detail));
        let (mut inside, identifier) = open();
        let heard = inside.respond(EapType::TLS, &[], identifier);
        let detail = format!("inside {name}: no well-formed eap response");
        assert_eq!(heard.failure(), (Reason::EapInvalid, detail));
        // other identifiers there are in EAP-TTLS alone
        let (mut inside, identifier) = open();
        let heard = inside.respond(EapType::TLS, &[0], identifier ^ 1);
        match kind {
            Kind::Ttls => {
                let detail = "inside eap-ttls: a response that nobody asked for".to_owned();
                assert_eq!(heard.failure(), (Reason::EapInvalid, detail));
            }
            Kind::Peap => assert_eq!(heard.said(), [13, 0]),
        }
    });
}

#[test]
fn what_is_said_inside_has_a_bound() {
    each(|kind, version| {
        let (reason, detail) = Inside::open(kind, version).say(&[0; 16 * 1024 + 1]).failure();
        let expected = "more than 16384 octets at once inside the tunnel";
        assert_eq!((reason, &detail[..]), (Reason::EapInvalid, expected));
        // empty words are put up with, a few times
        let mut inside = Inside::open(kind, version);
        let mut answered = 0;
        let failure = loop {
            match inside.send() {
                Heard::Said(octets) => assert!(octets.is_empty(), "{octets:?}"),
                other => break other.failure(),
            }
            answered += 1;
        };
        assert_eq!(answered, 4, "{kind:?} {version}");
        assert_eq!(failure, (Reason::EapInvalid, "nothing but acknowledgements".to_owned()));
    });
}

#[test]
fn a_goodbye_in_the_middle_is_the_end() {
    each(|kind, version| {
        let mut inside = Inside::open(kind, version);
        inside.offered();
        inside.tls.send_close_notify();
        let expected = (Reason::TlsFailed, "the supplicant closed the connection".to_owned());
        assert_eq!(inside.send().failure(), expected);
    });
}

/// Somebody in between, with a tunnel of his own to the server, passes on what a device without one says. All goes well
/// until the result, which binds the device's keys to the tunnel's: he has not got them.
#[test]
fn nobody_in_between_passes_off_a_devices_eap_tls_as_his_own_in_peap() {
    type Answer = fn(&Inside, &Extensions) -> Extensions;
    let without: Answer = |_, _| Extensions {
        succeeded: Some(true),
        binding: None,
    };
    let with_his_own: Answer = |inside, _| {
        let outer = match inside.tls.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => inside.msk(b"EXPORTER_EAP_TLS_Key_Material", Some(&[25])),
            _ => inside.msk(b"client EAP encryption", None),
        };
        let keys = BindingKeys::new(&outer, &Msk::new([0; MSK_OCTETS]));
        Extensions {
            succeeded: Some(true),
            binding: Some(keys.tlv(Side::Response, &[1; 32])),
        }
    };
    let with_the_servers: Answer = |_, request| *request;
    let failure: Answer = |_, _| Extensions {
        succeeded: Some(false),
        binding: None,
    };
    for version in VERSIONS {
        for (answer, reason, detail) in [
            (without, Reason::MethodRefused, "sends no crypto-binding"),
            (with_his_own, Reason::EapInvalid, "a crypto-binding of other keys"),
            (with_the_servers, Reason::EapInvalid, "a crypto-binding of other keys"),
            (failure, Reason::EapInvalid, "failure where the result was success"),
        ] {
            let mut inside = Inside::open(Kind::Peap, version);
            let mut device = Peer::new(peer_settings(client_tls(Pki::shared(Key::P256)), 1_400));
            let mut said = inside.say(&[1, b'm', b'e']).said();
            let result = loop {
                if let Some((EXTENSIONS, data)) = peap::inside(Code::Request, &said) {
                    break Extensions::parse(data).unwrap();
                }
                let request = [
                    &[1, inside.identifier][..],
                    &(said.len() as u16 + 4).to_be_bytes(),
                    &said,
                ]
                .concat();
                let peer::Step::Reply(response) = device.step(&request) else {
                    panic!("the device says nothing")
                };
                said = inside.say(compressed(&response)).said();
            };
            assert_eq!(result.succeeded, Some(true));
            let answer = answer(&inside, &result).packet(Code::Response, inside.identifier);
            let (refused, text) = inside.say(&answer).failure();
            assert_eq!(refused, reason, "{version}: {text}");
            assert!(text.contains(detail), "{version}: {text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Nobody gets in by anything that he says inside without a certificate, and it ends.
    #[test]
    fn arbitrary_words_inside_never_succeed(
        peap in any::<bool>(),
        newer in any::<bool>(),
        words in proptest::collection::vec((0_u8..4, proptest::collection::vec(any::<u8>(), 0..80)), 1..6),
    ) {
        let kind = if peap { Kind::Peap } else { Kind::Ttls };
        let version = if newer { TlsVersion::V13 } else { TlsVersion::V12 };
        let mut inside = Inside::open(kind, version);
        let mut identifier = 0;
        for (shape, octets) in words {
            let heard = match shape {
                0 => inside.say(&octets),
                1 => inside.respond(EapType::IDENTITY, &octets, identifier),
                2 => inside.respond(EapType::TLS, &octets, identifier),
                _ => {
                    let answer = build(Code::Response, identifier, EXTENSIONS, &[&octets]);
                    inside.say(&answer)
                }
            };
            match heard {
                Heard::Said(said) => identifier = said.get(9).copied().unwrap_or_default(),
                Heard::Success => prop_assert!(false, "let in"),
                Heard::Failure(..) => break,
            }
        }
    }
}

/// What a server of PEAP does at the end, when it knows the keys: a result, or success without one.
pub type End = fn(&BindingKeys) -> Option<Extensions>;

/// A server of PEAP whose EAP-TLS is right, and whose end is `end`; the supplicant's last word.
pub fn rogue_peap(end: End) -> peer::Step {
    let pki = Pki::shared(Key::P256);
    let mut tls = rogue_server(false);
    let mut supplicant = Peer::new(tunnel_peer(pki, Kind::Peap, 4_000));
    let mut identifier = 5;
    let mut say = |supplicant: &mut Peer, records: &[u8], flags: u8| {
        identifier += 1;
        let data = [&[flags], records].concat();
        let step = supplicant.step(&build(Code::Request, identifier, EapType::PEAP, &[&data]));
        (step, identifier)
    };
    let (mut step, _) = say(&mut supplicant, &[], 0x20);
    while tls.is_handshaking() {
        let peer::Step::Reply(reply) = &step else { return step };
        taken(&mut tls, &reply[6..]);
        if tls.is_handshaking() {
            (step, _) = say(&mut supplicant, &drained(&mut tls), 0);
        }
    }
    let inner = Settings {
        methods: Methods::TLS,
        ..settings(pki.tls_server(), TlsVersion::V13, 4_000)
    };
    let (mut conversation, mut decided) = Conversation::begin(inner, FirstMessage::Start, &mut counting());
    let keys = loop {
        match decided {
            Step::Send(request) => {
                tls.writer().write_all(compressed(&request)).unwrap();
                let (step, _) = say(&mut supplicant, &drained(&mut tls), 0);
                let peer::Step::Reply(reply) = &step else { return step };
                let said = taken(&mut tls, &reply[6..]);
                let (eap_type, data) = peap::inside(Code::Response, &said).unwrap();
                let response = build(Code::Response, request[1], eap_type, &[data]);
                decided = conversation.step(&response, &mut counting());
            }
            Step::Decide(_) => decided = conversation.decide(Verdict::Accept),
            Step::Success { msk, .. } => {
                let context: Option<&[u8]> = Some(&[25]);
                let outer = tls
                    .export_keying_material([0; 128], b"EXPORTER_EAP_TLS_Key_Material", context)
                    .unwrap();
                let outer = Msk::new(*outer.first_chunk().unwrap());
                break BindingKeys::new(&outer, &msk.unwrap());
            }
            other => panic!("{other:?}"),
        }
    };
    let Some(extensions) = end(&keys) else {
        return supplicant.step(&success(supplicant.rounds() as u8 + 5));
    };
    tls.writer().write_all(&extensions.packet(Code::Request, 1)).unwrap();
    let (step, last) = say(&mut supplicant, &drained(&mut tls), 0);
    match step {
        peer::Step::Reply(_) => supplicant.step(&success(last)),
        step => step,
    }
}

/// A server's end of an outer handshake in TLS 1.3.
pub fn rogue_server(send_half_rtt_data: bool) -> ServerConnection {
    let pki = Pki::shared(Key::P256);
    let key = provider()
        .key_provider
        .load_private_key(pki.server.key.clone_key())
        .unwrap();
    let resolver = SingleCertAndKey::from(CertifiedKey::new(pki.server.chain.clone(), key));
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(Noon))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.send_half_rtt_data = send_half_rtt_data;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    ServerConnection::new(Arc::new(config)).unwrap()
}
