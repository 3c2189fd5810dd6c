//! Whole EAP-TLS conversations over the trust set: each kind of key gets in, each odd certificate is refused with its own
//! reason and the alert that tells the supplicant.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;
    use std::sync::Arc;

    use portreeve::eap::method::Methods;
    use portreeve::eap::peer::{self, ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
    use portreeve::eap::server::{Conversation, FirstMessage, Offer, Settings, Step, Verdict};
    use portreeve::eap::tls::ticket::Scope;
    use portreeve::eap::tls::{TlsVersion, provider};
    use portreeve::reason::Reason;
    use portreeve::trust::{self, Clock, TrustSet, TrustStore};
    use rustls::RootCertStore;
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

    const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

    fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
        let path = pki::folder().unwrap().join(name);
        CertificateDer::pem_file_iter(path)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    /// The set of a root's kind: `` or `rsa2048-`.
    fn set(kind: &str) -> TrustSet {
        let dir = pki::folder().unwrap();
        let settings = trust::Settings::new(
            dir.join(format!("{kind}server.pem")),
            dir.join(format!("{kind}server.key")),
            vec![dir.join(format!("{kind}ca.pem"))],
        );
        TrustSet::load(&settings, Arc::new(Clock)).unwrap()
    }

    /// A supplicant that shows `client`, or nothing.
    fn supplicant(root: &str, client: Option<&str>, version: TlsVersion) -> Peer {
        let mut roots = RootCertStore::empty();
        roots.add(certificates(root).remove(0)).unwrap();
        let certificate = client.map(|name| ClientCertificate {
            chain: certificates(&format!("{name}.pem")),
            key: PrivateKeyDer::from_pem_file(pki::folder().unwrap().join(key_file(name))).unwrap(),
        });
        let names = vec![ServerName::try_from("radius.example").unwrap()];
        let tls = ClientTls {
            provider: provider(),
            time: Arc::new(Clock),
            trust: ServerTrust::Ca {
                roots: Arc::new(roots),
                names,
            },
            certificate,
            min_version: version,
            max_version: version,
        };
        Peer::new(Arc::new(PeerSettings {
            identity: b"anonymous".to_vec(),
            md5_password: None,
            tls: Some(tls.build().unwrap()),
            tunnel: None,
            fragment_size: 1_024,
            strictness: Strictness::Strict,
        }))
    }

    /// A key too weak to be loaded here is never asked to sign: its certificate is refused before.
    fn key_file(name: &str) -> String {
        let name = if name == "rsa1024" { "client" } else { name };
        format!("{name}.key")
    }

    /// How a conversation ended: at the server, and at the supplicant.
    fn converse(set: &TrustSet, peer: Peer) -> (Result<(), (Reason, Option<String>)>, peer::Step) {
        converse_and(set, peer, || {})
    }

    /// `meanwhile` happens when the first request is out.
    fn converse_and(
        set: &TrustSet,
        mut peer: Peer,
        meanwhile: impl FnOnce(),
    ) -> (Result<(), (Reason, Option<String>)>, peer::Step) {
        let settings = Settings {
            tls: Arc::clone(&set.tls),
            min_version: TlsVersion::V12,
            max_version: TlsVersion::V13,
            fragment_size: 1_024,
            scope: Scope::at(1),
            methods: Methods::ALL,
            offer: Offer::Tls,
        };
        let mut random = |octets: &mut [u8]| octets.fill(7);
        let identity = peer.identity_response(1);
        let (mut conversation, mut step) =
            Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
        meanwhile();
        for _ in 0..100 {
            step = match step {
                Step::Send(request) => match peer.step(&request) {
                    peer::Step::Reply(response) => conversation.step(&response, &mut random),
                    other => panic!("{other:?}"),
                },
                Step::Decide(_) => conversation.decide(Verdict::Accept),
                Step::Success { eap, .. } => return (Ok(()), peer.step(&eap)),
                Step::Failure { eap, reason, detail } => return (Err((reason, detail)), peer.step(&eap)),
                Step::Discard(why) => panic!("{why:?}"),
            };
        }
        panic!("no end")
    }

    #[test]
    fn every_kind_of_key_in_both_versions() {
        for kind in ["", "p384-", "rsa2048-", "rsa4096-"] {
            let set = set(kind);
            for version in VERSIONS {
                let client = if kind.is_empty() {
                    "chain".into()
                } else {
                    format!("{kind}client")
                };
                let (server, peer) = converse(&set, supplicant(&format!("{kind}ca.pem"), Some(&client), version));
                assert_eq!(server, Ok(()), "{kind} {version}");
                assert!(
                    matches!(peer, peer::Step::Success { msk: Some(_) }),
                    "{kind} {version}: {peer:?}"
                );
            }
        }
    }

    #[test]
    fn every_refusal_has_its_reason_and_its_alert() {
        let set = set("");
        for (client, expected, alert) in [
            (
                None,
                Reason::NoCertificate,
                ["certificate_required", "handshake_failure"],
            ),
            (Some("expired"), Reason::CertificateExpired, ["certificate_expired"; 2]),
            (
                Some("future"),
                Reason::CertificateNotYetValid,
                ["certificate_expired"; 2],
            ),
            (
                Some("wrong-eku"),
                Reason::CertificateWrongUsage,
                ["unsupported_certificate"; 2],
            ),
            (Some("foreign"), Reason::UnknownCa, ["unknown_ca"; 2]),
            (Some("namesake"), Reason::UnknownCa, ["unknown_ca"; 2]),
            (Some("incomplete"), Reason::ChainIncomplete, ["unknown_ca"; 2]),
            (Some("sha1"), Reason::CertificateWeak, ["unsupported_certificate"; 2]),
            (Some("rsa1024"), Reason::CertificateWeak, ["unsupported_certificate"; 2]),
            (Some("v1"), Reason::CertificateMalformed, ["bad_certificate"; 2]),
        ] {
            for version in VERSIONS {
                let (server, peer) = converse(&set, supplicant("ca.pem", client, version));
                let (reason, detail) = server.unwrap_err();
                assert_eq!(reason, expected, "{client:?} {version}: {detail:?}");
                let peer::Step::Failure(peer::Failure::Alert(sent)) = &peer else {
                    panic!("{client:?} {version}: {peer:?}")
                };
                assert!(alert.contains(&sent.as_str()), "{client:?} {version}: {sent}");
                assert!(detail.is_some(), "{client:?} {version}");
            }
        }
    }

    #[test]
    fn a_reload_drops_no_conversation() {
        let (from, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        let copy = |name: &str, to: &str| std::fs::copy(from.join(name), own.path().join(to)).unwrap();
        copy("server.pem", "server.pem");
        copy("server.key", "server.key");
        copy("ca.pem", "ca.pem");
        let settings = trust::Settings::new(
            own.path().join("server.pem"),
            own.path().join("server.key"),
            vec![own.path().join("ca.pem")],
        );
        let store = TrustStore::load(settings, Vec::new(), Arc::new(Clock)).unwrap();
        for version in VERSIONS {
            copy("ca.pem", "ca.pem");
            copy("server.pem", "server.pem");
            copy("server.key", "server.key");
            assert!(store.reload().refused.is_empty());
            let client = || supplicant("ca.pem", Some("client"), version);
            // the CA is withdrawn, and the server has another certificate, while the conversation is under way
            let (server, _) = converse_and(store.current().default_set(), client(), || {
                copy("foreign-ca.pem", "ca.pem");
                copy("p384-server.pem", "server.pem");
                copy("p384-server.key", "server.key");
                assert!(store.reload().refused.is_empty());
            });
            assert_eq!(server, Ok(()), "{version}");
            // the next one sees the new set; the supplicant trusts no server of the other root
            let (server, _) = converse(
                store.current().default_set(),
                supplicant("p384-ca.pem", Some("client"), version),
            );
            assert_eq!(server.unwrap_err().0, Reason::UnknownCa, "{version}");
            let (server, _) = converse(
                store.current().default_set(),
                supplicant("p384-ca.pem", Some("foreign"), version),
            );
            assert_eq!(server, Ok(()), "{version}");
        }
    }
}
