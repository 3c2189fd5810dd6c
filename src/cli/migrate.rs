//! `portreeve migrate`: brings the database's schema to this version.

use std::process::ExitCode;

use super::Context;
use crate::store::Store;

/// Makes the database if there is none, and brings its schema to the version that this program needs. Safe to run from
/// several nodes at once, and while nodes serve.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (store, migrated) = runtime.block_on(Store::migrate(&config.database.url))?;
    let path = store.path().display();
    match migrated.from == migrated.to {
        true => println!("{path}: the schema is at version {}, nothing to do", migrated.to),
        false => println!(
            "{path}: the schema went from version {} to {}",
            migrated.from, migrated.to
        ),
    }
    Ok(ExitCode::SUCCESS)
}
