//! One way to ask both databases: the same SQL text with `$1`, the same values, the same rows.
//!
//! All of the store's queries run inside a [`Transaction`], so that each reading is of one state of the data, and so that a
//! pooler between a node and PostgreSQL keeps one server connection for all of it. Statements are never named there: a
//! plan that is not kept cannot outlive a change of the schema, nor be looked for on another connection of the pooler.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use futures_core::Stream;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query as SqlxQuery;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, FromRow, Postgres, Row as _, SqlSafeStr, SqlStr, Sqlite, Type};

use super::postgres::PostgresStore;
use super::postgres::session::Session;

/// A transaction of either database. Dropped without [`Transaction::commit`], it undoes what it did.
#[derive(Debug)]
pub(crate) enum Transaction {
    /// Of a SQLite file.
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    /// Of a PostgreSQL server.
    Postgres(Session),
}

impl Transaction {
    /// Makes what it did last.
    pub(crate) async fn commit(self) -> sqlx::Result<()> {
        match self {
            Transaction::Sqlite(transaction) => transaction.commit().await,
            Transaction::Postgres(session) => session.commit().await,
        }
    }

    /// Ends one that only read. It may be dropped instead: PostgreSQL's connection is then closed rather than used again.
    pub(crate) async fn end(self) -> sqlx::Result<()> {
        match self {
            Transaction::Sqlite(transaction) => transaction.rollback().await,
            Transaction::Postgres(session) => session.rollback().await,
        }
    }

    /// What it reads is of no use: other servers go before its server for a while.
    pub(super) fn pass_over(&self) {
        if let Transaction::Postgres(session) = self {
            PostgresStore::pass_over(session);
        }
    }

    /// How far behind the furthest server it reads.
    pub(super) fn lag(&self) -> Duration {
        match self {
            Transaction::Sqlite(_) => Duration::ZERO,
            Transaction::Postgres(session) => PostgresStore::lag(session),
        }
    }

    /// Whether what it reads comes from another server, a little later.
    pub(super) fn is_of_standby(&self) -> bool {
        match self {
            Transaction::Sqlite(_) => false,
            Transaction::Postgres(session) => PostgresStore::is_standby(session),
        }
    }

    /// Runs statements that take no values, one after the other.
    pub(super) async fn run(&mut self, sql: String) -> sqlx::Result<()> {
        match self {
            Transaction::Sqlite(transaction) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **transaction).await?;
            }
            Transaction::Postgres(session) => {
                let (connection, guard) = session.parts();
                guard.run(sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection)).await?;
            }
        }
        Ok(())
    }
}

/// A statement with its values.
pub(crate) struct Query<'q> {
    sql: SqlStr,
    values: Vec<Value<'q>>,
}

/// A statement of a fixed text.
pub(crate) fn query<'q>(sql: &'static str) -> Query<'q> {
    Query {
        sql: sql.into_sql_str(),
        values: Vec::new(),
    }
}

/// A statement whose text was put together; of our own words only, never of a value.
pub(crate) fn query_of<'q>(sql: String) -> Query<'q> {
    Query {
        sql: AssertSqlSafe(sql).into_sql_str(),
        values: Vec::new(),
    }
}

/// A statement that gives one column.
pub(crate) struct Scalar<'q>(Query<'q>);

/// A statement of a fixed text that gives one column.
pub(crate) fn query_scalar<'q>(sql: &'static str) -> Scalar<'q> {
    Scalar(query(sql))
}

