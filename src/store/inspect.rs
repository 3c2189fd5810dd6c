//! Everything that is wrong with the rows, or probably not meant: what `portreeve check` says of the policy data. Unlike a
//! node it also looks at what no site uses.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::load::ClientSettings;
use super::rows::Scope;
use super::set::{self, Current};
use super::source::RowError;
use super::{Revision, Store, StoreError, changes, time};
use crate::policy::compile::{self, CompiledPolicy, CompiledSite};
use crate::policy::lint;
use crate::radius::dictionary::Dictionary;

/// The state of the policy data.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Of which revision.
    pub revision: Revision,
    /// The tags of the sites.
    pub sites: Vec<String>,
    /// How many policies.
    pub policies: usize,
    /// The networks of the clients.
    pub clients: Vec<IpNet>,
    /// How many listed addresses, once for each site.
    pub macs: usize,
    /// Rows that do not compile, cannot be read, or belong to nothing.
    pub errors: Vec<RowError>,
    /// What is probably not meant.
    pub findings: Vec<lint::Finding>,
}

/// Reads and compiles everything.
pub async fn inspect(store: &Store, dictionary: &Dictionary) -> Result<Inspection, StoreError> {
    let mut transaction = store.read().await?;
    let revision = changes::revision(&mut transaction).await?;
    let mut current = set::read(&mut transaction, Scope::All).await?;
    drop(transaction);
    let mut inspection = Inspection {
        revision,
        sites: current.set.sites.keys().cloned().collect(),
        policies: current.set.policies.len(),
        clients: current.client_ids.keys().map(|key| key.network).collect(),
        macs: current.mac_ids.len(),
        errors: std::mem::take(&mut current.strays),
        findings: Vec::new(),
    };
    let compiled = policies(&current, dictionary, &mut inspection);
    sites(&current, dictionary, &compiled, &mut inspection);
    Ok(inspection)
}

fn policies<'c>(
    current: &'c Current,
    dictionary: &Dictionary,
    inspection: &mut Inspection,
) -> HashMap<&'c str, Arc<CompiledPolicy>> {
    let mut compiled = HashMap::new();
    for (name, policy) in &current.set.policies {
        match policy.compile(dictionary, name) {
            Ok(policy) => {
                inspection.findings.extend(lint::policy(dictionary, &policy));
                compiled.insert(name.as_str(), Arc::new(policy));
            }
            Err(errors) => {
                let id = current.policy_ids.get(name).copied().unwrap_or_default();
                inspection.errors.extend(errors.into_iter().map(|what| RowError {
                    table: "policies",
                    id,
                    what,
                }));
            }
        }
    }
    compiled
}

fn sites(
    current: &Current,
    dictionary: &Dictionary,
    compiled: &HashMap<&str, Arc<CompiledPolicy>>,
    inspection: &mut Inspection,
) {
    for (tag, site) in &current.set.sites {
        let site_id = current.site_ids.get(tag).copied().unwrap_or_default();
        if let Some(Err(no_zone)) = site.timezone.as_deref().map(time::zone) {
            inspection.errors.push(RowError {
                table: "sites",
                id: site_id,
                what: format!("`{tag}`: {no_zone}"),
            });
        }
        for (key, client) in &site.clients {
            let id = current.client_ids.get(key).copied().unwrap_or_default();
            if let Err(what) = ClientSettings::read(&client.row(id, site_id, *key)) {
                inspection.errors.push(RowError {
                    table: "clients",
                    id,
                    what: format!("`{key}`: {what}"),
                });
            }
        }
        for (address, mac) in site.macs.iter().filter(|(_, mac)| !mac.responses.is_empty()) {
            match compile::endpoint_responses(dictionary, &address.to_string(), &mac.responses) {
                Ok(responses) => {
                    inspection
                        .findings
                        .extend(lint::endpoint(dictionary, &address.to_string(), &responses));
                }
                Err(errors) => {
                    let id = current.mac_ids.get(&(site_id, *address)).copied().unwrap_or_default();
                    let table = "mac_authentication_bypasses";
                    inspection.errors.extend(errors.iter().map(|what| RowError {
                        table,
                        id,
                        what: what.to_string(),
                    }));
                }
            }
        }
        let names = site.policies.values().chain(&site.fallback);
        if names.clone().all(|name| compiled.contains_key(name.as_str())) {
            let policies = site
                .policies
                .values()
                .filter_map(|name| compiled.get(name.as_str()).map(Arc::clone));
            let fallback = site
                .fallback
                .as_deref()
                .and_then(|name| compiled.get(name).map(Arc::clone));
            inspection
                .findings
                .extend(lint::site(&CompiledSite::new(tag, policies, fallback)));
        }
    }
}
