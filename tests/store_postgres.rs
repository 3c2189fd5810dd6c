//! The store through its public interface and plain SQL, on a private PostgreSQL: what `store.rs` runs on SQLite, and what is
//! PostgreSQL's alone.
#![cfg(feature = "server")]

#[path = "store/directory.rs"]
mod directory;
#[path = "store/document.rs"]
mod document;
#[path = "store/edit.rs"]
mod edit;
#[cfg(test)]
#[path = "store/postgres/edits.rs"]
mod edits;
#[path = "store/equivalence.rs"]
mod equivalence;
#[cfg(test)]
#[path = "store/postgres/history.rs"]
mod history;
#[path = "store/large.rs"]
mod large;
#[cfg(test)]
#[path = "store/postgres/migrating.rs"]
mod migrating;
#[path = "store/older.rs"]
mod older;
#[cfg(test)]
#[path = "store/postgres/pooler.rs"]
mod pooler;
#[cfg(test)]
#[path = "common/postgres.rs"]
mod postgres;
#[cfg(test)]
#[path = "store/postgres/reading.rs"]
mod reading;
#[path = "store/schema.rs"]
mod schema;
#[path = "store/seed.rs"]
mod seed;
#[path = "store/support.rs"]
mod support;
#[cfg(test)]
#[path = "store/postgres/transactions.rs"]
mod transactions;

const BACKEND: support::Backend = support::Backend::Postgres;
