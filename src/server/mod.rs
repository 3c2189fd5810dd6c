//! One request: from the datagram to the reply.
//!
//! [`Server`] is the [`Handler`] of the listeners. `access` holds the flow and all its branching, read top-down; `request`
//! says what a request asks for, `certificate` whether one that was verified is still good, [`facts`] what rules may see of
//! a request, `judge` puts the two before the site's policies, `reply` writes the answer, `open` is what is kept of an EAP
//! conversation, `diagnosis` says why one failed, `random` is where unpredictable octets come from. [`record`] is what is
//! known of a finished authentication, [`metrics`] what is counted, [`probe`] how the node authenticates to itself,
//! [`notices`] what is said of packets that got no answer.

mod access;
mod certificate;
mod diagnosis;
pub mod facts;
mod judge;
pub mod metrics;
pub mod notices;
mod open;
pub mod probe;
mod random;
pub mod readiness;
pub mod record;
mod reply;
mod request;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;

use self::access::{Found, Outcome, Waiting, Wanted};
use self::judge::Loaded;
use self::metrics::Metrics;
use self::notices::Notices;
use self::open::Open;
use self::probe::Probe;
use self::record::Sink;
use self::request::Request;
pub use self::request::ssid;
use crate::conversations::{Conversations, Ended, Limits};
use crate::duplicates::{Admission, Duplicates, Token};
use crate::eap::method::Methods;
use crate::listen::{Arrival, Handled, Handler, Lost};
use crate::preferences::Preferences;
use crate::radius::code::Code;
use crate::radius::dictionary::Dictionary;
use crate::radius::packet::{Packet, number};
use crate::reason::Reason;
use crate::store::directory::Directory;
use crate::trust::TrustStore;
use crate::trust::revocation::Revocation;

/// What the request path is told: values of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's number, in every State.
    pub node: u32,
    /// Bounds of the EAP conversations.
    pub conversations: Limits,
    /// Octets that one worker keeps for retransmissions.
    pub duplicate_bytes: usize,
    /// Requests with a State that is not known get no answer, rather than a reject.
    pub unknown_state_is_silent: bool,
    /// Requests that the clients' switches for Message-Authenticator and Proxy-State would refuse are answered, and
    /// noted.
    pub observe_message_authenticator: bool,
    /// User-Names with which switches ask whether this server is alive.
    pub probe_users: Vec<String>,
    /// The EAP methods by which a certificate may be shown.
    pub methods: Methods,
    /// Octets of the largest EAP packet sent, where the client says nothing else.
    pub fragment_size: u16,
    /// Of `Time-Of-Day` and `Day-Of-Week`, where the site has none of its own.
    pub timezone: TimeZone,
    /// How old the policy set may be; older, and the node answers nothing.
    pub max_stale: Duration,
}

/// The wall clock; a test passes its own.
pub type WallClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Answers requests. One for the process, shared by all workers.
pub struct Server {
    settings: Settings,
    dictionary: &'static Dictionary,
    names: facts::Names,
    directory: Arc<Directory>,
    trust: Arc<TrustStore>,
    revocation: Option<Arc<Revocation>>,
    conversations: Conversations<Open>,
    preferences: Preferences,
    records: Sink,
    metrics: Arc<Metrics>,
    notices: Arc<Notices>,
    probe: Probe,
    draining: AtomicBool,
    clock: WallClock,
}

/// What a worker keeps for itself.
#[derive(Debug)]
pub struct Worker {
    index: usize,
    duplicates: Duplicates,
}

/// When and from where a request came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub instant: Instant,
    pub wall: SystemTime,
    pub source: SocketAddr,
}

/// A request that the worker's duplicates know to be new.
struct Admitted<'a> {
    token: Token,
    datagram: &'a [u8],
    may_wait: bool,
}

/// A request that had to wait.
pub struct Late {
    datagram: Vec<u8>,
    source: SocketAddr,
    token: Token,
    waiting: Box<Waiting>,
    found: Found,
}

impl Server {
    /// A server that decides by what `directory` and `trust` hold. Records of finished authentications go to `records`.
    pub fn new(
        settings: Settings,
        directory: Arc<Directory>,
        trust: Arc<TrustStore>,
        records: Sink,
        metrics: Arc<Metrics>,
        probe: Probe,
        clock: WallClock,
    ) -> Server {
        let dictionary = directory.dictionary();
        Server {
            dictionary,
            names: facts::Names::new(dictionary),
            directory,
            trust,
            revocation: None,
            conversations: Conversations::new(settings.node, settings.conversations),
            preferences: Preferences::default(),
            records,
            metrics,
            notices: Arc::default(),
            probe,
            draining: AtomicBool::new(false),
            clock,
            settings,
        }
    }

    /// The same server, which lets no certificate in that was revoked.
    #[must_use]
    pub fn with_revocation(self, revocation: Option<Arc<Revocation>>) -> Server {
        Server { revocation, ..self }
    }

    /// The node's way of authenticating to itself.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// What was said of packets without an answer, and the clients that a strict Message-Authenticator would refuse.
    pub fn notices(&self) -> Arc<Notices> {
        Arc::clone(&self.notices)
    }

    /// EAP conversations begun and not ended.
    pub fn open_conversations(&self) -> usize {
        self.conversations.open()
    }

    /// From now on no EAP conversation is begun; those that are open go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// To be called a few times a second: ends conversations that have been idle for too long.
    pub fn tick(&self, now: Instant) {
        let mut ended = Vec::new();
        self.conversations.expire(now, &mut ended);
        self.report(ended, now);
        self.metrics.open_conversations(self.conversations.open());
    }

