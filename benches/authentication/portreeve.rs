//! Portreeve itself: `portreeve serve` with a site of its own in an SQLite file, and the requests of a switch.

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::portreeve::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness, remembering};
use ::portreeve::eap::tls::{TlsVersion, provider};
use ::portreeve::nas::{Answer, Attempt, Credentials};
use ::portreeve::radius::crypto::Secret;
use ::portreeve::radius::packet::number::*;
use ::portreeve::trust::pki::SERVER_NAME;
use rustls::time_provider::DefaultTimeProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use zeroize::Zeroizing;

use super::Fallible;
use super::certificates::{Identity, Pki};
use super::child::Server;
use super::lanes::{LANES, Lane};

const ETHERNET: u32 = 15;
const FRAMED: u32 = 2;
const CALL_CHECK: u32 = 10;
/// The fifth octet of their MAC addresses.
const PRINTERS: u8 = 0;
const LAPTOPS: u8 = 1;
/// What the laptops call themselves.
const IDENTITY: &str = "laptop-7";
const FRAGMENT_OCTETS: usize = 1024;
/// Sessions that a laptop remembers.
const SESSIONS: usize = 4;

/// One site: laptops by certificate into VLAN 120, MAC addresses that are [`listed`] into VLAN 130; a first policy fails at its last rule.
const POLICIES: &str = r#"
[[policy]]
name = "engineers"
action = "accept"
rules = [
    "NAS-Port-Type == Ethernet",
    "TLS-Client-Cert-Issuer contains Portreeve",
    "TLS-Client-Cert-Subject-Alt-Name-Dns ends-with .engineers.example.com",
]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 110"]

[[policy]]
name = "laptops"
action = "accept"
rules = [
    "NAS-Port-Type == Ethernet",
    "TLS-Client-Cert-Issuer contains Portreeve",
    "TLS-Client-Cert-Subject-Alt-Name-Dns ends-with .example.com",
]
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 120"]

[[site]]
name = "Benchmark"
tag = "bench"
policies = [{ policy = "engineers", priority = 1 }, { policy = "laptops", priority = 2 }]

[[site.client]]
network = "127.0.0.0/8"
secret = "testing123"
"#;

/// A printer of the site.
fn listed(address: &str) -> String {
    format!(
        "[[site.mac]]\naddress = {address:?}\nname = \"printer\"\nresponses = [\"Tunnel-Type:1 = VLAN\", \
         \"Tunnel-Medium-Type:1 = IEEE-802\", \"Tunnel-Private-Group-Id:1 = 130\"]\n"
    )
}

