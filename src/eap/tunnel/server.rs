//! A tunnel as the authenticator's method: the outer handshake, then the inner conversation in its records.

use super::binding::{BindingKeys, NONCE_OCTETS, Side};
use super::peap::{self, EXTENSIONS, Extensions};
use super::{Kind, ttls};
use crate::eap::keys::Msk;
use crate::eap::method::Methods;
use crate::eap::packet::{Code, build};
use crate::eap::server::{Conversation, Credentials, Discard, FirstMessage, Offer, Settings, Step, Verdict};
use crate::eap::tls::TlsVersion;
use crate::eap::tls::exchange::{CLIENT_HELLO_OCTETS_MAX, Exchange, Taken};
use crate::eap::tls::fragments::{FRAGMENT_OCTETS_MAX, MESSAGE_OCTETS_MAX};
use crate::eap::tls::reason::Refused;
use crate::eap::tls::server::Action;
use crate::eap::tls::session::{COMMITMENT, Progressed, Session, Summary, closed};
use crate::eap::tls::ticket::{Resumed, Scope};
use crate::reason::{Kind as Group, Reason};

pub(crate) struct Tunnel {
    kind: Kind,
    settings: Settings,
    stage: Stage,
    exchange: Exchange,
    summary: Summary,
    /// The inner conversation, from its first message on. Kept to the end for the log line.
    inner: Option<Box<Conversation>>,
    /// What it stands for, when it was resumed and nothing runs inside.
    resumed: Option<Resumed>,
    /// Of the inner request that is out: PEAP's responses come without one.
    inner_identifier: u8,
    /// The inner request that is out is an alert.
    has_alerted: bool,
    nonce: [u8; NONCE_OCTETS],
}

enum Stage {
    /// Start is out, no whole message has come.
    Start,
    Handshake(Box<Session>),
    /// The tunnel stands, nothing was said inside.
    Established(Box<Session>),
    /// The inner conversation runs.
    Inner(Box<Session>),
    /// The inner conversation waits for the decision; or the tunnel was resumed, and waits itself.
    Decide(Box<Session>),
    /// EAP-TTLS was resumed: the protected success indication is out, its acknowledgement is awaited.
    Committed(Box<Session>, Msk),
    /// PEAP: the inner conversation is over, the result is out, and this is to follow.
    Result(Box<Session>, Result<BindingKeys, Refused>),
    /// An alert of the outer handshake is out; whatever comes back, it is over.
    Refused(Refused),
    Over,
}

/// Where a tunnel is; the authenticator's progress report is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Start,
    Handshake,
    Established,
    Inner,
    Committed,
    Result,
    Refused,
    Over,
}

/// The request that an answer goes into.
struct Turn<'a> {
    identifier: u8,
    random: &'a mut dyn FnMut(&mut [u8]),
}

impl Tunnel {
    /// `settings` are those of the conversation that the tunnel belongs to.
    pub(crate) fn new(kind: Kind, settings: &Settings, random: &mut dyn FnMut(&mut [u8])) -> Tunnel {
        let mut nonce = [0; NONCE_OCTETS];
        random(&mut nonce);
        Tunnel {
            kind,
            stage: Stage::Start,
            exchange: Exchange::new(kind.eap_type(), settings.fragment_size),
            summary: Summary::default(),
            inner: None,
            resumed: None,
            inner_identifier: 0,
            has_alerted: false,
            nonce,
            settings: Settings {
                // records are not bound to packets: the outer exchange cuts them to size
                fragment_size: FRAGMENT_OCTETS_MAX,
                methods: Methods::TLS,
                offer: Offer::Tls,
                scope: Scope {
                    method: kind.eap_type(),
                    ..settings.scope
                },
                ..settings.clone()
            },
        }
    }

