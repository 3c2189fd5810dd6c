//! What `site`, `client`, `policy` and `mac` have in common.

use std::io::{self, Write};
use std::process::ExitCode;

use super::Context;
use super::table::Table;
use crate::policy::lint::Level;
use crate::policy::model::ResponseRow;
use crate::policy::text::TextError;
use crate::radius::dictionary::Dictionary;
use crate::store::Store;
use crate::store::edit::{EditError, Edited, Outcome};
use crate::telemetry::escape;

/// Opens the database, does `work`, and closes it.
pub fn with_store<T>(
    context: &Context,
    work: impl AsyncFnOnce(&Store, &'static Dictionary) -> Result<T, EditError>,
) -> anyhow::Result<T> {
    let config = context.config()?;
    let dictionary = context.dictionary(&config)?;
    context.block_on(async {
        let store = context.store(&config).await?;
        let result = work(&store, dictionary).await;
        store.close().await;
        Ok(result?)
    })
}

/// Does one edit and says what it did; `what` is what it was about.
pub fn edit(
    context: &Context,
    what: &str,
    work: impl AsyncFnOnce(&Store, &'static Dictionary) -> Result<Edited, EditError>,
) -> anyhow::Result<ExitCode> {
    say(what, &with_store(context, work)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Says what an edit did.
pub fn say(what: &str, edited: &Edited) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for finding in &edited.findings {
        let level = match finding.level {
            Level::Note => "note",
            Level::Warning => "warning",
        };
        writeln!(out, "{level}: {}", escape::terminal(&finding.to_string()))?;
    }
    let done = match edited.outcome {
        Outcome::Added => "added",
        Outcome::Changed => "changed",
        Outcome::Removed => "removed",
        Outcome::Unchanged => "unchanged",
    };
    writeln!(out, "{done}: {}, revision {}", escape::terminal(what), edited.revision)
}

/// Prints a list.
pub fn print(table: &Table, json: bool) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match json {
        true => table.write_json(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A response as commands take it: `Tunnel-Private-Group-Id:1 = 120`.
pub fn response(text: &str) -> Result<ResponseRow, TextError> {
    text.parse()
}
