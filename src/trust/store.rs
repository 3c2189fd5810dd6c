//! The sets of certificates in force, which of them is whose, and their replacement without a pause.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use arc_swap::{ArcSwap, Guard};
use ipnet::IpNet;
use rustls::time_provider::TimeProvider;

use super::error::{SetError, TrustError};
use super::server_certificate::ServerCertificate;
use super::set::TrustSet;
use super::settings::{Profile, Settings};
use super::summary::moment;
use super::watch::{Look, Watched};
use crate::clients::Client;
use crate::eap::tls::ticket::TunnelSessions;

/// The sets in force at one moment: the default, and one for each profile.
#[derive(Clone, Debug)]
pub struct TrustSets {
    default: Arc<TrustSet>,
    profiles: Vec<Arc<TrustSet>>,
    owners: Arc<Owners>,
}

impl TrustSets {
    /// The set for a client at a site: of the profile that names the smallest network around the client's, else of the one
    /// that names the site, else the default. The site's tag is asked for only where a profile names sites;
    /// none: it is at no site that is known.
    pub fn for_client<'t>(&self, client: &Client, site_tag: impl FnOnce() -> Option<&'t str>) -> &Arc<TrustSet> {
        match self.owners.of_client(client.network) {
            Some(profile) => self.profile(profile),
            None if self.owners.sites.is_empty() => &self.default,
            None => site_tag().map_or(&self.default, |tag| self.for_site(tag)),
        }
    }

    /// The set for clients of a site that no profile names.
    pub fn for_site(&self, site_tag: &str) -> &Arc<TrustSet> {
        match self.owners.sites.get(site_tag) {
            Some(profile) => self.profile(*profile),
            None => &self.default,
        }
    }

    /// The set that is for all whom no profile names.
    pub fn default_set(&self) -> &Arc<TrustSet> {
        &self.default
    }

    /// All of them, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TrustSet>> {
        std::iter::once(&self.default).chain(&self.profiles)
    }

    fn profile(&self, index: usize) -> &Arc<TrustSet> {
        self.profiles.get(index).unwrap_or(&self.default)
    }
}

/// Which profile is whose: indexes by network and by tag, and nothing that allocates to look one up.
#[derive(Debug, Default)]
struct Owners {
    sites: HashMap<String, usize>,
    clients: HashMap<IpNet, usize>,
    /// The lengths of the prefixes in `clients`, the longest first.
    prefix_lengths: Vec<u8>,
}

impl Owners {
    /// Of two profiles that name the same the first has it; the configuration refuses such.
    fn new(profiles: &[Profile]) -> Owners {
        let mut owners = Owners::default();
        for (index, profile) in profiles.iter().enumerate() {
            for tag in &profile.sites {
                owners.sites.entry(tag.clone()).or_insert(index);
            }
            for network in &profile.clients {
                owners.clients.entry(*network).or_insert(index);
                owners.prefix_lengths.push(network.prefix_len());
            }
        }
        owners.prefix_lengths.sort_unstable_by(|one, other| other.cmp(one));
        owners.prefix_lengths.dedup();
        owners
    }

    fn of_client(&self, network: IpNet) -> Option<usize> {
        let around = self
            .prefix_lengths
            .iter()
            .filter(|length| **length <= network.prefix_len());
        let mut named = around.filter_map(|length| {
            let wider = IpNet::new(network.addr(), *length).ok()?.trunc();
            self.clients.get(&wider).copied()
        });
        named.next()
    }
}

/// The sets in force, and where they come from.
#[derive(Debug)]
pub struct TrustStore {
    /// Of the default, then of the profiles.
    settings: Vec<Settings>,
    time: Arc<dyn TimeProvider>,
    /// The sessions of all sets' tunnels; they outlive the sets.
    tunnels: Arc<TunnelSessions>,
    current: ArcSwap<TrustSets>,
    /// Of each set how it was read last. Held for the whole of a reload: two at once would undo each other.
    readings: Mutex<Vec<Reading>>,
}

/// How the files of a set looked when they were last read, and whether they loaded.
#[derive(Debug)]
struct Reading {
    look: Look,
    failed: bool,
}

/// What a reload led to.
#[derive(Debug)]
pub struct Reloaded {
    /// The sets that were read and are in force now.
    pub replaced: Vec<Arc<TrustSet>>,
    /// Those that were not replaced, and stay as they are.
    pub refused: Vec<SetError>,
}

impl TrustStore {
    /// Loads the first sets.
    ///
    /// # Errors
    /// As [`TrustSet::load`], for any of them.
    pub fn load(
        default: Settings,
        profiles: Vec<Profile>,
        time: Arc<dyn TimeProvider>,
    ) -> Result<TrustStore, SetError> {
        let owners = Arc::new(Owners::new(&profiles));
        let tunnels: Arc<TunnelSessions> = Arc::default();
        let mut readings = Vec::with_capacity(profiles.len() + 1);
        let mut load = |settings: &Settings| {
            let look = Watched::of([settings]).look(); // before the files are read: what changes meanwhile is seen later
            readings.push(Reading { look, failed: false });
            match TrustSet::load_after(settings, Arc::clone(&time), None, Arc::clone(&tunnels)) {
                Ok(set) => Ok(Arc::new(set)),
                Err(error) => Err(SetError::of(settings, error)),
            }
        };
        let sets = TrustSets {
            default: load(&default)?,
            profiles: profiles
                .iter()
                .map(|profile| load(&profile.settings))
                .collect::<Result<_, _>>()?,
            owners,
        };
        let profiles = profiles.into_iter().map(|profile| profile.settings);
        Ok(TrustStore {
            settings: std::iter::once(default).chain(profiles).collect(),
            time,
            tunnels,
            current: ArcSwap::from_pointee(sets),
            readings: Mutex::new(readings),
        })
    }

