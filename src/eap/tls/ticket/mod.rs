//! Tickets: sessions that supplicants keep for the server (RFC 5077; RFC 8446, 4.6.1; RFC 9190, 2.1.2 and 5.7).
//!
//! A ticket is good for the EAP method, the client CAs and the site that it was made for, until a time after the full
//! handshake in which the certificate was looked at: a resumption brings a new ticket, but no new time. Whoever holds the
//! secrets that sealed it ([`TicketKeys`]) takes it. One that is no good leads to a full handshake, which finds out
//! why a device is refused, and takes the certificate that it has by now.
//!
//! "Any security policies for authorization MUST be followed also for resumption" (RFC 9190, 5.7): the verifier in force
//! judges the chain in a ticket as it judges one that is shown, and where it "has expired ... an attempt at resumption
//! results in a full TLS handshake instead". Revocation and policies are the floor's above, which is handed the chain of a
//! resumed session like any other.
//!
//! A tunnel around EAP-TLS has no ticket: what resumes it is kept by the node, if it is resumed at all ([`TunnelSessions`]).

mod chain;
mod kept;
mod keys;
mod known;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::crypto::SecureRandom;
use rustls::server::ProducesTickets;
use rustls::server::danger::ClientCertVerifier;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, UnixTime};

use self::chain::{CHAIN_OCTETS_MAX, Dictionary};
pub use self::kept::TunnelSessions;
pub(crate) use self::kept::{Keeper, Resumed};
use self::keys::OVERHEAD_OCTETS;
pub use self::keys::TicketKeys;
use self::known::Known;
use super::TlsServer;
use super::recorder::Recorder;
use crate::eap::method::EapType;

/// The longest that a session lives: "The value MUST NOT exceed 604,800" seconds (RFC 8446, 4.6.1).
pub const LIFETIME_MAX: Duration = Duration::from_secs(604_800);

/// Octets of the largest ticket. It travels twice in fragments that have a thousand octets as a rule; above this a
/// resumption takes as many round trips as a full handshake.
const TICKET_OCTETS_MAX: usize = 1_500;

/// Octets of a chain that is carried whole: a ticket of 700 octets.
const CHAIN_WHOLE: usize = 540;

/// Octets of a chain beside which the rest of a resumption's largest messages fits into one fragment as a rule: the
/// ClientHello that offers the ticket, and the flight that brings the next one.
const CHAIN_IN_FRAGMENT: usize = 750;

/// Tickets that are opened in one conversation. Supplicants offer one; each costs as much as a certificate's check.
const OPENED_MAX: u8 = 4;

/// How far the clocks of a fleet's nodes may be apart.
const SKEW_S: u64 = 300;

/// What tickets are made with and opened by; one for each set of client CAs.
pub struct Tickets {
    keys: Arc<TicketKeys>,
    /// Where tunnels are resumed: their sessions, which are no tickets.
    tunnels: Option<Arc<TunnelSessions>>,
    lifetime_s: u64,
    /// Of the profile's name, the client CAs and the dictionary that is made of them.
    fingerprint: [u8; 32],
    dictionary: Dictionary,
    known: Known,
}

/// What a session is good for, beside the client CAs: what was begun in one scope is taken up in no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The site.
    pub site: i64,
    /// The EAP method that carries EAP-TLS: itself, or a tunnel.
    pub method: EapType,
}

impl Scope {
    /// EAP-TLS at a site.
    pub const fn at(site: i64) -> Scope {
        Scope {
            site,
            method: EapType::TLS,
        }
    }
}

/// What became of the ticket that a supplicant offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offered {
    /// The session was resumed.
    Resumed,
    /// It was sealed by a secret that is not known here, or for another site, method or set of client CAs, or it is none.
    Unusable,
    /// The full handshake is too long ago.
    Expired,
    /// The certificate in it is no longer good: expired, as a rule.
    Refused,
}

impl Offered {
    /// Each of them.
    pub const ALL: [Offered; 4] = [Offered::Resumed, Offered::Unusable, Offered::Expired, Offered::Refused];

    /// What it comes to when in the end the session was `resumed`, or not.
    fn given(self, resumed: bool) -> Offered {
        match self {
            Offered::Resumed if !resumed => Offered::Unusable,
            offered => offered,
        }
    }

    /// The word of the metric.
    pub const fn word(self) -> &'static str {
        match self {
            Offered::Resumed => "resumed",
            Offered::Unusable => "unusable",
            Offered::Expired => "expired",
            Offered::Refused => "refused",
        }
    }
}

