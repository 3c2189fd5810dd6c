//! Writes a difference, in an order in which no constraint is hurt on the way.

use std::collections::{BTreeMap, HashMap};

use super::difference::{Change, Difference};
use crate::store::db::Transaction;
use crate::store::set::{Current, Policy, Site};
use crate::store::{bulk, write};

/// Writes `difference`, which is from the set of `current`. `delete_strays` also deletes rows that are no part of any set.
pub(super) async fn apply(
    transaction: &mut Transaction,
    current: &Current,
    difference: &Difference<'_>,
    delete_strays: bool,
) -> sqlx::Result<()> {
    let mut policy_ids: HashMap<&str, i64> = current
        .policy_ids
        .iter()
        .map(|(name, id)| (name.as_str(), *id))
        .collect();
    let mut site_ids: HashMap<&str, i64> = current.site_ids.iter().map(|(tag, id)| (tag.as_str(), *id)).collect();

    if delete_strays {
        strays(transaction, current).await?;
    }
    remove(transaction, current, difference, &site_ids).await?;

    for (name, change) in &difference.policies {
        match (change.before, change.after, policy_ids.get(name)) {
            (Some(before), Some(after), Some(id)) => write::update_policy(transaction, *id, before, after).await?,
            (_, None, Some(id)) => write::delete_policy(transaction, *id).await?,
            _ => {}
        }
    }
    let new: Vec<(&str, &Policy)> = difference
        .policies
        .iter()
        .filter(|(_, change)| change.before.is_none())
        .filter_map(|(name, change)| Some((*name, change.after?)))
        .collect();
    let ids = bulk::insert_policies(transaction, &new).await?;
    policy_ids.extend(new.iter().filter_map(|(name, _)| Some((*name, *ids.get(*name)?))));

    let new: Vec<(&str, &str, Option<&str>)> = difference
        .sites
        .iter()
        .filter(|(_, site)| site.site.before.is_none())
        .filter_map(|(tag, site)| site.site.after.map(|after| (*tag, after)))
        .map(|(tag, after)| (tag, after.name.as_str(), after.timezone.as_deref()))
        .collect();
    let ids = bulk::insert_sites(transaction, &new).await?;
    site_ids.extend(new.iter().filter_map(|(tag, ..)| Some((*tag, *ids.get(*tag)?))));

    // Sites that stay or are new, with their keys.
    let sites = || {
        let sites = difference.sites.iter();
        sites.filter_map(|(tag, site)| Some((*site_ids.get(tag)?, site, site.site.after?)))
    };
    for (id, site, after) in sites() {
        if let Some(before) = site.site.before
            && (&before.name, &before.timezone) != (&after.name, &after.timezone)
        {
            write::update_site(transaction, id, &after.name, after.timezone.as_deref()).await?;
        }
        for (key, change) in &site.clients {
            if let (Some(_), Some(client), Some(row)) = (change.before, change.after, current.client_ids.get(key)) {
                write::update_client(transaction, *row, id, *key, client).await?;
            }
        }
        for (mac, change) in &site.macs {
            if let (Some(before), Some(after), Some(row)) =
                (change.before, change.after, current.mac_ids.get(&(id, *mac)))
            {
                write::update_mac(transaction, *row, before, after).await?;
            }
        }
    }
    let links = sites().flat_map(|(id, site, after)| {
        let links = new_links(site.site.before, after).into_iter();
        links.map(move |(policy, priority)| (id, policy, priority))
    });
    let links = links.filter_map(|(site, policy, priority)| Some((site, *policy_ids.get(policy)?, priority)));
    bulk::insert_links(transaction, links).await?;
    let clients =
        sites().flat_map(|(id, site, _)| new_ones(&site.clients).map(move |(key, client)| (id, *key, client)));
    bulk::insert_clients(transaction, clients).await?;
    let macs = sites().flat_map(|(id, site, _)| new_ones(&site.macs).map(move |(address, mac)| (id, *address, mac)));
    bulk::insert_macs(transaction, macs).await
}

/// What was not there before.
fn new_ones<'a, K, V>(changes: &'a BTreeMap<K, Change<'a, V>>) -> impl Iterator<Item = (&'a K, &'a V)> {
    let new = changes.iter().filter(|(_, change)| change.before.is_none());
    new.filter_map(|(key, change)| Some((key, change.after?)))
}

/// What goes or moves makes its place free first: networks, priorities and names are unique.
async fn remove(
    transaction: &mut Transaction,
    current: &Current,
    difference: &Difference<'_>,
    site_ids: &HashMap<&str, i64>,
) -> sqlx::Result<()> {
    for (tag, site) in &difference.sites {
        let (Some(before), Some(&id)) = (site.site.before, site_ids.get(tag)) else {
            continue;
        };
        let Some(after) = site.site.after else {
            write::delete_site(transaction, id).await?;
            continue;
        };
        for (policy, _) in new_links(Some(after), before) {
            if let Some(policy) = current.policy_ids.get(policy) {
                write::unlink(transaction, id, *policy).await?;
            }
        }
        let clients = site.clients.iter().filter(|(_, change)| change.after.is_none());
        let clients = clients.filter_map(|(key, _)| current.client_ids.get(key).copied());
        bulk::delete(transaction, "clients", clients).await?;
        let macs = site.macs.iter().filter(|(_, change)| change.after.is_none());
        let macs = macs.filter_map(|(mac, _)| current.mac_ids.get(&(id, *mac)).copied());
        bulk::delete(transaction, "mac_authentication_bypasses", macs).await?;
        if before.name != after.name {
            // Two sites may exchange their names.
            let passing = format!("{} (renamed, {id})", before.name);
            write::update_site(transaction, id, &passing, before.timezone.as_deref()).await?;
        }
    }
    Ok(())
}

/// Policies with their priorities that `site` has and `other` has not, or has elsewhere.
fn new_links<'a>(other: Option<&Site>, site: &'a Site) -> Vec<(&'a str, Option<i64>)> {
    let ordered = site
        .policies
        .iter()
        .map(|(priority, name)| (name.as_str(), Some(*priority)));
    let links = ordered.chain(site.fallback.as_deref().map(|name| (name, None)));
    let known = |name: &str, priority: Option<i64>| {
        other.is_some_and(|other| match priority {
            Some(priority) => other.policies.get(&priority).is_some_and(|known| known == name),
            None => other.fallback.as_deref() == Some(name),
        })
    };
    links.filter(|(name, priority)| !known(name, *priority)).collect()
}

async fn strays(transaction: &mut Transaction, current: &Current) -> sqlx::Result<()> {
    if current.strays.is_empty() {
        return Ok(());
    }
    write::delete_orphans(transaction).await?;
    for stray in &current.strays {
        match stray.table {
            "clients" => write::delete_client(transaction, stray.id).await?,
            "mac_authentication_bypasses" => write::delete_mac(transaction, stray.id).await?,
            _ => {}
        }
    }
    Ok(())
}
