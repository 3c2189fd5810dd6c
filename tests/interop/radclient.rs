//! FreeRADIUS's `radclient`: MAC authentication in every spelling, and what is answered and what is not.

use portreeve::radius::code::Code;
use portreeve::radius::crypto::Secret;
use portreeve::radius::reply;
use portreeve::radius::writer::Writer;

use crate::support::freeradius::Radclient;
use crate::support::nas::{Nas, attributes, random};
use crate::support::node::{Node, Plan, message};
use crate::support::{Fallible, SECRET, ensure};

/// Switches with Message-Authenticator, one without, one that passes requests on for others.
const DOCUMENT: &str = r#"
[[site]]
name = "Site"
tag = "site"

[[site.client]]
network = "127.0.0.0/16"
secret = "testing123"

[[site.client]]
network = "127.0.3.1"
secret = "testing123"
require_message_authenticator = false

[[site.client]]
network = "127.0.3.2"
secret = "testing123"
require_message_authenticator = false
limit_proxy_state = false

[[site.client]]
network = "::1"
secret = "testing123"

[[site.mac]]
address = "02-ab-cd-ef-00-01"

[[site]]
name = "Elsewhere"
tag = "elsewhere"

[[site.client]]
network = "192.0.2.1"
secret = "another"

[[site.mac]]
address = "02-ab-cd-ef-00-02"
"#;

const SPELLINGS: [&str; 12] = [
    "02abcdef0001",
    "02ABCDEF0001",
    "02-ab-cd-ef-00-01",
    "02-AB-CD-EF-00-01",
    "02:ab:cd:ef:00:01",
    "02:AB:CD:EF:00:01",
    "02.ab.cd.ef.00.01",
    "02ab.cdef.0001",
    "02AB.CDEF.0001",
    "02AB-CDEF-0001",
    "02abcd-ef0001",
    "0-2-a-b-c-d-e-f-0-0-0-1",
];

const SIGNED: &str = "Message-Authenticator = 0x00";

fn node() -> Fallible<Node> {
    Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })
}

/// A MAC authentication by PAP, CHAP and Call-Check without a password.
fn three_kinds(name: &str, station: &str, more: &str) -> [String; 3] {
    let common = format!("User-Name = \"{name}\"\nCalling-Station-Id = \"{station}\"\n{SIGNED}\n{more}");
    [
        format!("{common}\nUser-Password = \"{name}\""),
        format!("{common}\nCHAP-Password = \"{name}\""),
        format!("{common}\nService-Type = Call-Check"),
    ]
}

#[test]
fn a_listed_mac_gets_in_by_pap_chap_and_call_check_in_every_spelling() -> Fallible {
    let node = node()?;
    let packets: Vec<_> = SPELLINGS
        .into_iter()
        .flat_map(|name| three_kinds(name, "02-AB-CD-EF-00-01", "NAS-Port-Type = Ethernet"))
        .collect();
    for (answer, packet) in Radclient::new(&node).ask(&node, &packets)?.iter().zip(&packets) {
        ensure(answer.is_accept(), || format!("{} to {packet}", answer.code))?;
    }
    // the station's address is spelled as the switch likes, too
    let packets: Vec<_> = SPELLINGS
        .into_iter()
        .flat_map(|station| three_kinds("02abcdef0001", station, ""))
        .collect();
    for (answer, packet) in Radclient::new(&node).ask(&node, &packets)?.iter().zip(&packets) {
        ensure(answer.is_accept(), || format!("{} to {packet}", answer.code))?;
    }
    Ok(())
}

#[test]
fn other_macs_and_borrowed_ones_are_refused_by_every_kind() -> Fallible {
    let node = node()?;
    let listed = "02abcdef0001";
    let cases = [
        ("nobody's", "02abcdef0099", "02abcdef0099", "", "mac-not-listed"),
        (
            "another site's",
            "02abcdef0002",
            "02abcdef0002",
            "",
            "mac-listed-elsewhere",
        ),
        ("another station", listed, "02abcdef0099", "", "mac-mismatch"),
        ("no station", listed, "", "", "mac-mismatch"),
        (
            "nas prompt",
            listed,
            listed,
            "Service-Type = NAS-Prompt-User",
            "not-network-access",
        ),
        (
            "administrative",
            listed,
            listed,
            "Service-Type = Administrative-User",
            "not-network-access",
        ),
        (
            "virtual port",
            listed,
            listed,
            "NAS-Port-Type = Virtual",
            "not-network-access",
        ),
        ("a user", "jane", listed, "", "mac-mismatch"),
    ];
    let mut packets = Vec::new();
    for (case, name, station, more, _) in cases {
        for (kind, packet) in ["pap", "chap", "none"].iter().zip(three_kinds(name, station, more)) {
            packets.push(format!("{packet}\nNAS-Identifier = \"{case} {kind}\""));
        }
    }
    let answers = Radclient::new(&node).ask(&node, &packets)?;
    for (answer, packet) in answers.iter().zip(&packets) {
        ensure(answer.code == "Access-Reject", || {
            format!("{} to {packet}", answer.code)
        })?;
    }
    for (case, .., reason) in cases {
        for kind in ["pap", "chap", "none"] {
            node.expect(&format!("{case} {kind}"), &[("outcome", "reject"), ("reason", reason)])?;
        }
    }
    // a password that is another's
    let wrong = "User-Name = \"02abcdef0001\"\nCalling-Station-Id = \"02abcdef0001\"\nNAS-Identifier = \"wrong\"";
    for kind in ["User-Password", "CHAP-Password"] {
        let packet = format!("{wrong}\n{SIGNED}\n{kind} = \"02abcdef0002\"");
        let answers = Radclient::new(&node).ask(&node, &[packet])?;
        ensure(answers[0].code == "Access-Reject", || answers[0].code.clone())?;
        node.expect("wrong", &[("reason", "mab-password")])?;
    }
    Ok(())
}

