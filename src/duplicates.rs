//! Which requests of one socket are being worked on or were answered lately: RFC 5080 section 2.2.2.
//!
//! A client that hears nothing sends the same packet again. If the answer is known, the same bytes go out once more; if
//! the request is still being worked on, the copy is dropped; the same source and identifier under another Request
//! Authenticator is a new request, and whatever was known of the old one is forgotten.
//!
//! The key is source address, source port and identifier (RFC 2865 section 3). The receiving socket belongs to it as
//! well, and does so by there being one table for each socket: the kernel keeps a client's port on one socket, so no lock
//! is needed. The caller asks here only after a packet was verified: "packets with invalid Message-Authenticators MUST
//! NOT affect the cache in any way".
//!
//! Replies lie one behind another in pages, in the order of their completion, and leave a page at a time: when the last of
//! a page is [`REPLIES_KEPT_FOR`] old, or, the oldest page first, when the budget is used up. Requests have places that are
//! used again, and a table of their numbers by which they are found, which is small enough for the processor's cache.
//! Time is an argument.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// How long a reply can be asked for again. RFC 5080: "SHOULD be no less than 5 seconds, and no more than 30". Longer
/// costs memory in proportion to the rate; a client's retransmissions come within this, or find their answer by State.
pub const REPLIES_KEPT_FOR: Duration = Duration::from_secs(5);

/// How long a request may be worked on before a copy of it is taken as new. Every request ends in
/// [`Duplicates::complete`] or [`Duplicates::forget`] long before; this is for the one that a fault swallowed.
pub const IN_FLIGHT_FOR: Duration = Duration::from_secs(10);

/// What the replies of all sockets may occupy when nothing else is configured, in octets: those of five seconds at some 5,000
/// MAC authentications a second. At higher rates they are kept for less, and a copy is worked on anew.
pub const DEFAULT_BUDGET_BYTES: usize = 8 << 20;

/// The least budget that is of use: below, it is raised to this.
pub const MIN_BUDGET_BYTES: usize = 64 << 10;

/// A page takes no more replies once it is this old, so that memory follows the rate also when the rate is low, and no
/// reply stays longer than this beyond [`REPLIES_KEPT_FOR`].
const PAGE_OPEN_FOR: Duration = Duration::from_secs(1);

/// Octets of replies in one page; a smaller budget has smaller pages.
const PAGE_BYTES: usize = 64 << 10;

/// What a request costs beside its reply: its place, the place's number in a table that is half full and later among those
/// that are free, and its line in a page.
const ENTRY_BYTES: usize = size_of::<Request>() + 2 * (size_of::<u32>() + 1) + size_of::<u32>() + size_of::<Token>();

/// What the table knows of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission<'a> {
    /// Not seen before, or not any more: work on it, then hand the token to [`Duplicates::complete`] or
    /// [`Duplicates::forget`].
    New(Token),
    /// Being worked on: "MUST silently discard any duplicate Access-Requests for which a Response has not yet been sent".
    InFlight,
    /// Answered: "MUST resend its original Response without reprocessing the request".
    Replay(&'a [u8]),
}

/// Names one admitted request. A later request in the same place has another token, so a late completion of the earlier
/// one changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    place: u32,
    generation: u32,
}

/// One socket's table.
#[derive(Debug)]
pub struct Duplicates {
    /// Only those who know a secret get in here, and the seed is random: a fast hash will do.
    hasher: RandomState,
    /// The places of requests, by the hashes of their keys.
    table: HashTable<u32>,
    places: Vec<Request>,
    free: Vec<u32>,
    /// In the order of admission; those answered meanwhile leave when they come to the front.
    in_flight: VecDeque<InFlight>,
    pages: VecDeque<Page>,
    /// The sequence number of `pages[0]`.
    first_page: u32,
    /// An emptied page, kept so that a steady rate allocates nothing.
    spare: Option<(Vec<u8>, Vec<Token>)>,
    generation: u32,
    page_bytes: usize,
    /// Replies and their entries; those in flight come on top.
    kept_bytes: usize,
    budget_bytes: usize,
}

