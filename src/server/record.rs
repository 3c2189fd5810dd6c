//! What is known of one finished authentication, and the way it takes from the request to whoever writes it down.
//!
//! The request path fills an [`Authentication`] with typed values, formats nothing, and hands it to a [`Sink`], which
//! never waits: the queue is bounded, and what finds it full is counted. Formatting, metrics and the memory behind
//! `portreeve why` are the reader's business (`telemetry/`).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, SystemTime};

use crate::eap::tls::ticket::Offered;
use crate::mac::MacAddress;
pub use crate::policy::model::Method;
use crate::reason::Reason;
use crate::store::Revision;

/// How an authentication ended, as the client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// An Access-Accept was sent.
    Accept,
    /// An Access-Reject was sent.
    Reject,
    /// No answer was sent to the last request, on purpose.
    Silent,
    /// The conversation died half way: the supplicant or the network stopped.
    Unfinished,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 4] = [Outcome::Accept, Outcome::Reject, Outcome::Silent, Outcome::Unfinished];

    /// The word in log lines and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Outcome::Accept => "accept",
            Outcome::Reject => "reject",
            Outcome::Silent => "silent",
            Outcome::Unfinished => "unfinished",
        }
    }
}

/// One finished authentication: the fields of its log line (the node's name is added by the writer, `mac_local` follows
/// from `mac`). Absent where the request never came so far.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// When it finished.
    pub time: SystemTime,
    /// Source address of the packets: the NAS, or the proxy before it.
    pub client: IpAddr,
    /// NAS-Identifier.
    pub nas_id: Option<Text>,
    /// NAS-Port-Id.
    pub port_id: Option<Text>,
    /// SSID, from any Called-Station-Id.
    pub ssid: Option<Text>,
    /// The site's tag.
    pub site: Option<Text>,
    /// The method that policies were asked for, or would have been: EAP-TLS that failed before is told by it.
    pub method: Option<Method>,
    /// The EAP method that was spoken: `tls`, `md5`.
    pub eap_type: Option<&'static str>,
    /// TLS version: `1.2`, `1.3`.
    pub tls: Option<&'static str>,
    /// Whether the TLS session was resumed.
    pub resumed: Option<bool>,
    /// What became of the ticket that the supplicant offered. Counted, and not in the line.
    pub ticket: Option<Offered>,
    /// User-Name, or the EAP identity where there is none.
    pub user: Option<Text>,
    /// The device's MAC address, from Calling-Station-Id or the User-Name of a MAC authentication.
    pub mac: Option<MacAddress>,
    /// The client certificate's common name. Also of a certificate that was refused.
    pub cn: Option<Text>,
    /// The client certificate's serial number, hexadecimal.
    pub serial: Option<Text>,
    /// The client certificate's issuer.
    pub issuer: Option<Text>,
    /// The client certificate's end of validity, Unix seconds.
    pub not_after: Option<i64>,
    /// The policy that decided.
    pub policy: Option<Text>,
    /// The rule at which the last policy that was tried failed, `policy: rule`.
    pub failed_rule: Option<Text>,
    /// The VLAN of the reply.
    pub vlan: Option<Text>,
    /// The ACL or role of the reply.
    pub acl: Option<Text>,
    /// What the client saw.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// How far an EAP conversation came.
    pub phase: Option<&'static str>,
    /// Round trips: requests of the client that belong to this authentication.
    pub rounds: u32,
    /// From the first request to the last answer.
    pub duration: Duration,
    /// The revision of the policy set that decided: epoch and number.
    pub revision: Option<Revision>,
    /// Where the policies came from: `memory`, or `disk` where the node started without a database and has not read one since.
    pub source: Option<Text>,
    /// The first octets of State, to tell conversations apart.
    pub conversation: Option<u64>,
    /// Free text for a person: the TLS alert, the likely cause of a conversation that died.
    pub detail: Option<Text>,
}

impl Authentication {
    /// A record that says only when, from where, how and why; the caller adds what else is known.
    pub fn new(time: SystemTime, client: IpAddr, outcome: Outcome, reason: Reason) -> Authentication {
        Authentication {
            time,
            client,
            nas_id: None,
            port_id: None,
            ssid: None,
            site: None,
            method: None,
            eap_type: None,
            tls: None,
            resumed: None,
            ticket: None,
            user: None,
            mac: None,
            cn: None,
            serial: None,
            issuer: None,
            not_after: None,
            policy: None,
            failed_rule: None,
            vlan: None,
            acl: None,
            outcome,
            reason,
            phase: None,
            rounds: 1,
            duration: Duration::ZERO,
            revision: None,
            source: None,
            conversation: None,
            detail: None,
        }
    }
}

/// Octets of a short text kept without an allocation: most names, ports and MAC addresses fit. Holds whatever the
/// network sent; whoever prints it makes it printable.
#[derive(Clone)]
pub struct Text(Repr);

