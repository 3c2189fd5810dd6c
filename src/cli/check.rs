//! `portreeve check`: the configuration and everything it names, each finding with a hint.

mod devices;
mod probe;

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use ipnet::IpNet;

use super::Context;
use crate::config::units::counted;
use crate::config::{Config, ConfigError, dictionaries};
use crate::eap::tls::TlsVersion;
use crate::policy::lint;
use crate::radius::dictionary::Dictionary;
use crate::store::Store;
use crate::store::inspect::{Inspection, inspect};
use crate::telemetry::escape;
use crate::trust::check::{Severity, findings};
use crate::trust::{Authority, Clock, DEFAULT_NAME, SetError, TrustSet, revocation};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 1 when something is wrong, 0 when there is nothing but warnings and notes.
Nothing is changed, and a running node is not disturbed.")]
pub struct Args {
    /// Show errors and warnings only.
    #[arg(long, short)]
    quiet: bool,
    /// Ask the node whose `[ops] listen` is this address which devices came by certificate, instead of the one of the
    /// configuration. May be given several times.
    #[arg(long = "node", value_name = "ADDRESS:PORT")]
    nodes: Vec<SocketAddr>,
    /// Instead of all that, authenticate with this certificate (PEM: its own first, then what it sends besides) as a device
    /// would, packet by packet, and explain the decision. No running node is asked. Exit code 0 for an accept, 1 for a
    /// reject.
    #[arg(long, value_name = "PEM")]
    probe: Option<PathBuf>,
    /// The key of --probe; without it, it is in the same file, or in one beside it that is called `.key` instead.
    #[arg(long, value_name = "PEM", requires = "probe")]
    key: Option<PathBuf>,
    /// The switch that --probe asks through, by its address. It may be left out where there is but one.
    #[arg(long, value_name = "IP", requires = "probe", conflicts_with = "site")]
    client: Option<IpAddr>,
    /// The site that --probe asks at, through any of its switches.
    #[arg(long, value_name = "TAG", requires = "probe")]
    site: Option<String>,
    /// The TLS version of --probe: `1.2` or `1.3`.
    #[arg(long, value_name = "VERSION", requires = "probe", value_parser = version)]
    tls: Option<TlsVersion>,
}

