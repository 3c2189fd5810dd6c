//! A wall clock that is wrong: what is out of date by it is refused, and nothing else happens.

use portreeve::eap::peer::ClientCertificate;
use portreeve::eap::tls::TlsVersion;
use portreeve::nas::Attempt;
use portreeve::reason::Reason;
use rustls_pki_types::PrivateKeyDer;

use crate::support::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

/// A laptop whose certificate began an hour ago and ends in twelve, under a CA of its own, which is as old; and the CA.
fn short_lived() -> (ClientCertificate, String) {
    let hours = |hours: i64| {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        let then = now.as_secs().checked_add_signed(hours * HOUR).unwrap();
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(then)
    };
    let params = |name: &str, until: i64| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        (params.not_before, params.not_after) = (hours(-1), hours(until));
        params
    };
    let mut authority = params("Short-lived CA", 48);
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let mut device = params("laptop-7", 12);
    device.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let device = device.signed_by(&key, &authority).unwrap();
    let certificate = ClientCertificate {
        chain: vec![device.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    };
    (certificate, authority.pem())
}

/// A node at Leeds that lets in a short-lived laptop, and a printer until noon tomorrow.
async fn node() -> (Node, impl Fn(TlsVersion) -> Attempt) {
    let (certificate, authority) = short_lived();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short-lived.pem");
    std::fs::write(&path, authority).unwrap();
    let until = jiff::Timestamp::now() + jiff::Span::new().hours(12);
    let document = SITES.replacen(
        "address = \"02-00-00-00-00-01\"",
        &format!("address = \"02-00-00-00-00-01\"\nvalid_until = {until:.0}"),
        1,
    );
    let node = Node::with(&document, |setup| setup.trust.client_ca.push(path)).await;
    let attempt = move |version| {
        let mut tls = laptop().version(version).tls();
        tls.certificate = Some(ClientCertificate {
            chain: certificate.chain.clone(),
            key: certificate.key.clone_key(),
        });
        eap_attempt(&settings_over(tls), LAPTOP_PORT)
    };
    (node, attempt)
}

#[tokio::test]
async fn what_is_out_of_date_by_the_clock_is_refused_and_comes_back_with_the_time() {
    let (mut node, short_lived) = node().await;
    let mut switch = Switch::new(LEEDS);
    let to_1970 = -unix_seconds(std::time::SystemTime::now());
    use Reason::{CertificateExpired, CertificateNotYetValid, MacExpired};
    for (off, certificate, listed) in [
        (0, None, None),
        (DAY, Some(CertificateExpired), Some(MacExpired)),
        (3 * DAY, Some(CertificateExpired), Some(MacExpired)),
        (0, None, None),
        (-DAY, Some(CertificateNotYetValid), None),
        (to_1970, Some(CertificateNotYetValid), None),
        (to_1970 - 40_000 * DAY, Some(CertificateNotYetValid), None),
        (i64::from(i32::MAX) * 100, Some(CertificateExpired), Some(MacExpired)),
        (0, None, None),
    ] {
        node.clock.is_off_by(off);
        for version in VERSIONS {
            let end = node.authenticate(&mut switch, &mut short_lived(version));
            let record = node.record();
            match certificate {
                None => assert_eq!(
                    vlan(&end.accept()).as_deref(),
                    Some("120"),
                    "{off} {version}: {record:?}"
                ),
                Some(reason) => {
                    end.reject();
                    assert_eq!(
                        record.reason,
                        reason,
                        "{off} {version}: {:?}",
                        record.text(Text::Detail)
                    );
                }
            }
        }
        let end = node.authenticate(&mut switch, &mut printer(PRINTER));
        match listed {
            None => assert_eq!(vlan(&end.accept()).as_deref(), Some("130"), "{off}"),
            Some(reason) => {
                end.reject();
                assert_eq!(node.record().reason, reason, "{off}");
                continue;
            }
        }
        node.record();
    }
}

/// Before 1970 there is no time that a certificate could be valid at.
#[tokio::test]
async fn before_1970_the_log_says_why() {
    let (mut node, short_lived) = node().await;
    node.clock.is_off_by(-unix_seconds(std::time::SystemTime::now()) - DAY);
    for version in VERSIONS {
        node.authenticate(&mut Switch::new(LEEDS), &mut short_lived(version))
            .reject();
        let detail = text(&node.record(), Text::Detail);
        assert!(
            detail.starts_with("this machine's clock says a time before 1970"),
            "{detail}"
        );
    }
}

/// A clock that jumps between two packets of a conversation.
#[tokio::test]
async fn a_jump_in_mid_conversation_ends_in_a_decision() {
    let (mut node, short_lived) = node().await;
    let mut switch = Switch::new(LEEDS);
    for off in [DAY, -DAY, -unix_seconds(std::time::SystemTime::now()) - DAY] {
        for version in VERSIONS {
            for rounds in 1..10 {
                let mut attempt = short_lived(version);
                node.clock.is_off_by(0);
                let mut ended = false;
                for _ in 0..rounds {
                    ended = ended || matches!(node.round(&mut switch, &mut attempt), Told::End(_));
                }
                if ended {
                    node.record();
                    break;
                }
                node.clock.is_off_by(off);
                let end = node.authenticate(&mut switch, &mut attempt);
                let record = node.record();
                // one whose certificate was judged before the jump is in
                match &end {
                    End::Accept(_) => assert!(rounds > 2, "{off} {version} {rounds}"),
                    End::Reject(..) => assert!(
                        matches!(
                            record.reason,
                            Reason::CertificateExpired | Reason::CertificateNotYetValid
                        ),
                        "{off} {version} {rounds}: {record:?}"
                    ),
                    End::Silent => panic!("{off} {version} {rounds}: silence"),
                }
            }
        }
    }
    assert_eq!(node.server.open_conversations(), 0);
}
