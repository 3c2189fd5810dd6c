use super::*;
use crate::eap::tls::TlsVersion;
use crate::trust;
use crate::trust::{Demands, IdentityCheck, Resumption};

fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let environment = environment
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    Config::parse(Path::new("/etc/portreeve/portreeve.toml"), text, environment).map_err(|error| error.to_string())
}

fn complaint(text: &str) -> String {
    parse(text, &[]).unwrap_err()
}

#[test]
fn an_empty_file_is_the_defaults() {
    let config = parse("", &[]).unwrap();
    assert_eq!(
        config.radius.listen,
        ["0.0.0.0:1812".parse().unwrap(), "[::]:1812".parse().unwrap()]
    );
    assert!(config.radius.listen_is_default);
    assert_eq!(
        config.database.url.as_deref().unwrap(),
        "sqlite:/etc/portreeve/portreeve.db"
    );
    assert!(config.eap_tls.is_none());
    assert_eq!(config.cache.max_stale, Duration::from_secs(86_400));
    assert_eq!(config.ops.listen, Some("127.0.0.1:8812".parse().unwrap()));
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_key() {
    assert_eq!(
        complaint("# comment\n[radius]\nworkers = 2\nlisen = \"0.0.0.0:1812\"\n"),
        "/etc/portreeve/portreeve.toml:4: unknown key `lisen` in [radius]\nhint: did you mean `listen`?"
    );
    assert_eq!(
        complaint("[radisu]\nlisten = \"0.0.0.0:1812\"\n"),
        "/etc/portreeve/portreeve.toml:1: unknown section [radisu]\nhint: did you mean [radius]?"
    );
    assert_eq!(
        complaint("\nradius = 5\n"),
        "/etc/portreeve/portreeve.toml:2: unknown key `radius` outside any section\nhint: did you mean [radius], a section?"
    );
    assert!(complaint("[eap]\ntls = 5\n").starts_with("/etc/portreeve/portreeve.toml:2: unknown key `tls` in [eap]"));
    assert!(complaint("[radius.listen]\nport = 5\n").contains("toml:1: unknown section [radius.listen]"));
    assert!(complaint("[[radius]]\nport = 5\n").contains("toml:1: unknown key `radius` outside"));
}

#[test]
fn every_complaint_is_told_at_once() {
    let text = "[radius]\nworkers = 0\nduplicate_bytes = \"1PB\"\n[log]\nformat = \"xml\"\nlevle = \"info\"\n";
    let complaints = complaint(text);
    for part in [
        "toml:2: `workers` is 0, and may be 1 to 256",
        "toml:3: `duplicate_bytes` must be a number of octets, not `1PB`\nhint: write `16MiB`",
        "toml:5: `format` is `xml`, and may be \"json\" or \"text\"",
        "toml:6: unknown key `levle` in [log]\nhint: did you mean `level`?",
    ] {
        assert!(complaints.contains(part), "{part} in {complaints}");
    }
}

#[test]
fn broken_toml_is_refused_with_its_line() {
    let complaint = complaint("[radius]\nworkers = = 2\n");
    assert!(
        complaint.starts_with("/etc/portreeve/portreeve.toml:2: "),
        "{complaint}"
    );
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn the_environment_overrides_the_file() {
    let config = parse(
        "[radius]\nworkers = 2\nlisten = \"0.0.0.0:1812\"\n[log]\nlevel = \"warn\"\n",
        &[
            ("PORTREEVE__RADIUS__WORKERS", "7"),
            ("PORTREEVE__RADIUS__LISTEN", "[\"127.0.0.1:1\", \"127.0.0.1:2\"]"),
            ("PORTREEVE__LOG__FORMAT", "text"),
            ("PORTREEVE__EAP__TLS__CERTIFICATE", "certs/server.pem"),
            ("PORTREEVE__EAP__TLS__PRIVATE_KEY", "/run/secrets/key.pem"),
            ("PORTREEVE__EAP__TLS__CLIENT_CA", "ca.pem"),
            ("PORTREEVE__EAP__TLS__MAX_VERSION", "\"1.2\""),
            ("HOME", "/root"),
        ],
    )
    .unwrap();
    assert_eq!(config.radius.workers, 7);
    assert_eq!(config.radius.listen.len(), 2);
    assert_eq!(config.log.format, LogFormat::Text);
    assert_eq!(config.log.level, "warn");
    let tls = config.eap_tls.unwrap();
    let files = &tls.default.certificates[0];
    assert_eq!(files.certificate, Path::new("/etc/portreeve/certs/server.pem"));
    assert_eq!(files.private_key, Path::new("/run/secrets/key.pem"));
    assert_eq!(tls.default.client_ca, [Path::new("/etc/portreeve/ca.pem")]);
    assert_eq!(tls.default.max_version, TlsVersion::V12);
    assert_eq!(tls.fragment_size, 1_024);
}

#[test]
fn sessions_are_resumed_for_a_day_or_as_configured_in_every_profile() {
    let profile = "[[eap.tls.profile]]\nname = \"guests\"\nsites = [\"leeds\"]\n";
    let resumption = |keys: &str| {
        let text = format!("[eap.tls]\ncertificate = \"a\"\nprivate_key = \"b\"\nclient_ca = \"c\"\n{keys}\n{profile}");
        let tls = parse(&text, &[]).unwrap().eap_tls.unwrap();
        assert_eq!(tls.profiles[0].settings.resumption, tls.default.resumption);
        tls.default.resumption
    };
    let with = |lifetime_s: u64, keys_file: Option<&str>| {
        Some(Resumption {
            lifetime: Duration::from_secs(lifetime_s),
            keys_file: keys_file.map(Into::into),
        })
    };
    assert_eq!(resumption(""), with(86_400, None));
    assert_eq!(
        resumption("resumption_lifetime = \"7d\"\nticket_keys_file = \"ticket.keys\""),
        with(604_800, Some("/etc/portreeve/ticket.keys"))
    );
    assert_eq!(resumption("resumption_lifetime = \"0s\""), None);
}

#[test]
fn tunnels_are_not_resumed_unless_it_is_configured_for_all_or_for_a_profile() {
    let resumed = |keys: &str, of_profile: &str| {
        let text = format!(
            "[eap.tls]\ncertificate = \"a\"\nprivate_key = \"b\"\nclient_ca = \"c\"\n{keys}\n\
             [[eap.tls.profile]]\nname = \"guests\"\nsites = [\"leeds\"]\n{of_profile}\n"
        );
        let tls = parse(&text, &[]).unwrap().eap_tls.unwrap();
        (tls.default.resume_tunnels, tls.profiles[0].settings.resume_tunnels)
    };
    assert_eq!(resumed("", ""), (false, false));
    assert_eq!(resumed("resume_tunnels = true", ""), (true, true));
    assert_eq!(
        resumed("resume_tunnels = true", "resume_tunnels = false"),
        (true, false)
    );
    assert_eq!(resumed("", "resume_tunnels = true"), (false, true));
}

#[test]
fn methods_are_a_list_of_words_each_once() {
    let methods = |text: &str| {
        let methods = parse(text, &[]).unwrap().eap.methods;
        methods.iter().map(Method::word).collect::<Vec<_>>()
    };
    assert_eq!(methods(""), ["tls", "ttls", "peap"]);
    assert_eq!(methods("[eap]\nmethods = [\"peap\", \"tls\"]\n"), ["peap", "tls"]);
    assert_eq!(methods("[eap]\nmethods = \"ttls\"\n"), ["ttls"]);
    for wrong in ["[]", "[\"tls\", \"tls\"]", "\"md5\"", "[\"tls\", \"leap\"]"] {
        let complaint = complaint(&format!("[eap]\nmethods = {wrong}\n"));
        assert!(
            complaint.starts_with("/etc/portreeve/portreeve.toml:2: `methods` is `"),
            "{complaint}"
        );
        assert!(
            complaint.ends_with("hint: name one or more of `tls`, `ttls` and `peap`, each once"),
            "{complaint}"
        );
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let wrong = |name, value| parse("", &[(name, value)]).unwrap_err();
    assert_eq!(
        wrong("PORTREEVE__RADIUS__LISEN", "0.0.0.0:1812"),
        "environment variable PORTREEVE__RADIUS__LISEN: unknown key `lisen` in [radius]\nhint: did you mean `listen`?"
    );
    assert_eq!(
        wrong("PORTREEVE__RADIUS__WORKERS", "many"),
        "environment variable PORTREEVE__RADIUS__WORKERS: `workers` must be an integer, not `many`"
    );
    assert!(wrong("PORTREEVE__RADISU__WORKERS", "1").contains("unknown section [radisu]"));
}

#[test]
fn ranges_and_types_are_checked() {
    for (text, part) in [
        (
            "[radius]\nlisten = \"1812\"",
            "`listen`: `1812` is no address and port\nhint: write `0.0.0.0:1812`",
        ),
        ("[radius]\nlisten = []", "`listen` is an empty list"),
        ("[radius]\nlisten = 1812", "`listen` must be a string, not `1812`"),
        (
            "[radius]\nconversation_timeout = 30",
            "`conversation_timeout` must be a span of time, not `30`\nhint: write a number and its unit",
        ),
        (
            "[radius]\nconversation_timeout = \"1s\"",
            "`conversation_timeout` is 1s, and may be 5s to 5m",
        ),
        (
            "[radius]\nreceive_buffer = 1",
            "`receive_buffer` is 1, and may be 64KiB to 1GiB",
        ),
        ("[radius]\nworkers = -1", "`workers` is -1, and may be"),
        (
            "[radius]\nmax_conversations = 100\nmax_conversations_per_client = 101",
            "toml:3: `max_conversations_per_client` is above",
        ),
        (
            "[policy]\ntimezone = \"Mars/Base\"",
            "`timezone`: `Mars/Base` is no time zone\nhint: an IANA name",
        ),
        (
            "[ops]\nlisten = \"localhost\"",
            "`listen`: `localhost` is no address and port",
        ),
        ("[log]\nlevel = \"loud=very\"", "`level`: `loud=very` is no level"),
        ("[node]\nname = \"a b\"", "`name`: `a b` is no name"),
        (
            "[eap.tls]\ncertificate = \"a\"\nprivate_key = \"b\"",
            "toml:1: `client_ca` is missing in [eap.tls]",
        ),
        (
            "[eap.tls]\ncertificate = \"a\"\nprivate_key = \"b\"\nclient_ca = \"c\"\nfragment_size = 4001",
            "toml:5: `fragment_size` is 4001, and may be 64 to 4000",
        ),
        (
            "[eap.tls]\ncertificate = \"a\"\nprivate_key = \"b\"\nclient_ca = \"c\"\nresumption_lifetime = \"8d\"",
            "toml:5: `resumption_lifetime` is 8d, and may be 0ms to 7d",
        ),
        (
            "[eap.tls]\ncertificate = \"a\"\nprivate_key = \"b\"\nclient_ca = \"c\"\nmin_version = \"1.3\"\nmax_version = \"1.2\"",
            "toml:5: `min_version` is above `max_version`",
        ),
        (
            "[eap.tls]\nmax_depth = 7",
            "toml:2: `max_depth` is 7, and may be 0 to 6",
        ),
        (
            "[eap.tls]\nallow_any_eku = \"yes\"",
            "toml:2: `allow_any_eku` must be true or false, not `yes`",
        ),
        (
            "[eap.tls]\nidentity_check = \"name\"",
            "`identity_check` is `name`, and may be \"none\" or \"cn\" or \"upn\" or \"dns\" or \"any-name\"",
        ),
        (
            "[eap.tls]\nmin_version = \"1.1\"",
            "`min_version` is `1.1`, and may be \"1.2\" or \"1.3\"",
        ),
    ] {
        let complaint = complaint(text);
        assert!(complaint.contains(part), "{part}\nin\n{complaint}");
    }
}

const TLS: &str = "[eap.tls]\ncertificate = \"a.pem\"\nprivate_key = \"a.key\"\nclient_ca = \"ca.pem\"\n";

#[test]
fn a_profile_has_its_own_keys_and_the_defaults_for_the_rest() {
    let text = r#"
max_version = "1.2"
private_key_passphrase_file = "word"
max_depth = 2
identity_check = "dns"
[[eap.tls.profile]]
name = "guests"
sites = ["leeds", "york"]
clients = ["10.1.2.3/16", "192.0.2.7"]
certificate = ["guests-ec.pem", "guests-rsa.pem"]
private_key = ["guests-ec.key", "guests-rsa.key"]
max_version = "1.3"
[[eap.tls.profile]]
name = "labs"
sites = "lab"
client_ca = ["labs.pem"]
allow_any_eku = true
identity_check = "none"
"#;
    let variables = [("PORTREEVE__EAP__TLS__PROFILE__1__MIN_VERSION", "\"1.2\"")];
    let tls = parse(&format!("{TLS}{text}"), &variables).unwrap().eap_tls.unwrap();
    let path = |name: &str| Path::new("/etc/portreeve").join(name);
    let [guests, labs] = &tls.profiles[..] else {
        panic!("{:?}", tls.profiles)
    };
    assert_eq!(
        (guests.settings.name.as_str(), labs.settings.name.as_str()),
        ("guests", "labs")
    );
    assert_eq!((guests.sites.len(), &labs.sites[..]), (2, &["lab".to_owned()][..]));
    let networks: Vec<_> = guests.clients.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.1.0.0/16", "192.0.2.7/32"]);
    let [ec, rsa] = &guests.settings.certificates[..] else {
        panic!("{guests:?}")
    };
    assert_eq!(
        (&ec.certificate, &rsa.private_key),
        (&path("guests-ec.pem"), &path("guests-rsa.key"))
    );
    // one passphrase file opens all keys
    assert_eq!(
        (&ec.passphrase_file, &rsa.passphrase_file),
        (&Some(path("word")), &Some(path("word")))
    );
    assert_eq!(guests.settings.client_ca, tls.default.client_ca);
    assert_eq!(
        (guests.settings.max_version, labs.settings.max_version),
        (TlsVersion::V13, TlsVersion::V12)
    );
    assert_eq!(labs.settings.certificates, tls.default.certificates);
    assert_eq!(labs.settings.client_ca, [path("labs.pem")]);
    let demanded = |settings: &trust::Settings| (settings.demands, settings.identity_check);
    let demands = |allow_any_eku| Demands {
        max_depth: 2,
        allow_any_eku,
    };
    assert_eq!(demanded(&guests.settings), (demands(false), IdentityCheck::Dns));
    assert_eq!(demanded(&labs.settings), (demands(true), IdentityCheck::None));
}

#[test]
fn cipher_suites_are_named_and_a_profile_may_have_its_own() {
    let keys = "certificate = \"a\"\nprivate_key = \"b\"\nclient_ca = \"c\"\n";
    let (newer, older) = (
        "\"TLS_AES_128_GCM_SHA256\"",
        "\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"",
    );
    let text = |default: &str, profile: &str| {
        format!("[eap.tls]\n{keys}{default}\n[[eap.tls.profile]]\nname = \"old\"\nsites = \"a\"\n{profile}\n")
    };
    let named = |default: &str, profile: &str| {
        let tls = parse(&text(default, profile), &[]).unwrap().eap_tls.unwrap();
        let suites = |settings: &trust::Settings| settings.ciphers.provider().cipher_suites.len();
        (suites(&tls.default), suites(&tls.profiles[0].settings))
    };
    assert_eq!(named("", ""), (9, 9));
    let both = format!("ciphers = [{newer}, {older}]");
    assert_eq!(named(&both, ""), (2, 2));
    assert_eq!(named("", &both), (9, 2));
    let wrong = [
        ("[]".to_owned(), "toml:5: `ciphers` names none"),
        (format!("[{newer}]"), "toml:5: `ciphers` names none of TLS 1.2"),
        (
            format!("[{newer}, {newer}]"),
            "toml:5: `ciphers` names `TLS_AES_128_GCM_SHA256` twice",
        ),
        (
            "\"DES\"".to_owned(),
            "toml:5: `ciphers` names `DES`, which is not spoken here\nhint: these are known: TLS_AES_256",
        ),
    ];
    for (list, part) in wrong {
        let complaint = complaint(&text(&format!("ciphers = {list}"), ""));
        assert!(complaint.contains(part), "{part} in {complaint}");
    }
}

#[test]
fn what_is_wrong_with_a_profile_is_told_with_its_line() {
    for (profiles, part) in [
        (
            "[[eap.tls.profile]]\nsites = \"a\"",
            "toml:5: `name` is missing in [[eap.tls.profile]]",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\nclinets = []",
            "toml:8: unknown key `clinets` in [[eap.tls.profile]]\nhint: did you mean `clients`?",
        ),
        (
            "[[eap.tls.profile]]\nname = \"default\"\nsites = \"a\"",
            "toml:6: `name` `default` is no name for a profile",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"",
            "toml:5: `sites` and `clients` of profile `x` are missing or empty",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = []\nclients = []",
            "toml:5: `sites` and `clients` of profile `x` are missing or empty",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\nclient_ca = []",
            "toml:8: `client_ca` is an empty list",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = [\"a\", \"a\"]",
            "toml:7: `sites` names `a`, which profile `x` has named already",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\n[[eap.tls.profile]]\nname = \"y\"\nsites = \"a\"",
            "toml:10: `sites` names `a`, which profile `x` has named already",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\n[[eap.tls.profile]]\nname = \"x\"\nsites = \"b\"",
            "toml:9: `name` `x` is another profile's too",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nclients = [\"10.0.0.1/8\", \"10.0.0.0/8\"]",
            "toml:7: `clients` names `10.0.0.0/8`, which profile `x` has named already",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nclients = \"switch-1\"",
            "toml:7: `clients` has `switch-1`, which is no network\nhint: write `10.1.0.0/16`",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\ncertificate = [\"b.pem\", \"c.pem\"]",
            "toml:5: `private_key` has 1 file, and `certificate` 2 files\nhint: name one for each certificate",
        ),
        (
            "max_version = \"1.2\"\n[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\nmin_version = \"1.3\"",
            "toml:9: `min_version` is above `max_version`",
        ),
        (
            "[eap.tls.profile]\nname = \"x\"",
            "toml:5: [eap.tls.profile] is one of a list\nhint: write [[eap.tls.profile]]",
        ),
        (
            "[[eap.tls.profile]]\nname = \"x\"\nsites = \"a\"\n[eap.tls.profile.more]\nkey = 1",
            "toml:8: unknown section [eap.tls.profile.0.more]",
        ),
        ("profile = [1]", "toml:5: unknown key `profile` in [eap.tls]"),
    ] {
        let complaint = complaint(&format!("{TLS}{profiles}"));
        assert!(complaint.contains(part), "{part}\nin\n{complaint}");
        assert_eq!(complaint.matches("toml:").count(), 1, "{complaint}");
    }
    let many: String = (0..257)
        .map(|number| format!("[[eap.tls.profile]]\nname = \"{number}\"\nsites = \"{number}\"\n"))
        .collect();
    let complaint = complaint(&format!("{TLS}{many}"));
    assert!(
        complaint.contains("`name` `256` is one profile too many: there may be 256"),
        "{complaint}"
    );
}

#[test]
fn ops_can_be_off_and_time_zones_are_found() {
    let config = parse("[ops]\nlisten = \"off\"\n[policy]\ntimezone = \"Europe/London\"\n", &[]).unwrap();
    assert_eq!(config.ops.listen, None);
    assert_eq!(config.policy.timezone.iana_name(), Some("Europe/London"));
}

#[test]
fn a_missing_file_says_what_to_do() {
    let error = Config::load(Path::new("/nonexistent/portreeve.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/nonexistent/portreeve.toml: ") && error.contains("\nhint: `--config FILE`"),
        "{error}"
    );
}

#[test]
fn debug_shows_no_password() {
    let config = parse(
        "[database]\nurl = \"postgres://portreeve:s3cret@db.example/portreeve\"",
        &[],
    )
    .unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn a_snapshot_needs_a_key_which_is_shown_nowhere() {
    let key = "0123456789abcdef".repeat(2);
    let variable = [("PORTREEVE__CACHE__SNAPSHOT_KEY", key.as_str())];
    assert!(parse("", &[]).unwrap().cache.saved.is_none());
    assert!(parse("[cache]\nsnapshot = \"x\"", &[]).unwrap().cache.saved.is_none());
    let config = parse("", &variable).unwrap();
    let saved = config.cache.saved.as_ref().unwrap();
    assert_eq!(saved.path(), Path::new("/etc/portreeve/portreeve.snapshot"));
    assert!(!format!("{config:?}").contains(&key));
    let error = parse("[cache]\nsnapshot_key = \"guessable\"", &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`snapshot_key`: is shorter than 32 characters") && !error.contains("guessable"),
        "{error}"
    );
}

/// Every key is documented with its section, and nothing is documented that does not exist.
#[test]
fn the_documentation_has_every_key_and_no_other() {
    let mut reader = Reader::new(Path::new("portreeve.toml"), "", []);
    take(Path::new("portreeve.toml"), &mut reader);
    let known: Vec<(String, String)> = reader
        .known()
        .iter()
        .map(|(section, key)| (section.to_string(), key.to_string()))
        .collect();
    let mut documented = Vec::new();
    let mut section = String::new();
    for line in include_str!("../../docs/configuration.md").lines() {
        if let Some(name) = line.strip_prefix("## `[").and_then(|rest| rest.strip_suffix("]`")) {
            section = name.trim_matches(['[', ']']).to_owned();
        }
        if let Some((key, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) {
            documented.push((section.clone(), key.to_owned()));
        }
    }
    for key in &known {
        assert!(documented.contains(key), "docs/configuration.md lacks {key:?}");
    }
    for key in &documented {
        assert!(
            known.contains(key),
            "docs/configuration.md has {key:?}, which does not exist"
        );
    }
}
