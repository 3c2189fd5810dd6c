//! Copies, late answers and strangers: what is answered again, what is dropped, what is refused (RFC 2865 section 3, RFC 3579
//! section 2, RFC 3748 section 4.1, RFC 5080 section 2.2.2).

use std::time::Duration;

use portreeve::conversations::STATE_OCTETS;
use portreeve::eap::method::EapType;
use portreeve::eap::packet::{self, EapPacket};
use portreeve::eap::tls::TlsVersion;
use portreeve::radius::code::Code;
use portreeve::radius::packet::{Packet, number};
use portreeve::radius::reply;
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;

use crate::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

/// RFC 5080 section 2.2.2: "the server MUST resend its original Response without reprocessing the request".
#[tokio::test]
async fn the_same_datagram_again_gets_the_same_bytes() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    for mut attempt in [
        printer(PRINTER),
        printer("02-00-00-00-00-99"),
        laptop().attempt(LAPTOP_PORT),
    ] {
        let request = switch.next(&mut attempt);
        let first = node.deliver(switch.source, &request).reply();
        node.advance(Duration::from_secs(4));
        assert_eq!(node.deliver(switch.source, &request).reply(), first);
    }
    assert_eq!(node.records().len(), 2, "each end is recorded once");
    assert_eq!(node.server.open_conversations(), 1);
}

/// RFC 5080 section 2.2.2: a request with the identifier of an earlier one, and another authenticator, is a new request.
#[tokio::test]
async fn one_identifier_with_two_authenticators_gets_two_answers() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let write = |mac: &str, authenticator: u8| {
        let mut datagram = Vec::new();
        let mut attempt = printer(mac);
        attempt.request(9, [authenticator; 16], &mut datagram).unwrap();
        datagram
    };
    let (listed, unlisted) = (write(PRINTER, 1), write("02-00-00-00-00-99", 2));
    let accept = node.deliver(switch.source, &listed).reply();
    let reject = node.deliver(switch.source, &unlisted).reply();
    assert_eq!(switch.read(&listed, &accept).code(), Code::AccessAccept);
    assert_eq!(switch.read(&unlisted, &reject).code(), Code::AccessReject);
    assert_eq!(node.deliver(switch.source, &unlisted).reply(), reject);
    // The first was forgotten with the second, and is worked on anew.
    let again = node.deliver(switch.source, &listed).reply();
    assert_eq!(switch.read(&listed, &again).code(), Code::AccessAccept);
    assert_eq!(node.records().len(), 3);
    // RFC 2865 section 3: the source port is of the key as well.
    switch.source.set_port(50_001);
    assert_eq!(
        switch
            .read(&listed, &node.deliver(switch.source, &listed).reply())
            .code(),
        Code::AccessAccept
    );
    assert_eq!(node.records().len(), 1);
}

/// RFC 5080 section 2.2.2: packets "with invalid Message-Authenticators MUST NOT affect the cache in any way".
#[tokio::test]
async fn a_request_that_fails_verification_touches_nothing() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut attempt, 2);
    let request = switch.next(&mut attempt);
    // The right State, EAP packet and identifier, from the right port, signed by somebody who does not know the secret.
    let mut forged = switch.alter(&request, |_| ());
    forged[4..20].fill(0xEE);
    assert!(node.deliver(switch.source, &forged).is_silent());
    assert_eq!(node.dropped(Reason::BadMessageAuthenticator), 1);
    // The same with the real authenticator: what was signed is another packet.
    let mut flipped = request.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    assert!(node.deliver(switch.source, &flipped).is_silent());
    let reply = node.deliver(switch.source, &request).reply();
    let Told::Challenge = told(&mut attempt, &reply) else {
        panic!("no challenge")
    };
    assert!(node.deliver(switch.source, &forged).is_silent());
    assert_eq!(
        node.deliver(switch.source, &request).reply(),
        reply,
        "the reply is still known"
    );
    assert_eq!(node.dropped(Reason::BadMessageAuthenticator), 3);
    let end = node.authenticate(&mut switch, &mut attempt);
    assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
}

