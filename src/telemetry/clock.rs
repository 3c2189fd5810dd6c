//! Whether this machine's clock can be right. Certificates, `valid_until` and rules of the time of day are judged by it,
//! and a wrong one looks like a hundred devices with bad certificates.
//!
//! Nobody is asked for the time. A clock is suspect that jumps against the monotonic one, and one that is behind what
//! has certainly happened: files were written, the server's certificate was issued.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::line::whole_second;

/// What the wall clock may gain or lose between two looks. NTP slews by less; a step of it is told.
const TOLERANCE: Duration = Duration::from_secs(60);
/// How often the same is said while it lasts.
const EVERY: Duration = Duration::from_secs(3_600);

/// Behind each complaint.
pub const HINT: &str = "compare `date -u` with another machine; is NTP running here (`timedatectl`, `chronyc tracking`)? \
                        until it is right, certificates are judged by the wrong time";

/// Something that has certainly happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// "`server.pem` was written".
    pub what: String,
    /// When, by its own account.
    pub at: SystemTime,
}

/// Why a clock is suspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// It moved by so many seconds more than time has passed.
    Jumped(i64),
    /// It is behind this.
    Behind {
        /// What it says.
        clock: SystemTime,
        /// What has happened later than that.
        event: Event,
    },
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the clock looks wrong: ")?;
        match self {
            Complaint::Jumped(seconds) => write!(
                f,
                "it jumped by {seconds:+} s (which is right if it was wrong before, or this machine slept)"
            ),
            Complaint::Behind { clock, event } => write!(
                f,
                "it says {}, and {} at {}",
                moment(*clock),
                event.what,
                moment(event.at)
            ),
        }
    }
}

/// Looks at the clock, again and again.
#[derive(Debug, Default)]
pub struct Watch {
    last: Option<(Instant, SystemTime)>,
    said_behind: Option<Instant>,
}

impl Watch {
    /// What is wrong with `wall` at `now`; `events` are asked for seldom.
    pub fn look(&mut self, now: Instant, wall: SystemTime, events: impl FnOnce() -> Vec<Event>) -> Option<Complaint> {
        let (before, wall_before) = self.last.replace((now, wall)).unwrap_or((now, wall));
        let gained = difference(wall, wall_before) - seconds(now.saturating_duration_since(before));
        if gained.unsigned_abs() > TOLERANCE.as_secs() {
            self.said_behind = None;
            return Some(Complaint::Jumped(gained));
        }
        if self
            .said_behind
            .is_some_and(|said| now.saturating_duration_since(said) < EVERY)
        {
            return None;
        }
        let latest = events().into_iter().max_by_key(|event| event.at)?;
        // looked at once an hour while all is well, too
        self.said_behind = Some(now);
        (difference(latest.at, wall) > seconds(TOLERANCE)).then_some(Complaint::Behind {
            clock: wall,
            event: latest,
        })
    }
}

/// Seconds from `earlier` to `later`; negative where it is the other way round.
fn difference(later: SystemTime, earlier: SystemTime) -> i64 {
    match later.duration_since(earlier) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn moment(time: SystemTime) -> String {
    format!("{}Z", whole_second(difference(time, UNIX_EPOCH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn none() -> Vec<Event> {
        Vec::new()
    }

    #[test]
    fn a_clock_that_goes_is_not_complained_of() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        for second in 0..10_000 {
            let passed = Duration::from_secs(second);
            // it loses a second in a hundred
            let wall = UNIX_EPOCH + DAY + passed * 99 / 100;
            assert_eq!(watch.look(start + passed, wall, none), None, "{second}");
        }
    }

    #[test]
    fn a_jump_is_said_once_with_its_length() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        let second = Duration::from_secs(1);
        let noon = UNIX_EPOCH + DAY * 20_000;
        assert_eq!(watch.look(start, noon, none), None);
        let day_on = noon + DAY;
        assert_eq!(
            watch.look(start + second, day_on + second, none),
            Some(Complaint::Jumped(86_400))
        );
        assert_eq!(watch.look(start + second * 2, day_on + second * 2, none), None);
        let complaint = watch.look(start + second * 3, noon + second * 3, none);
        assert_eq!(
            complaint.unwrap().to_string(),
            "the clock looks wrong: it jumped by -86400 s (which is right if it was wrong before, or this machine slept)"
        );
        // half a minute is NTP's business
        assert_eq!(watch.look(start + second * 4, noon + second * 34, none), None);
        // before 1970
        let before = UNIX_EPOCH - DAY;
        assert!(matches!(
            watch.look(start + second * 5, before, none),
            Some(Complaint::Jumped(..-1_000_000))
        ));
    }

    #[test]
    fn a_clock_behind_what_has_happened_is_said_each_hour() {
        let events = || {
            vec![
                Event {
                    what: "`old` was written".to_owned(),
                    at: UNIX_EPOCH + DAY,
                },
                Event {
                    what: "`new` was written".to_owned(),
                    at: UNIX_EPOCH + DAY * 20_000,
                },
            ]
        };
        let (mut watch, start) = (Watch::default(), Instant::now());
        let mut said = Vec::new();
        for minute in 0..150 {
            let passed = Duration::from_secs(60 * minute);
            said.extend(watch.look(start + passed, UNIX_EPOCH + passed, events));
        }
        assert_eq!(said.len(), 3);
        assert_eq!(
            said[0].to_string(),
            "the clock looks wrong: it says 1970-01-01T00:00:00Z, and `new` was written at 2024-10-04T00:00:00Z"
        );
        // put right: a jump, and silence
        let right = UNIX_EPOCH + DAY * 20_001;
        let passed = Duration::from_secs(60 * 150);
        assert!(matches!(
            watch.look(start + passed, right, events),
            Some(Complaint::Jumped(_))
        ));
        assert_eq!(watch.look(start + passed, right, events), None);
    }
}
