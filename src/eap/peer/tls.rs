//! EAP-TLS as the supplicant's method (RFC 5216, 2.1; RFC 9190, 2.1 and 2.5).

use std::io::Read;
use std::sync::Arc;

use rustls::client::{ClientConfig, ClientConnection};
use rustls::{Error, HandshakeKind};
use rustls_pki_types::{DnsName, ServerName};

use super::violation::Violation;
use super::{Failure, Strictness};
use crate::eap::keys::Msk;
use crate::eap::packet::Code;
use crate::eap::tls::TlsVersion;
use crate::eap::tls::flags::{LENGTH, MORE, START, TlsData};
use crate::eap::tls::fragments::{Incoming, Outgoing, Received};
use crate::eap::tls::reason::alert_name;
use crate::eap::tls::session::{COMMITMENT, export};

/// rustls wants a name; where sessions are kept for resumption, it is what they are kept under.
const SESSION_NAME: &str = "eap.invalid";

pub(super) struct TlsMethod {
    connection: Option<Box<ClientConnection>>,
    incoming: Incoming,
    outgoing: Outgoing,
    /// The octet 0x00 has come.
    committed: bool,
    /// Why it cannot end in success any more.
    ended: Option<Failure>,
}

/// What to do with a request.
pub(super) enum Answer {
    /// Send [`TlsMethod::packet`].
    Reply,
    Violation(Violation),
    /// rustls cannot begin at all.
    Unable(String),
}

impl TlsMethod {
    pub(super) fn new() -> TlsMethod {
        TlsMethod {
            connection: None,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            committed: false,
            ended: None,
        }
    }

    /// The data of a request.
    pub(super) fn request(
        &mut self,
        data: &[u8],
        config: &Arc<ClientConfig>,
        packet_octets: usize,
        strictness: Strictness,
    ) -> Answer {
        let Some(fragment) = TlsData::parse(data) else {
            return Answer::Violation(Violation::NoFlags);
        };
        if self.committed {
            return Answer::Violation(Violation::AfterCommitment);
        }
        if self.ended.is_some() && !self.outgoing.is_pending() {
            return Answer::Violation(Violation::TlsAfterAlert);
        }
        if let Some(violation) = self.framing(fragment).filter(|violation| strictness.minds(*violation)) {
            return Answer::Violation(violation);
        }
        if self.connection.is_none() {
            return self.start(config, packet_octets);
        }
        if self.outgoing.is_pending() {
            return if fragment.is_acknowledgement() {
                Answer::Reply
            } else {
                Answer::Violation(Violation::DataBeforeAcknowledgement)
            };
        }
        if fragment.is_acknowledgement() && self.incoming.pending().is_none() {
            // only a tolerant supplicant comes here
            return Answer::Reply;
        }
        let mut incoming = std::mem::take(&mut self.incoming);
        let received = incoming.push(fragment);
        self.incoming = incoming;
        match received {
            Ok(Received::More) => Answer::Reply,
            Ok(Received::Complete(message)) => match self.message(&message, packet_octets) {
                Ok(()) => Answer::Reply,
                Err(violation) => Answer::Violation(violation),
            },
            Err(_) => Answer::Violation(Violation::Fragments),
        }
    }

    /// What is wrong with flags and length, before anything is done.
    fn framing(&self, fragment: TlsData<'_>) -> Option<Violation> {
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
            _ if started && first && fragment.is_acknowledgement() && !self.outgoing.is_pending() => {
                Violation::NothingSaid
            }
            _ => return None,
        })
    }

    fn start(&mut self, config: &Arc<ClientConfig>, packet_octets: usize) -> Answer {
        let connection = DnsName::try_from(SESSION_NAME)
            .map_err(|error| error.to_string())
            .and_then(|name| {
                let name = ServerName::DnsName(name);
                ClientConnection::new(Arc::clone(config), name).map_err(|error| error.to_string())
            });
        match connection {
            Ok(connection) => {
                let connection = self.connection.insert(Box::new(connection));
                self.outgoing = Outgoing::new(drain(connection), packet_octets);
                Answer::Reply
            }
            Err(error) => Answer::Unable(error),
        }
    }

    fn message(&mut self, mut message: &[u8], packet_octets: usize) -> Result<(), Violation> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let before = connection.is_handshaking();
        while !message.is_empty() {
            let read = connection.read_tls(&mut message);
            let processed = match read {
                Ok(1..) => connection.process_new_packets().map(|_| ()),
                // after close_notify nothing is read any more
                Ok(0) => break,
                Err(error) => Err(Error::General(error.to_string())),
            };
            if let Err(error) = processed {
                self.ended = Some(match error {
                    Error::AlertReceived(alert) => Failure::Alert(alert_name(alert)),
                    other => Failure::Refused(other.to_string()),
                });
                break;
            }
            let mut data = [0; 16];
            match connection.reader().read(&mut data) {
                Ok(0) | Err(_) => {}
                Ok(_) if before => return Err(Violation::CommitmentEarly),
                Ok(1) if data.first() == Some(&COMMITMENT) && !self.committed && tls13(connection) => {
                    self.committed = true;
                }
                Ok(_) => return Err(Violation::ApplicationData),
            }
        }
        self.outgoing = Outgoing::new(drain(connection), packet_octets);
        Ok(())
    }

    /// The packet after [`Answer::Reply`]; empty when there is nothing to say.
    pub(super) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        self.outgoing.packet(Code::Response, identifier)
    }

    /// EAP-Success has come: the keys, if that was in order.
    pub(super) fn success(&self) -> Result<Msk, Violation> {
        let connection = self.connection.as_deref().ok_or(Violation::SuccessEarly)?;
        let unfinished = self.outgoing.is_pending() || self.incoming.pending().is_some() || self.ended.is_some();
        if connection.is_handshaking() || unfinished {
            return Err(Violation::SuccessEarly);
        }
        let version = self.version().ok_or(Violation::SuccessEarly)?;
        if version == TlsVersion::V13 && !self.committed {
            return Err(Violation::CommitmentMissing);
        }
        export(version, |output, label, context| {
            connection.export_keying_material(output, label, context).map(|_| ())
        })
        .map_err(|_| Violation::SuccessEarly)
    }

    /// EAP-Failure has come.
    pub(super) fn failure(&mut self) -> Result<Failure, Violation> {
        if self.committed {
            return Err(Violation::AfterCommitment);
        }
        Ok(self.ended.take().unwrap_or(Failure::Rejected))
    }

    pub(super) fn version(&self) -> Option<TlsVersion> {
        self.connection.as_ref()?.protocol_version().and_then(TlsVersion::of)
    }

    pub(super) fn cipher(&self) -> Option<&'static str> {
        self.connection.as_ref()?.negotiated_cipher_suite()?.suite().as_str()
    }

    pub(super) fn resumed(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.handshake_kind() == Some(HandshakeKind::Resumed))
    }
}

fn tls13(connection: &ClientConnection) -> bool {
    connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
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
