//! One node, assembled: what `serve` and `demo` run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;

use super::error::hinted;
use super::watch;
use crate::config::dictionaries::{self, LoadedDictionary};
use crate::config::eap_tls::EXPIRY_WARNING;
use crate::config::{Config, MessageAuthenticatorMode, UnknownState};
use crate::conversations::Limits;
use crate::listen::{self, ListenError, Listener, Running};
use crate::ops::prober::Prober;
use crate::ops::{self, Ops};
use crate::radius::dictionary::Dictionary;
use crate::server::metrics::Metrics;
use crate::server::probe::Probe;
use crate::server::readiness::{Condition, Policies, Readiness};
use crate::server::{Server, Settings};
use crate::store::Store;
use crate::store::directory::{Directory, Options};
use crate::telemetry::Telemetry;
use crate::telemetry::signals::{Event, Events};
use crate::trust::check::findings;
use crate::trust::revocation::{self, Revocation};
use crate::trust::{self, Clock, DEFAULT_NAME, Reloaded, SetError, TrustSet, TrustStore};

/// How often idle conversations are ended and conditions of readiness are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How long the answer that ended a conversation is known: longer than switches go on to ask for it, which is three times at
/// intervals of two seconds. Longer costs memory in proportion to the rate.
const FINAL_KEPT_FOR: Duration = Duration::from_secs(8);
/// What is left of requests that wait when the sockets close, and of log lines.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A node that answers.
pub(super) struct Node {
    server: Arc<Server>,
    /// The policy data in force.
    pub directory: Arc<Directory>,
    readiness: Arc<Readiness>,
    running: Running,
    trust: Arc<TrustStore>,
    revocation: Option<Arc<Revocation>>,
    telemetry: Telemetry,
    events: Events,
    drain_timeout: Duration,
    expiry_warning: Duration,
    tasks: tokio::task::JoinSet<()>,
}

impl Node {
    /// Reads everything, binds everything, and answers from then on.
    pub(super) async fn start(config: &Config) -> anyhow::Result<Node> {
        let events = Events::new().context("the signals cannot be taken over")?;
        let loaded = dictionaries::load(&config.dictionaries.extra)?;
        let dictionary = shared(&loaded);
        let trust = Arc::new(trust_store(config)?);
        let store = Store::attach(&config.database).await?;
        let listener = bind(config)?;
        let ops_server = match config.ops.listen {
            Some(address) => Some(ops::Server::bind(address).await.map_err(|error| {
                hinted(
                    format!("cannot listen on `{address}` for health and metrics: {error}"),
                    "is another node running? `[ops] listen` names another address, or `off`",
                )
            })?),
            None => None,
        };
        // From here on nothing is wrong that a person could mend before the start, and the log begins.
        let telemetry = Telemetry::start(config)?;
        if loaded.files > 0 {
            for warning in &loaded.warnings {
                tracing::warn!("{warning}");
            }
            tracing::info!("dictionaries: {loaded}");
        }
        let expiry_warning = config.eap_tls.as_ref().map_or(EXPIRY_WARNING, |tls| tls.expiry_warning);
        report_findings(trust.current().iter(), expiry_warning);
        let options = Options {
            cache_octets: config.cache.sites_bytes.try_into()?,
            // A SQLite file is on disk itself.
            saved: config.cache.saved.clone().filter(|_| store.path().is_none()),
            ..Options::default()
        };
        let directory = Directory::start(store, dictionary, options).await;
        let readiness = Arc::new(Readiness::default());
        readiness.good(Condition::Running, None);
        let revocation = match &config.revocation {
            Some(settings) => Some(revocation(settings).await?),
            None => None,
        };
        let server = Server::new(
            settings(config, listener.workers()),
            Arc::clone(&directory),
            Arc::clone(&trust),
            telemetry.sink.clone(),
            Arc::clone(&telemetry.metrics),
            Probe::new(dictionary, unix_seconds(SystemTime::now()))?,
            Arc::new(SystemTime::now),
        );
        let server = Arc::new(server.with_revocation(revocation.clone()));
        let workers = listener.worker_addresses();
        let running = listener.start(Arc::clone(&server))?;
        for address in running.addresses() {
            tracing::info!(%address, "listening for radius over udp");
        }
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(Prober::new(Arc::clone(&server), Arc::clone(&readiness), &workers)?.run());
        tasks.spawn(trust::watch::watch(Arc::clone(&trust), move |reloaded| {
            report_reload(reloaded, expiry_warning);
        }));
        tasks.spawn(watch::remind(
            Arc::clone(&trust),
            expiry_warning,
            watch::DAY,
            watch::say,
        ));
        tasks.spawn(watch::clock(Arc::clone(&trust), watch::files(config)));
        if config.eap_tls.as_ref().is_some_and(|tls| tls.staple) {
            tasks.spawn(revocation::staple::keep(Arc::clone(&trust), Arc::new(Clock)));
        }
        tasks.spawn(keep(
            Arc::clone(&server),
            Arc::clone(&directory),
            Arc::clone(&trust),
            Arc::clone(&readiness),
            Arc::clone(&telemetry.metrics),
            config.cache.max_stale,
        ));
        if let Some(revocation) = &revocation {
            let (watching, refreshing, counting) =
                (Arc::clone(revocation), Arc::clone(revocation), Arc::clone(revocation));
            tasks.spawn(async move { watching.watch(report_lists).await });
            tasks.spawn(async move { refreshing.refresh().await });
            tasks.spawn(count_revocation(counting, Arc::clone(&telemetry.metrics)));
        }
        if let Some(ops_server) = ops_server {
            let address = ops_server.address()?;
            tracing::info!(%address, "listening for health and metrics over http");
            let ops = Ops {
                node: config.node.name.clone(),
                readiness: Arc::clone(&readiness),
                attempts: Arc::clone(&telemetry.attempts),
                devices: Arc::clone(&telemetry.devices),
                exporter: telemetry.exporter.clone(),
                notices: server.notices(),
            };
            tasks.spawn(async move {
                if let Err(error) = ops_server.run(ops).await {
                    tracing::error!(%error, "health and metrics are no longer served");
                }
            });
        }
        Ok(Node {
            server,
            directory,
            readiness,
            running,
            trust,
            revocation,
            telemetry,
            events,
            drain_timeout: config.radius.drain_timeout,
            expiry_warning,
            tasks,
        })
    }

