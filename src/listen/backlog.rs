//! What a worker in overload has taken from the kernel and not yet answered, sorted.
//!
//! A kernel's queue is first in, first out, and drops whatever comes when it is full. Where one exchange takes several
//! packets, that spends the time on beginnings: of four packets that all have to get through, some are dropped, and what was
//! done for the others is lost. So a worker that falls behind sorts: what goes on with something begun comes first and is
//! finished, and as much is begun as there is time for.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::batch::Arrived;

/// Octets of datagrams that come first. They are few: each belongs to something that was begun when there was time.
const FIRST_OCTETS: usize = 4 << 20;

/// Octets of the others: no more than can be begun within [`PATIENCE`].
const OTHER_OCTETS: usize = 256 << 10;

/// What could not be begun for so long is dropped. Clients wait for two seconds and more before they ask again, and what
/// they get after it is answered only once.
const PATIENCE: Duration = Duration::from_millis(500);

/// A worker for which nothing came first for so long need not sort: the kernel's drops are the cheapest.
const UNSORTED_AFTER: Duration = Duration::from_secs(1);

/// A datagram kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) arrived: Arrived,
    since: Instant,
}

/// Datagrams in the order in which they are answered.
#[derive(Debug)]
pub(super) struct Backlog {
    first: Queue,
    others: Queue,
    /// When something last came that comes first.
    sorted: Instant,
    /// Buffers to keep datagrams in. Made and given back one by one, they would leave the heap in pieces.
    spare: Vec<Vec<u8>>,
}

impl Backlog {
    /// An empty one, for a worker to which something just came that comes first.
    pub(super) fn new(now: Instant) -> Self {
        Backlog {
            first: Queue::new(FIRST_OCTETS),
            others: Queue::new(OTHER_OCTETS),
            sorted: now,
            spare: Vec::new(),
        }
    }

    /// Keeps a datagram; returns whether there was room.
    pub(super) fn keep(&mut self, datagram: &[u8], arrived: Arrived, comes_first: bool, now: Instant) -> bool {
        let queue = match comes_first {
            true => &mut self.first,
            false => &mut self.others,
        };
        if comes_first {
            self.sorted = now;
        }
        // an empty datagram takes room as well
        let octets = queue.octets + datagram.len() + size_of::<Kept>();
        if octets > queue.most {
            return false;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(datagram);
        queue.octets = octets;
        queue.kept.push_back(Kept {
            bytes,
            arrived,
            since: now,
        });
        true
    }

    /// The next to be answered, and how many were dropped because their time was over.
    pub(super) fn next(&mut self, now: Instant) -> (Option<Kept>, u64) {
        if let Some(first) = self.first.pop() {
            return (Some(first), 0);
        }
        let mut dropped = 0;
        while let Some(kept) = self.others.pop() {
            if now.saturating_duration_since(kept.since) <= PATIENCE {
                return (Some(kept), dropped);
            }
            dropped += 1;
            self.done(kept);
        }
        (None, dropped)
    }

    /// A datagram was answered.
    pub(super) fn done(&mut self, mut kept: Kept) {
        kept.bytes.clear();
        self.spare.push(kept.bytes);
    }

    /// Whether more is to be taken from the kernel before this is done.
    pub(super) fn sorts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.sorted) < UNSORTED_AFTER
    }
}

#[derive(Debug)]
struct Queue {
    kept: VecDeque<Kept>,
    octets: usize,
    most: usize,
}

impl Queue {
    fn new(most: usize) -> Self {
        Queue {
            kept: VecDeque::new(),
            octets: 0,
            most,
        }
    }

    fn pop(&mut self) -> Option<Kept> {
        let kept = self.kept.pop_front()?;
        self.octets -= kept.bytes.len() + size_of::<Kept>();
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(backlog: &mut Backlog, datagram: &[u8], comes_first: bool, now: Instant) -> bool {
        backlog.keep(datagram, Arrived::from_nowhere(), comes_first, now)
    }

    fn next(backlog: &mut Backlog, now: Instant) -> (Option<Vec<u8>>, u64) {
        let (kept, dropped) = backlog.next(now);
        (kept.map(|kept| kept.bytes), dropped)
    }

    #[test]
    fn what_comes_first_comes_first_and_each_kind_in_its_order() {
        let now = Instant::now();
        let mut backlog = Backlog::new(now);
        for (datagram, comes_first) in [(b"a", false), (b"b", true), (b"c", false), (b"d", true)] {
            assert!(keep(&mut backlog, datagram, comes_first, now));
        }
        for datagram in [b"b", b"d", b"a", b"c"] {
            assert_eq!(next(&mut backlog, now), (Some(datagram.to_vec()), 0));
        }
        assert_eq!(next(&mut backlog, now), (None, 0));
    }

    #[test]
    fn what_nobody_waits_for_is_dropped_unless_it_was_begun() {
        let now = Instant::now();
        let mut backlog = Backlog::new(now);
        let late = now + PATIENCE + Duration::from_millis(1);
        keep(&mut backlog, b"a", false, now);
        keep(&mut backlog, b"b", false, now);
        keep(&mut backlog, b"c", false, late);
        keep(&mut backlog, b"d", true, now);
        assert_eq!(next(&mut backlog, late), (Some(b"d".to_vec()), 0));
        assert_eq!(next(&mut backlog, late), (Some(b"c".to_vec()), 2));
        assert_eq!(next(&mut backlog, late), (None, 0));
    }

    #[test]
    fn both_kinds_are_bounded_and_their_room_comes_back() {
        let now = Instant::now();
        let mut backlog = Backlog::new(now);
        for (comes_first, most) in [(true, FIRST_OCTETS), (false, OTHER_OCTETS)] {
            for datagram in [&[0; 200][..], &[]] {
                let mut kept = 0;
                while keep(&mut backlog, datagram, comes_first, now) {
                    kept += 1;
                }
                assert_eq!(kept, most / (datagram.len() + size_of::<Kept>()));
                for _ in 0..kept {
                    assert!(next(&mut backlog, now).0.is_some());
                }
                assert_eq!(next(&mut backlog, now), (None, 0));
            }
        }
    }

    #[test]
    fn a_worker_sorts_while_something_comes_first() {
        let now = Instant::now();
        let mut backlog = Backlog::new(now);
        keep(&mut backlog, b"a", true, now + UNSORTED_AFTER);
        keep(&mut backlog, b"b", false, now + UNSORTED_AFTER * 2);
        assert!(backlog.sorts(now + UNSORTED_AFTER * 3 / 2));
        assert!(!backlog.sorts(now + UNSORTED_AFTER * 2));
    }
}
