//! Certificates that are all out of date: then it is the clock, more often than the certificates.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use crate::reason::Reason;
use crate::server::record::{Authentication, Method, Outcome, Text};

/// Different certificates in a row that make a clock suspect: fewer may be one old batch.
const IN_A_ROW: usize = 5;
/// How often it is said while it lasts.
const EVERY: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
pub(super) struct Dates {
    reason: Option<Reason>,
    /// Serial numbers, hashed: at most [`IN_A_ROW`].
    refused: BTreeSet<u64>,
    hasher: RandomState,
    said: Option<Instant>,
}

impl Dates {
    /// An authentication has finished: what to say of the clock, if anything.
    pub(super) fn see(&mut self, record: &Authentication, now: Instant) -> Option<String> {
        if record.method != Some(Method::EapTls) {
            return None;
        }
        let what = match (record.outcome, record.reason) {
            (Outcome::Accept, _) => {
                self.refused.clear();
                return None;
            }
            (_, Reason::CertificateNotYetValid) => "not valid yet",
            (_, Reason::CertificateExpired) => "expired",
            _ => return None,
        };
        if self.reason.replace(record.reason) != Some(record.reason) {
            self.refused.clear();
        }
        let serial = record.text(Text::Serial)?;
        if self.refused.len() < IN_A_ROW {
            self.refused.insert(self.hasher.hash_one(serial));
        }
        let is_said = self
            .said
            .is_some_and(|said| now.saturating_duration_since(said) < EVERY);
        if self.refused.len() < IN_A_ROW || is_said {
            return None;
        }
        self.said = Some(now);
        Some(format!(
            "the clock looks wrong: the last {IN_A_ROW} different certificates that came were all {what}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn record(outcome: Outcome, reason: Reason, serial: &str) -> Authentication {
        let mut record = Authentication::new(UNIX_EPOCH, "192.0.2.1".parse().unwrap(), outcome, reason);
        record.method = Some(Method::EapTls);
        record.texts.set(Text::Serial, serial.as_bytes());
        record
    }

    #[test]
    fn different_certificates_in_a_row_make_the_clock_suspect() {
        let start = Instant::now();
        let mut dates = Dates::default();
        let mut see = |outcome, reason, serial: &str, minutes: u64| {
            let now = start + Duration::from_secs(60 * minutes);
            dates.see(&record(outcome, reason, serial), now)
        };
        let (early, late) = (Reason::CertificateNotYetValid, Reason::CertificateExpired);
        // one device that tries and tries
        for _ in 0..100 {
            assert_eq!(see(Outcome::Reject, late, "01", 0), None);
        }
        // an accept between them, or the other reason, begins anew
        for serial in ["02", "03", "04"] {
            assert_eq!(see(Outcome::Reject, late, serial, 0), None);
        }
        assert_eq!(see(Outcome::Accept, Reason::PolicyAccept, "05", 0), None);
        assert_eq!(see(Outcome::Reject, late, "06", 0), None);
        for serial in ["01", "02", "03", "04"] {
            assert_eq!(see(Outcome::Unfinished, early, serial, 0), None);
        }
        assert_eq!(see(Outcome::Reject, Reason::UnknownCa, "05", 0), None);
        assert_eq!(
            see(Outcome::Reject, early, "05", 0).as_deref(),
            Some("the clock looks wrong: the last 5 different certificates that came were all not valid yet")
        );
        assert_eq!(see(Outcome::Reject, early, "06", 59), None);
        assert!(see(Outcome::Reject, early, "07", 60).is_some());
    }
}
