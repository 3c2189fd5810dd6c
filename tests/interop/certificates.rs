//! What a running node notices of certificates: ends that are near, and devices that are listed by their address too.

use serde_json::Value;

use crate::support::node::{Node, Plan, message, pem};
use crate::support::supplicant::Eapol;
use crate::support::{Fallible, ensure};

const DOCUMENT: &str = r#"
[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Common-Name == laptop-7"]

[[site]]
name = "Leeds"
tag = "leeds"
policies = [{ policy = "laptops", priority = 10 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-77"

[[site.mac]]
address = "02-00-00-00-00-78"
valid_until = 2020-01-01

[[site]]
name = "York"
tag = "york"

[[site.mac]]
address = "02-00-00-00-00-77"
"#;

fn laptop<'a>(name: &'a str, mac: &'a str) -> Fallible<Eapol<'a>> {
    Ok(Eapol {
        mac,
        ..Eapol::tls(name, "1.3", "laptop-7", "client", "ca")?
    })
}

/// The certificates of the tests are good for a year.
#[test]
fn ends_that_are_near_are_in_the_log_and_in_the_metric() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        tls: "expiry_warning = \"400d\"",
        ..Plan::default()
    })?;
    for what in [
        "the server certificate `radius.example` expires in",
        "Example Root` expires in",
    ] {
        let line = node.line(what, |line| message(line).contains(what))?;
        ensure(line["level"] == "warn" && line["hint"].is_string(), || line.to_string())?;
    }
    for name in ["first", "second"] {
        laptop(name, "02:00:00:00:00:99")?.gets_in(&node)?;
        let line = node.authentication(name)?;
        let detail = line["detail"].as_str().unwrap_or_default();
        ensure(detail.starts_with("its certificate expires in "), || line.to_string())?;
    }
    let is_warning = |line: &Value| message(line).starts_with("a device was let in, and its certificate expires in ");
    let line = node.line("a certificate that ends", is_warning)?;
    let says = |field: &str, value: &str| line[field] == value;
    ensure(
        says("site", "leeds")
            && says("mac", "02-00-00-00-00-99")
            && says("cn", "laptop-7")
            && line["not_after"].is_string(),
        || line.to_string(),
    )?;
    let lines = node.lines();
    ensure(lines.iter().filter(|line| is_warning(line)).count() == 1, || {
        "said twice".to_owned()
    })?;
    let metrics = node.metrics()?;
    let count = metrics.get("portreeve_expiring_client_certificates");
    ensure(count == Some(&1.0), || format!("{count:?} of {metrics:#?}"))
}

#[test]
fn an_end_that_is_far_is_not_mentioned() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    laptop("laptop", "02:00:00:00:00:99")?.gets_in(&node)?;
    let line = node.authentication("laptop")?;
    ensure(line["detail"].is_null(), || line.to_string())?;
    let lines = node.lines();
    let said = lines.iter().find(|line| message(line).contains("expires in"));
    ensure(said.is_none(), || format!("{said:?}"))
}

/// A revoked laptop must not come back by MAC authentication.
#[test]
fn check_points_out_a_listed_address_that_came_by_certificate() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let check = || node.command(&["check", "--node", &node.ops().to_string()]);
    let said = check()?;
    ensure(
        said.contains("ok: devices by certificate at `interop` (since 20"),
        || said.clone(),
    )?;
    ensure(said.contains("): 0, none listed by its address"), || said.clone())?;

    laptop("not listed", "02:00:00:00:00:99")?.gets_in(&node)?;
    laptop("listed until 2020", "02:00:00:00:00:78")?.gets_in(&node)?;
    node.authentication("listed until 2020")?;
    let said = check()?;
    ensure(said.contains("): 2, none listed by its address"), || said.clone())?;

    laptop("listed", "02:00:00:00:00:77")?.gets_in(&node)?;
    node.authentication("listed")?;
    let said = check()?;
    for site in ["leeds", "york"] {
        let warning = format!(
            "warning: site `{site}` lists 02-00-00-00-00-77, which authenticated by certificate (`laptop-7, serial "
        );
        let hint = format!("hint: `portreeve mac remove {site} 02-00-00-00-00-77`");
        ensure(said.contains(&warning) && said.contains(&hint), || said.clone())?;
    }
    ensure(said.matches("which authenticated by certificate").count() == 2, || {
        said.clone()
    })?;

    // Without a node that answers, that is not known, and no fault.
    let said = node.command(&["check", "--node", "127.0.0.1:1"])?;
    ensure(
        said.contains(
            "note: whether listed addresses have authenticated by certificate is not known: cannot reach the node",
        ),
        || said.clone(),
    )
}

/// A whole authentication without a device and without a running node.
#[test]
fn check_probes_with_a_certificate_and_explains_the_decision() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let probe = |name: &str, version: &str| -> Fallible<(bool, String)> {
        let file = |kind: &str| pem(&format!("{name}.{kind}")).map(|path| path.display().to_string());
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_portreeve"))
            .args(["check", "--client", "127.0.0.1", "--tls", version])
            .args(["--probe", &file("pem")?, "--key", &file("key")?])
            .current_dir(node.folder())
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    };
    // The key lies beside the certificate; the switch may be any of a site, or the only one.
    for (place, says) in [
        (&["--site", "leeds"][..], "accept: policy-accept"),
        (&[], "accept: policy-accept"),
        (&["--site", "york"], "site `york` has no client"),
        (&["--site", "nowhere"], "there is no site `nowhere`"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_portreeve"))
            .args(["check", "--probe"])
            .arg(pem("client.pem")?)
            .args(place)
            .current_dir(node.folder())
            .output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure(said.contains(says), || format!("{place:?}: {said}"))?;
    }
    for version in ["1.2", "1.3"] {
        let (accepted, said) = probe("client", version)?;
        let all = [
            "-> Access-Request 0",
            "<- Access-Accept",
            "accept: policy-accept",
            "laptops",
        ];
        ensure(accepted && all.iter().all(|text| said.contains(text)), || said.clone())?;
        let (accepted, said) = probe("foreign", version)?;
        let all = ["<- Access-Reject", "reject: unknown-ca", "Foreign Root", "hint: "];
        ensure(!accepted && all.iter().all(|text| said.contains(text)), || said.clone())?;
    }
    Ok(())
}
