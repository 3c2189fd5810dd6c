//! The switch's side of one authentication, without I/O: for the node's own probe, `portreeve demo`, the load client and
//! tests.
//!
//! [`Attempt::request`] writes the next request, [`Attempt::reply`] takes what came back. Every reply is checked as a
//! switch should check it, and stricter: the response authenticator (RFC 2865 section 3), a valid Message-Authenticator in
//! first place (CVE-2024-3596; see [`Signing`]), EAP-Success in an accept and EAP-Failure in a reject (RFC 3579 section 2.6.3), and the MS-MPPE
//! keys against the supplicant's own (RFC 2548 section 2.4). A reply that fails is no answer, but a fault with a name.

use std::sync::Arc;

use crate::eap::peer::{Failure, Peer, Step, Violation};
use crate::radius::code::Code;
use crate::radius::crypto::Secret;
use crate::radius::packet::{Packet, number};
use crate::radius::reply::{self, KeyError, ReplyError};
use crate::radius::writer::{WriteError, Writer};

/// How the device authenticates.
pub enum Credentials {
    /// By EAP.
    Eap(Box<Peer>),
    /// By MAC address, with a User-Password.
    Pap(Vec<u8>),
    /// By MAC address, with a CHAP-Password.
    Chap(Vec<u8>),
    /// By MAC address alone.
    None,
}

/// Where a reply has its Message-Authenticator. One that is there is checked, wherever it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// It is the first attribute of every reply (CVE-2024-3596).
    #[default]
    First,
    /// As servers of old do it: anywhere in a reply with EAP-Message (RFC 3579 section 3.2), and perhaps in none of the
    /// others.
    Optional,
}

/// One authentication.
pub struct Attempt {
    secret: Arc<Secret>,
    signing: Signing,
    user_name: Vec<u8>,
    /// Encoded attributes that stand in every request.
    attributes: Arc<[u8]>,
    credentials: Credentials,
    eap: Vec<u8>,
    state: Vec<u8>,
    sent: Option<(u8, [u8; 16])>,
    rounds: u32,
    outcome_of_peer: Option<PeerOutcome>,
}

#[derive(Debug)]
enum PeerOutcome {
    Success(Option<crate::eap::keys::Msk>),
    Failure(Failure),
}

