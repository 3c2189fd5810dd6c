//! The configuration: one TOML file, each key overridable by an environment variable.
//!
//! `PORTREEVE__SECTION__KEY` overrides `key` in `[section]` (`PORTREEVE__EAP__TLS__CERTIFICATE` for `[eap.tls]`); its
//! value is a TOML literal, or else a string. Unknown keys are refused with their line. `docs/configuration.md` shows
//! the same keys to users; a test holds it to this file.

pub mod dictionaries;
pub mod eap_tls;
pub mod reader;
mod revocation;
pub mod units;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use eap_tls::EapTls;
use jiff::tz::TimeZone;
pub use reader::Problem;
use reader::Reader;

use crate::duplicates::DEFAULT_BUDGET_BYTES;
use crate::eap::method::{Method, Methods};
use crate::store::Settings;
use crate::store::saved::{self, Key, Saved};

/// Everything that one node is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file this was read from.
    pub file: PathBuf,
    /// `[node]`: who this node is.
    pub node: Node,
    /// `[radius]`: sockets, workers and limits.
    pub radius: Radius,
    /// `[database]`: where policies live.
    pub database: Settings,
    /// `[eap]`: which methods are spoken.
    pub eap: Eap,
    /// `[eap.tls]`: certificates; `serve` needs them.
    pub eap_tls: Option<EapTls>,
    /// `[revocation]`: whether certificates were revoked; none when that is off.
    pub revocation: Option<crate::trust::revocation::Settings>,
    /// `[cache]`: what is kept of the database.
    pub cache: Cache,
    /// `[policy]`: how rules are read.
    pub policy: Policy,
    /// `[dictionaries]`: attributes beyond the built-in ones.
    pub dictionaries: Dictionaries,
    /// `[ops]`: health and metrics.
    pub ops: Ops,
    /// `[log]`: what is written down.
    pub log: Log,
}

/// `[node]`
#[derive(Clone, Debug)]
pub struct Node {
    /// `name`: in every log line. Default: the host's name.
    pub name: String,
    /// `id`: a number in State that tells which node a conversation belongs to. Default: made from the name. Two nodes
    /// with the same one are harmless, but State no longer says which of them began.
    pub id: u32,
}

/// `[radius]`
#[derive(Clone, Debug)]
pub struct Radius {
    /// `listen`: an address and port, or a list. Default: port 1812 of every IPv4 and IPv6 address. `[::]` alone takes
    /// IPv4 as well.
    pub listen: Vec<SocketAddr>,
    /// Whether `listen` was left to its default: then an address family that the host lacks is no error.
    pub listen_is_default: bool,
    /// `workers`: threads, each with a socket of its own. Default: the number of processors. Too low leaves processors
    /// idle; too high makes workers take turns on a processor, which costs latency.
    pub workers: usize,
    /// `duplicate_bytes`: memory for replies that are kept 5 s for retransmissions, over all workers. Default 8 MiB.
    /// Too low: a retransmission is worked on again, and an EAP conversation may break; too high: memory.
    pub duplicate_bytes: usize,
    /// `receive_buffer`: what the kernel keeps for each socket. Default 4 MiB. Too low: bursts are lost
    /// (`portreeve_kernel_drops_total`); too high: in overload, answers to requests that the switch has given up.
    pub receive_buffer: usize,
    /// `max_conversations`: EAP conversations open at once, and final answers that are kept. Default 20,000. Too low:
    /// conversations are evicted in a morning rush, and at a high rate final answers are forgotten before switches have
    /// asked again; too high: about 20 KiB of memory for each that an attacker opens.
    pub max_conversations: usize,
    /// `max_conversations_per_client`: as above, for one client. Default 5,000. Too low: a busy controller is
    /// throttled; too high: one client can take the place of all others.
    pub max_conversations_per_client: usize,
    /// `conversation_timeout`: how long a supplicant may be silent. Default 30 s. Too low: slow smart cards and people
    /// who type a PIN fail; too high: dead conversations take room, and are reported late.
    pub conversation_timeout: Duration,
    /// `unknown_state`: what a State gets that belongs to no conversation.
    pub unknown_state: UnknownState,
    /// `message_authenticator`: whether clients' settings are enforced.
    pub message_authenticator: MessageAuthenticatorMode,
    /// `probe_users`: names with which switches test the server: rejected at once, outside failure metrics.
    pub probe_users: Vec<String>,
    /// `drain_timeout`: after a signal to stop, how long open conversations may go on. Default 10 s. Too low: devices
    /// must begin again at another node; too high: deploys are slow.
    pub drain_timeout: Duration,
}

