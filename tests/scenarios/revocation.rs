//! A certificate whose revocation has to be learned first: the request waits for that, then for its site if need be.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use portreeve::eap::peer::Failure;
use portreeve::eap::tls::TlsVersion;
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;
use portreeve::trust::certificate::Certificate;
use portreeve::trust::revocation::{Fetch, Mode, Settings, Source};
use rcgen::{
    CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair, RevocationReason, RevokedCertParams, SerialNumber,
};

use crate::pki;
use crate::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

/// Lists of files and nothing else.
pub fn settings(mode: Mode, crl: Option<PathBuf>) -> Settings {
    Settings {
        mode,
        order: vec![Source::Crl],
        crl: crl.into_iter().collect(),
        ocsp_responder: None,
        ocsp_nonce: false,
        fetch: Fetch::Never,
        timeout: Duration::from_secs(1),
        max_age: Duration::from_secs(3_600),
        max_stale: Duration::ZERO,
        check_chain: true,
        crl_max_octets: 1 << 20,
    }
}

/// A list of the root's, good for an hour, in a file: with the laptop's certificate in it or not.
pub fn list(folder: &tempfile::TempDir, with_laptop: bool) -> PathBuf {
    let read = |name: &str| std::fs::read_to_string(pki::folder().unwrap().join(name)).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), KeyPair::from_pem(&read("ca.key")).unwrap()).unwrap();
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let now = rcgen::date_time_ymd(1970, 1, 1) + since_1970;
    let laptop = certificates("client").remove(0);
    let revoked = with_laptop.then(|| RevokedCertParams {
        serial_number: SerialNumber::from_slice(Certificate::parse(&laptop).unwrap().serial),
        revocation_time: now,
        reason_code: Some(RevocationReason::KeyCompromise),
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: now,
        next_update: now + Duration::from_secs(3_600),
        // so that it may take the place of one without
        crl_number: SerialNumber::from(1 + u64::from(with_laptop)),
        issuing_distribution_point: None,
        revoked_certs: revoked.into_iter().collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let file = folder.path().join(format!("{with_laptop}.crl"));
    std::fs::write(&file, params.signed_by(&issuer).unwrap().der()).unwrap();
    file
}

/// A node with such a list, whose signature nobody has verified yet.
async fn node(mode: Mode, with_laptop: bool, change: impl FnOnce(&mut Setup)) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let file = list(&folder, with_laptop);
    Node::with(SITES, |setup| {
        setup.revocation = Some(settings(mode, Some(file)));
        change(setup);
    })
    .await
}

/// The first device of a CA waits for its list to be verified; who comes later does not.
#[tokio::test]
async fn a_revoked_device_is_refused_with_the_alert_and_waits_only_the_first_time() {
    for version in VERSIONS {
        for mode in [Mode::Require, Mode::Prefer] {
            let mut node = node(mode, true, |_| ()).await;
            let mut switch = Switch::new(LEEDS);
            let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
            let (request, pending) = until_it_waits(&mut node, &mut switch, &mut attempt);
            assert!(
                node.deliver(switch.source, &request).is_silent(),
                "the first gets the answer"
            );
            assert_eq!(node.dropped(Reason::Duplicate), 1);
            let reply = node.resume(pending).await.reply();
            assert!(
                matches!(told(&mut attempt, &reply), Told::Challenge),
                "the alert comes before the end"
            );
            let ends = [
                node.authenticate(&mut switch, &mut attempt),
                node.authenticate(&mut switch, &mut laptop().version(version).attempt(LAPTOP_PORT)),
            ];
            for end in ends {
                let End::Reject(_, Some(Failure::Alert(alert))) = end else {
                    panic!("{version}: {end:?}")
                };
                assert_eq!(alert, "certificate_revoked");
            }
            for record in node.records() {
                assert_eq!(
                    (record.outcome, record.reason),
                    (Outcome::Reject, Reason::CertificateRevoked)
                );
                let detail = text(&record, Text::Detail);
                assert!(detail.contains(" (key compromise), says crl"), "{detail}");
                assert_eq!(
                    (text(&record, Text::Cn).as_str(), text(&record, Text::Policy).as_str()),
                    ("laptop-7", "")
                );
                assert_eq!(
                    (text(&record, Text::Site).as_str(), record.phase),
                    ("leeds", Some("deciding"))
                );
            }
        }
    }
}