impl<'q> Scalar<'q> {
    /// The next value.
    pub(crate) fn bind(self, value: impl Into<Value<'q>>) -> Scalar<'q> {
        Scalar(self.0.bind(value))
    }

    /// The column of all rows.
    pub(crate) async fn fetch_all<T: Column>(self, transaction: &mut Transaction) -> sqlx::Result<Vec<T>> {
        let mut all = Vec::new();
        self.0
            .each(transaction, |row| {
                all.push(row.get(0)?);
                Ok(())
            })
            .await?;
        Ok(all)
    }

    /// The column of the first row, if there is one.
    pub(crate) async fn fetch_optional<T: Column>(self, transaction: &mut Transaction) -> sqlx::Result<Option<T>> {
        let row = self.0.first(transaction).await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// The column of the first row; none is an error.
    pub(crate) async fn fetch_one<T: Column>(self, transaction: &mut Transaction) -> sqlx::Result<T> {
        self.fetch_optional(transaction).await?.ok_or(sqlx::Error::RowNotFound)
    }
}

/// A value of a statement. It has no `Debug`: some are secrets.
#[derive(Clone)]
pub(crate) enum Value<'q> {
    /// A BIGINT.
    Integer(Option<i64>),
    /// A TEXT.
    Text(Option<Cow<'q, str>>),
    /// A BOOLEAN; in SQLite 0 or 1.
    Flag(bool),
}

impl<'q> Query<'q> {
    /// The next value: `$1`, then `$2`, and so on.
    pub(crate) fn bind(mut self, value: impl Into<Value<'q>>) -> Query<'q> {
        self.values.push(value.into());
        self
    }

    /// Runs it for what it does. The number of rows it touched.
    pub(crate) async fn execute(self, transaction: &mut Transaction) -> sqlx::Result<u64> {
        Ok(match transaction {
            Transaction::Sqlite(transaction) => self.sqlite().execute(&mut **transaction).await?.rows_affected(),
            Transaction::Postgres(session) => {
                let (connection, guard) = session.parts();
                guard.run(self.postgres().execute(connection)).await?.rows_affected()
            }
        })
    }

    /// All rows, one after the other as they come.
    pub(crate) async fn each(
        self,
        transaction: &mut Transaction,
        mut each: impl FnMut(&Row) -> sqlx::Result<()>,
    ) -> sqlx::Result<()> {
        match transaction {
            Transaction::Sqlite(transaction) => {
                let mut rows = pin!(self.sqlite().fetch(&mut **transaction));
                while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
                    each(&Row::Sqlite(row?))?;
                }
            }
            Transaction::Postgres(session) => {
                let (connection, guard) = session.parts();
                let mut rows = pin!(self.postgres().fetch(connection));
                loop {
                    let next = poll_fn(|context| rows.as_mut().poll_next(context).map(Option::transpose));
                    match guard.run(next).await? {
                        Some(row) => each(&Row::Postgres(row))?,
                        None => break,
                    }
                }
            }
        }
        Ok(())
    }

    /// All rows.
    pub(crate) async fn fetch_all<T: FromRows>(self, transaction: &mut Transaction) -> sqlx::Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(transaction, |row| {
            all.push(row.read()?);
            Ok(())
        })
        .await?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub(crate) async fn fetch_optional<T: FromRows>(self, transaction: &mut Transaction) -> sqlx::Result<Option<T>> {
        let row = self.first(transaction).await?;
        row.map(|row| row.read()).transpose()
    }

    /// The first row; none is an error.
    pub(crate) async fn fetch_one<T: FromRows>(self, transaction: &mut Transaction) -> sqlx::Result<T> {
        self.fetch_optional(transaction).await?.ok_or(sqlx::Error::RowNotFound)
    }

    async fn first(self, transaction: &mut Transaction) -> sqlx::Result<Option<Row>> {
        Ok(match transaction {
            Transaction::Sqlite(transaction) => {
                self.sqlite().fetch_optional(&mut **transaction).await?.map(Row::Sqlite)
            }
            Transaction::Postgres(session) => {
                let (connection, guard) = session.parts();
                let row = guard.run(self.postgres().fetch_optional(connection)).await?;
                row.map(Row::Postgres)
            }
        })
    }

    fn sqlite(self) -> SqlxQuery<'q, Sqlite, SqliteArguments> {
        let mut query = sqlx::query(self.sql);
        for value in self.values {
            query = match value {
                Value::Integer(integer) => query.bind(integer),
                Value::Text(text) => query.bind(text.map(Cow::into_owned)),
                Value::Flag(flag) => query.bind(flag),
            };
        }
        query
    }

    fn postgres(self) -> SqlxQuery<'q, Postgres, PgArguments> {
        let mut query = sqlx::query(self.sql).persistent(false);
        for value in self.values {
            query = match value {
                Value::Integer(integer) => query.bind(integer),
                Value::Text(text) => query.bind(text),
                Value::Flag(flag) => query.bind(flag),
            };
        }
        query
    }
}

/// What a row can be read as: a tuple of columns.
pub(crate) trait FromRows: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> {}
impl<T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow>> FromRows for T {}

/// What a column can be read as.
pub(crate) trait Column:
    for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}
impl<T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>> Column for T {}

/// A row of either database.
pub(crate) enum Row {
    /// Of SQLite.
    Sqlite(SqliteRow),
    /// Of PostgreSQL.
    Postgres(PgRow),
}

impl Row {
    /// A column by its place, the first is 0.
    pub(crate) fn get<T: Column>(&self, column: usize) -> sqlx::Result<T> {
        match self {
            Row::Sqlite(row) => row.try_get(column),
            Row::Postgres(row) => row.try_get(column),
        }
    }

    /// A text. Plain SQL can put other octets than UTF-8 into SQLite's: they read as U+FFFD, and no reading fails.
    pub(crate) fn text(&self, column: usize) -> sqlx::Result<String> {
        match self {
            Row::Sqlite(row) => Ok(String::from_utf8_lossy(row.try_get_unchecked::<&[u8], _>(column)?).into_owned()),
            Row::Postgres(row) => row.try_get(column),
        }
    }

    /// A text or NULL, as [`Row::text`].
    pub(crate) fn optional_text(&self, column: usize) -> sqlx::Result<Option<String>> {
        match self {
            Row::Sqlite(row) => {
                let octets: Option<&[u8]> = row.try_get_unchecked(column)?;
                Ok(octets.map(|octets| String::from_utf8_lossy(octets).into_owned()))
            }
            Row::Postgres(row) => row.try_get(column),
        }
    }

    fn read<T: FromRows>(&self) -> sqlx::Result<T> {
        match self {
            Row::Sqlite(row) => T::from_row(row),
            Row::Postgres(row) => T::from_row(row),
        }
    }
}

impl From<i64> for Value<'_> {
    fn from(integer: i64) -> Self {
        Value::Integer(Some(integer))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(integer: Option<i64>) -> Self {
        Value::Integer(integer)
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl<'q> From<&'q str> for Value<'q> {
    fn from(text: &'q str) -> Self {
        Value::Text(Some(Cow::Borrowed(text)))
    }
}

impl<'q> From<&'q String> for Value<'q> {
    fn from(text: &'q String) -> Self {
        Value::Text(Some(Cow::Borrowed(text)))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Some(Cow::Owned(text)))
    }
}

impl<'q> From<Option<&'q str>> for Value<'q> {
    fn from(text: Option<&'q str>) -> Self {
        Value::Text(text.map(Cow::Borrowed))
    }
}

impl From<Option<String>> for Value<'_> {
    fn from(text: Option<String>) -> Self {
        Value::Text(text.map(Cow::Owned))
    }
}
