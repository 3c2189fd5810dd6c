//! Who is answered at all: clients, signatures, Status-Server, probes, and a node that is not ready.

use portreeve::nas::Credentials;
use portreeve::radius::code::Code;
use portreeve::radius::packet::{Packet, number};
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;

use crate::support::*;

/// RFC 2865 section 3: "a request from a client for which the RADIUS server does not have a shared secret MUST be silently
/// discarded".
#[tokio::test]
async fn rule_2_1_an_unknown_client_gets_silence() {
    let mut node = Node::start(SITES).await;
    for (number, source) in ["203.0.113.9:50000", "192.0.3.1:50000", "[2001:db8::1]:50000"]
        .into_iter()
        .enumerate()
    {
        let mut switch = Switch::new(source);
        for mut attempt in [printer(PRINTER), laptop().attempt(LAPTOP_PORT)] {
            assert!(matches!(node.authenticate(&mut switch, &mut attempt), End::Silent));
        }
        assert_eq!(node.dropped(Reason::UnknownClient), 2 * (number as u64 + 1));
    }
    assert_eq!(node.server.open_conversations(), 0);
    assert!(node.records().is_empty());
}

/// Networks may nest, and the longest prefix has its own secret and site.
#[tokio::test]
async fn rule_2_1_the_longest_prefix_wins() {
    let nested = format!(
        "{SITES}\n[[site]]\nname = \"Hull\"\ntag = \"hull\"\n[[site.client]]\nnetwork = \"192.0.2.128/25\"\nsecret = \"another\"\n[[site.client]]\nnetwork = \"192.0.2.0/26\"\nsecret = \"over tls\"\nradsec = true\n"
    );
    let mut node = Node::start(&nested).await;
    node.authenticate(&mut Switch::new(LEEDS), &mut printer(PRINTER))
        .accept();
    assert_eq!(
        text(&node.record(), Text::Site),
        "leeds",
        "a client over TLS is none over UDP"
    );
    let within = node.authenticate(&mut Switch::new("192.0.2.200:50000"), &mut printer(PRINTER));
    assert!(matches!(within, End::Silent), "the wider network's secret is not tried");
    assert_eq!(node.dropped(Reason::BadMessageAuthenticator), 1);
}

/// Accounting is not taken yet: it is counted, so that whoever configured it sees that it comes and gets no answer.
#[tokio::test]
async fn accounting_is_counted_and_gets_no_answer() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let accounting = switch.write(Code::AccountingRequest, |writer| {
        writer.encoded(&attributes(&["Acct-Status-Type = Start", "Acct-Session-Id = 1"]));
    });
    assert!(node.deliver(switch.source, &accounting).is_silent());
    assert_eq!(node.counted("portreeve_requests_total{code=\"accounting-request\"}"), 1);
    assert_eq!(node.dropped(Reason::NotNetworkAccess), 1);
    // a stranger's is not counted among the requests
    assert!(
        node.deliver("203.0.113.9:50000".parse().unwrap(), &accounting)
            .is_silent()
    );
    assert_eq!(node.dropped(Reason::UnknownClient), 1);
    assert_eq!(node.counted("portreeve_requests_total{code=\"accounting-request\"}"), 1);
    let reauthenticate = switch.write(Code::CoaRequest, |_| ());
    assert!(node.deliver(switch.source, &reauthenticate).is_silent());
    assert_eq!(node.counted("portreeve_requests_total{code=\"other\"}"), 1);
    assert_eq!(node.dropped(Reason::MalformedPacket), 1);
    assert!(node.records().is_empty());
}

/// RFC 2865 section 3: what is shorter than its Length is dropped, what is longer is padded.
#[tokio::test]
async fn a_malformed_packet_is_dropped_and_padding_is_ignored() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let good = switch.next(&mut printer(PRINTER));
    let mut wrong_code = good.clone();
    wrong_code[0] = Code::AccessAccept.number();
    let mut attribute_too_long = good.clone();
    attribute_too_long[21] = 255;
    let broken: [&[u8]; 6] = [
        b"",
        b"x",
        &good[..19],
        &good[..good.len() - 1],
        &wrong_code,
        &attribute_too_long,
    ];
    for datagram in broken {
        assert!(node.deliver(switch.source, datagram).is_silent());
    }
    assert_eq!(node.dropped(Reason::MalformedPacket), 6);
    let padded = [&good[..], b"padding"].concat();
    let reply = node.deliver(switch.source, &padded).reply();
    assert_eq!(switch.read(&good, &reply).code(), Code::AccessAccept);
    assert_eq!(
        node.deliver(switch.source, &good).reply(),
        reply,
        "it is the same request"
    );
}

const MAB: &[&str] = &["NAS-Port-Type = Ethernet", "Calling-Station-Id = 02-00-00-00-00-01"];

