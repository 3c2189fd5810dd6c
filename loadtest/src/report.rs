//! The summary, as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use crate::options::Options;
use crate::tally::Tally;

/// What came of a run.
pub struct Report<'o> {
    pub options: &'o Options,
    /// Devices at once, no more than there are.
    pub concurrency: usize,
    pub tally: Tally,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of this process.
    pub processor_time: Duration,
    pub interrupted: bool,
}

impl Report<'_> {
    /// Whether every answer was right, and no more failed than may.
    pub fn passed(&self) -> bool {
        self.tally.wrong_answers() == 0 && self.tally.other_failures() <= self.options.common().max_failures
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // writing to a String does not fail
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let (tally, common) = (&self.tally, self.options.common());
        let seconds = self.elapsed.as_secs_f64();
        let word = self.options.command.word();
        let interrupted = if self.interrupted { ", interrupted" } else { "" };
        writeln!(
            out,
            "{word} against {}, {} at once, {seconds:.1} s{interrupted}",
            common.target, self.concurrency
        )?;
        write!(
            out,
            "authentications   {} accepted, {} failed",
            tally.accepted, tally.failed
        )?;
        match tally.unfinished {
            0 => writeln!(out)?,
            unfinished => writeln!(out, ", {unfinished} unfinished")?,
        }
        writeln!(out, "rate              {:.1} accepted a second", self.rate())?;
        if !tally.latency.is_empty() {
            write!(out, "latency          ")?;
            for (name, nanoseconds) in self.latency() {
                write!(out, " {name} {}", time(nanoseconds))?;
            }
            writeln!(out)?;
        }
        writeln!(
            out,
            "requests          {} ({:.2} a device), {} sent again, {} answered twice",
            tally.requests,
            tally.requests as f64 / self.devices().max(1.0),
            tally.retransmissions,
            tally.duplicate_answers
        )?;
        for (handshake, count) in &tally.handshakes {
            let kind = if handshake.resumed { "resumed" } else { "full" };
            let (version, cipher) = (handshake.version, handshake.cipher);
            writeln!(out, "tls               {version} {cipher}, {kind}: {count}")?;
        }
        writeln!(
            out,
            "processor time    {:.1} us a device in this client, {:.0} % of one core",
            self.microseconds_a_device(),
            100.0 * self.processor_time.as_secs_f64() / seconds.max(f64::MIN_POSITIVE)
        )?;
        if tally.failures.is_empty() {
            return Ok(());
        }
        writeln!(out, "failures")?;
        for failures in &tally.failures {
            let wrong = if failures.kind.is_wrong_answer() {
                "wrong answer: "
            } else {
                ""
            };
            writeln!(
                out,
                "  {:>8}  {wrong}{}; one of them: {}",
                failures.count, failures.kind, failures.example
            )?;
        }
        if tally.last_answer.is_none() && !self.interrupted {
            writeln!(
                out,
                "hint: there was no answer at all. A server drops without a word what comes from an address that is no \
                 client's, or is signed with another secret (--secret)"
            )?;
        }
        let (wrong, other, may) = (tally.wrong_answers(), tally.other_failures(), common.max_failures);
        match (wrong, other > may) {
            (0, false) => writeln!(out, "passed: {other} failures, {may} may be"),
            (0, true) => writeln!(out, "failed: {other} failures, {may} may be"),
            (_, false) => writeln!(out, "failed: {wrong} wrong answers"),
            (_, true) => writeln!(
                out,
                "failed: {wrong} wrong answers, and {other} failures where {may} may be"
            ),
        }
    }

    pub fn json(&self) -> String {
        let (tally, common) = (&self.tally, self.options.common());
        let latency: serde_json::Map<_, _> = self
            .latency()
            .map(|(name, nanoseconds)| (name.to_owned(), json!(nanoseconds / 1e3)))
            .into_iter()
            .collect();
        let failures: Vec<_> = tally
            .failures
            .iter()
            .map(|failures| {
                json!({
                    "kind": failures.kind.word(),
                    "wrong_answer": failures.kind.is_wrong_answer(),
                    "count": failures.count,
                    "example": failures.example,
                })
            })
            .collect();
        let handshakes: Vec<_> = tally
            .handshakes
            .iter()
            .map(|(handshake, count)| {
                json!({
                    "version": handshake.version.word(),
                    "cipher": handshake.cipher,
                    "resumed": handshake.resumed,
                    "count": count,
                })
            })
            .collect();
        let report = json!({
            "command": self.options.command.word(),
            "target": common.target.to_string(),
            "concurrency": self.concurrency,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "interrupted": self.interrupted,
            "passed": self.passed(),
            "accepted": tally.accepted,
            "failed": tally.failed,
            "unfinished": tally.unfinished,
            "wrong_answers": tally.wrong_answers(),
            "other_failures": tally.other_failures(),
            "max_failures": common.max_failures,
            "accepted_per_s": self.rate(),
            "latency_us": latency,
            "requests": tally.requests,
            "retransmissions": tally.retransmissions,
            "duplicate_answers": tally.duplicate_answers,
            "handshakes": handshakes,
            "processor_time_us": {
                "total": self.processor_time.as_secs_f64() * 1e6,
                "per_device": self.microseconds_a_device(),
            },
            "failures": failures,
        });
        format!("{report:#}\n")
    }

    fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.tally.accepted as f64 / seconds
        } else {
            0.0
        }
    }

    fn devices(&self) -> f64 {
        (self.tally.accepted + self.tally.failed + self.tally.unfinished) as f64
    }

    fn microseconds_a_device(&self) -> f64 {
        self.processor_time.as_secs_f64() * 1e6 / self.devices().max(1.0)
    }

    /// Names and nanoseconds.
    fn latency(&self) -> [(&'static str, f64); 5] {
        let latency = &self.tally.latency;
        [
            ("min", latency.min()),
            ("p50", latency.value_at_quantile(0.5)),
            ("p90", latency.value_at_quantile(0.9)),
            ("p99", latency.value_at_quantile(0.99)),
            ("max", latency.max()),
        ]
        .map(|(name, nanoseconds)| (name, nanoseconds as f64))
    }
}

/// Three digits, in the unit that fits.
fn time(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = match number {
        n if n < 10.0 => 2,
        n if n < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (950.0, "0.95 us"),
            (48_123.0, "48.1 us"),
            (1_234_567.0, "1.23 ms"),
            (345_600_000.0, "346 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(nanoseconds), text);
        }
    }
}
