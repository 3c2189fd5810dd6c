//! The policy set as data: what a document says, and what the database holds, in one form that can be compared.
//!
//! Policies are known by name, sites by tag, clients by network and kind, listed addresses by their MAC. Rules, responses
//! and words stay text, so that a set that does not compile can be exported all the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use zeroize::Zeroizing;

use super::db::Transaction;
use super::rows::{self, Scope};
use super::source::{self, RowError};
use super::time;
use crate::clients::parse_network;
use crate::mac::MacAddress;
use crate::policy::compile::{self, CompiledPolicy};
use crate::policy::model::{ResponseRow, Rule};
use crate::radius::dictionary::Dictionary;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySet {
    /// By name.
    pub policies: BTreeMap<String, Policy>,
    /// By tag.
    pub sites: BTreeMap<String, Site>,
}

/// A policy, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For people.
    pub description: String,
    /// `accept` or `reject`.
    pub action: String,
    /// Words; none: `eap-tls`.
    pub methods: Vec<String>,
    /// Decides where no other policy of a site matches.
    pub fallback: bool,
    /// All must match.
    pub rules: Vec<Rule>,
    /// In the order of the reply.
    pub responses: Vec<ResponseRow>,
}

/// A site, without its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// For people.
    pub name: String,
    /// IANA name; none: the configuration's.
    pub timezone: Option<String>,
    /// The fallback policy's name.
    pub fallback: Option<String>,
    /// Policies' names by priority.
    pub policies: BTreeMap<i64, String>,
    /// RADIUS clients.
    pub clients: BTreeMap<ClientKey, Client>,
    /// Listed addresses.
    pub macs: BTreeMap<MacAddress, Mac>,
}

/// What no two clients have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey {
    /// Canonical.
    pub network: IpNet,
    /// Over TLS rather than UDP.
    pub radsec: bool,
}

/// A client, without its network.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    /// As configured on the switch.
    pub secret: Zeroizing<String>,
    /// Requests without Message-Authenticator are dropped.
    pub require_message_authenticator: bool,
    /// Requests with Proxy-State and without Message-Authenticator are dropped.
    pub limit_proxy_state: bool,
    /// `1.2` or `1.3`; none: the configuration's.
    pub min_tls: Option<String>,
    /// `1.2` or `1.3`; none: the configuration's.
    pub max_tls: Option<String>,
    /// Octets of an EAP packet; none: the configuration's.
    pub fragment_size: Option<i64>,
    /// `mac`, `any`, or the password.
    pub mab_password: Zeroizing<String>,
    /// `calling-station-id` or `user-name`.
    pub mab_identity: String,
}

/// A listed address, without the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mac {
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// The last second of validity, seconds since 1970.
    pub valid_until: Option<i64>,
    /// In the order of the reply.
    pub responses: Vec<ResponseRow>,
}

impl Policy {
    /// Compiles it; else everything that is wrong, each with a hint.
    pub fn compile(&self, dictionary: &Dictionary, name: &str) -> Result<CompiledPolicy, Vec<String>> {
        let row = rows::Policy {
            id: 0,
            name: name.to_owned(),
            description: self.description.clone(),
            fallback: self.fallback,
            action: self.action.clone(),
            methods: self.methods.join(","),
        };
        let (policy, errors) = source::policy(row, self.rules.clone(), self.responses.clone());
        match errors.is_empty() {
            false => Err(errors),
            true => {
                compile::policy(dictionary, &policy).map_err(|errors| errors.iter().map(ToString::to_string).collect())
            }
        }
    }
}

impl Client {
    /// A client with this secret and the columns' defaults.
    pub fn new(secret: &str) -> Client {
        Client {
            secret: secret.to_owned().into(),
            require_message_authenticator: true,
            limit_proxy_state: true,
            min_tls: None,
            max_tls: None,
            fragment_size: None,
            mab_password: "mac".to_owned().into(),
            mab_identity: "calling-station-id".to_owned(),
        }
    }

