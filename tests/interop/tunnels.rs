//! wpa_supplicant's EAP-TTLS and PEAP, with EAP-TLS inside.

use crate::support::node::{Node, Plan};
use crate::support::supplicant::Eapol;
use crate::support::{Fallible, each, ensure};

const VERSIONS: [&str; 2] = ["1.2", "1.3"];
const TUNNELS: [&str; 2] = ["TTLS", "PEAP"];

/// By what the certificate says, and by the tunnel.
const DOCUMENT: &str = r#"
[[policy]]
name = "by ttls"
rules = ["TLS-Client-Cert-Common-Name == laptop-7", "Auth-Method == eap-tls", "EAP-Type == EAP-TTLS"]
responses = ["Filter-Id = ttls"]

[[policy]]
name = "by peap"
rules = ["TLS-Client-Cert-Common-Name == laptop-7", "Auth-Method == eap-tls", "EAP-Type == PEAP"]
responses = ["Filter-Id = peap"]

[[site]]
name = "Site"
tag = "site"
policies = [{ policy = "by ttls", priority = 10 }, { policy = "by peap", priority = 20 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"

[[site.client]]
network = "127.0.2.200"
secret = "testing123"
fragment_size = 200

[[site]]
name = "Closed"
tag = "closed"

[[site.client]]
network = "127.0.6.1"
secret = "testing123"
"#;

type Case = (&'static str, &'static str);

fn cases() -> Vec<Case> {
    TUNNELS
        .into_iter()
        .flat_map(|tunnel| VERSIONS.map(|version| (tunnel, version)))
        .collect()
}

fn name(case: &Case) -> String {
    format!("{} {}", case.0, case.1)
}

fn node() -> Fallible<Node> {
    Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })
}

#[test]
fn tls_inside_of_ttls_and_peap_in_both_versions() -> Fallible {
    let node = node()?;
    let all: Vec<_> = cases()
        .into_iter()
        .flat_map(|case| [(case, "127.0.0.1"), (case, "127.0.2.200")])
        .collect();
    let name = |(case, source): &(Case, &str)| format!("{} from {source}", name(case));
    each(&all, name, |case| {
        let ((tunnel, version), source) = case;
        let name = name(case);
        let supplicant = Eapol {
            source,
            ..Eapol::tunnel(&name, (tunnel, version), "laptop-7", "client", "ca")?
        };
        let ran = supplicant.gets_in(&node)?;
        // the commitment of the EAP-TLS inside
        let has_commitment = ran.output.contains("EAP-TLS: ACKing");
        ensure(has_commitment == (*version == "1.3"), || ran.output.clone())?;
        if *tunnel == "PEAP" {
            ran.expect("EAP-PEAP: Valid cryptobinding TLV received")?;
        }
        let expected = [
            ("outcome", "accept"),
            ("reason", "policy-accept"),
            ("method", "eap-tls"),
            ("eap_type", &tunnel.to_lowercase()),
            ("tls", version),
            ("user", "anonymous"),
            ("cn", "laptop-7"),
            ("acl", &tunnel.to_lowercase()),
        ];
        node.expect(&name, &expected)
    })
}

/// The inner outcome is the outcome: an alert inside, and then EAP-Failure.
#[test]
fn refusals_are_told_inside() -> Fallible {
    let node = node()?;
    each(&cases(), name, |case| {
        for (certificate, source, reason, alert) in [
            ("expired", "127.0.0.1", "certificate-expired", "expired"),
            ("foreign", "127.0.0.1", "unknown-ca", "unknown CA"),
            ("client", "127.0.6.1", "no-fallback", "fatal:access denied"),
        ] {
            let name = format!("{} {certificate} {source}", name(case));
            let supplicant = Eapol {
                source,
                ..Eapol::tunnel(&name, *case, "laptop-7", certificate, "ca")?
            };
            let ran = supplicant.is_refused(&node, reason)?;
            ran.expect(alert)?;
            node.expect(&name, &[("cn", "laptop-7"), ("eap_type", &case.0.to_lowercase())])?;
        }
        Ok(())
    })
}

