//! Sessions that are taken up again: what it costs, what it takes, and what makes a full handshake of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portreeve::eap::peer::{self, ClientTls, PeerSettings, remembering};
use portreeve::eap::server::{Conversation, Credentials, Settings, Verdict};
use portreeve::eap::tls::ticket::{LIFETIME_MAX, Offered, Scope, TicketKeys, Tickets};
use portreeve::eap::tls::{TlsServer, TlsVersion};
use portreeve::reason::Reason;
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::support::*;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];
pub const HOUR: Duration = Duration::from_secs(3_600);

/// A clock that both ends go by: [`Noon`], until it is moved.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let noon = Noon.current_time()?.as_secs();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(
            noon + self.0.load(Ordering::Relaxed),
        )))
    }
}

pub fn keys(secret: &str) -> Arc<TicketKeys> {
    Arc::new(TicketKeys::new([secret.as_bytes()]).unwrap())
}

pub fn tickets(keys: Arc<TicketKeys>, lifetime: Duration, authorities: &[CertificateDer<'_>]) -> Option<Arc<Tickets>> {
    let authorities = authorities.iter().map(|der| (&**der, true));
    Some(Arc::new(Tickets::new(keys, lifetime, "default", authorities)))
}

/// A node of a fleet that shares one secret.
pub fn node(pki: &Pki, clock: &Clock) -> TlsServer {
    TlsServer {
        tickets: tickets(keys("fleet"), 12 * HOUR, &[pki.authority()]),
        time: Arc::new(clock.clone()),
        ..(*pki.tls_server()).clone()
    }
}

/// A supplicant that remembers its sessions.
fn device(tls: ClientTls, clock: &Clock) -> Arc<PeerSettings> {
    let tls = ClientTls {
        time: Arc::new(clock.clone()),
        ..tls
    };
    let settings = peer_settings(tls, 1_400);
    Arc::new(PeerSettings {
        tls: settings.tls.as_deref().map(|tls| remembering(tls, 8)),
        ..(*settings).clone()
    })
}

pub fn at(node: &TlsServer, version: TlsVersion) -> Settings {
    settings(Arc::new(node.clone()), version, 1_024)
}

/// A conversation that succeeds, and the chain that was decided by.
#[track_caller]
pub fn succeeds(
    settings: Settings,
    device: &Arc<PeerSettings>,
) -> (Outcome, Conversation, Vec<CertificateDer<'static>>) {
    let mut shown = Vec::new();
    let mut decide = |credentials| {
        let Credentials::Certificate { chain, .. } = credentials else {
            panic!("no certificate")
        };
        shown = chain;
        Verdict::Accept
    };
    let (outcome, conversation, peer) =
        converse_with(settings, Arc::clone(device), &mut decide, &mut |_, _, packet| packet);
    outcome.expect_keys();
    assert_eq!(conversation.resumed(), peer.resumed());
    (outcome, conversation, shown)
}

#[test]
fn a_session_begun_at_one_node_goes_on_at_another_with_the_same_chain_and_new_keys() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let (one, other) = (node(pki, &clock), node(pki, &clock));
    for version in VERSIONS {
        let device = device(client_tls(pki), &clock);
        let (full, conversation, shown) = succeeds(at(&one, version), &device);
        assert!(!conversation.resumed());
        assert_eq!(conversation.ticket(), None);
        assert_eq!(full.rounds, 4, "{version}");
        assert_eq!(conversation.presented(), Some(&shown[..]));
        // again and again: each resumption brings the ticket of the next
        for _ in 0..3 {
            clock.advance(HOUR);
            let (resumed, conversation, shown_again) = succeeds(at(&other, version), &device);
            assert!(conversation.resumed(), "{version}");
            assert_eq!(conversation.ticket(), Some(Offered::Resumed));
            assert_eq!(
                resumed.rounds,
                if version == TlsVersion::V12 { 3 } else { 4 },
                "{version}"
            );
            assert_eq!(shown_again, shown);
            assert_eq!(conversation.presented(), Some(&shown[..]));
            assert_ne!(resumed.expect_keys(), full.expect_keys());
        }
    }
}

#[test]
fn without_tickets_at_the_server_nothing_is_resumed() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    for version in VERSIONS {
        let device = device(client_tls(pki), &clock);
        for _ in 0..2 {
            let (_, conversation, _) = succeeds(settings(pki.tls_server(), version, 1_024), &device);
            assert!(!conversation.resumed());
        }
    }
}

