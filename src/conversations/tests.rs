use super::*;
use crate::radius::code::Code;

const LIMITS: Limits = Limits {
    total: 8,
    per_client: 4,
    idle: Duration::from_secs(30),
    keep_final: Duration::from_secs(5),
};

struct Table {
    table: Conversations<u32>,
    now: Instant,
    ended: Vec<Ended<u32>>,
    counter: u128,
}

impl Table {
    fn new() -> Self {
        Table::with(LIMITS)
    }

    fn with(limits: Limits) -> Self {
        Table {
            table: Conversations::new(7, limits),
            now: Instant::now(),
            ended: Vec::new(),
            counter: 0,
        }
    }

    fn begin(&mut self, client: i64, port: u64, class: Class, value: u32) -> State {
        self.counter += 1;
        let owner = Owner {
            client,
            calling_station: 1,
            port: Some(port),
        };
        let state = self
            .table
            .begin(owner, self.now, self.counter.to_be_bytes(), &mut self.ended);
        let put = self
            .table
            .put(&state, client, self.now, class, Box::new(value), (0, answer().eap));
        assert!(put.is_none());
        state
    }

    fn take(&self, state: &State, client: i64, response: u64) -> Taken<u32> {
        self.table.take(state, client, 1, response)
    }
}

fn answer() -> Answer {
    Answer {
        code: Code::AccessChallenge,
        eap: vec![1, 2, 0, 4],
        attributes: Vec::new(),
        hidden: Vec::new(),
        msk: None,
    }
}

#[test]
fn a_conversation_is_handed_over_and_its_place_stays_marked() {
    let mut t = Table::new();
    let state = t.begin(1, 1, Class::Fresh, 42);
    let Taken::Conversation(conversation) = t.take(&state, 1, 9) else {
        panic!("not there")
    };
    assert_eq!(*conversation, 42);
    assert!(matches!(t.take(&state, 1, 9), Taken::Busy));
    let put = t
        .table
        .put(&state, 1, t.now, Class::Begun, conversation, (9, answer().eap));
    assert!(put.is_none());
    assert!(
        matches!(t.take(&state, 1, 9), Taken::Again(_)),
        "the response answered last gets the same answer"
    );
    assert!(matches!(t.take(&state, 1, 10), Taken::Conversation(_)));
}

#[test]
fn it_is_bound_to_client_and_calling_station() {
    let mut t = Table::new();
    let state = t.begin(1, 1, Class::Fresh, 42);
    assert!(matches!(t.table.take(&state, 1, 2, 9), Taken::Changed));
    for other in 2..40 {
        assert!(matches!(t.take(&state, other, 9), Taken::Changed));
    }
    assert!(matches!(t.take(&state, 1, 9), Taken::Conversation(_)));
}

#[test]
fn a_final_answer_is_kept_for_its_time_and_then_forgotten() {
    let mut t = Table::new();
    let state = t.begin(1, 1, Class::Begun, 42);
    assert!(matches!(t.take(&state, 1, 9), Taken::Conversation(_)));
    t.table.finish(&state, 1, t.now, Some((9, &answer())));
    assert_eq!(t.table.open(), 0);
    assert!(matches!(t.take(&state, 1, 9), Taken::Again(_)));
    assert!(matches!(t.take(&state, 1, 8), Taken::Finished));
    t.now += Duration::from_secs(6);
    t.table.expire(t.now, &mut t.ended);
    assert!(matches!(t.take(&state, 1, 9), Taken::Unknown));
    assert!(
        t.ended.is_empty(),
        "a finished conversation is not reported as ended again"
    );
}

#[test]
fn a_new_start_of_the_same_owner_replaces_the_old_one() {
    let mut t = Table::new();
    let old = t.begin(1, 1, Class::Begun, 1);
    let new = t.begin(1, 1, Class::Fresh, 2);
    assert!(matches!(t.ended.as_slice(), [Ended { end: End::Replaced, .. }]));
    assert!(matches!(t.take(&old, 1, 9), Taken::Finished));
    assert!(
        matches!(t.take(&old, 1, 0), Taken::Finished),
        "nor is its last request sent again, which nobody can answer any more"
    );
    assert!(matches!(t.take(&new, 1, 9), Taken::Conversation(_)));
    assert_eq!(t.table.open(), 1);
}

