//! `portreeve demo`: a server that works, in a folder of its own, and two authentications before your eyes.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::Context;
use super::error::hinted;
use super::node::{Node, unix_seconds};
use crate::config::Config;
use crate::eap::packet::EapPacket;
use crate::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use crate::eap::tls::{TlsVersion, provider};
use crate::endpoints::Found;
use crate::mac::MacAddress;
use crate::nas::{Answer, Attempt, Credentials};
use crate::policy::explain::explain;
use crate::policy::model::Method;
use crate::radius::attribute::Revealing;
use crate::radius::crypto::Secret;
use crate::radius::dictionary::Dictionary;
use crate::radius::display;
use crate::radius::packet::{Packet, number};
use crate::server::facts::{self, About};
use crate::server::ssid;
use crate::store::Store;
use crate::store::directory::{Directory, SiteState};
use crate::store::document::{self, Source};
use crate::trust::{Clock, TrustSet, pki};

const SECRET: &str = "testing123";
const SITE: &str = "demo";
const MAC: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x01]);
const CONFIGURATION: &str = "\
# Made by `portreeve demo`. docs/configuration.md says what else there is.
[radius]
listen = \"127.0.0.1:1812\"

[database]
url = \"sqlite:portreeve.db\"

[eap.tls]
certificate = \"certs/server.pem\"
private_key = \"certs/server.key\"
client_ca = \"certs/ca.pem\"

[log]
format = \"text\"
";
const POLICIES: &str = include_str!("demo.toml");

/// Makes a folder with configuration, development certificates and a database on its first run, starts the server on
/// 127.0.0.1:1812, authenticates a laptop by EAP-TLS and a printer by MAC address against it over UDP, explains both
/// decisions, and keeps serving. Later runs use the folder as it is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder.
    #[arg(long, default_value = "demo")]
    dir: PathBuf,
}

pub fn run(args: &Args, _context: &Context) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(demo(&args.dir))?;
    Ok(ExitCode::SUCCESS)
}

async fn demo(dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("portreeve.toml");
    if file.exists() {
        println!("using the folder {} as it is", dir.display());
    } else {
        make(dir).await?;
        println!(
            "made the folder {}: configuration, certificates, and a database with the site `{SITE}`",
            dir.display()
        );
    }
    let config = Config::load(&file)?;
    let node = Node::start(&config).await?;
    let target = *node.addresses().first().context("the server listens nowhere")?;
    println!("listening on {target}\n");
    let files = pki::Files::in_folder(&dir.join("certs"));
    let shown = async {
        laptop(&node, &files, target).await?;
        printer(&node, target).await?;
        Ok(try_it(dir, target, &files)?)
    };
    match shown.await {
        Ok(()) => node.run().await,
        Err(error) => {
            node.stop().await;
            Err(error)
        }
    }
}

/// Makes the folder beside its place first: what is interrupted leaves nothing that looks like a demo.
async fn make(dir: &Path) -> anyhow::Result<()> {
    let writable = "choose another folder with `--dir`, one that this user may write to";
    let is_taken = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken {
        return Err(hinted(
            format!("the folder `{}` exists, and holds no portreeve.toml", dir.display()),
            "choose another folder with `--dir`",
        ));
    }
    let name = dir.file_name().context("`--dir` names no folder")?.to_string_lossy();
    let new = dir.with_file_name(format!("{name}.new-{}", std::process::id()));
    let made = fill(&new).await.map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => hinted(format!("cannot make the folder `{}`: {error}", dir.display()), writable),
        Err(error) => error,
    });
    let moved = match made {
        Ok(()) => fs::rename(&new, dir)
            .map_err(|error| hinted(format!("cannot make the folder `{}`: {error}", dir.display()), writable)),
        failed => failed,
    };
    if moved.is_err() {
        // What was made so far is of no use; if it cannot be removed either, the error above says why.
        let _ = fs::remove_dir_all(&new);
    }
    moved
}

async fn fill(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    pki::init(
        &dir.join("certs"),
        pki::Names::default(),
        unix_seconds(SystemTime::now()),
    )?;
    fs::write(dir.join("portreeve.toml"), CONFIGURATION)?;
    let (store, _) = Store::migrate(&format!("sqlite:{}", dir.join("portreeve.db").display())).await?;
    let source = Source {
        name: "the demo's policies".to_owned(),
        text: POLICIES.to_owned().into(),
    };
    document::import(
        &store,
        Dictionary::builtin(),
        vec![source],
        document::Options::default(),
    )
    .await?;
    store.close().await;
    Ok(())
}

