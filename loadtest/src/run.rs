//! The run: threads that put on load, and one that watches the clock, the signals and the screen.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use portreeve::eap::tls::provider;

use crate::engine::{self, Live, Shared};
use crate::fleet::Fleet;
use crate::options::{Common, Devices};
use crate::plan::Plan;
use crate::process::{Usage, Watched, own_processor_time};
use crate::profile::{Load, Phase, Profile};
use crate::progress::{Length, Progress};
use crate::report::Report;
use crate::series::{Series, Window};
use crate::sources::Sources;
use crate::summary_lines::SummaryLines;
use crate::tally::Tally;

const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_CONCURRENCY: u32 = 64;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_RETRIES: u32 = 2;
const SECOND: Duration = Duration::from_secs(1);

/// Columns of response times that a plan does not name.
const BUCKETS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/// Runs, prints the summary, and says whether all was well.
pub fn run(devices: &Devices) -> anyhow::Result<bool> {
    let common = devices.common();
    // an unwritable file is found before the work, not after it
    for path in common.json.iter().chain(&common.html) {
        write_file(path, "")?;
    }
    let plan = Plan::read(&common.plan, common.time_scale)?;
    let scenario = plan.scenario.as_ref();
    let shared = shared(devices, &plan)?;
    let watched = Watched::new(&common.server_pid)?;
    let began_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let every = scenario.and_then(|scenario| scenario.summary_every);
    let results = load(&shared, watched, every.map(SummaryLines::new))?;
    let buckets = scenario.map(|scenario| scenario.buckets.clone()).unwrap_or_default();
    let report = Report {
        devices,
        shared: &shared,
        scenario,
        buckets: &match buckets.is_empty() {
            true => BUCKETS_MS.map(Duration::from_millis).to_vec(),
            false => buckets,
        },
        results,
        began_at,
        command: without_secrets(std::env::args()),
    };
    // where nobody reads it, the exit code and the file still tell
    let _ = io::stdout().write_all(report.text().as_bytes());
    if let Some(path) = &common.json {
        write_file(path, &report.json())?;
    }
    if let Some(path) = &common.html {
        write_file(path, &report.html())?;
    }
    Ok(report.passed())
}

/// Writes a whole file.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// The command line, to be shown to others.
fn without_secrets(arguments: impl Iterator<Item = String>) -> String {
    const SECRET: [&str; 2] = ["--secret", "--password"];
    let mut hide = false;
    let shown: Vec<_> = arguments
        .enumerate()
        .map(|(at, argument)| {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
            let is_secret = SECRET.contains(&name);
            let shown = match (at, std::mem::replace(&mut hide, is_secret && value.is_empty())) {
                (0, _) => "portreeve-load".to_owned(),
                (_, true) => "…".to_owned(),
                (_, false) if is_secret && !value.is_empty() => format!("{name}=…"),
                (_, false) => argument,
            };
            match shown.contains(' ') {
                true => format!("'{shown}'"),
                false => shown,
            }
        })
        .collect();
    shown.join(" ")
}

/// What the threads work off.
pub fn shared(devices: &Devices, plan: &Plan) -> anyhow::Result<Shared> {
    let common = devices.common();
    let scenario = plan.scenario.as_ref();
    let profile = match scenario {
        Some(scenario) => {
            let asked = [
                ("--concurrency", common.concurrency.is_some()),
                ("--rate", common.rate.is_some()),
                ("--ramp", common.ramp.is_some()),
                ("--duration", common.duration.is_some()),
                ("--count", common.count.is_some()),
            ];
            if let Some((option, _)) = asked.iter().find(|(_, asked)| *asked) {
                bail!(
                    "the plan `{}` says how much load there is, not `{option}`",
                    scenario.name
                );
            }
            scenario.profile.clone()
        }
        None => profile(common)?,
    };
    let fleet = Fleet::new(devices, plan)?;
    if let Some(sources) = fleet.sources() {
        check_sources(sources, common)?;
    }
    let mut most_open = profile.most_users();
    if profile.has_rates() {
        most_open = most_open.max(common.most_open);
    }
    // no more at once than there are
    let most_open = most_open.min(u32::try_from(common.count.unwrap_or(u64::MAX)).unwrap_or(u32::MAX));
    let most_open = usize::try_from(most_open)?.max(1);
    let threads = usize::try_from(common.threads)?.min(most_open);
    let timeout = common.timeout.or(scenario.and_then(|scenario| scenario.timeout));
    let retries = common.retries.or(scenario.and_then(|scenario| scenario.retries));
    Ok(Shared {
        fleet,
        profile,
        target: common.target,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        retries: retries.unwrap_or(DEFAULT_RETRIES),
        count: common.count,
        most_open,
        threads,
        start: Barrier::new(threads + 1),
        began: OnceLock::new(),
        live: Live::default(),
    })
}

