//! Sessions of tunnels, which the node keeps itself (RFC 5281, 7.5; RFC 9427, 4 and 6.1).
//!
//! A tunnel stands before anything was proven inside of it, and TLS hands out right then what resumes it. "The EAP server
//! MUST NOT permit any session ticket to successfully resume authentication unless the inner tunnel authentication has
//! completed successfully" (RFC 9427, 6.1). So what a supplicant gets is the name of a session, which counts for nothing
//! until the authentication has succeeded. Then the session is sealed like a ticket, with the chain that was shown inside,
//! and stays here. On another node, and after a restart, the tunnel is made anew, and the EAP-TLS inside is resumed by a
//! ticket of its own.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::crypto::SecureRandom;
use rustls::server::StoresServerSessions;
use rustls::server::danger::ClientCertVerifier;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::chain;
use super::{Content, OPENED_MAX, Offered, Scope, Tickets};
use crate::eap::tls::TlsServer;

/// Octets of a session's name: a session id of TLS 1.2, what stands for a ticket in TLS 1.3.
const NAME_OCTETS: usize = 32;
/// Parts with a lock each.
const SHARDS: usize = 16;
/// What all sessions of one part may have together: with P-256 certificates some six hundred. Too few: tunnels are made
/// anew, and the EAP-TLS inside is resumed; too many: only memory.
const SHARD_OCTETS_MAX: usize = 512 * 1024;
/// What an entry takes beside its sealed session, about.
const ENTRY_OCTETS: usize = 160;

type Name = [u8; NAME_OCTETS];

/// The sessions of a node's tunnels, sealed. Where there is no room, the oldest go.
#[derive(Default)]
pub struct TunnelSessions([Mutex<Shard>; SHARDS]);

#[derive(Default)]
struct Shard {
    by_age: BTreeMap<u64, (Name, Box<[u8]>)>,
    by_name: HashMap<Name, u64>,
    next: u64,
    octets: usize,
}

impl TunnelSessions {
    fn shard(&self, name: &Name) -> Option<MutexGuard<'_, Shard>> {
        let [.., last] = name;
        let shard = self.0.get(usize::from(*last) % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&self, name: &Name) -> Option<Box<[u8]>> {
        let shard = self.shard(name)?;
        let (_, sealed) = shard.by_age.get(shard.by_name.get(name)?)?;
        Some(sealed.clone())
    }

    fn insert(&self, name: Name, sealed: Vec<u8>) {
        let Some(mut shard) = self.shard(&name) else { return };
        shard.remove(&name);
        shard.octets += ENTRY_OCTETS + sealed.len();
        let age = shard.next;
        shard.next += 1;
        shard.by_age.insert(age, (name, sealed.into()));
        shard.by_name.insert(name, age);
        while shard.octets > SHARD_OCTETS_MAX
            && let Some((oldest, _)) = shard.by_age.first_key_value().map(|(_, entry)| entry)
        {
            let oldest = *oldest;
            shard.remove(&oldest);
        }
    }

    fn remove(&self, name: &Name) {
        if let Some(mut shard) = self.shard(name) {
            shard.remove(name);
        }
    }
}

impl Shard {
    fn remove(&mut self, name: &Name) {
        let age = self.by_name.remove(name);
        if let Some((_, sealed)) = age.and_then(|age| self.by_age.remove(&age)) {
            self.octets = self.octets.saturating_sub(ENTRY_OCTETS + sealed.len());
        }
    }
}

impl fmt::Debug for TunnelSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelSessions").finish_non_exhaustive()
    }
}

/// What a tunnel that was resumed stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// The chain that was shown inside when it was first made.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// Who the supplicant said it is there.
    pub(crate) identity: Vec<u8>,
}

/// The session of one tunnel, as rustls asks for it and hands it over.
pub(crate) struct Keeper {
    tickets: Arc<Tickets>,
    sessions: Arc<TunnelSessions>,
    binding: Vec<u8>,
    /// The verifier in force.
    verifier: Arc<dyn ClientCertVerifier>,
    time: Arc<dyn TimeProvider>,
    random: &'static dyn SecureRandom,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: u8,
    offered: Option<Offered>,
    /// What the supplicant was given in this handshake: its name, and what rustls wants to be handed for it.
    given: Option<(Name, Zeroizing<Vec<u8>>)>,
    /// What it brought back last.
    brought: Option<Brought>,
}

#[derive(Clone)]
struct Brought {
    name: Name,
    /// When a full handshake verified the chain, Unix seconds.
    checked_at: u64,
    deflated: Vec<u8>,
    resumed: Resumed,
}

impl Keeper {
    /// `None` where `tls` resumes no tunnels.
    pub(crate) fn new(tls: &TlsServer, scope: Scope) -> Option<Keeper> {
        let tickets = Arc::clone(tls.tickets.as_ref()?);
        Some(Keeper {
            sessions: Arc::clone(tickets.tunnels.as_ref()?),
            // what resumes the EAP-TLS inside is bound to the same scope, and is not this
            binding: [&tickets.binding(scope)[..], b"tunnel"].concat(),
            tickets,
            verifier: Arc::clone(&tls.verifier),
            time: Arc::clone(&tls.time),
            random: tls.provider.secure_random,
            state: Mutex::default(),
        })
    }

    /// What became of the session that was offered, `resumed` or not; `None` where none was.
    pub(crate) fn offered(&self, resumed: bool) -> Option<Offered> {
        self.state().offered.map(|offered| offered.given(resumed))
    }

