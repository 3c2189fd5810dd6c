//! Lines to standard error, or wherever they go, through a bounded buffer and a thread of its own.
//!
//! Whoever has a line copies it into the buffer and goes on. When the reader of the pipe is slow, or the disk is full,
//! the buffer fills, and further lines are lost; once writing works again, one line says how many.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Octets that may wait; as many again may be on their way into a slow pipe. At least one line of any record fits.
pub const CAPACITY: usize = 4 << 20;

/// How long to rest before a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The way into the buffer. Clones share it.
#[derive(Clone, Debug)]
pub struct Output(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The writer waits here for lines, `close` for the writer.
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    lost: u64,
    closed: bool,
    finished: bool,
}

impl Output {
    /// Writes to standard error. `notice` makes the line that says how many were lost.
    pub fn stderr(notice: fn(u64) -> Vec<u8>) -> io::Result<Output> {
        // not `io::Stderr`: its lock would let a blocked pipe block a thread that panics
        let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Output::new(Box::new(file), CAPACITY, notice)
    }

    /// Writes to `writer` from a new thread.
    pub fn new(writer: Box<dyn Write + Send>, capacity: usize, notice: fn(u64) -> Vec<u8>) -> io::Result<Output> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity,
        });
        let output = Output(shared.clone());
        thread::Builder::new()
            .name("log-output".to_owned())
            .spawn(move || shared.run(writer, notice))?;
        Ok(output)
    }

    /// Adds `lines`, whole lines that end with a line end, and never waits for them to be written. Those that do not fit
    /// are lost and counted.
    pub fn write(&self, lines: &[u8]) {
        let mut state = self.0.lock();
        let room = match state.closed {
            true => 0,
            false => self.0.capacity.saturating_sub(state.buffer.len()),
        };
        let (fitting, lost) = split(lines, room);
        let was_empty = state.buffer.is_empty();
        state.buffer.extend_from_slice(fitting);
        state.lost += count_lines(lost);
        if was_empty && !fitting.is_empty() {
            self.0.changed.notify_all();
        }
    }

    /// Counts lines that were lost before they came here.
    pub fn lost(&self, lines: u64) {
        self.0.lock().lost += lines;
    }

    /// Takes no more lines and waits until the rest is written, at most `patience`. Whether all was written.
    pub fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_all();
        while !state.finished {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .0
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: Box<dyn Write + Send>, notice: fn(u64) -> Vec<u8>) {
        let mut batch = Vec::new();
        // whether the last octet written was a line's last
        let mut at_line_start = true;
        loop {
            batch.clear();
            let (lost, closed) = {
                let mut state = self.lock();
                while state.buffer.is_empty() && !state.closed {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.buffer.is_empty() && state.lost == 0 {
                    state.finished = true;
                    self.changed.notify_all();
                    return;
                }
                std::mem::swap(&mut state.buffer, &mut batch);
                (std::mem::take(&mut state.lost), state.closed)
            };
            let mut prefix = if at_line_start { Vec::new() } else { vec![b'\n'] };
            if lost > 0 {
                // said before the lines that came after
                prefix.extend(notice(lost));
            }
            let failed = match write_all(&mut *writer, &prefix) {
                Err(written) => {
                    at_line_start = prefix
                        .get(..written)
                        .and_then(|done| done.last())
                        .map_or(at_line_start, is_line_end);
                    Some(lost + count_lines(&batch))
                }
                Ok(()) => match write_all(&mut *writer, &batch) {
                    Ok(()) => {
                        at_line_start = true;
                        None
                    }
                    Err(written) => {
                        let (done, rest) = batch.split_at_checked(written).unwrap_or_default();
                        at_line_start = done.last().is_none_or(is_line_end);
                        Some(count_lines(rest))
                    }
                },
            };
            if let Some(lines) = failed {
                let mut state = self.lock();
                if closed {
                    // the last attempt failed: nobody is there to be told
                    state.buffer.clear();
                    state.lost = 0;
                } else {
                    state.lost += lines;
                    drop(state);
                    thread::sleep(RETRY);
                }
            }
            // after a burst, no more memory than a usual batch
            if batch.capacity() > 1 << 20 {
                batch = Vec::new();
            }
        }
    }
}

/// Divides `lines` behind the last whole line that fits into `room` octets.
fn split(lines: &[u8], room: usize) -> (&[u8], &[u8]) {
    let Some(within) = lines.get(..room) else {
        return (lines, &[]);
    };
    let end = within.iter().rposition(is_line_end).map_or(0, |last| last + 1);
    lines.split_at_checked(end).unwrap_or_default()
}

