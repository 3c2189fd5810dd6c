//! The tables of a set, copied row by row from one database to another.

use zeroize::Zeroizing;

use super::Key;
use crate::store::db::{Row, Transaction, Value, query_of};
use crate::store::{StoreError, bulk};

/// A column's type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Flag,
    Text,
    /// A text that is sealed on the way.
    Secret,
}

use Kind::{Flag, Integer, Secret, Text};

/// Name and columns, the key first.
type Table = (&'static str, &'static [(&'static str, Kind)]);

const TABLES: &[Table] = &[
    (
        "sites",
        &[("id", Integer), ("name", Text), ("tag", Text), ("timezone", Text)],
    ),
    (
        "clients",
        &[
            ("id", Integer),
            ("site_id", Integer),
            ("ip_range", Text),
            ("shared_secret", Secret),
            ("radsec", Flag),
            ("require_message_authenticator", Flag),
            ("limit_proxy_state", Flag),
            ("min_tls", Text),
            ("max_tls", Text),
            ("fragment_size", Integer),
            ("mab_password", Secret),
            ("mab_identity", Text),
        ],
    ),
    (
        "policies",
        &[
            ("id", Integer),
            ("name", Text),
            ("description", Text),
            ("fallback", Flag),
            ("action", Text),
            ("methods", Text),
        ],
    ),
    (
        "rules",
        &[
            ("id", Integer),
            ("policy_id", Integer),
            ("request_attribute", Text),
            ("operator", Text),
            ("value", Text),
        ],
    ),
    (
        "mac_authentication_bypasses",
        &[
            ("id", Integer),
            ("site_id", Integer),
            ("address", Text),
            ("name", Text),
            ("description", Text),
            ("valid_until", Text),
        ],
    ),
    (
        "responses",
        &[
            ("id", Integer),
            ("policy_id", Integer),
            ("mac_authentication_bypass_id", Integer),
            ("response_attribute", Text),
            // Of a Tunnel-Password, say.
            ("value", Secret),
            ("position", Integer),
        ],
    ),
    (
        "site_policies",
        &[("site_id", Integer), ("policy_id", Integer), ("priority", Integer)],
    ),
];

/// Rows of a page, which are in memory at a time and become one statement.
const ROWS: usize = bulk::MOST_ROWS;

/// Copies all rows. Secrets are sealed under `key`.
pub(super) async fn copy(source: &mut Transaction, target: &mut Transaction, key: &Key) -> Result<(), StoreError> {
    for table in TABLES {
        let mut after = i64::MIN;
        loop {
            let (rows, last) = page(source, table, after).await?;
            if rows.is_empty() {
                break;
            }
            insert(target, table, rows, key).await?;
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
    }
    Ok(())
}

/// The rows of one page, those with keys above `after`; and the last key, if there may be more. Keys that repeat
/// (`site_policies` has a site's) are never parted.
async fn page(
    source: &mut Transaction,
    (name, columns): &Table,
    after: i64,
) -> Result<(Vec<Vec<Value<'static>>>, Option<i64>), StoreError> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let (names, key) = (names.join(", "), names.first().copied().unwrap_or_default());
    let of_page = format!(
        "SELECT max({key}) FROM (SELECT {key} FROM {name} WHERE {key} > $1 ORDER BY {key} LIMIT {ROWS}) AS page"
    );
    let last: Option<(Option<i64>,)> = query_of(of_page).bind(after).fetch_optional(source).await?;
    let Some((Some(last),)) = last else {
        return Ok((Vec::new(), None));
    };
    let mut rows = Vec::new();
    query_of(format!(
        "SELECT {names} FROM {name} WHERE {key} > $1 AND {key} <= $2 ORDER BY {key}"
    ))
    .bind(after)
    .bind(last)
    .each(source, |row| {
        let values = columns.iter().enumerate().map(|(at, (_, kind))| value(row, at, *kind));
        rows.push(values.collect::<sqlx::Result<_>>()?);
        Ok(())
    })
    .await?;
    Ok((rows, Some(last)))
}

fn value(row: &Row, at: usize, kind: Kind) -> sqlx::Result<Value<'static>> {
    Ok(match kind {
        Integer => row.get::<Option<i64>>(at)?.into(),
        Flag => row.get::<bool>(at)?.into(),
        Text | Secret => row.optional_text(at)?.into(),
    })
}

async fn insert(
    target: &mut Transaction,
    (name, columns): &Table,
    mut rows: Vec<Vec<Value<'static>>>,
    key: &Key,
) -> Result<(), StoreError> {
    for row in &mut rows {
        for (value, (_, kind)) in row.iter_mut().zip(columns.iter()) {
            if let (Secret, Value::Text(Some(text))) = (*kind, &mut *value) {
                let clear = Zeroizing::new(std::mem::take(text.to_mut()));
                *text = key.seal(&clear)?.into();
            }
        }
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let sql = format!("INSERT INTO {name} ({})", names.join(", "));
    bulk::insert_rows(target, &sql, columns.len(), rows.into_iter()).await?;
    Ok(())
}
