//! Policies as text: what a row of the database or a line of the TOML document says, not yet checked.
//!
//! [`super::compile`] turns it into something that can be evaluated.

/// What a policy does with a request that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Access-Accept, with the policy's responses.
    Accept,
    /// Access-Reject.
    Reject,
}

impl Action {
    /// `accept` or `reject`.
    pub const fn word(self) -> &'static str {
        match self {
            Action::Accept => "accept",
            Action::Reject => "reject",
        }
    }

    /// Reads [`Action::word`] back.
    pub fn parse(word: &str) -> Option<Action> {
        [Action::Accept, Action::Reject]
            .into_iter()
            .find(|action| action.word() == word)
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// How a device was authenticated, as far as policies tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// By a certificate; what a policy is for when it lists no method.
    EapTls,
    /// By a MAC address that the site lists.
    Mab,
    /// By a MAC address that the site does not list.
    MabUnknown,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 3] = [Method::EapTls, Method::Mab, Method::MabUnknown];

    /// `eap-tls`, `mab` or `mab-unknown`.
    pub const fn word(self) -> &'static str {
        match self {
            Method::EapTls => "eap-tls",
            Method::Mab => "mab",
            Method::MabUnknown => "mab-unknown",
        }
    }

    /// Reads [`Method::word`] back.
    pub fn parse(word: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.word() == word)
    }

    /// Reads a column of methods: words with commas or spaces between them, in any number; none is an empty list.
    /// The error is the word that is no method.
    pub fn parse_list(text: &str) -> Result<Vec<Method>, &str> {
        let mut methods = Vec::new();
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            let method = Method::parse(word).ok_or(word)?;
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        Ok(methods)
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// Rules that must all match, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Unique among policies.
    pub name: String,
    /// For people.
    pub description: String,
    /// What follows when all rules match.
    pub action: Action,
    /// For which methods; empty means `eap-tls`.
    pub methods: Vec<Method>,
    /// All must match. A policy without rules matches nothing, unless it is a site's fallback.
    pub rules: Vec<Rule>,
    /// What the reply carries, in order.
    pub responses: Vec<ResponseRow>,
    /// Meant to decide where no other policy of a site matches.
    pub fallback: bool,
}

/// One condition: `NAS-Port-Type equals Ethernet`. [`super::text`] reads and writes it as one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// An attribute's name in the dictionary.
    pub attribute: String,
    /// An operator's word or symbol, see [`super::operator::Operator`].
    pub operator: String,
    /// What to compare with, unquoted; empty for `present` and `absent`.
    pub value: String,
}

/// One attribute of the reply: `Tunnel-Private-Group-Id:1 = 120`. [`super::text`] reads and writes it as one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResponseRow {
    /// An attribute's name, with `:tag` where it has one.
    pub attribute: String,
    /// Its value, unquoted, with `%{Fact-Name}` where a fact is to be filled in.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.word()), Some(method));
        }
        for action in [Action::Accept, Action::Reject] {
            assert_eq!(Action::parse(action.word()), Some(action));
        }
        assert_eq!(Action::parse("Accept"), None);
    }

    #[test]
    fn method_lists() {
        assert_eq!(Method::parse_list(""), Ok(vec![]));
        assert_eq!(
            Method::parse_list("mab, eap-tls,mab"),
            Ok(vec![Method::Mab, Method::EapTls])
        );
        assert_eq!(Method::parse_list("mab peap"), Err("peap"));
    }
}
