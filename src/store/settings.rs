//! Where the policy data is, and how patiently it is asked for.

use std::path::PathBuf;
use std::time::Duration;

use super::StoreError;

/// How a store is opened: `[database]` of the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `sqlite:FILE` or `postgres://user:password@host:port/database`, the primary. None: only `replicas`, and no edits.
    pub url: Option<String>,
    /// PostgreSQL servers that replay the primary's writes: what nodes read.
    pub replicas: Vec<String>,
    /// A file with the password for all servers, read again for each connection.
    pub password_file: Option<PathBuf>,
    /// Connections to each server, those of the probes not counted.
    pub connections: u32,
    /// How long a server may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How often each server is asked how it is.
    pub probe_interval: Duration,
    /// How long a server may take to say how it is.
    pub probe_timeout: Duration,
    /// How far behind a replica may be and still be preferred to the primary.
    pub max_lag: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            url: None,
            replicas: Vec::new(),
            password_file: None,
            connections: 4,
            connect_timeout: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(30),
            probe_interval: Duration::from_millis(250),
            probe_timeout: Duration::from_millis(500),
            max_lag: Duration::from_secs(5),
        }
    }
}

impl From<&str> for Settings {
    fn from(url: &str) -> Settings {
        Settings {
            url: Some(url.to_owned()),
            ..Settings::default()
        }
    }
}

impl From<&String> for Settings {
    fn from(url: &String) -> Settings {
        url.as_str().into()
    }
}

impl From<&Settings> for Settings {
    fn from(settings: &Settings) -> Settings {
        settings.clone()
    }
}

impl Settings {
    /// The SQLite file's URL; none: it is PostgreSQL.
    pub(super) fn sqlite_url(&self) -> Result<Option<&str>, StoreError> {
        let is_postgres = |url: &str| url.starts_with("postgres:") || url.starts_with("postgresql:");
        if let Some(replica) = self.replicas.iter().find(|url| !is_postgres(url)) {
            return Err(StoreError::Url {
                url: without_password(replica),
                detail: "replicas are PostgreSQL servers".to_owned(),
            });
        }
        match &self.url {
            Some(url) if is_postgres(url) => Ok(None),
            Some(url) if self.replicas.is_empty() => Ok(Some(url)),
            Some(url) => Err(StoreError::Url {
                url: without_password(url),
                detail: "a database with `replicas` is PostgreSQL".to_owned(),
            }),
            None if self.replicas.is_empty() => Err(StoreError::NoPrimary),
            None => Ok(None),
        }
    }
}

/// A URL as it may be shown.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}{}", rest.get(user.len()..).unwrap_or_default())
        }
        None => url.to_owned(),
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let replicas: Vec<String> = self.replicas.iter().map(|url| without_password(url)).collect();
        f.debug_struct("Settings")
            .field("url", &self.url.as_deref().map(without_password))
            .field("replicas", &replicas)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_password() {
        for (url, shown) in [
            ("sqlite:portreeve.db", "sqlite:portreeve.db"),
            ("postgres://u:p@h:5432/d", "postgres://u@h:5432/d"),
            ("postgres://u:p@w@h/d", "postgres://u@h/d"),
            ("postgres://u@h/d?x=a@b", "postgres://u@h/d?x=a@b"),
            ("postgres://h/d", "postgres://h/d"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