    /// The node stops: what is still open is ended, and said to be.
    pub fn stop(&self, now: Instant) {
        let mut ended = Vec::new();
        self.conversations.drain(now, &mut ended);
        self.report(ended, now);
    }

    fn report(&self, ended: impl IntoIterator<Item = Ended<Open>>, now: Instant) {
        for Ended {
            mut conversation,
            state,
            end,
        } in ended
        {
            if !conversation.is_probe {
                self.records
                    .push(conversation.unfinished(&state, end, now, (self.clock)()));
            }
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn dropped(&self, reason: Reason, moment: &Moment) {
        // The node's own requests are not counted, and so neither is that one of them got no answer: `/readyz` says so.
        if self.probe.client(moment.source).is_some() {
            return;
        }
        self.metrics.dropped(reason);
        self.notices.dropped(reason, moment.source, moment.instant);
    }

    /// What becomes of an admitted request.
    fn conclude(
        &self,
        worker: &mut Worker,
        outcome: Outcome,
        admitted: Admitted<'_>,
        moment: &Moment,
        reply: &[u8],
    ) -> Handled<Late> {
        let Admitted {
            token,
            datagram,
            may_wait,
        } = admitted;
        match outcome {
            Outcome::Reply => {
                worker.duplicates.complete(moment.instant, token, reply);
                Handled::Reply
            }
            Outcome::Drop(reason) => {
                worker.duplicates.forget(token);
                self.dropped(reason, moment);
                Handled::Silent
            }
            Outcome::Wait(waiting) if may_wait => {
                let directory = Arc::clone(&self.directory);
                let (source, datagram) = (moment.source, datagram.to_vec());
                Handled::Later(Box::pin(async move {
                    let found = match &waiting.wanted {
                        Wanted::Standing(question) => Found::Standing(question.ask().await),
                        Wanted::Site => {
                            let snapshot = directory.snapshot();
                            let site = directory.load(&snapshot, waiting.client.site).await;
                            Found::Site(Loaded { snapshot, site })
                        }
                    };
                    Late {
                        datagram,
                        source,
                        token,
                        waiting,
                        found,
                    }
                }))
            }
            Outcome::Wait(waiting) => {
                if let Some((state, mut open)) = waiting.conversation {
                    self.conversations.finish(&state, open.client, moment.instant, None);
                    let mut record = open.record(&state, *moment);
                    (record.outcome, record.reason) = (record::Outcome::Silent, Reason::Overload);
                    self.records.push(record);
                }
                worker.duplicates.forget(token);
                self.dropped(Reason::Overload, moment);
                Handled::Silent
            }
        }
    }
}

impl Handler for Server {
    type Worker = Worker;
    type Late = Late;

    fn worker(&self, index: usize) -> Worker {
        Worker {
            index,
            duplicates: Duplicates::new(self.settings.duplicate_bytes),
        }
    }

    fn handle(&self, worker: &mut Worker, arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Handled<Late> {
        let moment = Moment {
            instant: arrival.now,
            wall: (self.clock)(),
            source: arrival.source,
        };
        let request = match self.authenticate_client(arrival.datagram, moment) {
            Ok(request) => request,
            Err(reason) => {
                self.dropped(reason, &moment);
                return Handled::Silent;
            }
        };
        if request.is_probe {
            self.probe.seen_by(worker.index);
        } else {
            self.metrics.request(request.packet.code().number());
        }
        let packet = &request.packet;
        let admission =
            worker
                .duplicates
                .admit(arrival.now, arrival.source, packet.identifier(), packet.authenticator());
        let token = match admission {
            Admission::New(token) => token,
            Admission::Replay(octets) => {
                reply.extend_from_slice(octets);
                return Handled::Reply;
            }
            Admission::InFlight => {
                self.dropped(Reason::Duplicate, &moment);
                return Handled::Silent;
            }
        };
        let outcome = self.answer(&request, reply);
        let admitted = Admitted {
            token,
            datagram: arrival.datagram,
            may_wait: arrival.may_wait,
        };
        self.conclude(worker, outcome, admitted, &moment, reply)
    }

    fn resume(&self, worker: &mut Worker, late: Late, now: Instant, reply: &mut Vec<u8>) -> Handled<Late> {
        let moment = Moment {
            instant: now,
            wall: (self.clock)(),
            source: late.source,
        };
        let Late {
            datagram,
            token,
            waiting,
            found,
            ..
        } = late;
        let outcome = match Packet::parse(&datagram) {
            Ok(packet) => {
                let client = Arc::clone(&waiting.client);
                let snapshot = self.directory.snapshot_for_request();
                let request = Request::new(packet, client, snapshot, moment, &self.settings, false);
                self.go_on(&request, *waiting, found, reply)
            }
            Err(_) => Outcome::Drop(Reason::InternalError),
        };
        let admitted = Admitted {
            token,
            datagram: &datagram,
            may_wait: true,
        };
        self.conclude(worker, outcome, admitted, &moment, reply)
    }

    fn comes_first(&self, datagram: &[u8], source: SocketAddr) -> bool {
        let goes_on = |packet: Packet<'_>| packet.code() == Code::StatusServer || packet.first(number::STATE).is_some();
        Packet::parse(datagram).is_ok_and(goes_on) || self.probe.client(source).is_some()
    }

    fn lost(&self, lost: Lost, count: u64) {
        match lost {
            Lost::InKernel => self.metrics.kernel_drops(count),
            Lost::InOverload => self.metrics.dropped_many(Reason::Overload, count),
            Lost::Reply | Lost::Waiting => self.metrics.dropped_many(Reason::InternalError, count),
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