    /// Where it listens.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        self.running.addresses()
    }

    /// The certificates in force where no profile has others.
    pub(super) fn trust(&self) -> Arc<TrustSet> {
        Arc::clone(self.trust.current().default_set())
    }

    /// Serves until it is told to stop; then finishes what is open.
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let result = self.serve().await;
        self.stop().await;
        result
    }

    /// Stops at once.
    pub(super) async fn stop(mut self) {
        self.readiness.failed(Condition::Running, "stopping");
        self.running.stop(LAST_PATIENCE);
        // A worker that broke down has said so already.
        let _ = tokio::time::timeout(2 * LAST_PATIENCE, self.running.ended()).await;
        self.server.stop(Instant::now());
        self.tasks.shutdown().await;
        drop(self.server);
        tracing::info!("stopped");
        self.telemetry.close(LAST_PATIENCE);
    }

    async fn serve(&mut self) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                ended = self.running.ended() => return ended.map_err(Into::into),
                event = self.events.next() => match event {
                    Event::Reload => {
                        let trust = Arc::clone(&self.trust);
                        let reloaded = tokio::task::spawn_blocking(move || trust.reload()).await?;
                        report_reload(reloaded, self.expiry_warning);
                        if let Some(revocation) = self.revocation.clone() {
                            report_lists(tokio::task::spawn_blocking(move || revocation.reload()).await?);
                        }
                    }
                    Event::StopNow => return Ok(()),
                    Event::Stop => break,
                },
            }
        }
        self.readiness.failed(Condition::Running, "stopping");
        self.server.drain();
        tracing::info!(
            open_conversations = self.server.open_conversations(),
            patience = ?self.drain_timeout,
            "stopping: open conversations are finished, none is begun; another signal stops at once"
        );
        let deadline = Instant::now() + self.drain_timeout;
        while self.server.open_conversations() > 0 && Instant::now() < deadline {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
                event = self.events.next() => if event == Event::StopNow { break },
            }
        }
        Ok(())
    }
}

