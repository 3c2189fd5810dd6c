//! TLS at the whole server: who is refused for what, and what the log line names of it.

use portreeve::eap::peer::{ClientCertificate, Failure, Peer};
use portreeve::eap::tls::TlsVersion;
use portreeve::eap::tls::cipher::Ciphers;
use portreeve::radius::packet::number;
use portreeve::reason::Reason;
use portreeve::server::record::Outcome;
use portreeve::trust::IdentityCheck;
use rustls_pki_types::PrivateKeyDer;

use crate::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

#[tokio::test]
async fn each_odd_certificate_is_refused_with_its_reason_and_named() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    for (certificate, reason, name) in [
        ("expired", Reason::CertificateExpired, "laptop-7"),
        ("future", Reason::CertificateNotYetValid, "laptop-7"),
        ("wrong-eku", Reason::CertificateWrongUsage, "laptop-7"),
        ("foreign", Reason::UnknownCa, "laptop-7"),
        ("incomplete", Reason::ChainIncomplete, "laptop-7"),
        ("sha1", Reason::CertificateWeak, "old"),
        ("rsa1024", Reason::CertificateWeak, "old"),
        ("v1", Reason::CertificateMalformed, "old"),
    ] {
        for version in VERSIONS {
            let supplicant = laptop().version(version).certificate(certificate);
            let end = node.authenticate(&mut switch, &mut supplicant.attempt(LAPTOP_PORT));
            // "To ensure that the peer receives the TLS alert message, the EAP server MUST wait for the peer to reply"
            // (RFC 5216 section 2.1.3): it knows which alert it was.
            let End::Reject(_, Some(Failure::Alert(_))) = end else {
                panic!("{certificate} {version}: {end:?}")
            };
            let record = node.record();
            assert_eq!(
                (record.outcome, record.reason),
                (Outcome::Reject, reason),
                "{certificate} {version}"
            );
            assert_eq!(text(&record, Text::Cn), name, "{certificate} {version}");
            assert!(record.text(Text::Detail).is_some(), "{certificate} {version}");
            assert_eq!(
                (record.phase, text(&record, Text::Site).as_str()),
                (Some("client-certificate-received"), "leeds")
            );
        }
    }
}

/// RFC 5216 section 2.1.3, and the decision before the octet 0x00 of RFC 9190 section 2.5: a refusal by policy sends an
/// alert where one exists.
#[tokio::test]
async fn a_refusal_by_policy_sends_an_alert_first() {
    let mut node = Node::start(&SITES.replace("== laptop-7", "== laptop-8")).await;
    let mut switch = Switch::new(LEEDS);
    for version in VERSIONS {
        let end = node.authenticate(&mut switch, &mut laptop().version(version).attempt(LAPTOP_PORT));
        let End::Reject(_, Some(Failure::Alert(alert))) = end else {
            panic!("{version}: {end:?}")
        };
        assert_eq!(alert, "access_denied");
        let record = node.record();
        assert_eq!(
            (record.reason, text(&record, Text::Policy).as_str()),
            (Reason::FallbackReject, "nobody else")
        );
        assert_eq!(
            text(&record, Text::FailedRule),
            "laptops: TLS-Client-Cert-Common-Name == laptop-8"
        );
    }
}

#[tokio::test]
async fn a_supplicant_that_does_not_trust_the_server_says_so_in_the_log() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let wrong_ca = Supplicant {
        root: "foreign-ca",
        ..laptop()
    };
    let wrong_name = Supplicant {
        names: vec!["other.example"],
        ..laptop()
    };
    for supplicant in [wrong_ca, wrong_name] {
        for version in VERSIONS {
            let mut attempt = supplicant.clone().version(version).attempt(LAPTOP_PORT);
            node.authenticate(&mut switch, &mut attempt).reject();
            let record = node.record();
            assert_eq!(record.reason, Reason::ServerCertificateRefused, "{version}");
            assert!(
                text(&record, Text::Detail).starts_with("the supplicant sent the alert"),
                "{:?}",
                record.text(Text::Detail)
            );
        }
    }
}

/// `min_tls` and `max_tls`, of the configuration and of the client over it.
#[tokio::test]
async fn the_clients_tls_versions_go_over_the_configurations() {
    let newer = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nmin_tls = \"1.3\"",
        1,
    );
    let older = SITES.replacen(
        "secret = \"testing123\"",
        "secret = \"testing123\"\nmax_tls = \"1.2\"",
        1,
    );
    for (document, offered, expected) in [
        (SITES, None, Ok("1.3")),
        (SITES, Some(TlsVersion::V12), Ok("1.2")),
        (&*newer, Some(TlsVersion::V12), Err(Reason::TlsVersion)),
        (&*newer, Some(TlsVersion::V13), Ok("1.3")),
        (&*older, None, Ok("1.2")),
        (&*older, Some(TlsVersion::V13), Err(Reason::TlsVersion)),
    ] {
        let mut node = Node::start(document).await;
        let supplicant = offered.map_or_else(laptop, |version| laptop().version(version));
        let end = node.authenticate(&mut Switch::new(LEEDS), &mut supplicant.attempt(LAPTOP_PORT));
        let record = node.record();
        match expected {
            Ok(version) => {
                end.accept();
                assert_eq!((record.tls, record.resumed), (Some(version), Some(false)));
            }
            Err(reason) => assert_eq!(record.reason, reason),
        }
    }
}

