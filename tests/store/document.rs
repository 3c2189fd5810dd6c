//! Export and import: identity, union, merge, difference, and every error with its line.

use portreeve::radius::dictionary::Dictionary;
use portreeve::store::Store;
use portreeve::store::document::{self, ImportError, Imported, Options, Source};

use crate::support::{DRY, Database, FORCE, MERGE, REPLACE, Result, SMALL};

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned().into(),
    }
}

impl Database {
    async fn import(&self, text: &str, options: Options) -> std::result::Result<Imported, ImportError> {
        document::import(
            &self.store,
            Dictionary::builtin(),
            vec![source("set.toml", text)],
            options,
        )
        .await
    }

    async fn export(&self) -> Result<String> {
        Ok(document::export(&self.store, false).await?.text.to_string())
    }

    /// The errors of a document, which changes nothing.
    async fn errors(&self, text: &str, options: Options) -> Result<String> {
        let before = self.export().await?;
        let errors = match self.import(text, options).await {
            Ok(_) => return Err(format!("imported: {text}").into()),
            Err(error) => error.to_string(),
        };
        assert_eq!(self.export().await?, before);
        Ok(errors)
    }
}

const FULL: &str = r#"[[policy]]
name = "catch all"
action = "reject"
fallback = true

[[policy]]
name = "laptops"
description = "two\nlines, \"quoted\""
action = "accept"
methods = ["eap-tls"]
rules = [
    "NAS-Port-Type == Ethernet",
    "TLS-Client-Cert-Common-Name =~ ^laptop-\\d+$",
]
responses = [
    "Tunnel-Type:1 = VLAN",
    "Tunnel-Medium-Type:1 = IEEE-802",
    "Tunnel-Private-Group-Id:1 = 120",
    "Cisco-AVPair = ip:inacl#10=permit ip any any",
    "Cisco-AVPair = ip:inacl#20=deny ip any any",
]

[[policy]]
name = "printers"
action = "accept"
methods = ["mab", "mab-unknown"]
rules = [
    "Calling-Station-Id starts-with 00-1b-78",
]

[[policy]]
name = "unused"
action = "accept"

[[site]]
name = "Leeds, Wharf"
tag = "leeds"
timezone = "Europe/London"
fallback = "catch all"
policies = [
    { policy = "laptops", priority = -5 },
    { policy = "printers", priority = 20 },
]

[[site.client]]
network = "10.1.0.0/16"
secret = "s#cr\"t"

[[site.client]]
network = "10.1.0.0/16"
secret = "radsec"
radsec = true
require_message_authenticator = false
limit_proxy_state = false
min_tls = "1.2"
max_tls = "1.3"
fragment_size = 1400
mab_password = "NOPASSWORD"
mab_identity = "user-name"

[[site.client]]
network = "2001:db8::/32"
secret = "six"
mab_password = "any"

[[site.mac]]
address = "02-00-00-00-00-01"
name = "lobby"
description = "printer"
valid_until = 2027-01-31T12:00:00Z
responses = [
    "Filter-Id = printers",
]

[[site.mac]]
address = "02-00-00-00-00-02"

[[site]]
name = "York"
tag = "york"
"#;

fn without_stamp(text: &str) -> &str {
    text.split_once("\n\n").map_or(text, |(_, rest)| rest)
}

/// Section 4: export, import, export is the identity, and not even the revision moves.
#[tokio::test]
async fn export_import_export_is_the_identity() -> Result {
    let database = Database::new().await?;
    let imported = database.import(FULL, REPLACE).await?;
    assert!(
        imported.difference.contains("+ site `leeds`"),
        "{}",
        imported.difference
    );
    let first = database.export().await?;
    assert_eq!(without_stamp(&first), FULL);
    let again = database.import(&first, REPLACE).await?;
    assert_eq!(again.difference, "");
    assert_eq!(again.revision, imported.revision);
    assert_eq!(database.export().await?, first);

    // Into another database it says the same, under that one's stamp.
    let other = Database::new().await?;
    assert!(matches!(
        other.import(&first, REPLACE).await,
        Err(ImportError::OtherRevision { line: 1, .. })
    ));
    other.import(&first, FORCE).await?;
    assert_eq!(without_stamp(&other.export().await?), FULL);
    Ok(())
}

