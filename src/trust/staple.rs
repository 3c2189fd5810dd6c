//! The OCSP response that is sent beside a certificate of the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use rustls::sign::CertifiedKey;

/// What one certificate has at present; `revocation::staple` keeps it.
#[derive(Debug)]
pub(super) struct Staple {
    current: ArcSwapOption<Stapled>,
    keeping: Mutex<Keeping>,
}

/// A certificate with its response.
#[derive(Debug)]
struct Stapled {
    certified: Arc<CertifiedKey>,
    /// The last second at which it is sent, Unix seconds.
    until: i64,
}

#[derive(Debug)]
struct Keeping {
    /// When it is to be renewed; never, where there is nobody to ask.
    due: Option<Instant>,
    has_complained: bool,
}

impl Staple {
    /// None yet.
    pub(super) fn new() -> Staple {
        Staple {
            current: ArcSwapOption::empty(),
            keeping: Mutex::new(Keeping {
                due: Some(Instant::now()),
                has_complained: false,
            }),
        }
    }

    /// The certificate with its response, while that is good.
    pub(super) fn certified(&self, now: i64) -> Option<Arc<CertifiedKey>> {
        let current = self.current.load();
        let stapled = current.as_ref().filter(|stapled| now <= stapled.until)?;
        Some(Arc::clone(&stapled.certified))
    }

    /// Puts one there; whether there was none before.
    pub(super) fn put(&self, certified: CertifiedKey, until: i64) -> bool {
        self.keeping().has_complained = false;
        let certified = Arc::new(certified);
        self.current
            .swap(Some(Arc::new(Stapled { certified, until })))
            .is_none()
    }

    pub(super) fn clear(&self) {
        self.current.store(None);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.keeping().due.is_some_and(|due| due <= now)
    }

    pub(super) fn set_due(&self, due: Option<Instant>) {
        self.keeping().due = due;
    }

    /// Says that something is wrong, once until it is right again.
    pub(super) fn complain(&self, say: impl FnOnce()) {
        if !std::mem::replace(&mut self.keeping().has_complained, true) {
            say();
        }
    }

    fn keeping(&self) -> MutexGuard<'_, Keeping> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
