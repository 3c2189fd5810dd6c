//! The report as a page: one file that needs nothing else, to be opened, mailed and printed.

mod figure;
mod plots;
mod scale;

use std::fmt::{self, Write};

use super::{Report, percentiles, response_times};
use crate::profile::Load;
use crate::tally::Counts;
use crate::units::{self, bytes, count, short_time, utc};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Report<'_> {
    pub fn html(&self) -> String {
        let mut page = String::new();
        // writing to a String does not fail
        let _ = self.write_html(&mut page);
        page
    }

    fn write_html(&self, out: &mut String) -> fmt::Result {
        let title = escape(&self.title());
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        )?;
        self.write_header(out, &title)?;
        self.write_headlines(out)?;
        self.write_warnings(out)?;
        writeln!(out, "<div class=\"figures\">")?;
        for figure in self.figures() {
            figure.write(out)?;
        }
        writeln!(out, "</div>")?;
        self.write_failure_bars(out)?;
        self.write_phase_table(out)?;
        self.write_level_table(out)?;
        self.write_details(out)?;
        write!(
            out,
            "<footer><p>Latency counts from a device's first request, or, where a schedule says when devices begin, from when \
             it was due. Every answer was checked: authenticator, Message-Authenticator, keys, EAP, and the attributes \
             expected.</p></footer>\n</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }

    fn title(&self) -> String {
        let method = match self.devices.word() {
            "mab" => "MAC authentication",
            _ => "EAP-TLS",
        };
        format!("{method} against {}", self.shared.target)
    }

    fn load(&self) -> String {
        match (self.scenario, self.shared.profile.phases.last().map(|phase| phase.load)) {
            (Some(scenario), _) => format!("plan {}", scenario.name),
            (None, Some(Load::Rate { to, .. })) => format!("{} devices a second by schedule", with_commas(to)),
            (None, _) => format!("{} devices at once", self.shared.most_open),
        }
    }

    fn write_header(&self, out: &mut String, title: &str) -> fmt::Result {
        let (class, verdict) = match (self.passed(), self.results.interrupted) {
            (false, _) => ("bad", "failed"),
            (true, true) => ("so", "interrupted"),
            (true, false) => ("good", "passed"),
        };
        writeln!(
            out,
            "<header><h1>{title} <span class=\"verdict {class}\">{verdict}</span></h1>\
             <p>{}, {} s, on {}, by portreeve-load {}</p></header>",
            escape(&self.load()),
            (self.seconds() * 10.0).round() / 10.0,
            utc(self.began_at),
            env!("CARGO_PKG_VERSION")
        )
    }

    fn write_headlines(&self, out: &mut String) -> fmt::Result {
        let tally = &self.results.tally;
        let right = tally.accepted + tally.refused;
        let accepted = match tally.refused {
            0 => format!("{} accepted", count(tally.accepted)),
            refused => format!(
                "{} accepted, {} refused as they must",
                count(tally.accepted),
                count(refused)
            ),
        };
        let mut tiles = vec![("a second", plots::rounded(self.rate()), accepted, "")];
        if right > 0 {
            let at = |quantile| time(tally.latency.value_at_quantile(quantile) as f64);
            let (shortest, longest) = (time(tally.latency.min() as f64), time(tally.latency.max() as f64));
            tiles.push(("median latency", at(0.5), format!("shortest {shortest}"), ""));
            tiles.push(("p99 latency", at(0.99), format!("longest {longest}"), ""));
        }
        let (wrong, failed) = (tally.wrong_answers(), tally.failed);
        let kinds = match (wrong, failed) {
            (0, 0) => "every answer was right".to_owned(),
            (0, _) => "no wrong answer among them".to_owned(),
            _ => format!("{} wrong answers", count(wrong)),
        };
        tiles.push((
            "failed",
            count(failed),
            kinds,
            if failed + wrong > 0 { "bad" } else { "" },
        ));
        let mut process = |label, processor, memory: String| {
            let cores = format!("{:.0} % of a core{memory}", 100.0 * self.cores(processor));
            tiles.push((label, time(self.a_device(processor) * 1e3), cores, ""));
        };
        if let Some(server) = self.results.server {
            process(
                "server, a device",
                server.processor,
                format!(", {}", bytes(server.resident)),
            );
        }
        process("client, a device", self.results.processor_time, String::new());
        write!(out, "<dl class=\"headlines\">")?;
        for (label, number, more, class) in tiles {
            let (number, more) = (escape(&number), escape(&more));
            write!(
                out,
                "<div class=\"{class}\"><dt>{label}</dt><dd>{number}</dd><dd class=\"more\">{more}</dd></div>"
            )?;
        }
        writeln!(out, "</dl>")
    }

    fn write_warnings(&self, out: &mut String) -> fmt::Result {
        for warning in self.warnings() {
            writeln!(out, "<p class=\"warning\">{}</p>", escape(&warning))?;
        }
        Ok(())
    }

    /// Failures by kind: a bar for each, as long as its share, and one of them.
    fn write_failure_bars(&self, out: &mut String) -> fmt::Result {
        let failures = &self.results.tally.failures;
        let Some(most) = failures.iter().map(|failures| failures.count).max() else {
            return Ok(());
        };
        write!(out, "<section><h2>Failures by kind</h2><ul class=\"bars\">")?;
        for failures in failures {
            let share = 100.0 * failures.count as f64 / (most as f64).max(1.0);
            let (class, wrong) = match failures.kind.is_wrong_answer() {
                true => ("wrong", " <em>wrong answer</em>"),
                false => ("", ""),
            };
            write!(
                out,
                "<li class=\"{class}\"><b>{}</b>{wrong}<span>{}</span><i style=\"width:{share:.2}%\"></i><p>{}</p></li>",
                failures.kind,
                count(failures.count),
                escape(&failures.example)
            )?;
        }
        writeln!(out, "</ul></section>")
    }

    fn write_phase_table(&self, out: &mut String) -> fmt::Result {
        if self.shared.profile.phases.len() < 2 {
            return Ok(());
        }
        write!(
            out,
            "<section><h2>Phases</h2><div class=\"table\"><table><thead><tr><th>phase<th>load<th>right<th>failed<th>p50<th>p90\
             <th>p99<th>max</tr></thead><tbody>"
        )?;
        for (phase, counts) in self.phases() {
            let load = match phase.load {
                Load::Users { from, to } if from == to => format!("{to} users"),
                Load::Users { from, to } => format!("{from} to {to} users"),
                Load::Rate { from, to } if from == to => format!("{}/s", with_commas(to)),
                Load::Rate { from, to } => format!("{} to {}/s", with_commas(from), with_commas(to)),
            };
            write!(
                out,
                "<tr><th>{}<td>{load}<td>{}<td>{}",
                escape(&phase.name),
                count(counts.right),
                count(counts.failed)
            )?;
            for quantile in [0.5, 0.9, 0.99, 1.0] {
                write!(out, "<td>{}", quantile_of(counts, quantile))?;
            }
            write!(out, "</tr>")?;
        }
        writeln!(out, "</tbody></table></div></section>")
    }

    fn write_level_table(&self, out: &mut String) -> fmt::Result {
        let levels = &self.results.tally.levels;
        if levels.is_empty() {
            return Ok(());
        }
        write!(
            out,
            "<section><h2>Response times by users at once</h2><p>Percent of each row, by how long the answer took.</p>\
             <div class=\"table\"><table class=\"heat\"><thead><tr><th>users<th>ended"
        )?;
        for bucket in self.buckets {
            write!(out, "<th>≤ {}", short_time(*bucket))?;
        }
        write!(out, "<th>longer<th>failed</tr></thead><tbody>")?;
        let mut above = 0;
        for (users, counts) in levels {
            let all = counts.right + counts.failed;
            let range = match users.saturating_sub(above) {
                1 => users.to_string(),
                _ => format!("{}–{users}", above + 1),
            };
            write!(out, "<tr><th>{range}<td>{}", count(all))?;
            for number in response_times(counts, self.buckets).into_iter().chain([counts.failed]) {
                let share = 100.0 * number as f64 / (all as f64).max(1.0);
                match number {
                    0 => write!(out, "<td class=\"none\">0")?,
                    _ => write!(out, "<td style=\"--share:{share:.1}%\">{share:.2}")?,
                }
            }
            write!(out, "</tr>")?;
            above = *users;
        }
        writeln!(out, "</tbody></table></div></section>")
    }

    /// What else is known of the run.
    fn write_details(&self, out: &mut String) -> fmt::Result {
        let tally = &self.results.tally;
        let mut rows = vec![
            ("command", self.command.clone()),
            (
                "time-out",
                format!(
                    "{}, then sent again up to {} times",
                    short_time(self.shared.timeout),
                    self.shared.retries
                ),
            ),
            (
                "requests",
                format!(
                    "{}, {:.2} a device; {} sent again, {} answered twice",
                    count(tally.requests),
                    tally.requests as f64 / self.devices(),
                    count(tally.retransmissions),
                    count(tally.duplicate_answers)
                ),
            ),
        ];
        if let Some(sources) = self.shared.fleet.sources() {
            rows.push(("sources", sources.to_string()));
        }
        for (handshake, number) in &tally.handshakes {
            let kind = if handshake.resumed { "resumed" } else { "full" };
            let (version, cipher) = (handshake.version, handshake.cipher);
            rows.push(("tls", format!("{version} {cipher}, {kind}: {}", count(*number))));
        }
        if !tally.start_delay.is_empty() {
            let at = |quantile| time(tally.start_delay.value_at_quantile(quantile) as f64);
            let late = format!(
                "devices began late by {} (median), {} (p99), {} at most",
                at(0.5),
                at(0.99),
                at(1.0)
            );
            rows.push(("schedule", late));
        }
        if !tally.latency.is_empty() {
            let all = percentiles(&tally.latency).map(|(name, value)| format!("{name} {}", time(value)));
            rows.push(("latency", all.join(", ")));
        }
        write!(out, "<section><h2>Details</h2><dl class=\"details\">")?;
        for (name, text) in rows {
            write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&text))?;
        }
        writeln!(out, "</dl></section>")
    }
}

fn quantile_of(counts: &Counts, quantile: f64) -> String {
    match counts.latency.is_empty() {
        true => "–".to_owned(),
        false => time(counts.latency.value_at_quantile(quantile) as f64),
    }
}

fn with_commas(rate: f64) -> String {
    match rate.fract() == 0.0 {
        true => count(rate as u64),
        false => rate.to_string(),
    }
}

/// As on the axes, with the letter that terminals may not have.
fn time(nanoseconds: f64) -> String {
    units::time(nanoseconds).replace("us", "µs")
}

/// Text that may hold anything: some of it comes from the server.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            other => escaped.push(other),
        }
    }
    escaped
}
