//! `portreeve cert init` and `portreeve cert show`, from outside.

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Output};

    fn portreeve(folder: &Path, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_portreeve"))
            .current_dir(folder)
            .args(args)
            .output()
            .unwrap()
    }

    fn text(octets: &[u8]) -> String {
        String::from_utf8(octets.to_vec()).unwrap()
    }

    #[test]
    fn init_makes_what_show_shows_and_openssl_verifies() {
        let dir = tempfile::tempdir().unwrap();
        let made = portreeve(
            dir.path(),
            &["cert", "init", "certs", "--server-name", "radius.corp.example"],
        );
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
        assert!(text(&made.stdout).contains("\n[eap.tls]\ncertificate = \"certs/server.pem\"\n"));
        let shown = portreeve(dir.path(), &["cert", "show", "certs/client.pem"]);
        assert!(
            text(&shown.stdout).contains("    TLS-Client-Cert-Common-Name == laptop-7\n"),
            "{}",
            text(&shown.stdout)
        );
        for (purpose, file) in [("sslserver", "server.pem"), ("sslclient", "client.pem")] {
            let verified = Command::new("openssl")
                .args(["verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", file])
                .current_dir(dir.path().join("certs"))
                .output()
                .unwrap();
            assert!(
                verified.status.success(),
                "{}{}",
                text(&verified.stdout),
                text(&verified.stderr)
            );
        }
        let again = portreeve(dir.path(), &["cert", "init", "certs"]);
        assert_eq!(again.status.code(), Some(1));
        assert!(again.stdout.is_empty());
        let said = text(&again.stderr);
        assert!(
            said.starts_with("error: `certs/ca.pem` exists already") && said.contains("\nhint: "),
            "{said}"
        );
    }

    #[test]
    fn what_is_no_certificate_is_said_so() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.pem"), "hello").unwrap();
        for (file, what) in [
            ("x.pem", "`x.pem` holds no certificate"),
            ("absent.pem", "cannot read `absent.pem`"),
        ] {
            let shown = portreeve(dir.path(), &["cert", "show", file]);
            assert_eq!((shown.status.code(), shown.stdout.len()), (Some(1), 0));
            assert!(
                text(&shown.stderr).starts_with(&format!("error: {what}")),
                "{}",
                text(&shown.stderr)
            );
        }
    }

    #[test]
    fn show_reads_the_dictionaries_that_rules_are_compiled_with() {
        let dir = tempfile::tempdir().unwrap();
        portreeve(dir.path(), &["cert", "init", "certs"]);
        let config = |extra: &str| {
            let text = format!("[dictionaries]\nextra = [\"{extra}\"]\n");
            std::fs::write(dir.path().join("portreeve.toml"), text).unwrap();
            portreeve(dir.path(), &["cert", "show", "certs/client.pem"])
        };
        std::fs::write(dir.path().join("own"), "ATTRIBUTE Own-Attribute 250 string\n").unwrap();
        assert_eq!(config("own").status.code(), Some(0));
        let shown = config("absent");
        assert_eq!(shown.status.code(), Some(1));
        assert!(text(&shown.stderr).contains("absent"), "{}", text(&shown.stderr));
    }
}
