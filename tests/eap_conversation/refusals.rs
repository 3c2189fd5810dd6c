//! Conversations that end without access: each with its reason, the alert where there is one, and EAP-Failure.

use std::sync::Arc;

use portreeve::eap::method::{EapType, Methods};
use portreeve::eap::packet::Code;
use portreeve::eap::packet::build;
use portreeve::eap::peer::{self, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::server::{Conversation, Discard, FirstMessage, Offer, Phase, Settings, Step, Verdict};
use portreeve::eap::tls::{Refused, TlsServer, TlsVersion, provider};
use portreeve::reason::Reason;
use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::compatibility::ByHand;
use super::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

/// Runs a conversation in which the supplicant shows `client`, and checks what both ends say of it.
#[track_caller]
fn refused_certificate(tls: &Arc<TlsServer>, client: Option<&Identity>, reason: Reason, alert: &str) {
    let pki = Pki::shared(Key::P256);
    for version in VERSIONS {
        let tls_of_peer = ClientTls {
            certificate: client.map(certificate),
            ..client_tls(pki)
        };
        let (outcome, conversation, _) = converse_with(
            settings(Arc::clone(tls), version, 1_024),
            peer_settings(tls_of_peer, 1_024),
            &mut |credentials| panic!("to be decided: {credentials:?}"),
            &mut |_, _, packet| packet,
        );
        assert_eq!(outcome.reason(), Some(reason), "{version}: {:?}", outcome.server);
        let Some(peer::Step::Failure(peer::Failure::Alert(seen))) = &outcome.peer else {
            panic!("{version}: {:?}", outcome.peer)
        };
        assert_eq!(seen, alert, "{version}");
        // whose it was is known all the same
        assert_eq!(
            conversation.presented(),
            client.map(|client| &client.chain[..]),
            "{version}"
        );
        // the alert, its answer, then Failure with the identifier of the answer
        let [.., (Way::ToServer, answer), (Way::ToPeer, failure)] = &outcome.packets[..] else {
            panic!("{:?}", outcome.packets)
        };
        assert_eq!(answer[4..], [13, 0]);
        assert_eq!(failure[..], [4, answer[1], 0, 4]);
    }
}

#[test]
fn an_expired_certificate() {
    let pki = Pki::shared(Key::P256);
    let mut params = params("old", ExtendedKeyUsagePurpose::ClientAuth);
    params.not_after = date_time_ymd(2029, 12, 25);
    let client = pki.issue(params);
    refused_certificate(
        &pki.tls_server(),
        Some(&client),
        Reason::CertificateExpired,
        "certificate_expired",
    );
    let outcome = converse(
        settings(pki.tls_server(), TlsVersion::V13, 1_024),
        peer_settings(
            ClientTls {
                certificate: Some(certificate(&client)),
                ..client_tls(pki)
            },
            1_024,
        ),
    );
    assert_eq!(
        outcome.detail(),
        Some("expired 7 days ago; we sent the alert certificate_expired")
    );
}

#[test]
fn a_certificate_that_is_not_valid_yet() {
    let pki = Pki::shared(Key::P256);
    let mut params = params("new", ExtendedKeyUsagePurpose::ClientAuth);
    params.not_before = date_time_ymd(2031, 1, 1);
    let client = pki.issue(params);
    refused_certificate(
        &pki.tls_server(),
        Some(&client),
        Reason::CertificateNotYetValid,
        "certificate_expired",
    );
}

#[test]
fn a_certificate_of_another_ca() {
    let client = Pki::new(Key::P256).client;
    let strange = Pki::named(Key::P256, "Strange CA").client;
    let tls = Pki::shared(Key::P256).tls_server();
    refused_certificate(&tls, Some(&strange), Reason::UnknownCa, "unknown_ca");
    // the same name over another key: an operator has made the CA anew
    refused_certificate(&tls, Some(&client), Reason::UnknownCa, "unknown_ca");
}

#[test]
fn a_certificate_for_servers() {
    let pki = Pki::shared(Key::P256);
    refused_certificate(
        &pki.tls_server(),
        Some(&pki.server),
        Reason::CertificateWrongUsage,
        "unsupported_certificate",
    );
}

#[test]
fn no_certificate() {
    let pki = Pki::shared(Key::P256);
    refused_certificate(&pki.tls_server(), None, Reason::NoCertificate, "certificate_required");
}

/// A verifier that makes no certificate mandatory is overruled.
#[test]
fn no_certificate_with_an_easy_going_verifier() {
    let pki = Pki::shared(Key::P256);
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(pki.roots(), provider())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let tls = Arc::new(TlsServer {
        verifier,
        ..(*pki.tls_server()).clone()
    });
    refused_certificate(&tls, None, Reason::NoCertificate, "certificate_required");
}

/// Certificates that openssl makes and rcgen does not.
#[test]
fn certificates_of_another_age() {
    let folder = crate::pki::folder().unwrap();
    let read = |name: &str| CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).unwrap();
    let pki = Pki::shared(Key::P256);
    let tls = Arc::new(TlsServer {
        // these were made today
        time: Arc::new(portreeve::trust::Clock),
        ..(*tls_server(&pki.server, roots([read("ca")]))).clone()
    });
    let show = |name: &str, key: &str| Identity {
        chain: vec![read(name)],
        key: PrivateKeyDer::from_pem_file(folder.join(format!("{key}.key"))).unwrap(),
    };
    let sha1 = show("sha1", "sha1");
    refused_certificate(&tls, Some(&sha1), Reason::CertificateWeak, "unsupported_certificate");
    let v1 = show("v1", "v1");
    refused_certificate(&tls, Some(&v1), Reason::CertificateMalformed, "bad_certificate");
    // its chain is good; its key cannot even be loaded here, and no other proves it
    for version in VERSIONS {
        let rsa = show("rsa1024", "client");
        let peer = ClientTls {
            certificate: Some(certificate(&rsa)),
            ..client_tls(pki)
        };
        let (outcome, conversation, _) = converse_with(
            settings(Arc::clone(&tls), version, 1_024),
            peer_settings(peer, 1_024),
            &mut |credentials| panic!("to be decided: {credentials:?}"),
            &mut |_, _, packet| packet,
        );
        assert!(
            matches!(outcome.reason(), Some(Reason::TlsFailed | Reason::CertificateWeak)),
            "{:?}",
            outcome.server
        );
        assert_eq!(conversation.presented(), Some(&rsa.chain[..]));
    }
}

