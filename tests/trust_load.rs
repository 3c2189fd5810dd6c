//! What loads and what does not: formats of keys, order of chains, errors with file, line and hint; and the reload, which
//! leaves the old set in force when the new one is broken.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;

    use std::fs;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use portreeve::trust::watch::watch;
    use portreeve::trust::{Clock, Resumption, Settings, TrustError, TrustSet, TrustStore};

    fn settings(dir: &Path) -> Settings {
        Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![dir.join("ca.pem")])
    }

    fn load(settings: &Settings) -> Result<TrustSet, TrustError> {
        TrustSet::load(settings, Arc::new(Clock))
    }

    /// A folder of its own with a server's certificate, its key and the client CA in it.
    fn own_folder() -> (tempfile::TempDir, Settings) {
        let (from, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        for name in ["server.pem", "server.key", "ca.pem"] {
            fs::copy(from.join(name), own.path().join(name)).unwrap();
        }
        let settings = settings(own.path());
        (own, settings)
    }

    fn with_keys_file(dir: &Path) -> Option<Resumption> {
        Some(Resumption {
            keys_file: Some(dir.join("ticket.keys")),
            ..Resumption::default()
        })
    }

    fn openssl(dir: &Path, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "openssl {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn keys_of_every_format_that_openssl_writes() {
        let pki = pki::folder().unwrap();
        let own = tempfile::tempdir().unwrap();
        let dir = own.path();
        fs::write(dir.join("passphrase"), "correct horse\n").unwrap();
        for kind in ["", "p384-", "rsa2048-", "rsa4096-"] {
            let source = pki.join(format!("{kind}server.key"));
            fs::copy(&source, dir.join("pkcs8.key")).unwrap();
            openssl(dir, "pkey -in pkcs8.key -traditional -out traditional.key");
            openssl(
                dir,
                "pkcs8 -topk8 -in pkcs8.key -passout file:passphrase -out encrypted.key",
            );
            openssl(
                dir,
                "pkcs8 -topk8 -in pkcs8.key -v2 aes-128-cbc -v2prf hmacWithSHA1 -passout file:passphrase -out sha1.key",
            );
            openssl(
                dir,
                "pkcs8 -topk8 -in pkcs8.key -v2 aes-192-cbc -v2prf hmacWithSHA512 -iter 1000 -passout file:passphrase -out sha512.key",
            );
            for key in ["pkcs8", "traditional", "encrypted", "sha1", "sha512"] {
                let mut settings = Settings::new(
                    pki.join(format!("{kind}server.pem")),
                    dir.join(format!("{key}.key")),
                    vec![pki.join("ca.pem")],
                );
                settings.certificates[0].passphrase_file = Some(dir.join("passphrase"));
                let set = load(&settings).unwrap_or_else(|error| panic!("{kind}{key}: {error}"));
                assert_eq!(set.server().summary.name(), "radius.example");
            }
        }
    }

    #[test]
    fn keys_that_are_not_read_say_how_to_convert_them() {
        let (own, settings) = own_folder();
        let dir = own.path();
        fs::write(dir.join("passphrase"), "correct horse\n").unwrap();
        openssl(dir, "ec -in server.key -aes128 -passout file:passphrase -out old.key");
        openssl(
            dir,
            "pkcs8 -topk8 -in server.key -scrypt -passout file:passphrase -out scrypt.key",
        );
        openssl(
            dir,
            "pkcs8 -topk8 -in server.key -passout pass:another -out another.key",
        );
        openssl(dir, "genpkey -algorithm ED448 -out ed448.key");
        for (key, has_passphrase, what) in [
            ("old.key", true, "old format"),
            ("scrypt.key", true, "PBKDF2"),
            ("another.key", true, "is not the key's passphrase"),
            ("another.key", false, "private_key_passphrase_file"),
            ("ed448.key", false, "cannot be used"),
            ("server.pem", false, "holds no private key"),
            ("absent.key", false, "cannot read"),
        ] {
            let mut settings = settings.clone();
            settings.certificates[0].private_key = dir.join(key);
            settings.certificates[0].passphrase_file = has_passphrase.then(|| dir.join("passphrase"));
            let error = load(&settings).unwrap_err().to_string();
            assert!(
                error.contains(what) && error.contains(key) && error.contains("\nhint: "),
                "{key}: {error}"
            );
        }
    }

    #[test]
    fn the_chain_is_put_in_order_and_the_root_left_out() {
        let pki = pki::folder().unwrap();
        let (own, mut settings) = own_folder();
        // the chain of a client serves as well: root, a stranger, intermediate, leaf; key in the same file
        let read = |name: &str| fs::read_to_string(pki.join(name)).unwrap();
        let all = [
            read("ca.pem"),
            read("foreign-ca.pem"),
            read("intermediate.pem"),
            read("incomplete.pem"),
            read("chain.key"),
        ];
        fs::write(own.path().join("all.pem"), all.concat()).unwrap();
        settings.certificates[0].certificate = own.path().join("all.pem");
        settings.certificates[0].private_key = own.path().join("all.pem");
        let set = load(&settings).unwrap();
        assert_eq!(set.server().chain.len(), 2);
        assert_eq!(set.server().summary.name(), "laptop-7");
        assert_eq!(set.server().unused, ["/C=GB/O=Elsewhere/CN=Foreign Root"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let pki = pki::folder().unwrap();
        let (own, settings) = own_folder();
        let dir = own.path();
        let read = |name: &str| fs::read_to_string(pki.join(name)).unwrap();
        fs::write(
            dir.join("two.pem"),
            format!("{}\n{}", read("ca.pem"), read("client.pem")),
        )
        .unwrap();
        fs::write(dir.join("cut.pem"), read("ca.pem").replace("-----END", "-----ENT")).unwrap();
        fs::write(dir.join("empty.pem"), "").unwrap();
        openssl(dir, "x509 -in ca.pem -outform der -out ca.der");
        let line = read("ca.pem").lines().count() + 2;
        for (ca, what) in [
            (
                "two.pem",
                format!("two.pem` line {line}: `/C=GB/O=Example/CN=laptop-7` is no CA: its basicConstraints"),
            ),
            (
                "cut.pem",
                "cut.pem` line 1: the `CERTIFICATE` that begins here has no end".into(),
            ),
            ("empty.pem", "empty.pem` holds no certificate".into()),
            ("ca.der", "ca.der` is DER, not PEM".into()),
            ("absent.pem", "cannot read `".into()),
        ] {
            let settings = Settings {
                client_ca: vec![dir.join(ca)],
                ..settings.clone()
            };
            let error = load(&settings).unwrap_err().to_string();
            assert!(error.contains(&what) && error.contains("\nhint: "), "{ca}: {error}");
        }
        let none = Settings {
            client_ca: vec![],
            ..settings.clone()
        };
        assert!(matches!(load(&none), Err(TrustError::NoAuthority)));
        let absent = Settings {
            resumption: with_keys_file(own.path()),
            ..settings.clone()
        };
        assert!(matches!(load(&absent), Err(TrustError::Read { path, .. }) if path.ends_with("ticket.keys")));
        let mut mismatch = settings;
        mismatch.certificates[0].private_key = pki.join("client.key");
        assert!(matches!(load(&mismatch), Err(TrustError::KeyMismatch { .. })));
    }

    #[test]
    fn a_folder_of_client_cas() {
        let pki = pki::folder().unwrap();
        let (own, settings) = own_folder();
        let folder = own.path().join("cas");
        fs::create_dir(&folder).unwrap();
        let settings = Settings {
            client_ca: vec![folder.clone()],
            ..settings
        };
        assert!(matches!(load(&settings), Err(TrustError::NoAuthority)));
        fs::copy(pki.join("ca.pem"), folder.join("b.CRT")).unwrap();
        fs::copy(pki.join("ca.pem"), folder.join("again.pem")).unwrap();
        fs::copy(pki.join("foreign-ca.pem"), folder.join("a.pem")).unwrap();
        fs::write(folder.join("README"), "not read").unwrap();
        let set = load(&settings).unwrap();
        let names: Vec<_> = set.authorities().iter().map(|ca| ca.summary.name()).collect();
        assert_eq!(names, ["Foreign Root", "Example Root"]);
    }

    #[test]
    fn a_broken_set_is_refused_and_the_old_one_stays() {
        let pki = pki::folder().unwrap();
        let (_own, settings) = own_folder();
        let files = settings.certificates[0].clone();
        let store = TrustStore::load(settings.clone(), Vec::new(), Arc::new(Clock)).unwrap();
        let in_force = || Arc::clone(store.current().default_set());
        let refused = || store.reload().refused.pop().map(|refused| refused.error);
        let first = in_force();
        // the certificate was renewed, and the key is still the old one
        fs::copy(pki.join("p384-server.pem"), &files.certificate).unwrap();
        assert!(matches!(refused(), Some(TrustError::KeyMismatch { .. })));
        assert!(Arc::ptr_eq(&in_force(), &first));
        fs::copy(pki.join("p384-server.key"), &files.private_key).unwrap();
        let second = store.reload().replaced.remove(0);
        assert!(Arc::ptr_eq(&in_force(), &second));
        assert_eq!(second.server().summary.key, "P-384");
        // a conversation that began before goes on with what it has
        assert_eq!(first.server().summary.key, "P-256");
        // one that is not valid does not replace one that is
        fs::copy(pki.join("expired.pem"), &files.certificate).unwrap();
        fs::copy(pki.join("expired.key"), &files.private_key).unwrap();
        let error = refused().unwrap();
        assert!(matches!(error, TrustError::NotValidNow { .. }), "{error}");
        assert!(Arc::ptr_eq(&in_force(), &second));
        // at the start there is nothing better
        assert!(load(&settings).is_ok());
    }

    #[tokio::test]
    async fn a_file_that_changes_is_loaded() {
        let pki = pki::folder().unwrap();
        let (own, mut settings) = own_folder();
        fs::write(own.path().join("ticket.keys"), "s".repeat(32)).unwrap();
        settings.resumption = with_keys_file(own.path());
        let files = settings.certificates[0].clone();
        let store = Arc::new(TrustStore::load(settings.clone(), Vec::new(), Arc::new(Clock)).unwrap());
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let watching = tokio::spawn(watch(Arc::clone(&store), move |mut reloaded| {
            let _ = tell.send(match reloaded.refused.pop() {
                Some(refused) => Err(refused.to_string()),
                None => Ok(reloaded.replaced[0].server().summary.key.clone()),
            });
        }));
        let mut next = async || {
            tokio::time::timeout(Duration::from_secs(60), told.recv())
                .await
                .unwrap()
                .unwrap()
        };
        // a mismatch may or may not be seen between the two copies; the pair is seen for certain
        fs::copy(pki.join("rsa2048-server.pem"), &files.certificate).unwrap();
        fs::copy(pki.join("rsa2048-server.key"), &files.private_key).unwrap();
        while next().await != Ok("RSA-2048".into()) {}
        assert_eq!(store.current().default_set().server().summary.key, "RSA-2048");
        // replaced by a rename, as careful tools do
        let new = settings.client_ca[0].with_extension("new");
        fs::write(&new, "no certificate").unwrap();
        fs::rename(&new, &settings.client_ca[0]).unwrap();
        assert!(next().await.unwrap_err().contains("holds no certificate"));
        assert_eq!(store.current().default_set().authorities().iter().count(), 1);
        // the secrets of sessions are watched like all else
        fs::copy(pki.join("ca.pem"), &settings.client_ca[0]).unwrap();
        while next().await.is_err() {}
        fs::write(own.path().join("ticket.keys"), "short").unwrap();
        assert!(next().await.unwrap_err().contains("a secret of 5 characters"));
        watching.abort();
    }

    #[test]
    fn the_probe_is_let_in_by_its_own_verifier_only() {
        let set = load(&settings(&pki::folder().unwrap())).unwrap();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let probe = portreeve::trust::pki::probe(i64::try_from(since_1970.as_secs()).unwrap()).unwrap();
        let server = set.for_clients_of(probe.ca.clone()).unwrap();
        let now = rustls_pki_types::UnixTime::since_unix_epoch(since_1970);
        assert!(server.verifier.verify_client_cert(&probe.client[0], &[], now).is_ok());
        assert!(set.tls.verifier.verify_client_cert(&probe.client[0], &[], now).is_err());
        assert!(set.for_clients_of(probe.client[0].clone()).is_err());
        // whose sessions would be thrown away
        assert!(set.tls.tickets.is_some() && server.tickets.is_none());
    }
}
