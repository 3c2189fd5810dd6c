//! EAP-TLS as the supplicant's method (RFC 5216, 2.1; RFC 9190, 2.1 and 2.5).

use std::sync::Arc;

use rustls::client::ClientConfig;

use super::link::{Heard, Link};
use super::violation::Violation;
use super::{Answer, Failure, Strictness};
use crate::eap::keys::Msk;
use crate::eap::method::EapType;
use crate::eap::tls::TlsVersion;
use crate::eap::tls::session::COMMITMENT;

pub(super) struct TlsMethod {
    link: Link,
    /// The octet 0x00 has come.
    committed: bool,
}

impl TlsMethod {
    pub(super) fn new(packet_octets: usize) -> TlsMethod {
        TlsMethod {
            link: Link::new(EapType::TLS, packet_octets),
            committed: false,
        }
    }

    /// The data of a request.
    pub(super) fn request(&mut self, data: &[u8], config: &Arc<ClientConfig>, strictness: Strictness) -> Answer {
        if self.committed {
            return Answer::Violation(Violation::AfterCommitment);
        }
        match self.link.request(data, config, false, strictness) {
            Heard::Reply => Answer::Reply,
            Heard::Said { is_early: true, .. } => Answer::Violation(Violation::CommitmentEarly),
            Heard::Said { octets, .. } if octets == [COMMITMENT] && self.link.version() == Some(TlsVersion::V13) => {
                self.committed = true;
                Answer::Reply
            }
            Heard::Said { .. } => Answer::Violation(Violation::ApplicationData),
            Heard::Violation(violation) => Answer::Violation(violation),
            Heard::Unable(error) => Answer::Unable(error),
        }
    }

    /// The packet after [`Answer::Reply`]; empty when there is nothing to say.
    pub(super) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        self.link.packet(identifier)
    }

    /// EAP-Success has come, or what says so inside a tunnel: the keys, if that was in order.
    pub(super) fn success(&self) -> Result<Msk, Violation> {
        let msk = self.link.msk().ok_or(Violation::SuccessEarly)?;
        match self.link.version() {
            Some(TlsVersion::V13) if !self.committed => Err(Violation::CommitmentMissing),
            _ => Ok(msk),
        }
    }

    /// EAP-Failure has come.
    pub(super) fn failure(&mut self) -> Result<Failure, Violation> {
        if self.committed {
            return Err(Violation::AfterCommitment);
        }
        Ok(self.link.ended().unwrap_or(Failure::Rejected))
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }
}
