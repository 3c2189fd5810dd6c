//! What is kept of an EAP conversation between its rounds.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustls_pki_types::CertificateDer;

use super::judge::Decided;
use super::record::{Authentication, Outcome, Text};
use super::request::Request;
use super::{Moment, diagnosis};
use crate::clients::SiteId;
use crate::conversations::{Class, End, State};
use crate::eap::method::{EapType, Method};
use crate::eap::server::{Conversation, Phase, Step, Verdict};
use crate::eap::tls::{Refused, TlsVersion};
use crate::mab::{Attempt, Mab};
use crate::policy::model::Action;
use crate::reason::Reason;
use crate::trust::TrustSet;
use crate::trust::certificate::Certificate;

/// An EAP conversation.
pub(super) struct Open {
    /// The conversation itself.
    pub eap: Conversation,
    /// The certificates it began with: a reload doesn't change them.
    pub trust: Arc<TrustSet>,
    /// What MAC authentication makes of its first request.
    pub mab: Mab,
    /// The decision, once it was made: it is in force when the conversation ends.
    pub decided: Option<Box<Decided>>,
    /// Requests so far.
    pub rounds: u32,
    /// The client, by its key.
    pub client: i64,
    /// The client's site.
    pub site: SiteId,
    /// The node's own, for `/readyz`.
    pub is_probe: bool,
    user_name: Option<Box<[u8]>>,
    begun: Instant,
    /// What the first request said of itself, and what was learned of the certificate since; it becomes the record.
    first: Authentication,
}

impl Open {
    /// A conversation that begins with `request`; `first` is what is known of it by then.
    pub(super) fn new(
        eap: Conversation,
        request: &Request<'_>,
        mab: Mab,
        trust: Arc<TrustSet>,
        state: &State,
        mut first: Authentication,
    ) -> Open {
        first.conversation = Some(state.number());
        Open {
            eap,
            trust,
            mab,
            decided: None,
            rounds: 1,
            client: request.client.id,
            site: request.client.site,
            is_probe: request.is_probe,
            user_name: request.user_name().map(Box::from),
            begun: request.moment.instant,
            first,
        }
    }

    /// How early it is given up when room is needed.
    pub(super) fn class(&self) -> Class {
        match self.eap.has_client_hello() {
            true => Class::Begun,
            false => Class::Fresh,
        }
    }

    /// Whether the request's User-Name is the conversation's. A NAS that sent EAP-Start names the user only once it has
    /// learned the identity; what MAC authentication makes of the user is known from then on.
    pub(super) fn accepts_user_name(&mut self, request: &Request<'_>) -> bool {
        match (&self.user_name, request.user_name()) {
            (None, Some(user_name)) => {
                self.user_name = Some(user_name.into());
                self.first.texts.set(Text::User, user_name);
                self.mab = request.mab();
                self.eap.set_offer(offer(self.mab));
                true
            }
            (known, sent) => known.as_deref() == sent,
        }
    }

