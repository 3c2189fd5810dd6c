//! Lists of revoked certificates in force: from files, and from where certificates say that their issuer publishes them.
//!
//! A list comes into force when its issuer is known to have signed it (the key that signed the certificate in question, with
//! cRLSign where it has a keyUsage), and stays until one comes that was issued later, or until it is too old to say that a
//! certificate is good. That a certificate is in it is believed for ever.
//!
//! Looking up takes no lock. What is fetched is fetched in the background, before nextUpdate and at least each `max_age`;
//! a request waits for a list only where none is in force.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls_pki_types::SignatureVerificationAlgorithm;
use tokio::time::timeout;

use super::counts::Fetches;
use super::crl::Crl;
use super::files::{self, ContentsError};
use super::flights::Flights;
use super::http::{Bounds, HttpError, Url};
use super::points::{POINTS_MAX, PointId, Points, Prospect};
use super::status::{Known, Status};
use super::target::{IssuerId, Target};
use super::{Common, RETRY, SKEW_SECONDS, Settings};
use crate::trust::certificate::{Certificate, KeyUsage};
use crate::trust::summary::moment;
use crate::trust::verify::Link;
use crate::trust::watch::{Look, Watched};

/// How long a list may take to come: nobody waits for all of it.
const FETCH_TIME: Duration = Duration::from_secs(60);
/// Between two looks for what is to be fetched.
const TICK: Duration = Duration::from_secs(1);
/// URLs of one certificate that are tried.
const URLS_MAX: usize = 3;
/// Issuers' keys that a list of a file was held against; several CAs of one name are rare.
const TRIED_MAX: usize = 64;

/// The lists of all issuers.
#[derive(Debug)]
pub(super) struct Lists {
    paths: Vec<PathBuf>,
    octets_max: usize,
    max_stale_seconds: i64,
    common: Common,
    fetches: Arc<Fetches>,
    watched: Watched,
    /// How the files looked when they were last read.
    look: Mutex<Look>,
    /// Lists as they were read, whoever may have signed them.
    read: ArcSwap<Vec<FromFile>>,
    in_force: ArcSwap<HashMap<IssuerId, Issuer>>,
    points: Points,
    fetching: Arc<Flights<PointId, ()>>,
    trying: Arc<Flights<IssuerId, ()>>,
}

#[derive(Debug)]
struct FromFile {
    list: Arc<Crl>,
    /// Issuers of its name whose signature was looked for.
    tried: Mutex<Vec<IssuerId>>,
}

/// An issuer whose signature was found, and its lists: several where it divides its certificates among them.
#[derive(Clone, Debug)]
struct Issuer {
    link: Arc<Link>,
    lists: Vec<Arc<Crl>>,
}

/// Why a list that was fetched or read is not in force; completes a sentence that begins with what it is.
#[derive(Debug, thiserror::Error)]
enum Unused {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("is {0}")]
    Contents(#[from] ContentsError),
    #[error("is not signed by its issuer")]
    Signature,
    #[error("is from the future: it was issued at {0}")]
    Future(String),
    #[error("is one too many: those in force have {0} octets")]
    TooMany(usize),
    #[error("has expired: a newer one was to be there at {0}")]
    Expired(String),
}

impl Lists {
    pub(super) fn new(settings: &Settings, common: Common, fetches: Arc<Fetches>) -> Lists {
        Lists {
            paths: settings.crl.clone(),
            octets_max: settings.crl_max_octets,
            max_stale_seconds: i64::try_from(settings.max_stale.as_secs()).unwrap_or(i64::MAX),
            common,
            fetches,
            watched: Watched::new(settings.crl.clone(), files::EXTENSIONS),
            look: Mutex::default(),
            read: ArcSwap::default(),
            in_force: ArcSwap::default(),
            points: Points::default(),
            fetching: Arc::default(),
            trying: Arc::default(),
        }
    }

    /// What is known of a certificate without waiting.
    pub(super) fn known(&self, target: &Target<'_>) -> Known {
        let now = self.common.now();
        let list = self.covering(target);
        if let Some(list) = &list {
            if let Some(revoked) = list.find(target.certificate.serial) {
                return Known::Settled(Status::Revoked(revoked));
            }
            if now <= list.next_update.saturating_add(self.max_stale_seconds) {
                return Known::Settled(Status::Good);
            }
        }
        if self.has_untried(target) {
            return Known::Ask;
        }
        let mut error = None;
        for id in self.urls(target) {
            match self.points.prospect(&id, self.common.wait) {
                Prospect::Soon => return Known::Ask,
                Prospect::None(why) => error = error.or(why),
            }
        }
        let issuer = || target.issuer.subject.one_line();
        Known::Settled(Status::Unavailable(match (error, list) {
            (Some(error), _) => error,
            (None, Some(list)) => format!("the list of `{}` expired at {}", issuer(), moment(list.next_update)).into(),
            (None, None) => format!("there is no list of `{}`", issuer()).into(),
        }))
    }

