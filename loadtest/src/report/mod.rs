//! What came of a run: figures, and how they are written.

mod html;
mod json;
mod text;

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::engine::Shared;
use crate::options::{Devices, MessageAuthenticator};
use crate::plan::Scenario;
use crate::profile::Phase;
use crate::run::Results;
use crate::tally::Counts;

/// What came of a run.
pub struct Report<'o> {
    pub devices: &'o Devices,
    pub shared: &'o Shared,
    pub scenario: Option<&'o Scenario>,
    /// Upper ends of the columns of response times.
    pub buckets: &'o [Duration],
    pub results: Results,
    /// Seconds since 1970.
    pub began_at: u64,
    /// The command line, without secrets.
    pub command: String,
}

/// A median start so much later than due says that this client or the server was behind, in nanoseconds.
const LATE: u64 = 10_000_000;

impl Report<'_> {
    /// Whether every answer was right, and no more failed than may.
    pub fn passed(&self) -> bool {
        let tally = &self.results.tally;
        tally.wrong_answers() == 0 && tally.other_failures() <= self.devices.common().max_failures
    }

    /// What makes the figures doubtful, each with what to do.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let dropped = self.results.dropped;
        if dropped > 0 {
            warnings.push(format!(
                "{dropped} answers were lost in this client's sockets: it was too slow, not the server; hint: --threads"
            ));
        }
        if self.results.tally.start_delay.value_at_quantile(0.5) > LATE {
            warnings.push(
                "devices began late, and the wait is part of their latency; hint: --threads, if this client has no time \
                 left; --most-open, if the server is behind"
                    .to_owned(),
            );
        }
        if self.devices.common().message_authenticator == MessageAuthenticator::Optional {
            warnings.push(
                "a reply without Message-Authenticator, or with it elsewhere than in first place, was no wrong answer; hint: \
                 --message-authenticator first, unless this server knows no better"
                    .to_owned(),
            );
        }
        warnings
    }

    /// The phases, and what came of each.
    fn phases(&self) -> impl Iterator<Item = (&Phase, &Counts)> {
        self.shared.profile.phases.iter().zip(&self.results.tally.phases)
    }

    fn seconds(&self) -> f64 {
        self.results.elapsed.as_secs_f64()
    }

    /// Right answers a second.
    fn rate(&self) -> f64 {
        let right = self.results.tally.accepted + self.results.tally.refused;
        match self.seconds() {
            seconds if seconds > 0.0 => right as f64 / seconds,
            _ => 0.0,
        }
    }

    fn devices(&self) -> f64 {
        let tally = &self.results.tally;
        ((tally.accepted + tally.refused + tally.failed + tally.unfinished) as f64).max(1.0)
    }

    /// Microseconds of processor time for each device.
    fn a_device(&self, processor: Duration) -> f64 {
        processor.as_secs_f64() * 1e6 / self.devices()
    }

    /// Which part of one core, from 0.
    fn cores(&self, processor: Duration) -> f64 {
        processor.as_secs_f64() / self.seconds().max(f64::MIN_POSITIVE)
    }
}

/// The percentiles that are reported: name and nanoseconds.
fn percentiles(latency: &Histogram<u64>) -> [(&'static str, f64); 7] {
    [
        ("min", latency.min()),
        ("p50", latency.value_at_quantile(0.5)),
        ("p90", latency.value_at_quantile(0.9)),
        ("p95", latency.value_at_quantile(0.95)),
        ("p99", latency.value_at_quantile(0.99)),
        ("p999", latency.value_at_quantile(0.999)),
        ("max", latency.max()),
    ]
    .map(|(name, nanoseconds)| (name, nanoseconds as f64))
}

/// How many of these took up to each of `buckets` and more than the one before it; the last are those that took longer.
fn response_times(counts: &Counts, buckets: &[Duration]) -> Vec<u64> {
    let mut before = 0;
    let ends = buckets
        .iter()
        .map(|bucket| u64::try_from(bucket.as_nanos()).unwrap_or(u64::MAX));
    let mut row: Vec<_> = ends
        .map(|end| {
            let up_to = counts.latency.count_between(0, end);
            let count = up_to.saturating_sub(before);
            before = up_to;
            count
        })
        .collect();
    row.push(counts.latency.len().saturating_sub(before));
    row
}
