//! The revision feed: where the database is, and what moved since.

use std::collections::BTreeSet;

use super::db::{Transaction, query, query_scalar};
use super::{Revision, StoreError, postgres};
use crate::clients::SiteId;

/// What moved between two revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// More than is recorded, or another epoch: read everything.
    All,
    /// These sites' rows.
    Some(Touched),
}

/// Sites whose rows moved, by what has to be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Rows of `clients`.
    pub clients: BTreeSet<SiteId>,
    /// Rows of `sites`, `policies`, `site_policies`, `rules`, and the policies' `responses`.
    pub policies: BTreeSet<SiteId>,
    /// Rows of `mac_authentication_bypasses` and their `responses`.
    pub macs: BTreeSet<SiteId>,
}

/// What PostgreSQL's triggers write for a table's name where more sites moved than are worth naming.
const EVERYTHING: &str = "all";

/// The database's revision.
pub(crate) async fn revision(transaction: &mut Transaction) -> Result<Revision, StoreError> {
    let sql = match transaction {
        Transaction::Sqlite(_) => "SELECT epoch, number, NULL FROM revision",
        Transaction::Postgres(_) => postgres::REVISION,
    };
    let row: Option<(String, i64, Option<String>)> = query(sql).fetch_optional(transaction).await?;
    match row.ok_or(StoreError::NoRevision)? {
        (.., Some(mark)) if mark.is_empty() => Err(StoreError::Restoring),
        (epoch, number, restored) => Ok(Revision::of_row(epoch, number, restored)),
    }
}

/// What moved after `since`, up to `now`: both of one epoch, and `since` the smaller.
pub(crate) async fn between(
    transaction: &mut Transaction,
    since: &Revision,
    now: &Revision,
) -> Result<Changes, StoreError> {
    if since.epoch != now.epoch || since.number > now.number {
        return Ok(Changes::All);
    }
    let since = i64::try_from(since.number).unwrap_or(i64::MAX);
    // Each step must be there: a missing one was pruned, or somebody moved the number by hand.
    let steps: i64 = query_scalar("SELECT count(DISTINCT revision) FROM changes WHERE revision > $1")
        .bind(since)
        .fetch_one(transaction)
        .await?;
    if i64::try_from(now.number).unwrap_or(i64::MAX).checked_sub(since) != Some(steps) {
        return Ok(Changes::All);
    }
    let rows: Vec<(String, Option<i64>)> =
        query("SELECT DISTINCT table_name, site_id FROM changes WHERE revision > $1")
            .bind(since)
            .fetch_all(transaction)
            .await?;
    let mut touched = Touched::default();
    for (table, site) in rows {
        if table == EVERYTHING {
            return Ok(Changes::All);
        }
        // A row that no site uses changes no decision.
        let Some(site) = site.map(SiteId) else { continue };
        match table.as_str() {
            "clients" => _ = touched.clients.insert(site),
            "mac_authentication_bypasses" => _ = touched.macs.insert(site),
            "policies" | "site_policies" | "rules" => _ = touched.policies.insert(site),
            // A site's own row also says whether its clients and addresses belong to anybody.
            "sites" => {
                touched.clients.insert(site);
                touched.policies.insert(site);
                touched.macs.insert(site);
            }
            // Of a policy or of an address: the row says which, if it is still there.
            "responses" => {
                touched.policies.insert(site);
                touched.macs.insert(site);
            }
            _ => return Ok(Changes::All),
        }
    }
    Ok(Changes::Some(touched))
}
