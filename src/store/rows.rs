//! Rows as the database has them, not yet checked, and the queries that read them.
//!
//! Each table takes one query, whose rows are taken as they come, so that a set with a million addresses is never in memory
//! as rows. Text that is no UTF-8 (SQLite takes any octets) is read with replacement characters: it then fails to compile,
//! and nothing else. What a `key` sealed on its way to the disk is opened under it.

use std::collections::HashMap;

use zeroize::Zeroizing;

use super::db::{Row, Transaction, query_of};
use super::saved::Key;
use crate::policy::model::{ResponseRow, Rule};

/// A row of `sites`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Its key.
    pub id: i64,
    /// For people.
    pub name: String,
    /// Short and unique: `Client-Shortname` in rules, and what commands name a site by.
    pub tag: String,
    /// IANA name; none: the configuration's.
    pub timezone: Option<String>,
}

/// A row of `clients`.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    /// Its key.
    pub id: i64,
    /// Whose it is.
    pub site_id: i64,
    /// CIDR text.
    pub ip_range: String,
    /// As configured on the switch.
    pub shared_secret: Zeroizing<String>,
    /// Over TLS rather than UDP.
    pub radsec: bool,
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

/// A row of `policies`, without its rules and responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Its key.
    pub id: i64,
    /// Unique.
    pub name: String,
    /// For people.
    pub description: String,
    /// Decides where no other policy of a site matches.
    pub fallback: bool,
    /// `accept` or `reject`.
    pub action: String,
    /// Words with commas between.
    pub methods: String,
}

/// A row of `site_policies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The site.
    pub site_id: i64,
    /// The policy.
    pub policy_id: i64,
    /// Lower is tried first; none for a fallback.
    pub priority: Option<i64>,
}

/// A row of `mac_authentication_bypasses`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mac {
    /// Its key.
    pub id: i64,
    /// Whose it is.
    pub site_id: i64,
    /// In any spelling.
    pub address: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// The last second of validity, as text.
    pub valid_until: Option<String>,
}

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// What belongs to one site.
    Site(i64),
}

/// Sites.
pub(super) async fn sites(transaction: &mut Transaction, scope: Scope) -> sqlx::Result<Vec<Site>> {
    let mut sites = Vec::new();
    let table = Table {
        columns: "t.id, t.name, t.tag, t.timezone",
        from: "sites t",
        of_site: "t.id = $1",
    };
    table
        .each(transaction, scope, |row| {
            sites.push(Site {
                id: row.get(0)?,
                name: row.text(1)?,
                tag: row.text(2)?,
                timezone: row.optional_text(3)?,
            });
            Ok(())
        })
        .await?;
    Ok(sites)
}

/// Clients.
pub(super) async fn clients(transaction: &mut Transaction, scope: Scope) -> sqlx::Result<Vec<Client>> {
    let mut clients = Vec::new();
    each_client(transaction, scope, None, |client| {
        clients.push(client);
        Ok(())
    })
    .await?;
    Ok(clients)
}

/// Clients, one after the other: a row takes more memory than what becomes of it.
pub(super) async fn each_client(
    transaction: &mut Transaction,
    scope: Scope,
    key: Option<&Key>,
    mut each: impl FnMut(Client) -> sqlx::Result<()>,
) -> sqlx::Result<()> {
    let table = Table {
        columns: "t.id, t.site_id, t.ip_range, t.shared_secret, t.radsec, t.require_message_authenticator, t.limit_proxy_state, \
                  t.min_tls, t.max_tls, t.fragment_size, t.mab_password, t.mab_identity",
        from: "clients t",
        of_site: "t.site_id = $1",
    };
    table
        .each(transaction, scope, |row| {
            each(Client {
                id: row.get(0)?,
                site_id: row.get(1)?,
                ip_range: row.text(2)?,
                shared_secret: Key::opened(key, row.text(3)?)?,
                radsec: row.get(4)?,
                require_message_authenticator: row.get(5)?,
                limit_proxy_state: row.get(6)?,
                min_tls: row.optional_text(7)?,
                max_tls: row.optional_text(8)?,
                fragment_size: row.get(9)?,
                mab_password: Key::opened(key, row.text(10)?)?,
                mab_identity: row.text(11)?,
            })
        })
        .await
}

