//! What is counted.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use portreeve::eap::tls::TlsVersion;

use crate::failure::Kind;

/// The counts of one thread, or of all.
#[derive(Debug)]
pub struct Tally {
    /// Authentications that ended in a right accept.
    pub accepted: u64,
    /// Authentications that ended otherwise.
    pub failed: u64,
    /// Authentications that the user interrupted.
    pub unfinished: u64,
    /// Requests, each counted once.
    pub requests: u64,
    /// Times that a request was sent again.
    pub retransmissions: u64,
    /// Second answers to one request.
    pub duplicate_answers: u64,
    /// How long those that were accepted took, from the first request on; nanoseconds.
    pub latency: Histogram<u64>,
    /// Every kind of failure, wrong answers to nobody included.
    pub failures: Vec<Failures>,
    /// What the handshakes agreed on.
    pub handshakes: Vec<(Handshake, u64)>,
    /// When the last genuine answer came.
    pub last_answer: Option<Instant>,
}

/// The failures of one kind.
#[derive(Debug, Clone)]
pub struct Failures {
    pub kind: Kind,
    pub count: u64,
    /// One of them: whose, and what happened.
    pub example: String,
}

/// What a handshake agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    pub version: TlsVersion,
    pub cipher: &'static str,
    pub resumed: bool,
}

impl Tally {
    pub fn new() -> anyhow::Result<Tally> {
        Ok(Tally {
            accepted: 0,
            failed: 0,
            unfinished: 0,
            requests: 0,
            retransmissions: 0,
            duplicate_answers: 0,
            // it grows as needed, so that recording does not fail
            latency: Histogram::new(3)?,
            failures: Vec::new(),
            handshakes: Vec::new(),
            last_answer: None,
        })
    }

    pub fn accept(&mut self, latency: Duration, handshake: Option<Handshake>) {
        self.accepted += 1;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.latency.record(nanoseconds);
        if let Some(handshake) = handshake {
            self.handshake(handshake, 1);
        }
    }

    fn handshake(&mut self, handshake: Handshake, count: u64) {
        match self.handshakes.iter_mut().find(|(known, _)| *known == handshake) {
            Some((_, known)) => *known += count,
            None => self.handshakes.push((handshake, count)),
        }
    }

    /// One more failure of that kind; the text is asked for only once.
    pub fn failure(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        match self.failures.iter_mut().find(|known| known.kind == kind) {
            Some(known) => known.count += 1,
            None => self.failures.push(Failures {
                kind,
                count: 1,
                example: example(),
            }),
        }
    }

    /// What was thought to be a timeout was answered late.
    pub fn late(&mut self, example: impl FnOnce() -> String) {
        if let Some(timeouts) = self.failures.iter_mut().find(|known| known.kind == Kind::Timeout) {
            timeouts.count = timeouts.count.saturating_sub(1);
        }
        self.failures.retain(|known| known.count > 0);
        self.failure(Kind::LateAnswer, example);
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: Tally) {
        self.accepted += other.accepted;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.requests += other.requests;
        self.retransmissions += other.retransmissions;
        self.duplicate_answers += other.duplicate_answers;
        let _ = self.latency.add(&other.latency);
        for failures in other.failures {
            match self.failures.iter_mut().find(|known| known.kind == failures.kind) {
                Some(known) => known.count += failures.count,
                None => self.failures.push(failures),
            }
        }
        for (handshake, count) in other.handshakes {
            self.handshake(handshake, count);
        }
        self.last_answer = self.last_answer.max(other.last_answer);
    }

    /// Brings the failures into the order of their weight: wrong answers first, many before few.
    pub fn sort(&mut self) {
        self.failures
            .sort_by_key(|failures| (!failures.kind.is_wrong_answer(), Reverse(failures.count)));
    }

    /// Wrong answers, those to nobody included.
    pub fn wrong_answers(&self) -> u64 {
        let wrong = self.failures.iter().filter(|failures| failures.kind.is_wrong_answer());
        wrong.map(|failures| failures.count).sum()
    }

    /// Failures that are no wrong answers.
    pub fn other_failures(&self) -> u64 {
        let other = self.failures.iter().filter(|failures| !failures.kind.is_wrong_answer());
        other.map(|failures| failures.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_a_late_answer_is_no_timeout() {
        let (mut one, mut two) = (Tally::new().unwrap(), Tally::new().unwrap());
        one.accept(Duration::from_millis(2), None);
        one.failure(Kind::Timeout, || "a".to_owned());
        two.failure(Kind::Timeout, || "b".to_owned());
        two.failure(Kind::WrongKeys, || "c".to_owned());
        two.accept(Duration::from_secs(10_000), None);
        one.add(two);
        assert_eq!((one.accepted, one.wrong_answers(), one.other_failures()), (2, 1, 2));
        assert!(one.latency.max() > 9_990_000_000_000 && one.latency.min() < 2_010_000);
        one.late(|| "d".to_owned());
        one.late(|| "e".to_owned());
        let kinds: Vec<_> = one.failures.iter().map(|known| (known.kind, known.count)).collect();
        assert_eq!(kinds, [(Kind::WrongKeys, 1), (Kind::LateAnswer, 2)]);
    }
}
