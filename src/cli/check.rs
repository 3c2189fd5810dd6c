//! `portreeve check`: the configuration and everything it names, each finding with a hint.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use super::Context;
use crate::config::{Config, ConfigError, dictionaries};
use crate::radius::dictionary::Dictionary;
use crate::telemetry::escape;
use crate::trust::check::{Severity, findings};
use crate::trust::{Clock, TrustSet};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 1 when something is wrong, 0 when there is nothing but warnings and notes.
Nothing is changed, and a running node is not disturbed.")]
pub struct Args {
    /// Show errors and warnings only.
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let mut report = Report::default();
    match Config::load(&context.config) {
        Ok(config) => {
            report.fine(format!("configuration `{}`", config.file.display()));
            everything(&config, &mut report);
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

fn everything(config: &Config, report: &mut Report) {
    certificates(config, report);
    let _dictionary = dictionary(config, report);
}

fn certificates(config: &Config, report: &mut Report) {
    let Some(tls) = &config.eap_tls else {
        report.add(
            Severity::Warning,
            "no section [eap.tls]: devices can authenticate by MAC address only".to_owned(),
            "name a certificate, a key and the client CAs; `portreeve cert init DIR` makes a set to try with",
        );
        return;
    };
    match TrustSet::load(&tls.files(), Arc::new(Clock)) {
        Ok(set) => {
            let found = findings(&set, now());
            if found.iter().all(|finding| finding.severity == Severity::Note) {
                let count = set.authorities().iter().count();
                report.fine(format!(
                    "certificate `{}`, {count} client CAs",
                    tls.certificate.display()
                ));
            }
            for finding in found {
                report.add(finding.severity, finding.text, finding.hint);
            }
        }
        Err(error) => report.failed(&error),
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
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        writeln!(out, "{errors} errors, {warnings} warnings")
    }
}
