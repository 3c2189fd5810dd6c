//! The server's side of one TLS handshake: rustls without a socket.
//!
//! Nothing leaves by itself: each call takes one whole message of the supplicant's and returns what to send. When the
//! client's Finished has been verified the session holds back everything until it is told the decision, so that "after
//! the protected success indication only EAP-Success may follow" (RFC 9190, 2.5) can be kept.
//!
//! A session for EAP-TLS demands a certificate and refuses application data. One for a tunnel demands none, and hands
//! over what is said inside ([`Session::tunnel`], [`Session::received`], [`Session::seal`]).

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection};
use rustls::{AlertDescription, HandshakeKind};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::reason::{Refused, alert_for, alert_sent};
use super::recorder::Recorder;
use super::ticket::{Keeper, Offered, Resumed, Scope, Ticketer};
use super::{TlsServer, TlsVersion, alert, cipher, versions};
use crate::eap::keys::{MSK_OCTETS, Msk};
use crate::eap::method::EapType;
use crate::reason::Reason;

/// Octets of Key_Material: "the key derivation MUST use the length values given" (RFC 9190, 2.3).
const KEY_MATERIAL_OCTETS: usize = 128;
/// The one octet of application data that says success (RFC 9190, 2.5).
pub(crate) const COMMITMENT: u8 = 0x00;

/// The most that is said inside a tunnel at once.
const TUNNELLED_OCTETS_MAX: usize = 16 * 1024;

pub(crate) struct Session {
    connection: ServerConnection,
    purpose: Purpose,
    /// The version in the first ClientHello, where it is below TLS 1.2.
    outdated: Option<[u8; 2]>,
}

/// What a handshake is for.
enum Purpose {
    /// EAP-TLS: the supplicant shows its certificate, or resumes a session in which it did.
    Authentication(Arc<Recorder>, Option<Arc<Ticketer>>),
    /// A tunnel, and what came out of it. What it is resumed by counts only once somebody was let in ([`Session::keep`]).
    Tunnel(Zeroizing<Vec<u8>>, Option<Arc<Keeper>>),
}

/// What a message of the supplicant's led to.
#[derive(Debug)]
pub(crate) enum Progressed {
    /// Send this; empty when the message ended in the middle of a record.
    Continue(Vec<u8>),
    /// The handshake is done and nothing of its end has left: decide.
    Finished,
    /// The supplicant sent close_notify, and nothing else that was new.
    Closed,
    /// It failed. Send the alert, unless it is empty, and wait for the answer.
    Failed { refused: Refused, alert: Vec<u8> },
}

/// What is known of a handshake, for the log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) version: Option<TlsVersion>,
    pub(crate) cipher: Option<&'static str>,
    pub(crate) resumed: bool,
    /// What became of the ticket, where one was offered.
    pub(crate) offered: Option<Offered>,
    /// When a full handshake verified the supplicant's chain, Unix seconds; where that is of interest.
    pub(crate) checked_at: Option<u64>,
}

impl Session {
    /// A session of EAP-TLS that has seen nothing yet; `scope` is where it may be resumed.
    pub(crate) fn new(tls: &TlsServer, min: TlsVersion, max: TlsVersion, scope: Scope) -> Result<Session, Refused> {
        let recorder = Arc::new(Recorder::new(Arc::clone(&tls.verifier)));
        let ticketer = Ticketer::new(tls, scope, Arc::clone(&recorder)).map(Arc::new);
        Session::begin(tls, min, max, Purpose::Authentication(recorder, ticketer))
    }

    /// A session of a tunnel that has seen nothing yet; `scope` is where it may be resumed.
    pub(crate) fn tunnel(tls: &TlsServer, min: TlsVersion, max: TlsVersion, scope: Scope) -> Result<Session, Refused> {
        let keeper = Keeper::new(tls, scope).map(Arc::new);
        Session::begin(tls, min, max, Purpose::Tunnel(Zeroizing::default(), keeper))
    }

