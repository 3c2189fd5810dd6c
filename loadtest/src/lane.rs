//! Lanes: a source address and port, and what its 256 identifiers were used for.
//!
//! Identifiers are used in turn, not the same one again and again: so an answer that comes late, or a second time, finds the
//! request that it answers, and is not taken for a wrong answer to a new one. Where there are thousands of lanes, each
//! begins with few identifiers, and takes more when it needs them.

use std::time::Instant;

/// Identifiers of a lane.
const IDENTIFIERS: usize = 256;
/// Identifiers that all lanes of a thread begin with together, at most; each has eight.
const IDENTIFIERS_AT_FIRST: usize = 1 << 16;

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

const UNUSED: Identifier = Identifier {
    usage: Usage::Never,
    authenticator: [0; 16],
    earlier: None,
};

/// One source address and port.
#[derive(Debug, Default)]
pub struct Lane {
    identifiers: Vec<Identifier>,
    next: usize,
}

impl Lane {
    /// The next identifier that nobody waits on, for a request of `slot` with this authenticator. `None` when all 256 are
    /// waited on.
    fn claim(&mut self, slot: usize, authenticator: [u8; 16], at_first: usize) -> Option<u8> {
        if self.identifiers.is_empty() {
            self.identifiers.resize(at_first, UNUSED);
        }
        let used = self.identifiers.len();
        let free = (self.next..used)
            .chain(0..self.next)
            .find(|number| !matches!(self.usage_of(*number), Usage::Waiting(_)));
        let number = match free {
            Some(number) => number,
            None if used < IDENTIFIERS => {
                self.identifiers.resize((used * 2).min(IDENTIFIERS), UNUSED);
                used
            }
            None => return None,
        };
        self.next = (number + 1) % self.identifiers.len();
        let identifier = self.identifiers.get_mut(number)?;
        identifier.earlier = (identifier.usage != Usage::Never).then_some(identifier.authenticator);
        identifier.authenticator = authenticator;
        identifier.usage = Usage::Waiting(slot);
        u8::try_from(number).ok()
    }

    fn usage_of(&self, number: usize) -> Usage {
        self.identifiers
            .get(number)
            .map_or(Usage::Never, |identifier| identifier.usage)
    }

    /// Nobody waits on it any more.
    pub fn release(&mut self, number: u8, usage: Usage) {
        if let Some(identifier) = self.identifiers.get_mut(usize::from(number)) {
            identifier.usage = usage;
        }
    }

    /// What it was used for last, with that request's authenticator.
    pub fn usage(&self, number: u8) -> (Usage, [u8; 16]) {
        let identifier = self.identifiers.get(usize::from(number)).unwrap_or(&UNUSED);
        (identifier.usage, identifier.authenticator)
    }

    /// The authenticator of the request before the last one.
    pub fn earlier(&self, number: u8) -> Option<[u8; 16]> {
        self.identifiers.get(usize::from(number))?.earlier
    }
}

/// The lanes of one thread: so many ports for each source, spread over the sockets.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Of each source.
    ports: usize,
    sockets: usize,
    at_first: usize,
}

impl Lanes {
    /// For `sources` addresses and `in_flight` requests, on at least `least` sockets if there are as many requests: a
    /// server with several sockets spreads ports over them, and few would be spread unevenly.
    pub fn new(sources: usize, in_flight: usize, least: usize) -> Lanes {
        let least = least.min(in_flight).max(1);
        // half of the identifiers rest
        let ports = in_flight
            .div_ceil(IDENTIFIERS / 2 * sources)
            .max(least.div_ceil(sources));
        let count = ports * sources;
        Lanes {
            lanes: std::iter::repeat_with(Lane::default).take(count).collect(),
            ports,
            sockets: least.min(count).max(ports),
            at_first: (IDENTIFIERS_AT_FIRST / count).clamp(8, IDENTIFIERS),
        }
    }

    /// How many sockets they need.
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// A lane of a source; `turn` spreads devices over its ports.
    pub fn choose(&self, source: usize, turn: usize) -> usize {
        source * self.ports + turn % self.ports
    }

    /// The lane of a source on a socket.
    pub fn find(&self, source: usize, socket: usize) -> Option<usize> {
        let first = source * self.ports;
        let at = (socket + self.sockets - first % self.sockets) % self.sockets;
        (at < self.ports && first + at < self.lanes.len()).then_some(first + at)
    }

    pub fn socket_of(&self, lane: usize) -> usize {
        lane % self.sockets
    }

    pub fn source_of(&self, lane: usize) -> usize {
        lane / self.ports
    }

    /// See [`Lane::claim`].
    pub fn claim(&mut self, lane: usize, slot: usize, authenticator: [u8; 16]) -> Option<u8> {
        self.lanes.get_mut(lane)?.claim(slot, authenticator, self.at_first)
    }

    pub fn lane(&mut self, lane: usize) -> Option<&mut Lane> {
        self.lanes.get_mut(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_used_in_turn_and_those_waited_on_are_left_alone() {
        for at_first in [256, 8] {
            let mut lane = Lane::default();
            assert_eq!(lane.usage(0).0, Usage::Never);
            for slot in 0..256 {
                assert_eq!(lane.claim(slot, [1; 16], at_first), Some(slot as u8));
            }
            assert_eq!(lane.claim(256, [2; 16], at_first), None);
            lane.release(7, Usage::Answered);
            lane.release(3, Usage::GivenUp(Instant::now()));
            assert_eq!(lane.claim(256, [2; 16], at_first), Some(3));
            assert_eq!(lane.claim(257, [3; 16], at_first), Some(7));
            assert_eq!(lane.usage(7), (Usage::Waiting(257), [3; 16]));
            assert_eq!((lane.earlier(7), lane.earlier(8)), (Some([1; 16]), None));
        }
    }

    #[test]
    fn an_idle_lane_keeps_few_identifiers_in_turn() {
        let mut lane = Lane::default();
        for at in 0..20 {
            let number = lane.claim(0, [1; 16], 8).unwrap();
            assert_eq!(usize::from(number), at % 8);
            lane.release(number, Usage::Answered);
        }
    }

    #[test]
    fn every_lane_is_found_by_its_source_and_socket() {
        for (sources, in_flight, sockets, ports) in [
            (1, 1, 1, 1),
            (1, 64, 16, 16),
            (1, 16_384, 128, 128),
            (3, 64, 16, 6),
            (17_500, 64, 16, 1),
            (10, 65_536, 52, 52),
        ] {
            let lanes = Lanes::new(sources, in_flight, 16);
            assert_eq!(
                (lanes.sockets(), lanes.ports),
                (sockets, ports),
                "{sources} {in_flight}"
            );
            for lane in 0..lanes.lanes.len() {
                let (source, socket) = (lanes.source_of(lane), lanes.socket_of(lane));
                assert!(source < sources && socket < sockets);
                assert_eq!(lanes.find(source, socket), Some(lane));
            }
            let chosen: std::collections::HashSet<_> = (0..ports).map(|turn| lanes.choose(sources - 1, turn)).collect();
            assert_eq!(chosen.len(), ports);
            assert_eq!(lanes.find(sources, 0), None);
        }
    }
}
