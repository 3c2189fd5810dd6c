//! The importer for the system that users come from: its dump and its tables as CSV, what of them cannot be taken, and the
//! order of its priorities.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use portreeve::radius::dictionary::Dictionary;
use portreeve::store::document::{self, ImportError, Imported, OlderFile, Options, Source};

use crate::support::{DRY, Database, MERGE, REPLACE, Result, SMALL};

/// Every table that is read, one to a line.
const TABLES: &str = "CREATE TABLE `sites` (`id` bigint, `name` varchar(255), `tag` varchar(255), `timezone` text);
CREATE TABLE `clients` (`id` bigint, `site_id` bigint, `ip_range` text, `shared_secret` text, `radsec` tinyint(1));
CREATE TABLE `policies` (`id` bigint, `name` text, `description` text, `fallback` bit(1), `action` varchar(255));
CREATE TABLE `site_policies` (`id` bigint, `site_id` bigint, `policy_id` bigint, `priority` int);
CREATE TABLE `rules` (`id` bigint, `policy_id` bigint, `request_attribute` text, `operator` text, `value` text);
CREATE TABLE `responses` (`id` bigint, `policy_id` bigint, `mac_authentication_bypass_id` bigint, `response_attribute` text, `value` text);
CREATE TABLE `mac_authentication_bypasses` (`id` bigint, `site_id` bigint, `address` text, `name` text, `description` text);
";

/// A sound set, one row to a line, from line 8 on.
const ROWS: [&str; 10] = [
    "sites (1,'Leeds','leeds',NULL)",
    "clients (1,1,'10.1.0.0/16','s3cret',0)",
    "policies (1,'laptops','',b'0','accept')",
    "policies (2,'Leeds fallback',NULL,b'1',NULL)",
    "site_policies (1,1,1,5)",
    "site_policies (2,1,2,NULL)",
    "rules (1,1,'User-Name','equals','x')",
    "responses (1,1,NULL,'Filter-Id','a')",
    "mac_authentication_bypasses (1,1,'aa-bb-cc-dd-ee-ff','','')",
    "responses (2,NULL,1,'Filter-Id','b')",
];

/// A dump of the sound set and more rows, which begin on line 18.
fn dump(more: &[&str]) -> String {
    let mut text = TABLES.to_owned();
    for row in ROWS.iter().chain(more) {
        let (table, values) = row.split_once(' ').unwrap_or_default();
        text.push_str(&format!("INSERT INTO `{table}` VALUES {values};\n"));
    }
    text
}

struct Older {
    database: Database,
    folder: tempfile::TempDir,
}

impl Older {
    async fn new() -> Result<Older> {
        Ok(Older {
            database: Database::new().await?,
            folder: tempfile::tempdir()?,
        })
    }

    fn file(&self, name: &str, text: &str) -> Result<OlderFile> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(OlderFile::at(&path).ok_or(format!("{name} is no file of the older system"))?)
    }

    async fn import(&self, files: &[OlderFile], options: Options) -> std::result::Result<Imported, ImportError> {
        document::import_older(&self.database.store, Dictionary::builtin(), files, options).await
    }

    async fn dump(&self, text: &str, options: Options) -> Result<Imported> {
        Ok(self.import(&[self.file("dump.sql", text)?], options).await?)
    }

    /// What is wrong with a dump, without the folder's name; nothing is imported.
    async fn errors(&self, text: &str, options: Options) -> Result<String> {
        self.errors_of(&[self.file("dump.sql", text)?], options).await
    }

    async fn errors_of(&self, files: &[OlderFile], options: Options) -> Result<String> {
        let before = self.export().await?;
        let error = match self.import(files, options).await {
            Ok(_) => return Err("imported".into()),
            Err(error) => error.to_string(),
        };
        assert_eq!(self.export().await?, before);
        Ok(error.replace(&format!("{}/", self.folder.path().display()), ""))
    }

    /// The set without its revision.
    async fn export(&self) -> Result<String> {
        let text = document::export(&self.database.store, false).await?.text;
        Ok(text.split_once("\n\n").map_or("", |(_, set)| set).to_owned())
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older").join(name)
}

