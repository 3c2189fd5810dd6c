//! MAC authentication, and what only looks like it (sections 2.3, 2.4 and 3 of the contract).

use portreeve::eap::peer::Failure;
use portreeve::eap::tls::TlsVersion;
use portreeve::nas::{Attempt, Credentials};
use portreeve::radius::packet::number;
use portreeve::reason::Reason;
use portreeve::server::record::{Method, Outcome};

use crate::support::*;

/// How a printer, or who wants to be taken for one, authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Pap,
    Chap,
    Nothing,
    EapMd5,
}

const EACH: [By; 4] = [By::Pap, By::Chap, By::Nothing, By::EapMd5];

fn attempt(by: By, user: &'static str, password: &'static str, lines: &[&str]) -> Attempt {
    let octets = password.as_bytes().to_vec();
    match by {
        By::Pap => mab_attempt(user, Credentials::Pap(octets), lines),
        By::Chap => mab_attempt(user, Credentials::Chap(octets), lines),
        By::Nothing => mab_attempt(user, Credentials::None, lines),
        By::EapMd5 => Supplicant {
            identity: user,
            ..md5_printer(password)
        }
        .attempt(lines),
    }
}

const AT_PORT: &str = "NAS-Port-Type = Ethernet";
const STATION: &str = "Calling-Station-Id = 02-00-00-00-00-01";

#[tokio::test]
async fn a_listed_printer_gets_in_by_every_method_and_spelling() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    for by in EACH {
        for user in [
            PRINTER,
            "020000000001",
            "02:00:00:00:00:01",
            "0200.0000.0001",
            "0200-0000-0001",
        ] {
            let end = node.authenticate(&mut switch, &mut attempt(by, user, user, &[AT_PORT, STATION]));
            let accept = end.accept();
            assert_eq!(vlan(&accept).as_deref(), Some("130"), "{by:?} {user}");
            assert_eq!(accept.first(number::USER_NAME), Some(user.as_bytes()));
            let record = node.record();
            assert_eq!((record.outcome, record.reason), (Outcome::Accept, Reason::PolicyAccept));
            assert_eq!(record.method, Some(Method::Mab));
            assert_eq!(record.eap_type, (by == By::EapMd5).then_some("md5"));
            assert_eq!(
                record.mac.map(|mac| mac.to_string()).as_deref(),
                Some("02-00-00-00-00-01")
            );
        }
    }
}

/// Who is refused, for what, by each way of asking.
#[tokio::test]
async fn what_is_not_mac_authentication_is_refused_with_its_reason() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let elsewhere = "Calling-Station-Id = 02-00-00-00-00-02";
    let unlisted = "Calling-Station-Id = 02-00-00-00-00-99";
    let cases: [(&str, &'static str, &[&str], Reason, Reason); 11] = [
        (
            "listed nowhere",
            "020000000099",
            &[AT_PORT, unlisted],
            Reason::MacNotListed,
            Reason::MacNotListed,
        ),
        (
            "listed at york",
            "020000000002",
            &[AT_PORT, elsewhere],
            Reason::MacListedElsewhere,
            Reason::MacListedElsewhere,
        ),
        (
            "another's address",
            PRINTER,
            &[AT_PORT, unlisted],
            Reason::MacMismatch,
            Reason::MacMismatch,
        ),
        (
            "no station",
            PRINTER,
            &[AT_PORT],
            Reason::MacMismatch,
            Reason::MacMismatch,
        ),
        (
            "a telephone",
            PRINTER,
            &["Calling-Station-Id = 0207 946 0000"],
            Reason::MacMismatch,
            Reason::MacMismatch,
        ),
        // 802.1X's ordinary case, so that a wish for MD5 is a wish for a method that is not offered.
        (
            "a user at a device",
            "alice",
            &[AT_PORT, STATION],
            Reason::MacMismatch,
            Reason::MethodRefused,
        ),
        (
            "a user",
            "alice",
            &[AT_PORT],
            Reason::NoCredentials,
            Reason::MethodRefused,
        ),
        (
            "a login",
            "alice",
            &["Service-Type = NAS-Prompt-User"],
            Reason::NotNetworkAccess,
            Reason::NotNetworkAccess,
        ),
        (
            "a login by MAC",
            PRINTER,
            &[STATION, "Service-Type = NAS-Prompt-User"],
            Reason::NotNetworkAccess,
            Reason::NotNetworkAccess,
        ),
        (
            "an administrator",
            PRINTER,
            &[STATION, "Service-Type = Administrative-User"],
            Reason::NotNetworkAccess,
            Reason::NotNetworkAccess,
        ),
        (
            "no port at all",
            PRINTER,
            &[STATION, "NAS-Port-Type = Virtual"],
            Reason::NotNetworkAccess,
            Reason::NotNetworkAccess,
        ),
    ];
    for (what, user, lines, without_eap, by_eap) in cases {
        for by in EACH {
            let end = node.authenticate(&mut switch, &mut attempt(by, user, user, lines));
            end.reject();
            let record = node.record();
            let expected = if by == By::EapMd5 { by_eap } else { without_eap };
            assert_eq!(
                (record.outcome, record.reason),
                (Outcome::Reject, expected),
                "{what}, {by:?}"
            );
            assert_eq!(text(&record, Text::Site), "leeds", "{what}, {by:?}");
        }
    }
}

