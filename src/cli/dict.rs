//! `portreeve dict`: an attribute by name or number, as the dictionary has it.

use std::io::Write;
use std::process::ExitCode;

use super::Context;
use crate::radius::dictionary::describe::describe;

/// Look up an attribute in the dictionary.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A name in any case, or a number: `81`, a vendor's `26.9.1`, an extended `241.1`.
    #[arg(value_name = "NAME or NUMBER")]
    attribute: String,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let loaded = context.dictionary_if_configured()?;
    write!(
        std::io::stdout().lock(),
        "{}",
        describe(&loaded.dictionary, &args.attribute)?
    )?;
    Ok(ExitCode::SUCCESS)
}
