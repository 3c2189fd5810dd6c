//! The program as a user runs it, and what it said.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::server::{Fault, Pki, Server};

/// What a run said.
pub struct Run {
    pub code: i32,
    pub text: String,
    pub errors: String,
    pub json: Value,
}

impl Run {
    pub fn number(&self, name: &str) -> u64 {
        self.json[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name}: {}", self.json))
    }

    /// Kinds of failures, how many of each.
    pub fn kinds(&self) -> Vec<(&str, u64)> {
        let failures = self.json["failures"].as_array().unwrap();
        failures
            .iter()
            .map(|failure| (failure["kind"].as_str().unwrap(), failure["count"].as_u64().unwrap()))
            .collect()
    }
}

pub fn command(target: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve-load"));
    command.args(arguments).arg("--target").arg(target.to_string());
    if arguments[0] == "eap-tls" {
        let pki = Pki::shared();
        for (option, file) in [("--cert", "client.pem"), ("--key", "client.key"), ("--ca", "ca.pem")] {
            if !arguments.contains(&option) && (option == "--ca" || !arguments.contains(&"--cert-dir")) {
                command.arg(option).arg(pki.file(file));
            }
        }
    }
    command.stdin(Stdio::null());
    command
}

pub fn run(target: SocketAddr, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("summary.json");
    let mut command = command(target, arguments);
    let output: Output = command.arg("--json").arg(&json).output().unwrap();
    let written = std::fs::read_to_string(&json).unwrap_or_default();
    Run {
        code: output.status.code().unwrap(),
        text: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
        json: serde_json::from_str(&written).unwrap_or_default(),
    }
}

/// Long enough that nothing is sent again because the machine is busy.
pub const PATIENT: &[&str] = &["--timeout", "30s"];

pub fn against(fault: Fault, arguments: &[&str]) -> Run {
    let server = Server::start(fault);
    run(server.address, &[arguments, PATIENT].concat())
}
