//! Certificates are replaced and the node is stopped, under open conversations.

use std::fs;

use nix::sys::signal::Signal;
use portreeve::eap::tls::TlsVersion;
use serde_json::Value;

use crate::support::nas::{Nas, Round, peer};
use crate::support::node::{Node, Plan, message, pem};
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
"#;

const RELOADED: &str = "certificates were read again and are in force";
const REFUSED: &str = "certificates were not replaced: those in force stay";

fn node() -> Fallible<Node> {
    Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })
}

/// A conversation that has begun, and has its TLS handshake under way.
fn half(nas: &mut Nas, name: &str) -> Fallible<portreeve::nas::Attempt> {
    let mut attempt = nas.begin(name, peer("laptop-7", TlsVersion::V12, Some("client"), "ca")?);
    for _ in 0..2 {
        let round = nas.round(&mut attempt)?;
        ensure(round == Round::Challenge, || format!("{round:?}"))?;
    }
    Ok(attempt)
}

/// Waits for a line of the operational log behind the first `seen`.
fn said(node: &Node, seen: usize, text: &str) -> Fallible {
    node.line_after(seen, text, |line| message(line) == text).map(drop)
}

/// Waits until certificates with so many client CAs are in force.
fn in_force(node: &Node, seen: usize, client_cas: u64) -> Fallible {
    let is = |line: &Value| message(line) == RELOADED && line["client_cas"] == client_cas;
    node.line_after(seen, RELOADED, is).map(drop)
}

#[test]
fn sighup_reads_the_certificates_again() -> Fallible {
    let node = node()?;
    let seen = node.lines().len();
    // nothing has changed, so nothing but the signal can be the cause
    node.signal(Signal::SIGHUP)?;
    said(&node, seen, RELOADED)
}

#[test]
fn changed_files_are_in_force_and_open_conversations_go_on() -> Fallible {
    let node = node()?;
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut open = half(&mut nas, "open")?;

    // another certificate, of another CA, and another CA of clients: by the change of the files alone; the CA comes last, so
    // that the line which counts it stands for all of them
    let seen = node.lines().len();
    node.install("p384-server")?;
    fs::copy(
        pem("foreign-ca.pem")?,
        node.folder().join("certs/client-ca/foreign-ca.pem"),
    )?;
    in_force(&node, seen, 2)?;
    // a conversation that began under the old certificate, whose CA is all that its supplicant believes in
    let end = nas.finish(&mut open)?;
    ensure(end == Round::Accept, || format!("{end:?}"))?;
    Eapol::tls("new", "1.3", "laptop-7", "client", "p384-ca")?.gets_in(&node)?;
    Eapol::tls("new ca", "1.3", "laptop-7", "foreign", "p384-ca")?.gets_in(&node)?;
    Eapol::tls("old", "1.3", "laptop-7", "client", "ca")?.is_refused(&node, "server-certificate-refused")?;

    // the other way round, and by signal
    let seen = node.lines().len();
    node.install("server")?;
    fs::remove_file(node.folder().join("certs/client-ca/foreign-ca.pem"))?;
    node.signal(Signal::SIGHUP)?;
    in_force(&node, seen, 1)?;
    Eapol::tls("old again", "1.2", "laptop-7", "client", "ca")?.gets_in(&node)?;
    Eapol::tls("old ca again", "1.2", "laptop-7", "foreign", "ca")?.is_refused(&node, "unknown-ca")?;
    Ok(())
}

#[test]
fn a_broken_set_is_refused_and_the_old_one_stays() -> Fallible {
    let node = node()?;
    let certs = node.folder().join("certs");
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut open = half(&mut nas, "open")?;
    let breaks: [(&str, &dyn Fn() -> Fallible); 4] = [
        ("no certificate", &|| {
            Ok(fs::write(certs.join("server.pem"), "nothing")?)
        }),
        ("another's key", &|| {
            node.install("server")?;
            fs::copy(pem("client.key")?, certs.join("server.key"))?;
            Ok(())
        }),
        ("an expired one", &|| node.install("expired")),
        ("no client ca", &|| {
            node.install("server")?;
            Ok(fs::write(certs.join("client-ca/ca.pem"), "nothing")?)
        }),
    ];
    for (index, (what, break_it)) in breaks.iter().enumerate() {
        let seen = node.lines().len();
        break_it()?;
        node.signal(Signal::SIGHUP)?;
        let line = node.line_after(seen, what, |line| message(line) == REFUSED)?;
        ensure(
            line["level"] == "error" && line["error"].as_str().is_some_and(|why| why.contains("certs/")),
            || line.to_string(),
        )?;
        let name = format!("still {index}");
        Eapol::tls(&name, "1.3", "laptop-7", "client", "ca")?.gets_in(&node)?;
    }
    let end = nas.finish(&mut open)?;
    ensure(end == Round::Accept, || format!("{end:?}"))?;
    // and mended, it is read
    let seen = node.lines().len();
    fs::copy(pem("ca.pem")?, certs.join("client-ca/ca.pem"))?;
    said(&node, seen, RELOADED)
}

#[test]
fn sigterm_finishes_open_conversations_and_begins_none() -> Fallible {
    let mut node = node()?;
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut open = half(&mut nas, "open")?;
    let seen = node.lines().len();
    node.signal(Signal::SIGTERM)?;
    node.line_after(seen, "that it stops", |line| {
        message(line).starts_with("stopping: open conversations")
    })?;

    let (status, body) = node.get("/readyz")?;
    ensure(status == 503 && body.contains("stopping"), || {
        format!("{status} {body}")
    })?;
    let mut late = Nas::new(node.address(), "127.0.0.1")?;
    let mut begun = late.begin("late", peer("laptop-7", TlsVersion::V12, Some("client"), "ca")?);
    let request = late.request(&mut begun)?;
    late.send(&request)?;
    node.drops("not-ready", 1)?;
    ensure(!late.has_answer()?, || "a conversation was begun".to_owned())?;
    let end = nas.finish(&mut open)?;
    ensure(end == Round::Accept, || format!("{end:?}"))?;
    let status = node.ended()?;
    ensure(status.code() == Some(0), || format!("it ended with {status}"))?;
    node.expect("open", &[("outcome", "accept")])?;
    said(&node, seen, "stopped")
}

#[test]
fn a_second_signal_stops_at_once() -> Fallible {
    let mut node = node()?;
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let _open = half(&mut nas, "open")?;
    node.signal(Signal::SIGTERM)?;
    node.line("that it stops", |line| {
        message(line).starts_with("stopping: open conversations")
    })?;
    node.signal(Signal::SIGTERM)?;
    let status = node.ended()?;
    ensure(status.code() == Some(0), || format!("it ended with {status}"))?;
    // what it could not finish is said as well
    node.expect("open", &[("outcome", "unfinished")])
}
