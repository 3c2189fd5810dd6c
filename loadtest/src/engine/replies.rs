//! What a datagram means for the slot that waits for it, or for nobody.

use std::time::Instant;

use portreeve::nas::{Answer, Attempt, Fault};
use portreeve::radius::attribute::Revealing;
use portreeve::radius::reply::{self, ReplyError};

use super::{Engine, Outcome};
use crate::failure::Kind;
use crate::lane::{Lane, Usage};
use crate::plan;
use crate::tally::Handshake;

impl Engine<'_> {
    /// Takes one datagram, which has come to this lane by then.
    pub(super) fn take(&mut self, lane_at: usize, datagram: &[u8], arrived: Instant) -> anyhow::Result<()> {
        let shared = self.shared;
        let Some(lane) = self.lanes.lane(lane_at) else {
            return Ok(());
        };
        let Some(&identifier) = datagram.get(1) else {
            let octets = datagram.len();
            self.stray(Kind::MalformedPacket, || format!("a datagram of {octets} octets"));
            return Ok(());
        };
        let (usage, authenticator) = lane.usage(identifier);
        let at = match usage {
            Usage::Waiting(at) => at,
            Usage::Never => {
                let example = || format!("an answer with the identifier {identifier}, which no request had yet");
                self.stray(Kind::Unasked, example);
                return Ok(());
            }
            Usage::Answered | Usage::GivenUp(_) => {
                self.take_stray(lane_at, identifier, datagram, arrived);
                return Ok(());
            }
        };
        let secret = &shared.fleet.secret;
        let Some(slot) = self.slots.get_mut(at) else {
            return Ok(());
        };
        let Some(attempt) = &mut slot.attempt else {
            return Ok(());
        };
        let group = slot.device.group;
        let (transmissions, latency) = (slot.transmissions, arrived.saturating_duration_since(slot.sent));
        let outcome = match attempt.reply(datagram) {
            Ok(Answer::Challenge) => None,
            Ok(Answer::Accept(_)) if group.outcome == plan::Outcome::Reject => {
                let example = "the server accepted, and the plan says that it must reject".to_owned();
                Some(Outcome::Failed(Kind::WrongAccept, example))
            }
            Ok(Answer::Accept(packet)) => {
                let revealing = Revealing {
                    secret,
                    request_authenticator: &authenticator,
                };
                Some(match group.expectations.check(&packet, revealing) {
                    Ok(()) => Outcome::Accepted(handshake(attempt)),
                    Err(wrong) => Outcome::Failed(Kind::WrongAttributes, wrong),
                })
            }
            Ok(Answer::Reject(..)) if group.outcome == plan::Outcome::Reject => Some(Outcome::Refused),
            Ok(Answer::Reject(_, failure)) => {
                let example = failure
                    .as_ref()
                    .map_or("the server rejected".to_owned(), ToString::to_string);
                Some(Outcome::Failed(Kind::of_reject(failure.as_ref()), example))
            }
            Err(Fault::Reply(ReplyError::ResponseAuthenticator))
                if self.answers_earlier(lane_at, identifier, datagram) =>
            {
                self.tally.duplicate_answers += 1;
                return Ok(());
            }
            Err(fault) => Some(Outcome::Failed(Kind::of_fault(&fault), fault.to_string())),
        };
        self.release(lane_at, identifier);
        self.waiting.remove(at);
        self.tally.last_answer = Some(arrived);
        self.tally.answer(transmissions, latency);
        match outcome {
            Some(outcome) => self.end(at, arrived, outcome),
            None => self.ask(at)?,
        }
        Ok(())
    }

    /// An answer that nobody waits for: a second one, one that is late, or a wrong one.
    fn take_stray(&mut self, lane_at: usize, identifier: u8, datagram: &[u8], arrived: Instant) {
        let Some((usage, authenticator)) = self.lanes.lane(lane_at).map(|lane| lane.usage(identifier)) else {
            return;
        };
        let secret = &self.shared.fleet.secret;
        match (reply::verify(datagram, identifier, &authenticator, secret), usage) {
            (Ok(_), Usage::GivenUp(at)) => {
                self.release(lane_at, identifier);
                let after = arrived.saturating_duration_since(at).as_millis();
                self.tally.last_answer = Some(arrived);
                self.window.failure(Kind::LateAnswer);
                self.tally
                    .late(|| format!("an answer came {after} ms after its device had given up"));
            }
            (Ok(_), _) => self.tally.duplicate_answers += 1,
            (Err(_), _) if self.answers_earlier(lane_at, identifier, datagram) => {
                self.tally.duplicate_answers += 1;
            }
            (Err(error), _) => self.stray(Kind::of_reply(&error), || {
                format!("to a request that nobody waits on: {error}")
            }),
        }
    }

    /// Whether it answers the request that had the identifier before.
    fn answers_earlier(&mut self, lane: usize, identifier: u8, datagram: &[u8]) -> bool {
        let earlier = self.lanes.lane(lane).and_then(|lane| lane.earlier(identifier));
        let secret = &self.shared.fleet.secret;
        earlier.is_some_and(|earlier| reply::verify(datagram, identifier, &earlier, secret).is_ok())
    }

    fn release(&mut self, lane: usize, identifier: u8) {
        if let Some(lane) = self.lanes.lane(lane) {
            Lane::release(lane, identifier, Usage::Answered);
        }
    }
}

fn handshake(attempt: &Attempt) -> Option<Handshake> {
    let peer = attempt.peer()?;
    Some(Handshake {
        version: peer.tls_version()?,
        cipher: peer.cipher()?,
        resumed: peer.resumed(),
    })
}
