//! Requests on their way out: together for each socket, and what becomes of those that cannot be sent.

use std::sync::atomic::Ordering;
use std::time::Instant;

use nix::errno::Errno;

use super::{Engine, Outcome};
use crate::failure::Kind;
use crate::lane::Usage;
use crate::socket::Datagram;

impl Engine<'_> {
    /// The slot's request leaves with the next [`Engine::flush`].
    pub(super) fn queue(&mut self, at: usize) {
        let Some(slot) = self.slots.get(at) else { return };
        if let Some(queue) = self.outgoing.get_mut(self.lanes.socket_of(slot.lane)) {
            queue.push(at);
            self.queued += 1;
        }
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        if self.queued == 0 {
            return Ok(());
        }
        self.queued = 0;
        for socket in 0..self.outgoing.len() {
            let Some(queue) = self.outgoing.get_mut(socket).filter(|queue| !queue.is_empty()) else {
                continue;
            };
            let queue = std::mem::take(queue);
            let failed = self.transmit(socket, &queue);
            for (at, error) in failed {
                self.not_sent(at, error);
            }
            if let Some(place) = self.outgoing.get_mut(socket) {
                *place = queue;
                place.clear();
            }
        }
        Ok(())
    }

    /// Sends the requests of these slots, and returns those that could not be sent.
    fn transmit(&mut self, socket: usize, queue: &[usize]) -> Vec<(usize, Errno)> {
        let Some(socket) = self.sockets.get(socket) else {
            return Vec::new();
        };
        let now = Instant::now();
        for at in queue {
            if let Some(slot) = self.slots.get_mut(*at) {
                slot.transmitted(now);
                self.waiting.push(*at);
            }
        }
        let sources = self.shared.fleet.sources().filter(|_| socket.is_many());
        let datagrams: Vec<_> = queue
            .iter()
            .filter_map(|at| self.slots.get(*at))
            .map(|slot| Datagram {
                octets: &slot.packet,
                from: sources.map(|sources| sources.at(self.lanes.source_of(slot.lane) as u64)),
            })
            .collect();
        let (mut sent, mut refused, mut failed) = (0, false, Vec::new());
        while let Some(rest) = datagrams.get(sent..).filter(|rest| !rest.is_empty()) {
            match socket.send(rest) {
                Ok(count) => sent += count,
                // it belongs to what was sent before; what is to be sent now has not been
                Err(Errno::ECONNREFUSED) if !refused => refused = true,
                // the network takes no more at the moment: lost, as a switch would lose it, and sent again in time
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ECONNREFUSED) => {
                    sent += 1;
                    self.tally.not_taken += 1;
                }
                Err(error) => {
                    failed.extend(queue.get(sent).map(|at| (*at, error)));
                    sent += 1;
                }
            }
        }
        if refused {
            self.unreachable(Errno::ECONNREFUSED);
        }
        failed
    }

    fn not_sent(&mut self, at: usize, error: Errno) {
        if let Some(slot) = self.slots.get(at)
            && let Some(lane) = self.lanes.lane(slot.lane)
        {
            lane.release(slot.identifier, Usage::Answered);
        }
        self.end(
            at,
            Instant::now(),
            Outcome::Failed(Kind::NotSent, error.desc().to_lowercase()),
        );
        self.unreachable(error);
    }

    /// Nobody listens at the target, or there is no way to it. Once there was, that is an outage to be measured; before, it
    /// is a mistake.
    pub(super) fn unreachable(&self, error: Errno) {
        let live = &self.shared.live;
        let answered = self.tally.last_answer.is_some() || live.right.load(Ordering::Relaxed) > 0;
        if !answered {
            let _ = live.unreachable.set(error.into());
            live.stop.store(true, Ordering::Relaxed);
        }
    }
}