    fn begin(tls: &TlsServer, min: TlsVersion, max: TlsVersion, purpose: Purpose) -> Result<Session, Refused> {
        let versions = versions(min, max);
        if versions.is_empty() {
            let detail = format!("none is allowed: at least {min}, at most {max}");
            return Err(Refused::new(Reason::TlsVersion, detail));
        }
        let builder = ServerConfig::builder_with_details(Arc::clone(&tls.provider), Arc::clone(&tls.time))
            .with_protocol_versions(versions)
            // the client's versions are not the profile's, and the profile's cipher suites are for its own alone
            .map_err(|error| Refused::new(Reason::TlsNoCommon, error.to_string()))?;
        let mut config = match &purpose {
            Purpose::Authentication(recorder, _) => builder.with_client_cert_verifier(Arc::clone(recorder) as _),
            Purpose::Tunnel(..) => builder.with_no_client_auth(),
        }
        .with_cert_resolver(Arc::clone(&tls.certificates));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // "In most cases, a single NewSessionTicket will be sufficient" (RFC 9190, 2.1.2)
        config.send_tls13_tickets = 1;
        match &purpose {
            Purpose::Authentication(_, Some(ticketer)) => config.ticketer = Arc::clone(ticketer) as _,
            Purpose::Tunnel(_, Some(keeper)) => config.session_storage = Arc::clone(keeper) as _,
            _ => config.send_tls13_tickets = 0,
        }
        config.ignore_client_order = true;
        // "Early Data MUST NOT be used in EAP-TLS" (RFC 9190, 2.1)
        config.max_early_data_size = 0;
        config.send_half_rtt_data = false;
        // for the alert of a refusal after the handshake
        config.enable_secret_extraction = true;
        let connection = ServerConnection::new(Arc::new(config))
            .map_err(|error| Refused::new(Reason::InternalError, error.to_string()))?;
        Ok(Session {
            connection,
            purpose,
            outdated: None,
        })
    }

    /// Takes the records of one message.
    pub(crate) fn take(&mut self, message: &[u8]) -> Progressed {
        let progressed = self.process(message);
        if self.is_resumed()
            && let (Some(recorder), Some(chain)) = (self.recorder(), self.chain())
        {
            recorder.resumed(chain);
        }
        progressed
    }

    fn process(&mut self, mut message: &[u8]) -> Progressed {
        if self.connection.protocol_version().is_none() {
            self.outdated = self.outdated.or_else(|| outdated_hello(message));
        }
        while !message.is_empty() {
            match self.connection.read_tls(&mut message) {
                // after close_notify nothing is read any more
                Ok(0) => return self.failed(closed()),
                Ok(_) => {}
                Err(error) => return self.failed(Refused::new(Reason::TlsFailed, error.to_string())),
            }
            match self.connection.process_new_packets() {
                Ok(state) => {
                    if let Err(refused) = self.receive(state.plaintext_bytes_to_read()) {
                        return self.failed(refused);
                    }
                    match state.peer_has_closed() {
                        true if self.connection.is_handshaking() => return self.failed(closed()),
                        true => return Progressed::Closed,
                        false => {}
                    }
                }
                Err(error) => {
                    let refused = self.recorder().and_then(|recorder| recorder.refused()).cloned();
                    let refused = refused.unwrap_or_else(|| Refused::from(&error));
                    return self.failed_for(refused, alert_sent(&error));
                }
            }
        }
        if self.connection.is_handshaking() {
            Progressed::Continue(self.drain())
        } else {
            Progressed::Finished
        }
    }

    /// Application data has come, as many octets.
    fn receive(&mut self, octets: usize) -> Result<(), Refused> {
        if octets == 0 {
            return Ok(());
        }
        let Purpose::Tunnel(received, _) = &mut self.purpose else {
            // "application data ... is not used in EAP-TLS" (RFC 9190, 2.1.1)
            return Err(Refused::new(Reason::EapInvalid, "the supplicant sent application data"));
        };
        let already = received.len();
        if already + octets > TUNNELLED_OCTETS_MAX {
            let detail = format!("more than {TUNNELLED_OCTETS_MAX} octets at once inside the tunnel");
            return Err(Refused::new(Reason::EapInvalid, detail));
        }
        received.resize(already + octets, 0);
        let room = received.get_mut(already..).unwrap_or_default();
        self.connection
            .reader()
            .read_exact(room)
            .map_err(|error| Refused::new(Reason::InternalError, error.to_string()))
    }

