//! The authenticator: one conversation, from the identity to Success or Failure.
//!
//! [`Conversation::begin`] answers the first message, [`Conversation::step`] each response; [`Step::Decide`] hands over
//! the credentials once they are proven and waits for [`Conversation::decide`]. Nothing is accepted by itself.
//!
//! The states are those of RFC 4137, 6, folded into `State`, since here a packet's way from RECEIVED to SEND_REQUEST
//! is one call: PICK_UP_METHOD is `begin`, IDLE lies between two calls, RECEIVED and INTEGRITY_CHECK are the checks at
//! the head of `step`, NAK and SELECT_ACTION `Conversation::nak`, PROPOSE_METHOD `Conversation::propose`,
//! METHOD_RESPONSE and METHOD_REQUEST the methods' own (`running`), DISCARD is [`Step::Discard`].
//!
//! Retransmissions are not seen here: the floor above answers the last response again with the packet it got.

mod progress;
mod running;

use std::sync::Arc;

use rustls_pki_types::CertificateDer;

pub use progress::{Phase, Progress};

use self::running::Running;
use super::keys::Msk;
use super::md5::{CHALLENGE_OCTETS, Md5Data, RESPONSE_OCTETS};
use super::method::{EapType, Method, Methods};
use super::packet::{self, Code, EapPacket, Nak};
use super::tls::flags::START;
use super::tls::reason::Refused;
use super::tls::server::Action;
use super::tls::ticket::{Offered, Scope};
use super::tls::{TlsServer, TlsVersion};
use crate::reason::Reason;

/// The longest identity: the NAS has to copy it into User-Name (RFC 3579, 2.1), which holds no more.
pub const IDENTITY_OCTETS_MAX: usize = 253;
/// Round trips in one conversation. The longest honest one, RSA chains in fragments of 64 octets both ways, takes half.
pub const ROUNDS_MAX: u16 = 200;

/// How a conversation is to be held.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Certificates and verifier.
    pub tls: Arc<TlsServer>,
    /// The oldest TLS version accepted.
    pub min_version: TlsVersion,
    /// The newest offered.
    pub max_version: TlsVersion,
    /// Octets of the largest EAP packet sent, not above Framed-MTU less 4; taken into the bounds of 64 and 4,000.
    pub fragment_size: usize,
    /// Where a session that begins may be resumed.
    pub scope: Scope,
    /// The methods by which a certificate may be shown: the first is offered, a Nak leads to the others.
    pub methods: Methods,
    /// Whether EAP-MD5 comes before them.
    pub offer: Offer,
}

/// What is offered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The first of [`Settings::methods`].
    Tls,
    /// EAP-MD5, for an identity that is a MAC address; one of [`Settings::methods`] after a Nak that asks for it.
    Md5ThenTls,
}

/// What a conversation begins with.
#[derive(Clone, Copy, Debug)]
pub enum FirstMessage<'a> {
    /// EAP-Start, an empty EAP-Message (RFC 3579, 2.1): the identity has to be asked for.
    Start,
    /// The EAP packet Response/Identity that the NAS asked for itself.
    Response(&'a [u8]),
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send this EAP-Request and wait for its response.
    Send(Vec<u8>),
    /// The credentials are proven (certificate) or to be checked (MD5): say [`Conversation::decide`].
    Decide(Credentials),
    /// It is over: an accept.
    Success {
        /// EAP-Success.
        eap: Vec<u8>,
        /// The keys; none from MD5.
        msk: Option<Msk>,
    },
    /// It is over: a reject.
    Failure {
        /// EAP-Failure.
        eap: Vec<u8>,
        /// Why.
        reason: Reason,
        /// More for the log line: short, lower case.
        detail: Option<String>,
    },
    /// Not a valid response: answer nothing, change nothing.
    Discard(Discard),
}

/// What a supplicant showed.
#[derive(Debug)]
pub enum Credentials {
    /// The response to our MD5-Challenge; whether it is right is for the decision to find.
    Md5 {
        /// The identifier that goes into the digest.
        identifier: u8,
        /// What was sent.
        challenge: [u8; CHALLENGE_OCTETS],
        /// What came back.
        response: [u8; RESPONSE_OCTETS],
    },
    /// A certificate that the verifier accepted and whose key was proven.
    Certificate {
        /// The supplicant's own certificate first.
        chain: Vec<CertificateDer<'static>>,
        /// By resumption: the verifier has not seen it this time.
        resumed: bool,
    },
}

