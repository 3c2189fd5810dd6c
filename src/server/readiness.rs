//! Whether this node should be sent requests: conditions that others keep up to date, and `/readyz` reads.
//!
//! Every condition begins as failed, and a good one is good only until a moment that whoever keeps it promises to
//! renew: a probe that hangs, or a task that died, makes the node unready by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The node's own probe is authenticated.
    Probe,
    /// The policy set is there and fresh enough.
    Policies,
    /// The server certificate is valid.
    Certificate,
    /// The node is not on its way out.
    Running,
}

impl Condition {
    /// Every condition.
    pub const ALL: [Condition; 4] = [
        Condition::Probe,
        Condition::Policies,
        Condition::Certificate,
        Condition::Running,
    ];

    /// The word in `/readyz`.
    pub const fn word(self) -> &'static str {
        match self {
            Condition::Probe => "probe",
            Condition::Policies => "policies",
            Condition::Certificate => "certificate",
            Condition::Running => "running",
        }
    }
}

/// What is known of the policies in force, for `/readyz` to tell beside the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// Their revision: epoch and number.
    pub revision: String,
    /// Seconds since the database confirmed them last; none: it never did.
    pub age_s: Option<u64>,
    /// Why it does not confirm them now.
    pub problem: Option<String>,
}

/// The state of every condition.
#[derive(Debug)]
pub struct Readiness {
    states: [Mutex<State>; Condition::ALL.len()],
    policies: Mutex<Option<Policies>>,
}

#[derive(Debug)]
enum State {
    Failed(String),
    /// Good until then; for ever without.
    Good(Option<Instant>),
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness {
            states: Condition::ALL.map(|_| Mutex::new(State::Failed("not known yet".to_owned()))),
            policies: Mutex::default(),
        }
    }
}

impl Readiness {
    /// The condition holds, until `until` unless said again; for ever without.
    pub fn good(&self, condition: Condition, until: Option<Instant>) {
        *self.state(condition) = State::Good(until);
    }

    /// The condition does not hold; `why` is for a person.
    pub fn failed(&self, condition: Condition, why: impl Into<String>) {
        *self.state(condition) = State::Failed(why.into());
    }

    /// Tells of the policies in force.
    pub fn tell(&self, policies: Policies) {
        *self.policies.lock().unwrap_or_else(PoisonError::into_inner) = Some(policies);
    }

    /// What was told of the policies in force; none: nothing yet.
    pub fn policies(&self) -> Option<Policies> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The conditions that do not hold at `now`, each with why. None: ready.
    pub fn failing(&self, now: Instant) -> Vec<(Condition, String)> {
        let why = |condition: &Condition| match &*self.state(*condition) {
            State::Failed(why) => Some((*condition, why.clone())),
            State::Good(Some(until)) if *until < now => {
                let seconds = now.duration_since(*until).as_secs();
                Some((
                    *condition,
                    format!("nothing heard of it for {seconds} s longer than expected"),
                ))
            }
            State::Good(_) => None,
        };
        Condition::ALL.iter().filter_map(why).collect()
    }

    fn state(&self, condition: Condition) -> MutexGuard<'_, State> {
        let [probe, policies, certificate, running] = &self.states;
        match condition {
            Condition::Probe => probe,
            Condition::Policies => policies,
            Condition::Certificate => certificate,
            Condition::Running => running,
        }
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_is_ready_only_while_every_condition_is_known_to_hold() {
        let (readiness, now) = (Readiness::default(), Instant::now());
        assert_eq!(readiness.failing(now).len(), 4);
        for condition in Condition::ALL {
            readiness.good(condition, None);
        }
        assert_eq!(readiness.failing(now), []);
        readiness.good(Condition::Probe, Some(now + Duration::from_secs(5)));
        assert_eq!(readiness.failing(now), []);
        // the probe's task died: nobody says so, and still it shows
        let later = now + Duration::from_secs(7);
        let why = "nothing heard of it for 2 s longer than expected".to_owned();
        assert_eq!(readiness.failing(later), [(Condition::Probe, why)]);
        readiness.failed(Condition::Policies, "no database answers");
        assert_eq!(
            readiness.failing(now),
            [(Condition::Policies, "no database answers".to_owned())]
        );
    }
}