    /// What the supplicant said inside the tunnel since this was asked last.
    pub(crate) fn received(&mut self) -> Zeroizing<Vec<u8>> {
        match &mut self.purpose {
            Purpose::Tunnel(received, _) => std::mem::take(received),
            Purpose::Authentication(..) => Zeroizing::default(),
        }
    }

    /// The end of a tunnel's handshake: the records to send. In TLS 1.3 what it is resumed by, if it may be; none after a
    /// resumption of TLS 1.2.
    pub(crate) fn established(&mut self) -> Vec<u8> {
        self.drain()
    }

    /// What a tunnel that was resumed stands for.
    pub(crate) fn resumed_tunnel(&self) -> Option<Resumed> {
        match &self.purpose {
            Purpose::Tunnel(_, Some(keeper)) if self.is_resumed() => keeper.resumed(),
            _ => None,
        }
    }

    /// Somebody was let in who showed this chain inside the tunnel: from now on it may be resumed.
    pub(crate) fn keep(&self, chain: &[CertificateDer<'_>], identity: &[u8], checked_at: u64) {
        if let Purpose::Tunnel(_, Some(keeper)) = &self.purpose {
            keeper.keep(chain, identity, checked_at);
        }
    }

    /// Somebody was let in by a tunnel that was resumed.
    pub(crate) fn keep_on(&self) {
        if let Purpose::Tunnel(_, Some(keeper)) = &self.purpose {
            keeper.renew();
        }
    }

    /// The records that say `octets` inside the tunnel.
    pub(crate) fn seal(&mut self, octets: &[u8]) -> Result<Vec<u8>, Refused> {
        self.connection
            .writer()
            .write_all(octets)
            .map_err(|error| Refused::new(Reason::InternalError, error.to_string()))?;
        Ok(self.drain())
    }

    fn failed(&mut self, refused: Refused) -> Progressed {
        self.failed_for(refused, None)
    }

    /// `sent` is the alert that rustls sent, if it sent one and it can be known.
    fn failed_for(&mut self, refused: Refused, sent: Option<AlertDescription>) -> Progressed {
        // with a finished handshake the queue holds the end of it, which must not leave
        let alert = if self.connection.is_handshaking() {
            self.drain()
        } else {
            Vec::new()
        };
        // rustls misses an extension that old supplicants never send before it looks at their version
        if let (Some(version @ [_, minor]), None) = (self.outdated, self.connection.protocol_version()) {
            let offered = if minor == 0 {
                "ssl 3.0".to_owned()
            } else {
                format!("tls 1.{}", minor - 1)
            };
            let refused = Refused::new(Reason::TlsVersion, format!("the supplicant offers {offered} at most"));
            return Progressed::Failed {
                refused: refused.with_alert(Some(AlertDescription::ProtocolVersion)),
                alert: alert::outdated_version(version),
            };
        }
        let refused = match alert.is_empty() {
            true => refused,
            false => refused.with_alert(alert::in_clear(&alert).or(sent)),
        };
        Progressed::Failed { refused, alert }
    }

    /// Lets the end of the handshake leave: the records to send (none after a resumption of TLS 1.2), and the keys.
    pub(crate) fn accept(&mut self) -> Result<(Vec<u8>, Msk), Refused> {
        let msk = self.msk(EapType::TLS)?;
        let flight = match self.summary().version {
            Some(TlsVersion::V13) => self.seal(&[COMMITMENT])?,
            _ => self.drain(),
        };
        Ok((flight, msk))
    }

    /// The keys, for a method of this type.
    pub(crate) fn msk(&self, eap_type: EapType) -> Result<Msk, Refused> {
        let internal = |error: &dyn std::fmt::Display| Refused::new(Reason::InternalError, error.to_string());
        let version = self.summary().version.ok_or_else(|| internal(&"no tls version"))?;
        export(version, eap_type, |output, label, context| {
            self.connection
                .export_keying_material(output, label, context)
                .map(|_| ())
        })
        .map_err(|error| internal(&error))
    }

    /// Refuses after the handshake: the refusal, and the record with the alert that fits it; `None` where none can be made.
    pub(crate) fn refuse(self, refused: Refused) -> (Refused, Option<Vec<u8>>) {
        let alert = AlertDescription::from(alert_for(refused.clone()));
        match self.last_alert(alert) {
            Some(record) => (refused.with_alert(Some(alert)), Some(record)),
            None => (refused, None),
        }
    }

    fn last_alert(mut self, alert: AlertDescription) -> Option<Vec<u8>> {
        let version = self.summary().version?;
        let resumed = self.is_resumed();
        drop(self.drain());
        match version {
            // our ChangeCipherSpec and Finished have left already: the supplicant has done with TLS, and takes EAP-Failure only
            TlsVersion::V12 if resumed => None,
            TlsVersion::V12 => alert::first_record(version, alert, None),
            TlsVersion::V13 => {
                let (_, secrets) = self.connection.dangerous_extract_secrets().ok()?.tx;
                alert::first_record(version, alert, Some(&secrets))
            }
        }
    }

    fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Version, suite, resumed or not; as far as they are known.
    pub(crate) fn summary(&self) -> Summary {
        let resumed = self.is_resumed();
        Summary {
            version: self.connection.protocol_version().and_then(TlsVersion::of),
            cipher: self
                .connection
                .negotiated_cipher_suite()
                .and_then(|suite| cipher::name(suite.suite())),
            resumed,
            offered: match &self.purpose {
                Purpose::Authentication(_, Some(ticketer)) => ticketer.offered(resumed),
                Purpose::Tunnel(_, Some(keeper)) => keeper.offered(resumed),
                _ => None,
            },
            checked_at: match &self.purpose {
                Purpose::Authentication(_, Some(ticketer)) => ticketer.checked_at(),
                _ => None,
            },
        }
    }

    /// The chain that was verified; after a resumption the one of the session resumed.
    pub(crate) fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        self.connection.peer_certificates()
    }

