//! Tickets as a supplicant may offer them: arbitrary octets, and real tickets with some octets changed. Nothing but a ticket as it
//! was sealed resumes a session; every other one leads to a full handshake, and that succeeds.
//!
//! The first octet is the TLS version (odd: 1.3), the second `r` for octets as they are, `m` for changes to a real ticket: each
//! three octets, where (two) and by what it is changed.

use std::sync::{Arc, LazyLock};

use portreeve::eap::method::Methods;
use portreeve::eap::peer::{
    self, ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness, remembering,
};
use portreeve::eap::server::{Conversation, FirstMessage, Offer, Settings, Step, Verdict};
use portreeve::eap::tls::ticket::{Offered, Scope, TicketKeys, Tickets};
use portreeve::eap::tls::{TlsServer, TlsVersion, provider};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::DefaultTimeProvider;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::{PrivateKeyDer, ServerName};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// What fits into a ClientHello.
const TICKET_OCTETS_MAX: usize = 8_000;

pub fn fuzz(data: &[u8]) {
    let Some((&[version, kind], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let ticket = match kind {
        b'm' => changed(&TICKET, rest),
        _ => rest.to_vec(),
    };
    if ticket.is_empty() || ticket.len() > TICKET_OCTETS_MAX {
        return;
    }
    let version = if version % 2 == 1 {
        TlsVersion::V13
    } else {
        TlsVersion::V12
    };
    let config = remembering(&ENDS.client, 1);
    if let Err(error) = plant(&ticket, &config, version) {
        panic!("{error}");
    }
    let (conversation, _) = converse(config, version);
    assert!(!conversation.resumed(), "{ticket:02x?}");
    assert_eq!(conversation.ticket(), Some(Offered::Unusable), "{ticket:02x?}");
}

fn changed(original: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut ticket = original.to_vec();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
        match ticket.get_mut(at) {
            Some(octet) => *octet ^= change[2],
            None => ticket.push(change[2]),
        }
    }
    // what was changed back, or not at all, is not what is asked for here
    if ticket == *original {
        ticket.clear();
    }
    ticket
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
fn plant(ticket: &[u8], client: &Arc<ClientConfig>, version: TlsVersion) -> Fallible<()> {
    let tls = &ENDS.server;
    let versions = match version {
        TlsVersion::V12 => [&rustls::version::TLS12],
        TlsVersion::V13 => [&rustls::version::TLS13],
    };
    let mut config = ServerConfig::builder_with_details(tls.provider.clone(), tls.time.clone())
        .with_protocol_versions(&versions)?
        .with_client_cert_verifier(tls.verifier.clone())
        .with_cert_resolver(tls.certificates.clone());
    config.ticketer = Arc::new(Planted(ticket.to_vec()));
    let client = ClientConnection::new(client.clone(), ServerName::try_from("eap.invalid")?)?;
    let server = ServerConnection::new(Arc::new(config))?;
    let (mut one, mut other) = (Connection::from(client), Connection::from(server));
    for _ in 0..12 {
        let mut records = Vec::new();
        while one.wants_write() {
            one.write_tls(&mut records)?;
        }
        let mut records = records.as_slice();
        while !records.is_empty() {
            other.read_tls(&mut records)?;
            other.process_new_packets()?;
        }
        std::mem::swap(&mut one, &mut other);
    }
    Ok(())
}

/// A conversation that succeeds, and what the server has sent.
fn converse(config: Arc<ClientConfig>, version: TlsVersion) -> (Conversation, Vec<Vec<u8>>) {
    let mut peer = Peer::new(Arc::new(PeerSettings {
        identity: b"laptop".to_vec(),
        md5_password: None,
        tls: Some(config),
        tunnel: None,
        fragment_size: 4_000,
        strictness: Strictness::Strict,
    }));
    let settings = Settings {
        tls: Arc::clone(&ENDS.server),
        min_version: version,
        max_version: version,
        fragment_size: 4_000,
        scope: Scope::at(1),
        methods: Methods::ALL,
        offer: Offer::Tls,
    };
    let mut random = |octets: &mut [u8]| octets.fill(7);
    let identity = peer.identity_response(1);
    let (mut conversation, mut step) = Conversation::begin(settings, FirstMessage::Response(&identity), &mut random);
    let mut sent = Vec::new();
    loop {
        step = match step {
            Step::Decide(_) => conversation.decide(Verdict::Accept),
            Step::Send(packet) => match peer.step(&packet) {
                peer::Step::Reply(response) => {
                    sent.push(packet);
                    conversation.step(&response, &mut random)
                }
                other => panic!("{other:?}"),
            },
            Step::Success { .. } => return (conversation, sent),
            other => panic!("{other:?}"),
        };
    }
}

struct Ends {
    server: Arc<TlsServer>,
    client: Arc<ClientConfig>,
}

static ENDS: LazyLock<Ends> = LazyLock::new(|| match ends() {
    Ok((server, client)) => Ends { server, client },
    Err(error) => panic!("{error}"),
});

/// A ticket as it was sealed: that of TLS 1.2 is in clear, in the flight before the last acknowledgement.
static TICKET: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (_, sent) = converse(remembering(&ENDS.client, 1), TlsVersion::V12);
    let Some(flight) = sent.last() else {
        panic!("nothing was sent")
    };
    // EAP and flags; record; type and length; lifetime; length
    assert_eq!((flight[6], flight[11]), (0x16, 4), "{flight:02x?}");
    let octets = usize::from(u16::from_be_bytes([flight[19], flight[20]]));
    flight[21..21 + octets].to_vec()
});

fn ends() -> Fallible<(Arc<TlsServer>, Arc<ClientConfig>)> {
    let mut params = CertificateParams::new(vec![])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let issue = |usage| -> Fallible<_> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()])?;
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        Ok((vec![certificate.der().clone()], key))
    };
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone())?;
    let roots = Arc::new(roots);
    let (chain, key) = issue(ExtendedKeyUsagePurpose::ServerAuth)?;
    let key = provider().key_provider.load_private_key(key)?;
    let keys = Arc::new(TicketKeys::new([&b"secret"[..]]).map_err(|error| error.to_string())?);
    let lifetime = std::time::Duration::from_secs(3_600);
    let server = TlsServer {
        provider: provider(),
        certificates: Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))),
        verifier: WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build()?,
        time: Arc::new(DefaultTimeProvider),
        tickets: Some(Arc::new(Tickets::new(keys, lifetime, "default", [(&**ca.der(), true)]))),
    };
    let (chain, key) = issue(ExtendedKeyUsagePurpose::ClientAuth)?;
    let client = ClientTls {
        provider: provider(),
        time: Arc::new(DefaultTimeProvider),
        trust: ServerTrust::Ca { roots, names: vec![] },
        certificate: Some(ClientCertificate { chain, key }),
        min_version: TlsVersion::V12,
        max_version: TlsVersion::V13,
    };
    Ok((Arc::new(server), client.build()?))
}

/// Tickets of every length that a part of one has, and real ones changed in each part.
pub fn seeds() -> Vec<Vec<u8>> {
    let raw = [1_usize, 4, 24, 40, 300, 2_000].into_iter().map(|octets| {
        let mut seed = vec![octets as u8, b'r'];
        seed.resize(octets + 2, octets as u8);
        seed
    });
    // name, day, salt, what is sealed, tag and what follows
    let real = [0_u16, 4, 8, 24, 100, 0xFFFF].into_iter().map(|at| {
        let [high, low] = at.to_be_bytes();
        vec![(at / 4) as u8, b'm', high, low, 1]
    });
    raw.chain(real).collect()
}
