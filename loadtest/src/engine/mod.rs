//! One thread's work: its sockets, its devices at once, and the time-outs.
//!
//! A slot is a port of the switch: one device after the other. A request is sent again with the same identifier and the
//! same octets from the same port (RFC 5080 section 2.2.1), so the server can see that it is the same. Every answer ends or
//! advances one slot; an answer that is wrong ends it as a failure, although a switch would go on waiting for a right one.
//!
//! Latency counts from the first request of a user's device, and from the moment when a device was due by schedule: where
//! server or client are late with the devices before, those that had to wait have waited ("coordinated omission").

mod random;
mod replies;
mod sending;
mod slot;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use self::random::Random;
use self::slot::Slot;
use crate::failure::Kind;
use crate::fleet::{Device, Fleet};
use crate::lane::{Lanes, Usage};
use crate::profile::{Pacer, Profile, Turn};
use crate::series::Window;
use crate::socket::{BATCH, Receiver, Socket};
use crate::tally::{Handshake, Tally};
use crate::waiting::Waiting;

/// Source ports of a thread, at least, if it has as many devices at once.
const PORTS: usize = 16;
/// The same where there are many source addresses, by which a server can spread load too. The fewer sockets, the more
/// datagrams are taken with one call; two have room for more answers than one.
const PORTS_OF_MANY: usize = 2;
/// Devices in turn that begin on one port before the next has its turn, so that they leave in one call.
const DEVICES_OF_TURN: u64 = 8;
/// Devices that begin between two looks at the sockets, so that a start with thousands is no single burst.
const BURST: usize = 64;
/// How long late answers are waited for after the end.
const LINGER: Duration = Duration::from_secs(1);
/// How often a thread looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);
/// Marks the clock among the sockets.
const CLOCK: u64 = u64::MAX;

/// What all threads share.
pub struct Shared {
    pub fleet: Fleet,
    pub profile: Profile,
    pub target: SocketAddr,
    pub timeout: Duration,
    pub retries: u32,
    /// How many devices there are in all.
    pub count: Option<u64>,
    /// How many there are at once, at most.
    pub most_open: usize,
    pub threads: usize,
    /// All threads and their watcher come here before the first device begins.
    pub start: Barrier,
    /// When that was.
    pub began: OnceLock<Instant>,
    pub live: Live,
}

/// What the threads and their watcher tell each other while it runs.
#[derive(Default)]
pub struct Live {
    /// Nothing more begins, and nothing is waited for.
    pub stop: AtomicBool,
    /// Devices that have begun.
    pub begun: AtomicU64,
    /// Devices that were answered as they must be.
    pub right: AtomicU64,
    pub failed: AtomicU64,
    /// Why nothing can be sent, and never could.
    pub unreachable: OnceLock<io::Error>,
}

impl Shared {
    /// The same once more, with another load.
    pub fn again(&mut self, profile: Profile) {
        self.profile = profile;
        self.began = OnceLock::new();
        self.live = Live::default();
    }

    /// The beginning of the run: once all have come.
    pub fn begin(&self) -> Instant {
        self.start.wait();
        *self.began.get_or_init(Instant::now)
    }
}

/// What one thread did.
pub struct Done {
    pub tally: Tally,
    /// Datagrams that came and were dropped before this client took them.
    pub dropped: u64,
}

/// Works off the share of one thread. Seconds that are past go to `windows`.
pub fn work(shared: &Shared, thread: usize, windows: Sender<Window>) -> anyhow::Result<Done> {
    let engine = Engine::new(shared, thread, windows);
    // the others wait, also for one that cannot begin
    let began = shared.begin();
    let mut engine = engine?;
    engine.began = began;
    engine.run()?;
    Ok(Done {
        dropped: crate::process::dropped(&engine.ports()),
        tally: engine.tally,
    })
}

struct Engine<'p> {
    shared: &'p Shared,
    thread: usize,
    began: Instant,
    pacer: Pacer<'p>,
    epoll: Epoll,
    clock: TimerFd,
    /// What the clock was set to last.
    clock_set: Option<Duration>,
    sockets: Vec<Socket>,
    lanes: Lanes,
    receiver: Receiver,
    random: Random,
    /// Where attributes of a request are put together.
    scratch: Vec<u8>,
    slots: Vec<Slot<'p>>,
    most_slots: usize,
    /// Slots without a device.
    idle: Vec<usize>,
    waiting: Waiting,
    /// Slots with a request to be sent, for each socket.
    outgoing: Vec<Vec<usize>>,
    queued: usize,
    /// Devices begun.
    devices: u64,
    /// When there was last no room for a device.
    full: Duration,
    /// When a device last gave up.
    gave_up: Option<Instant>,
    window: Window,
    windows: Sender<Window>,
    tally: Tally,
}