/// The dictionary for the life of the process, which all of it shares.
pub(super) fn shared(loaded: &LoadedDictionary) -> &'static Dictionary {
    match loaded.files {
        0 => Dictionary::builtin(),
        _ => Box::leak(Box::new(Arc::clone(&loaded.dictionary))),
    }
}

/// The certificates that the configuration names.
pub(super) fn trust_store(config: &Config) -> anyhow::Result<TrustStore> {
    let tls = config.eap_tls.as_ref().ok_or_else(|| {
        hinted(
            format!("{}: there is no section [eap.tls]", config.file.display()),
            "it names the server's certificate, its key and the client CAs; `portreeve cert init DIR` makes some to try with",
        )
    })?;
    Ok(TrustStore::load(
        tls.default.clone(),
        tls.profiles.clone(),
        Arc::new(Clock),
    )?)
}

/// What is known of revocation at the start: the lists of files. One that cannot be read harms no other.
pub(super) async fn revocation(settings: &revocation::Settings) -> anyhow::Result<Arc<Revocation>> {
    let revocation = Arc::new(Revocation::new(settings, Arc::new(Clock)));
    let reading = Arc::clone(&revocation);
    report_lists(tokio::task::spawn_blocking(move || reading.reload()).await?);
    Ok(revocation)
}

fn report_lists(errors: Vec<revocation::FileError>) {
    for error in errors {
        tracing::error!("a list of revoked certificates is not used: {error}");
    }
}

/// Copies what is counted of revocation into the metrics.
#[expect(clippy::cast_precision_loss, reason = "seconds until an update are far below 2^52")]
async fn count_revocation(revocation: Arc<Revocation>, metrics: Arc<Metrics>) {
    let mut ticks = tokio::time::interval(4 * TICK);
    loop {
        ticks.tick().await;
        let words = |(source, result, count): (revocation::Source, _, _)| (source.word(), result, count);
        metrics.revocation(revocation.checks().map(words), revocation.fetches().map(words));
        let now = unix_seconds(SystemTime::now());
        let lists = revocation.lists_in_force().into_iter();
        metrics.revocation_lists(lists.map(|(issuer, next_update)| (issuer, (next_update - now) as f64)));
    }
}

