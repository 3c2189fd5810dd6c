//! A CA with devices, responders' certificates and lists of revoked certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationList, CertificateRevocationListParams, CertifiedIssuer,
    CrlDistributionPoint, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevocationReason, RevokedCertParams, SerialNumber, SigningKey,
};
use tempfile::TempDir;

use crate::support::Fallible;

const DAY: Duration = Duration::from_secs(86_400);
const CLIENT_AUTH: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;

/// Serial numbers of all CAs here, so that none is a list's of another by chance.
static SERIAL: AtomicU64 = AtomicU64::new(0x8001);

/// A CA, and a folder with `ca.pem`, `ca.key` and everything that it issues.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key in files.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Without `.pem` or `.key`.
    pub path: PathBuf,
    pub serial: u64,
}

impl Issued {
    pub fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// Where a certificate says that its status is learned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    pub ocsp: Option<&'a str>,
    pub crl: Option<&'a str>,
}

pub fn unix() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Unix seconds as rcgen has them.
macro_rules! at {
    ($seconds:expr) => {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs($seconds)
    };
}

impl Authority {
    /// A root.
    pub fn new(name: &str) -> Fallible<Authority> {
        let (params, _) = authority(name);
        Authority::of(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
    }

    /// A CA below this one, whose own certificate names these.
    pub fn intermediate(&self, name: &str, names: Names<'_>) -> Fallible<(Authority, u64)> {
        let (mut params, serial) = authority(name);
        add(&mut params, names);
        let issuer = CertifiedIssuer::signed_by(params, KeyPair::generate()?, &self.issuer)?;
        Ok((Authority::of(issuer)?, serial))
    }

    fn of(issuer: CertifiedIssuer<'static, KeyPair>) -> Fallible<Authority> {
        let authority = Authority {
            folder: TempDir::new()?,
            issuer,
        };
        authority.write("ca", &authority.issuer.pem(), authority.issuer.key())?;
        Ok(authority)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `ca.pem`, without `.pem`.
    pub fn path(&self) -> PathBuf {
        self.folder().join("ca")
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A device's certificate.
    pub fn device(&self, name: &str, names: Names<'_>) -> Fallible<Issued> {
        self.device_numbered(reserve(), name, names)
    }

    /// One with a serial number that was reserved: responders have to know it before the device knows the responder.
    pub fn device_numbered(&self, serial: u64, name: &str, names: Names<'_>) -> Fallible<Issued> {
        self.issue(serial, name, CLIENT_AUTH, |params| add(params, names))
    }

    /// A device's certificate, followed by this CA's.
    pub fn device_with_chain(&self, name: &str, names: Names<'_>) -> Fallible<Issued> {
        let issued = self.device(name, names)?;
        self.append_own(&issued)?;
        Ok(issued)
    }

    /// A certificate of a server with a reserved number, followed by this CA's.
    pub fn server_numbered(&self, serial: u64, ocsp: &str) -> Fallible<Issued> {
        let issued = self.issue(
            serial,
            "radius.example",
            ExtendedKeyUsagePurpose::ServerAuth,
            |params| {
                let host = "radius.example".try_into();
                params.subject_alt_names = host.map(rcgen::SanType::DnsName).into_iter().collect();
                add(
                    params,
                    Names {
                        ocsp: Some(ocsp),
                        crl: None,
                    },
                );
            },
        )?;
        self.append_own(&issued)?;
        Ok(issued)
    }

    fn append_own(&self, issued: &Issued) -> Fallible {
        let file = issued.path.with_extension("pem");
        let leaf = fs::read_to_string(&file)?;
        Ok(fs::write(file, leaf + &self.pem())?)
    }

    /// A certificate that may sign OCSP responses, if `usage` is so.
    pub fn delegate(&self, name: &str, usage: ExtendedKeyUsagePurpose, has_no_check: bool) -> Fallible<Issued> {
        self.issue(reserve(), name, usage, |params| {
            if has_no_check {
                let no_check = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 48, 1, 5], vec![5, 0]);
                params.custom_extensions.push(no_check);
            }
        })
    }

    fn issue(
        &self,
        serial: u64,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Fallible<Issued> {
        let mut params = params(serial, name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        change(&mut params);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let path = self.write(&format!("{serial:x}"), &certificate.pem(), &key)?;
        Ok(Issued { path, serial })
    }

    /// The database of `openssl ocsp`: these are good, those revoked. What is in neither is unknown.
    pub fn index(&self, good: &[u64], revoked: &[u64]) -> Fallible<PathBuf> {
        let mut lines = String::new();
        for serial in good {
            lines += &format!("V\t301230000000Z\t\t{serial:X}\tunknown\t/CN={serial}\n");
        }
        for serial in revoked {
            lines += &format!("R\t301230000000Z\t250101000000Z,keyCompromise\t{serial:X}\tunknown\t/CN={serial}\n");
        }
        let file = self.folder().join(format!("index-{}", reserve()));
        fs::write(&file, lines)?;
        Ok(file)
    }

    /// A list of these certificates, issued so many seconds ago and good for so many.
    pub fn list(&self, revoked: &[u64], ago: u64, good_for: u64) -> Fallible<Vec<u8>> {
        Ok(self.list_from(revoked, unix() - ago, good_for)?.der().to_vec())
    }

    /// One that was issued at this time.
    pub fn list_from(&self, revoked: &[u64], issued: u64, good_for: u64) -> Fallible<CertificateRevocationList> {
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: at!(issued),
            reason_code: Some(RevocationReason::CessationOfOperation),
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: at!(issued),
            next_update: at!(issued + good_for),
            crl_number: SerialNumber::from(issued),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?)
    }

    /// What this CA signs.
    pub fn sign(&self, message: &[u8]) -> Fallible<Vec<u8>> {
        Ok(self.issuer.key().sign(message)?)
    }

    fn write(&self, name: &str, pem: &str, key: &KeyPair) -> Fallible<PathBuf> {
        let path = self.folder().join(name);
        fs::write(path.with_extension("pem"), pem)?;
        fs::write(path.with_extension("key"), key.serialize_pem())?;
        Ok(path)
    }
}

/// The serial number of a certificate to be.
pub fn reserve() -> u64 {
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

fn params(serial: u64, name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (at!(unix()) - DAY, at!(unix()) + DAY * 90);
    params.serial_number = Some(SerialNumber::from(serial));
    params.distinguished_name.push(DnType::OrganizationName, "Revocation");
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

fn authority(name: &str) -> (CertificateParams, u64) {
    let serial = reserve();
    let mut params = params(serial, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params, serial)
}

fn add(params: &mut CertificateParams, names: Names<'_>) {
    if let Some(url) = names.ocsp {
        let method = der(6, &[&[0x2B, 6, 1, 5, 5, 7, 48, 1]]);
        let access = der(0x30, &[&der(0x30, &[&method, &der(0x86, &[url.as_bytes()])])]);
        let extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], access);
        params.custom_extensions.push(extension);
    }
    if let Some(url) = names.crl {
        let uris = vec![url.to_owned()];
        params.crl_distribution_points = vec![CrlDistributionPoint { uris }];
    }
}

/// An element of DER.
pub fn der(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    let [high, low] = u16::try_from(contents.len()).unwrap().to_be_bytes();
    let length = match contents.len() {
        0..=0x7F => vec![low],
        0x80..=0xFF => vec![0x81, low],
        _ => vec![0x82, high, low],
    };
    [&[tag][..], &length, &contents].concat()
}
