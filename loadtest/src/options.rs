//! What the user asks for. Defaults are those of `portreeve demo`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use portreeve::eap::tls::TlsVersion;
use portreeve::nas::Signing;

use crate::attributes::Attribute;
use crate::certificates::Certificates;
use crate::macs::MacList;
use crate::sources::Sources;
use crate::units::duration;

/// The most devices at once.
const MOST_AT_ONCE: i64 = 1 << 20;

/// Put load on a RADIUS server: devices that authenticate by EAP-TLS or MAC address, every answer checked.
///
/// So many devices at once (`--concurrency`), each beginning when one before it has its answer; or so many a second by an
/// exact schedule (`--rate`), whatever became of those before, their latency counted from when they were due. Every reply is
/// checked as a switch should, and stricter: authenticator, Message-Authenticator in first place, the keys against the
/// supplicant's own, what the RFCs demand of an EAP server, and the attributes of `--expect`.
///
/// Exit code: 0 when every answer was right and no more authentications failed than `--max-failures`, 1 when not, 2 for
/// wrong usage.
#[derive(Debug, Parser)]
#[command(
    name = "portreeve-load",
    version,
    disable_help_subcommand = true,
    max_term_width = 120,
    after_help = "Beside a server that `portreeve demo` has started:\n  \
        portreeve-load eap-tls\n  \
        portreeve-load mab --count 1000 --expect Tunnel-Private-Group-Id=130"
)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Load(Box<Devices>),
    /// Find how many authentications a second the server carries, and how many switches that is.
    #[command(after_help = "Examples:\n  \
        portreeve-load find-limit mab\n  \
        portreeve-load find-limit --p99 20ms --step 10s eap-tls --cert-dir devices --server-pid 4711\n  \
        portreeve-load find-limit mab --plan nacs-plan.toml --ports 24 --rush 5m")]
    FindLimit(Box<FindLimit>),
    /// Make certificates for devices.
    #[command(after_help = "Example:\n  \
        portreeve-load certificates devices --count 10000\n  \
        portreeve-load eap-tls --cert-dir devices")]
    Certificates(Certificates),
}

/// How the limit is found.
///
/// The rate is doubled until p99 or failures pass their bounds, then halved between the last rate that was carried and the
/// first that was not.
#[derive(Debug, Args)]
pub struct FindLimit {
    #[command(subcommand)]
    pub devices: Devices,
    /// The rate of the first step, a second.
    #[arg(long, value_name = "R", default_value = "100", value_parser = rate, global = true)]
    pub from: f64,
    /// How long each step takes.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, global = true)]
    pub step: Duration,
    /// A rate is carried when 99 of 100 are answered in this time.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = duration, global = true)]
    pub p99: Duration,
    /// A rate is carried when no more of 100 fail than so many.
    #[arg(long, value_name = "PERCENT", default_value = "0.1", value_parser = percent, global = true)]
    pub failures: f64,
    /// How near to each other the last rate that was carried and the first that was not have to be.
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent, global = true)]
    pub precision: f64,
    /// Ports of a switch with a device at each.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=1_000), global = true)]
    pub ports: u32,
    /// How often a device authenticates again.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration, global = true)]
    pub again: Duration,
    /// In the morning, all devices come within this time.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration, global = true)]
    pub rush: Duration,
}

/// Who authenticates.
#[derive(Debug, Subcommand)]
pub enum Devices {
    /// Devices with a certificate.
    #[command(after_help = "Examples:\n  \
        portreeve-load eap-tls --duration 30 --concurrency 128\n  \
        portreeve-load eap-tls --resume --rate 500\n  \
        portreeve-load eap-tls --tls 1.2 --count 10000 --expect Tunnel-Private-Group-Id:1=120 --json result.json\n  \
        portreeve-load eap-tls --target 10.0.0.5:1812 --secret s3cret --cert laptop.pem --key laptop.key --ca ca.pem \
        --attr NAS-Port-Type=Wireless-802.11 --attr Called-Station-Id=00-11-22-33-44-55:Staff")]
    EapTls(EapTls),
    /// Devices known by their MAC address.
    #[command(after_help = "Examples:\n  \
        portreeve-load mab --method eap-md5 --count 1000\n  \
        portreeve-load mab --mac 02-00-00-00-00-01..02-00-00-00-0f-ff --concurrency 256\n  \
        portreeve-load mab --mac 001b.7801.0203 --expect Cisco-AVPair=device-traffic-class=voice --timeout 500ms")]
    Mab(Mab),
}

