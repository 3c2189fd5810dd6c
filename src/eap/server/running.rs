//! The method that shows a certificate, once it was offered: EAP-TLS itself, or a tunnel with EAP-TLS inside.

use rustls_pki_types::CertificateDer;

use super::{Conversation, Settings, Verdict};
use crate::eap::method::Method;
use crate::eap::tls::exchange::Exchange;
use crate::eap::tls::reason::Refused;
use crate::eap::tls::server::{Action, TlsMethod, TlsOptions};
use crate::eap::tls::session::Summary;
use crate::eap::tls::ticket::Offered;
use crate::eap::tunnel::Kind;
use crate::eap::tunnel::server::Tunnel;

pub(super) enum Running {
    Tls(TlsMethod),
    Tunnel(Tunnel),
}

impl Running {
    /// The method, before its first response. `None` for EAP-MD5, which shows none.
    pub(super) fn new(method: Method, settings: &Settings, random: &mut dyn FnMut(&mut [u8])) -> Option<Running> {
        let kind = match method {
            Method::Md5 => return None,
            Method::Tls => {
                let options = TlsOptions {
                    min: settings.min_version,
                    max: settings.max_version,
                    packet_octets: settings.fragment_size,
                    scope: settings.scope,
                };
                return Some(Running::Tls(TlsMethod::new(settings.tls.clone(), options)));
            }
            Method::Ttls => Kind::Ttls,
            Method::Peap => Kind::Peap,
        };
        Some(Running::Tunnel(Tunnel::new(kind, settings, random)))
    }

    /// The data of a response; the next request will have `identifier`.
    pub(super) fn respond(&mut self, data: &[u8], identifier: u8, random: &mut dyn FnMut(&mut [u8])) -> Action {
        match self {
            Running::Tls(tls) => tls.respond(data),
            Running::Tunnel(tunnel) => tunnel.respond(data, identifier, random),
        }
    }

    pub(super) fn decide(&mut self, verdict: Verdict, identifier: u8) -> Action {
        match (self, verdict) {
            (Running::Tls(tls), Verdict::Accept) => tls.accept(),
            (Running::Tls(tls), Verdict::Refuse(refused)) => tls.refuse(refused),
            (Running::Tunnel(tunnel), verdict) => tunnel.decide(verdict, identifier),
        }
    }

    /// The packet after [`Action::Send`].
    pub(super) fn packet(&mut self, identifier: u8) -> Vec<u8> {
        match self {
            Running::Tls(tls) => tls.packet(identifier),
            Running::Tunnel(tunnel) => tunnel.packet(identifier),
        }
    }

    /// Messages in and out, the outer ones of a tunnel.
    pub(super) fn exchange(&self) -> &Exchange {
        match self {
            Running::Tls(tls) => tls.exchange(),
            Running::Tunnel(tunnel) => tunnel.exchange(),
        }
    }

    pub(super) fn refused(&self) -> Option<&Refused> {
        match self {
            Running::Tls(tls) => tls.refused(),
            Running::Tunnel(tunnel) => tunnel.refused(),
        }
    }

    pub(super) fn presented(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Running::Tls(tls) => tls.presented(),
            Running::Tunnel(tunnel) => match (tunnel.inner(), tunnel.resumed()) {
                (Some(inner), _) => inner.presented(),
                (None, resumed) => resumed.map(|resumed| &resumed.chain[..]),
            },
        }
    }

    /// Of the handshake that the keys come from.
    pub(super) fn summary(&self) -> Summary {
        match self {
            Running::Tls(tls) => tls.summary(),
            Running::Tunnel(tunnel) => tunnel.summary(),
        }
    }

    /// Whether the certificate was shown in an earlier session: the tunnel was resumed, or the handshake inside.
    pub(super) fn resumed(&self) -> bool {
        match self {
            Running::Tls(tls) => tls.summary().resumed,
            Running::Tunnel(tunnel) => match tunnel.inner() {
                Some(inner) => inner.resumed(),
                None => tunnel.resumed().is_some(),
            },
        }
    }

    /// What became of the session that was offered; of the one inside where the tunnel's led to nothing.
    pub(super) fn ticket(&self) -> Option<Offered> {
        match self {
            Running::Tls(tls) => tls.summary().offered,
            Running::Tunnel(tunnel) => {
                let inside = tunnel.inner().and_then(Conversation::ticket);
                inside.or(tunnel.summary().offered)
            }
        }
    }

    /// Who the supplicant says it is to the method that shows the certificate; `None` where it says so only outside.
    pub(super) fn inner_identity(&self) -> Option<&[u8]> {
        match self {
            Running::Tls(_) => None,
            Running::Tunnel(tunnel) => Some(match (tunnel.inner(), tunnel.resumed()) {
                (Some(inner), _) => inner.identity(),
                (None, resumed) => resumed.map_or(&[], |resumed| &resumed.identity),
            }),
        }
    }
}