/// As the README moves a set from SQLite to PostgreSQL, and back.
#[tokio::test]
async fn a_set_moves_from_a_file_to_a_server_and_back() -> Result {
    let folder = tempfile::tempdir()?;
    let (file, _) = Store::migrate(&format!("sqlite:{}", folder.path().join("old.db").display())).await?;
    let into_file = |text: &str| {
        let sources = vec![source("set.toml", text)];
        document::import(&file, Dictionary::builtin(), sources, FORCE)
    };
    into_file(FULL).await?;
    let exported = document::export(&file, false).await?.text;
    let server = Database::new().await?;
    server.import(&exported, FORCE).await?;
    let moved = server.export().await?;
    assert_eq!(without_stamp(&moved), FULL);
    assert_eq!(into_file(&moved).await?.difference, "");
    Ok(())
}

/// Rows that plain SQL wrote in other spellings are the same set, and stay as they are.
#[tokio::test]
async fn rows_of_plain_sql_are_exported_and_not_rewritten() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    plain
        .run("UPDATE mac_authentication_bypasses SET address = '0200.0000.000A', valid_until = '1801396800' WHERE id = 2;
              UPDATE policies SET methods = 'mab,  eap-tls' WHERE id = 2;
              UPDATE site_policies SET priority = 99 WHERE policy_id = 4;
              INSERT INTO responses (policy_id, response_attribute, value) VALUES (2, 'Post-Auth-Type', 'Reject')")
        .await?;
    let first = database.export().await?;
    assert!(
        first.contains("address = \"02-00-00-00-00-0a\"\nvalid_until = 2027-01-31T12:00:00Z"),
        "{first}"
    );
    let before = plain.revision().await?;
    assert_eq!(database.import(&first, REPLACE).await?.difference, "");
    assert_eq!(plain.revision().await?, before);
    assert_eq!(
        plain
            .texts("SELECT address FROM mac_authentication_bypasses WHERE id = 2")
            .await?,
        ["0200.0000.000A"]
    );
    Ok(())
}

/// A set that does not compile is exported as it is, and refused at import with its line.
#[tokio::test]
async fn a_broken_set_is_exported() -> Result {
    let database = Database::new().await?;
    let mut plain = database.plain().await?;
    plain.run(SMALL).await?;
    plain
        .run("UPDATE rules SET request_attribute = 'No-Such' WHERE id = 1; UPDATE policies SET methods = 'peap' WHERE id = 2")
        .await?;
    database
        .lawless()
        .await?
        .run("INSERT INTO clients (id, site_id, ip_range, shared_secret) VALUES (9, 99, '10.99.0.0/16', 'x')")
        .await?;
    let exported = document::export(&database.store, false).await?;
    assert_eq!(exported.left_out.len(), 1);
    assert_eq!((exported.left_out[0].table, exported.left_out[0].id), ("clients", 9));
    let errors = database.errors(&exported.text, REPLACE).await?;
    assert!(
        errors.contains("No-Such") && errors.contains("`peap` is no method"),
        "{errors}"
    );
    // The replacing import of a sound document deletes what belongs to nothing.
    let sound = exported.text.replace("No-Such", "User-Name").replace("peap", "mab");
    let imported = database.import(&sound, REPLACE).await?;
    assert_eq!(imported.deleted.len(), 1);
    assert_eq!(plain.number("SELECT count(*) FROM clients WHERE id = 9").await?, 0);
    Ok(())
}

#[tokio::test]
async fn redacted_documents() -> Result {
    let database = Database::new().await?;
    database.import(FULL, REPLACE).await?;
    let redacted = document::export(&database.store, true).await?.text;
    for secret in ["s#cr", "radsec\"", "\"six\"", "NOPASSWORD"] {
        assert!(!redacted.contains(secret), "{secret}");
    }
    let errors = database.errors(&redacted, REPLACE).await?;
    assert!(
        errors.contains("set.toml:2: the document was exported without its secrets"),
        "{errors}"
    );
    let by_hand = redacted.replace("redacted = true\n", "");
    assert!(
        database
            .errors(&by_hand, REPLACE)
            .await?
            .contains("the secret of `10.1.0.0/16` is redacted")
    );
    Ok(())
}

