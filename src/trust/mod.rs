//! Certificates: the server's own, the client CAs, and what a client's certificate says.
//!
//! - [`TrustStore`] holds the sets in force, the default and one for each profile, and replaces them when files change
//!   ([`watch`]); a set that does not load leaves the one before it in force, and a conversation keeps the set it began with
//! - [`verify`] judges a supplicant's certificate (RFC 5280 over rustls-webpki), `diagnose` says why one is refused
//! - [`IdentityCheck`] holds the EAP identity against the names in a certificate, where that is configured
//! - [`revocation`] says whether a certificate that verifies was revoked since
//! - [`facts`] makes of a verified certificate what rules look at; [`Summary`] what people look at
//! - [`check`] is what `portreeve check` has to say about a set
//! - [`pki`] makes the development PKI and the node's own probe
//!
//! `der`, `names`, `time`, `algorithm`, [`certificate`], `pem`, `key` and `ticket_keys` read the formats. The TLS handshake itself is `eap::tls`'s.

mod algorithm;
mod authorities;
pub mod certificate;
pub mod check;
mod der;
mod diagnose;
mod error;
pub mod facts;
mod identity;
mod key;
mod names;
mod pem;
pub mod pki;
mod pss;
pub mod revocation;
mod server_certificate;
mod set;
mod settings;
mod show;
mod staple;
mod store;
mod summary;
mod ticket_keys;
mod time;
mod verified;
pub mod verify;
pub mod watch;

pub use authorities::{Authorities, Authority};
pub use der::Malformed;
pub use error::{SetError, TrustError};
pub use identity::IdentityCheck;
pub use names::quoted;
pub use server_certificate::ServerCertificate;
pub use set::{Clock, TrustSet};
pub use settings::{CertificateFiles, DEFAULT_NAME, Profile, Resumption, Settings};
pub use show::show;
pub use store::{Reloaded, TrustSets, TrustStore};
pub use summary::{Summary, fingerprint, serial};
pub use verify::Demands;
