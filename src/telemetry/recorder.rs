//! The thread that takes finished authentications from the queue: counts, remembers, formats.
//!
//! It polls: a push on the request path then never has to wake anybody, and one wake-up here serves a whole batch.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::attempts::Attempts;
use super::certificates::Certificates;
use super::line::Formatter;
use super::output::Output;
use crate::config::LogFormat;
use crate::server::metrics::Metrics;
use crate::server::record::{Next, Records};

/// How long records may wait before they are looked at. Longer, and those of a busy node no longer lie in the processor's
/// cache by then.
const PERIOD: Duration = Duration::from_millis(5);

/// Octets of lines that are handed on together: each time may wake the thread that writes.
const BATCH: usize = 64 << 10;

/// Samples that are folded into histograms together. With more, the processor is taken from packets for longer at a time.
const SAMPLES: usize = 4_096;

/// What learns of each finished authentication.
pub struct Learners {
    /// Counts it.
    pub metrics: Arc<Metrics>,
    /// Folds what was counted into histograms.
    pub fold: Box<dyn Fn() + Send>,
    /// Remembers it for `portreeve why`.
    pub attempts: Arc<Attempts>,
    /// Looks at its certificate.
    pub certificates: Certificates,
}

/// A running recorder. It ends when every sink is gone and the queue is empty, or when it is told to.
#[derive(Debug)]
pub struct Recorder {
    stop: Sender<()>,
    finished: Receiver<()>,
}

impl Recorder {
    /// Starts the thread. `node` is in every line.
    pub fn start(
        records: Records,
        node: &str,
        format: LogFormat,
        mut learners: Learners,
        output: Output,
    ) -> io::Result<Recorder> {
        let (stop, stopped) = channel();
        let (finish, finished) = channel();
        let mut formatter = Formatter::new(node);
        let work = move || {
            run(records, &stopped, &mut formatter, format, &mut learners, &output);
            // the only error is that nobody waits
            let _ = finish.send(());
        };
        thread::Builder::new().name("recorder".to_owned()).spawn(work)?;
        Ok(Recorder { stop, finished })
    }

    /// Records what is in the queue and ends, within `patience`. Whether it did; the output is still to be closed.
    pub fn close(self, patience: Duration) -> bool {
        let _ = self.stop.send(());
        self.finished.recv_timeout(patience).is_ok()
    }
}

fn run(
    mut records: Records,
    stopped: &Receiver<()>,
    formatter: &mut Formatter,
    format: LogFormat,
    learners: &mut Learners,
    output: &Output,
) {
    let mut lines = Vec::with_capacity(BATCH + 1_024);
    let (mut stopping, mut samples) = (false, 0);
    loop {
        match records.take() {
            Next::Record(mut record) => {
                learners.metrics.authentication(&record);
                samples += 1;
                if samples == SAMPLES {
                    (learners.fold)();
                    samples = 0;
                }
                learners.certificates.see(&mut record);
                formatter.line(&record, format, &mut lines);
                if lines.len() >= BATCH {
                    output.write(&lines);
                    lines.clear();
                }
                learners.attempts.push(record);
            }
            Next::Empty if !lines.is_empty() => {
                output.write(&lines);
                lines.clear();
            }
            Next::Empty if !stopping => {
                learners.certificates.tick(Instant::now());
                let lost = records.take_lost();
                if lost > 0 {
                    output.lost(lost);
                }
                // also when the other end was dropped without a word
                stopping = !matches!(stopped.recv_timeout(PERIOD), Err(RecvTimeoutError::Timeout));
            }
            Next::Empty => return,
            Next::Closed => return output.write(&lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::reason::Reason;
    use crate::server::record::{Authentication, Outcome, Sink, Text};
    use crate::telemetry::certificates::Devices;

    fn record(user: usize) -> Authentication {
        let mut record = Authentication::new(
            UNIX_EPOCH,
            "192.0.2.1".parse().unwrap(),
            Outcome::Reject,
            Reason::MacNotListed,
        );
        record.texts.set(Text::User, user.to_string().as_bytes());
        record
    }

    fn learners(attempts: &Arc<Attempts>) -> Learners {
        let metrics = Arc::new(Metrics::none());
        let devices = Arc::new(Devices::new(UNIX_EPOCH));
        Learners {
            certificates: Certificates::new(Duration::ZERO, devices, Arc::clone(&metrics)),
            metrics,
            fold: Box::new(|| ()),
            attempts: Arc::clone(attempts),
        }
    }

    fn notice(lost: u64) -> Vec<u8> {
        format!("lost {lost}\n").into_bytes()
    }

    #[test]
    fn records_become_lines_attempts_and_counts() {
        let (mut reader, writer) = io::pipe().unwrap();
        let output = Output::new(Box::new(writer), 1 << 20, notice).unwrap();
        let (sink, records) = Sink::channel(16);
        let attempts = Arc::new(Attempts::default());
        let learners = learners(&attempts);
        let recorder = Recorder::start(records, "node-a", LogFormat::Text, learners, output.clone()).unwrap();
        for user in 0..10 {
            sink.push(record(user));
        }
        assert!(recorder.close(Duration::from_secs(30)) && output.close(Duration::from_secs(30)));
        drop(output);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 10);
        assert!(text.contains("node=node-a client=192.0.2.1 user=3 outcome=reject reason=mac-not-listed"));
        assert_eq!(attempts.search("", 100).len(), 10);
    }

    #[test]
    fn samples_do_not_pile_up_where_nobody_scrapes() {
        let (sink, records) = Sink::channel(Sink::CAPACITY);
        for user in 0..3 * SAMPLES {
            sink.push(record(user));
        }
        let output = Output::new(Box::new(io::sink()), 1 << 20, notice).unwrap();
        let folded = Arc::new(AtomicUsize::new(0));
        let learners = Learners {
            fold: Box::new({
                let folded = Arc::clone(&folded);
                move || {
                    folded.fetch_add(1, Ordering::Relaxed);
                }
            }),
            ..learners(&Arc::default())
        };
        let recorder = Recorder::start(records, "node-a", LogFormat::Text, learners, output).unwrap();
        assert!(recorder.close(Duration::from_secs(30)));
        assert_eq!(folded.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn with_a_blocked_pipe_attempts_are_still_remembered() {
        let (_reader, writer) = io::pipe().unwrap();
        let output = Output::new(Box::new(writer), 4_096, notice).unwrap();
        let (sink, records) = Sink::channel(Sink::CAPACITY);
        let attempts = Arc::new(Attempts::default());
        let recorder = Recorder::start(records, "node-a", LogFormat::Json, learners(&attempts), output).unwrap();
        for user in 0..5_000 {
            sink.push(record(user));
        }
        assert!(recorder.close(Duration::from_secs(30)));
        assert_eq!(attempts.search("", usize::MAX).len(), 5_000);
    }
}
