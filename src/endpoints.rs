//! Listed MAC addresses of all sites in one compact table: an address that is not listed is known not to be, without a
//! database.
//!
//! An entry is 16 octets. The table is sorted by a mixed form of the address, and an index over its first bits leads to
//! the few entries that a look-up compares. A million entries take some 20 MB, and 52 MB when each has a date of its own.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clients::{BySite, SiteId};
use crate::mac::MacAddress;
use crate::policy::compile::CompiledResponse;

/// What a listed address has of its own.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// The last second of validity, seconds since 1970; none: no end.
    pub valid_until: Option<i64>,
    /// Responses that replace the policy's; none: it has none.
    pub responses: Option<Arc<[CompiledResponse]>>,
}

impl Endpoint {
    /// Whether it is past its `valid_until` at `now`, seconds since 1970.
    pub fn is_expired(&self, now: i64) -> bool {
        self.valid_until.is_some_and(|last| now > last)
    }
}

/// What the table knows of an address.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// The site lists it.
    Listed(&'a Endpoint),
    /// The site does not, this other one does.
    Elsewhere(SiteId),
    /// No site lists it.
    Unknown,
}

/// All listed addresses. Built once, then only read; [`Endpoints::with`] makes the next one.
#[derive(Debug)]
pub struct Endpoints {
    /// Sorted by key, then site.
    entries: Box<[Entry]>,
    /// For each value of a key's first `index_bits` bits, where its entries begin; one more at the end.
    index: Box<[u32]>,
    index_bits: u32,
    /// What entries name by number; the first is that of an address with nothing of its own.
    details: Box<[Endpoint]>,
    /// Sites with at least one entry, by the number that entries name them by.
    sites: Box<[SiteId]>,
    site_numbers: BySite<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: u64,
    site: u32,
    detail: u32,
}

const PLAIN: u32 = 0;

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints::new([])
    }
}

impl Endpoints {
    /// A table of these sites' addresses.
    pub fn new(sites: impl IntoIterator<Item = (SiteId, SiteEndpoints)>) -> Endpoints {
        let nothing = Endpoints {
            entries: Box::new([]),
            index: Box::new([0, 0]),
            index_bits: 0,
            details: Box::new([Endpoint::default()]),
            sites: Box::new([]),
            site_numbers: BySite::default(),
        };
        nothing.with(&sites.into_iter().collect(), |_| true)
    }

    /// This table with the addresses of `changed` in the place of those it has for these sites, and without the addresses
    /// of sites that are not to be kept.
    pub fn with(&self, changed: &HashMap<SiteId, SiteEndpoints>, keep: impl Fn(SiteId) -> bool) -> Endpoints {
        let mut builder = Builder::default();
        let kept: Vec<bool> = self
            .sites
            .iter()
            .map(|site| keep(*site) && !changed.contains_key(site))
            .collect();
        let stays = |entry: &&Entry| kept.get(entry.site as usize).copied().unwrap_or(false);
        let added: usize = changed.values().map(|site| site.macs.len()).sum();
        builder
            .entries
            .reserve_exact(self.entries.iter().filter(stays).count() + added);
        let mut moved: Vec<u32> = vec![u32::MAX; self.details.len()];
        for entry in self.entries.iter().filter(stays) {
            let Some(site) = self.sites.get(entry.site as usize) else {
                continue;
            };
            let detail = match moved.get_mut(entry.detail as usize) {
                Some(place) if *place != u32::MAX => *place,
                Some(place) => {
                    *place = self
                        .details
                        .get(entry.detail as usize)
                        .map_or(PLAIN, |detail| builder.detail(detail));
                    *place
                }
                None => PLAIN,
            };
            let site = builder.site(*site);
            builder.entries.push(Entry {
                key: entry.key,
                site,
                detail,
            });
        }
        for (&id, endpoints) in changed
            .iter()
            .filter(|(id, endpoints)| keep(**id) && !endpoints.macs.is_empty())
        {
            let site = builder.site(id);
            let details: Vec<u32> = endpoints.details.iter().map(|detail| builder.detail(detail)).collect();
            for &(mac, detail) in &endpoints.macs {
                let detail = detail
                    .and_then(|detail| details.get(detail as usize))
                    .copied()
                    .unwrap_or(PLAIN);
                builder.entries.push(Entry {
                    key: key(mac),
                    site,
                    detail,
                });
            }
        }
        builder.finish()
    }