/// A whole database as `mysqldump` writes it.
#[tokio::test]
async fn a_dump_is_the_set_that_it_was() -> Result {
    let older = Older::new().await?;
    let files = [OlderFile::at(&golden("nac.sql")).ok_or("no dump")?];
    let expected = std::fs::read_to_string(golden("nac.toml"))?;

    let dry = older.import(&files, DRY).await?;
    assert!(dry.difference.contains("+ site `york`"), "{}", dry.difference);
    assert_eq!(older.export().await?, "");

    let imported = older.import(&files, REPLACE).await?;
    assert_eq!(imported.difference, dry.difference);
    assert_eq!(older.export().await?, expected);
    assert_eq!(
        imported.notes,
        [
            "site `leeds_wharf_2`: equal or missing priorities, numbered anew in the same order: `contractors` NULL -> 10, \
             `phones` 1 -> 20, `laptops` 1 -> 30, `visitors` 7 -> 40",
            "not read: tables ar_internal_metadata, audits, schema_migrations, users; columns created_at, policy_count, \
             rule_count, site_count, updated_at",
        ]
    );
    assert_eq!(
        imported
            .findings
            .iter()
            .filter(|finding| finding.word == "shadowed")
            .count(),
        0
    );

    // Once more, and as the document that was exported: it is the same set.
    let again = older.import(&files, REPLACE).await?;
    assert_eq!((again.difference.as_str(), &again.revision), ("", &imported.revision));
    let exported = document::export(&older.database.store, false).await?;
    let source = Source {
        name: "set.toml".to_owned(),
        text: exported.text,
    };
    let again = document::import(&older.database.store, Dictionary::builtin(), vec![source], REPLACE).await?;
    assert_eq!((again.difference.as_str(), &again.revision), ("", &imported.revision));
    Ok(())
}

/// The columns of our own tables, and every way to write a flag, a number and a text.
#[tokio::test]
async fn values_in_every_form() -> Result {
    let older = Older::new().await?;
    let text = "
        INSERT INTO sites (tag, id, name, timezone) VALUES (_utf8mb4'leeds', 0x31, X'4C65656473', 'Europe/London');
        INSERT INTO clients (id, site_id, ip_range, shared_secret, radsec, require_message_authenticator, limit_proxy_state,
            min_tls, max_tls, fragment_size, mab_password, mab_identity) VALUES
            (1, '1', '2001:db8::/32', _binary 's\\0'+0, TRUE, 'f', b'0', '1.2', '1.3', 1400, 'any', 'user-name');
    ";
    assert!(
        older
            .errors(text, REPLACE)
            .await?
            .contains("`,` or `)` should follow a value, `+` stands there")
    );
    let text = format!(
        "{}
        INSERT INTO policies (id, name, fallback, methods) VALUES (1, 'p', _binary '\u{1}', 'mab, eap-tls');
        INSERT INTO rules (id, policy_id, request_attribute, operator, value) VALUES (2, 1, 'SSID', '==', 'b'), (1, 1, 'User-Name', 'contains', 'a');
        INSERT INTO responses (response_attribute, value, policy_id, position) VALUES ('Filter-Id', 'b', 1, 2), ('Filter-Id', 'a', 1, 1);
        INSERT INTO site_policies (site_id, policy_id) VALUES (1, 1);
        INSERT INTO mac_authentication_bypasses (id, site_id, address, valid_until) VALUES (1, 1, '0200.0000.000A', '2027-01-31 12:00:00');",
        text.replace("_binary 's\\0'+0", "_binary 's\\'x'")
    );
    older.dump(&text, REPLACE).await?;
    let expected = r#"[[policy]]
name = "p"
action = "accept"
methods = ["mab", "eap-tls"]
fallback = true
rules = [
    "User-Name contains a",
    "SSID == b",
]
responses = [
    "Filter-Id = a",
    "Filter-Id = b",
]

[[site]]
name = "Leeds"
tag = "leeds"
timezone = "Europe/London"
fallback = "p"

[[site.client]]
network = "2001:db8::/32"
secret = "s'x"
radsec = true
require_message_authenticator = false
limit_proxy_state = false
min_tls = "1.2"
max_tls = "1.3"
fragment_size = 1400
mab_password = "any"
mab_identity = "user-name"

[[site.mac]]
address = "02-00-00-00-00-0a"
valid_until = 2027-01-31T12:00:00Z
"#;
    assert_eq!(older.export().await?, expected);
    Ok(())
}

