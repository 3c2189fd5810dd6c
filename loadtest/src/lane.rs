//! One source port: a socket, and what its 256 identifiers were used for.
//!
//! Identifiers are used in turn, not the same one again and again: so an answer that comes late, or a second time, finds the
//! request that it answers, and is not taken for a wrong answer to a new one.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use nix::sys::socket::{setsockopt, sockopt};

/// Room for the answers to all identifiers at once, in octets.
const RECEIVE_BUFFER: usize = 1 << 20;

/// What an identifier was used for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Never,
    /// This slot waits for the answer.
    Waiting(usize),
    /// The answer has come.
    Answered,
    /// The device gave up then.
    GivenUp(Instant),
}

#[derive(Clone, Copy, Debug)]
struct Identifier {
    usage: Usage,
    /// Of its request.
    authenticator: [u8; 16],
    /// Of the request before that, if there was one.
    earlier: Option<[u8; 16]>,
}

/// One source port.
#[derive(Debug)]
pub struct Lane {
    pub socket: UdpSocket,
    identifiers: Vec<Identifier>,
    next: u8,
}

impl Lane {
    /// A socket with a port of its own, for `target` alone: what others send does not arrive.
    pub fn open(target: SocketAddr) -> io::Result<Lane> {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(target)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        Ok(Lane {
            socket,
            identifiers: vec![
                Identifier {
                    usage: Usage::Never,
                    authenticator: [0; 16],
                    earlier: None,
                };
                256
            ],
            next: 0,
        })
    }

    /// The next identifier that nobody waits on, for a request of `slot` with this authenticator. `None` when all 256 are
    /// waited on.
    pub fn claim(&mut self, slot: usize, authenticator: [u8; 16]) -> Option<u8> {
        for _ in 0..self.identifiers.len() {
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            let identifier = self.identifiers.get_mut(usize::from(number))?;
            if !matches!(identifier.usage, Usage::Waiting(_)) {
                identifier.earlier = (identifier.usage != Usage::Never).then_some(identifier.authenticator);
                identifier.authenticator = authenticator;
                identifier.usage = Usage::Waiting(slot);
                return Some(number);
            }
        }
        None
    }

    /// Nobody waits on it any more.
    pub fn release(&mut self, number: u8, usage: Usage) {
        if let Some(identifier) = self.identifiers.get_mut(usize::from(number)) {
            identifier.usage = usage;
        }
    }

    /// What it was used for last, with that request's authenticator.
    pub fn usage(&self, number: u8) -> (Usage, [u8; 16]) {
        self.identifiers
            .get(usize::from(number))
            .map_or((Usage::Never, [0; 16]), |identifier| {
                (identifier.usage, identifier.authenticator)
            })
    }

    /// The authenticator of the request before the last one.
    pub fn earlier(&self, number: u8) -> Option<[u8; 16]> {
        self.identifiers.get(usize::from(number))?.earlier
    }

    /// Sends a request. That an earlier one found nobody listening is reported by `Err`, after this one was sent.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        match self.socket.send(packet) {
            Ok(_) => Ok(()),
            // the error belongs to a packet sent before; this one has not been sent
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.socket.send(packet)?;
                Err(error)
            }
            // the network takes no more at the moment: lost, as a switch would lose it, and sent again in time
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_used_in_turn_and_those_waited_on_are_left_alone() {
        let target = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut lane = Lane::open(target.local_addr().unwrap()).unwrap();
        assert_eq!(lane.usage(0).0, Usage::Never);
        for slot in 0..256 {
            assert_eq!(lane.claim(slot, [1; 16]), Some(slot as u8));
        }
        assert_eq!(lane.claim(256, [2; 16]), None);
        lane.release(7, Usage::Answered);
        lane.release(3, Usage::GivenUp(Instant::now()));
        assert_eq!(lane.claim(256, [2; 16]), Some(3));
        assert_eq!(lane.claim(257, [3; 16]), Some(7));
        assert_eq!(lane.usage(7), (Usage::Waiting(257), [3; 16]));
        assert_eq!((lane.earlier(7), lane.earlier(8)), (Some([1; 16]), None));
    }
}
