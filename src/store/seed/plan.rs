//! The plan of a data set: what to send from where, and what must come back. For load clients and tests.
//!
//! It is TOML: `secret` at the top, then a table `[[case]]` for each site, each in lines of its own, so that a reader may
//! also take it table by table. A case stands for each of its methods, sources and addresses.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::dataset::{Nacs, SECRET};
use crate::policy::model::{Action, Method};
use crate::reason::Reason;

/// A whole plan, as a reader has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The data set's name.
    pub dataset: String,
    /// What the clients share with the server.
    pub secret: String,
    /// What there is to send.
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
}

/// Requests that get the same answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The site that decides.
    pub site: String,
    /// How devices may authenticate: `mab` with each of `macs` as User-Name, password and Calling-Station-Id, `eap-tls` by
    /// any certificate that the server's client CAs vouch for.
    pub methods: Vec<String>,
    /// Source addresses, one or `FIRST..LAST`.
    pub sources: String,
    /// Devices' addresses, one or `FIRST..LAST`; with `eap-tls` any will do as Calling-Station-Id. Left out where the site
    /// lists none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs: Option<String>,
    /// What every request carries besides, `Attribute = value`.
    pub attributes: Vec<String>,
    /// `accept` or `reject`.
    pub outcome: String,
    /// The reason in the log line.
    pub reason: String,
    /// The policy that decides.
    pub policy: String,
    /// What the answer carries, `Attribute = value`, in this order: no more and no less of the attributes named here.
    pub responses: Vec<String>,
}

impl Nacs {
    /// What there is to send to each site that has clients.
    pub fn cases(&self) -> impl Iterator<Item = Case> {
        (0..self.counts().sites).filter_map(|site| {
            let policy = self.decides(site);
            let lines = |rows: Vec<_>| rows.iter().map(ToString::to_string).collect::<Vec<String>>();
            let macs = range(self.macs_of(site));
            let methods: &[Method] = match macs {
                Some(_) => &[Method::Mab, Method::EapTls],
                None => &[Method::EapTls],
            };
            Some(Case {
                site: self.tag(site),
                methods: methods.iter().map(ToString::to_string).collect(),
                sources: range(self.clients_of(site))?,
                macs,
                attributes: lines(self.request_attributes(site)),
                outcome: Action::Accept.to_string(),
                reason: Reason::PolicyAccept.to_string(),
                policy: self.policy_name(policy),
                responses: lines(self.policy(policy).responses),
            })
        })
    }

    /// Writes the plan. Equal sets give equal octets.
    pub fn write_plan(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "# What to send to a server with the data set `nacs`, and what it must answer. Made by `portreeve seed`.\n\
             dataset = \"nacs\"\nsecret = \"{SECRET}\""
        )?;
        for case in self.cases() {
            let table = toml::to_string(&case).map_err(io::Error::other)?;
            write!(out, "\n[[case]]\n{table}")?;
        }
        Ok(())
    }
}

/// `FIRST..LAST`, or the only one.
fn range<T: ToString + PartialEq>(mut items: impl Iterator<Item = T>) -> Option<String> {
    let first = items.next()?;
    Some(match items.last() {
        Some(last) => format!("{}..{}", first.to_string(), last.to_string()),
        None => first.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::seed::Counts;

    #[test]
    fn the_load_client_is_tested_with_what_is_written() {
        let counts = Counts {
            sites: 2,
            policies: 6,
            ..Counts::default()
        };
        let mut written = Vec::new();
        Nacs::new(counts).unwrap().write_plan(&mut written).unwrap();
        let tested = include_str!("../../../loadtest/tests/nacs-plan.toml");
        assert_eq!(String::from_utf8(written).unwrap(), tested);
    }
}
