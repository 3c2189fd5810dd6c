//! Compiled sites, bounded. What was given up is compiled again from the site's source, once for all who wait.

use std::cell::Cell;
use std::sync::Arc;

use super::source::{RowError, SiteSource};
use crate::clients::SiteId;
use crate::policy::compile::{CompiledSite, Tests};
use crate::radius::dictionary::Dictionary;

/// Octets of compiled sites, as they are estimated, that are kept by default. Too low: sites are
/// compiled again and again (some 40 us each); too high: only memory. 20,000 sites with 50 policies each out of a thousand
/// fit in.
pub const DEFAULT_OCTETS: u64 = 64 << 20;

/// Uses of which one is told to the cache. Too low: each costs a visit to the cache's own records; too high: it learns late
/// which sites are in use.
const TOLD: u32 = 16;

/// Compiled sites by key and version.
#[derive(Debug)]
pub struct Cache {
    sites: moka::sync::Cache<(SiteId, u64), Compiled, foldhash::fast::RandomState>,
    /// What the rules of all of them test.
    shared: Tests,
}

#[derive(Clone, Debug)]
struct Compiled {
    site: Arc<CompiledSite>,
    weight: u32,
}

impl Cache {
    /// A cache of at most `octets`.
    pub fn new(octets: u64) -> Cache {
        let sites = moka::sync::Cache::builder()
            .max_capacity(octets)
            .weigher(|_: &(SiteId, u64), compiled: &Compiled| compiled.weight)
            .build_with_hasher(foldhash::fast::RandomState::default());
        let shared = Tests::default();
        Cache { sites, shared }
    }

    /// The compiled form of this very source, if it is there.
    pub fn hit(&self, source: &SiteSource) -> Option<Arc<CompiledSite>> {
        self.sites.get(&key(source)).map(|compiled| compiled.site)
    }

    /// The compiled form of this very source was used without asking here. One use in sixteen is told, so that the sites that
    /// are used most are the last to go.
    pub fn was_hit(&self, source: &SiteSource) {
        thread_local! {
            static USES: Cell<u32> = const { Cell::new(0) };
        }
        USES.set(USES.get().wrapping_add(1));
        if USES.get().is_multiple_of(TOLD) {
            self.hit(source);
        }
    }

    /// The compiled form of this source, compiled now if need be; many who ask at once cause one compilation, for which
    /// they wait. It takes processor time: not for a thread that has packets to answer.
    pub fn load(&self, source: &SiteSource, dictionary: &Dictionary) -> Result<Arc<CompiledSite>, Arc<Vec<RowError>>> {
        self.sites
            .try_get_with(key(source), || {
                let site = Arc::new(source.compile(dictionary, &self.shared)?);
                let weight = source.weight(&site);
                Ok(Compiled { site, weight })
            })
            .map(|compiled| compiled.site)
    }

    /// Puts a site in that is compiled already.
    pub(super) fn insert(&self, source: &SiteSource, site: Arc<CompiledSite>) {
        let weight = source.weight(&site);
        self.sites.insert(key(source), Compiled { site, weight });
    }

    /// What the rules of its sites test.
    pub(super) fn shared(&self) -> &Tests {
        &self.shared
    }

    /// Forgets a version that is no longer in force.
    pub(super) fn remove(&self, source: &SiteSource) {
        self.sites.invalidate(&key(source));
    }
}

fn key(source: &SiteSource) -> (SiteId, u64) {
    (SiteId(source.site.id), source.version)
}
