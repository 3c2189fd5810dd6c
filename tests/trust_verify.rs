//! Which client certificates are accepted, and the reason for each that is not.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;

    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use portreeve::eap::tls::Refused;
    use portreeve::reason::Reason;
    use portreeve::trust::{Clock, Settings, Summary, TrustSet};
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, UnixTime};

    fn set(dir: &Path, authorities: &[&str]) -> TrustSet {
        TrustSet::load(&settings(dir, authorities), Arc::new(Clock)).unwrap()
    }

    fn settings(dir: &Path, authorities: &[&str]) -> Settings {
        Settings::new(
            dir.join("server.pem"),
            dir.join("server.key"),
            authorities.iter().map(|name| dir.join(name)).collect(),
        )
    }

    fn chain(path: PathBuf) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(path)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
    }

    fn verify(set: &TrustSet, chain: &[CertificateDer<'static>]) -> Result<(), Refused> {
        set.verifier().verify(&chain[0], &chain[1..], now())
    }

    #[test]
    fn each_odd_certificate_has_its_reason() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        for (name, expected, detail) in [
            ("client", None, ""),
            ("chain", None, ""),
            ("no-eku", None, ""),
            ("odd-names", None, ""),
            ("expired", Some(Reason::CertificateExpired), "expired at 20"),
            ("future", Some(Reason::CertificateNotYetValid), "valid from 20"),
            (
                "wrong-eku",
                Some(Reason::CertificateWrongUsage),
                "only for TLS Web Server Authentication",
            ),
            (
                "any-eku",
                Some(Reason::CertificateWrongUsage),
                "only for Any Extended Key Usage",
            ),
            ("no-signing", Some(Reason::CertificateWrongUsage), "digitalSignature"),
            (
                "ca-as-client",
                Some(Reason::CertificateWrongUsage),
                "a CA's certificate",
            ),
            ("sha1", Some(Reason::CertificateWeak), "ecdsa-with-SHA1"),
            ("rsa1024", Some(Reason::CertificateWeak), "RSA-1024"),
            ("v1", Some(Reason::CertificateMalformed), "X.509 version 1"),
            ("foreign", Some(Reason::UnknownCa), "/C=GB/O=Elsewhere/CN=Foreign Root"),
            ("namesake", Some(Reason::UnknownCa), "another CA of the same name"),
            (
                "incomplete",
                Some(Reason::ChainIncomplete),
                "/C=GB/O=Example/CN=Example Issuing CA 1",
            ),
            ("rsa2048-client", Some(Reason::ChainIncomplete), "same organisation"),
            ("foreign-ca", Some(Reason::CertificateWrongUsage), ""),
        ] {
            let refused = verify(&set, &chain(dir.join(format!("{name}.pem")))).err();
            assert_eq!(
                refused.as_ref().map(|refused| refused.reason),
                expected,
                "{name}: {refused:?}"
            );
            let text = refused.and_then(|refused| refused.detail).unwrap_or_default();
            assert!(text.contains(detail), "{name}: {text}");
        }
    }

    #[test]
    fn every_kind_of_key_is_accepted_under_its_own_root() {
        let dir = pki::folder().unwrap();
        for kind in ["p384", "rsa2048", "rsa4096"] {
            let set = set(&dir, &[&format!("{kind}-ca.pem")]);
            assert_eq!(
                verify(&set, &chain(dir.join(format!("{kind}-client.pem")))),
                Ok(()),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_root_that_was_sent_names_the_stranger() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        let mut with_root = chain(dir.join("foreign.pem"));
        with_root.extend(chain(dir.join("foreign-ca.pem")));
        let refused = verify(&set, &with_root).unwrap_err();
        assert_eq!(refused.reason, Reason::UnknownCa);
        assert!(
            refused
                .detail
                .unwrap()
                .contains("its root is `/C=GB/O=Elsewhere/CN=Foreign Root`")
        );
    }

    #[test]
    fn an_intermediate_among_the_client_cas_completes_the_chain() {
        let dir = pki::folder().unwrap();
        let incomplete = chain(dir.join("incomplete.pem"));
        let both = set(&dir, &["ca.pem", "intermediate.pem"]);
        assert_eq!(verify(&both, &incomplete), Ok(()));
        let anchors: Vec<_> = both.authorities().iter().map(|ca| ca.is_anchor).collect();
        assert_eq!(anchors, [true, false]);
        // alone it is trusted as it stands
        let alone = set(&dir, &["intermediate.pem"]);
        assert_eq!(verify(&alone, &incomplete), Ok(()));
        assert_eq!(
            verify(&alone, &chain(dir.join("client.pem"))).unwrap_err().reason,
            Reason::ChainIncomplete
        );
    }

    #[test]
    fn an_intermediate_that_others_send_is_known_to_be_missing() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        assert_eq!(verify(&set, &chain(dir.join("chain.pem"))), Ok(()));
        let refused = verify(&set, &chain(dir.join("incomplete.pem"))).unwrap_err();
        assert_eq!(refused.reason, Reason::ChainIncomplete);
        assert!(refused.detail.unwrap().contains("as others do"));
    }

    #[test]
    fn an_anchor_that_has_expired_lets_nobody_in() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        let client = chain(dir.join("client.pem"));
        let later = UnixTime::since_unix_epoch(Duration::from_secs(now().as_secs() + 400 * 86_400));
        let refused = set.verifier().verify(&client[0], &[], later).unwrap_err();
        assert_eq!(refused.reason, Reason::CertificateExpired);
        // a leaf that outlives its CA
        let temporary = tempfile::tempdir().unwrap();
        let (ca, leaf) = outliving(temporary.path());
        let set = TrustSet::load(
            &Settings {
                client_ca: vec![ca],
                ..settings(&dir, &[])
            },
            Arc::new(Clock),
        )
        .unwrap();
        let refused = verify(&set, &chain(leaf)).unwrap_err();
        assert_eq!(refused.reason, Reason::CertificateExpired);
        assert!(refused.detail.unwrap().contains("the client CA `/CN=short` expired at"));
    }

    /// A CA that expired yesterday and a client's certificate of it that has not.
    fn outliving(dir: &Path) -> (PathBuf, PathBuf) {
        use rcgen::{CertificateParams, DnType, IsCa, KeyPair};
        let today = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now().as_secs());
        let day = Duration::from_secs(86_400);
        let params = |name: &str, days_left: i32| {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = today - day * 10;
            params.not_after = if days_left < 0 { today - day } else { today + day };
            params
        };
        let mut ca = params("short", -1);
        ca.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = rcgen::CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let leaf = params("long", 1).signed_by(&KeyPair::generate().unwrap(), &ca).unwrap();
        let paths = (dir.join("ca.pem"), dir.join("leaf.pem"));
        std::fs::write(&paths.0, ca.pem()).unwrap();
        std::fs::write(&paths.1, leaf.pem()).unwrap();
        paths
    }

    /// A chain that was found good is remembered, and is so only while all of it is valid, in the order and company that it
    /// was found in.
    #[test]
    fn what_was_found_good_is_so_until_it_expires() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        let chain = chain(dir.join("deep.pem"));
        let at = |days: i64| now().as_secs().saturating_add_signed(days * 86_400);
        let judged = |chain: &[CertificateDer<'static>], seconds| {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            set.verifier()
                .verify(&chain[0], &chain[1..], time)
                .map_err(|refused| refused.reason)
        };
        for _ in 0..2 {
            assert_eq!(judged(&chain, at(0)), Ok(()));
            assert_eq!(judged(&chain, at(400)), Err(Reason::CertificateExpired));
            assert_eq!(judged(&chain, at(-400)), Err(Reason::CertificateNotYetValid));
            assert_eq!(judged(&chain[..1], at(0)), Err(Reason::ChainIncomplete));
        }
        let mut forged = chain.clone();
        let mut octets = forged[0].to_vec();
        *octets.last_mut().unwrap() ^= 1;
        forged[0] = octets.into();
        assert!(judged(&forged, at(0)).is_err());
    }

    #[test]
    fn what_is_sent_beside_a_certificate_is_bounded() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        let mut long = chain(dir.join("client.pem"));
        long.extend(std::iter::repeat_n(chain(dir.join("foreign-ca.pem")).remove(0), 11));
        let refused = verify(&set, &long).unwrap_err();
        assert_eq!(
            (refused.reason, refused.detail.as_deref()),
            (Reason::CertificateConstraint, Some("a chain of 12 certificates"))
        );
    }

    #[test]
    fn a_chain_that_is_cut_elsewhere_is_another_chain() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        let leaf = chain(dir.join("client.pem")).remove(0);
        assert_eq!(verify(&set, &[leaf.clone(), vec![0].into()]), Ok(()));
        let longer: CertificateDer<'static> = [&leaf[..], &[0]].concat().into();
        assert_eq!(
            verify(&set, &[longer]).unwrap_err().reason,
            Reason::CertificateMalformed
        );
    }

    #[test]
    fn octets_that_are_no_certificate_are_malformed() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        let good = chain(dir.join("client.pem")).remove(0);
        for bad in [
            vec![],
            vec![0x30, 0],
            b"hello".to_vec(),
            good[..good.len() - 1].to_vec(),
            [&good[..], &[0]].concat(),
        ] {
            let refused = set.verifier().verify(&bad.into(), &[], now()).unwrap_err();
            assert_eq!(refused.reason, Reason::CertificateMalformed);
        }
    }

    #[test]
    fn the_issuing_ca_is_one_that_was_verified() {
        let dir = pki::folder().unwrap();
        let root = chain(dir.join("ca.pem")).remove(0);
        let set = set(&dir, &["ca.pem"]);
        let direct = chain(dir.join("client.pem"));
        assert_eq!(verify(&set, &direct), Ok(()));
        assert_eq!(set.verifier().issuer(&direct, now()), Some(&root));

        let full = chain(dir.join("chain.pem"));
        assert_eq!(verify(&set, &full), Ok(()));
        assert_eq!(set.verifier().issuer(&full, now()), Some(&full[1]));

        // Somebody sends, before the real one, a certificate that has the issuer's name and key but other words in it.
        let pem = std::fs::read_to_string(dir.join("intermediate.pem")).unwrap();
        let key = rcgen::KeyPair::from_pem(&std::fs::read_to_string(dir.join("intermediate.key")).unwrap()).unwrap();
        let original = rcgen::Issuer::from_ca_cert_pem(&pem, key).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CountryName, "GB");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "Example");
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "Example Issuing CA 1");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let forged = params.self_signed(original.key()).unwrap().der().clone();
        assert_eq!(
            Summary::of(&forged).unwrap().subject,
            Summary::of(&full[1]).unwrap().subject
        );
        let fooled = vec![full[0].clone(), forged, full[1].clone()];
        for set in [&set, &self::set(&dir, &["ca.pem"])] {
            assert_eq!(verify(set, &fooled), Ok(()));
            assert_eq!(set.verifier().issuer(&fooled, now()), Some(&fooled[2]));
        }
        // nor does a fresh verifier need to have seen the chain before
        assert_eq!(
            self::set(&dir, &["ca.pem"]).verifier().issuer(&full, now()),
            Some(&full[1])
        );
    }

    #[test]
    fn openssl_agrees_about_the_plain_cases() {
        let dir = pki::folder().unwrap();
        let set = set(&dir, &["ca.pem"]);
        for name in [
            "client",
            "no-eku",
            "expired",
            "future",
            "wrong-eku",
            "no-signing",
            "foreign",
            "incomplete",
        ] {
            let verified = std::process::Command::new("openssl")
                .args([
                    "verify",
                    "-purpose",
                    "sslclient",
                    "-CAfile",
                    "ca.pem",
                    &format!("{name}.pem"),
                ])
                .current_dir(&dir)
                .output()
                .unwrap();
            // a key that may only agree on keys is good enough for openssl, though no handshake here can use it
            let openssl = verified.status.success() && name != "no-signing";
            assert_eq!(
                verify(&set, &chain(dir.join(format!("{name}.pem")))).is_ok(),
                openssl,
                "{name}"
            );
        }
    }
}