/// Starts the server in `folder`, and returns when it answers.
pub fn start(folder: &Path, pki: &Pki) -> Fallible<Server> {
    let [ca, certificate, key] = pki.write(folder)?;
    let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let config = folder.join("portreeve.toml");
    let text = format!(
        "[radius]\nlisten = \"{address}\"\n[database]\nurl = \"sqlite:bench.db\"\n[ops]\nlisten = \"off\"\n\
         [eap.tls]\ncertificate = {certificate:?}\nprivate_key = {key:?}\nclient_ca = {ca:?}\n"
    );
    fs::write(&config, text)?;
    let policies = folder.join("policies.toml");
    let printers: String = (0..LANES).map(|lane| listed(&mac(PRINTERS, lane))).collect();
    fs::write(&policies, format!("{POLICIES}\n{printers}"))?;
    let portreeve = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
        command.arg("--config").arg(&config).args(arguments);
        command
    };
    for arguments in [&["migrate"][..], &["import", &policies.to_string_lossy()]] {
        let output = portreeve(arguments).output()?;
        if !output.status.success() {
            return Err(format!("`portreeve {arguments:?}`: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    // its log goes where a log goes, to a file
    let log = folder.join("log");
    let process = portreeve(&["serve"])
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .spawn()?;
    let server = Server::new(process, address);
    match answers(address) {
        Ok(()) => Ok(server),
        Err(error) => Err(format!("{error}; its log:\n{}", fs::read_to_string(&log).unwrap_or_default()).into()),
    }
}

/// Asks until there is an answer, at most 20 seconds.
fn answers(server: SocketAddr) -> Fallible<()> {
    let mut nas = printer(0)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let end = Instant::now() + Duration::from_secs(20);
    let mut buffer = [0; 4096];
    while Instant::now() < end {
        let mut attempt = nas.attempt();
        let request = nas.request(&mut attempt)?;
        socket.send_to(&request, server)?;
        if let Ok(length) = socket.recv(&mut buffer) {
            return match attempt.reply(buffer.get(..length).unwrap_or_default())? {
                Answer::Accept(_) => Ok(()),
                other => Err(format!("{other:?} for the printer").into()),
            };
        }
    }
    Err("the server does not answer".into())
}

/// One port of a switch, and the device behind it.
pub struct Nas {
    secret: Arc<Secret>,
    user_name: String,
    attributes: Arc<[u8]>,
    identifier: u8,
    authenticator: [u8; 16],
    supplicants: Supplicants,
}

/// What of EAP the device speaks.
enum Supplicants {
    /// Nothing: it is a printer, known by its MAC address.
    None,
    /// One.
    One(Arc<PeerSettings>),
    /// Each authentication is another device's, in turn.
    InTurn(Arc<[Arc<PeerSettings>]>, usize),
}

impl Nas {
    fn new(mac: &str, service_type: u32, supplicants: Supplicants) -> Fallible<Nas> {
        let mut authenticator = [0; 16];
        aws_lc_rs::rand::fill(&mut authenticator)?;
        let user_name = match service_type {
            FRAMED => IDENTITY.to_owned(),
            _ => mac.replace('-', ""),
        };
        let mut attributes = Vec::new();
        for (number, value) in [
            (NAS_IP_ADDRESS, &[192, 0, 2, 10][..]),
            (NAS_PORT, &50_101u32.to_be_bytes()),
            (NAS_PORT_TYPE, &ETHERNET.to_be_bytes()),
            (SERVICE_TYPE, &service_type.to_be_bytes()),
            (FRAMED_MTU, &1400u32.to_be_bytes()),
            (CALLED_STATION_ID, b"00-1b-78-00-00-01"),
            (CALLING_STATION_ID, mac.as_bytes()),
        ] {
            attributes.extend([number, u8::try_from(value.len() + 2)?]);
            attributes.extend(value);
        }
        let secret = Arc::new(Secret::new(b"testing123"));
        Ok(Nas {
            secret,
            user_name,
            attributes: attributes.into(),
            identifier: 0,
            authenticator,
            supplicants,
        })
    }

    fn attempt(&mut self) -> Attempt {
        let supplicant = match &mut self.supplicants {
            Supplicants::None => None,
            Supplicants::One(one) => Some(Arc::clone(one)),
            Supplicants::InTurn(all, next) => {
                *next = (*next + LANES) % all.len();
                all.get(*next).cloned()
            }
        };
        let credentials = match supplicant {
            Some(supplicant) => Credentials::Eap(Box::new(Peer::new(supplicant))),
            None => Credentials::Pap(self.user_name.clone().into_bytes()),
        };
        let user_name = self.user_name.clone().into_bytes();
        Attempt::new(self.secret.clone(), user_name, self.attributes.clone(), credentials)
    }

    /// The next request. Its authenticator is not random as it should be, but never the same: randomness is not what is
    /// measured.
    fn request(&mut self, attempt: &mut Attempt) -> Fallible<Vec<u8>> {
        self.identifier = self.identifier.wrapping_add(1);
        self.authenticator = u128::from_be_bytes(self.authenticator).wrapping_add(1).to_be_bytes();
        let mut request = Vec::new();
        attempt.request(self.identifier, self.authenticator, &mut request)?;
        Ok(request)
    }
}

/// One authentication, every reply checked.
pub async fn authenticate(Lane { state: nas, port }: &mut Lane<Nas>) -> Fallible<()> {
    let mut attempt = nas.attempt();
    loop {
        let request = nas.request(&mut attempt)?;
        match attempt.reply(port.ask(&request).await?)? {
            Answer::Challenge => {}
            Answer::Accept(_) => return Ok(()),
            Answer::Reject(_, failure) => return Err(format!("{} is rejected: {failure:?}", nas.user_name).into()),
        }
    }
}

/// A lane that authenticates a listed printer.
pub fn printer(index: usize) -> Fallible<Nas> {
    Nas::new(&mac(PRINTERS, index), CALL_CHECK, Supplicants::None)
}

/// The same by EAP-MD5.
pub fn printer_by_md5(index: usize) -> Fallible<Nas> {
    let mac = mac(PRINTERS, index);
    let name = mac.replace('-', "").into_bytes();
    let supplicant = PeerSettings {
        identity: name.clone(),
        md5_password: Some(Zeroizing::new(name)),
        tls: None,
        tunnel: None,
        fragment_size: FRAGMENT_OCTETS,
        strictness: Strictness::Strict,
    };
    Nas::new(&mac, CALL_CHECK, Supplicants::One(Arc::new(supplicant)))
}

/// Makes lanes that authenticate laptops, all by the same certificate, each with a MAC address of its own.
pub fn laptops(pki: &Pki, version: TlsVersion) -> Fallible<impl Fn(usize) -> Fallible<Nas>> {
    let one = Arc::new(laptop(tls(pki, &pki.device, version)?));
    Ok(move |index| Nas::new(&mac(LAPTOPS, index), FRAMED, Supplicants::One(Arc::clone(&one))))
}

/// Makes lanes whose laptops come back with the session that they were given.
pub fn returning_laptops(pki: &Pki, version: TlsVersion) -> Fallible<impl Fn(usize) -> Fallible<Nas>> {
    let tls = tls(pki, &pki.device, version)?;
    let each: Vec<_> = (0..LANES)
        .map(|_| Arc::new(laptop(remembering(&tls, SESSIONS))))
        .collect();
    Ok(move |index| {
        let one = each.get(index).ok_or("no such lane")?;
        Nas::new(&mac(LAPTOPS, index), FRAMED, Supplicants::One(Arc::clone(one)))
    })
}

/// Makes lanes that authenticate so many laptops in turn, each with a certificate of its own.
pub fn many_laptops(pki: &Pki, version: TlsVersion, count: usize) -> Fallible<impl Fn(usize) -> Fallible<Nas>> {
    let all: Arc<[_]> = pki
        .devices(count)?
        .iter()
        .map(|device| Ok(Arc::new(laptop(tls(pki, device, version)?))))
        .collect::<Fallible<_>>()?;
    // where a lane left off in the round before
    let turns: Vec<_> = (0..LANES).map(AtomicUsize::new).collect();
    Ok(move |index: usize| {
        let turn = turns.get(index).ok_or("no such lane")?;
        let first = turn.fetch_add(count / 7 / LANES * LANES, Ordering::Relaxed) % count;
        Nas::new(
            &mac(LAPTOPS, index),
            FRAMED,
            Supplicants::InTurn(Arc::clone(&all), first),
        )
    })
}

/// Each lane has a device of its own: a conversation that begins ends another of the same device.
fn mac(kind: u8, index: usize) -> String {
    format!("02-00-00-00-{kind:02x}-{index:02x}")
}

fn laptop(tls: Arc<ClientConfig>) -> PeerSettings {
    PeerSettings {
        identity: IDENTITY.into(),
        md5_password: None,
        tls: Some(tls),
        tunnel: None,
        fragment_size: FRAGMENT_OCTETS,
        strictness: Strictness::Strict,
    }
}

fn tls(pki: &Pki, device: &Identity, version: TlsVersion) -> Fallible<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca())?;
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(DefaultTimeProvider),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names: vec![ServerName::try_from(SERVER_NAME)?],
        },
        certificate: Some(ClientCertificate {
            chain: vec![device.certificate.clone()],
            key: device.key.clone_key(),
        }),
        min_version: version,
        max_version: version,
    };
    Ok(tls.build()?)
}
