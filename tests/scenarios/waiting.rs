//! Requests whose site has to be compiled first: the worker goes on, and each gets its right answer.

use std::time::Duration;

use portreeve::eap::tls::TlsVersion;
use portreeve::radius::code::Code;
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;

use crate::support::*;

/// A node whose cache holds no site at all.
async fn node() -> Node {
    Node::with(SITES, |setup| setup.directory.cache_octets = 0).await
}

#[tokio::test]
async fn an_evicted_site_is_compiled_again_and_decides() {
    let mut node = node().await;
    let mut switch = Switch::new(LEEDS);
    for (mac, code, reason) in [
        (PRINTER, Code::AccessAccept, Reason::PolicyAccept),
        ("02-00-00-00-00-99", Code::AccessReject, Reason::MacNotListed),
    ] {
        let request = switch.next(&mut printer(mac));
        let pending = node.deliver(switch.source, &request).later();
        let reply = node.resume(pending).await.reply();
        assert_eq!(switch.read(&request, &reply).code(), code);
        let record = node.record();
        assert_eq!(record.reason, reason);
        assert_eq!(decided_at(&record), Some(node.directory.snapshot().revision.clone()));
        assert_eq!(node.deliver(switch.source, &request).reply(), reply, "and it is kept");
    }
}

/// RFC 5080 section 2.2.2: "silently discard any duplicate Access-Requests for which a Response has not yet been sent"; and the
/// State finds the conversation being worked on whatever port asks.
#[tokio::test]
async fn a_conversation_that_waits_drops_copies_from_the_old_port_and_from_a_new_one() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let mut node = node().await;
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
        let (request, pending) = until_it_waits(&mut node, &mut switch, &mut attempt);
        assert!(node.deliver(switch.source, &request).is_silent());
        assert_eq!(node.dropped(Reason::Duplicate), 1);
        let mut moved = switch.clone();
        moved.source.set_port(50_001);
        let repeated = moved.rewrite(&request, |_| ());
        assert!(node.deliver(moved.source, &repeated).is_silent());
        assert_eq!(node.dropped(Reason::Duplicate), 2);

        let reply = node.resume(pending).await.reply();
        // The lost answer is there for who asks again, from either port.
        assert_eq!(node.deliver(switch.source, &request).reply(), reply);
        let again = node.deliver(moved.source, &repeated).reply();
        assert_eq!(
            moved.read(&repeated, &again).eap_message(),
            switch.read(&request, &reply).eap_message()
        );
        let Told::Challenge = told(&mut attempt, &reply) else {
            panic!("{version}: the end of the handshake is a challenge")
        };
        let end = node.authenticate(&mut switch, &mut attempt);
        assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
        assert_eq!(node.record().reason, Reason::PolicyAccept);
    }
}

#[tokio::test]
async fn two_requests_at_once_for_an_evicted_site_both_get_theirs() {
    let mut node = node().await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    let (_, laptop) = until_it_waits(&mut node, &mut switch, &mut attempt);
    let printers = [PRINTER, "02-00-00-00-00-99"].map(|mac| {
        let request = switch.next(&mut printer(mac));
        let pending = node.deliver(switch.source, &request).later();
        (request, pending)
    });
    // They come back in another order than they went.
    let mut codes = Vec::new();
    for (request, pending) in printers.into_iter().rev() {
        let reply = node.resume(pending).await.reply();
        codes.push(switch.read(&request, &reply).code());
    }
    assert_eq!(codes, [Code::AccessReject, Code::AccessAccept]);
    let reply = node.resume(laptop).await.reply();
    told(&mut attempt, &reply);
    node.authenticate(&mut switch, &mut attempt).accept();
    assert_eq!(node.records().len(), 3);
}

/// The decision is the evaluation at the revision that its record names, also where the policies change while it waits.
#[tokio::test]
async fn a_change_while_a_request_waits() {
    let mut node = node().await;
    let mut switch = Switch::new(LEEDS);
    let request = switch.next(&mut printer(PRINTER));
    let pending = node.deliver(switch.source, &request).later();
    let revision = node.import(&SITES.replace("= 130", "= 131")).await;
    let reply = node.resume(pending).await.reply();
    assert_eq!(vlan(&switch.read(&request, &reply)).as_deref(), Some("131"));
    assert_eq!(decided_at(&node.record()), Some(revision));
}

/// Where too much waits already, a request is dropped, and a conversation that could not be decided is said to be over.
#[tokio::test]
async fn a_request_that_may_not_wait_is_overload() {
    let mut node = node().await;
    let mut switch = Switch::new(LEEDS);
    let request = switch.next(&mut printer(PRINTER));
    assert!(node.deliver_to(switch.source, &request, false).is_silent());
    assert_eq!(node.dropped(Reason::Overload), 1);
    // The switch's next try finds room.
    let pending = node.deliver(switch.source, &request).later();
    let reply = node.resume(pending).await.reply();
    assert_eq!(switch.read(&request, &reply).code(), Code::AccessAccept);
    node.record();

    let mut attempt = laptop().attempt(LAPTOP_PORT);
    let silent = loop {
        let request = switch.next(&mut attempt);
        match node.deliver_to(switch.source, &request, false) {
            Response::Reply(reply) => assert!(matches!(told(&mut attempt, &reply), Told::Challenge)),
            other => break other,
        }
    };
    assert!(silent.is_silent());
    let record = node.record();
    assert_eq!((record.outcome, record.reason), (Outcome::Silent, Reason::Overload));
    assert_eq!(text(&record, Text::Cn), "laptop-7");
    assert_eq!(text(&record, Text::Site), "leeds");
    assert_eq!(node.server.open_conversations(), 0);
}

/// A device that begins anew while its first attempt waits: the first is answered as it was asked, and is over.
#[tokio::test]
async fn a_conversation_replaced_while_it_waits_is_over() {
    let mut node = node().await;
    let mut switch = Switch::new(LEEDS);
    let mut old = laptop().version(TlsVersion::V13).attempt(LAPTOP_PORT);
    let (_, pending) = until_it_waits(&mut node, &mut switch, &mut old);
    let mut new = laptop().version(TlsVersion::V13).attempt(LAPTOP_PORT);
    node.rounds(&mut switch, &mut new, 1);
    node.advance(Duration::from_millis(5));
    node.resume(pending).await;
    let record = node.record();
    assert_eq!((record.outcome, record.phase), (Outcome::Unfinished, Some("finishing")));
    assert_eq!(text(&record, Text::Detail), "the device began anew at the same port");
    assert_eq!(node.server.open_conversations(), 1);
    let (_, pending) = until_it_waits(&mut node, &mut switch, &mut new);
    let reply = node.resume(pending).await.reply();
    told(&mut new, &reply);
    node.authenticate(&mut switch, &mut new).accept();
}
