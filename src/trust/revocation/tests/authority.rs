//! A CA for this module's tests: its certificates, lists and OCSP responses.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, SigningKey,
};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::trust::der::tag;
use crate::trust::revocation::ocsp::{BASIC, NONCE, encode};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// The time at which a test began, and that it goes by.
pub(super) fn now() -> UnixTime {
    UnixTime::since_unix_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
}

pub(super) fn unix() -> i64 {
    i64::try_from(now().as_secs()).unwrap()
}

/// Unix seconds as rcgen has them.
macro_rules! at {
    ($seconds:expr) => {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from($seconds).unwrap())
    };
}

pub(super) struct Ca(CertifiedIssuer<'static, KeyPair>, String);

/// A certificate and its key.
pub(super) struct Issued {
    pub(super) der: CertificateDer<'static>,
    pub(super) key: KeyPair,
}

impl Ca {
    pub(super) fn new(name: &str) -> Ca {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ca(
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
            name.to_owned(),
        )
    }

    /// Another certificate over this CA's name and key.
    pub(super) fn renewed(&self, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = params(&self.1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        params.self_signed(self.0.key()).unwrap().der().clone()
    }

    pub(super) fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    pub(super) fn key(&self) -> &KeyPair {
        self.0.key()
    }

    pub(super) fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = params(name);
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, &self.0).unwrap().der().clone();
        Issued { der, key }
    }

    /// One that may sign OCSP responses.
    pub(super) fn delegate(&self, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        self.issue("responder", |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
            change(params);
        })
    }

    /// A list of these serial numbers, good for a day from `issued` on.
    pub(super) fn list(&self, serials: &[u64], issued: i64, number: u64) -> Vec<u8> {
        self.list_with(serials, issued, number, |_| ())
    }

    pub(super) fn list_with(
        &self,
        serials: &[u64],
        issued: i64,
        number: u64,
        change: impl FnOnce(&mut CertificateRevocationListParams),
    ) -> Vec<u8> {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: at!(issued - 60),
            reason_code: Some(rcgen::RevocationReason::KeyCompromise),
            invalidity_date: None,
        });
        let mut params = CertificateRevocationListParams {
            this_update: at!(issued),
            next_update: at!(issued) + DAY,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        change(&mut params);
        params.signed_by(&self.0).unwrap().der().to_vec()
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (at!(unix()) - DAY, at!(unix()) + DAY * 30);
    params
}

/// id-pkix-ocsp-nocheck.
pub(super) fn no_check() -> CustomExtension {
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 48, 1, 5], vec![5, 0])
}

/// An OCSP response in the making.
pub(super) struct Answering<'a> {
    /// The contents of certStatus' element, and its tag.
    pub(super) status: (u8, Vec<u8>),
    /// `CertID`, as the request has it.
    pub(super) id: Vec<u8>,
    pub(super) this_update: i64,
    pub(super) next_update: Option<i64>,
    /// Who says to sign.
    pub(super) responder: &'a CertificateDer<'a>,
    /// Who signs.
    pub(super) key: &'a KeyPair,
    pub(super) certificates: Vec<&'a CertificateDer<'a>>,
    pub(super) nonce: Option<Vec<u8>>,
}

pub(super) fn generalized(seconds: i64) -> Vec<u8> {
    let time = jiff::Timestamp::from_second(seconds)
        .unwrap()
        .strftime("%Y%m%d%H%M%SZ")
        .to_string();
    encode(tag::GENERALIZED_TIME, &[time.as_bytes()])
}

impl Answering<'_> {
    pub(super) fn response(&self) -> Vec<u8> {
        let responder = crate::trust::certificate::Certificate::parse(self.responder).unwrap();
        let mut single = vec![
            self.id.clone(),
            encode(self.status.0, &[&self.status.1]),
            generalized(self.this_update),
        ];
        single.extend(
            self.next_update
                .map(|next| encode(tag::constructed(0), &[&generalized(next)])),
        );
        let single = encode(tag::SEQUENCE, &[&single.concat()]);
        let nonce = self.nonce.as_ref().map(|nonce| {
            let value = encode(tag::OCTET_STRING, &[&encode(tag::OCTET_STRING, &[nonce])]);
            let extension = encode(tag::SEQUENCE, &[&encode(tag::OID, &[NONCE]), &value]);
            encode(tag::constructed(1), &[&encode(tag::SEQUENCE, &[&extension])])
        });
        let data = encode(
            tag::SEQUENCE,
            &[
                &encode(
                    tag::constructed(1),
                    &[&encode(tag::SEQUENCE, &[responder.subject.as_bytes()])],
                ),
                &generalized(self.this_update),
                &encode(tag::SEQUENCE, &[&single]),
                nonce.as_deref().unwrap_or_default(),
            ],
        );
        let mut signature = vec![0];
        signature.extend(self.key.sign(&data).unwrap());
        let ecdsa_with_sha256 = encode(tag::OID, &[&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2]]);
        let certificates: Vec<&[u8]> = self.certificates.iter().map(|der| der.as_ref()).collect();
        let certificates = encode(tag::constructed(0), &[&encode(tag::SEQUENCE, &certificates)]);
        let basic = encode(
            tag::SEQUENCE,
            &[
                &data,
                &encode(tag::SEQUENCE, &[&ecdsa_with_sha256]),
                &encode(tag::BIT_STRING, &[&signature]),
                &certificates,
            ],
        );
        let bytes = encode(
            tag::SEQUENCE,
            &[&encode(tag::OID, &[BASIC]), &encode(tag::OCTET_STRING, &[&basic])],
        );
        encode(
            tag::SEQUENCE,
            &[
                &encode(tag::ENUMERATED, &[&[0]]),
                &encode(tag::constructed(0), &[&bytes]),
            ],
        )
    }
}
