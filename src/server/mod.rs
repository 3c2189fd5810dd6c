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

use std::array::from_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;

use self::access::{Found, Outcome, Sent, Waiting, Wanted};
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
use crate::listen::{Arrival, Exchange, Handled, Handler, Lost};
use crate::preferences::Preferences;
use crate::radius::code::Code;
use crate::radius::crypto;
use crate::radius::dictionary::Dictionary;
use crate::radius::packet::{Packet, number};
use crate::reason::Reason;
use crate::store::directory::{Directory, Snapshot};
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
                let mut record = conversation.unfinished(&state, end, now, (self.clock)());
                access::name_site(&mut record, &self.directory.snapshot(), conversation.site);
                self.records.push(record);
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

    /// Answers at most [`crypto::AT_ONCE`] datagrams: what takes MD5's time is done for all of them together.
    fn handle_together(
        &self,
        worker: &mut Worker,
        exchanges: &mut [Exchange<'_, Late>],
        snapshot: &Snapshot,
        wall: SystemTime,
    ) {
        let moment = |arrival: &Arrival<'_>| Moment {
            instant: arrival.now,
            wall,
            source: arrival.source,
        };
        let sent: [_; crypto::AT_ONCE] = from_fn(|lane| {
            let arrival = exchanges.get(lane)?.arrival;
            let found = self.find_client(arrival.datagram, snapshot, arrival.source);
            found
                .inspect_err(|reason| self.dropped(*reason, &moment(&arrival)))
                .ok()
        });
        let authenticators = crypto::verify_message_authenticators(sent.each_ref().map(|sent| {
            let sent = sent.as_ref()?;
            Some((&sent.packet, &*sent.client.secret))
        }));
        // for each reply that is to be signed: its token, and with which secret
        let mut unsigned = [const { None }; crypto::AT_ONCE];
        let lanes = exchanges.iter_mut().zip(sent).zip(authenticators);
        for (((exchange, sent), authenticator), unsigned) in lanes.zip(&mut unsigned) {
            let (Some(sent), arrival) = (sent, exchange.arrival) else {
                continue;
            };
            let moment = moment(&arrival);
            if let Err(reason) = self.accepts(&sent, authenticator, &moment) {
                self.dropped(reason, &moment);
                continue;
            }
            let request = Request::new(sent, snapshot, moment, &self.settings);
            let Some(token) = self.admit(worker, &request, exchange) else {
                continue;
            };
            let admitted = Admitted {
                token,
                datagram: arrival.datagram,
                may_wait: arrival.may_wait,
            };
            let outcome = self.answer(&request, &mut exchange.reply);
            if let Outcome::Reply = outcome {
                *unsigned = Some((token, &*request.client.secret));
            }
            exchange.handled = self.conclude(worker, outcome, admitted, &moment);
        }
        let mut replies = exchanges.iter_mut().zip(&unsigned);
        crypto::sign_replies(from_fn(|_| {
            let (exchange, unsigned) = replies.next()?;
            let (_, secret) = unsigned.as_ref()?;
            Some((exchange.reply.as_mut_slice(), *secret))
        }));
        // the last that was admitted first: it leaves those in flight at once
        for (exchange, unsigned) in exchanges.iter().zip(unsigned).rev() {
            if let Some((token, _)) = unsigned {
                worker.duplicates.complete(exchange.arrival.now, token, &exchange.reply);
            }
        }
    }

    /// Step 4: whether it is a new request. Of one that was answered the exchange gets the same reply again.
    fn admit(&self, worker: &mut Worker, request: &Request<'_>, exchange: &mut Exchange<'_, Late>) -> Option<Token> {
        if request.is_probe {
            self.probe.seen_by(worker.index);
        } else {
            self.metrics.request(request.packet.code().number());
        }
        let (packet, moment) = (&request.packet, &request.moment);
        let known = worker.duplicates.admit(
            moment.instant,
            moment.source,
            packet.identifier(),
            packet.authenticator(),
        );
        match known {
            Admission::New(token) => return Some(token),
            Admission::Replay(octets) => {
                exchange.reply.extend_from_slice(octets);
                exchange.handled = Handled::Reply;
            }
            Admission::InFlight => self.dropped(Reason::Duplicate, moment),
        }
        None
    }

    /// What becomes of an admitted request. To sign a reply and to keep it is left to the caller.
    fn conclude(
        &self,
        worker: &mut Worker,
        outcome: Outcome,
        admitted: Admitted<'_>,
        moment: &Moment,
    ) -> Handled<Late> {
        let Admitted {
            token,
            datagram,
            may_wait,
        } = admitted;
        match outcome {
            Outcome::Reply => Handled::Reply,
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
                    access::name_site(&mut record, &self.directory.snapshot(), open.site);
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
        let mut exchange = Exchange {
            arrival: *arrival,
            reply: std::mem::take(reply),
            handled: Handled::Silent,
        };
        self.handle_all(worker, std::slice::from_mut(&mut exchange));
        *reply = exchange.reply;
        exchange.handled
    }

    const AT_ONCE: usize = crypto::AT_ONCE;

    fn handle_all(&self, worker: &mut Worker, exchanges: &mut [Exchange<'_, Late>]) {
        let snapshot = self.directory.snapshot_for_request();
        let wall = (self.clock)();
        for exchanges in exchanges.chunks_mut(crypto::AT_ONCE) {
            self.handle_together(worker, exchanges, &snapshot, wall);
        }
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
        let client = Arc::clone(&waiting.client);
        let outcome = match Packet::parse(&datagram) {
            Ok(packet) => {
                let snapshot = self.directory.snapshot_for_request();
                let sent = Sent {
                    packet,
                    client: &client,
                    is_probe: false,
                };
                let request = Request::new(sent, &snapshot, moment, &self.settings);
                self.go_on(&request, *waiting, found, reply)
            }
            Err(_) => Outcome::Drop(Reason::InternalError),
        };
        let admitted = Admitted {
            token,
            datagram: &datagram,
            may_wait: true,
        };
        if let Outcome::Reply = outcome {
            crypto::sign_replies([Some((reply, &client.secret)), None, None]);
            worker.duplicates.complete(now, token, reply);
        }
        self.conclude(worker, outcome, admitted, &moment)
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
