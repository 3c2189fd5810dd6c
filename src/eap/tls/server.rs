//! EAP-TLS as the authenticator's method: one response in, what to do next out (RFC 5216, 2.1; RFC 9190, 2.1).
//!
//! Identifiers, Naks and everything else that all methods share are [`crate::eap::server`]'s.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use super::flags::TlsData;
use super::fragments::{FragmentError, Incoming, Outgoing, Received};
use super::reason::Refused;
use super::recorder::Recorder;
use super::session::{Progressed, Session, Summary};
use super::{TlsServer, TlsVersion};
use crate::eap::keys::Msk;
use crate::eap::packet::Code;
use crate::reason::Reason;

/// Acknowledgements that nobody asked for, and half records: tolerated, since some supplicants send one too many.
const IDLE_ROUNDS_MAX: u8 = 4;

/// The longest ClientHello that is put together. With every extension and a hybrid key share it has 3 KB; until it is
/// whole nothing was proven, and each of many conversations could hold as much.
const CLIENT_HELLO_OCTETS_MAX: usize = 16 * 1024;

/// How TLS is to be spoken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsOptions {
    pub(crate) min: TlsVersion,
    pub(crate) max: TlsVersion,
    pub(crate) packet_octets: usize,
}

pub(crate) struct TlsMethod {
    server: Arc<TlsServer>,
    options: TlsOptions,
    stage: Stage,
    incoming: Incoming,
    outgoing: Outgoing,
    idle_rounds: u8,
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
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            idle_rounds: 0,
            recorder: None,
            summary: Summary::default(),
        }
    }

    /// The data of a response whose identifier and type were found right.
    pub(crate) fn respond(&mut self, data: &[u8]) -> Action {
        let Some(fragment) = TlsData::parse(data) else {
            return Action::Malformed;
        };
        if matches!(self.stage, Stage::Decide(_) | Stage::Over) {
            return Action::NotAwaited;
        }
        if self.outgoing.is_pending() {
            // "The EAP server MUST wait until it receives the EAP-Response before sending another fragment"
            return if fragment.is_acknowledgement() {
                Action::Send
            } else {
                self.fail(Refused::new(
                    Reason::EapInvalid,
                    "data where a fragment had to be acknowledged",
                ))
            };
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            // a restart is not offered (RFC 5216, 2.1.3, leaves that to the server)
            Stage::Refused(refused) => Action::Failure(refused),
            Stage::Committed(_, msk) if fragment.is_acknowledgement() => Action::Success(msk),
            stage => {
                self.stage = stage;
                self.collect(fragment)
            }
        }
    }

    fn collect(&mut self, fragment: TlsData<'_>) -> Action {
        if fragment.is_acknowledgement() && self.incoming.pending().is_none() {
            return self.idle();
        }
        // taken out, so that a message in one fragment need not be copied
        let mut incoming = std::mem::take(&mut self.incoming);
        let received = incoming.push(fragment);
        self.incoming = incoming;
        if let Some((_, octets)) = self.incoming.pending()
            && octets > CLIENT_HELLO_OCTETS_MAX
            && matches!(self.stage, Stage::Start)
        {
            return self.fail(fragment_error(FragmentError::TooLong(octets)));
        }
        match received {
            Ok(Received::More) => Action::Send,
            Ok(Received::Complete(message)) => self.message(&message),
            Err(error) => self.fail(fragment_error(error)),
        }
    }

    fn message(&mut self, message: &[u8]) -> Action {
        let mut session = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Start => match Session::new(&self.server, self.options.min, self.options.max) {
                Ok(session) => {
                    self.recorder = Some(Arc::clone(session.recorder()));
                    Box::new(session)
                }
                Err(refused) => return Action::Failure(refused),
            },
            Stage::Handshake(session) => session,
            Stage::Committed(mut session, _) => {
                // an alert, or nonsense: either way the end
                return Action::Failure(match session.take(message) {
                    Progressed::Failed { refused, .. } => refused,
                    _ => Refused::new(Reason::EapInvalid, "data in place of the last acknowledgement"),
                });
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
        self.outgoing.packet(Code::Request, identifier)
    }

    fn send(&mut self, flight: Vec<u8>) -> Action {
        self.idle_rounds = 0;
        self.outgoing = Outgoing::new(flight, self.options.packet_octets);
        Action::Send
    }

    fn idle(&mut self) -> Action {
        self.idle_rounds += 1;
        if self.idle_rounds > IDLE_ROUNDS_MAX {
            return self.fail(Refused::new(Reason::EapInvalid, "nothing but acknowledgements"));
        }
        Action::Send
    }

    fn fail(&mut self, refused: Refused) -> Action {
        self.stage = Stage::Over;
        self.outgoing = Outgoing::default();
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

    pub(crate) fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    pub(crate) fn presented(&self) -> Option<&[CertificateDer<'static>]> {
        self.recorder.as_ref()?.presented()
    }
}

fn fragment_error(error: FragmentError) -> Refused {
    Refused::new(Reason::EapInvalid, error.to_string())
}

fn undecided() -> Refused {
    Refused::new(Reason::InternalError, "a decision that nobody asked for")
}
