//! Single edits: what `portreeve site`, `client`, `policy` and `mac` do at three in the morning.
//!
//! Each edit is one transaction. It checks all that it touches, as an import would, before anything is in force: what an
//! edit lets through compiles. Running nodes follow within a second.

pub mod clients;
pub mod macs;
pub mod policies;
pub mod sites;

use super::db::{query, query_scalar};
use super::{Revision, Store, StoreError, Transaction, changes};
use crate::policy::lint;

/// What an edit did.
#[derive(Clone, Debug)]
pub struct Edited {
    /// Whether anything is different now, and how.
    pub outcome: Outcome,
    /// The revision that has it.
    pub revision: Revision,
    /// What is probably not meant.
    pub findings: Vec<lint::Finding>,
}

/// How the set differs from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something is there that was not.
    Added,
    /// Something is other than it was.
    Changed,
    /// Something is gone.
    Removed,
    /// It was so already.
    Unchanged,
}

/// Why an edit was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// There is nothing of this name.
    #[error("there is no {what} `{name}`\nhint: {hint}")]
    Unknown {
        /// `site`, `policy` …
        what: &'static str,
        /// As given.
        name: String,
        /// Names that come near, or how to list them.
        hint: String,
    },
    /// It is there already, or in the way.
    #[error("{what}\nhint: {hint}")]
    Conflict {
        /// What stands against it.
        what: String,
        /// What to do.
        hint: String,
    },
    /// It would not compile, or is no valid value; each line with a hint where there is one.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for EditError {
    fn from(error: sqlx::Error) -> EditError {
        EditError::Store(error.into())
    }
}

impl EditError {
    fn invalid(what: impl Into<String>) -> EditError {
        EditError::Invalid(vec![what.into()])
    }

    fn conflict(what: impl Into<String>, hint: impl Into<String>) -> EditError {
        EditError::Conflict {
            what: what.into(),
            hint: hint.into(),
        }
    }
}

async fn commit(
    mut transaction: Transaction,
    outcome: Outcome,
    findings: Vec<lint::Finding>,
) -> Result<Edited, EditError> {
    let revision = changes::revision(&mut transaction).await?;
    transaction.commit().await?;
    Ok(Edited {
        outcome,
        revision,
        findings,
    })
}

/// A site's key by its tag.
async fn site_id(transaction: &mut Transaction, tag: &str) -> Result<i64, EditError> {
    match query_scalar("SELECT id FROM sites WHERE tag = $1")
        .bind(tag)
        .fetch_optional(transaction)
        .await?
    {
        Some(id) => Ok(id),
        None => {
            let tags = query_scalar("SELECT tag FROM sites ORDER BY tag")
                .fetch_all(transaction)
                .await?;
            Err(unknown("site", tag, &tags, "portreeve site list"))
        }
    }
}

/// A policy's key, and whether it is a fallback.
async fn policy_id(transaction: &mut Transaction, name: &str) -> Result<(i64, bool), EditError> {
    let found = query("SELECT id, fallback FROM policies WHERE name = $1");
    match found.bind(name).fetch_optional(transaction).await? {
        Some(found) => Ok(found),
        None => {
            let names = query_scalar("SELECT name FROM policies ORDER BY name")
                .fetch_all(transaction)
                .await?;
            Err(unknown("policy", name, &names, "portreeve policy list"))
        }
    }
}

/// Names that come near are what one meant at three in the morning.
fn unknown(what: &'static str, name: &str, known: &[String], list: &str) -> EditError {
    let wanted = name.to_lowercase();
    let near = |known: &&String| {
        let known = known.to_lowercase();
        let common = known.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
        known.contains(&wanted) || wanted.contains(&known) || common >= 3
    };
    let near: Vec<String> = known
        .iter()
        .filter(near)
        .take(3)
        .map(|name| format!("`{name}`"))
        .collect();
    let hint = match near.is_empty() {
        true => format!("`{list}` shows all"),
        false => format!("perhaps {}; `{list}` shows all", near.join(", ")),
    };
    EditError::Unknown {
        what,
        name: name.to_owned(),
        hint,
    }
}

/// Starts an edit.
async fn begin(store: &Store) -> Result<Transaction, EditError> {
    Ok(store.write().await?)
}
