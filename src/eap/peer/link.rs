//! The supplicant's half of an exchange of TLS messages: flags and fragments as the RFCs want them, rustls behind them.
//! The same for EAP-TLS, EAP-TTLS and PEAP.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::{ClientConfig, ClientConnection};
use rustls::{Error, HandshakeKind};
use rustls_pki_types::{DnsName, ServerName};

use super::violation::Violation;
use super::{Failure, Strictness};
use crate::eap::keys::Msk;
use crate::eap::method::EapType;
use crate::eap::packet::Code;
use crate::eap::tls::flags::{LENGTH, MORE, START, TlsData};
use crate::eap::tls::fragments::{Incoming, Outgoing, Received};
use crate::eap::tls::reason::alert_name;
use crate::eap::tls::session::export;
use crate::eap::tls::{TlsVersion, cipher};

/// rustls wants a name; where sessions are kept for resumption, it is what they are kept under.
const SESSION_NAME: &str = "eap.invalid";

/// What a request was to be answered with.
pub(super) enum Heard {
    /// [`Link::packet`].
    Reply,
    /// Application data has come.
    Said {
        octets: Vec<u8>,
        /// Before our Finished was made.
        is_early: bool,
    },
    Violation(Violation),
    /// rustls cannot begin at all.
    Unable(String),
}

pub(super) struct Link {
    eap_type: EapType,
    packet_octets: usize,
    connection: Option<Box<ClientConnection>>,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Why it cannot end in success any more.
    ended: Option<Failure>,
}

impl Link {
    pub(super) fn new(eap_type: EapType, packet_octets: usize) -> Link {
        Link {
            eap_type,
            packet_octets,
            connection: None,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            ended: None,
        }
    }

    /// The data of a request. `may_be_empty` when one without data is in order though it acknowledges nothing.
    pub(super) fn request(
        &mut self,
        data: &[u8],
        config: &Arc<ClientConfig>,
        may_be_empty: bool,
        strictness: Strictness,
    ) -> Heard {
        let Some(fragment) = TlsData::parse(data) else {
            return Heard::Violation(Violation::NoFlags);
        };
        if self.ended.is_some() && !self.outgoing.is_pending() {
            return Heard::Violation(Violation::TlsAfterAlert);
        }
        let violation = self.framing(fragment, may_be_empty);
        if let Some(violation) = violation.filter(|violation| strictness.minds(*violation)) {
            return Heard::Violation(violation);
        }
        if self.connection.is_none() {
            return self.start(config);
        }
        if self.outgoing.is_pending() {
            return if fragment.is_acknowledgement() {
                Heard::Reply
            } else {
                Heard::Violation(Violation::DataBeforeAcknowledgement)
            };
        }
        if fragment.is_acknowledgement() && self.incoming.pending().is_none() {
            return Heard::Reply;
        }
        let mut incoming = std::mem::take(&mut self.incoming);
        let received = incoming.push(fragment);
        self.incoming = incoming;
        match received {
            Ok(Received::More) => Heard::Reply,
            Ok(Received::Complete(message)) => self.message(&message),
            Err(_) => Heard::Violation(Violation::Fragments),
        }
    }

    /// What is wrong with flags and length, before anything is done.
    fn framing(&self, fragment: TlsData<'_>, may_be_empty: bool) -> Option<Violation> {
        let started = self.connection.is_some();
        let first = self.incoming.pending().is_none();
        Some(match fragment {
            _ if started && fragment.start() => Violation::StartAgain,
            _ if !started && !fragment.start() => Violation::NoStart,
            TlsData { data: [_, ..], .. } if !started => Violation::StartData,
            TlsData { announced: Some(_), .. } if !started => Violation::StartLength,
            TlsData { announced: Some(_), .. } if !first => Violation::LengthLater,
            TlsData { announced: Some(_), .. } if !fragment.more() => Violation::LengthUnfragmented,
            TlsData { announced: None, .. } if first && fragment.more() => Violation::LengthMissing,
            TlsData { flags, .. } if flags & !(LENGTH | MORE | START) != 0 => Violation::ReservedFlags,
            _ if may_be_empty => return None,
            _ if started && first && fragment.is_acknowledgement() && !self.outgoing.is_pending() => {
                Violation::NothingSaid
            }
            _ => return None,
        })
    }

