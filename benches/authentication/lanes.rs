//! The client of the measured servers: lanes that each have a port and one exchange at a time, all on this thread.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use super::Fallible;

/// Exchanges under way at once.
pub const LANES: usize = 32;

/// No answer for so long ends the benchmark: nothing is lost on loopback.
const PATIENCE: Duration = Duration::from_secs(5);

/// One lane.
pub struct Lane<S> {
    /// What its exchanges keep.
    pub state: S,
    /// Where it asks.
    pub port: Port,
}

/// A UDP port of a lane's own.
pub struct Port {
    socket: UdpSocket,
    buffer: Vec<u8>,
}

impl Port {
    /// Sends a datagram, and returns the answer.
    pub async fn ask(&mut self, datagram: &[u8]) -> Fallible<&[u8]> {
        self.socket.send(datagram).await?;
        let received = tokio::time::timeout(PATIENCE, self.socket.recv(&mut self.buffer)).await;
        let length = received.map_err(|_| format!("no answer within {PATIENCE:?}"))??;
        Ok(self.buffer.get(..length).unwrap_or_default())
    }
}

/// Does `work` again and again on every lane, for so long, and returns how often it was done.
pub fn run<S: 'static>(
    server: SocketAddr,
    for_so_long: Duration,
    state: impl Fn(usize) -> Fallible<S>,
    work: impl AsyncFn(&mut Lane<S>) -> Fallible<()> + Clone + 'static,
) -> Fallible<u64> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, async {
        let end = Instant::now() + for_so_long;
        let mut lanes = JoinSet::new();
        for index in 0..LANES {
            let socket = UdpSocket::bind("127.0.0.1:0").await?;
            socket.connect(server).await?;
            let port = Port {
                socket,
                buffer: vec![0; 4096],
            };
            let (mut lane, work) = (
                Lane {
                    state: state(index)?,
                    port,
                },
                work.clone(),
            );
            lanes.spawn_local(async move {
                let mut done = 0;
                while Instant::now() < end {
                    work(&mut lane).await?;
                    done += 1;
                }
                Fallible::Ok(done)
            });
        }
        let mut done = 0;
        while let Some(lane) = lanes.join_next().await {
            done += lane??;
        }
        Ok(done)
    })
}
