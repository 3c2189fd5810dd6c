//! What replies carry, and what they must not.

use portreeve::eap::peer::PeerSettings;
use portreeve::eap::tls::TlsVersion;
use portreeve::nas::Credentials;
use portreeve::radius::code::Code;
use portreeve::radius::packet::{Packet, number};
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;

use crate::support::*;

/// Each reply of one EAP-TLS conversation, with the request that it answers.
fn conversation(
    node: &mut Node,
    switch: &mut Switch,
    supplicant: &Supplicant,
    lines: &[&str],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut attempt = supplicant.attempt(lines);
    let mut exchanges = Vec::new();
    loop {
        let request = switch.next(&mut attempt);
        let reply = node.deliver(switch.source, &request).reply();
        let told = told(&mut attempt, &reply);
        exchanges.push((request, reply));
        if let Told::End(_) = told {
            return exchanges;
        }
    }
}

/// CVE-2024-3596: Message-Authenticator is the first attribute of every reply. [`Switch::read`] checks it.
#[tokio::test]
async fn every_reply_has_message_authenticator_first() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut exchanges = conversation(&mut node, &mut switch, &laptop(), LAPTOP_PORT);
    exchanges.extend(conversation(
        &mut node,
        &mut switch,
        &laptop().certificate("foreign"),
        LAPTOP_PORT,
    ));
    let status = switch.write(Code::StatusServer, |writer| {
        writer.message_authenticator();
    });
    let user = |name| mab_attempt(name, Credentials::Pap(b"x".to_vec()), &[]);
    let others = [
        switch.next(&mut printer(PRINTER)),
        switch.next(&mut printer("02-00-00-00-00-99")),
        switch.next(&mut user("alice")),
        switch.next(&mut user("radius-test")),
        status,
    ];
    for request in others {
        let reply = node.deliver(switch.source, &request).reply();
        exchanges.push((request, reply));
    }
    let mut codes: Vec<u8> = exchanges
        .iter()
        .map(|(request, reply)| switch.read(request, reply).code().number())
        .collect();
    codes.dedup();
    codes.sort();
    codes.dedup();
    assert_eq!(codes, [2, 3, 11]);
}

/// RFC 2865 section 5.33: Proxy-State "MUST be copied unmodified" into the reply, "and in order" where there are several.
#[tokio::test]
async fn proxy_states_come_back_in_order() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let states: [&[u8]; 4] = [b"second", b"\x00\xFF", b"first", &[7; 253]];
    let with_states = |attributes: &mut Vec<(u8, Vec<u8>)>| {
        for (index, state) in states.iter().enumerate() {
            attributes.insert(index * 2 % attributes.len(), (number::PROXY_STATE, state.to_vec()));
        }
    };
    let mut requests = vec![
        switch.next(&mut printer(PRINTER)),
        switch.next(&mut printer("02-00-00-00-00-99")),
        switch.next(&mut laptop().attempt(LAPTOP_PORT)),
        switch.write(Code::StatusServer, |writer| {
            writer.message_authenticator().attribute(number::NAS_IDENTIFIER, b"x");
        }),
    ];
    for request in &mut requests {
        *request = switch.alter(request, with_states);
        let reply = node.deliver(switch.source, request).reply();
        let sent: Vec<_> = Packet::parse(request).unwrap().all(number::PROXY_STATE).collect();
        assert_eq!(sent.len(), 4);
        let packet = switch.read(request, &reply);
        assert_eq!(
            packet.all(number::PROXY_STATE).collect::<Vec<_>>(),
            sent,
            "{:?}",
            packet.code()
        );
    }
}