/// The decision after [`Step::Decide`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Let it in.
    Accept,
    /// Keep it out. In TLS the reason chooses the alert.
    Refuse(Refused),
}

/// Why a response was not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discard {
    /// No well-formed EAP response.
    Malformed,
    /// Not the identifier of the request that is out.
    Identifier,
    /// Not the type of the request that is out.
    Type,
    /// A Nak after the method has begun.
    Nak,
    /// No request is out: being decided, or over.
    NotAwaited,
}

/// One conversation. Small until a whole ClientHello has come.
pub struct Conversation {
    settings: Settings,
    identity: Box<[u8]>,
    /// Of the request that is out.
    identifier: u8,
    state: State,
    method: Option<Method>,
    /// The methods that were offered, a bit for each.
    offered: u8,
    /// Kept to the end for the log line.
    running: Option<Box<Running>>,
    nak: Option<Box<Nak>>,
    rounds: u16,
    last_sent_octets: u16,
    last_received_octets: u16,
    /// How far it has come, or came before it failed.
    reached: Phase,
}

/// Which response is awaited.
#[derive(Clone, Copy, Debug)]
enum State {
    Identity,
    Md5 {
        challenge: [u8; CHALLENGE_OCTETS],
    },
    /// Start is out, a Nak may come.
    Offered,
    Running,
    /// No response, but a decision.
    DecideMd5,
    DecideCertificate,
    Over {
        succeeded: bool,
    },
}

impl Conversation {
    /// Answers the first message. With [`Step::Discard`] there is no conversation: drop it.
    ///
    /// `random` fills a slice with unpredictable octets.
    pub fn begin(
        settings: Settings,
        first: FirstMessage<'_>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> (Conversation, Step) {
        let mut conversation = Conversation {
            settings,
            identity: Box::default(),
            identifier: 0,
            state: State::Identity,
            method: None,
            offered: 0,
            running: None,
            nak: None,
            rounds: 0,
            last_sent_octets: 0,
            last_received_octets: 0,
            reached: Phase::IdentityRequested,
        };
        let step = match first {
            FirstMessage::Start => {
                // "Initializing the first Identifier with a random number rather than starting from zero is
                // recommended" (RFC 3748, 4.1)
                random(std::slice::from_mut(&mut conversation.identifier));
                conversation.rounds = 1;
                conversation.request(EapType::IDENTITY, &[])
            }
            FirstMessage::Response(octets) => {
                // the NAS chose the identifier of the request it sent by itself
                conversation.identifier = octets.get(1).copied().unwrap_or_default();
                conversation.step(octets, random)
            }
        };
        (conversation, step)
    }

    /// Changes which method comes first; without effect once it was offered.
    pub fn set_offer(&mut self, offer: Offer) {
        self.settings.offer = offer;
    }

    /// Takes one EAP packet from the supplicant.
    pub fn step(&mut self, eap_response: &[u8], random: &mut dyn FnMut(&mut [u8])) -> Step {
        let Ok(EapPacket {
            code: Code::Response,
            identifier,
            eap_type: Some(eap_type),
            data,
        }) = EapPacket::parse(eap_response)
        else {
            return Step::Discard(Discard::Malformed);
        };
        if matches!(
            self.state,
            State::DecideMd5 | State::DecideCertificate | State::Over { .. }
        ) {
            return Step::Discard(Discard::NotAwaited);
        }
        // "An authenticator receiving a Response whose Identifier value does not match that of the currently
        // outstanding Request MUST silently discard the Response" (RFC 3748, 4.1)
        if identifier != self.identifier {
            return Step::Discard(Discard::Identifier);
        }
        self.note_progress();
        let step = self.respond(eap_type, data, random);
        if !matches!(step, Step::Discard(_)) {
            self.rounds = self.rounds.saturating_add(1);
            self.last_received_octets = octets(eap_response.len());
        }
        step
    }

