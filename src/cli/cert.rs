//! `portreeve cert`: a development PKI, and a certificate as policies see it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::Context;

/// Make certificates to try with, or show a certificate as policies see it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a development CA with a server and a client certificate in a folder.
    Init {
        /// The folder; it is made when it does not exist. Existing certificates are never overwritten.
        dir: PathBuf,
    },
    /// Show the certificates of a PEM file, with the facts that rules may look at.
    Show {
        /// The PEM file.
        file: PathBuf,
    },
}

pub fn run(args: &Args, _context: &Context) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Init { dir } => anyhow::bail!("cannot make certificates in `{}` yet", dir.display()),
        Command::Show { file } => anyhow::bail!("cannot read `{}` yet", file.display()),
    }
}