/// What became of a device.
enum Outcome {
    /// It was let in, as it must be.
    Accepted(Option<Handshake>),
    /// It was refused, as it must be.
    Refused,
    Failed(Kind, String),
}

/// When the next device begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Now,
    /// When one ends, or about then.
    Around(Option<Duration>),
    /// Just then.
    At(Duration),
    Never,
}

impl<'p> Engine<'p> {
    fn new(shared: &'p Shared, thread: usize, windows: Sender<Window>) -> anyhow::Result<Engine<'p>> {
        let most_slots = shared.most_open.div_ceil(shared.threads);
        let sources = shared.fleet.sources();
        let count = sources.map_or(1, |sources| sources.count());
        let ports = if count < PORTS { PORTS } else { PORTS_OF_MANY };
        let lanes = Lanes::new(count, most_slots, ports);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let open = |_| match sources {
            Some(sources) if sources.count() > 1 => Socket::many(shared.target),
            Some(sources) => Socket::single(shared.target, Some(sources.at(0))),
            None => Socket::single(shared.target, None),
        };
        let sockets = (0..lanes.sockets())
            .map(open)
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| {
                let (count, target) = (lanes.sockets(), shared.target);
                format!("cannot open {count} sockets to {target}\nhint: check the address and `ulimit -n`")
            })?;
        for (at, socket) in sockets.iter().enumerate() {
            epoll.add(socket.udp(), EpollEvent::new(EpollFlags::EPOLLIN, at as u64))?;
        }
        let clock = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        epoll.add(&clock, EpollEvent::new(EpollFlags::EPOLLIN, CLOCK))?;
        Ok(Engine {
            shared,
            thread,
            began: Instant::now(),
            pacer: Pacer::new(&shared.profile, thread as u64, shared.threads as u64),
            epoll,
            clock,
            clock_set: None,
            outgoing: vec![Vec::new(); sockets.len()],
            sockets,
            lanes,
            receiver: Receiver::new(),
            random: Random::default(),
            scratch: Vec::new(),
            slots: Vec::new(),
            most_slots,
            idle: Vec::new(),
            waiting: Waiting::new(),
            queued: 0,
            devices: 0,
            full: Duration::ZERO,
            gave_up: None,
            window: Window::new(0),
            windows,
            tally: Tally::new(&shared.profile)?,
        })
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let mut ready = vec![EpollEvent::empty(); self.sockets.len() + 1];
        while !self.shared.live.stop.load(Ordering::Relaxed) {
            let next = self.begin_due()?;
            self.flush()?;
            if next == Next::Never && self.open() == 0 && !self.lingers() {
                break;
            }
            let wait = self.wait(next)?;
            let count = match self.epoll.wait(&mut ready, wait) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in ready.iter().take(count) {
                if event.data() == CLOCK {
                    // taken, or it would be reported again and again
                    let _ = self.clock.wait();
                    self.clock_set = None;
                    continue;
                }
                let at = usize::try_from(event.data())?;
                if event.events().contains(EpollFlags::EPOLLERR)
                    && self.sockets.get(at).is_some_and(Socket::take_errors)
                {
                    self.unreachable(Errno::ECONNREFUSED);
                }
                self.receive(at)?;
            }
            let now = Instant::now();
            self.expire(now);
            self.flush()?;
            self.turn_window(now);
        }
        self.tally.unfinished = self.open() as u64;
        let open = self.open();
        self.window.turn(0, open, &self.windows);
        Ok(())
    }