fn bind(config: &Config) -> anyhow::Result<Listener> {
    let radius = &config.radius;
    let settings = listen::Settings {
        workers: radius.workers,
        receive_buffer_bytes: radius.receive_buffer,
    };
    match Listener::bind(&radius.listen, &settings) {
        Ok(listener) => Ok(listener),
        // A host without IPv6 is no fault of a configuration that does not name it.
        Err(error)
            if radius.listen_is_default
                && matches!(error, ListenError::NoProtocol(_) | ListenError::NoSuchAddress(_)) =>
        {
            let v4: Vec<_> = radius.listen.iter().copied().filter(SocketAddr::is_ipv4).collect();
            Ok(Listener::bind(&v4, &settings)?)
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn settings(config: &Config, workers: usize) -> Settings {
    let radius = &config.radius;
    let tls = config.eap_tls.as_ref();
    Settings {
        node: config.node.id,
        conversations: Limits {
            total: radius.max_conversations,
            per_client: radius.max_conversations_per_client,
            idle: radius.conversation_timeout,
            keep_final: FINAL_KEPT_FOR,
        },
        duplicate_bytes: radius.duplicate_bytes / workers.max(1),
        unknown_state_is_silent: radius.unknown_state == UnknownState::Silent,
        observe_message_authenticator: radius.message_authenticator == MessageAuthenticatorMode::Observe,
        probe_users: radius.probe_users.clone(),
        methods: config.eap.methods,
        fragment_size: tls.map_or(1_024, |tls| tls.fragment_size),
        timezone: config.policy.timezone.clone(),
        max_stale: config.cache.max_stale,
    }
}

fn report_reload(reloaded: Reloaded, expiry_warning: Duration) {
    for set in &reloaded.replaced {
        tracing::info!(
            profile = set.name,
            server = set.server().summary.name(),
            client_cas = set.authorities().iter().len(),
            "certificates were read again and are in force"
        );
    }
    report_findings(&reloaded.replaced, expiry_warning);
    for SetError { profile, error } in &reloaded.refused {
        let profile = profile.as_deref().unwrap_or(DEFAULT_NAME);
        tracing::error!(profile, %error, "certificates were not replaced: those in force stay");
    }
}

/// What `portreeve check` says of certificates that load: it would be asked only after supplicants have failed.
fn report_findings<'a>(sets: impl IntoIterator<Item = &'a Arc<TrustSet>>, expiry_warning: Duration) {
    let sets = sets.into_iter().map(|set| &**set);
    findings(sets, unix_seconds(SystemTime::now()), expiry_warning)
        .into_iter()
        .for_each(watch::say);
}

/// What has to be done again and again.
async fn keep(
    server: Arc<Server>,
    directory: Arc<Directory>,
    trust: Arc<TrustStore>,
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    max_stale: Duration,
) {
    let mut ticks = tokio::time::interval(TICK);
    let mut is_stale = false;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        server.tick(now);
        let until = Some(now + 8 * TICK);
        match (directory.snapshot().is_loaded(), directory.age()) {
            (true, Some(age)) if age <= max_stale => {
                is_stale = false;
                readiness.good(Condition::Policies, until);
            }
            (true, Some(age)) => {
                let (age, most) = (age.as_secs(), max_stale.as_secs());
                readiness.failed(
                    Condition::Policies,
                    format!("the policy set is {age} s old, more than `max_stale`, {most} s"),
                );
                if !is_stale {
                    is_stale = true;
                    tracing::error!(
                        "the policies are {age} s old, more than `[cache] max_stale`, {most} s: this node answers nobody until \
                         a database answers"
                    );
                }
            }
            _ => {
                let why = directory.health().problem.unwrap_or_else(|| "not read yet".to_owned());
                readiness.failed(Condition::Policies, why);
            }
        }
        readiness.tell(Policies {
            revision: directory.snapshot().revision.to_string(),
            age_s: directory.age().map(|age| age.as_secs()),
            problem: directory.health().problem,
        });
        databases(&directory, &metrics);
        let revision = i64::try_from(directory.snapshot().revision.number).unwrap_or(i64::MAX);
        metrics.policy_set(revision, directory.age().map_or(f64::INFINITY, |age| age.as_secs_f64()));
        let (sets, wall) = (trust.current(), unix_seconds(SystemTime::now()));
        // The probe shows what the default does. A profile's certificate that has ended is no reason to take the node away
        // from all other sites; the metric and `check` tell of it.
        let server_certificate = &sets.default_set().server().summary;
        if wall < server_certificate.not_before || wall > server_certificate.not_after {
            readiness.failed(
                Condition::Certificate,
                "the server's certificate is expired or not valid yet",
            );
        } else {
            readiness.good(Condition::Certificate, until);
        }
        metrics.certificates(sets.iter().flat_map(|set| certificates(set, wall)));
    }
}

/// Kind and subject of the certificates in force, and the seconds until they expire.
#[expect(clippy::cast_precision_loss, reason = "seconds until an expiry are far below 2^52")]
fn certificates(set: &TrustSet, now: i64) -> impl Iterator<Item = (&'static str, &str, f64)> {
    let servers = set.servers().map(|server| ("server", &server.summary));
    let authorities = set.authorities().iter().map(|ca| ("client-ca", &ca.summary));
    servers
        .chain(authorities)
        .map(move |(kind, summary)| (kind, summary.subject.as_str(), (summary.not_after - now) as f64))
}

/// Seconds since 1970.
pub(super) fn unix_seconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Tells how each database server is. A SQLite file is its own replica: it can be read or cannot, and is never behind.
fn databases(directory: &Directory, metrics: &Metrics) {
    let servers = directory.store().servers();
    for server in &servers {
        let lag = server.lag.map_or(f64::NAN, |lag| lag.as_secs_f64());
        metrics.replica(&server.name, server.lag.is_some(), lag);
    }
    if let Some(name) = directory.store().path().and_then(std::path::Path::file_name) {
        metrics.replica(&name.to_string_lossy(), directory.health().problem.is_none(), 0.0);
    }
}
