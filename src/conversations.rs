//! EAP conversations in progress, found by the State attribute (RFC 2865 section 5.24, RFC 3579 section 2.6.1).
//!
//! A conversation is handed over rather than locked: [`Conversations::take`] takes it out and leaves its place marked,
//! the caller works on it, and [`Conversations::put`] or [`Conversations::finish`] fills the place again. No lock is
//! held across work, and a second packet for a conversation that is being worked on is told so.
//!
//! The State is constant for the conversation: 4 octets of the node's id and 128 random bits. It is bound to the client
//! and to the Calling-Station-Id, not to the client's port, which switches change between rounds. What was answered last
//! stays known, so that the same EAP response again gets the same EAP request again (the caller signs it anew), the
//! final answer too for as long as replies are kept.
//!
//! Bounds: a number of conversations in all and for each client. When one is reached, a conversation that was idle long
//! goes (the longest of the client; of one shard, where the number in all is reached), those that have sent no
//! ClientHello before all others.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::eap::keys::Msk;
use crate::radius::code::Code;
use crate::radius::dictionary::types::{AttributeId, Value};

/// Octets of the node id at the front of a State.
const NODE_OCTETS: usize = 4;
/// Octets of a State.
pub const STATE_OCTETS: usize = NODE_OCTETS + 16;
/// Shards, each with a lock of its own; all conversations of one client are in one shard.
const SHARDS: usize = 16;

/// The State attribute's value: node id and 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State([u8; STATE_OCTETS]);

impl State {
    /// The octets on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The last random octets as a number: enough to tell conversations apart in a log.
    pub fn number(&self) -> u64 {
        self.0.last_chunk().map_or(0, |octets| u64::from_be_bytes(*octets))
    }
}

/// Who a conversation belongs to. A new start of the same owner replaces the old conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The client, by its id.
    pub client: i64,
    /// A hash of the Calling-Station-Id; see [`Conversations::hash`].
    pub calling_station: u64,
    /// A hash of what names the NAS port. `None` where the request names no port or no Calling-Station-Id: then a new
    /// start cannot be told from another device's, and replaces nothing.
    pub port: Option<u64>,
}

/// What was sent last, complete enough to be signed again for another request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Access-Challenge, Access-Accept or Access-Reject.
    pub code: Code,
    /// The EAP packet.
    pub eap: Vec<u8>,
    /// Attributes that stand in the reply as they are.
    pub attributes: Vec<u8>,
    /// Attributes that are hidden with each request's authenticator (Tunnel-Password).
    pub hidden: Vec<Hidden>,
    /// Key material of an accept; hidden anew with each request's authenticator.
    pub msk: Option<Msk>,
}

impl Answer {
    /// One that carries nothing.
    pub fn new(code: Code) -> Answer {
        Answer {
            code,
            eap: Vec::new(),
            attributes: Vec::new(),
            hidden: Vec::new(),
            msk: None,
        }
    }
}

/// An attribute of a reply that is hidden on the wire.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// Which.
    pub attribute: AttributeId,
    /// Its tag.
    pub tag: Option<u8>,
    /// Its value in the clear.
    pub value: Value<'static>,
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Conversations in all. Too low: honest supplicants are evicted when many start at once (`session-evicted`).
    /// Too high: each costs some 20 KiB while its handshake lasts.
    pub total: usize,
    /// Conversations of one client.
    pub per_client: usize,
    /// How long a conversation may be idle. Too low: slow supplicants (a person typing a PIN) fail. Too high: dead
    /// ones fill the table and are logged late.
    pub idle: Duration,
    /// How long a final answer is kept.
    pub keep_final: Duration,
}

/// What [`Conversations::take`] found.
#[derive(Debug)]
pub enum Taken<T> {
    /// The conversation, out of the table until it is put back.
    Conversation(Box<T>),
    /// It is being worked on: drop the packet.
    Busy,
    /// This EAP response was the last one answered: send the same again.
    Again(Answer),
    /// It was finished, and this is no repetition of its last response.
    Finished,
    /// No such conversation: never begun here, timed out, or forgotten.
    Unknown,
    /// It belongs to another client or Calling-Station-Id.
    Changed,
    /// It was given up to make room.
    Evicted,
}

/// A conversation that ended without an answer of its own.
#[derive(Debug)]
pub struct Ended<T> {
    /// The conversation.
    pub conversation: Box<T>,
    /// Its State.
    pub state: State,
    /// Why.
    pub end: End,
}

/// How a conversation ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing came for too long.
    Idle,
    /// To make room.
    Evicted,
    /// Its owner began anew.
    Replaced,
}