/// Address (IPv4 in its IPv4-mapped form), port and identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key([u8; 19]);

#[derive(Debug)]
struct Request {
    hash: u64,
    key: Key,
    authenticator: [u8; 16],
    generation: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing is known here.
    Free,
    InFlight,
    /// `page` counts from the first page there ever was, wrapping.
    Replied {
        page: u32,
        offset: u32,
        length: u16,
    },
}

#[derive(Debug)]
struct InFlight {
    token: Token,
    since: Instant,
}

#[derive(Debug)]
struct Page {
    opened: Instant,
    newest: Instant,
    bytes: Vec<u8>,
    records: Vec<Token>,
}

impl Duplicates {
    /// An empty table whose entries and replies together take at most `budget_bytes` octets, near enough; what is used is
    /// what lately was needed. Too low a budget forgets replies before their time, and their retransmissions are worked
    /// on anew; too high a one only allows more memory in a flood.
    pub fn new(budget_bytes: usize) -> Self {
        let budget_bytes = budget_bytes.max(MIN_BUDGET_BYTES);
        Duplicates {
            hasher: RandomState::default(),
            table: HashTable::new(),
            places: Vec::new(),
            free: Vec::new(),
            in_flight: VecDeque::new(),
            pages: VecDeque::new(),
            first_page: 0,
            spare: None,
            generation: 0,
            page_bytes: (budget_bytes / 16).min(PAGE_BYTES),
            kept_bytes: 0,
            budget_bytes,
        }
    }