/// What is changed between two conversations of one device, and what becomes of its ticket then.
#[test]
fn a_ticket_is_of_no_use_elsewhere_later_or_under_other_secrets() {
    let pki = Pki::shared(Key::P256);
    let other = Pki::named(Key::P256, "Another CA");
    type Change = fn(&Pki, &mut Settings, &mut TlsServer, &Clock);
    let cases: [(&str, Change, Offered); 8] = [
        (
            "another site",
            |_, settings, _, _| settings.scope = Scope::at(2),
            Offered::Unusable,
        ),
        (
            "another secret",
            |other, _, tls, _| tls.tickets = tickets(keys("elsewhere"), 12 * HOUR, &[other.authority()]),
            Offered::Unusable,
        ),
        (
            "one more client CA",
            |other, _, tls, _| {
                let authorities = [Pki::shared(Key::P256).authority(), other.authority()];
                tls.tickets = tickets(keys("fleet"), 12 * HOUR, &authorities);
            },
            Offered::Unusable,
        ),
        (
            "other client CAs",
            |other, _, tls, _| tls.tickets = tickets(keys("fleet"), 12 * HOUR, &[other.authority()]),
            Offered::Unusable,
        ),
        ("too late", |_, _, _, clock| clock.advance(12 * HOUR), Offered::Expired),
        (
            "a shorter life since",
            |_, _, tls, clock| {
                clock.advance(2 * HOUR);
                tls.tickets = tickets(keys("fleet"), HOUR, &[Pki::shared(Key::P256).authority()]);
            },
            Offered::Expired,
        ),
        (
            "days later",
            |_, _, _, clock| clock.advance(72 * HOUR),
            Offered::Unusable,
        ),
        (
            "another suite",
            |_, settings, tls, _| {
                let mut provider = (*tls.provider).clone();
                let spoken = settings.max_version;
                provider.cipher_suites.retain(|suite| {
                    suite.suite().as_str().is_some_and(|name| match spoken {
                        TlsVersion::V12 => name == "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                        TlsVersion::V13 => name == "TLS13_AES_128_GCM_SHA256",
                    })
                });
                tls.provider = Arc::new(provider);
            },
            Offered::Unusable,
        ),
    ];
    for (name, change, offered) in cases {
        for version in VERSIONS {
            let clock = Clock::default();
            // rustls's client does not offer what its own clock says has ended
            let device = device(client_tls(pki), &Clock::default());
            let mut tls = node(pki, &clock);
            succeeds(at(&tls, version), &device);
            let mut settings = at(&tls, version);
            change(&other, &mut settings, &mut tls, &clock);
            settings.tls = Arc::new(tls);
            let (_, conversation, shown) = succeeds(settings, &device);
            assert!(!conversation.resumed(), "{name}, {version}");
            assert_eq!(conversation.ticket(), Some(offered), "{name}, {version}");
            assert_eq!(conversation.presented(), Some(&shown[..]), "{name}, {version}");
        }
    }
}

/// The certificate ends before the session does: the full handshake says why.
#[test]
fn a_session_does_not_outlive_its_certificate() {
    let pki = Pki::shared(Key::P256);
    let noon = rcgen::date_time_ymd(2030, 1, 1) + 12 * HOUR;
    let mut params = params("laptop-7", ExtendedKeyUsagePurpose::ClientAuth);
    params.not_after = noon + 2 * HOUR;
    let short = pki.issue(params);
    for version in VERSIONS {
        let clock = Clock::default();
        let tls = ClientTls {
            certificate: Some(certificate(&short)),
            ..client_tls(pki)
        };
        let device = device(tls, &clock);
        let node = node(pki, &clock);
        succeeds(at(&node, version), &device);
        clock.advance(HOUR);
        let (_, conversation, _) = succeeds(at(&node, version), &device);
        assert!(conversation.resumed());
        clock.advance(2 * HOUR);
        let (outcome, conversation, _) =
            converse_with(at(&node, version), device, &mut accept, &mut |_, _, packet| packet);
        assert_eq!(outcome.reason(), Some(Reason::CertificateExpired), "{version}");
        assert_eq!(conversation.ticket(), Some(Offered::Refused));
        assert!(!conversation.resumed());
        assert_eq!(conversation.presented(), Some(&short.chain[..]));
        let expected = peer::Failure::Alert("certificate_expired".to_owned());
        assert!(matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected));
    }
}

