//! One worker: one socket, one thread, one loop.
//!
//! A round takes a batch, answers it, sends the replies in one system call, and looks at what else there is: requests that
//! waited and can go on, the order to stop. Requests that waited come first, since they are older. A batch whose answers
//! take long (TLS) is sent piece by piece, so that the first need not wait for the last, but only for those that the handler
//! answers together with it ([`Handler::AT_ONCE`]).
//!
//! A worker with nothing to do sleeps in the call that receives, so that there are two system calls for a batch, whatever
//! its size. While requests wait it listens for them too, and polls before it receives. A worker that falls behind sorts
//! what has come: [`super::backlog`].

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::answers::Answers;
use super::backlog::Backlog;
use super::batch::{self, Received, Receiver};
use super::{Bound, Handler, Lost};

/// A worker that sleeps looks up after so long, whether it is to stop.
pub(super) const LOOK_UP_AFTER: Duration = Duration::from_millis(100);

/// Replies leave as soon as so much time went into the requests behind them; looked at after each few that the handler answers
/// together.
const SEND_AFTER: Duration = Duration::from_micros(500);

/// How long a full send buffer is waited for, before replies are given up; the client asks again in a second or more.
const SEND_PATIENCE: Duration = Duration::from_millis(100);

/// A worker is behind when its socket was never found empty for so long.
const BEHIND_AFTER: Duration = Duration::from_millis(100);

/// Batches that a worker which is behind takes in one round, to sort them.
const BATCHES: usize = 64;

/// After an error of the socket that is not about one datagram.
const PAUSE: Duration = Duration::from_millis(10);

/// One line in so long about the same trouble.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// A socket and what answers its datagrams.
pub(super) struct Worker<H: Handler> {
    index: usize,
    local: SocketAddr,
    socket: OwnedFd,
    stopping: watch::Receiver<Option<Duration>>,
    receiver: Receiver,
    answers: Answers<H>,
    /// Since when the socket was never found empty.
    full_since: Option<Instant>,
    /// What was taken to be sorted, while the worker is behind.
    backlog: Option<Backlog>,
    trouble: Complaint,
    overload: Complaint,
}

impl<H: Handler> Worker<H> {
    /// `runtime` is where the futures of requests that have to wait run.
    pub(super) fn new(
        index: usize,
        bound: Bound,
        handler: Arc<H>,
        runtime: Handle,
        stopping: watch::Receiver<Option<Duration>>,
    ) -> std::io::Result<Self> {
        Ok(Worker {
            index,
            local: bound.local,
            socket: bound.socket,
            stopping,
            receiver: Receiver::new(),
            answers: Answers::new(index, bound.local, handler, runtime)?,
            full_since: None,
            backlog: None,
            trouble: Complaint::default(),
            overload: Complaint::default(),
        })
    }

    /// Works until told to stop.
    pub(super) fn run(mut self) {
        let patience = loop {
            if let Some(patience) = self.told_to_stop() {
                break patience;
            }
            if !self.answers.waiting().is_empty() {
                self.answers.resume();
                self.send();
            }
            match self.backlog.take() {
                None => self.answer_in_turn(),
                Some(backlog) => self.answer_sorted(backlog),
            }
            self.send();
        };
        self.finish(patience);
    }

    /// How long requests that wait may still do so.
    fn told_to_stop(&mut self) -> Option<Duration> {
        match self.stopping.has_changed() {
            Ok(false) => None,
            Ok(true) => *self.stopping.borrow_and_update(),
            // nobody is left who could ask for patience
            Err(_) => Some(Duration::ZERO),
        }
    }

    fn finish(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        while !self.answers.waiting().is_empty() && self.answers.resume_within(left()) {
            self.send();
        }
        let unanswered = self.answers.waiting().len();
        if unanswered > 0 {
            tracing::warn!(
                worker = self.index,
                count = unanswered,
                "stopped before these requests were answered"
            );
            self.answers.handler().lost(Lost::Waiting, unanswered as u64);
        }
    }

    /// Waits for datagrams, and answers them in the order in which they came.
    fn answer_in_turn(&mut self) {
        let sleeps = self.answers.waiting().is_empty();
        if !sleeps && !self.poll() {
            return;
        }
        let Some(received) = self.receive(sleeps) else {
            self.full_since = None;
            return;
        };
        let (mut now, mut index) = (Instant::now(), 0);
        if self.is_behind(received, now) {
            let mut backlog = Backlog::new(now);
            self.sort(received, &mut backlog, now);
            self.backlog = Some(backlog);
            return;
        }
        let mut sent = now;
        while index < received.count {
            let several = index..received.count.min(index + H::AT_ONCE);
            index = several.end;
            let datagrams = several.filter_map(|index| self.receiver.datagram(index));
            self.answers.answer(datagrams, now);
            now = Instant::now();
            if now.saturating_duration_since(sent) >= SEND_AFTER {
                self.send();
                sent = now;
            }
        }
    }

    /// Whether there is more than can be answered, and something in it that comes first.
    fn is_behind(&mut self, received: Received, now: Instant) -> bool {
        if received.drained {
            self.full_since = None;
            return false;
        }
        let since = *self.full_since.get_or_insert(now);
        let mut datagrams = (0..received.count).filter_map(|index| self.receiver.datagram(index));
        now.saturating_duration_since(since) >= BEHIND_AFTER
            && datagrams.any(|(datagram, arrived)| self.answers.handler().comes_first(datagram, arrived.source))
    }

