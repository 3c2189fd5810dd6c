//! Processor time: of another process, and of this thread.

use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::Fallible;

/// What a process has used so far, all its threads, those that ended too.
pub fn of_process(id: u32) -> Fallible<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(id)?))?;
    Ok(clock_gettime(clock)?.into())
}

/// What this thread has used so far, to this moment.
pub fn of_thread() -> Fallible<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
