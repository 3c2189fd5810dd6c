//! What `check` finds in certificates.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;

    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use portreeve::config::eap_tls::EXPIRY_WARNING;
    use portreeve::trust::check::{Severity, findings, public_authority};
    use portreeve::trust::{Clock, Resumption, Settings, TrustSet};
    use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose};

    const DAY: i64 = 86_400;

    fn now() -> i64 {
        i64::try_from(
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs(),
        )
        .unwrap()
    }

    fn found(certificate: PathBuf, private_key: PathBuf, client_ca: Vec<PathBuf>, now: i64) -> Vec<(Severity, String)> {
        let settings = Settings::new(certificate, private_key, client_ca);
        let set = TrustSet::load(&settings, Arc::new(Clock)).unwrap();
        findings([&set], now, EXPIRY_WARNING)
            .into_iter()
            .map(|finding| (finding.severity, finding.text))
            .collect()
    }

    fn in_folder(server: &str, authorities: &[&str], now: i64) -> Vec<(Severity, String)> {
        let dir = pki::folder().unwrap();
        let authorities = authorities.iter().map(|name| dir.join(name)).collect();
        found(
            dir.join(format!("{server}.pem")),
            dir.join(format!("{server}.key")),
            authorities,
            now,
        )
    }

    #[test]
    fn a_good_set_has_none() {
        assert_eq!(in_folder("server", &["ca.pem"], now()), []);
        let dir = tempfile::tempdir().unwrap();
        let files = portreeve::trust::pki::init(dir.path(), Default::default(), now()).unwrap();
        assert_eq!(found(files.server, files.server_key, vec![files.ca], now()), []);
    }

    #[cfg(unix)]
    #[test]
    fn secrets_that_everybody_can_read() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        let file = own.path().join("ticket.keys");
        std::fs::write(&file, "s".repeat(32)).unwrap();
        let mut settings = Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![dir.join("ca.pem")]);
        settings.resumption = Some(Resumption {
            keys_file: Some(file.clone()),
            ..Resumption::default()
        });
        let set = TrustSet::load(&settings, Arc::new(Clock)).unwrap();
        for (mode, expected) in [(0o640, 0), (0o644, 1)] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            let found = findings([&set], now(), EXPIRY_WARNING);
            assert_eq!(found.len(), expected);
            for finding in found {
                let text = format!(
                    "{}: every user of this machine can read the secrets that",
                    file.display()
                );
                assert!(finding.text.starts_with(&text), "{}", finding.text);
            }
        }
    }

    #[test]
    fn each_finding() {
        for (server, authorities, later, severity, text) in [
            (
                "server",
                &["ca.pem"][..],
                340,
                Severity::Warning,
                "server certificate `radius.example` expires in 24 days",
            ),
            (
                "server",
                &["ca.pem"],
                366,
                Severity::Error,
                "server certificate `radius.example` expired at",
            ),
            (
                "server",
                &["ca.pem"],
                366,
                Severity::Error,
                "the client CA `/C=GB/O=Example/CN=Example Root` expired at",
            ),
            ("server", &["ca.pem"], -2, Severity::Error, "is not valid before"),
            ("client", &["ca.pem"], 0, Severity::Error, "is not for TLS servers"),
            ("no-eku", &["ca.pem"], 0, Severity::Warning, "has no extended key usage"),
            (
                "no-signing",
                &["ca.pem"],
                0,
                Severity::Error,
                "keyUsage without digitalSignature",
            ),
            ("sha1", &["ca.pem"], 0, Severity::Error, "signed with ecdsa-with-SHA1"),
            ("odd-names", &["ca.pem"], 0, Severity::Error, "is not for TLS servers"),
            ("ca", &["ca.pem"], 0, Severity::Warning, "is a CA's"),
            (
                "incomplete",
                &["ca.pem", "intermediate.pem"],
                0,
                Severity::Warning,
                "`/C=GB/O=Example/CN=Example Issuing CA 1` of the server's chain is missing",
            ),
            (
                "server",
                &["intermediate.pem"],
                0,
                Severity::Note,
                "is trusted as it stands",
            ),
        ] {
            let all = in_folder(server, authorities, now() + later * DAY);
            assert!(
                all.iter().any(|(how, what)| *how == severity && what.contains(text)),
                "{server} {later}: {all:?}"
            );
        }
    }

    #[test]
    fn names_and_length_of_a_servers_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = server(dir.path());
        let all = found(certificate, key, vec![pki::folder().unwrap().join("ca.pem")], now());
        for text in ["more than 825 days", "no dNSName", "wildcard", "self-signed"] {
            assert!(
                all.iter()
                    .any(|(how, what)| *how == Severity::Warning && what.contains(text)),
                "{text}: {all:?}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_everybody_can_read() {
        use std::os::unix::fs::PermissionsExt;
        let (from, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        let key = own.path().join("server.key");
        std::fs::copy(from.join("server.key"), &key).unwrap();
        for (mode, count) in [(0o600, 0), (0o640, 0), (0o644, 1)] {
            std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
            let all = found(from.join("server.pem"), key.clone(), vec![from.join("ca.pem")], now());
            assert_eq!(all.len(), count, "{mode:o} {all:?}");
        }
    }

    fn server(dir: &Path) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::default();
        let today = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now()).unwrap());
        (params.not_before, params.not_after) = (today, today + Duration::from_secs(900 * 86_400));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "*.example.com");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let paths = (dir.join("server.pem"), dir.join("server.key"));
        std::fs::write(&paths.0, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    #[test]
    fn client_cas_that_are_not_for_clients() {
        let (dir, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        let ca = |purposes: &[ExtendedKeyUsagePurpose]| {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(DnType::CommonName, format!("{}", purposes.len()));
            params.extended_key_usages = purposes.to_vec();
            params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params
        };
        let key = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(ca(&[ExtendedKeyUsagePurpose::ServerAuth]), key()).unwrap();
        let both = [
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::CodeSigning,
        ];
        let wrong = ca(&both).signed_by(&key(), &root).unwrap();
        let any = [&both[..], &[ExtendedKeyUsagePurpose::Any]].concat();
        let right = ca(&any).signed_by(&key(), &root).unwrap();
        let file = own.path().join("ca.pem");
        std::fs::write(&file, [root.pem(), wrong.pem(), right.pem()].concat()).unwrap();
        let found = found(dir.join("server.pem"), dir.join("server.key"), vec![file], now());
        let found = found
            .into_iter()
            .filter(|(_, text)| text.contains("not for client authentication"));
        let severities: Vec<_> = found.map(|(severity, _)| severity).collect();
        assert_eq!(severities, [Severity::Warning, Severity::Error]);
    }

    #[test]
    fn a_public_root_and_what_it_has_issued_are_recognised() {
        let dir = pki::folder().unwrap();
        let own = portreeve_der(&dir.join("ca.pem"));
        assert_eq!(public_authority(&own).unwrap(), None);
        // a CA with the name of a public root as its issuer: what an intermediate of it looks like
        let root = webpki_roots::TLS_SERVER_ROOTS
            .iter()
            .find(|root| contains(root.subject.as_ref(), b"ISRG Root X1"))
            .unwrap();
        let mut issuer = CertificateParams::default();
        issuer.distinguished_name = rcgen::DistinguishedName::new();
        issuer.distinguished_name.push(
            DnType::CountryName,
            rcgen::DnValue::PrintableString("US".try_into().unwrap()),
        );
        issuer.distinguished_name.push(
            DnType::OrganizationName,
            rcgen::DnValue::PrintableString("Internet Security Research Group".try_into().unwrap()),
        );
        issuer.distinguished_name.push(
            DnType::CommonName,
            rcgen::DnValue::PrintableString("ISRG Root X1".try_into().unwrap()),
        );
        issuer.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(issuer, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        assert!(contains(certificate.der(), root.subject.as_ref()));
        assert_eq!(
            public_authority(certificate.der()).unwrap().as_deref(),
            Some("/C=US/O=Internet Security Research Group/CN=ISRG Root X1")
        );
    }

    fn portreeve_der(path: &Path) -> rustls_pki_types::CertificateDer<'static> {
        use rustls_pki_types::pem::PemObject;
        rustls_pki_types::CertificateDer::from_pem_file(path).unwrap()
    }

    fn contains(octets: &[u8], part: &[u8]) -> bool {
        octets.windows(part.len()).any(|window| window == part)
    }
}
