//! A measured server: another process, which ends with this one.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Fallible, processor};

/// A process that is killed when this is dropped.
pub struct Server {
    process: Child,
    /// Where it answers.
    pub address: SocketAddr,
}

impl Server {
    /// This program again, in another role; the first line that it prints is its address.
    pub fn role(role: &str) -> Fallible<Server> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(role)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        Ok(Server::new(process, line.trim().parse()?))
    }

    /// A process that answers there.
    pub fn new(process: Child, address: SocketAddr) -> Server {
        Server { process, address }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What the server uses of the processor for each of the things that `work` counts.
    pub fn measure(&self, work: impl FnOnce(SocketAddr) -> Fallible<u64>) -> Fallible<Duration> {
        let id = self.id();
        settle(id)?;
        let before = processor::of_process(id)?;
        let count = work(self.address)?;
        settle(id)?;
        let used = processor::of_process(id)? - before;
        Ok(used / u32::try_from(count)?.max(1))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a process has nothing more to do.
fn settle(id: u32) -> Fallible<()> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut last = processor::of_process(id)?;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        let now = processor::of_process(id)?;
        if now - last < Duration::from_micros(200) {
            break;
        }
        last = now;
    }
    Ok(())
}
