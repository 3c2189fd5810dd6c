//! Devices that a site lets in by their MAC address, and that authenticated by certificate lately: whose certificate is
//! revoked comes back by MAC authentication, with no proof at all. Only the running node knows who came.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::Context;
use serde::Deserialize;

use super::{Report, now};
use crate::cli::asking;
use crate::config::Config;
use crate::mac::MacAddress;
use crate::store::edit::macs;
use crate::store::{Store, time};
use crate::trust::check::Severity;

/// Devices that are shown; more are counted.
const SHOWN_MAX: usize = 50;

#[derive(Deserialize)]
struct Answer {
    node: String,
    since: i64,
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    site: String,
    mac: String,
    certificate: String,
    last: i64,
}

/// Asks `nodes`, or the one of the configuration where there are none.
pub(super) async fn devices(store: &Store, config: &Config, nodes: &[SocketAddr], report: &mut Report) {
    let nodes = match nodes {
        [] => asking::address(config).map(|own| vec![own]),
        given => Ok(given.to_vec()),
    };
    let nodes = nodes.unwrap_or_else(|error| {
        unknown(&error, report);
        Vec::new()
    });
    let mut seen: BTreeMap<MacAddress, Device> = BTreeMap::new();
    let mut asked: Vec<String> = Vec::new();
    for node in nodes {
        match ask(node) {
            Ok(answer) => {
                asked.push(format!("`{}` (since {})", answer.node, time::display(answer.since)));
                for device in answer.devices {
                    let Some(mac) = MacAddress::parse(device.mac.as_bytes()) else {
                        continue;
                    };
                    if seen.get(&mac).is_none_or(|known| known.last < device.last) {
                        seen.insert(mac, device);
                    }
                }
            }
            Err(error) => unknown(&error, report),
        }
    }
    if asked.is_empty() {
        return;
    }
    let wanted: BTreeSet<MacAddress> = seen.keys().copied().collect();
    let listed = match wanted.is_empty() {
        true => Ok(Vec::new()),
        false => macs::among(store, &wanted).await,
    };
    let mut listed = match listed {
        Ok(listed) => listed,
        Err(error) => return report.failed(&error),
    };
    listed.retain(|entry| entry.mac.valid_until.is_none_or(|last| now() <= last));
    if listed.is_empty() {
        return report.fine(format!(
            "devices by certificate at {}: {}, none listed by its address",
            asked.join(", "),
            seen.len()
        ));
    }
    let more = listed.len().saturating_sub(SHOWN_MAX);
    for entry in listed.iter().take(SHOWN_MAX) {
        let (site, mac) = (&entry.site, entry.address);
        let Some(device) = seen.get(&mac) else { continue };
        report.add(
            Severity::Warning,
            format!(
                "site `{site}` lists {mac}, which authenticated by certificate (`{}`, at `{}`, last at {}): it comes in by its \
                 address also when that is revoked",
                device.certificate,
                device.site,
                time::display(device.last)
            ),
            &format!("`portreeve mac remove {site} {mac}`, unless it has to come in without its certificate"),
        );
    }
    if more > 0 {
        report.add(
            Severity::Warning,
            format!("{more} more listed addresses have authenticated by certificate"),
            "the nodes' `/certificate-devices` names them all: `curl http://127.0.0.1:8812/certificate-devices`",
        );
    }
}

fn ask(node: SocketAddr) -> anyhow::Result<Answer> {
    let body = asking::ask(node, "/certificate-devices")?;
    serde_json::from_str(&body).with_context(|| format!("what `{node}` answers cannot be understood"))
}

fn unknown(error: &anyhow::Error, report: &mut Report) {
    let text = error.to_string();
    let why = text.lines().next().unwrap_or_default();
    report.add(
        Severity::Note,
        format!("whether listed addresses have authenticated by certificate is not known: {why}"),
        "a running node remembers who came by certificate: run `check` beside one, or name them with `--node`",
    );
}