impl Tickets {
    /// Tickets that are good for `lifetime`, at most [`LIFETIME_MAX`], in the profile of this name, for clients of
    /// `authorities`: each certificate, and whether it is a root. Their order does not matter. The server's own certificate
    /// does not either: each node may have one of its own, and renews it when it has to.
    pub fn new<'a>(
        keys: Arc<TicketKeys>,
        lifetime: Duration,
        profile: &str,
        authorities: impl IntoIterator<Item = (&'a [u8], bool)>,
    ) -> Tickets {
        // the same on all nodes; and issuing CAs first, whose names are in the devices' certificates
        let mut authorities: Vec<(bool, &[u8])> =
            authorities.into_iter().map(|(der, is_root)| (is_root, der)).collect();
        authorities.sort_unstable();
        let dictionary = Dictionary::new(authorities.iter().map(|(_, der)| *der));
        let mut fingerprint = digest::Context::new(&digest::SHA256);
        for part in [profile.as_bytes(), dictionary.octets()]
            .into_iter()
            .chain(authorities.iter().map(|(_, der)| *der))
        {
            fingerprint.update(&(part.len() as u64).to_be_bytes());
            fingerprint.update(part);
        }
        let fingerprint = fingerprint.finish();
        Tickets {
            keys,
            tunnels: None,
            lifetime_s: lifetime.min(LIFETIME_MAX).as_secs(),
            fingerprint: *fingerprint.as_ref().first_chunk().unwrap_or(&[0; 32]),
            dictionary,
            known: Known::default(),
        }
    }

    /// The same, by which tunnels are resumed too, whose sessions are kept in `tunnels`.
    pub fn with_tunnels(self, tunnels: Arc<TunnelSessions>) -> Tickets {
        Tickets {
            tunnels: Some(tunnels),
            ..self
        }
    }

    /// A chain for a ticket. Whole where it is small, so that every node can open it; else issuers that are no client CAs by
    /// name, and a leaf that would not fit into one fragment too.
    fn deflate(&self, chain: &[CertificateDer<'_>]) -> Option<Vec<u8>> {
        let deflate = |first_named: usize| {
            let is_named = |at: usize, der: &CertificateDer<'_>| at >= first_named && !self.dictionary.has(der);
            self.dictionary.deflate(&self.known.shorten(chain, is_named))
        };
        for (first_named, most) in [(chain.len(), CHAIN_WHOLE), (1, CHAIN_IN_FRAGMENT)] {
            let deflated = deflate(first_named)?;
            if deflated.len() <= most {
                return Some(deflated);
            }
        }
        deflate(0)
    }

    /// What [`Tickets::deflate`] was given, as rustls has it in a session.
    fn inflate(&self, deflated: &[u8]) -> Option<Vec<u8>> {
        self.known.expand(&self.dictionary.inflate(deflated)?)
    }

    /// What they are sealed by.
    pub fn keys(&self) -> &Arc<TicketKeys> {
        &self.keys
    }

    /// What a session is bound to: with another binding it is no good.
    fn binding(&self, scope: Scope) -> Vec<u8> {
        let Scope { method, site } = scope;
        [&self.fingerprint[..], &[method.0], &site.to_be_bytes()].concat()
    }

    /// The chain of a session, as [`chain::encode`] has it: if the full handshake is not too long ago, and the verifier in
    /// force finds it good now.
    fn judged(
        &self,
        verifier: &dyn ClientCertVerifier,
        now: UnixTime,
        content: &Content<'_>,
    ) -> Result<Vec<u8>, Offered> {
        let age_s = now.as_secs().saturating_sub(content.checked_at);
        if age_s >= self.lifetime_s || content.checked_at > now.as_secs().saturating_add(SKEW_S) {
            return Err(Offered::Expired);
        }
        let octets = self.inflate(content.deflated).ok_or(Offered::Unusable)?;
        let chain = chain::decode(&octets).ok_or(Offered::Unusable)?;
        let (certificate, presented) = chain.split_first().ok_or(Offered::Unusable)?;
        verifier
            .verify_client_cert(certificate, presented, now)
            .map_err(|_| Offered::Refused)?;
        Ok(octets)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets")
            .field("keys", &self.keys)
            .field("lifetime_s", &self.lifetime_s)
            .finish_non_exhaustive()
    }
}

/// The tickets of one conversation, as rustls asks for them.
pub(crate) struct Ticketer {
    tickets: Arc<Tickets>,
    /// What is sealed along with each ticket and not in it: with another one it does not open.
    binding: Vec<u8>,
    /// Knows the chain of a full handshake, and has the verifier in force.
    recorder: Arc<Recorder>,
    time: Arc<dyn TimeProvider>,
    random: &'static dyn SecureRandom,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    opened: u8,
    offered: Option<Offered>,
    /// Of the ticket that was opened last: the one that is resumed, if one is.
    session: Option<Checked>,
}

/// A chain, and when a full handshake verified it.
#[derive(Clone)]
struct Checked {
    at: u64,
    /// As [`chain::encode`] has it.
    chain: Vec<u8>,
    deflated: Vec<u8>,
}

impl Ticketer {
    /// `None` where `tls` resumes nothing.
    pub(crate) fn new(tls: &TlsServer, scope: Scope, recorder: Arc<Recorder>) -> Option<Ticketer> {
        let tickets = Arc::clone(tls.tickets.as_ref()?);
        Some(Ticketer {
            binding: tickets.binding(scope),
            tickets,
            recorder,
            time: Arc::clone(&tls.time),
            random: tls.provider.secure_random,
            state: Mutex::default(),
        })
    }