/// What most tunnels are used for elsewhere.
#[test]
fn passwords_inside_are_refused_with_what_to_do() -> Fallible {
    let node = node()?;
    let cases = [
        (
            "TTLS",
            "auth=PAP",
            "inside eap-ttls the supplicant tries pap: configure eap-tls as its inner method",
        ),
        (
            "TTLS",
            "auth=MSCHAPV2",
            "inside eap-ttls the supplicant tries ms-chap-v2: configure eap-tls as its inner method",
        ),
        (
            "TTLS",
            "autheap=MSCHAPV2",
            "inside eap-ttls: offered EAP-TLS, wanted EAP-MSCHAPv2: configure eap-tls as the supplicant's inner method",
        ),
        (
            "PEAP",
            "auth=MSCHAPV2",
            "inside peap: offered EAP-TLS, wanted EAP-MSCHAPv2: configure eap-tls as the supplicant's inner method",
        ),
    ];
    each(
        &cases,
        |(tunnel, inner, _)| format!("{tunnel} {inner}"),
        |(tunnel, inner, detail)| {
            let name = format!("{tunnel} {inner}");
            let supplicant = Eapol::password(&name, tunnel, inner, "ca")?;
            let ran = supplicant.is_refused(&node, "method-refused")?;
            if *tunnel == "PEAP" {
                ran.expect("EAP-TLV: TLV Result - Failure")?;
            }
            node.expect(&name, &[("detail", detail)])
        },
    )
}

/// The binding of PEAP to the EAP-TLS inside is demanded.
#[test]
fn peap_without_crypto_binding_is_refused() -> Fallible {
    let node = node()?;
    for version in VERSIONS {
        let name = format!("no binding {version}");
        let mut supplicant = Eapol::tunnel(&name, ("PEAP", version), "laptop-7", "client", "ca")?;
        supplicant.network = supplicant.network.replace("phase1=\"", "phase1=\"crypto_binding=0 ");
        supplicant.is_refused(&node, "method-refused")?;
        let detail =
            "inside peap the supplicant sends no crypto-binding: let it, or configure eap-tls without a tunnel";
        node.expect(&name, &[("detail", detail)])?;
    }
    Ok(())
}

/// Again and again: the tunnel is new each time, the EAP-TLS inside is taken up, and what the certificate says comes back.
#[test]
fn sessions_inside_are_taken_up_again() -> Fallible {
    let node = node()?;
    each(&cases(), name, |case| {
        let name = format!("{} again", name(case));
        let mut supplicant = Eapol {
            again: 3,
            ..Eapol::tunnel(&name, *case, "laptop-7", "client", "ca")?
        };
        // wpa_supplicant leaves tickets of TLS 1.2 alone unless it is told
        let off = "tls_disable_tlsv1_3=1\"";
        let with_tickets = "tls_disable_tlsv1_3=1 tls_disable_session_ticket=0\"";
        supplicant.network = supplicant.network.replace(off, with_tickets);
        let ran = supplicant.gets_in(&node)?;
        ran.expect("OpenSSL: Handshake finished - resumed=1")?;
        let is_resumed = |line: &serde_json::Value| line["nas_id"] == name.as_str() && line["resumed"] == true;
        let line = node.line("a resumption", is_resumed)?;
        let tunnel = case.0.to_lowercase();
        let expected = [
            ("outcome", "accept"),
            ("method", "eap-tls"),
            ("eap_type", &*tunnel),
            ("tls", case.1),
            ("cn", "laptop-7"),
            ("acl", &*tunnel),
        ];
        let differs = expected.iter().find(|(field, value)| line[*field] != *value);
        ensure(differs.is_none(), || format!("expected {expected:?} of {line}"))
    })
}
