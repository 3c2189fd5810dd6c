//! A line now and then with the sums since the beginning, in the form that load testers have long had tools for:
//! `summary = 263 in 00:00:30 = 8.8/s Avg: 110 Min: 47 Max: 408 Err: 0 (0.00%)`. Times are milliseconds.

use std::time::Duration;

use crate::series::Window;

/// Threads hand over a second when it is past: a line waits that long for them.
const GRACE: Duration = Duration::from_millis(200);
/// What is summed are seconds, so lines are at least one apart.
const LEAST: Duration = Duration::from_secs(1);

/// The sums.
#[derive(Debug)]
pub struct SummaryLines {
    every: Duration,
    next: Duration,
    right: u64,
    failed: u64,
    total: Duration,
    shortest: Option<Duration>,
    longest: Duration,
}

impl SummaryLines {
    pub fn new(every: Duration) -> SummaryLines {
        let every = every.max(LEAST);
        SummaryLines {
            every,
            next: every,
            right: 0,
            failed: 0,
            total: Duration::ZERO,
            shortest: None,
            longest: Duration::ZERO,
        }
    }

    pub fn add(&mut self, window: &Window) {
        self.right += window.right;
        self.failed += window.failed;
        self.total += window.total;
        self.shortest = self.shortest.into_iter().chain(window.shortest).min();
        self.longest = self.longest.max(window.longest);
    }

    /// When the next line is due.
    pub fn at(&self) -> Duration {
        self.next + GRACE
    }

    /// The line, if it is time for one.
    pub fn due(&mut self, elapsed: Duration) -> Option<String> {
        if elapsed < self.at() {
            return None;
        }
        let line = self.line(self.next);
        while self.at() <= elapsed {
            self.next += self.every;
        }
        Some(line)
    }

    /// The line after that time.
    pub fn line(&self, elapsed: Duration) -> String {
        let ended = self.right + self.failed;
        let seconds = elapsed.as_secs();
        let average = self.total.as_secs_f64() / (self.right as f64).max(1.0);
        format!(
            "summary = {ended} in {:02}:{:02}:{:02} = {:.1}/s Avg: {} Min: {} Max: {} Err: {} ({:.2}%)",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            ended as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            millis(average),
            millis(self.shortest.unwrap_or_default().as_secs_f64()),
            millis(self.longest.as_secs_f64()),
            self.failed,
            100.0 * self.failed as f64 / (ended as f64).max(1.0)
        )
    }
}

/// Whole milliseconds, with two or one more digits where a whole one would say nothing.
fn millis(seconds: f64) -> String {
    match seconds * 1e3 {
        millis if millis < 9.995 => format!("{millis:.2}"),
        millis if millis < 99.95 => format!("{millis:.1}"),
        millis => format!("{millis:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn lines_have_the_form_that_tools_know() {
        let mut lines = SummaryLines::new(Duration::from_secs(30));
        assert_eq!(lines.due(Duration::from_secs(30)), None);
        let mut window = Window::new(3);
        for millis in [47, 110, 408] {
            window.right(Duration::from_millis(millis));
        }
        window.right(Duration::from_micros(320));
        window.failed = 1;
        window.failure(Kind::Timeout);
        lines.add(&window);
        assert_eq!(
            lines.due(Duration::from_millis(30_250)).unwrap(),
            "summary = 5 in 00:00:30 = 0.2/s Avg: 141 Min: 0.32 Max: 408 Err: 1 (20.00%)"
        );
        assert_eq!(lines.due(Duration::from_secs(31)), None);
        lines.add(&window);
        let line = lines.due(Duration::from_secs(3661 * 2)).unwrap();
        assert!(line.starts_with("summary = 10 in 00:01:00 = 0.2/s "), "{line}");
        assert!(
            lines
                .line(Duration::from_secs(3661))
                .starts_with("summary = 10 in 01:01:01 = 0.0/s ")
        );
    }
}
