//! From documents to the set that they mean. Everything is checked here, before anything is written, and every error has
//! its file and line.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use toml::Spanned;

use super::REDACTED;
use super::parse::{self, Document, Source};
use crate::clients::parse_network;
use crate::mac::MacAddress;
use crate::policy::compile::{self, CompiledPolicy, CompiledSite, Place};
use crate::policy::lint;
use crate::policy::model::{self, Action, Method, ResponseRow, Rule};
use crate::radius::dictionary::Dictionary;
use crate::store::load::ClientSettings;
use crate::store::set::{self, Client, ClientKey, Mac, Policy, PolicySet, Site};
use crate::store::time;

/// An error of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, with a hint.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// The set that documents mean, and what of it is probably not meant.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) set: PolicySet,
    pub(super) findings: Vec<lint::Finding>,
}

/// Builds the union of the documents; over `base`, where they are to be merged into a set.
pub(super) fn build(
    dictionary: &Dictionary,
    documents: &[(Source, Document)],
    base: Option<PolicySet>,
) -> Result<Built, Vec<Problem>> {
    let mut builder = Builder {
        dictionary,
        set: base.unwrap_or_default(),
        problems: Vec::new(),
        findings: Vec::new(),
        compiled: HashMap::new(),
        seen: HashMap::new(),
    };
    builder.clients_of_base();
    let fallbacks: HashSet<&str> = documents
        .iter()
        .flat_map(|(_, document)| &document.site)
        .filter_map(|site| site.fallback.as_ref().map(|name| name.get_ref().as_str()))
        .collect();
    for (source, document) in documents {
        if let Some(redacted) = document.redacted.as_ref().filter(|redacted| *redacted.get_ref()) {
            let what = "the document was exported without its secrets, and cannot be imported\nhint: export it without `--redact`";
            builder.problems.push(source.problem(redacted, what));
        }
        for policy in &document.policy {
            builder.policy(source, policy, &fallbacks);
        }
    }
    for (source, document) in documents {
        for site in &document.site {
            builder.site(source, site);
        }
    }
    builder.names_are_unique();
    match builder.problems.is_empty() {
        true => Ok(Built {
            set: builder.set,
            findings: builder.findings,
        }),
        false => {
            builder
                .problems
                .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
            Err(builder.problems)
        }
    }
}

struct Builder<'d> {
    dictionary: &'d Dictionary,
    set: PolicySet,
    problems: Vec<Problem>,
    findings: Vec<lint::Finding>,
    /// Policies that compile; those of the base when they are first used.
    compiled: HashMap<String, Option<Arc<CompiledPolicy>>>,
    /// Where each thing was first seen, so that it is there once.
    seen: HashMap<Thing, Seen<'d>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Thing {
    Policy(String),
    Site(String),
    Client(ClientKey),
    Mac(String, MacAddress),
}

/// Where a thing was seen. A line is counted only where it has to be named: that takes all the text before it.
enum Seen<'d> {
    /// At this octet of a document.
    Document(&'d Source, usize),
    /// In the set that is merged into, at the site with this tag.
    Database(String),
}

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Document(source, offset) => write!(f, "{}:{}", source.name, source.line(*offset)),
            Seen::Database(tag) => write!(f, "site `{tag}` of the database"),
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Policy(name) => write!(f, "policy `{name}`"),
            Thing::Site(tag) => write!(f, "site `{tag}`"),
            Thing::Client(key) => write!(f, "client `{key}`"),
            Thing::Mac(site, mac) => write!(f, "address `{mac}` of site `{site}`"),
        }
    }
}

impl<'d> Builder<'d> {
    fn problem<T>(&mut self, source: &Source, at: &Spanned<T>, what: impl Into<String>) {
        self.problems.push(source.problem(at, what));
    }

    /// Whether this is the first of its kind.
    fn first<T>(&mut self, source: &'d Source, at: &Spanned<T>, thing: Thing) -> bool {
        match self.seen.get(&thing) {
            None => {
                self.seen.insert(thing, Seen::Document(source, at.span().start));
                true
            }
            Some(first) => {
                let what = format!("{thing} is there twice, first at {first}\nhint: keep one of the two");
                self.problem(source, at, what);
                false
            }
        }
    }

