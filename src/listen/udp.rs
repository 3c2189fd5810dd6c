//! One worker: one socket, one thread, one loop.
//!
//! A round takes a batch, answers it, sends the replies in one system call, and looks at what else there is: requests that
//! waited and can go on, the order to stop. Requests that waited come first, since they are older. A batch whose answers
//! take long (TLS) is sent piece by piece, so that the first need not wait for the last.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant as Deadline, timeout_at};

use super::batch::{self, Outgoing, Received, Receiver};
use super::{Arrival, Bound, Handled, Handler, Lost, MAX_WAITING};

/// Replies leave at the latest when so much time went into the requests behind them.
const SEND_AFTER: Duration = Duration::from_micros(500);

/// How long a full send buffer is waited for, before replies are given up; the client asks again in a second or more.
const SEND_PATIENCE: Duration = Duration::from_millis(100);

/// After an error of the socket that is not about one datagram.
const PAUSE: Duration = Duration::from_millis(10);

/// Requests that waited and go on in one round, and buffers kept for replies.
const ROUND: usize = 64;

/// One line in so long about the same trouble.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// What a worker needs to start.
pub(super) struct Worker<H: Handler> {
    runtime: Runtime,
    waiting: Handle,
    stopping: watch::Receiver<Option<Duration>>,
    bound: Bound,
    index: usize,
    handler: Arc<H>,
}

impl<H: Handler> Worker<H> {
    /// `waiting` is where the futures of requests that have to wait run.
    pub(super) fn new(
        index: usize,
        bound: Bound,
        handler: Arc<H>,
        waiting: Handle,
        stopping: watch::Receiver<Option<Duration>>,
    ) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Worker {
            runtime,
            waiting,
            stopping,
            bound,
            index,
            handler,
        })
    }

    /// Works until told to stop. An error is one of the runtime: the socket cannot be watched.
    pub(super) fn run(self) -> std::io::Result<()> {
        let Worker {
            runtime,
            waiting,
            stopping,
            bound,
            index,
            handler,
        } = self;
        runtime.block_on(async move {
            let socket = UdpSocket::from_std(bound.socket.into())?;
            let mut round = Round {
                index,
                local: bound.local,
                state: handler.worker(index),
                handler,
                socket,
                receiver: Receiver::new(),
                waiting: JoinSet::new(),
                waiting_on: waiting,
                outgoing: Vec::new(),
                spare: Vec::new(),
                complaint: Complaint::default(),
            };
            let patience = round.work(stopping).await?;
            round.finish(patience).await;
            Ok(())
        })
    }
}

struct Round<H: Handler> {
    index: usize,
    local: SocketAddr,
    handler: Arc<H>,
    state: H::Worker,
    socket: UdpSocket,
    receiver: Receiver,
    waiting: JoinSet<(Route, H::Late)>,
    waiting_on: Handle,
    outgoing: Vec<Outgoing>,
    /// Buffers of replies that are gone.
    spare: Vec<Vec<u8>>,
    complaint: Complaint,
}

/// Where a reply goes, and from where.
#[derive(Clone, Copy, Debug)]
struct Route {
    to: SocketAddr,
    from: Option<IpAddr>,
}

enum Event<L> {
    Stop(Duration),
    Late(Result<(Route, L), JoinError>),
    Datagrams(Result<Received, Errno>),
}

impl<H: Handler> Round<H> {
    /// Until told to stop; returns how long requests that wait may still do so.
    async fn work(&mut self, mut stopping: watch::Receiver<Option<Duration>>) -> std::io::Result<Duration> {
        loop {
            let event = tokio::select! {
                biased;
                // an error: nobody is left who could ask for patience
                _ = stopping.changed() => Event::Stop(stopping.borrow().unwrap_or_default()),
                Some(late) = self.waiting.join_next() => Event::Late(late),
                ready = self.socket.readable() => {
                    ready?;
                    Event::Datagrams(receive(&mut self.receiver, &self.socket))
                }
            };
            match event {
                Event::Stop(patience) => return Ok(patience),
                Event::Late(first) => self.resume(first),
                Event::Datagrams(Ok(received)) => {
                    if received.dropped > 0 {
                        self.handler.lost(Lost::InKernel, u64::from(received.dropped));
                    }
                    self.answer(received.count).await;
                }
                Event::Datagrams(Err(Errno::EAGAIN | Errno::EINTR)) => {}
                Event::Datagrams(Err(errno)) if is_about_an_earlier_reply(errno) => {}
                Event::Datagrams(Err(errno)) => {
                    self.complaint.say(1, |count| {
                        tracing::error!(worker = self.index, %errno, count, "cannot receive");
                    });
                    tokio::time::sleep(PAUSE).await;
                }
            }
            self.send().await;
        }
    }

