//! What the log line says of a handshake that failed: the cause, the alert and who sent it, and what was presented.

use std::sync::Arc;
use std::time::Duration;

use portreeve::eap::peer::ClientCertificate;
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tunnel::Kind;
use portreeve::reason::Reason;
use portreeve::server::record::Authentication;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];
const ALONE: &str = "it presented `/C=GB/O=Example/CN=laptop-7` and nothing else";
const OURS: &str = "our certificate is `radius.example`, under `/C=GB/O=Example/CN=Example Root`";

/// What is recorded of a supplicant's authentication at a node with the usual certificates.
async fn refused(supplicant: &Supplicant) -> Authentication {
    let mut node = Node::start(SITES).await;
    let mut attempt = supplicant.attempt(LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    node.record()
}

#[tokio::test]
async fn a_refused_certificate_is_logged_with_cause_alert_and_chain() {
    for (certificate, cause, alert, presented) in [
        ("expired", "expired at 20", "certificate_expired", ALONE),
        ("future", "valid from 20", "certificate_expired", ALONE),
        (
            "foreign",
            "issued by `/C=GB/O=Elsewhere/CN=Foreign Root`",
            "unknown_ca",
            ALONE,
        ),
        (
            "incomplete",
            "its issuer `/C=GB/O=Example/CN=Example Issuing CA 1` was not sent and is not in client_ca, where \
             `/C=GB/O=Example/CN=Example Root` has the same organisation",
            "unknown_ca",
            ALONE,
        ),
        (
            "wrong-eku",
            "only for TLS Web Server Authentication",
            "unsupported_certificate",
            ALONE,
        ),
        (
            "v1",
            "X.509 version 1, where 3 is required",
            "bad_certificate",
            "it presented `/C=GB/O=Example/CN=old` and nothing else",
        ),
    ] {
        for version in VERSIONS {
            let record = refused(&laptop().version(version).certificate(certificate)).await;
            let detail = text(&record, Text::Detail);
            let expected = format!("; we sent the alert {alert}; {presented}");
            assert!(
                detail.starts_with(cause) && detail.ends_with(&expected),
                "{certificate} {version}: {detail}"
            );
            assert!(
                record.text(Text::Serial).is_some()
                    && record.text(Text::Issuer).is_some()
                    && record.not_after.is_some()
            );
        }
    }
}

/// All that was sent is named, as far as a line has room, and no name can pass for something else.
#[tokio::test]
async fn a_long_or_odd_chain_is_named_within_bounds() {
    let mut tls = laptop().tls();
    let [chain, foreign] = ["chain", "foreign-ca"].map(certificates);
    let mut shown = certificates("expired");
    shown.extend(chain);
    shown.extend([(); 4].map(|()| foreign[0].clone()));
    let key = tls.certificate.take().unwrap().key;
    tls.certificate = Some(ClientCertificate { chain: shown, key });
    let mut node = Node::start(SITES).await;
    let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    let detail = text(&node.record(), Text::Detail);
    let others = "it presented `/C=GB/O=Example/CN=laptop-7` and with it `/C=GB/O=Example/CN=laptop-7`, \
                  `/C=GB/O=Example/CN=Example Issuing CA 1`, `/C=GB/O=Elsewhere/CN=Foreign Root`, \
                  `/C=GB/O=Elsewhere/CN=Foreign Root`, 2 more";
    assert!(detail.ends_with(others), "{detail}");

    let name = format!("a`; all is well `{}", "x".repeat(2_000));
    let (certificate, key) = stranger(&name);
    let mut tls = laptop().tls();
    let chain = vec![certificate; 10];
    tls.certificate = Some(ClientCertificate { chain, key });
    let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    let record = node.record();
    let detail = text(&record, Text::Detail);
    assert_eq!(record.reason, Reason::UnknownCa);
    assert!(
        detail.starts_with("self-signed: `/CN=a\\x60; all is well \\x60xxx"),
        "{detail}"
    );
    assert!(detail.ends_with("x...`, 5 more") && detail.len() < 1_024, "{detail}");
}

/// A certificate that signed itself, and its key.
fn stranger(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let certificate = params.self_signed(&key).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (certificate.der().clone(), key)
}

#[tokio::test]
async fn a_supplicant_that_does_not_trust_the_server_is_logged_with_the_ca_to_install() {
    for version in VERSIONS {
        for (root, names, alert) in [
            (
                "foreign-ca",
                vec!["radius.example"],
                "unknown_ca: it does not have the ca of our certificate",
            ),
            (
                "ca",
                vec!["other.example"],
                "bad_certificate: it expects another ca or another server name than our certificate has",
            ),
        ] {
            let supplicant = Supplicant {
                root,
                names,
                ..laptop()
            };
            let record = refused(&supplicant.version(version)).await;
            assert_eq!(record.reason, Reason::ServerCertificateRefused);
            assert_eq!(
                text(&record, Text::Detail),
                format!("the supplicant sent the alert {alert}; {OURS}"),
                "{version}"
            );
        }
    }
}

/// Windows chooses a certificate by the CAs that it is asked for.
#[tokio::test]
async fn a_supplicant_without_a_certificate_is_logged_with_what_it_was_asked_for() {
    for version in VERSIONS {
        let nothing = Supplicant {
            certificate: None,
            ..laptop()
        };
        let record = refused(&nothing.version(version)).await;
        assert_eq!(record.reason, Reason::NoCertificate);
        assert_eq!(
            text(&record, Text::Detail),
            "we sent the alert certificate_required; it was asked for a certificate of `/C=GB/O=Example/CN=Example Root`"
        );
    }
}

#[tokio::test]
async fn a_handshake_without_anything_in_common_is_logged_with_the_alert_that_we_sent() {
    let mut node = Node::with(SITES, |setup| setup.trust.min_version = TlsVersion::V13).await;
    let mut attempt = laptop().version(TlsVersion::V12).attempt(LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    let detail = text(&node.record(), Text::Detail);
    assert!(detail.ends_with("; we sent the alert protocol_version"), "{detail}");

    let mut tls = laptop().tls();
    tls.provider = Arc::new(rustls::crypto::CryptoProvider {
        kx_groups: vec![rustls::crypto::aws_lc_rs::kx_group::X25519MLKEM768],
        ..(*portreeve::eap::tls::provider()).clone()
    });
    let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    let detail = text(&node.record(), Text::Detail);
    assert_eq!(detail, "no kx groups in common; we sent the alert handshake_failure");
}

/// Windows says nothing at all when it does not trust the server: then the line names what it has to trust.
#[tokio::test]
async fn a_supplicant_that_falls_silent_at_the_servers_certificate_is_logged_with_it() {
    let mut node = Node::start(SITES).await;
    let mut attempt = laptop().attempt(LAPTOP_PORT);
    node.rounds(&mut Switch::new(LEEDS), &mut attempt, 2);
    node.advance(Duration::from_secs(31));
    let record = node.record();
    assert_eq!(
        (record.reason, record.phase),
        (Reason::SupplicantStopped, Some("client-certificate-pending"))
    );
    let detail = text(&record, Text::Detail);
    assert!(detail.contains("does not trust the server's certificate"), "{detail}");
    assert!(detail.ends_with(OURS), "{detail}");
}

/// How far a handshake came that failed, of EAP-TLS and of a tunnel.
#[tokio::test]
async fn a_failed_handshake_is_logged_with_how_far_it_came() {
    let rejecting = SITES.replace("== laptop-7", "== laptop-8");
    for (tunnel, received, pending) in [
        (None, "client-certificate-received", "client-certificate-pending"),
        (
            Some(Kind::Ttls),
            "inner-certificate-received",
            "inner-certificate-pending",
        ),
        (
            Some(Kind::Peap),
            "inner-certificate-received",
            "inner-certificate-pending",
        ),
    ] {
        for version in VERSIONS {
            let laptop = || Supplicant {
                tunnel,
                ..laptop().version(version)
            };
            let untrusting = Supplicant {
                root: "foreign-ca",
                ..laptop()
            };
            let without = Supplicant {
                certificate: None,
                ..laptop()
            };
            let untrusted = if tunnel.is_some() { "tunnel-pending" } else { pending };
            for (what, document, supplicant, phase) in [
                ("foreign", SITES, laptop().certificate("foreign"), received),
                ("expired", SITES, laptop().certificate("expired"), received),
                ("without", SITES, without, pending),
                ("untrusting", SITES, untrusting, untrusted),
                ("policy", &*rejecting, laptop(), "deciding"),
            ] {
                let mut node = Node::start(document).await;
                let mut attempt = supplicant.attempt(LAPTOP_PORT);
                node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
                let record = node.record();
                assert_eq!(record.phase, Some(phase), "{what} {tunnel:?} {version}: {record:?}");
            }
        }
    }
    let mut node = Node::with(SITES, |setup| setup.trust.min_version = TlsVersion::V13).await;
    let mut attempt = laptop().version(TlsVersion::V12).attempt(LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    assert_eq!(node.record().phase, Some("client-hello-received"));
}

/// Inside a tunnel it is the same.
#[tokio::test]
async fn what_was_presented_inside_a_tunnel_is_logged_too() {
    for kind in [Kind::Ttls, Kind::Peap] {
        for version in VERSIONS {
            let record = refused(&laptop().version(version).tunnel(kind).certificate("foreign")).await;
            assert_eq!(
                text(&record, Text::Detail),
                format!("issued by `/C=GB/O=Elsewhere/CN=Foreign Root`; we sent the alert unknown_ca; {ALONE}"),
                "{kind:?} {version}"
            );
        }
    }
}

/// Refused, and then nothing more is heard: the cause is told as if the supplicant had answered.
#[tokio::test]
async fn a_refusal_whose_alert_is_never_answered_is_logged_alike() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let mut attempt = laptop().certificate("foreign").attempt(LAPTOP_PORT);
    // Identity, ClientHello, and the certificate, to which the alert is the answer.
    node.rounds(&mut switch, &mut attempt, 3);
    node.advance(Duration::from_secs(31));
    let record = node.record();
    assert_eq!((record.reason, record.phase), (Reason::UnknownCa, Some("alert-sent")));
    assert_eq!(
        text(&record, Text::Detail),
        format!(
            "issued by `/C=GB/O=Elsewhere/CN=Foreign Root`; we sent the alert unknown_ca; the supplicant never answered the \
             alert; {ALONE}"
        )
    );
}
