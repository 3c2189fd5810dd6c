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
//! The tunnel has no success indication of its own, and sends no alert when the inner authentication fails (RFC 9427, 6.2):
//! those of the inner EAP-TLS, and PEAP's result, say it.
//!
//! What is resumed is the EAP-TLS inside, by a ticket that is good in this kind of tunnel alone, at all nodes; or, where that
//! is turned on, the tunnel, by a session that the node keeps (`tls::ticket::kept`): then nothing runs inside, the chain that
//! was shown there is decided on, and EAP-TTLS in TLS 1.3 and PEAP say the success themselves (RFC 9427, 4; [MS-PEAP],
//! 3.1.5.7). Where no such session is known the tunnel is made anew. It is off by default since wpa_supplicant 2.10, whenever
//! it begins again, shuts down the inner TLS connection, too, which after a resumed tunnel was never begun; OpenSSL notes an
//! error ("shutdown while in init"), and the next packet is ignored for it.

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
