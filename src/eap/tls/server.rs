//! EAP-TLS as the authenticator's method: one response in, what to do next out (RFC 5216, 2.1; RFC 9190, 2.1).
//!
//! Identifiers, Naks and everything else that all methods share are [`crate::eap::server`]'s.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use super::exchange::{CLIENT_HELLO_OCTETS_MAX, Exchange, Taken};
use super::fragments::MESSAGE_OCTETS_MAX;
use super::reason::Refused;
use super::recorder::Recorder;
use super::session::{Progressed, Session, Summary, closed};
use super::ticket::Scope;
use super::{TlsServer, TlsVersion};
use crate::eap::keys::Msk;
use crate::eap::method::EapType;
use crate::reason::Reason;

/// How TLS is to be spoken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsOptions {
    pub(crate) min: TlsVersion,
    pub(crate) max: TlsVersion,
    pub(crate) packet_octets: usize,
    /// Where the session may be resumed.
    pub(crate) scope: Scope,
}

pub(crate) struct TlsMethod {
    server: Arc<TlsServer>,
    options: TlsOptions,
    stage: Stage,
    exchange: Exchange,
    recorder: Option<Arc<Recorder>>,
    summary: Summary,
}

enum Stage {
    /// Start is out, no whole message has come: there is no TLS state yet, and so next to no memory held.
    Start,
    Handshake(Box<Session>),
    /// The client's Finished is good; the floor above decides.
    Decide(Box<Session>),
    /// The end of our handshake is out, in TLS 1.3 with the commitment; the acknowledgement is missing.
    Committed(Box<Session>, Msk),
    /// An alert is out; whatever comes back, it is over.
    Refused(Refused),
    Over,
}

/// What the authenticator does next.
#[derive(Debug)]
pub(crate) enum Action {
    /// Send [`TlsMethod::packet`].
    Send,
    Decide {
        chain: Vec<CertificateDer<'static>>,
        resumed: bool,
    },
    Success(Msk),
    Failure(Refused),
    /// Not to be understood.
    Malformed,
    /// Nothing is awaited.
    NotAwaited,
}

/// Where a handshake is; the authenticator's progress report is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Start,
    Handshake,
    Decide,
    Committed,
    Refused,
    Over,
}

impl TlsMethod {
    pub(crate) fn new(server: Arc<TlsServer>, options: TlsOptions) -> TlsMethod {
        TlsMethod {
            server,
            options,
            stage: Stage::Start,
            exchange: Exchange::new(EapType::TLS, options.packet_octets),
            recorder: None,
            summary: Summary::default(),
        }
    }

    /// The data of a response whose identifier and type were found right.
    pub(crate) fn respond(&mut self, data: &[u8]) -> Action {
        if matches!(self.stage, Stage::Decide(_) | Stage::Over) {
            return Action::NotAwaited;
        }
        let longest = match self.stage {
            Stage::Start => CLIENT_HELLO_OCTETS_MAX,
            _ => MESSAGE_OCTETS_MAX,
        };
        let all_sent = !self.exchange.outgoing().is_pending();
        let taken = self.exchange.take(data, longest);
        match (taken, &self.stage) {
            (Taken::Malformed, _) => Action::Malformed,
            // a restart is not offered (RFC 5216, 2.1.3, leaves that to the server)
            (_, Stage::Refused(refused)) if all_sent => self.fail(refused.clone()),
            (Taken::Acknowledgement, Stage::Committed(_, msk)) => self.succeed(msk.clone()),
            (Taken::Acknowledgement, _) => self.idle(),
            (Taken::Send, _) => Action::Send,
            (Taken::Message(message), _) => self.message(&message),
            (Taken::Broken(refused), _) => self.fail(refused),
        }
    }

    fn message(&mut self, message: &[u8]) -> Action {
        let mut session = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Start => {
                let TlsOptions { min, max, scope, .. } = self.options;
                match Session::new(&self.server, min, max, scope) {
                    Ok(session) => {
                        self.recorder = session.recorder().cloned();
                        Box::new(session)
                    }
                    Err(refused) => return Action::Failure(refused),
                }
            }
            Stage::Handshake(session) => session,
            Stage::Committed(mut session, msk) => {
                return match session.take(message) {
                    // some say goodbye in place of the acknowledgement: they have seen the end of the handshake
                    Progressed::Closed => Action::Success(msk),
                    Progressed::Failed { refused, .. } => Action::Failure(refused),
                    _ => Action::Failure(Refused::new(
                        Reason::EapInvalid,
                        "data in place of the last acknowledgement",
                    )),
                };
            }
            Stage::Decide(_) | Stage::Refused(_) | Stage::Over => return Action::NotAwaited,
        };
        let progressed = session.take(message);
        self.summary = session.summary();
        match progressed {
            Progressed::Continue(flight) if flight.is_empty() => {
                self.stage = Stage::Handshake(session);
                self.idle()
            }
            Progressed::Continue(flight) => {
                self.stage = Stage::Handshake(session);
                self.send(flight)
            }
            Progressed::Finished => {
                let chain = session.chain().unwrap_or_default().to_vec();
                if chain.is_empty() {
                    return Action::Failure(Reason::NoCertificate.into());
                }
                self.stage = Stage::Decide(session);
                Action::Decide {
                    chain,
                    resumed: self.summary.resumed,
                }
            }
            Progressed::Closed => Action::Failure(closed()),
            Progressed::Failed { refused, alert } if alert.is_empty() => Action::Failure(refused),
            Progressed::Failed { refused, alert } => {
                self.stage = Stage::Refused(refused);
                self.send(alert)
            }
        }
    }

    /// The decision: access. After a resumption of TLS 1.2 nothing is left to send.
    pub(crate) fn accept(&mut self) -> Action {
        let Stage::Decide(mut session) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Action::Failure(undecided());
        };
        match session.accept() {
            Ok((flight, msk)) if flight.is_empty() => Action::Success(msk),
            Ok((flight, msk)) => {
                self.stage = Stage::Committed(session, msk);
                self.send(flight)
            }
            Err(refused) => Action::Failure(refused),
        }
    }

    /// The decision: no access. "To ensure that the peer receives the TLS alert message, the EAP server MUST wait for
    /// the peer to reply" (RFC 5216, 2.1.3).
    pub(crate) fn refuse(&mut self, refused: Refused) -> Action {
        let Stage::Decide(session) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Action::Failure(undecided());
        };
        match session.refuse(refused) {
            (refused, Some(alert)) => {
                self.stage = Stage::Refused(refused);
                self.send(alert)
            }
            (refused, None) => Action::Failure(refused),
        }
    }

    /// The packet after [`Action::Send`]: the next fragment, or an empty request that acknowledges one.
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

    fn succeed(&mut self, msk: Msk) -> Action {
        self.stage = Stage::Over;
        Action::Success(msk)
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
            Stage::Decide(_) => At::Decide,
            Stage::Committed(..) => At::Committed,
            Stage::Refused(_) => At::Refused,
            Stage::Over => At::Over,
        }
    }

    pub(crate) fn refused(&self) -> Option<&Refused> {
        match &self.stage {
            Stage::Refused(refused) => Some(refused),
            _ => None,
        }
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    pub(crate) fn presented(&self) -> Option<&[CertificateDer<'static>]> {
        self.recorder.as_ref()?.chain()
    }
}

fn undecided() -> Refused {
    Refused::new(Reason::InternalError, "a decision that nobody asked for")
}