/// A PAP MAC authentication of the listed address, with or without Message-Authenticator.
fn pap(
    nas: &Nas,
    identifier: u8,
    authenticator: &[u8; 16],
    is_signed: bool,
    more: &[(u8, &[u8])],
) -> Fallible<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = Writer::request(&mut out, Code::AccessRequest, identifier, &nas.secret, authenticator);
    if is_signed {
        writer.message_authenticator();
    }
    writer
        .attribute(1, b"02abcdef0001")
        .attribute(31, b"02-AB-CD-EF-00-01")
        .user_password(b"02abcdef0001")
        .encoded(&attributes(more));
    writer.finish()?;
    Ok(out)
}

fn unsigned_without_password(nas: &Nas) -> Fallible<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = Writer::request(&mut out, Code::AccessRequest, 9, &nas.secret, &random()?);
    writer.attribute(1, b"02abcdef0001").attribute(31, b"02abcdef0001");
    writer.finish()?;
    Ok(out)
}

#[test]
fn what_is_not_authentic_gets_no_answer_and_is_counted_by_reason() -> Fallible {
    let node = node()?;
    let packet = format!(
        "{}\nNAS-Identifier = \"secret\"",
        three_kinds(SPELLINGS[0], SPELLINGS[0], "")[0]
    );
    let wrong = Radclient {
        secret: "not the secret",
        timeout_seconds: "1",
        ..Radclient::new(&node)
    };
    let answers = wrong.send(&node, &[packet])?;
    ensure(answers[0].is_none(), || {
        format!("an answer under a wrong secret: {answers:?}")
    })?;
    node.drops("bad-message-authenticator", 1)?;

    let proxy_state: &[(u8, &[u8])] = &[(33, b"proxy")];
    let strict = Nas::new(node.address(), "127.0.0.1")?;
    let (lax, proxy) = (
        Nas::new(node.address(), "127.0.3.1")?,
        Nas::new(node.address(), "127.0.3.2")?,
    );
    let mut broken = pap(&strict, 1, &random()?, true, &[])?;
    broken[20 + 2 + 15] ^= 1; // the last octet of Message-Authenticator, the first attribute
    let mut longer = pap(&strict, 2, &random()?, true, &[])?;
    longer[3] = 255; // a length beyond the datagram's end
    let cases = [
        (&strict, broken, "bad-message-authenticator", 2),
        (
            &strict,
            pap(&strict, 3, &random()?, false, &[])?,
            "no-message-authenticator",
            1,
        ),
        // the client's switch lets it off Message-Authenticator, but not where a proxy's state could hide a collision
        // (CVE-2024-3596)
        (
            &lax,
            pap(&lax, 4, &random()?, false, proxy_state)?,
            "proxy-state-unsigned",
            1,
        ),
        (&strict, longer, "malformed-packet", 1),
        (&strict, b"no packet".to_vec(), "malformed-packet", 2),
    ];
    for (nas, octets, reason, count) in &cases {
        nas.send(octets)?;
        node.drops(reason, *count)?;
    }
    let stranger = Nas::new(node.address(), "127.9.9.9")?;
    stranger.send(&pap(&strict, 5, &random()?, true, &[])?)?;
    node.drops("unknown-client", 1)?;
    // all of them were seen, so whatever was answered lies there
    for nas in [&strict, &lax, &proxy] {
        ensure(!nas.has_answer()?, || "an answer to what is not authentic".to_owned())?;
    }
    ensure(!stranger.has_answer()?, || "an answer to a stranger".to_owned())?;

    // and each is answered where its fault is none
    for (nas, octets) in [
        (&strict, pap(&strict, 6, &random()?, true, proxy_state)?),
        (&lax, pap(&lax, 7, &random()?, false, &[])?),
        (&proxy, pap(&proxy, 8, &random()?, false, proxy_state)?),
    ] {
        ensure(nas.exchange(&octets)?[0] == 2, || "no accept".to_owned())?;
    }
    // without a password nothing else proves that the sender knows the secret
    lax.send(&unsigned_without_password(&lax)?)?;
    node.drops("no-message-authenticator", 2)?;
    ensure(!lax.has_answer()?, || {
        "an answer to an unsigned request without a password".to_owned()
    })
}

