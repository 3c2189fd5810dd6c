//! Certificates as rules see them, compared with what openssl prints: FreeRADIUS makes its attributes with openssl.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;

    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::SystemTime;

    use portreeve::policy::facts::{Facts, Seen};
    use portreeve::radius::dictionary::Dictionary;
    use portreeve::radius::dictionary::types::Value;
    use portreeve::trust::facts::FactIds;
    use portreeve::trust::{Clock, Settings, Summary, TrustSet, show};
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, UnixTime};

    fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(path)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    fn openssl(file: &Path, arguments: &str) -> String {
        let output = Command::new("openssl")
            .arg("x509")
            .arg("-in")
            .arg(file)
            .args(arguments.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
    }

    fn texts(facts: &Facts<'_>, name: &str) -> Vec<String> {
        match facts.seen(facts.dictionary().by_name(name).unwrap()) {
            Seen::Values(values) => values
                .map(|value| match value {
                    Value::Text(text) => text.to_string(),
                    other => panic!("{name}: {other:?}"),
                })
                .collect(),
            Seen::Absent => vec![],
            Seen::Malformed => panic!("{name} is malformed"),
        }
    }

    /// Loads a set, and gives the facts of a chain to `check`.
    fn with_facts(file: &str, check: impl FnOnce(&Facts<'_>)) {
        let dir = pki::folder().unwrap();
        let settings = Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![dir.join("ca.pem")]);
        let set = TrustSet::load(&settings, Arc::new(Clock)).unwrap();
        let chain = chain(&dir.join(file));
        set.verifier().verify(&chain[0], &chain[1..], now()).unwrap();
        let dictionary = Dictionary::builtin();
        let mut facts = Facts::new(dictionary);
        set.push_facts(&chain, &FactIds::new(dictionary), |_| true, now(), &mut facts);
        check(&facts);
    }

    #[test]
    fn rule_2_9_the_names_and_forms_that_freeradius_users_know() {
        let dir = pki::folder().unwrap();
        with_facts("chain.pem", |facts| {
            let client = |suffix: &str| texts(facts, &format!("TLS-Client-Cert-{suffix}"));
            assert_eq!(client("Subject"), ["/C=GB/O=Example/CN=laptop-7"]);
            assert_eq!(client("Issuer"), ["/C=GB/O=Example/CN=Example Issuing CA 1"]);
            assert_eq!(client("Common-Name"), ["laptop-7"]);
            assert_eq!(
                client("Subject-Alt-Name-Dns"),
                ["laptop-7.example.com", "laptop-7.corp.example.com"]
            );
            assert_eq!(client("Subject-Alt-Name-Email"), ["seven@example.com"]);
            assert_eq!(client("Subject-Alt-Name-Upn"), ["seven@corp.example.com"]);
            assert_eq!(client("Subject-Alt-Name-Uri"), ["urn:uuid:7"]);
            assert_eq!(client("X509v3-Extended-Key-Usage"), ["TLS Web Client Authentication"]);
            assert_eq!(client("X509v3-Extended-Key-Usage-OID"), ["1.3.6.1.5.5.7.3.2"]);
            let issuer = |suffix: &str| texts(facts, &format!("TLS-Cert-{suffix}"));
            assert_eq!(issuer("Subject"), ["/C=GB/O=Example/CN=Example Issuing CA 1"]);
            assert_eq!(issuer("Issuer"), ["/C=GB/O=Example/CN=Example Root"]);
            assert_eq!(issuer("Common-Name"), ["Example Issuing CA 1"]);
            for (role, file) in [
                ("TLS-Client-Cert-", "incomplete.pem"),
                ("TLS-Cert-", "intermediate.pem"),
            ] {
                let file = dir.join(file);
                let serial = openssl(&file, "-noout -serial").replace("serial=", "").to_lowercase();
                assert_eq!(texts(facts, &format!("{role}Serial")), [serial]);
                let fingerprint = openssl(&file, "-noout -sha256 -fingerprint");
                let fingerprint = fingerprint.split_once('=').unwrap().1.replace(':', "").to_lowercase();
                assert_eq!(texts(facts, &format!("{role}Fingerprint")), [fingerprint]);
            }
        });
    }

    #[test]
    fn expiration_is_what_the_certificate_has() {
        let dir = pki::folder().unwrap();
        with_facts("client.pem", |facts| {
            let written = texts(facts, "TLS-Client-Cert-Expiration").remove(0);
            // openssl: `notAfter=2027-11-30 14:59:07Z`
            let printed =
                openssl(&dir.join("client.pem"), "-noout -enddate -dateopt iso_8601").replace("notAfter=20", "");
            assert_eq!(written, printed.replace(['-', ':', ' '], ""));
            let summary = Summary::of(&chain(&dir.join("client.pem"))[0]).unwrap();
            assert_eq!(
                written,
                jiff::Timestamp::from_second(summary.not_after)
                    .unwrap()
                    .strftime("%y%m%d%H%M%SZ")
                    .to_string()
            );
        });
    }

    #[test]
    fn odd_values_cannot_pass_for_others() {
        let dir = pki::folder().unwrap();
        with_facts("odd-names.pem", |facts| {
            let subject = texts(facts, "TLS-Client-Cert-Subject").remove(0);
            assert_eq!(
                subject,
                r"/O=Ex\x2Fample + Co/OU=a\x5Cb/CN=M\xC3\xBCller/1.2.3.4.5=line\x0Afeed"
            );
            // openssl's form is the same but for `/` and `+`, which it escapes by a backslash, and UTF-16 that it takes for octets
            let printed =
                openssl(&dir.join("odd-names.pem"), "-noout -subject -nameopt compat").replace("subject=", "");
            let ours = subject
                .replace(r"\x2F", r"\/")
                .replace('+', r"\+")
                .replace(r"\x5C", r"\")
                .replace(r"M\xC3\xBCller", r"\x00M\x00\xFC\x00l\x00l\x00e\x00r");
            assert_eq!(ours, printed);
            assert_eq!(texts(facts, "TLS-Client-Cert-Common-Name"), ["Müller"]);
        });
    }

    #[test]
    fn the_issuing_ca_of_a_direct_client_is_the_root() {
        with_facts("client.pem", |facts| {
            assert_eq!(texts(facts, "TLS-Cert-Common-Name"), ["Example Root"]);
        });
    }

    #[test]
    fn only_what_is_wanted_is_made() {
        let dir = pki::folder().unwrap();
        let dictionary = Dictionary::builtin();
        let chain = chain(&dir.join("client.pem"));
        let wanted = dictionary.by_name("TLS-Client-Cert-Common-Name").unwrap();
        let mut facts = Facts::new(dictionary);
        let ids = FactIds::new(dictionary);
        portreeve::trust::facts::push(
            &chain[0],
            portreeve::trust::facts::Role::Client,
            &ids,
            |id| id == wanted,
            &mut facts,
        );
        assert_eq!(facts.ids(), [wanted]);
    }

    #[test]
    fn rule_2_8_a_certificate_that_cannot_be_read_is_malformed_rather_than_absent() {
        let dir = pki::folder().unwrap();
        let settings = Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![dir.join("ca.pem")]);
        let set = TrustSet::load(&settings, Arc::new(Clock)).unwrap();
        let dictionary = Dictionary::builtin();
        let ids = FactIds::new(dictionary);
        let (client, issuer) = ("TLS-Client-Cert-Common-Name", "TLS-Cert-Common-Name");
        let no_certificate = vec![CertificateDer::from(b"no certificate".to_vec())];
        // of a CA that is not among the client CAs, so that the issuer is not found
        let foreign = chain(&dir.join("foreign.pem"));
        for (chain, malformed) in [
            (&no_certificate, &[client, issuer][..]),
            (&Vec::new(), &[client, issuer]),
            (&foreign, &[issuer]),
        ] {
            let mut facts = Facts::new(dictionary);
            set.push_facts(chain, &ids, |_| true, now(), &mut facts);
            for name in [client, issuer] {
                let is_malformed = matches!(facts.seen(dictionary.by_name(name).unwrap()), Seen::Malformed);
                assert_eq!(is_malformed, malformed.contains(&name), "{name}");
            }
            let row = "TLS-Cert-Common-Name != Example-Root".parse().unwrap();
            let rule = portreeve::policy::compile::rule(dictionary, &row).unwrap();
            assert!(
                !rule.holds(&facts),
                "a complement of what cannot be read does not hold either"
            );
        }
    }

    #[test]
    fn too_many_or_too_long_is_malformed() {
        use rcgen::{CertificateParams, DnType, KeyPair, SanType};
        let make = |names: usize, length: usize| {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, "x".repeat(length));
            let name = |n: usize| SanType::DnsName(format!("host-{n}").try_into().unwrap());
            params.subject_alt_names = (0..names).map(name).collect();
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let dictionary = Dictionary::builtin();
        let ids = FactIds::new(dictionary);
        for (names, length, dns_is_malformed, cn_is_malformed) in [
            (64, 2_048, false, false),
            (65, 2_049, true, true),
            (3_000, 1, true, false),
        ] {
            let der = make(names, length);
            let mut facts = Facts::new(dictionary);
            portreeve::trust::facts::push(&der, portreeve::trust::facts::Role::Client, &ids, |_| true, &mut facts);
            let is_malformed = |name: &str| matches!(facts.seen(dictionary.by_name(name).unwrap()), Seen::Malformed);
            assert_eq!(
                is_malformed("TLS-Client-Cert-Subject-Alt-Name-Dns"),
                dns_is_malformed,
                "{names}"
            );
            assert_eq!(is_malformed("TLS-Client-Cert-Common-Name"), cn_is_malformed, "{length}");
            assert!(facts.ids().len() < 90);
        }
    }

    #[test]
    fn shown_as_policies_see_it() {
        let dir = pki::folder().unwrap();
        let text = show(&dir.join("chain.pem"), Dictionary::builtin()).unwrap();
        assert!(
            text.contains("TLS-Client-Cert-Subject == /C=GB/O=Example/CN=laptop-7\n"),
            "{text}"
        );
        assert!(
            text.contains("TLS-Cert-Subject == /C=GB/O=Example/CN=Example Issuing CA 1\n"),
            "{text}"
        );
        assert!(
            text.contains("kind         intermediate CA, P-256, signed with ecdsa-with-SHA256\n"),
            "{text}"
        );
        let error = show(&dir.join("client.key"), Dictionary::builtin()).unwrap_err();
        assert!(error.to_string().contains("holds no certificate\nhint:"));
    }
}
