//! The older system's set over the one that the database has, or instead of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::assemble::Older;
use super::collect::Place;
use crate::policy::compile::{CompiledPolicy, CompiledSite};
use crate::policy::lint;
use crate::radius::dictionary::Dictionary;
use crate::store::document::build::{Built, Problem};
use crate::store::set::{ClientKey, PolicySet, Site};

impl Older {
    /// The set that there will be; over `base`, where it is to be merged into one.
    pub(in crate::store::document) fn over(
        mut self,
        dictionary: &Dictionary,
        base: Option<PolicySet>,
    ) -> Result<Built, Vec<Problem>> {
        let tags: Vec<String> = self.set.sites.keys().cloned().collect();
        let set = match base {
            None => std::mem::take(&mut self.set),
            Some(base) => self.merged(base),
        };
        if !self.problems.is_empty() {
            return Err(self.problems.into_sorted());
        }
        for tag in &tags {
            let Some(site) = set.sites.get(tag) else { continue };
            let mut compiled = |name: &String| self.compiled(dictionary, &set, name);
            let policies: Vec<_> = site.policies.values().filter_map(&mut compiled).collect();
            let fallback = site.fallback.as_ref().and_then(compiled);
            self.findings
                .extend(lint::site(&CompiledSite::new(tag, policies, fallback)));
        }
        Ok(Built {
            set,
            findings: self.findings,
        })
    }

    /// A policy's compiled form; one of the database may have none.
    fn compiled(&mut self, dictionary: &Dictionary, set: &PolicySet, name: &str) -> Option<Arc<CompiledPolicy>> {
        if let Some(known) = self.compiled.get(name) {
            return Some(Arc::clone(known));
        }
        let compiled = Arc::new(set.policies.get(name)?.compile(dictionary, name).ok()?);
        self.compiled.insert(name.to_owned(), Arc::clone(&compiled));
        Some(compiled)
    }

    fn merged(&mut self, mut base: PolicySet) -> PolicySet {
        let own = std::mem::take(&mut self.set);
        base.policies.extend(own.policies);
        let mut owners: HashMap<ClientKey, String> = HashMap::new();
        for (tag, site) in &base.sites {
            owners.extend(site.clients.keys().map(|key| (*key, tag.clone())));
        }
        for (tag, site) in own.sites {
            let mut before = base.sites.remove(&tag).unwrap_or_default();
            self.site(&tag, site, &mut before, &owners);
            base.sites.insert(tag, before);
        }
        self.names_are_unique(&base);
        base
    }

    /// Puts a site over the one that the database has.
    fn site(&mut self, tag: &str, site: Site, before: &mut Site, owners: &HashMap<ClientKey, String>) {
        before.name = site.name;
        before.timezone = site.timezone.or(before.timezone.take());
        before.fallback = site.fallback.or(before.fallback.take());
        // Those that have a place now leave their old ones first.
        before
            .policies
            .retain(|_, name| !site.policies.values().any(|own| own == name));
        for (priority, name) in site.policies {
            if let Some(other) = before.policies.insert(priority, name.clone()) {
                let what = format!(
                    "`{name}` and `{other}`, which the site `{tag}` has in the database, both have priority {priority}\n\
                     hint: move one of the two"
                );
                let place = self.places.links.get(&(tag.to_owned(), priority)).copied();
                self.problem(place, what);
            }
        }
        for (key, client) in site.clients {
            match owners.get(&key).filter(|owner| *owner != tag) {
                Some(owner) => {
                    let what =
                        format!("`{key}` is a client of the site `{owner}` in the database\nhint: remove it there");
                    let place = self.places.clients.get(&key).copied();
                    self.problem(place, what);
                }
                None => _ = before.clients.insert(key, client),
            }
        }
        before.macs.extend(site.macs);
    }

    /// Names of sites are unique as their tags are.
    fn names_are_unique(&mut self, set: &PolicySet) {
        let mut names: HashMap<&str, &str> = HashMap::new();
        for (tag, site) in &set.sites {
            let Some(other) = names.insert(&site.name, tag) else {
                continue;
            };
            let places = &self.places.sites;
            let place = places.get(tag).or_else(|| places.get(other)).copied();
            let what = format!(
                "the sites `{other}` and `{tag}` have one name, `{}`\nhint: rename one",
                site.name
            );
            self.problem(place, what);
        }
    }

    fn problem(&mut self, place: Option<Place>, what: String) {
        match place {
            Some(place) => self.problems.of_row(place, what),
            None => self.problems.of_file(1, what),
        }
    }
}
