//! One odd certificate: what is sent, and to whom.

use portreeve::eap::tls::TlsVersion;
use portreeve::trust::Demands;

use crate::make::{Authority, Parts, Signer};

/// What a device shows to a server.
pub struct Shape {
    /// As `docs/certificates.md` calls it.
    pub name: &'static str,
    /// Its own certificate first.
    pub chain: Vec<Vec<u8>>,
    /// The private key, PKCS#8, where the device can prove that it has it: then it is let in by a whole conversation.
    pub private: Option<Vec<u8>>,
    /// In which versions of TLS it can.
    pub versions: &'static [TlsVersion],
    /// What the server has for client CAs.
    pub authorities: Vec<Vec<u8>>,
    pub demands: Demands,
}

impl Shape {
    pub fn with(mut self, issuers: &[&Authority]) -> Shape {
        self.chain.extend(issuers.iter().map(|issuer| issuer.der.clone()));
        self
    }

    pub fn with_der(mut self, der: Vec<u8>) -> Shape {
        self.chain.push(der);
        self
    }

    pub fn trusting(mut self, authorities: &[&Authority]) -> Shape {
        self.authorities = authorities.iter().map(|authority| authority.der.clone()).collect();
        self
    }

    /// Without a proof of the key: there is none, or rustls has no way to sign with it.
    pub fn without_key(mut self) -> Shape {
        self.private = None;
        self
    }
}

/// A root and a device's key: what most shapes stand on.
pub struct World {
    pub root: Authority,
    pub device: Signer,
}

impl World {
    pub fn new() -> World {
        World {
            root: Authority::root("Example Root", Signer::p256()),
            device: Signer::p256(),
        }
    }

    /// A device's certificate under the root, with something changed before it is signed.
    pub fn shape(&self, name: &'static str, change: impl FnOnce(&mut Parts)) -> Shape {
        self.under(name, &self.root, change)
    }

    /// The same under another CA; trusted is the root.
    pub fn under(&self, name: &'static str, issuer: &Authority, change: impl FnOnce(&mut Parts)) -> Shape {
        let mut parts = issuer.device(&self.device.key);
        change(&mut parts);
        self.raw(name, parts.signed_by(&issuer.signer))
    }

    /// The same with a key of its own.
    pub fn keyed(&self, name: &'static str, key: &Signer) -> Shape {
        let parts = self.root.device(&key.key);
        Shape {
            private: key.private.clone(),
            ..self.raw(name, parts.signed_by(&self.root.signer))
        }
    }

    /// A key by itself, which nobody can sign with here.
    pub fn public(&self, name: &'static str, key: &[u8]) -> Shape {
        self.shape(name, |parts| parts.key = key.to_vec()).without_key()
    }

    /// These octets as the device's certificate.
    pub fn raw(&self, name: &'static str, der: Vec<u8>) -> Shape {
        Shape {
            name,
            chain: vec![der],
            private: self.device.private.clone(),
            versions: &[TlsVersion::V12, TlsVersion::V13],
            authorities: vec![self.root.der.clone()],
            demands: Demands::default(),
        }
    }
}
