//! Many rows of one table by one statement. A row by itself costs a round trip to the database, and in PostgreSQL a run of
//! the triggers that note what moved.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::db::{Query, Transaction, Value, query_of};
use super::set::{Client, ClientKey, Mac, Policy};
use super::time;
use crate::mac::MacAddress;
use crate::policy::model::{ResponseRow, Rule};

/// Rows of one statement. The widest has 12 columns, so 12,288 values: SQLite takes 32,766, PostgreSQL 65,535.
pub(super) const MOST_ROWS: usize = 1_024;

/// Whose response it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// A policy's.
    Policy(i64),
    /// A listed address's.
    Mac(i64),
}

/// Inserts policies with their rules and responses, and gives their keys by name.
pub(super) async fn insert_policies(
    transaction: &mut Transaction,
    policies: &[(&str, &Policy)],
) -> sqlx::Result<HashMap<String, i64>> {
    let mut ids = HashMap::with_capacity(policies.len());
    for policies in policies.chunks(MOST_ROWS) {
        let rows = policies.iter().map(|(name, policy)| {
            [
                (*name).into(),
                none_if_empty(&policy.description).into(),
                policy.fallback.into(),
                policy.action.as_str().into(),
                Value::Text((!policy.methods.is_empty()).then(|| policy.methods.join(",").into())),
            ]
        });
        let sql = "INSERT INTO policies (name, description, fallback, action, methods)";
        let inserted = Statement::of(transaction, sql, rows).returning("id, name");
        ids.extend(
            inserted
                .fetch_all::<(i64, String)>(transaction)
                .await?
                .into_iter()
                .map(|(id, name)| (name, id)),
        );
    }
    // Names are unique, and what was inserted was returned.
    let found = |name: &str| ids.get(name).copied().ok_or(sqlx::Error::RowNotFound);
    let (mut rules, mut responses) = (Vec::new(), Vec::new());
    for (name, policy) in policies {
        let id = found(name)?;
        rules.extend(policy.rules.iter().map(|rule| (id, rule)));
        responses.extend(numbered(Owner::Policy(id), &policy.responses));
    }
    insert_rules(transaction, rules).await?;
    insert_responses(transaction, responses).await?;
    Ok(ids)
}

/// Inserts rules, each with its policy's key.
pub(super) async fn insert_rules(
    transaction: &mut Transaction,
    rules: impl IntoIterator<Item = (i64, &Rule)>,
) -> sqlx::Result<()> {
    let rows = rules.into_iter().map(|(policy, rule)| {
        [
            policy.into(),
            (&rule.attribute).into(),
            (&rule.operator).into(),
            (&rule.value).into(),
        ]
    });
    insert(
        transaction,
        "INSERT INTO rules (policy_id, request_attribute, operator, value)",
        rows,
    )
    .await
}

/// The responses of one owner, as [`insert_responses`] takes them.
pub(super) fn numbered(owner: Owner, responses: &[ResponseRow]) -> impl Iterator<Item = (Owner, i64, &ResponseRow)> {
    (0..)
        .zip(responses)
        .map(move |(position, response)| (owner, position, response))
}

/// Inserts responses, each with its owner and position.
pub(super) async fn insert_responses(
    transaction: &mut Transaction,
    responses: impl IntoIterator<Item = (Owner, i64, &ResponseRow)>,
) -> sqlx::Result<()> {
    let rows = responses.into_iter().map(|(owner, position, response)| {
        let (policy, mac) = match owner {
            Owner::Policy(id) => (Some(id), None),
            Owner::Mac(id) => (None, Some(id)),
        };
        [
            policy.into(),
            mac.into(),
            (&response.attribute).into(),
            (&response.value).into(),
            position.into(),
        ]
    });
    let sql = "INSERT INTO responses (policy_id, mac_authentication_bypass_id, response_attribute, value, position)";
    insert(transaction, sql, rows).await
}