    /// Whether its EAP identity is a name of the certificate, where the configuration asks. The node's own is not asked.
    pub(super) fn claims_a_name_of(&self, chain: &[CertificateDer<'_>]) -> bool {
        let certificate = chain.first().map_or(&[][..], |leaf| leaf);
        self.is_probe || self.trust.identity_check.allows(self.eap.inner_identity(), certificate)
    }

    /// Tells the conversation what was decided.
    pub(super) fn decide(&mut self, decided: Box<Decided>) -> Step {
        let verdict = match decided.action {
            Action::Accept => Verdict::Accept,
            Action::Reject => Verdict::Refuse(decided.reason.into()),
        };
        self.decided = Some(decided);
        self.eap.decide(verdict)
    }

    /// Tells the conversation that it is refused before any policy was asked.
    pub(super) fn refuse(&mut self, refused: Refused) -> Step {
        self.eap.decide(Verdict::Refuse(refused))
    }

    /// What is to be said of it in the log line, unless something weightier is.
    pub(super) fn note(&mut self, note: Option<String>) {
        match note {
            Some(note) => self.first.texts.set(Text::Detail, note.as_bytes()),
            None => self.first.texts.clear(Text::Detail),
        }
    }

    /// Why it failed, in the words of the whole request: a wish for MD5 that MAC authentication has a word of its own
    /// for.
    pub(super) fn why(&self, reason: Reason) -> Reason {
        match (reason, self.eap.wanted()) {
            (Reason::MethodRefused, Some(nak)) if nak.asks_for(EapType::MD5) => {
                self.mab.refusal(Attempt::EapMd5).unwrap_or(reason)
            }
            _ => reason,
        }
    }

    /// The same for a person: `why`, and the certificates that an engineer has to look at.
    pub(super) fn detail(&self, reason: Reason, why: Option<String>) -> Option<String> {
        diagnosis::detail(reason, why, self.eap.presented(), &self.trust)
    }

    /// The record of its end; the reason and, but for a reject, the outcome are the caller's.
    pub(super) fn record(&mut self, state: &State, moment: Moment) -> Authentication {
        // moved out, since a conversation ends once
        let blank = Authentication::new(moment.wall, self.first.client, Outcome::Reject, Reason::InternalError);
        let mut record = std::mem::replace(&mut self.first, blank);
        record.time = moment.wall;
        record.outcome = Outcome::Reject;
        record.phase = Some(self.eap.progress().phase.word());
        record.rounds = self.rounds;
        record.duration = moment.instant.saturating_duration_since(self.begun);
        record.eap_type = self.eap.method().map(Method::word);
        // what the policies would have been asked for, so that failures are counted by method too
        record.method = match self.eap.method() {
            Some(Method::Tls | Method::Ttls | Method::Peap) => Some(crate::policy::model::Method::EapTls),
            Some(Method::Md5) | None => None,
        };
        record.tls = self.eap.tls_version().map(TlsVersion::word);
        record.ticket = self.eap.ticket();
        record.conversation = Some(state.number());
        if record.text(Text::User).is_none() && !self.eap.identity().is_empty() {
            record.texts.set(Text::User, self.eap.identity());
        }
        if record.tls.is_some() {
            record.resumed = Some(self.eap.resumed());
        }
        let leaf = self.eap.presented().and_then(|chain| chain.first());
        if let Some(certificate) = leaf.and_then(|leaf| Certificate::parse(leaf).ok()) {
            if let Some(name) = certificate.subject.common_names().next() {
                record.texts.set(Text::Cn, name.as_bytes());
            }
            let (serial, issuer) = (crate::trust::serial(certificate.serial), certificate.issuer.one_line());
            record.texts.set(Text::Serial, serial.as_bytes());
            record.texts.set(Text::Issuer, issuer.as_bytes());
            record.not_after = Some(certificate.not_after.unix);
        }
        record
    }

    /// The record of a conversation that nobody finished: how far it came, and the likely cause.
    pub(super) fn unfinished(&mut self, state: &State, end: End, now: Instant, wall: SystemTime) -> Authentication {
        let progress = self.eap.progress();
        let moment = Moment {
            instant: now,
            wall,
            source: (self.first.client, 0).into(),
        };
        let how = match end {
            End::Idle => progress.likely_cause(),
            End::Evicted => "given up to make room for others".to_owned(),
            End::Replaced => "the device began anew at the same port".to_owned(),
        };
        let (reason, detail) = match (self.eap.refused(), end) {
            // Many supplicants leave it at the alert: what they were refused for is what an operator has to know.
            (Some(refused), End::Idle | End::Replaced) => match &refused.detail {
                Some(detail) => (refused.reason, format!("{detail}; {how}")),
                None => (refused.reason, how),
            },
            (_, End::Evicted) => (Reason::SessionEvicted, how),
            // What it stopped at is the certificate that it saw last.
            (None, End::Idle)
                if matches!(
                    progress.phase,
                    Phase::ClientCertificatePending | Phase::TunnelPending | Phase::InnerCertificatePending
                ) =>
            {
                (progress.reason(), format!("{how}; {}", diagnosis::ours(&self.trust)))
            }
            (None, End::Idle | End::Replaced) => (progress.reason(), how),
        };
        let mut record = self.record(state, moment);
        if let Some(decided) = self.decided.take() {
            decided.describe(&mut record);
        }
        record.outcome = Outcome::Unfinished;
        record.reason = reason;
        match self.detail(reason, Some(detail)) {
            Some(detail) => record.texts.set(Text::Detail, detail.as_bytes()),
            None => record.texts.clear(Text::Detail),
        }
        record.texts.forget_reply();
        record
    }
}

/// Which method comes first.
pub(super) fn offer(mab: Mab) -> crate::eap::server::Offer {
    match mab.offers_md5() {
        true => crate::eap::server::Offer::Md5ThenTls,
        false => crate::eap::server::Offer::Tls,
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}