    /// Takes what has come, and answers some of it, in the order of the backlog.
    fn answer_sorted(&mut self, mut backlog: Backlog) {
        let start = Instant::now();
        if backlog.sorts(start) {
            for _ in 0..BATCHES {
                let Some(received) = self.receive(false) else {
                    break;
                };
                self.sort(received, &mut backlog, start);
                if received.drained {
                    break;
                }
            }
        }
        let (mut now, mut lost) = (start, 0);
        let is_worked_off = loop {
            if now.saturating_duration_since(start) >= SEND_AFTER {
                break false;
            }
            let mut several = Vec::with_capacity(H::AT_ONCE);
            while several.len() < H::AT_ONCE {
                let (next, dropped) = backlog.next(now);
                lost += dropped;
                match next {
                    Some(next) => several.push(next),
                    None => break,
                }
            }
            if several.is_empty() {
                break true;
            }
            self.answers
                .answer(several.iter().map(|kept| (&*kept.bytes, kept.arrived)), now);
            several.into_iter().for_each(|kept| backlog.done(kept));
            now = Instant::now();
        };
        self.no_time_for(lost);
        match is_worked_off {
            true => self.full_since = None,
            false => self.backlog = Some(backlog),
        }
    }

    fn sort(&mut self, received: Received, backlog: &mut Backlog, now: Instant) {
        let mut lost = 0;
        for index in 0..received.count {
            if let Some((datagram, arrived)) = self.receiver.datagram(index) {
                let comes_first = self.answers.handler().comes_first(datagram, arrived.source);
                lost += u64::from(!backlog.keep(datagram, arrived, comes_first, now));
            }
        }
        self.no_time_for(lost);
    }

    fn no_time_for(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.answers.handler().lost(Lost::InOverload, count);
        self.overload.say(count, |count| {
            tracing::warn!(
                worker = self.index,
                count,
                "more requests than can be answered: what was begun is finished first, and new requests are dropped"
            );
        });
    }

    /// Waits for datagrams and for requests that are done; whether there are datagrams.
    fn poll(&self) -> bool {
        let mut sources = [self.socket.as_fd(), self.answers.waiting().bell().as_fd()]
            .map(|source| PollFd::new(source, PollFlags::POLLIN));
        let patience = PollTimeout::try_from(LOOK_UP_AFTER).unwrap_or(PollTimeout::ZERO);
        // an error of the socket is for the call that receives
        poll(&mut sources, patience).is_ok() && sources.first().and_then(PollFd::any) == Some(true)
    }

    /// Takes a batch; `None`: there is none.
    fn receive(&mut self, sleeps: bool) -> Option<Received> {
        let errno = match self.receiver.receive(self.socket.as_raw_fd(), sleeps) {
            Ok(received) => {
                if received.dropped > 0 {
                    self.answers.handler().lost(Lost::InKernel, received.dropped.into());
                }
                return Some(received);
            }
            Err(errno) => errno,
        };
        if !matches!(errno, Errno::EAGAIN | Errno::EINTR) && !is_about_an_earlier_reply(errno) {
            self.trouble.say(1, |count| {
                tracing::error!(worker = self.index, %errno, count, "cannot receive");
            });
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// Sends all replies. What the kernel does not take is counted, and said now and then.
    fn send(&mut self) {
        let (mut first, mut lost) = (0, 0);
        let (mut deadline, mut again) = (None, false);
        while let Some(rest @ [next, ..]) = self.answers.outgoing().get(first..) {
            let errno = match batch::send(self.socket.as_raw_fd(), self.local.is_ipv6(), rest) {
                Ok(count) => {
                    (first, again) = (first + count.max(1), false);
                    continue;
                }
                Err(errno) => errno,
            };
            let (given_up, why) = match errno {
                Errno::EINTR => continue,
                errno if is_about_an_earlier_reply(errno) && !again => {
                    again = true;
                    continue;
                }
                Errno::EAGAIN => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + SEND_PATIENCE);
                    let patience = deadline.saturating_duration_since(Instant::now());
                    if !patience.is_zero() && self.may_send_within(patience) {
                        continue;
                    }
                    (rest.len(), "the send buffer stays full")
                }
                errno => (1, errno.desc()),
            };
            (first, lost, again) = (first + given_up, lost + given_up as u64, false);
            self.trouble.say(given_up as u64, |count| {
                tracing::warn!(worker = self.index, to = %next.to, count, error = why, "cannot send replies");
            });
        }
        if lost > 0 {
            self.answers.handler().lost(Lost::Reply, lost);
        }
        self.answers.sent();
    }

    fn may_send_within(&self, patience: Duration) -> bool {
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        poll(&mut socket, patience).is_ok_and(|ready| ready > 0)
    }
}

/// What ICMP says of a datagram that left long ago. It is reported by the next call, whatever that is about.
fn is_about_an_earlier_reply(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EPROTO
    )
}

/// Says the same thing once in [`COMPLAIN_EVERY`], with how often it happened.
#[derive(Debug, Default)]
struct Complaint {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaint {
    fn say(&mut self, count: u64, say: impl FnOnce(u64)) {
        self.unsaid = self.unsaid.saturating_add(count);
        if self.last.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            self.last = Some(Instant::now());
            say(std::mem::take(&mut self.unsaid));
        }
    }
}
