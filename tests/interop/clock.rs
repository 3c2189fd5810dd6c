//! A node whose clock is wrong: what is out of date by it is refused, nothing ends, and the log says what is suspect.

use crate::faketime::Clocks;
use crate::support::freeradius::Radclient;
use crate::support::node::{Node, Plan, message};
use crate::support::supplicant::Eapol;
use crate::support::{Fallible, ensure};

const DOCUMENT: &str = r#"
[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Common-Name == laptop-7"]

[[site]]
name = "Site"
tag = "site"
policies = [{ policy = "laptops", priority = 10 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-01"
"#;
const SUSPECT: &str = "the clock looks wrong: ";

/// Waits for what the node says of its clock behind the first `seen` lines.
fn suspects(node: &Node, seen: usize, what: &str) -> Fallible {
    let line = node.line_after(seen, what, |line| {
        message(line).starts_with(SUSPECT) && message(line).contains(what)
    })?;
    ensure(
        line["level"] == "warn" && line["hint"].as_str().is_some_and(|hint| hint.contains("NTP")),
        || line.to_string(),
    )
}

fn laptop(name: &str) -> Fallible<Eapol<'_>> {
    Eapol::tls(name, "1.3", "laptop-7", "client", "ca")
}

/// MAC authentication has no dates: it works at any time.
fn printer(node: &Node, name: &str) -> Fallible {
    let mac = "02-00-00-00-00-01";
    let packet = format!(
        "User-Name = \"{mac}\"\nCalling-Station-Id = \"{mac}\"\nNAS-Identifier = \"{name}\"\nMessage-Authenticator = 0x00"
    );
    Radclient::new(node).ask(node, &[packet])?;
    node.expect(name, &[("outcome", "accept")])
}

/// The certificates of the tests began yesterday and last a year.
#[test]
fn a_clock_that_jumps_is_told_and_certificates_are_judged_by_it() -> Fallible {
    let clocks = Clocks::new();
    let node = Node::start(Plan {
        document: DOCUMENT,
        variables: &clocks.variables("node"),
        ..Plan::default()
    })?;
    laptop("right")?.gets_in(&node)?;
    for (index, (time, jump, reason)) in [
        ("+1d", "it jumped by +864", None),
        ("+400d", "it jumped by +344", Some("certificate-expired")),
        ("-2d", "it jumped by -347", Some("certificate-not-yet-valid")),
        (
            "@1970-01-01 00:10:00",
            "it jumped by -1",
            Some("certificate-not-yet-valid"),
        ),
        ("+0", "it jumped by +1", None),
    ]
    .into_iter()
    .enumerate()
    {
        let seen = node.lines().len();
        clocks.set("node", time);
        suspects(&node, seen, jump)?;
        let name = format!("jump {index}");
        match reason {
            Some(reason) => drop(laptop(&name)?.is_refused(&node, reason)?),
            None => drop(laptop(&name)?.gets_in(&node)?),
        }
        printer(&node, &format!("printer {index}"))?;
        if time.starts_with(['-', '@']) {
            suspects(&node, seen, " was written at ")?;
        }
    }
    ensure(node.get("/healthz")?.0 == 200, || "not healthy".to_owned())
}

#[test]
fn a_start_in_1970_says_so_refuses_certificates_and_goes_on() -> Fallible {
    let clocks = Clocks::new();
    let variables = clocks.variables("node");
    clocks.set("node", "@1970-01-01 00:10:00");
    let node = Node::start(Plan {
        document: DOCUMENT,
        variables: &variables,
        ..Plan::default()
    })?;
    suspects(&node, 0, "it says 1970-01-01T00:1")?;
    node.line("the server's certificate is not valid yet", |line| {
        line["level"] == "error"
            && message(line).contains("the server certificate `radius.example` is not valid before")
    })?;
    for certificate in ["client", "foreign", "chain", "no-eku", "any-eku"] {
        let laptop = Eapol::tls(certificate, "1.2", "laptop-7", certificate, "ca")?;
        laptop.is_refused(&node, "certificate-not-yet-valid")?;
    }
    suspects(
        &node,
        0,
        "the last 5 different certificates that came were all not valid yet",
    )?;
    printer(&node, "printer")?;
    ensure(node.get("/readyz")?.0 == 503, || {
        "ready with an invalid certificate".to_owned()
    })?;
    // and put right, it serves
    let seen = node.lines().len();
    clocks.set("node", "+0");
    suspects(&node, seen, "it jumped by +1")?;
    laptop("right")?.gets_in(&node)?;
    Ok(())
}