    /// What is known of an address, asked for a site.
    pub fn find(&self, site: SiteId, mac: MacAddress) -> Found<'_> {
        self.find_key(site, key(mac))
    }

    fn find_key(&self, site: SiteId, key: u64) -> Found<'_> {
        let bucket = bucket(key, self.index_bits);
        let range = match (self.index.get(bucket), self.index.get(bucket + 1)) {
            (Some(&from), Some(&to)) => self.entries.get(from as usize..to as usize),
            _ => None,
        };
        let range = range.unwrap_or_default();
        let of_key = range
            .get(range.partition_point(|entry| entry.key < key)..)
            .unwrap_or_default();
        let Some(first) = of_key.first().filter(|entry| entry.key == key) else {
            return Found::Unknown;
        };
        if let Some(&number) = self.site_numbers.get(&site) {
            let at = of_key.partition_point(|entry| (entry.key, entry.site) < (key, number));
            if let Some(entry) = of_key.get(at).filter(|entry| entry.key == key && entry.site == number)
                && let Some(detail) = self.details.get(entry.detail as usize)
            {
                return Found::Listed(detail);
            }
        }
        self.sites
            .get(first.site as usize)
            .map_or(Found::Unknown, |other| Found::Elsewhere(*other))
    }

    /// How many (site, address) there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Octets of memory that the table takes, without the responses themselves.
    pub fn octets(&self) -> usize {
        size_of_val(&*self.entries)
            + size_of_val(&*self.index)
            + size_of_val(&*self.details)
            + size_of_val(&*self.sites)
    }
}

impl PartialEq for Endpoints {
    /// Equal where every address of every site has the same dates and shares the same responses.
    fn eq(&self, other: &Endpoints) -> bool {
        let same = |entry: &Entry| {
            let site = self.sites.get(entry.site as usize)?;
            let Found::Listed(theirs) = other.find_key(*site, entry.key) else {
                return None;
            };
            let ours = self.details.get(entry.detail as usize)?;
            (identity(ours) == identity(theirs)).then_some(())
        };
        self.entries.len() == other.entries.len() && self.entries.iter().all(|entry| same(entry).is_some())
    }
}

/// The addresses of one site, for building the table.
#[derive(Clone, Debug, Default)]
pub struct SiteEndpoints {
    macs: Vec<(MacAddress, Option<u32>)>,
    details: Vec<Endpoint>,
}

impl SiteEndpoints {
    /// Adds an address; one that is there already is replaced by the later.
    pub fn push(&mut self, mac: MacAddress, endpoint: Endpoint) {
        if endpoint.valid_until.is_none() && endpoint.responses.is_none() {
            self.macs.push((mac, None));
            return;
        }
        // A list often repeats the detail before it: a whole batch with one date.
        if self
            .details
            .last()
            .is_none_or(|last| identity(last) != identity(&endpoint))
        {
            self.details.push(endpoint);
        }
        self.macs.push((mac, u32::try_from(self.details.len() - 1).ok()));
    }

    /// How many addresses.
    pub fn len(&self) -> usize {
        self.macs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.macs.is_empty()
    }
}

#[derive(Default)]
struct Builder {
    entries: Vec<Entry>,
    details: Vec<Endpoint>,
    known: HashMap<(Option<i64>, usize), u32>,
    sites: Vec<SiteId>,
    site_numbers: BySite<u32>,
}

impl Builder {
    fn detail(&mut self, endpoint: &Endpoint) -> u32 {
        if self.details.is_empty() {
            self.details.push(Endpoint::default());
            self.known.insert(identity(&Endpoint::default()), PLAIN);
        }
        *self.known.entry(identity(endpoint)).or_insert_with(|| {
            self.details.push(endpoint.clone());
            self.details.len() as u32 - 1
        })
    }

    fn site(&mut self, site: SiteId) -> u32 {
        *self.site_numbers.entry(site).or_insert_with(|| {
            self.sites.push(site);
            self.sites.len() as u32 - 1
        })
    }