/// What is sent for a State that no conversation of this node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownState {
    /// A reject with EAP-Failure: the supplicant begins again at once. The default.
    Reject,
    /// Nothing: the switch goes on to its next server.
    Silent,
}

/// What becomes of requests without Message-Authenticator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageAuthenticatorMode {
    /// Each client's own setting holds. The default.
    Require,
    /// They are answered, and clients that would be refused are listed in the log: for a migration.
    Observe,
}

/// `[eap]`
#[derive(Clone, Debug)]
pub struct Eap {
    /// `methods`: by which a device may show its certificate: `tls`, and inside of `ttls` or `peap`. The first is
    /// offered, the others go to those who ask for them. Default: all three.
    pub methods: Methods,
}

/// `[cache]`
#[derive(Clone, Debug)]
pub struct Cache {
    /// `max_stale`: how long decisions go on from memory when no database answers. Default 24 h. Too low: a database
    /// that is down for longer takes the network with it; too high: a device that was removed stays welcome as long.
    pub max_stale: Duration,
    /// `sites_bytes`: memory for sites' compiled policies. Default 64 MiB. Too low: policies are read and compiled
    /// again and again (`portreeve_cache_requests_total`); too high: memory.
    pub sites_bytes: usize,
    /// `snapshot` and `snapshot_key`: the file that the policy set is kept in, and the key of the secrets in it, for a
    /// start without PostgreSQL. Without a key nothing is kept.
    pub saved: Option<Saved>,
}

/// `[policy]`
#[derive(Clone, Debug)]
pub struct Policy {
    /// `timezone`: of `Time-Of-Day` and `Day-Of-Week`, an IANA name. Default `UTC`. A site's own goes first.
    pub timezone: TimeZone,
}

/// `[dictionaries]`
#[derive(Clone, Debug)]
pub struct Dictionaries {
    /// `extra`: files in FreeRADIUS's format, or folders with a file `dictionary`. A later definition wins.
    pub extra: Vec<PathBuf>,
}

/// `[ops]`
#[derive(Clone, Debug)]
pub struct Ops {
    /// `listen`: an address and port for `/healthz`, `/readyz`, `/metrics`, `/attempts` and `/unsigned-clients`, or `off`. Default
    /// `127.0.0.1:8812`. It has no authentication: anyone who reaches it reads user names and MAC addresses.
    pub listen: Option<SocketAddr>,
}

/// `[log]`
#[derive(Clone, Debug)]
pub struct Log {
    /// `format`: `json` (default) or `text`.
    pub format: LogFormat,
    /// `level`: `error`, `warn`, `info` (default), `debug`, `trace`, or directives like `info,sqlx=warn`. Lines of
    /// authentications are always written. Too low hides a reload that failed; too high floods.
    pub level: String,
}

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// `key=value`, for eyes.
    Text,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}\nhint: {hint}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// It was read, and is wrong: at least one complaint.
    #[error("{}", problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid {
        /// Every complaint.
        problems: Vec<Problem>,
    },
}

impl Config {
    /// Reads `file`, with this process's environment laid over it.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|error| ConfigError::Unreadable {
            file: file.to_owned(),
            hint: match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "`--config FILE` names another one; `portreeve demo` makes a folder with one that works"
                }
                _ => "the user that runs portreeve must be able to read the file",
            },
            error,
        })?;
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Config::parse(file, &text, environment)
    }

    /// Reads `text`, which came from `file`, with `environment` laid over it.
    pub fn parse(
        file: &Path,
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let mut reader = Reader::new(file, text, environment);
        let config = take(file, &mut reader);
        let problems = reader.finish();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError::Invalid { problems })
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Takes every key; a wrong one leaves its default behind and a complaint in the reader.
fn take(file: &Path, reader: &mut Reader) -> Config {
    Config {
        file: file.to_owned(),
        node: node(reader),
        radius: radius(reader),
        database: database(reader),
        eap: eap(reader),
        eap_tls: eap_tls::take(reader),
        revocation: revocation::take(reader),
        cache: cache(reader),
        policy: policy(reader),
        dictionaries: Dictionaries {
            extra: reader.section("dictionaries").paths("extra").unwrap_or_default(),
        },
        ops: ops(reader),
        log: log(reader),
    }
}