async fn laptop(node: &Node, files: &pki::Files, target: SocketAddr) -> anyhow::Result<()> {
    println!("== a laptop, by certificate (EAP-TLS) ==");
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&files.client)?.collect::<Result<_, _>>()?;
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_file_iter(&files.ca)? {
        roots.add(ca?)?;
    }
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(Clock),
        trust: ServerTrust::Ca {
            roots: Arc::new(roots),
            names: Vec::new(),
        },
        certificate: Some(ClientCertificate {
            chain: chain.clone(),
            key: PrivateKeyDer::from_pem_file(&files.client_key)?,
        }),
        min_version: TlsVersion::V12,
        max_version: TlsVersion::V13,
    };
    let peer = PeerSettings {
        identity: pki::CLIENT_NAME.as_bytes().to_vec(),
        md5_password: None,
        tls: Some(tls.build()?),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    };
    let credentials = Credentials::Eap(Box::new(Peer::new(Arc::new(peer))));
    let user_name = pki::CLIENT_NAME.as_bytes().to_vec();
    let calling_station = MacAddress([0x02, 0, 0, 0, 0, 0x07]);
    let request = authenticate(target, user_name, calling_station, credentials).await?;
    explained(node, &request, Method::EapTls, &chain)
}

async fn printer(node: &Node, target: SocketAddr) -> anyhow::Result<()> {
    println!("== a printer, by its MAC address (MAB) ==");
    let user_name = MAC.to_string().into_bytes();
    let credentials = Credentials::Pap(user_name.clone());
    let request = authenticate(target, user_name, MAC, credentials).await?;
    explained(node, &request, Method::Mab, &[])
}

/// One authentication over UDP, each packet printed; returns the last request.
async fn authenticate(
    target: SocketAddr,
    user_name: Vec<u8>,
    calling_station: MacAddress,
    credentials: Credentials,
) -> anyhow::Result<Vec<u8>> {
    const ETHERNET: [u8; 4] = 15_u32.to_be_bytes();
    let calling_station = calling_station.to_string().to_uppercase();
    let mut attributes = Vec::new();
    for (number, value) in [
        (number::CALLING_STATION_ID, calling_station.as_bytes()),
        (number::NAS_PORT_TYPE, &ETHERNET),
        (number::NAS_PORT_ID, b"demo 1/0/7"),
        (number::NAS_IDENTIFIER, b"demo-switch"),
    ] {
        attributes.extend([number, u8::try_from(value.len() + 2)?]);
        attributes.extend_from_slice(value);
    }
    let secret = Arc::new(Secret::new(SECRET.as_bytes()));
    let mut attempt = Attempt::new(Arc::clone(&secret), user_name, attributes.into(), credentials);
    let socket = UdpSocket::bind((target.ip(), 0)).await?;
    socket.connect(target).await?;
    let mut reply = vec![0; 4_096];
    for identifier in 0..=u8::MAX {
        let mut authenticator = [0; 16];
        aws_lc_rs::rand::fill(&mut authenticator).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
        let mut request = Vec::new();
        attempt.request(identifier, authenticator, &mut request)?;
        show("->", &request, &secret, &authenticator);
        socket.send(&request).await?;
        let octets = timeout(Duration::from_secs(5), socket.recv(&mut reply))
            .await
            .map_err(|_| {
                hinted(
                    "no answer within 5 s",
                    "the log above says why; does a firewall filter the loopback?",
                )
            })??;
        let datagram = reply.get(..octets).unwrap_or_default();
        show("<-", datagram, &secret, &authenticator);
        match attempt.reply(datagram)? {
            Answer::Challenge => {}
            Answer::Accept(_) | Answer::Reject(..) => {
                println!();
                return Ok(request);
            }
        }
    }
    anyhow::bail!("the server asks for ever")
}