    fn finish(mut self) -> Endpoints {
        self.detail(&Endpoint::default());
        self.entries.sort_unstable();
        // Within a site the schema keeps an address once; were it there twice, the first of the two stays.
        self.entries.dedup_by_key(|entry| (entry.key, entry.site));
        let index_bits = self.entries.len().checked_ilog2().unwrap_or(0).min(24);
        let mut index = vec![0u32; (1usize << index_bits) + 1];
        for entry in &self.entries {
            if let Some(count) = index.get_mut(bucket(entry.key, index_bits) + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for place in &mut index {
            sum += *place;
            *place = sum;
        }
        Endpoints {
            entries: self.entries.into_boxed_slice(),
            index: index.into_boxed_slice(),
            index_bits,
            details: self.details.into_boxed_slice(),
            sites: self.sites.into_boxed_slice(),
            site_numbers: self.site_numbers,
        }
    }
}

/// The address in a form whose first bits are spread evenly, though vendors' prefixes are not: multiplication by an odd
/// number is a bijection, so equal keys are equal addresses.
fn key(mac: MacAddress) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    mac.to_u64().wrapping_mul(ODD)
}

fn bucket(key: u64, bits: u32) -> usize {
    key.checked_shr(64 - bits).unwrap_or(0) as usize
}

/// Two details with one identity are equal.
fn identity(endpoint: &Endpoint) -> (Option<i64>, usize) {
    let responses = endpoint
        .responses
        .as_ref()
        .map_or(0, |responses| Arc::as_ptr(responses).cast::<()>() as usize);
    (endpoint.valid_until, responses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn mac(number: u64) -> MacAddress {
        MacAddress(number.to_be_bytes()[2..].try_into().unwrap())
    }

    fn site(macs: &[(u64, Option<i64>)]) -> SiteEndpoints {
        let mut endpoints = SiteEndpoints::default();
        for &(number, valid_until) in macs {
            endpoints.push(
                mac(number),
                Endpoint {
                    valid_until,
                    responses: None,
                },
            );
        }
        endpoints
    }

    #[derive(Debug, PartialEq)]
    enum Seen {
        Listed(Option<i64>),
        Elsewhere(i64),
        Unknown,
    }

    fn seen(endpoints: &Endpoints, site: i64, number: u64) -> Seen {
        match endpoints.find(SiteId(site), mac(number)) {
            Found::Listed(endpoint) => Seen::Listed(endpoint.valid_until),
            Found::Elsewhere(other) => Seen::Elsewhere(other.0),
            Found::Unknown => Seen::Unknown,
        }
    }

    #[test]
    fn listed_elsewhere_unknown() {
        let endpoints = Endpoints::new([
            (SiteId(7), site(&[(1, None), (2, Some(9))])),
            (SiteId(-1), site(&[(1, Some(5))])),
        ]);
        assert_eq!(seen(&endpoints, 7, 1), Seen::Listed(None));
        assert_eq!(seen(&endpoints, -1, 1), Seen::Listed(Some(5)));
        assert_eq!(seen(&endpoints, -1, 2), Seen::Elsewhere(7));
        assert_eq!(seen(&endpoints, 99, 2), Seen::Elsewhere(7));
        assert_eq!(seen(&endpoints, 7, 3), Seen::Unknown);
        assert_eq!(seen(&Endpoints::default(), 7, 1), Seen::Unknown);
    }

    #[test]
    fn valid_until_is_the_last_second() {
        let endpoint = Endpoint {
            valid_until: Some(100),
            responses: None,
        };
        assert!(!endpoint.is_expired(100));
        assert!(endpoint.is_expired(101));
        assert!(!Endpoint::default().is_expired(i64::MAX));
    }

    #[test]
    fn a_million_addresses_stay_under_64_megabytes() {
        let mut sites = BTreeMap::<i64, SiteEndpoints>::new();
        for number in 0..1_000_000u64 {
            let endpoint = Endpoint {
                valid_until: Some(number as i64),
                responses: None,
            };
            sites
                .entry((number % 1750) as i64)
                .or_default()
                .push(mac(0x001b_7800_0000 + number), endpoint);
        }
        let endpoints = Endpoints::new(sites.into_iter().map(|(id, site)| (SiteId(id), site)));
        assert_eq!(endpoints.len(), 1_000_000);
        assert!(endpoints.octets() < 64 << 20, "{}", endpoints.octets());
        assert_eq!(seen(&endpoints, 5, 0x001b_7800_0005), Seen::Listed(Some(5)));
        assert_eq!(seen(&endpoints, 6, 0x001b_7800_0005), Seen::Elsewhere(5));
    }

    type Sites = BTreeMap<i64, BTreeMap<u64, Option<i64>>>;

    fn sites() -> impl Strategy<Value = Sites> {
        let macs = proptest::collection::btree_map(0u64..40, proptest::option::of(0i64..3), 0..20);
        proptest::collection::btree_map(0i64..5, macs, 0..5)
    }

    fn to_table(sites: &Sites) -> HashMap<SiteId, SiteEndpoints> {
        let of = |macs: &BTreeMap<u64, Option<i64>>| {
            site(&macs.iter().map(|(&mac, &until)| (mac, until)).collect::<Vec<_>>())
        };
        sites.iter().map(|(&id, macs)| (SiteId(id), of(macs))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// A table that was changed site by site equals one that was built at once, and a map.
        #[test]
        fn like_a_map(first in sites(), second in sites(), dropped in 0i64..5) {
            let table = Endpoints::new(to_table(&first)).with(&to_table(&second), |site| site.0 != dropped);
            let mut model = first;
            model.extend(second);
            model.remove(&dropped);
            for site in 0..5 {
                for number in 0..40 {
                    let found = seen(&table, site, number);
                    match model.get(&site).and_then(|macs| macs.get(&number)) {
                        Some(until) => prop_assert_eq!(found, Seen::Listed(*until)),
                        None => {
                            let others: Vec<_> = model.iter().filter(|(_, macs)| macs.contains_key(&number)).collect();
                            match found {
                                Seen::Elsewhere(other) => prop_assert!(others.iter().any(|(id, _)| **id == other)),
                                found => prop_assert!(found == Seen::Unknown && others.is_empty()),
                            }
                        }
                    }
                }
            }
        }
    }
}