fn node(reader: &mut Reader) -> Node {
    let mut section = reader.section("node");
    let check = |name: &str| match name.chars().any(|c| c.is_control() || c.is_whitespace()) || name.is_empty() {
        true => Err(format!("`{}` is no name", name.escape_debug())),
        false => Ok(name.to_owned()),
    };
    let name = section
        .parsed("name", "a name without spaces, like the host's", check)
        .unwrap_or_else(host_name);
    let id = section
        .integer("id", 0..=u64::from(u32::MAX))
        .and_then(|id| u32::try_from(id).ok());
    Node {
        id: id.unwrap_or_else(|| number_of(&name)),
        name,
    }
}

fn radius(reader: &mut Reader) -> Radius {
    let mut section = reader.section("radius");
    let place = section.place("listen");
    let listen = section.addresses("listen");
    if listen.as_ref().is_some_and(Vec::is_empty) {
        section.complain_about(
            "listen",
            &place,
            "is an empty list",
            "leave it out for port 1812 of every address",
        );
    }
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let place = section.place("max_conversations_per_client");
    let max_conversations = section
        .integer("max_conversations", 16..=10_000_000)
        .map_or(20_000, count);
    let per_client = section
        .integer("max_conversations_per_client", 1..=10_000_000)
        .map(count);
    if per_client.is_some_and(|limit| limit > max_conversations) {
        let message = format!("is above `max_conversations`, {max_conversations}");
        section.complain_about("max_conversations_per_client", &place, &message, "");
    }
    Radius {
        listen_is_default: listen.is_none(),
        listen: listen.unwrap_or_else(|| {
            vec![
                (Ipv4Addr::UNSPECIFIED, 1812).into(),
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, 1812)),
            ]
        }),
        workers: section.integer("workers", 1..=256).map_or(processors, count),
        duplicate_bytes: section
            .size("duplicate_bytes", 64 * KIB..=4 * GIB)
            .unwrap_or(DEFAULT_BUDGET_BYTES),
        receive_buffer: section.size("receive_buffer", 64 * KIB..=GIB).unwrap_or(4 << 20),
        max_conversations,
        max_conversations_per_client: per_client.unwrap_or(5_000.min(max_conversations)),
        conversation_timeout: section
            .duration(
                "conversation_timeout",
                Duration::from_secs(5)..=Duration::from_secs(300),
            )
            .unwrap_or(Duration::from_secs(30)),
        unknown_state: section
            .word(
                "unknown_state",
                &[("reject", UnknownState::Reject), ("silent", UnknownState::Silent)],
            )
            .unwrap_or(UnknownState::Reject),
        message_authenticator: section
            .word(
                "message_authenticator",
                &[
                    ("require", MessageAuthenticatorMode::Require),
                    ("observe", MessageAuthenticatorMode::Observe),
                ],
            )
            .unwrap_or(MessageAuthenticatorMode::Require),
        probe_users: section.strings("probe_users").unwrap_or_default(),
        drain_timeout: section
            .duration("drain_timeout", Duration::ZERO..=Duration::from_secs(600))
            .unwrap_or(Duration::from_secs(10)),
    }
}

