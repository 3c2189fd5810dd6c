//! `portreeve migrate`: brings the database to this program's schema.

use std::io::Write;
use std::process::ExitCode;

use super::Context;
use crate::store::Store;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Makes the database where there is none. Safe to run from many nodes at once, and again: what is up to date stays as it
is. Nodes that run go on during a migration.")]
pub struct Args {}

pub fn run(_args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    context.block_on(async {
        let (store, migrated) = Store::migrate(&config.database).await?;
        let path = store.name();
        store.close().await;
        let mut out = std::io::stdout().lock();
        match migrated.from {
            from if from == migrated.to => writeln!(out, "`{path}` is up to date: schema version {from}")?,
            0 => writeln!(out, "`{path}` made: schema version {}", migrated.to)?,
            from => writeln!(out, "`{path}` migrated from schema version {from} to {}", migrated.to)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
