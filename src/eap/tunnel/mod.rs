//! EAP-TTLS and PEAP: a TLS tunnel in which EAP-TLS runs, and nothing else.
//!
//! | standard | what | where |
//! |---|---|---|
//! | RFC 5281, 7 to 9; RFC 9427, 2 to 4 | the outer handshake, what runs inside, the keys | `server` |
//! | RFC 5281, 10 and 11.2 | AVPs, the inner EAP packets in them, password methods refused by name | [`ttls`] |
//! | draft-kamath-pppext-peapv0, [MS-PEAP] | inner EAP packets without a header, the result | [`peap`] |
//! | [MS-PEAP], 3.1.5.5 and 3.1.5.7 | the crypto-binding, and the keys that come of it | [`binding`] |
//!
//! The outer handshake asks for no client certificate. The inner conversation is a [`crate::eap::server::Conversation`]
//! of its own that knows EAP-TLS alone, so there is no tunnel inside a tunnel. What it proves is what is decided on, and
//! its outcome is the outcome. The keys come from the outer handshake, in PEAP bound to those of the inner one.
//!
//! In a full authentication the tunnel has no success indication of its own: "the protected result indication is not
//! used, and there is no TLS-layer alert sent when the inner authentication fails" (RFC 9427, 6.2). That of the inner
//! EAP-TLS, its alerts, and PEAP's result say it.

pub mod binding;
pub mod peap;
pub(crate) mod server;
pub mod ttls;

use super::method::EapType;

/// Which tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// EAP-TTLS version 0.
    Ttls,
    /// PEAP version 0.
    Peap,
}

impl Kind {
    /// The Type octet of its packets.
    pub const fn eap_type(self) -> EapType {
        match self {
            Kind::Ttls => EapType::TTLS,
            Kind::Peap => EapType::PEAP,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Kind::Ttls => "eap-ttls",
            Kind::Peap => "peap",
        }
    }
}