/// Inserts sites, each a tag, a name and a time zone, and gives their keys by tag.
pub(super) async fn insert_sites(
    transaction: &mut Transaction,
    sites: &[(&str, &str, Option<&str>)],
) -> sqlx::Result<HashMap<String, i64>> {
    let mut ids = HashMap::with_capacity(sites.len());
    for sites in sites.chunks(MOST_ROWS) {
        let rows = sites
            .iter()
            .map(|(tag, name, timezone)| [(*tag).into(), (*name).into(), (*timezone).into()]);
        let inserted = Statement::of(transaction, "INSERT INTO sites (tag, name, timezone)", rows).returning("id, tag");
        ids.extend(
            inserted
                .fetch_all::<(i64, String)>(transaction)
                .await?
                .into_iter()
                .map(|(id, tag)| (tag, id)),
        );
    }
    Ok(ids)
}

/// Gives sites policies: site, policy and priority.
pub(super) async fn insert_links(
    transaction: &mut Transaction,
    links: impl IntoIterator<Item = (i64, i64, Option<i64>)>,
) -> sqlx::Result<()> {
    let rows = links
        .into_iter()
        .map(|(site, policy, priority)| [site.into(), policy.into(), priority.into()]);
    insert(
        transaction,
        "INSERT INTO site_policies (site_id, policy_id, priority)",
        rows,
    )
    .await
}

/// Inserts clients, each with its site's key.
pub(super) async fn insert_clients(
    transaction: &mut Transaction,
    clients: impl IntoIterator<Item = (i64, ClientKey, &Client)>,
) -> sqlx::Result<()> {
    let rows = clients
        .into_iter()
        .map(|(site, key, client)| client_columns(site, key, client));
    let sql = "INSERT INTO clients (site_id, ip_range, radsec, shared_secret, require_message_authenticator, \
               limit_proxy_state, min_tls, max_tls, fragment_size, mab_password, mab_identity)";
    insert(transaction, sql, rows).await
}

/// A client's columns but its key, in the order in which statements name them.
pub(super) fn client_columns(site: i64, key: ClientKey, client: &Client) -> [Value<'_>; 11] {
    [
        site.into(),
        key.network.to_string().into(),
        key.radsec.into(),
        client.secret.as_str().into(),
        client.require_message_authenticator.into(),
        client.limit_proxy_state.into(),
        client.min_tls.as_deref().into(),
        client.max_tls.as_deref().into(),
        client.fragment_size.into(),
        client.mab_password.as_str().into(),
        client.mab_identity.as_str().into(),
    ]
}

/// Inserts listed addresses with their responses, each with its site's key.
pub(super) async fn insert_macs(
    transaction: &mut Transaction,
    macs: impl IntoIterator<Item = (i64, MacAddress, &Mac)>,
) -> sqlx::Result<()> {
    let mut macs = macs.into_iter();
    loop {
        let batch: Vec<_> = macs.by_ref().take(MOST_ROWS).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let rows = batch.iter().map(|(site, address, mac)| {
            [
                (*site).into(),
                address.to_string().into(),
                none_if_empty(&mac.name).into(),
                none_if_empty(&mac.description).into(),
                mac.valid_until.map(time::display).into(),
            ]
        });
        let sql = "INSERT INTO mac_authentication_bypasses (site_id, address, name, description, valid_until)";
        let statement = Statement::of(transaction, sql, rows);
        if batch.iter().all(|(.., mac)| mac.responses.is_empty()) {
            statement.execute(transaction).await?;
            continue;
        }
        let inserted = statement
            .returning("id, site_id, address")
            .fetch_all::<(i64, i64, String)>(transaction)
            .await?;
        let ids: HashMap<(i64, String), i64> = inserted
            .into_iter()
            .map(|(id, site, address)| ((site, address), id))
            .collect();
        let mut responses = Vec::new();
        for (site, address, mac) in batch {
            let id = ids.get(&(site, address.to_string())).ok_or(sqlx::Error::RowNotFound)?;
            responses.extend(numbered(Owner::Mac(*id), &mac.responses));
        }
        insert_responses(transaction, responses).await?;
    }
}

