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
use crate::series::Point;
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

/// With so much of its threads' time used, this client is what limits.
pub const BUSY: f64 = 0.95;

/// The part of a run in which load neither rises nor falls.
struct Steady {
    /// Of the run, from 0; `to` is the first second after it.
    from: u64,
    to: u64,
    /// Devices that began, and right answers, in a second.
    began: f64,
    right: f64,
    /// Requests, those that were sent again included.
    sent: f64,
    /// Right answers in the worst second, and in the best.
    least: f64,
    most: f64,
    /// Seconds in which this client had no time left.
    busy: u64,
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
        if let Some(steady) = self.steady().filter(|steady| steady.busy > 0) {
            warnings.push(format!(
                "this client had no time left in {} of {} seconds, and may have asked or answered late; hint: --threads, or a \
                 machine of its own",
                steady.busy,
                steady.to - steady.from
            ));
        }
        let tally = &self.results.tally;
        if tally.held_back > 0 {
            warnings.push(format!(
                "{} devices were due when {} others were under way, and had to wait: the server was asked less than the \
                 schedule says; hint: --most-open",
                tally.held_back, self.shared.most_open
            ));
        }
        if tally.not_taken > 0 {
            warnings.push(format!(
                "{} requests were lost before they left, since this machine's network took no more; hint: \
                 net.core.wmem_default",
                tally.not_taken
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

    /// The seconds of the last phase without the first one of the run, in which queues fill, and without the rest, in which
    /// none begin. `None` where there are none.
    fn steady(&self) -> Option<Steady> {
        let profile = &self.shared.profile;
        let points = &self.results.series.points;
        let start = profile.starts().last()?.0;
        let from = (start.as_secs() + u64::from(start.subsec_nanos() > 0)).max(1);
        let begun = points
            .iter()
            .rfind(|point| point.started > 0)
            .map_or(0, |point| point.second);
        let to = match (profile.duration(), self.results.interrupted) {
            (Some(duration), false) => duration.as_secs(),
            _ => begun,
        };
        let whole = |point: &&Point| point.second >= from && point.second + point.seconds <= to;
        let steady: Vec<_> = points.iter().filter(whole).collect();
        let (first, last) = (steady.first()?, steady.last()?);
        let seconds = last.second + last.seconds - first.second;
        let rates = || steady.iter().map(|point| point.right as f64 / point.seconds as f64);
        let a_second =
            |count: fn(&Point) -> u64| steady.iter().map(|point| count(point)).sum::<u64>() as f64 / seconds as f64;
        let time = |point: &Point| self.shared.threads as f64 * point.seconds as f64;
        let is_busy = |point: &Point| point.client.processor.as_secs_f64() > BUSY * time(point);
        Some(Steady {
            from: first.second,
            to: first.second + seconds,
            began: a_second(|point| point.started),
            sent: a_second(|point| point.sent),
            right: a_second(|point| point.right),
            least: rates().fold(f64::INFINITY, f64::min),
            most: rates().fold(0.0, f64::max),
            busy: steady
                .iter()
                .filter(|point| is_busy(point))
                .map(|point| point.seconds)
                .sum(),
        })
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
