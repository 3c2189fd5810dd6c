//! What authentications ask: the snapshot in force, and the compiled site that decides.
//!
//! A task looks at the database's revision five times a second, reads what moved, and swaps the snapshot. Readers never
//! wait: neither for a lock nor for the database. What is broken stays out, and is said once:
//! - a site whose rows do not compile keeps its last good version;
//! - a set that lost all its clients is not applied, and neither is an older revision of the same epoch or of one that was
//!   left (a replica that lags; a restored backup has to be given a new epoch);
//! - an edit that bypassed the triggers is found when everything is compared, every ten minutes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::cache::{self, Cache};
use super::changes::{self, Changes};
use super::db::Transaction;
use super::keeping;
use super::load::{self, Memory, SiteClients};
use super::saved::Saved;
use super::snapshot;
pub use super::snapshot::{Broken, Site, SiteState, Snapshot};
use super::{Revision, Store, StoreError, schema};
use crate::clients::SiteId;
use crate::radius::dictionary::Dictionary;

/// Settings of a directory.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often the revision is looked at. Too low: a query (90 us) each time; too high: changes take as long.
    pub poll: Duration,
    /// How often everything is read and compared. Too low: work of the database in vain; too high: an edit that bypassed
    /// the triggers stays unseen as long.
    pub audit: Duration,
    /// Octets of compiled sites, see [`cache::DEFAULT_OCTETS`].
    pub cache_octets: u64,
    /// The set on disk, for a start without a database.
    pub saved: Option<Saved>,
    /// How soon after a change it is written, at the soonest: many edits in a row are one writing. Too low: the disk and the
    /// database work in vain; too high: a start without a database serves older policies.
    pub calm: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            poll: Duration::from_millis(200),
            audit: Duration::from_secs(600),
            cache_octets: cache::DEFAULT_OCTETS,
            saved: None,
            calm: Duration::from_secs(10),
        }
    }
}

/// The policy data in force. One for the process, shared by all who answer.
#[derive(Debug)]
pub struct Directory {
    dictionary: &'static Dictionary,
    snapshot: ArcSwap<Snapshot>,
    cache: Cache,
    store: Store,
    options: Options,
    /// Held only by whoever reads the database: the watcher, or [`Directory::refresh`].
    reader: Arc<Mutex<Reader>>,
    problem: StdMutex<Option<String>>,
    /// Milliseconds after `started` at which the database last confirmed what is in force, negative for a set of before the
    /// start; the smallest number: never. Each request asks for it.
    confirmed_ms: AtomicI64,
    started: Instant,
    applied: watch::Sender<Revision>,
    tasks: StdMutex<JoinSet<()>>,
}

/// What the reader remembers from one look to the next.
#[derive(Debug)]
struct Reader {
    memory: Memory,
    clients: HashMap<SiteId, SiteClients>,
    /// The revision that was looked at last, applied or not.
    seen: Option<Revision>,
    /// The database was seen behind what is applied: what moved since is not known.
    diverged: bool,
    /// Epochs that were in force before this one, the latest last.
    left: VecDeque<Arc<str>>,
    /// The state that is kept on disk, until a set is in force.
    on_disk: Option<Revision>,
    audited: Instant,
    /// What the log already said of clients that are not answered.
    clients_reported: BTreeSet<String>,
}

/// Epochs that are remembered: more than any lag outlives.
const LEFT: usize = 64;

impl Reader {
    fn leave(&mut self, epoch: &Arc<str>) {
        if self.left.len() >= LEFT {
            self.left.pop_front();
        }
        self.left.push_back(Arc::clone(epoch));
    }
}

/// How well the node knows the policy data.
#[derive(Clone, Debug)]
pub struct Health {
    /// How long ago the database confirmed that what is in force is what it has; none: never.
    pub age: Option<Duration>,
    /// Why it does not now, with a hint; none: it does.
    pub problem: Option<String>,
}

