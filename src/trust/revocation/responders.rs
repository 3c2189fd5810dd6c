//! What OCSP responders say: asked once for all who wait, remembered until nextUpdate.
//!
//! An answer counts when it is about the certificate that was asked for, signed by who may (`signer`), and of this hour
//! (RFC 6960 section 3.2). It is asked for anew each `max_age`; where that fails it goes on counting until its nextUpdate. That
//! nothing was learned is remembered for seconds, so that a responder that is dead or confused is not asked by every device
//! that comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::UnixTime;

use super::counts::Fetches;
use super::flights::Flights;
use super::http::{Bounds, Url};
use super::lists::Lists;
use super::ocsp::{self, CertId, CertStatus, NONCE_OCTETS, Response};
use super::signer::{Signer, signer};
use super::status::{Known, Status};
use super::target::{Target, TargetId};
use super::{Common, RETRY, SKEW_SECONDS, Settings};
use crate::trust::verify::Link;

/// Octets of a response: signature, a responder's certificate, one answer. Real ones have two to three thousand.
const RESPONSE_OCTETS: usize = 64 << 10;
/// Answers that are kept, some 250 octets each. Too low: devices are asked about each time they come; too high: memory.
const ANSWERS_MAX: u64 = 65_536;
/// "If nextUpdate is not set, the responder is indicating that newer revocation information is available all the time":
/// then an answer has to be as fresh as this, or it may have been kept by somebody in between.
const UNDATED_SECONDS: i64 = 600;
/// How long such an answer counts, and one that a certificate is not known, which may have been issued just now.
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
            let learned = learned.map_err(|why| format!("`{url}`: {why}").into());
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
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let target = Target::read(link).map_err(|error| text(&error))?;
        let id = CertId::new(&target.certificate, &target.issuer);
        let mut nonce = [0; NONCE_OCTETS];
        if self.with_nonce {
            aws_lc_rs::rand::fill(&mut nonce).map_err(|_| "no randomness")?;
        }
        let request = ocsp::request(&id, self.with_nonce.then_some(&nonce));
        let bounds = Bounds {
            time: self.common.wait,
            octets: RESPONSE_OCTETS,
        };
        let octets = self
            .common
            .client
            .post(url, request, bounds)
            .await
            .map_err(|error| text(&error))?;
        let response = Response::parse(&octets).map_err(|error| text(&error))?;
        let now = self.common.now();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
        let signer = signer(&response, &link.issuer, &self.common.algorithms, time).map_err(|error| text(&error))?;
        if response
            .nonce
            .is_some_and(|returned| self.with_nonce && returned != nonce)
        {
            return Err("its response has another nonce than the request".to_owned());
        }
        let answer = response.answer(&id).map_err(|error| text(&error))?;
        let learned = Learned::new(&answer, now)?;
        if let Signer::Delegate(delegate) = signer {
            self.check_delegate(delegate, link).await?;
        }
        Ok(learned)
    }

    /// A CA may say of a responder's certificate that its revocation need not be looked at (id-pkix-ocsp-nocheck, RFC 6960
    /// section 4.2.2.2.1). Of another one it is, by the issuer's list where there is one; where there is none, "it would be up
    /// to the OCSP client's local security policy": it is believed, as the CA has made it for nothing else.
    async fn check_delegate(&self, delegate: &[u8], link: &Arc<Link>) -> Result<(), String> {
        let delegate = Arc::new(Link {
            certificate: delegate.to_vec().into(),
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
            Status::Revoked(_) => Err("its own certificate was revoked".to_owned()),
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

/// A response that counts.
struct Learned {
    status: Status,
    /// Until when it does, Unix seconds.
    until: i64,
    /// When to ask anew.
    pause: Duration,
}

impl Learned {
    /// Of an answer, as it stands at `now`.
    fn new(answer: &ocsp::Answer, now: i64) -> Result<Learned, String> {
        if answer.this_update > now.saturating_add(SKEW_SECONDS) {
            return Err("its response is from the future: does a clock go wrong?".to_owned());
        }
        let until = answer
            .next_update
            .unwrap_or(answer.this_update.saturating_add(UNDATED_SECONDS));
        let until = until.saturating_add(SKEW_SECONDS);
        if now > until {
            return Err("its response has expired".to_owned());
        }
        let left = |next: i64| Duration::from_secs(u64::try_from(next.saturating_sub(now)).unwrap_or(0).max(1));
        let (status, pause) = match (answer.status, answer.next_update) {
            (CertStatus::Good, Some(next)) => (Status::Good, left(next)),
            (CertStatus::Good, None) => (Status::Good, BRIEFLY),
            (CertStatus::Revoked(revoked), next) => (Status::Revoked(revoked), next.map_or(BRIEFLY, left)),
            (CertStatus::Unknown, _) => (Status::Unknown, BRIEFLY),
        };
        Ok(Learned { status, until, pause })
    }
}
