//! OCSP responses that `openssl ocsp` does not make: of another time, with another nonce, about another certificate.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use portreeve::trust::certificate::Certificate;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::authority::{Authority, der, unix};
use crate::support::Fallible;

/// A response that says `good`, signed by the CA itself.
#[derive(Clone, Copy)]
pub struct Canned<'a> {
    pub ca: &'a Authority,
    pub serial: u64,
    /// Seconds from now to thisUpdate and nextUpdate.
    pub this_update: i64,
    pub next_update: Option<i64>,
    pub nonce: Option<&'a [u8]>,
}

impl Canned<'_> {
    pub fn new(ca: &Authority, serial: u64) -> Canned<'_> {
        Canned {
            ca,
            serial,
            this_update: -60,
            next_update: Some(3_600),
            nonce: None,
        }
    }

    pub fn response(self) -> Fallible<Vec<u8>> {
        let issuer = CertificateDer::from_pem_slice(self.ca.pem().as_bytes())?;
        let issuer = Certificate::parse(&issuer)?;
        let name = der(0x30, &[issuer.subject.as_bytes()]);
        let key = issuer.public_key.last_chunk::<65>().ok_or("no key on P-256")?;
        let sha1 = der(0x30, &[&der(6, &[&[0x2B, 0x0E, 3, 2, 0x1A]]), &[5, 0]]);
        let hash = |octets: &[u8]| der(4, &[digest(&SHA1_FOR_LEGACY_USE_ONLY, octets).as_ref()]);
        let serial = self.serial.to_be_bytes();
        let serial = &serial[serial.iter().take_while(|octet| **octet == 0).count()..];
        // a number whose first bit is set gets a zero octet in front
        let zero: &[u8] = if serial[0] >= 0x80 { &[0] } else { &[] };
        let id = der(0x30, &[&sha1, &hash(&name), &hash(key), &der(2, &[zero, serial])]);
        let mut single = [id, vec![0x80, 0], time(self.this_update)?].concat();
        if let Some(next_update) = self.next_update {
            single.extend(der(0xA0, &[&time(next_update)?]));
        }
        let mut data = [
            der(0xA1, &[&name]),
            time(self.this_update)?,
            der(0x30, &[&der(0x30, &[&single])]),
        ]
        .concat();
        if let Some(nonce) = self.nonce {
            let oid = der(6, &[&[0x2B, 6, 1, 5, 5, 7, 48, 1, 2]]);
            let extension = der(0x30, &[&oid, &der(4, &[&der(4, &[nonce])])]);
            data.extend(der(0xA1, &[&der(0x30, &[&extension])]));
        }
        let data = der(0x30, &[&data]);
        let ecdsa_with_sha256 = der(0x30, &[&der(6, &[&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2]])]);
        let signature = der(3, &[&[0], &self.ca.sign(&data)?]);
        let basic = der(0x30, &[&data, &ecdsa_with_sha256, &signature]);
        let bytes = der(
            0x30,
            &[&der(6, &[&[0x2B, 6, 1, 5, 5, 7, 48, 1, 1]]), &der(4, &[&basic])],
        );
        Ok(der(0x30, &[&[0x0A, 1, 0], &der(0xA0, &[&bytes])]))
    }
}

fn time(from_now: i64) -> Fallible<Vec<u8>> {
    let time = jiff::Timestamp::from_second(i64::try_from(unix())? + from_now)?;
    let text = time.strftime("%Y%m%d%H%M%SZ").to_string();
    Ok(der(0x18, &[text.as_bytes()]))
}
