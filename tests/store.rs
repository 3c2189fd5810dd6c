//! The store through its public interface and plain SQL, on SQLite files of their own. `store_postgres.rs` runs the same on
//! PostgreSQL.
#![cfg(feature = "server")]

#[path = "store/directory.rs"]
mod directory;
#[path = "store/document.rs"]
mod document;
#[path = "store/edit.rs"]
mod edit;
#[path = "store/equivalence.rs"]
mod equivalence;
#[path = "store/large.rs"]
mod large;
#[path = "store/older.rs"]
mod older;
#[cfg(test)]
#[path = "common/postgres.rs"]
mod postgres;
#[path = "store/schema.rs"]
mod schema;
#[path = "store/seed.rs"]
mod seed;
#[path = "store/sqlite.rs"]
mod sqlite;
#[path = "store/support.rs"]
mod support;

const BACKEND: support::Backend = support::Backend::Sqlite;
