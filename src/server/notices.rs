//! What is said of packets that get no answer: enough to find the switch with the wrong secret, never a flood.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::clients::Client;
use crate::reason::Reason;

/// For each reason and source, a line as often as this; those between are counted.
const EVERY: Duration = Duration::from_secs(30);
/// Sources that are remembered for each reason. Too low, and two noisy ones hide a third; too high, and a flood from
/// invented addresses fills the log: these are `SOURCES / EVERY` lines a second.
const SOURCES: usize = 32;
/// For each reason, a line as often as this for all sources beyond those.
const OTHERS_EVERY: Duration = Duration::from_secs(5);
/// For each client that a strict Message-Authenticator would refuse, a line as often as this.
const UNSIGNED_EVERY: Duration = Duration::from_secs(3_600);
/// Clients that are remembered; a fleet of switches fits, an attacker's addresses are no clients.
const UNSIGNED_MAX: usize = 20_000;

/// What was said when.
#[derive(Debug, Default)]
pub struct Notices {
    dropped: Mutex<BTreeMap<Reason, Dropped>>,
    unsigned: Mutex<BTreeMap<i64, Unsigned>>,
}

/// What was said of one reason: of each source by itself, so that one that is noisy does not hide another.
#[derive(Debug, Default)]
struct Dropped {
    sources: BTreeMap<IpNet, Said>,
    others: Option<Said>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Instant,
    unsaid: u64,
}