/// A table to a file; NULL is `\N` or nothing.
#[tokio::test]
async fn tables_as_csv() -> Result {
    let older = Older::new().await?;
    let csv = |name: &str, text: &str| older.file(name, text);
    let mut files = vec![
        csv(
            "sites.csv",
            "\u{feff}id,name,tag,created_at\n1,\"Leeds, \"\"Wharf\"\"\",leeds,2022-01-01\n",
        )?,
        csv(
            "clients.csv",
            "ip_range,radsec,site_id,shared_secret\n10.1.0.0/16,t,1,a\n10.1.0.0/16,0,1,\" b \"\n",
        )?,
        csv(
            "policies.csv",
            "id,name,description,fallback,action\r\n7,p,\"two\r\nlines\",\\N,\r\n8,q,,1,reject\r\n",
        )?,
        csv("site_policies.csv", "site_id,policy_id,priority\n1,8,\\N\n1,7,3\n")?,
        csv(
            "rules.csv",
            "policy_id,request_attribute,operator,value\n7,User-Name,contains,\"x,y\"\n",
        )?,
        csv(
            "responses.csv",
            "policy_id,mac_authentication_bypass_id,response_attribute,value\n\\N,2,Filter-Id,b\n",
        )?,
        csv(
            "MAC_Authentication_Bypasses.csv",
            "id,site_id,address,name,description\n2,1,aabb.ccdd.eeff,,\n",
        )?,
        csv("users.csv", "id,email\n1,x@example.org\n")?,
    ];
    let imported = older.import(&files, REPLACE).await?;
    assert_eq!(imported.notes, ["not read: tables users; columns created_at"]);
    let expected = r#"[[policy]]
name = "p"
description = "two\r\nlines"
action = "accept"
rules = [
    "User-Name contains x,y",
]

[[policy]]
name = "q"
action = "reject"
fallback = true

[[site]]
name = "Leeds, \"Wharf\""
tag = "leeds"
fallback = "q"
policies = [
    { policy = "p", priority = 3 },
]

[[site.client]]
network = "10.1.0.0/16"
secret = " b "

[[site.client]]
network = "10.1.0.0/16"
secret = "a"
radsec = true

[[site.mac]]
address = "aa-bb-cc-dd-ee-ff"
responses = [
    "Filter-Id = b",
]
"#;
    assert_eq!(older.export().await?, expected);

    // What a backslash means in a table nobody knows: MySQL's own export doubles it, others do not.
    files[1] = csv(
        "clients.csv",
        "ip_range,site_id,shared_secret\n10.1.0.0/16,1,\"a\\\"\"b\"\n\n10.2.0.0/16,1\n",
    )?;
    files[4] = csv("rules.csv", "")?;
    files.remove(5);
    assert_eq!(
        older.errors_of(&files, REPLACE).await?,
        "clients.csv:2: clients, row 1: `shared_secret` holds a `\\`, and programs that write CSV do not agree on what that \
         means\nhint: import a dump by `mysqldump`\n\
         clients.csv:4: clients, row 2: 2 values for 3 columns\nhint: the columns are ip_range, site_id, shared_secret\n\
         rules.csv:1: the file is empty\nhint: its first line names the columns\n\
         users.csv:1: no file has the table `rules`\nhint: give all tables of the older system, those without rows as well\n\
         users.csv:1: no file has the table `responses`\nhint: give all tables of the older system, those without rows as well"
    );
    Ok(())
}

