//! The document's shape, with the line of everything that may have to be named in an error.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use zeroize::Zeroizing;

use super::build::Problem;

/// One file of an import. `Debug` shows its name alone: it holds secrets.
#[derive(Clone)]
pub struct Source {
    /// Its name, for errors.
    pub name: String,
    /// What it says.
    pub text: Zeroizing<String>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Source").field(&self.name).finish()
    }
}

impl Source {
    /// Reads a file.
    pub fn read(path: &Path) -> std::io::Result<Source> {
        let text = std::fs::read_to_string(path)?.into();
        Ok(Source {
            name: path.display().to_string(),
            text,
        })
    }

    /// The line, counted from 1, of an octet of the text.
    pub(super) fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        before.iter().filter(|octet| **octet == b'\n').count() + 1
    }

    /// An error at a place of the text.
    pub(super) fn problem<T>(&self, at: &Spanned<T>, what: impl Into<String>) -> Problem {
        Problem {
            file: self.name.clone(),
            line: self.line(at.span().start),
            what: what.into(),
        }
    }

    pub(super) fn parse(&self) -> Result<Document, Problem> {
        toml::from_str(&self.text).map_err(|error| Problem {
            file: self.name.clone(),
            line: self.line(error.span().map_or(0, |span| span.start)),
            what: error.message().trim().to_owned(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) revision: Option<Spanned<String>>,
    pub(super) redacted: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) policy: Vec<Policy>,
    #[serde(default)]
    pub(super) site: Vec<Site>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) description: String,
    pub(super) action: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) methods: Vec<Spanned<String>>,
    pub(super) fallback: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) responses: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    pub(super) name: Spanned<String>,
    pub(super) tag: Option<Spanned<String>>,
    pub(super) timezone: Option<Spanned<String>>,
    pub(super) fallback: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) policies: Vec<Link>,
    #[serde(default)]
    pub(super) client: Vec<Client>,
    #[serde(default)]
    pub(super) mac: Vec<Mac>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) policy: Spanned<String>,
    pub(super) priority: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) network: Spanned<String>,
    pub(super) secret: Spanned<String>,
    #[serde(default)]
    pub(super) radsec: bool,
    pub(super) require_message_authenticator: Option<bool>,
    pub(super) limit_proxy_state: Option<bool>,
    pub(super) min_tls: Option<String>,
    pub(super) max_tls: Option<String>,
    pub(super) fragment_size: Option<i64>,
    pub(super) mab_password: Option<String>,
    pub(super) mab_identity: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mac {
    pub(super) address: Spanned<String>,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    /// RFC 3339 as TOML's own date-time or as a string, a date, or seconds since 1970.
    pub(super) valid_until: Option<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) responses: Vec<Spanned<String>>,
}
