//! One part of the table: what is open, in the order in which it was answered, and what has ended.
//!
//! Open conversations have a place each, and places are used again; the queues run through them, so that a round
//! allocates nothing. One that is being worked on keeps its turn: who looks for an idle one passes it by, and there are
//! never many of them. What has ended stands in the order in which it is forgotten.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::answer::{Answer, Kept};
use super::{Class, Owner, State, Taken};
use crate::radius::code::Code;

/// Where a State leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Open(u32),
    /// Counted from the first that ever ended, wrapping.
    Ended(u32),
}

#[derive(Debug)]
pub(super) struct Shard<T> {
    /// Found by [`State::number`], which was drawn here and is as good as any hash. The States themselves stand where these
    /// lead: with them the table would be three times as large, and entries are touched once more, long cold, when what has
    /// ended is forgotten.
    at: HashTable<At>,
    /// Those that a new start replaces. Hashes in owners are keyed, and clients are the operator's: a fast hash will do.
    owners: HashMap<Owner, u32, RandomState>,
    places: Vec<Option<Place<T>>>,
    free: Vec<u32>,
    queues: Queues,
    clients: HashMap<i64, OfClient, RandomState>,
    ended: VecDeque<Final>,
    first_ended: u32,
    /// The octets of the final answers, one behind another.
    kept: VecDeque<u8>,
    /// Where those begin, counted from the first that there ever were, wrapping.
    first_kept: u32,
}

#[derive(Debug)]
pub(super) struct Place<T> {
    pub state: State,
    pub owner: Owner,
    pub class: Class,
    /// Out while it is being worked on.
    pub conversation: Option<Box<T>>,
    /// Hash of the EAP response answered last, and the EAP request that it was answered with.
    pub answered: Option<(u64, Vec<u8>)>,
    /// When that was, or it was begun.
    pub since: Instant,
    links: [Links; 2],
}

/// What is left of one that has ended.
#[derive(Debug)]
pub(super) struct Final {
    state: State,
    client: i64,
    calling_station: u64,
    was_evicted: bool,
    since: Instant,
    /// Hash and answer of the EAP response answered last.
    answered: Option<(u64, Kept)>,
    /// Where the answer's octets begin, counted as [`Shard::first_kept`] is.
    kept_at: u32,
}

#[derive(Debug, Default)]
struct OfClient {
    open: usize,
    queues: Queues,
}

/// Through which places a queue runs: all of the shard's, or one client's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Among {
    All,
    Client,
}

/// The neighbours of a place in a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    before: Option<u32>,
    after: Option<u32>,
}

/// The ends of the queues, one for each class.
#[derive(Clone, Copy, Debug, Default)]
struct Queues([Links; 2]);

impl Queues {
    /// `after` the end is the first, `before` it the last.
    fn ends(&mut self, class: Class) -> &mut Links {
        let [fresh, begun] = &mut self.0;
        match class {
            Class::Fresh => fresh,
            Class::Begun => begun,
        }
    }
}

impl<T> Place<T> {
    pub(super) fn new(state: State, owner: Owner, now: Instant) -> Place<T> {
        Place {
            state,
            owner,
            class: Class::Fresh,
            conversation: None,
            answered: None,
            since: now,
            links: Default::default(),
        }
    }

    fn links(&mut self, among: Among) -> &mut Links {
        let [all, client] = &mut self.links;
        match among {
            Among::All => all,
            Among::Client => client,
        }
    }

    /// The answer that the EAP response with the hash `response` got, if it was the last.
    pub(super) fn again(&self, response: u64) -> Option<Answer> {
        let (answered, eap) = self.answered.as_ref()?;
        (*answered == response).then(|| Answer {
            eap: eap.clone(),
            ..Answer::new(Code::AccessChallenge)
        })
    }

    /// The place behind this one.
    pub(super) fn after(&self, among: Among) -> Option<u32> {
        let [all, client] = &self.links;
        match among {
            Among::All => all.after,
            Among::Client => client.after,
        }
    }
}

impl<T> Shard<T> {
    pub(super) fn new() -> Self {
        Shard {
            at: HashTable::new(),
            owners: HashMap::default(),
            places: Vec::new(),
            free: Vec::new(),
            queues: Queues::default(),
            clients: HashMap::default(),
            ended: VecDeque::new(),
            first_ended: 0,
            kept: VecDeque::new(),
            first_kept: 0,
        }
    }

