//! Listeners: datagrams in, datagrams out.
//!
//! A [`Listener`] binds its sockets, then starts one worker for each; a worker takes batches of datagrams from the kernel,
//! asks its [`Handler`] about a few at a time, and sends the replies in batches from the addresses that were asked. What a
//! datagram means is the handler's business: nothing here knows RADIUS beyond the size of its packets (RFC 2865 section 3:
//! at most 4,096 octets; octets beyond the packet's Length are padding, so that a longer datagram may be cut there).
//!
//! Several sockets share one port (SO_REUSEPORT): the kernel keeps a client's source port on one of them, so what belongs
//! to a socket, such as the table of duplicates, needs no lock.

mod answers;
mod backlog;
mod batch;
mod socket;
mod udp;
mod waiting;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

pub use socket::ListenError;

/// What answers the datagrams of a listener.
pub trait Handler: Send + Sync + 'static {
    /// What a worker keeps for itself, such as its duplicates: reached without a lock.
    type Worker: Send + 'static;
    /// What a request that had to wait comes back with.
    type Late: Send + 'static;

    /// The state of worker number `index`, made once when it starts.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Answers one datagram, in microseconds rather than milliseconds: other clients of the socket wait meanwhile.
    /// `reply` is empty, and sent if the answer is [`Handled::Reply`].
    fn handle(&self, worker: &mut Self::Worker, arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Handled<Self::Late>;

    /// How many datagrams it likes to answer in one call: it has a way that takes less time than one by one. The replies
    /// to all of them leave together, so that the first waits for the last.
    const AT_ONCE: usize = 1;

    /// Answers at most [`Handler::AT_ONCE`] datagrams: fills in `reply` and `handled` of each.
    fn handle_all(&self, worker: &mut Self::Worker, exchanges: &mut [Exchange<'_, Self::Late>]) {
        for exchange in exchanges {
            exchange.handled = self.handle(worker, &exchange.arrival, &mut exchange.reply);
        }
    }

    /// Goes on with a request that waited. It may wait again.
    fn resume(
        &self,
        worker: &mut Self::Worker,
        late: Self::Late,
        now: Instant,
        reply: &mut Vec<u8>,
    ) -> Handled<Self::Late>;

    /// Whether this datagram is answered before others when there are more than can be: it goes on with something that
    /// was begun, or asks whether there is still somebody here. Asked only then.
    fn comes_first(&self, datagram: &[u8], source: SocketAddr) -> bool {
        let _ = (datagram, source);
        false
    }

    /// Something was lost outside the handler's sight; it is to be counted.
    fn lost(&self, lost: Lost, count: u64) {
        let _ = (lost, count);
    }
}

/// One datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its octets, cut to 4,096.
    pub datagram: &'a [u8],
    /// Who sent it; an IPv4 address is never in its IPv6-mapped form.
    pub source: SocketAddr,
    /// The address that was asked, from which the reply goes out.
    pub destination: IpAddr,
    /// The time of the call.
    pub now: Instant,
    /// The number of the worker that took it.
    pub worker: usize,
    /// Whether [`Handled::Later`] is allowed. It is not when [`MAX_WAITING`] requests of this worker wait already, those that
    /// are answered together with this one and may have to wait among them.
    pub may_wait: bool,
}

/// A datagram and what becomes of it.
pub struct Exchange<'a, L> {
    /// The datagram.
    pub arrival: Arrival<'a>,
    /// Empty, for the octets of the reply.
    pub reply: Vec<u8>,
    /// No answer, unless the handler says otherwise.
    pub handled: Handled<L>,
}

/// What became of a datagram.
pub enum Handled<L> {
    /// The octets in `reply` go back to the source.
    Reply,
    /// No answer.
    Silent,
    /// The answer needs something that takes time: when the future is done, [`Handler::resume`] goes on with what it
    /// yields. It runs on the runtime that started the listener and must end by itself within seconds.
    Later(Pin<Box<dyn Future<Output = L> + Send>>),
}

/// What was lost outside the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Datagrams that the kernel dropped, since a socket's receive buffer was full.
    InKernel,
    /// Datagrams that a worker in overload had no time for.
    InOverload,
    /// Replies that could not be sent.
    Reply,
    /// Requests that were still waiting when the listener had to end, or whose future panicked.
    Waiting,
}

/// How a listener works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sockets for each address, each with a worker, a thread of its own. Fewer than there are processors leave some
    /// idle; more cost memory and gain nothing.
    pub workers: usize,
    /// The receive buffer of each socket, in octets as the kernel counts them (a packet of 200 octets takes about 800).
    /// Too low, and a burst is lost while the worker is busy; too high, and in overload answers go to packets that the
    /// client gave up long ago.
    pub receive_buffer_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Settings {
            workers,
            receive_buffer_bytes: 4 << 20,
        }
    }
}

