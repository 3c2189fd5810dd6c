use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::ResolvesServerCertUsingSni;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::CertificateDer;

use super::*;
use crate::eap::tls::provider;

const NOON: u64 = 1_893_499_200;
const HOUR_S: u64 = 3_600;
const LEAF: &[u8] = b"a device's certificate";
const ROOT: &[u8] = b"a root's";

#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Clock {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(
            self.0.load(Ordering::Relaxed),
        )))
    }
}

/// Takes [`LEAF`] and nothing else.
#[derive(Debug)]
struct Verifier;

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &**end_entity {
            LEAF => Ok(ClientCertVerified::assertion()),
            _ => Err(CertificateError::Expired.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![]
    }
}

struct Node {
    tls: TlsServer,
    clock: Arc<Clock>,
}

impl Node {
    fn new() -> Node {
        let keys = Arc::new(TicketKeys::new([&b"secret"[..]]).unwrap());
        let tickets = Tickets::new(keys, Duration::from_secs(HOUR_S), "default", [(ROOT, true)]);
        let clock = Arc::new(Clock::default());
        clock.set(NOON);
        let tls = TlsServer {
            provider: provider(),
            certificates: Arc::new(ResolvesServerCertUsingSni::new()),
            verifier: Arc::new(Verifier),
            time: Arc::clone(&clock) as _,
            tickets: Some(Arc::new(tickets)),
        };
        Node { tls, clock }
    }

    /// A conversation that has shown nothing yet.
    fn begin(&self) -> Ticketer {
        let recorder = Arc::new(Recorder::new(Arc::clone(&self.tls.verifier)));
        Ticketer::new(&self.tls, Scope::at(1), recorder).unwrap()
    }

    /// Seals what no session is.
    fn seal(&self, content: Vec<u8>) -> Vec<u8> {
        let Ticketer {
            tickets,
            binding,
            random,
            ..
        } = self.begin();
        tickets.keys.seal(NOON, &binding, content, random).unwrap()
    }

    /// One in which `chain` was shown: what rustls would seal at its end, and the ticket.
    fn full(&self, chain: &[&[u8]]) -> (Vec<u8>, Option<Vec<u8>>) {
        let ticketer = self.begin();
        let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(*der)).collect();
        let now = self.clock.current_time().unwrap();
        let _ = ticketer.recorder.verify_client_cert(&chain[0], &chain[1..], now);
        let session = session(&chain);
        let ticket = ticketer.encrypt(&session);
        (session, ticket)
    }
}

/// Octets in which nothing is found again.
fn noise(octets: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(octets).collect()
}

