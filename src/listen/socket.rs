//! UDP sockets as RADIUS wants them: several on a port, large buffers, told of the address that was asked, and fragmented
//! where a link needs it.
//!
//! Replies go out without DF: a link on the way that is narrower than the first then fragments them, where a server that
//! relies on path MTU discovery would lose them whenever ICMP is filtered. IPv6 has no such choice (RFC 8200 section 5):
//! there the sender fragments to what it knows of the path.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind as bind_socket, getsockname, getsockopt, setsockopt,
    socket, sockopt,
};

/// Why an address cannot be listened on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Another process, or this one, has the port.
    #[error("cannot listen on {0}: address already in use\nhint: `ss -lunp | grep {port}` shows who has it", port = .0.port())]
    InUse(SocketAddr),
    /// The address is none of this machine's.
    #[error(
        "cannot listen on {0}: no interface has this address\nhint: `ip address` shows those there are; `0.0.0.0` and `[::]` stand for all"
    )]
    NoSuchAddress(SocketAddr),
    /// A port below 1024 without the right to it.
    #[error(
        "cannot listen on {0}: permission denied\nhint: ports below 1024 need CAP_NET_BIND_SERVICE; RADIUS uses 1812"
    )]
    Denied(SocketAddr),
    /// The kernel has no IPv6, or not on this interface.
    #[error(
        "cannot listen on {0}: this machine has no such protocol\nhint: is IPv6 disabled? listen on IPv4 addresses only"
    )]
    NoProtocol(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {address}: {}\nhint: `ulimit -n` shows how many files and sockets are allowed", .errno.desc().to_lowercase())]
    Failed {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        errno: Errno,
    },
}

/// `count` sockets on one address, and that address with the port that was chosen.
///
/// The first is bound alone: with SO_REUSEPORT from the start, a second process of the same user would share the port in
/// silence, and each would get half of the packets. It joins in when it has the port.
pub(super) fn bind(
    address: SocketAddr,
    ipv6_only: bool,
    count: usize,
) -> Result<(Vec<OwnedFd>, SocketAddr), ListenError> {
    let failed = |errno| match errno {
        Errno::EADDRINUSE => ListenError::InUse(address),
        Errno::EADDRNOTAVAIL => ListenError::NoSuchAddress(address),
        Errno::EACCES | Errno::EPERM => ListenError::Denied(address),
        Errno::EAFNOSUPPORT | Errno::EPROTONOSUPPORT => ListenError::NoProtocol(address),
        errno => ListenError::Failed { address, errno },
    };
    let open = |address: SocketAddr, shared: bool| -> Result<OwnedFd, Errno> {
        let socket = open(address, ipv6_only)?;
        if shared {
            setsockopt(&socket, sockopt::ReusePort, &true)?;
        }
        bind_socket(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
        Ok(socket)
    };
    let first = open(address, false).map_err(failed)?;
    let local = local_address(&first).map_err(failed)?;
    let mut sockets = vec![first];
    if count > 1 {
        for first in &sockets {
            setsockopt(first, sockopt::ReusePort, &true).map_err(failed)?;
        }
        for _ in 1..count {
            sockets.push(open(local, true).map_err(failed)?);
        }
    }
    Ok((sockets, local))
}

/// Asks for buffers of these sizes, beyond the system's limit where this process may, and returns the size that the
/// receive buffer got, in octets.
pub(super) fn size_buffers(socket: &OwnedFd, receive_bytes: usize) -> usize {
    /// A batch of the longest replies, as the kernel counts them.
    const SEND_BYTES: usize = 1 << 20;
    if setsockopt(socket, sockopt::RcvBufForce, &receive_bytes).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &receive_bytes);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SEND_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &SEND_BYTES);
    }
    // Linux doubles what was asked for, to make room for its own records: socket(7)
    getsockopt(socket, sockopt::RcvBuf).unwrap_or(0) / 2
}

fn open(address: SocketAddr, ipv6_only: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        Some(super::udp::LOOK_UP_AFTER),
    )
    .map_err(errno)?;
    // a socket of one address knows which one was asked
    let wildcard = address.ip().is_unspecified();
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &(ipv6_only || !wildcard))?;
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &wildcard)?;
    } else {
        setsockopt(&socket, sockopt::Ipv4PacketInfo, &wildcard)?;
    }
    if address.is_ipv4() || (wildcard && !ipv6_only) {
        rustix::net::sockopt::set_ip_mtu_discover(&socket, rustix::net::sockopt::Ipv4PathMtuDiscovery::DONT)
            .map_err(errno)?;
    }
    Ok(socket)
}

fn local_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    let local: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    super::batch::address(&local).ok_or(Errno::EAFNOSUPPORT)
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}
