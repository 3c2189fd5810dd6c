//! Sockets towards the server: many datagrams in one system call, both ways.
//!
//! With one source address a socket is bound and connected to the target: what others send does not arrive, and that nobody
//! listens is reported. With many addresses a socket is bound to a port alone, and each datagram says where it comes from
//! (`IP_PKTINFO`): a handful of sockets stands for thousands of switches, where a socket for each would need as many files.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, recvmsg, sendmmsg, sendmsg,
    setsockopt, sockopt,
};
use portreeve::radius::packet::MAX_PACKET_OCTETS;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};

/// Datagrams in one call, at most.
pub const BATCH: usize = 64;
/// Datagrams that a call is ready for when little is going on.
const FEW: usize = 4;
/// One more than a packet may have, so that a longer one is seen to be too long.
const BUFFER_OCTETS: usize = MAX_PACKET_OCTETS + 1;
/// Room for a burst of answers, in octets.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A source port.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    target: SocketAddr,
    /// The same, as the kernel wants it.
    to: SockaddrStorage,
    /// Whether each datagram names its source.
    many: bool,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'d> {
    pub octets: &'d [u8],
    /// Where it comes from, on a socket of many sources.
    pub from: Option<IpAddr>,
}

impl Socket {
    /// With one source: `None` lets the system choose it.
    pub fn single(target: SocketAddr, source: Option<IpAddr>) -> Result<Socket, Errno> {
        let socket = open(target, source)?;
        socket.connect(target).map_err(errno)?;
        Ok(Socket {
            socket,
            target,
            to: SockaddrStorage::from(target),
            many: false,
        })
    }

    /// For any source.
    pub fn many(target: SocketAddr) -> Result<Socket, Errno> {
        let socket = open(target, None)?;
        match target.is_ipv6() {
            true => {
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
                setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
            }
            false => {
                setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
                setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
            }
        }
        Ok(Socket {
            socket,
            target,
            to: SockaddrStorage::from(target),
            many: true,
        })
    }

