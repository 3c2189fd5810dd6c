//! Other certificates for some clients and sites, and several certificates of the server for supplicants of many ages.

use std::sync::Arc;

use portreeve::eap::peer::ClientTls;
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::reason::Reason;
use portreeve::trust::{CertificateFiles, Profile, Settings};
use rustls::SignatureScheme;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};

use crate::support::*;

/// Of the switch at York.
const YORK: &str = "198.51.100.1:50000";

fn profile(name: &str, server: &str, authority: &str, sites: &[&str], clients: &[&str]) -> Profile {
    Profile {
        settings: Settings {
            name: name.to_owned(),
            ..trust_files(server, &[authority])
        },
        sites: sites.iter().map(|tag| (*tag).to_owned()).collect(),
        clients: clients.iter().map(|network| network.parse().unwrap()).collect(),
    }
}

/// What becomes of a supplicant that shows `certificate` and believes in `root`.
#[track_caller]
fn outcome(node: &mut Node, switch: &str, certificate: &'static str, root: &'static str) -> Reason {
    let supplicant = Supplicant {
        root,
        ..laptop().certificate(certificate)
    };
    node.authenticate(&mut Switch::new(switch), &mut supplicant.attempt(LAPTOP_PORT));
    node.record().reason
}

#[tokio::test]
async fn a_site_of_a_profile_has_its_certificates_and_client_cas() {
    let mut node = Node::with(SITES, |setup| {
        let york = profile("york", "p384-server", "foreign-ca", &["york"], &[]);
        setup.profiles = vec![york];
    })
    .await;
    for (switch, certificate, root, reason) in [
        (LEEDS, "client", "ca", Reason::PolicyAccept),
        (LEEDS, "foreign", "ca", Reason::UnknownCa),
        (LEEDS, "client", "p384-ca", Reason::ServerCertificateRefused),
        (YORK, "foreign", "p384-ca", Reason::PolicyAccept),
        (YORK, "client", "p384-ca", Reason::UnknownCa),
        (YORK, "foreign", "ca", Reason::ServerCertificateRefused),
    ] {
        let found = outcome(&mut node, switch, certificate, root);
        assert_eq!(found, reason, "{switch} {certificate} {root}");
    }
}

#[tokio::test]
async fn a_profile_of_the_client_goes_before_one_of_its_site() {
    let mut node = Node::with(SITES, |setup| {
        setup.profiles = vec![
            profile("leeds", "server", "foreign-ca", &["leeds"], &[]),
            profile("wide", "server", "p384-ca", &[], &["192.0.0.0/8"]),
            profile("narrow", "server", "rsa2048-ca", &[], &["192.0.2.0/24"]),
            // a part of the client's network: which of the two it would be is not for one packet to say
            profile("too narrow", "server", "ca", &[], &["192.0.2.0/25"]),
        ];
    })
    .await;
    assert_eq!(outcome(&mut node, LEEDS, "rsa2048-client", "ca"), Reason::PolicyAccept);
    for certificate in ["foreign", "p384-client", "client"] {
        let reason = outcome(&mut node, LEEDS, certificate, "ca");
        assert!(
            matches!(reason, Reason::UnknownCa | Reason::ChainIncomplete),
            "{certificate}: {reason}"
        );
    }
    assert_eq!(outcome(&mut node, YORK, "client", "ca"), Reason::PolicyAccept);
}

#[tokio::test]
async fn a_profiles_tls_versions_lie_between_the_clients_and_the_configurations() {
    let older = SITES.replacen(
        "network = \"192.0.2.0/24\"",
        "network = \"192.0.2.0/24\"\nmin_tls = \"1.2\"",
        1,
    );
    for (document, expected) in [(SITES, Reason::TlsVersion), (&*older, Reason::PolicyAccept)] {
        let mut node = Node::with(document, |setup| {
            let mut newer = profile("newer", "server", "ca", &["leeds"], &[]);
            newer.settings.min_version = TlsVersion::V13;
            setup.profiles = vec![newer];
        })
        .await;
        let old = laptop().version(TlsVersion::V12);
        node.authenticate(&mut Switch::new(LEEDS), &mut old.attempt(LAPTOP_PORT));
        assert_eq!(node.record().reason, expected);
        node.authenticate(&mut Switch::new(YORK), &mut old.attempt(LAPTOP_PORT))
            .accept();
        node.record();
    }
}

/// A supplicant that can verify RSA signatures only, or ECDSA only, or both.
fn verifies(tls: &mut ClientTls, rsa: bool, ecdsa: bool) {
    use webpki::aws_lc_rs as algorithms;
    type Mapping = &'static [(
        SignatureScheme,
        &'static [&'static dyn rustls_pki_types::SignatureVerificationAlgorithm],
    )];
    const RSA: Mapping = &[
        (
            SignatureScheme::RSA_PSS_SHA256,
            &[algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY],
        ),
        (
            SignatureScheme::RSA_PKCS1_SHA256,
            &[algorithms::RSA_PKCS1_2048_8192_SHA256],
        ),
    ];
    const ECDSA: Mapping = &[(SignatureScheme::ECDSA_NISTP256_SHA256, &[algorithms::ECDSA_P256_SHA256])];
    let all = provider().signature_verification_algorithms;
    tls.provider = Arc::new(CryptoProvider {
        signature_verification_algorithms: WebPkiSupportedAlgorithms {
            all: all.all,
            mapping: match (rsa, ecdsa) {
                (true, true) => all.mapping,
                (true, false) => RSA,
                (false, _) => ECDSA,
            },
        },
        ..(*provider()).clone()
    });
}

#[tokio::test]
async fn each_supplicant_gets_the_first_certificate_that_it_can_verify() {
    let mut node = Node::with(SITES, |setup| {
        let rsa: CertificateFiles = trust_files("rsa2048-server", &["ca"]).certificates.remove(0);
        setup.trust.certificates.push(rsa);
    })
    .await;
    for (rsa, ecdsa, root) in [(true, false, "rsa2048-ca"), (false, true, "ca"), (true, true, "ca")] {
        for version in [TlsVersion::V12, TlsVersion::V13] {
            let supplicant = Supplicant {
                root,
                ..laptop().version(version)
            };
            let mut tls = supplicant.tls();
            verifies(&mut tls, rsa, ecdsa);
            let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
            node.authenticate(&mut Switch::new(LEEDS), &mut attempt).accept();
            assert_eq!(node.record().tls, Some(version.word()));
        }
    }
}

#[tokio::test]
async fn a_supplicant_that_can_verify_no_certificate_is_told_so() {
    let mut node = Node::start(SITES).await;
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let mut tls = laptop().version(version).tls();
        verifies(&mut tls, true, false);
        let mut attempt = eap_attempt(&settings_over(tls), LAPTOP_PORT);
        node.authenticate(&mut Switch::new(LEEDS), &mut attempt).reject();
        let record = node.record();
        assert_eq!(
            record.reason,
            Reason::TlsNoCommon,
            "{version}: {}",
            text(&record, Text::Detail)
        );
        assert_eq!(
            text(&record, Text::Detail),
            "none of the server's certificates fits the signature algorithms offered; we sent the alert access_denied"
        );
    }
}