    /// Devices under way.
    fn open(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// Whether a device gave up so short a time ago that its answer may still come.
    fn lingers(&self) -> bool {
        let linger = self.shared.timeout.min(LINGER);
        self.gave_up.is_some_and(|at| at.elapsed() < linger)
    }

    /// How long to wait for an answer at most. Sets the clock where milliseconds are too coarse.
    fn wait(&mut self, next: Next) -> anyhow::Result<EpollTimeout> {
        let expires = self.waiting.first().and_then(|at| self.slots.get(at));
        let expires = expires.map(|slot| slot.sent + self.shared.timeout);
        let now = Instant::now();
        let mut wait = expires.map_or(LOOK, |at| at.saturating_duration_since(now).min(LOOK));
        match next {
            Next::Now => return Ok(EpollTimeout::ZERO),
            Next::Around(at) => {
                if let Some(at) = at {
                    wait = wait.min((self.began + at).saturating_duration_since(now));
                }
            }
            Next::At(at) => {
                let until = (self.began + at).saturating_duration_since(now);
                if until.is_zero() {
                    return Ok(EpollTimeout::ZERO);
                }
                if until < wait && self.clock_set != Some(at) {
                    self.clock_set = Some(at);
                    let expiration = Expiration::OneShot(TimeSpec::from_duration(until));
                    self.clock.set(expiration, TimerSetTimeFlags::empty())?;
                }
            }
            Next::Never => {}
        }
        let wait_ms = u16::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        Ok(EpollTimeout::from(wait_ms))
    }

    /// Begins the devices whose time has come.
    fn begin_due(&mut self) -> anyhow::Result<Next> {
        for _ in 0..BURST {
            let now = self.began.elapsed();
            match self.pacer.turn(now, self.open()) {
                Turn::User => {
                    let Some(device) = self.next_device() else {
                        return Ok(Next::Never);
                    };
                    self.begin(device, None, now)?;
                }
                Turn::Due(due) => {
                    let room = !self.idle.is_empty() || self.slots.len() < self.most_slots;
                    if !room {
                        self.full = now;
                        if !self.pacer.is_past(now) {
                            return Ok(Next::Around(None));
                        }
                    }
                    let Some(device) = self.next_device() else {
                        return Ok(Next::Never);
                    };
                    self.pacer.took();
                    self.tally.held_back += u64::from(due < self.full);
                    match room {
                        true => self.begin(device, Some(due), now)?,
                        false => self.pass_over(device),
                    }
                }
                Turn::UserLater(at) => return Ok(Next::Around(at)),
                Turn::DueLater(at) => return Ok(Next::At(at)),
                Turn::Over => return Ok(Next::Never),
            }
        }
        Ok(Next::Now)
    }

    /// The next device, if there is one.
    fn next_device(&self) -> Option<Device<'p>> {
        let count = self.shared.count.unwrap_or(u64::MAX);
        let begun = &self.shared.live.begun;
        let more = |begun| (begun < count).then_some(begun + 1);
        let number = begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        self.shared.fleet.device(number)
    }

    /// Begins a device; `due` is when it had to by schedule.
    fn begin(&mut self, device: Device<'p>, due: Option<Duration>, now: Duration) -> anyhow::Result<()> {
        let fleet = &self.shared.fleet;
        let at = match self.idle.pop() {
            Some(at) => at,
            None => {
                let port = self.slots.len() * self.shared.threads + self.thread + 1;
                let port_attributes = fleet.port_attributes(u32::try_from(port)?)?;
                self.slots.push(Slot::new(port_attributes, device));
                self.slots.len() - 1
            }
        };
        self.window.open = self.window.open.max(self.open() as u64);
        let turn = self.devices / DEVICES_OF_TURN;
        self.devices += 1;
        self.window.started += 1;
        let source = fleet.source(device);
        let lane = self.lanes.choose(source, usize::try_from(turn).unwrap_or_default());
        if let Some(slot) = self.slots.get_mut(at) {
            let attempt = fleet.attempt(device, source, &slot.port_attributes, &mut self.scratch)?;
            slot.begin(device, attempt, lane, self.pacer.phase(), self.pacer.users(now));
            if let Some(due) = due {
                self.tally.start_delay(now.saturating_sub(due));
                slot.due = Some(self.began + due);
            }
        }
        self.ask(at)
    }

    /// A device was due, and there was no room for it before the time of its phase was up.
    fn pass_over(&mut self, device: Device<'_>) {
        let most = self.shared.most_open;
        self.fail(
            device,
            self.pacer.phase(),
            0,
            Kind::NotBegun,
            &format!("{most} others were under way all the time"),
        );
    }

