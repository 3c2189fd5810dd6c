//! RADIUS clients.

use super::{EditError, Edited, Outcome, begin, commit, site_id};
use crate::clients::parse_network;
use crate::store::db::{Transaction, query, query_scalar};
use crate::store::load::ClientSettings;
use crate::store::rows::{self, Scope};
use crate::store::set::{Client, ClientKey};
use crate::store::{Store, write};

/// A client in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The site's tag; empty if there is no such site.
    pub site: String,
    /// Its network and kind.
    pub key: ClientKey,
    /// The rest.
    pub client: Client,
}

/// What is to become different of a client, or what a new one has beside the defaults.
#[derive(Clone, Default)]
pub struct Settings {
    /// The shared secret; a new client needs one.
    pub secret: Option<String>,
    /// Whether requests without Message-Authenticator are dropped.
    pub require_message_authenticator: Option<bool>,
    /// Whether requests with Proxy-State and without Message-Authenticator are dropped.
    pub limit_proxy_state: Option<bool>,
    /// `1.2` or `1.3`; empty: the configuration's.
    pub min_tls: Option<String>,
    /// `1.2` or `1.3`; empty: the configuration's.
    pub max_tls: Option<String>,
    /// Octets of an EAP packet.
    pub fragment_size: Option<i64>,
    /// `mac`, `any`, or the password.
    pub mab_password: Option<String>,
    /// `calling-station-id` or `user-name`.
    pub mab_identity: Option<String>,
}

/// Reads a network or address as commands take it: `10.1.0.0/16`, `192.0.2.7`.
pub fn key(text: &str, radsec: bool) -> Result<ClientKey, EditError> {
    let network = parse_network(text).map_err(EditError::invalid)?;
    match text.parse::<ipnet::IpNet>() {
        Ok(given) if given != given.trunc() => Err(EditError::invalid(format!(
            "`{text}` is no network: bits behind the prefix are set\nhint: write `{network}`, or an address alone"
        ))),
        _ => Ok(ClientKey { network, radsec }),
    }
}

/// The clients of a site, or all, by site and network.
pub async fn list(store: &Store, site: Option<&str>) -> Result<Vec<Entry>, EditError> {
    let mut transaction = store.read().await?;
    let scope = match site {
        None => Scope::All,
        Some(tag) => Scope::Site(site_id(&mut transaction, tag).await?),
    };
    let tags: std::collections::HashMap<i64, String> = rows::sites(&mut transaction, scope)
        .await?
        .into_iter()
        .map(|site| (site.id, site.tag))
        .collect();
    let mut entries: Vec<Entry> = rows::clients(&mut transaction, scope)
        .await?
        .into_iter()
        .filter_map(|row| {
            let site = tags.get(&row.site_id).cloned().unwrap_or_default();
            let key = ClientKey {
                network: parse_network(&row.ip_range).ok()?,
                radsec: row.radsec,
            };
            Some(Entry {
                site,
                key,
                client: Client::of(row),
            })
        })
        .collect();
    entries.sort_by(|a, b| (&a.site, a.key).cmp(&(&b.site, b.key)));
    Ok(entries)
}

/// The client of exactly this network; else the one that answers for it, by longest prefix.
pub async fn show(store: &Store, key: ClientKey) -> Result<Entry, EditError> {
    let covers = |entry: &Entry| entry.key.radsec == key.radsec && entry.key.network.contains(&key.network);
    let entries = list(store, None).await?;
    let found = entries
        .into_iter()
        .filter(covers)
        .max_by_key(|entry| entry.key.network.prefix_len());
    found.ok_or_else(|| unknown(key))
}

/// Adds a client to a site, or changes what is given of the one that the site has.
pub async fn add(store: &Store, site: &str, key: ClientKey, settings: &Settings) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let site_id = site_id(&mut transaction, site).await?;
    let known = find(&mut transaction, key).await?;
    if let Some((_, owner, _)) = known.as_ref().filter(|(_, owner, _)| *owner != site_id) {
        let owner: Option<String> = query_scalar("SELECT tag FROM sites WHERE id = $1")
            .bind(*owner)
            .fetch_optional(&mut transaction)
            .await?;
        let owner = owner.unwrap_or_default();
        return Err(EditError::conflict(
            format!("site `{owner}` has the client `{key}` already"),
            format!("remove it there first: `portreeve client remove {}`", key.network),
        ));
    }
    let before = known.as_ref().map(|(_, _, client)| client.clone());
    let client = settings.over(before.clone(), key)?;
    ClientSettings::read(&client.row(0, 0, key)).map_err(EditError::invalid)?;
    let outcome = match known {
        Some((_, _, before)) if before == client => Outcome::Unchanged,
        Some((id, _, _)) => {
            write::update_client(&mut transaction, id, site_id, key, &client).await?;
            Outcome::Changed
        }
        None => {
            write::insert_client(&mut transaction, site_id, key, &client).await?;
            Outcome::Added
        }
    };
    commit(transaction, outcome, Vec::new()).await
}

/// Removes a client. Running nodes refuse to be left with none at all, and keep the last.
pub async fn remove(store: &Store, key: ClientKey) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let Some((id, _, _)) = find(&mut transaction, key).await? else {
        return Err(unknown(key));
    };
    write::delete_client(&mut transaction, id).await?;
    commit(transaction, Outcome::Removed, Vec::new()).await
}

impl Settings {
    fn over(&self, before: Option<Client>, key: ClientKey) -> Result<Client, EditError> {
        let mut client = match (before, &self.secret) {
            (Some(client), _) => client,
            (None, Some(secret)) => Client::new(secret),
            (None, None) => {
                let what = format!("client `{key}` is new and has no secret");
                return Err(EditError::conflict(what, "give the shared secret that the switch has"));
            }
        };
        let words = |new: &Option<String>, old: Option<String>| match new {
            Some(text) => (!text.is_empty()).then(|| text.clone()),
            None => old,
        };
        if let Some(secret) = &self.secret {
            client.secret = secret.clone().into();
        }
        client.require_message_authenticator = self
            .require_message_authenticator
            .unwrap_or(client.require_message_authenticator);
        client.limit_proxy_state = self.limit_proxy_state.unwrap_or(client.limit_proxy_state);
        client.min_tls = words(&self.min_tls, client.min_tls);
        client.max_tls = words(&self.max_tls, client.max_tls);
        client.fragment_size = self.fragment_size.or(client.fragment_size);
        if let Some(password) = &self.mab_password {
            client.mab_password = password.clone().into();
        }
        if let Some(identity) = &self.mab_identity {
            client.mab_identity.clone_from(identity);
        }
        Ok(client)
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// The row of exactly this network: key, site, rest.
async fn find(transaction: &mut Transaction, key: ClientKey) -> Result<Option<(i64, i64, Client)>, EditError> {
    // IPv6 may stand in the table in another spelling.
    let candidates: Vec<(i64, i64, String)> = query("SELECT id, site_id, ip_range FROM clients WHERE radsec = $1")
        .bind(key.radsec)
        .fetch_all(transaction)
        .await?;
    for (id, site, text) in candidates {
        if parse_network(&text).is_ok_and(|network| network == key.network) {
            let rows = rows::clients(transaction, Scope::Site(site)).await?;
            return Ok(rows
                .into_iter()
                .find(|row| row.id == id)
                .map(|row| (id, site, Client::of(row))));
        }
    }
    Ok(None)
}

fn unknown(key: ClientKey) -> EditError {
    EditError::Unknown {
        what: "client",
        name: key.to_string(),
        hint: "`portreeve client list` shows all".to_owned(),
    }
}
