//! From rows to the set that they mean: what belongs to what, in which order, and whether it compiles.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::collect::{Collected, Entry, Place, Problems};
use super::order::{self, Ordered};
use super::rows::{self, Link, Owner, Response};
use super::table::Table;
use super::tag;
use crate::policy::compile::{self, CompiledPolicy, CompiledResponse};
use crate::policy::lint;
use crate::policy::model::{self, ResponseRow, Rule};
use crate::radius::dictionary::Dictionary;
use crate::store::document::build::Problem;
use crate::store::set::{ClientKey, Policy, PolicySet, Site};

/// The older system's set.
pub(in crate::store::document) struct Older {
    pub(super) set: PolicySet,
    pub(super) findings: Vec<lint::Finding>,
    /// What is not as it was there, or was left out: a line each.
    pub(in crate::store::document) notes: Vec<String>,
    /// The set's policies, compiled.
    pub(super) compiled: HashMap<String, Arc<CompiledPolicy>>,
    pub(super) places: Places,
    /// Knows the files of the places.
    pub(super) problems: Problems,
}

/// Where things stand that may not go with what the database has.
#[derive(Default)]
pub(super) struct Places {
    /// By tag.
    pub(super) sites: HashMap<String, Place>,
    pub(super) clients: HashMap<ClientKey, Place>,
    /// By the site's tag and the priority.
    pub(super) links: HashMap<(String, i64), Place>,
}

/// Puts the rows together; else everything that is wrong with them.
pub(super) fn assemble(dictionary: &Dictionary, rows: Collected) -> Result<Older, Vec<Problem>> {
    let mut assembly = Assembly {
        dictionary,
        rules: HashMap::new(),
        responses: HashMap::new(),
        policies: HashMap::new(),
        sites: HashMap::new(),
        macs_compiled: HashMap::new(),
        older: Older {
            set: PolicySet::default(),
            findings: Vec::new(),
            notes: Vec::new(),
            compiled: HashMap::new(),
            places: Places::default(),
            problems: rows.problems,
        },
    };
    assembly.rules(rows.rules);
    assembly.responses(rows.responses);
    assembly.policies(rows.policies);
    assembly.sites(rows.sites, &rows.clients);
    assembly.links(rows.links);
    assembly.clients(rows.clients);
    assembly.macs(rows.macs);
    assembly.orphans();
    assembly.ignored(&rows.ignored_tables, &rows.ignored_columns);
    let Assembly { sites, mut older, .. } = assembly;
    if !older.problems.is_empty() {
        return Err(older.problems.into_sorted());
    }
    older.set.sites = sites.into_values().map(|known| (known.tag, known.site)).collect();
    Ok(older)
}

struct Assembly<'d> {
    dictionary: &'d Dictionary,
    /// By policy; those that are taken are gone.
    rules: HashMap<i64, Vec<(Place, Rule)>>,
    /// By what they belong to; those that are taken are gone.
    responses: HashMap<Owner, Vec<(Place, ResponseRow)>>,
    policies: HashMap<i64, KnownPolicy>,
    sites: HashMap<i64, KnownSite>,
    /// Responses of addresses that compiled: most are the same.
    macs_compiled: HashMap<Vec<ResponseRow>, Arc<[CompiledResponse]>>,
    older: Older,
}

struct KnownPolicy {
    name: String,
    fallback: bool,
}

/// A policy of a site that is no fallback.
struct SiteLink {
    place: Place,
    policy: String,
    priority: Option<i64>,
}

struct KnownSite {
    tag: String,
    site: Site,
}