#[test]
fn without_a_port_nothing_is_replaced() {
    let mut t = Table::new();
    let owner = Owner {
        client: 1,
        calling_station: 1,
        port: None,
    };
    for octet in 1..=2 {
        let state = t.table.begin(owner, t.now, [octet; 16], &mut t.ended);
        let put = t
            .table
            .put(&state, 1, t.now, Class::Fresh, Box::new(1), (0, answer().eap));
        assert!(put.is_none());
    }
    assert!(t.ended.is_empty());
    assert_eq!(t.table.open(), 2);
}

#[test]
fn a_replaced_conversation_that_is_worked_on_is_not_put_back() {
    let mut t = Table::new();
    let old = t.begin(1, 1, Class::Begun, 1);
    let Taken::Conversation(taken) = t.take(&old, 1, 9) else {
        panic!("not there")
    };
    let new = t.begin(1, 1, Class::Fresh, 2);
    assert_eq!(t.table.open(), 1);
    let put = t.table.put(&old, 1, t.now, Class::Begun, taken, (9, answer().eap));
    assert!(
        matches!(put, Some(Ended { end: End::Replaced, .. })),
        "its user learns that it has ended"
    );
    t.table.finish(&old, 1, t.now, None);
    assert_eq!(t.table.open(), 1);
    assert!(matches!(t.take(&new, 1, 9), Taken::Conversation(_)));
}

#[test]
fn those_without_a_client_hello_are_evicted_first() {
    let mut t = Table::new();
    let begun = t.begin(1, 1, Class::Begun, 1);
    let fresh = t.begin(1, 2, Class::Fresh, 2);
    for port in 3..=5 {
        t.begin(1, port, Class::Begun, 3);
    }
    assert_eq!(t.ended.len(), 1, "the fifth of a client that may have four evicts one");
    assert_eq!(t.ended[0].state, fresh);
    assert!(matches!(t.take(&fresh, 1, 9), Taken::Evicted));
    assert!(matches!(t.take(&begun, 1, 9), Taken::Conversation(_)));
}

#[test]
fn the_total_is_bounded_over_all_clients() {
    let mut t = Table::new();
    for client in 0..50 {
        t.begin(client, 1, Class::Fresh, 1);
        assert!(t.table.open() <= LIMITS.total);
    }
    assert_eq!(t.ended.len(), 50 - LIMITS.total);
}

#[test]
fn the_oldest_of_all_clients_makes_room() {
    let mut t = Table::new();
    let flood: Vec<State> = (0..6).map(|client| t.begin(client, 1, Class::Fresh, 1)).collect();
    t.now += Duration::from_secs(1);
    let honest: Vec<State> = (0..4).map(|port| t.begin(99, port, Class::Fresh, 2)).collect();
    assert_eq!(t.ended.len(), 2);
    assert!(t.ended.iter().all(|ended| flood.contains(&ended.state)));
    for state in &honest {
        assert!(matches!(t.take(state, 99, 9), Taken::Conversation(_)));
    }
}

#[test]
fn idle_ones_end_and_useless_packets_do_not_keep_them_alive() {
    let mut t = Table::new();
    let state = t.begin(1, 1, Class::Begun, 1);
    t.now += Duration::from_secs(20);
    let lively = t.begin(1, 2, Class::Begun, 2);
    let Taken::Conversation(conversation) = t.take(&state, 1, 9) else {
        panic!("not there")
    };
    let put = t.table.put_unchanged(&state, 1, t.now, Class::Begun, conversation);
    assert!(put.is_none());
    assert!(
        matches!(t.take(&state, 1, 0), Taken::Again(_)),
        "what was answered last stays known"
    );
    t.now += Duration::from_secs(11);
    t.table.expire(t.now, &mut t.ended);
    assert!(matches!(t.ended.as_slice(), [Ended { end: End::Idle, .. }]));
    assert_eq!(t.ended[0].state, state);
    assert_eq!(t.table.open(), 1);
    assert!(matches!(t.take(&lively, 1, 9), Taken::Conversation(_)));
}

