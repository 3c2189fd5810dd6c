//! Step 7: whether a certificate that was verified is still good.

use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::UnixTime;

use super::Server;
use super::judge::Evidence;
use super::open::Open;
use super::request::Request;
use crate::trust::revocation::{Path, Revocation, Standing};

/// What can be said of a certificate at once.
pub(super) enum Checked {
    /// How it stands.
    Settled(Standing),
    /// Somebody has to be asked.
    Ask(Question),
}

/// What has to be asked about a certificate.
#[derive(Debug)]
pub(super) struct Question {
    revocation: Arc<Revocation>,
    path: Path,
}

impl Question {
    /// Asks. Takes seconds at most.
    pub(super) async fn ask(&self) -> Standing {
        self.revocation.ask(&self.path).await
    }
}

impl Server {
    /// Whether the certificate of a conversation, if it has shown one, or one above it was revoked.
    pub(super) fn check_certificate(&self, request: &Request<'_>, open: &Open, evidence: &Evidence) -> Checked {
        let (Some(revocation), Evidence::Certificate { chain }) = (&self.revocation, evidence) else {
            return Checked::Settled(Standing::Good(None));
        };
        // the node's own CA exists in memory only, and revokes nothing
        if request.is_probe {
            return Checked::Settled(Standing::Good(None));
        }
        let since_1970 = request.moment.wall.duration_since(SystemTime::UNIX_EPOCH);
        let now = UnixTime::since_unix_epoch(since_1970.unwrap_or_default());
        let path = match open.trust.verifier().path(chain, now) {
            Ok(path) => path,
            Err(refused) => return Checked::Settled(Standing::Refused(refused)),
        };
        match revocation.standing(&path) {
            Some(standing) => Checked::Settled(standing),
            None => Checked::Ask(Question {
                revocation: Arc::clone(revocation),
                path,
            }),
        }
    }
}