    fn respond(&mut self, eap_type: EapType, data: &[u8], random: &mut dyn FnMut(&mut [u8])) -> Step {
        if matches!(eap_type, EapType::NAK | EapType::EXPANDED) {
            return self.nak(eap_type, data, random);
        }
        match (self.state, eap_type) {
            (State::Identity, EapType::IDENTITY) => {
                if data.len() > IDENTITY_OCTETS_MAX {
                    let detail = format!("an identity of {} octets", data.len());
                    return self.failure(Refused::new(Reason::EapInvalid, detail));
                }
                self.identity = data.into();
                let first = match self.settings.offer {
                    Offer::Tls => self.settings.methods.iter().next(),
                    Offer::Md5ThenTls => Some(Method::Md5),
                };
                self.propose(first.unwrap_or(Method::Tls), random)
            }
            (State::Md5 { challenge }, EapType::MD5) => {
                let response = Md5Data::parse(data).and_then(|data| data.value.try_into().ok());
                let Some(response) = response else {
                    return Step::Discard(Discard::Malformed);
                };
                self.state = State::DecideMd5;
                Step::Decide(Credentials::Md5 {
                    identifier: self.identifier,
                    challenge,
                    response,
                })
            }
            (State::Offered | State::Running, eap_type) if Some(eap_type) == self.method.map(Method::eap_type) => {
                let next = self.next_identifier();
                let Some(running) = &mut self.running else {
                    return self.failure(Reason::InternalError.into());
                };
                let action = running.respond(data, next, random);
                if !matches!(action, Action::Malformed) {
                    self.state = State::Running;
                }
                self.act(action)
            }
            // "The Type field of a Response MUST either match that of the Request, or correspond to a legacy or
            // Expanded Nak ... An EAP server receiving a Response not meeting these requirements MUST silently
            // discard it" (RFC 3748, 4.1)
            _ => Step::Discard(Discard::Type),
        }
    }

    /// "A peer MUST NOT send a Nak ... after an initial non-Nak Response has been sent" (RFC 3748, 4.1).
    fn nak(&mut self, eap_type: EapType, data: &[u8], random: &mut dyn FnMut(&mut [u8])) -> Step {
        let offered = match (self.state, self.method) {
            (State::Md5 { .. } | State::Offered, Some(method)) => method,
            (State::Running, _) => return Step::Discard(Discard::Nak),
            _ => return Step::Discard(Discard::Type),
        };
        let Some(nak) = Nak::parse(eap_type, data) else {
            return Step::Discard(Discard::Malformed);
        };
        let mut acceptable = self
            .settings
            .methods
            .iter()
            .filter(|method| nak.asks_for(method.eap_type()));
        // each is offered once: who asks again for what he has refused gets nowhere
        if let Some(method) = acceptable.find(|method| self.offered & bit(*method) == 0) {
            return self.propose(method, random);
        }
        let wanted: Vec<String> = nak.types().map(|wanted| wanted.to_string()).collect();
        let wanted = if wanted.is_empty() {
            "none".to_owned()
        } else {
            wanted.join(", ")
        };
        let is_left_out =
            |method| nak.asks_for(method) && !self.settings.methods.iter().any(|ours| ours.eap_type() == method);
        let left_out = match Methods::ALL.iter().map(Method::eap_type).any(is_left_out) {
            true => ", which is not among the methods allowed",
            false => "",
        };
        let detail = format!("offered {}, wanted {wanted}{left_out}", offered.eap_type());
        self.nak = Some(Box::new(nak));
        self.failure(Refused::new(Reason::MethodRefused, detail))
    }

    fn propose(&mut self, method: Method, random: &mut dyn FnMut(&mut [u8])) -> Step {
        self.method = Some(method);
        self.offered |= bit(method);
        match method {
            Method::Md5 => {
                let mut challenge = [0; CHALLENGE_OCTETS];
                random(&mut challenge);
                self.state = State::Md5 { challenge };
                self.request(EapType::MD5, &[&[CHALLENGE_OCTETS as u8], &challenge])
            }
            method => {
                self.running = Running::new(method, &self.settings, random).map(Box::new);
                self.state = State::Offered;
                // "with ... the Start (S) bit set, and no data" (RFC 5216, 2.1.1), so no length either; in EAP-TTLS
                // and PEAP the version beside it is 0
                self.request(method.eap_type(), &[&[START]])
            }
        }
    }

    /// The decision. Without [`Step::Decide`] before it, a failure of our own.
    pub fn decide(&mut self, verdict: Verdict) -> Step {
        self.note_progress();
        match (self.state, verdict) {
            (State::DecideMd5, Verdict::Accept) => self.success(None),
            (State::DecideMd5, Verdict::Refuse(refused)) => self.failure(refused),
            (State::DecideCertificate, verdict) => {
                let next = self.next_identifier();
                let Some(running) = &mut self.running else {
                    return self.failure(Reason::InternalError.into());
                };
                let action = running.decide(verdict, next);
                self.state = State::Running;
                self.act(action)
            }
            _ => self.failure(Refused::new(Reason::InternalError, "a decision that nobody asked for")),
        }
    }

