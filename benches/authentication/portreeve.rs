//! Portreeve itself: `portreeve serve` with a site of its own in an SQLite file, and the requests of a switch.

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::portreeve::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use ::portreeve::eap::tls::{TlsVersion, provider};
use ::portreeve::nas::{Answer, Attempt, Credentials};
use ::portreeve::radius::crypto::Secret;
use ::portreeve::radius::packet::number::*;
use ::portreeve::trust::pki::{Files, SERVER_NAME};
use rustls::RootCertStore;
use rustls::time_provider::DefaultTimeProvider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::Fallible;
use super::child::Server;
use super::lanes::Lane;

const ETHERNET: u32 = 15;
const FRAMED: u32 = 2;
const CALL_CHECK: u32 = 10;
/// The MAC address that is listed for the site.
const PRINTER: &str = "02-00-00-00-00-01";

/// One site: laptops by certificate into VLAN 120, one MAC address into VLAN 130; a first policy fails at its last rule.
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

[[site.mac]]
address = "02-00-00-00-00-01"
name = "printer"
responses = ["Tunnel-Type:1 = VLAN", "Tunnel-Medium-Type:1 = IEEE-802", "Tunnel-Private-Group-Id:1 = 130"]
"#;

/// Starts the server in `folder`, and returns when it answers.
pub fn start(folder: &Path, files: &Files) -> Fallible<Server> {
    let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let config = folder.join("portreeve.toml");
    let text = format!(
        "[radius]\nlisten = \"{address}\"\n[database]\nurl = \"sqlite:bench.db\"\n[ops]\nlisten = \"off\"\n\
         [eap.tls]\ncertificate = {:?}\nprivate_key = {:?}\nclient_ca = {:?}\n",
        files.server, files.server_key, files.ca
    );
    fs::write(&config, text)?;
    let policies = folder.join("policies.toml");
    fs::write(&policies, POLICIES)?;
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
    /// EAP-TLS; without, it is a printer's MAC address.
    laptop: Option<Arc<PeerSettings>>,
}

impl Nas {
    fn new(mac: &str, laptop: Option<Arc<PeerSettings>>) -> Fallible<Nas> {
        let mut authenticator = [0; 16];
        aws_lc_rs::rand::fill(&mut authenticator)?;
        let user_name = match &laptop {
            Some(laptop) => String::from_utf8_lossy(&laptop.identity).into_owned(),
            None => mac.replace('-', ""),
        };
        let mut attributes = Vec::new();
        let service_type = if laptop.is_some() { FRAMED } else { CALL_CHECK };
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
            laptop,
        })
    }

    fn attempt(&self) -> Attempt {
        let credentials = match &self.laptop {
            Some(laptop) => Credentials::Eap(Box::new(Peer::new(laptop.clone()))),
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

/// A lane that authenticates the listed printer.
pub fn printer(_: usize) -> Fallible<Nas> {
    Nas::new(PRINTER, None)
}

/// Makes lanes that authenticate laptops by the development certificate, each with a MAC address of its own.
pub fn laptops(files: &Files, version: TlsVersion) -> Fallible<impl Fn(usize) -> Fallible<Nas>> {
    let chain = |path| -> Fallible<Vec<CertificateDer<'static>>> {
        Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
    };
    let mut roots = RootCertStore::empty();
    for ca in chain(&files.ca)? {
        roots.add(ca)?;
    }
    let names = vec![ServerName::try_from(SERVER_NAME)?];
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(DefaultTimeProvider),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names,
        },
        certificate: Some(ClientCertificate {
            chain: chain(&files.client)?,
            key: PrivateKeyDer::from_pem_file(&files.client_key)?,
        }),
        min_version: version,
        max_version: version,
    };
    let settings = Arc::new(PeerSettings {
        identity: b"laptop-7".to_vec(),
        md5_password: None,
        tls: Some(tls.build()?),
        tunnel: None,
        fragment_size: 1024,
        strictness: Strictness::Strict,
    });
    Ok(move |index| Nas::new(&format!("02-00-00-00-01-{index:02x}"), Some(settings.clone())))
}
