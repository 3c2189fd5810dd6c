//! How each server is, and which of them to read.
//!
//! Each server is asked a few times a second: whether it answers, whether it replays another one's writes or is a primary
//! (which changes when a replica is promoted), and how far in the write-ahead log it is. How far it is *behind* is measured
//! by this node's own monotonic clock: the time since any server was first seen at a position that this one has not reached.
//! No server's clock takes part, and an idle database is not behind.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::server::{Facts, LIFETIME, Server, Status};
use super::session::{broken, dead};
use crate::store::{Settings, StoreError};

/// A server that refuses is asked again after this, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The channel on which the triggers tell the revision's number.
const CHANNEL: &str = "portreeve_revision";

/// A setting that is given when a session begins, and that a pooler does not pass on. What a pooler's session was told to
/// LISTEN to it hears for ever after, whoever has it, and his next statement fails for a message that he did not expect.
const DIRECT: &str = "portreeve.direct";

/// Whether it arrived.
const IS_DIRECT: &str = "SELECT coalesce(current_setting('portreeve.direct', true), '') = 'yes'";

/// Asks all servers again and again, until it is dropped.
#[derive(Debug)]
pub(crate) struct Prober {
    servers: Arc<[Arc<Server>]>,
    announced: watch::Sender<u64>,
    _tasks: Mutex<JoinSet<()>>,
}

impl Prober {
    /// Asks each server once, then goes on in the background.
    pub(super) async fn start(servers: Arc<[Arc<Server>]>, settings: &Settings) -> Prober {
        let horizon = Arc::new(Mutex::new(Horizon::new(Instant::now())));
        let announced = watch::Sender::new(0);
        let mut first = JoinSet::new();
        for server in servers.iter() {
            let probe = Probe {
                server: Arc::clone(server),
                horizon: Arc::clone(&horizon),
                connection: None,
                born: Instant::now(),
                reached: 0,
                limit: settings.probe_timeout,
            };
            first.spawn(async move {
                let mut probe = probe;
                probe.ask().await;
                probe
            });
        }
        let mut tasks = JoinSet::new();
        for probe in first.join_all().await {
            if probe.server.is_primary {
                tasks.spawn(listen(Arc::clone(&probe.server), announced.clone()));
            }
            tasks.spawn(probe.run(settings.probe_interval));
        }
        Prober {
            servers,
            announced,
            _tasks: Mutex::new(tasks),
        }
    }

    /// A server failed in the hands of somebody else. One that is silent, or gone, is down until it is asked again; one that
    /// says why it refuses is not.
    pub(super) fn failed(&self, index: usize, error: &StoreError) {
        if let Some(server) = self.servers.get(index)
            && error.is_broken()
        {
            down(server, error);
        }
    }

    /// Follows the revision's number as the primary tells it.
    pub(super) fn announced(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }
}

/// The order in which to try the servers: those that are better to read first, those that just had nothing good to say last,
/// none that is known to be down. Among equals the one that was read last stays, so that nothing moves to and fro; and a
/// primary that is read is left only for a replica that has caught up, not for one that still comes back.
pub(super) fn order(servers: &[Arc<Server>], current: Option<usize>, max_lag: Duration) -> Vec<usize> {
    let reads_primary = current
        .and_then(|index| servers.get(index))
        .is_some_and(|server| matches!(&*server.status().borrow(), Status::Up(facts) if !facts.is_standby));
    let max_lag = if reads_primary { max_lag.min(FRESH) } else { max_lag };
    let mut ranked: Vec<_> = servers
        .iter()
        .enumerate()
        .filter_map(|(index, server)| {
            let rank = rank(server.is_primary, &server.status().borrow(), max_lag)?;
            Some((server.is_passed_over(), rank, current != Some(index), index))
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, _, index)| index).collect()
}

/// A replica that is less far behind than this is as good as any. Too low: nodes change over whenever one takes a breath;
/// too high: changes come as late although another replica has them.
const FRESH: Duration = Duration::from_secs(1);

