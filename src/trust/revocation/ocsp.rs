//! OCSP's formats (RFC 6960 section 4): the request for one certificate, and the response, read into a borrowed view.
//!
//! Nothing is believed here: who signed a response, and whether it is of this hour, is `responder`'s to find.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::crl::{Revoked, reason_word};
use super::signature::Signed;
use crate::trust::certificate::Certificate;
use crate::trust::der::{Malformed, Reader, tag};
use crate::trust::time::Time;

/// Octets of a nonce (RFC 9654 section 2.1).
pub(super) const NONCE_OCTETS: usize = 32;

/// Certificates that come with a response and are looked at. A responder sends its own, and its issuer at most.
const CERTIFICATES_MAX: usize = 4;

/// Who is asked for: the certificate by its issuer's name and key, hashed, and its serial number (section 4.1.1).
///
/// SHA-1, since responders look their answers up by it (AD CS by nothing else; RFC 5019 section 2.1.1 demands it): it
/// tells CAs apart, and protects nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CertId<'a> {
    name_hash: [u8; 20],
    key_hash: [u8; 20],
    serial: &'a [u8],
}

impl<'a> CertId<'a> {
    pub(super) fn new(certificate: &Certificate<'a>, issuer: &Certificate<'_>) -> CertId<'a> {
        CertId {
            name_hash: sha1(&encode(tag::SEQUENCE, &[issuer.subject.as_bytes()])),
            key_hash: key_hash(issuer.public_key),
            serial: certificate.serial,
        }
    }

    /// Whether a responder with this name or key is the issuer of the certificate in question.
    fn matches(&self, reader: &mut Reader<'_>) -> Result<bool, Malformed> {
        let mut id = reader.inside(tag::SEQUENCE)?;
        let mut algorithm = id.inside(tag::SEQUENCE)?;
        let is_sha1 = algorithm.contents(tag::OID)? == SHA1;
        let name_hash = id.contents(tag::OCTET_STRING)?;
        let key_hash = id.contents(tag::OCTET_STRING)?;
        let serial = id.contents(tag::INTEGER)?;
        id.end()?;
        Ok(is_sha1 && name_hash == self.name_hash && key_hash == self.key_hash && serial == self.serial)
    }
}

/// The request for one certificate (section 4.1.1), unsigned.
pub(super) fn request(id: &CertId<'_>, nonce: Option<&[u8; NONCE_OCTETS]>) -> Vec<u8> {
    let algorithm = encode(tag::SEQUENCE, &[&encode(tag::OID, &[SHA1]), &encode(tag::NULL, &[])]);
    let id = encode(
        tag::SEQUENCE,
        &[
            &algorithm,
            &encode(tag::OCTET_STRING, &[&id.name_hash]),
            &encode(tag::OCTET_STRING, &[&id.key_hash]),
            &encode(tag::INTEGER, &[id.serial]),
        ],
    );
    let list = encode(tag::SEQUENCE, &[&encode(tag::SEQUENCE, &[&id])]);
    let extensions = nonce.map(|nonce| {
        let value = encode(tag::OCTET_STRING, &[&encode(tag::OCTET_STRING, &[nonce])]);
        let extension = encode(tag::SEQUENCE, &[&encode(tag::OID, &[NONCE]), &value]);
        encode(tag::constructed(2), &[&encode(tag::SEQUENCE, &[&extension])])
    });
    let to_be_signed = encode(tag::SEQUENCE, &[&list, extensions.as_deref().unwrap_or_default()]);
    encode(tag::SEQUENCE, &[&to_be_signed])
}

/// A response that has an answer in it, whoever it may be from.
#[derive(Debug)]
pub(super) struct Response<'a> {
    /// What its signer has signed.
    pub(super) signed: Signed<'a>,
    /// Who says to have signed.
    pub(super) responder: Responder<'a>,
    /// Certificates that came with it.
    pub(super) certificates: Vec<&'a [u8]>,
    /// The request's nonce, repeated; some responders leave it out.
    pub(super) nonce: Option<&'a [u8]>,
    answers: &'a [u8],
}

