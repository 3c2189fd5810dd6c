//! What came of a run: figures, and how they are written.

mod json;
mod text;

use hdrhistogram::Histogram;

use crate::options::Devices;
use crate::run::Results;

/// What came of a run.
pub struct Report<'o> {
    pub devices: &'o Devices,
    /// Devices at once, at most.
    pub most_open: usize,
    /// The names of the profile's phases.
    pub phases: Vec<String>,
    pub results: Results,
}

impl Report<'_> {
    /// Whether every answer was right, and no more failed than may.
    pub fn passed(&self) -> bool {
        let tally = &self.results.tally;
        tally.wrong_answers() == 0 && tally.other_failures() <= self.devices.common().max_failures
    }

    fn seconds(&self) -> f64 {
        self.results.elapsed.as_secs_f64()
    }

    /// Accepted a second.
    fn rate(&self) -> f64 {
        match self.seconds() {
            seconds if seconds > 0.0 => self.results.tally.accepted as f64 / seconds,
            _ => 0.0,
        }
    }

    fn devices(&self) -> f64 {
        let tally = &self.results.tally;
        ((tally.accepted + tally.failed + tally.unfinished) as f64).max(1.0)
    }

    /// Microseconds of processor time for each device.
    fn a_device(&self, processor: std::time::Duration) -> f64 {
        processor.as_secs_f64() * 1e6 / self.devices()
    }

    /// Which part of one core, from 0.
    fn cores(&self, processor: std::time::Duration) -> f64 {
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