#[test]
fn observe_answers_and_lists_the_client() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        radius: "message_authenticator = \"observe\"",
        ..Plan::default()
    })?;
    let proxy_state: &[(u8, &[u8])] = &[(33, b"proxy")];
    for (source, network, more, reason) in [
        ("127.0.0.1", "127.0.0.0/16", &[][..], "no-message-authenticator"),
        ("127.0.3.1", "127.0.3.1/32", proxy_state, "proxy-state-unsigned"),
    ] {
        let nas = Nas::new(node.address(), source)?;
        let answer = nas.exchange(&pap(&nas, 1, &random()?, false, more)?)?;
        ensure(answer[0] == 2, || format!("no accept but {}", answer[0]))?;
        let line = node.line("the client that would be refused", |line| {
            message(line).contains("would refuse") && line["client"] == network
        })?;
        ensure(line["reason"] == reason && line["source"] == source, || {
            line.to_string()
        })?;
    }
    let (status, body) = node.get("/unsigned-clients")?;
    let list: serde_json::Value = serde_json::from_str(&body)?;
    let clients: Vec<&str> = list["clients"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|each| each["client"].as_str())
        .collect();
    ensure(status == 200 && clients == ["127.0.0.0/16", "127.0.3.1/32"], || {
        body.clone()
    })?;
    // what proves nothing is not answered while it is observed either
    let nas = Nas::new(node.address(), "127.0.0.1")?;
    nas.send(&unsigned_without_password(&nas)?)?;
    node.drops("no-message-authenticator", 1)?;
    ensure(!nas.has_answer()?, || {
        "an answer to an unsigned request without a password".to_owned()
    })
}

/// RFC 5080 section 2.2.2: a retransmission is answered with the octets of the first answer; the same identifier with another
/// authenticator is another request.
#[test]
fn a_retransmission_gets_the_same_octets_and_another_request_its_own() -> Fallible {
    let node = node()?;
    let nas = Nas::new(node.address(), "127.0.0.1")?;
    let (one, other) = (random()?, random()?);
    let request = pap(&nas, 7, &one, true, &[(32, b"first")])?;
    let answer = nas.exchange(&request)?;
    for _ in 0..2 {
        ensure(nas.exchange(&request)? == answer, || "other octets".to_owned())?;
    }
    let another = nas.exchange(&pap(&nas, 7, &other, true, &[(32, b"second")])?)?;
    let secret = Secret::new(SECRET.as_bytes());
    for (octets, authenticator) in [(&answer, &one), (&another, &other)] {
        let reply = reply::verify(octets, 7, authenticator, &secret)?;
        ensure(reply.packet.code() == Code::AccessAccept, || "no accept".to_owned())?;
        ensure(reply.message_authenticator_first, || {
            "Message-Authenticator is not first".to_owned()
        })?;
    }
    node.authentication("second")?;
    let lines = node.lines();
    let firsts = lines.iter().filter(|line| line["nas_id"] == "first").count();
    ensure(firsts == 1, || format!("{firsts} authentications of one request"))
}

/// RFC 5997: answered when it is signed, and never without.
#[test]
fn status_server_is_answered() -> Fallible {
    let node = node()?;
    let status = Radclient {
        command: "status",
        ..Radclient::new(&node)
    };
    let answers = status.ask(&node, &[SIGNED.to_owned()])?;
    ensure(answers[0].is_accept(), || answers[0].code.clone())?;
    let nas = Nas::new(node.address(), "127.0.3.1")?;
    let mut bare = Vec::new();
    Writer::request(&mut bare, Code::StatusServer, 1, &nas.secret, &random()?).finish()?;
    nas.send(&bare)?;
    node.drops("no-message-authenticator", 1)?;
    ensure(!nas.has_answer()?, || {
        "an answer without Message-Authenticator".to_owned()
    })
}

#[test]
fn ipv6_is_served_alike() -> Fallible {
    let node = node()?;
    let over_v6 = Radclient {
        server: node.address_v6(),
        ..Radclient::new(&node)
    };
    let packet = format!(
        "{}\nNAS-Identifier = \"six\"\nNAS-IPv6-Address = ::1",
        three_kinds(SPELLINGS[0], SPELLINGS[0], "")[0]
    );
    let answers = over_v6.ask(&node, &[packet])?;
    ensure(answers[0].is_accept(), || answers[0].code.clone())?;
    node.expect("six", &[("client", "::1"), ("site", "site")])
}
