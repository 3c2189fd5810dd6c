//! What is counted.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use portreeve::eap::tls::TlsVersion;

use crate::failure::Kind;
use crate::profile::Profile;

/// The counts of one thread, or of all.
#[derive(Debug)]
pub struct Tally {
    /// Authentications that ended in a right accept.
    pub accepted: u64,
    /// Authentications that ended in a reject, and had to.
    pub refused: u64,
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
    /// Requests and retransmissions that this machine's network did not take.
    pub not_taken: u64,
    /// Devices that were due when as many were under way as may be.
    pub held_back: u64,
    /// How many requests were answered that had been sent once, twice …
    pub answered: Vec<u64>,
    /// How long the answers took since their requests were sent last, nanoseconds: at least, for an answer does not say to
    /// which of the transmissions it was given.
    pub answer: Histogram<u64>,
    /// How long those took that ended as they must, nanoseconds: from the first request on, or from when they were due. Of
    /// the tallies that were added.
    pub latency: Histogram<u64>,
    /// How much later than they were due devices began, nanoseconds; where there is a schedule.
    pub start_delay: Histogram<u64>,
    /// Of each phase of the profile.
    pub phases: Vec<Counts>,
    /// Of each number of users that is told apart.
    pub levels: Vec<(u32, Counts)>,
    /// Every kind of failure, wrong answers to nobody included.
    pub failures: Vec<Failures>,
    /// What the handshakes agreed on.
    pub handshakes: Vec<(Handshake, u64)>,
    /// When the last genuine answer came.
    pub last_answer: Option<Instant>,
}

/// A part of the authentications.
#[derive(Debug)]
pub struct Counts {
    /// Those that ended as they must.
    pub right: u64,
    pub failed: u64,
    /// Of those that ended as they must, nanoseconds.
    pub latency: Histogram<u64>,
}

impl Counts {
    fn new() -> anyhow::Result<Counts> {
        Ok(Counts {
            right: 0,
            failed: 0,
            latency: histogram()?,
        })
    }

    fn add(&mut self, other: &Counts) {
        self.right += other.right;
        self.failed += other.failed;
        let _ = self.latency.add(&other.latency);
    }
}

