//! One thread's work: its sockets, its devices at once, and the time-outs.
//!
//! A slot is a port of the switch: one device after the other. A request is sent again with the same identifier and the
//! same octets from the same port (RFC 5080 section 2.2.1), so the server can see that it is the same. Every answer ends or
//! advances one slot; an answer that is wrong ends it as a failure, although a switch would go on waiting for a right one.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use portreeve::eap::tls::provider;
use portreeve::nas::{Answer, Attempt, Fault};
use portreeve::radius::attribute::Revealing;
use portreeve::radius::packet::MAX_PACKET_OCTETS;
use portreeve::radius::reply::{self, ReplyError};

use crate::attributes::Expectations;
use crate::failure::Kind;
use crate::fleet::Fleet;
use crate::lane::{Lane, Usage};
use crate::tally::{Handshake, Tally};

/// Slots of one source port; each waits for one identifier at most, so that half of them rest.
const SLOTS_OF_LANE: usize = 128;
/// Source ports of a thread, if it has as many slots: a server with several sockets spreads ports over them, and few
/// would be spread unevenly.
const LANES: usize = 16;
/// Devices that begin between two looks at the sockets, so that a start with thousands is no single burst.
const BURST: usize = 64;
/// Datagrams taken from one socket before the others have their turn.
const BATCH: usize = 64;
/// How long late answers are waited for after the end.
const LINGER: Duration = Duration::from_secs(1);

/// What all threads share.
pub struct Plan {
    pub fleet: Fleet,
    pub expectations: Expectations,
    pub target: SocketAddr,
    pub timeout: Duration,
    pub retries: u32,
    /// How many devices there are in all.
    pub count: Option<u64>,
    pub live: Live,
}

/// What the threads and their watcher tell each other while it runs.
#[derive(Default)]
pub struct Live {
    /// [`BEGIN`], [`FINISH`] or [`STOP`].
    pub phase: AtomicU8,
    /// Devices that have begun.
    pub begun: AtomicU64,
    pub accepted: AtomicU64,
    pub failed: AtomicU64,
    /// Why nothing can be sent, and never could.
    pub unreachable: OnceLock<io::Error>,
}

/// New devices begin.
pub const BEGIN: u8 = 0;
/// None begin, those begun are finished.
pub const FINISH: u8 = 1;
/// Nothing is waited for.
pub const STOP: u8 = 2;

/// Works off devices on `slots` ports, numbered from `first_port`.
pub fn work(plan: &Plan, first_port: u32, slots: usize) -> anyhow::Result<Tally> {
    let mut engine = Engine::new(plan, first_port, slots)?;
    engine.run()?;
    Ok(engine.tally)
}

struct Engine<'p> {
    plan: &'p Plan,
    epoll: Epoll,
    lanes: Vec<Lane>,
    slots: Vec<Slot>,
    /// Slots without a device.
    idle: VecDeque<usize>,
    /// When a device last gave up.
    gave_up: Option<Instant>,
    tally: Tally,
}

struct Slot {
    lane: usize,
    port_attributes: Vec<u8>,
    device: u64,
    attempt: Option<Attempt>,
    identifier: u8,
    /// The request that is waited on.
    packet: Vec<u8>,
    began: Instant,
    sent: Instant,
    transmissions: u32,
}

/// What became of a device.
enum Outcome {
    Accepted(Option<Handshake>),
    Failed(Kind, String),
}