/// Each row that cannot be taken, with what is said of it after its file, line, table and key.
const REFUSED: &[(&str, &str)] = &[
    (
        "mac_authentication_bypasses (2,1,'AAAA-BBBB-CCC','','')",
        " 2: `AAAA-BBBB-CCC` is no MAC address",
    ),
    (
        "mac_authentication_bypasses (3,9,'02-00-00-00-00-03','','')",
        " 3: there is no site 9",
    ),
    (
        "mac_authentication_bypasses (4,NULL,'02-00-00-00-00-04','','')",
        " 4: `site_id` is empty",
    ),
    (
        "mac_authentication_bypasses (5,1,'AA:BB:CC:DD:EE:FF','','')",
        " 5: `aa-bb-cc-dd-ee-ff` of site 1 is there twice, first at mac_authentication_bypasses 1 (dump.sql:16)",
    ),
    (
        "mac_authentication_bypasses (1,1,'02-00-00-00-00-06','','')",
        " 1: the row is there twice, first at mac_authentication_bypasses 1 (dump.sql:16)",
    ),
    (
        "mac_authentication_bypasses (7,1,'02-00-00-00-00-07')",
        ", row 7: 3 values for 5 columns",
    ),
    (
        "clients (2,1,'10.1.2.3/16','t',0)",
        " 2: the network `10.1.0.0/16` is there twice, first at clients 1 (dump.sql:9)",
    ),
    ("clients (3,1,'10.1/16','t',0)", " 3: `10.1/16` is no network"),
    (
        "clients (4,1,'10.4.0.0/16','',0)",
        " 4: `10.4.0.0/16`: the shared secret is empty",
    ),
    ("clients (5,9,'10.5.0.0/16','t',0)", " 5: there is no site 9"),
    (
        "clients (6,1,'10.6.0.0/16','t',2)",
        " 6: `radsec` is `2`, neither true nor false",
    ),
    (
        "clients (7,1,'10.7.0.0/16',password('t'),0)",
        " 7: `shared_secret` holds an expression",
    ),
    ("clients (8,1,'10.8.0.0/16',X'ff',0)", " 8: `shared_secret` is no UTF-8"),
    ("site_policies (3,1,9,1)", " 3: there is no policy 9"),
    ("site_policies (4,9,1,1)", " 4: there is no site 9"),
    (
        "site_policies (5,1,1,8)",
        " 5: policy 1 of site 1 is there twice, first at site_policies 1 (dump.sql:12)",
    ),
    (
        "site_policies (6,1,1,'high')",
        " 6: `priority` is `high`, no whole number",
    ),
    ("policies (3,'second','',1,'reject')", ""),
    (
        "site_policies (7,1,3,NULL)",
        " 7: site `leeds` has two fallback policies, `Leeds fallback` and `second`",
    ),
    (
        "policies (4,'laptops','',0,'accept')",
        " 4: a policy `laptops` is there twice, first at policies 1 (dump.sql:10)",
    ),
    // What belongs to a policy that was refused is not told again.
    ("rules (9,4,'User-Name','equals','x')", ""),
    ("site_policies (9,1,4,9)", ""),
    ("policies (5,'x','',0,'drop')", " 5: `drop` is no action"),
    ("policies (6,'','',0,'accept')", " 6: `name` is empty"),
    (
        "sites (2,'York','leeds',NULL)",
        " 2: the tag `leeds` is there twice, first at sites 1 (dump.sql:8)",
    ),
    (
        "sites (3,'Leeds','other',NULL)",
        " 3: a site `Leeds` is there twice, first at sites 1 (dump.sql:8)",
    ),
    (
        "sites (4,'Ripon','ripon','Middle/Earth')",
        " 4: `Middle/Earth` is no time zone",
    ),
    ("clients (9,4,'10.9.0.0/16','t',0)", ""),
    (
        "sites ('five','Hull','hull',NULL)",
        ", row 5: `id` is `five`, no whole number",
    ),
    ("rules (2,9,'User-Name','equals','x')", " 2: there is no policy 9"),
    (
        "rules (3,1,'No-Such','equals','x')",
        " 3: policy `laptops`, rule 2 `No-Such == x`: `No-Such` is in no dictionary",
    ),
    (
        "rules (4,1,'User-Name','like','x')",
        " 4: policy `laptops`, rule 3 `User-Name like x`: `like` is no operator",
    ),
    (
        "rules (5,1,'NAS-Port-Type','equals','Ethernot')",
        " 5: policy `laptops`, rule 4 `NAS-Port-Type == Ethernot`: ",
    ),
    ("rules (6,1,NULL,'equals','x')", " 6: `request_attribute` is empty"),
    (
        "responses (3,NULL,NULL,'Filter-Id','a')",
        " 3: it belongs neither to a policy nor to a MAC address",
    ),
    (
        "responses (4,1,1,'Filter-Id','a')",
        " 4: it belongs to a policy and to a MAC address",
    ),
    ("responses (5,9,NULL,'Filter-Id','a')", " 5: there is no policy 9"),
    ("responses (6,NULL,9,'Filter-Id','a')", " 6: there is no MAC address 9"),
    (
        "responses (7,1,NULL,'Session-Timeout','soon')",
        " 7: policy `laptops`, response 2 `Session-Timeout = soon`: ",
    ),
    (
        "responses (8,NULL,1,'Session-Timeout','soon')",
        " 8: endpoint `aa-bb-cc-dd-ee-ff`, response 2 `Session-Timeout = soon`: ",
    ),
];

