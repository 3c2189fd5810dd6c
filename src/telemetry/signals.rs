//! What the operating system asks of a running node: stop, stop now, reload.
//!
//! The first SIGTERM or SIGINT is soft: no new conversations, the open ones may finish. The second is hard. SIGHUP
//! reloads what can change under a running node; certificate files are watched besides (`trust::watch`).

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Something that the process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Begin nothing new, finish what is open, then end.
    Stop,
    /// End at once.
    StopNow,
    /// Read again what can change under a running node.
    Reload,
}

/// The stream of events. From its creation on, the signals no longer end the process by themselves.
#[derive(Debug)]
pub struct Events {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    stopping: bool,
}

impl Events {
    /// Takes over the signals. Needs a running tokio.
    pub fn new() -> io::Result<Events> {
        Ok(Events {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stopping: false,
        })
    }

    /// The next event. Cancel safe.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.terminate.recv() => self.stop(),
            _ = self.interrupt.recv() => self.stop(),
            _ = self.hang_up.recv() => Event::Reload,
        }
    }

    fn stop(&mut self) -> Event {
        if std::mem::replace(&mut self.stopping, true) {
            Event::StopNow
        } else {
            Event::Stop
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    /// Alone in raising signals, so that no other test's stream hears them.
    #[tokio::test]
    async fn the_first_signal_is_soft_and_the_second_hard() {
        let mut events = Events::new().unwrap();
        for (signal, event) in [
            (Signal::SIGHUP, Event::Reload),
            (Signal::SIGTERM, Event::Stop),
            (Signal::SIGHUP, Event::Reload),
            (Signal::SIGINT, Event::StopNow),
        ] {
            raise(signal).unwrap();
            assert_eq!(events.next().await, event);
        }
    }
}
