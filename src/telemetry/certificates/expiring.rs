//! Devices' certificates that end soon: a word in the line of each such authentication, a warning for each certificate
//! once a day, and how many there are as a metric, since a renewal that does not work is seen in its rise.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::eap::tls::span;
use crate::server::metrics::Metrics;
use crate::server::record::{Authentication, Text};
use crate::telemetry::line::whole_second;

/// How long a certificate counts that does not come again, and how often each is warned of.
const DAY: Duration = Duration::from_secs(86_400);
/// Certificates that are counted: with more, the metric stays there.
const KNOWN_MAX: usize = 16_384;
/// Warnings at once, when a site with many such devices wakes up.
const LINES_MAX: u32 = 32;
/// Then one as often as this. Those between are warned of when they come again.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How often the metric is put right, though none comes.
const TICK: Duration = Duration::from_secs(60);

pub(super) struct Expiring {
    within_seconds: i64,
    /// By issuer and serial number, hashed.
    known: HashMap<u64, Known>,
    hasher: RandomState,
    lines: u32,
    line_added: Option<Instant>,
    not_shown: u64,
    ticked: Option<Instant>,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Copy)]
struct Known {
    seen: Instant,
    said: Option<Instant>,
}

impl Expiring {
    pub(super) fn new(within: Duration, metrics: Arc<Metrics>) -> Expiring {
        Expiring {
            within_seconds: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            known: HashMap::new(),
            hasher: RandomState::new(),
            lines: LINES_MAX,
            line_added: None,
            not_shown: 0,
            ticked: None,
            metrics,
        }
    }

    /// A certificate was accepted.
    pub(super) fn accepted(&mut self, record: &mut Authentication, now: Instant) {
        let Some(not_after) = record.not_after else { return };
        let wall = record.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = not_after.saturating_sub(i64::try_from(wall.as_secs()).unwrap_or(i64::MAX));
        if left >= self.within_seconds {
            return;
        }
        let left = format!("its certificate expires in {}", span(u64::try_from(left).unwrap_or(0)));
        if self.is_to_be_said(record, now) {
            self.say(record, not_after, &left);
        }
        let detail = match record.text(Text::Detail) {
            Some(detail) => [detail, b"; ", left.as_bytes()].concat(),
            None => left.into_bytes(),
        };
        record.texts.set(Text::Detail, &detail);
    }

    /// Forgets those that came no more, and tells how many are left.
    pub(super) fn tick(&mut self, now: Instant) {
        if self
            .ticked
            .is_some_and(|ticked| now.saturating_duration_since(ticked) < TICK)
        {
            return;
        }
        self.ticked = Some(now);
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        self.known
            .retain(|_, known| now.saturating_duration_since(known.seen) < DAY);
        self.metrics.expiring_client_certificates(self.known.len());
    }

    fn is_to_be_said(&mut self, record: &Authentication, now: Instant) -> bool {
        let key = (record.text(Text::Issuer), record.text(Text::Serial));
        let key = self.hasher.hash_one(key);
        if !self.known.contains_key(&key) {
            if self.known.len() >= KNOWN_MAX {
                return false;
            }
            self.known.insert(key, Known { seen: now, said: None });
            self.metrics.expiring_client_certificates(self.known.len());
        }
        let may_say = self.has_line(now);
        let Some(known) = self.known.get_mut(&key) else {
            return false;
        };
        known.seen = now;
        if known.said.is_some_and(|said| now.saturating_duration_since(said) < DAY) {
            return false;
        }
        if !may_say {
            self.not_shown += 1;
            return false;
        }
        known.said = Some(now);
        self.lines -= 1;
        true
    }