/// Policies; of a site: those that it uses.
pub(super) async fn policies(transaction: &mut Transaction, scope: Scope) -> sqlx::Result<Vec<Policy>> {
    let mut policies = Vec::new();
    let table = Table {
        columns: "t.id, t.name, t.description, t.fallback, t.action, t.methods",
        from: "policies t",
        of_site: "t.id IN (SELECT policy_id FROM site_policies WHERE site_id = $1)",
    };
    table
        .each(transaction, scope, |row| {
            policies.push(Policy {
                id: row.get(0)?,
                name: row.text(1)?,
                description: row.optional_text(2)?.unwrap_or_default(),
                fallback: row.get(3)?,
                action: row.text(4)?,
                methods: row.optional_text(5)?.unwrap_or_default(),
            });
            Ok(())
        })
        .await?;
    Ok(policies)
}

/// Which sites use which policies, by site and then in the order of evaluation, fallbacks without priority first.
pub(super) async fn links(transaction: &mut Transaction, scope: Scope) -> sqlx::Result<Vec<Link>> {
    let order = "ORDER BY site_id, priority NULLS FIRST, policy_id";
    let columns = "SELECT site_id, policy_id, priority FROM site_policies";
    let query = match scope {
        Scope::All => query_of(format!("{columns} {order}")),
        Scope::Site(id) => query_of(format!("{columns} WHERE site_id = $1 {order}")).bind(id),
    };
    let link = |(site_id, policy_id, priority)| Link {
        site_id,
        policy_id,
        priority,
    };
    Ok(query.fetch_all(transaction).await?.into_iter().map(link).collect())
}

/// Rules with their policy's key, in the order of their own keys.
pub(super) async fn rules(transaction: &mut Transaction, scope: Scope) -> sqlx::Result<Vec<(i64, Rule)>> {
    let mut rules = Vec::new();
    let table = Table {
        columns: "t.id, t.policy_id, t.request_attribute, t.operator, t.value",
        from: "rules t",
        of_site: "t.policy_id IN (SELECT policy_id FROM site_policies WHERE site_id = $1)",
    };
    table
        .each(transaction, scope, |row| {
            let rule = Rule {
                attribute: row.text(2)?,
                operator: row.text(3)?,
                value: row.text(4)?,
            };
            rules.push((row.get(1)?, rule));
            Ok(())
        })
        .await?;
    Ok(rules)
}

/// Responses of policies with their policy's key, by policy and in the order of the reply.
pub(super) async fn policy_responses(
    transaction: &mut Transaction,
    scope: Scope,
    key: Option<&Key>,
) -> sqlx::Result<Vec<(i64, ResponseRow)>> {
    let mut responses: Vec<(i64, i64, ResponseRow)> = Vec::new();
    let table = Table {
        columns: "t.id, t.policy_id, t.response_attribute, t.value, t.position",
        from: "responses t WHERE t.policy_id IS NOT NULL",
        of_site: "t.policy_id IN (SELECT policy_id FROM site_policies WHERE site_id = $1)",
    };
    table
        .each(transaction, scope, |row| {
            let response = ResponseRow {
                attribute: row.text(2)?,
                value: Key::opened(key, row.text(3)?)?.to_string(),
            };
            responses.push((row.get(1)?, row.get(4)?, response));
            Ok(())
        })
        .await?;
    // Stable: equal positions stay in the order of their ids.
    responses.sort_by_key(|&(owner, position, _)| (owner, position));
    Ok(responses
        .into_iter()
        .map(|(owner, _, response)| (owner, response))
        .collect())
}

/// Listed MAC addresses with their responses.
pub(super) async fn macs_with_responses(
    transaction: &mut Transaction,
    scope: Scope,
    mut each: impl FnMut(Mac, Vec<ResponseRow>),
) -> sqlx::Result<()> {
    let mut responses = HashMap::new();
    mac_responses(transaction, scope, None, |owner, rows| {
        _ = responses.insert(owner, rows)
    })
    .await?;
    macs(transaction, scope, |mac| {
        let own = responses.remove(&mac.id).unwrap_or_default();
        each(mac, own);
    })
    .await
}

