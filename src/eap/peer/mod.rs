//! The supplicant: the other end of [`crate::eap::server`], for the demonstration, the load client, probes and tests.
//!
//! It answers one request after another, and it is pedantic: what the RFCs demand of a server is checked, and a breach
//! ends the conversation with the sentence and the section ([`Violation`]).
//!
//! Settings are made once and shared; a conversation holds little besides rustls's connection.

mod config;
mod link;
mod tls;
mod tunnel;
mod violation;

use std::sync::Arc;

use rustls::ClientConfig;
use zeroize::Zeroizing;

pub use config::{ClientCertificate, ClientTls, ServerTrust, remembering};
pub use tunnel::PeerTunnel;
pub use violation::Violation;

use self::link::Link;
use self::tls::TlsMethod;
use self::tunnel::Tunnel;
use super::keys::Msk;
use super::md5::{self, Md5Data};
use super::method::EapType;
use super::packet::{self, Code, EapPacket};
use super::tls::TlsVersion;

/// How a supplicant behaves; shared by its conversations.
#[derive(Clone)]
pub struct PeerSettings {
    /// What it answers to "who are you?".
    pub identity: Vec<u8>,
    /// The password for MD5-Challenge; without one, MD5 is refused with a Nak.
    pub md5_password: Option<Zeroizing<Vec<u8>>>,
    /// TLS, from [`ClientTls::build`]; without it, EAP-TLS is refused with a Nak.
    pub tls: Option<Arc<ClientConfig>>,
    /// A tunnel to run EAP-TLS in; with one, everything else is refused with a Nak.
    pub tunnel: Option<PeerTunnel>,
    /// Octets of the largest EAP packet sent, 64 to 4,000.
    pub fragment_size: usize,
    /// How much it puts up with.
    pub strictness: Strictness,
}

/// What a supplicant puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Nothing.
    Strict,
    /// [`Violation::is_harmless`]: for servers other than this one.
    Tolerant,
}

impl Strictness {
    fn minds(self, violation: Violation) -> bool {
        self == Strictness::Strict || !violation.is_harmless()
    }
}

/// What a packet led to.
#[derive(Debug)]
pub enum Step {
    /// Send this response.
    Reply(Vec<u8>),
    /// The end: access, and the keys where the method makes any.
    Success {
        /// To be compared with what the NAS got.
        msk: Option<Msk>,
    },
    /// The end: no access.
    Failure(Failure),
    /// The end: the server broke a rule.
    Violation(Violation),
    /// Not to be answered: the conversation is over, or the packet is a response.
    Ignore,
}

/// How it ended without access.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// EAP-Failure, without a word.
    #[error("the server rejected")]
    Rejected,
    /// The server sent this TLS alert first.
    #[error("the server sent the alert {0}")]
    Alert(String),
    /// The supplicant gave up on the server's part of the handshake.
    #[error("the supplicant refused: {0}")]
    Refused(String),
    /// None of the methods offered was acceptable.
    #[error("no common method: the server offered {0}")]
    NoMethod(EapType),
}

/// One conversation.
pub struct Peer {
    settings: Arc<PeerSettings>,
    state: State,
    tls: Option<Box<TlsMethod>>,
    tunnel: Option<Box<Tunnel>>,
    /// The request answered last and its answer: "if a peer receives a valid duplicate Request for which it has already
    /// sent a Response, it MUST resend its original Response without reprocessing the Request" (RFC 3748, 4.1).
    request: Vec<u8>,
    response: Vec<u8>,
    rounds: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No method has been accepted.
    Begin,
    /// A method was refused, of this type.
    Refused(EapType),
    Md5,
    Tls,
    Tunnel,
    Over,
}

/// What a method does with a request.
enum Answer {
    /// Send its packet.
    Reply,
    Violation(Violation),
    /// rustls cannot begin at all.
    Unable(String),
}

impl Peer {
    /// A conversation that has not begun.
    pub fn new(settings: Arc<PeerSettings>) -> Peer {
        Peer {
            settings,
            state: State::Begin,
            tls: None,
            tunnel: None,
            request: Vec::new(),
            response: Vec::new(),
            rounds: 0,
        }
    }

    /// Response/Identity to a request with this identifier, which the NAS sends by itself and does not pass on.
    pub fn identity_response(&self, identifier: u8) -> Vec<u8> {
        packet::build(
            Code::Response,
            identifier,
            EapType::IDENTITY,
            &[&self.settings.identity],
        )
    }

