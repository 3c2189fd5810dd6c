//! What `portreeve check` has to say about revocation: which lists can be used and for how long, whose devices nobody could
//! vouch for, and whether the configured responder answers.

use std::path::Path;
use std::sync::Arc;

use rustls::time_provider::TimeProvider;

use super::crl::Crl;
use super::files::{self, FileError};
use super::http::{Bounds, Fetch};
use super::lists::is_by;
use super::ocsp::{self, CertId, Response, ResponseError};
use super::{Common, Mode, SKEW_SECONDS, Settings, Source};
use crate::trust::Authority;
use crate::trust::certificate::Certificate;
use crate::trust::check::{Finding, Severity};
use crate::trust::names::Name;
use crate::trust::summary::moment;

/// Octets of a responder's answer that are looked at.
const ANSWER_OCTETS: usize = 64 << 10;

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// What can be used: a sentence for each.
    pub fine: Vec<String>,
    /// What cannot be read.
    pub errors: Vec<FileError>,
    /// What else is to be said.
    pub findings: Vec<Finding>,
}

/// Looks at the lists of files, and asks the configured responder something. `authorities` are the client CAs, `time` is now.
pub async fn check(settings: &Settings, authorities: &[&Authority], time: Arc<dyn TimeProvider>) -> Checked {
    let common = Common::of(settings, time);
    let mut checked = Checked::default();
    let (lists, errors) = files::read(&settings.crl, settings.crl_max_octets);
    checked.errors = errors;
    let mut with_list = Vec::new();
    for (path, list) in &lists {
        if let Some(issuer) = checked.list(settings, &common, path, list, authorities) {
            with_list.push(issuer);
        }
    }
    checked.uncovered(settings, authorities, &with_list);
    checked.responder(settings, &common, authorities).await;
    checked
}

impl Checked {
    fn add(&mut self, severity: Severity, text: String, hint: &'static str) {
        let is_of_dates = false; // reminders are of certificates
        self.findings.push(Finding {
            severity,
            text,
            hint,
            is_of_dates,
        });
    }

    /// One list: its issuer's subject, if it is a client CA's and signed by it.
    fn list(
        &mut self,
        settings: &Settings,
        common: &Common,
        path: &Path,
        list: &Crl,
        authorities: &[&Authority],
    ) -> Option<String> {
        let issuer = Name::parse(&list.issuer).ok()?.one_line();
        let what = format!("{}: the list of `{issuer}`", path.display());
        let mut named = authorities.iter().filter(|ca| ca.has_name(&list.issuer)).peekable();
        if named.peek().is_none() {
            let hint = "no client CA has this name: it is used only where devices send that CA's certificate along";
            self.add(Severity::Warning, what, hint);
            return None;
        }
        let has_signed =
            |ca: &&&Authority| Certificate::parse(&ca.der).is_ok_and(|issuer| is_by(list, &issuer, &common.algorithms));
        if !named.any(|ca| has_signed(&ca)) {
            self.add(
                Severity::Error,
                format!("{what} is not signed by the client CA of this name"),
                "it is not used: fetch it again from the CA; a CA whose keyUsage lacks cRLSign has no lists",
            );
            return None;
        }
        let (now, lost) = (
            common.now(),
            match settings.mode {
                Mode::Require => Severity::Error,
                Mode::Prefer => Severity::Warning,
            },
        );
        let max_stale = i64::try_from(settings.max_stale.as_secs()).unwrap_or(i64::MAX);
        if list.this_update > now.saturating_add(SKEW_SECONDS) {
            let text = format!(
                "{what} is from the future: it was issued at {}",
                moment(list.this_update)
            );
            self.add(lost, text, "it is not used: check this machine's clock, and the CA's");
        } else if now > list.next_update.saturating_add(max_stale) {
            let text = format!("{what} expired at {}", moment(list.next_update));
            self.add(
                lost,
                text,
                "put a newer one in its place; `max_stale` lets it count for longer",
            );
        } else {
            let entries = list.len();
            let (issued, next) = (moment(list.this_update), moment(list.next_update));
            self.fine.push(format!(
                "{what}: {entries} revoked, issued at {issued}, the next is due at {next}"
            ));
        }
        Some(issuer)
    }

    /// Client CAs of which nothing can be learned at all.
    fn uncovered(&mut self, settings: &Settings, authorities: &[&Authority], with_list: &[String]) {
        let asks = |source| settings.order.contains(&source);
        if settings.fetch != Fetch::Never || (asks(Source::Ocsp) && settings.ocsp_responder.is_some()) {
            return;
        }
        for ca in authorities {
            if !with_list.contains(&ca.summary.subject) {
                let text = format!(
                    "of certificates of the client CA `{}` nothing can be learned",
                    ca.summary.subject
                );
                self.add(
                    Severity::Warning,
                    text,
                    "there is no list of it, and nothing may be fetched: add its list to `[revocation] crl`",
                );
            }
        }
    }

    /// Whether the configured responder is one: what it says of a certificate that was never issued is no matter.
    async fn responder(&mut self, settings: &Settings, common: &Common, authorities: &[&Authority]) {
        let Some(url) = settings
            .ocsp_responder
            .as_ref()
            .filter(|_| settings.order.contains(&Source::Ocsp))
        else {
            return;
        };
        let Some(ca) = authorities.iter().find_map(|ca| Certificate::parse(&ca.der).ok()) else {
            return;
        };
        let request = ocsp::request(&CertId::new(&ca, &ca), None);
        let bounds = Bounds {
            time: common.wait,
            octets: ANSWER_OCTETS,
        };
        let answered = match common.client.post(url, request, bounds).await {
            Ok(octets) => match Response::parse(&octets) {
                Ok(_) | Err(ResponseError::Refused(_)) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        match (answered, settings.mode) {
            (Ok(()), _) => self.fine.push(format!("the OCSP responder `{url}` answers")),
            (Err(why), mode) => {
                let severity = match mode {
                    Mode::Require => Severity::Error,
                    Mode::Prefer => Severity::Warning,
                };
                let hint = "see that this machine reaches it; until then revocation is learned from lists only";
                self.add(severity, format!("the OCSP responder `{url}` {why}"), hint);
            }
        }
    }
}