/// What was taken and never put back: the future that it waited in panicked.
#[test]
fn one_that_was_lost_while_it_was_worked_on_ends_too() {
    let mut t = Table::new();
    let lost = t.begin(1, 1, Class::Begun, 1);
    t.now += Duration::from_secs(29);
    assert!(matches!(t.take(&lost, 1, 9), Taken::Conversation(_)));
    let never_put = t.table.begin(
        Owner {
            client: 1,
            calling_station: 1,
            port: Some(2),
        },
        t.now,
        [9; 16],
        &mut t.ended,
    );
    t.now += Duration::from_secs(29);
    t.table.expire(t.now, &mut t.ended);
    assert_eq!(t.table.open(), 2, "work may take as long as silence");
    assert!(matches!(t.take(&lost, 1, 9), Taken::Busy));
    t.now += Duration::from_secs(31);
    t.table.expire(t.now, &mut t.ended);
    assert_eq!(t.table.open(), 0);
    assert!(t.ended.is_empty());
    for state in [&lost, &never_put] {
        assert!(matches!(t.take(state, 1, 9), Taken::Finished));
    }
    // the client has its room again
    for port in 3..=6 {
        t.begin(1, port, Class::Begun, 2);
    }
    assert!(t.ended.is_empty());
    for shard in &t.table.shards {
        let mut shard = lock(shard);
        let open = shard.len().0;
        let idle = [Class::Fresh, Class::Begun].map(|class| shard.oldest_idle(class));
        assert_eq!(open > 0, idle.iter().any(Option::is_some));
    }
}

#[test]
fn ended_places_are_bounded_too() {
    let mut t = Table::new();
    for client in 0..1_000 {
        t.begin(client % 50, 1, Class::Fresh, 1);
    }
    let known = t.table.shards.iter().map(|shard| lock(shard).len());
    let (open, ended) = known.fold((0, 0), |all, shard| (all.0 + shard.0, all.1 + shard.1));
    assert!(open <= LIMITS.total, "{open}");
    assert_eq!(ended, LIMITS.total);
}

/// A client's table grows, and what has ended is counted beyond what a number holds.
#[test]
fn states_are_found_however_many_there_are_until_they_are_forgotten() {
    let mut t = Table::with(Limits {
        total: 10_000,
        per_client: 10_000,
        ..LIMITS
    });
    for shard in &t.table.shards {
        lock(shard).count_from(u32::MAX - 1_000);
    }
    let states: Vec<State> = (0..3_000).map(|port| t.begin(1, port, Class::Begun, 1)).collect();
    let (over, open) = states.split_at(2_000);
    for state in over {
        assert!(matches!(t.take(state, 1, 9), Taken::Conversation(_)));
        t.table.finish(state, 1, t.now, Some((9, &answer())));
    }
    let found = |t: &Table| {
        let known = t.table.shards.iter().map(|shard| lock(shard).len());
        known.fold((0, 0), |all, shard| (all.0 + shard.0, all.1 + shard.1))
    };
    assert_eq!(found(&t), (1_000, 2_000));
    for state in over {
        assert!(matches!(t.take(state, 1, 9), Taken::Again(again) if again == answer()));
        assert!(matches!(t.take(state, 1, 8), Taken::Finished));
    }
    for state in open {
        assert!(matches!(t.take(state, 1, 9), Taken::Conversation(_)));
    }
    t.table.expire(t.now + LIMITS.keep_final, &mut t.ended);
    assert_eq!(found(&t), (1_000, 0));
    for state in over {
        assert!(matches!(t.take(state, 1, 9), Taken::Unknown));
    }
}

#[test]
fn a_busy_client_does_not_make_the_answers_of_others_be_forgotten() {
    let mut t = Table::with(Limits {
        total: 10 * SHARDS,
        per_client: 10 * SHARDS,
        ..LIMITS
    });
    let end = |t: &mut Table, client, port| {
        let state = t.begin(client, port, Class::Begun, 1);
        assert!(matches!(t.take(&state, client, 9), Taken::Conversation(_)));
        t.table.finish(&state, client, t.now, Some((9, &answer())));
        state
    };
    for port in 0..1_000 {
        end(&mut t, 1, port);
    }
    let shard_of = |t: &Table, client| std::ptr::from_ref(&*t.table.shard(client));
    let other = (2..).find(|client| shard_of(&t, *client) != shard_of(&t, 1)).unwrap();
    let few: Vec<State> = (0..5).map(|port| end(&mut t, other, port)).collect();
    for port in 0..1_000 {
        end(&mut t, 1, port);
    }
    for state in &few {
        assert!(matches!(t.take(state, other, 9), Taken::Again(_)));
    }
    // all of them are as many as may be
    let ended: usize = t.table.shards.iter().map(|shard| lock(shard).len().1).sum();
    assert_eq!(ended, 10 * SHARDS);
}
