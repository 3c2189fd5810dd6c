//! What the node's own responder says of its certificate, sent to supplicants that ask: wpa_supplicant's `eapol_test`, of which
//! `ocsp=2` demands it, and `ocsp=1` looks at it where it is there.

use std::time::Duration;

use crate::authority::{Authority, Issued, Names, reserve, unix};
use crate::canned::Canned;
use crate::device::DOCUMENT;
use crate::responder::{Plan, Responder};
use crate::support::node::{self, Node, message};
use crate::support::supplicant::Eapol;
use crate::support::{Fallible, each, ensure};
use crate::web::{Page, Web, closed_port};

const STAPLED: &str = "the certificate is sent with its OCSP response to supplicants that ask for it";

/// A node with this certificate.
fn node(ca: &Authority, server: &Issued, tls: &str) -> Fallible<Node> {
    let client_ca = ca.path().display().to_string();
    Node::start(node::Plan {
        certificate: server.name(),
        client_ca: &[&client_ca],
        document: DOCUMENT,
        tls,
        ..node::Plan::default()
    })
}

/// A supplicant that asks: whether it gets in, and what it said.
fn asks(node: &Node, ca: &Authority, device: &Issued, version: &str, ocsp: u8) -> Fallible<(bool, String)> {
    let ca = ca.path().display().to_string();
    let name = format!("{version} ocsp={ocsp} {}", reserve());
    let mut supplicant = Eapol::tls(&name, version, "device", device.name(), &ca)?;
    supplicant.network += &format!("ocsp={ocsp}\n");
    let ran = supplicant.run(node)?;
    Ok((ran.succeeded, ran.output))
}

fn gets_in(node: &Node, ca: &Authority, device: &Issued, version: &str, ocsp: u8, expected: bool) -> Fallible {
    let (succeeded, output) = asks(node, ca, device, version, ocsp)?;
    ensure(succeeded == expected, || {
        format!("{version} ocsp={ocsp}: {succeeded}\n{output}")
    })
}

#[test]
fn a_good_response_is_sent_to_who_demands_it() -> Fallible {
    let ca = Authority::new("ca")?;
    let serial = reserve();
    let index = ca.index(&[serial], &[])?;
    let responder = Responder::start(Plan {
        ca: &ca,
        index: &index,
        signer: &ca.path(),
        minutes: Some(60),
    })?;
    let server = ca.server_numbered(serial, &responder.url)?;
    let device = ca.device("device", Names::default())?;
    let node = node(&ca, &server, "")?;
    node.line(STAPLED, |line| message(line) == STAPLED)?;
    let cases = [("1.2", 2), ("1.3", 2), ("1.2", 1), ("1.3", 0)];
    each(
        &cases,
        |case| format!("{case:?}"),
        |(version, ocsp)| gets_in(&node, &ca, &device, version, *ocsp, true),
    )?;
    // and not to who does not ask: it would make the handshake longer for nothing
    let (_, asked) = asks(&node, &ca, &device, "1.3", 2)?;
    let (_, silent) = asks(&node, &ca, &device, "1.3", 0)?;
    let good = "OCSP status for server certificate: good";
    ensure(asked.contains(good) && !silent.contains("OCSP status"), || asked)
}

#[test]
fn where_there_is_no_good_response_none_is_sent() -> Fallible {
    let (ca, stranger, web) = (Authority::new("ca")?, Authority::new("ca")?, Web::start()?);
    let device = ca.device("device", Names::default())?;
    let closed = closed_port()?;
    let numbers: [u64; 5] = std::array::from_fn(|_| reserve());
    let expired = Canned {
        this_update: -7_200,
        next_update: Some(-3_600),
        ..Canned::new(&ca, numbers[1])
    };
    let pages = [
        web.put("/stranger", Page::Body(Canned::new(&stranger, numbers[0]).response()?)),
        web.put("/expired", Page::Body(expired.response()?)),
        web.put("/garbage", Page::Body(b"garbage".to_vec())),
        web.put("/silent", Page::Silence),
        closed,
    ];
    let cases: Vec<(u64, String)> = numbers.into_iter().zip(pages).collect();
    each(
        &cases,
        |(_, url)| url.clone(),
        |(serial, url)| {
            let server = ca.server_numbered(*serial, url)?;
            let node = node(&ca, &server, "")?;
            if !url.ends_with("/silent") {
                node.line("the failure", |line| {
                    message(line).starts_with(
                        "the OCSP response of the server's certificate was not renewed: `http://127.0.0.1:",
                    )
                })?;
            }
            gets_in(&node, &ca, &device, "1.3", 1, true)?;
            let (succeeded, output) = asks(&node, &ca, &device, "1.3", 2)?;
            ensure(!succeeded, || output)
        },
    )
}

/// A response that ends while it is in force, and whose responder says nothing more.
#[test]
fn a_response_is_not_sent_after_its_end() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let device = ca.device("device", Names::default())?;
    let serial = reserve();
    let server = ca.server_numbered(serial, &web.put("/", Page::Silence))?;
    let until = unix() + 8;
    let brief = Canned {
        next_update: Some(8),
        ..Canned::new(&ca, serial)
    };
    web.put("/", Page::Body(brief.response()?));
    let node = node(&ca, &server, "")?;
    node.line(STAPLED, |line| message(line) == STAPLED)?;
    if unix() + 2 < until {
        gets_in(&node, &ca, &device, "1.3", 2, true)?;
    }
    std::thread::sleep(Duration::from_secs((until + 1).saturating_sub(unix())));
    gets_in(&node, &ca, &device, "1.3", 1, true)?;
    gets_in(&node, &ca, &device, "1.3", 2, false)
}

#[test]
fn nobody_is_asked_where_the_configuration_says_so() -> Fallible {
    let (ca, web) = (Authority::new("ca")?, Web::start()?);
    let device = ca.device("device", Names::default())?;
    let serial = reserve();
    let url = web.put("/", Page::Body(Canned::new(&ca, serial).response()?));
    let node = node(&ca, &ca.server_numbered(serial, &url)?, "staple = false")?;
    gets_in(&node, &ca, &device, "1.3", 1, true)?;
    std::thread::sleep(Duration::from_millis(1_500));
    ensure(web.requests() == 0, || "the responder was asked".to_owned())
}
