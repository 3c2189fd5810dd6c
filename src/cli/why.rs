//! `portreeve why`: the last attempts that the running node saw, each with its reason and what to do.

use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;

use super::{Context, asking};
use crate::telemetry::escape;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  portreeve why 00:1b:78:00:00:01         every spelling of a MAC address works
  portreeve why laptop-7                  part of a user name or of a certificate's common name
  portreeve why                           the last attempts of anybody
A node remembers some thousand attempts; with several nodes, ask each: --node 10.0.0.7:8812")]
pub struct Args {
    /// A MAC address in any spelling, or part of a user name; without it, the last attempts of anybody.
    #[arg(value_name = "MAC or USER", default_value = "", hide_default_value = true)]
    who: String,
    /// How many attempts to show, newest first.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    limit: usize,
    /// Ask the node whose `[ops] listen` is this address, instead of the one of the configuration.
    #[arg(long, value_name = "ADDRESS:PORT")]
    node: Option<SocketAddr>,
    /// Print the node's answer as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let address = match args.node {
        Some(address) => address,
        None => asking::address(&context.config()?)?,
    };
    let body = asking::ask(
        address,
        &format!("/attempts?limit={}&q={}", args.limit, percent_encoded(&args.who)),
    )?;
    let mut out = std::io::stdout().lock();
    if args.json {
        out.write_all(body.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer: Value = serde_json::from_str(&body).context("the node's answer cannot be understood")?;
    let none = Vec::new();
    let attempts = answer.get("attempts").and_then(Value::as_array).unwrap_or(&none);
    if attempts.is_empty() {
        let node = answer.get("node").and_then(Value::as_str).unwrap_or_default();
        writeln!(
            out,
            "node `{node}` remembers no attempt of `{}`",
            escape::terminal(&args.who)
        )?;
        writeln!(
            out,
            "hint: perhaps another node saw it (`--node`), or its switch is unknown here: see the log"
        )?;
    }
    for (index, attempt) in attempts.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        out.write_all(escape::terminal(&shown(attempt)).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An attempt for eyes: what happened, why, what to do, then everything else that is known.
pub(super) fn shown(attempt: &Value) -> String {
    let field = |name: &str| match attempt.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let mut text = format!("{}  {}: {}\n", field("time"), field("outcome"), field("reason"));
    for (label, name) in [("", "meaning"), ("", "detail"), ("hint: ", "hint")] {
        if !field(name).is_empty() {
            // writing to a string does not fail
            let _ = writeln!(text, "  {label}{}", field(name).replace('\n', "\\n"));
        }
    }
    let told = ["time", "outcome", "reason", "meaning", "detail", "hint"];
    for (name, _) in attempt
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !told.contains(&name.as_str()))
    {
        let _ = writeln!(text, "    {name:<12} {}", field(name).replace('\n', "\\n"));
    }
    text
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for octet in text.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(char::from(octet)),
            octet => {
                let _ = write!(out, "%{octet:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_shown_with_what_to_do_first() {
        let attempt = serde_json::json!({
            "time": "2026-07-05T12:30:00.000042Z", "user": "a\nb", "outcome": "reject", "reason": "mac-not-listed",
            "rounds": 1, "meaning": "it is not listed", "hint": "add it",
        });
        assert_eq!(
            shown(&attempt),
            "2026-07-05T12:30:00.000042Z  reject: mac-not-listed\n  it is not listed\n  hint: add it\n    rounds       1\n    user         a\\nb\n"
        );
        assert_eq!(percent_encoded("a b:ü&"), "a%20b%3A%C3%BC%26");
    }
}
