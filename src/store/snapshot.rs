//! Everything that authentications need of the policy data, at one revision; and how one follows from the one before.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapWeak;
use jiff::tz::TimeZone;

use super::Revision;
use super::cache::Cache;
use super::load::{Part, Reading, SiteClients};
use super::source::{RowError, SiteSource};
use crate::clients::{BySite, Clients, Entry, SiteId};
use crate::endpoints::Endpoints;
use crate::policy::compile::{CompiledPolicy, CompiledSite, Tests};
use crate::radius::dictionary::Dictionary;

/// The policy data at one revision. Never changes; the next one takes its place.
#[derive(Debug)]
pub struct Snapshot {
    /// Which state of the database this is.
    pub revision: Revision,
    /// From source address to client. Clients of sites that do not exist are not in it.
    pub clients: Arc<Clients>,
    /// The listed addresses of all sites.
    pub endpoints: Arc<Endpoints>,
    /// When it was read.
    pub loaded_at: Instant,
    /// It was kept on disk, and no database has been read since.
    pub is_from_disk: bool,
    sites: Arc<BySite<Arc<Site>>>,
}

/// A site of a snapshot.
#[derive(Debug)]
pub struct Site {
    /// What was read last, which may be broken.
    latest: Arc<SiteSource>,
    /// What decides: the latest, or the last that compiled.
    in_force: Option<Arc<SiteSource>>,
    broken: Option<Broken>,
    /// What `in_force` compiles to, for as long as the cache keeps it: found without looking there.
    compiled: ArcSwapWeak<CompiledSite>,
}

/// Why a site's latest rows are not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Each row that does not compile.
    pub errors: Arc<[RowError]>,
    /// The last revision at which they did; none: they never did since this node started.
    pub last_good: Option<Revision>,
}

impl Site {
    /// The site's tag.
    pub fn tag(&self) -> &str {
        &self.shown().site.tag
    }

    /// The site's name.
    pub fn name(&self) -> &str {
        &self.shown().site.name
    }

    /// The site's own time zone; none: the configuration's.
    pub fn timezone(&self) -> Option<&TimeZone> {
        self.shown().timezone.as_ref()
    }

    /// What decides; none: the site is broken and has no good version.
    pub fn source(&self) -> Option<&Arc<SiteSource>> {
        self.in_force.as_ref()
    }

    /// Why the latest rows are not in force; none: they are.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// The compiled form of the source in force, if it is in memory.
    pub(super) fn compiled(&self, cache: &Cache) -> Option<Arc<CompiledSite>> {
        let source = self.in_force.as_ref()?;
        if let Some(site) = self.compiled.load().upgrade() {
            cache.was_hit(source);
            return Some(site);
        }
        let site = cache.hit(source)?;
        self.compiled.store(Arc::downgrade(&site));
        Some(site)
    }

    fn shown(&self) -> &SiteSource {
        self.in_force.as_ref().unwrap_or(&self.latest)
    }
}

impl Snapshot {
    /// What a node has before it read anything: no clients, so that nothing is answered.
    pub(super) fn empty() -> Snapshot {
        Snapshot {
            revision: Revision::none(),
            clients: Arc::default(),
            endpoints: Arc::default(),
            loaded_at: Instant::now(),
            is_from_disk: false,
            sites: Arc::default(),
        }
    }

    /// Whether anything was read yet.
    pub fn is_loaded(&self) -> bool {
        self.revision != Revision::none()
    }

    /// A site by key.
    pub fn site(&self, id: SiteId) -> Option<&Arc<Site>> {
        self.sites.get(&id)
    }

    /// A site by tag.
    pub fn site_by_tag(&self, tag: &str) -> Option<(SiteId, &Arc<Site>)> {
        self.sites
            .iter()
            .find(|(_, site)| site.tag() == tag)
            .map(|(id, site)| (*id, site))
    }

    /// All sites, in no order.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &Arc<Site>)> {
        self.sites.iter().map(|(id, site)| (*id, site))
    }

    /// The revision whose evaluation a decision for this site equals: the snapshot's, or for a broken site the last at
    /// which its rows compiled. The log line names it.
    pub fn revision_of<'a>(&'a self, site: Option<&'a Site>) -> &'a Revision {
        site.and_then(Site::broken)
            .and_then(|broken| broken.last_good.as_ref())
            .unwrap_or(&self.revision)
    }
}

