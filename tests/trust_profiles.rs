//! Sets of certificates for some clients and sites, and several certificates of the server side by side.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;

    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use portreeve::config::eap_tls::EXPIRY_WARNING;
    use portreeve::trust::check::findings;
    use portreeve::trust::watch::watch;
    use portreeve::trust::{CertificateFiles, Clock, Profile, Settings, TrustError, TrustSet, TrustStore};

    fn settings(dir: &Path, server: &str, authorities: &[&str]) -> Settings {
        Settings::new(
            dir.join(format!("{server}.pem")),
            dir.join(format!("{server}.key")),
            authorities.iter().map(|name| dir.join(format!("{name}.pem"))).collect(),
        )
    }

    fn beside(dir: &Path, names: &[&str]) -> Settings {
        let mut settings = settings(dir, names[0], &["ca"]);
        settings.certificates = names
            .iter()
            .map(|name| CertificateFiles {
                certificate: dir.join(format!("{name}.pem")),
                private_key: dir.join(format!("{name}.key")),
                passphrase_file: None,
            })
            .collect();
        settings
    }

    fn profile(name: &str, settings: Settings, site: &str) -> Profile {
        Profile {
            settings: Settings {
                name: name.to_owned(),
                ..settings
            },
            sites: vec![site.to_owned()],
            clients: Vec::new(),
        }
    }

    fn load(settings: &Settings) -> TrustSet {
        TrustSet::load(settings, Arc::new(Clock)).unwrap()
    }

    /// Copies of files, which a test may spoil.
    fn own_folder(names: &[&str]) -> tempfile::TempDir {
        let (from, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        for name in names {
            fs::copy(from.join(name), own.path().join(name)).unwrap();
        }
        own
    }

    #[test]
    fn a_profile_that_does_not_load_fails_the_start_and_is_named() {
        let dir = pki::folder().unwrap();
        let broken = profile("guests", settings(&dir, "absent", &["ca"]), "leeds");
        let error = TrustStore::load(settings(&dir, "server", &["ca"]), vec![broken], Arc::new(Clock)).unwrap_err();
        assert_eq!(error.profile.as_deref(), Some("guests"));
        let text = error.to_string();
        assert!(
            text.starts_with("profile `guests`: cannot read `") && text.contains("\nhint: "),
            "{text}"
        );
    }

    #[test]
    fn a_profile_that_no_longer_loads_stays_and_the_others_are_replaced() {
        let dir = pki::folder().unwrap();
        let own = own_folder(&["p384-server.pem", "p384-server.key", "p384-ca.pem"]);
        let labs = settings(own.path(), "p384-server", &["p384-ca"]);
        let profiles = vec![
            profile("labs", labs, "leeds"),
            profile("guests", settings(&dir, "server", &["foreign-ca"]), "york"),
        ];
        let store = TrustStore::load(settings(&dir, "server", &["ca"]), profiles, Arc::new(Clock)).unwrap();
        let before = store.current();
        assert_eq!(before.for_site("leeds").name, "labs");
        assert_eq!(before.for_site("york").name, "guests");
        assert_eq!(before.for_site("hull").name, "default");

        fs::write(own.path().join("p384-ca.pem"), "nothing").unwrap();
        let reloaded = store.reload();
        let replaced: Vec<_> = reloaded.replaced.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(replaced, ["default", "guests"]);
        assert_eq!(reloaded.refused.len(), 1);
        assert_eq!(reloaded.refused[0].profile.as_deref(), Some("labs"));
        assert!(matches!(reloaded.refused[0].error, TrustError::NoCertificate { .. }));
        let after = store.current();
        assert!(Arc::ptr_eq(before.for_site("leeds"), after.for_site("leeds")));
        assert!(!Arc::ptr_eq(before.for_site("york"), after.for_site("york")));
    }

    #[tokio::test]
    async fn a_file_that_changes_replaces_the_sets_that_it_belongs_to() {
        let dir = pki::folder().unwrap();
        let own = own_folder(&["server.pem", "server.key", "ca.pem"]);
        let profiles = vec![profile("guests", settings(own.path(), "server", &["ca"]), "york")];
        let store = TrustStore::load(settings(&dir, "server", &["ca"]), profiles, Arc::new(Clock)).unwrap();
        let store = Arc::new(store);
        let before = store.current();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let watching = tokio::spawn(watch(Arc::clone(&store), move |reloaded| drop(tell.send(reloaded))));
        fs::copy(dir.join("foreign-ca.pem"), own.path().join("ca.pem")).unwrap();
        let reloaded = tokio::time::timeout(Duration::from_secs(60), told.recv())
            .await
            .unwrap()
            .unwrap();
        assert_eq!((reloaded.replaced.len(), reloaded.refused.len()), (1, 0));
        let after = store.current();
        assert!(Arc::ptr_eq(before.default_set(), after.default_set()));
        let authorities: Vec<_> = after.for_site("york").authorities().iter().collect();
        assert_eq!(authorities[0].summary.name(), "Foreign Root");
        watching.abort();
    }

    #[test]
    fn a_second_certificate_of_one_kind_is_pointed_out() {
        let dir = pki::folder().unwrap();
        let said = |names: &[&str]| {
            let all = findings([&load(&beside(&dir, names))], 0, EXPIRY_WARNING).into_iter();
            all.map(|finding| finding.text)
                .filter(|text| text.contains("never shown"))
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&["server", "p384-server", "rsa2048-server"]), [""; 0]);
        let found = said(&["rsa2048-server", "server", "rsa4096-server"]);
        assert!(
            found.len() == 1
                && found[0].contains("rsa4096-server.pem: ")
                && found[0].contains("rsa2048-server.pem` before it"),
            "{found:?}"
        );
    }

    #[test]
    fn a_finding_that_several_sets_have_is_told_once() {
        let dir = pki::folder().unwrap();
        let (one, other) = (
            load(&settings(&dir, "server", &["ca"])),
            load(&settings(&dir, "server", &["foreign-ca"])),
        );
        let count = |sets: &[&TrustSet]| findings(sets.iter().copied(), 4_000_000_000, EXPIRY_WARNING).len();
        // the server's certificate and one CA have expired by then
        assert_eq!((count(&[&one]), count(&[&other]), count(&[&one, &other])), (2, 2, 3));
    }
}