    fn act(&mut self, action: Action) -> Step {
        match action {
            Action::Send => {
                if self.rounds >= ROUNDS_MAX {
                    return self.too_long();
                }
                let identifier = self.next_identifier();
                match &mut self.running {
                    Some(running) => {
                        let packet = running.packet(identifier);
                        self.send(packet)
                    }
                    None => self.failure(Reason::InternalError.into()),
                }
            }
            Action::Decide { chain, resumed } => {
                self.state = State::DecideCertificate;
                Step::Decide(Credentials::Certificate { chain, resumed })
            }
            Action::Success(msk) => self.success(Some(msk)),
            Action::Failure(refused) => self.failure(refused),
            Action::Malformed => Step::Discard(Discard::Malformed),
            Action::NotAwaited => Step::Discard(Discard::NotAwaited),
        }
    }

    fn request(&mut self, eap_type: EapType, parts: &[&[u8]]) -> Step {
        let packet = packet::build(Code::Request, self.next_identifier(), eap_type, parts);
        self.send(packet)
    }

    /// "Any new (non-retransmission) Requests MUST modify the Identifier field" (RFC 3748, 4.1): each is one higher.
    fn send(&mut self, packet: Vec<u8>) -> Step {
        self.identifier = self.next_identifier();
        self.last_sent_octets = octets(packet.len());
        Step::Send(packet)
    }

    fn next_identifier(&self) -> u8 {
        self.identifier.wrapping_add(1)
    }

    fn too_long(&mut self) -> Step {
        self.failure(Refused::new(
            Reason::EapInvalid,
            format!("more than {ROUNDS_MAX} round trips"),
        ))
    }

    /// "The Identifier field MUST match the Identifier field of the Response packet that it is sent in response to"
    /// (RFC 3748, 4.2), which is the one of the request that was out.
    fn success(&mut self, msk: Option<Msk>) -> Step {
        self.state = State::Over { succeeded: true };
        Step::Success {
            eap: packet::success(self.identifier),
            msk,
        }
    }

    fn failure(&mut self, refused: Refused) -> Step {
        self.note_progress();
        self.reached = self.failed_at(refused.reason);
        self.state = State::Over { succeeded: false };
        let Refused { reason, detail } = refused;
        Step::Failure {
            eap: packet::failure(self.identifier),
            reason,
            detail,
        }
    }

    /// EAP-Failure for a conversation that is given up from outside; its identifier is that of the request that is out.
    pub fn abandon(&mut self, reason: Reason) -> Step {
        self.failure(reason.into())
    }

    /// What the supplicant said it is: not authenticated, and nothing is ever accepted because of it.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// What it said it is to the method that showed the certificate: inside a tunnel that may be another one.
    pub fn inner_identity(&self) -> &[u8] {
        let inside = self.running.as_ref().and_then(|running| running.inner_identity());
        inside.unwrap_or(&self.identity)
    }

    /// When a full handshake verified the chain, Unix seconds; where tickets make that of interest.
    pub(crate) fn checked_at(&self) -> Option<u64> {
        self.running.as_ref()?.summary().checked_at
    }

    /// The method that was offered last.
    pub fn method(&self) -> Option<Method> {
        self.method
    }

    /// What the supplicant asked for when it refused what was offered, with [`Reason::MethodRefused`].
    pub fn wanted(&self) -> Option<&Nak> {
        self.nak.as_deref()
    }

    /// Why it was refused, while the supplicant's answer to the alert is awaited.
    pub fn refused(&self) -> Option<&Refused> {
        self.running.as_ref()?.refused()
    }

    /// The chain that the supplicant showed, in a tunnel inside of it, whether it was accepted or not; after a resumption
    /// that of the session.
    pub fn presented(&self) -> Option<&[CertificateDer<'static>]> {
        self.running.as_ref()?.presented()
    }

    /// As negotiated; of a tunnel, the outer handshake's, which the keys come from. So is the cipher.
    pub fn tls_version(&self) -> Option<TlsVersion> {
        self.running.as_ref()?.summary().version
    }

    /// The cipher suite's name in IANA's registry.
    pub fn cipher(&self) -> Option<&'static str> {
        self.running.as_ref()?.summary().cipher
    }

    /// Whether the handshake in which the certificate is shown resumed an earlier session.
    pub fn resumed(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.resumed())
    }

    /// What became of the ticket of an earlier session, where one was offered.
    pub fn ticket(&self) -> Option<Offered> {
        self.running.as_ref()?.ticket()
    }
}

/// Of [`Conversation::offered`].
fn bit(method: Method) -> u8 {
    1 << method as u8
}

fn octets(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}
