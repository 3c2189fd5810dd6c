//! From rows to what a node keeps in memory: clients, listed addresses, sites. One reading is one state of the database.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use ipnet::IpNet;

use super::changes::{Changes, Touched};
use super::db::Transaction;
use super::rows::{self, Scope};
use super::saved::Key;
use super::source::{self, Policies, RowError, SiteSource};
use super::{Revision, time};
use crate::clients::{self, Client, Entry, SiteId, TlsVersion};
use crate::endpoints::{Endpoint, SiteEndpoints};
use crate::mab::{MabIdentity, MabPassword};
use crate::mac::MacAddress;
use crate::policy::compile::{self, CompiledResponse};
use crate::policy::model::ResponseRow;
use crate::radius::crypto::Secret;
use crate::radius::dictionary::Dictionary;

/// More sites than this are read by reading everything: some eight queries a site are then dearer than all rows.
const SITES_ONE_BY_ONE: usize = 64;

/// What was read, by site. A site that was to be read and is not there exists no more.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) revision: Revision,
    pub(super) clients: Part<SiteClients>,
    pub(super) sites: Part<SiteSource>,
    pub(super) macs: Part<SiteMacs>,
}

/// One side of a reading.
#[derive(Debug)]
pub(super) struct Part<T> {
    /// Which sites were read; none: all.
    pub(super) asked: Option<BTreeSet<SiteId>>,
    /// What they have.
    pub(super) found: HashMap<SiteId, T>,
}

impl<T> Part<T> {
    /// Whether the reading says something of this site.
    pub(super) fn covers(&self, site: SiteId) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked.contains(&site))
    }
}

/// The clients of one site.
#[derive(Clone, Debug)]
pub(super) struct SiteClients {
    pub(super) entries: Vec<Entry>,
    pub(super) errors: Vec<RowError>,
    /// Equal for equal rows; of rows rather than of entries, so that a change of anything is seen.
    pub(super) hash: u64,
}

/// The listed addresses of one site.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteMacs {
    pub(super) endpoints: SiteEndpoints,
    pub(super) errors: Vec<RowError>,
}

/// What readings share, so that equal things are in memory once.
#[derive(Debug, Default)]
pub(super) struct Memory {
    policies: Policies,
    responses: HashMap<Vec<ResponseRow>, Weak<[CompiledResponse]>>,
    secrets: HashMap<u64, Weak<Secret>>,
    hasher: RandomState,
    /// Opens the secrets of a reading that has them sealed.
    pub(super) key: Option<Key>,
}

impl Memory {
    /// Forgets what nobody holds any more.
    pub(super) fn prune(&mut self) {
        self.policies.prune();
        self.responses.retain(|_, responses| responses.strong_count() > 0);
        self.secrets.retain(|_, secret| secret.strong_count() > 0);
    }

    fn secret(&mut self, text: &str) -> Arc<Secret> {
        let hash = self.hasher.hash_one(text);
        let known = self.secrets.get(&hash).and_then(Weak::upgrade);
        match known.filter(|secret| secret.is(text.as_bytes())) {
            Some(secret) => secret,
            None => {
                let secret = Arc::new(Secret::new(text.as_bytes()));
                self.secrets.insert(hash, Arc::downgrade(&secret));
                secret
            }
        }
    }

    fn responses(
        &mut self,
        dictionary: &Dictionary,
        rows: &Vec<ResponseRow>,
    ) -> Result<Arc<[CompiledResponse]>, Vec<compile::CompileError>> {
        if let Some(known) = self.responses.get(rows).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let compiled = compile::endpoint_responses(dictionary, "", rows)?;
        self.responses.insert(rows.clone(), Arc::downgrade(&compiled));
        Ok(compiled)
    }
}

