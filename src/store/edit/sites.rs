//! Sites.

use super::{EditError, Edited, Outcome, begin, commit, policies, site_id};
use crate::radius::dictionary::Dictionary;
use crate::store::db::{Transaction, query, query_scalar};
use crate::store::rows::Scope;
use crate::store::set::{self, PolicySet};
use crate::store::{Store, time, write};

/// A site in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What commands name it by.
    pub tag: String,
    /// For people.
    pub name: String,
    /// IANA name; none: the configuration's.
    pub timezone: Option<String>,
    /// How many policies it has, its fallback included.
    pub policies: i64,
    /// How many clients.
    pub clients: i64,
    /// How many listed addresses.
    pub macs: i64,
}

/// What a new site is, or what is to become different of one.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// For people.
    pub name: Option<String>,
    /// IANA name; empty: the configuration's.
    pub timezone: Option<String>,
    /// The fallback policy's name; empty: none.
    pub fallback: Option<String>,
}

/// All sites by tag.
pub async fn list(store: &Store) -> Result<Vec<Summary>, EditError> {
    let mut transaction = store.read().await?;
    let rows: Vec<(String, String, Option<String>, i64, i64, i64)> = query(
        "SELECT tag, name, timezone, \
           (SELECT count(*) FROM site_policies p WHERE p.site_id = s.id), \
           (SELECT count(*) FROM clients c WHERE c.site_id = s.id), \
           (SELECT count(*) FROM mac_authentication_bypasses m WHERE m.site_id = s.id) \
         FROM sites s ORDER BY tag",
    )
    .fetch_all(&mut transaction)
    .await?;
    let summary = |(tag, name, timezone, policies, clients, macs)| Summary {
        tag,
        name,
        timezone,
        policies,
        clients,
        macs,
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// A site with all that belongs to it, and the policies that it uses.
pub async fn show(store: &Store, tag: &str) -> Result<PolicySet, EditError> {
    let mut transaction = store.read().await?;
    let id = site_id(&mut transaction, tag).await?;
    Ok(set::read(&mut transaction, Scope::Site(id)).await?.set)
}

/// Adds a site. Without a tag it gets one made of its name; without a fallback it refuses what no policy accepts.
pub async fn add(
    store: &Store,
    dictionary: &Dictionary,
    name: &str,
    tag: Option<&str>,
    settings: &Settings,
) -> Result<(String, Edited), EditError> {
    let tag = tag.map_or_else(|| set::slug(name), str::to_owned);
    if name.trim().is_empty() || tag.trim().is_empty() {
        return Err(EditError::invalid(
            "a site needs a name and a tag\nhint: `portreeve site add NAME --tag TAG`",
        ));
    }
    let mut transaction = begin(store).await?;
    let taken: i64 = query_scalar("SELECT count(*) FROM sites WHERE tag = $1")
        .bind(&tag)
        .fetch_one(&mut transaction)
        .await?;
    if taken > 0 {
        return Err(EditError::conflict(
            format!("there is a site `{tag}` already"),
            "give this one another `--tag`",
        ));
    }
    free_name(&mut transaction, name, &tag).await?;
    let timezone = zone(settings)?;
    let id = write::insert_site(&mut transaction, &tag, name, timezone.as_deref()).await?;
    let mut findings = Vec::new();
    if let Some(fallback) = settings.fallback.as_deref().filter(|name| !name.is_empty()) {
        findings = policies::set_fallback(&mut transaction, dictionary, (&tag, id), fallback).await?;
    }
    let edited = commit(transaction, Outcome::Added, findings).await?;
    Ok((tag, edited))
}

/// Changes what is given of a site.
pub async fn change(
    store: &Store,
    dictionary: &Dictionary,
    tag: &str,
    settings: &Settings,
) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let id = site_id(&mut transaction, tag).await?;
    let before: (String, Option<String>) = query("SELECT name, timezone FROM sites WHERE id = $1")
        .bind(id)
        .fetch_one(&mut transaction)
        .await?;
    let name = settings.name.clone().unwrap_or_else(|| before.0.clone());
    let timezone = match settings.timezone {
        None => before.1.clone(),
        Some(_) => zone(settings)?,
    };
    let mut outcome = Outcome::Unchanged;
    if before != (name.clone(), timezone.clone()) {
        free_name(&mut transaction, &name, tag).await?;
        write::update_site(&mut transaction, id, &name, timezone.as_deref()).await?;
        outcome = Outcome::Changed;
    }
    let mut findings = Vec::new();
    if let Some(fallback) = &settings.fallback {
        let current: Option<String> = query_scalar(
            "SELECT p.name FROM site_policies s JOIN policies p ON p.id = s.policy_id WHERE s.site_id = $1 AND p.fallback",
        )
        .bind(id)
        .fetch_optional(&mut transaction)
        .await?;
        if current.as_deref().unwrap_or_default() != fallback {
            findings = policies::set_fallback(&mut transaction, dictionary, (tag, id), fallback).await?;
            outcome = Outcome::Changed;
        }
    }
    commit(transaction, outcome, findings).await
}

/// Removes a site with its clients, listed addresses and its order of policies; the policies themselves stay.
pub async fn remove(store: &Store, tag: &str) -> Result<Edited, EditError> {
    let mut transaction = begin(store).await?;
    let id = site_id(&mut transaction, tag).await?;
    write::delete_site(&mut transaction, id).await?;
    commit(transaction, Outcome::Removed, Vec::new()).await
}

fn zone(settings: &Settings) -> Result<Option<String>, EditError> {
    match settings.timezone.as_deref() {
        None | Some("") => Ok(None),
        Some(name) => match time::zone(name) {
            Ok(_) => Ok(Some(name.to_owned())),
            Err(no_zone) => Err(EditError::invalid(no_zone.to_string())),
        },
    }
}

async fn free_name(transaction: &mut Transaction, name: &str, tag: &str) -> Result<(), EditError> {
    let owner: Option<String> = query_scalar("SELECT tag FROM sites WHERE name = $1 AND tag <> $2")
        .bind(name)
        .bind(tag)
        .fetch_optional(transaction)
        .await?;
    match owner {
        None => Ok(()),
        Some(owner) => Err(EditError::conflict(
            format!("site `{owner}` has the name `{name}`"),
            "choose another name",
        )),
    }
}
