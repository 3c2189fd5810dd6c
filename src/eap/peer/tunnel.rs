//! EAP-TTLS and PEAP as the supplicant's method, with EAP-TLS inside (RFC 5281, 7; RFC 9427; [MS-PEAP]).

use std::sync::Arc;

use rustls::client::ClientConfig;

use super::link::{Heard, Link};
use super::violation::Violation;
use super::{Answer, Failure, Peer, PeerSettings, Step, Strictness};
use crate::eap::keys::Msk;
use crate::eap::packet::{Code, build};
use crate::eap::tls::TlsVersion;
use crate::eap::tls::session::COMMITMENT;
use crate::eap::tunnel::binding::{BindingKeys, Side};
use crate::eap::tunnel::peap::{self, EXTENSIONS, Extensions};
use crate::eap::tunnel::{Kind, ttls};

/// A tunnel around EAP-TLS.
#[derive(Clone)]
pub struct PeerTunnel {
    /// Which.
    pub kind: Kind,
    /// The outer handshake, from [`super::ClientTls::build`]; it is asked for no certificate.
    pub tls: Arc<ClientConfig>,
    /// What the supplicant says inside that it is.
    pub identity: Vec<u8>,
}

pub(super) struct Tunnel {
    kind: Kind,
    link: Link,
    inner: Box<Peer>,
    /// Something was said inside.
    begun: bool,
    /// The octet 0x00 has come in place of anything inside: the tunnel was resumed.
    committed: bool,
    /// PEAP: the server's result has come and was success.
    binding: Option<BindingKeys>,
}

impl Tunnel {
    pub(super) fn new(tunnel: &PeerTunnel, settings: &PeerSettings) -> Tunnel {
        let inner = PeerSettings {
            identity: tunnel.identity.clone(),
            md5_password: None,
            tunnel: None,
            ..settings.clone()
        };
        Tunnel {
            kind: tunnel.kind,
            link: Link::new(tunnel.kind.eap_type(), settings.fragment_size),
            inner: Box::new(Peer::new(Arc::new(inner))),
            begun: false,
            committed: false,
            binding: None,
        }
    }

    /// The data of a request, which has this identifier.
    pub(super) fn request(
        &mut self,
        data: &[u8],
        identifier: u8,
        config: &Arc<ClientConfig>,
        strictness: Strictness,
    ) -> Answer {
        if self.committed {
            return Answer::Violation(Violation::AfterCommitment);
        }
        let begins = self.kind == Kind::Ttls && !self.begun;
        // where the server has nothing left to say, in TLS 1.3, it says so, and the supplicant begins
        let may_be_empty = begins && self.link.is_established();
        let heard = self.link.request(data, config, may_be_empty, strictness);
        let said = match heard {
            Heard::Reply if begins && self.link.is_established() && self.may_begin(may_be_empty) => {
                self.say(&self.inner.identity_response(0));
                return Answer::Reply;
            }
            Heard::Reply => return Answer::Reply,
            Heard::Said { is_early: true, .. } => return Answer::Violation(Violation::TunnelEarly),
            Heard::Said { octets, .. } if begins && octets == [COMMITMENT] && self.is_resumed_by(TlsVersion::V13) => {
                self.committed = true;
                return Answer::Reply;
            }
            Heard::Said { octets, .. } => octets,
            Heard::Violation(violation) => return Answer::Violation(violation),
            Heard::Unable(error) => return Answer::Unable(error),
        };
        let request = match self.inside(&said, identifier) {
            Ok(Some(request)) => request,
            Ok(None) => return Answer::Reply,
            Err(violation) => return Answer::Violation(violation),
        };
        match self.inner.step(&request) {
            Step::Reply(response) => {
                self.say(&response);
                Answer::Reply
            }
            Step::Violation(violation) => Answer::Violation(violation),
            Step::Failure(Failure::Refused(error)) => Answer::Unable(error),
            Step::Failure(_) | Step::Success { .. } | Step::Ignore => Answer::Violation(Violation::TunnelData),
        }
    }