/// However often it is taken up: its age counts from the full handshake, and never passes seven days.
#[test]
fn resuming_does_not_make_a_session_younger() {
    let pki = Pki::shared(Key::P256);
    for version in VERSIONS {
        let clock = Clock::default();
        let device = device(client_tls(pki), &clock);
        let node = TlsServer {
            tickets: tickets(keys("fleet"), 10 * LIFETIME_MAX, &[pki.authority()]),
            ..node(pki, &clock)
        };
        succeeds(at(&node, version), &device);
        for hours in 1..=7 * 24 {
            clock.advance(HOUR);
            let (_, conversation, _) = succeeds(at(&node, version), &device);
            assert_eq!(conversation.resumed(), hours < 7 * 24, "{version}, {hours} hours");
        }
    }
}

#[test]
fn a_resumed_session_is_refused_by_the_decision_like_any_other() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    for version in VERSIONS {
        let device = device(client_tls(pki), &clock);
        succeeds(at(&node, version), &device);
        // in TLS 1.2 our Finished has left by then: the supplicant has done with TLS, and would not take an alert
        let expected = match version {
            TlsVersion::V12 => peer::Failure::Rejected,
            TlsVersion::V13 => peer::Failure::Alert("access_denied".to_owned()),
        };
        the_decision_refuses_a_session(at(&node, version), &device, &expected);
    }
}

/// The device comes back with a session, and the policies refuse it: it hears `expected`.
pub fn the_decision_refuses_a_session(settings: Settings, device: &Arc<PeerSettings>, expected: &peer::Failure) {
    let refuse = &mut |_| Verdict::Refuse(Reason::PolicyReject.into());
    let (outcome, conversation, _) = converse_with(settings, device.clone(), refuse, &mut |_, _, packet| packet);
    assert!(conversation.resumed());
    assert_eq!(outcome.reason(), Some(Reason::PolicyReject));
    assert!(
        matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if failure == expected),
        "{:?}",
        outcome.peer
    );
}

/// The ticket is ready by the time of the decision. A refusal drops it, and its alert is the first that leaves.
#[test]
fn who_is_refused_gets_no_ticket() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    for version in VERSIONS {
        let device = device(client_tls(pki), &clock);
        let refuse = &mut |_| Verdict::Refuse(Reason::PolicyReject.into());
        let (outcome, ..) = converse_with(at(&node, version), device.clone(), refuse, &mut |_, _, packet| packet);
        let expected = peer::Failure::Alert("access_denied".to_owned());
        assert!(
            matches!(&outcome.peer, Some(peer::Step::Failure(failure)) if *failure == expected),
            "{outcome:?}"
        );
        let (_, conversation, _) = succeeds(at(&node, version), &device);
        assert_eq!((conversation.resumed(), conversation.ticket()), (false, None));
    }
}

/// Octets of the ticket in the last flight before success: that of TLS 1.2 is in clear.
fn ticket_octets(outcome: &Outcome, version: TlsVersion) -> usize {
    let ways = outcome.packets.iter().rev();
    let (_, flight) = ways.filter(|(way, _)| *way == Way::ToPeer).nth(1).unwrap();
    match version {
        // EAP and flags; record; type and length; lifetime; length
        TlsVersion::V12 => {
            assert_eq!((flight[6], flight[11]), (0x16, 4), "no ticket in {flight:02x?}");
            usize::from(u16::from_be_bytes([flight[19], flight[20]]))
        }
        // the record of the ticket with 49 octets more in it, and that of the commitment
        TlsVersion::V13 => {
            let record = usize::from(u16::from_be_bytes([flight[9], flight[10]]));
            assert_eq!(
                flight.len(),
                6 + 5 + record + 5 + 1 + 1 + 16,
                "no ticket in {flight:02x?}"
            );
            record - 17 - 4 - 45
        }
    }
}

