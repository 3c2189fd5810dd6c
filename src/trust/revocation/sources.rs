//! The sources of one certificate's status, in the configured order.

use std::sync::Arc;

use super::Source;
use super::lists::Lists;
use super::responders::Responders;
use super::status::{Known, Status};
use super::target::Target;
use crate::trust::verify::Link;

/// Who is asked.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) order: Vec<Source>,
    pub(super) lists: Arc<Lists>,
    pub(super) responders: Arc<Responders>,
}

/// What the sources said of one certificate, up to the one that is believed.
pub(super) type Said = Vec<(Source, Status)>;

impl Sources {
    /// What is known without waiting; `None` where a source has to be asked.
    pub(super) fn known(&self, link: &Arc<Link>) -> Option<Said> {
        let mut said = Vec::new();
        for source in &self.order {
            let Known::Settled(status) = self.known_to(*source, link) else {
                return None;
            };
            said.push((*source, status));
            if is_settled(&said) {
                break;
            }
        }
        Some(said)
    }

    /// The same after asking those that have to be.
    pub(super) async fn ask(&self, link: &Arc<Link>) -> Said {
        let mut said = Vec::new();
        for source in &self.order {
            let status = match (self.known_to(*source, link), source) {
                (Known::Settled(status), _) => status,
                (Known::Ask, Source::Ocsp) => self.responders.ask(link).await,
                (Known::Ask, Source::Crl) => self.lists.ask(link).await,
            };
            said.push((*source, status));
            if is_settled(&said) {
                break;
            }
        }
        said
    }

    fn known_to(&self, source: Source, link: &Arc<Link>) -> Known {
        match (Target::read(link), source) {
            (Ok(target), Source::Ocsp) => self.responders.known(&target),
            (Ok(target), Source::Crl) => self.lists.known(&target),
            // which never happens to a certificate that was verified
            (Err(malformed), _) => Known::Settled(Status::Unavailable(malformed.to_string().into())),
        }
    }
}

/// Whether no further source is asked.
fn is_settled(said: &Said) -> bool {
    matches!(said.last(), Some((_, Status::Good | Status::Revoked(_))))
}