#[test]
fn a_certificate_without_its_key() {
    let pki = Pki::shared(Key::P256);
    let thief = Identity {
        chain: pki.client.chain.clone(),
        key: pki.server.key.clone_key(),
    };
    let tls = pki.tls_server();
    refused_certificate(&tls, Some(&thief), Reason::TlsFailed, "decrypt_error");
    let outcome = converse(
        settings(tls, TlsVersion::V13, 1_024),
        peer_settings(
            ClientTls {
                certificate: Some(certificate(&thief)),
                ..client_tls(pki)
            },
            1_024,
        ),
    );
    assert_eq!(
        outcome.detail(),
        Some("the supplicant's signature does not verify with its certificate; we sent the alert decrypt_error")
    );
}

#[test]
fn octets_that_are_no_certificate() {
    let pki = Pki::shared(Key::P256);
    let odd = Identity {
        chain: vec![CertificateDer::from(vec![0x30, 3, 1, 2, 3])],
        key: pki.client.key.clone_key(),
    };
    refused_certificate(
        &pki.tls_server(),
        Some(&odd),
        Reason::CertificateMalformed,
        "bad_certificate",
    );
}

/// Says what it is told to.
#[derive(Debug)]
struct Says(Arc<dyn ClientCertVerifier>, Error);

