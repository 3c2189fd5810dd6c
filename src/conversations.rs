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

mod answer;
mod shard;

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::answer::Kept;
pub use self::answer::{Answer, Hidden};
use self::shard::{Among, At, Place, Shard};

/// Octets of the node id at the front of a State.
const NODE_OCTETS: usize = 4;
/// Octets of a State.
pub const STATE_OCTETS: usize = NODE_OCTETS + 16;
/// Shards, each with a lock of its own; all conversations of one client are in one shard.
const SHARDS: usize = 16;

/// The State attribute's value: node id and 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State([u8; STATE_OCTETS]);

impl State {
    /// The octets on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The last random octets as a number: enough to tell conversations apart in a log, and to find them by.
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

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Conversations in all, and final answers that are kept. Too low: honest supplicants are evicted when many start at
    /// once (`session-evicted`), and final answers are forgotten early (`session-unknown`). Too high: each conversation
    /// costs some 20 KiB while its handshake lasts.
    pub total: usize,
    /// Conversations of one client.
    pub per_client: usize,
    /// How long a conversation may be idle. Too low: slow supplicants (a person typing a PIN) fail. Too high: dead
    /// ones fill the table and are logged late.
    pub idle: Duration,
    /// How long a final answer is kept, where no more than `total` are.
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
    /// For what strangers choose.
    hasher: RandomState,
    /// For what is only told apart.
    fast: foldhash::quality::RandomState,
    counts: Apart<Counts>,
    shards: [Apart<Mutex<Shard<T>>>; SHARDS],
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    /// Places of ended ones that are still known.
    ended: AtomicUsize,
}

