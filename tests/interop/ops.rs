//! Health and metrics of a running node.

use std::time::{Duration, Instant};

use crate::support::freeradius::Radclient;
use crate::support::node::{Node, PATIENCE, Plan, pem};
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

/// Waits until `/readyz` answers what is wanted.
fn readyz(node: &Node, what: &str, wanted: impl Fn(u16, &serde_json::Value) -> bool) -> Fallible {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, body) = node.get("/readyz")?;
        if wanted(status, &serde_json::from_str(&body)?) {
            return Ok(());
        }
        ensure(Instant::now() < deadline, || format!("not {what} but {status} {body}"))?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_is_alive_ready_and_counts_what_it_does() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    ensure(node.get("/healthz")?.0 == 200, || "not healthy".to_owned())?;
    readyz(&node, "ready", |status, body| status == 200 && body["ready"] == true)?;

    Eapol::tls("laptop", "1.3", "laptop-7", "client", "ca")?.gets_in(&node)?;
    let mac = "02-00-00-00-00-01";
    let packet = format!("User-Name = \"{mac}\"\nCalling-Station-Id = \"{mac}\"\nMessage-Authenticator = 0x00");
    Radclient::new(&node).ask(&node, &[packet])?;
    let counted = |series: &str, at_least: f64| -> Fallible {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = node.metrics()?;
            match metrics.get(series) {
                Some(value) if *value >= at_least => return Ok(()),
                _ if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                value => return Err(format!("{series} is {value:?} of {metrics:#?}").into()),
            }
        }
    };
    for (series, at_least) in [
        ("portreeve_requests_total{code=\"access-request\"}", 5.0),
        (
            "portreeve_authentications_total{method=\"eap-tls\",outcome=\"accept\",reason=\"policy-accept\"}",
            1.0,
        ),
        (
            "portreeve_authentications_total{method=\"mab\",outcome=\"accept\",reason=\"mac-listed\"}",
            1.0,
        ),
        (
            "portreeve_authentication_duration_seconds_count{method=\"eap-tls\"}",
            1.0,
        ),
        ("portreeve_authentication_duration_seconds_count{method=\"mab\"}", 1.0),
        ("portreeve_dropped_packets_total{reason=\"unknown-client\"}", 0.0),
        ("portreeve_kernel_drops_total", 0.0),
        ("portreeve_open_conversations", 0.0),
        ("portreeve_cache_requests_total{result=\"hit\"}", 1.0),
        ("portreeve_replica_up{replica=\"portreeve.db\"}", 1.0),
        ("portreeve_replica_lag_seconds{replica=\"portreeve.db\"}", 0.0),
        ("portreeve_revision", 1.0),
        ("portreeve_policy_age_seconds", 0.0),
        (
            "portreeve_certificate_expiry_seconds{kind=\"server\",subject=\"/C=GB/O=Example/CN=radius.example\"}",
            86_400.0,
        ),
        (
            "portreeve_certificate_expiry_seconds{kind=\"client-ca\",subject=\"/C=GB/O=Example/CN=Example Root\"}",
            86_400.0,
        ),
    ] {
        counted(series, at_least)?;
    }
    Ok(())
}

/// The node's own supplicant has no name that anybody gave it.
#[test]
fn a_node_that_compares_identities_is_ready() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        tls: "identity_check = \"upn\"",
        ..Plan::default()
    })?;
    readyz(&node, "ready", |status, _| status == 200)?;
    Eapol::tls("own", "1.3", "seven@corp.example.com", "client", "ca")?.gets_in(&node)?;
    Eapol::tls("other", "1.3", "laptop-7", "client", "ca")?.is_refused(&node, "identity-mismatch")?;
    Ok(())
}

#[test]
fn the_certificates_of_profiles_are_in_the_metrics() -> Fallible {
    let file = |name: &str| pem(name).map(|path| path.display().to_string());
    let profile = format!(
        "[[eap.tls.profile]]\nname = \"guests\"\nsites = \"site\"\ncertificate = \"{}\"\nprivate_key = \"{}\"\nclient_ca = \"{}\"\n",
        file("chain.pem")?,
        file("chain.key")?,
        file("foreign-ca.pem")?,
    );
    let node = Node::start(Plan {
        document: DOCUMENT,
        tls: &profile,
        ..Plan::default()
    })?;
    let deadline = Instant::now() + PATIENCE;
    for (kind, subject) in [
        ("server", "/C=GB/O=Example/CN=radius.example"),
        ("server", "/C=GB/O=Example/CN=laptop-7"),
        ("client-ca", "/C=GB/O=Example/CN=Example Root"),
        ("client-ca", "/C=GB/O=Elsewhere/CN=Foreign Root"),
    ] {
        let series = format!("portreeve_certificate_expiry_seconds{{kind=\"{kind}\",subject=\"{subject}\"}}");
        while node.metrics()?.get(&series).is_none_or(|seconds| *seconds < 86_400.0) {
            ensure(Instant::now() < deadline, || format!("no {series}"))?;
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

#[test]
fn a_node_with_an_expired_certificate_is_not_ready() -> Fallible {
    let node = Node::start(Plan {
        certificate: "expired",
        document: DOCUMENT,
        ..Plan::default()
    })?;
    readyz(&node, "unready for its certificate alone", |status, body| {
        let failing = body["failing"].as_object();
        status == 503
            && failing.is_some_and(|failing| failing.len() == 1)
            && body["failing"]["certificate"]
                .as_str()
                .is_some_and(|why| why.contains("expired"))
    })?;
    // it is alive all the same: a restart would mend nothing
    ensure(node.get("/healthz")?.0 == 200, || "not healthy".to_owned())
}
