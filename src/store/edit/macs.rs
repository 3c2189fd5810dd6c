//! Listed MAC addresses.

use std::collections::{BTreeSet, HashMap};

use super::{EditError, Edited, Outcome, begin, commit, site_id};
use crate::mac::MacAddress;
use crate::policy::compile;
use crate::policy::lint;
use crate::policy::model::ResponseRow;
use crate::radius::dictionary::Dictionary;
use crate::store::db::{Transaction, query};
use crate::store::rows::{self, Scope};
use crate::store::set::Mac;
use crate::store::{Store, time, write};

/// A listed address in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The site's tag; empty if there is no such site.
    pub site: String,
    /// The address.
    pub address: MacAddress,
    /// The rest.
    pub mac: Mac,
}

/// What is to become different of an address, or what a new one has.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// The last second of validity, as [`time::parse`] reads it; empty: no end.
    pub valid_until: Option<String>,
    /// All of them, in the order of the reply.
    pub responses: Option<Vec<ResponseRow>>,
}

/// The addresses of a site, or of all, by site and address.
pub async fn list(store: &Store, site: Option<&str>) -> Result<Vec<Entry>, EditError> {
    let mut transaction = store.read().await?;
    let scope = match site {
        None => Scope::All,
        Some(tag) => Scope::Site(site_id(&mut transaction, tag).await?),
    };
    let mut entries = Vec::new();
    let tags = tags(&mut transaction, scope).await?;
    rows::macs_with_responses(&mut transaction, scope, |row, responses| {
        let tag = tags.get(&row.site_id).cloned().unwrap_or_default();
        entries.extend(entry(tag, row, responses));
    })
    .await?;
    entries.sort_by(|a, b| (&a.site, a.address).cmp(&(&b.site, b.address)));
    Ok(entries)
}

/// An address of a site.
pub async fn show(store: &Store, site: &str, address: MacAddress) -> Result<Mac, EditError> {
    let mut transaction = store.read().await?;
    let site_key = site_id(&mut transaction, site).await?;
    match read(&mut transaction, site_key, address).await? {
        Some((_, mac)) => Ok(mac),
        None => Err(not_listed(&mut transaction, site, address).await?),
    }
}

/// Where an address is listed, by site.
pub async fn find(store: &Store, address: MacAddress) -> Result<Vec<Entry>, EditError> {
    let mut transaction = store.read().await?;
    let mut entries = Vec::new();
    for (site, tag) in sites_of(&mut transaction, address).await? {
        if let Some((_, mac)) = read(&mut transaction, site, address).await? {
            entries.push(Entry {
                site: tag,
                address,
                mac,
            });
        }
    }
    Ok(entries)
}

/// Where any of `wanted` is listed, by site and address; without the responses.
pub async fn among(store: &Store, wanted: &BTreeSet<MacAddress>) -> Result<Vec<Entry>, EditError> {
    let mut transaction = store.read().await?;
    let tags = tags(&mut transaction, Scope::All).await?;
    let mut entries = Vec::new();
    rows::macs(&mut transaction, Scope::All, |row| {
        let is_wanted = MacAddress::parse(row.address.as_bytes()).is_some_and(|mac| wanted.contains(&mac));
        if is_wanted {
            let tag = tags.get(&row.site_id).cloned().unwrap_or_default();
            entries.extend(entry(tag, row, Vec::new()));
        }
    })
    .await?;
    entries.sort_by(|a, b| (&a.site, a.address).cmp(&(&b.site, b.address)));
    Ok(entries)
}

/// Lists an address for a site, or changes what is given of it.
pub async fn add(
    store: &Store,
    dictionary: &Dictionary,
    site: &str,
    address: MacAddress,
    settings: &Settings,
) -> Result<Edited, EditError> {
    let valid_until = match settings.valid_until.as_deref() {
        None => None,
        Some("") => Some(None),
        Some(text) => Some(Some(
            time::parse(text).map_err(|no_time| EditError::invalid(no_time.to_string()))?,
        )),
    };
    let mut findings = Vec::new();
    if let Some(responses) = &settings.responses {
        let compiled = compile::endpoint_responses(dictionary, &address.to_string(), responses)
            .map_err(|errors| EditError::Invalid(errors.iter().map(ToString::to_string).collect()))?;
        findings = lint::endpoint(dictionary, &address.to_string(), &compiled);
    }
    let mut transaction = begin(store).await?;
    let site_key = site_id(&mut transaction, site).await?;
    let known = read(&mut transaction, site_key, address).await?;
    let mut mac = known.as_ref().map(|(_, mac)| mac.clone()).unwrap_or_default();
    if let Some(name) = &settings.name {
        mac.name.clone_from(name);
    }
    if let Some(description) = &settings.description {
        mac.description.clone_from(description);
    }
    if let Some(valid_until) = valid_until {
        mac.valid_until = valid_until;
    }
    if let Some(responses) = &settings.responses {
        mac.responses.clone_from(responses);
    }
    let outcome = match known {
        Some((_, before)) if before == mac => Outcome::Unchanged,
        Some((id, before)) => {
            write::update_mac(&mut transaction, id, &before, &mac).await?;
            Outcome::Changed
        }
        None => {
            write::insert_mac(&mut transaction, site_key, address, &mac).await?;
            Outcome::Added
        }
    };
    commit(transaction, outcome, findings).await
}