    pub(super) fn find(&self, state: &State) -> Option<At> {
        let leads_there = |at: &At| state_of(&self.places, &self.ended, self.first_ended, *at) == Some(state);
        self.at.find(state.number(), leads_there).copied()
    }

    pub(super) fn place(&self, at: u32) -> Option<&Place<T>> {
        self.places.get(at as usize)?.as_ref()
    }

    pub(super) fn place_mut(&mut self, at: u32) -> Option<&mut Place<T>> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    /// What a response with the hash `response` gets from one that has ended.
    pub(super) fn take_ended(&self, number: u32, client: i64, calling_station: u64, response: u64) -> Taken<T> {
        let ended = self.ended.get(number.wrapping_sub(self.first_ended) as usize);
        match ended.filter(|ended| (ended.client, ended.calling_station) == (client, calling_station)) {
            None => Taken::Changed,
            Some(Final { was_evicted: true, .. }) => Taken::Evicted,
            Some(Final {
                answered: Some((answered, kept)),
                kept_at,
                ..
            }) if *answered == response => {
                let before = kept_at.wrapping_sub(self.first_kept) as usize;
                Taken::Again(kept.answer(self.kept.iter().skip(before).copied()))
            }
            Some(_) => Taken::Finished,
        }
    }

    /// The open conversation that a new start of `owner` replaces.
    pub(super) fn of_owner(&self, owner: &Owner) -> Option<u32> {
        self.owners.get(owner).copied()
    }

    pub(super) fn open_of_client(&self, client: i64) -> usize {
        self.clients.get(&client).map_or(0, |client| client.open)
    }

