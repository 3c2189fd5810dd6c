//! What OCSP responders say: asked once for all who wait, remembered until nextUpdate.
//!
//! An answer (`consult`) is asked for anew each `max_age`; where that fails it goes on counting until its nextUpdate. That
//! nothing was learned is remembered for seconds, so that a responder that is dead or confused is not asked by every device
//! that comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::CertificateDer;

use super::consult::{Answer, consult};
use super::counts::Fetches;
use super::flights::Flights;
use super::http::Url;
use super::lists::Lists;
use super::ocsp::CertStatus;
use super::status::{Known, Status};
use super::target::{Target, TargetId};
use super::{Common, RETRY, SKEW_SECONDS, Settings};
use crate::trust::verify::Link;

/// Answers that are kept, some 250 octets each. Too low: devices are asked about each time they come; too high: memory.
const ANSWERS_MAX: u64 = 65_536;
/// How long an answer counts that does not say how long, and one that a certificate is not known, which may have been issued
/// just now.
const BRIEFLY: Duration = Duration::from_secs(60);

/// The responders, and what they said.
#[derive(Debug)]
pub(super) struct Responders {
    configured: Option<Url>,
    with_nonce: bool,
    common: Common,
    lists: Arc<Lists>,
    fetches: Arc<Fetches>,
    answers: moka::sync::Cache<TargetId, Remembered>,
    flights: Arc<Flights<TargetId, Status>>,
}

/// What is known of one certificate.
#[derive(Clone, Debug)]
struct Remembered {
    /// The last answer, and until when it counts, Unix seconds.
    answer: Option<(Status, i64)>,
    /// When it is asked for again.
    due: Instant,
    /// Why nothing was learned when it was last asked for.
    failure: Option<Arc<str>>,
}

impl Remembered {
    fn status(&self, now: i64) -> Status {
        match (&self.answer, &self.failure) {
            (Some((status, until)), _) if now <= *until => status.clone(),
            (_, Some(failure)) => Status::Unavailable(Arc::clone(failure)),
            (_, None) => Status::Unavailable("its ocsp response has expired".into()),
        }
    }
}

impl Responders {
    pub(super) fn new(settings: &Settings, common: Common, lists: Arc<Lists>, fetches: Arc<Fetches>) -> Responders {
        Responders {
            configured: settings.ocsp_responder.clone(),
            with_nonce: settings.ocsp_nonce,
            common,
            lists,
            fetches,
            answers: moka::sync::Cache::new(ANSWERS_MAX),
            flights: Arc::default(),
        }
    }

    /// What is known of a certificate without waiting.
    pub(super) fn known(&self, target: &Target<'_>) -> Known {
        if self.url(target).is_none() {
            return Known::Settled(Status::Unavailable("there is no ocsp responder to ask".into()));
        }
        match self.answers.get(&target.id()) {
            Some(remembered) if Instant::now() < remembered.due => Known::Settled(remembered.status(self.common.now())),
            _ => Known::Ask,
        }
    }

    /// Asks the responder, or waits for who is asking it.
    pub(super) async fn ask(self: &Arc<Self>, link: &Arc<Link>) -> Status {
        let Ok(target) = Target::read(link) else {
            return Status::Unavailable("the certificate cannot be read".into());
        };
        let Some(url) = self.url(&target) else {
            return Status::Unavailable("there is no ocsp responder to ask".into());
        };
        let (responders, link) = (Arc::clone(self), Arc::clone(link));
        let asking = async move {
            let learned = responders.ask_now(&url, &link).await;
            responders.fetches.note(learned.is_ok());
            let learned = learned.map_err(|why| format!("`{url}` {why}").into());
            responders.remember(&link, learned)
        };
        let status = self.flights.join(target.id(), asking).await;
        status.unwrap_or_else(|| Status::Unavailable("asking the ocsp responder broke down".into()))
    }

    /// Who is asked about a certificate.
    fn url(&self, target: &Target<'_>) -> Option<Url> {
        if self.configured.is_some() {
            return self.configured.clone();
        }
        let mut named = target.certificate.ocsp_urls().into_iter().filter_map(Url::named);
        named.find(|url| self.common.client.allows(url))
    }

    async fn ask_now(&self, url: &Url, link: &Arc<Link>) -> Result<Learned, String> {
        let answer = consult(&self.common, url, link, self.with_nonce).await?;
        if let Some(delegate) = &answer.delegate {
            self.check_delegate(delegate, link).await?;
        }
        Ok(Learned::new(&answer, self.common.now()))
    }

    /// A CA may say of a responder's certificate that its revocation need not be looked at (id-pkix-ocsp-nocheck, RFC 6960
    /// section 4.2.2.2.1). Of another one it is, by the issuer's list where there is one; where there is none, "it would be up
    /// to the OCSP client's local security policy": it is believed, as the CA has made it for nothing else.
    async fn check_delegate(&self, delegate: &CertificateDer<'static>, link: &Arc<Link>) -> Result<(), String> {
        let delegate = Arc::new(Link {
            certificate: delegate.clone(),
            issuer: link.issuer.clone(),
        });
        let target = Target::read(&delegate).map_err(|error| error.to_string())?;
        if target.certificate.is_exempt_from_revocation {
            return Ok(());
        }
        let status = match self.lists.known(&target) {
            Known::Settled(status) => status,
            Known::Ask => self.lists.ask(&delegate).await,
        };
        match status {
            Status::Revoked(_) => Err("has a certificate that was revoked".to_owned()),
            Status::Good | Status::Unknown | Status::Unavailable(_) => Ok(()),
        }
    }

    fn remember(&self, link: &Arc<Link>, learned: Result<Learned, Arc<str>>) -> Status {
        let Ok(target) = Target::read(link) else {
            return Status::Unavailable("the certificate cannot be read".into());
        };
        let (id, now, instant) = (target.id(), self.common.now(), Instant::now());
        let remembered = match learned {
            Ok(Learned { status, until, pause }) => Remembered {
                answer: Some((status, until)),
                due: instant + pause.min(self.common.max_age),
                failure: None,
            },
            Err(failure) => Remembered {
                answer: self.answers.get(&id).and_then(|last| last.answer),
                due: instant + RETRY,
                failure: Some(failure),
            },
        };
        let status = remembered.status(now);
        self.answers.insert(id, remembered);
        status
    }
}

/// An answer that counts.
struct Learned {
    status: Status,
    /// Until when it does, Unix seconds.
    until: i64,
    /// When to ask anew.
    pause: Duration,
}

impl Learned {
    /// Of an answer, as it stands at `now`.
    fn new(answer: &Answer, now: i64) -> Learned {
        let left = || Duration::from_secs(u64::try_from(answer.until.saturating_sub(now)).unwrap_or(0).max(1));
        let (status, is_brief) = match answer.status {
            CertStatus::Good => (Status::Good, !answer.is_dated),
            CertStatus::Revoked(revoked) => (Status::Revoked(revoked), !answer.is_dated),
            CertStatus::Unknown => (Status::Unknown, true),
        };
        Learned {
            status,
            until: answer.until.saturating_add(SKEW_SECONDS),
            pause: if is_brief { BRIEFLY } else { left() },
        }
    }
}
