//! How much load there is, and when: phases one after the other, each of so many users or of so many devices a second.
//!
//! Users are a closed loop: each has one device at a time, and begins the next one when that has its answer, so a slow server
//! is asked less. A rate is an open loop: devices begin when the schedule says, whatever became of those before. The schedule
//! is computed from the number of a device, so it is exact however late a thread looks at it.

use std::time::Duration;

/// The load of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub phases: Vec<Phase>,
    /// Numbers of users that are told apart in the report, ascending: up to the first, more than that up to the second …
    pub levels: Vec<u32>,
}

/// A time with one load, or with one that rises or falls evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// `None`: until there are no more devices.
    pub duration: Option<Duration>,
    pub load: Load,
}

/// How devices begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Closed loop: devices at once.
    Users { from: u32, to: u32 },
    /// Open loop: devices a second.
    Rate { from: f64, to: f64 },
}

impl Profile {
    /// How long devices begin; `None`: until there are no more.
    pub fn duration(&self) -> Option<Duration> {
        self.phases.iter().map(|phase| phase.duration).sum()
    }

    /// The most users there are.
    pub fn most_users(&self) -> u32 {
        let most = |phase: &Phase| match phase.load {
            Load::Users { from, to } => from.max(to),
            Load::Rate { .. } => 0,
        };
        self.phases.iter().map(most).max().unwrap_or_default()
    }

    /// Whether devices begin by schedule in some phase.
    pub fn has_rates(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.load, Load::Rate { .. }))
    }
}

impl Phase {
    /// Users at a time of the phase.
    pub fn users(&self, at: Duration) -> u32 {
        let Load::Users { from, to } = self.load else { return 0 };
        let share = match self.duration {
            Some(duration) if !duration.is_zero() => (at.as_secs_f64() / duration.as_secs_f64()).min(1.0),
            _ => 1.0,
        };
        let users = f64::from(from) + (f64::from(to) - f64::from(from)) * share;
        // the last one comes, or goes, at the end; a hair more, so that a whole number is not missed by its last digit
        (if to >= from {
            (users + 1e-9).floor()
        } else {
            (users - 1e-9).ceil()
        }) as u32
    }

    /// When another user comes or goes.
    fn users_change(&self, at: Duration) -> Option<Duration> {
        let Load::Users { from, to } = self.load else {
            return None;
        };
        let each = self.duration?.as_secs_f64() / f64::from(from.abs_diff(to).max(1));
        let steps = (at.as_secs_f64() / each + 1e-9).floor() + 1.0;
        (from != to).then(|| Duration::from_secs_f64(steps * each))
    }

    /// When device `number` of the phase is due, counted from 0; `None` when it is not, in this phase.
    pub fn due(&self, number: u64) -> Option<Duration> {
        let Load::Rate { from, to } = self.load else {
            return None;
        };
        let number = number as f64;
        let seconds = match self.duration.map(|duration| duration.as_secs_f64()) {
            // the time t at which from * t + (to - from) * t^2 / 2d devices are due
            Some(duration) if from != to => {
                let root = (from * from + 2.0 * (to - from) / duration * number).sqrt();
                2.0 * number / (from + root).max(f64::MIN_POSITIVE)
            }
            _ => number / from,
        };
        let due = Duration::try_from_secs_f64(seconds).ok()?;
        // a hair less, so that the first device of the next phase is not the last one of this
        let ends = self
            .duration
            .map_or(f64::INFINITY, |duration| duration.as_secs_f64() - 1e-9);
        (seconds < ends).then_some(due)
    }
}

impl Profile {
    /// When each phase begins, with the phase.
    pub fn starts(&self) -> impl Iterator<Item = (Duration, &Phase)> {
        self.phases.iter().scan(Duration::ZERO, |began, phase| {
            let start = *began;
            *began += phase.duration.unwrap_or_default();
            Some((start, phase))
        })
    }