fn is_line_end(octet: &u8) -> bool {
    *octet == b'\n'
}

/// Writes everything, or says how many octets were written before the first error.
fn write_all(writer: &mut dyn Write, octets: &[u8]) -> Result<(), usize> {
    let mut rest = octets;
    while !rest.is_empty() {
        match writer.write(rest) {
            Ok(0) => return Err(octets.len() - rest.len()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // a terminal that another program made non-blocking
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(10)),
            Err(_) => return Err(octets.len() - rest.len()),
        }
    }
    Ok(())
}

fn count_lines(octets: &[u8]) -> u64 {
    octets.iter().filter(|octet| is_line_end(octet)).count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc;

    use super::*;

    fn notice(lost: u64) -> Vec<u8> {
        format!("dropped {lost} log lines\n").into_bytes()
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn a_blocked_pipe_blocks_nobody_and_the_loss_is_said() {
        let (reader, writer) = io::pipe().unwrap();
        let output = Output::new(Box::new(writer), 4_096, notice).unwrap();
        let line = format!("{}\n", "x".repeat(99));
        // far more than the pipe (64 KiB) and the buffer hold, with nobody reading: this returns
        let total = 10_000;
        for _ in 0..total {
            output.write(line.as_bytes());
        }
        // now somebody reads: every line is either there or counted
        let (mut seen, mut dropped) = (0, 0);
        let mut lines = BufReader::new(reader).lines();
        let mut closer = Some(output);
        while seen + dropped < total {
            let text = lines.next().unwrap().unwrap();
            match text
                .strip_prefix("dropped ")
                .and_then(|rest| rest.strip_suffix(" log lines"))
            {
                Some(count) => dropped += count.parse::<u64>().unwrap(),
                None => {
                    assert_eq!(text.len(), 99);
                    seen += 1;
                    if let Some(output) = closer.take() {
                        thread::spawn(move || output.close(PATIENCE));
                    }
                }
            }
        }
        assert!(seen > 0 && dropped > 0, "{seen} {dropped}");
        assert!(lines.next().is_none());
    }

    #[test]
    fn of_lines_that_fit_in_part_the_first_are_kept() {
        let lines = b"one\ntwo\nthree\n";
        for (room, kept) in [(0, 0), (3, 0), (4, 4), (7, 4), (8, 8), (13, 8), (14, 14), (99, 14)] {
            assert_eq!(split(lines, room), lines.split_at(kept), "{room}");
        }
    }

    /// Takes three octets, then is full once, says so, and from then on takes everything.
    struct FullDisk {
        written: Arc<Mutex<Vec<u8>>>,
        full: Option<mpsc::Sender<()>>,
    }

    impl Write for FullDisk {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let mut written = self.written.lock().unwrap();
            let room = if written.is_empty() { 3 } else { octets.len() };
            if !written.is_empty()
                && let Some(full) = self.full.take()
            {
                full.send(()).unwrap();
                return Err(ErrorKind::StorageFull.into());
            }
            written.extend_from_slice(&octets[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn after_a_full_disk_the_log_goes_on_with_a_new_line_and_the_count() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (sender, is_full) = mpsc::channel();
        let disk = FullDisk {
            written: written.clone(),
            full: Some(sender),
        };
        let output = Output::new(Box::new(disk), 4_096, notice).unwrap();
        output.write(b"first line\n");
        is_full.recv().unwrap();
        output.write(b"second line\n");
        assert!(output.close(PATIENCE));
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "fir\ndropped 1 log lines\nsecond line\n");
    }

    #[test]
    fn closing_does_not_wait_for_ever() {
        let (_reader, writer) = io::pipe().unwrap();
        let output = Output::new(Box::new(writer), 1 << 20, notice).unwrap();
        output.write(&[b'\n'; 1 << 18]);
        assert!(!output.close(Duration::from_millis(20)));
    }

    #[test]
    fn closing_writes_what_is_left() {
        let (reader, writer) = io::pipe().unwrap();
        let output = Output::new(Box::new(writer), 1 << 20, notice).unwrap();
        output.write(b"last words\n");
        assert!(output.close(PATIENCE));
        drop(output);
        assert_eq!(io::read_to_string(reader).unwrap(), "last words\n");
    }
}
