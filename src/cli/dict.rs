//! `portreeve dict`: an attribute by name or number, as the dictionary has it.

use std::process::ExitCode;

use super::Context;

/// Look up an attribute in the dictionary.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name, or number, or `vendor.number`.
    #[arg(value_name = "NAME or NUMBER")]
    attribute: String,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let _ = context.config();
    anyhow::bail!("no dictionary has `{}` yet", args.attribute)
}
