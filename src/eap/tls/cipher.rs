//! Cipher suites: which are spoken, and whose preference counts.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CipherSuite, SupportedCipherSuite};

use super::{TlsVersion, provider};

/// The cipher suites of a server, the preferred one first: its order counts, not the supplicant's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ciphers(Vec<CipherSuite>);

impl Default for Ciphers {
    /// All that are spoken, and first those with AES-128-GCM and SHA-256. Supplicants ask for AES-256 with SHA-384 first, which
    /// protects a few kilobytes no better, and few processors have instructions for SHA-384: it is a tenth of a handshake.
    fn default() -> Ciphers {
        let mut suites: Vec<CipherSuite> = aws_lc_rs::DEFAULT_CIPHER_SUITES
            .iter()
            .map(SupportedCipherSuite::suite)
            .collect();
        suites.sort_by_key(|suite| !name(*suite).is_some_and(|name| name.contains("AES_128_GCM")));
        Ciphers(suites)
    }
}

/// Why a list of names is none of cipher suites.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CiphersError {
    /// The list is empty.
    #[error("names none")]
    None,
    /// No suite of this name is spoken here.
    #[error("names `{0}`, which is not spoken here")]
    Unknown(String),
    /// One is there twice.
    #[error("names `{0}` twice")]
    Twice(String),
    /// A version that is allowed has none.
    #[error("names none of TLS {0}")]
    Version(TlsVersion),
}

impl Ciphers {
    /// Those of a list of names of IANA's registry, the preferred one first, for the versions from `min` to `max`.
    ///
    /// # Errors
    /// When a name is unknown or there twice, or a version would be left without any.
    pub fn new<S: AsRef<str>>(names: &[S], min: TlsVersion, max: TlsVersion) -> Result<Ciphers, CiphersError> {
        let mut suites: Vec<SupportedCipherSuite> = Vec::with_capacity(names.len());
        for wanted in names {
            let wanted = wanted.as_ref();
            let mut known = aws_lc_rs::DEFAULT_CIPHER_SUITES.iter();
            let suite = known
                .find(|suite| name(suite.suite()) == Some(wanted))
                .ok_or_else(|| CiphersError::Unknown(wanted.to_owned()))?;
            if suites.contains(suite) {
                return Err(CiphersError::Twice(wanted.to_owned()));
            }
            suites.push(*suite);
        }
        let is_of = |suite: &SupportedCipherSuite, version| TlsVersion::of(suite.version().version) == Some(version);
        let mut versions = [TlsVersion::V12, TlsVersion::V13].into_iter();
        let lacking = versions
            .find(|version| (min..=max).contains(version) && !suites.iter().any(|suite| is_of(suite, *version)));
        match lacking {
            _ if suites.is_empty() => Err(CiphersError::None),
            Some(version) => Err(CiphersError::Version(version)),
            None => Ok(Ciphers(suites.iter().map(SupportedCipherSuite::suite).collect())),
        }
    }

    /// Every name that [`Ciphers::new`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let known = aws_lc_rs::DEFAULT_CIPHER_SUITES.iter();
        known.filter_map(|suite| name(suite.suite()))
    }

    /// [`provider`] with these.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        let known = |wanted: &CipherSuite| {
            let mut known = aws_lc_rs::DEFAULT_CIPHER_SUITES.iter();
            known.find(|suite| suite.suite() == *wanted).copied()
        };
        Arc::new(CryptoProvider {
            cipher_suites: self.0.iter().filter_map(known).collect(),
            ..(*provider()).clone()
        })
    }
}

/// A suite's name in IANA's registry; rustls has names of its own for those of TLS 1.3.
pub(crate) fn name(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TlsVersion::{V12, V13};

    #[test]
    fn suites_are_named_as_iana_names_them() {
        let all: Vec<_> = Ciphers::names().collect();
        assert_eq!(all.len(), 9);
        assert!(all.iter().all(|name| name.starts_with("TLS_")), "{all:?}");
        let ciphers = Ciphers::new(&all, V12, V13).unwrap();
        assert_eq!(ciphers.provider().cipher_suites, provider().cipher_suites);
    }

    #[test]
    fn by_default_all_are_spoken_and_the_cheapest_first() {
        let suites = Ciphers::default().provider().cipher_suites.clone();
        assert_eq!(suites.len(), 9);
        let names: Vec<_> = suites.iter().filter_map(|suite| name(suite.suite())).collect();
        assert_eq!(
            names[..3],
            [
                "TLS_AES_128_GCM_SHA256",
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
            ]
        );
    }

    #[test]
    fn a_list_is_complete_and_has_each_once() {
        let (new, old) = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        let ciphers = |names: &[&str], min, max| Ciphers::new(names, min, max).map(|_| ());
        assert_eq!(ciphers(&[new], V13, V13), Ok(()));
        assert_eq!(ciphers(&[old], V12, V12), Ok(()));
        assert_eq!(ciphers(&[new, old], V12, V13), Ok(()));
        assert_eq!(ciphers(&[new], V12, V13), Err(CiphersError::Version(V12)));
        assert_eq!(ciphers(&[old], V12, V13), Err(CiphersError::Version(V13)));
        assert_eq!(ciphers(&[], V12, V13), Err(CiphersError::None));
        assert_eq!(ciphers(&[new, new], V13, V13), Err(CiphersError::Twice(new.to_owned())));
        let weak = "TLS_RSA_WITH_AES_128_CBC_SHA";
        assert_eq!(ciphers(&[weak], V12, V12), Err(CiphersError::Unknown(weak.to_owned())));
    }
}