/// Listed MAC addresses, one after the other as they come: there may be a million.
pub(super) async fn macs(transaction: &mut Transaction, scope: Scope, mut each: impl FnMut(Mac)) -> sqlx::Result<()> {
    let table = Table {
        columns: "t.id, t.site_id, t.address, t.name, t.description, t.valid_until",
        from: "mac_authentication_bypasses t",
        of_site: "t.site_id = $1",
    };
    table
        .each(transaction, scope, |row| {
            each(Mac {
                id: row.get(0)?,
                site_id: row.get(1)?,
                address: row.text(2)?,
                name: row.optional_text(3)?.unwrap_or_default(),
                description: row.optional_text(4)?.unwrap_or_default(),
                valid_until: row.optional_text(5)?,
            });
            Ok(())
        })
        .await
}

/// Responses of listed addresses, each address's together and in the order of the reply.
pub(super) async fn mac_responses(
    transaction: &mut Transaction,
    scope: Scope,
    key: Option<&Key>,
    mut each: impl FnMut(i64, Vec<ResponseRow>),
) -> sqlx::Result<()> {
    let columns = "SELECT mac_authentication_bypass_id, response_attribute, value FROM responses";
    let order = "ORDER BY mac_authentication_bypass_id, position, id";
    let query = match scope {
        Scope::All => query_of(format!(
            "{columns} WHERE mac_authentication_bypass_id IS NOT NULL {order}"
        )),
        Scope::Site(id) => query_of(format!(
            "{columns} WHERE mac_authentication_bypass_id IN \
             (SELECT id FROM mac_authentication_bypasses WHERE site_id = $1) {order}"
        ))
        .bind(id),
    };
    let mut group: (i64, Vec<ResponseRow>) = (0, Vec::new());
    query
        .each(transaction, |row| {
            let owner = row.get(0)?;
            if owner != group.0 && !group.1.is_empty() {
                each(group.0, std::mem::take(&mut group.1));
            }
            group.0 = owner;
            group.1.push(ResponseRow {
                attribute: row.text(1)?,
                value: Key::opened(key, row.text(2)?)?.to_string(),
            });
            Ok(())
        })
        .await?;
    if !group.1.is_empty() {
        each(group.0, group.1);
    }
    Ok(())
}

/// A table `t` to read.
struct Table {
    columns: &'static str,
    /// The table, perhaps with a condition.
    from: &'static str,
    of_site: &'static str,
}

impl Table {
    /// Its rows by `t.id`, one query for all of them.
    async fn each(
        &self,
        transaction: &mut Transaction,
        scope: Scope,
        each: impl FnMut(&Row) -> sqlx::Result<()>,
    ) -> sqlx::Result<()> {
        let (columns, from) = (self.columns, self.from);
        let and = if from.contains(" WHERE ") { "AND" } else { "WHERE" };
        let query = match scope {
            Scope::All => query_of(format!("SELECT {columns} FROM {from} ORDER BY t.id")),
            Scope::Site(id) => query_of(format!(
                "SELECT {columns} FROM {from} {and} {} ORDER BY t.id",
                self.of_site
            ))
            .bind(id),
        };
        query.each(transaction, each).await
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("site_id", &self.site_id)
            .field("ip_range", &self.ip_range)
            .finish_non_exhaustive()
    }
}

impl std::hash::Hash for Client {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let Client {
            id,
            site_id,
            ip_range,
            shared_secret,
            radsec,
            require_message_authenticator,
            limit_proxy_state,
            min_tls,
            max_tls,
            fragment_size,
            mab_password,
            mab_identity,
        } = self;
        (
            id,
            site_id,
            ip_range,
            shared_secret.as_str(),
            radsec,
            require_message_authenticator,
        )
            .hash(state);
        (
            limit_proxy_state,
            min_tls,
            max_tls,
            fragment_size,
            mab_password.as_str(),
            mab_identity,
        )
            .hash(state);
    }
}