/// The table. `T` is whatever its user keeps for a conversation.
#[derive(Debug)]
pub struct Conversations<T> {
    node: [u8; NODE_OCTETS],
    limits: Limits,
    hasher: RandomState,
    open: AtomicUsize,
    /// Places of ended ones that are still known.
    ended: AtomicUsize,
    shards: [Mutex<Shard<T>>; SHARDS],
}

#[derive(Debug)]
struct Shard<T> {
    places: HashMap<State, Place<T>>,
    owners: HashMap<Owner, State>,
    /// Idle conversations, oldest first within a class.
    idle: BTreeMap<(Class, u64), State>,
    /// The same for each client.
    idle_of_client: BTreeMap<(i64, Class, u64), State>,
    /// Conversations that are being worked on, those first that were answered longest ago.
    busy: BTreeMap<u64, State>,
    /// Conversations for each client, those being worked on too.
    count_of_client: HashMap<i64, usize>,
    /// Finished and evicted ones, in the order in which they are forgotten.
    ended: BTreeMap<u64, State>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Place<T> {
    owner: Owner,
    slot: Slot<T>,
    /// Hash and answer of the EAP response answered last.
    answered: Option<(u64, Answer)>,
    /// Where it stands in the order of idle or ended ones.
    sequence: u64,
    since: Instant,
}

#[derive(Debug)]
enum Slot<T> {
    Idle(Class, Box<T>),
    Busy,
    Finished,
    Evicted,
}

/// Which conversations are given up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// No ClientHello came yet: it cost nobody much.
    Fresh,
    /// The handshake has begun.
    Begun,
}

impl<T> Conversations<T> {
    /// An empty table of the node `node`.
    pub fn new(node: u32, limits: Limits) -> Self {
        let limits = Limits {
            total: limits.total.max(1),
            per_client: limits.per_client.max(1),
            ..limits
        };
        Conversations {
            node: node.to_be_bytes(),
            limits,
            hasher: RandomState::new(),
            open: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            shards: std::array::from_fn(|_| Mutex::new(Shard::new())),
        }
    }

    /// Conversations begun and not ended.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A keyed hash, for the parts of an [`Owner`] and for EAP responses.
    pub fn hash(&self, octets: &[u8]) -> u64 {
        self.hasher.hash_one(octets)
    }

    /// Reads a State attribute; `None` when it is none of ours by its form.
    pub fn state(&self, octets: &[u8]) -> Option<State> {
        octets.try_into().ok().map(State)
    }

    /// Opens a place for a new conversation, marked as being worked on. `random` gives its State. What had to end for
    /// it (an older one of the same owner, the oldest when a limit was reached) is pushed to `ended`.
    pub fn begin(&self, owner: Owner, now: Instant, random: [u8; 16], ended: &mut Vec<Ended<T>>) -> State {
        let mut octets = [0; STATE_OCTETS];
        let (node, rest) = octets.split_at_mut(NODE_OCTETS);
        node.copy_from_slice(&self.node);
        rest.copy_from_slice(&random);
        let state = State(octets);
        let full = self.open.fetch_add(1, Ordering::Relaxed) >= self.limits.total;
        let mut shard = self.shard(owner.client);
        if let Some(old) = shard.owners.get(&owner).copied() {
            self.end(&mut shard, old, now, End::Replaced, ended);
        }
        let of_client = shard.count_of_client.entry(owner.client).or_default();
        *of_client += 1;
        if *of_client > self.limits.per_client
            && let Some(oldest) = shard.oldest_of_client(owner.client)
        {
            self.end(&mut shard, oldest, now, End::Evicted, ended);
        }
        let sequence = shard.sequence();
        if owner.port.is_some() {
            shard.owners.insert(owner, state);
        }
        shard.busy.insert(sequence, state);
        shard.places.insert(
            state,
            Place {
                owner,
                slot: Slot::Busy,
                answered: None,
                sequence,
                since: now,
            },
        );
        drop(shard);
        if full && self.open() > self.limits.total {
            self.make_room(now, ended);
        }
        state
    }

    /// Takes the conversation out for work on an EAP response with the hash `response`.
    pub fn take(&self, state: &State, client: i64, calling_station: u64, response: u64) -> Taken<T> {
        let mut shard = self.shard(client);
        let Some(place) = shard.places.get_mut(state) else {
            drop(shard);
            return match self.is_known(state) {
                true => Taken::Changed,
                false => Taken::Unknown,
            };
        };
        if place.owner.client != client || place.owner.calling_station != calling_station {
            return Taken::Changed;
        }
        match (&place.slot, &place.answered) {
            (Slot::Busy, _) => return Taken::Busy,
            (Slot::Evicted, _) => return Taken::Evicted,
            (_, Some((answered, answer))) if *answered == response => return Taken::Again(answer.clone()),
            (Slot::Finished, _) => return Taken::Finished,
            (Slot::Idle(..), _) => {}
        }
        let (sequence, owner) = (place.sequence, place.owner);
        let Slot::Idle(class, conversation) = std::mem::replace(&mut place.slot, Slot::Busy) else {
            return Taken::Busy;
        };
        shard.unlist(&owner, class, sequence);
        shard.busy.insert(sequence, *state);
        Taken::Conversation(conversation)
    }