impl ClientCertVerifier for Says {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Err(self.1.clone())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// What trust knows and rustls has no word for comes through with its own reason, and with the alert that fits.
#[test]
fn reasons_of_the_verifiers_own() {
    let pki = Pki::shared(Key::P256);
    let cases: [(Error, Reason, &str); 8] = [
        (
            Reason::CertificateWeak.into_refused(),
            Reason::CertificateWeak,
            "unsupported_certificate",
        ),
        (
            Reason::ChainIncomplete.into_refused(),
            Reason::ChainIncomplete,
            "unknown_ca",
        ),
        (
            Reason::CertificateRevoked.into_refused(),
            Reason::CertificateRevoked,
            "certificate_revoked",
        ),
        (
            Reason::RevocationUnavailable.into_refused(),
            Reason::RevocationUnavailable,
            "certificate_unknown",
        ),
        (
            Reason::PolicyReject.into_refused(),
            Reason::PolicyReject,
            "access_denied",
        ),
        (
            CertificateError::Revoked.into(),
            Reason::CertificateRevoked,
            "certificate_revoked",
        ),
        (
            CertificateError::UnknownRevocationStatus.into(),
            Reason::RevocationUnknown,
            "certificate_unknown",
        ),
        (
            CertificateError::ExpiredRevocationList.into(),
            Reason::RevocationUnavailable,
            "certificate_unknown",
        ),
    ];
    for (error, reason, alert) in cases {
        let tls = pki.tls_server();
        let verifier = Arc::new(Says(Arc::clone(&tls.verifier), error));
        let tls = Arc::new(TlsServer {
            verifier,
            ..(*tls).clone()
        });
        refused_certificate(&tls, Some(&pki.client), reason, alert);
    }
}

trait IntoRefused {
    fn into_refused(self) -> Error;
}

impl IntoRefused for Reason {
    fn into_refused(self) -> Error {
        Refused::new(self, "so says the verifier").into_error()
    }
}

/// A refusal after the handshake: the alert access_denied, which a TLS 1.3 supplicant has to be able to decrypt.
#[test]
fn a_refusal_by_policy_sends_an_alert_too() {
    for key in [Key::P256, Key::P384] {
        let pki = Pki::shared(key);
        for version in VERSIONS {
            for suite in provider()
                .cipher_suites
                .iter()
                .filter(|suite| suite_fits(suite, version))
            {
                let of_one_suite = Arc::new(CryptoProvider {
                    cipher_suites: vec![*suite],
                    ..(*provider()).clone()
                });
                let peer = ClientTls {
                    provider: of_one_suite,
                    min_version: version,
                    max_version: version,
                    ..client_tls(pki)
                };
                let (outcome, conversation, _) = converse_with(
                    settings(pki.tls_server(), version, 1_024),
                    peer_settings(peer, 1_024),
                    &mut |_| Verdict::Refuse(Reason::PolicyReject.into()),
                    &mut |_, _, packet| packet,
                );
                // rustls has names of its own for the suites of TLS 1.3
                let name = suite.suite().as_str().map(|name| name.replace("TLS13_", "TLS_"));
                assert_eq!(conversation.cipher(), name.as_deref());
                assert_eq!(outcome.reason(), Some(Reason::PolicyReject), "{suite:?}");
                let expected = peer::Failure::Alert("access_denied".to_owned());
                assert!(
                    matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected),
                    "{suite:?}: {:?}",
                    outcome.peer
                );
                // nothing but the alert has left after the client's Finished
                let [.., (_, alert), (_, _), (_, failure)] = &outcome.packets[..] else {
                    panic!("no alert")
                };
                assert_eq!(alert.len(), 6 + if version == TlsVersion::V12 { 7 } else { 24 });
                assert_eq!(failure[0], 4);
            }
        }
    }
}

/// What is found wrong with a certificate only after the handshake has the alert that the verifier would have sent.
#[test]
fn a_refusal_after_the_handshake_sends_the_alert_of_its_reason() {
    let pki = Pki::shared(Key::P256);
    for (reason, alert) in [
        (Reason::CertificateRevoked, "certificate_revoked"),
        (Reason::CertificateExpired, "certificate_expired"),
        (Reason::UnknownCa, "unknown_ca"),
        (Reason::RevocationUnknown, "certificate_unknown"),
        (Reason::RevocationUnavailable, "certificate_unknown"),
        (Reason::NoFallback, "access_denied"),
    ] {
        for version in VERSIONS {
            let (outcome, ..) = converse_with(
                settings(pki.tls_server(), version, 1_024),
                peer_settings(client_tls(pki), 1_024),
                &mut |_| Verdict::Refuse(Refused::new(reason, "so says the decision")),
                &mut |_, _, packet| packet,
            );
            assert_eq!(outcome.reason(), Some(reason));
            let sent = match reason {
                Reason::NoFallback => String::new(),
                _ => format!("; we sent the alert {alert}"),
            };
            assert_eq!(outcome.detail(), Some(&*format!("so says the decision{sent}")));
            let expected = peer::Failure::Alert(alert.to_owned());
            assert!(
                matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected),
                "{reason} {version}: {:?}",
                outcome.peer
            );
        }
    }
}

