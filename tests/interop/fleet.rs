//! Two nodes of a fleet, two processes: sessions go from one to the other.

use std::fs;

use portreeve::eap::peer::{PeerSettings, remembering};
use portreeve::eap::tls::TlsVersion;

use crate::support::nas::{Nas, Round, peer};
use crate::support::node::{Node, Plan, message};
use crate::support::{Fallible, ensure};

const DOCUMENT: &str = r#"
[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Common-Name == laptop-7", "TLS-Cert-Common-Name == Example Issuing CA 1"]

[[site]]
name = "Site"
tag = "site"
policies = [{ policy = "laptops", priority = 10 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"
"#;

const RELOADED: &str = "certificates were read again";

/// A device that shows a chain with an intermediate gets in at `node`, in so many round trips where it resumes a session.
fn gets_in(node: &Node, name: &str, device: &PeerSettings, resumed: Option<u64>) -> Fallible {
    let mut nas = Nas::new(node.address(), "127.0.0.1")?;
    let mut attempt = nas.begin(name, device.clone());
    let end = nas.finish(&mut attempt)?;
    ensure(matches!(end, Round::Accept), || format!("{name}: {end:?}"))?;
    let line = node.authentication(name)?;
    let fits = resumed.is_none_or(|rounds| line["rounds"] == rounds);
    let as_expected = line["resumed"] == resumed.is_some() && fits && line["cn"] == "laptop-7";
    ensure(as_expected, || format!("{name}: {line}"))
}

/// The nodes have server certificates of their own, and the secrets of sessions in common. When those are replaced, all
/// sessions are over, at both.
#[test]
fn a_session_goes_from_node_to_node_until_the_secrets_are_replaced() -> Fallible {
    let folder = tempfile::tempdir()?;
    let keys = folder.path().join("ticket.keys");
    fs::write(&keys, "a secret that the fleet has had since spring\n")?;
    let tls = format!("ticket_keys_file = \"{}\"\n", keys.display());
    let start = |certificate: &str| {
        Node::start(Plan {
            certificate,
            tls: &tls,
            // an intermediate that is no client CA would be in a ticket by name where it does not fit
            client_ca: &["ca", "intermediate"],
            document: DOCUMENT,
            ..Plan::default()
        })
    };
    let (one, other) = (start("server")?, start("server-chain")?);
    let mut devices = Vec::new();
    for (version, rounds) in [(TlsVersion::V12, 3), (TlsVersion::V13, 4)] {
        let settings = peer("laptop-7", version, Some("chain"), "ca")?;
        let device = PeerSettings {
            tls: settings.tls.as_deref().map(|tls| remembering(tls, 8)),
            ..settings
        };
        gets_in(&one, &format!("full {version}"), &device, None)?;
        gets_in(&other, &format!("resumed {version}"), &device, Some(rounds))?;
        gets_in(&one, &format!("back {version}"), &device, Some(rounds))?;
        devices.push((version, device));
    }
    let resumptions = |node: &Node, result: &str| -> Fallible<f64> {
        let name = format!("portreeve_resumptions_total{{result=\"{result}\"}}");
        Ok(*node.metrics()?.get(&name).ok_or("no such series")?)
    };
    ensure(resumptions(&other, "resumed")? == 2.0, || "not 2 resumed".to_owned())?;

    let beside = keys.with_extension("new");
    fs::write(&beside, "a secret that the fleet is given in summer\n")?;
    fs::rename(&beside, &keys)?;
    for node in [&one, &other] {
        node.line("the secrets were read again", |line| {
            message(line).starts_with(RELOADED)
        })?;
    }
    for (version, device) in &devices {
        gets_in(&other, &format!("rotated {version}"), device, None)?;
    }
    ensure(resumptions(&other, "unusable")? == 2.0, || "not 2 unusable".to_owned())
}