/// Reads what moved: all of it, or of the sites that are touched.
pub(super) async fn read(
    transaction: &mut Transaction,
    revision: Revision,
    changes: Changes,
    memory: &mut Memory,
    known: &HashMap<SiteId, SiteClients>,
    dictionary: &Dictionary,
) -> sqlx::Result<Reading> {
    let (clients, policies, macs) = match changes {
        Changes::All => (None, None, None),
        Changes::Some(Touched {
            clients,
            policies,
            macs,
        }) => (few(clients), few(policies), few(macs)),
    };
    let mut found_clients = HashMap::new();
    for scope in scopes(&clients) {
        read_clients(transaction, scope, memory, known, &mut found_clients).await?;
    }
    let mut found_sites = HashMap::new();
    for scope in scopes(&policies) {
        found_sites.extend(source::read(transaction, scope, &mut memory.policies, memory.key.as_ref()).await?);
    }
    let mut found_macs = HashMap::new();
    for scope in scopes(&macs) {
        read_macs(transaction, scope, memory, dictionary, &mut found_macs).await?;
    }
    Ok(Reading {
        revision,
        clients: Part {
            asked: clients,
            found: found_clients,
        },
        sites: Part {
            asked: policies,
            found: found_sites,
        },
        macs: Part {
            asked: macs,
            found: found_macs,
        },
    })
}

fn few(sites: BTreeSet<SiteId>) -> Option<BTreeSet<SiteId>> {
    Some(sites).filter(|sites| sites.len() <= SITES_ONE_BY_ONE)
}

fn scopes(sites: &Option<BTreeSet<SiteId>>) -> Vec<Scope> {
    match sites {
        None => vec![Scope::All],
        Some(sites) => sites.iter().map(|site| Scope::Site(site.0)).collect(),
    }
}

async fn read_clients(
    transaction: &mut Transaction,
    scope: Scope,
    memory: &mut Memory,
    known: &HashMap<SiteId, SiteClients>,
    found: &mut HashMap<SiteId, SiteClients>,
) -> sqlx::Result<()> {
    let key = memory.key.clone();
    rows::each_client(transaction, scope, key.as_ref(), |row| {
        let site = found.entry(SiteId(row.site_id)).or_insert_with(|| SiteClients {
            entries: Vec::new(),
            errors: Vec::new(),
            hash: 0,
        });
        site.hash = site.hash.wrapping_add(memory.hasher.hash_one(&row));
        let place = site.entries.len();
        match client(&row, memory) {
            Ok(client) => {
                // What did not change is mostly where it was: it is in memory once, also while everything is read again.
                let before = known.get(&client.site).and_then(|site| site.entries.get(place));
                site.entries.push(match before {
                    Some(Entry::Client(same)) if **same == client => Entry::Client(Arc::clone(same)),
                    _ => Entry::Client(Arc::new(client)),
                });
            }
            Err((network, error)) => {
                // Its packets must not fall to a wider network's secret.
                site.entries.extend(network.map(|network| Entry::Shadow {
                    network,
                    radsec: row.radsec,
                }));
                site.errors.push(error);
            }
        }
        Ok(())
    })
    .await
}

/// A client of its row; else what is wrong, with the network if at least that could be read.
fn client(row: &rows::Client, memory: &mut Memory) -> Result<Client, (Option<IpNet>, RowError)> {
    let error = |what: String| RowError {
        table: "clients",
        id: row.id,
        what,
    };
    let network = clients::parse_network(&row.ip_range).map_err(|what| (None, error(what)))?;
    let refuse = |what: String| (Some(network), error(format!("`{}`: {what}", row.ip_range)));
    let settings = ClientSettings::read(row).map_err(refuse)?;
    Ok(Client {
        id: row.id,
        site: SiteId(row.site_id),
        network,
        secret: memory.secret(&row.shared_secret),
        radsec: row.radsec,
        require_message_authenticator: row.require_message_authenticator,
        limit_proxy_state: row.limit_proxy_state,
        min_tls: settings.min_tls,
        max_tls: settings.max_tls,
        fragment_size: settings.fragment_size,
        mab_password: settings.mab_password,
        mab_identity: settings.mab_identity,
    })
}

