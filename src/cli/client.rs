//! `portreeve client`: the switches, access points and controllers that may ask, by network.

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use super::Context;
use super::edit::{edit, print, with_store};
use super::error::hinted;
use super::table::Table;
use crate::store::edit::clients::{self, Settings};
use crate::store::set::{Client, ClientKey};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List clients.
    List {
        /// Those of one site, by its tag.
        #[arg(long, value_name = "TAG")]
        site: Option<String>,
        /// Show shared secrets.
        #[arg(long)]
        reveal: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the client that covers an address or network.
    Show {
        /// An address or a network.
        network: String,
        /// The one that speaks RADIUS over TLS.
        #[arg(long)]
        radsec: bool,
        /// Show the shared secret.
        #[arg(long)]
        reveal: bool,
    },
    /// Add a client, or change what is given of one.
    #[command(after_help = "\
Examples:
  portreeve client add london 192.0.2.0/24 - < secret.txt
  portreeve client add london 192.0.2.7 --require-message-authenticator false")]
    Add {
        /// The site's tag.
        site: String,
        /// An address or a network: `192.0.2.7`, `10.1.0.0/16`. Networks may nest; the longest prefix decides.
        network: String,
        /// The shared secret, as configured on the switch; `-` reads it from standard input, so that it is seen in no
        /// list of processes. A client that exists keeps its own where this is left out.
        secret: Option<String>,
        /// It speaks RADIUS over TLS rather than UDP.
        #[arg(long)]
        radsec: bool,
        /// Whether requests without Message-Authenticator are dropped.
        #[arg(long, value_name = "true|false")]
        require_message_authenticator: Option<bool>,
        /// Whether requests with Proxy-State and without Message-Authenticator are dropped.
        #[arg(long, value_name = "true|false")]
        limit_proxy_state: Option<bool>,
        /// Lowest TLS version; empty: the configuration's.
        #[arg(long, value_name = "1.2|1.3", value_parser = PossibleValuesParser::new(["1.2", "1.3", ""]))]
        min_tls: Option<String>,
        /// Highest TLS version; empty: the configuration's.
        #[arg(long, value_name = "1.2|1.3", value_parser = PossibleValuesParser::new(["1.2", "1.3", ""]))]
        max_tls: Option<String>,
        /// EAP octets in one packet.
        #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(i64).range(64..=4_000))]
        fragment_size: Option<i64>,
        /// What it sends as password with a MAC address: `mac` (the address, or nothing), `any`, or the password itself.
        #[arg(long, value_name = "PASSWORD")]
        mab_password: Option<String>,
        /// Where it sends the MAC address: `calling-station-id`, or `user-name` for gear that sends no
        /// Calling-Station-Id.
        #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(["calling-station-id", "user-name"]))]
        mab_identity: Option<String>,
    },
    /// Remove a client: its requests get no answer from then on.
    Remove {
        /// Its network, as listed.
        network: String,
        /// The one that speaks RADIUS over TLS.
        #[arg(long)]
        radsec: bool,
    },
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List { site, reveal, json } => {
            let entries = with_store(context, async |store, _| clients::list(store, site.as_deref()).await)?;
            let mut table = table();
            for entry in &entries {
                row(&mut table, &entry.site, &entry.key, &entry.client, *reveal);
            }
            print(&table, *json)
        }
        Command::Show {
            network,
            radsec,
            reveal,
        } => {
            let key = clients::key(network, *radsec)?;
            let entry = with_store(context, async |store, _| clients::show(store, key).await)?;
            let mut table = table();
            row(&mut table, &entry.site, &entry.key, &entry.client, *reveal);
            print(&table, false)
        }
        Command::Add {
            site,
            network,
            secret,
            radsec,
            require_message_authenticator,
            limit_proxy_state,
            min_tls,
            max_tls,
            fragment_size,
            mab_password,
            mab_identity,
        } => {
            let key = clients::key(network, *radsec)?;
            let settings = Settings {
                secret: secret.as_deref().map(read_secret).transpose()?,
                require_message_authenticator: *require_message_authenticator,
                limit_proxy_state: *limit_proxy_state,
                min_tls: min_tls.clone(),
                max_tls: max_tls.clone(),
                fragment_size: *fragment_size,
                mab_password: mab_password.clone(),
                mab_identity: mab_identity.clone(),
            };
            edit(context, &format!("client {key} of site `{site}`"), async |store, _| {
                clients::add(store, site, key, &settings).await
            })
        }
        Command::Remove { network, radsec } => {
            let key = clients::key(network, *radsec)?;
            edit(context, &format!("client {key}"), async |store, _| {
                clients::remove(store, key).await
            })
        }
    }
}

/// A secret from the command line, or the first line of standard input.
fn read_secret(given: &str) -> anyhow::Result<String> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .context("cannot read the secret from standard input")?;
    let secret = line.trim_end_matches(['\r', '\n']);
    match secret.is_empty() {
        true => Err(hinted(
            "the secret on standard input is empty",
            "`portreeve client add … - < FILE`",
        )),
        false => Ok(secret.to_owned()),
    }
}

/// An empty list of clients.
pub fn table() -> Table {
    Table::new(&[
        "site",
        "network",
        "radsec",
        "secret",
        "message_authenticator",
        "proxy_state",
        "tls",
        "fragment_size",
        "mab_password",
        "mab_identity",
    ])
}

/// Adds a client to the list. Secrets are shown only where one asks for them.
pub fn row(table: &mut Table, site: &str, key: &ClientKey, client: &Client, reveal: bool) {
    let secret = |text: &str| if reveal { Value::from(text) } else { "(hidden)".into() };
    let tls = match (&client.min_tls, &client.max_tls) {
        (None, None) => Value::Null,
        (min, max) => format!("{} to {}", or_empty(min), or_empty(max)).trim().into(),
    };
    table.row([
        site.into(),
        key.network.to_string().into(),
        key.radsec.into(),
        secret(&client.secret),
        if client.require_message_authenticator {
            "required"
        } else {
            "optional"
        }
        .into(),
        if client.limit_proxy_state { "limited" } else { "free" }.into(),
        tls,
        client.fragment_size.into(),
        match client.mab_password.as_str() {
            word @ ("mac" | "any") => word.into(),
            password => secret(password),
        },
        client.mab_identity.as_str().into(),
    ]);
}

fn or_empty(version: &Option<String>) -> &str {
    version.as_deref().unwrap_or_default()
}