    /// Whether it is for the supplicant to speak: in TLS 1.2 as soon as the server's Finished has come, in TLS 1.3 after
    /// the request that follows its own.
    fn may_begin(&self, was_established: bool) -> bool {
        was_established || self.link.version() == Some(TlsVersion::V12)
    }

    /// Whether the tunnel was resumed, in this version.
    fn is_resumed_by(&self, version: TlsVersion) -> bool {
        self.link.resumed() && self.link.version() == Some(version)
    }

    /// The inner request in what was said, or none when that was PEAP's result, which is answered here.
    fn inside(&mut self, said: &[u8], identifier: u8) -> Result<Option<Vec<u8>>, Violation> {
        if self.kind == Kind::Ttls {
            return match ttls::eap_packet(said) {
                Ok(packet) if self.begun => Ok(Some(packet.into_owned())),
                _ => Err(Violation::TunnelData),
            };
        }
        match peap::inside(Code::Request, said) {
            Some((EXTENSIONS, data)) => {
                let extensions = Extensions::parse(data).map_err(|_| Violation::TunnelData)?;
                let answer = self.result(extensions)?;
                self.link.say(&answer.packet(Code::Response, identifier));
                Ok(None)
            }
            Some((eap_type, data)) => Ok(Some(build(Code::Request, identifier, eap_type, &[data]))),
            None => Err(Violation::TunnelData),
        }
    }

    fn result(&mut self, extensions: Extensions) -> Result<Extensions, Violation> {
        match extensions.succeeded {
            Some(true) => {}
            Some(false) => {
                return Ok(Extensions {
                    succeeded: Some(false),
                    binding: None,
                });
            }
            None => return Err(Violation::TunnelData),
        }
        let outer = self.link.msk().ok_or(Violation::SuccessEarly)?;
        let keys = match self.link.resumed() && !self.begun {
            true => BindingKeys::of_resumption(&outer),
            false => BindingKeys::new(&outer, &self.inner.finished()?),
        };
        let binding = extensions.binding.ok_or(Violation::BindingMissing)?;
        let nonce = keys.verify(Side::Request, &binding).ok_or(Violation::BindingWrong)?;
        let answer = Extensions {
            succeeded: Some(true),
            binding: Some(keys.tlv(Side::Response, &nonce)),
        };
        self.binding = Some(keys);
        Ok(answer)
    }

    fn say(&mut self, packet: &[u8]) {
        self.begun = true;
        match self.kind {
            Kind::Ttls => self.link.say(&ttls::message(packet)),
            Kind::Peap => self.link.say(peap::compressed(packet)),
        }
    }

    /// The packet after [`Answer::Reply`]; empty when there is nothing to say.
    pub(super) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        self.link.packet(identifier)
    }

    /// EAP-Success has come: the keys, if that was in order.
    pub(super) fn success(&self) -> Result<Msk, Violation> {
        let outer = self.link.msk().ok_or(Violation::SuccessEarly)?;
        if !self.link.resumed() || self.begun {
            self.inner.finished()?;
        }
        match (self.kind, &self.binding) {
            (Kind::Ttls, _) if !self.begun && !self.committed && self.is_resumed_by(TlsVersion::V13) => {
                Err(Violation::CommitmentMissing)
            }
            (Kind::Ttls, _) => Ok(outer),
            (Kind::Peap, Some(keys)) => Ok(keys.msk()),
            (Kind::Peap, None) => Err(Violation::ResultMissing),
        }
    }

    /// EAP-Failure has come.
    pub(super) fn failure(&mut self) -> Result<Failure, Violation> {
        match self.link.ended() {
            _ if self.committed => Err(Violation::AfterCommitment),
            Some(failure) => Ok(failure),
            None => self.inner.gave_up(),
        }
    }

    /// Whether the server's certificate or the supplicant's was shown in an earlier session.
    pub(super) fn resumed(&self) -> bool {
        self.link.resumed() || self.inner.resumed()
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }
}