    pub fn udp(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether each datagram names its source.
    pub fn is_many(&self) -> bool {
        self.many
    }

    /// Sends as many of the first datagrams as the kernel takes in one call: at least one. An error is about the first one,
    /// or, when it says that nobody listens, about one sent before.
    pub fn send(&self, datagrams: &[Datagram<'_>]) -> Result<usize, Errno> {
        match datagrams.first() {
            // nix has one source for all datagrams of a call, and here the next is another's
            Some(Datagram {
                octets,
                from: Some(from),
            }) => self.send_from(octets, *from).map(|()| 1),
            _ => self.send_together(datagrams),
        }
    }

    fn send_together(&self, datagrams: &[Datagram<'_>]) -> Result<usize, Errno> {
        let together = datagrams.iter().take(BATCH);
        let slices: Vec<[IoSlice<'_>; 1]> = together.map(|datagram| [IoSlice::new(datagram.octets)]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), None);
        let connected = [None; BATCH];
        let sent = sendmmsg(self.fd(), &mut headers, &slices, connected, [], MsgFlags::MSG_DONTWAIT)?;
        Ok(sent.count().max(1))
    }

    fn send_from(&self, octets: &[u8], from: IpAddr) -> Result<(), Errno> {
        let (ipv4, ipv6);
        let control = match from {
            IpAddr::V4(from) => {
                ipv4 = in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr {
                        s_addr: from.to_bits().to_be(),
                    },
                    ipi_addr: in_addr { s_addr: 0 },
                };
                ControlMessage::Ipv4PacketInfo(&ipv4)
            }
            IpAddr::V6(from) => {
                ipv6 = in6_pktinfo {
                    ipi6_addr: in6_addr { s6_addr: from.octets() },
                    ipi6_ifindex: 0,
                };
                ControlMessage::Ipv6PacketInfo(&ipv6)
            }
        };
        let slices = [IoSlice::new(octets)];
        let to = Some(&self.to);
        sendmsg(self.fd(), &slices, &[control], MsgFlags::MSG_DONTWAIT, to).map(|_| ())
    }

    /// Takes the errors that came back for what was sent, where the kernel keeps them apart. Whether there were any.
    pub fn take_errors(&self) -> bool {
        let mut any = false;
        while self.many && any_error(self.fd()) {
            any = true;
        }
        any
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// One report of the error queue (`IP_RECVERR`): that there was one is all that is asked.
fn any_error(socket: RawFd) -> bool {
    let mut octets = [0; 64];
    let mut slices = [IoSliceMut::new(&mut octets)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    recvmsg::<SockaddrStorage>(socket, &mut slices, None, flags).is_ok()
}

fn open(target: SocketAddr, source: Option<IpAddr>) -> Result<UdpSocket, Errno> {
    let any = match target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((source.unwrap_or(any), 0)).map_err(errno)?;
    if target.ip().is_loopback() && target.is_ipv4() {
        // no fragments there, so no datagram needs an identification, which takes time to make
        let _ = set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO);
    }
    socket.set_nonblocking(true).map_err(errno)?;
    // beyond the system's limit where this process may
    if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
    }
    Ok(socket)
}

fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw)
}

/// Takes datagrams from sockets.
#[derive(Debug, Default)]
pub struct Receiver {
    buffers: Vec<u8>,
    /// Octets of each datagram, and the address that it was sent to where the socket has many.
    arrived: Vec<(usize, Option<IpAddr>)>,
    /// Datagrams that the next call is ready for.
    width: usize,
}

impl Receiver {
    pub fn new() -> Receiver {
        Receiver {
            buffers: vec![0; BATCH * BUFFER_OCTETS],
            arrived: Vec::with_capacity(BATCH),
            width: FEW,
        }
    }

    /// Takes what is waiting, up to [`BATCH`] datagrams, without waiting. Whether there may be more.
    pub fn receive(&mut self, socket: &Socket) -> Result<bool, Errno> {
        self.arrived.clear();
        // the headers keep what the kernel wrote into them, so they are made anew for each call
        let space = socket.many.then(|| nix::cmsg_space!(in6_pktinfo, in_pktinfo));
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(self.width, space);
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self
            .buffers
            .chunks_exact_mut(BUFFER_OCTETS)
            .take(self.width)
            .map(|buffer| [IoSliceMut::new(buffer)])
            .collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        for message in recvmmsg(socket.fd(), &mut headers, slices.iter_mut(), flags, None)? {
            let mut to = None;
            if socket.many {
                for control in message.cmsgs()? {
                    match control {
                        ControlMessageOwned::Ipv4PacketInfo(info) => {
                            to = Some(Ipv4Addr::from_bits(u32::from_be(info.ipi_addr.s_addr)).into());
                        }
                        ControlMessageOwned::Ipv6PacketInfo(info) => {
                            to = Some(Ipv6Addr::from_octets(info.ipi6_addr.s6_addr).into());
                        }
                        _ => {}
                    }
                }
                // what others send is none of our business: it goes to nobody
                if message.address.as_ref().and_then(address) != Some(socket.target) {
                    to = Some(Ipv4Addr::UNSPECIFIED.into());
                }
            }
            self.arrived.push((message.bytes, to));
        }
        let count = self.arrived.len();
        let more = count >= self.width;
        self.width = match count {
            _ if more => (self.width * 2).min(BATCH),
            few if few < self.width / 4 => (self.width / 2).max(FEW),
            _ => self.width,
        };
        Ok(more)
    }

    /// The datagrams of the last call, with the address that each was sent to where the socket has many.
    pub fn datagrams(&self) -> impl Iterator<Item = (&[u8], Option<IpAddr>)> {
        let buffers = self.buffers.chunks_exact(BUFFER_OCTETS);
        let datagrams = buffers.zip(&self.arrived);
        datagrams.map(|(buffer, (octets, to))| (buffer.get(..*octets).unwrap_or_default(), *to))
    }
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
        (Some(ipv4), _) => Some(SocketAddrV4::from(*ipv4).into()),
        (None, Some(ipv6)) => Some(SocketAddrV6::from(*ipv6).into()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn server(address: &str) -> UdpSocket {
        let server = UdpSocket::bind((address, 0)).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        server
    }

    type Arrived = (Vec<u8>, Option<IpAddr>);

    /// Reads what has come, waiting for it.
    fn receive(receiver: &mut Receiver, socket: &Socket) -> Result<Vec<Arrived>, Errno> {
        loop {
            match receiver.receive(socket) {
                Err(Errno::EAGAIN) => std::thread::sleep(Duration::from_millis(1)),
                other => {
                    other?;
                    return Ok(receiver.datagrams().map(|(octets, to)| (octets.to_vec(), to)).collect());
                }
            }
        }
    }

    #[test]
    fn one_socket_stands_for_many_addresses() {
        for (address, first, second) in [("127.0.0.1", "127.3.0.1", "127.3.0.2"), ("::1", "::1", "::1")] {
            let server = server(address);
            let socket = Socket::many(server.local_addr().unwrap()).unwrap();
            let sources: [IpAddr; 2] = [first.parse().unwrap(), second.parse().unwrap()];
            let datagrams = [(b"a", 0), (b"b", 0), (b"c", 1)].map(|(octets, source)| Datagram {
                octets,
                from: Some(sources[source]),
            });
            let mut sent = 0;
            while sent < datagrams.len() {
                sent += socket.send(&datagrams[sent..]).unwrap();
            }
            let mut octets = [0; 9];
            let mut receiver = Receiver::new();
            for datagram in &datagrams {
                let (count, from) = server.recv_from(&mut octets).unwrap();
                assert_eq!((&octets[..count], Some(from.ip())), (datagram.octets, datagram.from));
                server.send_to(&octets[..count], from).unwrap();
                let echo = receive(&mut receiver, &socket).unwrap();
                assert_eq!(echo, [(datagram.octets.to_vec(), datagram.from)]);
            }
            // what a stranger sends has no address that anybody waits at
            let port = socket.udp().local_addr().unwrap().port();
            UdpSocket::bind((address, 0))
                .unwrap()
                .send_to(b"x", (sources[0], port))
                .unwrap();
            let strange = receive(&mut receiver, &socket).unwrap();
            assert_eq!(strange, [(b"x".to_vec(), Some(Ipv4Addr::UNSPECIFIED.into()))]);
        }
    }

    #[test]
    fn that_nobody_listens_is_said() {
        for many in [false, true] {
            let target = server("127.0.0.1").local_addr().unwrap();
            let source: IpAddr = "127.0.0.9".parse().unwrap();
            let socket = match many {
                true => Socket::many(target).unwrap(),
                false => Socket::single(target, Some(source)).unwrap(),
            };
            let datagram = Datagram {
                octets: b"x",
                from: many.then_some(source),
            };
            assert_eq!(socket.send(&[datagram]), Ok(1));
            let mut receiver = Receiver::new();
            assert_eq!(receive(&mut receiver, &socket), Err(Errno::ECONNREFUSED), "{many}");
            assert_eq!((socket.take_errors(), socket.take_errors()), (many, false));
        }
    }

    #[test]
    fn a_burst_is_taken_in_few_calls() {
        let server = server("127.0.0.1");
        let socket = Socket::single(server.local_addr().unwrap(), None).unwrap();
        let octets: Vec<_> = (0..150_u8).map(|number| [number; 3]).collect();
        let datagrams: Vec<_> = octets.iter().map(|octets| Datagram { octets, from: None }).collect();
        assert_eq!(socket.send(&datagrams), Ok(BATCH));
        assert_eq!(socket.send(&datagrams[BATCH..]), Ok(BATCH));
        assert_eq!(socket.send(&datagrams[2 * BATCH..]), Ok(150 - 2 * BATCH));
        let mut place = [0; 9];
        for _ in 0..150 {
            let (count, from) = server.recv_from(&mut place).unwrap();
            server.send_to(&place[..count], from).unwrap();
        }
        let mut receiver = Receiver::new();
        let calls: Vec<_> =
            std::iter::from_fn(|| receiver.receive(&socket).ok().map(|_| receiver.arrived.len())).collect();
        assert_eq!(calls, [4, 8, 16, 32, 64, 26]);
    }
}
