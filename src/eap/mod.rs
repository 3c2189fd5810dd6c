//! EAP: one conversation between a supplicant and this server, both sides of it, without I/O.
//!
//! Packets come in as octets and leave as octets; randomness is an argument, the clock that certificates are checked
//! against is the [`rustls::time_provider::TimeProvider`] of [`tls::TlsServer`]. Retransmission is the business of the
//! floor above: it keeps the last response and the packet that answered it (RFC 3579, 2.6.3).
//!
//! | RFC | what | where |
//! |---|---|---|
//! | 3748, 4 and 5 | packets, identifiers, Identity, Nak, MD5-Challenge | [`packet`], [`method`], [`md5`], [`server`], [`peer`] |
//! | 4137, 5 and 6 | the authenticator's states | [`server`] |
//! | 5216 | EAP-TLS, fragments, the keys of TLS 1.2 | [`tls`], [`keys`] |
//! | 9190 | EAP-TLS with TLS 1.3, the protected success indication | [`tls`], [`server`], [`peer`] |
//! | 5281, 9427 | EAP-TTLS and PEAP, with EAP-TLS inside | [`tunnel`] |

pub mod keys;
pub mod md5;
pub mod method;
pub mod packet;
pub mod peer;
pub mod server;
pub mod tls;
pub mod tunnel;