/// The columns of a client that are words or numbers with a range.
pub(super) struct ClientSettings {
    min_tls: Option<TlsVersion>,
    max_tls: Option<TlsVersion>,
    fragment_size: Option<u16>,
    mab_password: MabPassword,
    mab_identity: MabIdentity,
}

impl ClientSettings {
    /// Reads them; the error says which and has a hint.
    pub(super) fn read(row: &rows::Client) -> Result<ClientSettings, String> {
        if row.shared_secret.is_empty() {
            return Err("the shared secret is empty; hint: write the one that the switch has".to_owned());
        }
        let version = |column: &str, text: &Option<String>| match text.as_deref() {
            None => Ok(None),
            Some(text) => TlsVersion::parse(text)
                .map(Some)
                .ok_or_else(|| format!("`{text}` is no TLS version of `{column}`; hint: `1.2` or `1.3`")),
        };
        let (min_tls, max_tls) = (version("min_tls", &row.min_tls)?, version("max_tls", &row.max_tls)?);
        if let (Some(min), Some(max)) = (min_tls, max_tls)
            && min > max
        {
            return Err("`min_tls` is above `max_tls`; hint: then no supplicant can connect".to_owned());
        }
        let fragment_size = match row.fragment_size {
            None => None,
            Some(octets) => Some(
                u16::try_from(octets)
                    .ok()
                    .filter(|octets| (64..=4000).contains(octets))
                    .ok_or_else(|| format!("a `fragment_size` of `{octets}` octets; hint: 64 to 4000"))?,
            ),
        };
        if row.mab_password.is_empty() {
            return Err("`mab_password` is empty; hint: `mac`, `any`, or the password".to_owned());
        }
        let mab_password = MabPassword::parse(&row.mab_password);
        let mab_identity = match row.mab_identity.as_str() {
            "calling-station-id" => MabIdentity::CallingStationId,
            "user-name" => MabIdentity::UserName,
            word => {
                return Err(format!(
                    "`{word}` is no `mab_identity`; hint: `calling-station-id` or `user-name`"
                ));
            }
        };
        Ok(ClientSettings {
            min_tls,
            max_tls,
            fragment_size,
            mab_password,
            mab_identity,
        })
    }
}

async fn read_macs(
    transaction: &mut Transaction,
    scope: Scope,
    memory: &mut Memory,
    dictionary: &Dictionary,
    found: &mut HashMap<SiteId, SiteMacs>,
) -> sqlx::Result<()> {
    // Compiled as they come, equal ones once: those of a million addresses are not held as rows.
    let mut compiled: HashMap<i64, Result<Arc<[CompiledResponse]>, Vec<ResponseRow>>> = HashMap::new();
    let key = memory.key.clone();
    rows::mac_responses(transaction, scope, key.as_ref(), |owner, responses| {
        compiled.insert(owner, memory.responses(dictionary, &responses).map_err(|_| responses));
    })
    .await?;
    rows::macs(transaction, scope, |row| {
        let site = found.entry(SiteId(row.site_id)).or_default();
        let mut error = |what: String| {
            site.errors.push(RowError {
                table: "mac_authentication_bypasses",
                id: row.id,
                what,
            });
        };
        let Some(mac) = MacAddress::parse(row.address.as_bytes()) else {
            return error(format!(
                "`{}` is no MAC address; hint: write `aa-bb-cc-dd-ee-ff`",
                row.address
            ));
        };
        let valid_until = match row.valid_until.as_deref().map(time::parse).transpose() {
            Ok(seconds) => seconds,
            Err(no_time) => return error(format!("{mac}: {no_time}")),
        };
        let responses = match compiled.remove(&row.id).transpose() {
            Ok(responses) => responses,
            // Once more, for the words that name the address.
            Err(rows) => match compile::endpoint_responses(dictionary, &mac.to_string(), &rows) {
                Ok(responses) => Some(responses),
                Err(errors) => return errors.iter().for_each(|what| error(what.to_string())),
            },
        };
        site.endpoints.push(mac, Endpoint { valid_until, responses });
    })
    .await
}