fn database(reader: &mut Reader) -> Settings {
    let mut section = reader.section("database");
    let replicas = section.strings("replicas").unwrap_or_default();
    let url = section.string("url");
    let url = match url {
        // A node that only authenticates needs no primary.
        None if !replicas.is_empty() => None,
        None => Some("sqlite:portreeve.db".to_owned()),
        url => url,
    };
    let url = url.map(|url| match url.strip_prefix("sqlite:") {
        // a relative file is relative to the configuration's folder, as every path is
        Some(path) if path != ":memory:" => {
            format!(
                "sqlite:{}",
                section.folder().join(path.trim_start_matches("//")).display()
            )
        }
        _ => url,
    });
    let default = Settings::default();
    let (ms, second, minute) = (
        Duration::from_millis(1),
        Duration::from_secs(1),
        Duration::from_secs(60),
    );
    Settings {
        url,
        replicas,
        password_file: section.path("password_file"),
        connections: section
            .integer("connections", 1..=1000)
            .and_then(|connections| connections.try_into().ok())
            .unwrap_or(default.connections),
        connect_timeout: section
            .duration("connect_timeout", 50 * ms..=minute)
            .unwrap_or(default.connect_timeout),
        statement_timeout: section
            .duration("statement_timeout", second..=60 * minute)
            .unwrap_or(default.statement_timeout),
        probe_interval: section
            .duration("probe_interval", 50 * ms..=minute)
            .unwrap_or(default.probe_interval),
        probe_timeout: section
            .duration("probe_timeout", 50 * ms..=minute)
            .unwrap_or(default.probe_timeout),
        max_lag: section
            .duration("max_lag", 100 * ms..=60 * minute)
            .unwrap_or(default.max_lag),
    }
}

fn eap(reader: &mut Reader) -> Eap {
    let mut section = reader.section("eap");
    let place = section.place("methods");
    let words = section.strings("methods");
    let method = |word: &String| Methods::ALL.iter().find(|method| method.word() == word);
    let methods = words.as_ref().map(|words| {
        let listed: Option<Vec<Method>> = words.iter().map(method).collect();
        listed.and_then(|listed| Methods::new(&listed))
    });
    if let Some(None) = methods {
        let message = format!("is `{}`", words.unwrap_or_default().join(", "));
        section.complain_about(
            "methods",
            &place,
            &message,
            "name one or more of `tls`, `ttls` and `peap`, each once",
        );
    }
    Eap {
        methods: methods.flatten().unwrap_or(Methods::ALL),
    }
}

fn cache(reader: &mut Reader) -> Cache {
    let mut section = reader.section("cache");
    let path = section
        .path("snapshot")
        .unwrap_or_else(|| section.folder().join("portreeve.snapshot"));
    let key = |text: &str| Key::new(text).map_err(|_| format!("is shorter than {} characters", saved::key::SHORTEST));
    let key = section.parsed("snapshot_key", "`openssl rand -hex 32` makes one", key);
    Cache {
        max_stale: section
            .duration("max_stale", Duration::from_secs(60)..=Duration::from_secs(30 * 86_400))
            .unwrap_or(Duration::from_secs(86_400)),
        sites_bytes: section.size("sites_bytes", MIB..=64 * GIB).unwrap_or(64 << 20),
        saved: key.map(|key| Saved::new(path, key)),
    }
}

fn policy(reader: &mut Reader) -> Policy {
    let mut section = reader.section("policy");
    let parse = |name: &str| TimeZone::get(name).map_err(|_| format!("`{name}` is no time zone"));
    Policy {
        timezone: section
            .parsed("timezone", "an IANA name, like `Europe/London`", parse)
            .unwrap_or(TimeZone::UTC),
    }
}

fn ops(reader: &mut Reader) -> Ops {
    let mut section = reader.section("ops");
    let parse = |text: &str| match text {
        "off" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| format!("`{text}` is no address and port")),
    };
    let default = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8812)));
    Ops {
        listen: section
            .parsed("listen", "write `127.0.0.1:8812`, or `off`", parse)
            .unwrap_or(default),
    }
}

fn log(reader: &mut Reader) -> Log {
    let mut section = reader.section("log");
    let level = |text: &str| match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is no level")),
    };
    Log {
        format: section
            .word("format", &[("json", LogFormat::Json), ("text", LogFormat::Text)])
            .unwrap_or(LogFormat::Json),
        level: section
            .parsed("level", "`error`, `warn`, `info`, `debug` or `trace`", level)
            .unwrap_or_else(|| "info".to_owned()),
    }
}

/// The host's name, as the kernel knows it.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "portreeve".to_owned(),
        name => name.to_owned(),
    }
}

/// A number from a name, the same on every run (FNV-1a).
fn number_of(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests;
