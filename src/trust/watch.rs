//! Files that change are loaded, without a signal and without a restart: those of trust sets, and lists of revoked
//! certificates.
//!
//! The system tells that something happened in a folder (`notify`); what happened is read from the files themselves, which
//! also finds what it does not tell: changes on network file systems, links that were turned to another folder.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::authorities::{FOLDER_EXTENSIONS, files_of, has_extension};
use super::settings::Settings;
use super::store::{Reloaded, TrustStore};

/// How often the files are looked at when the system says nothing. Looking costs a few system calls.
const LOOK: Duration = Duration::from_secs(10);
/// Certificate and key are two files, and a copy is not written at once: nothing may have changed for so long.
const SETTLED: Duration = Duration::from_millis(250);

/// The one access that is none of those who merely read.
const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

/// Watches the store's files for ever, reloads the sets whose files have changed, and reports each reload; of the same
/// errors again and again only the first.
pub async fn watch(store: Arc<TrustStore>, mut report: impl FnMut(Reloaded)) {
    let watched = Watched::of(store.settings());
    let mut last_errors: Vec<String> = Vec::new();
    loop {
        watched.change(|| store.has_changed(), !last_errors.is_empty()).await;
        let reloading = Arc::clone(&store);
        let Ok(reloaded) = tokio::task::spawn_blocking(move || reloading.reload_changed()).await else {
            continue;
        };
        let errors: Vec<String> = reloaded.refused.iter().map(ToString::to_string).collect();
        if !reloaded.replaced.is_empty() || errors != last_errors {
            report(reloaded);
        }
        last_errors = errors;
    }
}

/// Files, and folders that stand for the files in them with some extensions.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    paths: Vec<PathBuf>,
    extensions: &'static [&'static str],
}

impl Watched {
    pub(super) fn new(paths: Vec<PathBuf>, extensions: &'static [&'static str]) -> Watched {
        Watched { paths, extensions }
    }

    /// The files of sets of certificates.
    pub(super) fn of<'a>(settings: impl IntoIterator<Item = &'a Settings>) -> Watched {
        let paths = settings.into_iter().flat_map(paths).map(Path::to_owned);
        Watched::new(paths.collect(), &FOLDER_EXTENSIONS)
    }

    /// Returns when something has changed and nothing changes any more. `again`: after a while also when nothing has, since
    /// what was wrong may have passed: a clock, a file system.
    pub(super) async fn change(&self, has_changed: impl Fn() -> bool, again: bool) {
        let (wake, mut woken) = mpsc::channel(1);
        // made anew for each change, since folders may have come and gone
        let _watcher = self.watcher(wake);
        while !has_changed() {
            let is_quiet = timeout(LOOK, woken.recv()).await.is_err();
            if is_quiet && again {
                break;
            }
        }
        let mut look = self.look();
        loop {
            sleep(SETTLED).await;
            let later = self.look();
            if later == look {
                break;
            }
            look = later;
        }
    }

    /// How they look now.
    pub(super) fn look(&self) -> Look {
        let mut all = Vec::new();
        for path in &self.paths {
            let files = files_of(path, self.extensions).unwrap_or_else(|_| vec![path.clone()]);
            all.extend(files.into_iter().map(|file| {
                let state = fs::metadata(&file).ok().map(|metadata| State::of(&metadata));
                (file, state)
            }));
        }
        Look(all)
    }

    fn watcher(&self, wake: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
        let (names, extensions) = (self.names(), self.extensions);
        let may_be_one = move |file: &PathBuf| {
            has_extension(file, extensions) || file.file_name().is_some_and(|name| names.contains(name))
        };
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let is_of_no_interest = event.is_ok_and(|event| match event.kind {
                EventKind::Access(_) => event.kind != WRITTEN,
                // a log beside the certificates grows all the time
                EventKind::Modify(ModifyKind::Data(_)) => !event.paths.iter().any(&may_be_one),
                _ => false,
            });
            if !is_of_no_interest {
                let _ = wake.try_send(()); // full: it will look anyway
            }
        })
        .ok()?;
        for folder in self.folders() {
            let _ = watcher.watch(&folder, RecursiveMode::NonRecursive); // not there: it will look every ten seconds
        }
        Some(watcher)
    }

    /// What the files are called, and those that links lead to.
    fn names(&self) -> BTreeSet<OsString> {
        let links = self.paths.iter().filter_map(|path| fs::canonicalize(path).ok());
        let all = self.paths.iter().cloned().chain(links);
        all.filter_map(|path| path.file_name().map(OsStr::to_owned)).collect()
    }

    /// The folders in which something happens when a file is replaced, or the file that a link leads to.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::new();
        for path in &self.paths {
            for path in [Some(path.clone()), fs::canonicalize(path).ok()].into_iter().flatten() {
                if path.is_dir() {
                    folders.insert(path.clone());
                }
                folders.extend(path.parent().map(Path::to_owned));
            }
        }
        folders
    }
}

fn paths(settings: &Settings) -> impl Iterator<Item = &Path> {
    let own = settings.certificates.iter().flat_map(|files| {
        [
            Some(&files.certificate),
            Some(&files.private_key),
            files.passphrase_file.as_ref(),
        ]
    });
    let resumption = settings.resumption.as_ref();
    let ticket_keys = resumption.and_then(|resumption| resumption.keys_file.as_ref());
    own.flatten()
        .chain(&settings.client_ca)
        .chain(ticket_keys)
        .map(PathBuf::as_path)
}

/// How the files looked: enough to know that one was changed or replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look(Vec<(PathBuf, Option<State>)>);

#[derive(Debug, PartialEq, Eq)]
struct State {
    octets: u64,
    modified: Option<SystemTime>,
    /// Device, inode, and the time of the last change to either contents or permissions.
    identity: (u64, u64, i64, i64),
}

impl State {
    fn of(metadata: &fs::Metadata) -> State {
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let identity = (0, 0, 0, 0);
        State {
            octets: metadata.len(),
            modified: metadata.modified().ok(),
            identity,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// How often the files are looked at while something is written to `file`, which stays open.
    async fn looks(watched: &Watched, file: &mut File) -> usize {
        let looks = AtomicUsize::new(0);
        let has_changed = || {
            looks.fetch_add(1, Ordering::Relaxed);
            false
        };
        let writing = async {
            sleep(Duration::from_millis(200)).await;
            for _ in 0..20 {
                file.write_all(b"line\n").unwrap();
                sleep(Duration::from_millis(10)).await;
            }
            sleep(Duration::from_millis(200)).await;
        };
        tokio::select! {
            () = watched.change(has_changed, false) => panic!("nothing has changed"),
            () = writing => looks.into_inner(),
        }
    }

    #[tokio::test]
    async fn a_log_beside_the_files_is_of_no_interest_and_what_a_link_leads_to_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let [mut log, mut keys] = ["portreeve.log", "keys-42"].map(|name| File::create(path(name)).unwrap());
        std::os::unix::fs::symlink(path("keys-42"), path("ticket.keys")).unwrap();
        let watched = Watched::new(vec![path("ticket.keys")], &FOLDER_EXTENSIONS);
        assert_eq!(looks(&watched, &mut log).await, 1, "at the beginning");
        assert!(looks(&watched, &mut keys).await > 1);
    }
}
