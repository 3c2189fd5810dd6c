//! A node without sockets, over the database of a folder.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portreeve::conversations::Limits;
use portreeve::eap::method::Methods;
use portreeve::listen::{Arrival, Handled, Handler};
use portreeve::nas::Answer;
use portreeve::radius::dictionary::Dictionary;
use portreeve::server::metrics::Metrics;
use portreeve::server::probe::Probe;
use portreeve::server::record::Sink;
use portreeve::server::{Server, Settings};
use portreeve::store::Store;
use portreeve::store::directory::{self, Directory, SiteState};
use portreeve::store::seed::Nacs;
use portreeve::telemetry::exporter::Exporter;
use portreeve::trust::pki::Files;
use portreeve::trust::{self, TrustStore};
use rustls::time_provider::DefaultTimeProvider;

use super::requests::{Method, Switch};
use super::{AUTHENTICATIONS, Fallible, callgrind};

/// The database's.
pub fn url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("growth.db").display())
}

/// Reads the database, then authenticates devices of sites that are spread over all. The sites' policies have been compiled
/// before, and one authentication of each was not counted.
pub fn authenticate(folder: &Path, nacs: &Nacs, method: Method) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sites: Vec<u32> = (0..AUTHENTICATIONS)
        .map(|at| at % nacs.counts().sites.min(AUTHENTICATIONS))
        .map(|at| at * (nacs.counts().sites / AUTHENTICATIONS).max(1))
        .collect();
    runtime.block_on(async {
        let server = start(folder, nacs, &sites).await?;
        let mut worker = server.worker(0);
        let mut switch = Switch::new(&Files::in_folder(folder), method)?;
        for is_counted in [false, true] {
            for site in &sites {
                let source = nacs.clients_of(*site).next().ok_or("a site without a client")?;
                let source = SocketAddr::from((source, 50_000));
                let mut attempt = switch.attempt(nacs, *site)?;
                loop {
                    let datagram = switch.request(&mut attempt)?;
                    let (mut reply, mut handled) = (Vec::with_capacity(4096), None);
                    let arrival = Arrival {
                        datagram: &datagram,
                        source,
                        destination: IpAddr::from([127, 0, 0, 1]),
                        now: Instant::now(),
                        worker: 0,
                        may_wait: true,
                    };
                    let mut handle = || handled = Some(server.handle(&mut worker, &arrival, &mut reply));
                    match is_counted {
                        true => callgrind::counted(handle),
                        false => handle(),
                    }
                    if !matches!(handled, Some(Handled::Reply)) {
                        return Err("no answer at once".into());
                    }
                    match attempt.reply(&reply)? {
                        Answer::Challenge => {}
                        Answer::Accept(_) => break,
                        Answer::Reject(_, failure) => return Err(format!("a reject: {failure:?}").into()),
                    }
                }
            }
        }
        Ok(())
    })
}

/// With the policies of these sites in memory.
async fn start(folder: &Path, nacs: &Nacs, sites: &[u32]) -> Fallible<Server> {
    let dictionary = Dictionary::builtin();
    let options = directory::Options {
        poll: Duration::from_secs(3_600),
        ..directory::Options::default()
    };
    let directory = Directory::start(Store::open(&url(folder)).await?, dictionary, options).await;
    let snapshot = directory.snapshot();
    for site in sites {
        let (id, _) = snapshot.site_by_tag(&nacs.tag(*site)).ok_or("a site is missing")?;
        match directory.load(&snapshot, id).await {
            SiteState::Ready(_) => {}
            other => return Err(format!("a site is not ready: {other:?}").into()),
        }
    }
    let files = Files::in_folder(folder);
    let trust = trust::Settings::new(files.server, files.server_key, vec![files.ca]);
    let trust = TrustStore::load(trust, Vec::new(), Arc::new(DefaultTimeProvider))?;
    let (records, _) = Sink::channel(Sink::CAPACITY);
    let (_, registry) = Exporter::new()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(Server::new(
        settings(),
        directory,
        Arc::new(trust),
        records,
        Arc::new(Metrics::new(registry)),
        Probe::new(dictionary, i64::try_from(now)?)?,
        Arc::new(SystemTime::now),
    ))
}

fn settings() -> Settings {
    Settings {
        node: 7,
        conversations: Limits {
            total: 1_000,
            per_client: 500,
            idle: Duration::from_secs(30),
            keep_final: Duration::from_secs(5),
        },
        duplicate_bytes: 1 << 20,
        unknown_state_is_silent: false,
        observe_message_authenticator: false,
        probe_users: Vec::new(),
        methods: Methods::ALL,
        fragment_size: 1_024,
        timezone: jiff::tz::TimeZone::UTC,
        max_stale: Duration::from_secs(86_400),
    }
}
