//! What a worker asks its handler, and the replies that come of it until they are sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::batch::{Arrived, Outgoing};
use super::waiting::{BrokenDown, Waiting};
use super::{Arrival, Exchange, Handled, Handler, Lost, MAX_WAITING};

/// Requests that waited and go on in one round, and buffers kept for replies.
const ROUND: usize = 64;

/// The handler, the requests that wait, and the replies that have not left.
pub(super) struct Answers<H: Handler> {
    index: usize,
    local: SocketAddr,
    handler: Arc<H>,
    state: H::Worker,
    waiting: Waiting<(Route, H::Late)>,
    outgoing: Vec<Outgoing>,
    /// Buffers of replies that are gone.
    spare: Vec<Vec<u8>>,
}

/// Where a reply goes, and from where.
#[derive(Clone, Copy, Debug)]
struct Route {
    to: SocketAddr,
    from: Option<IpAddr>,
}

impl Route {
    /// To whoever asked, from the address that was asked. The kernel knows it where the socket is bound to that one, and
    /// finds one for what was sent to a group.
    fn back(arrival: &Arrival<'_>, local: IpAddr) -> Route {
        let asked = arrival.destination;
        Route {
            to: arrival.source,
            from: (asked != local && !asked.is_multicast()).then_some(asked),
        }
    }
}

impl<H: Handler> Answers<H> {
    /// Of worker number `index`, whose socket is bound to `local`. `runtime` is where futures run.
    pub(super) fn new(index: usize, local: SocketAddr, handler: Arc<H>, runtime: Handle) -> std::io::Result<Self> {
        Ok(Answers {
            index,
            local,
            state: handler.worker(index),
            handler,
            waiting: Waiting::new(runtime)?,
            outgoing: Vec::new(),
            spare: Vec::new(),
        })
    }

    pub(super) fn handler(&self) -> &H {
        &self.handler
    }

    /// The requests that wait.
    pub(super) fn waiting(&self) -> &Waiting<impl Send + use<H>> {
        &self.waiting
    }

    /// The replies that have not left, oldest first.
    pub(super) fn outgoing(&self) -> &[Outgoing] {
        &self.outgoing
    }

    /// All replies have left, or were given up.
    pub(super) fn sent(&mut self) {
        while let Some(gone) = self.outgoing.pop() {
            self.recycle(gone.bytes);
        }
    }

    /// Asks about datagrams, at most [`Handler::AT_ONCE`].
    pub(super) fn answer<'d>(&mut self, datagrams: impl IntoIterator<Item = (&'d [u8], Arrived)>, now: Instant) {
        let may_wait = MAX_WAITING.saturating_sub(self.waiting.len());
        let mut exchanges = Vec::with_capacity(H::AT_ONCE);
        for (datagram, arrived) in datagrams {
            let arrival = Arrival {
                datagram,
                source: arrived.source,
                destination: arrived.destination.unwrap_or(self.local.ip()),
                now,
                worker: self.index,
                may_wait: exchanges.len() < may_wait,
            };
            exchanges.push(Exchange {
                arrival,
                reply: self.spare.pop().unwrap_or_default(),
                handled: Handled::Silent,
            });
        }
        self.handler.handle_all(&mut self.state, &mut exchanges);
        for Exchange {
            arrival,
            reply,
            handled,
        } in exchanges
        {
            let route = Route::back(&arrival, self.local.ip());
            self.follow(handled, route, reply);
        }
    }

    /// Goes on with requests that waited and are done by now.
    pub(super) fn resume(&mut self) {
        for late in self.waiting.take(ROUND) {
            self.resume_one(late);
        }
    }

    /// Goes on with the next request that is done, waited for so long; returns whether there was one.
    pub(super) fn resume_within(&mut self, patience: Duration) -> bool {
        let late = self.waiting.wait(patience);
        late.map(|late| self.resume_one(late)).is_some()
    }

    fn resume_one(&mut self, late: Result<(Route, H::Late), BrokenDown>) {
        match late {
            Ok((route, late)) => {
                let mut reply = self.spare.pop().unwrap_or_default();
                let handled = self.handler.resume(&mut self.state, late, Instant::now(), &mut reply);
                self.follow(handled, route, reply);
            }
            Err(BrokenDown) => {
                tracing::error!(worker = self.index, "a request broke down while it waited");
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
            Handled::Later(future) => self.waiting.spawn(async move { (route, future.await) }),
        }
        self.recycle(reply);
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < ROUND {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
