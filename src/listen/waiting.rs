//! Requests of one worker that wait for something, and the way in which they wake it when they are done.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::runtime::Handle;

/// The future of a request panicked, or the runtime that it ran on has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokenDown;

/// Futures at work on the runtime, with an outcome `T` each.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    runtime: Handle,
    count: usize,
    done: Receiver<Option<T>>,
    ends: Sender<Option<T>>,
    bell: Arc<EventFd>,
}

impl<T: Send + 'static> Waiting<T> {
    pub(super) fn new(runtime: Handle) -> std::io::Result<Self> {
        let (ends, done) = channel();
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Waiting {
            runtime,
            count: 0,
            done,
            ends,
            bell: Arc::new(bell),
        })
    }

    /// How many have not been taken yet.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What becomes readable when one is done.
    pub(super) fn bell(&self) -> &EventFd {
        &self.bell
    }

    pub(super) fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) {
        let mut end = End {
            outcome: None,
            ends: self.ends.clone(),
            bell: Arc::clone(&self.bell),
        };
        self.count += 1;
        self.runtime.spawn(async move {
            end.outcome = Some(future.await);
            drop(end);
        });
    }

    /// Up to `most` of those that are done, without waiting for others.
    pub(super) fn take(&mut self, most: usize) -> Vec<Result<T, BrokenDown>> {
        // silenced before looking, so that whoever is done from here on rings again
        let _ = self.bell.read();
        let mut taken = Vec::new();
        while taken.len() < most {
            match self.done.try_recv() {
                Ok(outcome) => taken.push(outcome.ok_or(BrokenDown)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    self.count -= taken.len();
                    return taken;
                }
            }
        }
        self.count -= taken.len();
        let _ = self.bell.write(1);
        taken
    }

    /// The next that is done, waited for so long.
    pub(super) fn wait(&mut self, patience: Duration) -> Option<Result<T, BrokenDown>> {
        let outcome = self.done.recv_timeout(patience).ok()?;
        self.count -= 1;
        Some(outcome.ok_or(BrokenDown))
    }
}

/// Reports the end of a future, however it came.
struct End<T> {
    outcome: Option<T>,
    ends: Sender<Option<T>>,
    bell: Arc<EventFd>,
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        // a worker that is gone needs no news
        let _ = self.ends.send(self.outcome.take());
        let _ = self.bell.write(1);
    }
}