    /// What to do with a verified request. Of two requests from one source with one identifier, the one with another
    /// Request Authenticator is new, and the earlier is forgotten: RFC 5080 section 2.2.2, "cache entries MUST also be
    /// purged".
    pub fn admit(
        &mut self,
        now: Instant,
        source: SocketAddr,
        identifier: u8,
        authenticator: &[u8; 16],
    ) -> Admission<'_> {
        self.expire(now);
        let key = Key::new(source, identifier);
        let hash = self.hasher.hash_one(key);
        let is_of_key = |place: &u32| self.place(*place).is_some_and(|request| request.key == key);
        let known = self.table.find(hash, is_of_key).copied();
        let request = known.and_then(|place| self.place(place));
        let state = match request.filter(|request| request.authenticator == *authenticator) {
            Some(request) => request.state,
            None => State::Free,
        };
        match state {
            State::Free => {
                let place = known.unwrap_or_else(|| self.room_for(hash));
                Admission::New(self.begin(now, place, key, hash, authenticator))
            }
            State::InFlight => Admission::InFlight,
            // a request is forgotten together with its page, so the octets are there
            State::Replied { page, offset, length } => {
                Admission::Replay(self.reply(page, offset, length).unwrap_or_default())
            }
        }
    }

    /// Keeps the reply that was sent to an admitted request. Nothing happens if the request is no longer the one in its
    /// place, or was answered already.
    pub fn complete(&mut self, now: Instant, token: Token, reply: &[u8]) {
        let Ok(length) = u16::try_from(reply.len()) else {
            return self.forget(token);
        };
        self.leave_flight(token);
        let page = self.open_page(now, reply.len());
        let Some(open) = self.pages.back_mut() else { return };
        let Ok(offset) = u32::try_from(open.bytes.len()) else {
            return;
        };
        let place = self.places.get_mut(token.place as usize);
        let Some(request) = place.filter(|request| request.is_in_flight(token)) else {
            return;
        };
        request.state = State::Replied { page, offset, length };
        let needed = open.bytes.len() + reply.len();
        if needed > open.bytes.capacity() {
            // Doubled, but never beyond what a page may hold.
            let room = (2 * open.bytes.capacity()).min(self.page_bytes).max(needed);
            open.bytes.reserve_exact(room - open.bytes.len());
        }
        open.bytes.extend_from_slice(reply);
        open.records.push(token);
        open.newest = now;
        self.kept_bytes += ENTRY_BYTES + reply.len();
        self.make_room();
    }

    /// Forgets an admitted request that gets no reply, so that its retransmission is worked on. Nothing happens if the
    /// request is no longer the one in its place, or was answered.
    pub fn forget(&mut self, token: Token) {
        if self.is_in_flight(token) {
            self.remove(token.place);
        }
        self.leave_flight(token);
    }

    /// Drops what is too old. [`Duplicates::admit`] does so itself; an idle socket's owner may call it now and then to
    /// give memory back.
    pub fn expire(&mut self, now: Instant) {
        while let Some(oldest) = self.pages.front()
            && now.saturating_duration_since(oldest.newest) >= REPLIES_KEPT_FOR
        {
            self.drop_oldest_page();
        }
        while let Some(&InFlight { token, since }) = self.in_flight.front() {
            let in_flight = self.is_in_flight(token);
            if in_flight && now.saturating_duration_since(since) < IN_FLIGHT_FOR {
                break;
            }
            if in_flight {
                self.remove(token.place);
            }
            self.in_flight.pop_front();
        }
    }

    /// Requests known: in flight or answered.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What is used of the budget, in octets: replies and a generous estimate for what belongs to each.
    pub fn used_bytes(&self) -> usize {
        self.kept_bytes + self.in_flight.len() * ENTRY_BYTES
    }

    /// A free place, which the table knows from now on.
    fn room_for(&mut self, hash: u64) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            if self.places.len() == self.places.capacity() {
                // not doubled: the budget counts what is used
                self.places.reserve_exact((self.places.len() / 8).max(16));
            }
            self.places.push(Request::NONE);
            // bounded by the budget, far below 2^32
            self.places.len() as u32 - 1
        });
        let places = &self.places;
        self.table.insert_unique(hash, place, |place| {
            places.get(*place as usize).map_or(0, |request| request.hash)
        });
        place
    }

    fn begin(&mut self, now: Instant, place: u32, key: Key, hash: u64, authenticator: &[u8; 16]) -> Token {
        self.generation = self.generation.wrapping_add(1);
        let token = Token {
            place,
            generation: self.generation,
        };
        if let Some(request) = self.places.get_mut(place as usize) {
            *request = Request {
                hash,
                key,
                authenticator: *authenticator,
                generation: self.generation,
                state: State::InFlight,
            };
        }
        self.in_flight.push_back(InFlight { token, since: now });
        self.make_room();
        token
    }

    fn place(&self, place: u32) -> Option<&Request> {
        self.places.get(place as usize)
    }

    /// Forgets whatever is in a place.
    fn remove(&mut self, place: u32) {
        let Some(request) = self.places.get_mut(place as usize) else {
            return;
        };
        request.state = State::Free;
        if let Ok(known) = self.table.find_entry(request.hash, |each| *each == place) {
            known.remove();
            self.free.push(place);
        }
    }

    /// The page to put a reply of `length` octets in, as its sequence number; it is the last of `pages`.
    fn open_page(&mut self, now: Instant, length: usize) -> u32 {
        let fits = self.pages.back().is_some_and(|page| {
            now.saturating_duration_since(page.opened) < PAGE_OPEN_FOR
                && (page.bytes.is_empty() || page.bytes.len() + length <= self.page_bytes)
        });
        if !fits {
            let (bytes, records) = self.spare.take().unwrap_or_else(|| self.room());
            self.pages.push_back(Page {
                opened: now,
                newest: now,
                bytes,
                records,
            });
        }
        // at most budget / page_bytes pages, far below 2^32
        self.first_page.wrapping_add(self.pages.len() as u32).wrapping_sub(1)
    }

    /// Room for as much as the last page took. A page that grew to it step by step would leave its smaller selves behind as
    /// holes that nothing else fits into.
    fn room(&self) -> (Vec<u8>, Vec<Token>) {
        const STEP: usize = 4 << 10;
        let Some(last) = self.pages.back() else {
            return Default::default();
        };
        let bytes = last.bytes.len().next_multiple_of(STEP).min(self.page_bytes);
        let records = last.records.len();
        (Vec::with_capacity(bytes), Vec::with_capacity(records + records / 4))
    }

    fn reply(&self, page: u32, offset: u32, length: u16) -> Option<&[u8]> {
        let page = self.pages.get(page.wrapping_sub(self.first_page) as usize)?;
        page.bytes.get(offset as usize..)?.get(..usize::from(length))
    }

    fn is_in_flight(&self, token: Token) -> bool {
        self.place(token.place)
            .is_some_and(|request| request.is_in_flight(token))
    }

    /// A request that is answered at once is the last of those in flight: it leaves here. The others leave when they come to
    /// the front, in [`Duplicates::expire`].
    fn leave_flight(&mut self, token: Token) {
        if self.in_flight.back().is_some_and(|last| last.token == token) {
            self.in_flight.pop_back();
        }
    }

    fn make_room(&mut self) {
        while self.used_bytes() > self.budget_bytes {
            if !self.pages.is_empty() {
                self.drop_oldest_page();
            } else if self.in_flight.len() > 1
                && let Some(InFlight { token, .. }) = self.in_flight.pop_front()
            {
                self.forget(token);
            } else {
                break;
            }
        }
    }

    fn drop_oldest_page(&mut self) {
        let Some(mut page) = self.pages.pop_front() else { return };
        self.first_page = self.first_page.wrapping_add(1);
        self.kept_bytes -= page.bytes.len() + page.records.len() * ENTRY_BYTES;
        for token in page.records.drain(..) {
            // it may have made room for another under its key
            if self.place(token.place).map(|request| request.generation) == Some(token.generation) {
                self.remove(token.place);
            }
        }
        page.bytes.clear();
        self.spare = Some((page.bytes, page.records));
    }
}