#[tokio::test]
async fn every_row_that_cannot_be_taken_is_listed() -> Result {
    let older = Older::new().await?;
    older
        .dump(&dump(&["clients (2,1,'10.1.0.0/16','t',1)"]), REPLACE)
        .await?;
    let rows: Vec<&str> = REFUSED.iter().map(|(row, _)| *row).collect();
    let errors = older.errors(&dump(&rows), REPLACE).await?;
    let found: Vec<&str> = errors.lines().filter(|line| !line.starts_with("hint: ")).collect();
    let expected: Vec<String> = (18..)
        .zip(REFUSED)
        .filter(|(_, (_, what))| !what.is_empty())
        .map(|(line, (row, what))| {
            let table = row.split_once(' ').unwrap_or_default().0;
            format!("dump.sql:{line}: {table}{what}")
        })
        .collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected), "found    {found}\nexpected {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{errors}");
    // Each says what to do, and none shows a secret.
    assert_eq!(errors.matches("hint: ").count(), found.len(), "{errors}");
    assert!(!errors.contains("s3cret"), "{errors}");
    Ok(())
}

#[tokio::test]
async fn files_that_are_no_whole_set_are_refused() -> Result {
    let older = Older::new().await?;
    let whole = dump(&[]);
    for (text, expected) in [
        (
            whole.replace("CREATE TABLE `rules`", "CREATE TABLE `old_rules`"),
            "dump.sql:14: rows of `rules`, and no `CREATE TABLE`",
        ),
        (
            whole.replace("`responses`", "`old_responses`"),
            "dump.sql:1: no file has the table `responses`",
        ),
        (
            whole.replace("`shared_secret`", "`secret`"),
            "dump.sql:2: clients: the table has no column `shared_secret`",
        ),
        (
            format!("{whole}{TABLES}"),
            "dump.sql:18: the table `sites` is made a second time",
        ),
        (
            whole.replace("VALUES (1,1,'10.1.0.0/16'", "VALUES (1,1,'10.1.0.0/16"),
            "dump.sql:",
        ),
        (
            format!("{whole}DELETE FROM `rules`;"),
            "dump.sql:18: `DELETE` is no statement of a MySQL dump",
        ),
        (
            format!("{whole}DELIMITER ;;\n"),
            "dump.sql:18: `DELIMITER`: the dump holds triggers or routines",
        ),
        (
            whole.trim_end().trim_end_matches(';').to_owned(),
            "dump.sql:17: `,` or `;` should follow a row, the file ends here",
        ),
        (
            "[[site]]\nname = \"x\"\n".to_owned(),
            "dump.sql:1: a statement should begin here, `[` stands there",
        ),
        (String::new(), "dump.sql:1: no file has the table `sites`"),
    ] {
        let errors = older.errors(&text, REPLACE).await?;
        assert!(
            errors.lines().any(|line| line.starts_with(expected)),
            "{expected}: {errors}"
        );
    }
    // A file twice is every row twice.
    let file = older.file("dump.sql", &whole)?;
    let errors = older.errors_of(&[file.clone(), file], REPLACE).await?;
    assert_eq!(
        errors
            .lines()
            .filter(|line| line.contains(": the row is there twice, first at "))
            .count(),
        ROWS.len(),
        "{errors}"
    );
    let nowhere = OlderFile::at(&older.folder.path().join("nowhere.sql")).ok_or("no name")?;
    assert!(
        older
            .errors_of(&[nowhere], REPLACE)
            .await?
            .starts_with("cannot read `nowhere.sql`: ")
    );
    Ok(())
}

