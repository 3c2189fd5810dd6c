//! What an import would change, for people and for the database.

use std::collections::BTreeMap;
use std::fmt;

use crate::mac::MacAddress;
use crate::store::set::{Client, ClientKey, Mac, Policy, PolicySet, Site};
use crate::store::time;

/// One thing before and after; at least one of them is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a, V> {
    pub(super) before: Option<&'a V>,
    pub(super) after: Option<&'a V>,
}

/// Two sets' difference.
#[derive(Debug, Default)]
pub(super) struct Difference<'a> {
    pub(super) policies: BTreeMap<&'a str, Change<'a, Policy>>,
    pub(super) sites: BTreeMap<&'a str, SiteDifference<'a>>,
}

/// Two sites' difference.
#[derive(Debug)]
pub(super) struct SiteDifference<'a> {
    pub(super) site: Change<'a, Site>,
    pub(super) clients: BTreeMap<ClientKey, Change<'a, Client>>,
    pub(super) macs: BTreeMap<MacAddress, Change<'a, Mac>>,
}

impl<'a> Difference<'a> {
    pub(super) fn between(before: &'a PolicySet, after: &'a PolicySet) -> Difference<'a> {
        let policies = compare(&before.policies, &after.policies);
        let sites = compare(&before.sites, &after.sites);
        Difference {
            policies: policies
                .into_iter()
                .map(|(name, change)| (name.as_str(), change))
                .collect(),
            sites: sites
                .into_iter()
                .map(|(tag, site)| (tag.as_str(), SiteDifference::of(site)))
                .collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.sites.is_empty()
    }
}

impl<'a> SiteDifference<'a> {
    fn of(site: Change<'a, Site>) -> SiteDifference<'a> {
        let nothing = (BTreeMap::new(), BTreeMap::new());
        let (clients, macs) = match (site.before, site.after) {
            (Some(before), Some(after)) => (
                owned(compare(&before.clients, &after.clients)),
                owned(compare(&before.macs, &after.macs)),
            ),
            (None, Some(site)) => (added(&site.clients), added(&site.macs)),
            // They go with it.
            (_, None) => nothing,
        };
        SiteDifference { site, clients, macs }
    }
}

fn owned<'a, K: Ord + Copy, V>(changes: BTreeMap<&'a K, Change<'a, V>>) -> BTreeMap<K, Change<'a, V>> {
    changes.into_iter().map(|(key, change)| (*key, change)).collect()
}

fn added<K: Ord + Copy, V>(values: &BTreeMap<K, V>) -> BTreeMap<K, Change<'_, V>> {
    values
        .iter()
        .map(|(key, value)| {
            (
                *key,
                Change {
                    before: None,
                    after: Some(value),
                },
            )
        })
        .collect()
}

fn compare<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
) -> BTreeMap<&'a K, Change<'a, V>> {
    let mut changes: BTreeMap<&K, Change<'a, V>> = BTreeMap::new();
    for (key, value) in before {
        changes.insert(
            key,
            Change {
                before: Some(value),
                after: None,
            },
        );
    }
    for (key, value) in after {
        changes
            .entry(key)
            .or_insert(Change {
                before: None,
                after: None,
            })
            .after = Some(value);
    }
    changes.retain(|_, change| change.before != change.after);
    changes
}

/// `+` added, `-` removed, `~` changed, with what changed below. Secrets are never shown.
impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, change) in &self.policies {
            writeln!(f, "{} policy `{name}`", sign(change))?;
            lines(f, &policy_lines(change.before), &policy_lines(change.after))?;
        }
        for (tag, difference) in &self.sites {
            let gone = match (difference.site.before, difference.site.after) {
                (Some(site), None) => {
                    let (clients, macs) = (site.clients.len(), site.macs.len());
                    let client = if clients == 1 { "client" } else { "clients" };
                    let address = if macs == 1 { "address" } else { "addresses" };
                    format!(", with {clients} {client} and {macs} {address}")
                }
                _ => String::new(),
            };
            writeln!(f, "{} site `{tag}`{gone}", sign(&difference.site))?;
            if gone.is_empty() {
                lines(
                    f,
                    &site_lines(difference.site.before),
                    &site_lines(difference.site.after),
                )?;
            }
            for (key, change) in &difference.clients {
                writeln!(f, "    {} client {key}{}", sign(change), client_columns(change))?;
            }
            for (mac, change) in &difference.macs {
                writeln!(f, "    {} mac {mac}{}", sign(change), mac_columns(change))?;
            }
        }
        Ok(())
    }
}