#[derive(Debug, Args)]
pub struct EapTls {
    /// Offer this TLS version only, instead of both.
    #[arg(long, value_name = "VERSION", value_parser = tls_version)]
    pub tls: Option<TlsVersion>,
    /// Resume sessions: who comes again with the same certificate from the same source address offers the ticket of the last
    /// time.
    #[arg(long)]
    pub resume: bool,
    /// The devices' certificate, with its intermediates after it (PEM).
    #[arg(long, value_name = "FILE", default_value = "demo/certs/client.pem")]
    pub cert: PathBuf,
    /// Its private key (PEM, not encrypted).
    #[arg(long, value_name = "FILE", default_value = "demo/certs/client.key")]
    pub key: PathBuf,
    /// A folder of certificates, `NAME.pem` each with its `NAME.key`: devices take turns with them. See `portreeve-load
    /// certificates`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cert", "key"])]
    pub cert_dir: Option<PathBuf>,
    /// The CAs that the server's certificate must come from (PEM).
    #[arg(long, value_name = "FILE", default_value = "demo/certs/ca.pem")]
    pub ca: PathBuf,
    /// What the devices call themselves: EAP identity and User-Name [default: portreeve-load, or the NAME of --cert-dir].
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,
    /// The devices' MAC addresses (Calling-Station-Id): with commas between, ranges as `FIRST..LAST`, or `@FILE` with a
    /// list on each line.
    #[arg(long, value_name = "LIST", default_value = "02-00-00-00-00-01..02-00-00-00-ff-ff")]
    pub mac: MacList,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Mab {
    /// How the MAC address is sent.
    #[arg(long, value_enum, default_value = "pap")]
    pub method: MabMethod,
    /// The devices' MAC addresses: with commas between, ranges as `FIRST..LAST`, or `@FILE` with a list on each line.
    #[arg(long, value_name = "LIST", default_value = "02-00-00-00-00-01")]
    pub mac: MacList,
    /// The password, instead of the MAC address in the form that User-Name has (`020000000001`).
    #[arg(long, value_name = "TEXT")]
    pub password: Option<String>,
    /// User-Name, instead of the MAC address.
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

/// How a MAC address is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MabMethod {
    /// With a User-Password.
    Pap,
    /// With a CHAP-Password.
    Chap,
    /// By EAP's MD5-Challenge: two round trips.
    EapMd5,
    /// Without any password.
    None,
}

/// Where a reply has its Message-Authenticator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MessageAuthenticator {
    /// In first place, in every reply, as servers have it since CVE-2024-3596.
    First,
    /// Anywhere, and in replies without EAP perhaps nowhere, as servers had it before.
    Optional,
}

impl MessageAuthenticator {
    /// As the user typed it.
    pub fn word(self) -> &'static str {
        match self {
            MessageAuthenticator::First => "first",
            MessageAuthenticator::Optional => "optional",
        }
    }
}

impl From<MessageAuthenticator> for Signing {
    fn from(place: MessageAuthenticator) -> Signing {
        match place {
            MessageAuthenticator::First => Signing::First,
            MessageAuthenticator::Optional => Signing::Optional,
        }
    }
}

