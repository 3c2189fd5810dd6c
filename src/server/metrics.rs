//! The counters of the request path.
//!
//! Every handle is registered when the process starts, or when its first event happens: counting is an index and an
//! atomic addition, no label is formatted or hashed. The names and labels are the contract with dashboards; where they
//! are exported is `telemetry/`'s business.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, SharedString};

use super::record::{Authentication, Method, Outcome};
use crate::eap::tls::ticket::Offered;
use crate::reason::{Kind, Reason};

/// Where handles come from: an exporter, or [`metrics::NoopRecorder`].
pub type Registry = Arc<dyn Recorder + Send + Sync>;

/// Handles of every metric that the server moves. Cheap to share, never locks after the first event of a kind.
pub struct Metrics {
    registry: Registry,
    requests: [Counter; 4],
    dropped: Vec<OnceLock<Counter>>,
    authentications: Vec<OnceLock<Counter>>,
    durations: [OnceLock<Histogram>; METHODS],
    kernel_drops: Counter,
    open_conversations: Gauge,
    cache: [Counter; 4],
    resumptions: [Counter; Offered::ALL.len()],
    revision: Gauge,
    policy_age: Gauge,
    expiring_client_certificates: Gauge,
    /// By kind and subject: those that were ever in force.
    certificates: Mutex<BTreeMap<(&'static str, String), Gauge>>,
}

/// Methods as labels: the three, and `none` for a request that never came so far.
const METHODS: usize = Method::ALL.len() + 1;

/// Whether a look-up of a site's compiled policies found them in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// In memory and fresh.
    Hit,
    /// Had to be loaded.
    Miss,
    /// In memory, and older than the newest revision: the last good version.
    Stale,
    /// Had to be loaded, and could not be.
    Failed,
}

impl Metrics {
    /// Registers what exists from the start, so that a rate over the first event is right.
    pub fn new(registry: Registry) -> Metrics {
        describe(&*registry);
        let metrics = Metrics {
            requests: ["access-request", "accounting-request", "status-server", "other"]
                .map(|code| counter(&*registry, "portreeve_requests_total", &[("code", code)])),
            dropped: Reason::ALL.iter().map(|_| OnceLock::new()).collect(),
            authentications: (0..METHODS * Outcome::ALL.len() * Reason::ALL.len())
                .map(|_| OnceLock::new())
                .collect(),
            durations: Default::default(),
            kernel_drops: counter(&*registry, "portreeve_kernel_drops_total", &[]),
            open_conversations: gauge(&*registry, "portreeve_open_conversations", &[]),
            cache: ["hit", "miss", "stale", "failed"]
                .map(|result| counter(&*registry, "portreeve_cache_requests_total", &[("result", result)])),
            resumptions: Offered::ALL.map(|offered| counter(&*registry, RESUMPTIONS, &[("result", offered.word())])),
            revision: gauge(&*registry, "portreeve_revision", &[]),
            policy_age: gauge(&*registry, "portreeve_policy_age_seconds", &[]),
            expiring_client_certificates: gauge(&*registry, "portreeve_expiring_client_certificates", &[]),
            certificates: Mutex::default(),
            registry,
        };
        for reason in Reason::ALL {
            // the second for accounting, which is not answered
            if reason.kind() == Kind::Silent || *reason == Reason::NotNetworkAccess {
                metrics.drops(*reason);
            }
        }
        metrics
    }

    /// Metrics that nobody reads: tests, commands that ask the server's code a question.
    pub fn none() -> Metrics {
        Metrics::new(Arc::new(metrics::NoopRecorder))
    }

    /// A packet with this code arrived, well-formed, from a known client, whether or not it is one that gets an answer.
    pub fn request(&self, code: u8) {
        let index = match code {
            1 => 0,
            4 => 1,
            12 => 2,
            _ => 3,
        };
        if let Some(counter) = self.requests.get(index) {
            counter.increment(1);
        }
    }

    /// A packet got no answer, because of `reason`.
    pub fn dropped(&self, reason: Reason) {
        self.dropped_many(reason, 1);
    }