/// Keys are those of the supplicant ([`portreeve::nas::Attempt`] compares them), in accepts only, and none from EAP-MD5.
#[tokio::test]
async fn keys_are_in_accepts_of_eap_tls_alone() {
    let mut node = Node::start(SITES).await;
    let mut switch = Switch::new(LEEDS);
    let vendors = |end: &End| match end {
        End::Accept(_) => end.accept().all(number::VENDOR_SPECIFIC).count(),
        _ => end.reject().all(number::VENDOR_SPECIFIC).count(),
    };
    for version in VERSIONS {
        let end = node.authenticate(&mut switch, &mut laptop().version(version).attempt(LAPTOP_PORT));
        assert_eq!(vendors(&end), 2);
        let refused = laptop().version(version).certificate("foreign");
        assert_eq!(
            vendors(&node.authenticate(&mut switch, &mut refused.attempt(LAPTOP_PORT))),
            0
        );
    }
    let md5 = node.authenticate(
        &mut switch,
        &mut md5_printer(PRINTER).attempt(&["Calling-Station-Id = 02-00-00-00-00-01"]),
    );
    md5.accept();
    assert_eq!(vendors(&md5), 0);
    assert_eq!(vendors(&node.authenticate(&mut switch, &mut printer(PRINTER))), 0);
}

/// `[eap.tls] ciphers`: the order is the server's, and what is not named is not spoken.
#[tokio::test]
async fn cipher_suites_are_those_that_are_named() {
    let [aes, chacha] = ["AES_128_GCM_SHA256", "CHACHA20_POLY1305_SHA256"];
    let list = |hash: &str| {
        let names = [format!("TLS_{hash}"), format!("TLS_ECDHE_ECDSA_WITH_{hash}")];
        Ciphers::new(&names, TlsVersion::V12, TlsVersion::V13).unwrap()
    };
    for (named, offered, expected) in [
        (Ciphers::default(), list(chacha), Some(chacha)),
        (list(chacha), Ciphers::default(), Some(chacha)),
        (list(aes), Ciphers::default(), Some(aes)),
        (list(aes), list(chacha), None),
    ] {
        let mut node = Node::with(SITES, |setup| setup.trust.ciphers = named).await;
        for version in VERSIONS {
            let mut tls = laptop().version(version).tls();
            tls.provider = offered.provider();
            let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
            let end = node.authenticate(&mut Switch::new(LEEDS), &mut attempt);
            match expected {
                Some(expected) => {
                    end.accept();
                    let cipher = attempt.peer().and_then(Peer::cipher);
                    assert!(cipher.is_some_and(|cipher| cipher.ends_with(expected)), "{cipher:?}");
                }
                None => {
                    end.reject();
                    assert_eq!(node.record().reason, Reason::TlsNoCommon);
                }
            }
        }
    }
}

/// `[eap.tls] identity_check`: nothing is asked by default, and where something is, the refusal comes with an alert.
#[tokio::test]
async fn the_identity_is_compared_with_the_certificate_only_where_configured() {
    for (check, identity, is_good) in [
        (IdentityCheck::None, "anonymous", true),
        (IdentityCheck::CommonName, "LAPTOP-7", true),
        (IdentityCheck::CommonName, "anonymous", false),
        (IdentityCheck::Upn, "seven@corp.example.com", true),
        (IdentityCheck::Upn, "laptop-7", false),
        (IdentityCheck::Dns, "host/laptop-7.corp.example.com", true),
        (IdentityCheck::Dns, "host/laptop-8.corp.example.com", false),
        (IdentityCheck::AnyName, "seven@example.com", true),
        (IdentityCheck::AnyName, "eight@example.com", false),
    ] {
        let mut node = Node::with(SITES, |setup| setup.trust.identity_check = check).await;
        for version in VERSIONS {
            let supplicant = Supplicant {
                identity,
                ..laptop().version(version)
            };
            let end = node.authenticate(&mut Switch::new(LEEDS), &mut supplicant.attempt(LAPTOP_PORT));
            let record = node.record();
            if is_good {
                end.accept();
                continue;
            }
            assert_eq!(record.reason, Reason::IdentityMismatch, "{check:?} {identity}");
            assert!(
                text(&record, Text::Detail).contains("`identity_check`"),
                "{:?}",
                record.text(Text::Detail)
            );
            assert_eq!(
                (text(&record, Text::Cn).as_str(), text(&record, Text::User).as_str()),
                ("laptop-7", identity)
            );
            assert!(matches!(end, End::Reject(_, Some(Failure::Alert(_)))), "{end:?}");
        }
    }
}

/// What becomes of a certificate whose name its CA may not give.
pub async fn outside_a_name_constraint() -> Reason {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
        KeyPair, KeyUsagePurpose, NameConstraints, SanType,
    };
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "Constrained Root");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("example.com".to_owned())],
        excluded_subtrees: vec![],
    });
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut device = CertificateParams::default();
    device.distinguished_name.push(DnType::CommonName, "laptop-7");
    device.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    device.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    device.subject_alt_names = vec![SanType::DnsName("laptop-7.elsewhere.example".try_into().unwrap())];
    let key = KeyPair::generate().unwrap();
    let device = device.signed_by(&key, &authority).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("constrained.pem");
    std::fs::write(&path, authority.pem()).unwrap();
    let mut node = Node::with(SITES, |setup| setup.trust.client_ca.push(path)).await;
    let mut tls = laptop().tls();
    tls.certificate = Some(ClientCertificate {
        chain: vec![device.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    });
    let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
    node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
    node.record().reason
}