    /// What the session stands for that was brought back last: the one that is resumed, if one is.
    pub(crate) fn resumed(&self) -> Option<Resumed> {
        Some(self.state().brought.as_ref()?.resumed.clone())
    }

    /// The authentication inside has succeeded with this chain, which a full handshake verified at `checked_at`: from now
    /// on the session counts that the supplicant was given.
    pub(crate) fn keep(&self, chain: &[CertificateDer<'_>], identity: &[u8], checked_at: u64) {
        if let Some(deflated) = self.tickets.deflate(chain) {
            self.put_away(checked_at, &deflated, identity);
        }
    }

    /// The same after a resumption: the session given takes the place of the one that was brought, and grows no younger.
    pub(crate) fn renew(&self) {
        let brought = self.state().brought.clone();
        if let Some(brought) = brought
            && self
                .put_away(brought.checked_at, &brought.deflated, &brought.resumed.identity)
                .is_some()
        {
            self.sessions.remove(&brought.name);
        }
    }

    /// `None` where the supplicant was given nothing.
    fn put_away(&self, checked_at: u64, deflated: &[u8], identity: &[u8]) -> Option<()> {
        let (name, session) = self.state().given.take()?;
        let content = Content {
            checked_at,
            before: &session,
            deflated,
            after: identity,
        };
        let now = self.time.current_time()?.as_secs();
        let sealed = self
            .tickets
            .keys
            .seal(now, &self.binding, content.write()?, self.random)?;
        self.sessions.insert(name, sealed);
        Some(())
    }

    fn find(&self, name: &[u8]) -> Result<(Brought, Vec<u8>), Offered> {
        let name = Name::try_from(name).map_err(|_| Offered::Unusable)?;
        let sealed = self.sessions.get(&name).ok_or(Offered::Unusable)?;
        let Tickets { keys, lifetime_s, .. } = &*self.tickets;
        let now = self.time.current_time().ok_or(Offered::Unusable)?;
        let content = keys
            .open(now.as_secs(), *lifetime_s, &self.binding, &sealed)
            .ok_or(Offered::Unusable)?;
        let content = Content::parse(&content).ok_or(Offered::Unusable)?;
        let octets = self.tickets.judged(&*self.verifier, now, &content)?;
        let chain = chain::decode(&octets).ok_or(Offered::Unusable)?;
        let brought = Brought {
            name,
            checked_at: content.checked_at,
            deflated: content.deflated.to_vec(),
            resumed: Resumed {
                chain: chain.into_iter().map(CertificateDer::into_owned).collect(),
                identity: content.after.to_vec(),
            },
        };
        Ok((brought, content.before.to_vec()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoresServerSessions for Keeper {
    /// Nothing is stored: it is remembered what it would be.
    fn put(&self, name: Vec<u8>, session: Vec<u8>) -> bool {
        let session = Zeroizing::new(session);
        match Name::try_from(name) {
            Ok(name) => {
                self.state().given = Some((name, session));
                true
            }
            Err(_) => false,
        }
    }

    fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.state();
        if state.asked >= OPENED_MAX {
            return None;
        }
        state.asked += 1;
        match self.find(name) {
            Ok((brought, session)) => {
                state.offered = Some(Offered::Resumed);
                state.brought = Some(brought);
                Some(session)
            }
            Err(offered) => {
                state.offered = Some(offered);
                None
            }
        }
    }

    /// It stays until another takes its place: a resumption may come to nothing, and be tried again.
    fn take(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.get(name)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of one part: their last octet is the same.
    fn name(number: u16) -> Name {
        let mut name = [0; NAME_OCTETS];
        name[..2].copy_from_slice(&number.to_be_bytes());
        name
    }

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let sessions = TunnelSessions::default();
        let octets = 4_096;
        let fit = (SHARD_OCTETS_MAX / (octets + ENTRY_OCTETS)) as u16;
        for number in 0..=fit {
            sessions.insert(name(number), vec![0; octets]);
        }
        assert!(sessions.get(&name(0)).is_none());
        assert!((1..=fit).all(|number| sessions.get(&name(number)).is_some()));
        assert!(sessions.0[0].lock().unwrap().octets <= SHARD_OCTETS_MAX);
        // one that is put away again is the youngest
        sessions.insert(name(1), vec![0; octets]);
        sessions.insert(name(9_999), vec![0; octets]);
        assert!(sessions.get(&name(1)).is_some() && sessions.get(&name(2)).is_none());
        // and what fits nowhere is not kept
        sessions.insert(name(5), vec![0; SHARD_OCTETS_MAX]);
        assert!(sessions.get(&name(5)).is_none());
        let shard = sessions.0[0].lock().unwrap();
        assert_eq!((shard.octets, shard.by_age.len(), shard.by_name.len()), (0, 0, 0));
    }

    #[test]
    fn what_was_taken_out_is_gone_and_takes_no_room() {
        let sessions = TunnelSessions::default();
        for _ in 0..10_000 {
            sessions.insert(name(7), vec![0; 100]);
            assert!(sessions.get(&name(7)).is_some() && sessions.get(&name(8)).is_none());
            sessions.remove(&name(7));
            assert!(sessions.get(&name(7)).is_none());
        }
        let shard = sessions.0[0].lock().unwrap();
        assert_eq!((shard.octets, shard.by_age.len(), shard.by_name.len()), (0, 0, 0));
    }
}
