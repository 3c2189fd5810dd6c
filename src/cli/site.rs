//! `portreeve site`: places, each with its clients, its order of policies and its listed addresses.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use super::Context;
use super::edit::{edit, print, say, with_store};
use super::error::hinted;
use super::table::Table;
use super::{client, mac};
use crate::config::units::counted;
use crate::store::edit::sites::{self, Settings};
use crate::store::set::PolicySet;
use crate::telemetry::escape;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all sites.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a site: its policies in order, its clients, its listed MAC addresses.
    Show {
        /// The site's tag.
        tag: String,
        /// Show shared secrets.
        #[arg(long)]
        reveal: bool,
    },
    /// Add a site. Until it has policies, it refuses everybody but listed MAC addresses.
    Add {
        /// Its name, for people.
        name: String,
        /// What commands and rules (`Client-Shortname`) name it by; made of the name where it is left out.
        #[arg(long)]
        tag: Option<String>,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Change what is given of a site.
    Change {
        /// The site's tag.
        tag: String,
        /// Its name, for people.
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Remove a site with its clients and listed MAC addresses. Its policies stay.
    Remove {
        /// The site's tag.
        tag: String,
        /// Also when it has clients or listed addresses, which nobody will answer for then.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct SettingsArgs {
    /// IANA name, `Europe/London`; empty: the configuration's.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The fallback policy, which decides where no other matches; empty: none.
    #[arg(long, value_name = "POLICY")]
    fallback: Option<String>,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List { json } => {
            let sites = with_store(context, async |store, _| sites::list(store).await)?;
            let mut table = Table::new(&["tag", "name", "timezone", "policies", "clients", "macs"]);
            for site in sites {
                table.row([
                    site.tag.into(),
                    site.name.into(),
                    site.timezone.into(),
                    site.policies.into(),
                    site.clients.into(),
                    site.macs.into(),
                ]);
            }
            print(&table, *json)
        }
        Command::Show { tag, reveal } => {
            let set = with_store(context, async |store, _| sites::show(store, tag).await)?;
            show(&set, tag, *reveal, &mut io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Add { name, tag, settings } => {
            let settings = Settings {
                name: None,
                timezone: settings.timezone.clone(),
                fallback: settings.fallback.clone(),
            };
            let add =
                async |store: &_, dictionary: &_| sites::add(store, dictionary, name, tag.as_deref(), &settings).await;
            let (tag, edited) = with_store(context, add)?;
            say(&format!("site `{tag}`"), &edited)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Change { tag, name, settings } => {
            let settings = Settings {
                name: name.clone(),
                timezone: settings.timezone.clone(),
                fallback: settings.fallback.clone(),
            };
            edit(context, &format!("site `{tag}`"), async |store, dictionary| {
                sites::change(store, dictionary, tag, &settings).await
            })
        }
        Command::Remove { tag, yes } => {
            if !yes {
                let set = with_store(context, async |store, _| sites::show(store, tag).await)?;
                let site = set.sites.get(tag);
                let (clients, macs) = site.map_or((0, 0), |site| (site.clients.len(), site.macs.len()));
                if clients + macs > 0 {
                    return Err(hinted(
                        format!(
                            "site `{tag}` has {} and {}",
                            counted(clients, "client", "clients"),
                            counted(macs, "listed address", "listed addresses"),
                        ),
                        "`--yes` removes them with it; `portreeve export` first keeps a copy",
                    ));
                }
            }
            edit(context, &format!("site `{tag}`"), async |store, _| {
                sites::remove(store, tag).await
            })
        }
    }
}

fn show(set: &PolicySet, tag: &str, reveal: bool, out: &mut dyn Write) -> io::Result<()> {
    let Some(site) = set.sites.get(tag) else {
        return Ok(());
    };
    writeln!(
        out,
        "site `{}`: {}",
        escape::terminal(tag),
        escape::terminal(&site.name)
    )?;
    if let Some(timezone) = &site.timezone {
        writeln!(out, "timezone {timezone}")?;
    }
    let mut policies = Table::new(&["priority", "policy", "action", "methods", "rules"]);
    let order = site
        .policies
        .iter()
        .map(|(priority, name)| (Value::from(*priority), name));
    for (priority, name) in order.chain(site.fallback.iter().map(|name| ("fallback".into(), name))) {
        let policy = set.policies.get(name);
        policies.row([
            priority,
            name.as_str().into(),
            policy.map(|policy| policy.action.as_str()).into(),
            policy.map(|policy| super::policy::methods(&policy.methods)).into(),
            policy.map(|policy| policy.rules.len()).into(),
        ]);
    }
    section(out, "policies", &policies)?;
    let mut clients = client::table();
    for (key, client) in &site.clients {
        client::row(&mut clients, tag, key, client, reveal);
    }
    section(out, "clients", &clients)?;
    let mut macs = mac::table();
    for (address, mac) in &site.macs {
        mac::row(&mut macs, tag, *address, mac);
    }
    section(out, "listed addresses", &macs)
}

fn section(out: &mut dyn Write, name: &str, table: &Table) -> io::Result<()> {
    match table.is_empty() {
        true => writeln!(out, "\nno {name}"),
        false => {
            writeln!(out, "\n{name}")?;
            table.write(out)
        }
    }
}