    /// Learns what is not known: holds lists of files against the issuer's key, fetches what the certificate names. Waits
    /// for no longer than a request does; what is fetched comes into force all the same.
    pub(super) async fn ask(self: &Arc<Self>, link: &Arc<Link>) -> Status {
        let Ok(target) = Target::read(link) else {
            return Status::Unavailable("the certificate cannot be read".into());
        };
        let _ = timeout(self.common.wait, self.learn(&target)).await;
        match self.known(&target) {
            Known::Settled(status) => status,
            Known::Ask => Status::Unavailable("its list was not there in time".into()),
        }
    }

    async fn learn(self: &Arc<Self>, target: &Target<'_>) {
        if self.has_untried(target) {
            let (lists, link) = (Arc::clone(self), Arc::clone(target.link));
            let trying = async move {
                let trying = tokio::task::spawn_blocking(move || {
                    if let Ok(target) = Target::read(&link) {
                        lists.try_files(&target);
                    }
                });
                drop(trying.await); // if it broke down, nothing came into force
            };
            self.trying.join(target.issuer_id, trying).await;
        }
        let urls = self.urls(target);
        // one that is silent leaves time for the next, and goes on beside it
        let share = self.common.wait / u32::try_from(urls.len().max(1)).unwrap_or(1);
        for id in urls {
            if let Known::Settled(Status::Good | Status::Revoked(_)) = self.known(target) {
                return;
            }
            let _ = timeout(share, self.fetch(id, target.link)).await;
        }
    }

    /// Reads the files again. A list that is in force already, or of whose issuer nothing was asked yet, changes nothing; a
    /// newer one of a known issuer is in force at once. Blocks.
    ///
    /// # Errors
    /// Each file or block that cannot be used; the others are.
    pub(super) fn reload(&self) -> Vec<files::FileError> {
        // before they are read: what changes meanwhile is seen later
        *self.look.lock().unwrap_or_else(PoisonError::into_inner) = self.watched.look();
        let (lists, errors) = files::read(&self.paths, self.octets_max);
        let read = lists.into_iter().map(|(_, list)| FromFile {
            list: Arc::new(list),
            tried: Mutex::default(),
        });
        self.read.store(Arc::new(read.collect()));
        for issuer in self.in_force.load().values() {
            if let Ok(target) = Target::read(&issuer.link) {
                self.try_files(&target);
            }
        }
        errors
    }

    /// Reads the files again when they change, for ever, and reports what cannot be used; the same again and again only once.
    pub(super) async fn watch(self: Arc<Self>, mut report: impl FnMut(Vec<files::FileError>)) {
        let mut last: Vec<String> = Vec::new();
        let has_changed = || *self.look.lock().unwrap_or_else(PoisonError::into_inner) != self.watched.look();
        loop {
            self.watched.change(has_changed, !last.is_empty()).await;
            let lists = Arc::clone(&self);
            let errors = tokio::task::spawn_blocking(move || lists.reload())
                .await
                .unwrap_or_default();
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            if texts != last {
                report(errors);
            }
            last = texts;
        }
    }