    /// The sets in force now. A conversation keeps the one that it began with.
    pub fn current(&self) -> Arc<TrustSets> {
        self.current.load_full()
    }

    /// The same for a look on the request path.
    pub fn current_for_request(&self) -> Guard<Arc<TrustSets>> {
        self.current.load()
    }

    /// Where the sets are read from.
    pub(super) fn settings(&self) -> &[Settings] {
        &self.settings
    }

    /// Whether files of a set have changed since it was last read. Not while they are being read, for which nobody waits.
    pub(super) fn has_changed(&self) -> bool {
        let readings = match self.readings.try_lock() {
            Ok(readings) => readings,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut sets = self.settings.iter().zip(readings.iter());
        sets.any(|(settings, reading)| reading.look != Watched::of([settings]).look())
    }

    /// Reads all files again, and puts in force what loads: a set that does not, and one whose server certificate is not
    /// valid now while that of the one before is, leaves the one before in force. Blocks on files, and on the derivation of
    /// keys from passphrases.
    pub fn reload(&self) -> Reloaded {
        self.reload_where(|_, _| true)
    }

    /// The same for the sets whose files have changed, or did not load: the others keep all that they have learned.
    pub(super) fn reload_changed(&self) -> Reloaded {
        self.reload_where(|settings, reading| reading.failed || reading.look != Watched::of([settings]).look())
    }

    fn reload_where(&self, is_due: impl Fn(&Settings, &Reading) -> bool) -> Reloaded {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sets = TrustSets::clone(&self.current.load());
        let mut reloaded = Reloaded {
            replaced: Vec::new(),
            refused: Vec::new(),
        };
        let in_force = std::iter::once(&mut sets.default).chain(&mut sets.profiles);
        for ((settings, reading), in_force) in self.settings.iter().zip(readings.iter_mut()).zip(in_force) {
            if !is_due(settings, reading) {
                continue;
            }
            reading.look = Watched::of([settings]).look();
            let loaded = self.replacement(settings, in_force);
            reading.failed = loaded.is_err();
            match loaded {
                Ok(set) => {
                    *in_force = Arc::new(set);
                    reloaded.replaced.push(Arc::clone(in_force));
                }
                Err(error) => reloaded.refused.push(SetError::of(settings, error)),
            }
        }
        self.current.store(Arc::new(sets));
        reloaded
    }

    fn replacement(&self, settings: &Settings, in_force: &TrustSet) -> Result<TrustSet, TrustError> {
        let (time, tunnels) = (Arc::clone(&self.time), Arc::clone(&self.tunnels));
        let set = TrustSet::load_after(settings, time, Some(in_force), tunnels)?;
        let now = self
            .time
            .current_time()
            .map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let is_valid =
            |server: &&ServerCertificate| (server.summary.not_before..=server.summary.not_after).contains(&now);
        let invalid = set.servers().find(|server| !is_valid(server));
        match invalid {
            Some(server) if in_force.servers().all(|server| is_valid(&server)) => Err(TrustError::NotValidNow {
                path: server.path.clone(),
                from: moment(server.summary.not_before),
                until: moment(server.summary.not_after),
            }),
            _ => Ok(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(sites: &[&str], clients: &[&str]) -> Profile {
        Profile {
            settings: Settings::new("", "", Vec::new()),
            sites: sites.iter().map(|tag| (*tag).to_owned()).collect(),
            clients: clients.iter().map(|network| network.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn the_smallest_network_around_a_client_decides() {
        let owners = Owners::new(&[
            profile(&["leeds"], &["10.0.0.0/8", "2001:db8::/32"]),
            profile(&["york"], &["10.1.0.0/16", "192.0.2.7/32"]),
            profile(&[], &["0.0.0.0/1"]),
        ]);
        for (network, index) in [
            ("10.2.0.0/16", Some(0)),
            ("10.0.0.0/8", Some(0)),
            ("10.1.2.3/32", Some(1)),
            ("10.1.0.0/16", Some(1)),
            ("192.0.2.7/32", Some(1)),
            ("192.0.2.0/24", None), // the profile's network is a part of the client's
            ("10.0.0.0/7", Some(2)),
            ("0.0.0.0/0", None),
            ("2001:db8:1::/48", Some(0)),
            ("2001:db9::1/128", None),
        ] {
            assert_eq!(owners.of_client(network.parse().unwrap()), index, "{network}");
        }
        assert_eq!((owners.sites.get("york"), owners.sites.get("York")), (Some(&1), None));
    }
}