impl<'p> Engine<'p> {
    fn new(plan: &'p Plan, first_port: u32, slots: usize) -> anyhow::Result<Engine<'p>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let count = slots.div_ceil(SLOTS_OF_LANE).max(slots.min(LANES));
        let mut lanes = Vec::with_capacity(count);
        for at in 0..count {
            let lane = Lane::open(plan.target).with_context(|| {
                format!(
                    "cannot open a socket to {}\nhint: check the address and `ulimit -n`",
                    plan.target
                )
            })?;
            epoll.add(&lane.socket, EpollEvent::new(EpollFlags::EPOLLIN, at as u64))?;
            lanes.push(lane);
        }
        let now = Instant::now();
        let slots = (0..slots)
            .zip(first_port..)
            .map(|(at, port)| {
                Ok(Slot {
                    lane: at % count,
                    port_attributes: plan.fleet.port_attributes(port)?,
                    device: 0,
                    attempt: None,
                    identifier: 0,
                    packet: Vec::new(),
                    began: now,
                    sent: now,
                    transmissions: 0,
                })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Engine {
            plan,
            epoll,
            lanes,
            idle: (0..slots.len()).collect(),
            slots,
            gave_up: None,
            tally: Tally::new()?,
        })
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let sweep_every = (self.plan.timeout / 50).clamp(Duration::from_millis(1), Duration::from_millis(50));
        let mut next_sweep = Instant::now() + sweep_every;
        let mut ready = vec![EpollEvent::empty(); self.lanes.len()];
        loop {
            let more = self.begin_some()?;
            if self.is_over(more) {
                break;
            }
            let wait_ms = match more {
                true => 0,
                false => next_sweep.saturating_duration_since(Instant::now()).as_millis() + 1,
            };
            let wait = EpollTimeout::from(u16::try_from(wait_ms).unwrap_or(u16::MAX));
            let count = match self.epoll.wait(&mut ready, wait) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in ready.iter().take(count) {
                self.receive(usize::try_from(event.data()).unwrap_or_default())?;
            }
            let now = Instant::now();
            if now >= next_sweep {
                self.sweep(now)?;
                next_sweep = now + sweep_every;
            }
        }
        let open = self.slots.iter().filter(|slot| slot.attempt.is_some()).count();
        self.tally.unfinished = u64::try_from(open).unwrap_or_default();
        Ok(())
    }

    /// Whether there is nothing left to wait for.
    fn is_over(&self, more: bool) -> bool {
        if self.plan.live.phase.load(Ordering::Relaxed) == STOP {
            return true;
        }
        let linger = self.plan.timeout.min(LINGER);
        let late = self.gave_up.is_some_and(|at| at.elapsed() < linger);
        !more && !late && self.idle.len() == self.slots.len()
    }

    /// Begins devices in idle slots. Whether there are more to begin at once.
    fn begin_some(&mut self) -> anyhow::Result<bool> {
        let live = &self.plan.live;
        for _ in 0..BURST {
            if live.phase.load(Ordering::Relaxed) != BEGIN {
                return Ok(false);
            }
            let Some(at) = self.idle.front().copied() else {
                return Ok(false);
            };
            let count = self.plan.count.unwrap_or(u64::MAX);
            if live.begun.load(Ordering::Relaxed) >= count {
                return Ok(false);
            }
            let device = live.begun.fetch_add(1, Ordering::Relaxed);
            if device >= count {
                return Ok(false);
            }
            self.idle.pop_front();
            if let Some(slot) = self.slots.get_mut(at) {
                slot.device = device;
                slot.attempt = Some(self.plan.fleet.attempt(device, &slot.port_attributes)?);
                slot.began = Instant::now();
            }
            self.ask(at)?;
        }
        Ok(!self.idle.is_empty())
    }

    /// Writes and sends a slot's next request.
    fn ask(&mut self, at: usize) -> anyhow::Result<()> {
        let Some(slot) = self.slots.get_mut(at) else {
            return Ok(());
        };
        let (Some(attempt), Some(lane)) = (&mut slot.attempt, self.lanes.get_mut(slot.lane)) else {
            return Ok(());
        };
        let mut authenticator = [0; 16];
        provider()
            .secure_random
            .fill(&mut authenticator)
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
        let Some(identifier) = lane.claim(at, authenticator) else {
            self.end(at, Outcome::Failed(Kind::NotSent, "no identifier is free".to_owned()));
            return Ok(());
        };
        slot.identifier = identifier;
        slot.packet.clear();
        attempt
            .request(identifier, authenticator, &mut slot.packet)
            .context("cannot write a request")?;
        slot.transmissions = 0;
        self.tally.requests += 1;
        self.transmit(at)
    }

    fn transmit(&mut self, at: usize) -> anyhow::Result<()> {
        let Some(slot) = self.slots.get_mut(at) else {
            return Ok(());
        };
        let Some(lane) = self.lanes.get_mut(slot.lane) else {
            return Ok(());
        };
        slot.sent = Instant::now();
        slot.transmissions += 1;
        match lane.send(&slot.packet) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.unreachable(error),
            Err(error) => {
                lane.release(slot.identifier, Usage::Answered);
                self.end(at, Outcome::Failed(Kind::NotSent, error.to_string()));
                self.unreachable(error);
            }
        }
        Ok(())
    }

    /// Nobody listens at the target, or there is no way to it. Once there was, that is an outage to be measured; before, it
    /// is a mistake.
    fn unreachable(&self, error: io::Error) {
        let live = &self.plan.live;
        let answered = self.tally.last_answer.is_some() || live.accepted.load(Ordering::Relaxed) > 0;
        if !answered {
            let _ = live.unreachable.set(error);
            live.phase.store(STOP, Ordering::Relaxed);
        }
    }