    fn start(&mut self, config: &Arc<ClientConfig>) -> Heard {
        let connection = DnsName::try_from(SESSION_NAME)
            .map_err(|error| error.to_string())
            .and_then(|name| {
                let name = ServerName::DnsName(name);
                ClientConnection::new(Arc::clone(config), name).map_err(|error| error.to_string())
            });
        match connection {
            Ok(connection) => {
                let connection = self.connection.insert(Box::new(connection));
                self.outgoing = Outgoing::new(drain(connection), self.packet_octets);
                Heard::Reply
            }
            Err(error) => Heard::Unable(error),
        }
    }

    fn message(&mut self, mut message: &[u8]) -> Heard {
        let Some(connection) = &mut self.connection else {
            return Heard::Reply;
        };
        let is_early = connection.is_handshaking();
        let mut octets = Vec::new();
        while !message.is_empty() {
            let read = connection.read_tls(&mut message);
            let processed = match read {
                Ok(1..) => connection.process_new_packets(),
                // after close_notify nothing is read any more
                Ok(0) => break,
                Err(error) => Err(Error::General(error.to_string())),
            };
            match processed {
                Ok(state) => {
                    let already = octets.len();
                    octets.resize(already + state.plaintext_bytes_to_read(), 0);
                    let room = octets.get_mut(already..).unwrap_or_default();
                    if connection.reader().read_exact(room).is_err() {
                        octets.truncate(already);
                    }
                }
                Err(error) => {
                    self.ended = Some(match error {
                        Error::AlertReceived(alert) => Failure::Alert(alert_name(alert)),
                        other => Failure::Refused(other.to_string()),
                    });
                    break;
                }
            }
        }
        self.outgoing = Outgoing::new(drain(connection), self.packet_octets);
        match octets.is_empty() {
            true => Heard::Reply,
            false => Heard::Said { octets, is_early },
        }
    }

    /// Says `octets` inside.
    pub(super) fn say(&mut self, octets: &[u8]) {
        if let Some(connection) = &mut self.connection {
            // a full buffer, which cannot be, would be noticed by who waits for the answer
            let _ = connection.writer().write_all(octets);
            self.outgoing = Outgoing::new(drain(connection), self.packet_octets);
        }
    }

    /// The packet after [`Heard::Reply`]; empty when there is nothing to say.
    pub(super) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        self.outgoing.packet(Code::Response, identifier, self.eap_type)
    }

    /// Whether the handshake is done and nothing is under way.
    pub(super) fn is_established(&self) -> bool {
        let is_done = self.connection.as_deref().is_some_and(|tls| !tls.is_handshaking());
        is_done && !self.outgoing.is_pending() && self.incoming.pending().is_none() && self.ended.is_none()
    }

    /// The keys of an established link.
    pub(super) fn msk(&self) -> Option<Msk> {
        let connection = self.connection.as_deref().filter(|_| self.is_established())?;
        export(self.version()?, self.eap_type, |output, label, context| {
            connection.export_keying_material(output, label, context).map(|_| ())
        })
        .ok()
    }

    /// Why it cannot end in success any more.
    pub(super) fn ended(&mut self) -> Option<Failure> {
        self.ended.take()
    }

    pub(super) fn version(&self) -> Option<TlsVersion> {
        self.connection.as_ref()?.protocol_version().and_then(TlsVersion::of)
    }

    pub(super) fn cipher(&self) -> Option<&'static str> {
        cipher::name(self.connection.as_ref()?.negotiated_cipher_suite()?.suite())
    }

    pub(super) fn resumed(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.handshake_kind() == Some(HandshakeKind::Resumed))
    }
}

fn drain(connection: &mut ClientConnection) -> Vec<u8> {
    let mut records = Vec::new();
    while connection.wants_write() {
        if !matches!(connection.write_tls(&mut records), Ok(1..)) {
            break;
        }
    }
    records
}
