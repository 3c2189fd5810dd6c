//! Supplicants: wpa_supplicant's `eapol_test`, and this project's own for the certificates that it refuses to load.

use portreeve::eap::tls::TlsVersion;

use crate::support::nas::{Nas, Round, peer};
use crate::support::node::{Node, Plan, pem};
use crate::support::supplicant::Eapol;
use crate::support::{Fallible, each, ensure};

const LISTED: &str = "02-00-00-00-00-01";
const VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// Certificates of the Example CAs get in, listed printers too, and nobody else.
const DOCUMENT: &str = r#"
[[policy]]
name = "laptops"
rules = ["TLS-Client-Cert-Issuer contains /O=Example/"]
responses = [
    "Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120",
    "Class = of-%{TLS-Client-Cert-Subject-Alt-Name-Email}", "Class = %{TLS-Client-Cert-Subject-Alt-Name-Upn}",
]

[[site]]
name = "Site"
tag = "site"
policies = [{ policy = "laptops", priority = 10 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"

[[site.client]]
network = "127.0.2.200"
secret = "testing123"
fragment_size = 200

[[site.client]]
network = "127.0.5.120"
secret = "testing123"
fragment_size = 1400

[[site.client]]
network = "127.0.6.13"
secret = "testing123"
min_tls = "1.3"

[[site.mac]]
address = "02-00-00-00-00-01"

[[site]]
name = "Closed"
tag = "closed"

[[site.client]]
network = "127.0.6.1"
secret = "testing123"
"#;

fn node() -> Fallible<Node> {
    Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })
}