/// Section 4: the union of the files replaces the set.
#[tokio::test]
async fn several_files_are_one_set() -> Result {
    let database = Database::new().await?;
    let policies = "[[policy]]\nname = \"p\"\nrules = [\"User-Name == x\"]\n";
    let sites = "[[site]]\nname = \"Leeds\"\npolicies = [{ policy = \"p\", priority = 1 }]\n[[site.client]]\nnetwork = \"192.0.2.1\"\nsecret = \"x\"\n";
    let both = vec![source("policies.toml", policies), source("sites.toml", sites)];
    document::import(&database.store, Dictionary::builtin(), both, REPLACE).await?;
    let text = database.export().await?;
    assert!(
        text.contains("tag = \"leeds\"") && text.contains("network = \"192.0.2.1/32\""),
        "{text}"
    );

    let twice = vec![source("a.toml", policies), source("b.toml", &format!("\n\n{policies}"))];
    let error = document::import(&database.store, Dictionary::builtin(), twice, REPLACE)
        .await
        .map(|_| ())
        .map_err(|error| error.to_string());
    assert_eq!(
        error,
        Err("b.toml:4: policy `p` is there twice, first at a.toml:2\nhint: keep one of the two".to_owned())
    );

    // What is in no file is gone.
    let imported = database.import(policies, REPLACE).await?;
    assert_eq!(imported.difference, "- site `leeds`, with 1 client and 0 addresses\n");
    Ok(())
}

#[tokio::test]
async fn merge_adds_and_changes() -> Result {
    let database = Database::new().await?;
    database.import(FULL, REPLACE).await?;
    let merged = r#"
        [[policy]]
        name = "phones"
        methods = ["mab"]
        rules = ["SSID absent"]
        [[site]]
        name = "Leeds, Wharf"
        tag = "leeds"
        policies = [{ policy = "phones", priority = 20 }, { policy = "printers", priority = 30 }]
        [[site.client]]
        network = "10.1.0.0/16"
        secret = "rotated"
        [[site.mac]]
        address = "0200.0000.0003"
    "#;
    let imported = database.import(merged, MERGE).await?;
    assert_eq!(
        imported.difference,
        "+ policy `phones`\n    + action accept\n    + methods mab\n    + rule SSID absent\n\
         ~ site `leeds`\n    - 20 policy `printers`\n    + 20 policy `phones`\n    + 30 policy `printers`\n    \
         ~ client 10.1.0.0/16: secret\n    + mac 02-00-00-00-00-03\n"
    );
    let text = database.export().await?;
    for kept in [
        "name = \"unused\"",
        "timezone = \"Europe/London\"",
        "fallback = \"catch all\"",
        "02-00-00-00-00-01",
        "2001:db8::/32",
        "tag = \"york\"",
    ] {
        assert!(text.contains(kept), "{kept}");
    }
    let stolen =
        "[[site]]\nname = \"York\"\ntag = \"york\"\n[[site.client]]\nnetwork = \"10.1.0.0/16\"\nsecret = \"x\"";
    assert!(
        database
            .errors(stolen, MERGE)
            .await?
            .contains("set.toml:5: client `10.1.0.0/16` is there twice, first at site `leeds` of the database")
    );
    let taken =
        "[[site]]\nname = \"Leeds, Wharf\"\ntag = \"leeds\"\npolicies = [{ policy = \"unused\", priority = 30 }]";
    assert!(
        database
            .errors(taken, MERGE)
            .await?
            .contains("`printers` and `unused` both have priority 30")
    );
    Ok(())
}

#[tokio::test]
async fn a_dry_run_changes_nothing() -> Result {
    let database = Database::new().await?;
    database.import(FULL, REPLACE).await?;
    let before = database.export().await?;
    let changed = FULL
        .replace("Tunnel-Private-Group-Id:1 = 120", "Tunnel-Private-Group-Id:1 = 130")
        .replace("name = \"York\"", "name = \"Hull\"");
    let imported = database.import(&changed, DRY).await?;
    assert_eq!(
        imported.difference,
        "~ policy `laptops`\n    - response Tunnel-Private-Group-Id:1 = 120\n    + response Tunnel-Private-Group-Id:1 = 130\n\
         ~ site `york`\n    - name \"York\"\n    + name \"Hull\"\n"
    );
    assert_eq!(database.export().await?, before);
    Ok(())
}