/// How well a server may be read, the lowest best; none: it is known to be down.
fn rank(is_primary: bool, status: &Status, max_lag: Duration) -> Option<(u8, Duration)> {
    match status {
        Status::Down(_) => None,
        // Replicas are for reading, wherever they are named.
        Status::Up(facts) if facts.is_standby && facts.lag <= max_lag.min(FRESH) => Some((0, Duration::ZERO)),
        Status::Up(facts) if facts.is_standby && facts.lag <= max_lag => Some((1, facts.lag)),
        Status::Up(facts) if !facts.is_standby && is_primary => Some((2, Duration::ZERO)),
        // A replica that was promoted.
        Status::Up(facts) if !facts.is_standby => Some((3, Duration::ZERO)),
        // Old data, truly told, is better than none.
        Status::Up(facts) => Some((4, facts.lag)),
        Status::Unknown => Some((if is_primary { 5 } else { 6 }, Duration::ZERO)),
    }
}

fn down(server: &Server, error: &StoreError) {
    let why = error.to_string().replace('\n', "; ");
    if server.set_status(Status::Down(why.clone())) {
        tracing::warn!(server = server.name, "the database server cannot be read: {why}");
    }
    server.forget();
}

/// One server's questioner.
struct Probe {
    server: Arc<Server>,
    horizon: Arc<Mutex<Horizon>>,
    connection: Option<PgConnection>,
    born: Instant,
    /// Where it was when it answered last.
    reached: u64,
    limit: Duration,
}

impl Probe {
    async fn run(mut self, interval: Duration) {
        let mut pause = interval;
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.ask().await {
                true => interval,
                false => (pause * 2).min(LONGEST_PAUSE),
            };
        }
    }

    /// Asks once; whether there was an answer.
    async fn ask(&mut self) -> bool {
        let was_connected = self.connection.is_some();
        let mut answer = self.facts().await;
        // A session that somebody ended is not a server that died.
        if was_connected
            && answer
                .as_ref()
                .is_err_and(|error| error.is_passing() && !error.is_silence())
        {
            answer = self.facts().await;
        }
        match answer {
            Ok(facts) => {
                let facts = {
                    let mut horizon = self.horizon.lock().unwrap_or_else(PoisonError::into_inner);
                    if facts.position < self.reached {
                        horizon.forget();
                    }
                    self.reached = facts.position;
                    horizon.judge(facts, Instant::now())
                };
                let status = Status::Up(facts);
                let text = status.to_string();
                if self.server.set_status(status) {
                    tracing::info!(server = self.server.name, "the database server answers: {text}");
                }
                true
            }
            Err(error) => {
                self.connection = None;
                down(&self.server, &error);
                false
            }
        }
    }

    async fn facts(&mut self) -> Result<Facts, StoreError> {
        // What waited for an answer in vain must not be asked again: the answer may still come.
        let known = self.connection.take().filter(|_| self.born.elapsed() < LIFETIME);
        let mut connection = match known {
            Some(connection) => connection,
            None => {
                self.born = Instant::now();
                self.server.connect().await?
            }
        };
        let facts = self.server.probe(&mut connection, self.limit).await?;
        self.connection = Some(connection);
        Ok(facts)
    }
}

/// Where the furthest server was, and when: samples of rising position, the newest last.
#[derive(Debug)]
struct Horizon {
    samples: VecDeque<(Instant, u64)>,
    /// When a primary was seen, or a replica that is connected to one; at first: when this node began to look.
    vouched: Instant,
}

/// Samples that are kept. When there are more, old ones go where they are close together: a hundred days need a thousand.
const SAMPLES: usize = 4096;

/// What a server is behind at least that already missed something when this node began to look. Nobody knows since when; it
/// is more than any `max_lag`.
const SINCE_BEFORE: Duration = Duration::from_secs(2 * 3600);

impl Horizon {
    fn new(now: Instant) -> Horizon {
        Horizon {
            samples: VecDeque::new(),
            vouched: now,
        }
    }

    /// A server went back: the log has another history now, or that server lost its memory. Positions of before mean nothing.
    fn forget(&mut self) {
        self.samples.clear();
    }