/// A request by PAP, by no password, and by EAP, each unsigned.
fn unsigned(switch: &mut Switch) -> [Vec<u8>; 3] {
    let mut attempts = [
        mab_attempt(PRINTER, Credentials::Pap(PRINTER.as_bytes().to_vec()), MAB),
        mab_attempt(PRINTER, Credentials::None, MAB),
        laptop().attempt(LAPTOP_PORT),
    ];
    attempts.each_mut().map(|attempt| {
        let request = switch.next(attempt);
        switch.unsigned(&request)
    })
}

/// CVE-2024-3596: Message-Authenticator is required of every client, with a switch for each; EAP (RFC 3579 section 3.1) and a
/// request without a password need it always.
#[tokio::test]
async fn message_authenticator_is_required_unless_the_client_is_excused() {
    let excused = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nrequire_message_authenticator = false",
        1,
    );
    for (document, pap_is_answered) in [(SITES, false), (&*excused, true)] {
        let mut node = Node::start(document).await;
        let mut switch = Switch::new(LEEDS);
        let [pap, nothing, eap] = unsigned(&mut switch);
        let response = node.deliver(switch.source, &pap);
        assert_eq!(!response.is_silent(), pap_is_answered);
        if pap_is_answered {
            assert_eq!(switch.read(&pap, &response.reply()).code(), Code::AccessAccept);
        }
        assert!(node.deliver(switch.source, &nothing).is_silent());
        assert!(node.deliver(switch.source, &eap).is_silent());
        assert_eq!(
            node.dropped(Reason::NoMessageAuthenticator),
            if pap_is_answered { 2 } else { 3 }
        );
        // Excused from sending it, not from sending a right one.
        let mut forged = switch.next(&mut printer(PRINTER));
        forged[30] ^= 1;
        assert!(node.deliver(switch.source, &forged).is_silent());
        assert_eq!(node.dropped(Reason::BadMessageAuthenticator), 1);
    }
}

#[tokio::test]
async fn proxy_state_without_message_authenticator_is_dropped_unless_the_client_is_excused() {
    let excused = "secret = \"testing123\"\nrequire_message_authenticator = false";
    let limited = SITES.replacen("secret = \"testing123\"", excused, 1);
    let unlimited = SITES.replacen(
        "secret = \"testing123\"",
        &format!("{excused}\nlimit_proxy_state = false"),
        1,
    );
    for (document, answered) in [(&*limited, false), (&*unlimited, true)] {
        let mut node = Node::start(document).await;
        let mut switch = Switch::new(LEEDS);
        let request = switch.next(&mut printer(PRINTER));
        let proxied = switch.alter(&request, |attributes| {
            attributes.push((number::PROXY_STATE, b"x".to_vec()))
        });
        let unsigned = switch.unsigned(&proxied);
        assert_eq!(!node.deliver(switch.source, &unsigned).is_silent(), answered);
        assert_eq!(node.dropped(Reason::ProxyStateUnsigned), u64::from(!answered));
        assert!(
            !node.deliver(switch.source, &proxied).is_silent(),
            "signed, it is as good as any"
        );
    }
}

/// `[radius] message_authenticator = "observe"`: the clients that would be refused are answered, and listed.
#[tokio::test]
async fn observing_answers_and_lists_the_client() {
    let mut node = Node::with(SITES, |setup| setup.settings.observe_message_authenticator = true).await;
    let mut switch = Switch::new(LEEDS);
    node.authenticate(&mut switch, &mut printer(PRINTER)).accept();
    assert!(node.server.notices().unsigned_clients().is_empty());
    let [pap, nothing, eap] = unsigned(&mut switch);
    let reply = node.deliver(switch.source, &pap).reply();
    assert_eq!(switch.read(&pap, &reply).code(), Code::AccessAccept);
    // What RFC 3579 demands, and what nothing else vouches for, is not a matter of observation.
    assert!(node.deliver(switch.source, &nothing).is_silent());
    assert!(node.deliver(switch.source, &eap).is_silent());
    let request = switch.next(&mut printer(PRINTER));
    let proxied = switch.alter(&request, |attributes| {
        attributes.push((number::PROXY_STATE, b"x".to_vec()))
    });
    node.deliver(switch.source, &switch.unsigned(&proxied)).reply();
    let listed = node.server.notices().unsigned_clients();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].network.as_str(), listed[0].requests), ("192.0.2.0/24", 2));
    assert_eq!(listed[0].last_source, switch.source.ip());
    assert_eq!(listed[0].reason, Reason::ProxyStateUnsigned);
}