/// Deletes the rows of a table that have these keys.
pub(super) async fn delete(
    transaction: &mut Transaction,
    table: &'static str,
    ids: impl IntoIterator<Item = i64>,
) -> sqlx::Result<()> {
    let mut ids = ids.into_iter().fuse();
    loop {
        let batch: Vec<_> = ids.by_ref().take(MOST_ROWS).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let mut sql = format!("DELETE FROM {table} WHERE id IN (");
        for at in 0..batch.len() {
            sql.push_str(if at == 0 { "" } else { ", " });
            place(transaction, at, &mut sql);
        }
        sql.push(')');
        let statement = batch.into_iter().fold(query_of(sql), Query::bind);
        statement.execute(transaction).await?;
    }
}

/// Inserts all rows; `sql` ends before `VALUES`.
async fn insert<'q, const COLUMNS: usize>(
    transaction: &mut Transaction,
    sql: &'static str,
    rows: impl Iterator<Item = [Value<'q>; COLUMNS]>,
) -> sqlx::Result<()> {
    insert_rows(transaction, sql, COLUMNS, rows).await
}

/// Inserts all rows, each of so many columns; `sql` ends before `VALUES`.
pub(super) async fn insert_rows<'q>(
    transaction: &mut Transaction,
    sql: &str,
    columns: usize,
    rows: impl Iterator<Item = impl IntoIterator<Item = Value<'q>>>,
) -> sqlx::Result<()> {
    let mut rows = rows.fuse();
    loop {
        let values: Vec<_> = rows.by_ref().take(MOST_ROWS).flatten().collect();
        if values.is_empty() {
            return Ok(());
        }
        Statement::of_values(transaction, sql, columns, values)
            .execute(transaction)
            .await?;
    }
}

/// A statement with rows of values.
struct Statement<'q> {
    sql: String,
    values: Vec<Value<'q>>,
}

impl<'q> Statement<'q> {
    /// `sql` ends before `VALUES`.
    fn of<const COLUMNS: usize>(
        transaction: &Transaction,
        sql: &str,
        rows: impl Iterator<Item = [Value<'q>; COLUMNS]>,
    ) -> Statement<'q> {
        Statement::of_values(transaction, sql, COLUMNS, rows.flatten().collect())
    }

    /// The same, of rows that are one after the other already.
    fn of_values(transaction: &Transaction, sql: &str, columns: usize, values: Vec<Value<'q>>) -> Statement<'q> {
        let mut text = String::with_capacity(sql.len() + values.len() * 7 + 16);
        text.push_str(sql);
        for at in 0..values.len() {
            text.push_str(match at {
                0 => " VALUES (",
                _ if at.is_multiple_of(columns) => "), (",
                _ => ", ",
            });
            place(transaction, at, &mut text);
        }
        text.push(')');
        Statement { sql: text, values }
    }

    /// Names what is to be known of each row. Databases promise no order for it.
    fn returning(mut self, columns: &str) -> Query<'q> {
        self.sql.push_str(" RETURNING ");
        self.sql.push_str(columns);
        self.query()
    }

    async fn execute(self, transaction: &mut Transaction) -> sqlx::Result<()> {
        self.query().execute(transaction).await?;
        Ok(())
    }

    fn query(self) -> Query<'q> {
        let values = self.values.into_iter();
        values.fold(query_of(self.sql), Query::bind)
    }
}

/// The place of a value, the first is 0. To SQLite `$1` is a name, and of thousands each one is looked for among all.
fn place(transaction: &Transaction, at: usize, text: &mut String) {
    match transaction {
        Transaction::Sqlite(_) => text.push('?'),
        // Writing to a String does not fail.
        Transaction::Postgres(_) => _ = write!(text, "${}", at + 1),
    }
}

/// Columns have NULL where there is no text.
pub(super) fn none_if_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::SqliteStore;

    #[tokio::test]
    async fn places_have_no_names_in_sqlite() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("bulk.db").display());
        let (store, _) = SqliteStore::migrate(&url).await.unwrap();
        let transaction = store.write().await.unwrap();
        let values = (0..4).map(Value::from).collect();
        let statement = Statement::of_values(&transaction, "INSERT INTO t (a, b)", 2, values);
        assert_eq!(statement.sql, "INSERT INTO t (a, b) VALUES (?, ?), (?, ?)");
    }
}
