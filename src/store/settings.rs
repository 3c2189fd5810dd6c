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
    /// Whether they name servers of PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.sqlite_url(), Ok(None))
    }

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

/// A URL as it may be shown. What is mistyped is shown as well, so this parses nothing, and rather cuts too much: from the
/// first colon to the last `@`, a port that is no number, and whatever follows `?` or `#`.
pub(super) fn without_password(url: &str) -> String {
    // Without `//` the scheme's own colon may be the one before a password.
    let (scheme, rest) = match url.find("://") {
        Some(at) if !url.get(..at).unwrap_or_default().contains(':') => url.split_at(at + 3),
        _ => ("", url),
    };
    let shown = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        // No `@` was written, and a password stands in a port's place.
        None => match rest.split_once(':') {
            Some((host, port)) if !scheme.is_empty() && is_host(host) && !is_port(port) => host.to_owned(),
            _ => rest.to_owned(),
        },
    };
    let end = shown.find(['?', '#']).unwrap_or(shown.len());
    format!("{scheme}{}", shown.get(..end).unwrap_or_default())
}

fn is_host(text: &str) -> bool {
    !text.contains(['[', '/', '?', '#'])
}

/// Whether this begins with a port, after which there may be a path.
fn is_port(text: &str) -> bool {
    let port = text.split(['/', '?', '#']).next().unwrap_or_default();
    port.bytes().all(|octet| octet.is_ascii_digit())
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
            ("postgres://u:p/w?x#y@h/d", "postgres://u@h/d"),
            ("postgres://u@h/d?x=a@b", "postgres://u@h/d"),
            ("postgres://u@h/d?password=p:w", "postgres://u@h/d"),
            ("postgres://u@h:5432/d?password=p:w@x", "postgres://u@h@x"),
            ("postgres://h/d?user=u&password=p", "postgres://h/d"),
            ("postgres://h/d#p", "postgres://h/d"),
            ("postgres://h:5432/d", "postgres://h:5432/d"),
            ("postgres://[::1]:5432/d", "postgres://[::1]:5432/d"),
            ("postgres://[::1]/d", "postgres://[::1]/d"),
            ("postgres://h/d", "postgres://h/d"),
            // Mistyped.
            ("mysql://u:pw@h/d", "mysql://u@h/d"),
            ("pg://u:p/w@h", "pg://u@h"),
            ("postgres:u:pw@h", "postgres@h"),
            ("postgres:/u:pw@h", "postgres@h"),
            ("u:p://w@h/d", "u@h/d"),
            ("postgres://u:pw", "postgres://u"),
            ("postgres://u:p:w", "postgres://u"),
            ("postgres://:pw@h", "postgres://@h"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[tokio::test]
    async fn a_refused_url_has_no_password() {
        for url in [
            "mysql://u:p4ss@h/d",
            "pg://u:p4ss@h/d",
            "u:p4ss@h",
            "postgres://u:p4ss/w0rd@h/d",
            "postgres://u:p4ss",
            "sqlite:portreeve.db?password=p4ss",
        ] {
            let settings = Settings::from(url);
            assert!(!format!("{settings:?}").contains("p4ss"), "{settings:?}");
            let error = crate::store::Store::attach(settings).await.unwrap_err().to_string();
            assert!(error.contains("hint: ") && !error.contains("p4ss"), "{error}");
        }
    }
}
