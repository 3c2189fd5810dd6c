//! What the servers and devices of the benchmark show each other: a root, and leaves directly under it.

use std::fs;
use std::path::Path;

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

    /// Fills a folder with certificates and keys of so many devices more.
    pub fn write_devices(&self, folder: &Path, count: usize) -> Fallible<()> {
        for number in 0..count {
            let name = format!("laptop-{number:05}.example.com");
            leaf(self.kind, &self.issuer, &name, ExtendedKeyUsagePurpose::ClientAuth)?.write(folder, &name)?;
        }
        Ok(())
    }

    /// Writes the CA, and certificate and key of the server and of the device.
    pub fn write(&self, folder: &Path) -> Fallible<()> {
        fs::write(folder.join("ca.pem"), self.issuer.pem())?;
        self.server.write(folder, "server")?;
        self.device.write(folder, "client")
    }
}

impl Identity {
    fn write(&self, folder: &Path, name: &str) -> Fallible<()> {
        let [certificate, key] = &self.pem;
        fs::write(folder.join(format!("{name}.pem")), certificate)?;
        Ok(fs::write(folder.join(format!("{name}.key")), key)?)
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