fn sign<V>(change: &Change<'_, V>) -> char {
    match (change.before, change.after) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    }
}

/// Lines that are in one of the two only; `+` first where both say something of the same.
fn lines(f: &mut fmt::Formatter<'_>, before: &[String], after: &[String]) -> fmt::Result {
    let moved = |line: &&String| before.contains(line) && after.contains(line);
    for line in before.iter().filter(|line| !after.contains(line)) {
        writeln!(f, "    - {line}")?;
    }
    for line in after.iter().filter(|line| !before.contains(line)) {
        writeln!(f, "    + {line}")?;
    }
    let order = |lines: &[String]| lines.iter().filter(moved).cloned().collect::<Vec<_>>();
    match order(before) == order(after) {
        true => Ok(()),
        false => writeln!(f, "    ~ the order of its lines"),
    }
}

fn policy_lines(policy: Option<&Policy>) -> Vec<String> {
    let Some(policy) = policy else { return Vec::new() };
    let mut lines = vec![format!("action {}", policy.action)];
    if !policy.description.is_empty() {
        lines.push(format!("description {:?}", policy.description));
    }
    if !policy.methods.is_empty() {
        lines.push(format!("methods {}", policy.methods.join(", ")));
    }
    if policy.fallback {
        lines.push("fallback".to_owned());
    }
    lines.extend(policy.rules.iter().map(|rule| format!("rule {rule}")));
    lines.extend(policy.responses.iter().map(|response| format!("response {response}")));
    lines
}

fn site_lines(site: Option<&Site>) -> Vec<String> {
    let Some(site) = site else { return Vec::new() };
    let mut lines = vec![format!("name {:?}", site.name)];
    lines.extend(site.timezone.iter().map(|zone| format!("timezone {zone}")));
    lines.extend(
        site.policies
            .iter()
            .map(|(priority, policy)| format!("{priority} policy `{policy}`")),
    );
    lines.extend(site.fallback.iter().map(|policy| format!("fallback `{policy}`")));
    lines
}

fn client_columns(change: &Change<'_, Client>) -> String {
    let (Some(before), Some(after)) = (change.before, change.after) else {
        return String::new();
    };
    columns(&[
        ("secret", before.secret != after.secret),
        (
            "require_message_authenticator",
            before.require_message_authenticator != after.require_message_authenticator,
        ),
        ("limit_proxy_state", before.limit_proxy_state != after.limit_proxy_state),
        ("min_tls", before.min_tls != after.min_tls),
        ("max_tls", before.max_tls != after.max_tls),
        ("fragment_size", before.fragment_size != after.fragment_size),
        ("mab_password", before.mab_password != after.mab_password),
        ("mab_identity", before.mab_identity != after.mab_identity),
    ])
}

fn mac_columns(change: &Change<'_, Mac>) -> String {
    let until = |mac: &Mac| mac.valid_until.map(time::display);
    match (change.before, change.after) {
        (Some(before), Some(after)) => columns(&[
            ("name", before.name != after.name),
            ("description", before.description != after.description),
            ("valid_until", until(before) != until(after)),
            ("responses", before.responses != after.responses),
        ]),
        (None, Some(mac)) if !mac.name.is_empty() => format!(" ({})", mac.name),
        _ => String::new(),
    }
}

fn columns(columns: &[(&str, bool)]) -> String {
    let changed: Vec<&str> = columns
        .iter()
        .filter(|(_, changed)| *changed)
        .map(|(name, _)| *name)
        .collect();
    format!(": {}", changed.join(", "))
}