impl Directory {
    /// Reads everything, and keeps it up to date from then on. A database that fails now is asked again and again; until
    /// it answers, the snapshot is empty and nothing is answered.
    pub async fn start(store: Store, dictionary: &'static Dictionary, options: Options) -> Arc<Directory> {
        let directory = Arc::new(Directory {
            dictionary,
            snapshot: ArcSwap::from_pointee(Snapshot::empty()),
            cache: Cache::new(options.cache_octets),
            store,
            options,
            reader: Arc::new(Mutex::new(Reader {
                memory: Memory::default(),
                clients: HashMap::new(),
                seen: None,
                diverged: false,
                left: VecDeque::new(),
                on_disk: None,
                audited: Instant::now(),
                clients_reported: BTreeSet::new(),
            })),
            problem: StdMutex::new(None),
            confirmed_ms: AtomicI64::new(NEVER),
            started: Instant::now(),
            applied: watch::Sender::new(Revision::none()),
            tasks: StdMutex::default(),
        });
        // What was in force before this start counts: a replica that is behind it is no database to begin from.
        if let Some(saved) = &directory.options.saved
            && let Some((revision, left)) = keeping::known(saved).await
        {
            let mut reader = directory.reader.lock().await;
            reader.left = left.into();
            reader.on_disk = Some(revision);
        }
        // What went wrong is in the log, and `problem` has it.
        _ = directory.refresh().await;
        let weak = Arc::downgrade(&directory);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(weak.clone(), directory.options.poll));
        if let Some(saved) = directory.options.saved.clone() {
            if !directory.snapshot.load().is_loaded() {
                directory.restore(&saved).await;
            }
            tasks.spawn(keeping::keep(weak, saved, directory.options.calm));
        }
        *directory.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
        directory
    }

    /// What is in force now, to be kept for as long as is needed.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// What is in force now, for one request: no counter that all threads share is touched.
    pub fn snapshot_for_request(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// What decides for a site of this snapshot. Never waits.
    pub fn site(&self, snapshot: &Snapshot, id: SiteId) -> SiteState {
        match snapshot.site(id).filter(|site| site.source().is_some()) {
            Some(site) => site.compiled(&self.cache).map_or(SiteState::Load, SiteState::Ready),
            None => in_force(snapshot, id).map_or_else(|broken| broken, |_| SiteState::Load),
        }
    }

    /// What decides for a site of this snapshot, compiled now where the cache gave it up. Needs no database, and is never
    /// [`SiteState::Load`].
    pub async fn load(self: &Arc<Self>, snapshot: &Arc<Snapshot>, id: SiteId) -> SiteState {
        let (directory, held) = (Arc::clone(self), Arc::clone(snapshot));
        let compile = move || match in_force(&held, id) {
            Err(broken) => broken,
            Ok(source) => match directory.cache.load(source, directory.dictionary) {
                Ok(site) => SiteState::Ready(site),
                Err(errors) => SiteState::Broken(errors.as_slice().into()),
            },
        };
        tokio::task::spawn_blocking(compile)
            .await
            .unwrap_or_else(|_| SiteState::Broken(Arc::new([])))
    }

    /// The dictionary that everything here was compiled with.
    pub fn dictionary(&self) -> &'static Dictionary {
        self.dictionary
    }

    /// The database behind it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How well the node knows the policy data.
    pub fn health(&self) -> Health {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Health {
            age: self.age(),
            problem,
        }
    }

    /// How long ago the database confirmed what is in force; none: never.
    pub fn age(&self) -> Option<Duration> {
        let at = self.confirmed_ms.load(Ordering::Relaxed);
        let age = (at != NEVER).then(|| ms(self.started.elapsed()).saturating_sub(at))?;
        Some(Duration::from_millis(u64::try_from(age).unwrap_or(0)))
    }

    /// Follows the revision in force.
    pub fn subscribe(&self) -> watch::Receiver<Revision> {
        self.applied.subscribe()
    }

    /// Waits until `revision`, or a later one of its epoch, is in force.
    pub async fn applied(&self, revision: &Revision) {
        let reached = |now: &Revision| now.epoch == revision.epoch && now.number >= revision.number;
        // The sender is this object's own: it does not close while we are here.
        _ = self.subscribe().wait_for(reached).await;
    }

    /// Looks at the database now rather than at the next turn.
    pub async fn refresh(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut reader = Arc::clone(&self.reader).lock_owned().await;
        let mut result = self.look(&mut reader).await;
        // A replica that puts its replay before a query, a session that somebody ended, a server that others went past: once
        // more, elsewhere if there is another.
        for _ in 1..self.store.servers().len().max(2) {
            match &result {
                Ok(Look::Older(_)) => {}
                Err(error) if error.is_passing() => {}
                _ => break,
            }
            result = self.look(&mut reader).await;
        }
        let reading = match result {
            Ok(Look::Current(lag)) => {
                self.confirm(lag);
                return Ok(());
            }
            Ok(Look::HeldBack) => return Ok(()),
            Ok(Look::Older(what)) => {
                self.report(what);
                return Ok(());
            }
            Ok(Look::Moved(moved)) => moved,
            Err(error) => {
                let snapshot = self.snapshot.load();
                self.report(match snapshot.is_loaded() {
                    true => format!(
                        "the database cannot be read, and the policies of revision {} stay in force: {error}",
                        snapshot.revision
                    ),
                    false => format!("the database cannot be read, and there are no policies yet: {error}"),
                });
                return Err(error);
            }
        };
        // Compiling takes processor time that the threads of packets have not got.
        let directory = Arc::clone(self);
        let applied = tokio::task::spawn_blocking(move || directory.apply(reader, *reading));
        if applied.await.is_err() {
            self.report("a reading of the policies could not be applied; hint: report this".to_owned());
        }
        Ok(())
    }

    /// Epochs that were in force before this one.
    pub(super) async fn left(&self) -> Vec<Arc<str>> {
        self.reader.lock().await.left.iter().cloned().collect()
    }

    /// Takes the set on disk into force: no database answers that is not behind it.
    async fn restore(self: &Arc<Self>, saved: &Saved) {
        let mut reader = Arc::clone(&self.reader).lock_owned().await;
        match keeping::read(saved, &mut reader.memory, self.dictionary).await {
            Ok(Some((reading, age))) => {
                tracing::warn!(
                    "no database answers that is up to date: serving the policies of revision {} from `{}`, {} s old",
                    reading.revision,
                    saved.path().display(),
                    age.as_secs()
                );
                let directory = Arc::clone(self);
                let moved = Moved {
                    reading,
                    bypassed: false,
                    lag: age,
                    is_from_disk: true,
                };
                // The threads of packets have nothing to answer yet, but others may.
                _ = tokio::task::spawn_blocking(move || directory.apply(reader, moved)).await;
            }
            Ok(None) => tracing::warn!("no database answers, and `{}` is not there yet", saved.path().display()),
            Err(error) => tracing::error!("no database answers, and the policies on disk are of no use: {error}"),
        }
    }

    async fn look(&self, reader: &mut Reader) -> Result<Look, StoreError> {
        let snapshot = self.snapshot.load_full();
        let audit = snapshot.is_loaded() && reader.audited.elapsed() >= self.options.audit;
        if !audit && !reader.diverged && snapshot.is_loaded() {
            let mut transaction = self.store.glance().await?;
            let lag = transaction.lag();
            let now = changes::revision(&mut transaction).await?;
            transaction.end().await?;
            if reader.seen.as_ref() == Some(&now) {
                // Applied, or held back and said so.
                return Ok(if now == snapshot.revision {
                    Look::Current(lag)
                } else {
                    Look::HeldBack
                });
            }
        }
        let mut transaction = self.store.read().await?;
        let result = self.look_closer(&mut transaction, reader, &snapshot, audit).await;
        match &result {
            Ok(Look::Older(_)) | Err(_) => transaction.pass_over(),
            Ok(_) => {}
        }
        if result.is_ok() {
            transaction.end().await?;
        }
        result
    }

    async fn look_closer(
        &self,
        transaction: &mut Transaction,
        reader: &mut Reader,
        snapshot: &Snapshot,
        audit: bool,
    ) -> Result<Look, StoreError> {
        let lag = transaction.lag();
        let now = changes::revision(transaction).await?;
        let (known, place) = match (snapshot.is_loaded(), &reader.on_disk) {
            (false, Some(revision)) => (revision, "on disk"),
            _ => (&snapshot.revision, "in force"),
        };
        let is_older = match now.epoch == known.epoch {
            true => now.number < known.number,
            // A replica that missed how a new epoch began, or a copy of what was there before.
            false => reader.left.contains(&now.epoch),
        };
        if is_older {
            let hint = match &self.store {
                Store::Sqlite(_) => "after a restore run: UPDATE revision SET epoch = lower(hex(randomblob(16)));",
                Store::Postgres(_) => {
                    "it is a replica that is behind; if it was restored, run on the primary: \
                     UPDATE revision SET epoch = gen_random_uuid()::text;"
                }
            };
            let what = format!(
                "the database is at revision {now}, and the policies {place} are of {known}: the older is not applied\n\
                 hint: {hint}"
            );
            reader.diverged = true;
            reader.seen = Some(now);
            return Ok(Look::Older(what));
        }
        let changes = if audit || reader.diverged || !snapshot.is_loaded() {
            Changes::All
        } else {
            changes::between(transaction, &snapshot.revision, &now).await?
        };
        if changes == Changes::All {
            reader.audited = Instant::now();
        }
        // A migration may have come since the last reading.
        schema::check(transaction).await?;
        let changes = with_broken(changes, snapshot);
        let bypassed = audit && now == snapshot.revision;
        let reading = load::read(
            transaction,
            now.clone(),
            changes,
            &mut reader.memory,
            &reader.clients,
            self.dictionary,
        )
        .await?;
        reader.seen = Some(now);
        reader.diverged = false;
        Ok(Look::Moved(Box::new(Moved {
            reading,
            bypassed,
            lag,
            is_from_disk: false,
        })))
    }

    fn apply(&self, mut reader: tokio::sync::OwnedMutexGuard<Reader>, moved: Moved) {
        let Moved {
            reading,
            bypassed: audit,
            lag,
            is_from_disk,
        } = moved;
        let before = self.snapshot.load_full();
        let mut clients = reader.clients.clone();
        let (mut next, findings) = snapshot::next(&before, reading, &mut clients, self.dictionary, &self.cache, audit);
        if audit && !findings.changed {
            reader.memory.prune();
            return self.confirm(lag);
        }
        if findings.lost_all_clients {
            self.report(format!(
                "revision {} has no client left, and is not applied: the policies of {} stay in force\n\
                 hint: add a client; or restart this node if it shall answer nobody",
                next.revision, before.revision
            ));
            return;
        }
        if audit {
            tracing::warn!(
                revision = %next.revision,
                "the policies changed without a new revision, and are applied now; hint: was an edit made with triggers switched off?"
            );
        }
        if let Some(clients) = &findings.clients {
            report_clients(clients, &mut reader.clients_reported);
        }
        report_sites(&findings);
        tracing::debug!(revision = %next.revision, clients = next.clients.len(), macs = next.endpoints.len(), "policies in force");
        let revision = next.revision.clone();
        next.is_from_disk = is_from_disk;
        let on_disk = reader.on_disk.take();
        let previous = match before.is_loaded() {
            true => Some(before.revision.clone()),
            false => on_disk,
        };
        if let Some(previous) = previous.filter(|previous| previous.epoch != revision.epoch) {
            reader.leave(&previous.epoch);
            tracing::warn!(
                "the policies in force are of another history now: revision {revision} after {previous}; hint: was a primary \
                 restarted, a replica promoted or a backup restored?"
            );
        }
        reader.clients = clients;
        reader.memory.prune();
        self.snapshot.store(Arc::new(next));
        match is_from_disk {
            true => self.mark(lag),
            false => self.confirm(lag),
        }
        self.applied.send_replace(revision);
    }

    /// What is in force is what the database had `lag` ago.
    fn mark(&self, lag: Duration) {
        let at = ms(self.started.elapsed()).saturating_sub(ms(lag));
        self.confirmed_ms.store(at.max(NEVER + 1), Ordering::Relaxed);
    }

    /// The same, and there is nothing wrong.
    fn confirm(&self, lag: Duration) {
        self.mark(lag);
        if self
            .problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .is_some()
        {
            tracing::info!(revision = %self.snapshot.load().revision, "the policies in force are up to date again");
        }
    }

    /// Says what is wrong, once.
    fn report(&self, what: String) {
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.as_ref() != Some(&what) {
            tracing::error!("{what}");
            *problem = Some(what);
        }
    }
}