/// Takes an address off a site's list.
pub async fn remove(store: &Store, site: &str, address: MacAddress) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let site_key = site_id(&mut transaction, site).await?;
    let Some((id, _)) = read(&mut transaction, site_key, address).await? else {
        return Err(not_listed(&mut transaction, site, address).await?);
    };
    write::delete_mac(&mut transaction, id).await?;
    commit(transaction, Outcome::Removed, Vec::new()).await
}

/// Moves an address to another site's list, with its responses and dates.
pub async fn move_to(store: &Store, address: MacAddress, from: &str, to: &str) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let from_key = site_id(&mut transaction, from).await?;
    let to_key = site_id(&mut transaction, to).await?;
    let Some((id, _)) = read(&mut transaction, from_key, address).await? else {
        return Err(not_listed(&mut transaction, from, address).await?);
    };
    if from_key == to_key {
        return commit(transaction, Outcome::Unchanged, Vec::new()).await;
    }
    if read(&mut transaction, to_key, address).await?.is_some() {
        return Err(EditError::conflict(
            format!("site `{to}` lists {address} already"),
            format!("take it off one of them: `portreeve mac remove {from} {address}`"),
        ));
    }
    query("UPDATE mac_authentication_bypasses SET site_id = $1 WHERE id = $2")
        .bind(to_key)
        .bind(id)
        .execute(&mut transaction)
        .await?;
    commit(transaction, Outcome::Changed, Vec::new()).await
}

/// The sites' tags, by their keys.
async fn tags(transaction: &mut Transaction, scope: Scope) -> Result<HashMap<i64, String>, EditError> {
    let sites = rows::sites(transaction, scope).await?;
    Ok(sites.into_iter().map(|site| (site.id, site.tag)).collect())
}

fn entry(site: String, row: rows::Mac, responses: Vec<ResponseRow>) -> Option<Entry> {
    let address = MacAddress::parse(row.address.as_bytes())?;
    // One that cannot be read is shown as long past: that is how it is refused.
    let valid_until = row.valid_until.as_deref().map(|text| time::parse(text).unwrap_or(0));
    Some(Entry {
        site,
        address,
        mac: Mac {
            name: row.name,
            description: row.description,
            valid_until,
            responses,
        },
    })
}

/// The row of an address in a site, found by the same expression that keeps it there once.
async fn read(transaction: &mut Transaction, site: i64, address: MacAddress) -> Result<Option<(i64, Mac)>, EditError> {
    type Row = (i64, Option<String>, Option<String>, Option<String>);
    let row: Option<Row> = query(
        "SELECT id, name, description, valid_until FROM mac_authentication_bypasses \
         WHERE lower(replace(replace(replace(address, ':', ''), '-', ''), '.', '')) = $1 AND site_id = $2",
    )
    .bind(digits(address))
    .bind(site)
    .fetch_optional(transaction)
    .await?;
    let Some((id, name, description, valid_until)) = row else {
        return Ok(None);
    };
    let responses: Vec<(String, String)> = query(
        "SELECT response_attribute, value FROM responses WHERE mac_authentication_bypass_id = $1 ORDER BY position, id",
    )
    .bind(id)
    .fetch_all(transaction)
    .await?;
    let mac = Mac {
        name: name.unwrap_or_default(),
        description: description.unwrap_or_default(),
        valid_until: valid_until.as_deref().map(|text| time::parse(text).unwrap_or(0)),
        responses: responses
            .into_iter()
            .map(|(attribute, value)| ResponseRow { attribute, value })
            .collect(),
    };
    Ok(Some((id, mac)))
}

async fn sites_of(transaction: &mut Transaction, address: MacAddress) -> Result<Vec<(i64, String)>, EditError> {
    Ok(query(
        "SELECT s.id, s.tag FROM mac_authentication_bypasses m JOIN sites s ON s.id = m.site_id \
         WHERE lower(replace(replace(replace(m.address, ':', ''), '-', ''), '.', '')) = $1 ORDER BY s.tag",
    )
    .bind(digits(address))
    .fetch_all(transaction)
    .await?)
}

fn digits(address: MacAddress) -> String {
    address.to_string().replace('-', "")
}

async fn not_listed(transaction: &mut Transaction, site: &str, address: MacAddress) -> Result<EditError, EditError> {
    let elsewhere: Vec<String> = sites_of(transaction, address)
        .await?
        .into_iter()
        .map(|(_, tag)| format!("`{tag}`"))
        .collect();
    let hint = match elsewhere.is_empty() {
        true => format!("add it: `portreeve mac add {site} {address}`"),
        false => format!("it is listed for {}", elsewhere.join(", ")),
    };
    Ok(EditError::conflict(
        format!("site `{site}` does not list {address}"),
        hint,
    ))
}
