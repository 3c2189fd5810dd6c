//! `portreeve check --probe`: a whole authentication in this process, by the code and with the files of a node, and no
//! socket. What the switch would send, and what the server answers, is shown; then the log line and the decision.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::cli::Context;
use crate::cli::demo::{explain_request, show};
use crate::cli::error::hinted;
use crate::cli::node::{revocation, settings, trust_store, unix_seconds};
use crate::cli::why::shown;
use crate::clients::Client;
use crate::config::Config;
use crate::eap::peer::{ClientCertificate, ClientTls, Peer, PeerSettings, ServerTrust, Strictness};
use crate::eap::tls::{TlsVersion, provider};
use crate::listen::{Arrival, Handled, Handler};
use crate::nas::{Answer, Attempt, Credentials};
use crate::policy::model::Method;
use crate::radius::packet::number;
use crate::reason::{Kind, Reason};
use crate::server::Server;
use crate::server::metrics::Metrics;
use crate::server::probe::Probe;
use crate::server::record::{Next, Sink};
use crate::store::directory::{Directory, Options, Snapshot};
use crate::telemetry::escape;
use crate::telemetry::line::Formatter;
use crate::trust::Clock;

/// Of the switch's requests: an Ethernet port.
const ETHERNET: [u8; 4] = 15_u32.to_be_bytes();

/// Where the device is.
pub(super) enum Place<'a> {
    /// Behind this switch.
    Client(IpAddr),
    /// Behind any switch of this site.
    Site(&'a str),
    /// Behind the only switch there is.
    Only,
}

impl Place<'_> {
    /// The address that the switch asks from, and the switch.
    fn find(&self, snapshot: &Snapshot) -> anyhow::Result<(IpAddr, Arc<Client>)> {
        let of_site = |site| snapshot.clients.udp().find(|client| client.site == site);
        let client = match self {
            Place::Client(address) => {
                let client = snapshot.clients.lookup(*address, false);
                let unknown = || hinted(format!("no client covers `{address}`"), Reason::UnknownClient.hint());
                return Ok((*address, Arc::clone(client.ok_or_else(unknown)?)));
            }
            Place::Site(tag) => {
                let (site, _) = snapshot.site_by_tag(tag).ok_or_else(|| {
                    hinted(
                        format!("there is no site `{tag}`"),
                        "`portreeve site list` shows their tags",
                    )
                })?;
                of_site(site)
                    .ok_or_else(|| hinted(format!("site `{tag}` has no client"), "`portreeve client add` adds one"))?
            }
            Place::Only => {
                let mut clients = snapshot.clients.udp();
                match (clients.next(), clients.next()) {
                    (Some(client), None) => client,
                    _ => {
                        return Err(hinted(
                            format!("there are {} clients", snapshot.clients.len()),
                            "say with --client IP or --site TAG where the device is",
                        ));
                    }
                }
            }
        };
        Ok((client.network.addr(), Arc::clone(client)))
    }
}

pub(super) fn run(
    context: &Context,
    certificate: &Path,
    key: Option<&Path>,
    place: &Place<'_>,
    version: Option<TlsVersion>,
) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
        hinted(
            format!("cannot read `{}`: {error}", path.display()),
            "PEM: the device's certificate, and its key, not encrypted: in the same file, beside it in one called `.key`, or by --key",
        )
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unreadable(certificate, &"it holds no certificate"));
    }
    let beside = certificate.with_extension("key");
    let key = match key {
        Some(key) => PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?,
        None => PrivateKeyDer::from_pem_file(certificate)
            .or_else(|_| PrivateKeyDer::from_pem_file(&beside))
            .map_err(|error| unreadable(&beside, &error))?,
    };
    let tls = ClientTls {
        provider: provider(),
        time: Arc::new(Clock),
        // which CA the device believes in is not known here
        trust: ServerTrust::Anybody,
        certificate: Some(ClientCertificate {
            chain: chain.clone(),
            key,
        }),
        min_version: version.unwrap_or(TlsVersion::V12),
        max_version: version.unwrap_or(TlsVersion::V13),
    };
    let peer = PeerSettings {
        identity: b"probe".to_vec(),
        md5_password: None,
        tls: Some(tls.build()?),
        tunnel: None,
        fragment_size: 1_024,
        strictness: Strictness::Strict,
    };
    context.block_on(authenticate(context, &config, Arc::new(peer), &chain, place))
}