/// The load that the options ask for.
fn profile(common: &Common) -> anyhow::Result<Profile> {
    let duration = match (common.duration, common.count) {
        (None, Some(_)) => None,
        (duration, _) => Some(duration.unwrap_or(DEFAULT_DURATION)),
    };
    let users = common.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
    let (rising, steady) = match common.rate {
        Some(rate) => (Load::Rate { from: 0.0, to: rate }, Load::Rate { from: rate, to: rate }),
        None => (
            Load::Users { from: 1, to: users },
            Load::Users { from: users, to: users },
        ),
    };
    let phase = |name: &str, duration, load| Phase {
        name: name.to_owned(),
        duration,
        load,
    };
    let phases = match (common.ramp, duration) {
        (None, _) => vec![phase("steady", duration, steady)],
        (Some(ramp), Some(duration)) if ramp > duration => {
            bail!("`--ramp` is longer than the run\nhint: it is a part of `--duration`")
        }
        (Some(ramp), Some(duration)) if ramp == duration => vec![phase("ramp", Some(ramp), rising)],
        (Some(ramp), duration) => vec![
            phase("ramp", Some(ramp), rising),
            phase("steady", duration.map(|duration| duration - ramp), steady),
        ],
    };
    Ok(Profile {
        phases,
        levels: Vec::new(),
    })
}

/// Whether this machine has these addresses, and the target is of their family.
fn check_sources(sources: &Sources, common: &Common) -> anyhow::Result<()> {
    if sources.is_ipv6() != common.target.is_ipv6() {
        bail!("{sources} are of another family than the target {}", common.target);
    }
    for address in sources.ends() {
        std::net::UdpSocket::bind((address, 0)).with_context(|| {
            format!("cannot send from {address}\nhint: `ip address` shows the addresses of this machine; all of 127.0.0.0/8 are")
        })?;
    }
    Ok(())
}

/// What came of it.
pub struct Results {
    pub tally: Tally,
    pub series: Series,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of this process.
    pub processor_time: Duration,
    /// Of the server, where it is watched.
    pub server: Option<Usage>,
    /// Answers that came and were lost, since this client did not take them in time.
    pub dropped: u64,
    pub interrupted: bool,
}

/// Has the threads work until they are done, time is up, or somebody interrupts.
pub fn load(shared: &Shared, watched: Watched, lines: Option<SummaryLines>) -> anyhow::Result<Results> {
    // blocked before the threads begin, so that they inherit it and the signal arrives here
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let done = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
    let working = AtomicUsize::new(shared.threads);
    let (sender, windows) = channel();
    // as many sockets as may be; where that is refused, opening them says so
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    // the first random octets of a process are dear, since the generator looks for entropy: not the run's affair
    let _ = provider().secure_random.fill(&mut [0; 16]);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..shared.threads)
            .map(|thread| {
                let (working, done, sender) = (&working, &done, sender.clone());
                scope.spawn(move || {
                    let result = engine::work(shared, thread, sender);
                    if result.is_err() {
                        shared.live.stop.store(true, Ordering::Relaxed);
                    }
                    working.fetch_sub(1, Ordering::Relaxed);
                    let _ = done.write(1);
                    result
                })
            })
            .collect();
        drop(sender);
        let mut watch = Watch {
            shared,
            signals: &signals,
            done: &done,
            working: &working,
            windows,
            watched: watched.is_any().then_some(watched),
            client: own_processor_time()?,
            series: Series::new(),
            server: Usage::default(),
            lines,
        };
        let before = watch.client;
        let began = shared.begin();
        let interrupted = watch.run(began);
        if interrupted.is_err() {
            shared.live.stop.store(true, Ordering::Relaxed);
        }
        let mut tally = Tally::new(&shared.profile)?;
        let mut dropped = 0;
        for worker in workers {
            let done = worker.join().map_err(|_| anyhow!("a thread panicked"))??;
            tally.add(done.tally);
            dropped += done.dropped;
        }
        tally.sort();
        let interrupted = interrupted?;
        watch.take_windows();
        if let Some(lines) = &watch.lines {
            let _ = writeln!(io::stdout(), "{}", lines.line(began.elapsed()));
        }
        if let Some(error) = shared.live.unreachable.get() {
            return Err(match error.kind() {
                io::ErrorKind::ConnectionRefused => anyhow!(
                    "nothing listens on {}\nhint: `portreeve demo` starts a server on 127.0.0.1:1812; --target names another",
                    shared.target
                ),
                _ => anyhow!("cannot send to {}: {error}", shared.target),
            });
        }
        Ok(Results {
            elapsed: tally.last_answer.unwrap_or_else(Instant::now).duration_since(began),
            processor_time: own_processor_time()?.saturating_sub(before),
            server: watch.watched.is_some().then_some(watch.server),
            series: watch.series,
            tally,
            dropped,
            interrupted,
        })
    })
}