    /// Writes a slot's next request.
    fn ask(&mut self, at: usize) -> anyhow::Result<()> {
        let Some(slot) = self.slots.get_mut(at) else {
            return Ok(());
        };
        let Some(attempt) = &mut slot.attempt else {
            return Ok(());
        };
        let authenticator = self.random.next()?;
        let Some(identifier) = self.lanes.claim(slot.lane, at, authenticator) else {
            self.end(
                at,
                Instant::now(),
                Outcome::Failed(Kind::NotSent, "no identifier is free".to_owned()),
            );
            return Ok(());
        };
        slot.identifier = identifier;
        slot.packet.clear();
        attempt
            .request(identifier, authenticator, &mut slot.packet)
            .context("cannot write a request")?;
        slot.transmissions = 0;
        self.tally.requests += 1;
        self.window.sent += 1;
        self.queue(at);
        Ok(())
    }

    /// Takes what has come to a socket, up to one batch: then the others have their turn.
    fn receive(&mut self, at: usize) -> anyhow::Result<()> {
        let mut taken = 0;
        while taken < BATCH {
            let Some(socket) = self.sockets.get(at) else { break };
            let more = match self.receiver.receive(socket) {
                Ok(more) => more,
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECONNREFUSED) => {
                    self.unreachable(Errno::ECONNREFUSED);
                    taken += 1;
                    continue;
                }
                Err(error) => return Err(error).context("cannot receive"),
            };
            let arrived = Instant::now();
            let receiver = std::mem::take(&mut self.receiver);
            for (datagram, to) in receiver.datagrams() {
                taken += 1;
                let source = match (to, self.shared.fleet.sources()) {
                    (Some(to), Some(sources)) => sources.number(to),
                    _ => Some(0),
                };
                if let Some(lane) = source.and_then(|source| self.lanes.find(source, at)) {
                    self.take(lane, datagram, arrived)?;
                }
                if self.queued >= self.shared.fleet.batch() {
                    self.flush()?;
                }
            }
            self.receiver = receiver;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Sends again what was not answered in time, and gives up what was sent often enough.
    fn expire(&mut self, now: Instant) {
        while let Some(at) = self.waiting.first() {
            let Some(slot) = self.slots.get(at) else { break };
            if now.saturating_duration_since(slot.sent) < self.shared.timeout {
                break;
            }
            self.waiting.remove(at);
            if slot.transmissions <= self.shared.retries {
                self.tally.retransmissions += 1;
                self.window.sent += 1;
                self.queue(at);
                continue;
            }
            let example = format!(
                "request {} got no answer, {} times sent, each time waited for {} ms",
                slot.attempt.as_ref().map_or(0, |attempt| attempt.rounds()),
                slot.transmissions,
                self.shared.timeout.as_millis()
            );
            if let Some(lane) = self.lanes.lane(slot.lane) {
                lane.release(slot.identifier, Usage::GivenUp(now));
            }
            self.gave_up = Some(now);
            self.end(at, now, Outcome::Failed(Kind::Timeout, example));
        }
    }

    /// The device of a slot has its answer since `at_time`, or gave up then.
    fn end(&mut self, at: usize, at_time: Instant, outcome: Outcome) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        if slot.attempt.take().is_none() {
            return;
        }
        self.waiting.remove(at);
        self.idle.push(at);
        let latency = at_time.saturating_duration_since(slot.due.unwrap_or(slot.began));
        let (device, phase, users) = (slot.device, slot.phase, slot.users);
        match outcome {
            Outcome::Accepted(_) | Outcome::Refused => {
                match outcome {
                    Outcome::Accepted(handshake) => self.tally.accept(handshake),
                    _ => self.tally.refused += 1,
                }
                self.tally.right(latency, phase, users);
                self.window.right(latency);
                self.shared.live.right.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Failed(kind, example) => self.fail(device, phase, users, kind, &example),
        }
    }

    fn fail(&mut self, device: Device<'_>, phase: usize, users: u32, kind: Kind, example: &str) {
        let fleet = &self.shared.fleet;
        self.tally.fail(phase, users);
        self.tally
            .failure(kind, || format!("{}: {example}", fleet.name(device)));
        self.window.failed += 1;
        self.window.failure(kind);
        self.shared.live.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A failure that belongs to no device any more.
    fn stray(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        self.window.failure(kind);
        self.tally.failure(kind, example);
    }

    /// Hands over the seconds that are past.
    fn turn_window(&mut self, now: Instant) {
        let second = now.saturating_duration_since(self.began).as_secs();
        while self.window.second < second {
            let (next, open) = (self.window.second + 1, self.open());
            self.window.turn(next, open, &self.windows);
        }
    }

    fn ports(&self) -> Vec<u16> {
        let addresses = self.sockets.iter().map(|socket| socket.udp().local_addr());
        addresses.flatten().map(|address| address.port()).collect()
    }
}