/// Whether the suite can be used with an ECDSA certificate in this version.
fn suite_fits(suite: &rustls::SupportedCipherSuite, version: TlsVersion) -> bool {
    let name = suite.suite().as_str().unwrap_or_default();
    match version {
        TlsVersion::V12 => name.contains("ECDSA"),
        TlsVersion::V13 => name.starts_with("TLS13"),
    }
}

#[test]
fn no_common_version() {
    let pki = Pki::shared(Key::P256);
    for (ours, theirs) in [(TlsVersion::V13, TlsVersion::V12), (TlsVersion::V12, TlsVersion::V13)] {
        let peer = ClientTls {
            min_version: theirs,
            max_version: theirs,
            ..client_tls(pki)
        };
        let outcome = converse(settings(pki.tls_server(), ours, 1_024), peer_settings(peer, 1_024));
        assert_eq!(outcome.reason(), Some(Reason::TlsVersion), "{:?}", outcome.server);
        let expected = peer::Failure::Alert("protocol_version".to_owned());
        assert!(matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected));
    }
}

#[test]
fn a_client_that_allows_no_version_at_all() {
    let pki = Pki::shared(Key::P256);
    let settings = Settings {
        min_version: TlsVersion::V13,
        max_version: TlsVersion::V12,
        ..settings(pki.tls_server(), TlsVersion::V12, 1_024)
    };
    let outcome = converse(settings, peer_settings(client_tls(pki), 1_024));
    assert_eq!(outcome.reason(), Some(Reason::TlsVersion));
    assert_eq!(outcome.detail(), Some("none is allowed: at least 1.3, at most 1.2"));
}

#[test]
fn nothing_in_common() {
    use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
    let pki = Pki::shared(Key::P256);
    let groups = |kx_groups| {
        Arc::new(CryptoProvider {
            kx_groups,
            ..(*provider()).clone()
        })
    };
    let suites = |cipher_suites| {
        Arc::new(CryptoProvider {
            cipher_suites,
            ..(*provider()).clone()
        })
    };
    let cases = [
        (groups(vec![kx_group::X25519]), groups(vec![kx_group::SECP384R1])),
        (
            suites(vec![cipher_suite::TLS13_AES_128_GCM_SHA256]),
            suites(vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256]),
        ),
    ];
    for (ours, theirs) in cases {
        let tls = Arc::new(TlsServer {
            provider: ours,
            ..(*pki.tls_server()).clone()
        });
        let peer = ClientTls {
            provider: theirs,
            min_version: TlsVersion::V13,
            max_version: TlsVersion::V13,
            ..client_tls(pki)
        };
        let outcome = converse(settings(tls, TlsVersion::V13, 1_024), peer_settings(peer, 1_024));
        assert_eq!(outcome.reason(), Some(Reason::TlsNoCommon), "{:?}", outcome.server);
        let expected = peer::Failure::Alert("handshake_failure".to_owned());
        assert!(matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected));
    }
}

/// Has no certificate for anybody.
#[derive(Debug)]
struct Nothing;

impl rustls::server::ResolvesServerCert for Nothing {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
}

#[test]
fn no_certificate_of_ours_fits() {
    let pki = Pki::shared(Key::P256);
    let tls = Arc::new(TlsServer {
        certificates: Arc::new(Nothing),
        ..(*pki.tls_server()).clone()
    });
    let outcome = converse(
        settings(tls, TlsVersion::V13, 1_024),
        peer_settings(client_tls(pki), 1_024),
    );
    assert_eq!(outcome.reason(), Some(Reason::TlsNoCommon));
    assert_eq!(
        outcome.detail(),
        Some(
            "none of the server's certificates fits the signature algorithms offered; we sent the alert access_denied"
        )
    );
}