/// Section 6: equal and missing priorities keep the order in which the older system has them.
#[tokio::test]
async fn equal_and_missing_priorities_keep_their_order() -> Result {
    let older = Older::new().await?;
    let text = dump(&[
        "policies (3,'c','',0,NULL),(4,'d','',0,NULL),(5,'e','',0,NULL)",
        "rules (3,3,'User-Name','equals','3'),(4,4,'User-Name','equals','4'),(5,5,'User-Name','equals','5')",
        "sites (2,'York','york',NULL),(3,'Hull','hull',NULL)",
        // later rows first, as a table without a primary key may have them
        "site_policies (9,2,5,1),(8,2,4,1),(7,2,3,NULL),(6,2,1,NULL)",
        "site_policies (10,3,5,3),(11,3,4,1),(12,3,3,2)",
    ]);
    let imported = older.dump(&text, REPLACE).await?;
    assert_eq!(
        imported.notes,
        [
            "site `york`: equal or missing priorities, numbered anew in the same order: `laptops` NULL -> 10, `c` NULL -> 20, \
          `d` 1 -> 30, `e` 1 -> 40"
        ]
    );
    let exported = older.export().await?;
    let york = "tag = \"york\"\npolicies = [\n    { policy = \"laptops\", priority = 10 },\n    { policy = \"c\", priority = 20 },\n    \
                { policy = \"d\", priority = 30 },\n    { policy = \"e\", priority = 40 },\n]";
    let hull = "tag = \"hull\"\npolicies = [\n    { policy = \"d\", priority = 1 },\n    { policy = \"c\", priority = 2 },\n    \
                { policy = \"e\", priority = 3 },\n]";
    assert!(exported.contains(york) && exported.contains(hull), "{exported}");
    Ok(())
}

/// Early versions have the tag with the client; without any it is made of the name, as that system makes it.
#[tokio::test]
async fn sites_without_tags() -> Result {
    let older = Older::new().await?;
    let text = dump(&["sites (2,'York, North Wing',NULL,NULL)", "sites (3,'Hull','',NULL)"])
        .replace("`radsec` tinyint(1)", "`tag` text")
        .replace(
            "'s3cret',0)",
            "'s3cret','lds'),(2,2,'10.2.0.0/16','x','a'),(3,2,'10.3.0.0/16','x','b')",
        )
        .replace("'Leeds','leeds'", "'Leeds',NULL");
    let imported = older.dump(&text, REPLACE).await?;
    assert_eq!(
        imported.notes,
        ["sites without a tag: 1 have their clients' now, 2 one made of their name"]
    );
    let exported = older.export().await?;
    for tag in ["tag = \"lds\"", "tag = \"york_north_wing\"", "tag = \"hull\""] {
        assert!(exported.contains(tag), "{tag}: {exported}");
    }
    let nameless = dump(&["sites (2,'...',NULL,NULL)"]);
    assert!(
        older
            .errors(&nameless, REPLACE)
            .await?
            .starts_with("dump.sql:18: sites 2: it has no tag, and none can be made")
    );
    Ok(())
}

