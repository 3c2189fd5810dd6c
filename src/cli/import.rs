//! `portreeve import`: the policy set from TOML documents, or from the system that users come from, all of it or nothing.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Context;
use super::error::hinted;
use crate::policy::lint::Level;
use crate::store::document::{self, OlderFile, Options, Source};
use crate::telemetry::escape;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The union of the files replaces the whole set: what they do not name is removed. Look first with --dry-run.
  portreeve export > set.toml              the set as it is
  portreeve import --dry-run set.toml      what would change
  portreeve import set.toml                change it, in one transaction; running nodes follow within a second
  portreeve import --merge site.toml       add and change only

A Rails application over MySQL that feeds FreeRADIUS has tables of the same names. Their rows load as they are, from a dump or \
as CSV (a header and a file for each table: sites, clients, policies, site_policies, rules, responses, \
mac_authentication_bypasses; NULL is `\\N` or empty):
  mysqldump --skip-triggers --default-character-set=utf8mb4 DATABASE > nac.sql
  portreeve import --dry-run nac.sql
  portreeve import --dry-run sites.csv clients.csv policies.csv ...
Equal and missing priorities keep their order; each site that is numbered anew for that is named. Rows that cannot be taken are \
listed, all of them with their lines, and then nothing is imported.")]
pub struct Args {
    /// TOML documents (`-` is standard input), or MySQL dumps (`.sql`) and tables (`.csv`) of the older system.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Add and change what the files name, and leave everything else as it is.
    #[arg(long)]
    merge: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Import a document that was exported at another revision, which undoes what was changed since.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let dictionary = context.dictionary(&config)?;
    let files = Files::read(&args.files)?;
    let options = Options {
        merge: args.merge,
        dry_run: args.dry_run,
        force: args.force,
    };
    context.block_on(async {
        let store = context.store(&config).await?;
        let imported = match files {
            Files::Documents(sources) => document::import(&store, dictionary, sources, options).await,
            Files::Older(files) => document::import_older(&store, dictionary, &files, options).await,
        };
        store.close().await;
        let imported = imported?;
        let mut out = std::io::stdout().lock();
        out.write_all(escape::terminal(&imported.difference).as_bytes())?;
        for row in &imported.deleted {
            writeln!(out, "- {}", escape::terminal(&row.to_string()))?;
        }
        for note in &imported.notes {
            writeln!(out, "note: {}", escape::terminal(note))?;
        }
        for finding in &imported.findings {
            let level = match finding.level {
                Level::Note => "note",
                Level::Warning => "warning",
            };
            writeln!(out, "{level}: {}", escape::terminal(&finding.to_string()))?;
        }
        let nothing = imported.difference.is_empty() && imported.deleted.is_empty();
        match (nothing, args.dry_run) {
            (true, _) => writeln!(out, "nothing differs from revision {}", imported.revision)?,
            (false, true) => writeln!(out, "dry run: revision {} is unchanged", imported.revision)?,
            (false, false) => writeln!(out, "imported: revision {}", imported.revision)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What is imported: one or the other.
enum Files {
    Documents(Vec<Source>),
    /// Of the system that users come from.
    Older(Vec<OlderFile>),
}

impl Files {
    fn read(files: &[PathBuf]) -> anyhow::Result<Files> {
        let older: Vec<OlderFile> = files.iter().filter_map(|file| OlderFile::at(file)).collect();
        if older.is_empty() {
            let sources = files.iter().map(|file| read(file)).collect::<anyhow::Result<_>>()?;
            return Ok(Files::Documents(sources));
        }
        match files.iter().find(|file| OlderFile::at(file).is_none()) {
            None => Ok(Files::Older(older)),
            Some(document) => Err(hinted(
                format!(
                    "`{}` is neither a dump nor a table, and others of the files are",
                    document.display()
                ),
                "import the older system first, then the documents with `--merge`",
            )),
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Source> {
    let source = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| Source {
            name: "standard input".to_owned(),
            text: text.into(),
        })
    } else {
        Source::read(file)
    };
    source.map_err(|error| {
        hinted(
            format!("cannot read `{}`: {error}", file.display()),
            "documents are TOML text in UTF-8",
        )
    })
}