/// RFC 3579 section 2.6.1: it is State that tells which conversation a request belongs to; switches change their port.
#[tokio::test]
async fn the_source_port_may_change_with_every_round() {
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
        let end = loop {
            switch.source.set_port(switch.source.port() + 1);
            match node.round(&mut switch, &mut attempt) {
                Told::Challenge => {}
                Told::End(end) => break end,
            }
        };
        assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
        assert_eq!(node.record().tls, Some(version.word()));
    }
}

/// Runs to the request that is answered by the accept, and returns it with the accept.
fn accepted(node: &mut Node, switch: &mut Switch, version: TlsVersion) -> (Vec<u8>, Vec<u8>) {
    let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
    loop {
        let request = switch.next(&mut attempt);
        let reply = node.deliver(switch.source, &request).reply();
        if let Told::End(end) = told(&mut attempt, &reply) {
            return (request, end.accept().as_bytes().to_vec());
        }
    }
}

/// A lost Access-Accept asked again from a new port: the same State and EAP response under a new identifier and
/// authenticator get the same EAP packet, attributes and keys, signed anew.
#[tokio::test]
async fn a_lost_accept_is_sent_again_to_a_new_port() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    for version in VERSIONS {
        let (request, accept) = accepted(&mut node, &mut switch, version);
        let keys = |request: &[u8], reply: &[u8]| {
            let authenticator = *Packet::parse(request).unwrap().authenticator();
            let packet = Packet::parse(reply).unwrap();
            reply::mppe_keys(&packet, &authenticator, &switch.secret)
                .unwrap()
                .expect("keys")
        };
        let mut moved = switch.clone();
        moved.source.set_port(50_777);
        let repeated = moved.rewrite(&request, |_| ());
        let again = node.deliver(moved.source, &repeated).reply();
        assert_ne!(again, accept);
        let packet = moved.read(&repeated, &again);
        assert_eq!(packet.code(), Code::AccessAccept);
        assert_eq!(packet.eap_message(), Packet::parse(&accept).unwrap().eap_message());
        assert_eq!(vlan(&packet).as_deref(), Some("120"));
        assert_eq!(keys(&repeated, &again), keys(&request, &accept));
        assert_eq!(node.record().reason, Reason::PolicyAccept, "and it is recorded once");
        // For as long as replies are kept; then the State belongs to no conversation.
        node.advance(Duration::from_secs(6));
        let late = moved.rewrite(&request, |_| ());
        let reply = node.deliver(moved.source, &late).reply();
        assert_eq!(moved.read(&late, &reply).code(), Code::AccessReject);
        assert_eq!(node.record().reason, Reason::SessionUnknown);
    }
}

/// The last answered EAP response again: the same EAP request again, signed anew. Nothing moves on.
#[tokio::test]
async fn a_lost_challenge_is_sent_again_and_the_conversation_goes_on() {
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
        node.rounds(&mut switch, &mut attempt, 1);
        let end = loop {
            let lost = switch.next(&mut attempt);
            let first = node.deliver(switch.source, &lost).reply();
            switch.source.set_port(switch.source.port() + 1);
            let request = switch.next(&mut attempt);
            let again = node.deliver(switch.source, &request).reply();
            let (first, second) = (switch.read(&lost, &first), switch.read(&request, &again));
            assert_eq!(first.eap_message(), second.eap_message());
            assert_eq!(first.first(number::STATE), second.first(number::STATE));
            if let Told::End(end) = told(&mut attempt, &again) {
                break end;
            }
        };
        assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
        node.record();
    }
}