/// The thread that watches.
struct Watch<'w> {
    shared: &'w Shared,
    signals: &'w SignalFd,
    done: &'w EventFd,
    working: &'w AtomicUsize,
    windows: Receiver<Window>,
    watched: Option<Watched>,
    /// This process's processor time, when it was looked at last.
    client: Duration,
    series: Series,
    /// What the server used since the beginning.
    server: Usage,
    lines: Option<SummaryLines>,
}

impl Watch<'_> {
    /// Waits for the threads. Whether somebody interrupted.
    fn run(&mut self, began: Instant) -> anyhow::Result<bool> {
        let length = match (self.shared.profile.duration(), self.shared.count) {
            (Some(duration), _) => Length::Duration(duration),
            (None, count) => Length::Count(count.unwrap_or(u64::MAX)),
        };
        let mut progress = Progress::begin(length);
        if let Some(watched) = &mut self.watched {
            watched.since_last();
        }
        let mut second = 0;
        let mut interrupted = false;
        while self.working.load(Ordering::Relaxed) > 0 {
            let next = began + SECOND * u32::try_from(second + 1)?;
            let wake = self.lines.as_ref().map_or(next, |lines| next.min(began + lines.at()));
            let wait = progress.every().min(wake.saturating_duration_since(Instant::now()));
            let mut ready = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.done.as_fd(), PollFlags::POLLIN),
            ];
            let wait_ms = u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX);
            match poll(&mut ready, PollTimeout::from(wait_ms)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            // each thread writes once: reading empties the counter, so that the next wait waits
            let _ = self.done.read();
            if self.signals.read_signal()?.is_some() {
                interrupted = true;
                self.shared.live.stop.store(true, Ordering::Relaxed);
            }
            if Instant::now() >= next {
                self.look(second)?;
                second = began.elapsed().as_secs();
            }
            self.take_windows();
            if let Some(line) = self.lines.as_mut().and_then(|lines| lines.due(began.elapsed())) {
                progress.print(&line);
            }
            progress.show(&self.shared.live, &self.series);
        }
        self.look(second)?;
        progress.end();
        Ok(interrupted)
    }

    /// Takes the seconds that threads handed over.
    fn take_windows(&mut self) {
        for window in self.windows.try_iter() {
            if let Some(lines) = &mut self.lines {
                lines.add(&window);
            }
            self.series.add(window);
        }
    }

    /// What the processes used since the last look, in that second.
    fn look(&mut self, second: u64) -> anyhow::Result<()> {
        let now = own_processor_time()?;
        let client = Usage {
            processor: now.saturating_sub(self.client),
            resident: 0,
        };
        self.client = now;
        let server = self.watched.as_mut().map(Watched::since_last);
        self.server.add(server.unwrap_or_default());
        self.series.add_usage(second, client, server);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_without_its_secrets() {
        let shown = |line: &str| without_secrets(line.split('|').map(str::to_owned));
        assert_eq!(
            shown("/usr/bin/portreeve-load|mab|--secret|s3cret|--attr|NAS-Identifier=a b|--password=hunter2"),
            "portreeve-load mab --secret … --attr 'NAS-Identifier=a b' --password=…"
        );
    }
}