    /// The data of a response whose identifier and type were found right; the next request will have `identifier`.
    pub(crate) fn respond(&mut self, data: &[u8], identifier: u8, random: &mut dyn FnMut(&mut [u8])) -> Action {
        let longest = match self.stage {
            Stage::Decide(_) | Stage::Over => return Action::NotAwaited,
            Stage::Start => CLIENT_HELLO_OCTETS_MAX,
            _ => MESSAGE_OCTETS_MAX,
        };
        let all_sent = !self.exchange.outgoing().is_pending();
        let taken = self.exchange.take(data, longest);
        let turn = Turn { identifier, random };
        match (taken, &self.stage) {
            (Taken::Malformed, _) => Action::Malformed,
            (_, Stage::Refused(refused)) if all_sent => self.fail(refused.clone()),
            (Taken::Acknowledgement, _) => self.acknowledged(turn),
            (Taken::Send, _) => Action::Send,
            (Taken::Message(message), _) => self.message(&message, turn),
            (Taken::Broken(refused), _) => self.fail(refused),
        }
    }

    fn acknowledged(&mut self, turn: Turn<'_>) -> Action {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Established(session) if self.kind == Kind::Peap => self.open(session, Vec::new(), turn),
            Stage::Committed(session, msk) => self.let_in(&session, msk),
            // some leave it at that when they are refused
            Stage::Result(_, Err(refused)) => self.fail(refused),
            stage => {
                self.stage = stage;
                self.idle()
            }
        }
    }

    fn message(&mut self, message: &[u8], turn: Turn<'_>) -> Action {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let (mut session, is_handshake) = match stage {
            Stage::Start => {
                let Settings {
                    tls,
                    min_version: min,
                    max_version: max,
                    scope,
                    ..
                } = &self.settings;
                match Session::tunnel(tls, *min, *max, *scope) {
                    Ok(session) => (Box::new(session), true),
                    Err(refused) => return Action::Failure(refused),
                }
            }
            Stage::Handshake(session) => (session, true),
            Stage::Established(session) | Stage::Inner(session) => (session, false),
            Stage::Committed(mut session, msk) => {
                return match session.take(message) {
                    // some say goodbye in place of the acknowledgement
                    Progressed::Closed => self.let_in(&session, msk),
                    Progressed::Failed { refused, .. } => Action::Failure(refused),
                    _ => self.fail(self.invalid("data in place of the last acknowledgement")),
                };
            }
            Stage::Result(mut session, result) => {
                return match session.take(message) {
                    Progressed::Finished => self.result(session, result),
                    Progressed::Failed { refused, .. } => Action::Failure(result.err().unwrap_or(refused)),
                    Progressed::Closed | Progressed::Continue(_) => Action::Failure(result.err().unwrap_or(closed())),
                };
            }
            Stage::Decide(_) | Stage::Refused(_) | Stage::Over => return Action::NotAwaited,
        };
        let progressed = session.take(message);
        self.summary = session.summary();
        match progressed {
            Progressed::Continue(flight) => {
                let is_empty = flight.is_empty();
                self.stage = Stage::Handshake(session);
                match is_empty {
                    true => self.idle(),
                    false => self.send(flight),
                }
            }
            Progressed::Finished if is_handshake => self.established(session, turn),
            Progressed::Finished => {
                let said = session.received();
                match said.is_empty() {
                    // a record without a word, or half of one
                    true => {
                        self.stage = match &self.inner {
                            None => Stage::Established(session),
                            Some(_) => Stage::Inner(session),
                        };
                        self.idle()
                    }
                    false => self.said(session, &said, Vec::new(), turn),
                }
            }
            Progressed::Closed => Action::Failure(closed()),
            Progressed::Failed { refused, alert } if alert.is_empty() || !is_handshake => Action::Failure(refused),
            Progressed::Failed { refused, alert } => {
                self.stage = Stage::Refused(refused);
                self.send(alert)
            }
        }
    }

    /// The outer handshake is finished. The supplicant may have said something inside in the same message, which has to be
    /// looked for before anything else is sent (RFC 5281, 7.4; RFC 9427, 3).
    fn established(&mut self, mut session: Box<Session>, turn: Turn<'_>) -> Action {
        let said = session.received();
        // "If either the peer or the server initiates an inner tunnel method instead, then that method MUST be followed"
        // (RFC 9427, 4)
        if said.is_empty()
            && let Some(resumed) = session.resumed_tunnel()
        {
            let chain = resumed.chain.clone();
            self.resumed = Some(resumed);
            self.stage = Stage::Decide(session);
            return Action::Decide { chain, resumed: true };
        }
        let flight = session.established();
        match self.kind {
            _ if !said.is_empty() => self.said(session, &said, flight, turn),
            // in TLS 1.3 the handshake is over with the supplicant's Finished, and the identity can be asked for at once
            Kind::Peap if self.summary.version == Some(TlsVersion::V13) || flight.is_empty() => {
                self.open(session, flight, turn)
            }
            // in EAP-TTLS it is for the supplicant to begin, if need be after an empty request
            Kind::Ttls | Kind::Peap => {
                self.stage = Stage::Established(session);
                self.send(flight)
            }
        }
    }

    /// PEAP: asks for the inner identity; `flight` has to leave before.
    fn open(&mut self, session: Box<Session>, flight: Vec<u8>, turn: Turn<'_>) -> Action {
        let (conversation, step) = Conversation::begin(self.settings.clone(), FirstMessage::Start, turn.random);
        self.inner = Some(Box::new(conversation));
        self.follow(session, step, flight, turn.identifier)
    }

    /// The supplicant has said something inside; `flight` has to leave before the answer.
    fn said(&mut self, session: Box<Session>, said: &[u8], flight: Vec<u8>, turn: Turn<'_>) -> Action {
        let packet = match self.kind {
            Kind::Ttls => match ttls::eap_packet(said) {
                Ok(packet) => packet,
                Err(refused) => return self.fail(refused),
            },
            Kind::Peap => match peap::inside(Code::Response, said) {
                Some((eap_type, data)) => build(Code::Response, self.inner_identifier, eap_type, &[data]).into(),
                None => return self.fail(self.invalid("no eap packet")),
            },
        };
        let step = match (&mut self.inner, self.kind) {
            (Some(conversation), _) => conversation.step(&packet, turn.random),
            (None, Kind::Ttls) => {
                let first = FirstMessage::Response(&packet);
                let (conversation, step) = Conversation::begin(self.settings.clone(), first, turn.random);
                self.inner = Some(Box::new(conversation));
                step
            }
            (None, Kind::Peap) => return self.fail(self.invalid("a response that nobody asked for")),
        };
        self.follow(session, step, flight, turn.identifier)
    }

    /// Does what the inner conversation wants done.
    fn follow(&mut self, mut session: Box<Session>, step: Step, mut flight: Vec<u8>, identifier: u8) -> Action {
        let said = match step {
            Step::Send(packet) => {
                self.inner_identifier = packet.get(1).copied().unwrap_or_default();
                self.has_alerted = self.inner.as_ref().is_some_and(|inner| inner.refused().is_some());
                match self.kind {
                    Kind::Ttls => ttls::message(&packet),
                    Kind::Peap => peap::compressed(&packet).to_vec(),
                }
            }
            Step::Decide(Credentials::Certificate { chain, resumed }) => {
                self.stage = Stage::Decide(session);
                return Action::Decide { chain, resumed };
            }
            Step::Decide(Credentials::Md5 { .. }) => return Action::Failure(Reason::InternalError.into()),
            Step::Success { msk, .. } => {
                let outer = match session.msk(self.kind.eap_type()) {
                    Ok(outer) => outer,
                    Err(refused) => return self.fail(refused),
                };
                match (self.kind, msk) {
                    (Kind::Ttls, _) => return self.let_in(&session, outer),
                    (Kind::Peap, None) => return self.fail(Reason::InternalError.into()),
                    (Kind::Peap, Some(inner)) => {
                        return self.conclude(session, Ok(BindingKeys::new(&outer, &inner)), identifier);
                    }
                }
            }
            Step::Failure { reason, detail, .. } => {
                let refused = self.said_inside(Refused { reason, detail });
                return match self.kind {
                    // An alert has said inside that it is over, and no result is needed to say it again. wpa_supplicant
                    // ignores the packet after an alert of TLS 1.3: it would have to be asked anew to hear of the failure.
                    Kind::Peap if !self.has_alerted => self.conclude(session, Err(refused), identifier),
                    Kind::Ttls | Kind::Peap => self.fail(refused),
                };
            }
            // "errors that would result in silent discard ... SHOULD be treated as such [implementation errors] in
            // preference to being silently discarded" (RFC 5281, 11.2.1)
            Step::Discard(discard) => {
                return self.fail(self.invalid(match discard {
                    Discard::Malformed => "no well-formed eap response",
                    Discard::Identifier | Discard::NotAwaited => "a response that nobody asked for",
                    Discard::Type => "a response of another type than the request",
                    Discard::Nak => "a nak after the method had begun",
                }));
            }
        };
        match session.seal(&said) {
            Ok(records) => {
                flight.extend(records);
                self.stage = Stage::Inner(session);
                self.send(flight)
            }
            Err(refused) => self.fail(refused),
        }
    }

    /// PEAP: says the result inside, and waits for the supplicant's.
    fn conclude(&mut self, mut session: Box<Session>, result: Result<BindingKeys, Refused>, identifier: u8) -> Action {
        let extensions = Extensions {
            succeeded: Some(result.is_ok()),
            binding: result.as_ref().ok().map(|keys| keys.tlv(Side::Request, &self.nonce)),
        };
        match session.seal(&extensions.packet(Code::Request, identifier)) {
            Ok(records) => {
                self.stage = Stage::Result(session, result);
                self.send(records)
            }
            Err(refused) => self.fail(refused),
        }
    }

    /// PEAP: the supplicant's result.
    fn result(&mut self, mut session: Box<Session>, result: Result<BindingKeys, Refused>) -> Action {
        let said = session.received();
        let keys = match result {
            Ok(keys) => keys,
            Err(refused) => return self.fail(refused),
        };
        let extensions = match peap::inside(Code::Response, &said) {
            Some((EXTENSIONS, data)) => Extensions::parse(data).map_err(|error| error.to_string()),
            _ => Err("no result where one was asked for".to_owned()),
        };
        let refused = match extensions {
            Err(error) => self.invalid(&error),
            Ok(Extensions {
                succeeded: Some(true),
                binding: Some(binding),
            }) => match keys.verify(Side::Response, &binding) {
                Some(_) => return self.let_in(&session, keys.msk()),
                None => self.invalid("a crypto-binding of other keys: perhaps somebody in between"),
            },
            Ok(Extensions {
                succeeded: Some(true),
                binding: None,
            }) => Refused::new(
                Reason::MethodRefused,
                "inside peap the supplicant sends no crypto-binding: let it, or configure eap-tls without a tunnel",
            ),
            Ok(_) => self.invalid("failure where the result was success: perhaps it finds the crypto-binding wrong"),
        };
        self.fail(refused)
    }

    /// The decision, for the inner conversation; or for the tunnel itself, if it was resumed.
    pub(crate) fn decide(&mut self, verdict: Verdict, identifier: u8) -> Action {
        match (
            std::mem::replace(&mut self.stage, Stage::Over),
            &mut self.inner,
            verdict,
        ) {
            (Stage::Decide(session), Some(inner), verdict) => {
                let step = inner.decide(verdict);
                self.follow(session, step, Vec::new(), identifier)
            }
            (Stage::Decide(session), None, Verdict::Accept) => match session.msk(self.kind.eap_type()) {
                Ok(outer) => self.accept(session, outer, identifier),
                Err(refused) => self.fail(refused),
            },
            (Stage::Decide(session), None, Verdict::Refuse(refused)) => self.refuse(session, refused, identifier),
            _ => Action::Failure(Refused::new(Reason::InternalError, "a decision that nobody asked for")),
        }
    }

    /// Resumed, and let in. PEAP says so by its result, which takes the place of an inner method's; EAP-TTLS in TLS 1.3
    /// "MUST send the protected success result indication (one octet of 0x00)" (RFC 9427, 4), and in TLS 1.2 has nothing to
    /// say.
    fn accept(&mut self, mut session: Box<Session>, outer: Msk, identifier: u8) -> Action {
        match (self.kind, self.summary.version) {
            (Kind::Peap, _) => self.conclude(session, Ok(BindingKeys::of_resumption(&outer)), identifier),
            (Kind::Ttls, Some(TlsVersion::V13)) => match session.seal(&[COMMITMENT]) {
                Ok(records) => {
                    self.stage = Stage::Committed(session, outer);
                    self.send(records)
                }
                Err(refused) => self.fail(refused),
            },
            (Kind::Ttls, _) => self.let_in(&session, outer),
        }
    }

    /// Resumed, and kept out: by PEAP's result, or an alert where one can be sent.
    fn refuse(&mut self, session: Box<Session>, refused: Refused, identifier: u8) -> Action {
        if self.kind == Kind::Peap {
            return self.conclude(session, Err(refused), identifier);
        }
        match session.refuse(refused) {
            (refused, Some(alert)) => {
                self.stage = Stage::Refused(refused);
                self.send(alert)
            }
            (refused, None) => self.fail(refused),
        }
    }

    /// The end of an authentication that succeeded: only now the tunnel may be resumed.
    fn let_in(&mut self, session: &Session, msk: Msk) -> Action {
        match &self.inner {
            None => session.keep_on(),
            Some(inner) => {
                if let (Some(chain), Some(checked_at)) = (inner.presented(), inner.checked_at()) {
                    session.keep(chain, inner.identity(), checked_at);
                }
            }
        }
        self.stage = Stage::Over;
        Action::Success(msk)
    }

    /// A refusal by the inner conversation, where it needs saying that it is one.
    fn said_inside(&self, refused: Refused) -> Refused {
        let name = self.kind.name();
        match refused {
            Refused {
                reason: Reason::MethodRefused,
                detail: Some(detail),
            } => Refused::new(
                Reason::MethodRefused,
                format!("inside {name}: {detail}: configure eap-tls as the supplicant's inner method"),
            ),
            Refused {
                reason,
                detail: Some(detail),
            } if reason.kind() == Group::Eap => Refused::new(reason, format!("inside {name}: {detail}")),
            refused => refused,
        }
    }

    fn invalid(&self, what: &str) -> Refused {
        Refused::new(Reason::EapInvalid, format!("inside {}: {what}", self.kind.name()))
    }

    /// The packet after [`Action::Send`].
    pub(crate) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        self.exchange.packet(identifier)
    }

    fn send(&mut self, flight: Vec<u8>) -> Action {
        self.exchange.send(flight);
        Action::Send
    }

    fn idle(&mut self) -> Action {
        match self.exchange.idle() {
            Ok(()) => Action::Send,
            Err(refused) => self.fail(refused),
        }
    }

    fn fail(&mut self, refused: Refused) -> Action {
        self.stage = Stage::Over;
        self.exchange.clear();
        Action::Failure(refused)
    }

    pub(crate) fn at(&self) -> At {
        match self.stage {
            Stage::Start => At::Start,
            Stage::Handshake(_) => At::Handshake,
            Stage::Established(_) => At::Established,
            Stage::Inner(_) | Stage::Decide(_) => At::Inner,
            Stage::Committed(..) => At::Committed,
            Stage::Result(..) => At::Result,
            Stage::Refused(_) => At::Refused,
            Stage::Over => At::Over,
        }
    }

    pub(crate) fn refused(&self) -> Option<&Refused> {
        match &self.stage {
            Stage::Refused(refused) | Stage::Result(_, Err(refused)) => Some(refused),
            _ => self.inner.as_ref()?.refused(),
        }
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// What it stands for, when it was resumed.
    pub(crate) fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// Of the outer handshake.
    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    pub(crate) fn inner(&self) -> Option<&Conversation> {
        self.inner.as_deref()
    }
}
