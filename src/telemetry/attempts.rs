//! The last attempts, for `portreeve why`: bounded, in memory, gone with the process.
//!
//! Refusals are kept apart from accepts, since the question is nearly always about a refusal, and a busy node's
//! accepts would push it out within seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::mac::MacAddress;
use crate::server::record::{Authentication, Outcome, Text};

/// Accepts that are remembered.
const ACCEPTED: usize = 2_000;
/// Everything else that is remembered. A record takes about half a kilobyte.
const REFUSED: usize = 8_000;

/// The memory. Written by the recorder thread only.
#[derive(Debug, Default)]
pub struct Attempts {
    accepted: Mutex<VecDeque<Authentication>>,
    refused: Mutex<VecDeque<Authentication>>,
}

impl Attempts {
    /// Remembers an attempt, and forgets the oldest of its kind when there are too many.
    pub fn push(&self, record: Authentication) {
        let (ring, limit) = match record.outcome {
            Outcome::Accept => (&self.accepted, ACCEPTED),
            Outcome::Reject | Outcome::Silent | Outcome::Unfinished => (&self.refused, REFUSED),
        };
        let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() >= limit {
            ring.pop_front();
        }
        ring.push_back(record);
    }

    /// At most `limit` attempts that `query` is about, newest first: a MAC address in any spelling, or part of a user
    /// name or of a certificate's common name, in any case. An empty query is about every attempt.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Authentication> {
        let query = Query::new(query);
        let mut found = Vec::new();
        for ring in [&self.accepted, &self.refused] {
            let ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            found.extend(
                ring.iter()
                    .rev()
                    .filter(|record| query.is_about(record))
                    .take(limit)
                    .cloned(),
            );
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.time));
        found.truncate(limit);
        found
    }
}

struct Query {
    mac: Option<MacAddress>,
    text: Vec<u8>,
}

impl Query {
    fn new(text: &str) -> Query {
        Query {
            mac: MacAddress::parse(text.trim().as_bytes()),
            text: text.trim().to_ascii_lowercase().into_bytes(),
        }
    }

    fn is_about(&self, record: &Authentication) -> bool {
        if self.mac.is_some() && self.mac == record.mac {
            return true;
        }
        self.text.is_empty()
            || [Text::User, Text::Cn]
                .into_iter()
                .filter_map(|text| record.text(text))
                .any(|text| contains(text, &self.text))
    }
}

/// Whether `text` contains `part`, which is lower case and not empty.
fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::reason::Reason;

    fn record(second: u64, user: &'static str, mac: u8, outcome: Outcome) -> Authentication {
        let reason = if outcome == Outcome::Accept {
            Reason::PolicyAccept
        } else {
            Reason::PolicyReject
        };
        let time = UNIX_EPOCH + Duration::from_secs(second);
        let mut record = Authentication::new(time, "192.0.2.1".parse().unwrap(), outcome, reason);
        record.texts.set(Text::User, user.as_bytes());
        record.mac = Some(MacAddress([0, 0x1b, 0x78, 0, 0, mac]));
        record
    }

    #[test]
    fn attempts_are_found_by_mac_in_any_spelling_and_by_name() {
        let attempts = Attempts::default();
        attempts.push(record(1, "host/laptop-7.example.com", 1, Outcome::Accept));
        attempts.push(record(2, "host/Laptop-7.example.com", 1, Outcome::Reject));
        attempts.push(record(3, "001b78000002", 2, Outcome::Reject));
        let times = |query| -> Vec<u64> {
            let found = attempts.search(query, 10);
            found
                .iter()
                .map(|record| record.time.duration_since(UNIX_EPOCH).unwrap().as_secs())
                .collect()
        };
        for spelling in [
            "00:1b:78:00:00:01",
            "001B.7800.0001",
            "00-1B-78-00-00-01",
            "001b78000001",
        ] {
            assert_eq!(times(spelling), [2, 1], "{spelling}");
        }
        assert_eq!(times("laptop-7"), [2, 1]);
        assert_eq!(times("001b78000002"), [3]);
        assert_eq!(times(""), [3, 2, 1]);
        assert_eq!(times("nobody"), [0; 0]);
        assert_eq!(attempts.search("", 1).len(), 1);
    }

    #[test]
    fn memory_is_bounded_and_accepts_do_not_push_out_refusals() {
        let attempts = Attempts::default();
        attempts.push(record(0, "refused", 1, Outcome::Reject));
        for second in 1..=ACCEPTED as u64 + 10 {
            attempts.push(record(second, "accepted", 2, Outcome::Accept));
        }
        assert_eq!(attempts.search("", usize::MAX).len(), ACCEPTED + 1);
        assert_eq!(attempts.search("refused", 10).len(), 1);
    }
}
