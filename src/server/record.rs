//! What is known of one finished authentication, and the way it takes from the request to whoever writes it down.
//!
//! The request path fills an [`Authentication`] with typed values, formats nothing, and hands it to a [`Sink`], which
//! never waits: the queue is bounded, and what finds it full is counted. Formatting, metrics and the memory behind
//! `portreeve why` are the reader's business (`telemetry/`).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use crate::eap::tls::ticket::Offered;
use crate::mac::MacAddress;
pub use crate::policy::model::Method;
use crate::reason::Reason;

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
    /// The device's MAC address, from Calling-Station-Id or the User-Name of a MAC authentication.
    pub mac: Option<MacAddress>,
    /// The client certificate's end of validity, Unix seconds.
    pub not_after: Option<i64>,
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
    /// The revision of the policy set that decided: its number, in the epoch that [`Text::Epoch`] is.
    pub revision: Option<u64>,
    /// Where the policies came from: `memory`, or `disk` where the node started without a database and has not read one since.
    pub source: Option<&'static str>,
    /// The last octets of State, to tell conversations apart.
    pub conversation: Option<u64>,
    /// All that is text.
    pub texts: Texts,
}

impl Authentication {
    /// A record that says only when, from where, how and why; the caller adds what else is known.
    pub fn new(time: SystemTime, client: IpAddr, outcome: Outcome, reason: Reason) -> Authentication {
        Authentication {
            time,
            client,
            method: None,
            eap_type: None,
            tls: None,
            resumed: None,
            ticket: None,
            mac: None,
            not_after: None,
            outcome,
            reason,
            phase: None,
            rounds: 1,
            duration: Duration::ZERO,
            revision: None,
            source: None,
            conversation: None,
            texts: Texts::default(),
        }
    }

    /// One of its texts.
    pub fn text(&self, text: Text) -> Option<&[u8]> {
        self.texts.get(text)
    }
}

/// A text of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// NAS-Identifier.
    NasId,
    /// NAS-Port-Id.
    PortId,
    /// SSID, from any Called-Station-Id.
    Ssid,
    /// The site's tag.
    Site,
    /// User-Name, or the EAP identity where there is none.
    User,
    /// The client certificate's common name. Also of a certificate that was refused.
    Cn,
    /// The client certificate's serial number, hexadecimal.
    Serial,
    /// The client certificate's issuer.
    Issuer,
    /// The policy that decided.
    Policy,
    /// The rule at which the last policy that was tried failed, `policy: rule`.
    FailedRule,
    /// The VLAN of the reply.
    Vlan,
    /// The ACL or role of the reply.
    Acl,
    /// The epoch of the revision.
    Epoch,
    /// For a person: the TLS alert, the likely cause of a conversation that died.
    Detail,
}

impl Text {
    /// Every text.
    pub const ALL: [Text; 14] = [
        Text::NasId,
        Text::PortId,
        Text::Ssid,
        Text::Site,
        Text::User,
        Text::Cn,
        Text::Serial,
        Text::Issuer,
        Text::Policy,
        Text::FailedRule,
        Text::Vlan,
        Text::Acl,
        Text::Epoch,
        Text::Detail,
    ];
}

/// The texts of a record, one behind the other: those of most need no allocation. They hold whatever the network sent;
/// whoever prints them makes them printable.
#[derive(Clone)]
pub struct Texts {
    places: [Place; Text::ALL.len()],
    used: usize,
    inline: [u8; INLINE],
    rest: Vec<u8>,
}

/// Octets kept in place: enough for a MAC authentication.
const INLINE: usize = 160;
/// Octets of a text kept at all. A stranger's certificate may have names of 60 KB, and a rule a list of as many; thousands
/// of records are remembered, and each is a line of the log.
const OCTETS_MAX: usize = 1_024;

/// Where a text is: in the first [`INLINE`] octets, or in those behind them.
#[derive(Clone, Copy)]
struct Place {
    start: u16,
    end: u16,
}

impl Place {
    /// No text has this.
    const NONE: Place = Place {
        start: u16::MAX,
        end: 0,
    };
}

impl Default for Texts {
    fn default() -> Texts {
        Texts {
            places: [Place::NONE; Text::ALL.len()],
            used: 0,
            inline: [0; INLINE],
            rest: Vec::new(),
        }
    }
}