/// In one request: first revocation, then the policies of a site that were evicted.
#[tokio::test]
async fn a_request_waits_for_revocation_and_then_for_its_site() {
    for version in VERSIONS {
        let mut node = node(Mode::Require, false, |setup| setup.directory.cache_octets = 0).await;
        let mut switch = Switch::new(LEEDS);
        let mut attempt = laptop().version(version).attempt(LAPTOP_PORT);
        let (request, pending) = until_it_waits(&mut node, &mut switch, &mut attempt);
        let pending = node.resume(pending).await.later();
        assert!(node.deliver(switch.source, &request).is_silent());
        let reply = node.resume(pending).await.reply();
        assert_eq!(node.deliver(switch.source, &request).reply(), reply);
        told(&mut attempt, &reply);
        let end = node.authenticate(&mut switch, &mut attempt);
        assert_eq!(vlan(&end.accept()).as_deref(), Some("120"));
        let record = node.record();
        assert_eq!(
            (record.reason, text(&record, Text::Detail).as_str()),
            (Reason::PolicyAccept, "")
        );
    }
}

/// Of whom nothing can be learned: `prefer` lets in and says why, `require` refuses. Nobody is asked, so nobody waits.
#[tokio::test]
async fn nothing_is_known_of_a_device_without_a_list() {
    for (mode, outcome, reason, detail) in [
        (
            Mode::Require,
            Outcome::Reject,
            Reason::RevocationUnavailable,
            "crl: there is no list of `/C=GB/O=Example/CN=Example Root`",
        ),
        (
            Mode::Prefer,
            Outcome::Accept,
            Reason::PolicyAccept,
            "let in all the same, revocation-unavailable: crl: there is no list of `/C=GB/O=Example/CN=Example Root`",
        ),
    ] {
        let mut node = Node::with(SITES, |setup| setup.revocation = Some(settings(mode, None))).await;
        node.authenticate(&mut Switch::new(LEEDS), &mut laptop().attempt(LAPTOP_PORT));
        let record = node.record();
        assert_eq!((record.outcome, record.reason), (outcome, reason));
        assert!(
            text(&record, Text::Detail).starts_with(detail),
            "{:?}",
            record.text(Text::Detail)
        );
    }
}

/// The list ends, and so does what it says of who is not in it; the clock is the node's.
#[tokio::test]
async fn a_list_lets_nobody_in_after_its_end() {
    let mut node = node(Mode::Require, false, |_| ()).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    let (_, pending) = until_it_waits(&mut node, &mut switch, &mut attempt);
    let reply = node.resume(pending).await.reply();
    told(&mut attempt, &reply);
    node.authenticate(&mut switch, &mut attempt).accept();
    node.advance(Duration::from_secs(3_590));
    node.authenticate(&mut switch, &mut laptop().attempt(LAPTOP_PORT))
        .accept();
    node.advance(Duration::from_secs(20));
    node.authenticate(&mut switch, &mut laptop().attempt(LAPTOP_PORT))
        .reject();
    let record = node.records().pop().unwrap();
    assert_eq!(record.reason, Reason::RevocationUnavailable);
    assert!(
        text(&record, Text::Detail).contains("expired at"),
        "{:?}",
        record.text(Text::Detail)
    );
}

/// Where too much waits already, the conversation is over, and said to be.
#[tokio::test]
async fn a_device_that_may_not_wait_is_overload() {
    let mut node = node(Mode::Require, false, |_| ()).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    let silent = loop {
        let request = switch.next(&mut attempt);
        match node.deliver_to(switch.source, &request, false) {
            Response::Reply(reply) => assert!(matches!(told(&mut attempt, &reply), Told::Challenge)),
            other => break other,
        }
    };
    assert!(silent.is_silent());
    assert_eq!(node.record().reason, Reason::Overload);
    assert_eq!(node.server.open_conversations(), 0);
}

pub async fn a_device_in_a_list() -> Reason {
    let mut node = node(Mode::Require, true, |_| ()).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    let (_, pending) = until_it_waits(&mut node, &mut switch, &mut attempt);
    let reply = node.resume(pending).await.reply();
    told(&mut attempt, &reply);
    node.authenticate(&mut switch, &mut attempt);
    node.record().reason
}

pub async fn a_device_without_a_list() -> Reason {
    let mut node = Node::with(SITES, |setup| setup.revocation = Some(settings(Mode::Require, None))).await;
    node.authenticate(&mut Switch::new(LEEDS), &mut laptop().attempt(LAPTOP_PORT));
    node.record().reason
}