    /// Fetches what is to be fetched, for ever.
    pub(super) async fn refresh(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            for (id, link) in self.points.due() {
                let lists = Arc::clone(&self);
                tokio::spawn(async move { lists.fetch(id, &link).await });
            }
        }
    }

    /// Subject of the issuer and nextUpdate in Unix seconds of each list in force.
    pub(super) fn in_force(&self) -> Vec<(String, i64)> {
        let in_force = self.in_force.load();
        let all = in_force.values().filter_map(|issuer| {
            let name = Certificate::parse(&issuer.link.issuer).ok()?.subject.one_line();
            let first = issuer.lists.iter().map(|list| list.next_update).min()?;
            Some((name, first))
        });
        all.collect()
    }

    /// Where lists are fetched.
    #[cfg(test)]
    pub(super) fn points(&self) -> &Points {
        &self.points
    }

    /// The newest list in force that covers a certificate.
    fn covering(&self, target: &Target<'_>) -> Option<Arc<Crl>> {
        let in_force = self.in_force.load();
        let lists = in_force.get(&target.issuer_id)?.lists.iter();
        let covering = lists.filter(|list| list.covers(&target.certificate));
        let newest = covering.reduce(|newest, list| if list.is_newer_than(newest) { list } else { newest });
        newest.cloned()
    }

    /// Whether a list of a file may be the issuer's, and was not held against its key yet.
    fn has_untried(&self, target: &Target<'_>) -> bool {
        self.read.load().iter().any(|file| file.is_untried(target))
    }

    /// Where a certificate's list may be fetched.
    fn urls(&self, target: &Target<'_>) -> Vec<PointId> {
        let named = target.certificate.crl_urls().into_iter().filter_map(Url::named);
        let allowed = named.filter(|url| self.common.client.allows(url)).take(URLS_MAX);
        allowed.map(|url| (target.issuer_id, url)).collect()
    }

    fn try_files(&self, target: &Target<'_>) {
        for file in self.read.load().iter().filter(|file| file.is_untried(target)) {
            if is_by(&file.list, &target.issuer, &self.common.algorithms) {
                match self.put(&file.list, target) {
                    Ok(true) => {}
                    Ok(false) => tracing::info!(
                        issuer = target.issuer.subject.one_line(),
                        issued = moment(file.list.this_update),
                        "a list of revoked certificates in a file is not newer than the one in force, which stays"
                    ),
                    Err(unused) => tracing::error!("a list of revoked certificates is not used: it {unused}"),
                }
            }
            file.tried().push(target.issuer_id);
        }
    }

    /// Fetches a list once for all who want it, and notes when it is to be fetched again.
    async fn fetch(self: &Arc<Self>, id: PointId, link: &Arc<Link>) {
        if !self.points.begin(&id, link) {
            return;
        }
        let lists = Arc::clone(self);
        let (point, link) = (id.clone(), Arc::clone(link));
        let fetching = async move {
            let fetched = lists.fetch_now(&point.1, &link).await;
            lists.fetches.note(fetched.is_ok());
            lists.points.end(&point, fetched.map_err(|why| why.to_string()));
        };
        self.fetching.join(id, fetching).await;
    }

    /// Fetches a list, and puts it in force if it is a newer one; when to do so again.
    async fn fetch_now(self: &Arc<Self>, url: &Url, link: &Arc<Link>) -> Result<Duration, Unused> {
        let bounds = Bounds {
            time: FETCH_TIME,
            octets: self.octets_max,
        };
        let octets = self.common.client.get(url, bounds).await?;
        let (lists, link) = (Arc::clone(self), Arc::clone(link));
        let taking = tokio::task::spawn_blocking(move || lists.take(&octets, &link));
        taking.await.map_err(|error| HttpError::Broken(error.to_string()))?
    }

    fn take(&self, octets: &[u8], link: &Arc<Link>) -> Result<Duration, Unused> {
        let list = Arc::new(files::one(octets)?);
        let target = Target::read(link).map_err(|_| Unused::Signature)?;
        if *list.issuer != *target.issuer.subject.as_bytes() || !is_by(&list, &target.issuer, &self.common.algorithms) {
            return Err(Unused::Signature);
        }
        self.put(&list, &target)?;
        let next_update = self.covering(&target).map_or(list.next_update, |list| list.next_update);
        match u64::try_from(next_update.saturating_sub(self.common.now())) {
            // a tenth before its end, since then it has to be there
            Ok(left @ 1..) => Ok(Duration::from_secs(left - left / 10)
                .min(self.common.max_age)
                .max(RETRY)),
            _ => Err(Unused::Expired(moment(next_update))),
        }
    }

    /// Puts a verified list in force, unless one of the same scope is that was not issued before it.
    fn put(&self, list: &Arc<Crl>, target: &Target<'_>) -> Result<bool, Unused> {
        if list.this_update > self.common.now().saturating_add(SKEW_SECONDS) {
            // no later one would ever come into force
            return Err(Unused::Future(moment(list.this_update)));
        }
        let mut outcome = Ok(false);
        self.in_force.rcu(|in_force| {
            let mut next = HashMap::clone(in_force);
            let issuer = next.entry(target.issuer_id).or_insert_with(|| Issuer {
                link: Arc::clone(target.link),
                lists: Vec::new(),
            });
            let same = issuer.lists.iter().position(|known| known.scope == list.scope);
            outcome = Ok(false);
            match same.and_then(|at| issuer.lists.get_mut(at)) {
                Some(known) if !list.is_newer_than(known) => return Arc::clone(in_force),
                Some(known) => *known = Arc::clone(list),
                None => issuer.lists.push(Arc::clone(list)),
            }
            let all = next.values().flat_map(|issuer| &issuer.lists);
            let (count, octets) = all.fold((0, 0), |(count, sum), list| (count + 1, sum + list.octets_held()));
            if count > POINTS_MAX || octets > files::LARGEST.saturating_mul(self.octets_max) {
                outcome = Err(Unused::TooMany(octets));
                return Arc::clone(in_force);
            }
            outcome = Ok(true);
            Arc::new(next)
        });
        if let Ok(true) = outcome {
            tracing::info!(
                issuer = target.issuer.subject.one_line(),
                entries = list.len(),
                issued = moment(list.this_update),
                next_update = moment(list.next_update),
                "a list of revoked certificates is in force"
            );
        }
        outcome
    }
}

/// Whether this CA has signed a list, and may.
pub(super) fn is_by(
    list: &Crl,
    issuer: &Certificate<'_>,
    algorithms: &[&'static dyn SignatureVerificationAlgorithm],
) -> bool {
    let is_its_key = match (&list.authority_key_id, issuer.key_id) {
        (Some(named), Some(own)) => **named == *own,
        _ => true,
    };
    is_its_key && issuer.key_usage.is_none_or(KeyUsage::crl_sign) && list.signed().is_by(issuer.public_key, algorithms)
}

impl FromFile {
    /// Whether it may be a list of the target's issuer, and was not held against its key yet.
    fn is_untried(&self, target: &Target<'_>) -> bool {
        if *self.list.issuer != *target.issuer.subject.as_bytes() {
            return false;
        }
        let tried = self.tried();
        tried.len() < TRIED_MAX && !tried.contains(&target.issuer_id)
    }

    fn tried(&self) -> MutexGuard<'_, Vec<IssuerId>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