/// What constraints forbid on the way is no obstacle: names and priorities exchanged, a fallback that becomes a policy, a
/// client that moves to another site.
#[tokio::test]
async fn exchanges() -> Result {
    let database = Database::new().await?;
    database.import(FULL, REPLACE).await?;
    let client = "[[site.client]]\nnetwork = \"2001:db8::/32\"\nsecret = \"six\"\nmab_password = \"any\"\n\n";
    let changed = FULL
        .replace("\"York\"", "\"tmp\"")
        .replace("\"Leeds, Wharf\"", "\"York\"")
        .replace("\"tmp\"", "\"Leeds, Wharf\"")
        .replace("priority = -5", "priority = 1")
        .replace("priority = 20", "priority = -5")
        .replace("priority = 1 ", "priority = 20 ")
        .replace(
            "    { policy = \"laptops\", priority = 20 },\n    { policy = \"printers\", priority = -5 },\n",
            "    { policy = \"printers\", priority = -5 },\n    { policy = \"laptops\", priority = 20 },\n",
        )
        .replace(client, "")
        + "policies = [\n    { policy = \"catch all\", priority = 7 },\n]\n\n"
        + client.trim_end()
        + "\n";
    let changed = changed
        .replace("action = \"reject\"\nfallback = true\n", "action = \"reject\"\n")
        .replace("fallback = \"catch all\"\n", "");
    database.import(&changed, REPLACE).await?;
    assert_eq!(without_stamp(&database.export().await?), changed);
    database.import(FULL, REPLACE).await?;
    assert_eq!(without_stamp(&database.export().await?), FULL);
    Ok(())
}