    /// The row that this would be.
    pub(super) fn row(&self, id: i64, site_id: i64, key: ClientKey) -> rows::Client {
        rows::Client {
            id,
            site_id,
            ip_range: key.network.to_string(),
            shared_secret: self.secret.clone(),
            radsec: key.radsec,
            require_message_authenticator: self.require_message_authenticator,
            limit_proxy_state: self.limit_proxy_state,
            min_tls: self.min_tls.clone(),
            max_tls: self.max_tls.clone(),
            fragment_size: self.fragment_size,
            mab_password: self.mab_password.clone(),
            mab_identity: self.mab_identity.clone(),
        }
    }

    pub(super) fn of(row: rows::Client) -> Client {
        Client {
            secret: row.shared_secret,
            require_message_authenticator: row.require_message_authenticator,
            limit_proxy_state: row.limit_proxy_state,
            min_tls: row.min_tls,
            max_tls: row.max_tls,
            fragment_size: row.fragment_size,
            mab_password: row.mab_password,
            mab_identity: row.mab_identity,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl std::fmt::Display for ClientKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.network, if self.radsec { " (radsec)" } else { "" })
    }
}

/// The database's set, with the keys of its rows.
#[derive(Debug, Default)]
pub(super) struct Current {
    pub(super) set: PolicySet,
    pub(super) policy_ids: HashMap<String, i64>,
    pub(super) site_ids: HashMap<String, i64>,
    pub(super) client_ids: HashMap<ClientKey, i64>,
    pub(super) mac_ids: HashMap<(i64, MacAddress), i64>,
    /// Rows that are no part of the set: they belong to nothing, or cannot be read.
    pub(super) strays: Vec<RowError>,
}

/// Reads the set as the database has it; of one site: the site, and the policies that it uses.
pub(super) async fn read(transaction: &mut Transaction, scope: Scope) -> sqlx::Result<Current> {
    let mut current = Current::default();
    let tags = read_sites(transaction, scope, &mut current).await?;
    read_links(transaction, scope, &tags, &mut current).await?;
    for row in rows::clients(transaction, scope).await? {
        let stray = |what: String| RowError {
            table: "clients",
            id: row.id,
            what,
        };
        match (
            tags.get(&row.site_id).and_then(|tag| current.set.sites.get_mut(tag)),
            parse_network(&row.ip_range),
        ) {
            (Some(site), Ok(network)) => {
                let key = ClientKey {
                    network,
                    radsec: row.radsec,
                };
                if current.client_ids.contains_key(&key) {
                    current.strays.push(stray(format!("`{key}` is there twice")));
                    continue;
                }
                current.client_ids.insert(key, row.id);
                site.clients.insert(key, Client::of(row));
            }
            (None, _) => current
                .strays
                .push(stray(format!("belongs to site {}, which does not exist", row.site_id))),
            (_, Err(what)) => current.strays.push(stray(what)),
        }
    }
    let Current {
        set, mac_ids, strays, ..
    } = &mut current;
    rows::macs_with_responses(transaction, scope, |row, responses| {
        let mut stray = |what: String| {
            strays.push(RowError {
                table: "mac_authentication_bypasses",
                id: row.id,
                what,
            })
        };
        let Some(site) = tags.get(&row.site_id).and_then(|tag| set.sites.get_mut(tag)) else {
            return stray(format!("belongs to site {}, which does not exist", row.site_id));
        };
        let Some(mac) = MacAddress::parse(row.address.as_bytes()) else {
            return stray(format!("`{}` is no MAC address", row.address));
        };
        let valid_until = match row.valid_until.as_deref().map(time::parse).transpose() {
            Ok(seconds) => seconds,
            Err(no_time) => return stray(format!("{mac}: {no_time}")),
        };
        if mac_ids.insert((row.site_id, mac), row.id).is_some() {
            return stray(format!("{mac} is there twice"));
        }
        site.macs.insert(
            mac,
            Mac {
                name: row.name,
                description: row.description,
                valid_until,
                responses,
            },
        );
    })
    .await?;
    Ok(current)
}

