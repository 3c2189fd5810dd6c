//! What is shown while it runs, on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::Live;
use crate::series::Series;
use crate::units;

/// How often the bar moves.
const MOVE: Duration = Duration::from_millis(200);
/// How often a line is written where there is no bar.
const LINE: Duration = Duration::from_secs(5);

/// How far it has come.
pub struct Progress {
    bar: Option<ProgressBar>,
    length: Length,
    began: Instant,
    shown: Instant,
    /// Authentications finished when it was shown last.
    finished: u64,
}

/// When it ends.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    Count(u64),
    Duration(Duration),
}

impl Progress {
    pub fn begin(length: Length) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (total, template) = match length {
                Length::Count(count) => (count, "{bar:32} {pos}/{len} {msg}"),
                Length::Duration(duration) => (millis(duration), "{bar:32} {msg}"),
            };
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            // a template that does not parse leaves indicatif's own, which shows the same in another form
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        let now = Instant::now();
        Progress {
            bar,
            length,
            began: now,
            shown: now,
            finished: 0,
        }
    }

    /// How long until it wants to show something.
    pub fn every(&self) -> Duration {
        if self.bar.is_some() { MOVE } else { LINE }
    }

    /// Shows how far it has come, if it is time.
    pub fn show(&mut self, live: &Live, series: &Series) {
        let since = self.shown.elapsed();
        if since < self.every() {
            return;
        }
        let right = live.right.load(Ordering::Relaxed);
        let failed = live.failed.load(Ordering::Relaxed);
        let finished = right + failed;
        let open = live.begun.load(Ordering::Relaxed).saturating_sub(finished);
        let rate = finished.saturating_sub(self.finished) as f64 / since.as_secs_f64();
        let recent = series.points.iter().rev().find(|point| point.p99 > 0);
        let latency = recent.map_or(String::new(), |point| {
            format!(", p99 {}", units::time(point.p99 as f64))
        });
        let line = format!(
            "{:.0} s: {rate:.0}/s{latency}, {right} right, {failed} failed, {open} open",
            self.began.elapsed().as_secs_f64()
        );
        (self.shown, self.finished) = (Instant::now(), finished);
        match (&self.bar, self.length) {
            (None, _) => eprintln!("{line}"),
            (Some(bar), length) => {
                bar.set_position(match length {
                    Length::Count(_) => finished,
                    Length::Duration(duration) => millis(self.began.elapsed().min(duration)),
                });
                bar.set_message(line);
            }
        }
    }

    /// Writes a line to standard output, out of the bar's way.
    pub fn print(&self, line: &str) {
        let write = || _ = writeln!(std::io::stdout(), "{line}");
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
