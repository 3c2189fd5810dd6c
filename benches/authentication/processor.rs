//! Processor time: of another process, and of this thread.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::Fallible;

/// What a process has used so far, all its threads that still live.
///
/// The scheduler's own account, in nanoseconds; a thread that runs at this moment is counted up to the last tick, so the
/// process should be idle before and after what is measured.
pub fn of_process(id: u32) -> Fallible<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += text
            .split_whitespace()
            .next()
            .ok_or("an empty schedstat")?
            .parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// What this thread has used so far, to this moment.
pub fn of_thread() -> Fallible<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