/// The responder by name, or by the hash of its key (section 4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Responder<'a> {
    /// The contents of the Name.
    Name(&'a [u8]),
    /// SHA-1 of the public key.
    Key(&'a [u8]),
}

impl Responder<'_> {
    /// Whether it can be this certificate's owner.
    pub(super) fn is(&self, certificate: &Certificate<'_>) -> bool {
        match self {
            Responder::Name(name) => *name == certificate.subject.as_bytes(),
            Responder::Key(hash) => *hash == key_hash(certificate.public_key),
        }
    }
}

/// What a response says of one certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: CertStatus,
    /// Unix seconds.
    pub(super) this_update: i64,
    /// Unix seconds.
    pub(super) next_update: Option<i64>,
}

/// CertStatus (section 4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertStatus {
    Good,
    Revoked(Revoked),
    /// "The responder doesn't know about the certificate being requested."
    Unknown,
}

/// Why a response has no answer in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResponseError {
    #[error("sends {0}")]
    Malformed(#[from] Malformed),
    /// OCSPResponseStatus, in its own words.
    #[error("says `{0}`")]
    Refused(&'static str),
    #[error("sends a response with a critical extension that is not understood")]
    Critical,
    #[error("sends a response about another certificate")]
    OtherCertificate,
}

impl<'a> Response<'a> {
    /// Reads an OCSPResponse.
    pub(super) fn parse(octets: &'a [u8]) -> Result<Response<'a>, ResponseError> {
        let mut outer = Reader::new(octets, WHAT);
        let mut whole = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        match whole.contents(tag::ENUMERATED)? {
            [0] => {}
            [1] => return Err(ResponseError::Refused("malformedRequest")),
            [2] => return Err(ResponseError::Refused("internalError")),
            [3] => return Err(ResponseError::Refused("tryLater")),
            [5] => return Err(ResponseError::Refused("sigRequired")),
            [6] => return Err(ResponseError::Refused("unauthorized")),
            _ => return Err(Malformed(WHAT).into()),
        }
        let mut bytes = whole.inside(tag::constructed(0))?.inside(tag::SEQUENCE)?;
        if bytes.contents(tag::OID)? != BASIC {
            return Err(Malformed("OCSP response of the basic kind").into());
        }
        let mut basic = Reader::new(bytes.contents(tag::OCTET_STRING)?, WHAT).inside(tag::SEQUENCE)?;
        let signed = Signed::read(&mut basic)?;
        let mut certificates = Vec::new();
        if let Some(explicit) = basic.optional(tag::constructed(0))? {
            let mut list = Reader::new(explicit.contents, WHAT).inside(tag::SEQUENCE)?;
            while !list.is_at_end() && certificates.len() < CERTIFICATES_MAX {
                certificates.push(list.element(tag::SEQUENCE)?.raw);
            }
        }

        let mut data = Reader::new(signed.message, WHAT).inside(tag::SEQUENCE)?;
        data.optional(tag::constructed(0))?; // the version
        let responder = data.any()?;
        let responder = match responder.tag {
            BY_NAME => Responder::Name(Reader::new(responder.contents, WHAT).contents(tag::SEQUENCE)?),
            BY_KEY => Responder::Key(Reader::new(responder.contents, WHAT).contents(tag::OCTET_STRING)?),
            _ => return Err(Malformed(WHAT).into()),
        };
        Time::read(&mut data)?; // producedAt: how old an answer is, thisUpdate says
        let answers = data.contents(tag::SEQUENCE)?;
        let nonce = match data.optional(tag::constructed(1))? {
            Some(explicit) => extensions(explicit.contents)?,
            None => None,
        };
        data.end()?;
        Ok(Response {
            signed,
            responder,
            certificates,
            nonce,
            answers,
        })
    }

    /// What it says of a certificate.
    pub(super) fn answer(&self, id: &CertId<'_>) -> Result<Answer, ResponseError> {
        let mut answers = Reader::new(self.answers, WHAT);
        while !answers.is_at_end() {
            let mut single = answers.inside(tag::SEQUENCE)?;
            let is_it = id.matches(&mut single)?;
            let status = single.any()?;
            let status = match status.tag {
                GOOD => CertStatus::Good,
                REVOKED => CertStatus::Revoked(revoked(status.contents)?),
                UNKNOWN => CertStatus::Unknown,
                _ => return Err(Malformed(WHAT).into()),
            };
            let this_update = Time::read(&mut single)?.unix;
            let next_update = match single.optional(tag::constructed(0))? {
                Some(explicit) => Some(Time::read(&mut Reader::new(explicit.contents, WHAT))?.unix),
                None => None,
            };
            if let Some(explicit) = single.optional(tag::constructed(1))? {
                extensions(explicit.contents)?;
            }
            single.end()?;
            if is_it {
                return Ok(Answer {
                    status,
                    this_update,
                    next_update,
                });
            }
        }
        Err(ResponseError::OtherCertificate)
    }
}

/// RevokedInfo.
fn revoked(contents: &[u8]) -> Result<Revoked, Malformed> {
    let mut info = Reader::new(contents, WHAT);
    let since = Time::read(&mut info)?.unix;
    let reason = match info.optional(tag::constructed(0))? {
        Some(explicit) => Reader::new(explicit.contents, WHAT)
            .contents(tag::ENUMERATED)?
            .first()
            .and_then(|code| reason_word(*code)),
        None => None,
    };
    Ok(Revoked { since, reason })
}

/// The nonce among extensions, if there is one.
fn extensions(contents: &[u8]) -> Result<Option<&[u8]>, ResponseError> {
    let mut list = Reader::new(contents, WHAT).inside(tag::SEQUENCE)?;
    let mut nonce = None;
    while !list.is_at_end() {
        let mut extension = list.inside(tag::SEQUENCE)?;
        let oid = extension.contents(tag::OID)?;
        let critical = extension.optional_boolean()?;
        let value = extension.contents(tag::OCTET_STRING)?;
        if oid == NONCE {
            nonce = Some(Reader::new(value, "nonce").contents(tag::OCTET_STRING)?);
        } else if critical {
            return Err(ResponseError::Critical);
        }
    }
    Ok(nonce)
}

/// The hash of a SubjectPublicKeyInfo's key: "the value of the BIT STRING subject public key field ... excluding the tag,
/// length, and number of unused bits" (section 4.1.1).
fn key_hash(public_key: &[u8]) -> [u8; 20] {
    let key = || {
        let mut info = Reader::new(public_key, "public key").inside(tag::SEQUENCE).ok()?;
        info.element(tag::SEQUENCE).ok()?;
        info.bit_string().ok()
    };
    sha1(key().unwrap_or_default())
}

fn sha1(octets: &[u8]) -> [u8; 20] {
    let mut hash = [0; 20];
    hash.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, octets).as_ref());
    hash
}

/// An element of these contents.
pub(super) fn encode(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let length: usize = contents.iter().map(|part| part.len()).sum();
    let octets = length.to_be_bytes();
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    let octets = octets.get(zeros..).unwrap_or_default();
    let mut element = vec![tag];
    match (u8::try_from(length), u8::try_from(octets.len())) {
        (Ok(short @ 0..=0x7F), _) => element.push(short),
        (_, Ok(count)) => {
            element.push(0x80 | count);
            element.extend_from_slice(octets);
        }
        _ => {}
    }
    contents.iter().for_each(|part| element.extend_from_slice(part));
    element
}

const WHAT: &str = "OCSP response";
const SHA1: &[u8] = &[0x2B, 0x0E, 3, 2, 0x1A];
pub(super) const BASIC: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 48, 1, 1];
pub(super) const NONCE: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 48, 1, 2];
const BY_NAME: u8 = tag::constructed(1);
const BY_KEY: u8 = tag::constructed(2);
const GOOD: u8 = tag::context(0);
const REVOKED: u8 = tag::constructed(1);
const UNKNOWN: u8 = tag::context(2);
