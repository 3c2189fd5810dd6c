//! Which statements a node sends to its servers, by the servers' own count: few at its start, and none for an
//! authentication. With the data set `nacs`.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use portreeve::nas::{Answer, Attempt, Credentials};
use portreeve::policy::facts;
use portreeve::radius::attribute::encode_attribute;
use portreeve::radius::crypto::Secret;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::seed::{Case, Plan};
use tempfile::TempDir;

use crate::bench::Bench;
use crate::load::Load;
use crate::node::{Node, done};
use crate::postgres::{Database, PATIENCE, Server};

/// The tables that decide. A statement that names none of them looks at the revision, or asks a server how it is.
const TABLES: [&str; 7] = [
    "FROM sites",
    "FROM clients",
    "FROM policies",
    "FROM site_policies",
    "FROM rules",
    "FROM responses",
    "FROM mac_authentication_bypasses",
];

/// How often each statement of the node's role was run, over all servers.
type Counts = BTreeMap<String, u64>;

fn counts(servers: &[Server], database: &Database<'_>) -> Counts {
    let mut counts = Counts::new();
    for server in servers {
        let name = database.name();
        let rows = server.sql(&format!(
            "SELECT calls, regexp_replace(query, '\\s+', ' ', 'g') FROM pg_stat_statements s \
             JOIN pg_roles r ON r.oid = s.userid WHERE r.rolname = '{name}'"
        ));
        for (calls, query) in rows.lines().filter_map(|row| row.split_once('|')) {
            *counts.entry(query.to_owned()).or_default() += calls.parse::<u64>().unwrap();
        }
    }
    counts
}

/// The statements that ran between, and how often.
fn between(before: &Counts, after: &Counts) -> Counts {
    let moved = |(query, calls): (&String, &u64)| {
        let more = calls - before.get(query).unwrap_or(&0);
        (more > 0).then(|| (query.clone(), more))
    };
    after.iter().filter_map(moved).collect()
}

fn reads_policies(query: &str) -> bool {
    TABLES.iter().any(|table| query.contains(table))
}

#[test]
fn authentications_make_no_query() {
    let bench = Bench::shared();
    let cluster = bench.cluster();
    let database = cluster.database();
    cluster
        .primary()
        .sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
    let folder = TempDir::new().unwrap();
    let section = format!(
        "[database]\nurl = \"{}\"\nreplicas = {:?}",
        database.url(),
        database.replica_urls()
    );
    fs::write(folder.path().join("portreeve.toml"), &section).unwrap();
    done(folder.path(), &["migrate"], &[]);
    done(folder.path(), &["seed", "--dataset", "nacs"], &[]);
    cluster.settle();
    let plan = fs::read_to_string(folder.path().join("nacs-plan.toml")).unwrap();
    let plan: Plan = toml::from_str(&plan).unwrap();
    assert_eq!(plan.cases.len(), 1_750);

    let before = counts(cluster.servers(), &database);
    let node = Node::start("node-q", &bench.certificates(), &section, &[]);
    let started = between(&before, &counts(cluster.servers(), &database));
    let reading: Vec<_> = started.iter().filter(|(query, _)| reads_policies(query)).collect();
    assert!(
        reading.len() <= 8 && reading.iter().all(|(_, calls)| **calls == 1),
        "a start reads each table once: {reading:#?}"
    );

    // As long without authentications as with them.
    let idle = during(&node, cluster.servers(), &database, || sleep(Duration::from_secs(3)));
    let mut answered = 0;
    let busy = during(&node, cluster.servers(), &database, || {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            for case in plan.cases.iter().step_by(7) {
                authenticate(node.radius, &plan, case);
                answered += 1;
            }
        }
    });
    // EAP-TLS from a client that nobody lists is not answered; the other nodes have theirs, on the same servers.
    let eap = during(&bench.nodes[0], cluster.servers(), bench.database(), || {
        let addresses: Vec<_> = bench.nodes.iter().map(|node| node.radius).collect();
        let load = Load::start(&addresses, &bench.certificates());
        sleep(Duration::from_secs(2));
        answered += load.stop().0.iter().filter(|seen| seen.end.is_ok()).count();
    });
    assert!(answered > 600, "{answered}");
    for (name, ran) in [("idle", &idle), ("busy", &busy), ("eap", &eap)] {
        let reading: Vec<_> = ran.keys().filter(|query| reads_policies(query)).collect();
        assert!(reading.is_empty(), "{name}: {reading:#?}");
    }
    let sum = |ran: &Counts| ran.values().sum::<u64>();
    println!(
        "a start with nacs: {} statements, {} of them of policy tables; 3 s idle: {}; 3 s with {answered} authentications: {}",
        sum(&started),
        reading.len(),
        sum(&idle),
        sum(&busy)
    );
    assert!(sum(&busy) <= sum(&idle) * 3 / 2, "{idle:#?} {busy:#?}");

    // The budget of memory, with this data set and after as many authentications.
    let cases = plan.cases.iter().cycle().take(100_000_usize.saturating_sub(answered));
    cases.for_each(|case| authenticate(node.radius, &plan, case));
    let resident = node.resident_octets();
    println!("after 100,000 authentications: {} MiB resident", resident >> 20);
    assert!(resident <= 64 << 20, "{resident} octets");
}

fn during(node: &Node, servers: &[Server], database: &Database<'_>, work: impl FnOnce()) -> Counts {
    node.ready();
    let before = counts(servers, database);
    work();
    between(&before, &counts(servers, database))
}

/// One MAB as the plan says, from the site's first client.
fn authenticate(node: SocketAddr, plan: &Plan, case: &Case) {
    let dictionary = Dictionary::builtin();
    let first = |range: &str| range.split("..").next().unwrap().to_owned();
    let mac = first(case.macs.as_deref().unwrap());
    let mut attributes = Vec::new();
    let calling = format!("Calling-Station-Id = {mac}");
    for line in case.attributes.iter().chain([&calling]) {
        let (id, value) = facts::parse(dictionary, line).unwrap();
        encode_attribute(dictionary, id, None, &value, None, &mut attributes).unwrap();
    }
    let secret = Arc::new(Secret::new(plan.secret.as_bytes()));
    let credentials = Credentials::Pap(mac.clone().into_bytes());
    let mut attempt = Attempt::new(secret, mac.into_bytes(), attributes.into(), credentials);
    let socket = UdpSocket::bind((first(&case.sources), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut request, mut reply) = (Vec::new(), [0; 4096]);
    let mut authenticator = [0; 16];
    aws_lc_rs::rand::fill(&mut authenticator).unwrap();
    attempt.request(1, authenticator, &mut request).unwrap();
    socket.send_to(&request, node).unwrap();
    let length = socket.recv(&mut reply).unwrap();
    assert!(matches!(attempt.reply(&reply[..length]).unwrap(), Answer::Accept(_)));
}
