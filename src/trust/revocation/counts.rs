//! What is counted of revocation; the floor above exports it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Source;
use super::status::Status;

/// Outcomes of one source, as labels.
pub const RESULTS: [&str; 4] = ["good", "revoked", "unknown", "unavailable"];

/// How often each source was asked about a certificate, and what it said; from memory too.
#[derive(Debug, Default)]
pub(super) struct Checks([[AtomicU64; RESULTS.len()]; Source::ALL.len()]);

impl Checks {
    pub(super) fn note(&self, source: Source, status: &Status) {
        let result = match status {
            Status::Good => 0,
            Status::Revoked(_) => 1,
            Status::Unknown => 2,
            Status::Unavailable(_) => 3,
        };
        if let Some(count) = self.0.get(source as usize).and_then(|of_source| of_source.get(result)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Source, result and count.
    pub(super) fn all(&self) -> impl Iterator<Item = (Source, &'static str, u64)> {
        Source::ALL.into_iter().zip(&self.0).flat_map(|(source, counts)| {
            RESULTS
                .into_iter()
                .zip(counts)
                .map(move |(result, count)| (source, result, count.load(Ordering::Relaxed)))
        })
    }
}

/// How often something was fetched over the network, and with which outcome.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    good: AtomicU64,
    failed: AtomicU64,
}

impl Fetches {
    pub(super) fn note(&self, is_good: bool) {
        let count = if is_good { &self.good } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Result and count.
    pub(super) fn all(&self) -> [(&'static str, u64); 2] {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("good", load(&self.good)), ("failed", load(&self.failed))]
    }
}
