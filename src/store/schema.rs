//! Migrations, embedded in the program, and whether a database's schema is one that this program can serve.
//!
//! A release serves its own schema and the next one's, so that a fleet is migrated while it runs: first the database, then
//! node by node. A migration therefore never takes away what the release before it reads.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnection;

use super::StoreError;
use super::db::{Transaction, query_scalar};

/// Migrations in order: number, what for, SQLite's text, PostgreSQL's.
const MIGRATIONS: &[(i64, &str, &str, &str)] = &[
    (
        1,
        "policy set",
        include_str!("../../migrations/sqlite/0001_policy_set.sql"),
        include_str!("../../migrations/postgres/0001_policy_set.sql"),
    ),
    (
        2,
        "integrity triggers",
        include_str!("../../migrations/sqlite/0002_integrity_triggers.sql"),
        include_str!("../../migrations/postgres/0002_integrity_triggers.sql"),
    ),
    (
        3,
        "revision triggers",
        include_str!("../../migrations/sqlite/0003_revision_triggers.sql"),
        include_str!("../../migrations/postgres/0003_revision_triggers.sql"),
    ),
];

/// The schema that this program writes. It also serves the next one.
pub const VERSION: i64 = 3;

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0 where there was none.
    pub from: i64,
    /// The schema version now.
    pub to: i64,
}

/// The migrations of one of the databases. The caller runs them in a transaction that holds a lock which other migrations wait
/// for: sqlx's own is none on SQLite, and on PostgreSQL it belongs to a session, which a pooler may take away.
pub(super) fn migrator(is_sqlite: bool) -> Migrator {
    let migrations = MIGRATIONS
        .iter()
        .map(|&(version, description, sqlite, postgres)| {
            let sql = if is_sqlite { sqlite } else { postgres };
            Migration::new(
                version,
                description.into(),
                MigrationType::Simple,
                sql.into_sql_str(),
                false,
            )
        })
        .collect();
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.set_locking(false);
    migrator
}

/// Refuses a schema that this program does not know.
pub(super) async fn check(transaction: &mut Transaction) -> Result<(), StoreError> {
    check_version(version(transaction).await?)
}

/// Refuses a version that this program does not know.
pub(super) fn check_version(found: i64) -> Result<(), StoreError> {
    match found {
        found if found < VERSION => Err(StoreError::SchemaTooOld { found }),
        found if found > VERSION + 1 => Err(StoreError::SchemaTooNew { found }),
        _ => Ok(()),
    }
}

/// The database's schema version: 0 where nothing was ever migrated.
pub(super) async fn version(transaction: &mut Transaction) -> Result<i64, StoreError> {
    let tables = match transaction {
        Transaction::Sqlite(_) => {
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'"
        }
        Transaction::Postgres(_) => POSTGRES_TABLES,
    };
    let tables: i64 = query_scalar(tables).fetch_one(transaction).await?;
    if tables == 0 {
        return Ok(0);
    }
    let version: Option<i64> = query_scalar(LAST).fetch_one(transaction).await?;
    Ok(version.unwrap_or(0))
}

/// The same, as a migration of PostgreSQL asks.
pub(super) async fn postgres_version(connection: &mut PgConnection) -> sqlx::Result<i64> {
    // Never named: a pooler may be between.
    let tables = sqlx::query_scalar(POSTGRES_TABLES).persistent(false);
    let tables: i64 = tables.fetch_one(&mut *connection).await?;
    if tables == 0 {
        return Ok(0);
    }
    let version: Option<i64> = sqlx::query_scalar(LAST).persistent(false).fetch_one(connection).await?;
    Ok(version.unwrap_or(0))
}

/// By the table of tables: `to_regclass` answers from a cache, in which a session that waited for a migration to end may
/// still have it that there is no such table.
const POSTGRES_TABLES: &str =
    "SELECT count(*) FROM pg_class WHERE relname = '_sqlx_migrations' AND pg_table_is_visible(oid)";
const LAST: &str = "SELECT max(version) FROM _sqlx_migrations WHERE success";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_last_migration() {
        assert_eq!(MIGRATIONS.last().map(|migration| migration.0), Some(VERSION));
        assert!(MIGRATIONS.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
    }

    #[test]
    fn a_release_serves_its_own_schema_and_the_next() {
        assert!(matches!(
            check_version(VERSION - 1),
            Err(StoreError::SchemaTooOld { .. })
        ));
        assert!(check_version(VERSION).is_ok() && check_version(VERSION + 1).is_ok());
        assert!(matches!(
            check_version(VERSION + 2),
            Err(StoreError::SchemaTooNew { .. })
        ));
    }
}
