//! The run: threads that put on load, and one that watches the clock, the signals and the screen.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use portreeve::eap::tls::provider;

use crate::attributes::Expectations;
use crate::engine::{self, FINISH, Live, Plan, STOP};
use crate::fleet::Fleet;
use crate::options::Options;
use crate::progress::{Length, Progress};
use crate::report::Report;
use crate::tally::Tally;

const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Runs, prints the summary, and says whether all was well.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let common = options.common();
    let plan = Plan {
        fleet: Fleet::new(options)?,
        expectations: Expectations::new(&common.expect),
        target: common.target,
        timeout: common.timeout,
        retries: common.retries,
        count: common.count,
        live: Live::default(),
    };
    // an unwritable file is found before the work, not after it
    if let Some(path) = &common.json {
        std::fs::write(path, "").with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let length = match common.count {
        Some(count) => Length::Count(count),
        None => Length::Duration(common.duration.unwrap_or(DEFAULT_DURATION)),
    };
    let slots = usize::try_from(
        common
            .concurrency
            .min(u32::try_from(common.count.unwrap_or(u64::MAX)).unwrap_or(u32::MAX)),
    )?;
    // the first random octets of a process are dear, since the generator looks for entropy: not the run's affair
    let _ = provider().secure_random.fill(&mut [0; 16]);
    let before = processor_time()?;
    let began = Instant::now();
    let (tally, interrupted) = load(&plan, slots, usize::try_from(common.threads)?, length)?;
    let elapsed = tally.last_answer.unwrap_or_else(Instant::now).duration_since(began);
    if let Some(error) = plan.live.unreachable.get() {
        return Err(match error.kind() {
            io::ErrorKind::ConnectionRefused => anyhow!(
                "nothing listens on {}\nhint: `portreeve demo` starts a server on 127.0.0.1:1812; --target names another",
                plan.target
            ),
            _ => anyhow!("cannot send to {}: {error}", plan.target),
        });
    }
    let report = Report {
        options,
        concurrency: slots,
        tally,
        elapsed,
        processor_time: processor_time()?.saturating_sub(before),
        interrupted,
    };
    // where nobody reads it, the exit code and the file still tell
    let _ = io::stdout().write_all(report.text().as_bytes());
    if let Some(path) = &common.json {
        std::fs::write(path, report.json()).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(report.passed())
}

/// Has the threads work until they are done, time is up, or somebody interrupts.
fn load(plan: &Plan, slots: usize, threads: usize, length: Length) -> anyhow::Result<(Tally, bool)> {
    // blocked before the threads begin, so that they inherit it and the signal arrives here
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let threads = threads.min(slots).max(1);
    let done = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
    let working = Arc::new(AtomicUsize::new(threads));
    std::thread::scope(|scope| {
        let mut port = 1;
        let workers: Vec<_> = (0..threads)
            .map(|at| {
                let slots = slots / threads + usize::from(at < slots % threads);
                let first_port = port;
                port += u32::try_from(slots).unwrap_or_default();
                let (working, done) = (Arc::clone(&working), &done);
                scope.spawn(move || {
                    let tally = engine::work(plan, first_port, slots);
                    if tally.is_err() {
                        plan.live.phase.store(STOP, Ordering::Relaxed);
                    }
                    working.fetch_sub(1, Ordering::Relaxed);
                    let _ = done.write(1);
                    tally
                })
            })
            .collect();
        let interrupted = watch(plan, &signals, &done, &working, length);
        if interrupted.is_err() {
            plan.live.phase.store(STOP, Ordering::Relaxed);
        }
        let mut sum = Tally::new()?;
        for worker in workers {
            let tally = worker.join().map_err(|_| anyhow!("a thread panicked"))?;
            sum.add(tally?);
        }
        sum.sort();
        Ok((sum, interrupted?))
    })
}

/// Waits for the threads. Whether somebody interrupted.
fn watch(
    plan: &Plan,
    signals: &SignalFd,
    done: &EventFd,
    working: &AtomicUsize,
    length: Length,
) -> anyhow::Result<bool> {
    let began = Instant::now();
    let mut progress = Progress::begin(length);
    let mut end = match length {
        Length::Count(_) => None,
        Length::Duration(duration) => Some(began + duration),
    };
    let mut interrupted = false;
    while working.load(Ordering::Relaxed) > 0 {
        let mut wait = progress.every();
        if let Some(at) = end {
            wait = wait.min(at.saturating_duration_since(Instant::now()));
        }
        let mut ready = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(done.as_fd(), PollFlags::POLLIN),
        ];
        let wait_ms = u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut ready, PollTimeout::from(wait_ms)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // each thread writes once: reading empties the counter, so that the next wait waits
        let _ = done.read();
        if signals.read_signal()?.is_some() {
            interrupted = true;
            plan.live.phase.store(STOP, Ordering::Relaxed);
        }
        if end.is_some_and(|at| Instant::now() >= at) {
            end = None;
            plan.live.phase.fetch_max(FINISH, Ordering::Relaxed);
        }
        progress.show(&plan.live);
    }
    progress.end();
    Ok(interrupted)
}

/// Of this process, in the kernel too.
fn processor_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let sum = usage.user_time() + usage.system_time();
    let seconds = u64::try_from(sum.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(sum.tv_usec()).unwrap_or_default();
    Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
}