/// In lines of the cache of its own: what one processor writes does not take its neighbours from the others.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

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
            fast: foldhash::quality::RandomState::default(),
            counts: Apart::default(),
            shards: std::array::from_fn(|_| Apart(Mutex::new(Shard::new()))),
        }
    }

    /// Conversations begun and not ended.
    pub fn open(&self) -> usize {
        self.counts.0.open.load(Ordering::Relaxed)
    }

    /// A keyed hash, for the parts of an [`Owner`].
    pub fn hash(&self, part: impl Hash) -> u64 {
        self.hasher.hash_one(part)
    }

    /// A hash of an EAP response, by which a repetition of it is known.
    pub fn response(&self, octets: &[u8]) -> u64 {
        self.fast.hash_one(octets)
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
        let full = self.counts.0.open.fetch_add(1, Ordering::Relaxed) >= self.limits.total;
        let mut shard = self.shard(owner.client);
        if let Some(old) = shard.of_owner(&owner) {
            self.end(&mut shard, old, now, End::Replaced, ended);
        }
        if shard.open_of_client(owner.client) >= self.limits.per_client
            && let Some(oldest) = shard.oldest_idle_of_client(owner.client)
        {
            self.end(&mut shard, oldest, now, End::Evicted, ended);
        }
        shard.insert(Place::new(state, owner, now));
        drop(shard);
        if full && self.open() > self.limits.total {
            self.make_room(now, ended);
        }
        state
    }

    /// Takes the conversation out for work on an EAP response with the hash `response`.
    pub fn take(&self, state: &State, client: i64, calling_station: u64, response: u64) -> Taken<T> {
        let mut shard = self.shard(client);
        let is_of = |owner: &Owner| owner.client == client && owner.calling_station == calling_station;
        match shard.find(state) {
            Some(At::Open(at)) => match shard.place_mut(at) {
                Some(place) if is_of(&place.owner) => match (place.conversation.take(), place.again(response)) {
                    (None, _) => Taken::Busy,
                    (Some(conversation), None) => Taken::Conversation(conversation),
                    (conversation, Some(answer)) => {
                        place.conversation = conversation;
                        Taken::Again(answer)
                    }
                },
                _ => Taken::Changed,
            },
            Some(At::Ended(number)) => shard.take_ended(number, client, calling_station, response),
            None => {
                drop(shard);
                match self.is_known(state) {
                    true => Taken::Changed,
                    false => Taken::Unknown,
                }
            }
        }
    }

    /// Puts a conversation back, with the EAP response just answered and the EAP request of the challenge that answered it.
    /// What is returned has ended while it was worked on: its owner began anew.
    #[must_use]
    pub fn put(
        &self,
        state: &State,
        client: i64,
        now: Instant,
        class: Class,
        conversation: Box<T>,
        answered: (u64, Vec<u8>),
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
        answered: Option<(u64, Vec<u8>)>,
    ) -> Option<Ended<T>> {
        let mut shard = self.shard(client);
        let Some((at, place)) = busy(&mut shard, state) else {
            return Some(Ended {
                conversation,
                state: *state,
                end: End::Replaced,
            });
        };
        place.conversation = Some(conversation);
        // A packet that was no use does not prolong the conversation's life: it keeps its place in the order.
        if answered.is_some() {
            place.answered = answered;
            place.since = now;
            shard.requeue(at, class);
        }
        None
    }

    /// Ends a conversation with its final answer, which is kept for repetitions.
    pub fn finish(&self, state: &State, client: i64, now: Instant, answered: Option<(u64, &Answer)>) {
        // before the lock is taken
        let answered = answered.and_then(|(response, answer)| Some((response, Kept::new(answer)?, answer)));
        let mut shard = self.shard(client);
        if let Some((at, _)) = busy(&mut shard, state)
            && let Some(place) = self.bury(&mut shard, at, now, false, answered)
        {
            drop(shard);
            drop(place);
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
                let mut next = shard.first(class);
                while let Some((at, place)) = next.and_then(|at| Some((at, shard.place(at)?)))
                    && let age = now.saturating_duration_since(place.since)
                    && age >= self.limits.idle
                {
                    next = place.after(Among::All);
                    // It was idle for less than the limit when it was taken, so twice the limit leaves work all of it.
                    if place.conversation.is_some() || age >= self.limits.idle * 2 {
                        self.end(&mut shard, at, now, End::Idle, ended);
                    }
                }
            }
            while shard.forget_ended(now, self.limits.keep_final) {
                self.counts.0.ended.fetch_sub(1, Ordering::Relaxed);
            }
            shard.shrink();
        }
    }

    /// Ends every idle conversation: the node stops.
    pub fn drain(&self, now: Instant, ended: &mut Vec<Ended<T>>) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            for class in [Class::Fresh, Class::Begun] {
                while let Some(at) = shard.oldest_idle(class) {
                    self.end(&mut shard, at, now, End::Idle, ended);
                }
            }
        }
    }

    fn shard(&self, client: i64) -> MutexGuard<'_, Shard<T>> {
        let index = (self.fast.hash_one(client) as usize) % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the array's length")]
        lock(&self.shards[index])
    }

    /// Ends one, idle or being worked on. What it was goes to `ended` unless somebody is working on it.
    fn end(&self, shard: &mut Shard<T>, at: u32, now: Instant, end: End, ended: &mut Vec<Ended<T>>) {
        // What was answered last led to a request that nobody can answer any more.
        let Some(place) = self.bury(shard, at, now, end == End::Evicted, None) else {
            return;
        };
        ended.extend(place.conversation.map(|conversation| Ended {
            conversation,
            state: place.state,
            end,
        }));
    }

    fn bury(
        &self,
        shard: &mut Shard<T>,
        at: u32,
        now: Instant,
        was_evicted: bool,
        answered: Option<(u64, Kept, &Answer)>,
    ) -> Option<Place<T>> {
        let place = shard.remove(at)?;
        self.counts.0.open.fetch_sub(1, Ordering::Relaxed);
        shard.push_ended(at, place.state, place.owner, now, was_evicted, answered);
        // What has ended is bounded like what is open: under a flood the oldest are forgotten before their time. Not by a shard
        // with no more than its share, so that busy clients make no others be forgotten.
        let known = self.counts.0.ended.load(Ordering::Relaxed) + 1;
        let mut forgotten = 0;
        while known - forgotten > self.limits.total
            && forgotten < 2
            && shard.ended() > self.limits.total / SHARDS
            && shard.forget_ended(now, Duration::ZERO)
        {
            forgotten += 1;
        }
        match forgotten {
            0 => {
                self.counts.0.ended.fetch_add(1, Ordering::Relaxed);
            }
            // as many as before: in a flood no processor waits for the others' count
            1 => {}
            _ => {
                self.counts.0.ended.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Some(place)
    }

    /// Whether any client has such a conversation. Only asked where the one that shows its State has not.
    fn is_known(&self, state: &State) -> bool {
        self.shards.iter().any(|shard| lock(shard).find(state).is_some())
    }

    /// Evicts the conversation that was idle longest, of all clients', one without a ClientHello if there is any.
    fn make_room(&self, now: Instant, ended: &mut Vec<Ended<T>>) {
        for class in [Class::Fresh, Class::Begun] {
            // Again where another thread took the oldest between the two looks.
            while let Some(shard) = self.shard_of_oldest(class) {
                let mut shard = lock(shard);
                if let Some(oldest) = shard.oldest_idle(class) {
                    self.end(&mut shard, oldest, now, End::Evicted, ended);
                    return;
                }
            }
        }
    }

    fn shard_of_oldest(&self, class: Class) -> Option<&Apart<Mutex<Shard<T>>>> {
        let oldest = self.shards.iter().filter_map(|shard| {
            let mut locked = lock(shard);
            let oldest = locked.oldest_idle(class)?;
            Some((locked.place(oldest)?.since, shard))
        });
        oldest.min_by_key(|(since, _)| *since).map(|(_, shard)| shard)
    }
}

/// A panic elsewhere cannot leave a shard half changed in a way that matters more than serving on.
fn lock<T>(shard: &Apart<Mutex<Shard<T>>>) -> MutexGuard<'_, Shard<T>> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a conversation that is being worked on.
fn busy<'a, T>(shard: &'a mut Shard<T>, state: &State) -> Option<(u32, &'a mut Place<T>)> {
    match shard.find(state)? {
        At::Open(at) => Some((at, shard.place_mut(at).filter(|place| place.conversation.is_none())?)),
        At::Ended(_) => None,
    }
}

#[cfg(test)]
mod tests;
