//! `portreeve mac`: the MAC addresses that a site lists.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use super::Context;
use super::edit::{edit, print, response, with_store};
use super::table::Table;
use crate::mac::MacAddress;
use crate::policy::model::ResponseRow;
use crate::store::edit::macs::{self, Entry, Settings};
use crate::store::set::Mac;
use crate::store::time;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List MAC addresses.
    List {
        /// Those of one site, by its tag.
        #[arg(long, value_name = "TAG")]
        site: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a listed MAC address.
    Show {
        /// The site's tag.
        site: String,
        /// The address, in any spelling.
        mac: MacAddress,
    },
    /// Find the sites that list a MAC address.
    Find {
        /// The address, in any spelling.
        mac: MacAddress,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List a MAC address for a site, or change what is given of it. The listing itself lets it in, unless a `mab` policy
    /// of the site says otherwise.
    Add {
        /// The site's tag.
        site: String,
        /// The address, in any spelling.
        mac: MacAddress,
        /// For people.
        #[arg(long)]
        name: Option<String>,
        /// For people.
        #[arg(long)]
        description: Option<String>,
        /// The last day, or second, on which it is let in: `2027-01-31`, `2027-01-31T18:00:00Z`; empty: no end.
        #[arg(long, value_name = "DATE")]
        valid_until: Option<String>,
        /// `Attribute = value` for the reply, over what the policy says. May be given several times; all of the address's
        /// own are replaced.
        #[arg(long = "response", value_name = "RESPONSE", value_parser = response)]
        responses: Vec<ResponseRow>,
        /// The address has no responses of its own any more.
        #[arg(long, conflicts_with = "responses")]
        no_responses: bool,
    },
    /// Take a MAC address off a site's list.
    Remove {
        /// The site's tag.
        site: String,
        /// The address, in any spelling.
        mac: MacAddress,
    },
    /// Move a MAC address from one site to another, with all that is said of it.
    Move {
        /// The address, in any spelling.
        mac: MacAddress,
        /// The tag of the site that lists it.
        from: String,
        /// The tag of the site that is to.
        to: String,
    },
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List { site, json } => list(
            &with_store(context, async |store, _| macs::list(store, site.as_deref()).await)?,
            *json,
        ),
        Command::Show { site, mac } => {
            let listed = with_store(context, async |store, _| macs::show(store, site, *mac).await)?;
            list(
                &[Entry {
                    site: site.clone(),
                    address: *mac,
                    mac: listed,
                }],
                false,
            )
        }
        Command::Find { mac, json } => {
            let entries = with_store(context, async |store, _| macs::find(store, *mac).await)?;
            if entries.is_empty() && !json {
                writeln!(io::stdout().lock(), "no site lists {mac}")?;
            }
            list(&entries, *json)
        }
        Command::Add {
            site,
            mac,
            name,
            description,
            valid_until,
            responses,
            no_responses,
        } => {
            let settings = Settings {
                name: name.clone(),
                description: description.clone(),
                valid_until: valid_until.clone(),
                responses: (*no_responses || !responses.is_empty()).then(|| responses.clone()),
            };
            edit(
                context,
                &format!("{mac} of site `{site}`"),
                async |store, dictionary| macs::add(store, dictionary, site, *mac, &settings).await,
            )
        }
        Command::Remove { site, mac } => edit(context, &format!("{mac} of site `{site}`"), async |store, _| {
            macs::remove(store, site, *mac).await
        }),
        Command::Move { mac, from, to } => edit(
            context,
            &format!("{mac}, from site `{from}` to site `{to}`"),
            async |store, _| macs::move_to(store, *mac, from, to).await,
        ),
    }
}

fn list(entries: &[Entry], json: bool) -> anyhow::Result<ExitCode> {
    let mut table = table();
    for entry in entries {
        row(&mut table, &entry.site, entry.address, &entry.mac);
    }
    print(&table, json)
}

/// An empty list of addresses.
pub fn table() -> Table {
    Table::new(&["site", "mac", "name", "valid_until", "responses", "description"])
}

/// Adds an address to the list.
pub fn row(table: &mut Table, site: &str, address: MacAddress, mac: &Mac) {
    table.row([
        site.into(),
        address.to_string().into(),
        mac.name.as_str().into(),
        mac.valid_until.map(time::display).into(),
        mac.responses
            .iter()
            .map(|response| Value::from(response.to_string()))
            .collect(),
        mac.description.as_str().into(),
    ]);
}
