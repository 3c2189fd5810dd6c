//! Whether a certificate that verifies was revoked: by the lists of its issuer (CRL, RFC 5280 section 5), and by what OCSP
//! responders say (RFC 6960).
//!
//! [`Revocation::standing`] says what is known of a path without waiting; where that is not enough, [`Revocation::ask`] asks
//! whoever is to be asked, for as long as a request may wait. Each certificate below the trusted CA is looked at; for each
//! the sources are tried in the configured order, and the first that says `good` or `revoked` is believed.
//!
//! - `crl`, `ocsp`: the formats · `signature`, `signer`: who signed
//! - `lists`: the lists in force, from `files` and distribution `points` · `responders`: answers, asked for (`consult`) and remembered ·
//!   `sources`: one after the other
//! - [`check`]: what `portreeve check` has to say · [`staple`]: what our own certificates' responders say of them
//! - `http`: how both are fetched, and where certificates may not send this machine · `flights`: once for all who ask
//!
//! Whether a certificate verifies at all is `verify`'s business.

pub mod check;
mod consult;
mod counts;
mod crl;
mod files;
mod flights;
mod http;
mod lists;
mod ocsp;
mod points;
mod responders;
mod signature;
mod signer;
mod sources;
pub mod staple;
mod status;
mod target;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::time_provider::TimeProvider;
use rustls_pki_types::SignatureVerificationAlgorithm;

pub use files::{ContentsError, FileError};
pub use http::{Fetch, Url};

use self::counts::{Checks, Fetches};
use self::http::Client;
use self::lists::Lists;
use self::responders::Responders;
use self::sources::{Said, Sources};
use self::status::Status;
use self::target::Target;
use super::summary::moment;
use super::verify::{Link, chain_algorithms};
use crate::eap::tls::Refused;
use crate::reason::Reason;

pub use crl::{CrlError, Revoked};

/// How far the clocks of CAs and responders may be off.
const SKEW_SECONDS: i64 = 300;
/// How long nothing is asked again that could not be learned. Too low: a dead responder delays each device that comes by the
/// time-out; too high: one that came back is not noticed as long.
const RETRY: Duration = Duration::from_secs(5);

/// What is told of revocation: `[revocation]` of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What becomes of a certificate of which nothing could be learned.
    pub mode: Mode,
    /// Whom to ask, one after the other.
    pub order: Vec<Source>,
    /// Files and folders with lists.
    pub crl: Vec<PathBuf>,
    /// The responder that is asked about every certificate, instead of the one it names.
    pub ocsp_responder: Option<Url>,
    /// Requests carry a nonce.
    pub ocsp_nonce: bool,
    /// From where what certificates name is fetched.
    pub fetch: Fetch,
    /// How long a request waits for one source.
    pub timeout: Duration,
    /// How long what was fetched counts before it is asked for anew, its own time permitting.
    pub max_age: Duration,
    /// How long after its nextUpdate a list may still say that a certificate is good.
    pub max_stale: Duration,
    /// The CAs of a chain are looked at too, not only the device's certificate.
    pub check_chain: bool,
    /// Octets of the largest list.
    pub crl_max_octets: usize,
}

/// What becomes of a certificate of which nothing could be learned. One that was revoked is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is let in, and the log says why nothing was learned.
    Prefer,
    /// It is refused.
    Require,
}

/// Who knows of revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A responder.
    Ocsp,
    /// A list.
    Crl,
}

impl Source {
    /// Both.
    pub const ALL: [Source; 2] = [Source::Ocsp, Source::Crl];

    /// The word in configuration, metrics and details.
    pub const fn word(self) -> &'static str {
        match self {
            Source::Ocsp => "ocsp",
            Source::Crl => "crl",
        }
    }
}

/// The links of a verified path, the device's certificate first: see [`ClientVerifier::path`](super::verify::ClientVerifier::path).
pub type Path = Vec<Arc<Link>>;

/// How a path stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing in it was revoked; or that could not be learned, and it is let in all the same: then why.
    Good(Option<String>),
    /// It is refused.
    Refused(Refused),
}

/// What is known of revocation.
#[derive(Debug)]
pub struct Revocation {
    mode: Mode,
    check_chain: bool,
    sources: Arc<Sources>,
    checks: Checks,
    list_fetches: Arc<Fetches>,
    ocsp_fetches: Arc<Fetches>,
}

impl Revocation {
    /// Nothing is known yet: [`Revocation::reload`] reads the lists of files.
    pub fn new(settings: &Settings, time: Arc<dyn TimeProvider>) -> Revocation {
        let common = Common::of(settings, time);
        let (list_fetches, ocsp_fetches) = (Arc::default(), Arc::default());
        let lists = Arc::new(Lists::new(settings, common.clone(), Arc::clone(&list_fetches)));
        let responders = Responders::new(settings, common, Arc::clone(&lists), Arc::clone(&ocsp_fetches));
        Revocation {
            mode: settings.mode,
            check_chain: settings.check_chain,
            sources: Arc::new(Sources {
                order: settings.order.clone(),
                lists,
                responders: Arc::new(responders),
            }),
            checks: Checks::default(),
            list_fetches,
            ocsp_fetches,
        }
    }

    /// How a path stands, as far as it is known; `None` where somebody has to be asked.
    pub fn standing(&self, path: &Path) -> Option<Standing> {
        let each = self.checked(path).iter().map(|link| self.sources.known(link));
        let all: Option<Vec<Said>> = each.collect();
        all.map(|all| self.conclude(path, &all))
    }

