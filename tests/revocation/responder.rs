//! `openssl ocsp`, as a server of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::authority::Authority;
use crate::support::Fallible;

/// A responder; gone when dropped.
pub struct Responder {
    process: Child,
    /// It ends when it says something that nobody can hear.
    _output: BufReader<ChildStdout>,
    pub url: String,
}

/// How it is to answer.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Whose certificates it is asked about.
    pub ca: &'a Authority,
    /// [`Authority::index`].
    pub index: &'a Path,
    /// Who signs, without `.pem` and `.key`.
    pub signer: &'a Path,
    /// Minutes to nextUpdate; none is sent without.
    pub minutes: Option<u32>,
}

impl Responder {
    pub fn start(plan: Plan<'_>) -> Fallible<Responder> {
        let mut command = Command::new("openssl");
        command.args(["ocsp", "-port", "0", "-index"]).arg(plan.index);
        command.arg("-rsigner").arg(plan.signer.with_extension("pem"));
        command.arg("-rkey").arg(plan.signer.with_extension("key"));
        command.arg("-CA").arg(plan.ca.path().with_extension("pem"));
        if let Some(minutes) = plan.minutes {
            command.args(["-nmin", &minutes.to_string()]);
        }
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run `openssl`, which these tests need: {error}"))?;
        // `ACCEPT [::]:41643 PID=464`
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().ok_or("no output")?);
        output.read_line(&mut line)?;
        let port = line
            .split_whitespace()
            .nth(1)
            .and_then(|address| address.rsplit_once(':'));
        let port = port.ok_or_else(|| format!("`openssl ocsp` said `{line}`"))?.1;
        let url = format!("http://127.0.0.1:{port}/");
        Ok(Responder {
            process,
            _output: output,
            url,
        })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