    /// Requests that wait are still answered, for so long.
    async fn finish(&mut self, patience: Duration) {
        let deadline = Deadline::now() + patience;
        while let Ok(Some(late)) = timeout_at(deadline, self.waiting.join_next()).await {
            self.resume(late);
            self.send().await;
        }
        if !self.waiting.is_empty() {
            tracing::warn!(
                worker = self.index,
                count = self.waiting.len(),
                "stopped before these requests were answered"
            );
            self.handler.lost(Lost::Waiting, self.waiting.len() as u64);
        }
    }

    /// Answers the datagrams of the last call.
    async fn answer(&mut self, count: usize) {
        let mut now = Instant::now();
        let mut sent = now;
        for index in 0..count {
            if now.saturating_duration_since(sent) >= SEND_AFTER {
                self.send().await;
                sent = now;
            }
            let Some((datagram, arrived)) = self.receiver.datagram(index) else {
                break;
            };
            let mut reply = self.spare.pop().unwrap_or_default();
            let destination = arrived.destination.unwrap_or(self.local.ip());
            let arrival = Arrival {
                datagram,
                source: arrived.source,
                destination,
                now,
                worker: self.index,
                may_wait: self.waiting.len() < MAX_WAITING,
            };
            let handled = self.handler.handle(&mut self.state, &arrival, &mut reply);
            // a reply to what was sent to a group leaves from wherever the kernel likes
            let from = arrived.destination.filter(|asked| !asked.is_multicast());
            let to = arrived.source;
            self.follow(handled, Route { to, from }, reply);
            now = Instant::now();
        }
    }

    /// Goes on with a request that waited, and with others that are done by now.
    fn resume(&mut self, first: Result<(Route, H::Late), JoinError>) {
        self.resume_one(first);
        for _ in 1..ROUND {
            match self.waiting.try_join_next() {
                Some(next) => self.resume_one(next),
                None => break,
            }
        }
    }

    fn resume_one(&mut self, late: Result<(Route, H::Late), JoinError>) {
        match late {
            Ok((route, late)) => {
                let mut reply = self.spare.pop().unwrap_or_default();
                let handled = self.handler.resume(&mut self.state, late, Instant::now(), &mut reply);
                self.follow(handled, route, reply);
            }
            Err(error) => {
                tracing::error!(worker = self.index, %error, "a request broke down while it waited");
                self.handler.lost(Lost::Waiting, 1);
            }
        }
    }

    fn follow(&mut self, handled: Handled<H::Late>, route: Route, reply: Vec<u8>) {
        match handled {
            Handled::Reply if !reply.is_empty() => {
                return self.outgoing.push(Outgoing {
                    bytes: reply,
                    to: route.to,
                    from: route.from,
                });
            }
            Handled::Reply | Handled::Silent => {}
            Handled::Later(_) if self.waiting.len() >= MAX_WAITING => self.handler.lost(Lost::Waiting, 1),
            Handled::Later(future) => {
                self.waiting
                    .spawn_on(async move { (route, future.await) }, &self.waiting_on);
            }
        }
        self.recycle(reply);
    }

    /// Sends all replies. What the kernel does not take is counted, and said now and then.
    async fn send(&mut self) {
        let (mut first, mut lost) = (0, 0);
        let (mut deadline, mut again) = (None, false);
        while let Some(rest @ [next, ..]) = self.outgoing.get(first..) {
            let errno = match send(&self.socket, self.local.is_ipv6(), rest) {
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
                    let deadline = *deadline.get_or_insert_with(|| Deadline::now() + SEND_PATIENCE);
                    if let Ok(Ok(())) = timeout_at(deadline, self.socket.writable()).await {
                        continue;
                    }
                    (rest.len(), "the send buffer stays full")
                }
                errno => (1, errno.desc()),
            };
            (first, lost, again) = (first + given_up, lost + given_up as u64, false);
            self.complaint.say(given_up as u64, |count| {
                tracing::warn!(worker = self.index, to = %next.to, count, error = why, "cannot send replies");
            });
        }
        if lost > 0 {
            self.handler.lost(Lost::Reply, lost);
        }
        while let Some(gone) = self.outgoing.pop() {
            self.recycle(gone.bytes);
        }
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < ROUND {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// Takes a batch. When the socket has no more, its readiness is taken back at once, which saves asking it again.
fn receive(receiver: &mut Receiver, socket: &UdpSocket) -> Result<Received, Errno> {
    let mut received = Err(Errno::EAGAIN);
    let _ = socket.try_io(Interest::READABLE, || {
        received = receiver.receive(socket.as_raw_fd());
        match received {
            Ok(Received { drained: true, .. }) | Err(Errno::EAGAIN) => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    });
    received
}

/// Sends what the kernel takes. `EAGAIN` takes the socket's readiness back.
fn send(socket: &UdpSocket, ipv6: bool, replies: &[Outgoing]) -> Result<usize, Errno> {
    let mut sent = Err(Errno::EAGAIN);
    let _ = socket.try_io(Interest::WRITABLE, || {
        sent = batch::send(socket.as_raw_fd(), ipv6, replies);
        match sent {
            Err(Errno::EAGAIN) => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    });
    sent
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