fn session(chain: &[CertificateDer<'_>]) -> Vec<u8> {
    [b"secrets", &chain::encode(chain)[..], b"times"].concat()
}

#[test]
fn what_was_sealed_comes_back_whole() {
    let node = Node::new();
    let (session, ticket) = node.full(&[LEAF, ROOT]);
    let ticketer = node.begin();
    assert_eq!(ticketer.offered(false), None);
    assert_eq!(ticketer.decrypt(&ticket.unwrap()), Some(session.clone()));
    assert_eq!(ticketer.offered(true), Some(Offered::Resumed));
    // opened, and yet rustls made a full handshake
    assert_eq!(ticketer.offered(false), Some(Offered::Unusable));

    // the next ticket has the same session in it, and no more time
    node.clock.set(NOON + HOUR_S / 2);
    let next = ticketer.encrypt(&session).unwrap();
    assert_eq!(u64::from(ticketer.lifetime()), HOUR_S / 2);
    node.clock.set(NOON + HOUR_S - 1);
    let late = node.begin();
    assert_eq!(late.decrypt(&next), Some(session.clone()));
    node.clock.set(NOON + HOUR_S);
    assert_eq!(late.encrypt(&session), None);
    assert_eq!(late.lifetime(), 0);
    let later = node.begin();
    assert_eq!(later.decrypt(&next), None);
    assert_eq!(later.offered(false), Some(Offered::Expired));
}

/// A ticket that was opened and not resumed has nothing to say in the full handshake that followed.
#[test]
fn a_full_handshake_begins_anew() {
    let node = Node::new();
    let (session, ticket) = node.full(&[LEAF]);
    node.clock.set(NOON + HOUR_S / 2);
    let ticketer = node.begin();
    assert!(ticketer.decrypt(&ticket.unwrap()).is_some());
    let leaf = CertificateDer::from(LEAF);
    let now = node.clock.current_time().unwrap();
    assert!(ticketer.recorder.verify_client_cert(&leaf, &[], now).is_ok());
    let ticket = ticketer.encrypt(&session).unwrap();
    assert_eq!(u64::from(ticketer.lifetime()), HOUR_S);
    node.clock.set(NOON + HOUR_S);
    assert_eq!(node.begin().decrypt(&ticket), Some(session));
}

#[test]
fn nodes_may_go_by_clocks_that_differ_a_little() {
    let node = Node::new();
    let (_, ticket) = node.full(&[LEAF]);
    let ticket = ticket.unwrap();
    for (now, offered) in [
        (NOON - SKEW_S, Offered::Resumed),
        (NOON - SKEW_S - 1, Offered::Expired),
        (0, Offered::Unusable),
    ] {
        node.clock.set(now);
        let ticketer = node.begin();
        ticketer.decrypt(&ticket);
        assert_eq!(ticketer.offered(true), Some(offered), "{now}");
    }
}

#[test]
fn the_verifier_in_force_has_the_last_word() {
    let node = Node::new();
    let (_, ticket) = node.full(&[b"another device's"]);
    let ticketer = node.begin();
    assert_eq!(ticketer.decrypt(&ticket.unwrap()), None);
    assert_eq!(ticketer.offered(false), Some(Offered::Refused));
}

#[test]
fn there_is_no_ticket_where_it_would_be_too_large_or_the_chain_is_not_found() {
    let node = Node::new();
    let noise = noise(20_000);
    // a large leaf is named, up to what is held by whoever opens it
    for (octets, fits) in [
        (1_300, true),
        (CHAIN_OCTETS_MAX - 3, true),
        (CHAIN_OCTETS_MAX, false),
        (20_000, false),
    ] {
        let ticket = node.full(&[&noise[..octets]]).1;
        assert_eq!(ticket.is_some(), fits, "{octets}");
        assert!(ticket.is_none_or(|ticket| ticket.len() < 200), "{octets}");
    }
    assert_eq!(node.full(&[&[7; CHAIN_OCTETS_MAX]]).1, None);
    assert!(node.full(&[&[7; CHAIN_OCTETS_MAX - 3]]).1.is_some());

    let ticketer = node.begin();
    assert_eq!(ticketer.encrypt(b"nothing was shown"), None);
    let leaf = CertificateDer::from(LEAF);
    let now = node.clock.current_time().unwrap();
    assert!(ticketer.recorder.verify_client_cert(&leaf, &[], now).is_ok());
    assert_eq!(ticketer.encrypt(b"a session in another form"), None);
}

/// What supplicants send along is in a ticket by name where it is large. Who has not seen it makes a full handshake, and has
/// then.
#[test]
fn large_intermediates_are_named_and_client_cas_need_no_name() {
    let (here, there) = (Node::new(), Node::new());
    let intermediate = noise(900);
    let alone = here.full(&[LEAF]).1.unwrap();
    let (session, ticket) = here.full(&[LEAF, &intermediate, ROOT]);
    let ticket = ticket.unwrap();
    assert!(ticket.len() < alone.len() + 40, "{} {}", ticket.len(), alone.len());
    assert_eq!(here.begin().decrypt(&ticket), Some(session.clone()));

    let stranger = there.begin();
    assert_eq!(stranger.decrypt(&ticket), None);
    assert_eq!(stranger.offered(false), Some(Offered::Unusable));
    there.full(&[LEAF, &intermediate]);
    assert_eq!(there.begin().decrypt(&ticket), Some(session));
    for small in [ROOT, &noise(400)[..]] {
        let (session, ticket) = here.full(&[LEAF, small]);
        assert_eq!(Node::new().begin().decrypt(&ticket.unwrap()), Some(session));
    }
}

#[test]
fn a_conversation_opens_few_tickets() {
    let node = Node::new();
    let ticket = node.full(&[LEAF]).1.unwrap();
    let ticketer = node.begin();
    for _ in 0..OPENED_MAX {
        assert!(ticketer.decrypt(&ticket).is_some());
    }
    for _ in 0..300 {
        assert_eq!(ticketer.decrypt(&ticket), None);
    }
}

#[test]
fn no_octet_of_a_ticket_may_change() {
    let node = Node::new();
    let ticket = node.full(&[LEAF]).1.unwrap();
    for at in 0..ticket.len() {
        for bit in 0..8 {
            let mut changed = ticket.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(node.begin().decrypt(&changed), None, "octet {at}, bit {bit}");
        }
        assert_eq!(node.begin().decrypt(&ticket[..at]), None, "{at} octets");
    }
    assert_eq!(node.begin().decrypt(&[&ticket[..], &[0; 60_000]].concat()), None);
}

proptest! {
    /// Neither tickets of strangers, nor what a node of another release might have sealed.
    #[test]
    fn whatever_is_sealed_or_sent_opens_without_harm(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
        let node = Node::new();
        prop_assert_eq!(node.begin().decrypt(&octets), None);
        prop_assert_eq!(node.begin().decrypt(&node.seal(octets)), None);
    }

    #[test]
    fn a_deflated_part_of_another_release_opens_without_harm(deflated in proptest::collection::vec(any::<u8>(), 0..600)) {
        let node = Node::new();
        let content = Content { checked_at: NOON, before: b"secrets", deflated: &deflated, after: b"" };
        prop_assert_eq!(node.begin().decrypt(&node.seal(content.write().unwrap())), None);
    }
}
