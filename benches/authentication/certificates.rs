//! What the servers and devices of the benchmark show each other: a root, and leaves directly under it.

use std::fs;
use std::path::{Path, PathBuf};

use ::portreeve::trust::pki::SERVER_NAME;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Fallible;

/// Of which kind all keys are.
#[derive(Clone, Copy)]
pub enum Kind {
    P256,
    Rsa2048,
}

/// A certificate with its key.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
    pem: [String; 2],
}

/// A CA, its server, and a device.
pub struct Pki {
    kind: Kind,
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub server: Identity,
    pub device: Identity,
}

impl Pki {
    pub fn new(kind: Kind) -> Fallible<Pki> {
        let mut params = CertificateParams::new(vec![])?;
        params.distinguished_name = named("Portreeve benchmark CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key(kind)?)?;
        Ok(Pki {
            kind,
            server: leaf(kind, &issuer, SERVER_NAME, ExtendedKeyUsagePurpose::ServerAuth)?,
            device: leaf(
                kind,
                &issuer,
                "laptop-7.example.com",
                ExtendedKeyUsagePurpose::ClientAuth,
            )?,
            issuer,
        })
    }

    pub fn ca(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// So many devices more, each with a certificate and a key of its own.
    pub fn devices(&self, count: usize) -> Fallible<Vec<Identity>> {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        let device = |number| {
            let name = format!("laptop-{number:05}.example.com");
            leaf(self.kind, &self.issuer, &name, usage.clone())
        };
        (0..count).map(device).collect()
    }

    /// Writes what a server needs: the CA, its certificate and its key, in this order.
    pub fn write(&self, folder: &Path) -> Fallible<[PathBuf; 3]> {
        let paths = ["ca.pem", "server.pem", "server.key"].map(|name| folder.join(name));
        let [certificate, key] = &self.server.pem;
        for (path, text) in paths.iter().zip([&self.issuer.pem(), certificate, key]) {
            fs::write(path, text)?;
        }
        Ok(paths)
    }
}

fn leaf(
    kind: Kind,
    issuer: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Fallible<Identity> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = named(name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let key = key(kind)?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Identity {
        pem: [certificate.pem(), key.serialize_pem()],
        certificate: certificate.der().clone(),
        key: PrivateKeyDer::try_from(key.serialize_der())?,
    })
}

fn key(kind: Kind) -> Fallible<KeyPair> {
    Ok(match kind {
        Kind::P256 => KeyPair::generate()?,
        Kind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
    })
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::OrganizationName, "Portreeve benchmark");
    names.push(DnType::CommonName, name);
    names
}
