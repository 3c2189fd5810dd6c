//! Replies longer than a link's MTU arrive: network namespaces joined by links of 1,500 and 1,400 octets.
//!
//! Loopback hides this: its MTU is 65,536. The namespaces need root and `ip` (Debian: `iproute2`); without them the tests
//! fail and say so.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portreeve::listen::{Arrival, Handled, Handler, Listener, Settings};
use tokio::runtime::Runtime;

use self::namespace::{Fallible, Namespace, link};

#[path = "common/namespace.rs"]
mod namespace;

/// Answers with as many octets as the request's first two say.
struct Long;

impl Handler for Long {
    type Worker = ();
    type Late = ();

    fn worker(&self, _: usize) {}

    fn handle(&self, (): &mut (), arrival: &Arrival<'_>, reply: &mut Vec<u8>) -> Handled<()> {
        if let Some(length) = arrival.datagram.first_chunk() {
            reply.extend((0..u16::from_be_bytes(*length)).map(|n| (n % 251) as u8));
        }
        Handled::Reply
    }

    fn resume(&self, (): &mut (), (): (), _: Instant, _: &mut Vec<u8>) -> Handled<()> {
        Handled::Silent
    }
}

/// A server that lives as long as the runtime.
fn serve(namespace: &Namespace, addresses: &[&str], runtime: &Runtime) -> Fallible<impl Sized> {
    let addresses: Vec<SocketAddr> = addresses
        .iter()
        .map(|address| address.parse())
        .collect::<Result<_, _>>()?;
    let settings = Settings {
        workers: 1,
        ..Settings::default()
    };
    let listener = namespace.within(|| Ok(Listener::bind(&addresses, &settings)?))?;
    let _guard = runtime.enter();
    Ok(listener.start(Arc::new(Long))?)
}

/// What comes back when so many octets are asked for, once, without a second try.
fn ask(client: &UdpSocket, server: &str, length: u16) -> Fallible<usize> {
    client.send_to(&length.to_be_bytes(), server)?;
    let mut buffer = vec![0; 65_536];
    let received = client
        .recv(&mut buffer)
        .map_err(|error| format!("{length} octets from {server}: {error}"))?;
    let right = buffer
        .iter()
        .take(received)
        .enumerate()
        .all(|(n, octet)| usize::from(*octet) == n % 251);
    if right {
        Ok(received)
    } else {
        Err("the reply's octets are not those that were sent".into())
    }
}

fn client(address: &str) -> Fallible<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(socket)
}

/// A counter of the namespace that the thread is in, such as `Ip: FragCreates`.
fn snmp(protocol: &str, name: &str) -> Fallible<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return Err("no such protocol".into());
    };
    let index = names
        .split_whitespace()
        .position(|word| word == name)
        .ok_or("no such counter")?;
    Ok(values.split_whitespace().nth(index).ok_or("no value")?.parse()?)
}

#[test]
fn a_reply_of_3000_octets_crosses_a_link_of_mtu_1500() -> Fallible<()> {
    let (server, switch) = (Namespace::new()?, Namespace::new()?);
    link(&server, &switch)?;
    server.up("right", 1500, &["10.9.0.1/24", "fd00:9::1/64"])?;
    switch.up("left", 1500, &["10.9.0.2/24", "fd00:9::2/64"])?;
    let runtime = Runtime::new()?;
    let _running = serve(&server, &["0.0.0.0:1812", "[::]:1812"], &runtime)?;
    switch.within(|| {
        let (ipv4, ipv6) = (client("10.9.0.2:0")?, client("[fd00:9::2]:0")?);
        // 1,472 octets fit exactly into one IPv4 packet; 4,096 is the longest that RADIUS knows
        for length in [20, 1472, 1473, 3000, 4096] {
            assert_eq!(ask(&ipv4, "10.9.0.1:1812", length)?, usize::from(length));
            assert_eq!(ask(&ipv6, "[fd00:9::1]:1812", length)?, usize::from(length));
        }
        Ok(())
    })?;
    let fragments = server.within(|| snmp("Ip:", "FragCreates"))?;
    assert!(fragments >= 2 + 3 + 3, "the link did fragment: {fragments}");
    Ok(())
}

#[test]
fn a_narrower_link_on_the_way_fragments_at_the_first_try() -> Fallible<()> {
    // a tunnel behind the first router: with path MTU discovery, the first reply is lost, and all where ICMP is filtered
    let (server, router, switch) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
    link(&server, &router)?;
    link(&router, &switch)?;
    server.up("right", 1500, &["10.9.1.1/24"])?;
    router.up("left", 1500, &["10.9.1.2/24"])?;
    router.up("right", 1400, &["10.9.2.2/24"])?;
    switch.up("left", 1400, &["10.9.2.3/24"])?;
    server.ip("route add default via 10.9.1.2")?;
    switch.ip("route add default via 10.9.2.2")?;
    router.within(|| Ok(fs::write("/proc/sys/net/ipv4/ip_forward", "1")?))?;
    let runtime = Runtime::new()?;
    let _running = serve(&server, &["0.0.0.0:1812"], &runtime)?;
    switch.within(|| {
        let client = client("10.9.2.3:0")?;
        for length in [1372, 1373, 1472, 3000] {
            assert_eq!(ask(&client, "10.9.1.1:1812", length)?, usize::from(length));
        }
        Ok(())
    })
}