/// What a step from one snapshot to the next found, to be logged.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Sites that broke, or are broken in another way than before.
    pub(super) broken: Vec<(SiteId, Arc<Site>)>,
    /// Sites that were broken and compile again.
    pub(super) repaired: Vec<(SiteId, Arc<Site>)>,
    /// Clients' rows that are not answered; none: the table of clients is the one before.
    pub(super) clients: Option<Vec<String>>,
    /// Whether anything differs from the snapshot before.
    pub(super) changed: bool,
    /// The set that was read has no client that can be answered, and the one before had some.
    pub(super) lost_all_clients: bool,
}

/// The next snapshot. `clients` are those of all sites as they were last read, and are brought up to date. Whether
/// addresses that were read differ at all is only looked at if `compare`: it takes a look-up for each.
pub(super) fn next(
    before: &Snapshot,
    reading: Reading,
    clients: &mut HashMap<SiteId, SiteClients>,
    dictionary: &Dictionary,
    cache: &Cache,
    compare: bool,
) -> (Snapshot, Findings) {
    let Reading {
        revision,
        clients: read_clients,
        sites: mut read_sites,
        macs: mut read_macs,
    } = reading;
    let mut findings = Findings::default();
    // Compiled policies stay while sites that share them follow.
    let mut held: Vec<Arc<CompiledPolicy>> = Vec::new();
    let mut sites: BySite<Arc<Site>> = BySite::clone(&before.sites);
    let mut new_macs = HashMap::new();

    let mut touched: Vec<SiteId> = before
        .sites
        .keys()
        .copied()
        .filter(|id| read_sites.covers(*id) || read_macs.covers(*id))
        .collect();
    touched.extend(read_sites.found.keys().filter(|id| !before.sites.contains_key(id)));
    for id in touched {
        let old = before.sites.get(&id);
        let latest = match (read_sites.covers(id), read_sites.found.remove(&id), old) {
            (true, Some(new), Some(old)) if new.same(&old.latest) => Arc::clone(&old.latest),
            (true, Some(new), _) => Arc::new(new),
            (false, _, Some(old)) => Arc::clone(&old.latest),
            (true, None, _) | (false, _, None) => {
                findings.changed |= sites.remove(&id).is_some();
                continue;
            }
        };
        let macs = read_macs
            .covers(id)
            .then(|| read_macs.found.remove(&id).unwrap_or_default());
        let step = step(
            before,
            old,
            latest,
            macs.as_ref().map_or(&[], |macs| &macs.errors),
            dictionary,
            cache,
            &mut held,
        );
        findings.changed |= old.is_none_or(|old| !Arc::ptr_eq(&old.latest, &step.latest) || old.broken != step.broken);
        let site = Arc::new(step);
        match (old.and_then(|old| old.broken.as_ref()), &site.broken) {
            (was, Some(is)) if was.is_none_or(|was| was.errors != is.errors) => {
                findings.broken.push((id, Arc::clone(&site)))
            }
            (Some(_), None) => findings.repaired.push((id, Arc::clone(&site))),
            _ => {}
        }
        if let Some(macs) = macs
            && site.broken.is_none()
        {
            new_macs.insert(id, macs.endpoints);
        }
        sites.insert(id, site);
    }

    let gone = before.sites.keys().any(|id| !sites.contains_key(id));
    let endpoints = match new_macs.is_empty() && !gone {
        true => Arc::clone(&before.endpoints),
        false => Arc::new(before.endpoints.with(&new_macs, |site| sites.contains_key(&site))),
    };
    findings.changed |= compare && *endpoints != *before.endpoints;

    let moved = take_clients(clients, read_clients);
    let come = sites.keys().any(|id| !before.sites.contains_key(id));
    let table = match moved || gone || come {
        true => {
            let (table, errors) = table(clients, &sites);
            findings.clients = Some(errors);
            Arc::new(table)
        }
        false => Arc::clone(&before.clients),
    };
    findings.changed |= moved;
    findings.lost_all_clients = table.is_empty() && !before.clients.is_empty();
    let snapshot = Snapshot {
        revision,
        clients: table,
        endpoints,
        loaded_at: Instant::now(),
        is_from_disk: false,
        sites: Arc::new(sites),
    };
    (snapshot, findings)
}