    /// Whether there may be a line now.
    fn has_line(&mut self, now: Instant) -> bool {
        let added = *self.line_added.get_or_insert(now);
        let earned = now.saturating_duration_since(added).as_secs() / LINE_EVERY.as_secs();
        if earned > 0 {
            self.lines = LINES_MAX.min(self.lines.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)));
            self.line_added = Some(now);
        }
        self.lines > 0
    }

    fn say(&mut self, record: &Authentication, not_after: i64, left: &str) {
        let shown = |text| String::from_utf8_lossy(record.text(text).unwrap_or_default()).into_owned();
        tracing::warn!(
            site = shown(Text::Site),
            mac = record.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            cn = shown(Text::Cn),
            serial = shown(Text::Serial),
            issuer = shown(Text::Issuer),
            not_after = format!("{}Z", whole_second(not_after)),
            not_shown = std::mem::take(&mut self.not_shown),
            hint = "renew it, and see why it is not renewed by itself; `[eap.tls] expiry_warning` says when to warn",
            "a device was let in, and {left}",
        );
    }
}

impl std::fmt::Debug for Expiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expiring")
            .field("known", &self.known.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;
    use crate::server::record::{Method, Outcome};
    use crate::telemetry::exporter::Exporter;

    const NOW: u64 = 1_800_000_000;

    fn accept(serial: &str, left: i64) -> Authentication {
        let mut record = Authentication::new(
            UNIX_EPOCH + Duration::from_secs(NOW),
            "192.0.2.1".parse().unwrap(),
            Outcome::Accept,
            Reason::PolicyAccept,
        );
        record.method = Some(Method::EapTls);
        record.texts.set(Text::Serial, serial.as_bytes());
        record.not_after = Some(NOW as i64 + left);
        record
    }

    fn expiring(days: u64) -> (Expiring, impl Fn() -> String) {
        let (exporter, registry) = Exporter::new().unwrap();
        let expiring = Expiring::new(DAY * u32::try_from(days).unwrap(), Arc::new(Metrics::new(registry)));
        let gauge = move || {
            let text = exporter.render();
            let name = "portreeve_expiring_client_certificates ";
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap()
                .to_owned()
        };
        (expiring, gauge)
    }

    #[test]
    fn one_that_ends_within_the_warning_is_counted_and_said_once_a_day() {
        let (mut expiring, gauge) = expiring(30);
        let start = Instant::now();
        let mut far = accept("01", 31 * 86_400);
        expiring.accepted(&mut far, start);
        assert_eq!((far.text(Text::Detail), gauge().as_str()), (None, "0"));

        for (hours, is_said) in [(0, true), (1, false), (23, false), (25, true)] {
            let now = start + Duration::from_secs(hours * 3_600);
            assert_eq!(expiring.is_to_be_said(&accept("02", 86_400), now), is_said, "{hours}");
        }
        let mut near = accept("02", 12 * 86_400);
        near.texts.set(Text::Detail, b"seen");
        expiring.accepted(&mut near, start + Duration::from_secs(25 * 3_600));
        assert_eq!(
            near.text(Text::Detail),
            Some(&b"seen; its certificate expires in 12 days"[..])
        );
        expiring.accepted(&mut accept("03", 3_600), start);
        assert_eq!(gauge(), "2");
        // 03 came no more: renewed, or gone
        expiring.tick(start + DAY + Duration::from_secs(60));
        assert_eq!(gauge(), "1");
    }

    #[test]
    fn a_warning_of_nothing_is_off() {
        let (mut expiring, gauge) = expiring(0);
        let mut last = accept("01", 0);
        expiring.accepted(&mut last, Instant::now());
        assert_eq!((last.text(Text::Detail), gauge().as_str()), (None, "0"));
    }

    #[test]
    fn many_are_bounded_in_lines_and_in_memory() {
        let (mut expiring, gauge) = expiring(30);
        let start = Instant::now();
        let mut said = 0;
        for number in 0..100_000_u32 {
            let now = start + Duration::from_millis(u64::from(number) / 10);
            said += u32::from(expiring.is_to_be_said(&accept(&number.to_string(), 86_400), now));
        }
        // ten seconds: those at once, and at most one more
        assert!((LINES_MAX..=LINES_MAX + 1).contains(&said), "{said}");
        assert_eq!(gauge(), KNOWN_MAX.to_string());
        // who was not warned of is, when there is room for a line
        assert!(expiring.is_to_be_said(&accept("5000", 86_400), start + Duration::from_secs(60)));
    }
}