    /// Puts a conversation back, with the EAP response just answered and the answer. What is returned has ended while it
    /// was worked on: its owner began anew.
    #[must_use]
    pub fn put(
        &self,
        state: &State,
        client: i64,
        now: Instant,
        class: Class,
        conversation: Box<T>,
        answered: (u64, Answer),
    ) -> Option<Ended<T>> {
        self.put_back(state, client, now, class, conversation, Some(answered))
    }

    /// Puts a conversation back as it was: the packet was none it could use, and what was answered last stays. Returns
    /// what [`Conversations::put`] does.
    #[must_use]
    pub fn put_unchanged(
        &self,
        state: &State,
        client: i64,
        now: Instant,
        class: Class,
        conversation: Box<T>,
    ) -> Option<Ended<T>> {
        self.put_back(state, client, now, class, conversation, None)
    }

    fn put_back(
        &self,
        state: &State,
        client: i64,
        now: Instant,
        class: Class,
        conversation: Box<T>,
        answered: Option<(u64, Answer)>,
    ) -> Option<Ended<T>> {
        let mut shard = self.shard(client);
        let next = shard.sequence();
        let place = shard.places.get_mut(state);
        let Some(place) = place.filter(|place| matches!(place.slot, Slot::Busy)) else {
            return Some(Ended {
                conversation,
                state: *state,
                end: End::Replaced,
            });
        };
        let was_at = place.sequence;
        // A packet that was no use does not prolong the conversation's life: it gets its old place in the order.
        if answered.is_some() {
            place.answered = answered;
            place.since = now;
            place.sequence = next;
        }
        place.slot = Slot::Idle(class, conversation);
        let (owner, sequence) = (place.owner, place.sequence);
        shard.busy.remove(&was_at);
        shard.list(&owner, class, sequence, *state);
        None
    }

    /// Ends a conversation with its final answer, which is kept for repetitions.
    pub fn finish(&self, state: &State, client: i64, now: Instant, answered: Option<(u64, Answer)>) {
        let mut shard = self.shard(client);
        if shard
            .places
            .get(state)
            .is_some_and(|place| matches!(place.slot, Slot::Busy))
        {
            self.end(&mut shard, *state, now, End::Idle, &mut Vec::new());
            if let Some(place) = shard.places.get_mut(state) {
                place.answered = answered;
            }
        }
    }