/// One site: it is in force as a whole, policies and addresses, or stays what it was.
fn step(
    before: &Snapshot,
    old: Option<&Arc<Site>>,
    latest: Arc<SiteSource>,
    mac_errors: &[RowError],
    dictionary: &Dictionary,
    cache: &Cache,
    held: &mut Vec<Arc<CompiledPolicy>>,
) -> Site {
    let compiled = match old {
        Some(old) if old.broken.is_none() && Arc::ptr_eq(&old.latest, &latest) => Ok(None),
        _ => latest.compile(dictionary, cache.shared()).map(Some),
    };
    let mut errors = Vec::new();
    match compiled {
        Ok(compiled) if mac_errors.is_empty() => {
            if let Some(site) = compiled {
                held.extend(policies(&latest, dictionary, cache.shared()));
                cache.insert(&latest, Arc::new(site));
                let replaced = old
                    .and_then(|old| old.in_force.as_ref())
                    .filter(|source| !Arc::ptr_eq(source, &latest));
                replaced.into_iter().for_each(|source| cache.remove(source));
            }
            return Site {
                in_force: Some(Arc::clone(&latest)),
                latest,
                broken: None,
                compiled: ArcSwapWeak::default(),
            };
        }
        Ok(_) => {}
        Err(found) => errors = found,
    }
    errors.extend_from_slice(mac_errors);
    let in_force = old.and_then(|old| old.in_force.clone());
    let last_good = match old.map(|old| &old.broken) {
        Some(Some(broken)) => broken.last_good.clone(),
        Some(None) => Some(before.revision.clone()),
        None => None,
    };
    Site {
        latest,
        in_force,
        broken: Some(Broken {
            errors: errors.into(),
            last_good,
        }),
        compiled: ArcSwapWeak::default(),
    }
}

fn policies(source: &SiteSource, dictionary: &Dictionary, shared: &Tests) -> impl Iterator<Item = Arc<CompiledPolicy>> {
    source
        .policies
        .iter()
        .chain(&source.fallback)
        .filter_map(|policy| policy.compile(dictionary, shared).ok())
}

/// Brings the clients of all sites up to date, and says whether any differs.
fn take_clients(clients: &mut HashMap<SiteId, SiteClients>, read: Part<SiteClients>) -> bool {
    let before = clients.len();
    clients.retain(|id, _| !read.covers(*id) || read.found.contains_key(id));
    let mut moved = clients.len() != before;
    for (id, site) in read.found {
        // What is the same stays: the table has these very clients, and would hold them beside the new ones.
        if clients.get(&id).is_none_or(|known| known.hash != site.hash) {
            clients.insert(id, site);
            moved = true;
        }
    }
    moved
}

/// The table of clients; those of sites that do not exist are shadows.
fn table(clients: &HashMap<SiteId, SiteClients>, sites: &BySite<Arc<Site>>) -> (Clients, Vec<String>) {
    let mut errors = Vec::new();
    let mut entries = Vec::with_capacity(clients.values().map(|site| site.entries.len()).sum());
    for (id, site) in clients {
        errors.extend(site.errors.iter().map(ToString::to_string));
        let orphan = !sites.contains_key(id);
        for entry in &site.entries {
            entries.push(match entry {
                Entry::Client(client) if orphan => {
                    errors.push(format!(
                        "clients {}: `{}` belongs to site {}, which does not exist; hint: add the site, or delete the client",
                        client.id, client.network, id.0
                    ));
                    Entry::Shadow { network: client.network, radsec: client.radsec }
                }
                entry => entry.clone(),
            });
        }
    }
    let (table, conflicts) = Clients::new(entries);
    errors.extend(
        conflicts
            .iter()
            .map(|conflict| format!("{conflict}; hint: delete one of the two")),
    );
    (table, errors)
}

/// What decides for a site.
#[derive(Clone, Debug)]
pub enum SiteState {
    /// The compiled site.
    Ready(Arc<CompiledSite>),
    /// It has to be compiled first: await [`super::Directory::load`].
    Load,
    /// Its rows do not compile, and no good version is known: reject with `policy-broken`.
    Broken(Arc<[RowError]>),
}