async fn authenticate(
    context: &Context,
    config: &Config,
    peer: Arc<PeerSettings>,
    chain: &[CertificateDer<'static>],
    place: &Place<'_>,
) -> anyhow::Result<ExitCode> {
    let dictionary = context.dictionary(config)?;
    let trust = Arc::new(trust_store(config)?);
    let directory = Directory::start(context.store(config).await?, dictionary, Options::default()).await;
    if let Some(problem) = directory.health().problem {
        anyhow::bail!(problem);
    }
    let snapshot = directory.snapshot();
    let (source, client) = place.find(&snapshot)?;
    let tag = snapshot
        .site(client.site)
        .map(|site| site.tag().to_owned())
        .unwrap_or_default();
    // so that the policies are in memory when they are asked
    directory.load(&snapshot, client.site).await;
    let (sink, mut records) = Sink::channel(16);
    let server = Server::new(
        settings(config, 1),
        Arc::clone(&directory),
        Arc::clone(&trust),
        sink,
        Arc::new(Metrics::none()),
        Probe::new(dictionary, unix_seconds(SystemTime::now()))?,
        Arc::new(SystemTime::now),
    );
    let revocation = match &config.revocation {
        Some(settings) => Some(revocation(settings).await?),
        None => None,
    };
    let server = server.with_revocation(revocation);
    let mut worker = server.worker(0);

    let mut attributes = vec![number::NAS_PORT_TYPE, 6];
    attributes.extend(ETHERNET);
    let (secret, identity) = (Arc::clone(&client.secret), peer.identity.clone());
    let credentials = Credentials::Eap(Box::new(Peer::new(peer)));
    let mut attempt = Attempt::new(Arc::clone(&secret), identity, attributes.into(), credentials);
    let mut accepted = None;
    let mut request = Vec::new();
    for identifier in 0..=u8::MAX {
        let mut authenticator = [0; 16];
        aws_lc_rs::rand::fill(&mut authenticator).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
        request.clear();
        attempt.request(identifier, authenticator, &mut request)?;
        show("->", &request, &secret, &authenticator);
        let mut reply = Vec::new();
        let arrival = Arrival {
            datagram: &request,
            source: SocketAddr::new(source, 1_645),
            destination: source,
            now: Instant::now(),
            worker: 0,
            may_wait: true,
        };
        let mut handled = server.handle(&mut worker, &arrival, &mut reply);
        while let Handled::Later(late) = handled {
            handled = server.resume(&mut worker, late.await, Instant::now(), &mut reply);
        }
        anyhow::ensure!(matches!(handled, Handled::Reply), "the server gave no answer");
        show("<-", &reply, &secret, &authenticator);
        accepted = match attempt.reply(&reply)? {
            Answer::Challenge => None,
            Answer::Accept(_) => Some(true),
            Answer::Reject(..) => Some(false),
        };
        if accepted.is_some() {
            break;
        }
    }
    println!();
    if let Next::Record(record) = records.take() {
        let mut line = Vec::new();
        Formatter::new(&config.node.name).explained(&record, &mut line);
        let text = shown(&serde_json::from_slice(&line)?);
        std::io::stdout().lock().write_all(escape::terminal(&text).as_bytes())?;
        println!();
        if matches!(record.reason.kind(), Kind::Accept | Kind::Policy) {
            let sets = trust.current();
            let set = sets.for_client(&client, || Some(&tag));
            explain_request(&directory, set, &tag, source, &request, Method::EapTls, chain)?;
        }
    }
    Ok(match accepted {
        Some(true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