/// "The EAP Server MUST reply with an EAP-Failure packet since server authentication failure is a terminal condition"
/// (RFC 5216, 2.1.3).
#[test]
fn a_supplicant_that_does_not_trust_us() {
    let pki = Pki::shared(Key::P256);
    let other = Pki::named(Key::P256, "Another CA");
    let names = vec![ServerName::try_from("radius.elsewhere").unwrap()];
    let cases = [
        (
            ServerTrust::Ca {
                roots: other.roots(),
                names: vec![],
            },
            "unknown_ca",
        ),
        (
            ServerTrust::Ca {
                roots: pki.roots(),
                names,
            },
            "bad_certificate",
        ),
    ];
    for version in VERSIONS {
        for (trust, alert) in cases.clone() {
            let peer = ClientTls {
                trust,
                ..client_tls(pki)
            };
            let outcome = converse(settings(pki.tls_server(), version, 1_024), peer_settings(peer, 1_024));
            assert_eq!(
                outcome.reason(),
                Some(Reason::ServerCertificateRefused),
                "{:?}",
                outcome.server
            );
            let said = format!("the supplicant sent the alert {alert}: ");
            assert!(outcome.detail().is_some_and(|detail| detail.starts_with(&said)));
            assert!(matches!(
                outcome.peer,
                Some(peer::Step::Failure(peer::Failure::Refused(_)))
            ));
        }
    }
}

#[test]
fn a_supplicant_checks_the_name_where_it_has_one() {
    let pki = Pki::shared(Key::P256);
    let names = ["radius.elsewhere", "radius.example"]
        .map(|name| ServerName::try_from(name).unwrap())
        .to_vec();
    let peer = ClientTls {
        trust: ServerTrust::Ca {
            roots: pki.roots(),
            names,
        },
        ..client_tls(pki)
    };
    converse(
        settings(pki.tls_server(), TlsVersion::V13, 1_024),
        peer_settings(peer, 1_024),
    )
    .expect_keys();
}

fn offered(offer: Offer) -> (Conversation, u8) {
    let pki = Pki::shared(Key::P256);
    let settings = Settings {
        methods: Methods::TLS,
        offer,
        ..settings(pki.tls_server(), TlsVersion::V13, 1_024)
    };
    let identity = build(Code::Response, 9, EapType::IDENTITY, &[b"someone"]);
    let (conversation, step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut counting());
    let Step::Send(request) = step else { panic!("{step:?}") };
    (conversation, request[1])
}

#[test]
fn a_nak_for_something_else_is_refused_with_what_was_wanted() {
    let cases: [(Offer, EapType, &[u8], &str); 5] = [
        (
            Offer::Tls,
            EapType::NAK,
            &[25, 21],
            "offered EAP-TLS, wanted PEAP, EAP-TTLS, which is not among the methods allowed",
        ),
        (Offer::Tls, EapType::NAK, &[4], "offered EAP-TLS, wanted MD5-Challenge"),
        (Offer::Tls, EapType::NAK, &[0], "offered EAP-TLS, wanted none"),
        (
            Offer::Md5ThenTls,
            EapType::NAK,
            &[25],
            "offered MD5-Challenge, wanted PEAP, which is not among the methods allowed",
        ),
        (
            Offer::Tls,
            EapType::EXPANDED,
            &[0, 0, 0, 0, 0, 0, 3, 254, 0, 0, 0, 0, 0, 0, 25],
            "offered EAP-TLS, wanted PEAP, which is not among the methods allowed",
        ),
    ];
    for (offer, eap_type, wanted, detail) in cases {
        let (mut conversation, identifier) = offered(offer);
        let nak = build(Code::Response, identifier, eap_type, &[wanted]);
        let step = conversation.step(&nak, &mut counting());
        let Step::Failure {
            eap,
            reason,
            detail: seen,
        } = step
        else {
            panic!("{step:?}")
        };
        assert_eq!(
            (eap, reason, seen.as_deref()),
            (vec![4, identifier, 0, 4], Reason::MethodRefused, Some(detail))
        );
        assert_eq!(
            conversation.wanted().is_some_and(|nak| nak.asks_for(EapType::MD5)),
            wanted == [4]
        );
        assert!(matches!(
            conversation.step(&nak, &mut counting()),
            Step::Discard(Discard::NotAwaited)
        ));
    }
}