/// The same response at two workers at the same moment, which the kernel brings about when a switch changes its port: one
/// works on it, and the other is dropped or sends the same. Never do both move the conversation.
#[tokio::test]
async fn copies_at_two_workers_at_once_move_a_conversation_once() {
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        for _ in 0..10 {
            let mut switch = Switch::new(LEEDS);
            let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
            node.rounds(&mut switch, &mut attempt, 1);
            let end = loop {
                let first = switch.next(&mut attempt);
                let mut moved = switch.clone();
                moved.source.set_port(50_001);
                let second = moved.rewrite(&first, |_| ());
                let at_once = [(switch.source, first.clone()), (moved.source, second.clone())];
                let [one, other] = node.deliver_at_once(&at_once).try_into().unwrap_or_else(|_| panic!());
                if let (Response::Reply(one), Response::Reply(other)) = (&one, &other) {
                    let (one, other) = (switch.read(&first, one), moved.read(&second, other));
                    assert_eq!((one.code(), one.eap_message()), (other.code(), other.eap_message()));
                }
                // Whoever was dropped asks again.
                let reply = match one {
                    Response::Reply(reply) => reply,
                    _ => node.deliver(switch.source, &first).reply(),
                };
                if let Told::End(end) = told(&mut attempt, &reply) {
                    break end;
                }
            };
            assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
            assert_eq!(node.record().reason, Reason::PolicyAccept);
        }
    }
}

/// RFC 3748 section 4.1: "an authenticator receiving a Response whose Identifier value does not match that of the currently
/// outstanding Request MUST silently discard the Response", and so of one with another Type.
#[tokio::test]
async fn a_response_that_does_not_fit_the_request_is_dropped_and_counted() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 6] = [
        ("a wrong identifier", |eap| eap[1] = eap[1].wrapping_add(1)),
        ("the identifier before", |eap| eap[1] = eap[1].wrapping_sub(1)),
        ("a wrong type", |eap| eap[4] = EapType::MD5.0),
        ("a type that does not exist", |eap| eap[4] = 200),
        ("a length beyond the packet", |eap| eap[2] = 0xFF),
        ("a success", |eap| eap[0] = 3),
    ];
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
        node.rounds(&mut switch, &mut attempt, 1);
        let end = loop {
            let request = switch.next(&mut attempt);
            for (what, change) in changes {
                let before = node.dropped(Reason::EapInvalid);
                let odd = switch.alter(&request, |attributes| change(value_of(attributes, number::EAP_MESSAGE)));
                assert!(node.deliver(switch.source, &odd).is_silent(), "{what}");
                assert_eq!(node.dropped(Reason::EapInvalid), before + 1, "{what}");
            }
            let reply = node.deliver(switch.source, &request).reply();
            if let Told::End(end) = told(&mut attempt, &reply) {
                break end;
            }
        };
        assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
        node.record();
    }
}

/// RFC 3748 section 5.3.1: a Nak answers the request that offers a method, and nothing later.
#[tokio::test]
async fn a_nak_after_the_method_has_begun_is_dropped() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut attempt, 2);
    let request = switch.next(&mut attempt);
    let nak = switch.alter(&request, |attributes| {
        let eap = value_of(attributes, number::EAP_MESSAGE);
        *eap = packet::build(packet::Code::Response, eap[1], EapType::NAK, &[&[EapType::MD5.0]]);
    });
    assert!(node.deliver(switch.source, &nak).is_silent());
    let reply = node.deliver(switch.source, &request).reply();
    told(&mut attempt, &reply);
    node.authenticate(&mut switch, &mut attempt).accept();
}

/// RFC 3579 section 2.2: "a fatal error ... MUST send an Access-Reject containing an EAP-Message attribute encapsulating
/// EAP-Failure".
#[track_caller]
fn assert_failure(switch: &Switch, request: &[u8], reply: Response) {
    let reply = reply.reply();
    let packet = switch.read(request, &reply);
    assert_eq!(packet.code(), Code::AccessReject);
    assert_eq!(packet.first(number::STATE), None);
    let sent = Packet::parse(request).unwrap().eap_message().unwrap();
    assert_eq!(
        packet.eap_message().unwrap(),
        packet::failure(sent.get(1).copied().unwrap_or_default())
    );
}