impl Texts {
    /// A text's octets; none: it was not written.
    pub fn get(&self, text: Text) -> Option<&[u8]> {
        let place = self.places.get(text as usize)?;
        let (start, end) = (usize::from(place.start), usize::from(place.end));
        match start.checked_sub(INLINE) {
            None => self.inline.get(start..end),
            Some(start) => self.rest.get(start..end.saturating_sub(INLINE)),
        }
    }

    /// Writes a text, in place of an earlier one. What is longer than the bound is cut.
    pub fn set(&mut self, text: Text, octets: &[u8]) {
        let octets = octets.get(..OCTETS_MAX).unwrap_or(octets);
        let start = match self.inline.get_mut(self.used..self.used + octets.len()) {
            Some(room) => {
                room.copy_from_slice(octets);
                self.used += octets.len();
                self.used - octets.len()
            }
            None => {
                self.rest.extend_from_slice(octets);
                INLINE + self.rest.len() - octets.len()
            }
        };
        if let (Some(place), Ok(start), Ok(end)) = (
            self.places.get_mut(text as usize),
            u16::try_from(start),
            u16::try_from(start + octets.len()),
        ) {
            *place = Place { start, end };
        }
    }

    /// Forgets a text.
    pub fn clear(&mut self, text: Text) {
        if let Some(place) = self.places.get_mut(text as usize) {
            *place = Place::NONE;
        }
    }

    /// Forgets what the reply would have said: none like it was sent.
    pub fn forget_reply(&mut self) {
        self.clear(Text::Vlan);
        self.clear(Text::Acl);
    }