    /// Leaves out what a lag can do without that is told to one part in thirty-two; the first sample stays.
    fn thin(&mut self, now: Instant) {
        let mut kept: Option<Instant> = None;
        self.samples.retain(|&(at, _)| {
            let stays =
                kept.is_none_or(|kept| at.saturating_duration_since(kept) >= now.saturating_duration_since(at) / 128);
            if stays {
                kept = Some(at);
            }
            stays
        });
    }

    /// Takes a server's word into account, and says how far behind it is.
    fn judge(&mut self, facts: Facts, now: Instant) -> Facts {
        let furthest = facts.position.max(facts.received);
        match self.samples.back() {
            Some(&(_, position)) if position >= furthest => {}
            _ => {
                self.samples.push_back((now, furthest));
                if self.samples.len() > SAMPLES {
                    self.thin(now);
                }
            }
        }
        if !facts.is_standby || facts.is_streaming {
            self.vouched = now;
        }
        let missed = match facts.is_standby {
            // A primary is what others are behind. An old one that others went past is found by its replicas' silence.
            false => None,
            true => {
                let index = self
                    .samples
                    .partition_point(|&(_, position)| position <= facts.position);
                self.samples.get(index).map(|&(at, _)| {
                    let before = if index == 0 { SINCE_BEFORE } else { Duration::ZERO };
                    before + now.saturating_duration_since(at)
                })
            }
        };
        // A replica that hears of no primary cannot know what it misses: it is behind since somebody did.
        let unheard = now.saturating_duration_since(self.vouched);
        Facts {
            lag: missed.unwrap_or(Duration::ZERO).max(unheard),
            ..facts
        }
    }
}

