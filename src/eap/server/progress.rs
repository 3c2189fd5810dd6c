//! How far a conversation has come, and why it probably went no further.

use super::running::Running;
use super::{Conversation, State};
use crate::eap::tls::server::At;
use crate::eap::tunnel::server::{At as TunnelAt, Tunnel};
use crate::reason::{Kind, Reason};

/// From here on a packet may be too large for a path that loses large ones.
const SUSPICIOUS_OCTETS: u16 = 1_000;

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Request/Identity is out.
    IdentityRequested,
    /// MD5-Challenge is out.
    Md5Offered,
    /// Start is out, of EAP-TLS or of a tunnel.
    TlsOffered,
    /// Some fragments of the ClientHello have come.
    ClientHelloArriving,
    /// It failed at the ClientHello.
    ClientHelloReceived,
    /// The ClientHello has come, fragments of our flight are going.
    ServerFlightSending,
    /// Our flight is out, the client's certificate is awaited.
    ClientCertificatePending,
    /// Some fragments of the flight with the client's certificate have come.
    ClientCertificateArriving,
    /// It failed at the client's certificate, or at what came with it.
    ClientCertificateReceived,
    /// A tunnel: our flight is out, the end of the outer handshake is awaited.
    TunnelPending,
    /// The tunnel stands, the inner identity is awaited.
    InnerIdentityPending,
    /// EAP-TLS Start is out inside the tunnel.
    InnerTlsOffered,
    /// The inner ClientHello has come, fragments of our inner flight are going.
    InnerServerFlightSending,
    /// Our inner flight is out, the client's certificate is awaited.
    InnerCertificatePending,
    /// Some fragments of the inner flight with the client's certificate have come.
    InnerCertificateArriving,
    /// It failed at the client's certificate inside, or at what came with it.
    InnerCertificateReceived,
    /// PEAP: the result is out, the supplicant's is awaited.
    ResultPending,
    /// The credentials have come, the decision is being made.
    Deciding,
    /// Accepted, and the end of the handshake is out.
    Finishing,
    /// Refused, and the alert is out.
    AlertSent,
    /// EAP-Success.
    Succeeded,
}

impl Phase {
    /// Each of them, in order.
    pub const ALL: &'static [Phase] = &[
        Phase::IdentityRequested,
        Phase::Md5Offered,
        Phase::TlsOffered,
        Phase::ClientHelloArriving,
        Phase::ClientHelloReceived,
        Phase::ServerFlightSending,
        Phase::ClientCertificatePending,
        Phase::ClientCertificateArriving,
        Phase::ClientCertificateReceived,
        Phase::TunnelPending,
        Phase::InnerIdentityPending,
        Phase::InnerTlsOffered,
        Phase::InnerServerFlightSending,
        Phase::InnerCertificatePending,
        Phase::InnerCertificateArriving,
        Phase::InnerCertificateReceived,
        Phase::ResultPending,
        Phase::Deciding,
        Phase::Finishing,
        Phase::AlertSent,
        Phase::Succeeded,
    ];

    /// The word of the log line.
    pub const fn word(self) -> &'static str {
        match self {
            Phase::IdentityRequested => "identity-requested",
            Phase::Md5Offered => "md5-offered",
            Phase::TlsOffered => "tls-offered",
            Phase::ClientHelloArriving => "client-hello-arriving",
            Phase::ClientHelloReceived => "client-hello-received",
            Phase::ServerFlightSending => "server-flight-sending",
            Phase::ClientCertificatePending => "client-certificate-pending",
            Phase::ClientCertificateArriving => "client-certificate-arriving",
            Phase::ClientCertificateReceived => "client-certificate-received",
            Phase::TunnelPending => "tunnel-pending",
            Phase::InnerIdentityPending => "inner-identity-pending",
            Phase::InnerTlsOffered => "inner-tls-offered",
            Phase::InnerServerFlightSending => "inner-server-flight-sending",
            Phase::InnerCertificatePending => "inner-certificate-pending",
            Phase::InnerCertificateArriving => "inner-certificate-arriving",
            Phase::InnerCertificateReceived => "inner-certificate-received",
            Phase::ResultPending => "result-pending",
            Phase::Deciding => "deciding",
            Phase::Finishing => "finishing",
            Phase::AlertSent => "alert-sent",
            Phase::Succeeded => "succeeded",
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
            Phase::ServerFlightSending | Phase::InnerServerFlightSending => format!(
                "fragment {fragment} of {fragments} of the server's certificate was never acknowledged: {}-octet \
                 fragments, check the path mtu or set a smaller `fragment_size`",
                number(sent)
            ),
            Phase::ClientCertificateArriving | Phase::InnerCertificateArriving => format!(
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
            Phase::TunnelPending => {
                "the tunnel's handshake was never finished: the supplicant does not trust the server's certificate, or \
                 large packets may be lost on their way here (check the path mtu)"
                    .to_owned()
            }
            Phase::InnerIdentityPending => {
                "nothing was said inside the tunnel: is the supplicant configured with an inner method?".to_owned()
            }
            Phase::InnerTlsOffered => {
                "no tls handshake was begun inside the tunnel: is the supplicant configured for eap-tls as its inner \
                 method, with a certificate?"
                    .to_owned()
            }
            Phase::InnerCertificatePending => {
                "the client's certificate never arrived inside the tunnel: the supplicant does not trust the server's \
                 certificate there (many have a second setting for it), or large packets may be lost on their way here \
                 (check the path mtu)"
                    .to_owned()
            }
            Phase::ResultPending => "the supplicant never answered the result".to_owned(),
            Phase::Deciding => "the decision was not made in time".to_owned(),
            Phase::Finishing => "the supplicant never acknowledged the end of the handshake".to_owned(),
            Phase::AlertSent => "the supplicant never answered the alert".to_owned(),
            Phase::ClientHelloReceived
            | Phase::ClientCertificateReceived
            | Phase::InnerCertificateReceived
            | Phase::Succeeded => "it was over".to_owned(),
        }
    }
}