/// Tickets travel in fragments: P-256 within 700 octets, with what supplicants send along as well.
#[test]
fn tickets_are_small() {
    let clock = Clock::default();
    let p256 = Pki::shared(Key::P256);
    let mut many_names = params("laptop-7", ExtendedKeyUsagePurpose::ClientAuth);
    many_names.subject_alt_names = vec![
        SanType::DnsName("laptop-7.example.com".try_into().unwrap()),
        SanType::DnsName("laptop-7.corp.example.com".try_into().unwrap()),
        SanType::Rfc822Name("seven@example.com".try_into().unwrap()),
        SanType::URI("urn:uuid:0a6e2f5c-3a38-4b65-8d2e-2f1c4b6a7d90".try_into().unwrap()),
        SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], "seven@corp.example.com".into())),
    ];
    let many_names = p256.issue(many_names);
    let with_root = |identity: &Identity, pki: &Pki| {
        let mut identity = identity.clone();
        identity.chain.push(pki.authority());
        identity
    };
    let (p384, rsa) = (Pki::shared(Key::P384), Pki::shared(Key::Rsa2048));
    let with_strangers = with_root(&with_root(&many_names, p384), rsa);
    for (name, pki, identity, most) in [
        ("p256", p256, p256.client.clone(), 550),
        ("p256 and root", p256, with_root(&p256.client, p256), 460),
        ("p256, many names", p256, many_names.clone(), 650),
        ("p256, many names and root", p256, with_root(&many_names, p256), 610),
        ("p256 and a stranger", p256, with_root(&p256.client, p384), 700),
        ("p256, many names and strangers", p256, with_strangers, 700),
        ("p384", p384, p384.client.clone(), 550),
        ("rsa", rsa, rsa.client.clone(), 900),
        ("rsa and root", rsa, with_root(&rsa.client, rsa), 910),
    ] {
        for version in VERSIONS {
            let tls = ClientTls {
                certificate: Some(certificate(&identity)),
                ..client_tls(pki)
            };
            let (outcome, ..) = succeeds(at(&node(pki, &clock), version), &device(tls, &clock));
            let octets = ticket_octets(&outcome, version);
            println!("{name} {version}: {octets}");
            assert!(octets <= most, "{name} {version}: {octets}");
        }
    }
}

/// A server that hands out this as a ticket, whatever the session.
#[derive(Debug)]
struct Planted(Vec<u8>);

impl ProducesTickets for Planted {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3_600
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Makes the supplicant believe that `ticket` is one of its server's.
fn plant(ticket: &[u8], device: &PeerSettings, pki: &Pki, version: TlsVersion) {
    let tls = pki.tls_server();
    let versions = match version {
        TlsVersion::V12 => [&rustls::version::TLS12],
        TlsVersion::V13 => [&rustls::version::TLS13],
    };
    let mut config = ServerConfig::builder_with_details(tls.provider.clone(), tls.time.clone())
        .with_protocol_versions(&versions)
        .unwrap()
        .with_client_cert_verifier(tls.verifier.clone())
        .with_cert_resolver(tls.certificates.clone());
    config.ticketer = Arc::new(Planted(ticket.to_vec()));
    let name = ServerName::try_from("eap.invalid").unwrap();
    let client = ClientConnection::new(device.tls.clone().unwrap(), name).unwrap();
    let server = ServerConnection::new(Arc::new(config)).unwrap();
    let mut ends = [Connection::from(client), Connection::from(server)];
    for turn in 0..12 {
        let mut records = Vec::new();
        while ends[turn % 2].wants_write() {
            ends[turn % 2].write_tls(&mut records).unwrap();
        }
        let mut records = records.as_slice();
        let other = &mut ends[(turn + 1) % 2];
        while !records.is_empty() {
            other.read_tls(&mut records).unwrap();
            other.process_new_packets().unwrap();
        }
    }
}

/// What no node has sealed is no reason to refuse anybody, and does no harm.
#[test]
fn tickets_of_anybodys_making_lead_to_full_handshakes() {
    let (pki, clock) = (Pki::shared(Key::P256), Clock::default());
    let node = node(pki, &clock);
    let mut dice = Dice(7);
    let mut random = |octets: usize| -> Vec<u8> { (0..octets).map(|_| dice.roll(256) as u8).collect() };
    for version in VERSIONS {
        for octets in [1, 3, 4, 8, 24, 39, 40, 41, 64, 300, 1_024, 4_000, 8_000] {
            let ticket = random(octets);
            let device = device(client_tls(pki), &clock);
            plant(&ticket, &device, pki, version);
            let (_, conversation, _) = succeeds(at(&node, version), &device);
            assert!(!conversation.resumed());
            assert_eq!(conversation.ticket(), Some(Offered::Unusable), "{version}, {octets}");
        }
    }
    // more than a ClientHello may have: refused before anything is made of it
    let device = device(client_tls(pki), &clock);
    plant(&random(30_000), &device, pki, TlsVersion::V13);
    let outcome = converse(at(&node, TlsVersion::V13), device);
    assert_eq!(outcome.reason(), Some(Reason::EapInvalid));
}
