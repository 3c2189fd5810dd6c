//! The database's set as a document. Equal sets give equal octets.

use std::fmt::Write;

use super::REDACTED;
use crate::policy::model::ResponseRow;
use crate::store::rows::Scope;
use crate::store::set::{self, Client, ClientKey, Mac, PolicySet, Site};
use crate::store::source::RowError;
use crate::store::{Revision, Store, StoreError, changes, time};

/// A document, and what could not be put into it. `Debug` leaves the text out: it holds secrets.
#[derive(Clone)]
pub struct Exported {
    /// The TOML text.
    pub text: zeroize::Zeroizing<String>,
    /// The revision that it is of.
    pub revision: Revision,
    /// Rows that are left out: they belong to nothing, or cannot be read.
    pub left_out: Vec<RowError>,
}

impl std::fmt::Debug for Exported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exported")
            .field("revision", &self.revision)
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}

/// Writes the whole set as one document, without secrets if `redact`.
pub async fn export(store: &Store, redact: bool) -> Result<Exported, StoreError> {
    let mut transaction = store.read().await?;
    let revision = changes::revision(&mut transaction).await?;
    let current = set::read(&mut transaction, Scope::All).await?;
    let text = write(&current.set, Some(&revision), redact).into();
    Ok(Exported {
        text,
        revision,
        left_out: current.strays,
    })
}

/// A set as text.
pub(super) fn write(set: &PolicySet, revision: Option<&Revision>, redact: bool) -> String {
    let mut out = Writer(String::new());
    if let Some(revision) = revision {
        out.key("revision", &revision.to_string());
    }
    if redact {
        out.plain("redacted", "true");
    }
    for (name, policy) in &set.policies {
        out.table("[[policy]]");
        out.key("name", name);
        out.key_unless_empty("description", &policy.description);
        out.key("action", &policy.action);
        if !policy.methods.is_empty() {
            let methods: Vec<String> = policy.methods.iter().map(|word| quoted(word)).collect();
            out.plain("methods", &format!("[{}]", methods.join(", ")));
        }
        if policy.fallback {
            out.plain("fallback", "true");
        }
        out.lines("rules", policy.rules.iter().map(|rule| quoted(&rule.to_string())));
        out.responses(&policy.responses);
    }
    for (tag, site) in &set.sites {
        out.site(tag, site);
        for (key, client) in &site.clients {
            out.client(key, client, redact);
        }
        for (address, mac) in &site.macs {
            out.table("[[site.mac]]");
            out.key("address", &address.to_string());
            out.mac(mac);
        }
    }
    out.0
}

struct Writer(String);

impl Writer {
    fn site(&mut self, tag: &str, site: &Site) {
        self.table("[[site]]");
        self.key("name", &site.name);
        self.key("tag", tag);
        self.key_unless_empty("timezone", site.timezone.as_deref().unwrap_or_default());
        self.key_unless_empty("fallback", site.fallback.as_deref().unwrap_or_default());
        let links = site.policies.iter();
        let links = links.map(|(priority, policy)| format!("{{ policy = {}, priority = {priority} }}", quoted(policy)));
        self.lines("policies", links);
    }

    fn client(&mut self, key: &ClientKey, client: &Client, redact: bool) {
        self.table("[[site.client]]");
        self.key("network", &key.network.to_string());
        self.key("secret", if redact { REDACTED } else { &client.secret });
        if key.radsec {
            self.plain("radsec", "true");
        }
        if !client.require_message_authenticator {
            self.plain("require_message_authenticator", "false");
        }
        if !client.limit_proxy_state {
            self.plain("limit_proxy_state", "false");
        }
        self.key_unless_empty("min_tls", client.min_tls.as_deref().unwrap_or_default());
        self.key_unless_empty("max_tls", client.max_tls.as_deref().unwrap_or_default());
        if let Some(octets) = client.fragment_size {
            self.plain("fragment_size", &octets.to_string());
        }
        match client.mab_password.as_str() {
            "mac" => {}
            "any" => self.key("mab_password", "any"),
            password => self.key("mab_password", if redact { REDACTED } else { password }),
        }
        if client.mab_identity != "calling-station-id" {
            self.key("mab_identity", &client.mab_identity);
        }
    }

    fn mac(&mut self, mac: &Mac) {
        self.key_unless_empty("name", &mac.name);
        self.key_unless_empty("description", &mac.description);
        if let Some(seconds) = mac.valid_until {
            self.plain("valid_until", &time::display(seconds));
        }
        self.responses(&mac.responses);
    }

    fn table(&mut self, header: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.line(header);
    }

    fn responses(&mut self, responses: &[ResponseRow]) {
        self.lines(
            "responses",
            responses.iter().map(|response| quoted(&response.to_string())),
        );
    }

    /// A list with an item on each line; nothing if it is empty.
    fn lines(&mut self, key: &str, items: impl Iterator<Item = String>) {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return;
        }
        self.line(&format!("{key} = ["));
        items.for_each(|item| self.line(&format!("    {item},")));
        self.line("]");
    }

    fn key_unless_empty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.key(key, text);
        }
    }

    fn key(&mut self, key: &str, text: &str) {
        self.plain(key, &quoted(text));
    }

    fn plain(&mut self, key: &str, value: &str) {
        self.line(&format!("{key} = {value}"));
    }

    fn line(&mut self, line: &str) {
        // Writing to a String does not fail.
        _ = writeln!(self.0, "{line}");
    }
}

/// A TOML string on one line.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // TOML forbids control characters in strings.
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn strings_read_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}|.{0,20}") {
            let document = format!("key = {}", quoted(&text));
            let table: toml::Table = document.parse().unwrap();
            prop_assert_eq!(table["key"].as_str(), Some(text.as_str()));
            prop_assert_eq!(document.lines().count(), 1);
        }
    }
}
