//! The commands: one file for each. Results go to standard output, logs and errors to standard error; exit code 0 for
//! done, 1 for failed, 2 for wrong usage.

mod asking;
mod cert;
mod check;
mod client;
mod decide;
mod demo;
mod dict;
mod edit;
mod error;
mod export;
mod import;
mod mac;
mod migrate;
mod node;
mod policy;
mod seed;
mod serve;
mod site;
mod table;
mod watch;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::config::dictionaries::{self, LoadedDictionary};
use crate::config::{Config, LogFormat};
use crate::radius::dictionary::Dictionary;
use crate::store::Store;
use crate::telemetry::log;
use crate::telemetry::output::Output;

/// RADIUS network access control: which device may join which network, decided by each site's policies.
#[derive(Debug, Parser)]
#[command(
    name = "portreeve",
    version,
    about,
    disable_help_subcommand = true,
    max_term_width = 120
)]
struct Cli {
    /// The configuration file; relative paths inside it are relative to its folder.
    #[arg(long, global = true, value_name = "FILE", default_value = "portreeve.toml")]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a folder to try with, authenticate twice before your eyes, and keep serving.
    Demo(demo::Args),
    /// Answer RADIUS requests.
    Serve(serve::Args),
    /// Read the configuration and everything it names, and say what is wrong with it.
    Check(check::Args),
    /// Bring the database to this program's schema.
    Migrate(migrate::Args),
    /// Replace the policy set by that of TOML documents, or add to it.
    Import(import::Args),
    /// Print the policy set as a TOML document.
    Export(export::Args),
    /// List, show, add, change and remove sites.
    Site(site::Args),
    /// List, show, add, change and remove RADIUS clients: switches, access points, controllers.
    Client(client::Args),
    /// List, show, add and remove policies, and move them in a site's order.
    Policy(policy::Args),
    /// List, show, find, add, move and remove MAC addresses that sites list.
    Mac(mac::Args),
    /// Fill the database with a data set to measure with, and write the plan of what to ask of it.
    Seed(seed::Args),
    /// Show what the policies would decide for a device, and why.
    Decide(decide::Args),
    /// Make certificates to try with, or show a certificate as policies see it.
    Cert(cert::Args),
    /// Look up an attribute in the dictionary.
    Dict(dict::Args),
    /// Show the last attempts of a device or user that the running node saw, and what to do about them.
    Why(why::Args),
}

/// What every command may need.
#[derive(Debug)]
struct Context {
    config: PathBuf,
}

impl Context {
    /// Reads the configuration.
    fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&self.config)?)
    }

    /// The dictionary in force. It lives as long as the process, which asks for it once.
    fn dictionary(&self, config: &Config) -> anyhow::Result<&'static Dictionary> {
        Ok(node::shared(&dictionaries::load(&config.dictionaries.extra)?))
    }

    /// The dictionary for a command that works without a configuration too: then the built-in one.
    fn dictionary_if_configured(&self) -> anyhow::Result<LoadedDictionary> {
        let extra = match self.config.exists() {
            true => self.config()?.dictionaries.extra,
            false => Vec::new(),
        };
        Ok(dictionaries::load(&extra)?)
    }

    /// Opens the policy database.
    async fn store(&self, config: &Config) -> anyhow::Result<Store> {
        Ok(Store::open(&config.database).await?)
    }

    /// Runs a command that waits.
    fn block_on<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(work)
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // help and version are no errors; when standard output is closed there is nobody to tell
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let context = Context { config: cli.config };
    let log = match cli.command {
        // a node's log is its own
        Command::Serve(_) | Command::Demo(_) => None,
        _ => log_of_a_command(),
    };
    let result = match cli.command {
        Command::Demo(args) => demo::run(&args, &context),
        Command::Serve(args) => serve::run(&args, &context),
        Command::Check(args) => check::run(&args, &context),
        Command::Migrate(args) => migrate::run(&args, &context),
        Command::Import(args) => import::run(&args, &context),
        Command::Export(args) => export::run(&args, &context),
        Command::Site(args) => site::run(&args, &context),
        Command::Client(args) => client::run(&args, &context),
        Command::Policy(args) => policy::run(&args, &context),
        Command::Mac(args) => mac::run(&args, &context),
        Command::Seed(args) => seed::run(&args, &context),
        Command::Decide(args) => decide::run(&args, &context),
        Command::Cert(args) => cert::run(&args, &context),
        Command::Dict(args) => dict::run(&args, &context),
        Command::Why(args) => why::run(&args, &context),
    };
    if let Some(log) = log {
        log.close(LOG_PATIENCE);
    }
    match result {
        Ok(code) => code,
        Err(error) => {
            error::print(&error);
            ExitCode::FAILURE
        }
    }
}

/// How long a command waits for its last log lines to be read.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

/// What a command has to say beside its result: warnings, as text, on standard error.
fn log_of_a_command() -> Option<Output> {
    let output = Output::stderr(log::lost_notice(LogFormat::Text)).ok()?;
    log::install(output.clone(), LogFormat::Text, "", "warn");
    Some(output)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
