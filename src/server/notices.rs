//! What is said of packets that get no answer: enough to find the switch with the wrong secret, never a flood.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clients::Client;
use crate::reason::Reason;

/// For each reason, a line as often as this; those between are counted.
const EVERY: Duration = Duration::from_secs(5);
/// For each client that a strict Message-Authenticator would refuse, a line as often as this.
const UNSIGNED_EVERY: Duration = Duration::from_secs(3_600);
/// Clients that are remembered; a fleet of switches fits, an attacker's addresses are no clients.
const UNSIGNED_MAX: usize = 20_000;

/// What was said when.
#[derive(Debug, Default)]
pub struct Notices {
    dropped: Mutex<BTreeMap<Reason, Said>>,
    unsigned: Mutex<BTreeMap<i64, Unsigned>>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Instant,
    unsaid: u64,
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
            let said = dropped.entry(reason).or_insert(Said {
                at: now.checked_sub(EVERY).unwrap_or(now),
                unsaid: 0,
            });
            if now.saturating_duration_since(said.at) < EVERY {
                said.unsaid += 1;
                return;
            }
            said.at = now;
            std::mem::take(&mut said.unsaid)
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
