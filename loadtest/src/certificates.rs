//! `portreeve-load certificates`: certificates for as many devices as one likes, for `--cert-dir`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize, SigningKey,
};

const DAY: Duration = Duration::from_secs(86_400);
/// RSA keys take long to make: certificates take turns with so many.
const RSA_KEYS: u32 = 16;

/// What to make.
#[derive(Debug, Args)]
pub struct Certificates {
    /// The folder; it is made when it does not exist. Nothing in it is ever overwritten.
    pub dir: PathBuf,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// The devices' keys. With RSA, certificates take turns with 16 keys, since each takes long to make.
    #[arg(long, value_enum, default_value = "p256")]
    pub keys: Keys,
    /// How many days they are valid.
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub days: u32,
    /// The CA that signs them (PEM), instead of a new one: `ca.pem` in the folder, whose key is not kept.
    #[arg(long, value_name = "FILE", requires = "ca_key")]
    pub ca: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub ca_key: Option<PathBuf>,
}

/// Kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA of 2048 bits.
    Rsa2048,
    /// RSA of 3072 bits.
    Rsa3072,
}

impl Keys {
    fn make(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Keys::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Keys::P384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            Keys::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Keys::Rsa3072 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
        }
    }

    /// How many different keys there are for so many certificates.
    fn different(self, certificates: u32) -> u32 {
        match self {
            Keys::P256 | Keys::P384 => certificates,
            Keys::Rsa2048 | Keys::Rsa3072 => certificates.min(RSA_KEYS),
        }
    }
}

/// Makes them, and says what to do with them.
///
/// # Errors
/// When a file exists, or cannot be written or read.
pub fn make(asked: &Certificates, out: &mut impl Write) -> anyhow::Result<()> {
    let dir = &asked.dir;
    fs::create_dir_all(dir).with_context(|| format!("cannot make the folder `{}`", dir.display()))?;
    let ca = match (&asked.ca, &asked.ca_key) {
        (Some(ca), Some(key)) => {
            let issuer = Issuer::from_ca_cert_pem(
                &read(ca)?,
                KeyPair::from_pem(&read(key)?)
                    .with_context(|| format!("cannot use the private key in `{}`", key.display()))?,
            );
            write_all(
                asked,
                &issuer.with_context(|| format!("cannot use the CA in `{}`", ca.display()))?,
            )?;
            ca.clone()
        }
        _ => {
            let params = authority(asked)?;
            let key = asked.keys.make()?;
            let path = dir.join("ca.pem");
            write(&path, &params.self_signed(&key)?.pem(), 0o644)?;
            write_all(asked, &Issuer::new(params, key))?;
            path
        }
    };
    writeln!(out, "made: {} certificates in `{}`", asked.count, dir.display())?;
    writeln!(
        out,
        "the server takes them when `[eap.tls] client_ca` has `{}`; then: portreeve-load eap-tls --cert-dir {}",
        ca.display(),
        dir.display()
    )?;
    Ok(())
}

fn write_all(asked: &Certificates, issuer: &Issuer<'_, impl SigningKey>) -> anyhow::Result<()> {
    let digits = asked.count.to_string().len();
    let different = asked.keys.different(asked.count);
    let mut keys: Vec<KeyPair> = Vec::new();
    for number in 1..=asked.count {
        let name = format!("device-{number:0digits$}");
        let turn = usize::try_from(number - 1)? % usize::try_from(different)?;
        if different < asked.count && keys.len() <= turn {
            keys.push(asked.keys.make()?);
        }
        let own;
        let key = match keys.get(turn) {
            Some(key) => key,
            None => {
                own = asked.keys.make()?;
                &own
            }
        };
        let certificate = device(asked, &name)?.signed_by(key, issuer)?;
        write(&asked.dir.join(format!("{name}.pem")), &certificate.pem(), 0o644)?;
        write(&asked.dir.join(format!("{name}.key")), &key.serialize_pem(), 0o600)?;
    }
    Ok(())
}

fn device(asked: &Certificates, name: &str) -> anyhow::Result<CertificateParams> {
    let mut params = params(asked, vec![format!("{name}.load.invalid")], name)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn authority(asked: &Certificates) -> anyhow::Result<CertificateParams> {
    let mut params = params(asked, Vec::new(), "Portreeve load test CA")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(asked: &Certificates, names: Vec<String>, common_name: &str) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_secs());
    // clocks differ
    params.not_before = now - DAY;
    params.not_after = now + DAY * asked.days;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "Portreeve load test");
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("`{}` exists already\nhint: name another folder", path.display())
        }
        other => other.with_context(|| format!("cannot write `{}`", path.display()))?,
    };
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))
}