/// RFC 2865 section 5.44: of what policies name, Access-Reject carries Reply-Message alone; beside EAP not even that
/// (RFC 3579 section 2.6.5).
#[tokio::test]
async fn a_reject_carries_only_what_a_reject_may() {
    let rejecting = r#"
[[policy]]
name = "no"
action = "reject"
methods = ["eap-tls", "mab"]
rules = ["User-Name present"]
responses = ["Tunnel-Private-Group-Id:1 = 666", "Reply-Message = go away", "Session-Timeout = 60", "Cisco-AVPair = x=y"]

[[site]]
name = "Leeds"
tag = "leeds"
policies = [{ policy = "no", priority = 1 }]
[[site.client]]
network = "192.0.2.0/24"
secret = "testing123"
[[site.mac]]
address = "02-00-00-00-00-01"
"#;
    let numbers = |packet: &Packet<'_>| {
        packet
            .attributes()
            .map(|attribute| attribute.number)
            .collect::<Vec<_>>()
    };
    let mut node = Node::start(rejecting).await;
    let mut switch = Switch::new(LEEDS);
    let end = node.authenticate(&mut switch, &mut printer(PRINTER));
    let reject = end.reject();
    assert_eq!(numbers(&reject), [number::MESSAGE_AUTHENTICATOR, number::REPLY_MESSAGE]);
    assert_eq!(reject.first(number::REPLY_MESSAGE), Some(&b"go away"[..]));
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let end = node.authenticate(&mut switch, &mut laptop().version(version).attempt(LAPTOP_PORT));
        assert_eq!(
            numbers(&end.reject()),
            [number::MESSAGE_AUTHENTICATOR, number::EAP_MESSAGE]
        );
    }
    let end = node.authenticate(
        &mut switch,
        &mut md5_printer(PRINTER).attempt(&["Calling-Station-Id = 02-00-00-00-00-01"]),
    );
    assert_eq!(
        numbers(&end.reject()),
        [number::MESSAGE_AUTHENTICATOR, number::EAP_MESSAGE]
    );
    for record in node.records() {
        assert_eq!((record.outcome, record.reason), (Outcome::Reject, Reason::PolicyReject));
        assert_eq!((record.text(Text::Vlan), record.text(Text::Acl)), (None, None));
    }
}

/// RFC 3579 section 2.6.5 forbids Reply-Message beside EAP-Message; a policy that accepts and names it has its way.
#[tokio::test]
async fn a_reply_message_beside_eap_is_there_only_where_an_accepting_policy_names_it() {
    let with = SITES.replacen("responses = [", "responses = [\"Reply-Message = hello\", ", 1);
    for (document, expected) in [(&*with, Some(&b"hello"[..])), (SITES, None)] {
        let mut node = Node::start(document).await;
        let mut switch = Switch::new(LEEDS);
        let exchanges = conversation(&mut node, &mut switch, &laptop(), LAPTOP_PORT);
        let (accept, challenges) = exchanges.split_last().unwrap();
        let accept = switch.read(&accept.0, &accept.1);
        assert_eq!(accept.code(), Code::AccessAccept);
        assert_eq!(accept.first(number::REPLY_MESSAGE), expected);
        for (request, reply) in challenges {
            let challenge = switch.read(request, reply);
            let numbers: Vec<_> = challenge.attributes().map(|attribute| attribute.number).collect();
            let mut kinds = numbers.clone();
            kinds.dedup();
            let expected = [number::MESSAGE_AUTHENTICATOR, number::EAP_MESSAGE, number::STATE];
            assert_eq!(kinds, expected, "a challenge authorises nothing: {numbers:?}");
        }
    }
}

/// RFC 3579 section 2.1: the User-Name comes back in the accept; one that a policy names takes its place.
#[tokio::test]
async fn the_user_name_comes_back_in_the_accept() {
    let named = SITES.replacen(
        "responses = [",
        "responses = [\"User-Name = %{TLS-Client-Cert-Common-Name}\", ",
        1,
    );
    for (document, expected) in [(SITES, &b"anonymous"[..]), (&*named, b"laptop-7")] {
        let mut node = Node::start(document).await;
        let mut switch = Switch::new(LEEDS);
        let end = node.authenticate(&mut switch, &mut laptop().attempt(LAPTOP_PORT));
        let accept = end.accept();
        assert_eq!(accept.all(number::USER_NAME).collect::<Vec<_>>(), [expected]);
        let end = node.authenticate(&mut switch, &mut printer(PRINTER));
        assert_eq!(end.accept().first(number::USER_NAME), Some(PRINTER.as_bytes()));
    }
}

/// RFC 2865 section 5: "Text of length zero (0) MUST NOT be sent", and a switch may well drop a reply that has one.
#[tokio::test]
async fn an_empty_user_name_does_not_come_back() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let nameless = Supplicant {
        identity: "",
        ..laptop()
    };
    let end = node.authenticate(&mut switch, &mut nameless.attempt(LAPTOP_PORT));
    assert_eq!(end.accept().first(number::USER_NAME), None);
}

