//! One question to an OCSP responder, and an answer that is believed: about the certificate in question, signed by who may,
//! and of this hour (RFC 6960 section 3.2).

use std::time::Duration;

use hyper::body::Bytes;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::http::{Bounds, Url};
use super::ocsp::{self, CertId, CertStatus, NONCE_OCTETS, Response};
use super::signer::{Signer, signer};
use super::{Common, SKEW_SECONDS};
use crate::trust::certificate::Certificate;
use crate::trust::verify::Link;

/// Octets of a response: signature, a responder's certificate, one answer. Real ones have two to three thousand.
const RESPONSE_OCTETS: usize = 64 << 10;
/// "If nextUpdate is not set, the responder is indicating that newer revocation information is available all the time":
/// then an answer has to be as fresh as this, or it may have been kept by somebody in between.
const UNDATED_SECONDS: i64 = 600;

/// An answer that is believed.
pub(super) struct Answer {
    pub(super) status: CertStatus,
    /// The last second at which it is, Unix seconds; a clock that is a little off is not looked at yet.
    pub(super) until: i64,
    /// Whether the responder says until when: else there is a newer answer all the time.
    pub(super) is_dated: bool,
    /// The whole response.
    pub(super) octets: Bytes,
    /// The certificate of whoever signed it for the issuer.
    pub(super) delegate: Option<CertificateDer<'static>>,
}

/// Asks.
///
/// # Errors
/// Why there is no answer that is believed; completes a sentence that begins with the URL.
pub(super) async fn consult(common: &Common, url: &Url, link: &Link, with_nonce: bool) -> Result<Answer, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let certificate = Certificate::parse(&link.certificate).map_err(|error| text(&error))?;
    let issuer = Certificate::parse(&link.issuer).map_err(|error| text(&error))?;
    let id = CertId::new(&certificate, &issuer);
    let mut nonce = [0; NONCE_OCTETS];
    if with_nonce {
        aws_lc_rs::rand::fill(&mut nonce).map_err(|_| "no randomness")?;
    }
    let request = ocsp::request(&id, with_nonce.then_some(&nonce));
    let bounds = Bounds {
        time: common.wait,
        octets: RESPONSE_OCTETS,
    };
    let asked = common.client.post(url, request, bounds).await;
    let octets = asked.map_err(|error| text(&error))?;
    let response = Response::parse(&octets).map_err(|error| text(&error))?;
    let now = common.now();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
    let signer = signer(&response, &link.issuer, &common.algorithms, time).map_err(|error| text(&error))?;
    if with_nonce && response.nonce.is_some_and(|returned| returned != nonce) {
        return Err("sends a response with another nonce than the request".to_owned());
    }
    let answer = response.answer(&id).map_err(|error| text(&error))?;
    let until = answer
        .next_update
        .unwrap_or(answer.this_update.saturating_add(UNDATED_SECONDS));
    if answer.this_update > now.saturating_add(SKEW_SECONDS) {
        return Err("sends a response from the future: does a clock go wrong?".to_owned());
    }
    if now > until.saturating_add(SKEW_SECONDS) {
        return Err("sends a response that has expired".to_owned());
    }
    Ok(Answer {
        status: answer.status,
        until,
        is_dated: answer.next_update.is_some(),
        delegate: match signer {
            Signer::Issuer => None,
            Signer::Delegate(der) => Some(der.to_vec().into()),
        },
        octets: octets.clone(),
    })
}
