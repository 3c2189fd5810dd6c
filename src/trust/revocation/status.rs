//! What is known of a certificate.

use std::sync::Arc;

use super::crl::Revoked;

/// What one source says of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It was not revoked.
    Good,
    /// It was.
    Revoked(Revoked),
    /// The responder does not know it.
    Unknown,
    /// Nothing could be learned, and why.
    Unavailable(Arc<str>),
}

/// What can be said at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Settled(Status),
    /// It has to be asked for.
    Ask,
}