/// What a reply says.
#[derive(Debug)]
pub enum Answer<'a> {
    /// The server asks for more: send the next request.
    Challenge,
    /// The device may join, with what the packet names.
    Accept(Packet<'a>),
    /// It may not; with what the supplicant learned of it, if it speaks EAP.
    Reject(Packet<'a>, Option<Failure>),
}

/// A reply that no right server sends.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is not the server's, or not to this request.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// Message-Authenticator is missing, or not the first attribute (CVE-2024-3596).
    #[error("the reply's first attribute is no Message-Authenticator")]
    Unsigned,
    /// Its keys are missing, superfluous, malformed or not the supplicant's.
    #[error("the reply's keys are wrong: {0}")]
    Keys(String),
    /// The EAP packet in it does not fit its code.
    #[error("{0}")]
    Eap(&'static str),
    /// The server breaks an EAP rule.
    #[error("the server breaks a rule of eap: {0}")]
    Violation(Violation),
    /// It answers nothing that was asked.
    #[error("nothing was asked")]
    Unasked,
}

impl Attempt {
    /// An authentication of `user_name`; `attributes` are encoded, and stand in each request.
    pub fn new(secret: Arc<Secret>, user_name: Vec<u8>, attributes: Arc<[u8]>, credentials: Credentials) -> Attempt {
        let eap = match &credentials {
            Credentials::Eap(peer) => peer.identity_response(0),
            _ => Vec::new(),
        };
        Attempt {
            secret,
            signing: Signing::First,
            user_name,
            attributes,
            credentials,
            eap,
            state: Vec::new(),
            sent: None,
            rounds: 0,
            outcome_of_peer: None,
        }
    }

    /// The same, of a server whose replies are signed so.
    pub fn signed(self, signing: Signing) -> Attempt {
        Attempt { signing, ..self }
    }

    /// Requests written so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The supplicant, if it is one.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.credentials {
            Credentials::Eap(peer) => Some(peer),
            _ => None,
        }
    }

    /// Appends the next request to `out`. `authenticator` is random.
    pub fn request(&mut self, identifier: u8, authenticator: [u8; 16], out: &mut Vec<u8>) -> Result<(), WriteError> {
        let mut writer = Writer::request(out, Code::AccessRequest, identifier, &self.secret, &authenticator);
        writer
            .message_authenticator()
            .attribute(number::USER_NAME, &self.user_name);
        match &self.credentials {
            Credentials::Eap(_) => {
                writer.eap_message(&self.eap);
            }
            Credentials::Pap(password) => {
                writer.user_password(password);
            }
            Credentials::Chap(password) => {
                writer.chap(identifier, password, None);
            }
            Credentials::None => {}
        }
        writer.encoded(&self.attributes);
        if !self.state.is_empty() {
            writer.attribute(number::STATE, &self.state);
        }
        writer.finish()?;
        self.sent = Some((identifier, authenticator));
        self.rounds += 1;
        Ok(())
    }

    /// Takes the reply to the last request. After [`Fault::Reply`] the genuine one may still come.
    pub fn reply<'a>(&mut self, datagram: &'a [u8]) -> Result<Answer<'a>, Fault> {
        let (identifier, authenticator) = self.sent.ok_or(Fault::Unasked)?;
        let reply = reply::verify(datagram, identifier, &authenticator, &self.secret)?;
        if self.signing == Signing::First && !reply.message_authenticator_first {
            return Err(Fault::Unsigned);
        }
        self.sent = None;
        let packet = reply.packet;
        if let Credentials::Eap(peer) = &mut self.credentials {
            let message = packet
                .eap_message()
                .ok_or(Fault::Eap("the reply carries no EAP-Message"))?;
            match peer.step(&message) {
                Step::Reply(response) => self.eap = response,
                Step::Success { msk } => self.outcome_of_peer = Some(PeerOutcome::Success(msk)),
                Step::Failure(failure) => self.outcome_of_peer = Some(PeerOutcome::Failure(failure)),
                Step::Violation(violation) => return Err(Fault::Violation(violation)),
                Step::Ignore => return Err(Fault::Eap("the supplicant has no use for the reply's EAP packet")),
            }
        }
        match packet.code() {
            Code::AccessChallenge => match (&self.credentials, &self.outcome_of_peer) {
                (Credentials::Eap(_), None) => {
                    self.state = packet.first(number::STATE).unwrap_or_default().to_vec();
                    Ok(Answer::Challenge)
                }
                (Credentials::Eap(_), Some(_)) => Err(Fault::Eap("a challenge carries the end of the conversation")),
                _ => Err(Fault::Eap("a challenge, and nothing to answer it with")),
            },
            Code::AccessAccept => {
                self.check_keys(&packet, &authenticator)?;
                Ok(Answer::Accept(packet))
            }
            _ => match self.outcome_of_peer.take() {
                Some(PeerOutcome::Failure(failure)) => Ok(Answer::Reject(packet, Some(failure))),
                None if !matches!(self.credentials, Credentials::Eap(_)) => Ok(Answer::Reject(packet, None)),
                _ => Err(Fault::Eap("a reject without EAP-Failure")),
            },
        }
    }

    /// The keys of an accept are those that the supplicant has, or there are none on either side.
    fn check_keys(&mut self, packet: &Packet<'_>, authenticator: &[u8; 16]) -> Result<(), Fault> {
        let keys = reply::mppe_keys(packet, authenticator, &self.secret)
            .map_err(|error: KeyError| Fault::Keys(error.to_string()))?;
        let msk = match self.outcome_of_peer.take() {
            Some(PeerOutcome::Success(msk)) => msk,
            None if !matches!(self.credentials, Credentials::Eap(_)) => None,
            _ => return Err(Fault::Eap("an accept without EAP-Success")),
        };
        match (keys, msk) {
            (None, None) => Ok(()),
            (Some(keys), Some(msk)) => {
                match keys.recv_key.as_slice() == msk.recv_key() && keys.send_key.as_slice() == msk.send_key() {
                    true => Ok(()),
                    false => Err(Fault::Keys("they are not those of the supplicant".to_owned())),
                }
            }
            (None, Some(_)) => Err(Fault::Keys("they are missing".to_owned())),
            (Some(_), None) => Err(Fault::Keys("there are some, and the supplicant has none".to_owned())),
        }
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt")
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Credentials {
    /// Without what they hold.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credentials::Eap(_) => "Eap",
            Credentials::Pap(_) => "Pap",
            Credentials::Chap(_) => "Chap",
            Credentials::None => "None",
        })
    }
}
