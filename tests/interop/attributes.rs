//! Attributes of every kind, decoded by `radclient -x` with FreeRADIUS's dictionaries.
//!
//! The one that comes from a certificate is `eapol::a_template_is_filled_from_the_certificate`, and the MS-MPPE keys are
//! held against the supplicant's in every test of `eapol` that gets in.

use crate::support::freeradius::{Answer, Radclient};
use crate::support::node::{Node, Plan};
use crate::support::{Fallible, ensure};

const DOCUMENT: &str = r#"
[[policy]]
name = "untagged"
methods = ["mab"]
rules = ["NAS-Port == 1"]
responses = [
    "Tunnel-Type = VLAN", "Tunnel-Medium-Type = IEEE-802", "Tunnel-Private-Group-Id = 1010",
    "Filter-Id = staff.in", "Session-Timeout = 3600", "Termination-Action = RADIUS-Request",
]

[[policy]]
name = "tagged"
methods = ["mab"]
rules = ["NAS-Port == 2"]
responses = [
    "Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120",
    "Tunnel-Type:31 = VLAN", "Tunnel-Medium-Type:31 = IEEE-802", "Tunnel-Private-Group-Id:31 = voice",
    "Tunnel-Password:1 = a secret of the tunnel", "Tunnel-Preference:1 = 66051",
]

[[policy]]
name = "vendors"
methods = ["mab"]
rules = ["NAS-Port == 3"]
responses = [
    "Cisco-AVPair = ip:inacl#10=permit udp any any eq 67",
    "Cisco-AVPair = ip:inacl#20=permit ip any host 192.0.2.1",
    "Cisco-AVPair = device-traffic-class=voice",
    "Aruba-Port-Auth-Mode = Multi-Domain-Mode", "Aruba-User-Role = printers", "HP-Privilege-Level = 15",
    "MS-Primary-DNS-Server = 192.0.2.53",
]

[[policy]]
name = "types"
methods = ["mab"]
rules = ["NAS-Port == 4"]
responses = [
    "Framed-IP-Address = 192.0.2.7", "Framed-IPv6-Prefix = 2001:db8:7::/64", "Framed-Interface-Id = 1:2:3:4",
    "Class = 0x00ff10", "Service-Type = Framed-User", "Reply-Message = 100%% of 5 \"quoted\" \u00fc",
    "Framed-MTU = 4294967295", "NAS-Filter-Rule = permit in ip from any to any",
    "Reply-Message = port %{NAS-Port} of %{Client-Shortname}",
]

[[site]]
name = "Site"
tag = "site"
policies = [
    { policy = "untagged", priority = 1 },
    { policy = "tagged", priority = 2 },
    { policy = "vendors", priority = 3 },
    { policy = "types", priority = 4 },
]

[[site.client]]
network = "127.0.0.1"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-01"

[[site.mac]]
address = "02-00-00-00-00-02"
responses = ["Tunnel-Private-Group-Id = 130", "Idle-Timeout = 60"]
"#;

fn ask(node: &Node, mac: &str, port: u32) -> Fallible<Answer> {
    let packet = format!(
        "User-Name = \"{mac}\"\nCalling-Station-Id = \"{mac}\"\nNAS-Port = {port}\nMessage-Authenticator = 0x00\n\
         Proxy-State = 0x01\nProxy-State = 0x0203"
    );
    let answer = Radclient::new(node).ask(node, &[packet])?.remove(0);
    ensure(answer.is_accept(), || format!("{} at port {port}", answer.code))?;
    // Message-Authenticator first (CVE-2024-3596), and the proxies' state as it came (RFC 2865 section 5.33)
    ensure(answer.attributes[0].0 == "Message-Authenticator", || {
        format!("{answer:?}")
    })?;
    ensure(answer.all("Proxy-State") == ["0x01", "0x0203"], || {
        format!("{answer:?}")
    })?;
    Ok(answer)
}

fn expect(answer: &Answer, expected: &[(&str, &[&str])]) -> Fallible {
    for (name, values) in expected {
        let seen = answer.all(name);
        ensure(seen == *values, || {
            format!("{name} is {seen:?} and not {values:?} in {answer:?}")
        })?;
    }
    Ok(())
}

#[test]
fn attributes_of_every_kind_are_read_by_freeradius() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let listed = "02-00-00-00-00-01";
    expect(
        &ask(&node, listed, 1)?,
        &[
            ("Tunnel-Type:0", &["VLAN"]),
            ("Tunnel-Medium-Type:0", &["IEEE-802"]),
            ("Tunnel-Private-Group-Id:0", &["1010"]),
            ("Filter-Id", &["staff.in"]),
            ("Session-Timeout", &["3600"]),
            ("Termination-Action", &["RADIUS-Request"]),
            ("User-Name", &[listed]),
        ],
    )?;
    expect(
        &ask(&node, listed, 2)?,
        &[
            ("Tunnel-Type:1", &["VLAN"]),
            ("Tunnel-Medium-Type:1", &["IEEE-802"]),
            ("Tunnel-Private-Group-Id:1", &["120"]),
            ("Tunnel-Type:31", &["VLAN"]),
            ("Tunnel-Medium-Type:31", &["IEEE-802"]),
            ("Tunnel-Private-Group-Id:31", &["voice"]),
            ("Tunnel-Password:1", &["a secret of the tunnel"]),
            ("Tunnel-Preference:1", &["66051"]),
        ],
    )?;
    expect(
        &ask(&node, listed, 3)?,
        &[
            (
                "Cisco-AVPair",
                &[
                    "ip:inacl#10=permit udp any any eq 67",
                    "ip:inacl#20=permit ip any host 192.0.2.1",
                    "device-traffic-class=voice",
                ],
            ),
            ("Aruba-Port-Auth-Mode", &["Multi-Domain-Mode"]),
            ("Aruba-User-Role", &["printers"]),
            ("HP-Privilege-Level", &["15"]),
            ("MS-Primary-DNS-Server", &["192.0.2.53"]),
        ],
    )?;
    expect(
        &ask(&node, listed, 4)?,
        &[
            ("Framed-IP-Address", &["192.0.2.7"]),
            ("Framed-IPv6-Prefix", &["2001:db8:7::/64"]),
            ("Framed-Interface-Id", &["1:2:3:4"]),
            ("Class", &["0x00ff10"]),
            ("Service-Type", &["Framed-User"]),
            ("Reply-Message", &["100% of 5 \\\"quoted\\\" \u{fc}", "port 4 of site"]),
            ("Framed-MTU", &["4294967295"]),
            ("NAS-Filter-Rule", &["permit in ip from any to any"]),
        ],
    )?;
    // the address's own go over the policy's, and each attribute comes once
    expect(
        &ask(&node, "02-00-00-00-00-02", 1)?,
        &[
            ("Tunnel-Private-Group-Id:0", &["130"]),
            ("Tunnel-Type:0", &["VLAN"]),
            ("Idle-Timeout", &["60"]),
            ("Filter-Id", &["staff.in"]),
        ],
    )
}