/// `mab_password`: the MAC (default), any, or a fixed secret.
#[tokio::test]
async fn the_password_is_the_one_that_the_client_uses() {
    let fixed = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nmab_password = \"let-me-in\"",
        1,
    );
    let any = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nmab_password = \"any\"",
        1,
    );
    let (other, fixed_one) = ("something else", "let-me-in");
    for (document, password, accepted) in [
        (SITES, PRINTER, [true, true, true, true]),
        (SITES, "020000000001", [true, true, true, true]),
        (SITES, other, [false, false, true, false]),
        (SITES, "02-00-00-00-00-02", [false, false, true, false]),
        (&*any, other, [true, true, true, true]),
        (&*fixed, fixed_one, [true, true, false, true]),
        (&*fixed, PRINTER, [false, false, false, false]),
    ] {
        let mut node = Node::start(document).await;
        let mut switch = Switch::new(LEEDS);
        for (by, accepted) in EACH.into_iter().zip(accepted) {
            let end = node.authenticate(&mut switch, &mut attempt(by, PRINTER, password, &[AT_PORT, STATION]));
            let record = node.record();
            if accepted {
                end.accept();
                assert_eq!(record.reason, Reason::PolicyAccept, "{password}, {by:?}");
            } else {
                end.reject();
                assert_eq!(record.reason, Reason::MabPassword, "{password}, {by:?}");
            }
        }
    }
}

/// Some switches send a password of no octets, others none at all: it is the same.
#[tokio::test]
async fn an_empty_password_is_none() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    node.authenticate(&mut switch, &mut attempt(By::Pap, PRINTER, "", &[AT_PORT, STATION]))
        .accept();
}

/// `mab_identity = "user-name"`, for gear that sends no Calling-Station-Id.
#[tokio::test]
async fn a_client_may_name_the_device_by_user_name_alone() {
    let document = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nmab_identity = \"user-name\"",
        1,
    );
    let mut node = Node::start(&document).await;
    let mut switch = Switch::new(LEEDS);
    for by in EACH {
        node.authenticate(&mut switch, &mut attempt(by, PRINTER, PRINTER, &[AT_PORT]))
            .accept();
        assert_eq!(node.record().reason, Reason::PolicyAccept);
        let other = "Calling-Station-Id = 02-00-00-00-00-99";
        node.authenticate(&mut switch, &mut attempt(by, PRINTER, PRINTER, &[AT_PORT, other]))
            .reject();
        assert_eq!(
            node.record().reason,
            Reason::MacMismatch,
            "{by:?}: a different one is still another's"
        );
    }
}

/// An endpoint past its `valid_until` is refused, whatever the policies say.
#[tokio::test]
async fn a_listing_that_has_expired_is_refused() {
    let mut node = Node::start(SITES).await;
    let until = unix_seconds(node.clock.wall()) + 3_600;
    let document = SITES.replace(
        "address = \"02-00-00-00-00-01\"",
        &format!("address = \"02-00-00-00-00-01\"\nvalid_until = {until}"),
    );
    node.import(&document).await;
    let mut switch = Switch::new(LEEDS);
    node.authenticate(&mut switch, &mut printer(PRINTER)).accept();
    node.record();
    node.advance(std::time::Duration::from_secs(3_601));
    for by in EACH {
        node.authenticate(&mut switch, &mut attempt(by, PRINTER, PRINTER, &[AT_PORT, STATION]))
            .reject();
        let record = node.record();
        assert_eq!(
            (record.reason, record.method),
            (Reason::MacExpired, Some(Method::Mab)),
            "{by:?}"
        );
    }
}