/// Chains of one kind of key from root to device, both through an intermediate; both versions, small and large
/// fragments.
fn every_version_and_fragment(kind: &str) -> Fallible {
    let ca = format!("{kind}ca");
    let node = Node::start(Plan {
        certificate: &format!("{kind}server-chain"),
        client_ca: &[&ca],
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let cases: Vec<_> = VERSIONS
        .into_iter()
        .flat_map(|version| [(version, 200, "127.0.2.200"), (version, 1_400, "127.0.5.120")])
        .collect();
    let name = |&(version, size, _): &(&str, i32, &str)| format!("{kind} {version} {size}");
    each(&cases, name, |case| {
        let (name, (version, size, source)) = (name(case), *case);
        let mut supplicant = Eapol::tls(&name, version, "laptop-7", &format!("{kind}chain"), &ca)?;
        supplicant.network += &format!("fragment_size={size}\n");
        supplicant.source = source;
        let ran = supplicant.gets_in(&node)?;
        // RFC 9190 section 2.5: the server's protected success indication, one octet 0x00, comes before EAP-Success;
        // without it eapol_test would succeed all the same
        let has_commitment = ran.output.contains("EAP-TLS: ACKing Commitment Message");
        ensure(has_commitment == (version == "1.3"), || ran.output.clone())?;
        let expected = [
            ("outcome", "accept"),
            ("reason", "policy-accept"),
            ("method", "eap-tls"),
            ("tls", version),
            ("cn", "laptop-7"),
            ("vlan", "120"),
        ];
        node.expect(&name, &expected)
    })
}

#[test]
fn p256_in_both_versions_and_all_fragments() -> Fallible {
    every_version_and_fragment("")
}

#[test]
fn p384_in_both_versions_and_all_fragments() -> Fallible {
    every_version_and_fragment("p384-")
}

#[test]
fn p521_in_both_versions_and_all_fragments() -> Fallible {
    every_version_and_fragment("p521-")
}

#[test]
fn ed25519_in_both_versions_and_all_fragments() -> Fallible {
    every_version_and_fragment("ed25519-")
}

/// Certificates as Microsoft's CA, Intune and Jamf make them, each let in by a rule on the name that it has.
#[test]
fn certificates_of_device_management_get_in_by_their_names() -> Fallible {
    let cases = [
        (
            "adcs-computer",
            "Subject-Alt-Name-Dns == LAPTOP-7.corp.example.com",
            "LAPTOP-7.corp.example.com",
        ),
        (
            "adcs-user",
            "Subject-Alt-Name-Upn ends-with @corp.example.com",
            "Seven of Leeds",
        ),
        (
            "intune",
            "Subject-Alt-Name-Uri starts-with tag:microsoft.com,2022-09-14:sid:S-1-5-21-",
            "3f2b8a10-1d2c-4b7e-9a44-0c51e7d0a7b7",
        ),
        ("jamf", "Subject == /CN=C02XK1ABCDEF/O=Example", "C02XK1ABCDEF"),
    ];
    let mut document = String::new();
    let mut policies = Vec::new();
    for (number, (name, rule, _)) in cases.iter().enumerate() {
        document += &format!("[[policy]]\nname = \"{name}\"\nrules = [\"TLS-Client-Cert-{rule}\"]\n");
        policies.push(format!("{{ policy = \"{name}\", priority = {number} }}"));
    }
    document += &format!(
        "[[site]]\nname = \"Site\"\ntag = \"site\"\npolicies = [{}]\n\
         [[site.client]]\nnetwork = \"127.0.0.0/8\"\nsecret = \"testing123\"\n",
        policies.join(", ")
    );
    let node = Node::start(Plan {
        document: &document,
        ..Plan::default()
    })?;
    each(
        &cases,
        |case| case.0.to_owned(),
        |&(certificate, _, cn)| {
            for version in VERSIONS {
                let name = format!("{certificate} {version}");
                Eapol::tls(&name, version, "host/laptop-7", certificate, "ca")?.gets_in(&node)?;
                node.expect(&name, &[("policy", certificate), ("cn", cn), ("tls", version)])?;
            }
            Ok(())
        },
    )
}

/// Keys that may sign by RSASSA-PSS only, with a hash of their own or with any: rustls asks for their signatures in TLS 1.3
/// only, so that a supplicant that must speak TLS 1.2 shows no certificate.
#[test]
fn pss_keys_in_tls_1_3() -> Fallible {
    let node = node()?;
    for certificate in ["pss", "pss-sha256"] {
        Eapol::tls(certificate, "1.3", "old", certificate, "ca")?.gets_in(&node)?;
        node.expect(certificate, &[("outcome", "accept"), ("tls", "1.3"), ("cn", "old")])?;
        let old = format!("{certificate} 1.2");
        Eapol::tls(&old, "1.2", "old", certificate, "ca")?.is_refused(&node, "no-certificate")?;
    }
    Ok(())
}

#[test]
fn rsa2048_in_both_versions_and_all_fragments() -> Fallible {
    every_version_and_fragment("rsa2048-")
}

#[test]
fn rsa4096_in_both_versions_and_all_fragments() -> Fallible {
    every_version_and_fragment("rsa4096-")
}

/// An ECDSA and an RSA certificate of the server side by side, in a profile of the site: which of the two a supplicant
/// gets is seen by the root that it believes in.
#[test]
fn each_supplicant_gets_a_certificate_of_its_kind() -> Fallible {
    let file = |name: &str| pem(name).map(|path| path.display().to_string());
    let profile = format!(
        "[[eap.tls.profile]]\nname = \"both\"\nsites = \"site\"\n\
         certificate = [\"{}\", \"{}\"]\nprivate_key = [\"{}\", \"{}\"]\n",
        file("server.pem")?,
        file("rsa2048-server.pem")?,
        file("server.key")?,
        file("rsa2048-server.key")?,
    );
    let node = Node::start(Plan {
        certificate: "p384-server",
        tls: &profile,
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let cases = [
        ("rsa only", "1.2", "ECDHE-RSA-AES128-GCM-SHA256", "rsa2048-ca"),
        ("ecdsa only", "1.2", "ECDHE-ECDSA-AES128-GCM-SHA256", "ca"),
        ("both", "1.2", "DEFAULT", "ca"),
        ("both 1.3", "1.3", "DEFAULT", "ca"),
    ];
    each(
        &cases,
        |case| case.0.to_owned(),
        |&(name, version, ciphers, root)| {
            let mut supplicant = Eapol::tls(name, version, "laptop-7", "client", root)?;
            supplicant.network += &format!("openssl_ciphers=\"{ciphers}\"\n");
            supplicant.gets_in(&node)?;
            node.expect(name, &[("outcome", "accept"), ("tls", version)])
        },
    )
}

#[test]
fn certificates_are_refused_each_for_its_own_reason() -> Fallible {
    let node = node()?;
    let refused = [
        ("expired", "certificate-expired", "expired"),
        ("future", "certificate-not-yet-valid", "expired"),
        ("foreign", "unknown-ca", "unknown CA"),
        ("incomplete", "chain-incomplete", "unknown CA"),
        ("wrong-eku", "certificate-wrong-usage", "unsupported certificate"),
    ];
    let cases: Vec<_> = refused
        .into_iter()
        .flat_map(|case| VERSIONS.map(|version| (case, version)))
        .collect();
    let name = |((certificate, ..), version): &((&str, &str, &str), &str)| format!("{certificate} {version}");
    each(&cases, name, |case| {
        let ((certificate, reason, alert), version) = *case;
        let name = name(case);
        let ran = Eapol::tls(&name, version, "laptop-7", certificate, "ca")?.is_refused(&node, reason)?;
        // a refusal tells the supplicant by a TLS alert, and only then by EAP-Failure (RFC 5216 section 2.1.3)
        ran.expect(alert)?;
        node.expect(&name, &[("cn", "laptop-7"), ("tls", version)])
    })
}

/// A certificate that is good and a site that lets nobody in: the alert says so, after the handshake in TLS 1.2 (RFC 5216
/// section 2.1.3) and before the protected success indication in TLS 1.3 (RFC 9190 section 2.1.4).
#[test]
fn a_policy_refuses_with_an_alert() -> Fallible {
    let node = node()?;
    each(
        &VERSIONS,
        |version| (*version).to_owned(),
        |version| {
            let supplicant = Eapol {
                source: "127.0.6.1",
                ..Eapol::tls(version, version, "laptop-7", "client", "ca")?
            };
            let ran = supplicant.is_refused(&node, "no-fallback")?;
            ran.expect("fatal:access denied")?;
            ensure(!ran.output.contains("ACKing Commitment Message"), || ran.output.clone())?;
            let expected = [("site", "closed"), ("method", "eap-tls"), ("cn", "laptop-7")];
            node.expect(version, &expected)
        },
    )
}

#[test]
fn an_old_version_is_refused_where_the_client_forbids_it() -> Fallible {
    let node = node()?;
    let from = |version| -> Fallible<Eapol<'_>> {
        Ok(Eapol {
            source: "127.0.6.13",
            ..Eapol::tls(version, version, "laptop-7", "client", "ca")?
        })
    };
    from("1.2")?
        .is_refused(&node, "tls-version")?
        .expect("protocol version")?;
    from("1.3")?.gets_in(&node).map(drop)
}

/// What eapol_test does not load, or does not do: it refuses the method when it has no certificate.
#[test]
fn absent_and_weak_certificates_are_refused_each_for_its_own_reason() -> Fallible {
    let node = node()?;
    for (certificate, reason) in [
        (None, "no-certificate"),
        (Some("sha1"), "certificate-weak"),
        (Some("v1"), "certificate-malformed"),
        (Some("rsa1024"), "certificate-weak"),
    ] {
        for version in [TlsVersion::V12, TlsVersion::V13] {
            let name = format!("{} {version}", certificate.unwrap_or("none"));
            let mut nas = Nas::new(node.address(), "127.0.0.1")?;
            let mut attempt = nas.begin(&name, peer("laptop-7", version, certificate, "ca")?);
            let end = nas.finish(&mut attempt).map_err(|error| format!("{name}: {error}"))?;
            ensure(matches!(end, Round::Reject(Some(_))), || format!("{name}: {end:?}"))?;
            node.expect(&name, &[("outcome", "reject"), ("reason", reason)])?;
        }
    }
    Ok(())
}

#[test]
fn a_listed_mac_gets_in_by_md5_and_another_does_not() -> Fallible {
    let node = node()?;
    for (name, identity, mac) in [
        ("bare", "020000000001", "02:00:00:00:00:01"),
        ("dashes", "02-00-00-00-00-01", "02:00:00:00:00:01"),
    ] {
        let supplicant = Eapol {
            mac,
            ..Eapol::md5(name, identity, identity)
        };
        supplicant.gets_in(&node)?;
        let expected = [("reason", "mac-listed"), ("method", "mab"), ("eap_type", "md5")];
        node.expect(name, &expected)?;
    }
    let other = Eapol {
        mac: "02:00:00:00:00:02",
        ..Eapol::md5("other", "020000000002", "020000000002")
    };
    other.is_refused(&node, "mac-not-listed")?;
    let wrong = Eapol {
        mac: "02:00:00:00:00:01",
        ..Eapol::md5("wrong", "020000000001", "020000000002")
    };
    wrong.is_refused(&node, "mab-password")?;
    Ok(())
}

/// A printer's address as somebody's user name: with another station's address, on a virtual port, or to log in to the
/// switch.
#[test]
fn a_borrowed_mac_is_refused_by_md5() -> Fallible {
    let node = node()?;
    let own = "02:00:00:00:00:01";
    let cases: [(&str, &str, &[&str], &str); 5] = [
        ("another station", "02:00:00:00:00:99", &[], "mac-mismatch"),
        ("no station's address", "+44 20 7946 0000", &[], "mac-mismatch"),
        ("nas prompt", own, &["6:d:7"], "not-network-access"),
        ("administrative", own, &["6:d:6"], "not-network-access"),
        ("virtual port", own, &["61:d:5"], "not-network-access"),
    ];
    each(
        &cases,
        |case| case.0.to_owned(),
        |&(name, station, attributes, reason)| {
            let station = format!("31:s:{station}");
            let mut all = attributes.to_vec();
            all.push(&station);
            let supplicant = Eapol {
                attributes: &all,
                ..Eapol::md5(name, LISTED, LISTED)
            };
            supplicant.is_refused(&node, reason)?;
            Ok(())
        },
    )
}

/// The outer identity authorises nothing, and forbids nothing: the certificate decides.
#[test]
fn a_supplicant_whose_identity_looks_like_a_mac_gets_in_by_its_certificate() -> Fallible {
    let node = node()?;
    let stations = [
        ("its own", LISTED, "02:00:00:00:00:01"),
        ("a listed one that is another's", LISTED, "02:00:00:00:00:99"),
        ("one that nobody lists", "02-00-00-00-00-77", "02:00:00:00:00:77"),
    ];
    let cases: Vec<_> = stations
        .into_iter()
        .flat_map(|case| VERSIONS.map(|version| (case, version)))
        .collect();
    let name = |((name, ..), version): &((&str, &str, &str), &str)| format!("{name} {version}");
    each(&cases, name, |case| {
        let (((_, identity, mac), version), name) = (*case, name(case));
        let supplicant = Eapol {
            mac,
            ..Eapol::tls(&name, version, identity, "client", "ca")?
        };
        supplicant.gets_in(&node)?;
        let expected = [("reason", "policy-accept"), ("method", "eap-tls"), ("cn", "laptop-7")];
        node.expect(&name, &expected)
    })
}

#[test]
fn a_laptop_that_wants_md5_does_not_get_in() -> Fallible {
    let node = node()?;
    for (name, identity, reason) in [
        ("a user's name", "laptop-7", "method-refused"),
        ("a printer's address", LISTED, "mac-mismatch"),
    ] {
        let ran = Eapol::md5(name, identity, identity).is_refused(&node, reason)?;
        ran.expect("EAP: Building EAP-Nak (requested type 13")?; // what it was offered was TLS
    }
    Ok(())
}

/// A template from the certificate's subject alternative names, and what is sent beside it, as eapol_test saw it.
#[test]
fn a_template_is_filled_from_the_certificate() -> Fallible {
    let node = node()?;
    let ran = Eapol::tls("template", "1.3", "laptop-7", "client", "ca")?.gets_in(&node)?;
    for value in ["of-seven@example.com", "seven@corp.example.com"] {
        let octets: String = value.bytes().map(|octet| format!("{octet:02x}")).collect();
        ran.expect(&format!(
            "Attribute 25 (Class) length={}\n      Value: {octets}\n",
            value.len() + 2
        ))?;
    }
    // tag 1, and the VLAN as a string (RFC 2868 section 3.6)
    ran.expect("Attribute 81 (Tunnel-Private-Group-Id) length=6\n      Value: 01313230\n")
}