/// How many requests of one worker may wait for something at a time.
pub const MAX_WAITING: usize = 4096;

/// Bound sockets: from here on datagrams queue in the kernel.
#[derive(Debug)]
pub struct Listener {
    sockets: Vec<Bound>,
    addresses: Vec<SocketAddr>,
}

#[derive(Debug)]
struct Bound {
    socket: OwnedFd,
    local: SocketAddr,
}

impl Listener {
    /// Binds `settings.workers` sockets to each address. Port 0 lets the kernel choose; [`Listener::addresses`] tells.
    ///
    /// `[::]` serves IPv4 as well, unless an IPv4 address with the same port is among `addresses`: then it is for IPv6
    /// only, so that both can be bound.
    pub fn bind(addresses: &[SocketAddr], settings: &Settings) -> Result<Listener, ListenError> {
        let mut listener = Listener {
            sockets: Vec::new(),
            addresses: Vec::new(),
        };
        let mut least_bytes = usize::MAX;
        for address in addresses {
            let ipv6_only = addresses
                .iter()
                .any(|other| other.is_ipv4() && other.port() == address.port());
            let (sockets, local) = socket::bind(*address, ipv6_only, settings.workers.max(1))?;
            for socket in &sockets {
                least_bytes = least_bytes.min(socket::size_buffers(socket, settings.receive_buffer_bytes));
            }
            listener
                .sockets
                .extend(sockets.into_iter().map(|socket| Bound { socket, local }));
            listener.addresses.push(local);
        }
        if least_bytes < settings.receive_buffer_bytes {
            tracing::warn!(
                wanted_bytes = settings.receive_buffer_bytes,
                given_bytes = least_bytes,
                "the kernel gives a smaller receive buffer than configured, and bursts may be lost; \
                 hint: `sysctl -w net.core.rmem_max={}`, or run with CAP_NET_ADMIN",
                settings.receive_buffer_bytes,
            );
        }
        Ok(listener)
    }

    /// What is bound, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where each worker will listen, by its number.
    pub fn worker_addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|bound| bound.local).collect()
    }

    /// How many workers there will be.
    pub fn workers(&self) -> usize {
        self.sockets.len()
    }

    /// Starts the workers. To be called within a tokio runtime: requests that have to wait do so there.
    pub fn start<H: Handler>(self, handler: Arc<H>) -> std::io::Result<Running> {
        let waiting = tokio::runtime::Handle::try_current().map_err(std::io::Error::other)?;
        let (stop, stopping) = watch::channel(None);
        let (ends, ended) = mpsc::channel(self.sockets.len().max(1));
        let workers = self.sockets.len();
        for (index, bound) in self.sockets.into_iter().enumerate() {
            let worker = udp::Worker::new(index, bound, handler.clone(), waiting.clone(), stopping.clone())?;
            let end = EndOfWorker {
                index,
                failed: true,
                ends: ends.clone(),
            };
            std::thread::Builder::new()
                .name(format!("radius-{index}"))
                .spawn(move || {
                    worker.run();
                    end.in_good_order();
                })?;
        }
        Ok(Running {
            addresses: self.addresses,
            stop,
            ended,
            workers,
        })
    }
}

/// A listener at work. Dropped, it stops at once.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<SocketAddr>,
    stop: watch::Sender<Option<Duration>>,
    ended: mpsc::Receiver<(usize, bool)>,
    workers: usize,
}

/// A worker ended that nobody had told to.
#[derive(Debug, thiserror::Error)]
#[error("the listener's worker {0} broke down\nhint: its message is in the log above; report it")]
pub struct WorkerFailed(pub usize);

impl Running {
    /// What is bound.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// No datagram is taken any more; requests that wait have so long to be answered.
    pub fn stop(&self, patience: Duration) {
        self.stop.send_replace(Some(patience));
    }

    /// Returns when all workers have stopped, or as soon as one broke down. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<(), WorkerFailed> {
        while let Some((index, failed)) = self.ended.recv().await {
            if failed {
                return Err(WorkerFailed(index));
            }
        }
        Ok(())
    }
}

/// Tells of the end of a worker's thread, however it came.
struct EndOfWorker {
    index: usize,
    failed: bool,
    ends: mpsc::Sender<(usize, bool)>,
}

impl EndOfWorker {
    fn in_good_order(mut self) {
        self.failed = false;
    }
}

impl Drop for EndOfWorker {
    fn drop(&mut self) {
        // the channel has a place for each worker
        let _ = self.ends.try_send((self.index, self.failed));
    }
}