#[derive(Debug, Args)]
pub struct Common {
    /// The server: address or name, port 1812 unless it says another.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:1812", value_parser = target)]
    pub target: SocketAddr,
    /// The secret that the server shares with this client [default: the plan's, or testing123].
    #[arg(long)]
    pub secret: Option<String>,
    /// A plan: what load there is when, or who asks from where and must be answered what, or both. A file, or one of
    /// published, office-day, doubling, soak. May be given twice, for the two parts.
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<String>,
    /// Make the phases of the plan shorter: 0.1 makes thirty minutes three.
    #[arg(long, value_name = "F", value_parser = time_scale, default_value = "1", requires = "plan")]
    pub time_scale: f64,
    /// Devices at once [default: 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_AT_ONCE))]
    pub concurrency: Option<u32>,
    /// Devices that begin in a second, by schedule, instead of so many at once.
    #[arg(long, value_name = "R", value_parser = rate, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// With --rate, the most devices at once: when so many are under way, those that are due wait, and it counts as latency;
    /// those that have not begun when the time is up fail as `not-begun`. Each may take 2 kB, with EAP-TLS 20.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=MOST_AT_ONCE))]
    pub most_open: u32,
    /// Let rate or concurrency rise evenly in the first so much of the run.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub ramp: Option<Duration>,
    /// How long new devices begin [default: 10 s]. Those begun are waited for.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "count")]
    pub duration: Option<Duration>,
    /// How many devices there are, instead of a duration.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// An attribute of every request, `Name=value` or `Name:tag=value`; replaces what is sent under that name by default.
    /// May be repeated.
    #[arg(long, value_name = "A=V")]
    pub attr: Vec<Attribute>,
    /// The addresses that requests come from, in turn: networks, ranges (`FIRST..LAST`) and single ones, with commas between.
    /// This machine must have them, as it has all of 127.0.0.0/8.
    #[arg(long, value_name = "LIST")]
    pub sources: Option<Sources>,
    /// What every accept must carry: an attribute named here has just the values named here, in this order. May be
    /// repeated.
    #[arg(long, value_name = "A=V")]
    pub expect: Vec<Attribute>,
    /// Where replies must have their Message-Authenticator. Whatever is said here, one that is there must be right, and a
    /// reply with EAP must have one.
    #[arg(long, value_name = "WHERE", value_enum, default_value = "first")]
    pub message_authenticator: MessageAuthenticator,
    /// How long to wait for an answer before the request is sent again: the same octets from the same port, as a switch
    /// does.
    /// [default: the plan's, or 3s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How often a request is sent again before the device gives up [default: the plan's, or 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100))]
    pub retries: Option<u32>,
    /// How many devices may be refused or left without an answer. Wrong answers may never be.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_failures: u64,
    /// Watch the processor time and memory of the server's process, every second; may be repeated.
    #[arg(long, value_name = "PID")]
    pub server_pid: Vec<u32>,
    /// Threads that put on load; one carries a hundred thousand PAP or four thousand EAP-TLS authentications a second.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Write the summary and every second of the run to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a report with plots to this file, a page that needs no other file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Devices {
    pub fn common(&self) -> &Common {
        match self {
            Devices::EapTls(options) => &options.common,
            Devices::Mab(options) => &options.common,
        }
    }

    /// As the user typed it.
    pub fn word(&self) -> &'static str {
        match self {
            Devices::EapTls(_) => "eap-tls",
            Devices::Mab(_) => "mab",
        }
    }
}

/// Above 0, below 100.
fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if (0.001..100.0).contains(&percent) => Ok(percent),
        _ => Err("not between 0.001 and 100 percent".to_owned()),
    }
}

/// A factor that makes times shorter.
fn time_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.0001..=1.0).contains(&scale) => Ok(scale),
        _ => Err("not between 0.0001 and 1\nhint: 0.1 makes each phase ten times shorter".to_owned()),
    }
}

/// Devices a second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("not between 0.001 and 10000000 a second".to_owned()),
    }
}

fn target(text: &str) -> Result<SocketAddr, String> {
    const PORT: u16 = 1812;
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse() {
        return Ok(SocketAddr::new(address, PORT));
    }
    let found = match text.contains(':') {
        true => text.to_socket_addrs(),
        false => (text, PORT).to_socket_addrs(),
    };
    found
        .map_err(|error| error.to_string())?
        .next()
        .ok_or_else(|| "it has no address".to_owned())
}

fn tls_version(text: &str) -> Result<TlsVersion, String> {
    TlsVersion::parse(text).ok_or_else(|| "1.2 or 1.3".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn targets() {
        for (text, address) in [
            ("10.0.0.5", "10.0.0.5:1812"),
            ("10.0.0.5:1645", "10.0.0.5:1645"),
            ("::1", "[::1]:1812"),
            ("[::1]", "[::1]:1812"),
            ("[::1]:1645", "[::1]:1645"),
        ] {
            assert_eq!(target(text).unwrap().to_string(), address, "{text}");
        }
        assert!(target("10.0.0.5:port").is_err());
    }

    #[test]
    fn the_page_names_every_option() {
        let page = include_str!("../../docs/load.md");
        let whole = Options::command();
        for command in whole.get_subcommands() {
            assert!(page.contains(command.get_name()), "{}", command.get_name());
            for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let named = [" ", "`", ",", ")"]
                    .iter()
                    .any(|after| page.contains(&format!("--{option}{after}")));
                assert!(named || option == "help", "--{option} is not in docs/load.md");
            }
        }
    }

    #[test]
    fn the_examples_of_the_help_are_right() {
        for (command, count) in [("eap-tls", 3), ("mab", 3), ("find-limit", 3), ("certificates", 2)] {
            let mut whole = Options::command();
            let help = whole
                .find_subcommand_mut(command)
                .and_then(|command| command.get_after_help().map(ToString::to_string))
                .unwrap();
            let examples: Vec<_> = help.lines().filter(|line| line.contains("portreeve-load ")).collect();
            assert!(examples.len() >= count, "{help}");
            for example in examples {
                Options::try_parse_from(example.split_whitespace())
                    .unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }
}