    /// Takes one EAP packet from the server.
    pub fn step(&mut self, packet: &[u8]) -> Step {
        if self.state == State::Over {
            return Step::Ignore;
        }
        let step = match EapPacket::parse(packet) {
            Ok(EapPacket {
                code: Code::Request,
                identifier,
                eap_type: Some(eap_type),
                data,
            }) => {
                if self.request.get(1) == Some(&identifier) {
                    return self.repeated(packet);
                }
                self.take_request(identifier, eap_type, data)
            }
            Ok(EapPacket {
                code: Code::Response, ..
            }) => return Step::Ignore,
            Ok(
                result @ EapPacket {
                    code: Code::Success | Code::Failure,
                    ..
                },
            ) => self.result(result),
            _ => Step::Violation(Violation::Malformed),
        };
        match &step {
            Step::Reply(response) => {
                self.request.clear();
                self.request.extend_from_slice(packet);
                self.response.clone_from(response);
                self.rounds = self.rounds.saturating_add(1);
            }
            Step::Success { .. } | Step::Failure(_) | Step::Violation(_) => self.state = State::Over,
            Step::Ignore => {}
        }
        step
    }

    fn repeated(&mut self, packet: &[u8]) -> Step {
        if self.request == packet {
            return Step::Reply(self.response.clone());
        }
        self.state = State::Over;
        Step::Violation(Violation::IdentifierStood)
    }

    fn take_request(&mut self, identifier: u8, eap_type: EapType, data: &[u8]) -> Step {
        match (eap_type, self.state) {
            (EapType::IDENTITY, State::Begin) => Step::Reply(self.identity_response(identifier)),
            (EapType::IDENTITY, _) => Step::Violation(Violation::IdentityAgain),
            (EapType::NOTIFICATION, _) => {
                Step::Reply(packet::build(Code::Response, identifier, EapType::NOTIFICATION, &[]))
            }
            (EapType::NAK, _) => Step::Violation(Violation::NakRequested),
            (EapType::MD5, State::Md5) => Step::Violation(Violation::Md5Again),
            (_, State::Begin | State::Refused(_) | State::Tunnel) if self.tunnel_type() == Some(eap_type) => {
                self.state = State::Tunnel;
                self.tunnel(identifier, data)
            }
            (EapType::MD5, State::Begin | State::Refused(_)) if self.wants(EapType::MD5) => self.md5(identifier, data),
            (EapType::TLS, State::Begin | State::Refused(_) | State::Tls) if self.wants(EapType::TLS) => {
                self.state = State::Tls;
                self.tls(identifier, data)
            }
            (_, State::Begin | State::Refused(_)) => self.nak(identifier, eap_type),
            _ => Step::Violation(Violation::MethodChanged),
        }
    }

    /// "The Type-Data field of the Nak Response MUST contain one or more octets indicating the desired authentication
    /// Type(s) ... or the value zero (0)" (RFC 3748, 5.3.1).
    fn nak(&mut self, identifier: u8, refused: EapType) -> Step {
        let methods = [EapType::TLS, EapType::MD5].into_iter();
        let wanted = self
            .tunnel_type()
            .into_iter()
            .chain(methods.filter(|method| self.wants(*method)));
        let mut wanted: Vec<u8> = wanted.map(|method| method.0).collect();
        if wanted.is_empty() {
            wanted.push(0);
        }
        self.state = State::Refused(refused);
        Step::Reply(packet::build(Code::Response, identifier, EapType::NAK, &[&wanted]))
    }

    fn md5(&mut self, identifier: u8, data: &[u8]) -> Step {
        let Some(challenge) = Md5Data::parse(data) else {
            return Step::Violation(Violation::Md5Malformed);
        };
        let password = self
            .settings
            .md5_password
            .as_deref()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let response = md5::response(identifier, password, challenge.value);
        self.state = State::Md5;
        let size = [md5::RESPONSE_OCTETS as u8];
        Step::Reply(packet::build(
            Code::Response,
            identifier,
            EapType::MD5,
            &[&size, &response],
        ))
    }

