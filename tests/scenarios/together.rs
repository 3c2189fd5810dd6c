//! Requests that a worker takes at once: each gets what it would get alone.

use std::sync::Arc;

use portreeve::radius::code::Code;
use portreeve::radius::crypto::Secret;
use portreeve::radius::packet::number;
use portreeve::reason::Reason;

use crate::support::*;

/// Longer than a block of MD5.
const OF_YORK: &str = "a secret of York's own, which has more octets than one block of MD5 can take";
const LISTED_AT_YORK: &str = "02-00-00-00-00-02";
const UNLISTED: &str = "02-00-00-00-00-99";

/// Leeds and York, each with a secret of its own.
fn sites() -> String {
    let (leeds, york) = SITES.split_at(SITES.rfind("[[site]]").unwrap());
    format!("{leeds}{}", york.replace("testing123", OF_YORK))
}

fn leeds() -> Switch {
    Switch::new(LEEDS)
}

fn york() -> Switch {
    let mut switch = Switch::new("198.51.100.1:50000");
    switch.secret = Arc::new(Secret::new(OF_YORK.as_bytes()));
    switch
}

/// MAC authentication by PAP, with so many octets that are of no interest.
fn by_mac(switch: &mut Switch, mac: &str, more: usize) -> Vec<u8> {
    switch.write(Code::AccessRequest, |writer| {
        writer
            .message_authenticator()
            .attribute(number::USER_NAME, mac.as_bytes())
            .user_password(mac.as_bytes())
            .attribute(number::CALLING_STATION_ID, mac.as_bytes())
            .attribute(number::NAS_PORT_TYPE, &15u32.to_be_bytes())
            .attribute(number::PROXY_STATE, &vec![b'x'; more]);
    })
}

#[tokio::test]
async fn each_is_verified_and_signed_with_its_own_secret() {
    let mut node = Node::start(&sites()).await;
    let (mut leeds, mut york) = (leeds(), york());
    for more in [0, 20, 60, 200] {
        for forged_at in 0..4 {
            let mut requests = [
                (leeds.clone(), by_mac(&mut leeds, PRINTER, more), Code::AccessAccept),
                (york.clone(), by_mac(&mut york, LISTED_AT_YORK, 0), Code::AccessAccept),
                (
                    leeds.clone(),
                    by_mac(&mut leeds, UNLISTED, 3 * more / 4),
                    Code::AccessReject,
                ),
            ];
            if let Some((_, forged, _)) = requests.get_mut(forged_at) {
                forged[4] ^= 1; // of its Request Authenticator
            }
            requests.rotate_left(more % 3);
            let datagrams = requests
                .each_ref()
                .map(|(switch, request, _)| (switch.source, request.clone()));
            let forged = node.dropped(Reason::BadMessageAuthenticator);
            let mut silent = 0;
            for (response, (switch, request, code)) in node.deliver_together(&datagrams).into_iter().zip(&requests) {
                match response.is_silent() {
                    true => silent += 1,
                    false => assert_eq!(switch.read(request, &response.reply()).code(), *code),
                }
            }
            assert_eq!(silent, u64::from(forged_at < 3));
            assert_eq!(node.dropped(Reason::BadMessageAuthenticator) - forged, silent);
            assert_eq!(node.records().len(), 3 - silent as usize);
        }
    }
}

/// RFC 5080 section 2.2.2: "silently discard any duplicate Access-Requests for which a Response has not yet been sent".
#[tokio::test]
async fn a_copy_beside_its_original_is_dropped_and_one_that_comes_later_answered() {
    let mut node = Node::start(SITES).await;
    let mut switch = leeds();
    let (first, other) = (by_mac(&mut switch, PRINTER, 0), by_mac(&mut switch, UNLISTED, 0));
    let mut responses = node
        .deliver_together(&[&first, &first, &other].map(|datagram| (switch.source, datagram.clone())))
        .into_iter();
    let reply = responses.next().unwrap().reply();
    assert_eq!(switch.read(&first, &reply).code(), Code::AccessAccept);
    assert!(responses.next().unwrap().is_silent());
    let rejected = responses.next().unwrap().reply();
    assert_eq!(node.dropped(Reason::Duplicate), 1);
    for (request, reply) in [(&first, reply), (&other, rejected)] {
        assert_eq!(node.deliver(switch.source, request).reply(), reply);
    }
    assert_eq!(node.records().len(), 2);
}

/// RFC 5080 section 2.2.2: with another Request Authenticator it is a new request, and the one before is forgotten.
#[tokio::test]
async fn of_two_under_one_identifier_both_are_answered_and_the_later_is_kept() {
    let mut node = Node::start(SITES).await;
    let switch = leeds();
    let write = |mac| by_mac(&mut switch.clone(), mac, 0);
    let (earlier, later) = (write(PRINTER), write(UNLISTED));
    assert_eq!(earlier[1], later[1]);
    let datagrams = [&earlier, &later].map(|datagram| (switch.source, datagram.clone()));
    let replies: Vec<Vec<u8>> = node
        .deliver_together(&datagrams)
        .into_iter()
        .map(Response::reply)
        .collect();
    assert_eq!(switch.read(&earlier, &replies[0]).code(), Code::AccessAccept);
    assert_eq!(switch.read(&later, &replies[1]).code(), Code::AccessReject);
    assert_eq!(node.deliver(switch.source, &later).reply(), replies[1]);
    assert_eq!(node.records().len(), 2);
    node.deliver(switch.source, &earlier).reply();
    assert_eq!(node.records().len(), 1, "worked on anew");
}

#[tokio::test]
async fn one_that_waits_holds_up_none_beside_it() {
    let mut node = Node::with(SITES, |setup| setup.directory.cache_octets = 0).await;
    let mut switch = leeds();
    let mut status = || {
        switch.write(Code::StatusServer, |writer| {
            writer.message_authenticator();
        })
    };
    let (before, behind) = (status(), status());
    let waits = by_mac(&mut switch, PRINTER, 0);
    let datagrams = [&before, &waits, &behind].map(|datagram| (switch.source, datagram.clone()));
    let mut responses = node.deliver_together(&datagrams).into_iter();
    let (first, pending) = (responses.next().unwrap().reply(), responses.next().unwrap().later());
    let third = responses.next().unwrap().reply();
    let second = node.resume(pending).await.reply();
    for (request, reply) in [(&before, first), (&waits, second), (&behind, third)] {
        assert_eq!(switch.read(request, &reply).code(), Code::AccessAccept);
        assert_eq!(node.deliver(switch.source, request).reply(), reply, "and it is kept");
    }
}