    /// Clients of the base may not be given to another site in passing.
    fn clients_of_base(&mut self) {
        for (tag, site) in &self.set.sites {
            for key in site.clients.keys() {
                self.seen.insert(Thing::Client(*key), Seen::Database(tag.clone()));
            }
        }
    }

    fn policy(&mut self, source: &'d Source, policy: &parse::Policy, fallbacks: &HashSet<&str>) {
        let name = policy.name.get_ref();
        if name.trim().is_empty() {
            return self.problem(
                source,
                &policy.name,
                "a policy without a name\nhint: write `name = \"…\"`",
            );
        }
        if !self.first(source, &policy.name, Thing::Policy(name.clone())) {
            return;
        }
        let before = self.problems.len();
        let is_used = fallbacks.contains(name.as_str());
        let fallback = match &policy.fallback {
            Some(flag) if is_used && !flag.get_ref() => {
                let what = format!("a site has `{name}` as its fallback\nhint: leave `fallback = false` out");
                self.problem(source, flag, what);
                true
            }
            Some(flag) => *flag.get_ref(),
            None => is_used,
        };
        let action = match &policy.action {
            Some(word) => Action::parse(word.get_ref()).unwrap_or_else(|| {
                let what = format!("`{}` is no action\nhint: write `accept` or `reject`", word.get_ref());
                self.problem(source, word, what);
                Action::Reject
            }),
            // What our commands make refuses unless it is told otherwise.
            None if fallback => Action::Reject,
            None => Action::Accept,
        };
        let mut methods = Vec::new();
        for word in &policy.methods {
            match Method::parse(word.get_ref()) {
                Some(method) => methods.push(method),
                None => {
                    let what = format!(
                        "`{}` is no method\nhint: `eap-tls`, `mab` or `mab-unknown`",
                        word.get_ref()
                    );
                    self.problem(source, word, what);
                }
            }
        }
        let rules = self.rows::<Rule>(source, &policy.rules);
        let responses = self.rows::<ResponseRow>(source, &policy.responses);
        if self.problems.len() != before {
            self.compiled.insert(name.clone(), None);
            return;
        }
        let model = model::Policy {
            name: name.clone(),
            description: policy.description.clone(),
            action,
            methods,
            rules,
            responses,
            fallback,
        };
        let compiled = match compile::policy(self.dictionary, &model) {
            Ok(compiled) => {
                self.findings.extend(lint::policy(self.dictionary, &compiled));
                Some(Arc::new(compiled))
            }
            Err(errors) => {
                for error in errors {
                    let at = match error.place {
                        Place::Whole => &policy.name,
                        Place::Rule(at) => policy.rules.get(at).unwrap_or(&policy.name),
                        Place::Response(at) => policy.responses.get(at).unwrap_or(&policy.name),
                    };
                    self.problem(source, at, error.to_string());
                }
                None
            }
        };
        self.compiled.insert(name.clone(), compiled);
        let words = model.methods.iter().map(ToString::to_string).collect();
        let policy = Policy {
            description: model.description,
            action: action.word().to_owned(),
            methods: words,
            fallback,
            rules: model.rules,
            responses: model.responses,
        };
        self.set.policies.insert(name.clone(), policy);
    }