/// Section 2.7: what the dictionary refuses is an error at import, with line and reason; all errors at once.
#[tokio::test]
async fn errors_have_their_line() -> Result {
    let database = Database::new().await?;
    let site = |rest: &str| format!("[[site]]\nname = \"a\"\n{rest}");
    let cases: &[(String, &str)] = &[
        ("[[policy]\n".into(), "set.toml:1: "),
        ("[[policy]]\nname = \"a\"\nrule = []\n".into(), "set.toml:3: unknown field `rule`"),
        ("[[policy]]\naction = \"accept\"\n".into(), "set.toml:1: missing field `name`"),
        ("[[policy]]\nname = \"a\"\naction = \"permit\"\n".into(), "set.toml:3: `permit` is no action"),
        ("[[policy]]\nname = \"a\"\nmethods = [\n\"mab\",\n\"peap\"]\n".into(), "set.toml:5: `peap` is no method"),
        ("[[policy]]\nname = \"a\"\nrules = [\n  \"SSID present\",\n  \"NAS-Port-Type == Ethernot\",\n]\n".into(), "set.toml:5: policy `a`, rule 2"),
        ("[[policy]]\nname = \"a\"\nrules = [\"User-Name =~ (\"]\n".into(), "set.toml:3: policy `a`, rule 1"),
        ("[[policy]]\nname = \"a\"\nrules = [\"User-Name like x\"]\n".into(), "set.toml:3: `like` is no operator"),
        ("[[policy]]\nname = \"a\"\nresponses = [\n\"Session-Timeout = soon\"]\n".into(), "set.toml:4: policy `a`, response 1"),
        ("[[policy]]\nname = \"a\"\nresponses = [\"Filter-Id = %{Nonsense}\"]\n".into(), "set.toml:3: policy `a`, response 1"),
        (site("timezone = \"Middle/Earth\"\n"), "set.toml:3: `Middle/Earth` is no time zone"),
        (site("fallback = \"x\"\n"), "set.toml:3: there is no policy `x`"),
        (site("policies = [\n{ policy = \"x\", priority = 1 }]\n"), "set.toml:4: there is no policy `x`"),
        (site("[[site.client]]\nnetwork = \"10.1.2.3/16\"\nsecret = \"x\"\n"), "set.toml:4: `10.1.2.3/16` is no network: bits behind the prefix are set\nhint: write `10.1.0.0/16`"),
        (site("[[site.client]]\nnetwork = \"switch\"\nsecret = \"x\"\n"), "set.toml:4: `switch` is no network"),
        (site("[[site.client]]\nnetwork = \"10.0.0.0/8\"\nsecret = \"\"\n"), "set.toml:4: client `10.0.0.0/8`: the shared secret is empty"),
        (site("[[site.client]]\nnetwork = \"10.0.0.0/8\"\nsecret = \"x\"\nmin_tls = \"1.3\"\nmax_tls = \"1.2\"\n"), "set.toml:4: client `10.0.0.0/8`: `min_tls` is above `max_tls`"),
        (site("[[site.client]]\nnetwork = \"10.0.0.0/8\"\nsecret = \"x\"\n[[site.client]]\nnetwork = \"10.0.0.0/8\"\nsecret = \"y\"\n"), "set.toml:7: client `10.0.0.0/8` is there twice, first at set.toml:4"),
        (site("[[site.mac]]\naddress = \"AAAA-BBBB-CCC\"\n"), "set.toml:4: `AAAA-BBBB-CCC` is no MAC address"),
        (site("[[site.mac]]\naddress = \"AAAA-BBBB-CCCC\"\n[[site.mac]]\naddress = \"aaaa.bbbb.cccc\"\n"), "set.toml:6: address `aa-aa-bb-bb-cc-cc` of site `a` is there twice"),
        (site("[[site.mac]]\naddress = \"AAAA-BBBB-CCCC\"\nvalid_until = \"tomorrow\"\n"), "set.toml:5: `tomorrow` is no time"),
        (site("[[site.mac]]\naddress = \"AAAA-BBBB-CCCC\"\nresponses = [\"Tunnel-Private-Group-Id:99 = 1\"]\n"), "set.toml:5: endpoint `aa-aa-bb-bb-cc-cc`, response 1"),
        ("[[site]]\nname = \"a\"\n[[site]]\nname = \"A\"\n".into(), "set.toml:4: site `a` is there twice"),
        ("[[site]]\nname = \"a\"\ntag = \"x\"\n[[site]]\nname = \"a\"\ntag = \"y\"\n".into(), "the sites `x` and `y` have one name"),
        (
            "[[policy]]\nname = \"p\"\n[[policy]]\nname = \"q\"\n[[site]]\nname = \"a\"\npolicies = [{ policy = \"p\", priority = 1 },\n{ policy = \"q\", priority = 1 }]\n".into(),
            "set.toml:8: `p` and `q` both have priority 1",
        ),
        (
            "[[policy]]\nname = \"p\"\nfallback = false\n[[site]]\nname = \"a\"\nfallback = \"p\"\n".into(),
            "set.toml:3: a site has `p` as its fallback",
        ),
        (
            "[[policy]]\nname = \"p\"\nfallback = true\n[[site]]\nname = \"a\"\npolicies = [{ policy = \"p\", priority = 1 }]\n".into(),
            "set.toml:6: `p` is a fallback policy",
        ),
    ];
    for (text, expected) in cases {
        let errors = database.errors(text, REPLACE).await?;
        assert!(errors.contains(expected), "{text}\n{errors}");
    }
    let all = database.errors("[[policy]]\nname = \"a\"\nrules = [\"Nope == 1\", \"SSID\"]\n[[site]]\nname = \"b\"\npolicies = [{ policy = \"a\", priority = 1 }]\n[[site.mac]]\naddress = \"x\"\n", REPLACE).await?;
    assert_eq!(
        all.lines().filter(|line| line.starts_with("set.toml:")).count(),
        3,
        "{all}"
    );
    Ok(())
}

/// Section 6: the action is `reject` for a fallback that our commands make; section 2.5: lint at import.
#[tokio::test]
async fn defaults_and_lint() -> Result {
    let database = Database::new().await?;
    let text = "[[policy]]\nname = \"rest\"\n[[policy]]\nname = \"empty\"\n[[site]]\nname = \"a\"\nfallback = \"rest\"\npolicies = [{ policy = \"empty\", priority = 1 }]\n";
    let imported = database.import(text, REPLACE).await?;
    assert!(
        imported
            .findings
            .iter()
            .any(|finding| finding.to_string().contains("`empty`")),
        "{:?}",
        imported.findings
    );
    let text = database.export().await?;
    assert!(
        text.contains("name = \"rest\"\naction = \"reject\"\nfallback = true\n"),
        "{text}"
    );
    assert!(text.contains("name = \"empty\"\naction = \"accept\"\n"), "{text}");
    Ok(())
}
