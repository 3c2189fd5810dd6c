//! A reply longer than the link's MTU, from the policy to `radclient` behind the link.

use crate::namespace::{Namespace, link};
use crate::support::freeradius::Radclient;
use crate::support::node::{Node, Plan};
use crate::support::{Fallible, ensure};

#[test]
fn a_reply_of_3000_octets_crosses_a_link_of_mtu_1500() -> Fallible {
    let entries: Vec<String> = (0..15).map(|n| format!("{n:02}{}", "x".repeat(188))).collect();
    let responses: Vec<String> = entries
        .iter()
        .map(|text| format!("\"Cisco-AVPair = {text}\""))
        .collect();
    let document = format!(
        r#"
        [[policy]]
        name = "long"
        methods = ["mab"]
        rules = ["NAS-Port == 1"]
        responses = [{}]

        [[site]]
        name = "Site"
        tag = "site"
        policies = [{{ policy = "long", priority = 1 }}]

        [[site.client]]
        network = "10.9.3.2"
        secret = "testing123"

        [[site.client]]
        network = "fd00:9:3::2"
        secret = "testing123"

        [[site.mac]]
        address = "02-00-00-00-00-01"
        "#,
        responses.join(", ")
    );
    let (server, switch) = (Namespace::new()?, Namespace::new()?);
    link(&server, &switch)?;
    server.up("right", 1500, &["10.9.3.1/24", "fd00:9:3::1/64"])?;
    switch.up("left", 1500, &["10.9.3.2/24", "fd00:9:3::2/64"])?;
    let node = server.within(|| {
        Node::start(Plan {
            listen: r#"["0.0.0.0:1812", "[::]:1812"]"#,
            document: &document,
            ..Plan::default()
        })
    })?;
    for address in ["10.9.3.1:1812", "[fd00:9:3::1]:1812"] {
        let answers = switch.within(|| {
            let radclient = Radclient {
                server: address.parse()?,
                ..Radclient::new(&node)
            };
            let mac = "02-00-00-00-00-01";
            let packet = format!(
                "User-Name = \"{mac}\"\nCalling-Station-Id = \"{mac}\"\nNAS-Port = 1\nMessage-Authenticator = 0x00"
            );
            // once: a second packet would hide that the first reply was lost
            radclient.ask(&node, &[packet])
        })?;
        ensure(answers[0].all("Cisco-AVPair") == entries, || {
            format!("{:?}", answers[0])
        })?;
    }
    Ok(())
}
