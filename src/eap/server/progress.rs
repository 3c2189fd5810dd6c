//! How far a conversation has come, and why it probably went no further.

use super::super::tls::server::At;
use super::{Conversation, State};
use crate::reason::Reason;

/// From here on a packet may be too large for a path that loses large ones.
const SUSPICIOUS_OCTETS: u16 = 1_000;

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Request/Identity is out.
    IdentityRequested,
    /// MD5-Challenge is out.
    Md5Offered,
    /// EAP-TLS Start is out.
    TlsOffered,
    /// Some fragments of the ClientHello have come.
    ClientHelloArriving,
    /// The ClientHello has come, fragments of our flight are going.
    ServerFlightSending,
    /// Our flight is out, the client's certificate is awaited.
    ClientCertificatePending,
    /// Some fragments of the flight with the client's certificate have come.
    ClientCertificateArriving,
    /// The credentials have come, the decision is being made.
    Deciding,
    /// Accepted, and the end of the handshake is out.
    Finishing,
    /// Refused, and the alert is out.
    AlertSent,
    /// EAP-Success.
    Succeeded,
    /// EAP-Failure.
    Failed,
}

impl Phase {
    /// Each of them, in order.
    pub const ALL: &'static [Phase] = &[
        Phase::IdentityRequested,
        Phase::Md5Offered,
        Phase::TlsOffered,
        Phase::ClientHelloArriving,
        Phase::ServerFlightSending,
        Phase::ClientCertificatePending,
        Phase::ClientCertificateArriving,
        Phase::Deciding,
        Phase::Finishing,
        Phase::AlertSent,
        Phase::Succeeded,
        Phase::Failed,
    ];

    /// The word of the log line.
    pub const fn word(self) -> &'static str {
        match self {
            Phase::IdentityRequested => "identity-requested",
            Phase::Md5Offered => "md5-offered",
            Phase::TlsOffered => "tls-offered",
            Phase::ClientHelloArriving => "client-hello-arriving",
            Phase::ServerFlightSending => "server-flight-sending",
            Phase::ClientCertificatePending => "client-certificate-pending",
            Phase::ClientCertificateArriving => "client-certificate-arriving",
            Phase::Deciding => "deciding",
            Phase::Finishing => "finishing",
            Phase::AlertSent => "alert-sent",
            Phase::Succeeded => "succeeded",
            Phase::Failed => "failed",
        }
    }
}

/// A snapshot of [`Conversation::progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How far.
    pub phase: Phase,
    /// Round trips so far: messages taken, discarded ones not counted.
    pub rounds: u16,
    /// Octets of the EAP packet sent last.
    pub last_sent_octets: u16,
    /// Octets of the EAP packet taken last.
    pub last_received_octets: u16,
    /// Fragments sent of the message sent last, and how many it has. (0, 0) before the first.
    pub sent_fragments: (u16, u16),
    /// Fragments received of a message that is not complete, and their octets.
    pub receiving: Option<(u16, usize)>,
}

impl Progress {
    /// Whether a message is under way in fragments, in either direction.
    pub fn mid_fragments(&self) -> bool {
        let (sent, of) = self.sent_fragments;
        self.receiving.is_some() || (sent < of)
    }

    /// The reason of a conversation that ended here because nothing came any more.
    pub fn reason(&self) -> Reason {
        if self.mid_fragments() {
            Reason::FragmentLost
        } else {
            Reason::SupplicantStopped
        }
    }

    /// How far it came, and the likely cause: for a conversation that ended because nothing came any more.
    pub fn likely_cause(&self) -> String {
        let Progress {
            last_sent_octets: sent,
            last_received_octets: received,
            ..
        } = *self;
        let (fragment, fragments) = self.sent_fragments;
        match self.phase {
            Phase::IdentityRequested => "the identity never arrived".to_owned(),
            Phase::Md5Offered => "the answer to the md5 challenge never arrived".to_owned(),
            Phase::TlsOffered => {
                "no tls handshake was begun: is the supplicant configured for eap-tls, with a certificate?".to_owned()
            }
            Phase::ClientHelloArriving => {
                format!(
                    "the rest of the client hello never arrived: {}-octet fragments, check the path mtu",
                    number(received)
                )
            }
            Phase::ServerFlightSending => format!(
                "fragment {fragment} of {fragments} of the server's certificate was never acknowledged: {}-octet \
                 fragments, check the path mtu or set a smaller `fragment_size`",
                number(sent)
            ),
            Phase::ClientCertificateArriving => format!(
                "the rest of the client's certificate never arrived: {}-octet fragments, check the path mtu",
                number(received)
            ),
            Phase::ClientCertificatePending if sent >= SUSPICIOUS_OCTETS => format!(
                "the client's certificate never arrived: {}-octet packets, check the path mtu, or the supplicant does \
                 not trust the server's certificate",
                number(sent)
            ),
            Phase::ClientCertificatePending => {
                "the client's certificate never arrived: large packets may be lost on their way here (check the path \
                 mtu), or the supplicant does not trust the server's certificate"
                    .to_owned()
            }
            Phase::Deciding => "the decision was not made in time".to_owned(),
            Phase::Finishing => "the supplicant never acknowledged the end of the handshake".to_owned(),
            Phase::AlertSent => "the supplicant never answered the alert".to_owned(),
            Phase::Succeeded | Phase::Failed => "it was over".to_owned(),
        }
    }
}

impl Conversation {
    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let tls = self.tls.as_deref();
        let receiving = tls.and_then(|tls| tls.incoming().pending());
        let sent_fragments = tls.map_or((0, 0), |tls| tls.outgoing().count());
        Progress {
            phase: self.phase(),
            rounds: self.rounds,
            last_sent_octets: self.last_sent_octets,
            last_received_octets: self.last_received_octets,
            sent_fragments,
            receiving,
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Identity => Phase::IdentityRequested,
            State::Md5 { .. } => Phase::Md5Offered,
            State::DecideMd5 | State::DecideTls => Phase::Deciding,
            State::Over { succeeded: true } => Phase::Succeeded,
            State::Over { succeeded: false } => Phase::Failed,
            State::TlsOffered => Phase::TlsOffered,
            State::Tls => {
                let Some(tls) = self.tls.as_deref() else {
                    return Phase::TlsOffered;
                };
                let receiving = tls.incoming().pending().is_some();
                match tls.at() {
                    At::Start if receiving => Phase::ClientHelloArriving,
                    At::Start => Phase::TlsOffered,
                    At::Handshake if tls.outgoing().is_pending() => Phase::ServerFlightSending,
                    At::Handshake if receiving => Phase::ClientCertificateArriving,
                    At::Handshake => Phase::ClientCertificatePending,
                    At::Decide => Phase::Deciding,
                    At::Committed => Phase::Finishing,
                    At::Refused => Phase::AlertSent,
                    At::Over => Phase::Failed,
                }
            }
        }
    }

    /// Whether a whole ClientHello has come: who has shown none is the first to go when memory runs out.
    pub fn has_client_hello(&self) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.at() != At::Start)
    }
}

/// With a comma between the thousands.
fn number(octets: u16) -> String {
    match octets {
        0..1_000 => octets.to_string(),
        _ => format!("{},{:03}", octets / 1_000, octets % 1_000),
    }
}
