//! A device before the node, and what its authentication has to come to.

use std::time::{Duration, Instant};

use portreeve::eap::tls::TlsVersion;
use serde_json::Value;

use crate::authority::{Authority, Issued};
use crate::support::nas::{Nas, Round, peer};
use crate::support::node::{self, Node};
use crate::support::{Fallible, ensure};

/// All devices of the CA get in, and a listed printer.
pub const DOCUMENT: &str = r#"
[[policy]]
name = "devices"
rules = ["TLS-Client-Cert-Issuer contains /O=Revocation"]

[[site]]
name = "Site"
tag = "site"
policies = [{ policy = "devices", priority = 10 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-01"
"#;

/// How long a source is waited for.
pub const TIMEOUT: Duration = Duration::from_millis(500);
/// What a busy machine may add to a time-out.
pub const SLACK: Duration = Duration::from_millis(1_500);

/// A node that lets devices of these CAs in, with these lines in `[revocation]`, and may be sent to this machine.
pub fn node(authorities: &[&Authority], revocation: &str) -> Fallible<Node> {
    bare_node(authorities, &format!("fetch = [\"127.0.0.1\"]\n{revocation}"))
}

/// The same with nothing but these lines and a short time-out.
pub fn bare_node(authorities: &[&Authority], revocation: &str) -> Fallible<Node> {
    patient_node(authorities, revocation, "500ms")
}

/// The same with this time-out.
pub fn patient_node(authorities: &[&Authority], revocation: &str, timeout: &str) -> Fallible<Node> {
    let paths: Vec<String> = authorities.iter().map(|ca| ca.path().display().to_string()).collect();
    let mut names: Vec<&str> = paths.iter().map(String::as_str).collect();
    // of two CAs the files have one name: the others are read where they are
    names.truncate(1);
    let others: String = authorities.iter().skip(1).map(|ca| ca.pem()).collect();
    if let Some(first) = authorities.first() {
        std::fs::write(first.path().with_extension("pem"), first.pem() + &others)?;
    }
    let tls = format!("[revocation]\ntimeout = \"{timeout}\"\n{revocation}\n");
    Node::start(node::Plan {
        client_ca: &names,
        document: DOCUMENT,
        tls: &tls,
        ..node::Plan::default()
    })
}

/// What became of an authentication.
pub struct Ended {
    pub round: Round,
    /// The longest that one request waited for its answer.
    pub waited: Duration,
    /// The line of the log.
    pub line: Value,
}

/// A whole authentication by TLS 1.3; `name` becomes NAS-Identifier.
pub fn authenticate(node: &Node, name: &str, device: &Issued) -> Fallible<Ended> {
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut attempt = nas.begin(name, peer(name, TlsVersion::V13, Some(device.name()), "ca")?);
    let mut waited = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let round = nas.round(&mut attempt)?;
        waited = waited.max(begun.elapsed());
        if round != Round::Challenge {
            let line = node.authentication(name)?;
            return Ok(Ended { round, waited, line });
        }
    }
}

impl Ended {
    /// Holds outcome and reason against what is expected, and the detail where one is.
    pub fn expect(&self, outcome: &str, reason: &str, detail: &str) -> Fallible {
        let is_let_in = self.round == Round::Accept;
        let said = self.line["detail"].as_str().unwrap_or_default();
        let is_right = is_let_in == (outcome == "accept")
            && self.line["outcome"] == outcome
            && self.line["reason"] == reason
            && said.contains(detail)
            && (!detail.is_empty() || said.is_empty());
        ensure(is_right, || {
            format!(
                "expected {outcome}, {reason}, `{detail}` of {:?}, {}",
                self.round, self.line
            )
        })
    }
}

/// Waits until a series of `/metrics` has come to this.
pub fn count(node: &Node, series: &str, wanted: f64) -> Fallible {
    let deadline = Instant::now() + node::PATIENCE;
    loop {
        let found = node.metrics()?.get(series).copied();
        if found == Some(wanted) {
            return Ok(());
        }
        ensure(Instant::now() < deadline, || {
            format!("{series} is {found:?}, and not {wanted}")
        })?;
        std::thread::sleep(Duration::from_millis(50));
    }
}
