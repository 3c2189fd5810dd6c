//! The rows of a policy set, written one by one, inside a transaction of the caller's. Shared by import and single edits.

use super::db::{Transaction, query, query_scalar};
use super::set::{Client, ClientKey, Mac, Policy};
use super::time;
use crate::mac::MacAddress;
use crate::policy::model::{ResponseRow, Rule};

pub(super) async fn insert_policy(transaction: &mut Transaction, name: &str, policy: &Policy) -> sqlx::Result<i64> {
    let id = query_scalar(
        "INSERT INTO policies (name, description, fallback, action, methods) VALUES ($1, $2, $3, $4, $5) RETURNING id",
    )
    .bind(name)
    .bind(none_if_empty(&policy.description))
    .bind(policy.fallback)
    .bind(&policy.action)
    .bind(none_if_empty(&policy.methods.join(",")))
    .fetch_one(transaction)
    .await?;
    insert_rules(transaction, id, &policy.rules).await?;
    insert_responses(transaction, Owner::Policy(id), &policy.responses).await?;
    Ok(id)
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
            .bind(none_if_empty(&after.description))
            .bind(after.fallback)
            .bind(&after.action)
            .bind(none_if_empty(&after.methods.join(",")))
            .bind(id)
            .execute(transaction)
            .await?;
    }
    if before.rules != after.rules {
        query("DELETE FROM rules WHERE policy_id = $1")
            .bind(id)
            .execute(transaction)
            .await?;
        insert_rules(transaction, id, &after.rules).await?;
    }
    if before.responses != after.responses {
        query("DELETE FROM responses WHERE policy_id = $1")
            .bind(id)
            .execute(transaction)
            .await?;
        insert_responses(transaction, Owner::Policy(id), &after.responses).await?;
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
    query("INSERT INTO site_policies (site_id, policy_id, priority) VALUES ($1, $2, $3)")
        .bind(site)
        .bind(policy)
        .bind(priority)
        .execute(transaction)
        .await?;
    Ok(())
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
    let sql = "INSERT INTO clients (site_id, ip_range, radsec, shared_secret, require_message_authenticator, limit_proxy_state, \
               min_tls, max_tls, fragment_size, mab_password, mab_identity) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    write_client(transaction, sql, site, key, client, None).await
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
    write_client(transaction, sql, site, key, client, Some(id)).await
}

async fn write_client(
    transaction: &mut Transaction,
    sql: &'static str,
    site: i64,
    key: ClientKey,
    client: &Client,
    id: Option<i64>,
) -> sqlx::Result<()> {
    let query = query(sql)
        .bind(site)
        .bind(key.network.to_string())
        .bind(key.radsec)
        .bind(client.secret.as_str())
        .bind(client.require_message_authenticator)
        .bind(client.limit_proxy_state)
        .bind(client.min_tls.as_deref())
        .bind(client.max_tls.as_deref())
        .bind(client.fragment_size)
        .bind(client.mab_password.as_str())
        .bind(client.mab_identity.as_str());
    let query = match id {
        Some(id) => query.bind(id),
        None => query,
    };
    query.execute(transaction).await?;
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
) -> sqlx::Result<i64> {
    let id = query_scalar(
        "INSERT INTO mac_authentication_bypasses (site_id, address, name, description, valid_until) \
         VALUES ($1, $2, $3, $4, $5) RETURNING id",
    )
    .bind(site)
    .bind(address.to_string())
    .bind(none_if_empty(&mac.name))
    .bind(none_if_empty(&mac.description))
    .bind(mac.valid_until.map(time::display))
    .fetch_one(transaction)
    .await?;
    insert_responses(transaction, Owner::Mac(id), &mac.responses).await?;
    Ok(id)
}

/// Writes what differs.
pub(super) async fn update_mac(transaction: &mut Transaction, id: i64, before: &Mac, after: &Mac) -> sqlx::Result<()> {
    let row = |mac: &Mac| (mac.name.clone(), mac.description.clone(), mac.valid_until);
    if row(before) != row(after) {
        query("UPDATE mac_authentication_bypasses SET name = $1, description = $2, valid_until = $3 WHERE id = $4")
            .bind(none_if_empty(&after.name))
            .bind(none_if_empty(&after.description))
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
        insert_responses(transaction, Owner::Mac(id), &after.responses).await?;
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

#[derive(Clone, Copy)]
enum Owner {
    Policy(i64),
    Mac(i64),
}

async fn insert_rules(transaction: &mut Transaction, policy: i64, rules: &[Rule]) -> sqlx::Result<()> {
    for rule in rules {
        query("INSERT INTO rules (policy_id, request_attribute, operator, value) VALUES ($1, $2, $3, $4)")
            .bind(policy)
            .bind(&rule.attribute)
            .bind(&rule.operator)
            .bind(&rule.value)
            .execute(transaction)
            .await?;
    }
    Ok(())
}

async fn insert_responses(transaction: &mut Transaction, owner: Owner, responses: &[ResponseRow]) -> sqlx::Result<()> {
    let (policy, mac) = match owner {
        Owner::Policy(id) => (Some(id), None),
        Owner::Mac(id) => (None, Some(id)),
    };
    for (position, response) in responses.iter().enumerate() {
        query(
            "INSERT INTO responses (policy_id, mac_authentication_bypass_id, response_attribute, value, position) \
             VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(policy)
        .bind(mac)
        .bind(&response.attribute)
        .bind(&response.value)
        .bind(i64::try_from(position).unwrap_or(i64::MAX))
        .execute(transaction)
        .await?;
    }
    Ok(())
}

async fn execute(transaction: &mut Transaction, sql: &'static str, id: i64) -> sqlx::Result<()> {
    query(sql).bind(id).execute(transaction).await?;
    Ok(())
}

fn none_if_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
