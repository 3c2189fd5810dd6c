//! The database is edited while the node serves: within a second the edit is in force, in both directions, without a
//! restart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portreeve::nas::{Answer, Attempt, Credentials};
use portreeve::radius::crypto::Secret;
use portreeve::radius::packet::Packet;

use crate::support::nas::{Nas, attributes};
use crate::support::node::{Node, PATIENCE, Plan};
use crate::support::sql::Sql;
use crate::support::{Fallible, SECRET, ensure};

const FILTER_ID: u8 = 11;
/// Within this an edit is in force.
const IN_FORCE: Duration = Duration::from_secs(1);
const DOCUMENT: &str = r#"
[[policy]]
name = "ethernet"
methods = ["mab", "mab-unknown"]
rules = ["NAS-Port-Type == Ethernet", "NAS-Port == 1"]
responses = ["Filter-Id = ethernet"]

[[policy]]
name = "any port"
methods = ["mab", "mab-unknown"]
rules = ["NAS-Port-Type == Ethernet", "NAS-Port at-least 1"]
responses = ["Filter-Id = any"]

[[policy]]
name = "fallback"
fallback = true
action = "reject"
methods = ["mab", "mab-unknown"]

[[site]]
name = "Leeds"
tag = "leeds"
fallback = "fallback"
policies = [{ policy = "ethernet", priority = 10 }, { policy = "any port", priority = 20 }]

[[site.client]]
network = "127.0.0.0/16"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-01"

[[site]]
name = "York"
tag = "york"

[[site.client]]
network = "192.0.2.1"
secret = "testing123"

[[site.mac]]
address = "02-00-00-00-00-01"
responses = ["Filter-Id = york"]
"#;