impl Said {
    /// Whether it is to be said again, and how many packets were not shown since the last time.
    fn again(&mut self, now: Instant, every: Duration) -> Option<u64> {
        if now.saturating_duration_since(self.at) < every {
            self.unsaid += 1;
            return None;
        }
        self.at = now;
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl Dropped {
    /// A packet from `source`: whether to say so, and how many before it were not shown.
    fn packet(&mut self, source: IpNet, now: Instant) -> Option<u64> {
        if let Some(said) = self.sources.get_mut(&source) {
            return said.again(now, EVERY);
        }
        if self.sources.len() >= SOURCES {
            // Only one that is quiet again makes room: else a flood would push the noisy ones out, and each would be new.
            let quiet = self
                .sources
                .iter()
                .filter(|(_, said)| now.saturating_duration_since(said.at) >= EVERY)
                .min_by_key(|(_, said)| said.at)
                .map(|(source, _)| *source);
            match quiet {
                Some(quiet) => drop(self.sources.remove(&quiet)),
                None => {
                    return match &mut self.others {
                        Some(said) => said.again(now, OTHERS_EVERY),
                        None => {
                            self.others = Some(Said { at: now, unsaid: 0 });
                            Some(0)
                        }
                    };
                }
            }
        }
        self.sources.insert(source, Said { at: now, unsaid: 0 });
        Some(0)
    }
}

/// What counts as one source. A client has its address; whoever is no client may have all those around it too.
fn source_of(reason: Reason, address: IpAddr) -> IpNet {
    let prefix = match (reason, address) {
        (Reason::UnknownClient | Reason::MalformedPacket, IpAddr::V4(_)) => 24,
        (_, IpAddr::V4(_)) => 32,
        (_, IpAddr::V6(_)) => 64,
    };
    IpNet::new(address, prefix).map_or(IpNet::from(address), |network| network.trunc())
}

/// A client whose requests lack a Message-Authenticator, and are answered all the same while that is only observed.
#[derive(Clone, Debug)]
pub struct Unsigned {
    /// Its network.
    pub network: String,
    /// From where the last such request came.
    pub last_source: IpAddr,
    /// What such a request would be refused for.
    pub reason: Reason,
    /// How many there were.
    pub requests: u64,
    said: Instant,
}

impl Notices {
    /// A packet from `source` got no answer.
    pub fn dropped(&self, reason: Reason, source: SocketAddr, now: Instant) {
        if reason == Reason::Duplicate {
            return;
        }
        let unsaid = {
            let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            let dropped = dropped.entry(reason).or_default();
            match dropped.packet(source_of(reason, source.ip()), now) {
                Some(unsaid) => unsaid,
                None => return,
            }
        };
        tracing::warn!(
            %source,
            reason = reason.word(),
            not_shown = unsaid,
            hint = reason.hint(),
            "a packet got no answer: {}",
            reason.meaning(),
        );
    }

    /// A request of `client` was answered that would be refused for `reason`.
    pub fn unsigned(&self, client: &Client, reason: Reason, source: IpAddr, now: Instant) {
        {
            let mut unsigned = self.unsigned.lock().unwrap_or_else(PoisonError::into_inner);
            let is_full = unsigned.len() >= UNSIGNED_MAX;
            if let Some(known) = unsigned.get_mut(&client.id) {
                known.requests += 1;
                known.last_source = source;
                known.reason = reason;
                if now.saturating_duration_since(known.said) < UNSIGNED_EVERY {
                    return;
                }
                known.said = now;
            } else {
                // What cannot be remembered would be said for each packet.
                if is_full {
                    return;
                }
                let network = client.network.to_string();
                unsigned.insert(
                    client.id,
                    Unsigned {
                        network,
                        last_source: source,
                        reason,
                        requests: 1,
                        said: now,
                    },
                );
            }
        }
        tracing::warn!(
            client = %client.network,
            %source,
            reason = reason.word(),
            hint = reason.hint(),
            "a request was answered that `[radius] message_authenticator = \"require\"` would refuse",
        );
    }

    /// Those clients, by network.
    pub fn unsigned_clients(&self) -> Vec<Unsigned> {
        self.unsigned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str, reason: Reason) -> IpNet {
        source_of(reason, text.parse().unwrap())
    }

    #[test]
    fn a_noisy_stranger_does_not_hide_another_source() {
        let (mut dropped, start) = (Dropped::default(), Instant::now());
        let noisy = network("203.0.113.9", Reason::BadMessageAuthenticator);
        let switch = network("192.0.2.7", Reason::BadMessageAuthenticator);
        assert_eq!(dropped.packet(noisy, start), Some(0));
        for _ in 0..1_000 {
            assert_eq!(dropped.packet(noisy, start + Duration::from_secs(1)), None);
        }
        assert_eq!(dropped.packet(switch, start + Duration::from_secs(1)), Some(0));
        assert_eq!(dropped.packet(switch, start + Duration::from_secs(2)), None);
        assert_eq!(dropped.packet(noisy, start + EVERY), Some(1_000));
        assert_eq!(dropped.packet(switch, start + EVERY * 2), Some(1));
    }

    #[test]
    fn a_flood_of_sources_is_bounded_in_memory_and_in_lines() {
        let (mut dropped, start) = (Dropped::default(), Instant::now());
        let mut lines = 0;
        for number in 0..100_000_u32 {
            let source = IpNet::from(IpAddr::from(number.to_be_bytes()));
            let now = start + Duration::from_millis(u64::from(number) / 10);
            lines += usize::from(dropped.packet(source, now).is_some());
            assert!(dropped.sources.len() <= SOURCES);
        }
        // in ten seconds: the first of all, and one and another of the others
        assert_eq!(lines, SOURCES + 2);
        // those that are quiet again make room
        let switch = network("192.0.2.7", Reason::BadMessageAuthenticator);
        assert_eq!(dropped.packet(switch, start + EVERY * 2), Some(0));
    }

    #[test]
    fn strangers_have_networks_and_clients_addresses() {
        assert_eq!(
            network("203.0.113.9", Reason::UnknownClient).to_string(),
            "203.0.113.0/24"
        );
        assert_eq!(
            network("203.0.113.9", Reason::BadMessageAuthenticator).to_string(),
            "203.0.113.9/32"
        );
        assert_eq!(
            network("2001:db8::7", Reason::UnknownClient).to_string(),
            "2001:db8::/64"
        );
    }
}