#[tokio::test]
async fn a_dump_is_merged_into_a_set() -> Result {
    let older = Older::new().await?;
    let mut plain = older.database.plain().await?;
    plain.run(SMALL).await?;
    let text = dump(&[
        "policies (3,'late','',0,NULL)",
        "rules (3,3,'User-Name','equals','y')",
        "site_policies (3,1,3,30)",
    ]);
    let imported = older.dump(&text, MERGE).await?;
    assert_eq!(
        imported.difference,
        "~ policy `Leeds fallback`\n    - action reject\n    + action accept\n\
         ~ policy `laptops`\n    - methods eap-tls\n    - rule NAS-Port-Type == Ethernet\n    - response Filter-Id = laptops\n    \
         + rule User-Name == x\n    + response Filter-Id = a\n\
         + policy `late`\n    + action accept\n    + rule User-Name == y\n\
         ~ site `leeds`\n    - 10 policy `laptops`\n    + 5 policy `laptops`\n    + 30 policy `late`\n    ~ client 10.1.0.0/16: secret\n    \
         + mac aa-bb-cc-dd-ee-ff\n"
    );
    let exported = older.export().await?;
    for kept in [
        "priority = 20",
        "02-00-00-00-00-01",
        "tag = \"york\"",
        "name = \"unused\"",
    ] {
        assert!(exported.contains(kept), "{kept}");
    }
    let errors = older
        .errors(
            &dump(&[
                "clients (2,1,'10.2.0.0/16','x',0)",
                "policies (3,'late','',0,NULL)",
                "site_policies (3,1,3,20)",
                "sites (2,'York','new',NULL)",
            ]),
            MERGE,
        )
        .await?;
    assert_eq!(
        errors,
        "dump.sql:18: clients 2: `10.2.0.0/16` is a client of the site `york` in the database\nhint: remove it there\n\
         dump.sql:20: site_policies 3: `late` and `printers`, which the site `leeds` has in the database, both have priority 20\n\
         hint: move one of the two\n\
         dump.sql:21: sites 2: the sites `new` and `york` have one name, `York`\nhint: rename one"
    );
    Ok(())
}

/// A hundred thousand addresses, ten megabytes, in lines of a megabyte. The time is bounded as a tenth of what a million may
/// take, which it would not be if any step looked at all that came before it.
#[tokio::test]
async fn a_hundred_thousand_addresses() -> Result {
    const SITES: u32 = 1_750;
    const MACS: u32 = 100_000;
    let older = Older::new().await?;
    let path = older.folder.path().join("nac.sql");
    let mut out = BufWriter::new(std::fs::File::create(&path)?);
    out.write_all(TABLES.as_bytes())?;
    for site in 1..=SITES {
        writeln!(
            out,
            "INSERT INTO `sites` VALUES ({site},'Site {site}','site_{site}',NULL);"
        )?;
    }
    let mut line = 0;
    for mac in 0..MACS {
        let begin = if line == 0 {
            "INSERT INTO `mac_authentication_bypasses` VALUES "
        } else {
            ","
        };
        let [_, a, b, c] = mac.to_be_bytes();
        let value = format!(
            "{begin}({mac},{},'02-00-00-{a:02x}-{b:02x}-{c:02x}','device {mac}','in room {} of the building\\'s east wing, by the window')",
            1 + mac % SITES,
            mac % 997
        );
        out.write_all(value.as_bytes())?;
        line += value.len();
        if line > 1_000_000 || mac + 1 == MACS {
            out.write_all(b";\n")?;
            line = 0;
        }
    }
    out.into_inner()?;
    let files = [OlderFile::at(&path).ok_or("no dump")?];
    let octets = std::fs::metadata(&path)?.len();
    for options in [DRY, REPLACE] {
        let began = Instant::now();
        let imported = older.import(&files, options).await?;
        let took = began.elapsed();
        println!("{octets} octets, dry run {}: {took:?}", options.dry_run);
        assert_eq!(
            imported
                .difference
                .lines()
                .filter(|line| line.contains("+ mac "))
                .count(),
            MACS as usize
        );
        let most = if options.dry_run { 6 } else { 60 };
        assert!(took.as_secs() < most, "{took:?}");
    }
    Ok(())
}