    /// The load that is asked for at a time of the run, if any.
    pub fn at(&self, time: Duration) -> Option<Load> {
        let (start, phase) = self
            .starts()
            .find(|(start, phase)| phase.duration.is_none_or(|duration| time < *start + duration))?;
        let at = time.saturating_sub(start);
        Some(match phase.load {
            Load::Users { .. } => {
                let users = phase.users(at);
                Load::Users { from: users, to: users }
            }
            Load::Rate { from, to } => {
                let share = phase
                    .duration
                    .map_or(1.0, |duration| at.as_secs_f64() / duration.as_secs_f64());
                let rate = from + (to - from) * share;
                Load::Rate { from: rate, to: rate }
            }
        })
    }
}

/// The share of one thread in a profile: users as evenly as may be, of a schedule each so-manieth device.
#[derive(Debug)]
pub struct Pacer<'p> {
    profile: &'p Profile,
    thread: u64,
    threads: u64,
    /// The phase, and when it began; times are from the beginning of the run.
    phase: usize,
    began: Duration,
    /// Devices of this phase and thread that have begun, or were passed over.
    next: u64,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A device of a user may begin.
    User,
    /// A device is due since then.
    Due(Duration),
    /// No user begins before one ends, or before then.
    UserLater(Option<Duration>),
    /// None is due before then.
    DueLater(Duration),
    /// There are no more.
    Over,
}

