//! Migrations, embedded in the program, and whether a database's schema is the one this program was written for.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnection;

use super::StoreError;

/// Migrations of SQLite, in order. PostgreSQL's have the same numbers.
const SQLITE: &[(i64, &str, &str)] = &[
    (
        1,
        "policy set",
        include_str!("../../migrations/sqlite/0001_policy_set.sql"),
    ),
    (
        2,
        "integrity triggers",
        include_str!("../../migrations/sqlite/0002_integrity_triggers.sql"),
    ),
    (
        3,
        "revision triggers",
        include_str!("../../migrations/sqlite/0003_revision_triggers.sql"),
    ),
];

/// The schema that this program reads and writes.
pub const VERSION: i64 = 3;

/// Brings the schema to [`VERSION`]. The connection is inside a transaction that holds the write lock, so that two
/// processes that migrate at once do it one after the other (sqlx's own lock is none on SQLite).
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let migrations = SQLITE
        .iter()
        .map(|&(version, description, sql)| {
            Migration::new(
                version,
                description.into(),
                MigrationType::Simple,
                sql.into_sql_str(),
                false,
            )
        })
        .collect();
    // `run` is generic over `Acquire`, which makes this future one that tokio cannot spawn.
    Migrator::with_migrations(migrations)
        .run_direct(None, connection, false)
        .await
        .map_err(|error| StoreError::Migration(Box::new(error)))
}

/// The database's schema version: 0 where nothing was ever migrated.
pub(super) async fn version(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'")
            .fetch_one(&mut *connection)
            .await?;
    if tables == 0 {
        return Ok(0);
    }
    let version: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success")
        .fetch_one(connection)
        .await?;
    Ok(version.unwrap_or(0))
}

/// Refuses a schema that this program does not know.
pub(super) fn check(found: i64) -> Result<(), StoreError> {
    match found.cmp(&VERSION) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(StoreError::SchemaTooOld { found }),
        std::cmp::Ordering::Greater => Err(StoreError::SchemaTooNew { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_last_migration() {
        assert_eq!(SQLITE.last().map(|migration| migration.0), Some(VERSION));
        assert!(SQLITE.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
    }
}