/// A packet for eyes: what it is, then its attributes but for those that only machines read.
pub(super) fn show(arrow: &str, datagram: &[u8], secret: &Secret, authenticator: &[u8; 16]) {
    let Ok(packet) = Packet::parse(datagram) else { return };
    let eap = packet.eap_message().and_then(|message| {
        let eap = EapPacket::parse(&message).ok()?;
        let kind = eap.eap_type.map(|eap_type| format!(" {eap_type}")).unwrap_or_default();
        Some(format!(
            ", {:?}{kind} {} with {} octets",
            eap.code,
            eap.identifier,
            message.len()
        ))
    });
    println!(
        "{arrow} {} {}, {} octets{}",
        packet.code(),
        packet.identifier(),
        packet.as_bytes().len(),
        eap.unwrap_or_default()
    );
    let revealing = Revealing {
        secret,
        request_authenticator: authenticator,
    };
    const MACHINES: [&str; 5] = [
        "EAP-Message",
        "Message-Authenticator",
        "State",
        "MS-MPPE-Send-Key",
        "MS-MPPE-Recv-Key",
    ];
    for line in display::attributes(Dictionary::builtin(), &packet, Some(revealing)) {
        if !MACHINES.iter().any(|name| line.starts_with(name)) {
            println!("     {line}");
        }
    }
}

fn explained(node: &Node, request: &[u8], method: Method, chain: &[CertificateDer<'static>]) -> anyhow::Result<()> {
    explain_request(
        &node.directory,
        &node.trust(),
        SITE,
        std::net::Ipv4Addr::LOCALHOST.into(),
        request,
        method,
        chain,
    )
}

/// The decision on `request`, policy by policy and rule by rule.
pub(super) fn explain_request(
    directory: &Directory,
    trust: &TrustSet,
    tag: &str,
    source: std::net::IpAddr,
    request: &[u8],
    method: Method,
    chain: &[CertificateDer<'static>],
) -> anyhow::Result<()> {
    let packet = Packet::parse(request)?;
    let snapshot = directory.snapshot();
    let (id, info) = snapshot
        .site_by_tag(tag)
        .with_context(|| format!("the database has no site `{tag}` any more"))?;
    let SiteState::Ready(site) = directory.site(&snapshot, id) else {
        anyhow::bail!("the site's policies are not in memory");
    };
    let about = About {
        packet: Some(&packet),
        ssid: packet.all(number::CALLED_STATION_ID).find_map(ssid),
        source: Some(source),
        site_tag: info.tag(),
        site: Some(info),
        timezone: &jiff::tz::TimeZone::UTC,
        method,
        eap_type: (method == Method::EapTls).then_some(crate::eap::method::EapType::TLS),
        certificate: (!chain.is_empty()).then_some((trust, chain)),
        now: SystemTime::now(),
    };
    let dictionary = directory.dictionary();
    let facts = facts::collect(dictionary, &facts::Names::new(dictionary), &about, |id| site.needs(id));
    let listing = match snapshot.endpoints.find(id, MAC) {
        Found::Listed(endpoint) => endpoint.responses.as_deref(),
        _ => None,
    };
    println!("{}", explain(&site, method, listing, &facts));
    Ok(())
}

/// What to type next.
fn try_it(dir: &Path, target: SocketAddr, files: &pki::Files) -> io::Result<()> {
    let (port, dir) = (target.port(), dir.display());
    let program = std::env::args().next().unwrap_or_else(|| "portreeve".to_owned());
    writeln!(
        io::stdout().lock(),
        "\
== it keeps serving; try from another terminal ==

eapol_test -c <(printf 'network={{\\n key_mgmt=IEEE8021X\\n eap=TLS\\n identity=\"{name}\"\\n ca_cert=\"{ca}\"\\n client_cert=\"{client}\"\\n private_key=\"{key}\"\\n}}\\n') -a 127.0.0.1 -p {port} -s {SECRET}

echo 'User-Name = \"{MAC}\", Calling-Station-Id = \"{MAC}\", User-Password = \"{MAC}\", Message-Authenticator = 0x00' | radclient -x 127.0.0.1:{port} auth {SECRET}

cargo run --release --package portreeve-load -- eap-tls --target 127.0.0.1:{port} --secret {SECRET} --cert {client} --key {key} --ca {ca}

{program} --config {dir}/portreeve.toml why
{program} --config {dir}/portreeve.toml mac add demo 02-00-00-00-00-02
{program} --config {dir}/portreeve.toml export
",
        name = pki::CLIENT_NAME,
        ca = files.ca.display(),
        client = files.client.display(),
        key = files.client_key.display(),
    )
}