    fn tls(&mut self, identifier: u8, data: &[u8]) -> Step {
        let Some(config) = &self.settings.tls else {
            return Step::Ignore;
        };
        let new = || Box::new(TlsMethod::new(self.settings.fragment_size));
        let tls = self.tls.get_or_insert_with(new);
        match tls.request(data, config, self.settings.strictness) {
            Answer::Reply => Step::Reply(tls.packet(identifier)),
            Answer::Violation(violation) => Step::Violation(violation),
            Answer::Unable(error) => Step::Failure(Failure::Refused(error)),
        }
    }

    fn tunnel(&mut self, identifier: u8, data: &[u8]) -> Step {
        let Some(config) = &self.settings.tunnel else {
            return Step::Ignore;
        };
        let new = || Box::new(Tunnel::new(config, &self.settings));
        let tunnel = self.tunnel.get_or_insert_with(new);
        match tunnel.request(data, identifier, &config.tls, self.settings.strictness) {
            Answer::Reply => Step::Reply(tunnel.packet(identifier)),
            Answer::Violation(violation) => Step::Violation(violation),
            Answer::Unable(error) => Step::Failure(Failure::Refused(error)),
        }
    }

    /// The tunnel that alone is accepted, if there is one.
    fn tunnel_type(&self) -> Option<EapType> {
        self.settings.tunnel.as_ref().map(|tunnel| tunnel.kind.eap_type())
    }

    /// Whether one of the methods without a tunnel is accepted.
    fn wants(&self, method: EapType) -> bool {
        let is_configured = match method {
            EapType::TLS => self.settings.tls.is_some(),
            _ => self.settings.md5_password.is_some(),
        };
        is_configured && self.settings.tunnel.is_none()
    }

    /// The keys of EAP-TLS, if it has come to its end in order: what stands for EAP-Success inside a tunnel.
    fn finished(&self) -> Result<Msk, Violation> {
        self.tls
            .as_ref()
            .map_or(Err(Violation::SuccessEarly), |tls| tls.success())
    }

    /// Why EAP-TLS came to no end: what stands for EAP-Failure inside a tunnel.
    fn gave_up(&mut self) -> Result<Failure, Violation> {
        self.tls.as_mut().map_or(Ok(Failure::Rejected), |tls| tls.failure())
    }

    fn result(&mut self, result: EapPacket<'_>) -> Step {
        if !result.data.is_empty() {
            return Step::Violation(Violation::ResultData);
        }
        // "The Identifier field MUST match the Identifier field of the Response packet that it is sent in response to"
        // (RFC 3748, 4.2); before the first request that came here, the response was the NAS's affair
        if self
            .request
            .get(1)
            .is_some_and(|identifier| *identifier != result.identifier)
        {
            return Step::Violation(Violation::ResultIdentifier);
        }
        let success = |msk| Step::Success { msk: Some(msk) };
        let outcome = match (result.code, self.state, &mut self.tunnel) {
            (Code::Success, State::Tls, _) => self.finished().map(success),
            (Code::Success, State::Tunnel, Some(tunnel)) => tunnel.success().map(success),
            (Code::Success, State::Md5, _) => Ok(Step::Success { msk: None }),
            (Code::Success, ..) => Err(Violation::SuccessEarly),
            (_, State::Tls, _) => self.gave_up().map(Step::Failure),
            (_, State::Tunnel, Some(tunnel)) => tunnel.failure().map(Step::Failure),
            (_, State::Refused(offered), _) => Ok(Step::Failure(Failure::NoMethod(offered))),
            _ => Ok(Step::Failure(Failure::Rejected)),
        };
        outcome.unwrap_or_else(Step::Violation)
    }

    /// Requests answered, repetitions not counted.
    pub fn rounds(&self) -> u16 {
        self.rounds
    }

    /// As negotiated; of a tunnel, the outer handshake's. So is the cipher.
    pub fn tls_version(&self) -> Option<TlsVersion> {
        self.link()?.version()
    }

    /// The cipher suite's name in IANA's registry.
    pub fn cipher(&self) -> Option<&'static str> {
        self.link()?.cipher()
    }

    /// Whether the handshake resumed an earlier session; of a tunnel, the outer one or the inner.
    pub fn resumed(&self) -> bool {
        match &self.tunnel {
            Some(tunnel) => tunnel.resumed(),
            None => self.link().is_some_and(Link::resumed),
        }
    }

    fn link(&self) -> Option<&Link> {
        match (&self.tunnel, &self.tls) {
            (Some(tunnel), _) => Some(tunnel.link()),
            (None, tls) => tls.as_ref().map(|tls| tls.link()),
        }
    }
}
