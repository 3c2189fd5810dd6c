//! Writes a difference, in an order in which no constraint is hurt on the way.

use std::collections::HashMap;

use super::difference::Difference;
use crate::store::db::Transaction;
use crate::store::set::{Current, Site};
use crate::store::write;

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
            (None, Some(policy), _) => {
                policy_ids.insert(name, write::insert_policy(transaction, name, policy).await?);
            }
            (Some(before), Some(after), Some(id)) => write::update_policy(transaction, *id, before, after).await?,
            (_, None, Some(id)) => write::delete_policy(transaction, *id).await?,
            _ => {}
        }
    }
    for (tag, site) in &difference.sites {
        if let (None, Some(after)) = (site.site.before, site.site.after) {
            site_ids.insert(
                tag,
                write::insert_site(transaction, tag, &after.name, after.timezone.as_deref()).await?,
            );
        }
    }
    for (tag, site) in &difference.sites {
        let (Some(after), Some(&id)) = (site.site.after, site_ids.get(tag)) else {
            continue;
        };
        if let Some(before) = site.site.before
            && (&before.name, &before.timezone) != (&after.name, &after.timezone)
        {
            write::update_site(transaction, id, &after.name, after.timezone.as_deref()).await?;
        }
        for (policy, priority) in new_links(site.site.before, after) {
            if let Some(policy) = policy_ids.get(policy) {
                write::link(transaction, id, *policy, priority).await?;
            }
        }
        for (key, change) in &site.clients {
            match (change.before, change.after, current.client_ids.get(key)) {
                (Some(_), Some(client), Some(row)) => write::update_client(transaction, *row, id, *key, client).await?,
                (None, Some(client), _) => write::insert_client(transaction, id, *key, client).await?,
                _ => {}
            }
        }
        for (mac, change) in &site.macs {
            match (change.before, change.after, current.mac_ids.get(&(id, *mac))) {
                (Some(before), Some(after), Some(row)) => write::update_mac(transaction, *row, before, after).await?,
                (None, Some(after), _) => _ = write::insert_mac(transaction, id, *mac, after).await?,
                _ => {}
            }
        }
    }
    Ok(())
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
        for (key, _) in site.clients.iter().filter(|(_, change)| change.after.is_none()) {
            if let Some(row) = current.client_ids.get(key) {
                write::delete_client(transaction, *row).await?;
            }
        }
        for (mac, _) in site.macs.iter().filter(|(_, change)| change.after.is_none()) {
            if let Some(row) = current.mac_ids.get(&(id, *mac)) {
                write::delete_mac(transaction, *row).await?;
            }
        }
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
