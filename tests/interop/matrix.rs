//! Every kind of certificate in every way of using it: eapol_test gets in, with keys that match, and the log line says how.
//!
//! {TLS 1.2, 1.3} x {P-256, P-384, RSA 2048, RSA 4096, Ed25519} x {direct, one, three intermediates} x {EAP-TLS, EAP-TTLS and PEAP
//! around EAP-TLS} x {full, resumed}: each run authenticates twice, so that the second may resume; of the tunnels that is the
//! tunnel itself.

use crate::support::node::{Node, Plan};
use crate::support::supplicant::Eapol;
use crate::support::{Fallible, each, ensure};

const DOCUMENT: &str = r#"
[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Common-Name == laptop-7", "Auth-Method == eap-tls"]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120"]

[[site]]
name = "Site"
tag = "site"
policies = [{ policy = "laptops", priority = 10 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"
"#;

/// A row of the matrix: client and server have certificates of one kind, under as many intermediates.
struct Case<'a> {
    kind: &'a str,
    depth: &'a str,
    version: &'a str,
    method: &'a str,
    /// A device of its own, of which the node knows by which method it got in.
    mac: String,
}

/// Names in the files of the PKI for client and server, by depth.
const DEPTHS: [(&str, &str, &str); 3] = [
    ("direct", "client", "server"),
    ("one intermediate", "chain", "server-chain"),
    ("three intermediates", "deep", "server-deep"),
];

fn every_way(kind: &str) -> Fallible {
    for (depth, client, server) in DEPTHS {
        let node = Node::start(Plan {
            certificate: &format!("{kind}{server}"),
            client_ca: &[&format!("{kind}ca")],
            document: DOCUMENT,
            tls: "resume_tunnels = true",
            ..Plan::default()
        })?;
        let mut cases = Vec::new();
        for version in ["1.2", "1.3"] {
            for method in ["tls", "ttls", "peap"] {
                cases.push(Case {
                    kind,
                    depth,
                    version,
                    method,
                    mac: format!("02:00:00:00:01:{:02x}", cases.len()),
                });
            }
        }
        each(&cases, Case::name, |case| {
            case.gets_in_twice(&node, &format!("{kind}{client}"))
        })?;
    }
    Ok(())
}

impl Case<'_> {
    fn name(&self) -> String {
        let Case {
            kind,
            depth,
            version,
            method,
            ..
        } = self;
        format!("{kind}{method} {version} {depth}")
    }

    fn gets_in_twice(&self, node: &Node, certificate: &str) -> Fallible {
        let name = self.name();
        let ca = format!("{}ca", self.kind);
        let tunnel = self.method.to_uppercase();
        let mut supplicant = match self.method {
            "tls" => Eapol::tls(&name, self.version, "laptop-7", certificate, &ca)?,
            _ => Eapol::tunnel(&name, (&tunnel, self.version), "laptop-7", certificate, &ca)?,
        };
        (supplicant.mac, supplicant.again) = (&self.mac, 1);
        let ran = supplicant.gets_in(node)?;
        // RFC 9190 section 2.5: the server's protected success indication, one octet 0x00, comes before EAP-Success; without
        // it eapol_test would succeed all the same.
        if self.version == "1.3" && self.method == "tls" {
            let commitments = ran.output.matches("EAP-TLS: ACKing Commitment Message").count();
            ensure(commitments == 2, || {
                format!("{commitments} commitments\n{}", ran.output)
            })?;
        }
        let lines = node.authentications(&name, 2)?;
        let mut rounds = Vec::new();
        for (line, resumed) in lines.iter().zip([false, true]) {
            for (field, value) in [
                ("outcome", "accept"),
                ("reason", "policy-accept"),
                ("method", "eap-tls"),
                ("eap_type", self.method),
                ("tls", self.version),
                ("cn", "laptop-7"),
                ("vlan", "120"),
            ] {
                ensure(line[field] == value, || format!("`{field}` is not `{value}`: {line}"))?;
            }
            ensure(line["resumed"] == resumed, || {
                format!("resumed is not {resumed}: {line}")
            })?;
            rounds.push(line["rounds"].as_u64().ok_or("no rounds")?);
        }
        println!("{name}: {} round trips, resumed {}", rounds[0], rounds[1]);
        let most = match (self.method, self.version) {
            ("tls", "1.2") => rounds[0],
            _ => 4,
        };
        ensure(rounds[1] <= most, || format!("{rounds:?} round trips"))
    }
}

#[test]
fn p256_in_every_way() -> Fallible {
    every_way("")
}

#[test]
fn p384_in_every_way() -> Fallible {
    every_way("p384-")
}

#[test]
fn rsa2048_in_every_way() -> Fallible {
    every_way("rsa2048-")
}

#[test]
fn rsa4096_in_every_way() -> Fallible {
    every_way("rsa4096-")
}

#[test]
fn ed25519_in_every_way() -> Fallible {
    every_way("ed25519-")
}
