//! Why an authentication failed: a closed list of kinds, and which of them are wrong answers.

use std::fmt;

use portreeve::eap::peer::{Failure, Violation};
use portreeve::nas::Fault;
use portreeve::radius::reply::ReplyError;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request got no answer, as often as it was sent.
    Timeout,
    /// A request was answered after the device had given up.
    LateAnswer,
    /// The server refused.
    Rejected,
    /// The server refused with a TLS alert.
    RejectedByAlert,
    /// The supplicant does not believe the server, or could not finish the handshake.
    ServerNotTrusted,
    /// The server offered no method that the supplicant has.
    NoMethod,
    /// A request could not be written or sent.
    NotSent,
    /// A device was due, and as many as there may be were under way until its time was up.
    NotBegun,
    /// No well-formed RADIUS reply.
    MalformedPacket,
    /// The response authenticator is wrong.
    BadAuthenticator,
    /// The Message-Authenticator is wrong.
    BadMessageAuthenticator,
    /// The Message-Authenticator is missing, or not in first place.
    NoMessageAuthenticator,
    /// The MS-MPPE keys are not the supplicant's.
    WrongKeys,
    /// RADIUS and EAP contradict each other.
    WrongEap,
    /// The server broke a rule of EAP.
    Violation(Violation),
    /// The accept's attributes are not those expected.
    WrongAttributes,
    /// The server accepted whom it must refuse.
    WrongAccept,
    /// An answer that nothing was asked for.
    Unasked,
}

impl Kind {
    /// Of a reply that is no answer.
    pub fn of_fault(fault: &Fault) -> Kind {
        match fault {
            Fault::Reply(error) => Kind::of_reply(error),
            Fault::Unsigned => Kind::NoMessageAuthenticator,
            Fault::Keys(_) => Kind::WrongKeys,
            Fault::Eap(_) => Kind::WrongEap,
            Fault::Violation(violation) => Kind::Violation(*violation),
            Fault::Unasked => Kind::Unasked,
        }
    }

    /// Of a reply that is not genuine.
    pub fn of_reply(error: &ReplyError) -> Kind {
        match error {
            ReplyError::Packet(_) | ReplyError::NotAReply(_) => Kind::MalformedPacket,
            ReplyError::Identifier { .. } => Kind::Unasked,
            ReplyError::ResponseAuthenticator => Kind::BadAuthenticator,
            ReplyError::MessageAuthenticator => Kind::BadMessageAuthenticator,
            ReplyError::UnsignedEap => Kind::NoMessageAuthenticator,
        }
    }

    /// Of a reject, by what the supplicant learned of it.
    pub fn of_reject(failure: Option<&Failure>) -> Kind {
        match failure {
            None | Some(Failure::Rejected) => Kind::Rejected,
            Some(Failure::Alert(_)) => Kind::RejectedByAlert,
            Some(Failure::Refused(_)) => Kind::ServerNotTrusted,
            Some(Failure::NoMethod(_)) => Kind::NoMethod,
        }
    }

    /// Whether the server answered what no right server answers.
    pub fn is_wrong_answer(self) -> bool {
        match self {
            Kind::Timeout
            | Kind::LateAnswer
            | Kind::Rejected
            | Kind::RejectedByAlert
            | Kind::ServerNotTrusted
            | Kind::NoMethod
            | Kind::NotSent
            | Kind::NotBegun => false,
            Kind::MalformedPacket
            | Kind::BadAuthenticator
            | Kind::BadMessageAuthenticator
            | Kind::NoMessageAuthenticator
            | Kind::WrongKeys
            | Kind::WrongEap
            | Kind::Violation(_)
            | Kind::WrongAttributes
            | Kind::WrongAccept
            | Kind::Unasked => true,
        }
    }

    /// The kind as one word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Timeout => "timeout",
            Kind::LateAnswer => "late-answer",
            Kind::Rejected => "rejected",
            Kind::RejectedByAlert => "rejected-by-alert",
            Kind::ServerNotTrusted => "server-not-trusted",
            Kind::NoMethod => "no-method",
            Kind::NotSent => "not-sent",
            Kind::NotBegun => "not-begun",
            Kind::MalformedPacket => "malformed-packet",
            Kind::BadAuthenticator => "bad-authenticator",
            Kind::BadMessageAuthenticator => "bad-message-authenticator",
            Kind::NoMessageAuthenticator => "no-message-authenticator",
            Kind::WrongKeys => "wrong-keys",
            Kind::WrongEap => "wrong-eap",
            Kind::Violation(_) => "eap-violation",
            Kind::WrongAttributes => "wrong-attributes",
            Kind::WrongAccept => "wrong-accept",
            Kind::Unasked => "unasked",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