impl Conversation {
    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let exchange = self.running.as_deref().map(Running::exchange);
        let receiving = exchange.and_then(|exchange| exchange.incoming().pending());
        let sent_fragments = exchange.map_or((0, 0), |exchange| exchange.outgoing().count());
        Progress {
            phase: self.phase(),
            rounds: self.rounds,
            last_sent_octets: self.last_sent_octets,
            last_received_octets: self.last_received_octets,
            sent_fragments,
            receiving,
        }
    }

    /// Remembers how far it has come, before it goes on. What comes after a refusal is no progress.
    pub(super) fn note_progress(&mut self) {
        if self.refused().is_none() {
            self.reached = self.phase();
        }
    }

    /// Where it failed for `reason`: what had been awaited has come, and it was that.
    pub(super) fn failed_at(&self, reason: Reason) -> Phase {
        let is_about_tls = matches!(reason.kind(), Kind::Tls | Kind::Certificate);
        match self.reached {
            Phase::TlsOffered | Phase::ClientHelloArriving if is_about_tls => Phase::ClientHelloReceived,
            Phase::ClientCertificatePending | Phase::ClientCertificateArriving if self.presented().is_some() => {
                Phase::ClientCertificateReceived
            }
            Phase::InnerCertificatePending | Phase::InnerCertificateArriving if self.presented().is_some() => {
                Phase::InnerCertificateReceived
            }
            reached => reached,
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Identity => Phase::IdentityRequested,
            State::Md5 { .. } => Phase::Md5Offered,
            State::DecideMd5 | State::DecideCertificate => Phase::Deciding,
            State::Over { succeeded: true } => Phase::Succeeded,
            State::Over { succeeded: false } => self.reached,
            State::Offered => Phase::TlsOffered,
            State::Running => match self.running.as_deref() {
                None => Phase::TlsOffered,
                Some(Running::Tls(tls)) => {
                    let exchange = tls.exchange();
                    let receiving = exchange.incoming().pending().is_some();
                    match tls.at() {
                        At::Start if receiving => Phase::ClientHelloArriving,
                        At::Start => Phase::TlsOffered,
                        At::Handshake if exchange.outgoing().is_pending() => Phase::ServerFlightSending,
                        At::Handshake if receiving => Phase::ClientCertificateArriving,
                        At::Handshake => Phase::ClientCertificatePending,
                        At::Decide => Phase::Deciding,
                        At::Committed => Phase::Finishing,
                        At::Refused => Phase::AlertSent,
                        At::Over => self.reached,
                    }
                }
                Some(Running::Tunnel(tunnel)) => tunnel_phase(tunnel, self.reached),
            },
        }
    }

    /// Whether a whole ClientHello has come: who has shown none is the first to go when memory runs out.
    pub fn has_client_hello(&self) -> bool {
        match self.running.as_deref() {
            None => false,
            Some(Running::Tls(tls)) => tls.at() != At::Start,
            Some(Running::Tunnel(tunnel)) => tunnel.at() != TunnelAt::Start,
        }
    }
}

fn tunnel_phase(tunnel: &Tunnel, reached: Phase) -> Phase {
    let exchange = tunnel.exchange();
    let sending = exchange.outgoing().is_pending();
    let receiving = exchange.incoming().pending().is_some();
    match tunnel.at() {
        TunnelAt::Start if receiving => Phase::ClientHelloArriving,
        TunnelAt::Start => Phase::TlsOffered,
        TunnelAt::Handshake if sending => Phase::ServerFlightSending,
        TunnelAt::Handshake => Phase::TunnelPending,
        TunnelAt::Established => Phase::InnerIdentityPending,
        TunnelAt::Inner => {
            match tunnel.inner().map(Conversation::phase) {
                // messages are cut by the outer exchange
                Some(Phase::ServerFlightSending | Phase::ClientCertificatePending) if sending => {
                    Phase::InnerServerFlightSending
                }
                Some(
                    Phase::ServerFlightSending | Phase::ClientCertificatePending | Phase::ClientCertificateArriving,
                ) if receiving => Phase::InnerCertificateArriving,
                Some(Phase::ServerFlightSending) => Phase::InnerServerFlightSending,
                Some(Phase::ClientCertificatePending) => Phase::InnerCertificatePending,
                Some(Phase::ClientCertificateArriving) => Phase::InnerCertificateArriving,
                Some(Phase::TlsOffered | Phase::ClientHelloArriving) => Phase::InnerTlsOffered,
                Some(Phase::IdentityRequested) | None => Phase::InnerIdentityPending,
                Some(inner) => inner,
            }
        }
        TunnelAt::Committed => Phase::Finishing,
        TunnelAt::Result => Phase::ResultPending,
        TunnelAt::Refused => Phase::AlertSent,
        TunnelAt::Over => reached,
    }
}

/// With a comma between the thousands.
fn number(octets: u16) -> String {
    match octets {
        0..1_000 => octets.to_string(),
        _ => format!("{},{:03}", octets / 1_000, octets % 1_000),
    }
}