/// What a request is expected to get: `None` no answer, else accept or reject and Filter-Id.
type Expected = Option<(bool, Option<&'static str>)>;

const NOTHING: Expected = None;
const REJECTED: Expected = Some((false, None));
const fn accepted(filter: &'static str) -> Expected {
    Some((true, Some(filter)))
}

/// One edit and the edit that takes it back, and what a request gets after the one and the other.
struct Change {
    what: &'static str,
    there: &'static str,
    back: &'static str,
    source: &'static str,
    secret: &'static str,
    mac: &'static str,
    port: u32,
    after: Expected,
    before: Expected,
}

const LISTED: Change = Change {
    what: "",
    there: "",
    back: "",
    source: "127.0.0.1",
    secret: SECRET,
    mac: "02-00-00-00-00-01",
    port: 1,
    after: REJECTED,
    before: accepted("ethernet"),
};

fn changes() -> Vec<Change> {
    vec![
        Change {
            what: "a client comes and goes",
            there: "INSERT INTO clients (site_id, ip_range, shared_secret)
                SELECT id, '127.1.0.0/16', 'testing123' FROM sites WHERE tag = 'leeds'",
            back: "DELETE FROM clients WHERE ip_range = '127.1.0.0/16'",
            source: "127.1.0.1",
            after: accepted("ethernet"),
            before: NOTHING,
            ..LISTED
        },
        Change {
            what: "the old secret is refused",
            there: "UPDATE clients SET shared_secret = 'another' WHERE ip_range = '127.0.0.0/16'",
            back: "UPDATE clients SET shared_secret = 'testing123' WHERE ip_range = '127.0.0.0/16'",
            after: NOTHING,
            ..LISTED
        },
        Change {
            what: "the new secret is accepted",
            there: "UPDATE clients SET shared_secret = 'another' WHERE ip_range = '127.0.0.0/16'",
            back: "UPDATE clients SET shared_secret = 'testing123' WHERE ip_range = '127.0.0.0/16'",
            secret: "another",
            after: accepted("ethernet"),
            before: NOTHING,
            ..LISTED
        },
        Change {
            what: "a mac is listed, and no longer",
            there: "INSERT INTO mac_authentication_bypasses (site_id, address)
                SELECT id, '0200.0000.0055' FROM sites WHERE tag = 'leeds'",
            back: "DELETE FROM mac_authentication_bypasses WHERE address = '0200.0000.0055'",
            mac: "02-00-00-00-00-55",
            port: 0,
            after: Some((true, None)),
            before: REJECTED,
            ..LISTED
        },
        Change {
            what: "a mac expires",
            there: "UPDATE mac_authentication_bypasses SET valid_until = '2001-01-01'",
            back: "UPDATE mac_authentication_bypasses SET valid_until = NULL",
            ..LISTED
        },
        Change {
            what: "a rule changes",
            there: "UPDATE rules SET value = '7' WHERE request_attribute = 'NAS-Port' AND operator = 'equals'",
            back: "UPDATE rules SET value = '1' WHERE request_attribute = 'NAS-Port' AND operator = 'equals'",
            after: accepted("any"),
            ..LISTED
        },
        Change {
            what: "a rule is added that nobody meets",
            there: "INSERT INTO rules (policy_id, request_attribute, operator)
                SELECT id, 'NAS-Identifier', 'present' FROM policies WHERE NOT fallback",
            back: "DELETE FROM rules WHERE request_attribute = 'NAS-Identifier'",
            mac: "02-00-00-00-00-77",
            ..LISTED
        },
        Change {
            what: "a response changes",
            there: "UPDATE responses SET value = 'cable' WHERE value = 'ethernet'",
            back: "UPDATE responses SET value = 'ethernet' WHERE value = 'cable'",
            after: accepted("cable"),
            ..LISTED
        },
        Change {
            what: "an address gets a response of its own",
            there: "INSERT INTO responses (mac_authentication_bypass_id, response_attribute, value)
                SELECT m.id, 'Filter-Id', 'own' FROM mac_authentication_bypasses m JOIN sites s ON s.id = m.site_id
                WHERE s.tag = 'leeds'",
            back: "DELETE FROM responses WHERE value = 'own'",
            after: accepted("own"),
            ..LISTED
        },
        Change {
            what: "the order of priorities changes",
            there: "UPDATE site_policies SET priority = 5 WHERE priority = 20",
            back: "UPDATE site_policies SET priority = 20 WHERE priority = 5",
            after: accepted("any"),
            ..LISTED
        },
        Change {
            what: "a policy rejects",
            there: "UPDATE policies SET action = 'reject' WHERE name = 'ethernet'",
            back: "UPDATE policies SET action = 'accept' WHERE name = 'ethernet'",
            ..LISTED
        },
        Change {
            what: "a policy takes another method",
            there: "UPDATE policies SET methods = 'eap-tls' WHERE NOT fallback",
            back: "UPDATE policies SET methods = 'mab,mab-unknown' WHERE NOT fallback",
            mac: "02-00-00-00-00-77",
            ..LISTED
        },
        Change {
            what: "the fallback accepts",
            there: "UPDATE policies SET action = 'accept' WHERE name = 'fallback'",
            back: "UPDATE policies SET action = 'reject' WHERE name = 'fallback'",
            mac: "02-00-00-00-00-77",
            port: 0,
            after: Some((true, None)),
            before: REJECTED,
            ..LISTED
        },
        Change {
            what: "a client moves to another site",
            there: "UPDATE clients SET site_id = (SELECT id FROM sites WHERE tag = 'york')
                WHERE ip_range = '127.0.0.0/16'",
            back: "UPDATE clients SET site_id = (SELECT id FROM sites WHERE tag = 'leeds')
                WHERE ip_range = '127.0.0.0/16'",
            after: accepted("york"),
            ..LISTED
        },
        Change {
            what: "a site comes and goes",
            there: "INSERT INTO sites (name, tag) VALUES ('Hull', 'hull');
                INSERT INTO clients (site_id, ip_range, shared_secret)
                    SELECT id, '127.2.0.0/16', 'testing123' FROM sites WHERE tag = 'hull';
                INSERT INTO site_policies
                    SELECT s.id, p.id, 1 FROM sites s, policies p WHERE s.tag = 'hull' AND p.name = 'any port'",
            back: "DELETE FROM sites WHERE tag = 'hull'",
            source: "127.2.0.1",
            after: accepted("any"),
            before: NOTHING,
            ..LISTED
        },
    ]
}

/// Why a packet of a change gets no answer.
const UNANSWERED: [&str; 2] = ["unknown-client", "bad-message-authenticator"];

/// What a request of the change gets now. That it gets nothing is not guessed from silence: the node counts it.
fn ask(node: &Node, nas: &mut Nas, change: &Change) -> Fallible<Option<(bool, Option<String>)>> {
    let unanswered = || -> Fallible<u64> { UNANSWERED.iter().map(|reason| node.dropped(reason)).sum() };
    let before = unanswered()?;
    let attributes = attributes(&[
        (31, change.mac.as_bytes()),
        (61, &15_u32.to_be_bytes()), // NAS-Port-Type Ethernet
        (5, &change.port.to_be_bytes()),
    ]);
    let (secret, user) = (Arc::clone(&nas.secret), change.mac.as_bytes().to_vec());
    let mut attempt = Attempt::new(secret, user, attributes.into(), Credentials::None);
    let request = nas.request(&mut attempt)?;
    nas.send(&request)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let Some(octets) = nas.receive(Duration::from_millis(5))? else {
            if unanswered()? > before {
                return Ok(None);
            }
            continue;
        };
        let filter = |packet: Packet<'_>| {
            let filter = packet.first(FILTER_ID);
            filter.map(|octets| String::from_utf8_lossy(octets).into_owned())
        };
        return match attempt.reply(&octets)? {
            Answer::Accept(packet) => Ok(Some((true, filter(packet)))),
            Answer::Reject(packet, _) => Ok(Some((false, filter(packet)))),
            Answer::Challenge => Err("a challenge to a mac authentication".into()),
        };
    }
    Err("neither an answer nor a reason for none".into())
}