/// Hears what the primary tells, and connects again whenever that ends.
async fn listen(server: Arc<Server>, announced: watch::Sender<u64>) {
    let mut pause = LONGEST_PAUSE;
    loop {
        // A connection that says nothing may be to nobody: a new one each time that the server dies, and now and then.
        let heard = tokio::select! {
            heard = hear(&server, &announced) => heard,
            _ = dead(server.status()) => Ok(()),
            () = tokio::time::sleep(LIFETIME) => Ok(()),
        };
        pause = match heard {
            Ok(()) => LONGEST_PAUSE,
            Err(error) => {
                tracing::debug!(server = server.name, "no notice of changes: {error}");
                (pause * 2).min(Duration::from_secs(30))
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn hear(server: &Server, announced: &watch::Sender<u64>) -> Result<(), StoreError> {
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(server.connect_timeout())
        .connect_lazy_with(server.connect_options()?.options([(DIRECT, "yes")]));
    let mut listener = PgListener::connect_with(&pool).await?;
    let direct = sqlx::raw_sql(IS_DIRECT).fetch_one(&mut listener).await?;
    if !direct.try_get::<bool, _>(0)? {
        return Err(broken("a pooler stands between".to_owned()).into());
    }
    listener.listen(CHANNEL).await?;
    // `try_recv` gives none where the connection was lost: notices were perhaps missed, and the next look finds them.
    while let Some(notice) = listener.try_recv().await? {
        if let Ok(number) = notice.payload().parse() {
            announced.send_replace(number);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standby(position: u64) -> Facts {
        Facts {
            is_standby: true,
            is_streaming: true,
            position,
            received: position,
            lag: Duration::ZERO,
        }
    }

    fn primary(position: u64) -> Facts {
        Facts {
            is_standby: false,
            is_streaming: false,
            ..standby(position)
        }
    }

    #[test]
    fn lag_is_the_time_since_what_is_missed_was_first_seen() {
        let start = Instant::now();
        let mut horizon = Horizon::new(start);
        let at = |ms| start + Duration::from_millis(ms);
        let lag = |horizon: &mut Horizon, facts, ms| horizon.judge(facts, at(ms)).lag.as_millis();
        assert_eq!(lag(&mut horizon, primary(100), 0), 0);
        assert_eq!(lag(&mut horizon, standby(100), 10), 0);
        // An idle database is not behind, however long.
        assert_eq!(lag(&mut horizon, primary(100), 60_000), 0);
        assert_eq!(lag(&mut horizon, standby(100), 60_010), 0);
        // The primary moves on, and the replica does not.
        assert_eq!(lag(&mut horizon, primary(200), 61_000), 0);
        assert_eq!(lag(&mut horizon, standby(100), 61_500), 500);
        assert_eq!(lag(&mut horizon, primary(300), 63_000), 0);
        assert_eq!(lag(&mut horizon, standby(100), 64_000), 3_000);
        // It catches up half way: behind since the rest was seen.
        assert_eq!(lag(&mut horizon, standby(200), 65_000), 2_000);
        assert_eq!(lag(&mut horizon, standby(300), 65_100), 0);
        // What it received and does not replay counts as missed, primary or none.
        let paused = Facts {
            received: 500,
            ..standby(300)
        };
        assert_eq!(lag(&mut horizon, paused, 66_000), 0);
        assert_eq!(lag(&mut horizon, paused, 69_000), 3_000);
    }

    #[test]
    fn a_replica_that_hears_of_no_primary_grows_old() {
        let start = Instant::now();
        let mut horizon = Horizon::new(start);
        let cut = Facts {
            is_streaming: false,
            ..standby(100)
        };
        assert_eq!(horizon.judge(standby(100), start).lag, Duration::ZERO);
        let later = start + Duration::from_secs(7);
        assert_eq!(horizon.judge(cut, later).lag, Duration::from_secs(7));
        // Another server still hears one, and nothing moved.
        horizon.judge(standby(100), later);
        assert_eq!(horizon.judge(cut, later).lag, Duration::ZERO);
    }

    /// A replica that was late already when the node began to look is not fresh because nobody saw it fall behind.
    #[test]
    fn late_since_before_is_late() {
        let start = Instant::now();
        let mut horizon = Horizon::new(start);
        horizon.judge(primary(100), start);
        assert!(horizon.judge(standby(90), start).lag >= SINCE_BEFORE);
        horizon.judge(primary(200), start + Duration::from_secs(1));
        let later = start + Duration::from_secs(3);
        assert_eq!(horizon.judge(standby(100), later).lag, Duration::from_secs(2));
        // Another history: what was seen of the old one makes nobody late.
        horizon.forget();
        horizon.judge(primary(50), later);
        assert_eq!(horizon.judge(standby(50), later).lag, Duration::ZERO);
    }

    #[test]
    fn a_long_lag_is_told_however_much_was_written_meanwhile() {
        let start = Instant::now();
        let mut horizon = Horizon::new(start);
        horizon.judge(standby(1), start);
        let hours = Duration::from_secs(6 * 3600);
        for step in 1..=100_000u32 {
            horizon.judge(primary(u64::from(step) + 1), start + hours * step / 100_000);
        }
        assert!(horizon.samples.len() <= SAMPLES);
        let lag = horizon.judge(standby(1), start + hours).lag;
        assert!(lag > hours * 31 / 32 && lag <= hours, "{lag:?}");
    }

    #[test]
    fn replicas_first_then_primaries_then_what_is_late() {
        let max_lag = Duration::from_secs(5);
        let behind = |seconds| Facts {
            lag: Duration::from_secs(seconds),
            ..standby(1)
        };
        let ranks = [
            rank(false, &Status::Up(standby(1)), max_lag),
            rank(false, &Status::Up(behind(2)), max_lag),
            rank(false, &Status::Up(behind(4)), max_lag),
            rank(true, &Status::Up(primary(1)), max_lag),
            rank(false, &Status::Up(primary(1)), max_lag),
            rank(false, &Status::Up(behind(9)), max_lag),
            rank(true, &Status::Unknown, max_lag),
            rank(false, &Status::Unknown, max_lag),
        ];
        assert!(ranks.iter().all(Option::is_some) && ranks.is_sorted(), "{ranks:?}");
        // Those that are nearly fresh are equal, so that nodes stay where they are.
        let nearly = Facts {
            lag: Duration::from_millis(900),
            ..standby(1)
        };
        assert_eq!(rank(false, &Status::Up(nearly), max_lag), ranks[0]);
        // A primary that was demoted is a replica like others.
        assert_eq!(rank(true, &Status::Up(standby(1)), max_lag), ranks[0]);
        assert_eq!(rank(true, &Status::Down(String::new()), max_lag), None);
    }
}