impl Assembly<'_> {
    fn problem(&mut self, place: Place, what: impl std::fmt::Display) {
        self.older.problems.of_row(place, what);
    }

    /// Entries that are the first with their key; the others are told.
    fn firsts<T, K: Ord>(
        &mut self,
        entries: Vec<Entry<T>>,
        key: impl Fn(&Entry<T>) -> K,
        what: impl Fn(&T) -> String,
    ) -> Vec<Entry<T>> {
        // Places rather than a map: there may be a million.
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_cached_key(|at| entries.get(*at).map(&key));
        let mut twice: Vec<usize> = Vec::new();
        let mut first: Option<&Entry<T>> = None;
        for at in order {
            let Some(entry) = entries.get(at) else { continue };
            match first.filter(|first| key(first) == key(entry)) {
                None => first = Some(entry),
                Some(first) => {
                    let known = self.older.problems.show(first.place);
                    let what = what(&entry.value);
                    let what = format!("{what} is there twice, first at {known}\nhint: delete one of the two there");
                    self.older.problems.of_row(entry.place, what);
                    twice.push(at);
                }
            }
        }
        if twice.is_empty() {
            return entries;
        }
        twice.sort_unstable();
        let is_first = |at: &usize| twice.binary_search(at).is_err();
        entries
            .into_iter()
            .enumerate()
            .filter(|(at, _)| is_first(at))
            .map(|(_, entry)| entry)
            .collect()
    }

    fn rules(&mut self, rules: Vec<Entry<rows::PolicyRule>>) {
        let mut rules = self.firsts(rules, |rule| rule.place.key(), |_| "the row".to_owned());
        rules.sort_by_key(|rule| rule.place.key());
        for Entry { place, value } in rules {
            self.rules.entry(value.policy).or_default().push((place, value.rule));
        }
    }

    fn responses(&mut self, responses: Vec<Entry<Response>>) {
        let mut responses = self.firsts(responses, |response| response.place.key(), |_| "the row".to_owned());
        responses.sort_by_key(|response| (response.value.position, response.place.key()));
        for Entry { place, value } in responses {
            self.responses
                .entry(value.owner)
                .or_default()
                .push((place, value.response));
        }
    }

    fn policies(&mut self, policies: Vec<Entry<rows::Policy>>) {
        let policies = self.firsts(policies, |policy| policy.value.id, |_| "the row".to_owned());
        let name = |policy: &rows::Policy| format!("a policy `{}`", policy.name);
        let policies = self.firsts(policies, |policy| policy.value.name.clone(), name);
        for Entry { place, value } in policies {
            let known = KnownPolicy {
                name: value.name.clone(),
                fallback: value.fallback,
            };
            self.policies.insert(value.id, known);
            self.policy(place, value);
        }
    }

    fn policy(&mut self, place: Place, policy: rows::Policy) {
        let (rule_places, rules): (Vec<Place>, Vec<Rule>) =
            self.rules.remove(&policy.id).unwrap_or_default().into_iter().unzip();
        let (response_places, responses): (Vec<Place>, Vec<ResponseRow>) = self
            .responses
            .remove(&Owner::Policy(policy.id))
            .unwrap_or_default()
            .into_iter()
            .unzip();
        let model = model::Policy {
            name: policy.name,
            description: policy.description,
            action: policy.action,
            methods: policy.methods,
            rules,
            responses,
            fallback: policy.fallback,
        };
        match compile::policy(self.dictionary, &model) {
            Ok(compiled) => {
                self.older.findings.extend(lint::policy(self.dictionary, &compiled));
                self.older.compiled.insert(model.name.clone(), Arc::new(compiled));
            }
            Err(errors) => self.not_compiled(place, &rule_places, &response_places, errors),
        }
        let set_policy = Policy {
            description: model.description,
            action: model.action.word().to_owned(),
            methods: model.methods.iter().map(ToString::to_string).collect(),
            fallback: model.fallback,
            rules: model.rules,
            responses: model.responses,
        };
        self.older.set.policies.insert(model.name, set_policy);
    }

    /// Tells the errors at the rows that have them.
    fn not_compiled(&mut self, owner: Place, rules: &[Place], responses: &[Place], errors: Vec<compile::CompileError>) {
        for error in errors {
            let place = match error.place {
                compile::Place::Whole => None,
                compile::Place::Rule(at) => rules.get(at),
                compile::Place::Response(at) => responses.get(at),
            };
            self.problem(*place.unwrap_or(&owner), error);
        }
    }

    fn sites(&mut self, sites: Vec<Entry<rows::Site>>, clients: &[Entry<rows::Client>]) {
        let sites = self.firsts(sites, |site| site.value.id, |_| "the row".to_owned());
        let name = |site: &rows::Site| format!("a site `{}`", site.name);
        let mut sites = self.firsts(sites, |site| site.value.name.clone(), name);
        self.older.notes.extend(tag::fill(&mut sites, clients));
        let shown = |site: &rows::Site| format!("the tag `{}`", site.tag.as_deref().unwrap_or_default());
        let sites = self.firsts(sites, |site| site.value.tag.clone(), shown);
        for Entry { place, value } in sites {
            let Some(tag) = value.tag else {
                let what = "it has no tag, and none can be made of its name\nhint: give it a `tag` there";
                self.problem(place, what);
                continue;
            };
            self.older.places.sites.insert(tag.clone(), place);
            let site = Site {
                name: value.name,
                timezone: value.timezone,
                ..Site::default()
            };
            self.sites.insert(value.id, KnownSite { tag, site });
        }
    }

    /// Whether the row's site is there; if not, that is told.
    fn has_site(&mut self, place: Place, site: i64) -> bool {
        let is_known = self.sites.contains_key(&site);
        if !is_known && !self.older.problems.is_refused(Table::Sites, site) {
            self.problem(
                place,
                format!("there is no site {site}\nhint: delete the row there, or give it a site"),
            );
        }
        is_known
    }

    fn links(&mut self, links: Vec<Entry<Link>>) {
        let twice = |link: &Link| format!("policy {} of site {}", link.policy, link.site);
        let links = self.firsts(links, |link| link.place.key(), |_| "the row".to_owned());
        let links = self.firsts(links, |link| (link.value.site, link.value.policy), twice);
        let mut of_sites: BTreeMap<i64, Vec<SiteLink>> = BTreeMap::new();
        for Entry { place, value } in links {
            let is_there = self.has_site(place, value.site);
            let Some(policy) = self.policies.get(&value.policy) else {
                if !self.older.problems.is_refused(Table::Policies, value.policy) {
                    let what = format!("there is no policy {}\nhint: delete the row there", value.policy);
                    self.problem(place, what);
                }
                continue;
            };
            let Some(site) = self.sites.get_mut(&value.site).filter(|_| is_there) else {
                continue;
            };
            if !policy.fallback {
                of_sites.entry(value.site).or_default().push(SiteLink {
                    place,
                    policy: policy.name.clone(),
                    priority: value.priority,
                });
            } else if let Some(other) = site.site.fallback.replace(policy.name.clone()) {
                let what = format!(
                    "site `{}` has two fallback policies, `{other}` and `{}`\nhint: take one out of it there",
                    site.tag, policy.name
                );
                self.problem(place, what);
            }
        }
        for (site, links) in of_sites {
            if let Some(site) = self.sites.get_mut(&site) {
                let ordered = order::order(links, |link| (link.priority, link.place.key()));
                self.older.notes.extend(renumbered(&site.tag, &ordered));
                for (priority, link) in ordered.links {
                    self.older.places.links.insert((site.tag.clone(), priority), link.place);
                    site.site.policies.insert(priority, link.policy);
                }
            }
        }
    }

    fn clients(&mut self, clients: Vec<Entry<rows::Client>>) {
        let clients = self.firsts(clients, |client| client.place.key(), |_| "the row".to_owned());
        let network = |client: &rows::Client| format!("the network `{}`", client.key);
        let clients = self.firsts(clients, |client| client.value.key, network);
        for Entry { place, value } in clients {
            if self.has_site(place, value.site)
                && let Some(site) = self.sites.get_mut(&value.site)
            {
                self.older.places.clients.insert(value.key, place);
                site.site.clients.insert(value.key, value.client);
            }
        }
    }

    fn macs(&mut self, macs: Vec<Entry<rows::Mac>>) {
        let macs = self.firsts(macs, |mac| mac.value.id, |_| "the row".to_owned());
        let address = |mac: &rows::Mac| format!("`{}` of site {}", mac.address, mac.site);
        let macs = self.firsts(macs, |mac| (mac.value.site, mac.value.address), address);
        for Entry { place, mut value } in macs {
            let (places, responses): (Vec<Place>, Vec<ResponseRow>) = self
                .responses
                .remove(&Owner::Mac(value.id))
                .unwrap_or_default()
                .into_iter()
                .unzip();
            self.endpoint(place, &places, value.address, &responses);
            value.mac.responses = responses;
            if self.has_site(place, value.site)
                && let Some(site) = self.sites.get_mut(&value.site)
            {
                site.site.macs.insert(value.address, value.mac);
            }
        }
    }

    /// Compiles the responses of an address.
    fn endpoint(&mut self, place: Place, places: &[Place], address: crate::mac::MacAddress, responses: &[ResponseRow]) {
        if responses.is_empty() {
            return;
        }
        let owner = address.to_string();
        let compiled = match self.macs_compiled.get(responses) {
            Some(known) => Arc::clone(known),
            None => match compile::endpoint_responses(self.dictionary, &owner, responses) {
                Ok(compiled) => {
                    self.macs_compiled.insert(responses.to_vec(), Arc::clone(&compiled));
                    compiled
                }
                Err(errors) => return self.not_compiled(place, &[], places, errors),
            },
        };
        self.older
            .findings
            .extend(lint::endpoint(self.dictionary, &owner, &compiled));
    }

    /// Rules and responses that belong to nothing.
    fn orphans(&mut self) {
        let rules = std::mem::take(&mut self.rules).into_iter();
        let rules = rules.map(|(policy, rules)| {
            (
                Owner::Policy(policy),
                rules.into_iter().map(|(place, _)| place).collect::<Vec<_>>(),
            )
        });
        let responses = std::mem::take(&mut self.responses).into_iter();
        let responses = responses.map(|(owner, rows)| (owner, rows.into_iter().map(|(place, _)| place).collect()));
        for (owner, places) in rules.chain(responses).collect::<Vec<_>>() {
            let (table, id, what) = match owner {
                Owner::Policy(id) => (Table::Policies, id, "policy"),
                Owner::Mac(id) => (Table::Macs, id, "MAC address"),
            };
            if self.older.problems.is_refused(table, id) {
                continue;
            }
            for place in places {
                self.problem(place, format!("there is no {what} {id}\nhint: delete the row there"));
            }
        }
    }

    fn ignored<'a>(
        &mut self,
        tables: impl IntoIterator<Item = &'a String>,
        columns: impl IntoIterator<Item = &'a String>,
    ) {
        let list = |what: &str, names: Vec<&str>| match names.is_empty() {
            true => None,
            false => Some(format!("{what} {}", names.join(", "))),
        };
        let tables = list("tables", tables.into_iter().map(String::as_str).collect());
        let columns = list("columns", columns.into_iter().map(String::as_str).collect());
        let both: Vec<String> = tables.into_iter().chain(columns).collect();
        if !both.is_empty() {
            self.older.notes.push(format!("not read: {}", both.join("; ")));
        }
    }
}

/// One line on a site whose priorities are others now.
fn renumbered(tag: &str, ordered: &Ordered<SiteLink>) -> Option<String> {
    if !ordered.is_renumbered {
        return None;
    }
    let moved = ordered.links.iter().map(|(now, link)| match link.priority {
        Some(before) => format!("`{}` {before} -> {now}", link.policy),
        None => format!("`{}` NULL -> {now}", link.policy),
    });
    Some(format!(
        "site `{tag}`: equal or missing priorities, numbered anew in the same order: {}",
        moved.collect::<Vec<_>>().join(", ")
    ))
}