#[test]
fn an_expanded_nak_can_ask_for_tls() {
    let (mut conversation, identifier) = offered(Offer::Md5ThenTls);
    let entries = [0, 0, 0, 0, 0, 0, 3, 254, 0, 0, 0, 0, 0, 0, 13];
    let step = conversation.step(
        &build(Code::Response, identifier, EapType::EXPANDED, &[&entries]),
        &mut counting(),
    );
    assert!(matches!(step, Step::Send(request) if request[4..] == [13, 0x20]));
}

#[test]
fn a_supplicant_without_a_common_method() {
    let pki = Pki::shared(Key::P256);
    let nobody = Arc::new(PeerSettings {
        md5_password: None,
        ..(*md5_peer(b"x")).clone()
    });
    let outcome = converse(settings(pki.tls_server(), TlsVersion::V13, 1_024), nobody);
    assert_eq!(outcome.reason(), Some(Reason::MethodRefused));
    let expected = peer::Failure::NoMethod(EapType::TLS);
    assert!(matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected));
}

/// The end is only the supplicant's: nothing of the conversation is left to be decided twice.
#[test]
fn a_decision_that_nobody_asked_for_is_a_failure() {
    let (mut conversation, _) = offered(Offer::Tls);
    let step = conversation.decide(Verdict::Accept);
    assert!(matches!(
        step,
        Step::Failure {
            reason: Reason::InternalError,
            ..
        }
    ));
}

#[test]
fn an_identity_that_fits_no_user_name() {
    let pki = Pki::shared(Key::P256);
    for (octets, taken) in [(0, true), (253, true), (254, false)] {
        let settings = settings(pki.tls_server(), TlsVersion::V13, 1_024);
        let identity = build(Code::Response, 1, EapType::IDENTITY, &[&vec![b'x'; octets]]);
        let (conversation, step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut counting());
        assert_eq!(matches!(step, Step::Send(_)), taken, "{octets}");
        assert_eq!(conversation.identity().len(), if taken { octets } else { 0 });
        assert_eq!(
            matches!(
                step,
                Step::Failure {
                    reason: Reason::EapInvalid,
                    ..
                }
            ),
            !taken
        );
    }
}

/// A tolerant supplicant without certificates of its own can still be refused properly.
#[test]
fn tolerance_changes_nothing_with_this_server() {
    let pki = Pki::shared(Key::P256);
    let strict = peer_settings(client_tls(pki), 300);
    let tolerant = Arc::new(PeerSettings {
        strictness: Strictness::Tolerant,
        ..(*strict).clone()
    });
    converse(settings(pki.tls_server(), TlsVersion::V13, 300), tolerant).expect_keys();
    let _ = Peer::new(strict);
}

/// What a supplicant that stops with an alert has against us; in TLS 1.2 it leaves in clear.
#[test]
fn alerts_of_the_supplicant() {
    let pki = Pki::shared(Key::P256);
    for (alert, name, reason) in [
        (40, "handshake_failure", Reason::TlsFailed),
        (42, "bad_certificate", Reason::ServerCertificateRefused),
        (43, "unsupported_certificate", Reason::ServerCertificateRefused),
        (44, "certificate_revoked", Reason::ServerCertificateRefused),
        (45, "certificate_expired", Reason::ServerCertificateRefused),
        (46, "certificate_unknown", Reason::ServerCertificateRefused),
        (48, "unknown_ca", Reason::ServerCertificateRefused),
        (49, "access_denied", Reason::ServerCertificateRefused),
        (70, "protocol_version", Reason::TlsVersion),
        (71, "insufficient_security", Reason::TlsNoCommon),
        (80, "internal_error", Reason::TlsFailed),
    ] {
        let outcome = converse_with(
            settings(pki.tls_server(), TlsVersion::V12, 1_400),
            peer_settings(client_tls(pki), 1_400),
            &mut accept,
            &mut |way, number, packet| match (way, number) {
                (Way::ToServer, 2) => build(
                    Code::Response,
                    packet[1],
                    EapType::TLS,
                    &[&[0x00, 0x15, 3, 3, 0, 2, 2, alert]],
                ),
                _ => packet,
            },
        )
        .0;
        assert_eq!(outcome.reason(), Some(reason), "{name}");
        let said = format!("the supplicant sent the alert {name}: ");
        assert!(outcome.detail().is_some_and(|detail| detail.starts_with(&said)));
        // "After sending or receiving a TLS Error alert, the EAP-TLS server may only send an EAP-Failure" (RFC 9190, 2.5)
        assert_eq!(outcome.packets.last().map(|(_, packet)| packet[0]), Some(4));
    }
}