/// No time at which anything was confirmed.
const NEVER: i64 = i64::MIN;

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What a look at the database found.
enum Look {
    /// Nothing new; and how far behind the server is that was read.
    Current(Duration),
    /// What the database has was held back, and said so.
    HeldBack,
    /// The server that was read has older data than what is in force; in words.
    Older(String),
    /// Something.
    Moved(Box<Moved>),
}

/// What moved.
struct Moved {
    reading: load::Reading,
    /// Only an audit could find it.
    bypassed: bool,
    /// How old it is: how far behind the server is that was read.
    lag: Duration,
    /// It is the set on disk, which no database confirms.
    is_from_disk: bool,
}

/// The first pause after which a replica is looked at again for a change that the primary told of; then it doubles.
const SOON: Duration = Duration::from_millis(10);

async fn watch(directory: Weak<Directory>, poll: Duration) {
    let mut notices = directory.upgrade().and_then(|directory| directory.store.notices());
    let mut pause = poll;
    loop {
        match &mut notices {
            Some(notices) => tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The primary outlives whoever listens to it here.
                _ = notices.changed() => {}
            },
            None => tokio::time::sleep(pause).await,
        }
        let Some(directory) = directory.upgrade() else { return };
        // What went wrong is in the log, and `problem` has it.
        _ = directory.refresh().await;
        // The primary told of a change that the replica has not got yet: it comes within milliseconds.
        let announced = notices.as_ref().map_or(0, |notices| *notices.borrow());
        pause = match announced > directory.snapshot.load().revision.number {
            true => (pause * 2)
                .clamp(SOON, poll)
                .min(if pause == poll { SOON } else { poll }),
            false => poll,
        };
    }
}