/// Reads a site with the policies that it uses, and nothing else of it.
pub(super) async fn read_policies_of(transaction: &mut Transaction, site: i64) -> sqlx::Result<PolicySet> {
    let scope = Scope::Site(site);
    let mut current = Current::default();
    let tags = read_sites(transaction, scope, &mut current).await?;
    read_links(transaction, scope, &tags, &mut current).await?;
    Ok(current.set)
}

/// Reads the sites, without what belongs to them, and gives their tags by key.
async fn read_sites(
    transaction: &mut Transaction,
    scope: Scope,
    current: &mut Current,
) -> sqlx::Result<HashMap<i64, String>> {
    let mut tags: HashMap<i64, String> = HashMap::new();
    for row in rows::sites(transaction, scope).await? {
        tags.insert(row.id, row.tag.clone());
        current.site_ids.insert(row.tag.clone(), row.id);
        let timezone = row.timezone.filter(|name| !name.is_empty());
        current.set.sites.insert(
            row.tag,
            Site {
                name: row.name,
                timezone,
                ..Site::default()
            },
        );
    }
    Ok(tags)
}

/// Reads the policies, and which sites use them.
async fn read_links(
    transaction: &mut Transaction,
    scope: Scope,
    tags: &HashMap<i64, String>,
    current: &mut Current,
) -> sqlx::Result<()> {
    let names = read_policies(transaction, scope, current).await?;
    for link in rows::links(transaction, scope).await? {
        let site = tags.get(&link.site_id).and_then(|tag| current.set.sites.get_mut(tag));
        let policy = names
            .get(&link.policy_id)
            .and_then(|name| Some((name, current.set.policies.get(name)?)));
        match (site, policy, link.priority) {
            (Some(site), Some((name, policy)), _) if policy.fallback && site.fallback.is_none() => {
                site.fallback = Some(name.clone());
            }
            (Some(site), Some((name, policy)), Some(priority)) if !policy.fallback => {
                site.policies.insert(priority, name.clone());
            }
            _ => current.strays.push(RowError {
                table: "site_policies",
                id: link.site_id,
                what: format!("site {} cannot use policy {} so", link.site_id, link.policy_id),
            }),
        }
    }
    Ok(())
}

/// Reads the policies, and gives their names by key.
async fn read_policies(
    transaction: &mut Transaction,
    scope: Scope,
    current: &mut Current,
) -> sqlx::Result<HashMap<i64, String>> {
    let mut names = HashMap::new();
    let mut rules: HashMap<i64, Vec<Rule>> = HashMap::new();
    for (policy, rule) in rows::rules(transaction, scope).await? {
        rules.entry(policy).or_default().push(rule);
    }
    let mut responses: HashMap<i64, Vec<ResponseRow>> = HashMap::new();
    for (policy, response) in rows::policy_responses(transaction, scope, None).await? {
        responses.entry(policy).or_default().push(response);
    }
    for row in rows::policies(transaction, scope).await? {
        names.insert(row.id, row.name.clone());
        current.policy_ids.insert(row.name.clone(), row.id);
        let policy = Policy {
            description: row.description,
            action: row.action,
            methods: words(&row.methods),
            fallback: row.fallback,
            rules: rules.remove(&row.id).unwrap_or_default(),
            responses: responses.remove(&row.id).unwrap_or_default(),
        };
        current.set.policies.insert(row.name, policy);
    }
    let ids: BTreeSet<i64> = rules.into_keys().chain(responses.into_keys()).collect();
    for policy in ids {
        let what = "has rules or responses, and does not exist".to_owned();
        current.strays.push(RowError {
            table: "policies",
            id: policy,
            what,
        });
    }
    Ok(names)
}

/// The words of a column of methods, whatever they are.
pub(super) fn words(methods: &str) -> Vec<String> {
    methods
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A tag made of a name: `Leeds, Wharf 2` is `leeds-wharf-2`.
pub(super) fn slug(name: &str) -> String {
    let mut tag = String::new();
    for c in name.chars() {
        match c.is_alphanumeric() {
            true => tag.extend(c.to_lowercase()),
            false if !tag.ends_with('-') && !tag.is_empty() => tag.push('-'),
            false => {}
        }
    }
    tag.trim_end_matches('-').to_owned()
}