/// An alert in place of the last acknowledgement, from a supplicant that thinks better of it.
#[test]
fn an_alert_after_the_handshake() {
    use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    let pki = Pki::shared(Key::P256);
    for (alert, name, reason) in [
        (48, "unknown_ca", Reason::ServerCertificateRefused),
        (49, "access_denied", Reason::ServerCertificateRefused),
        (80, "internal_error", Reason::TlsFailed),
    ] {
        let settings = settings(pki.tls_server(), TlsVersion::V13, 4_000);
        let mut supplicant = ByHand::begin(settings, client_tls(pki));
        supplicant.finish();
        let ByHand {
            tls,
            mut conversation,
            identifier,
        } = supplicant;
        // rustls sends no alert but close_notify when it is told to
        let (0, rustls::ConnectionTrafficSecrets::Aes256Gcm { key, iv }) = tls.dangerous_extract_secrets().unwrap().tx
        else {
            panic!("another cipher")
        };
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).unwrap());
        let mut record = vec![0x17, 3, 3, 0, 3 + 16];
        let mut sealed = vec![2, alert, 0x15];
        let nonce = Nonce::try_assume_unique_for_key(iv.as_ref()).unwrap();
        key.seal_in_place_append_tag(nonce, Aad::from(&record[..]), &mut sealed)
            .unwrap();
        record.extend(sealed);
        let response = build(Code::Response, identifier, EapType::TLS, &[&[0], &record]);
        let step = conversation.step(&response, &mut counting());
        let Step::Failure {
            reason: seen, detail, ..
        } = step
        else {
            panic!("{step:?}")
        };
        assert_eq!(seen, reason);
        let said = format!("the supplicant sent the alert {name}: ");
        assert!(detail.is_some_and(|detail| detail.starts_with(&said)));
        assert_eq!(conversation.progress().phase, Phase::Finishing);
    }
}

/// A ClientHello as supplicants of another age send it: no extensions.
#[test]
fn supplicants_of_another_age() {
    for (minor, offered) in [(0, "ssl 3.0"), (1, "tls 1.0"), (2, "tls 1.1")] {
        let (mut conversation, identifier) = offered_tls();
        let mut hello = vec![0x00, 0x16, 3, minor, 0, 45, 0x01, 0, 0, 41, 3, minor];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0xc0, 0x0a, 1, 0]);
        let step = conversation.step(
            &build(Code::Response, identifier, EapType::TLS, &[&hello]),
            &mut counting(),
        );
        let Step::Send(alert) = step else { panic!("{step:?}") };
        // protocol_version
        assert_eq!(alert[5..], [0x00, 0x15, 3, minor, 0, 2, 2, 70]);
        let answer = build(Code::Response, alert[1], EapType::TLS, &[&[0]]);
        let step = conversation.step(&answer, &mut counting());
        let Step::Failure { reason, detail, .. } = step else {
            panic!("{step:?}")
        };
        assert_eq!(reason, Reason::TlsVersion);
        let expected = format!("the supplicant offers {offered} at most; we sent the alert protocol_version");
        assert_eq!(detail, Some(expected));
    }
}

fn offered_tls() -> (Conversation, u8) {
    offered(Offer::Tls)
}