/// RFC 5997: Status-Server is answered by Access-Accept, and only if it is signed (section 3).
#[tokio::test]
async fn status_server_is_answered_and_is_no_authentication() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let status = switch.write(Code::StatusServer, |writer| {
        writer
            .message_authenticator()
            .attribute(number::NAS_IDENTIFIER, b"switch-1");
    });
    let reply = node.deliver(switch.source, &status).reply();
    let packet = switch.read(&status, &reply);
    assert_eq!((packet.code(), packet.attributes().count()), (Code::AccessAccept, 1));
    assert_eq!(node.counted("portreeve_requests_total{code=\"status-server\"}"), 1);
    let unsigned = switch.write(Code::StatusServer, |writer| {
        writer.attribute(number::NAS_IDENTIFIER, b"switch-1");
    });
    assert!(node.deliver(switch.source, &unsigned).is_silent());
    let excused = "secret = \"testing123\"\nrequire_message_authenticator = false";
    let mut lenient = Node::start(&SITES.replacen("secret = \"testing123\"", excused, 1)).await;
    assert!(lenient.deliver(switch.source, &unsigned).is_silent());
    // Nor does an Access-Request's credentials in it count for anything.
    let mut printer = switch.next(&mut printer(PRINTER));
    printer[0] = Code::StatusServer.number();
    let printer = switch.rewrite(&printer, |_| ());
    let reply = node.deliver(switch.source, &printer).reply();
    assert_eq!(switch.read(&printer, &reply).attributes().count(), 1);
    assert!(node.records().is_empty());
}

/// Test users that switches send are rejected at once, by PAP and by EAP.
#[tokio::test]
async fn a_probe_user_is_rejected_at_once() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let eap = Supplicant {
        identity: "radius-test",
        ..laptop()
    };
    let attempts = [
        mab_attempt("radius-test", Credentials::Pap(b"x".to_vec()), &[]),
        mab_attempt("radius-test", Credentials::None, MAB),
        eap.attempt(LAPTOP_PORT),
    ];
    for mut attempt in attempts {
        node.authenticate(&mut switch, &mut attempt).reject();
        assert_eq!(attempt.rounds(), 1);
        let record = node.record();
        assert_eq!((record.outcome, record.reason), (Outcome::Reject, Reason::Probe));
    }
    assert_eq!(node.server.open_conversations(), 0);
}

/// A node without a policy set answers nobody, so that switches go to the next one.
#[tokio::test]
async fn a_node_that_has_read_nothing_is_silent() {
    let mut node = Node::without_database().await;
    let mut switch = Switch::new(LEEDS);
    let status = switch.write(Code::StatusServer, |writer| {
        writer.message_authenticator();
    });
    assert!(node.deliver(switch.source, &status).is_silent());
    for mut attempt in [printer(PRINTER), laptop().attempt(LAPTOP_PORT)] {
        assert!(matches!(node.authenticate(&mut switch, &mut attempt), End::Silent));
    }
    assert_eq!(node.dropped(Reason::NotReady), 3);
}

/// A policy set older than `max_stale` is no policy set.
#[tokio::test]
async fn a_node_whose_policies_are_too_old_is_silent() {
    let mut node = Node::with(SITES, |setup| setup.settings.max_stale = std::time::Duration::ZERO).await;
    let mut switch = Switch::new(LEEDS);
    assert!(matches!(
        node.authenticate(&mut switch, &mut printer(PRINTER)),
        End::Silent
    ));
    assert_eq!(node.dropped(Reason::NotReady), 1);
}

/// The node's own probe goes the whole way, needs no client, and is no authentication that anybody counts; the same packet
/// from elsewhere is a stranger's.
#[tokio::test]
async fn the_nodes_own_probe_is_answered_only_from_its_own_socket() {
    let mut node = Node::start(SITES).await;
    let secret = std::sync::Arc::new(node.server.probe().secret().clone());
    let mac = portreeve::server::probe::MAC.to_string();
    let station = format!("Calling-Station-Id = {mac}");
    let attempt = || {
        portreeve::nas::Attempt::new(
            std::sync::Arc::clone(&secret),
            mac.clone().into_bytes(),
            attributes(&[&station]),
            Credentials::None,
        )
    };
    let mut own = Switch::new("127.0.0.1:40001");
    node.server.probe().register(vec![own.source]);
    node.authenticate(&mut own, &mut attempt()).accept();
    assert_eq!(node.server.probe().last_worker(), 1);
    let mut stranger = Switch::new("127.0.0.1:40003");
    assert!(matches!(node.authenticate(&mut stranger, &mut attempt()), End::Silent));
    assert!(matches!(
        node.authenticate(&mut Switch::new(LEEDS), &mut attempt()),
        End::Silent
    ));
    assert!(node.records().is_empty());
    assert_eq!(node.counted("portreeve_requests_total{code=\"access-request\"}"), 0);
}

/// Every datagram that is a prefix, or one octet off, of a good request: an answer or silence, never a panic, and nothing is
/// accepted.
#[tokio::test]
async fn a_request_with_any_octet_changed_is_never_accepted() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let good = switch.next(&mut printer(PRINTER));
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[at] ^= 1 << bit;
            if let Response::Reply(reply) = node.deliver(switch.source, &changed) {
                panic!(
                    "octet {at}, bit {bit}: {:?}",
                    Packet::parse(&reply).map(|packet| packet.code())
                );
            }
        }
    }
    node.deliver(switch.source, &good).reply();
}