#[tokio::test]
async fn an_answer_after_the_conversation_timed_out_is_session_unknown() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut attempt, 1);
    let answered = switch.next(&mut attempt);
    told(&mut attempt, &node.deliver(switch.source, &answered).reply());
    let late = switch.next(&mut attempt);
    node.advance(Duration::from_secs(29));
    assert!(node.records().is_empty());
    node.advance(Duration::from_secs(1));
    assert_eq!(node.record().outcome, Outcome::Unfinished);
    let response = node.deliver(switch.source, &late);
    assert_failure(&switch, &late, response);
    let record = node.record();
    assert_eq!(
        (record.outcome, record.reason),
        (Outcome::Reject, Reason::SessionUnknown)
    );
    assert_eq!(text(&record, Text::Site), "leeds");
    // Nor is the last request repeated, which nobody could answer any more.
    let repeated = switch.rewrite(&answered, |_| ());
    let response = node.deliver(switch.source, &repeated);
    assert_failure(&switch, &repeated, response);
}

/// RFC 3579 section 2.1: User-Name is copied from the identity into every request of the conversation.
#[tokio::test]
async fn another_identity_midway_is_refused() {
    for changed in [Some(&b"somebody-else"[..]), None] {
        let mut node = Node::start(SITES).await;
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().attempt(LAPTOP_PORT);
        node.rounds(&mut switch, &mut attempt, 2);
        let request = switch.next(&mut attempt);
        let other = switch.rewrite(&request, |attributes| match changed {
            Some(name) => set(attributes, number::USER_NAME, name),
            None => attributes.retain(|(number, _)| *number != number::USER_NAME),
        });
        let response = node.deliver(switch.source, &other);
        assert_failure(&switch, &other, response);
        let record = node.record();
        assert_eq!(
            (record.outcome, record.reason),
            (Outcome::Reject, Reason::IdentityMismatch)
        );
        assert_eq!((record.rounds, text(&record, Text::User).as_str()), (3, "anonymous"));
        assert!(record.conversation.is_some());
        assert_eq!(node.server.open_conversations(), 0);
    }
}

/// RFC 3579 section 2.1, at the beginning: the identity is one thing and User-Name another.
#[tokio::test]
async fn an_identity_that_is_not_the_user_name_is_refused() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    let request = switch.next(&mut attempt);
    let other = switch.rewrite(&request, |attributes| {
        set(attributes, number::USER_NAME, b"somebody-else")
    });
    let response = node.deliver(switch.source, &other);
    assert_failure(&switch, &other, response);
    assert_eq!(node.record().reason, Reason::IdentityMismatch);
    assert_eq!(node.server.open_conversations(), 0);
}

/// The same where the identity is the answer to our own request: the reject ends the conversation, in which nobody can go
/// on, and which would be reported as given up by the supplicant half a minute later (RFC 3579 section 2.6.3).
#[tokio::test]
async fn an_identity_in_mid_conversation_that_is_not_the_user_name_ends_it() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let start = switch.write(Code::AccessRequest, |writer| {
        writer
            .message_authenticator()
            .eap_message(&[])
            .encoded(&attributes(LAPTOP_PORT));
    });
    let reply = node.deliver(switch.source, &start).reply();
    let challenge = switch.read(&start, &reply);
    let identifier = challenge.eap_message().unwrap()[1];
    let request = switch.next(&mut laptop().attempt(LAPTOP_PORT));
    let other = switch.rewrite(&request, |attributes| {
        set(attributes, number::STATE, challenge.first(number::STATE).unwrap());
        set(attributes, number::USER_NAME, b"somebody-else");
        value_of(attributes, number::EAP_MESSAGE)[1] = identifier;
    });
    let response = node.deliver(switch.source, &other);
    assert_failure(&switch, &other, response);
    assert_eq!(node.server.open_conversations(), 0);
    let record = node.record();
    assert_eq!(
        (record.outcome, record.reason, record.rounds),
        (Outcome::Reject, Reason::IdentityMismatch, 2)
    );
    assert!(record.conversation.is_some());
    node.advance(Duration::from_secs(31));
    assert!(node.records().is_empty());
}

