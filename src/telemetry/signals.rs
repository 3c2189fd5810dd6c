//! What the world asks of a running node: stop, stop now, reload.
//!
//! The first SIGTERM or SIGINT is soft: no new conversations, the open ones may finish. The second is hard. SIGHUP, and
//! a change of a watched file, ask for a reload; a burst of changes, as when a certificate and its key are replaced,
//! is one.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long after a change of a file the next one may come and still be the same reload.
const QUIET: Duration = Duration::from_millis(500);
/// A file that keeps changing is reloaded all the same after this long.
const LONGEST: Duration = Duration::from_secs(5);

/// Something that the process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Begin nothing new, finish what is open, then end.
    Stop,
    /// End at once.
    StopNow,
    /// Read certificates and what else can change under a running node again.
    Reload,
}

/// The stream of events.
#[derive(Debug)]
pub struct Events {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    stopping: bool,
    files: mpsc::Receiver<()>,
    changed: Option<Changed>,
    /// Held, since dropping it ends the watching.
    _watcher: Option<RecommendedWatcher>,
}

/// When the change began that has not been told yet, and when its latest part came.
#[derive(Clone, Copy, Debug)]
struct Changed {
    first: Instant,
    last: Instant,
}

impl Changed {
    fn due(self) -> Instant {
        (self.last + QUIET).min(self.first + LONGEST)
    }
}

impl Events {
    /// Takes over the signals, and watches `files` and folders. A file that cannot be watched is logged, and then only
    /// SIGHUP reloads it. Needs a running tokio.
    pub fn new(files: &[PathBuf]) -> io::Result<Events> {
        let (sender, receiver) = mpsc::channel(1);
        let watcher = watch(files, sender)
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch the certificate files for changes: send SIGHUP after one");
            })
            .ok();
        Ok(Events {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stopping: false,
            files: receiver,
            changed: None,
            _watcher: watcher,
        })
    }

    /// The next event. Cancel safe.
    pub async fn next(&mut self) -> Event {
        loop {
            let due = self.changed.map(Changed::due);
            tokio::select! {
                Some(()) = self.terminate.recv() => return self.stop(),
                Some(()) = self.interrupt.recv() => return self.stop(),
                Some(()) = self.hang_up.recv() => return Event::Reload,
                Some(()) = self.files.recv() => {
                    let now = Instant::now();
                    let first = self.changed.map_or(now, |changed| changed.first);
                    self.changed = Some(Changed { first, last: now });
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.changed = None;
                    return Event::Reload;
                }
            }
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

/// Watches the folders that `files` are in: a file that is replaced by renaming, or behind a symbolic link that moves
/// (Kubernetes' `..data`), is another file, and a watch on the old one would see nothing.
fn watch(files: &[PathBuf], changes: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let watched: HashSet<PathBuf> = files.iter().map(|file| absolute(file)).collect();
    let folders: HashSet<PathBuf> = watched.iter().flat_map(|file| folders_of(file)).collect();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| matters(&event, &watched)) {
            // full: a change is already waiting to be seen
            let _ = changes.try_send(());
        }
    })?;
    for folder in folders {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Whether something was written, made, moved or removed that is one of `watched`, lies in one, or may be what one
/// leads to.
fn matters(event: &notify::Event, watched: &HashSet<PathBuf>) -> bool {
    let is_change = !matches!(event.kind, EventKind::Access(_));
    let is_ours = |path: &PathBuf| {
        watched.contains(path)
            || path.parent().is_some_and(|parent| watched.contains(parent))
            || path.file_name().is_some_and(|name| name == OsStr::new("..data"))
    };
    is_change && event.paths.iter().any(is_ours)
}

/// The folder of a file, and of a folder itself too.
fn folders_of(path: &Path) -> Vec<PathBuf> {
    let own = path.is_dir().then(|| path.to_path_buf());
    own.into_iter().chain(path.parent().map(Path::to_path_buf)).collect()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_of_changes_to_a_watched_file_is_one_reload() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, other) = (folder.path().join("server.pem"), folder.path().join("portreeve.db-wal"));
        std::fs::write(&certificate, "old").unwrap();
        let (sender, mut changes) = mpsc::channel(1);
        let _watcher = watch(std::slice::from_ref(&certificate), sender).unwrap();
        // a database beside it writes all the time, and the certificate is read: neither is a change of it
        std::fs::write(&other, "busy").unwrap();
        std::fs::read(&certificate).unwrap();
        // replaced by renaming, as tools that renew certificates do
        let temporary = folder.path().join("server.pem.tmp");
        std::fs::write(&temporary, "new").unwrap();
        std::fs::rename(&temporary, &certificate).unwrap();
        tokio::time::timeout(Duration::from_secs(30), changes.recv())
            .await
            .unwrap()
            .unwrap();
    }

    #[test]
    fn only_changes_of_what_is_watched_matter() {
        use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
        let watched: HashSet<PathBuf> = ["/etc/portreeve/server.pem", "/etc/portreeve/ca"]
            .map(PathBuf::from)
            .into();
        let event = |kind, path: &str| matters(&notify::Event::new(kind).add_path(path.into()), &watched);
        let modified = EventKind::Modify(ModifyKind::Any);
        assert!(event(modified, "/etc/portreeve/server.pem"));
        assert!(event(EventKind::Create(CreateKind::File), "/etc/portreeve/ca/new.pem"));
        assert!(event(modified, "/etc/portreeve/..data"));
        assert!(!event(modified, "/etc/portreeve/portreeve.db"));
        assert!(!event(
            EventKind::Access(AccessKind::Close(AccessMode::Read)),
            "/etc/portreeve/server.pem"
        ));
    }

    #[test]
    fn a_file_that_never_rests_is_reloaded_all_the_same() {
        let first = Instant::now();
        let changed = |last| Changed { first, last };
        assert_eq!(changed(first).due(), first + QUIET);
        assert_eq!(changed(first + LONGEST * 2).due(), first + LONGEST);
    }
}
