//! What happened second by second.
//!
//! A thread fills a [`Window`] for each second and hands it over when the second is past; here those of all threads are put
//! together. A series has a bounded number of points: a long run's are merged two by two.

use std::sync::mpsc::Sender;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::failure::Kind;
use crate::process::Usage;

/// The most points; when there are more, each two become one.
const MOST_POINTS: usize = 7_200;
/// Points at the end that may still grow, since threads hand over at different times.
const OPEN_POINTS: usize = 8;

/// One thread's second.
#[derive(Debug)]
pub struct Window {
    /// Since the run began.
    pub second: u64,
    pub started: u64,
    /// Requests, those that were sent again included.
    pub sent: u64,
    /// Devices that were answered as they must be.
    pub right: u64,
    pub failed: u64,
    /// By kind, wrong answers to nobody included.
    pub failures: Vec<(Kind, u64)>,
    /// The most devices under way.
    pub open: u64,
    /// Of those that ended as they must, nanoseconds.
    pub latency: Option<Histogram<u32>>,
    /// The same, exactly.
    pub total: Duration,
    pub shortest: Option<Duration>,
    pub longest: Duration,
}

impl Window {
    pub fn new(second: u64) -> Window {
        Window {
            second,
            started: 0,
            sent: 0,
            right: 0,
            failed: 0,
            failures: Vec::new(),
            open: 0,
            latency: None,
            total: Duration::ZERO,
            shortest: None,
            longest: Duration::ZERO,
        }
    }

    pub fn right(&mut self, latency: Duration) {
        self.right += 1;
        self.total += latency;
        self.shortest = Some(self.shortest.map_or(latency, |shortest| shortest.min(latency)));
        self.longest = self.longest.max(latency);
        if self.latency.is_none() {
            // it grows as needed
            self.latency = Histogram::new(2).ok();
        }
        if let Some(histogram) = &mut self.latency {
            let _ = histogram.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub fn failure(&mut self, kind: Kind) {
        count(&mut self.failures, kind, 1);
    }

    /// Hands this one over, and begins that of `second`.
    pub fn turn(&mut self, second: u64, open: usize, to: &Sender<Window>) {
        // those that are under way now are so when the next begins
        let next = Window {
            open: open as u64,
            ..Window::new(second)
        };
        let done = std::mem::replace(self, next);
        // nobody asks any more when the run was broken off
        let _ = to.send(done);
    }
}

/// Some seconds of all threads.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Since the run began.
    pub second: u64,
    /// How many seconds.
    pub seconds: u64,
    pub started: u64,
    /// Requests, those that were sent again included.
    pub sent: u64,
    /// Devices that were answered as they must be.
    pub right: u64,
    pub failed: u64,
    pub failures: Vec<(Kind, u64)>,
    /// The most devices under way.
    pub open: u64,
    /// Nanoseconds; where points were merged, those of the worse one. Zero when there was none.
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
    /// Of this process.
    pub client: Usage,
    /// Of the server, where it is watched.
    pub server: Option<Usage>,
    latency: Option<Histogram<u32>>,
}

/// All points.
#[derive(Debug)]
pub struct Series {
    pub points: Vec<Point>,
    /// Seconds of a point.
    width: u64,
}

impl Series {
    pub fn new() -> Series {
        Series {
            points: Vec::new(),
            width: 1,
        }
    }

    /// Adds a thread's second.
    pub fn add(&mut self, window: Window) {
        let Some(point) = self.point(window.second) else { return };
        point.started += window.started;
        point.sent += window.sent;
        point.right += window.right;
        point.failed += window.failed;
        point.open += window.open;
        for (kind, more) in window.failures {
            count(&mut point.failures, kind, more);
        }
        match (&mut point.latency, window.latency) {
            (Some(all), Some(more)) => _ = all.add(more),
            (all @ None, more) => *all = more,
            (Some(_), None) => {}
        }
        point.read_latency();
    }

    /// Adds what processes used in a second.
    pub fn add_usage(&mut self, second: u64, client: Usage, server: Option<Usage>) {
        if let Some(point) = self.point(second) {
            point.client.add(client);
            if let Some(more) = server {
                point.server.get_or_insert_default().add(more);
            }
        }
    }