/// State is bound to the client and to Calling-Station-Id. Whoever shows another's State gets nothing, and does no harm.
#[tokio::test]
async fn a_state_of_another_client_or_device_is_conversation_changed() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut attempt, 2);
    let request = switch.next(&mut attempt);
    let mut york = Switch::new("198.51.100.1:50000");
    let stolen = york.rewrite(&request, |_| ());
    let response = node.deliver(york.source, &stolen);
    assert_failure(&york, &stolen, response);
    assert_eq!(node.record().reason, Reason::ConversationChanged);
    for station in [Some(&b"02-00-00-00-00-78"[..]), None] {
        let moved = switch.rewrite(&request, |attributes| match station {
            Some(station) => set(attributes, number::CALLING_STATION_ID, station),
            None => attributes.retain(|(number, _)| *number != number::CALLING_STATION_ID),
        });
        let response = node.deliver(switch.source, &moved);
        assert_failure(&switch, &moved, response);
        assert_eq!(node.record().reason, Reason::ConversationChanged);
    }
    let reply = node.deliver(switch.source, &request).reply();
    told(&mut attempt, &reply);
    node.authenticate(&mut switch, &mut attempt).accept();
}

/// A State that this node does not know: of another node behind the same balancer, of a time before a restart, of nobody.
#[tokio::test]
async fn an_unknown_state_is_refused_or_if_so_configured_dropped() {
    for silent in [false, true] {
        let mut node = Node::with(SITES, |setup| setup.settings.unknown_state_is_silent = silent).await;
        let mut other = Node::with(SITES, |setup| setup.settings.node = 8).await;
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().attempt(LAPTOP_PORT);
        other.rounds(&mut switch, &mut attempt, 2);
        let theirs = switch.next(&mut attempt);
        let requests = [
            theirs.clone(),
            switch.rewrite(&theirs, |attributes| set(attributes, number::STATE, &[7; STATE_OCTETS])),
            switch.rewrite(&theirs, |attributes| set(attributes, number::STATE, b"x")),
            switch.rewrite(&theirs, |attributes| set(attributes, number::STATE, b"")),
            switch.rewrite(&theirs, |attributes| {
                attributes.retain(|(number, _)| *number != number::STATE)
            }),
        ];
        for request in &requests {
            let response = node.deliver(switch.source, request);
            if silent {
                assert!(response.is_silent());
                assert!(node.records().is_empty());
            } else {
                assert_failure(&switch, request, response);
                assert_eq!(node.record().reason, Reason::SessionUnknown);
            }
        }
        let dropped = if silent { requests.len() as u64 } else { 0 };
        assert_eq!(node.dropped(Reason::SessionUnknown), dropped);
        // The node that knows it goes on.
        told(&mut attempt, &other.deliver(switch.source, &theirs).reply());
        other.authenticate(&mut switch, &mut attempt).accept();
    }
}

/// A device that begins anew at its port takes the place of what it left behind, and of nothing else.
#[tokio::test]
async fn a_new_start_of_the_same_device_at_the_same_port_replaces_the_old() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut old = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut old, 2);
    let other_port = LAPTOP_PORT.iter().map(|line| match line.starts_with("NAS-Port-Id") {
        true => "NAS-Port-Id = Gi1/0/8",
        false => line,
    });
    let other_device = LAPTOP_PORT.iter().map(|line| match line.starts_with("Calling") {
        true => "Calling-Station-Id = 02-00-00-00-00-78",
        false => line,
    });
    let mut others = [other_port.collect::<Vec<_>>(), other_device.collect()].map(|lines| laptop().attempt(&lines));
    for other in &mut others {
        node.rounds(&mut switch, other, 1);
    }
    assert_eq!(node.server.open_conversations(), 3);
    assert!(node.records().is_empty());

    let mut new = laptop().attempt(LAPTOP_PORT);
    switch.source.set_port(50_001);
    node.rounds(&mut switch, &mut new, 1);
    let record = node.record();
    assert_eq!(
        (record.outcome, record.reason),
        (Outcome::Unfinished, Reason::SupplicantStopped)
    );
    assert_eq!(text(&record, Text::Detail), "the device began anew at the same port");
    assert_eq!(node.server.open_conversations(), 3);
    let late = switch.next(&mut old);
    let response = node.deliver(switch.source, &late);
    assert_failure(&switch, &late, response);
    assert_eq!(node.record().reason, Reason::SessionUnknown);
    for attempt in others.iter_mut().chain([&mut new]) {
        node.authenticate(&mut switch, attempt).accept();
    }
}