/// TLS stays open to every identity: a laptop whose supplicant names itself by its MAC address gets in by its certificate,
/// under the policies for certificates.
#[tokio::test]
async fn a_supplicant_whose_identity_is_a_mac_gets_in_by_certificate() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    // The same address, so that MD5 is offered first and refused; another, and none, so that it is not.
    let stations: [&[&str]; 3] = [
        &[AT_PORT, STATION],
        &[AT_PORT, "Calling-Station-Id = 02-00-00-00-00-99"],
        &[AT_PORT],
    ];
    for lines in stations {
        for version in [TlsVersion::V12, TlsVersion::V13] {
            let supplicant = Supplicant {
                identity: PRINTER,
                ..laptop().version(version)
            };
            let end = node.authenticate(&mut switch, &mut supplicant.attempt(lines));
            assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
            let record = node.record();
            assert_eq!((record.method, record.eap_type), (Some(Method::EapTls), Some("tls")));
            assert_eq!(text(&record, Text::Policy), "laptops");
        }
    }
}

/// A listed MAC as User-Name is no way in for a device with a bad certificate.
#[tokio::test]
async fn a_listed_identity_does_not_excuse_a_certificate() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let supplicant = Supplicant {
        identity: PRINTER,
        ..laptop().certificate("foreign")
    };
    node.authenticate(&mut switch, &mut supplicant.attempt(&[AT_PORT, STATION]))
        .reject();
    assert_eq!(node.record().reason, Reason::UnknownCa);
}

/// A laptop that Naks to MD5 hoping to be let in like a printer.
#[tokio::test]
async fn a_laptop_that_asks_for_md5_is_refused() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let supplicant = Supplicant {
        identity: "laptop-7",
        ..md5_printer("whatever")
    };
    let end = node.authenticate(&mut switch, &mut supplicant.attempt(LAPTOP_PORT));
    let End::Reject(_, Some(Failure::NoMethod(_))) = end else {
        panic!("{end:?}")
    };
    let record = node.record();
    assert_eq!(record.reason, Reason::MethodRefused);
    assert_eq!(text(&record, Text::Detail), "offered EAP-TLS, wanted MD5-Challenge");
}

/// Section 2.4: the endpoint's own responses go over the policy's; without a matching policy the listing is the accept; the
/// fallback does not apply.
#[tokio::test]
async fn a_listing_accepts_with_its_own_responses() {
    let document = SITES.replace(
        "address = \"02-00-00-00-00-01\"",
        "address = \"02-00-00-00-00-01\"\nresponses = [\"Tunnel-Private-Group-Id:1 = 135\"]",
    );
    let mut node = Node::start(&document).await;
    let mut switch = Switch::new(LEEDS);
    let end = node.authenticate(&mut switch, &mut printer(PRINTER));
    let accept = end.accept();
    assert_eq!((vlan(&accept).as_deref(), accept.all(81).count()), (Some("135"), 1));
    assert_eq!(text(&node.record(), Text::Vlan), "135");
    // Over a wireless port no policy for printers matches.
    let wireless = ["NAS-Port-Type = Wireless-802.11", STATION];
    let end = node.authenticate(&mut switch, &mut attempt(By::Pap, PRINTER, PRINTER, &wireless));
    assert_eq!(vlan(&end.accept()).as_deref(), Some("135"));
    let record = node.record();
    assert_eq!(record.reason, Reason::MacListed);
    assert_eq!(text(&record, Text::FailedRule), "printers: NAS-Port-Type == Ethernet");
}

/// Sections 2.3 and 2.4: an unlisted MAC is for `mab-unknown` policies alone.
#[tokio::test]
async fn an_unlisted_mac_is_for_policies_that_name_it() {
    let unknown = "02-00-00-00-00-99";
    let quarantine = "\n[[policy]]\nname = \"quarantine\"\nmethods = [\"mab-unknown\"]\nrules = [\"NAS-Port-Type == Ethernet\"]\nresponses = [\"Tunnel-Type:1 = VLAN\", \"Tunnel-Medium-Type:1 = IEEE-802\", \"Tunnel-Private-Group-Id:1 = 999\"]\n";
    let document = SITES.replacen(
        "policies = [",
        "policies = [{ policy = \"quarantine\", priority = 3 }, ",
        1,
    ) + quarantine;
    let mut node = Node::start(&document).await;
    let mut switch = Switch::new(LEEDS);
    let end = node.authenticate(&mut switch, &mut printer(unknown));
    assert_eq!(vlan(&end.accept()).as_deref(), Some("999"));
    let record = node.record();
    assert_eq!(
        (record.method, record.reason),
        (Some(Method::MabUnknown), Reason::PolicyAccept)
    );
    // Neither a listed MAC nor a certificate is let in by it.
    let end = node.authenticate(&mut switch, &mut printer(PRINTER));
    assert_eq!(vlan(&end.accept()).as_deref(), Some("130"));
    let mut york = Switch::new("198.51.100.1:50000");
    node.authenticate(&mut york, &mut printer(unknown)).reject();
}