impl Default for Duplicates {
    fn default() -> Self {
        Duplicates::new(DEFAULT_BUDGET_BYTES)
    }
}

impl Request {
    const NONE: Request = Request {
        hash: 0,
        key: Key([0; 19]),
        authenticator: [0; 16],
        generation: 0,
        state: State::Free,
    };

    fn is_in_flight(&self, token: Token) -> bool {
        self.generation == token.generation && matches!(self.state, State::InFlight)
    }
}

impl Key {
    fn new(source: SocketAddr, identifier: u8) -> Self {
        let address = match source.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let mut key = [identifier; 19];
        if let Some((first, rest)) = key.split_first_chunk_mut() {
            *first = address;
            rest.iter_mut()
                .zip(source.port().to_be_bytes())
                .for_each(|(to, from)| *to = from);
        }
        Key(key)
    }
}

impl Hash for Key {
    /// As two numbers: that takes a quarter of the time that octets take.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (first, last) = (self.0.first_chunk(), self.0.last_chunk());
        state.write_u128(first.map_or(0, |address| u128::from_ne_bytes(*address)));
        state.write_u64(last.map_or(0, |last| u64::from_ne_bytes(*last)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn new(admission: Admission<'_>) -> Token {
        match admission {
            Admission::New(token) => token,
            other => panic!("expected a new request, found {other:?}"),
        }
    }

    const A: [u8; 16] = [0xaa; 16];
    const B: [u8; 16] = [0xbb; 16];

    #[test]
    fn an_answered_duplicate_gets_the_same_bytes() {
        // RFC 5080 2.2.2: "it MUST resend its original Response without reprocessing the request"
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let token = new(table.admit(now, source(1), 7, &A));
        table.complete(now, token, b"accept");
        assert_eq!(table.admit(now, source(1), 7, &A), Admission::Replay(b"accept"));
        assert_eq!(table.admit(now, source(1), 7, &A), Admission::Replay(b"accept"));
    }

    #[test]
    fn a_duplicate_of_a_request_in_flight_is_to_be_dropped() {
        // RFC 5080 2.2.2: "MUST silently discard any duplicate Access-Requests for which a Response has not yet been sent"
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let token = new(table.admit(now, source(1), 7, &A));
        assert_eq!(table.admit(now, source(1), 7, &A), Admission::InFlight);
        table.forget(token);
        new(table.admit(now, source(1), 7, &A));
    }

    #[test]
    fn port_address_and_identifier_are_the_key() {
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let token = new(table.admit(now, source(1), 7, &A));
        table.complete(now, token, b"accept");
        new(table.admit(now, source(2), 7, &A));
        new(table.admit(now, source(1), 8, &A));
        new(table.admit(now, SocketAddr::from(([192, 0, 2, 2], 1)), 7, &A));
        new(table.admit(now, "[2001:db8::1]:1".parse().unwrap(), 7, &A));
        assert_eq!(table.admit(now, source(1), 7, &A), Admission::Replay(b"accept"));
    }

    #[test]
    fn another_authenticator_is_a_new_request_and_the_old_one_is_purged() {
        // RFC 5080 2.2.2: "cache entries MUST also be purged if [...] the Request Authenticator field is different"
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let first = new(table.admit(now, source(1), 7, &A));
        table.complete(now, first, b"first");
        let second = new(table.admit(now, source(1), 7, &B));
        assert_eq!(table.admit(now, source(1), 7, &B), Admission::InFlight);
        table.complete(now, second, b"second");
        assert_eq!(table.admit(now, source(1), 7, &B), Admission::Replay(b"second"));
        new(table.admit(now, source(1), 7, &A));
    }

    #[test]
    fn a_late_completion_does_not_touch_the_request_that_took_its_place() {
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let first = new(table.admit(now, source(1), 7, &A));
        let second = new(table.admit(now, source(1), 7, &B));
        table.complete(now, first, b"late");
        table.forget(first);
        assert_eq!(table.admit(now, source(1), 7, &B), Admission::InFlight);
        table.complete(now, second, b"second");
        table.complete(now, second, b"twice");
        table.complete(now, first, b"late");
        table.forget(second);
        assert_eq!(table.admit(now, source(1), 7, &B), Admission::Replay(b"second"));
    }

    #[test]
    fn the_first_request_come_back_has_a_token_of_its_own() {
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let first = new(table.admit(now, source(1), 7, &A));
        new(table.admit(now, source(1), 7, &B));
        let again = new(table.admit(now, source(1), 7, &A));
        table.complete(now, first, b"of the first round");
        assert_eq!(table.admit(now, source(1), 7, &A), Admission::InFlight);
        table.complete(now, again, b"of the second");
        assert_eq!(table.admit(now, source(1), 7, &A), Admission::Replay(b"of the second"));
    }

    #[test]
    fn replies_are_kept_for_five_seconds_and_not_much_longer() {
        // RFC 5080 2.2.2: "SHOULD be no less than 5 seconds, and no more than 30 seconds"
        let (mut table, start) = (Duplicates::default(), Instant::now());
        let token = new(table.admit(start, source(1), 7, &A));
        table.complete(start, token, b"accept");
        let (last, gone) = (
            REPLIES_KEPT_FOR - Duration::from_nanos(1),
            REPLIES_KEPT_FOR + PAGE_OPEN_FOR,
        );
        assert_eq!(
            table.admit(start + last, source(1), 7, &A),
            Admission::Replay(b"accept")
        );
        new(table.admit(start + gone, source(1), 7, &A));
        table.expire(start + gone + IN_FLIGHT_FOR);
        assert_eq!((table.len(), table.used_bytes()), (0, 0));
    }

    #[test]
    fn a_request_that_was_lost_inside_is_new_again_after_a_while() {
        let (mut table, start) = (Duplicates::default(), Instant::now());
        let lost = new(table.admit(start, source(1), 7, &A));
        let last = IN_FLIGHT_FOR - Duration::from_nanos(1);
        assert_eq!(table.admit(start + last, source(1), 7, &A), Admission::InFlight);
        let again = new(table.admit(start + IN_FLIGHT_FOR, source(1), 7, &A));
        table.complete(start + IN_FLIGHT_FOR, lost, b"lost");
        assert_eq!(
            table.admit(start + IN_FLIGHT_FOR, source(1), 7, &A),
            Admission::InFlight
        );
        table.complete(start + IN_FLIGHT_FOR, again, b"again");
    }

    #[test]
    fn a_short_budget_forgets_the_oldest_replies_first() {
        let (mut table, now) = (Duplicates::new(MIN_BUDGET_BYTES), Instant::now());
        for port in 0..2000 {
            let token = new(table.admit(now, source(port), 7, &A));
            table.complete(now, token, &port.to_be_bytes().repeat(50));
            assert!(table.used_bytes() <= MIN_BUDGET_BYTES);
        }
        let known = table.len();
        assert!(known > 100, "{known} of 2000 replies kept in {MIN_BUDGET_BYTES} octets");
        for port in 2000 - known as u16..2000 {
            assert_eq!(
                table.admit(now, source(port), 7, &A),
                Admission::Replay(&port.to_be_bytes().repeat(50))
            );
        }
    }

    #[test]
    fn requests_in_flight_are_bounded_as_well() {
        let (mut table, now) = (Duplicates::new(MIN_BUDGET_BYTES), Instant::now());
        for port in 0..20_000 {
            new(table.admit(now, source(port), 7, &A));
            assert!(table.used_bytes() <= MIN_BUDGET_BYTES && table.len() <= MIN_BUDGET_BYTES / ENTRY_BYTES);
        }
        assert_eq!(table.admit(now, source(19_999), 7, &A), Admission::InFlight);
    }

    #[test]
    fn one_slow_request_does_not_make_the_quick_ones_behind_it_pile_up() {
        let (mut table, now) = (Duplicates::default(), Instant::now());
        new(table.admit(now, source(0), 0, &A));
        for port in 1..=10_000 {
            let token = new(table.admit(now, source(port), 7, &A));
            table.complete(now, token, b"");
        }
        // those that are answered together too, the last first, and one that was overtaken under its identifier
        for port in 1..=10_000 {
            let together = [(8, A), (8, B), (9, A)];
            let tokens = together.map(|(identifier, own)| new(table.admit(now, source(port), identifier, &own)));
            for token in tokens.into_iter().rev() {
                table.complete(now, token, b"");
            }
        }
        assert_eq!(table.in_flight.len(), 1);
        assert_eq!(table.admit(now, source(0), 0, &A), Admission::InFlight);
    }

    #[test]
    fn a_page_has_room_for_what_the_last_one_took() {
        let (mut table, now) = (Duplicates::new(16 << 20), Instant::now());
        for port in 0..4_000 {
            let token = new(table.admit(now, source(port), 7, &A));
            table.complete(now, token, &[0; 200]);
        }
        let rooms: Vec<_> = table.pages.iter().map(|page| page.bytes.capacity()).collect();
        assert!(
            rooms.len() > 10 && rooms.iter().all(|room| *room <= PAGE_BYTES),
            "{rooms:?}"
        );
        let records = table.pages.iter().skip(1).map(|page| page.records.capacity());
        assert!(records.max() < Some(500), "{rooms:?}");
    }

    #[test]
    fn a_steady_low_rate_needs_little_memory() {
        let (mut table, start) = (Duplicates::default(), Instant::now());
        for second in 0..600u64 {
            let now = start + Duration::from_secs(second);
            let token = new(table.admit(now, source(second as u16), 7, &A));
            table.complete(now, token, &[0; 200]);
            assert!(table.len() <= 7 && table.pages.len() <= 7);
        }
    }

    #[test]
    fn a_reply_too_long_for_any_datagram_is_not_kept() {
        let (mut table, now) = (Duplicates::default(), Instant::now());
        let token = new(table.admit(now, source(1), 7, &A));
        table.complete(now, token, &vec![0; 70_000]);
        new(table.admit(now, source(1), 7, &A));
    }

    /// The obvious table: a list of everything, nothing ever shortened for want of room.
    #[derive(Default)]
    struct Model(Vec<Known>);

    struct Known {
        source: SocketAddr,
        identifier: u8,
        authenticator: [u8; 16],
        token: Token,
        since: Instant,
        reply: Option<(Instant, Vec<u8>)>,
    }

    impl Model {
        fn find(&self, source: SocketAddr, identifier: u8, authenticator: &[u8; 16]) -> Option<&Known> {
            let known = self
                .0
                .iter()
                .find(|known| known.source == source && known.identifier == identifier)?;
            (known.authenticator == *authenticator).then_some(known)
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Admit {
            port: u16,
            identifier: u8,
            authenticator: u8,
        },
        Complete {
            which: usize,
            length: u16,
        },
        Forget {
            which: usize,
        },
        Wait {
            ms: u64,
        },
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            6 => (0u16..6, 0u8..3, 0u8..3)
                .prop_map(|(port, identifier, authenticator)| Act::Admit { port, identifier, authenticator }),
            5 => (0usize..64, 0u16..4096).prop_map(|(which, length)| Act::Complete { which, length }),
            1 => (0usize..64).prop_map(|which| Act::Forget { which }),
            1 => (0u64..3000).prop_map(|ms| Act::Wait { ms }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Against the obvious table: always so with room enough, and with little room never a wrong answer, at worst none.
        #[test]
        fn agrees_with_the_obvious_table(acts in proptest::collection::vec(act(), 1..200), scarce: bool) {
            let mut table = Duplicates::new(if scarce { 0 } else { DEFAULT_BUDGET_BYTES });
            let mut model = Model::default();
            let mut tokens: Vec<Token> = Vec::new();
            let mut now = Instant::now();
            for (step, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Admit { port, identifier, authenticator } => {
                        let (source, authenticator) = (source(port), [authenticator; 16]);
                        model.0.retain(|known| known.reply.is_some() || now - known.since < IN_FLIGHT_FOR);
                        let known = model.find(source, identifier, &authenticator);
                        match table.admit(now, source, identifier, &authenticator) {
                            Admission::InFlight => {
                                let known = known.expect("in flight, and the model knows of none");
                                prop_assert!(known.reply.is_none() && now - known.since < IN_FLIGHT_FOR);
                            }
                            Admission::Replay(bytes) => {
                                let (at, reply) = known.and_then(|known| known.reply.as_ref()).expect("no reply known");
                                prop_assert_eq!(bytes, &reply[..]);
                                prop_assert!(now - *at < REPLIES_KEPT_FOR + PAGE_OPEN_FOR);
                            }
                            Admission::New(token) => {
                                if let Some(known) = known {
                                    let old = known.reply.as_ref().is_some_and(|(at, _)| now - *at >= REPLIES_KEPT_FOR);
                                    prop_assert!(old || scarce);
                                }
                                model.0.retain(|known| known.source != source || known.identifier != identifier);
                                model.0.push(Known { source, identifier, authenticator, token, since: now, reply: None });
                                tokens.push(token);
                            }
                        }
                    }
                    Act::Complete { which, length } if !tokens.is_empty() => {
                        let token = tokens[which % tokens.len()];
                        let mut reply = vec![0; usize::from(length)];
                        reply.iter_mut().zip(step.to_be_bytes()).for_each(|(to, from)| *to = from);
                        table.complete(now, token, &reply);
                        if let Some(known) = model.0.iter_mut().find(|known| known.token == token)
                            && known.reply.is_none()
                        {
                            known.reply = Some((now, reply));
                        }
                    }
                    Act::Forget { which } if !tokens.is_empty() => {
                        let token = tokens[which % tokens.len()];
                        table.forget(token);
                        model.0.retain(|known| known.token != token || known.reply.is_some());
                    }
                    Act::Complete { .. } | Act::Forget { .. } => {}
                    Act::Wait { ms } => now += Duration::from_millis(ms),
                }
                prop_assert!(table.used_bytes() <= table.budget_bytes);
                let kept: usize = table.pages.iter().map(|p| p.bytes.len() + p.records.len() * ENTRY_BYTES).sum();
                prop_assert_eq!(kept, table.kept_bytes);
                prop_assert!(table.len() <= table.in_flight.len() + table.pages.iter().map(|p| p.records.len()).sum::<usize>());
            }
        }
    }
}
