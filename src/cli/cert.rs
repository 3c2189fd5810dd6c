//! `portreeve cert`: a development PKI, and a certificate as policies see it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Subcommand;

use super::Context;
use crate::telemetry::escape;
use crate::trust::{pki, show};

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
        /// The name that supplicants expect of the server.
        #[arg(long, value_name = "NAME", default_value = pki::SERVER_NAME)]
        server_name: String,
        /// The name of the device that the client's certificate is for.
        #[arg(long, value_name = "NAME", default_value = pki::CLIENT_NAME)]
        client_name: String,
    },
    /// Show the certificates of a PEM file, with the facts that rules may look at.
    Show {
        /// The PEM file.
        file: PathBuf,
    },
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.command {
        Command::Init {
            dir,
            server_name,
            client_name,
        } => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            let names = pki::Names {
                server: server_name,
                client: client_name,
            };
            let files = pki::init(dir, names, i64::try_from(now.as_secs())?)?;
            writeln!(out, "{}: the CA; its key is not kept", files.ca.display())?;
            writeln!(
                out,
                "{}, {}: the server `{server_name}`",
                files.server.display(),
                files.server_key.display()
            )?;
            writeln!(
                out,
                "{}, {}: the device `{client_name}`",
                files.client.display(),
                files.client_key.display()
            )?;
            writeln!(out)?;
            writeln!(out, "[eap.tls]")?;
            writeln!(out, "certificate = {:?}", files.server)?;
            writeln!(out, "private_key = {:?}", files.server_key)?;
            writeln!(out, "client_ca = {:?}", files.ca)?;
        }
        Command::Show { file } => {
            let loaded = context.dictionary_if_configured()?;
            write!(out, "{}", escape::terminal(&show(file, &loaded.dictionary)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
