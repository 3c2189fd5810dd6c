//! What is believed of OCSP responses, and what is not.

use std::time::Duration;

use proptest::prelude::*;
use rcgen::ExtendedKeyUsagePurpose;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::authority::{Answering, Ca, DAY, Issued, generalized, no_check, now, unix};
use crate::trust::certificate::Certificate;
use crate::trust::der::{Reader, tag};
use crate::trust::revocation::ocsp::{self, Answer, CertId, CertStatus, Response, ResponseError};
use crate::trust::revocation::signer::{Signer, SignerError, signer};
use crate::trust::verify::chain_algorithms;

/// A device and the CA that issued its certificate.
struct Case {
    ca: Ca,
    device: Issued,
}

impl Case {
    fn new() -> Case {
        let ca = Ca::new("ca");
        let device = ca.issue("device", |params| params.serial_number = Some(0x8001_u64.into()));
        Case { ca, device }
    }

    fn request(&self) -> Vec<u8> {
        let (certificate, issuer) = (Certificate::parse(&self.device.der).unwrap(), self.ca.der());
        ocsp::request(&CertId::new(&certificate, &Certificate::parse(&issuer).unwrap()), None)
    }

    /// The CertID of the request.
    fn id(&self) -> Vec<u8> {
        let request = self.request();
        let mut reader = Reader::new(&request, "test");
        for _ in 0..4 {
            reader = reader.inside(tag::SEQUENCE).unwrap();
        }
        reader.element(tag::SEQUENCE).unwrap().raw.to_vec()
    }

    fn good<'a>(&self, responder: &'a CertificateDer<'a>, key: &'a rcgen::KeyPair) -> Answering<'a> {
        Answering {
            status: (tag::context(0), Vec::new()),
            id: self.id(),
            this_update: unix() - 60,
            next_update: Some(unix() + 3_600),
            responder,
            key,
            certificates: vec![responder],
            nonce: None,
        }
    }

    fn answer(&self, response: &[u8]) -> Result<Answer, ResponseError> {
        let (certificate, issuer) = (Certificate::parse(&self.device.der).unwrap(), self.ca.der());
        let id = CertId::new(&certificate, &Certificate::parse(&issuer).unwrap());
        Response::parse(response)?.answer(&id)
    }

    /// Whether it was the issuer itself.
    fn signer(&self, response: &[u8], at: UnixTime) -> Result<bool, SignerError> {
        let response = Response::parse(response).unwrap();
        let algorithms = chain_algorithms();
        signer(&response, &self.ca.der(), &algorithms, at).map(|signer| matches!(signer, Signer::Issuer))
    }
}

#[test]
fn an_answer_says_what_and_for_how_long() {
    let case = Case::new();
    let ca = case.ca.der();
    let good = case.good(&ca, case.ca.key());
    let answer = case.answer(&good.response()).unwrap();
    assert_eq!(
        (answer.this_update, answer.next_update),
        (good.this_update, good.next_update)
    );
    assert_eq!(answer.status, CertStatus::Good);
    let unknown = Answering {
        status: (tag::context(2), Vec::new()),
        next_update: None,
        ..case.good(&ca, case.ca.key())
    };
    let answer = case.answer(&unknown.response()).unwrap();
    assert_eq!((answer.status, answer.next_update), (CertStatus::Unknown, None));
    let mut info = generalized(1_700_000_000);
    info.extend([0xA0, 3, tag::ENUMERATED, 1, 6]);
    let revoked = Answering {
        status: (tag::constructed(1), info),
        ..case.good(&ca, case.ca.key())
    };
    let CertStatus::Revoked(revoked) = case.answer(&revoked.response()).unwrap().status else {
        panic!("not revoked")
    };
    assert_eq!((revoked.since, revoked.reason), (1_700_000_000, Some("on hold")));
}

#[test]
fn an_answer_about_another_certificate_is_none() {
    let (case, other) = (Case::new(), Case::new());
    let ca = case.ca.der();
    let answering = Answering {
        id: other.id(),
        ..case.good(&ca, case.ca.key())
    };
    assert_eq!(case.answer(&answering.response()), Err(ResponseError::OtherCertificate));
}