    /// How a path stands, after asking. Takes the time-out of each source, and of both together, at most.
    pub async fn ask(&self, path: &Path) -> Standing {
        let mut asking = Vec::new();
        for link in self.checked(path) {
            let (sources, link) = (Arc::clone(&self.sources), Arc::clone(link));
            asking.push(tokio::spawn(async move { sources.ask(&link).await }));
        }
        let mut all = Vec::new();
        for asked in asking {
            all.push(asked.await.unwrap_or_default()); // nothing was said where it broke down
        }
        self.conclude(path, &all)
    }

    /// Reads the lists of files again, and puts newer ones in force. Blocks.
    ///
    /// # Errors
    /// Each file or list that cannot be used; the others are.
    pub fn reload(&self) -> Vec<FileError> {
        self.sources.lists.reload()
    }

    /// Does so when the files change, for ever, and reports what cannot be used; the same again and again only once.
    pub async fn watch(&self, report: impl FnMut(Vec<FileError>)) {
        Arc::clone(&self.sources.lists).watch(report).await;
    }

    /// Keeps lists of distribution points fresh, for ever.
    pub async fn refresh(&self) {
        Arc::clone(&self.sources.lists).refresh().await;
    }

    /// Source, result and count of what was asked about certificates, from memory too.
    pub fn checks(&self) -> impl Iterator<Item = (Source, &'static str, u64)> {
        self.checks.all()
    }

    /// Source, result and count of what went over the network.
    pub fn fetches(&self) -> impl Iterator<Item = (Source, &'static str, u64)> {
        let of = |source, fetches: &Fetches| fetches.all().map(|(result, count)| (source, result, count));
        of(Source::Ocsp, &self.ocsp_fetches)
            .into_iter()
            .chain(of(Source::Crl, &self.list_fetches))
    }

    /// Subject of the issuer, and the nextUpdate that comes first in Unix seconds, of the lists in force.
    pub fn lists_in_force(&self) -> Vec<(String, i64)> {
        self.sources.lists.in_force()
    }

    fn checked<'a>(&self, path: &'a Path) -> &'a [Arc<Link>] {
        let count = if self.check_chain {
            path.len()
        } else {
            path.len().min(1)
        };
        path.get(..count).unwrap_or_default()
    }

    /// What follows from what was said of each certificate.
    fn conclude(&self, path: &Path, all: &[Said]) -> Standing {
        for (source, status) in all.iter().flatten() {
            self.checks.note(*source, status);
        }
        let whose = |index: usize| match path.get(index).map(Target::read) {
            Some(Ok(target)) if index > 0 => format!("the CA `{}`: ", target.certificate.subject.one_line()),
            _ => String::new(),
        };
        let mut doubt = None;
        for (index, said) in all.iter().enumerate() {
            match said.last() {
                Some((_, Status::Good)) => {}
                Some((source, Status::Revoked(revoked))) => {
                    let mut detail = format!("{}revoked at {}", whose(index), moment(revoked.since));
                    if let Some(reason) = revoked.reason {
                        let _ = write!(detail, " ({reason})");
                    }
                    let _ = write!(detail, ", says {}", source.word());
                    return Standing::Refused(Refused::new(Reason::CertificateRevoked, detail));
                }
                _ => {
                    let doubtful = || Refused::new(reason(said), format!("{}{}", whose(index), why(said)));
                    doubt = doubt.or_else(|| Some(doubtful()));
                }
            }
        }
        match (doubt, self.mode) {
            (None, _) => Standing::Good(None),
            (Some(doubt), Mode::Require) => Standing::Refused(doubt),
            (Some(doubt), Mode::Prefer) => Standing::Good(Some(format!(
                "let in all the same, {}: {}",
                doubt.reason,
                doubt.detail.unwrap_or_default()
            ))),
        }
    }
}

/// A responder that answers, and does not know the certificate, has said more than one that is silent.
fn reason(said: &Said) -> Reason {
    match said.iter().any(|(_, status)| *status == Status::Unknown) {
        true => Reason::RevocationUnknown,
        false => Reason::RevocationUnavailable,
    }
}

/// Why nothing was learned, of each source.
fn why(said: &Said) -> String {
    let each = said.iter().map(|(source, status)| match status {
        Status::Unavailable(why) => format!("{}: {why}", source.word()),
        _ => format!("{}: the responder does not know it", source.word()),
    });
    each.collect::<Vec<_>>().join("; ")
}

/// What both sources stand on.
#[derive(Clone, Debug)]
struct Common {
    client: Arc<Client>,
    algorithms: Arc<[&'static dyn SignatureVerificationAlgorithm]>,
    time: Arc<dyn TimeProvider>,
    /// How long a request waits.
    wait: Duration,
    /// After how long what was fetched is asked for anew.
    max_age: Duration,
}

impl Common {
    fn of(settings: &Settings, time: Arc<dyn TimeProvider>) -> Common {
        Common {
            client: Arc::new(Client::new(settings.fetch.clone())),
            algorithms: chain_algorithms().into(),
            time,
            wait: settings.timeout,
            max_age: settings.max_age,
        }
    }

    /// The wall clock, Unix seconds; 1970 where it has none.
    fn now(&self) -> i64 {
        let now = self.time.current_time().map_or(0, |now| now.as_secs());
        i64::try_from(now).unwrap_or(i64::MAX)
    }
}