    /// What became of the ticket offered, `resumed` or not; `None` where none was.
    pub(crate) fn offered(&self, resumed: bool) -> Option<Offered> {
        self.state().offered.map(|offered| offered.given(resumed))
    }

    /// When a full handshake verified the chain of this session, Unix seconds.
    pub(crate) fn checked_at(&self) -> Option<u64> {
        match self.recorder.presented() {
            Some(_) => self.now().map(|now| now.as_secs()),
            None => self.state().session.as_ref().map(|session| session.at),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Option<UnixTime> {
        self.time.current_time()
    }

    /// Which chain the session that is sealed now has, and since when it counts.
    fn checked(&self, now: u64) -> Option<Checked> {
        match self.recorder.presented() {
            Some(presented) => {
                let chain = chain::encode(presented);
                if chain.len() > CHAIN_OCTETS_MAX {
                    return None;
                }
                let deflated = self.tickets.deflate(presented)?;
                Some(Checked {
                    at: now,
                    chain,
                    deflated,
                })
            }
            None => self.state().session.clone(),
        }
    }

    fn open(&self, ticket: &[u8]) -> Result<(Checked, Vec<u8>), Offered> {
        let Tickets { keys, lifetime_s, .. } = &*self.tickets;
        let now = self.now().ok_or(Offered::Unusable)?;
        let content = keys
            .open(now.as_secs(), *lifetime_s, &self.binding, ticket)
            .ok_or(Offered::Unusable)?;
        let content = Content::parse(&content).ok_or(Offered::Unusable)?;
        let octets = self.tickets.judged(self.recorder.shared(), now, &content)?;
        let session = [content.before, &octets, content.after].concat();
        let checked = Checked {
            at: content.checked_at,
            deflated: content.deflated.to_vec(),
            chain: octets,
        };
        Ok((checked, session))
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    /// What is left of the session whose ticket was sealed last. rustls asks after it was.
    fn lifetime(&self) -> u32 {
        let now = self.now().map_or(0, |now| now.as_secs());
        let age_s = self.checked_at().map_or(0, |at| now.saturating_sub(at));
        u32::try_from(self.tickets.lifetime_s.saturating_sub(age_s)).unwrap_or(0)
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        let now = self.now()?.as_secs();
        let Checked { at, chain, deflated } = self.checked(now)?;
        if now.saturating_sub(at) >= self.tickets.lifetime_s {
            return None;
        }
        // whatever rustls has around the chain is its own business
        let start = session
            .windows(chain.len().max(1))
            .position(|window| *window == *chain)?;
        let (before, rest) = session.split_at_checked(start)?;
        let content = Content {
            checked_at: at,
            before,
            deflated: &deflated,
            after: rest.get(chain.len()..)?,
        };
        let ticket = self
            .tickets
            .keys
            .seal(now, &self.binding, content.write()?, self.random)?;
        (ticket.len() <= TICKET_OCTETS_MAX).then_some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.state();
        state.opened += 1;
        if state.opened > OPENED_MAX {
            state.opened = OPENED_MAX;
            return None;
        }
        match self.open(ticket) {
            Ok((checked, session)) => {
                state.offered = Some(Offered::Resumed);
                state.session = Some(checked);
                Some(session)
            }
            Err(offered) => {
                state.offered = Some(offered);
                None
            }
        }
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").finish_non_exhaustive()
    }
}

/// What is sealed, of a tunnel too: `checked_at (8) || octets of before (2) || octets of deflated (2) || before || deflated || after`.
struct Content<'a> {
    /// When a full handshake verified the chain, Unix seconds.
    checked_at: u64,
    /// rustls's session up to the chain: versions and secrets. All of it for a tunnel, in which there is no chain.
    before: &'a [u8],
    /// The chain.
    deflated: &'a [u8],
    /// rustls's session from the chain on; for a tunnel the identity that was given inside.
    after: &'a [u8],
}

impl<'a> Content<'a> {
    fn write(&self) -> Option<Vec<u8>> {
        let length = |part: &[u8]| u16::try_from(part.len()).ok().map(u16::to_be_bytes);
        let head = [length(self.before)?, length(self.deflated)?].concat();
        let parts = [
            &self.checked_at.to_be_bytes()[..],
            &head,
            self.before,
            self.deflated,
            self.after,
        ];
        let mut content = Vec::with_capacity(parts.iter().map(|part| part.len()).sum::<usize>() + OVERHEAD_OCTETS);
        parts.iter().for_each(|part| content.extend_from_slice(part));
        Some(content)
    }

    fn parse(content: &'a [u8]) -> Option<Content<'a>> {
        let (checked_at, rest) = content.split_first_chunk()?;
        let (before, rest) = rest.split_first_chunk()?;
        let (deflated, rest) = rest.split_first_chunk()?;
        let (before, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*before)))?;
        let (deflated, after) = rest.split_at_checked(usize::from(u16::from_be_bytes(*deflated)))?;
        Some(Content {
            checked_at: u64::from_be_bytes(*checked_at),
            before,
            deflated,
            after,
        })
    }
}

#[cfg(test)]
mod tests;
