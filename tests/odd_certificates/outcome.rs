//! What becomes of a shape: at the verifier, in a whole conversation, and before rules.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use portreeve::eap::method::Methods;
use portreeve::eap::peer::{self, ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use portreeve::eap::server::{Conversation, FirstMessage, Offer, Settings, Step, Verdict};
use portreeve::eap::tls::ticket::Scope;
use portreeve::eap::tls::{TlsVersion, provider};
use portreeve::policy::facts::{Facts, Seen};
use portreeve::radius::dictionary::Dictionary;
use portreeve::radius::dictionary::types::Value;
use portreeve::trust::facts::FactIds;
use portreeve::trust::{self, Summary, TrustSet};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};

use crate::make::NOW;
use crate::pki;
use crate::shape::Shape;

/// What the verifier says.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepted,
    /// The reason, and the words behind it.
    Refused(&'static str, String),
}

impl fmt::Display for Outcome {
    /// As the page has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Accepted => f.write_str("accepted | "),
            Outcome::Refused(reason, detail) => write!(f, "`{reason}` | {detail}"),
        }
    }
}

#[derive(Debug)]
struct Then;

impl TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(now())
    }
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(NOW))
}

fn chain(shape: &Shape) -> Vec<CertificateDer<'static>> {
    shape.chain.iter().map(|der| der.clone().into()).collect()
}

/// What one shape is shown to.
pub fn set(shape: &Shape) -> TrustSet {
    let (dir, file) = (pki::folder().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let pem: String = shape.authorities.iter().map(|der| pem(der)).collect();
    fs::write(file.path(), pem).unwrap();
    let authorities = vec![file.path().to_owned()];
    let settings = trust::Settings {
        demands: shape.demands,
        ..trust::Settings::new(dir.join("server.pem"), dir.join("server.key"), authorities)
    };
    TrustSet::load(&settings, Arc::new(Then)).unwrap_or_else(|error| panic!("{}: {error}", shape.name))
}

fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut base64 = String::new();
    for three in der.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 0x3F;
            base64.push(if digit > three.len() {
                '='
            } else {
                char::from(DIGITS[value as usize])
            });
        }
    }
    format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n")
}

pub fn outcome(shape: &Shape) -> Outcome {
    outcome_at(&set(shape), &chain(shape))
}

/// What a set makes of a chain. Whatever else is said of a certificate must not panic either.
pub fn outcome_at(set: &TrustSet, chain: &[CertificateDer<'static>]) -> Outcome {
    let verified = chain
        .split_first()
        .map(|(leaf, presented)| set.verifier().verify(leaf, presented, now()));
    for der in chain {
        let _ = Summary::of(der).map(|summary| summary.to_string());
        let _ = trust::check::public_authority(der);
    }
    let dictionary = Dictionary::builtin();
    let mut facts = Facts::new(dictionary);
    set.push_facts(chain, &FactIds::new(dictionary), |_| true, now(), &mut facts);
    match verified {
        Some(Ok(())) => Outcome::Accepted,
        Some(Err(refused)) => Outcome::Refused(refused.reason.word(), refused.detail.unwrap_or_default()),
        None => panic!("an empty chain"),
    }
}

/// The values of one attribute that rules see; `malformed` where no rule on it holds.
pub fn fact(shape: &Shape, attribute: &str) -> Vec<String> {
    let (set, chain) = (set(shape), chain(shape));
    assert_eq!(outcome_at(&set, &chain), Outcome::Accepted, "{}", shape.name);
    let dictionary = Dictionary::builtin();
    let mut facts = Facts::new(dictionary);
    set.push_facts(&chain, &FactIds::new(dictionary), |_| true, now(), &mut facts);
    let id = dictionary
        .by_name(attribute)
        .unwrap_or_else(|| panic!("no attribute {attribute}"));
    match facts.seen(id) {
        Seen::Absent => vec!["absent".to_owned()],
        Seen::Malformed => vec!["malformed".to_owned()],
        Seen::Values(values) => values
            .map(|value| match value {
                Value::Text(text) => text.to_string(),
                other => panic!("{other:?}"),
            })
            .collect(),
    }
}

/// What `portreeve cert show` prints, or says of what it cannot read.
pub fn shown(shape: &Shape) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), shape.chain.iter().map(|der| pem(der)).collect::<String>()).unwrap();
    let shown = trust::show(file.path(), Dictionary::builtin());
    shown.unwrap_or_else(|error| error.to_string())
}

/// A whole EAP-TLS conversation with a device that has the certificate and its key.
pub fn converse(shape: &Shape, version: TlsVersion) -> Result<(), String> {
    let set = set(shape);
    let key = PrivatePkcs8KeyDer::from(shape.private.clone().ok_or("no key")?);
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(Then),
        trust: ServerTrust::Anybody,
        certificate: Some(ClientCertificate {
            chain: chain(shape),
            key: PrivateKeyDer::from(key),
        }),
        min_version: version,
        max_version: version,
    };
    let mut peer = Peer::new(Arc::new(PeerSettings {
        identity: b"anonymous".to_vec(),
        md5_password: None,
        tls: Some(tls.build().map_err(|error| error.to_string())?),
        tunnel: None,
        fragment_size: 1_400,
        strictness: Strictness::Strict,
    }));
    let settings = Settings {
        tls: Arc::clone(&set.tls),
        min_version: version,
        max_version: version,
        fragment_size: 1_400,
        methods: Methods::TLS,
        offer: Offer::Tls,
        scope: Scope::at(1),
    };
    let mut random = |octets: &mut [u8]| octets.fill(7);
    let identity = peer.identity_response(1);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    for _ in 0..500 {
        step = match step {
            Step::Send(request) => match peer.step(&request) {
                peer::Step::Reply(response) => conversation.step(&response, &mut random),
                other => return Err(format!("the device: {other:?}")),
            },
            Step::Decide(_) => conversation.decide(Verdict::Accept),
            Step::Success { .. } => return Ok(()),
            Step::Failure { reason, detail, .. } => return Err(format!("{reason}: {}", detail.unwrap_or_default())),
            Step::Discard(why) => return Err(format!("{why:?}")),
        };
    }
    Err("no end".to_owned())
}