    /// Remembers the chain that was shown or resumed, refused or not; none in a tunnel.
    pub(crate) fn recorder(&self) -> Option<&Arc<Recorder>> {
        match &self.purpose {
            Purpose::Authentication(recorder, _) => Some(recorder),
            Purpose::Tunnel(..) => None,
        }
    }

    fn drain(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.connection.wants_write() {
            // writing into a vector cannot fail, and leaves something behind only when there is nothing to write
            if !matches!(self.connection.write_tls(&mut records), Ok(1..)) {
                break;
            }
        }
        records
    }
}

/// The version of a ClientHello that knows nothing of TLS 1.2.
fn outdated_hello(message: &[u8]) -> Option<[u8; 2]> {
    // record: type, version, length; handshake: type, length; the hello's version
    match *message.first_chunk::<11>()? {
        [0x16, 3, _, _, _, 0x01, _, _, _, 3, minor] if minor < 3 => Some([3, minor]),
        _ => None,
    }
}

/// What it means that the supplicant closed the connection before its end.
pub(crate) fn closed() -> Refused {
    Refused::new(Reason::TlsFailed, "the supplicant closed the connection")
}

/// Key_Material(0, 63) of a method (RFC 5216, 2.3; RFC 5281, 8; RFC 9190, 2.3; RFC 9427, 2.1), from a function like
/// rustls's `export_keying_material`.
pub(crate) fn export<E>(
    version: TlsVersion,
    eap_type: EapType,
    exporter: impl FnOnce(&mut [u8], &[u8], Option<&[u8]>) -> Result<(), E>,
) -> Result<Msk, E> {
    let mut material = Zeroizing::new([0; KEY_MATERIAL_OCTETS]);
    match (version, eap_type) {
        (TlsVersion::V12, EapType::TTLS) => exporter(material.as_mut(), b"ttls keying material", None)?,
        (TlsVersion::V12, _) => exporter(material.as_mut(), b"client EAP encryption", None)?,
        (TlsVersion::V13, EapType(number)) => {
            exporter(material.as_mut(), b"EXPORTER_EAP_TLS_Key_Material", Some(&[number]))?
        }
    }
    let mut msk = Zeroizing::new([0; MSK_OCTETS]);
    msk.copy_from_slice(material.first_chunk::<MSK_OCTETS>().unwrap_or(&[0; MSK_OCTETS]));
    Ok(Msk::new(*msk))
}