fn version(word: &str) -> Result<TlsVersion, String> {
    TlsVersion::parse(word).ok_or_else(|| "write `1.2` or `1.3`".to_owned())
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(certificate) = &args.probe {
        let place = match (args.client, &args.site) {
            (Some(address), _) => probe::Place::Client(address),
            (None, Some(tag)) => probe::Place::Site(tag),
            (None, None) => probe::Place::Only,
        };
        return probe::run(context, certificate, args.key.as_deref(), &place, args.tls);
    }
    let mut report = Report::default();
    match Config::load(&context.config) {
        Ok(config) => {
            report.fine(format!("configuration `{}`", config.file.display()));
            everything(args, &config, context, &mut report)?;
        }
        Err(ConfigError::Invalid { problems }) => {
            for problem in problems {
                report.add(
                    Severity::Error,
                    format!("{}: {}", problem.place, problem.message),
                    &problem.hint,
                );
            }
        }
        Err(error @ ConfigError::Unreadable { .. }) => report.failed(&error),
    }
    report.write(&mut io::stdout().lock(), args.quiet)?;
    Ok(if report.has_errors() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn everything(args: &Args, config: &Config, context: &Context, report: &mut Report) -> anyhow::Result<()> {
    let sets = certificates(config, report);
    let Some(dictionary) = dictionary(config, report) else {
        return Ok(());
    };
    context.block_on(async {
        revocation(config, &sets, report).await;
        servers(config, report).await;
        match Store::open(&config.database).await {
            Ok(store) => {
                policies(&store, &dictionary, config, report).await;
                devices::devices(&store, config, &args.nodes, report).await;
                store.close().await;
            }
            Err(error) => report.failed(&error),
        }
        on_disk(config, report).await;
        Ok(())
    })
}

/// The set that a node of PostgreSQL keeps on disk.
async fn on_disk(config: &Config, report: &mut Report) {
    if !config.database.is_postgres() {
        return;
    }
    let Some(saved) = &config.cache.saved else {
        return report.add(
            Severity::Note,
            "no policies are kept on disk: a node that starts while no database answers has none".to_owned(),
            "give it a `[cache] snapshot_key`: `openssl rand -hex 32`",
        );
    };
    let path = saved.path().display();
    match saved.look(SystemTime::now()).await {
        Ok(Some((revision, age))) => {
            let text = format!(
                "policies on disk `{path}`: revision {revision}, {} s old",
                age.as_secs()
            );
            match age > config.cache.max_stale {
                false => report.fine(text),
                true => report.add(
                    Severity::Warning,
                    format!("{text}, older than `max_stale`: no start is served from them"),
                    "a running node writes them within seconds; is one running with this file?",
                ),
            }
        }
        Ok(None) => report.fine(format!(
            "policies on disk `{path}`: not written yet; a running node does"
        )),
        Err(error) => report.failed(&error),
    }
}

/// Each database server by itself: the store is content with one that answers.
async fn servers(config: &Config, report: &mut Report) {
    // What it finds is in the report; the log would say it twice.
    let _silence = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
    let Ok(store) = Store::attach(&config.database).await else {
        return;
    };
    let servers = store.servers();
    let primaries = servers.iter().filter(|server| server.is_primary()).count();
    for server in &servers {
        let text = format!("database server `{}`: {}", server.name, server.status);
        let hint = match server.lag {
            Some(lag) if lag > config.database.max_lag => {
                "it is read only where no other answers; is its link or its disk too slow?"
            }
            Some(_) if server.is_url && !server.is_primary() => {
                "`[database] url` names the primary: no edit works through this one; was another server promoted?"
            }
            Some(_) if !server.is_url && server.is_primary() => {
                "`replicas` names servers that replay the primary's writes; was this one promoted, or does it belong elsewhere?"
            }
            Some(_) => {
                report.fine(text);
                continue;
            }
            None if server.is_url => "no edit works while the primary cannot be reached",
            None => "nodes read the others meanwhile",
        };
        // What the server says has its own cure in its last words.
        report.add(Severity::Warning, text, hint);
    }
    if primaries > 1 {
        report.add(
            Severity::Warning,
            "there are two primaries, and each has a history of its own".to_owned(),
            "make one of them a replica of the other again (pg_rewind, pg_basebackup), and name the other in `url`",
        );
    }
    store.close().await;
}

fn certificates(config: &Config, report: &mut Report) -> Vec<TrustSet> {
    let Some(tls) = &config.eap_tls else {
        report.add(
            Severity::Error,
            format!("{}: there is no section [eap.tls]", config.file.display()),
            "it names the server's certificate, its key and the client CAs; `portreeve cert init DIR` makes some to try with",
        );
        return Vec::new();
    };
    let profiles = tls.profiles.iter().map(|profile| &profile.settings);
    let mut sets = Vec::new();
    for settings in std::iter::once(&tls.default).chain(profiles) {
        match TrustSet::load(settings, Arc::new(Clock)) {
            Ok(set) => sets.push(set),
            Err(error) => report.failed(&SetError::of(settings, error)),
        }
    }
    for set in &sets {
        if findings([set], now(), tls.expiry_warning)
            .iter()
            .all(|finding| finding.severity == Severity::Note)
        {
            let files: Vec<_> = set
                .servers()
                .map(|server| format!("`{}`", server.path.display()))
                .collect();
            let authorities = counted(set.authorities().iter().count(), "client CA", "client CAs");
            let of_profile = match set.name.as_str() {
                DEFAULT_NAME => String::new(),
                name => format!("profile `{name}`: "),
            };
            report.fine(format!(
                "{of_profile}certificate {}, {authorities}",
                files.join(" and ")
            ));
        }
    }
    for finding in findings(&sets, now(), tls.expiry_warning) {
        report.add(finding.severity, finding.text, finding.hint);
    }
    sets
}

/// Lists of revoked certificates, and the responder that is asked about all.
async fn revocation(config: &Config, sets: &[TrustSet], report: &mut Report) {
    let Some(settings) = &config.revocation else {
        return;
    };
    let mut authorities: Vec<&Authority> = Vec::new();
    for authority in sets.iter().flat_map(|set| set.authorities().iter()) {
        if !authorities.iter().any(|known| known.der == authority.der) {
            authorities.push(authority);
        }
    }
    // What it finds is in the report; the log would say it twice.
    let _silence = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
    let checked = revocation::check::check(settings, &authorities, Arc::new(Clock)).await;
    checked.fine.into_iter().for_each(|what| report.fine(what));
    checked.errors.iter().for_each(|error| report.failed(error));
    for finding in checked.findings {
        report.add(finding.severity, finding.text, finding.hint);
    }
}

/// Sites and networks that a profile of certificates names and the policy data does not have: a typing error, as a rule,
/// and the devices there are judged by other CAs than was meant.
fn profiles(config: &Config, sites: &[String], clients: &[IpNet], report: &mut Report) {
    let profiles = config.eap_tls.iter().flat_map(|tls| &tls.profiles);
    for profile in profiles {
        let name = &profile.settings.name;
        for tag in &profile.sites {
            if !sites.contains(tag) {
                report.add(
                    Severity::Warning,
                    format!("profile `{name}` of [eap.tls]: there is no site `{tag}`"),
                    "`portreeve site list` shows their tags",
                );
            }
        }
        for network in &profile.clients {
            if !clients.iter().any(|client| network.contains(client)) {
                report.add(
                    Severity::Warning,
                    format!("profile `{name}` of [eap.tls]: no client lies in `{network}`"),
                    "a client has the profile's certificates when its whole network lies within; `portreeve client list` shows them",
                );
            }
        }
    }
}

fn dictionary(config: &Config, report: &mut Report) -> Option<Arc<Dictionary>> {
    match dictionaries::load(&config.dictionaries.extra) {
        Ok(loaded) => {
            report.fine(format!("dictionary: {loaded}"));
            for warning in &loaded.warnings {
                report.add(Severity::Note, warning.to_string(), "");
            }
            Some(loaded.dictionary)
        }
        Err(error) => {
            report.failed(&error);
            None
        }
    }
}

/// Everything in the database: what does not compile is an error, what is probably not meant a warning.
async fn policies(store: &Store, dictionary: &Dictionary, config: &Config, report: &mut Report) {
    let path = store.name();
    match inspect(store, dictionary).await {
        Ok(Inspection {
            revision,
            sites,
            policies,
            clients,
            macs,
            errors,
            findings,
        }) => {
            report.fine(format!(
                "database `{path}`, revision {revision}: {}, {}, {}, {}",
                counted(sites.len(), "site", "sites"),
                counted(policies, "policy", "policies"),
                counted(clients.len(), "client", "clients"),
                counted(macs, "listed address", "listed addresses"),
            ));
            profiles(config, &sites, &clients, report);
            errors.iter().for_each(|row| report.failed(row));
            findings.into_iter().for_each(|finding| report.lint(finding));
        }
        Err(error) => report.failed(&error),
    }
}

/// The time, Unix seconds.
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Findings, in the order they were found.
#[derive(Debug, Default)]
struct Report {
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    Fine(String),
    Finding {
        severity: Severity,
        text: String,
        hint: String,
    },
}

impl Report {
    /// Something was looked at, and can be used.
    fn fine(&mut self, what: String) {
        self.lines.push(Line::Fine(what));
    }

    fn add(&mut self, severity: Severity, text: String, hint: &str) {
        self.lines.push(Line::Finding {
            severity,
            text,
            hint: hint.to_owned(),
        });
    }

    /// An error, which may bring its own hint.
    fn failed(&mut self, error: &dyn fmt::Display) {
        let text = error.to_string();
        let (text, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        self.add(Severity::Error, text.to_owned(), hint);
    }

    fn lint(&mut self, finding: lint::Finding) {
        let severity = match finding.level {
            lint::Level::Note => Severity::Note,
            lint::Level::Warning => Severity::Warning,
        };
        self.add(
            severity,
            format!("{}: {}", finding.owner, finding.message),
            finding.hint,
        );
    }

    fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    fn count(&self, wanted: Severity) -> usize {
        let is_wanted = |line: &&Line| matches!(line, Line::Finding { severity, .. } if *severity == wanted);
        self.lines.iter().filter(is_wanted).count()
    }

    fn write(&self, out: &mut dyn Write, quiet: bool) -> io::Result<()> {
        for line in &self.lines {
            match line {
                Line::Fine(what) if !quiet => writeln!(out, "ok: {}", escape::terminal(what))?,
                Line::Finding { severity, text, hint } if !quiet || *severity > Severity::Note => {
                    writeln!(out, "{severity}: {}", escape::terminal(text))?;
                    if !hint.is_empty() {
                        writeln!(out, "  hint: {}", escape::terminal(hint))?;
                    }
                }
                _ => {}
            }
        }
        let errors = counted(self.count(Severity::Error), "error", "errors");
        let warnings = counted(self.count(Severity::Warning), "warning", "warnings");
        writeln!(out, "{errors}, {warnings}")
    }
}
