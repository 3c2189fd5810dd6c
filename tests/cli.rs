//! The binary from outside: exit codes, and what is said on which stream.

#[cfg(test)]
mod cli {
    use std::path::Path;
    use std::process::{Command, Output};

    use tempfile::TempDir;

    fn portreeve(folder: &Path, args: &[&str]) -> Output {
        portreeve_with(folder, args, &[])
    }

    fn portreeve_with(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
        command
            .current_dir(folder)
            .args(args)
            .env_clear()
            .envs(environment.iter().copied());
        command.output().unwrap()
    }

    fn text(octets: &[u8]) -> String {
        String::from_utf8_lossy(octets).into_owned()
    }

    fn folder(config: &str) -> TempDir {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("portreeve.toml"), config).unwrap();
        folder
    }

    #[test]
    fn help_and_version_are_results() {
        let here = folder("");
        for args in [&["--help"][..], &["--version"], &["why", "--help"]] {
            let output = portreeve(here.path(), args);
            assert_eq!(output.status.code(), Some(0), "{args:?}");
            assert!(text(&output.stdout).contains("portreeve"), "{args:?}");
            assert!(output.stderr.is_empty());
        }
    }

    #[test]
    fn wrong_usage_is_2() {
        let here = folder("");
        for args in [
            &[][..],
            &["frobnicate"],
            &["check", "--frobnicate"],
            &["why", "--node", "nowhere"],
        ] {
            let output = portreeve(here.path(), args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(output.stdout.is_empty());
            assert!(text(&output.stderr).contains("--help"), "{args:?}");
        }
    }

    #[test]
    fn a_broken_configuration_is_one_clear_line_a_hint_and_1() {
        let here = folder("[radius]\nlisen = \"0.0.0.0:1812\"\n");
        let output = portreeve(here.path(), &["why"]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            text(&output.stderr),
            "error: portreeve.toml:2: unknown key `lisen` in [radius]\nhint: did you mean `listen`?\n"
        );
        assert!(output.stdout.is_empty());
    }

    #[test]
    fn check_says_everything_that_is_wrong_and_1() {
        let here = folder(
            "[radius]\nlisen = \"0.0.0.0:1812\"\nworkers = 0\n[eap.tls]\ncertificate = \"a.pem\"\nprivate_key = \"a.key\"\nclient_ca = \"ca.pem\"\n",
        );
        let output = portreeve(here.path(), &["check"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stdout);
        assert!(
            said.contains("error: portreeve.toml:2: unknown key `lisen` in [radius]\n  hint: did you mean"),
            "{said}"
        );
        assert!(
            said.contains("error: portreeve.toml:3: `workers` is 0, and may be 1 to 256\n"),
            "{said}"
        );
        assert!(said.ends_with("2 errors, 0 warnings\n"), "{said}");
        // the configuration is right now, and names files that are not there
        let config = text(&std::fs::read(here.path().join("portreeve.toml")).unwrap());
        let config = config
            .replace("lisen =", "listen =")
            .replace("workers = 0", "workers = 1");
        let here = folder(&config);
        let output = portreeve(here.path(), &["check"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stdout);
        assert!(said.contains("ok: configuration `portreeve.toml`\n"), "{said}");
        assert!(said.contains("error: cannot read `a.pem`: "), "{said}");
    }

    #[test]
    fn a_variable_overrides_the_file_and_is_named_when_it_is_wrong() {
        let here = folder("");
        let output = portreeve_with(here.path(), &["why"], &[("PORTREEVE__RADIUS__WORKERS", "none")]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).starts_with("error: environment variable PORTREEVE__RADIUS__WORKERS: `workers`"),
            "{}",
            text(&output.stderr)
        );
    }

    #[test]
    fn a_missing_configuration_says_what_to_do() {
        let here = folder("");
        let output = portreeve(here.path(), &["--config", "elsewhere.toml", "why"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(
            said.starts_with("error: elsewhere.toml: ") && said.contains("\nhint: `--config FILE`"),
            "{said}"
        );
    }

    #[test]
    fn why_without_a_running_node_says_so() {
        let here = folder("[ops]\nlisten = \"127.0.0.1:1\"\n");
        let output = portreeve(here.path(), &["why", "00:1b:78:00:00:01"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(
            said.starts_with("error: cannot reach the node at `127.0.0.1:1`: "),
            "{said}"
        );
        assert!(said.contains("\nhint: is `portreeve serve` running"), "{said}");
    }

    const SET: &str = r#"
[[policy]]
name = "Staff"
action = "accept"
rules = ["TLS-Client-Cert-Issuer contains CN=Example", "NAS-Port-Type == Ethernet"]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120"]

[[policy]]
name = "Printers"
action = "accept"
methods = ["mab"]
rules = ["Calling-Station-Id starts-with 00:1B:78"]
responses = ["Filter-Id = printers"]

[[policy]]
name = "Nobody"
action = "reject"
fallback = true

[[site]]
name = "London"
tag = "london"
fallback = "Nobody"
policies = [{ policy = "Staff", priority = 10 }, { policy = "Printers", priority = 20 }]

[[site.client]]
network = "192.0.2.0/24"
secret = "a secret of some length"

[[site.mac]]
address = "00-1b-78-00-00-01"
name = "printer 1"
"#;

    /// A folder with a configuration, a migrated database and the set above.
    fn set_up() -> TempDir {
        let here = folder("[ops]\nlisten = \"off\"\n");
        std::fs::write(here.path().join("set.toml"), SET).unwrap();
        done(here.path(), &["migrate"]);
        done(here.path(), &["import", "set.toml"]);
        here
    }

    /// What a command that must succeed says.
    fn done(folder: &Path, args: &[&str]) -> String {
        let output = portreeve(folder, args);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// What a command that must fail says.
    fn fails(folder: &Path, args: &[&str]) -> String {
        let output = portreeve(folder, args);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{args:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stderr)
    }

    #[test]
    fn migrate_makes_the_database_and_says_when_there_is_nothing_to_do() {
        let here = folder("");
        assert!(fails(here.path(), &["export"]).contains("hint: `portreeve migrate` makes it"));
        let made = done(here.path(), &["migrate"]);
        assert!(made.starts_with("`portreeve.db` made: schema version "), "{made}");
        let again = done(here.path(), &["migrate"]);
        assert!(
            again.starts_with("`portreeve.db` is up to date: schema version "),
            "{again}"
        );
    }

    #[test]
    fn export_import_export_is_the_identity() {
        let here = set_up();
        let exported = done(here.path(), &["export"]);
        std::fs::write(here.path().join("again.toml"), &exported).unwrap();
        let said = done(here.path(), &["import", "again.toml"]);
        assert!(said.contains("nothing differs from revision "), "{said}");
        assert_eq!(done(here.path(), &["export"]), exported);
        let redacted = done(here.path(), &["export", "--redact"]);
        assert!(exported.contains("a secret of some length") && !redacted.contains("a secret of some length"));
    }

    #[test]
    fn a_wrong_document_is_refused_with_line_and_hint() {
        let here = set_up();
        let wrong = SET.replace("NAS-Port-Type == Ethernet", "NAS-Port-Type == Ethernot");
        std::fs::write(here.path().join("wrong.toml"), wrong).unwrap();
        let said = fails(here.path(), &["import", "wrong.toml"]);
        assert!(
            said.starts_with("error: wrong.toml:") && said.contains("Ethernot"),
            "{said}"
        );
        assert!(fails(here.path(), &["import", "nowhere.toml"]).starts_with("error: cannot read `nowhere.toml`: "));
    }

    #[test]
    fn the_older_systems_dump_is_imported_with_notes() {
        let here = set_up();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older/nac.sql");
        let dump = std::fs::read_to_string(golden).unwrap();
        std::fs::write(here.path().join("nac.sql"), &dump).unwrap();
        let said = done(here.path(), &["import", "--dry-run", "nac.sql"]);
        assert!(
            said.contains(
                "\nnote: site `leeds_wharf_2`: equal or missing priorities, numbered anew in the same order: "
            ) && said.contains("\nnote: not read: tables ")
                && said.contains("\ndry run: revision "),
            "{said}"
        );
        std::fs::write(
            here.path().join("cut.sql"),
            dump.replace("00-1b-78-11-22-34", "AAAA-BBBB-CCC"),
        )
        .unwrap();
        assert_eq!(
            fails(here.path(), &["import", "cut.sql"]),
            "error: cut.sql:83: mac_authentication_bypasses 2: `AAAA-BBBB-CCC` is no MAC address\n\
             hint: write twelve hexadecimal digits, for example `aa-bb-cc-dd-ee-ff` or `aabb.ccdd.eeff`\n"
        );
        assert!(fails(here.path(), &["import", "nowhere.sql"]).starts_with("error: cannot read `nowhere.sql`: "));
        let both = fails(here.path(), &["import", "nac.sql", "set.toml"]);
        assert!(
            both.starts_with("error: `set.toml` is neither a dump nor a table"),
            "{both}"
        );
        done(here.path(), &["import", "nac.sql"]);
        let said = done(here.path(), &["import", "nac.sql"]);
        assert!(said.contains("nothing differs from revision "), "{said}");
        let decided = done(
            here.path(),
            &["decide", "--site", "leeds_wharf_2", "--mac", "001b.7811.2233", "--json"],
        );
        assert!(decided.contains("1010"), "{decided}");
    }

    #[test]
    fn a_dry_run_shows_the_difference_and_changes_nothing() {
        let here = set_up();
        let before = done(here.path(), &["export"]);
        let changed = SET.replace("Filter-Id = printers", "Filter-Id = all-printers");
        std::fs::write(here.path().join("changed.toml"), changed).unwrap();
        let said = done(here.path(), &["import", "--dry-run", "changed.toml"]);
        assert!(
            said.contains("all-printers") && said.contains("dry run: revision "),
            "{said}"
        );
        assert_eq!(done(here.path(), &["export"]), before);
    }

    #[test]
    fn seed_fills_an_empty_database_and_writes_its_plan() {
        let here = folder("");
        done(here.path(), &["migrate"]);
        let seed = [
            "seed",
            "--dataset",
            "nacs",
            "--sites",
            "3",
            "--clients",
            "2",
            "--macs",
            "4",
        ];
        let said = done(here.path(), &seed);
        assert!(
            said.starts_with("made: 3 sites, 1003 policies, 6 clients, 12 listed addresses; revision "),
            "{said}"
        );
        assert!(said.ends_with("\nplan: `nacs-plan.toml`\n"), "{said}");
        let plan = std::fs::read_to_string(here.path().join("nacs-plan.toml")).unwrap();
        assert_eq!(plan.matches("[[case]]").count(), 3);

        std::fs::remove_file(here.path().join("nacs-plan.toml")).unwrap();
        let refused = fails(here.path(), &seed);
        assert_eq!(
            refused,
            "error: the database has 3 sites, 1003 policies, 6 clients and 12 listed addresses\n\
             hint: seed a database of its own; `--replace` deletes everything in this one first\n"
        );
        let names = std::fs::read_dir(here.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let plans: Vec<_> = names.filter(|name| name.to_string_lossy().contains("plan")).collect();
        assert!(plans.is_empty(), "{plans:?}");
        let again = ["--replace", "--sites", "2", "--plan", "elsewhere.toml"];
        let said = done(here.path(), &[&seed[..3], &again].concat());
        assert!(said.starts_with("made: 2 sites, 1002 policies, 20 clients, "), "{said}");
        assert!(here.path().join("elsewhere.toml").exists());

        let refused = fails(
            here.path(),
            &[&seed[..3], &["--sites", "1000000", "--clients", "17"]].concat(),
        );
        assert!(
            refused.contains("need 17000000 addresses") && refused.contains("\nhint: "),
            "{refused}"
        );
        let refused = fails(here.path(), &[&seed[..], &["--plan", "no/such/folder.toml"]].concat());
        assert!(
            refused.starts_with("error: cannot write the plan `no/such/folder.toml`: "),
            "{refused}"
        );
    }

    #[test]
    fn check_reads_certificates_and_policies() {
        let here = set_up();
        let output = portreeve(here.path(), &["check"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stdout);
        assert!(
            said.contains("error: portreeve.toml: there is no section [eap.tls]\n  hint: "),
            "{said}"
        );

        done(here.path(), &["cert", "init", "certs"]);
        let config = "[eap.tls]\ncertificate = \"certs/server.pem\"\nprivate_key = \"certs/server.key\"\nclient_ca = \"certs/ca.pem\"\n";
        std::fs::write(here.path().join("portreeve.toml"), config).unwrap();
        let said = done(here.path(), &["check"]);
        assert!(said.contains("certs/server.pem"), "{said}");
        assert!(
            said.contains("ok: database `portreeve.db`, revision ")
                && said.contains(": 1 site, 3 policies, 1 client, 1 listed address\n"),
            "{said}"
        );

        // the development client certificate is good, and no policy of the set wants it
        let said = done(
            here.path(),
            &[
                "decide",
                "--site",
                "london",
                "--cert",
                "certs/client.pem",
                "NAS-Port-Type=Ethernet",
            ],
        );
        assert!(
            said.contains("fallback-reject") && said.contains("TLS-Client-Cert-Issuer contains CN=Example"),
            "{said}"
        );
        // the server's is not for clients
        let said = done(
            here.path(),
            &["decide", "--site", "london", "--cert", "certs/server.pem"],
        );
        assert!(said.starts_with("REJECT  certificate-wrong-usage: "), "{said}");
    }

    #[test]
    fn check_and_decide_know_the_profiles_of_certificates() {
        let here = set_up();
        done(here.path(), &["cert", "init", "certs"]);
        done(here.path(), &["cert", "init", "labs"]);
        std::fs::write(here.path().join("public.pem"), namesake_of_a_public_root()).unwrap();
        let config = |profile: &str| {
            let default = "[eap.tls]\ncertificate = \"certs/server.pem\"\nprivate_key = \"certs/server.key\"\nclient_ca = \"certs/ca.pem\"\n";
            let text = format!("{default}[[eap.tls.profile]]\nname = \"labs\"\n{profile}");
            std::fs::write(here.path().join("portreeve.toml"), text).unwrap();
        };
        config("sites = [\"london\", \"paris\"]\nclients = [\"10.9.0.0/16\"]\nclient_ca = \"labs/ca.pem\"\n");
        let said = done(here.path(), &["check"]);
        for part in [
            "ok: profile `labs`: certificate `certs/server.pem`, 1 client CA\n",
            "warning: profile `labs` of [eap.tls]: there is no site `paris`\n  hint: ",
            "warning: profile `labs` of [eap.tls]: no client lies in `10.9.0.0/16`\n  hint: ",
            "0 errors, 2 warnings\n",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        // the certificate that is let in is one of the profile's CA now, at the site and at its client alike
        for place in [["--site", "london"], ["--client", "192.0.2.7"]] {
            let decided = |certificate| done(here.path(), &["decide", place[0], place[1], "--cert", certificate]);
            assert!(decided("labs/client.pem").contains("fallback-reject"), "{place:?}");
            let said = decided("certs/client.pem");
            assert!(said.starts_with("REJECT  unknown-ca: "), "{said}");
        }
        // a public root among the client CAs is an error, of a profile as of the default
        config("sites = \"london\"\nclient_ca = \"public.pem\"\n");
        let output = portreeve(here.path(), &["check", "--quiet"]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("error: public.pem line 1: the client CA `/C=US/O=Internet Security Research Group/CN=ISRG Root X1` is a public CA's"),
            "{said}"
        );
        // and one whose files are not there is named
        config("sites = \"london\"\nclient_ca = \"absent.pem\"\n");
        let said = text(&portreeve(here.path(), &["check"]).stdout);
        assert!(
            said.contains("error: profile `labs`: cannot read `absent.pem`"),
            "{said}"
        );
    }

    /// A CA of our own with the name of a public one, whose key nobody here has.
    fn namesake_of_a_public_root() -> String {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in [
            (rcgen::DnType::CountryName, "US"),
            (rcgen::DnType::OrganizationName, "Internet Security Research Group"),
            (rcgen::DnType::CommonName, "ISRG Root X1"),
        ] {
            let value = rcgen::DnValue::PrintableString(value.try_into().unwrap());
            params.distinguished_name.push(kind, value);
        }
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn decide_explains_and_its_exit_code_is_0_for_any_decision() {
        let here = set_up();
        let said = done(
            here.path(),
            &["decide", "--client", "192.0.2.7", "--mac", "001B.7800.0001"],
        );
        assert!(
            said.contains("policy-accept") && said.contains("Filter-Id = printers"),
            "{said}"
        );
        assert!(said.contains("Calling-Station-Id starts-with 00:1B:78"), "{said}");
        let said = done(here.path(), &["decide", "--site", "london", "NAS-Port-Type=Ethernet"]);
        assert!(said.contains("fallback-reject"), "{said}");
        assert!(!said.contains("hint:"), "it would name this very command: {said}");

        let json = done(
            here.path(),
            &["decide", "--site", "london", "--mac", "001b78000001", "--json"],
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        for key in [
            "action",
            "reason",
            "site",
            "policy",
            "method",
            "responses",
            "trace",
            "revision",
        ] {
            assert!(json.get(key).is_some(), "{key} in {json}");
        }
        assert_eq!(json["action"], "accept");
        assert_eq!(json["method"], "mab");
        assert_eq!(json["trace"][0]["rules"][0]["seen"], "00-1b-78-00-00-01");
        assert_eq!(json["trace"][0]["rules"][0]["holds"], true);
    }

    #[test]
    fn decide_names_what_it_does_not_know() {
        let here = set_up();
        let said = fails(here.path(), &["decide", "--client", "198.51.100.1"]);
        assert!(
            said.starts_with("error: no client covers `198.51.100.1`\nhint: add the switch"),
            "{said}"
        );
        assert!(
            fails(here.path(), &["decide", "--site", "paris"]).starts_with("error: there is no site `paris`\nhint: ")
        );
        let said = fails(here.path(), &["decide", "--site", "london", "NAS-Port-Tipe=Ethernet"]);
        assert!(said.contains("`NAS-Port-Tipe`") && said.contains("\nhint: "), "{said}");
        assert_eq!(portreeve(here.path(), &["decide"]).status.code(), Some(2));
        assert_eq!(
            portreeve(here.path(), &["decide", "--site", "london", "--mac", "nonsense"])
                .status
                .code(),
            Some(2)
        );
    }

    #[test]
    fn the_edits_of_a_night() {
        let here = set_up();
        let here = here.path();
        // a new site, its switch, its printer
        assert!(
            done(here, &["site", "add", "New York", "--timezone", "America/New_York"])
                .starts_with("added: site `new-york`")
        );
        assert!(
            done(
                here,
                &[
                    "client",
                    "add",
                    "new-york",
                    "198.51.100.7",
                    "another secret",
                    "--fragment-size",
                    "600"
                ]
            )
            .starts_with("added: client 198.51.100.7/32 of site `new-york`, revision ")
        );
        assert!(
            done(here, &["mac", "add", "new-york", "AABB.CCDD.EEFF", "--name", "scanner"])
                .starts_with("added: aa-bb-cc-dd-ee-ff of site `new-york`")
        );
        let said = done(
            here,
            &[
                "policy",
                "add",
                "Scanners",
                "--method",
                "mab",
                "--rule",
                "NAS-Port-Type == Ethernet",
                "--response",
                "Filter-Id = scanners",
            ],
        );
        assert!(said.contains("added: policy `Scanners`, revision "), "{said}");
        assert!(
            done(here, &["policy", "move", "new-york", "Scanners", "10"])
                .starts_with("added: policy `Scanners` of site")
        );
        assert!(
            done(here, &["policy", "move", "new-york", "Nobody", "--fallback"]).contains("policy `Nobody` of site")
        );
        let said = done(
            here,
            &[
                "decide",
                "--client",
                "198.51.100.7",
                "--mac",
                "aabbccddeeff",
                "NAS-Port-Type=Ethernet",
            ],
        );
        assert!(
            said.starts_with("ACCEPT") && said.contains("Filter-Id = scanners"),
            "{said}"
        );

        // what there is
        let shown = done(here, &["site", "show", "new-york"]);
        for part in [
            "site `new-york`: New York",
            "America/New_York",
            "Scanners",
            "198.51.100.7/32",
            "scanner",
            "fallback",
            "600",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(!shown.contains("another secret"), "{shown}");
        assert!(done(here, &["client", "show", "198.51.100.7", "--reveal"]).contains("another secret"));
        let json = done(here, &["client", "list", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[0]["secret"], "(hidden)");
        assert!(done(here, &["mac", "find", "AA:BB:CC:DD:EE:FF"]).contains("new-york"));
        assert!(done(here, &["policy", "show", "Scanners"]).contains("rule      NAS-Port-Type == Ethernet"));

        // changes, and what was so already
        assert!(
            done(
                here,
                &["mac", "add", "new-york", "aabbccddeeff", "--valid-until", "2020-01-31"]
            )
            .starts_with("changed: ")
        );
        let said = done(here, &["decide", "--site", "new-york", "--mac", "aabbccddeeff"]);
        assert!(said.starts_with("REJECT  mac-expired"), "{said}");
        assert!(
            done(
                here,
                &["mac", "add", "new-york", "aabbccddeeff", "--valid-until", "2020-01-31"]
            )
            .starts_with("unchanged: ")
        );
        assert!(done(here, &["mac", "move", "aabbccddeeff", "new-york", "london"]).starts_with("changed: "));
        let said = done(here, &["decide", "--site", "new-york", "--mac", "aabbccddeeff"]);
        assert!(
            said.starts_with("REJECT  mac-listed-elsewhere") && said.contains("`london`"),
            "{said}"
        );

        // refusals, each with a hint
        for (args, part) in [
            (
                &["mac", "add", "londn", "aabbccddeeff"][..],
                "there is no site `londn`\nhint: perhaps `london`",
            ),
            (&["policy", "remove", "Scanners"], "use policy `Scanners`\nhint: "),
            (
                &["policy", "add", "Staff", "--rule", "NAS-Port-Type == Ethernet"],
                "already\nhint: `--replace` changes it",
            ),
            (
                &["site", "remove", "new-york"],
                "has 1 client and 0 listed addresses\nhint: `--yes`",
            ),
            (&["client", "add", "london", "192.0.2.1/24", "x"], "hint: "),
        ] {
            let said = fails(here, args);
            assert!(said.starts_with("error: ") && said.contains(part), "{args:?}: {said}");
        }

        // and all of it away again
        assert!(done(here, &["policy", "move", "new-york", "Scanners", "--out"]).starts_with("removed: "));
        assert!(done(here, &["policy", "remove", "Scanners"]).starts_with("removed: "));
        assert!(done(here, &["client", "remove", "198.51.100.7"]).starts_with("removed: "));
        assert!(done(here, &["site", "remove", "new-york"]).starts_with("removed: "));
        assert!(done(here, &["mac", "remove", "london", "aabbccddeeff"]).starts_with("removed: "));
    }

    #[test]
    fn a_secret_can_come_from_standard_input() {
        let here = set_up();
        let secret = here.path().join("secret.txt");
        let result = std::fs::write(&secret, "from a file\n").and_then(|()| {
            Command::new(env!("CARGO_BIN_EXE_portreeve"))
                .current_dir(here.path())
                .args(["client", "add", "london", "198.51.100.8", "-"])
                .stdin(std::fs::File::open(&secret)?)
                .output()
        });
        assert!(result.is_ok_and(|output| output.status.success()));
        assert!(done(here.path(), &["client", "show", "198.51.100.8", "--reveal"]).contains("from a file"));
    }

    #[test]
    fn wrong_values_of_edits_are_wrong_usage() {
        let here = folder("");
        for args in [
            &["mac", "add", "london", "00:1b:78"][..],
            &["policy", "add", "Staff", "--rule", "NAS-Port-Type"],
            &["policy", "add", "Staff", "--method", "eap"],
            &["policy", "move", "london", "Staff"],
            &["client", "add", "london", "192.0.2.1", "secret", "--min-tls", "1.1"],
        ] {
            let output = portreeve(here.path(), args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
        }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_error_to_talk_about() {
        let here = set_up();
        for args in [
            &["export"][..],
            &["dict", "NAS-Port-Type"],
            &["site", "list"],
            &["cert", "--help"],
        ] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let output = Command::new(env!("CARGO_BIN_EXE_portreeve"))
                .current_dir(here.path())
                .args(args)
                .stdout(writer)
                .output()
                .unwrap();
            assert_eq!(text(&output.stderr), "", "{args:?}");
        }
    }
}