    /// Takes what has come to a lane.
    fn receive(&mut self, lane: usize) -> anyhow::Result<()> {
        let mut datagram = [0; MAX_PACKET_OCTETS + 1];
        for _ in 0..BATCH {
            let Some(socket) = self.lanes.get(lane).map(|lane| &lane.socket) else {
                return Ok(());
            };
            match socket.recv(&mut datagram) {
                Ok(octets) => self.take(lane, datagram.get(..octets).unwrap_or_default())?,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::ConnectionRefused => self.unreachable(error),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error).context("cannot receive"),
                },
            }
        }
        Ok(())
    }

    /// Takes one datagram.
    fn take(&mut self, lane_at: usize, datagram: &[u8]) -> anyhow::Result<()> {
        let Some(lane) = self.lanes.get_mut(lane_at) else {
            return Ok(());
        };
        let Some(&identifier) = datagram.get(1) else {
            let octets = datagram.len();
            self.tally
                .failure(Kind::MalformedPacket, || format!("a datagram of {octets} octets"));
            return Ok(());
        };
        let (usage, authenticator) = lane.usage(identifier);
        let secret = &self.plan.fleet.secret;
        let at = match usage {
            Usage::Waiting(at) => at,
            Usage::Never => {
                let example = || format!("an answer with the identifier {identifier}, which no request had yet");
                self.tally.failure(Kind::Unasked, example);
                return Ok(());
            }
            Usage::Answered | Usage::GivenUp(_) => {
                match (reply::verify(datagram, identifier, &authenticator, secret), usage) {
                    (Ok(_), Usage::GivenUp(at)) => {
                        lane.release(identifier, Usage::Answered);
                        let after = at.elapsed().as_millis();
                        self.tally.last_answer = Some(Instant::now());
                        self.tally
                            .late(|| format!("an answer came {after} ms after its device had given up"));
                    }
                    (Ok(_), _) => self.tally.duplicate_answers += 1,
                    (Err(_), _) if answers_earlier(lane, identifier, datagram, self.plan) => {
                        self.tally.duplicate_answers += 1;
                    }
                    (Err(error), _) => self.tally.failure(Kind::of_reply(&error), || {
                        format!("to a request that nobody waits on: {error}")
                    }),
                }
                return Ok(());
            }
        };
        let Some(attempt) = self.slots.get_mut(at).and_then(|slot| slot.attempt.as_mut()) else {
            return Ok(());
        };
        let outcome = match attempt.reply(datagram) {
            Ok(Answer::Challenge) => None,
            Ok(Answer::Accept(packet)) => {
                let revealing = Revealing {
                    secret,
                    request_authenticator: &authenticator,
                };
                Some(match self.plan.expectations.check(&packet, revealing) {
                    Ok(()) => Outcome::Accepted(handshake(attempt)),
                    Err(wrong) => Outcome::Failed(Kind::WrongAttributes, wrong),
                })
            }
            Ok(Answer::Reject(_, failure)) => {
                let example = failure
                    .as_ref()
                    .map_or("the server rejected".to_owned(), ToString::to_string);
                Some(Outcome::Failed(Kind::of_reject(failure.as_ref()), example))
            }
            Err(Fault::Reply(ReplyError::ResponseAuthenticator))
                if answers_earlier(lane, identifier, datagram, self.plan) =>
            {
                self.tally.duplicate_answers += 1;
                return Ok(());
            }
            Err(fault) => Some(Outcome::Failed(Kind::of_fault(&fault), fault.to_string())),
        };
        lane.release(identifier, Usage::Answered);
        self.tally.last_answer = Some(Instant::now());
        match outcome {
            Some(outcome) => self.end(at, outcome),
            None => self.ask(at)?,
        }
        Ok(())
    }

    /// Sends again what was not answered in time, and gives up what was sent often enough.
    fn sweep(&mut self, now: Instant) -> anyhow::Result<()> {
        for at in 0..self.slots.len() {
            let Some(slot) = self.slots.get(at) else { break };
            let waited = now.saturating_duration_since(slot.sent);
            let (Some(attempt), true) = (&slot.attempt, waited >= self.plan.timeout) else {
                continue;
            };
            if slot.transmissions <= self.plan.retries {
                self.tally.retransmissions += 1;
                self.transmit(at)?;
                continue;
            }
            let example = format!(
                "request {} got no answer, {} times sent, each time waited for {} ms",
                attempt.rounds(),
                slot.transmissions,
                self.plan.timeout.as_millis()
            );
            let (lane, identifier) = (slot.lane, slot.identifier);
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.release(identifier, Usage::GivenUp(now));
            }
            self.gave_up = Some(now);
            self.end(at, Outcome::Failed(Kind::Timeout, example));
        }
        Ok(())
    }

    /// The device of a slot has its answer, or gave up.
    fn end(&mut self, at: usize, outcome: Outcome) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        slot.attempt = None;
        self.idle.push_back(at);
        let live = &self.plan.live;
        match outcome {
            Outcome::Accepted(handshake) => {
                self.tally.accept(slot.began.elapsed(), handshake);
                live.accepted.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Failed(kind, example) => {
                let mac = self.plan.fleet.mac(slot.device);
                self.tally.failed += 1;
                self.tally.failure(kind, || format!("{mac}: {example}"));
                live.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Whether it answers the request that had the identifier before.
fn answers_earlier(lane: &Lane, identifier: u8, datagram: &[u8], plan: &Plan) -> bool {
    lane.earlier(identifier)
        .is_some_and(|earlier| reply::verify(datagram, identifier, &earlier, &plan.fleet.secret).is_ok())
}

fn handshake(attempt: &Attempt) -> Option<Handshake> {
    let peer = attempt.peer()?;
    Some(Handshake {
        version: peer.tls_version()?,
        cipher: peer.cipher()?,
        resumed: peer.resumed(),
    })
}