impl<'p> Pacer<'p> {
    pub fn new(profile: &'p Profile, thread: u64, threads: u64) -> Pacer<'p> {
        Pacer {
            profile,
            thread,
            threads,
            phase: 0,
            began: Duration::ZERO,
            next: 0,
        }
    }

    /// The present phase, for what is counted by phase.
    pub fn phase(&self) -> usize {
        self.phase
    }

    /// Users of all threads now.
    pub fn users(&self, now: Duration) -> u32 {
        let phase = self.profile.phases.get(self.phase);
        phase.map_or(0, |phase| phase.users(now.saturating_sub(self.began)))
    }

    /// What to do when `busy` devices of this thread are under way.
    pub fn turn(&mut self, now: Duration, busy: usize) -> Turn {
        while let Some(phase) = self.profile.phases.get(self.phase) {
            let ends = phase.duration.map(|duration| self.began + duration);
            let at = now.saturating_sub(self.began);
            match phase.load {
                Load::Users { .. } if ends.is_none_or(|ends| now < ends) => {
                    let users = u64::from(phase.users(at));
                    let share = users / self.threads + u64::from(self.thread < users % self.threads);
                    if (busy as u64) < share {
                        return Turn::User;
                    }
                    let change = phase.users_change(at).map(|change| self.began + change);
                    return Turn::UserLater(change.into_iter().chain(ends).min());
                }
                Load::Users { .. } => {}
                Load::Rate { .. } => match phase.due(self.next * self.threads + self.thread) {
                    Some(due) if due <= at => return Turn::Due(self.began + due),
                    Some(due) => return Turn::DueLater(self.began + due),
                    // the next phase begins in its time, not when the last device of this one has
                    None => match ends {
                        Some(ends) if now < ends => return Turn::DueLater(ends),
                        _ => {}
                    },
                },
            }
            self.phase += 1;
            self.began = ends.unwrap_or(now);
            self.next = 0;
        }
        Turn::Over
    }

    /// The device that was due has begun, or is passed over.
    pub fn took(&mut self) {
        self.next += 1;
    }

    /// Whether the time of the phase is up, and what is still due in it has come too late.
    pub fn is_past(&self, now: Duration) -> bool {
        let phase = self.profile.phases.get(self.phase).and_then(|phase| phase.duration);
        phase.is_some_and(|duration| now >= self.began + duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(seconds: u64, load: Load) -> Phase {
        Phase {
            name: String::new(),
            duration: Some(Duration::from_secs(seconds)),
            load,
        }
    }

    fn seconds(number: f64) -> Duration {
        Duration::from_secs_f64(number)
    }

    #[test]
    fn users_come_and_go_evenly() {
        let up = phase(300, Load::Users { from: 1, to: 50 });
        let at = |at| up.users(seconds(at));
        assert_eq!(
            (at(0.0), at(6.0), at(6.2), at(299.9), at(300.0), at(900.0)),
            (1, 1, 2, 49, 50, 50)
        );
        assert_eq!(up.users_change(seconds(0.0)), Some(seconds(300.0 / 49.0)));
        let down = phase(10, Load::Users { from: 10, to: 0 });
        let at = |at| down.users(seconds(at));
        assert_eq!((at(0.0), at(0.5), at(1.0), at(9.5), at(10.0)), (10, 10, 9, 1, 0));
        assert_eq!(
            phase(10, Load::Users { from: 3, to: 3 }).users_change(seconds(1.0)),
            None
        );
    }

    #[test]
    fn a_rate_is_a_schedule() {
        let steady = phase(
            2,
            Load::Rate {
                from: 1000.0,
                to: 1000.0,
            },
        );
        assert_eq!(steady.due(0), Some(Duration::ZERO));
        assert_eq!(steady.due(1500), Some(seconds(1.5)));
        assert_eq!((steady.due(1999).is_some(), steady.due(2000)), (true, None));
        // half as many as with the full rate from the start, more and more often
        let ramp = phase(4, Load::Rate { from: 0.0, to: 100.0 });
        assert_eq!(ramp.due(0), Some(Duration::ZERO));
        assert!((ramp.due(50).unwrap().as_secs_f64() - 2.0).abs() < 1e-6);
        assert!((ramp.due(199).unwrap().as_secs_f64() - 3.99).abs() < 0.01);
        assert_eq!(ramp.due(200), None);
        let fall = phase(4, Load::Rate { from: 100.0, to: 0.0 });
        assert_eq!((0..).take_while(|number| fall.due(*number).is_some()).count(), 200);
        let endless = Phase {
            duration: None,
            ..steady
        };
        assert_eq!(endless.due(5_000_000), Some(seconds(5000.0)));
    }

    #[test]
    fn threads_share_a_schedule_and_phases_follow_each_other_in_time() {
        let profile = Profile {
            phases: vec![
                phase(1, Load::Rate { from: 4.0, to: 4.0 }),
                phase(1, Load::Users { from: 3, to: 3 }),
            ],
            levels: Vec::new(),
        };
        assert_eq!((profile.duration(), profile.most_users()), (Some(seconds(2.0)), 3));
        let mut one = Pacer::new(&profile, 0, 2);
        let mut two = Pacer::new(&profile, 1, 2);
        assert_eq!(one.turn(Duration::ZERO, 0), Turn::Due(Duration::ZERO));
        one.took();
        assert_eq!(one.turn(Duration::ZERO, 1), Turn::DueLater(seconds(0.5)));
        assert_eq!(two.turn(seconds(0.1), 0), Turn::DueLater(seconds(0.25)));
        // late, and still as planned
        for due in [0.25, 0.75] {
            assert_eq!(two.turn(seconds(1.2), 0), Turn::Due(seconds(due)));
            assert!(two.is_past(seconds(1.2)) && !two.is_past(seconds(0.9)));
            two.took();
        }
        assert_eq!(two.turn(seconds(1.2), 0), Turn::User);
        assert_eq!(two.turn(seconds(1.2), 1), Turn::UserLater(Some(seconds(2.0))));
        assert_eq!((two.phase(), two.users(seconds(1.5))), (1, 3));
        let asked = |at| profile.at(seconds(at));
        assert_eq!(asked(0.5), Some(Load::Rate { from: 4.0, to: 4.0 }));
        assert_eq!((asked(1.5), asked(2.0)), (Some(Load::Users { from: 3, to: 3 }), None));
        one.took();
        assert_eq!(one.turn(seconds(0.9), 0), Turn::DueLater(seconds(1.0)));
        assert_eq!(one.turn(seconds(1.0), 1), Turn::User);
        assert_eq!(
            (one.turn(seconds(2.0), 0), two.turn(seconds(2.5), 5)),
            (Turn::Over, Turn::Over)
        );
    }
}