    /// So many requests got no answer.
    pub fn dropped_many(&self, reason: Reason, count: u64) {
        if let Some(counter) = self.drops(reason) {
            counter.increment(count);
        }
    }

    /// An authentication finished. A switch that asks whether the server is alive has authenticated nobody: counted as a
    /// failure it would hide the real ones.
    pub fn authentication(&self, record: &Authentication) {
        if record.reason == Reason::Probe {
            return;
        }
        let method = record.method.map_or(METHODS - 1, |method| method as usize);
        let word = record.method.map_or("none", Method::word);
        let (outcome, reason) = (record.outcome, record.reason);
        let index = (method * Outcome::ALL.len() + outcome as usize) * Reason::ALL.len() + reason as usize;
        if let Some(cell) = self.authentications.get(index) {
            cell.get_or_init(|| {
                let labels = [("method", word), ("outcome", outcome.word()), ("reason", reason.word())];
                counter(&*self.registry, "portreeve_authentications_total", &labels)
            })
            .increment(1);
        }
        if let Some(counter) = record.ticket.and_then(|offered| self.resumptions.get(offered as usize)) {
            counter.increment(1);
        }
        if let Some(cell) = self.durations.get(method) {
            cell.get_or_init(|| {
                let key = key(DURATION, &[("method", word)]);
                self.registry.register_histogram(&key, &METADATA)
            })
            .record(record.duration.as_secs_f64());
        }
    }

    /// The kernel lost `count` more datagrams, since a socket's receive buffer was full.
    pub fn kernel_drops(&self, count: u64) {
        self.kernel_drops.increment(count);
    }

    /// How many EAP conversations are open.
    pub fn open_conversations(&self, count: usize) {
        self.open_conversations.set(count as f64);
    }

    /// A site's compiled policies were looked up.
    pub fn cache(&self, result: CacheResult) {
        if let Some(counter) = self.cache.get(result as usize) {
            counter.increment(1);
        }
    }

    /// The revision that decides at the moment, and how long ago it was last known to be the newest, in seconds.
    pub fn policy_set(&self, revision: i64, age_seconds: f64) {
        self.revision.set(revision as f64);
        self.policy_age.set(age_seconds);
    }

    /// State of one database that policies are read from: whether it answers, and how far it is behind, in seconds.
    pub fn replica(&self, name: &str, up: bool, lag_seconds: f64) {
        let labels = [("replica", name)];
        gauge(&*self.registry, "portreeve_replica_up", &labels).set(f64::from(u8::from(up)));
        gauge(&*self.registry, "portreeve_replica_lag_seconds", &labels).set(lag_seconds);
    }

