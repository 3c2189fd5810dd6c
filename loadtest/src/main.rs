//! `portreeve-load`: asks a RADIUS server as many switches would, for devices that authenticate by EAP-TLS or by MAC
//! address, checks every answer, and says how fast they came.
//!
//! The protocol is the library's own ([`portreeve::nas`]); here are sockets, time and counting. `options` is what the user
//! asks for, `fleet` the devices, `profile` when they begin, `engine` one thread's sockets and conversations, `run` the
//! threads, `series` what happened second by second, `report` the end.

mod attributes;
mod cases;
mod certificates;
mod engine;
mod failure;
mod find_limit;
mod fleet;
mod lane;
mod macs;
mod memories;
mod options;
mod plan;
mod process;
mod profile;
mod progress;
mod report;
mod run;
mod series;
mod socket;
mod sources;
mod summary_lines;
mod supplicants;
mod tally;
mod units;
mod waiting;

use std::process::ExitCode;

use clap::Parser;

use crate::options::{Command, Options};

/// 0 when every answer was right and no more failed than may, 1 when not, 2 for wrong usage.
fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // help and version are no errors; when standard output is closed there is nobody to tell
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let done = match &options.command {
        Command::Load(devices) => run::run(devices),
        Command::FindLimit(asked) => find_limit::find(asked),
        Command::Certificates(asked) => certificates::make(asked, &mut std::io::stdout()).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes on one line, their hints after it.
fn one_line(error: &anyhow::Error) -> String {
    let (mut line, mut hints) = (Vec::new(), String::new());
    for cause in error.chain().map(ToString::to_string) {
        let (text, hint) = cause.split_once('\n').unwrap_or((&cause, ""));
        line.push(text.to_owned());
        if !hint.is_empty() {
            hints.push('\n');
            hints.push_str(hint);
        }
    }
    line.join(": ") + &hints
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn causes_are_one_line_and_hints_follow() {
        let error = Err::<(), _>(anyhow::anyhow!("not found"))
            .context("cannot read `a.pem`\nhint: name another")
            .unwrap_err();
        assert_eq!(one_line(&error), "cannot read `a.pem`: not found\nhint: name another");
    }
}