    /// Ends what has been idle for too long and forgets final answers that are kept no longer.
    ///
    /// Also what has been worked on for as long: whoever took it has lost it (the future that it waited in panicked), and
    /// will not put it back. It is not in `ended`, since it is nowhere.
    pub fn expire(&self, now: Instant, ended: &mut Vec<Ended<T>>) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            for class in [Class::Fresh, Class::Begun] {
                while let Some(state) = shard.oldest_of_class(class)
                    && shard.is_older(&state, now, self.limits.idle)
                {
                    self.end(&mut shard, state, now, End::Idle, ended);
                }
            }
            // It was idle for less than the limit when it was taken, so twice the limit leaves work all of it.
            while let Some(state) = shard.busy.first_key_value().map(|(_, state)| *state)
                && shard.is_older(&state, now, self.limits.idle * 2)
            {
                self.end(&mut shard, state, now, End::Idle, ended);
            }
            while let Some((sequence, state)) = shard.ended.first_key_value().map(|(k, v)| (*k, *v))
                && shard.is_older(&state, now, self.limits.keep_final)
            {
                shard.ended.remove(&sequence);
                shard.places.remove(&state);
                self.ended.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends every idle conversation: the node stops.
    pub fn drain(&self, now: Instant, ended: &mut Vec<Ended<T>>) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            while let Some(state) = shard.idle.first_key_value().map(|(_, state)| *state) {
                self.end(&mut shard, state, now, End::Idle, ended);
            }
        }
    }

    fn shard(&self, client: i64) -> MutexGuard<'_, Shard<T>> {
        let index = (self.hasher.hash_one(client) as usize) % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the array's length")]
        lock(&self.shards[index])
    }

    /// Ends one, idle or being worked on. What it was goes to `ended` unless somebody is working on it.
    fn end(&self, shard: &mut Shard<T>, state: State, now: Instant, end: End, ended: &mut Vec<Ended<T>>) {
        let slot = if end == End::Evicted {
            Slot::Evicted
        } else {
            Slot::Finished
        };
        let Some(was) = shard.end(state, now, slot) else {
            return;
        };
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Slot::Idle(_, conversation) = was {
            ended.push(Ended {
                conversation,
                state,
                end,
            });
        }
        // Ended places are bounded like open ones: under a flood the oldest are forgotten before their time.
        if self.ended.fetch_add(1, Ordering::Relaxed) >= self.limits.total
            && let Some((_, oldest)) = shard.ended.pop_first()
        {
            shard.places.remove(&oldest);
            self.ended.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether any client has such a conversation. Only asked where the one that shows its State has not.
    fn is_known(&self, state: &State) -> bool {
        self.shards.iter().any(|shard| lock(shard).places.contains_key(state))
    }

    /// Evicts the conversation that was idle longest, of all clients', one without a ClientHello if there is any.
    fn make_room(&self, now: Instant, ended: &mut Vec<Ended<T>>) {
        for class in [Class::Fresh, Class::Begun] {
            // Again where another thread took the oldest between the two looks.
            while let Some(shard) = self.shard_of_oldest(class) {
                let mut shard = lock(shard);
                if let Some(oldest) = shard.oldest_of_class(class) {
                    self.end(&mut shard, oldest, now, End::Evicted, ended);
                    return;
                }
            }
        }
    }

    fn shard_of_oldest(&self, class: Class) -> Option<&Mutex<Shard<T>>> {
        let oldest = self.shards.iter().filter_map(|shard| {
            let locked = lock(shard);
            let state = locked.oldest_of_class(class)?;
            Some((locked.places.get(&state)?.since, shard))
        });
        oldest.min_by_key(|(since, _)| *since).map(|(_, shard)| shard)
    }
}

/// A panic elsewhere cannot leave a shard half changed in a way that matters more than serving on.
fn lock<T>(shard: &Mutex<Shard<T>>) -> MutexGuard<'_, Shard<T>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Shard<T> {
    fn new() -> Self {
        Shard {
            places: HashMap::new(),
            owners: HashMap::new(),
            idle: BTreeMap::new(),
            idle_of_client: BTreeMap::new(),
            busy: BTreeMap::new(),
            count_of_client: HashMap::new(),
            ended: BTreeMap::new(),
            next_sequence: 0,
        }
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn list(&mut self, owner: &Owner, class: Class, sequence: u64, state: State) {
        self.idle.insert((class, sequence), state);
        self.idle_of_client.insert((owner.client, class, sequence), state);
    }

    fn unlist(&mut self, owner: &Owner, class: Class, sequence: u64) {
        self.idle.remove(&(class, sequence));
        self.idle_of_client.remove(&(owner.client, class, sequence));
    }

    fn oldest_of_class(&self, class: Class) -> Option<State> {
        self.idle
            .range((class, 0)..=(class, u64::MAX))
            .next()
            .map(|(_, state)| *state)
    }

    fn oldest_of_client(&self, client: i64) -> Option<State> {
        let range = (client, Class::Fresh, 0)..=(client, Class::Begun, u64::MAX);
        self.idle_of_client.range(range).next().map(|(_, state)| *state)
    }

    fn is_older(&self, state: &State, now: Instant, age: Duration) -> bool {
        self.places
            .get(state)
            .is_none_or(|place| now.saturating_duration_since(place.since) >= age)
    }

    /// Ends a conversation that is idle or being worked on, and returns what its slot held.
    fn end(&mut self, state: State, now: Instant, slot: Slot<T>) -> Option<Slot<T>> {
        let sequence = self.sequence();
        let place = self.places.get_mut(&state)?;
        if matches!(place.slot, Slot::Finished | Slot::Evicted) {
            return None;
        }
        let was_at = std::mem::replace(&mut place.sequence, sequence);
        let was = std::mem::replace(&mut place.slot, slot);
        // What was answered last led to a request that nobody can answer any more.
        place.answered = None;
        let owner = place.owner;
        place.since = now;
        self.ended.insert(sequence, state);
        if self.owners.get(&owner) == Some(&state) {
            self.owners.remove(&owner);
        }
        if let Some(count) = self.count_of_client.get_mut(&owner.client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.count_of_client.remove(&owner.client);
            }
        }
        match was {
            Slot::Idle(class, _) => self.unlist(&owner, class, was_at),
            Slot::Busy => drop(self.busy.remove(&was_at)),
            Slot::Finished | Slot::Evicted => {}
        }
        Some(was)
    }
}

#[cfg(test)]
mod tests;
