//! The rows of a policy set, written one by one, inside a transaction of the caller's. Shared by import and single edits;
//! [`super::bulk`] inserts.

use super::bulk::{self, Owner};
use super::db::{Query, Transaction, query, query_scalar};
use super::set::{Client, ClientKey, Mac, Policy};
use super::time;
use crate::mac::MacAddress;

pub(super) async fn insert_policy(transaction: &mut Transaction, name: &str, policy: &Policy) -> sqlx::Result<()> {
    bulk::insert_policies(transaction, &[(name, policy)]).await?;
    Ok(())
}

/// Writes what differs.
pub(super) async fn update_policy(
    transaction: &mut Transaction,
    id: i64,
    before: &Policy,
    after: &Policy,
) -> sqlx::Result<()> {
    let row = |policy: &Policy| {
        (
            policy.description.clone(),
            policy.fallback,
            policy.action.clone(),
            policy.methods.clone(),
        )
    };
    if row(before) != row(after) {
        query("UPDATE policies SET description = $1, fallback = $2, action = $3, methods = $4 WHERE id = $5")
            .bind(bulk::none_if_empty(&after.description))
            .bind(after.fallback)
            .bind(&after.action)
            .bind((!after.methods.is_empty()).then(|| after.methods.join(",")))
            .bind(id)
            .execute(transaction)
            .await?;
    }
    if before.rules != after.rules {
        query("DELETE FROM rules WHERE policy_id = $1")
            .bind(id)
            .execute(transaction)
            .await?;
        bulk::insert_rules(transaction, after.rules.iter().map(|rule| (id, rule))).await?;
    }
    if before.responses != after.responses {
        query("DELETE FROM responses WHERE policy_id = $1")
            .bind(id)
            .execute(transaction)
            .await?;
        bulk::insert_responses(transaction, bulk::numbered(Owner::Policy(id), &after.responses)).await?;
    }
    Ok(())
}

pub(super) async fn delete_policy(transaction: &mut Transaction, id: i64) -> sqlx::Result<()> {
    execute(transaction, "DELETE FROM policies WHERE id = $1", id).await
}

pub(super) async fn insert_site(
    transaction: &mut Transaction,
    tag: &str,
    name: &str,
    timezone: Option<&str>,
) -> sqlx::Result<i64> {
    query_scalar("INSERT INTO sites (tag, name, timezone) VALUES ($1, $2, $3) RETURNING id")
        .bind(tag)
        .bind(name)
        .bind(timezone)
        .fetch_one(transaction)
        .await
}

pub(super) async fn update_site(
    transaction: &mut Transaction,
    id: i64,
    name: &str,
    timezone: Option<&str>,
) -> sqlx::Result<()> {
    query("UPDATE sites SET name = $1, timezone = $2 WHERE id = $3")
        .bind(name)
        .bind(timezone)
        .bind(id)
        .execute(transaction)
        .await?;
    Ok(())
}

/// With all that belongs to it.
pub(super) async fn delete_site(transaction: &mut Transaction, id: i64) -> sqlx::Result<()> {
    execute(transaction, "DELETE FROM sites WHERE id = $1", id).await
}

pub(super) async fn link(
    transaction: &mut Transaction,
    site: i64,
    policy: i64,
    priority: Option<i64>,
) -> sqlx::Result<()> {
    bulk::insert_links(transaction, [(site, policy, priority)]).await
}

pub(super) async fn unlink(transaction: &mut Transaction, site: i64, policy: i64) -> sqlx::Result<()> {
    query("DELETE FROM site_policies WHERE site_id = $1 AND policy_id = $2")
        .bind(site)
        .bind(policy)
        .execute(transaction)
        .await?;
    Ok(())
}

pub(super) async fn insert_client(
    transaction: &mut Transaction,
    site: i64,
    key: ClientKey,
    client: &Client,
) -> sqlx::Result<()> {
    bulk::insert_clients(transaction, [(site, key, client)]).await
}

pub(super) async fn update_client(
    transaction: &mut Transaction,
    id: i64,
    site: i64,
    key: ClientKey,
    client: &Client,
) -> sqlx::Result<()> {
    let sql = "UPDATE clients SET site_id = $1, ip_range = $2, radsec = $3, shared_secret = $4, \
               require_message_authenticator = $5, limit_proxy_state = $6, min_tls = $7, max_tls = $8, fragment_size = $9, \
               mab_password = $10, mab_identity = $11 WHERE id = $12";
    let columns = bulk::client_columns(site, key, client);
    let statement = columns.into_iter().fold(query(sql), Query::bind);
    statement.bind(id).execute(transaction).await?;
    Ok(())
}

pub(super) async fn delete_client(transaction: &mut Transaction, id: i64) -> sqlx::Result<()> {
    execute(transaction, "DELETE FROM clients WHERE id = $1", id).await
}

pub(super) async fn insert_mac(
    transaction: &mut Transaction,
    site: i64,
    address: MacAddress,
    mac: &Mac,
) -> sqlx::Result<()> {
    bulk::insert_macs(transaction, [(site, address, mac)]).await
}

/// Writes what differs.
pub(super) async fn update_mac(transaction: &mut Transaction, id: i64, before: &Mac, after: &Mac) -> sqlx::Result<()> {
    let row = |mac: &Mac| (mac.name.clone(), mac.description.clone(), mac.valid_until);
    if row(before) != row(after) {
        query("UPDATE mac_authentication_bypasses SET name = $1, description = $2, valid_until = $3 WHERE id = $4")
            .bind(bulk::none_if_empty(&after.name))
            .bind(bulk::none_if_empty(&after.description))
            .bind(after.valid_until.map(time::display))
            .bind(id)
            .execute(transaction)
            .await?;
    }
    if before.responses != after.responses {
        execute(
            transaction,
            "DELETE FROM responses WHERE mac_authentication_bypass_id = $1",
            id,
        )
        .await?;
        bulk::insert_responses(transaction, bulk::numbered(Owner::Mac(id), &after.responses)).await?;
    }
    Ok(())
}

pub(super) async fn delete_mac(transaction: &mut Transaction, id: i64) -> sqlx::Result<()> {
    execute(transaction, "DELETE FROM mac_authentication_bypasses WHERE id = $1", id).await
}

/// Deletes rows that belong to nothing.
pub(super) async fn delete_orphans(transaction: &mut Transaction) -> sqlx::Result<()> {
    for sql in [
        "DELETE FROM site_policies WHERE site_id NOT IN (SELECT id FROM sites) OR policy_id NOT IN (SELECT id FROM policies)",
        "DELETE FROM clients WHERE site_id NOT IN (SELECT id FROM sites)",
        "DELETE FROM mac_authentication_bypasses WHERE site_id NOT IN (SELECT id FROM sites)",
        "DELETE FROM rules WHERE policy_id NOT IN (SELECT id FROM policies)",
        "DELETE FROM responses WHERE policy_id NOT IN (SELECT id FROM policies) \
         OR mac_authentication_bypass_id NOT IN (SELECT id FROM mac_authentication_bypasses)",
    ] {
        query(sql).execute(transaction).await?;
    }
    Ok(())
}

async fn execute(transaction: &mut Transaction, sql: &'static str, id: i64) -> sqlx::Result<()> {
    query(sql).bind(id).execute(transaction).await?;
    Ok(())
}