    /// How many have ended and are known.
    pub(super) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Every place that is taken, and every one that has ended.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let (open, ended) = (self.places.iter().flatten().count(), self.ended());
        assert_eq!(self.at.len(), open + ended);
        (open, ended)
    }

    /// As if so many had ended already.
    #[cfg(test)]
    pub(super) fn count_from(&mut self, number: u32) {
        self.first_ended = number;
    }

    pub(super) fn insert(&mut self, place: Place<T>) {
        let (state, owner, class) = (place.state, place.owner, place.class);
        let at = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(at as usize) {
            Some(free) => *free = Some(place),
            None => self.places.push(Some(place)),
        }
        let number = |at: &At| state_of(&self.places, &self.ended, self.first_ended, *at).map_or(0, State::number);
        self.at.insert_unique(state.number(), At::Open(at), number);
        if owner.port.is_some() {
            self.owners.insert(owner, at);
        }
        self.clients.entry(owner.client).or_default().open += 1;
        self.enqueue(at, owner.client, class);
    }

    /// Takes a place away. Its State still leads there: [`Shard::push_ended`] has to follow.
    pub(super) fn remove(&mut self, at: u32) -> Option<Place<T>> {
        let (client, class) = self.place(at).map(|place| (place.owner.client, place.class))?;
        self.dequeue(at, client, class);
        let place = self.places.get_mut(at as usize)?.take()?;
        self.free.push(at);
        if self.owners.get(&place.owner) == Some(&at) {
            self.owners.remove(&place.owner);
        }
        if let Some(of_client) = self.clients.get_mut(&client) {
            of_client.open = of_client.open.saturating_sub(1);
            if of_client.open == 0 {
                self.clients.remove(&client);
            }
        }
        Some(place)
    }

    /// Remembers what was in the place `at` and has ended, with the answer that its last response got.
    pub(super) fn push_ended(
        &mut self,
        at: u32,
        state: State,
        owner: Owner,
        now: Instant,
        was_evicted: bool,
        answered: Option<(u64, Kept, &Answer)>,
    ) {
        let kept_at = self.first_kept.wrapping_add(self.kept.len() as u32);
        let answered = answered.map(|(response, kept, answer)| {
            self.kept.extend(&answer.eap);
            self.kept.extend(&answer.attributes);
            (response, kept)
        });
        let number = self.first_ended.wrapping_add(self.ended.len() as u32);
        if let Some(leads) = self.at.find_mut(state.number(), |leads| *leads == At::Open(at)) {
            *leads = At::Ended(number);
        }
        self.ended.push_back(Final {
            state,
            client: owner.client,
            calling_station: owner.calling_station,
            was_evicted,
            since: now,
            answered,
            kept_at,
        });
    }

    /// Forgets the one that ended first, if it did so `age` ago. Whether there was one.
    pub(super) fn forget_ended(&mut self, now: Instant, age: Duration) -> bool {
        let is_old = |ended: &mut Final| now.saturating_duration_since(ended.since) >= age;
        let Some(oldest) = self.ended.pop_front_if(is_old) else {
            return false;
        };
        let number = At::Ended(self.first_ended);
        if let Ok(found) = self.at.find_entry(oldest.state.number(), |leads| *leads == number) {
            found.remove();
        }
        self.first_ended = self.first_ended.wrapping_add(1);
        let octets = oldest.answered.map_or(0, |(_, kept)| kept.octets());
        self.first_kept = self.first_kept.wrapping_add(octets as u32);
        self.kept.drain(..octets.min(self.kept.len()));
        true
    }

    /// Gives back the room of answers that are kept no longer.
    pub(super) fn shrink(&mut self) {
        if self.kept.capacity() / 4 > self.kept.len() {
            self.kept.shrink_to(2 * self.kept.len());
        }
    }

    /// Moves a place to the end of the queues of `class`.
    pub(super) fn requeue(&mut self, at: u32, class: Class) {
        let Some((client, was)) = self.place(at).map(|place| (place.owner.client, place.class)) else {
            return;
        };
        // last of all is last of its client's too
        if was == class && self.queues.ends(class).before == Some(at) {
            return;
        }
        self.dequeue(at, client, was);
        if let Some(place) = self.place_mut(at) {
            place.class = class;
        }
        self.enqueue(at, client, class);
    }

    /// The first of a class, idle or not.
    pub(super) fn first(&mut self, class: Class) -> Option<u32> {
        self.queues.ends(class).after
    }

    pub(super) fn oldest_idle(&mut self, class: Class) -> Option<u32> {
        let first = self.first(class);
        self.first_idle(first, Among::All)
    }

    pub(super) fn oldest_idle_of_client(&mut self, client: i64) -> Option<u32> {
        [Class::Fresh, Class::Begun].into_iter().find_map(|class| {
            let first = self.clients.get_mut(&client)?.queues.ends(class).after;
            self.first_idle(first, Among::Client)
        })
    }

    fn first_idle(&self, first: Option<u32>, among: Among) -> Option<u32> {
        let mut next = first;
        while let Some(at) = next {
            let place = self.place(at)?;
            if place.conversation.is_some() {
                return Some(at);
            }
            next = place.after(among);
        }
        None
    }

    fn enqueue(&mut self, at: u32, client: i64, class: Class) {
        let all = self.queues.ends(class);
        append(&mut self.places, all, at, Among::All);
        if let Some(of_client) = self.clients.get_mut(&client) {
            append(&mut self.places, of_client.queues.ends(class), at, Among::Client);
        }
    }

    fn dequeue(&mut self, at: u32, client: i64, class: Class) {
        let all = self.queues.ends(class);
        take_out(&mut self.places, all, at, Among::All);
        if let Some(of_client) = self.clients.get_mut(&client) {
            take_out(&mut self.places, of_client.queues.ends(class), at, Among::Client);
        }
    }
}

/// The State that leads there.
fn state_of<'a, T>(
    places: &'a [Option<Place<T>>],
    ended: &'a VecDeque<Final>,
    first_ended: u32,
    at: At,
) -> Option<&'a State> {
    match at {
        At::Open(at) => Some(&places.get(at as usize)?.as_ref()?.state),
        At::Ended(number) => Some(&ended.get(number.wrapping_sub(first_ended) as usize)?.state),
    }
}

/// The links of a place, or those of the queue's ends.
fn links<'a, T>(
    places: &'a mut [Option<Place<T>>],
    ends: &'a mut Links,
    at: Option<u32>,
    among: Among,
) -> &'a mut Links {
    match at.and_then(|at| places.get_mut(at as usize)?.as_mut()) {
        Some(place) => place.links(among),
        None => ends,
    }
}

fn append<T>(places: &mut [Option<Place<T>>], ends: &mut Links, at: u32, among: Among) {
    let last = ends.before;
    *links(places, ends, Some(at), among) = Links {
        before: last,
        after: None,
    };
    links(places, ends, last, among).after = Some(at);
    ends.before = Some(at);
}

fn take_out<T>(places: &mut [Option<Place<T>>], ends: &mut Links, at: u32, among: Among) {
    let Links { before, after } = std::mem::take(links(places, ends, Some(at), among));
    links(places, ends, before, among).after = after;
    links(places, ends, after, among).before = before;
}
