//! Many datagrams in one system call, both ways, with their addresses.
//!
//! The headers of nix keep what the kernel wrote into them: in a second call there would be only as much room for control
//! messages as the first had filled. They are made anew for each call, for as many datagrams as are likely to be waiting.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg,
};

/// RFC 2865 section 3: the maximum length of a packet is 4,096 octets.
const DATAGRAM_BYTES: usize = 4096;

/// From one datagram's place to the next one's. Were it a multiple of 4,096, the datagrams of a batch would push each other
/// out of the processor's first cache.
const PLACE_BYTES: usize = DATAGRAM_BYTES + 192;

/// Datagrams in one call, at most.
const MAX_BATCH: usize = 64;

/// Datagrams that a call is ready for when little is going on.
const MIN_BATCH: usize = 4;

/// Takes datagrams from one socket.
pub(super) struct Receiver {
    buffers: Box<[u8]>,
    arrived: Vec<Arrived>,
    /// Datagrams that the next call is ready for.
    width: usize,
    /// What the kernel last said it dropped on this socket, wrapping.
    dropped: u32,
}

/// What came with one datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    length: usize,
    /// Not in IPv4-mapped form.
    pub(super) source: SocketAddr,
    /// The address that was asked, where the socket is told; not in IPv4-mapped form.
    pub(super) destination: Option<IpAddr>,
}

impl Arrived {
    #[cfg(test)]
    pub(super) fn from_nowhere() -> Self {
        Arrived {
            length: 0,
            source: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
            destination: None,
        }
    }
}

/// The outcome of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// Datagrams that can now be read by [`Receiver::datagram`].
    pub(super) count: usize,
    /// Whether the socket was empty afterwards.
    pub(super) drained: bool,
    /// Datagrams that the kernel dropped since the last call.
    pub(super) dropped: u32,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Receiver {
            buffers: vec![0; MAX_BATCH * PLACE_BYTES].into_boxed_slice(),
            arrived: Vec::with_capacity(MAX_BATCH),
            width: MIN_BATCH,
            dropped: 0,
        }
    }

    /// Takes what is there, up to [`MAX_BATCH`] datagrams. If `waits`, the first is waited for, as long as the socket's
    /// timeout says. `EAGAIN`: there is nothing.
    pub(super) fn receive(&mut self, socket: RawFd, waits: bool) -> Result<Received, Errno> {
        let flags = match waits {
            true => MsgFlags::MSG_WAITFORONE,
            false => MsgFlags::MSG_DONTWAIT,
        };
        self.arrived.clear();
        let mut dropped = self.dropped;
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(
            self.width,
            Some(nix::cmsg_space!(in6_pktinfo, in_pktinfo, u32)),
        );
        let mut slices = Vec::with_capacity(self.width);
        slices.extend(
            self.buffers
                .chunks_exact_mut(PLACE_BYTES)
                .take(self.width)
                .filter_map(|place| place.get_mut(..DATAGRAM_BYTES))
                .map(|buffer| [IoSliceMut::new(buffer)]),
        );
        for message in recvmmsg(socket, &mut headers, slices.iter_mut(), flags, None)? {
            let mut destination = None;
            for control in message.cmsgs()? {
                match control {
                    ControlMessageOwned::Ipv4PacketInfo(info) => {
                        destination = Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr))));
                    }
                    ControlMessageOwned::Ipv6PacketInfo(info) => {
                        destination = Some(Ipv6Addr::from_octets(info.ipi6_addr.s6_addr).to_canonical());
                    }
                    ControlMessageOwned::RxqOvfl(count) => dropped = count,
                    _ => {}
                }
            }
            // a datagram without an address to answer to is counted, so that the others keep their buffers, and is empty
            let source = message.address.as_ref().and_then(address);
            let length = if source.is_some() { message.bytes } else { 0 };
            let source = source.unwrap_or(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)));
            self.arrived.push(Arrived {
                length,
                source,
                destination,
            });
        }
        let count = self.arrived.len();
        let received = Received {
            count,
            drained: count < self.width,
            dropped: dropped.wrapping_sub(self.dropped),
        };
        self.dropped = dropped;
        self.width = match count {
            full if full >= self.width => (self.width * 2).min(MAX_BATCH),
            few if few < self.width / 4 => (self.width / 2).max(MIN_BATCH),
            _ => self.width,
        };
        Ok(received)
    }

    /// Datagram number `index` of the last call.
    pub(super) fn datagram(&self, index: usize) -> Option<(&[u8], Arrived)> {
        let arrived = *self.arrived.get(index)?;
        let datagram = self
            .buffers
            .chunks_exact(PLACE_BYTES)
            .nth(index)?
            .get(..arrived.length)?;
        Some((datagram, arrived))
    }
}

