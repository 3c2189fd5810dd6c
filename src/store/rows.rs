//! Rows as the database has them, not yet checked, and the queries that read them.
//!
//! Large tables are read in pages by id, so that a set with a million addresses is never in memory as rows. Text that is
//! no UTF-8 (SQLite takes any octets) is read with replacement characters: it then fails to compile, and nothing else.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Row};
use zeroize::Zeroizing;

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

/// Rows in one page: some megabytes at most.
const PAGE: i64 = 4096;

/// Sites.
pub(super) async fn sites(connection: &mut SqliteConnection, scope: Scope) -> sqlx::Result<Vec<Site>> {
    let mut sites = Vec::new();
    let query = Query {
        columns: "t.id, t.name, t.tag, t.timezone",
        from: "sites t",
        of_site: "t.id = $3",
    };
    query
        .each(connection, scope, |row| {
            sites.push(Site {
                id: row.try_get(0)?,
                name: text(row, 1)?,
                tag: text(row, 2)?,
                timezone: optional_text(row, 3)?,
            });
            Ok(())
        })
        .await?;
    Ok(sites)
}

/// Clients.
pub(super) async fn clients(connection: &mut SqliteConnection, scope: Scope) -> sqlx::Result<Vec<Client>> {
    let mut clients = Vec::new();
    let query = Query {
        columns: "t.id, t.site_id, t.ip_range, t.shared_secret, t.radsec, t.require_message_authenticator, t.limit_proxy_state, \
                  t.min_tls, t.max_tls, t.fragment_size, t.mab_password, t.mab_identity",
        from: "clients t",
        of_site: "t.site_id = $3",
    };
    query
        .each(connection, scope, |row| {
            clients.push(Client {
                id: row.try_get(0)?,
                site_id: row.try_get(1)?,
                ip_range: text(row, 2)?,
                shared_secret: text(row, 3)?.into(),
                radsec: row.try_get(4)?,
                require_message_authenticator: row.try_get(5)?,
                limit_proxy_state: row.try_get(6)?,
                min_tls: optional_text(row, 7)?,
                max_tls: optional_text(row, 8)?,
                fragment_size: row.try_get(9)?,
                mab_password: text(row, 10)?.into(),
                mab_identity: text(row, 11)?,
            });
            Ok(())
        })
        .await?;
    Ok(clients)
}

/// Policies; of a site: those that it uses.
pub(super) async fn policies(connection: &mut SqliteConnection, scope: Scope) -> sqlx::Result<Vec<Policy>> {
    let mut policies = Vec::new();
    let query = Query {
        columns: "t.id, t.name, t.description, t.fallback, t.action, t.methods",
        from: "policies t",
        of_site: "t.id IN (SELECT policy_id FROM site_policies WHERE site_id = $3)",
    };
    query
        .each(connection, scope, |row| {
            policies.push(Policy {
                id: row.try_get(0)?,
                name: text(row, 1)?,
                description: optional_text(row, 2)?.unwrap_or_default(),
                fallback: row.try_get(3)?,
                action: text(row, 4)?,
                methods: optional_text(row, 5)?.unwrap_or_default(),
            });
            Ok(())
        })
        .await?;
    Ok(policies)
}

/// Which sites use which policies, by site and then in the order of evaluation, fallbacks without priority first.
pub(super) async fn links(connection: &mut SqliteConnection, scope: Scope) -> sqlx::Result<Vec<Link>> {
    let rows = match scope {
        Scope::All => {
            sqlx::query("SELECT site_id, policy_id, priority FROM site_policies ORDER BY site_id, priority, policy_id")
        }
        Scope::Site(id) => sqlx::query(
            "SELECT site_id, policy_id, priority FROM site_policies WHERE site_id = $1 ORDER BY priority, policy_id",
        )
        .bind(id),
    };
    rows.fetch_all(connection)
        .await?
        .iter()
        .map(|row| {
            Ok(Link {
                site_id: row.try_get(0)?,
                policy_id: row.try_get(1)?,
                priority: row.try_get(2)?,
            })
        })
        .collect()
}

/// Rules with their policy's key, in the order of their own keys.
pub(super) async fn rules(connection: &mut SqliteConnection, scope: Scope) -> sqlx::Result<Vec<(i64, Rule)>> {
    let mut rules = Vec::new();
    let query = Query {
        columns: "t.id, t.policy_id, t.request_attribute, t.operator, t.value",
        from: "rules t",
        of_site: "t.policy_id IN (SELECT policy_id FROM site_policies WHERE site_id = $3)",
    };
    query
        .each(connection, scope, |row| {
            let rule = Rule {
                attribute: text(row, 2)?,
                operator: text(row, 3)?,
                value: text(row, 4)?,
            };
            rules.push((row.try_get(1)?, rule));
            Ok(())
        })
        .await?;
    Ok(rules)
}

