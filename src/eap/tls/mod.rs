//! EAP-TLS (RFC 5216, RFC 9190): rustls as a byte pump, and what EAP puts around it.
//!
//! - [`cipher`]: the cipher suites, by name
//! - [`flags`], [`fragments`]: the framing, the same at both ends
//! - `exchange`: the server's half of an exchange of messages, for the tunnels too
//! - `session`: the server's handshake; octets in, octets out, the decision in between
//! - `server`: the method as the authenticator runs it, one response after another
//! - `recorder`: remembers which chain the supplicant showed, refused or not
//! - [`ticket`]: sessions that supplicants bring back, and until when
//! - [`mod@reason`]: rustls's errors and the alerts of supplicants as the words that operators read
//! - [`alert`]: the refusal that follows a finished handshake
//!
//! Which certificates are good is the business of the verifier in [`TlsServer`], made on a higher floor.

pub mod alert;
pub mod cipher;
pub(crate) mod exchange;
pub mod flags;
pub mod fragments;
pub mod reason;
pub(crate) mod recorder;
pub(crate) mod server;
pub(crate) mod session;
pub mod ticket;

use std::sync::{Arc, LazyLock};

use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::time_provider::TimeProvider;

pub use reason::{Refused, reason, span};
use ticket::Tickets;

/// What a server needs to run EAP-TLS; one for each set of certificates and client CAs, shared by its conversations.
#[derive(Clone, Debug)]
pub struct TlsServer {
    /// As [`cipher::Ciphers::provider`] makes it. Its order of cipher suites counts, not the supplicant's.
    pub provider: Arc<CryptoProvider>,
    /// The server's certificates.
    pub certificates: Arc<dyn ResolvesServerCert>,
    /// Judges the supplicants' certificates. A certificate is demanded whatever it says of that.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// The clock that certificates are checked against.
    pub time: Arc<dyn TimeProvider>,
    /// What sessions are resumed by; without, each handshake is a full one.
    pub tickets: Option<Arc<Tickets>>,
}

/// A version of TLS that is spoken here; ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2
    V12,
    /// TLS 1.3
    V13,
}

impl TlsVersion {
    /// `1.2` or `1.3`.
    pub const fn word(self) -> &'static str {
        match self {
            TlsVersion::V12 => "1.2",
            TlsVersion::V13 => "1.3",
        }
    }

    /// Reads [`TlsVersion::word`].
    pub fn parse(word: &str) -> Option<TlsVersion> {
        match word {
            "1.2" => Some(TlsVersion::V12),
            "1.3" => Some(TlsVersion::V13),
            _ => None,
        }
    }

    pub(crate) fn of(version: rustls::ProtocolVersion) -> Option<TlsVersion> {
        match version {
            rustls::ProtocolVersion::TLSv1_2 => Some(TlsVersion::V12),
            rustls::ProtocolVersion::TLSv1_3 => Some(TlsVersion::V13),
            _ => None,
        }
    }
}

impl std::fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// rustls's versions from `min` to `max`; none when they are the wrong way round.
pub(crate) fn versions(min: TlsVersion, max: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static V12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
    static V13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
    static BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
    match (min, max) {
        (TlsVersion::V12, TlsVersion::V12) => V12,
        (TlsVersion::V12, TlsVersion::V13) => BOTH,
        (TlsVersion::V13, TlsVersion::V13) => V13,
        (TlsVersion::V13, TlsVersion::V12) => &[],
    }
}

/// The cryptography of both ends: aws-lc-rs with its default suites and signature algorithms, and the key exchange
/// groups X25519, P-256 and P-384. The hybrid with ML-KEM is left out: it makes each hello more than a kilobyte longer,
/// a round trip more where fragments are small, for keys that protect one link until the next authentication.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        Arc::new(CryptoProvider {
            kx_groups: vec![
                aws_lc_rs::kx_group::X25519,
                aws_lc_rs::kx_group::SECP256R1,
                aws_lc_rs::kx_group::SECP384R1,
            ],
            ..aws_lc_rs::default_provider()
        })
    });
    Arc::clone(&PROVIDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_and_read_back() {
        assert!(TlsVersion::V12 < TlsVersion::V13);
        for version in [TlsVersion::V12, TlsVersion::V13] {
            assert_eq!(TlsVersion::parse(version.word()), Some(version));
        }
        assert_eq!(TlsVersion::parse("1.1"), None);
        assert!(versions(TlsVersion::V13, TlsVersion::V12).is_empty());
    }

    #[test]
    fn x25519_comes_first_and_no_hybrid_is_offered() {
        let names: Vec<_> = provider().kx_groups.iter().map(|group| group.name()).collect();
        assert_eq!(
            names,
            [
                rustls::NamedGroup::X25519,
                rustls::NamedGroup::secp256r1,
                rustls::NamedGroup::secp384r1
            ]
        );
    }
}