    /// The point of a second, with those before it.
    fn point(&mut self, second: u64) -> Option<&mut Point> {
        while self.points.len() as u64 * self.width <= second {
            if self.points.len() >= MOST_POINTS {
                self.halve();
                continue;
            }
            self.points.push(Point {
                second: self.points.len() as u64 * self.width,
                seconds: self.width,
                ..Point::default()
            });
            let closed = self.points.len().checked_sub(OPEN_POINTS + 1);
            if let Some(point) = closed.and_then(|at| self.points.get_mut(at)) {
                point.latency = None;
            }
        }
        self.points.get_mut(usize::try_from(second / self.width).ok()?)
    }

    fn halve(&mut self) {
        self.points = merged(&self.points, 2);
        self.width *= 2;
    }
}

/// Fewer points: each `by` become one.
pub fn merged(points: &[Point], by: usize) -> Vec<Point> {
    points
        .chunks(by.max(1))
        .map(|chunk| {
            let mut sum = Point::default();
            for (at, point) in chunk.iter().enumerate() {
                if at == 0 {
                    sum.second = point.second;
                }
                sum.merge(point);
            }
            sum
        })
        .collect()
}

impl Point {
    /// Takes the seconds after it in.
    fn merge(&mut self, next: &Point) {
        self.seconds += next.seconds;
        self.started += next.started;
        self.sent += next.sent;
        self.right += next.right;
        self.failed += next.failed;
        for (kind, more) in &next.failures {
            count(&mut self.failures, *kind, *more);
        }
        self.open = self.open.max(next.open);
        self.p50 = self.p50.max(next.p50);
        self.p99 = self.p99.max(next.p99);
        self.max = self.max.max(next.max);
        self.client.add(next.client);
        if let Some(more) = next.server {
            self.server.get_or_insert_default().add(more);
        }
    }

    fn read_latency(&mut self) {
        if let Some(latency) = self.latency.as_ref().filter(|latency| !latency.is_empty()) {
            // of a point that is closed already, what comes is less than what was: the worse one stands
            self.p50 = latency.value_at_quantile(0.5);
            self.p99 = self.p99.max(latency.value_at_quantile(0.99));
            self.max = self.max.max(latency.max());
        }
    }
}

fn count(failures: &mut Vec<(Kind, u64)>, kind: Kind, more: u64) {
    match failures.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, count)) => *count += more,
        None => failures.push((kind, more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(second: u64, latencies: &[u64]) -> Window {
        let mut window = Window::new(second);
        window.started = latencies.len() as u64 + 1;
        for millis in latencies {
            window.right(Duration::from_millis(*millis));
        }
        window.failure(Kind::Timeout);
        window
    }

    #[test]
    fn seconds_of_all_threads_become_one() {
        let mut series = Series::new();
        series.add(window(0, &[1, 2, 3]));
        series.add(window(2, &[5]));
        series.add(window(0, &[100]));
        let started: Vec<_> = series
            .points
            .iter()
            .map(|point| (point.second, point.started))
            .collect();
        assert_eq!(started, [(0, 6), (1, 0), (2, 2)]);
        let first = &series.points[0];
        assert_eq!((first.right, &*first.failures), (4, &[(Kind::Timeout, 2)][..]));
        assert!(first.p50 >= 1_900_000 && first.p50 < 2_100_000, "{}", first.p50);
        assert!(first.max >= 99_000_000 && first.p99 >= 99_000_000);
    }

    #[test]
    fn a_long_run_has_a_bounded_number_of_points() {
        let mut series = Series::new();
        let seconds = 3 * MOST_POINTS as u64 + 5;
        for second in 0..seconds {
            series.add(window(second, &[second % 7 + 1]));
            let usage = Usage {
                processor: Duration::from_millis(10),
                resident: second,
            };
            series.add_usage(second, usage, Some(usage));
        }
        assert!(series.points.len() <= MOST_POINTS && series.width == 4);
        assert_eq!(series.points.iter().map(|point| point.right).sum::<u64>(), seconds);
        assert_eq!(
            series
                .points
                .iter()
                .map(|point| point.seconds)
                .sum::<u64>()
                .next_multiple_of(4),
            seconds.next_multiple_of(4)
        );
        let kept = series.points.iter().filter(|point| point.latency.is_some()).count();
        assert!(kept <= OPEN_POINTS, "{kept}");
        let last = series.points[1000].clone();
        assert_eq!(
            (last.second, last.seconds, last.client.processor),
            (4000, 4, Duration::from_millis(40))
        );
        assert_eq!(last.server.map(|server| server.resident), Some(4003));
    }
}