/// A broken site is in force as a whole again or not at all: when one side of it moves, both are read.
fn with_broken(changes: Changes, snapshot: &Snapshot) -> Changes {
    let Changes::Some(mut touched) = changes else {
        return changes;
    };
    let is_broken = |id: &&SiteId| snapshot.site(**id).is_some_and(|site| site.broken().is_some());
    let broken: BTreeSet<SiteId> = touched
        .policies
        .union(&touched.macs)
        .filter(is_broken)
        .copied()
        .collect();
    touched.policies.extend(&broken);
    touched.macs.extend(&broken);
    Changes::Some(touched)
}

fn in_force(snapshot: &Snapshot, id: SiteId) -> Result<&super::source::SiteSource, SiteState> {
    let site = snapshot.site(id).ok_or_else(|| SiteState::Broken(Arc::new([])))?;
    match (site.source(), site.broken()) {
        (Some(source), _) => Ok(source),
        (None, broken) => Err(SiteState::Broken(
            broken.map_or_else(|| Arc::from([]), |broken| Arc::clone(&broken.errors)),
        )),
    }
}

/// Rows that are named one by one in the log; of more only the number is.
const NAMED: usize = 20;

/// Says which clients are not answered, those that are new among them.
fn report_clients(errors: &[String], reported: &mut BTreeSet<String>) {
    reported.retain(|error| errors.contains(error));
    let new: Vec<&String> = errors.iter().filter(|error| !reported.contains(*error)).collect();
    for error in new.iter().take(NAMED) {
        tracing::error!("a client is not answered: {error}");
    }
    if let Some(more) = new.len().checked_sub(NAMED).filter(|more| *more > 0) {
        tracing::error!("{more} more clients are not answered; hint: `portreeve check` names them");
    }
    reported.extend(errors.iter().take(1000).cloned());
}

fn report_sites(findings: &snapshot::Findings) {
    for (_, site) in findings.broken.iter().take(NAMED) {
        let Some(broken) = site.broken() else { continue };
        let first = broken.errors.first().map(ToString::to_string).unwrap_or_default();
        match &broken.last_good {
            Some(revision) => tracing::warn!(
                site = site.tag(),
                errors = broken.errors.len(),
                "the site's rows do not compile, and its policies of revision {revision} stay in force: {first}"
            ),
            None => tracing::warn!(
                site = site.tag(),
                errors = broken.errors.len(),
                "the site's rows do not compile, and everybody is rejected there: {first}"
            ),
        }
    }
    if let Some(more) = findings.broken.len().checked_sub(NAMED).filter(|more| *more > 0) {
        tracing::warn!("{more} more sites do not compile; hint: `portreeve check` names them");
    }
    for (_, site) in &findings.repaired {
        tracing::info!(site = site.tag(), "the site's rows compile again");
    }
}
