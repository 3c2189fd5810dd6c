//! Who is asked about: one certificate of a verified path, and the CA that issued it.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};

use crate::trust::certificate::Certificate;
use crate::trust::der::Malformed;
use crate::trust::verify::Link;

/// An issuer by its key and name: equal for its certificates, of which it may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct IssuerId([u8; 32]);

/// A certificate by its issuer and serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TargetId([u8; 32]);

/// A certificate and its issuer, read.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) link: &'a Arc<Link>,
    pub(super) certificate: Certificate<'a>,
    pub(super) issuer: Certificate<'a>,
    pub(super) issuer_id: IssuerId,
}

impl<'a> Target<'a> {
    pub(super) fn read(link: &'a Arc<Link>) -> Result<Target<'a>, Malformed> {
        let issuer = Certificate::parse(&link.issuer)?;
        Ok(Target {
            link,
            certificate: Certificate::parse(&link.certificate)?,
            issuer_id: IssuerId::of(&issuer),
            issuer,
        })
    }

    pub(super) fn id(&self) -> TargetId {
        TargetId(hash(&[&self.issuer_id.0, self.certificate.serial]))
    }
}

impl IssuerId {
    pub(super) fn of(issuer: &Certificate<'_>) -> IssuerId {
        IssuerId(hash(&[issuer.public_key, issuer.subject.as_bytes()]))
    }
}

/// Of parts that have their own lengths in them, all but the last.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}
