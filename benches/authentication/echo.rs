//! The floor for what comes in one packet and is answered by one: datagrams sent back by a process that does nothing else.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::portreeve::listen::{Arrival, Handled, Handler, Listener, Settings};

use super::{AT_ONCE, Fallible};

/// Octets of a PAP request and its accept, as measured.
const REQUEST: usize = 174;
const REPLY: usize = 53;

/// Arguments with which this program serves.
pub const ROLE: &str = "--serve-echo";
/// The same through the listener.
pub const ROLE_OF_LISTENER: &str = "--serve-echo-by-listener";

/// The bare one: one socket, one thread, one system call in and one out. Prints its address.
pub fn serve() -> Fallible<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    println!("{}", socket.local_addr()?);
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(buffer.get(..length.min(REPLY)).unwrap_or_default(), from)?;
    }
}

/// The same through Portreeve's listener. Prints its address.
pub fn serve_by_listener() -> Fallible<()> {
    struct Echo;
    impl Handler for Echo {
        type Worker = ();
        type Late = ();
        fn worker(&self, _: usize) {}
        fn handle(&self, (): &mut (), arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Handled<()> {
            reply.extend(arrival.datagram.iter().take(REPLY));
            Handled::Reply
        }
        fn resume(&self, (): &mut (), (): (), _: Instant, _: &mut Vec<u8>) -> Handled<()> {
            Handled::Silent
        }
    }
    let listener = Listener::bind(&["127.0.0.1:0".parse()?], &Settings::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("{}", listener.addresses().first().ok_or("no address")?);
    runtime.block_on(async {
        let mut running = listener.start(Arc::new(Echo))?;
        Ok(running.ended().await?)
    })
}

/// Keeps as many datagrams under way as there are devices at once, for so long, and returns how many came back.
pub fn exchange(server: SocketAddr, for_so_long: Duration) -> Fallible<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    // nothing is lost on loopback
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    for _ in 0..AT_ONCE {
        socket.send(&[7; REQUEST])?;
    }
    let (end, mut count, mut buffer) = (Instant::now() + for_so_long, 0, [0; 4096]);
    let mut under_way = AT_ONCE;
    while under_way > 0 {
        socket.recv(&mut buffer)?;
        count += 1;
        match Instant::now() < end {
            true => _ = socket.send(&[7; REQUEST])?,
            false => under_way -= 1,
        }
    }
    Ok(count)
}
