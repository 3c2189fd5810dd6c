//! `portreeve policy`: rules and what follows from them, shared between sites.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;

use super::Context;
use super::edit::{edit, print, response, with_store};
use super::table::Table;
use crate::policy::model::{Action, Method, ResponseRow, Rule};
use crate::policy::text::TextError;
use crate::store::edit::policies::{self, Place};
use crate::store::set::Policy;
use crate::telemetry::escape;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all policies.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a policy, and the sites that use it.
    Show {
        /// Its name.
        name: String,
    },
    /// Add a policy. It does nothing until `policy move` puts it into a site's order.
    #[command(after_help = "\
Examples:
  portreeve policy add Staff --rule 'TLS-Client-Cert-Issuer contains CN=Example' \\
      --response 'Tunnel-Type:1 = VLAN' --response 'Tunnel-Medium-Type:1 = IEEE-802' \\
      --response 'Tunnel-Private-Group-Id:1 = 120'
  portreeve policy move london Staff 10
Operators: == != =~ !~ < <= > >= in not-in contains starts-with ends-with present absent and their complements.
`portreeve dict NAME` shows an attribute's type and named values.")]
    Add {
        /// Its name.
        name: String,
        /// For people.
        #[arg(long, default_value = "", hide_default_value = true)]
        description: String,
        /// `accept` or `reject`. Where it is left out: `accept`, and `reject` for a fallback.
        #[arg(long, value_parser = parse_action)]
        action: Option<Action>,
        /// `eap-tls` (the default), `mab` for listed MAC addresses, `mab-unknown` for others. May be given several times.
        #[arg(long = "method", value_name = "METHOD", value_parser = parse_method)]
        methods: Vec<Method>,
        /// `Attribute operator value`; all rules must hold. May be given several times.
        #[arg(long = "rule", value_name = "RULE", value_parser = parse_rule)]
        rules: Vec<Rule>,
        /// `Attribute = value` for the reply. May be given several times; they keep their order.
        #[arg(long = "response", value_name = "RESPONSE", value_parser = response)]
        responses: Vec<ResponseRow>,
        /// It decides where no other policy of a site matches, and needs no rules.
        #[arg(long)]
        fallback: bool,
        /// A policy of this name becomes this one, in all sites that use it.
        #[arg(long)]
        replace: bool,
    },
    /// Remove a policy that no site uses.
    Remove {
        /// Its name.
        name: String,
    },
    /// Put a policy into a site's order, change its place there, or take it out.
    #[command(group = clap::ArgGroup::new("to").required(true).args(["priority", "fallback", "out"]))]
    Move {
        /// The site's tag.
        site: String,
        /// The policy's name.
        name: String,
        /// Its place: policies are tried in ascending priority. One that stands there moves down.
        #[arg(allow_negative_numbers = true)]
        priority: Option<i64>,
        /// Make it the site's fallback, in the place of another.
        #[arg(long)]
        fallback: bool,
        /// Take it out of the site.
        #[arg(long)]
        out: bool,
    },
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List { json } => {
            let policies = with_store(context, async |store, _| policies::list(store).await)?;
            let mut table = Table::new(&["name", "action", "methods", "fallback", "rules", "responses", "sites"]);
            for policy in policies {
                table.row([
                    policy.name.into(),
                    policy.action.into(),
                    methods(&policy.methods).into(),
                    policy.fallback.into(),
                    policy.rules.into(),
                    policy.responses.into(),
                    policy.sites.into(),
                ]);
            }
            print(&table, *json)
        }
        Command::Show { name } => {
            let (policy, places) = with_store(context, async |store, _| policies::show(store, name).await)?;
            show(name, &policy, &places, &mut io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Add {
            name,
            description,
            action,
            methods,
            rules,
            responses,
            fallback,
            replace,
        } => {
            // a fallback that somebody makes in a hurry lets nobody in
            let usual = if *fallback { Action::Reject } else { Action::Accept };
            let policy = Policy {
                description: description.clone(),
                action: action.unwrap_or(usual).word().to_owned(),
                methods: methods.iter().map(|method| method.word().to_owned()).collect(),
                fallback: *fallback,
                rules: rules.clone(),
                responses: responses.clone(),
            };
            edit(context, &format!("policy `{name}`"), async |store, dictionary| {
                policies::add(store, dictionary, name, &policy, *replace).await
            })
        }
        Command::Remove { name } => edit(context, &format!("policy `{name}`"), async |store, _| {
            policies::remove(store, name).await
        }),
        Command::Move {
            site, name, out: true, ..
        } => edit(
            context,
            &format!("policy `{name}` of site `{site}`"),
            async |store, _| policies::withdraw(store, site, name).await,
        ),
        Command::Move {
            site, name, priority, ..
        } => edit(
            context,
            &format!("policy `{name}` of site `{site}`"),
            async |store, dictionary| policies::place(store, dictionary, site, name, *priority).await,
        ),
    }
}

fn show(name: &str, policy: &Policy, places: &[Place], out: &mut dyn Write) -> io::Result<()> {
    let kind = if policy.fallback { "fallback, " } else { "" };
    let line = format!(
        "policy `{name}`: {kind}{}, {}",
        policy.action,
        methods(&policy.methods).join(", ")
    );
    writeln!(out, "{}", escape::terminal(&line))?;
    if !policy.description.is_empty() {
        writeln!(out, "  {}", escape::terminal(&policy.description))?;
    }
    for rule in &policy.rules {
        writeln!(out, "  rule      {}", escape::terminal(&rule.to_string()))?;
    }
    for response in &policy.responses {
        writeln!(out, "  response  {}", escape::terminal(&response.to_string()))?;
    }
    if places.is_empty() {
        return writeln!(out, "no site uses it");
    }
    writeln!(out)?;
    let mut table = Table::new(&["site", "priority"]);
    for place in places {
        table.row([
            place.site.as_str().into(),
            place.priority.map_or("fallback".into(), Into::into),
        ]);
    }
    table.write(out)
}

/// A policy's methods; one that lists none is for certificates.
pub fn methods(words: &[String]) -> Vec<String> {
    match words.is_empty() {
        true => vec![Method::EapTls.word().to_owned()],
        false => words.to_vec(),
    }
}

fn parse_action(word: &str) -> Result<Action, String> {
    Action::parse(word).ok_or_else(|| "write `accept` or `reject`".to_owned())
}

fn parse_method(word: &str) -> Result<Method, String> {
    Method::parse(word).ok_or_else(|| "write `eap-tls`, `mab` or `mab-unknown`".to_owned())
}

fn parse_rule(text: &str) -> Result<Rule, TextError> {
    text.parse()
}