/// How long it takes from now until requests get what is expected.
fn until(node: &Node, change: &Change, expected: Expected) -> Fallible<Duration> {
    let mut nas = Nas::new(node.address(), change.source)?;
    nas.secret = Arc::new(Secret::new(change.secret.as_bytes()));
    let start = Instant::now();
    loop {
        let asked = start.elapsed();
        let answer = ask(node, &mut nas, change)?;
        if answer.as_ref().map(|(accepts, filter)| (*accepts, filter.as_deref())) == expected {
            return Ok(asked);
        }
        ensure(start.elapsed() < PATIENCE, || {
            format!("{}: {answer:?} and not {expected:?}", change.what)
        })?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes an edit and measures when it is in force. A machine that is busy with other things may stall once; an edit that
/// takes long again and again is late.
fn in_time(node: &Node, change: &Change, mut edit: impl FnMut(bool) -> Fallible) -> Fallible {
    let mut late = Vec::new();
    for _ in 0..3 {
        let mut worst = Duration::ZERO;
        for (there, expected) in [(true, change.after), (false, change.before)] {
            edit(there)?;
            worst = worst.max(until(node, change, expected)?);
        }
        if worst < IN_FORCE {
            return Ok(());
        }
        late.push(worst);
    }
    Err(format!("{}: in force after {late:?}", change.what).into())
}

#[test]
fn edits_by_plain_sql_are_in_force_within_a_second() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let mut sql = Sql::open(&node)?;
    for change in changes() {
        until(&node, &change, change.before)?;
        in_time(&node, &change, |there| {
            let edit = if there { change.there } else { change.back };
            sql.run(&format!("BEGIN; {edit}; COMMIT"))
        })?;
    }
    Ok(())
}

/// Commands, one after another.
type Commands<'a> = &'a [&'a [&'a str]];

#[test]
fn edits_by_command_are_in_force_within_a_second() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let edits: [(Change, Commands<'_>, Commands<'_>); 4] = [
        (
            Change {
                what: "mac add, mac remove",
                mac: "02-00-00-00-00-55",
                port: 0,
                after: accepted("own"),
                before: REJECTED,
                ..LISTED
            },
            &[&["mac", "add", "leeds", "0200.0000.0055", "--response", "Filter-Id = own"]],
            &[&["mac", "remove", "leeds", "02:00:00:00:00:55"]],
        ),
        (
            Change {
                what: "client add, client remove",
                source: "127.1.0.1",
                after: accepted("ethernet"),
                before: NOTHING,
                ..LISTED
            },
            &[&["client", "add", "leeds", "127.1.0.0/16", SECRET]],
            &[&["client", "remove", "127.1.0.0/16"]],
        ),
        (
            Change {
                what: "policy move",
                after: accepted("any"),
                ..LISTED
            },
            &[&["policy", "move", "leeds", "any port", "5"]],
            &[&["policy", "move", "leeds", "any port", "20"]],
        ),
        (
            Change {
                what: "site add, site remove",
                source: "127.2.0.1",
                after: accepted("any"),
                before: NOTHING,
                ..LISTED
            },
            &[
                &["site", "add", "Hull"],
                &["policy", "move", "hull", "any port", "1"],
                &["client", "add", "hull", "127.2.0.0/16", SECRET],
            ],
            &[&["site", "remove", "hull", "--yes"]],
        ),
    ];
    for (change, there, back) in &edits {
        until(&node, change, change.before)?;
        in_time(&node, change, |forward| {
            let commands = if forward { there } else { back };
            commands
                .iter()
                .try_for_each(|arguments| node.command(arguments).map(drop))
        })?;
    }
    Ok(())
}

#[test]
fn imports_are_in_force_within_a_second() -> Fallible {
    let node = Node::start(Plan {
        document: DOCUMENT,
        ..Plan::default()
    })?;
    let methods = "methods = [\"mab\", \"mab-unknown\"]\nrules";
    for (what, document, after) in [
        (
            "a response",
            DOCUMENT.replace("Filter-Id = ethernet", "Filter-Id = cable"),
            accepted("cable"),
        ),
        (
            "a secret",
            DOCUMENT.replace("secret = \"testing123\"", "secret = \"another\""),
            NOTHING,
        ),
        (
            "an action",
            DOCUMENT.replace(methods, &format!("action = \"reject\"\n{methods}")),
            REJECTED,
        ),
    ] {
        ensure(document != DOCUMENT, || format!("{what}: nothing is edited"))?;
        let change = Change { what, after, ..LISTED };
        in_time(&node, &change, |there| {
            let text = if there { document.as_str() } else { DOCUMENT };
            std::fs::write(node.folder().join("set.toml"), text)?;
            node.command(&["import", "set.toml"]).map(drop)
        })?;
    }
    Ok(())
}