/// Responses of policies with their policy's key, by policy and in the order of the reply.
pub(super) async fn policy_responses(
    connection: &mut SqliteConnection,
    scope: Scope,
) -> sqlx::Result<Vec<(i64, ResponseRow)>> {
    let mut responses: Vec<(i64, i64, ResponseRow)> = Vec::new();
    let query = Query {
        columns: "t.id, t.policy_id, t.response_attribute, t.value, t.position",
        from: "responses t WHERE t.policy_id IS NOT NULL AND",
        of_site: "t.policy_id IN (SELECT policy_id FROM site_policies WHERE site_id = $3)",
    };
    query
        .each(connection, scope, |row| {
            let response = ResponseRow {
                attribute: text(row, 2)?,
                value: text(row, 3)?,
            };
            responses.push((row.try_get(1)?, row.try_get(4)?, response));
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

/// Listed MAC addresses, each with its responses, page by page.
pub(super) async fn macs_with_responses(
    connection: &mut SqliteConnection,
    scope: Scope,
    mut each: impl FnMut(Mac, Vec<ResponseRow>),
) -> sqlx::Result<()> {
    let query = Query {
        columns: "t.id, t.site_id, t.address, t.name, t.description, t.valid_until",
        from: "mac_authentication_bypasses t",
        of_site: "t.site_id = $3",
    };
    let mut last = i64::MIN;
    loop {
        let mut page = Vec::new();
        let next = query
            .page(connection, scope, last, |row| {
                page.push(Mac {
                    id: row.try_get(0)?,
                    site_id: row.try_get(1)?,
                    address: text(row, 2)?,
                    name: optional_text(row, 3)?.unwrap_or_default(),
                    description: optional_text(row, 4)?.unwrap_or_default(),
                    valid_until: optional_text(row, 5)?,
                });
                Ok(())
            })
            .await?;
        let responses = match (page.first(), page.last()) {
            (Some(first), Some(last)) => mac_responses(connection, scope, first.id, last.id).await?,
            _ => Vec::new(),
        };
        let mut responses = responses.into_iter().peekable();
        for mac in page {
            // Both are sorted by the address's key; what lies between belongs to rows that are gone.
            while responses.next_if(|(owner, _)| *owner < mac.id).is_some() {}
            let mut own = Vec::new();
            while let Some((_, response)) = responses.next_if(|(owner, _)| *owner == mac.id) {
                own.push(response);
            }
            each(mac, own);
        }
        match next {
            Some(id) => last = id,
            None => return Ok(()),
        }
    }
}

/// Responses of the listed addresses with keys from `first` to `last`, by key and in the order of the reply.
async fn mac_responses(
    connection: &mut SqliteConnection,
    scope: Scope,
    first: i64,
    last: i64,
) -> sqlx::Result<Vec<(i64, ResponseRow)>> {
    const COLUMNS: &str = "SELECT mac_authentication_bypass_id, response_attribute, value FROM responses";
    const ORDER: &str = "ORDER BY mac_authentication_bypass_id, position, id";
    let rows = match scope {
        Scope::All => {
            let sql = format!("{COLUMNS} WHERE mac_authentication_bypass_id BETWEEN $1 AND $2 {ORDER}");
            sqlx::query(AssertSqlSafe(sql))
                .bind(first)
                .bind(last)
                .fetch_all(connection)
                .await?
        }
        Scope::Site(id) => {
            let of_site = "SELECT id FROM mac_authentication_bypasses WHERE site_id = $1 AND id BETWEEN $2 AND $3";
            let sql = format!("{COLUMNS} WHERE mac_authentication_bypass_id IN ({of_site}) {ORDER}");
            sqlx::query(AssertSqlSafe(sql))
                .bind(id)
                .bind(first)
                .bind(last)
                .fetch_all(connection)
                .await?
        }
    };
    rows.iter()
        .map(|row| {
            Ok((
                row.try_get(0)?,
                ResponseRow {
                    attribute: text(row, 1)?,
                    value: text(row, 2)?,
                },
            ))
        })
        .collect()
}

/// A query over one table `t`, read in pages by `t.id`, which is its first column.
struct Query {
    columns: &'static str,
    /// The table, perhaps with a condition that ends in `AND`.
    from: &'static str,
    of_site: &'static str,
}

impl Query {
    /// All rows.
    async fn each(
        &self,
        connection: &mut SqliteConnection,
        scope: Scope,
        mut each: impl FnMut(&SqliteRow) -> sqlx::Result<()>,
    ) -> sqlx::Result<()> {
        let mut last = i64::MIN;
        while let Some(next) = self.page(connection, scope, last, &mut each).await? {
            last = next;
        }
        Ok(())
    }

    /// The rows of one page, those with ids above `after`; the last id of it, if there may be more.
    async fn page(
        &self,
        connection: &mut SqliteConnection,
        scope: Scope,
        after: i64,
        mut each: impl FnMut(&SqliteRow) -> sqlx::Result<()>,
    ) -> sqlx::Result<Option<i64>> {
        let (columns, from) = (self.columns, self.from);
        let and = if from.ends_with("AND") { "" } else { "WHERE" };
        let of_site = match scope {
            Scope::All => String::new(),
            Scope::Site(_) => format!(" AND {}", self.of_site),
        };
        let sql = format!("SELECT {columns} FROM {from} {and} t.id > $1{of_site} ORDER BY t.id LIMIT $2");
        let mut query = sqlx::query(AssertSqlSafe(sql)).bind(after).bind(PAGE);
        if let Scope::Site(id) = scope {
            query = query.bind(id);
        }
        let rows = query.fetch_all(connection).await?;
        for row in &rows {
            each(row)?;
        }
        match rows.last() {
            Some(row) if rows.len() as i64 == PAGE => Ok(Some(row.try_get(0)?)),
            _ => Ok(None),
        }
    }
}

fn text(row: &SqliteRow, column: usize) -> sqlx::Result<String> {
    Ok(String::from_utf8_lossy(row.try_get_unchecked::<&[u8], _>(column)?).into_owned())
}

fn optional_text(row: &SqliteRow, column: usize) -> sqlx::Result<Option<String>> {
    let octets: Option<&[u8]> = row.try_get_unchecked(column)?;
    Ok(octets.map(|octets| String::from_utf8_lossy(octets).into_owned()))
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