/// Octets kept in place.
const INLINE: usize = 30;
/// Octets kept at all. A stranger's certificate may have names of 60 KB, and a rule a list of as many; thousands of
/// records are remembered, and each is a line of the log.
const OCTETS_MAX: usize = 1_024;

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE]),
    Heap(Box<[u8]>),
    Shared(Arc<str>),
    Static(&'static str),
}

impl Text {
    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(length, octets) => octets.get(..usize::from(*length)).unwrap_or_default(),
            Repr::Heap(octets) => octets,
            // what is shared costs nothing to keep whole, but a line of the log is bounded too
            Repr::Shared(text) => text.as_bytes().get(..OCTETS_MAX).unwrap_or(text.as_bytes()),
            Repr::Static(text) => text.as_bytes(),
        }
    }
}

impl From<&[u8]> for Text {
    /// What is longer than the bound is cut.
    fn from(octets: &[u8]) -> Text {
        let octets = octets.get(..OCTETS_MAX).unwrap_or(octets);
        let mut inline = [0; INLINE];
        match (inline.get_mut(..octets.len()), u8::try_from(octets.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(octets);
                Text(Repr::Inline(length, inline))
            }
            _ => Text(Repr::Heap(octets.into())),
        }
    }
}

impl From<String> for Text {
    /// What is longer than the bound is cut.
    fn from(text: String) -> Text {
        let mut octets = text.into_bytes();
        octets.truncate(OCTETS_MAX);
        Text(Repr::Heap(octets.into_boxed_slice()))
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Text {
        Text(Repr::Shared(text))
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text(Repr::Static(text))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// The request path's end of the queue: many clones, none of which ever waits.
#[derive(Clone, Debug)]
pub struct Sink {
    queue: SyncSender<Box<Authentication>>,
    lost: Arc<AtomicU64>,
}

/// The reader's end of the queue.
#[derive(Debug)]
pub struct Records {
    queue: Receiver<Box<Authentication>>,
    lost: Arc<AtomicU64>,
}

/// What [`Records::take`] found.
#[derive(Debug)]
pub enum Next {
    /// The oldest record.
    Record(Box<Authentication>),
    /// None at the moment.
    Empty,
    /// None, and every [`Sink`] is gone.
    Closed,
}

impl Sink {
    /// The usual capacity, in records. Too low loses lines in a burst; too high costs up to a kilobyte for each record
    /// that waits.
    pub const CAPACITY: usize = 65_536;

    /// A queue of `capacity` records.
    pub fn channel(capacity: usize) -> (Sink, Records) {
        let (sender, receiver) = sync_channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        (
            Sink {
                queue: sender,
                lost: lost.clone(),
            },
            Records { queue: receiver, lost },
        )
    }

    /// Hands a record over. Never waits: a record that finds the queue full is lost and counted.
    ///
    /// The reader polls, so that no push has to wake it.
    pub fn push(&self, record: impl Into<Box<Authentication>>) {
        if self.queue.try_send(record.into()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Records {
    /// The oldest record, without waiting.
    pub fn take(&mut self) -> Next {
        match self.queue.try_recv() {
            Ok(record) => Next::Record(record),
            Err(TryRecvError::Empty) => Next::Empty,
            Err(TryRecvError::Disconnected) => Next::Closed,
        }
    }

    /// How many records found the queue full since the last call.
    pub fn take_lost(&mut self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Authentication {
        Authentication::new(
            SystemTime::UNIX_EPOCH,
            [192, 0, 2, 1].into(),
            Outcome::Accept,
            Reason::PolicyAccept,
        )
    }

    #[test]
    fn text_keeps_every_octet() {
        for length in [0, 1, 29, 30, 31, 253] {
            let octets: Vec<u8> = (0..length).map(|n| n as u8).collect();
            assert_eq!(Text::from(&octets[..]).as_bytes(), octets);
        }
        assert_eq!(Text::from(Arc::<str>::from("london")), Text::from("london"));
        assert_eq!(size_of::<Text>(), 32);
    }

    #[test]
    fn a_text_is_bounded_whatever_a_certificate_says() {
        let long = vec![b'x'; 60_000];
        assert_eq!(Text::from(&long[..]).as_bytes().len(), OCTETS_MAX);
        assert_eq!(Text::from("x".repeat(60_000)).as_bytes().len(), OCTETS_MAX);
        let shared = Text::from(Arc::<str>::from("x".repeat(60_000)));
        assert_eq!(shared.as_bytes().len(), OCTETS_MAX);
    }

    #[test]
    fn a_full_queue_loses_and_counts_but_never_waits() {
        let (sink, mut records) = Sink::channel(2);
        for _ in 0..5 {
            sink.push(record());
        }
        assert_eq!(records.take_lost(), 3);
        assert_eq!(records.take_lost(), 0);
        assert!(matches!(records.take(), Next::Record(_)));
        assert!(matches!(records.take(), Next::Record(_)));
        assert!(matches!(records.take(), Next::Empty));
        drop(sink);
        assert!(matches!(records.take(), Next::Closed));
    }

    #[test]
    fn a_record_stays_small() {
        assert!(size_of::<Authentication>() <= 768, "{}", size_of::<Authentication>());
    }
}