    /// The certificates in force: kind (`server`, `client-ca`), subject, and seconds until it expires. Of two that differ
    /// in neither kind nor subject the one that expires first counts, and one that is in force no longer is shown no
    /// longer.
    pub fn certificates<'a>(&self, in_force: impl IntoIterator<Item = (&'static str, &'a str, f64)>) {
        let mut soonest: BTreeMap<(&'static str, String), f64> = BTreeMap::new();
        for (kind, subject, seconds) in in_force {
            let known = soonest.entry((kind, subject.to_owned())).or_insert(seconds);
            *known = known.min(seconds);
        }
        let mut gauges = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, gone) in gauges.iter().filter(|(known, _)| !soonest.contains_key(known)) {
            gone.set(NOT_SHOWN);
        }
        for ((kind, subject), seconds) in soonest {
            gauges
                .entry((kind, subject))
                .or_insert_with_key(|(kind, subject)| {
                    let labels = [("kind", *kind), ("subject", subject.as_str())];
                    gauge(&*self.registry, "portreeve_certificate_expiry_seconds", &labels)
                })
                .set(seconds);
        }
    }

    /// What was asked about revocation (source, result, how often so far), and what went over the network for it.
    pub fn revocation(
        &self,
        checks: impl IntoIterator<Item = (&'static str, &'static str, u64)>,
        fetches: impl IntoIterator<Item = (&'static str, &'static str, u64)>,
    ) {
        let set = |name, (source, result, count): (&'static str, &'static str, u64)| {
            counter(&*self.registry, name, &[("source", source), ("result", result)]).absolute(count);
        };
        let name = "portreeve_revocation_checks_total";
        checks.into_iter().for_each(|check| set(name, check));
        let name = "portreeve_revocation_fetches_total";
        fetches.into_iter().for_each(|fetch| set(name, fetch));
    }

    /// The lists of revoked certificates in force: the issuer's subject, and seconds until nextUpdate.
    pub fn revocation_lists(&self, in_force: impl IntoIterator<Item = (String, f64)>) {
        for (issuer, seconds) in in_force {
            let labels = [("issuer", issuer.as_str())];
            gauge(&*self.registry, "portreeve_crl_next_update_seconds", &labels).set(seconds);
        }
    }

    /// How many certificates of devices that were let in within the last day end soon.
    pub fn expiring_client_certificates(&self, count: usize) {
        self.expiring_client_certificates.set(count as f64);
    }

    fn drops(&self, reason: Reason) -> Option<&Counter> {
        let cell = self.dropped.get(reason as usize)?;
        Some(cell.get_or_init(|| {
            counter(
                &*self.registry,
                "portreeve_dropped_packets_total",
                &[("reason", reason.word())],
            )
        }))
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// The one histogram; the exporter is told its buckets.
pub const DURATION: &str = "portreeve_authentication_duration_seconds";

const RESUMPTIONS: &str = "portreeve_resumptions_total";

/// The value of a gauge that is not to be exported: none can be taken from a registry again.
pub const NOT_SHOWN: f64 = f64::NAN;

const METADATA: Metadata<'static> = Metadata::new("portreeve", Level::INFO, None);

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<Label> = labels
        .iter()
        .map(|(name, value)| Label::new(*name, String::from(*value)))
        .collect();
    Key::from_parts(name, labels)
}

fn counter(registry: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
    registry.register_counter(&key(name, labels), &METADATA)
}

fn gauge(registry: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
    registry.register_gauge(&key(name, labels), &METADATA)
}

fn describe(registry: &dyn Recorder) {
    let text = SharedString::const_str;
    for (name, help) in [
        (
            "portreeve_requests_total",
            "Well-formed packets from known clients, by RADIUS code.",
        ),
        ("portreeve_authentications_total", "Finished authentications."),
        ("portreeve_dropped_packets_total", "Packets that got no answer."),
        (RESUMPTIONS, "Tickets that supplicants offered, by what became of them."),
        (
            "portreeve_kernel_drops_total",
            "Datagrams lost because a socket's receive buffer was full.",
        ),
        (
            "portreeve_cache_requests_total",
            "Look-ups of a site's compiled policies.",
        ),
        (
            "portreeve_revocation_checks_total",
            "What was learned of certificates' revocation, from memory too.",
        ),
        (
            "portreeve_revocation_fetches_total",
            "OCSP responses and lists of revoked certificates that were asked for over the network.",
        ),
    ] {
        registry.describe_counter(name.into(), None, text(help));
    }
    for (name, help) in [
        ("portreeve_open_conversations", "EAP conversations that are open."),
        ("portreeve_replica_up", "1 where the database answers."),
        ("portreeve_replica_lag_seconds", "How far the database is behind."),
        (
            "portreeve_crl_next_update_seconds",
            "Time until a list of revoked certificates is to be replaced; of several of one issuer, the first.",
        ),
        ("portreeve_revision", "Revision of the policy set that decides."),
        (
            "portreeve_policy_age_seconds",
            "Time since the policy set was last known to be the newest.",
        ),
        (
            "portreeve_certificate_expiry_seconds",
            "Time until the certificate expires; of several with this subject, the first.",
        ),
        (
            "portreeve_expiring_client_certificates",
            "Client certificates that were accepted in the last 24 hours and expire within [eap.tls] expiry_warning.",
        ),
    ] {
        registry.describe_gauge(name.into(), None, text(help));
    }
    registry.describe_histogram(
        DURATION.into(),
        None,
        text("From an authentication's first request to its last answer, the supplicant's time included."),
    );
}