    /// Writes all texts that are in `others`.
    pub fn set_all(&mut self, others: &Texts) {
        let run = others.inline.get(..others.used).unwrap_or_default();
        let start = u16::try_from(self.used).unwrap_or_default();
        match self.inline.get_mut(self.used..self.used + run.len()) {
            // in one piece
            Some(room) if others.rest.is_empty() => {
                room.copy_from_slice(run);
                self.used += run.len();
                for (place, other) in self.places.iter_mut().zip(&others.places) {
                    if other.start != Place::NONE.start {
                        *place = Place {
                            start: start + other.start,
                            end: start + other.end,
                        };
                    }
                }
            }
            _ => {
                for text in Text::ALL {
                    if let Some(octets) = others.get(text) {
                        self.set(text, octets);
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let written = Text::ALL.iter().filter_map(|text| Some((text, self.get(*text)?)));
        f.debug_map()
            .entries(written.map(|(text, octets)| (text, octets.escape_ascii().to_string())))
            .finish()
    }
}

/// Queues beside each other: threads that push meet on none while there are no more of them.
const LANES: usize = 8;
/// Records that there is room for once a burst is over.
const CALM: usize = 1_024;

/// The request path's end of the queue: many clones, none of which ever waits.
#[derive(Clone, Debug)]
pub struct Sink(Arc<Queue>);

/// The reader's end of the queue.
#[derive(Debug)]
pub struct Records {
    queue: Arc<Queue>,
    /// What was in a lane, which got this one's room for it: records go through the same memory again and again.
    taken: VecDeque<Authentication>,
    /// The lane to look at first.
    next: usize,
}

#[derive(Debug)]
struct Queue {
    lanes: Vec<Mutex<Lane>>,
    lost: AtomicU64,
}

/// Aligned so that none shares a cache line with another.
#[derive(Debug)]
#[repr(align(128))]
struct Lane {
    records: VecDeque<Authentication>,
    limit: usize,
}

/// What [`Records::take`] found.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each record")]
pub enum Next {
    /// One of the oldest records: those of one thread come in order.
    Record(Authentication),
    /// None at the moment.
    Empty,
    /// None, and every [`Sink`] is gone.
    Closed,
}

impl Sink {
    /// The usual capacity, in records. Too low loses lines in a burst; too high costs half a kilobyte for each record that
    /// waits.
    pub const CAPACITY: usize = 65_536;

    /// A queue of `capacity` records.
    pub fn channel(capacity: usize) -> (Sink, Records) {
        let lanes = LANES.min(capacity);
        let lane = |index| Lane {
            records: VecDeque::new(),
            limit: (capacity + index) / lanes,
        };
        let queue = Arc::new(Queue {
            lanes: (0..lanes).map(|index| Mutex::new(lane(index))).collect(),
            lost: AtomicU64::new(0),
        });
        let records = Records {
            queue: Arc::clone(&queue),
            taken: VecDeque::new(),
            next: 0,
        };
        (Sink(queue), records)
    }

    /// Hands a record over. Never waits: a record that finds every lane full, or in use, is lost and counted.
    ///
    /// The reader polls, so that no push has to wake it.
    pub fn push(&self, record: Authentication) {
        let lanes = &self.0.lanes;
        let own = LANE.with(|lane| *lane) % lanes.len().max(1);
        let (before, after) = lanes.split_at_checked(own).unwrap_or_default();
        for lane in after.iter().chain(before) {
            let mut lane = match lane.try_lock() {
                Ok(lane) => lane,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            if lane.records.len() < lane.limit {
                return lane.records.push_back(record);
            }
        }
        self.0.lost.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local! {
    /// The lane in which this thread looks for room first.
    static LANE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}

impl Records {
    /// One of the oldest records, without waiting.
    pub fn take(&mut self) -> Next {
        if let Some(record) = self.taken.pop_front() {
            return Next::Record(record);
        }
        if self.taken.capacity() > CALM {
            self.taken = VecDeque::new();
        }
        // asked for first: a sink that pushes and goes has pushed
        let is_closed = Arc::strong_count(&self.queue) == 1;
        for _ in 0..self.queue.lanes.len() {
            let lane = self.queue.lanes.get(self.next);
            self.next = (self.next + 1) % self.queue.lanes.len();
            if let Some(lane) = lane {
                let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
                if !lane.records.is_empty() {
                    std::mem::swap(&mut lane.records, &mut self.taken);
                }
            }
            if let Some(record) = self.taken.pop_front() {
                return Next::Record(record);
            }
        }
        match is_closed {
            true => Next::Closed,
            false => Next::Empty,
        }
    }

    /// How many records found the queue full since the last call.
    pub fn take_lost(&mut self) -> u64 {
        self.queue.lost.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Records {
    /// Nobody is to read what comes now.
    fn drop(&mut self) {
        for lane in &self.queue.lanes {
            let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
            (lane.records, lane.limit) = (VecDeque::new(), 0);
        }
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
    fn texts_keep_every_octet() {
        let mut texts = Texts::default();
        let octets = |text: Text, seed: usize| -> Vec<u8> {
            let length = [0, 30, 1, 70, 253][(text as usize + seed) % 5];
            (0..length).map(|n| (n + text as usize + seed) as u8).collect()
        };
        for seed in 0..3 {
            for text in Text::ALL {
                texts.set(text, &octets(text, seed));
            }
            for text in Text::ALL {
                assert_eq!(texts.get(text), Some(&octets(text, seed)[..]), "{text:?}");
            }
        }
        texts.clear(Text::User);
        let mut copy = Texts::default();
        copy.set(Text::User, b"host");
        copy.set_all(&texts);
        assert_eq!(copy.get(Text::User), Some(&b"host"[..]));
        assert_eq!(copy.get(Text::Detail), texts.get(Text::Detail));
        assert_eq!(Texts::default().get(Text::Detail), None);
    }

    #[test]
    fn a_text_is_bounded_whatever_a_certificate_says() {
        let mut texts = Texts::default();
        for text in Text::ALL {
            texts.set(text, &vec![b'x'; 60_000]);
            assert_eq!(texts.get(text), Some(&[b'x'; OCTETS_MAX][..]));
        }
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
    fn every_record_of_many_threads_arrives_or_is_counted() {
        let (sink, mut records) = Sink::channel(Sink::CAPACITY);
        let threads: Vec<_> = (0..2 * LANES as u64)
            .map(|thread| {
                let sink = sink.clone();
                std::thread::spawn(move || {
                    for number in 0..1_000 {
                        let mut record = record();
                        (record.conversation, record.revision) = (Some(thread), Some(number));
                        sink.push(record);
                    }
                })
            })
            .collect();
        drop(sink);
        let mut seen = vec![0; threads.len()];
        loop {
            match records.take() {
                Next::Record(record) => seen[record.conversation.unwrap() as usize] += 1,
                Next::Empty => std::thread::yield_now(),
                Next::Closed => break,
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(
            seen.iter().sum::<u64>() + records.take_lost(),
            1_000 * seen.len() as u64
        );
    }

    #[test]
    fn with_no_reader_nothing_is_kept() {
        let (sink, records) = Sink::channel(16);
        sink.push(record());
        drop(records);
        sink.push(record());
        assert_eq!(sink.0.lost.load(Ordering::Relaxed), 1);
        assert!(sink.0.lanes.iter().all(|lane| lane.lock().unwrap().records.is_empty()));
    }

    #[test]
    fn a_record_stays_small() {
        assert!(size_of::<Authentication>() <= 448, "{}", size_of::<Authentication>());
    }
}