/// Three digits; it grows as needed, so that recording does not fail.
fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new(3)?)
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
    pub fn new(profile: &Profile) -> anyhow::Result<Tally> {
        let levels = profile.levels.iter().map(|users| Ok((*users, Counts::new()?)));
        Ok(Tally {
            accepted: 0,
            refused: 0,
            failed: 0,
            unfinished: 0,
            requests: 0,
            retransmissions: 0,
            duplicate_answers: 0,
            not_taken: 0,
            held_back: 0,
            answered: Vec::new(),
            answer: histogram()?,
            latency: histogram()?,
            start_delay: histogram()?,
            phases: profile
                .phases
                .iter()
                .map(|_| Counts::new())
                .collect::<anyhow::Result<_>>()?,
            levels: levels.collect::<anyhow::Result<_>>()?,
            failures: Vec::new(),
            handshakes: Vec::new(),
            last_answer: None,
        })
    }

    /// An authentication ended in a right accept.
    pub fn accept(&mut self, handshake: Option<Handshake>) {
        self.accepted += 1;
        if let Some(handshake) = handshake {
            self.handshake(handshake, 1);
        }
    }

    /// A request was answered that had been sent so many times.
    pub fn answer(&mut self, transmissions: u32, latency: Duration) {
        let _ = self.answer.record(nanoseconds(latency));
        let at = usize::try_from(transmissions.saturating_sub(1)).unwrap_or_default();
        if self.answered.len() <= at {
            self.answered.resize(at + 1, 0);
        }
        if let Some(count) = self.answered.get_mut(at) {
            *count += 1;
        }
    }

    /// An authentication ended as it must, that began in a phase and among so many users.
    pub fn right(&mut self, latency: Duration, phase: usize, users: u32) {
        for counts in self.parts(phase, users) {
            counts.right += 1;
            let _ = counts.latency.record(nanoseconds(latency));
        }
    }

    /// An authentication ended otherwise.
    pub fn fail(&mut self, phase: usize, users: u32) {
        self.failed += 1;
        for counts in self.parts(phase, users) {
            counts.failed += 1;
        }
    }

    fn parts(&mut self, phase: usize, users: u32) -> impl Iterator<Item = &mut Counts> {
        let level = self.levels.iter_mut().find(|(most, _)| users <= *most && users > 0);
        self.phases
            .get_mut(phase)
            .into_iter()
            .chain(level.map(|(_, counts)| counts))
    }

    /// A device began so much later than it was due.
    pub fn start_delay(&mut self, delay: Duration) {
        let _ = self.start_delay.record(nanoseconds(delay));
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
        self.refused += other.refused;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.requests += other.requests;
        self.retransmissions += other.retransmissions;
        self.duplicate_answers += other.duplicate_answers;
        self.not_taken += other.not_taken;
        self.held_back += other.held_back;
        let times = self.answered.len().max(other.answered.len());
        self.answered.resize(times, 0);
        for (count, more) in self.answered.iter_mut().zip(&other.answered) {
            *count += more;
        }
        let _ = self.answer.add(&other.answer);
        let _ = self.start_delay.add(&other.start_delay);
        for (counts, more) in self.phases.iter_mut().zip(&other.phases) {
            counts.add(more);
            let _ = self.latency.add(&more.latency);
        }
        for ((_, counts), (_, more)) in self.levels.iter_mut().zip(&other.levels) {
            counts.add(more);
        }
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Load, Phase};

    fn profile() -> Profile {
        let phase = Phase {
            name: String::new(),
            duration: None,
            load: Load::Users { from: 1, to: 9 },
        };
        Profile {
            phases: vec![phase.clone(), phase],
            levels: vec![2, 5],
        }
    }

    #[test]
    fn counts_add_up_and_a_late_answer_is_no_timeout() {
        let [mut all, mut one, mut two] = [0; 3].map(|_| Tally::new(&profile()).unwrap());
        one.accept(None);
        one.answer(1, Duration::from_millis(1));
        two.answer(3, Duration::from_millis(9));
        one.right(Duration::from_millis(2), 0, 2);
        one.failure(Kind::Timeout, || "a".to_owned());
        two.failure(Kind::Timeout, || "b".to_owned());
        two.failure(Kind::WrongKeys, || "c".to_owned());
        two.right(Duration::from_secs(10_000), 1, 3);
        two.right(Duration::from_secs(10_000), 1, 6);
        two.fail(1, 5);
        all.add(one);
        all.add(two);
        let mut one = all;
        assert_eq!((&one.answered[..], one.answer.len()), (&[1, 0, 1][..], 2));
        let counts = |counts: &Counts| (counts.right, counts.failed, counts.latency.len());
        assert_eq!(
            one.phases.iter().map(counts).collect::<Vec<_>>(),
            [(1, 0, 1), (2, 1, 2)]
        );
        assert_eq!(
            one.levels.iter().map(|(_, level)| counts(level)).collect::<Vec<_>>(),
            [(1, 0, 1), (1, 1, 1)]
        );
        assert_eq!(
            (one.accepted, one.failed, one.wrong_answers(), one.other_failures()),
            (1, 1, 1, 2)
        );
        assert!(one.latency.max() > 9_990_000_000_000 && one.latency.min() < 2_010_000);
        one.late(|| "d".to_owned());
        one.late(|| "e".to_owned());
        let kinds: Vec<_> = one.failures.iter().map(|known| (known.kind, known.count)).collect();
        assert_eq!(kinds, [(Kind::WrongKeys, 1), (Kind::LateAnswer, 2)]);
    }
}