#[test]
fn errors_of_a_responder_have_their_names() {
    for (code, name) in [
        (1, "malformedRequest"),
        (2, "internalError"),
        (3, "tryLater"),
        (5, "sigRequired"),
        (6, "unauthorized"),
    ] {
        let response = [0x30, 3, 0x0A, 1, code];
        assert_eq!(Response::parse(&response).unwrap_err(), ResponseError::Refused(name));
    }
    for garbage in [
        &b""[..],
        b"<html>",
        &[0x30, 3, 0x0A, 1, 0],
        &[0x30, 3, 0x0A, 1, 7],
        &[0; 100],
    ] {
        assert!(
            matches!(Response::parse(garbage), Err(ResponseError::Malformed(_))),
            "{garbage:?}"
        );
    }
}

#[test]
fn the_issuer_signs_or_who_it_names() {
    let (case, now) = (Case::new(), now());
    let (ca, delegate) = (
        case.ca.der(),
        case.ca.delegate(|params| params.custom_extensions.push(no_check())),
    );
    assert_eq!(case.signer(&case.good(&ca, case.ca.key()).response(), now), Ok(true));
    assert_eq!(
        case.signer(&case.good(&delegate.der, &delegate.key).response(), now),
        Ok(false)
    );
    assert!(Certificate::parse(&delegate.der).unwrap().is_exempt_from_revocation);
}

#[test]
fn nobody_else_signs() {
    let (case, now) = (Case::new(), now());
    let ca = case.ca.der();
    let namesake = Ca::new("ca");
    let stranger = namesake.delegate(|_| ());
    let of_no_purpose = case.ca.delegate(|params| params.extended_key_usages.clear());
    let of_another = case
        .ca
        .delegate(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    let delegate = case.ca.delegate(|_| ());
    for (what, answering, error) in [
        ("another key", case.good(&ca, namesake.key()), SignerError::Signature),
        (
            "another ca's delegate",
            case.good(&stranger.der, &stranger.key),
            SignerError::Stranger,
        ),
        (
            "a certificate without extKeyUsage",
            case.good(&of_no_purpose.der, &of_no_purpose.key),
            SignerError::Usage,
        ),
        (
            "a device's",
            case.good(&of_another.der, &of_another.key),
            SignerError::Usage,
        ),
        (
            "a delegate's name over another key",
            case.good(&delegate.der, &stranger.key),
            SignerError::Signature,
        ),
        (
            "a delegate that was not sent",
            Answering {
                certificates: Vec::new(),
                ..case.good(&delegate.der, &delegate.key)
            },
            SignerError::Stranger,
        ),
    ] {
        assert_eq!(case.signer(&answering.response(), now), Err(error), "{what}");
    }
    let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + DAY * 40);
    let response = case.good(&delegate.der, &delegate.key).response();
    assert_eq!(case.signer(&response, now), Ok(false));
    assert_eq!(case.signer(&response, later), Err(SignerError::Expired));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_broken_response_is_read_or_refused_and_never_believed(
        position in any::<prop::sample::Index>(), octet in any::<u8>(), cut in any::<prop::sample::Index>()
    ) {
        static GOOD: std::sync::LazyLock<(Case, Vec<u8>)> = std::sync::LazyLock::new(|| {
            let case = Case::new();
            let delegate = case.ca.delegate(|_| ());
            let answering = Answering {
                nonce: Some(vec![7; 32]),
                ..case.good(&delegate.der, &delegate.key)
            };
            let response = answering.response();
            (case, response)
        });
        let (case, response) = &*GOOD;
        let mut changed = response.clone();
        changed[position.index(response.len())] = octet;
        if let Ok(parsed) = Response::parse(&changed) {
            let is_signed = case.signer(&changed, now()).is_ok();
            // what is behind the signature, such as the certificates' own signatures, is not under it
            prop_assert!(!is_signed || parsed.signed.message == Response::parse(response).unwrap().signed.message);
            let _ = case.answer(&changed);
        }
        prop_assert!(Response::parse(&response[..cut.index(response.len())]).is_err());
    }
}
