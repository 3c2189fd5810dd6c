//! The summary, as text.

use std::fmt::{self, Write};

use super::{Report, Steady, percentiles, response_times};
use crate::tally::Counts;
use crate::units::{bytes, short_time, time};

impl Report<'_> {
    pub fn text(&self) -> String {
        let mut text = String::new();
        // writing to a String does not fail
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let (tally, common) = (&self.results.tally, self.devices.common());
        let interrupted = if self.results.interrupted { ", interrupted" } else { "" };
        let load = match (self.scenario, common.rate) {
            (Some(scenario), _) => format!("plan {}", scenario.name),
            (None, Some(rate)) => format!("{rate} a second by schedule"),
            (None, None) => format!("{} at once", self.shared.most_open),
        };
        let (word, seconds) = (self.devices.word(), self.seconds());
        writeln!(
            out,
            "{word} against {}, {load}, {seconds:.1} s{interrupted}",
            common.target
        )?;
        write!(out, "authentications   {} accepted", tally.accepted)?;
        if tally.refused > 0 {
            write!(out, ", {} refused as they must", tally.refused)?;
        }
        write!(out, ", {} failed", tally.failed)?;
        match tally.unfinished {
            0 => writeln!(out)?,
            unfinished => writeln!(out, ", {unfinished} unfinished")?,
        }
        let right = if tally.refused > 0 { "right answers" } else { "accepted" };
        writeln!(out, "rate              {:.1} {right} a second", self.rate())?;
        if let Some(steady) = self.steady() {
            let Steady { from, to, began, .. } = steady;
            writeln!(
                out,
                "steady            {:.1} {right} a second, {:.0} to {:.0}, of {began:.1} that began; seconds {from} to {to}",
                steady.right, steady.least, steady.most
            )?;
        }
        if !tally.latency.is_empty() {
            write!(out, "latency          ")?;
            for (name, nanoseconds) in percentiles(&tally.latency) {
                write!(out, " {name} {}", time(nanoseconds))?;
            }
            writeln!(out)?;
        }
        self.write_phases(out)?;
        self.write_schedule(out)?;
        writeln!(
            out,
            "requests          {} ({:.2} a device), {} sent again, {} answered twice",
            tally.requests,
            tally.requests as f64 / self.devices(),
            tally.retransmissions,
            tally.duplicate_answers
        )?;
        self.write_answers(out)?;
        for (handshake, count) in &tally.handshakes {
            let kind = if handshake.resumed { "resumed" } else { "full" };
            let (version, cipher) = (handshake.version, handshake.cipher);
            writeln!(out, "tls               {version} {cipher}, {kind}: {count}")?;
        }
        let client = self.results.processor_time;
        writeln!(
            out,
            "processor time    {:.1} us a device in this client, {:.0} % of one core",
            self.a_device(client),
            100.0 * self.cores(client)
        )?;
        if let Some(server) = self.results.server {
            writeln!(
                out,
                "server            {:.1} us a device, {:.0} % of one core, {} of memory",
                self.a_device(server.processor),
                100.0 * self.cores(server.processor),
                bytes(server.resident)
            )?;
        }
        for warning in self.warnings() {
            writeln!(out, "warning: {}", warning.replace("; hint: ", "\nhint: "))?;
        }
        self.write_failures(out)
    }

    /// Where requests were sent again: which of them were answered, and how soon.
    fn write_answers(&self, out: &mut String) -> fmt::Result {
        let tally = &self.results.tally;
        if tally.retransmissions == 0 || tally.answer.is_empty() {
            return Ok(());
        }
        let all = tally.answered.iter().sum::<u64>() as f64;
        let answered = tally.answered.iter().zip(1..).filter(|(count, _)| **count > 0);
        let shares: Vec<_> = answered
            .map(|(count, times)| format!("{times}x {:.2} %", 100.0 * *count as f64 / all))
            .collect();
        write!(
            out,
            "answers           to requests sent {}; since sent last",
            shares.join(", ")
        )?;
        for (name, nanoseconds) in percentiles(&tally.answer) {
            write!(out, " {name} {}", time(nanoseconds))?;
        }
        writeln!(out)
    }

    fn write_phases(&self, out: &mut String) -> fmt::Result {
        if self.shared.profile.phases.len() > 1 {
            for (phase, counts) in self.phases() {
                writeln!(out, "  {:<15} {}", phase.name, part(counts))?;
            }
        }
        self.write_levels(out)
    }

    /// The table of response times: a row for each number of users, in percent of those that ended.
    fn write_levels(&self, out: &mut String) -> fmt::Result {
        let levels = &self.results.tally.levels;
        if levels.is_empty() {
            return Ok(());
        }
        write!(
            out,
            "response times, percent of each row\n  {:>11} {:>10}",
            "users", "ended"
        )?;
        for bucket in self.buckets {
            write!(out, " {:>7}", format!("<={}", short_time(*bucket)))?;
        }
        writeln!(out, " {:>7} {:>7}", "longer", "failed")?;
        let mut above = 0;
        for (users, counts) in levels {
            let all = counts.right + counts.failed;
            let range = match users.saturating_sub(above) {
                1 => users.to_string(),
                _ => format!("{} to {users}", above + 1),
            };
            write!(out, "  {range:>11} {all:>10}")?;
            for count in response_times(counts, self.buckets).into_iter().chain([counts.failed]) {
                match all {
                    0 => write!(out, " {:>7}", "-")?,
                    _ => write!(out, " {:>7.2}", 100.0 * count as f64 / all as f64)?,
                }
            }
            writeln!(out)?;
            above = *users;
        }
        Ok(())
    }

    /// How well the schedule was kept.
    fn write_schedule(&self, out: &mut String) -> fmt::Result {
        let delay = &self.results.tally.start_delay;
        if delay.is_empty() {
            return Ok(());
        }
        let (p50, p99) = (delay.value_at_quantile(0.5), delay.value_at_quantile(0.99));
        let [p50_text, p99_text, max] = [p50, p99, delay.max()].map(|nanoseconds| time(nanoseconds as f64));
        writeln!(
            out,
            "schedule          devices began late by p50 {p50_text} p99 {p99_text} max {max}"
        )?;
        Ok(())
    }

    fn write_failures(&self, out: &mut String) -> fmt::Result {
        let (tally, common) = (&self.results.tally, self.devices.common());
        if tally.failures.is_empty() {
            return Ok(());
        }
        writeln!(out, "failures")?;
        for failures in &tally.failures {
            let wrong = match failures.kind.is_wrong_answer() {
                true => "wrong answer: ",
                false => "",
            };
            let (count, kind, example) = (failures.count, failures.kind, &failures.example);
            writeln!(out, "  {count:>8}  {wrong}{kind}; one of them: {example}")?;
        }
        if tally.last_answer.is_none() && !self.results.interrupted {
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
}

/// One part of the authentications on one line.
fn part(counts: &Counts) -> String {
    let mut line = format!("{} right, {} failed", counts.right, counts.failed);
    if !counts.latency.is_empty() {
        let latency = |quantile| time(counts.latency.value_at_quantile(quantile) as f64);
        let max = time(counts.latency.max() as f64);
        line += &format!("; p50 {} p99 {} max {max}", latency(0.5), latency(0.99));
    }
    line
}