/// RFC 3579 section 2.4: no EAP packet is larger than Framed-MTU less 4, nor than the client's own setting.
#[tokio::test]
async fn no_eap_packet_is_larger_than_the_link() {
    let client = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nfragment_size = 300",
        1,
    );
    for (document, lines, most) in [
        (SITES, &["Framed-MTU = 500"][..], 496),
        (SITES, &["Framed-MTU = 9000"], 1_024),
        (SITES, &[], 1_024),
        (&*client, &["Framed-MTU = 1400"], 300),
        (&*client, &["Framed-MTU = 200"], 196),
        // Below what EAP needs to be worth its while: a switch that means something else by it.
        (SITES, &["Framed-MTU = 0"], 64),
    ] {
        let mut node = Node::with(document, |setup| {
            // Chains of RSA, so that there is something to cut.
            setup.trust = trust_files("rsa4096-server", &["rsa4096-ca"]);
        })
        .await;
        let mut switch = Switch::new(LEEDS);
        let supplicant = Supplicant {
            root: "rsa4096-ca",
            ..laptop().certificate("rsa4096-client")
        };
        let exchanges = conversation(&mut node, &mut switch, &supplicant, lines);
        let sizes: Vec<usize> = exchanges
            .iter()
            .map(|(_, reply)| Packet::parse(reply).unwrap().eap_message().unwrap().len())
            .collect();
        assert_eq!(sizes.iter().max(), Some(&most), "{lines:?}: {sizes:?}");
        assert_eq!(node.record().reason, Reason::PolicyAccept);
    }
}

/// A supplicant that sends as much at once as a RADIUS packet carries, in all of its EAP-Messages.
#[tokio::test]
async fn a_request_that_is_full_of_eap_gets_in() {
    let mut node = Node::with(SITES, |setup| {
        setup.trust = trust_files("rsa4096-server", &["rsa4096-ca"]);
        setup.settings.fragment_size = 4_000;
    })
    .await;
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let supplicant = Supplicant {
            root: "rsa4096-ca",
            ..laptop().version(version).certificate("rsa4096-chain")
        };
        // with its root, so that there is enough to send
        let mut tls = supplicant.tls();
        let shown = tls.certificate.as_mut().unwrap();
        shown.chain.extend(certificates("rsa4096-ca"));
        let settings = PeerSettings {
            fragment_size: 3_960,
            ..(*settings_over(tls)).clone()
        };
        let mut attempt = eap_attempt(&settings.into(), &["NAS-Port-Type = Ethernet"]);
        let (mut switch, mut largest) = (Switch::new(LEEDS), 0);
        let end = loop {
            let request = switch.next(&mut attempt);
            largest = largest.max(request.len());
            match told(&mut attempt, &node.deliver(switch.source, &request).reply()) {
                Told::Challenge => {}
                Told::End(end) => break end,
            }
        };
        end.accept();
        assert!((4_060..=4_096).contains(&largest), "{version}: {largest}");
    }
}

/// A reply of more than 4,096 octets cannot be: a reject, decided before TLS 1.3 promises success.
#[tokio::test]
async fn a_reply_that_would_be_too_long_is_a_reject() {
    let filler = format!("\"Cisco-AVPair = {}\", ", "x".repeat(230)).repeat(14);
    let document = SITES.replace(
        "responses = [\"Tunnel-Type",
        &format!("responses = [{filler}\"Tunnel-Type"),
    );
    let mut node = Node::start(&document).await;
    let mut switch = Switch::new(LEEDS);
    let proxied = |attributes: &mut Vec<(u8, Vec<u8>)>| {
        for _ in 0..3 {
            attributes.push((number::PROXY_STATE, vec![1; 240]));
        }
    };
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for (through_proxy, reason) in [(false, Reason::PolicyAccept), (true, Reason::ReplyTooLong)] {
            let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
            let end = loop {
                let mut request = switch.next(&mut attempt);
                if through_proxy {
                    request = switch.alter(&request, proxied);
                }
                match told(&mut attempt, &node.deliver(switch.source, &request).reply()) {
                    Told::Challenge => {}
                    Told::End(end) => break end,
                }
            };
            let record = node.record();
            assert_eq!(record.reason, reason, "{version}");
            if through_proxy {
                let reject = end.reject();
                assert_eq!(reject.all(number::PROXY_STATE).count(), 3);
                assert_eq!((record.outcome, record.text(Text::Vlan)), (Outcome::Reject, None));
            } else {
                assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
            }
        }
    }
    for (through_proxy, code) in [(false, Code::AccessAccept), (true, Code::AccessReject)] {
        let mut request = switch.next(&mut printer(PRINTER));
        if through_proxy {
            request = switch.alter(&request, proxied);
        }
        let reply = node.deliver(switch.source, &request).reply();
        assert_eq!(switch.read(&request, &reply).code(), code);
    }
    assert_eq!(node.records().pop().unwrap().reason, Reason::ReplyTooLong);
}