    /// Reads lines of rules or responses.
    fn rows<R>(&mut self, source: &'d Source, lines: &[Spanned<String>]) -> Vec<R>
    where
        R: std::str::FromStr,
        R::Err: fmt::Display,
    {
        let mut rows = Vec::new();
        for line in lines {
            match line.get_ref().parse::<R>() {
                Ok(row) => rows.push(row),
                Err(error) => self.problem(source, line, error.to_string()),
            }
        }
        rows
    }

    /// A policy's compiled form; an error if there is no such policy, or it does not compile.
    fn compiled(&mut self, name: &str) -> Result<Arc<CompiledPolicy>, String> {
        if let Some(known) = self.compiled.get(name) {
            // Why not was said where it stands.
            return known.clone().ok_or_else(|| format!("policy `{name}` has errors"));
        }
        let Some(policy) = self.set.policies.get(name) else {
            return Err(format!(
                "there is no policy `{name}`\nhint: write it as `[[policy]]`, or look at its spelling"
            ));
        };
        let compiled = policy.compile(self.dictionary, name).map(Arc::new).map_err(|errors| {
            format!(
                "policy `{name}` of the database does not compile: {}",
                errors.first().map_or("", |error| error)
            )
        });
        self.compiled
            .insert(name.to_owned(), compiled.as_ref().ok().map(Arc::clone));
        compiled
    }

    fn site(&mut self, source: &'d Source, document: &parse::Site) {
        let name = document.name.get_ref();
        let tag = document
            .tag
            .as_ref()
            .map_or_else(|| set::slug(name), |tag| tag.get_ref().clone());
        if name.trim().is_empty() || tag.trim().is_empty() {
            return self.problem(
                source,
                &document.name,
                "a site without a name or tag\nhint: write `name = \"…\"` and `tag = \"…\"`",
            );
        }
        if !self.first(
            source,
            document.tag.as_ref().unwrap_or(&document.name),
            Thing::Site(tag.clone()),
        ) {
            return;
        }
        let mut site = self.set.sites.get(&tag).cloned().unwrap_or_default();
        site.name.clone_from(name);
        if let Some(zone) = &document.timezone {
            if let Err(no_zone) = time::zone(zone.get_ref()) {
                self.problem(source, zone, no_zone.to_string());
            }
            site.timezone = Some(zone.get_ref().clone());
        }
        let complete = self.policies(source, document, &mut site);
        for client in &document.client {
            if let Some((key, client)) = self.client(source, client, &tag) {
                site.clients.insert(key, client);
            }
        }
        for mac in &document.mac {
            if let Some((address, mac)) = self.mac(source, mac, &tag) {
                site.macs.insert(address, mac);
            }
        }
        if complete {
            let policies: Vec<_> = site
                .policies
                .values()
                .filter_map(|name| self.compiled(name).ok())
                .collect();
            let fallback = site.fallback.as_deref().and_then(|name| self.compiled(name).ok());
            self.findings
                .extend(lint::site(&CompiledSite::new(&tag, policies, fallback)));
        }
        self.set.sites.insert(tag, site);
    }

    /// The site's policies, in its order; whether all are there and compile.
    fn policies(&mut self, source: &'d Source, document: &parse::Site, site: &mut Site) -> bool {
        let before = self.problems.len();
        if let Some(fallback) = &document.fallback {
            match self.compiled(fallback.get_ref()) {
                Ok(policy) if policy.is_fallback() => site.fallback = Some(fallback.get_ref().clone()),
                Ok(_) => {
                    let what = format!(
                        "`{}` is no fallback policy\nhint: write `fallback = true` in it",
                        fallback.get_ref()
                    );
                    self.problem(source, fallback, what);
                }
                Err(what) => self.problem(source, fallback, what),
            }
        }
        // Those that the document places leave their old places first.
        let mut placed: BTreeMap<&str, &Spanned<String>> = BTreeMap::new();
        for link in &document.policies {
            let name = link.policy.get_ref();
            if placed.insert(name, &link.policy).is_some() {
                let what = format!("the site has `{name}` twice\nhint: keep one of the two");
                self.problem(source, &link.policy, what);
            }
            site.policies.retain(|_, other| other != name);
        }
        for link in &document.policies {
            let (name, priority) = (link.policy.get_ref(), *link.priority.get_ref());
            match self.compiled(name) {
                Ok(policy) if policy.is_fallback() => {
                    let what =
                        format!("`{name}` is a fallback policy\nhint: write `fallback = \"{name}\"` in the site");
                    self.problem(source, &link.policy, what);
                }
                Ok(_) => {}
                Err(what) => self.problem(source, &link.policy, what),
            }
            if let Some(other) = site
                .policies
                .insert(priority, name.clone())
                .filter(|other| other != name)
            {
                let what = format!("`{other}` and `{name}` both have priority {priority}\nhint: give each its own");
                self.problem(source, &link.priority, what);
            }
        }
        self.problems.len() == before
    }

    fn client(&mut self, source: &'d Source, document: &parse::Client, site: &str) -> Option<(ClientKey, Client)> {
        let text = document.network.get_ref();
        let network = match parse_network(text) {
            Ok(network) => network,
            Err(what) => {
                self.problem(source, &document.network, what);
                return None;
            }
        };
        if text.contains('/') && text.parse::<ipnet::IpNet>().is_ok_and(|given| given != given.trunc()) {
            let what = format!(
                "`{text}` is no network: bits behind the prefix are set\nhint: write `{network}`, or an address alone"
            );
            self.problem(source, &document.network, what);
            return None;
        }
        let key = ClientKey {
            network,
            radsec: document.radsec,
        };
        // One of this very site in the database is changed.
        if matches!(self.seen.get(&Thing::Client(key)), Some(Seen::Database(tag)) if tag == site) {
            self.seen.remove(&Thing::Client(key));
        }
        if !self.first(source, &document.network, Thing::Client(key)) {
            return None;
        }
        let secrets = [Some(document.secret.get_ref()), document.mab_password.as_ref()];
        if secrets.into_iter().flatten().any(|secret| secret == REDACTED) {
            let what =
                format!("the secret of `{text}` is redacted\nhint: export without `--redact`, or write the secret");
            self.problem(source, &document.secret, what);
            return None;
        }
        let defaults = Client::new(document.secret.get_ref());
        let client = Client {
            require_message_authenticator: document.require_message_authenticator.unwrap_or(true),
            limit_proxy_state: document.limit_proxy_state.unwrap_or(true),
            min_tls: document.min_tls.clone(),
            max_tls: document.max_tls.clone(),
            fragment_size: document.fragment_size,
            mab_password: document
                .mab_password
                .clone()
                .map_or(defaults.mab_password.clone(), Into::into),
            mab_identity: document.mab_identity.clone().unwrap_or(defaults.mab_identity.clone()),
            ..defaults
        };
        match ClientSettings::read(&client.row(0, 0, key)) {
            Ok(_) => Some((key, client)),
            Err(what) => {
                self.problem(source, &document.network, format!("client `{text}`: {what}"));
                None
            }
        }
    }

    fn mac(&mut self, source: &'d Source, document: &parse::Mac, site: &str) -> Option<(MacAddress, Mac)> {
        let address: MacAddress = match document.address.get_ref().parse() {
            Ok(address) => address,
            Err(no_mac) => {
                self.problem(source, &document.address, no_mac.to_string());
                return None;
            }
        };
        if !self.first(source, &document.address, Thing::Mac(site.to_owned(), address)) {
            return None;
        }
        let before = self.problems.len();
        let valid_until = document.valid_until.as_ref().and_then(|value| {
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            time::parse(&text)
                .map_err(|no_time| self.problem(source, value, no_time.to_string()))
                .ok()
        });
        let responses = self.rows::<ResponseRow>(source, &document.responses);
        if self.problems.len() == before && !responses.is_empty() {
            match compile::endpoint_responses(self.dictionary, &address.to_string(), &responses) {
                Ok(compiled) => self
                    .findings
                    .extend(lint::endpoint(self.dictionary, &address.to_string(), &compiled)),
                Err(errors) => {
                    for error in errors {
                        let at = match error.place {
                            Place::Response(at) => document.responses.get(at).unwrap_or(&document.address),
                            Place::Whole | Place::Rule(_) => &document.address,
                        };
                        self.problem(source, at, error.to_string());
                    }
                }
            }
        }
        let mac = Mac {
            name: document.name.clone(),
            description: document.description.clone(),
            valid_until,
            responses,
        };
        (self.problems.len() == before).then_some((address, mac))
    }

    /// Names of sites are unique as their tags are.
    fn names_are_unique(&mut self) {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut problems = Vec::new();
        for (tag, site) in &self.set.sites {
            if let Some(other) = names.insert(&site.name, tag) {
                let place = [tag.as_str(), other]
                    .iter()
                    .find_map(|tag| self.seen.get(&Thing::Site((*tag).to_owned())));
                let (file, line) = match place {
                    Some(Seen::Document(source, offset)) => (source.name.clone(), source.line(*offset)),
                    Some(Seen::Database(_)) | None => (String::new(), 1),
                };
                problems.push(Problem {
                    file,
                    line,
                    what: format!(
                        "the sites `{other}` and `{tag}` have one name, `{}`\nhint: rename one",
                        site.name
                    ),
                });
            }
        }
        self.problems.append(&mut problems);
    }
}
