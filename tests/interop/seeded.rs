//! A node over the database that `portreeve seed` fills answers as the plan says: from every source, with every method.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portreeve::eap::tls::TlsVersion;
use portreeve::mac::MacAddress;
use portreeve::nas::{Answer, Attempt, Credentials};
use portreeve::policy::facts;
use portreeve::radius::attribute::{Found, encode_attribute, visit};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::packet::Packet;
use portreeve::radius::value;
use portreeve::store::seed::{Case, Plan};

use crate::support::nas::{self, Nas};
use crate::support::node::{self, Node};
use crate::support::{Fallible, ensure};

const SEED: &[&str] = &[
    "seed",
    "--dataset",
    "nacs",
    "--plan",
    "plan.toml",
    "--sites",
    "3",
    "--policies",
    "6",
    "--clients",
    "2",
    "--macs",
    "2",
];

#[test]
fn a_seeded_node_answers_as_its_plan_says() -> Fallible {
    let node = Node::start(node::Plan {
        commands: &[SEED],
        ..node::Plan::default()
    })?;
    let plan: Plan = toml::from_str(&fs::read_to_string(node.folder().join("plan.toml"))?)?;
    ensure(plan.cases.len() == 3, || format!("{plan:?}"))?;
    for case in &plan.cases {
        let [first, last] = ends(&case.sources)?;
        let [first, last] = [first.parse::<Ipv4Addr>()?, last.parse()?];
        ensure(u32::from(last) - u32::from(first) == 1, || case.sources.clone())?;
        let macs = ends(case.macs.as_deref().ok_or("no macs")?)?;
        for (source, mac) in [first, last].into_iter().zip(macs) {
            for method in &case.methods {
                follow(&node, &plan, case, source, mac.parse()?, method)
                    .map_err(|error| format!("{} from {source}, {mac}, {method}: {error}", case.site))?;
            }
        }
    }
    Ok(())
}

/// The budget of memory and of time: 300 MB resident, and read in a minute, for one million listed addresses.
#[test]
fn a_million_addresses_fit() -> Fallible {
    let begun = Instant::now();
    let node = Node::start(node::Plan {
        commands: &[&["seed", "--dataset", "nacs", "--plan", "plan.toml", "--macs", "572"]],
        ..node::Plan::default()
    })?;
    let took = begun.elapsed();
    let plan: Plan = toml::from_str(&fs::read_to_string(node.folder().join("plan.toml"))?)?;
    let case = plan.cases.last().ok_or("no case")?;
    let [source, _] = ends(&case.sources)?;
    let [_, mac] = ends(case.macs.as_deref().ok_or("no macs")?)?;
    follow(&node, &plan, case, source.parse()?, mac.parse()?, "mab")?;
    let resident = node.resident_octets()?;
    println!(
        "1,001,000 addresses: made, read and served after {took:?}, {} MiB resident",
        resident >> 20
    );
    ensure(took < Duration::from_secs(60), || format!("{took:?}"))?;
    ensure(resident <= 300_000_000, || format!("{resident} octets"))
}

fn follow(node: &Node, plan: &Plan, case: &Case, source: Ipv4Addr, mac: MacAddress, method: &str) -> Fallible {
    let dictionary = Dictionary::builtin();
    let mut attributes = Vec::new();
    let mut add = |line: &str| -> Fallible {
        let (id, value) = facts::parse(dictionary, line).map_err(|problem| format!("{line}: {problem:?}"))?;
        Ok(encode_attribute(dictionary, id, None, &value, None, &mut attributes)?)
    };
    case.attributes.iter().try_for_each(|line| add(line))?;
    add(&format!("Calling-Station-Id = {mac}"))?;
    let mut switch = Nas::new(node.address(), &source.to_string())?;
    ensure(plan.secret == crate::support::SECRET, || plan.secret.clone())?;
    let (user, credentials) = match method {
        "mab" => (mac.to_string(), Credentials::Pap(mac.to_string().into_bytes())),
        _ => {
            let settings = nas::peer("laptop-7", TlsVersion::V13, Some("client"), "ca")?;
            let peer = portreeve::eap::peer::Peer::new(Arc::new(settings));
            ("laptop-7".to_owned(), Credentials::Eap(Box::new(peer)))
        }
    };
    let mut attempt = Attempt::new(
        Arc::clone(&switch.secret),
        user.into_bytes(),
        attributes.into(),
        credentials,
    );
    loop {
        let request = switch.request(&mut attempt)?;
        let answer = switch.exchange(&request)?;
        match attempt.reply(&answer)? {
            Answer::Challenge => {}
            Answer::Accept(packet) => {
                return ensure(
                    case.outcome == "accept" && carried(&packet, case) == case.responses,
                    || format!("{:?} instead of {case:?}", carried(&packet, case)),
                );
            }
            Answer::Reject(..) => return Err(format!("rejected: {case:?}").into()),
        }
    }
}

/// The attributes of an accept that the plan names, as it writes them.
fn carried(packet: &Packet<'_>, case: &Case) -> Vec<String> {
    let dictionary = Dictionary::builtin();
    let mut lines = Vec::new();
    visit(dictionary, packet, None, &mut |found| {
        if let Found::Known {
            id, value: Ok(value), ..
        } = found
        {
            let definition = dictionary.definition(id);
            if case
                .responses
                .iter()
                .any(|line| line.starts_with(&format!("{} =", definition.name)))
            {
                lines.push(format!("{} = {}", definition.name, value::display(definition, &value)));
            }
        }
    });
    lines
}

/// The first and the last of a range.
fn ends(range: &str) -> Fallible<[&str; 2]> {
    let (first, last) = range.split_once("..").ok_or_else(|| format!("`{range}` is no range"))?;
    Ok([first, last])
}
