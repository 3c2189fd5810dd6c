//! Processor time and memory of processes: this one's, and the server's from `/proc` (`--server-pid`).

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};

/// What a process, or several, used in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In the kernel too.
    pub processor: Duration,
    /// Resident memory at the end, in octets.
    pub resident: u64,
}

impl Usage {
    /// Takes the time after it in.
    pub fn add(&mut self, next: Usage) {
        self.processor += next.processor;
        self.resident = self.resident.max(next.resident);
    }
}

/// Processor time of this process.
pub fn own_processor_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let sum = usage.user_time() + usage.system_time();
    let seconds = u64::try_from(sum.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(sum.tv_usec()).unwrap_or_default();
    Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
}

/// Processes that are watched, with all their threads.
#[derive(Debug)]
pub struct Watched {
    pids: Vec<u32>,
    ticks_a_second: u32,
    /// Of each, when it was looked at last.
    before: Vec<Duration>,
}

impl Watched {
    /// # Errors
    /// When one of them does not run.
    pub fn new(pids: &[u32]) -> anyhow::Result<Watched> {
        let ticks =
            sysconf(SysconfVar::CLK_TCK)?.ok_or_else(|| anyhow!("the system does not say how it counts time"))?;
        let mut watched = Watched {
            pids: pids.to_vec(),
            ticks_a_second: u32::try_from(ticks)?.max(1),
            before: Vec::new(),
        };
        for pid in pids {
            let time = watched.processor_time(*pid).with_context(|| {
                format!(
                    "cannot watch process {pid}\nhint: --server-pid takes the number that `pgrep -x portreeve` prints"
                )
            })?;
            watched.before.push(time);
        }
        Ok(watched)
    }

    pub fn is_any(&self) -> bool {
        !self.pids.is_empty()
    }

    /// What they used since the last time. One that ended used nothing.
    pub fn since_last(&mut self) -> Usage {
        let mut usage = Usage::default();
        for (at, pid) in self.pids.clone().into_iter().enumerate() {
            let (Ok(now), Some(before)) = (self.processor_time(pid), self.before.get_mut(at)) else {
                continue;
            };
            usage.processor += now.saturating_sub(*before);
            *before = now;
            usage.resident += resident(pid).unwrap_or_default();
        }
        usage
    }

    /// All threads' time, those that ended included: proc_pid_stat(5), fields 14 and 15.
    fn processor_time(&self, pid: u32) -> io::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        ticks(&stat)
            .map(|ticks| Duration::from_secs(ticks) / self.ticks_a_second)
            .ok_or_else(|| io::Error::other("it has an unknown form"))
    }
}

/// The fields are counted from behind the name, which may hold spaces and brackets itself.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory in octets.
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Datagrams that the kernel dropped on this machine's UDP ports `ports`, since nobody took them in time.
pub fn dropped(ports: &[u16]) -> u64 {
    ["/proc/net/udp", "/proc/net/udp6"]
        .into_iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .map(|table| drops(&table, ports))
        .sum()
}

fn drops(table: &str, ports: &[u16]) -> u64 {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (_, port) = fields.nth(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let drops = fields.next_back()?.parse::<u64>().ok()?;
        ports.contains(&port).then_some(drops)
    };
    table.lines().filter_map(line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_with_its_threads() {
        let mut watched = Watched::new(&[std::process::id()]).unwrap();
        std::thread::spawn(|| {
            let began = own_processor_time().unwrap();
            while own_processor_time().unwrap() - began < Duration::from_millis(60) {}
        })
        .join()
        .unwrap();
        let usage = watched.since_last();
        assert!(usage.processor >= Duration::from_millis(50), "{usage:?}");
        assert!(usage.resident > 1 << 20, "{usage:?}");
        let nobody = Watched::new(&[u32::MAX]).unwrap_err();
        assert!(
            format!("{nobody:#}").contains("cannot watch process 4294967295"),
            "{nobody:#}"
        );
    }

    #[test]
    fn names_with_brackets() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 4 0";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (a"), None);
    }

    #[test]
    fn drops_are_read_by_port() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1: 0100007F:0714 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 12\n\
            2: 0100007F:0715 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 5\n\
            3: 00000000:0714 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 3\n";
        assert_eq!(
            (drops(table, &[1812]), drops(table, &[1813, 1812]), drops(table, &[])),
            (15, 20, 0)
        );
    }
}
