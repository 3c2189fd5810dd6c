//! `portreeve export`: the policy set as a TOML document.

use std::io::Write;
use std::process::ExitCode;

use super::Context;
use crate::store::document;
use crate::telemetry::escape;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The document holds the clients' shared secrets, unless --redact leaves them out. It carries the revision it was made at:
when the set has changed since, `portreeve import` refuses it.")]
pub struct Args {
    /// Leave out shared secrets and MAB passwords. Such a document cannot be imported where they would be needed.
    #[arg(long)]
    redact: bool,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    context.block_on(async {
        let store = context.store(&config).await?;
        let exported = document::export(&store, args.redact).await;
        store.close().await;
        let exported = exported?;
        let mut out = std::io::stdout().lock();
        out.write_all(exported.text.as_bytes())?;
        out.flush()?;
        for row in &exported.left_out {
            writeln!(
                std::io::stderr(),
                "warning: left out: {}",
                escape::terminal(&row.to_string())
            )?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