/// A reply on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) to: SocketAddr,
    /// The address to send it from, where the socket has several.
    pub(super) from: Option<IpAddr>,
}

/// Sends replies, in order, as many of the first ones as leave from the same address, and returns how many the kernel took:
/// at least one. An error is about the first one.
pub(super) fn send(socket: RawFd, ipv6: bool, replies: &[Outgoing]) -> Result<usize, Errno> {
    let from = replies.first().and_then(|first| first.from);
    let together = replies.iter().take(MAX_BATCH).take_while(|reply| reply.from == from);
    let most = replies.len().min(MAX_BATCH);
    let (mut slices, mut to) = (Vec::with_capacity(most), Vec::with_capacity(most));
    for reply in together {
        slices.push([IoSlice::new(&reply.bytes)]);
        to.push(Some(SockaddrStorage::from(of_family(reply.to, ipv6))));
    }
    let (ipv4_info, ipv6_info);
    let (space, control) = match from.map(|from| of_family(SocketAddr::new(from, 0), ipv6)) {
        None => (None, None),
        Some(SocketAddr::V4(from)) => {
            ipv4_info = in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: in_addr {
                    s_addr: from.ip().to_bits().to_be(),
                },
                ipi_addr: in_addr { s_addr: 0 },
            };
            (
                Some(nix::cmsg_space!(in_pktinfo)),
                Some(ControlMessage::Ipv4PacketInfo(&ipv4_info)),
            )
        }
        Some(SocketAddr::V6(from)) => {
            ipv6_info = in6_pktinfo {
                ipi6_addr: in6_addr {
                    s6_addr: from.ip().octets(),
                },
                ipi6_ifindex: 0,
            };
            (
                Some(nix::cmsg_space!(in6_pktinfo)),
                Some(ControlMessage::Ipv6PacketInfo(&ipv6_info)),
            )
        }
    };
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), space);
    let sent = sendmmsg(
        socket,
        &mut headers,
        &slices,
        to,
        control.as_slice(),
        MsgFlags::MSG_DONTWAIT,
    )?;
    Ok(sent.count())
}

/// An address from the kernel; IPv4 not in its mapped form.
pub(super) fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(ipv4) = from.as_sockaddr_in() {
        return Some(SocketAddr::V4(SocketAddrV4::from(*ipv4)));
    }
    let ipv6 = SocketAddrV6::from(*from.as_sockaddr_in6()?);
    Some(match ipv6.ip().to_ipv4_mapped() {
        Some(ipv4) => SocketAddr::V4(SocketAddrV4::new(ipv4, ipv6.port())),
        None => SocketAddr::V6(ipv6),
    })
}

/// An IPv6 socket that serves IPv4 as well wants IPv4 addresses in their mapped form.
fn of_family(address: SocketAddr, ipv6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(ipv4) if ipv6 => {
            SocketAddr::V6(SocketAddrV6::new(ipv4.ip().to_ipv6_mapped(), ipv4.port(), 0, 0))
        }
        other => other,
    }
}