/// RFC 3579 section 2.6.2: a server "MUST respond to an Access-Request encapsulating an EAP-Request with an Access-Reject",
/// which "SHOULD include an EAP-Response/Nak packet indicating no preferred method".
#[tokio::test]
async fn attempted_role_reversal_is_rejected() {
    for in_conversation in [false, true] {
        let mut node = Node::start(SITES).await;
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().attempt(LAPTOP_PORT);
        if in_conversation {
            node.rounds(&mut switch, &mut attempt, 2);
        }
        let next = switch.next(&mut attempt);
        let request = switch.rewrite(&next, |attributes| {
            *value_of(attributes, number::EAP_MESSAGE) =
                packet::build(packet::Code::Request, 17, EapType::MD5, &[&[1, 2]]);
        });
        let reply = node.deliver(switch.source, &request).reply();
        let packet = switch.read(&request, &reply);
        assert_eq!(packet.code(), Code::AccessReject);
        let message = packet.eap_message().unwrap();
        let nak = EapPacket::parse(&message).unwrap();
        assert_eq!(
            (nak.identifier, nak.eap_type, nak.data),
            (17, Some(EapType::NAK), &[0][..])
        );
        // the reject ends the conversation: nothing is left of it that would be reported later
        assert_eq!(node.server.open_conversations(), 0);
        let record = node.record();
        assert_eq!(record.reason, Reason::EapInvalid);
        assert_eq!(record.conversation.is_some(), in_conversation);
        assert_eq!(record.rounds, if in_conversation { 3 } else { 1 });
    }
}

/// RFC 3579 section 2.1: EAP-Start, an EAP-Message without data, is answered by the request for the identity; the NAS names the
/// user once it has learned it.
#[tokio::test]
async fn an_eap_start_is_asked_for_its_identity() {
    let mut node = Node::start(SITES).await;
    for version in VERSIONS {
        let mut switch = Switch::new(LEEDS);
        let start = switch.write(Code::AccessRequest, |writer| {
            writer
                .message_authenticator()
                .eap_message(&[])
                .encoded(&attributes(LAPTOP_PORT));
        });
        let reply = node.deliver(switch.source, &start).reply();
        let challenge = switch.read(&start, &reply);
        assert_eq!(challenge.code(), Code::AccessChallenge);
        let message = challenge.eap_message().unwrap();
        let identity = EapPacket::parse(&message).unwrap();
        assert_eq!(
            (identity.code, identity.eap_type),
            (packet::Code::Request, Some(EapType::IDENTITY))
        );
        // From here on it is as if the NAS had asked for the identity itself.
        let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
        let request = switch.next(&mut attempt);
        let request = switch.alter(&request, |attributes| {
            set(attributes, number::STATE, challenge.first(number::STATE).unwrap());
            value_of(attributes, number::EAP_MESSAGE)[1] = identity.identifier;
        });
        told(&mut attempt, &node.deliver(switch.source, &request).reply());
        let end = node.authenticate(&mut switch, &mut attempt);
        assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
        let record = node.record();
        assert_eq!(text(&record, Text::User), "anonymous");
    }
}
