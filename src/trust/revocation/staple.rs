//! What our own certificates' responders say of them, sent beside the certificate to supplicants that ask (status_request,
//! RFC 6066 section 8): one that cannot reach a responder before it has joined the network learns it so.
//!
//! Fetched in the background, verified as a supplicant would, and sent for no longer than it is good. A responder that does
//! not answer costs nobody anything: the certificate is then sent without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::time_provider::TimeProvider;

use super::consult::{Answer, consult};
use super::http::{Client, Fetch, Url};
use super::ocsp::CertStatus;
use super::{Common, RETRY};
use crate::trust::server_certificate::ServerCertificate;
use crate::trust::store::TrustStore;
use crate::trust::summary::moment;
use crate::trust::verify::chain_algorithms;

/// Between two looks for what is to be fetched.
const TICK: Duration = Duration::from_secs(1);
/// How long a responder may take: nobody waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest between two fetches, and the shortest where all goes well.
const PAUSE_MAX: Duration = Duration::from_secs(6 * 3_600);
const PAUSE_MIN: Duration = Duration::from_secs(60);
/// After a failure.
const PAUSE_FAILED: Duration = RETRY.saturating_mul(6);

/// Keeps the staples of the store's certificates, for ever. Those that name no responder, and those whose issuer is not in
/// their file, have none.
pub async fn keep(store: Arc<TrustStore>, time: Arc<dyn TimeProvider>) {
    let common = Common {
        // only what our own certificates name is fetched
        client: Arc::new(Client::new(Fetch::Never)),
        algorithms: chain_algorithms().into(),
        time,
        wait: PATIENCE,
        max_age: PAUSE_MAX,
    };
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        for set in store.current().iter() {
            for server in set.servers() {
                if server.staple.is_due(Instant::now()) {
                    renew(&common, server).await;
                }
            }
        }
    }
}

async fn renew(common: &Common, server: &ServerCertificate) {
    let (Some(link), Some(url)) = (server.link(), server.summary.ocsp.first()) else {
        return server.staple.set_due(None);
    };
    let asked = match Url::configured(url) {
        Ok(url) => consult(common, &url, &link, false).await,
        Err(why) => Err(why),
    };
    let name = server.summary.name();
    match asked {
        Ok(Answer {
            status: CertStatus::Good,
            until,
            octets,
            ..
        }) => {
            let left = u64::try_from(until.saturating_sub(common.now())).unwrap_or(0);
            let pause = (Duration::from_secs(left) / 2).clamp(PAUSE_MIN, PAUSE_MAX);
            server.staple.set_due(Some(Instant::now() + pause));
            if server.put_staple(octets.to_vec(), until) {
                tracing::info!(
                    certificate = name,
                    until = moment(until),
                    "the certificate is sent with its OCSP response to supplicants that ask for it"
                );
            }
        }
        Ok(Answer {
            status: CertStatus::Revoked(revoked),
            ..
        }) => {
            server.staple.set_due(Some(Instant::now() + PAUSE_FAILED));
            server.staple.clear();
            server.staple.complain(|| {
                tracing::error!(
                    certificate = name,
                    hint = "supplicants that look will refuse this server: replace the certificate",
                    "the server's certificate was revoked at {}, says `{url}`",
                    moment(revoked.since)
                );
            });
        }
        Ok(Answer {
            status: CertStatus::Unknown,
            ..
        }) => failed(server, url, "does not know it"),
        Err(why) => failed(server, url, &why),
    }
}

fn failed(server: &ServerCertificate, url: &str, why: &str) {
    server.staple.set_due(Some(Instant::now() + PAUSE_FAILED));
    server.staple.complain(|| {
        tracing::warn!(
            certificate = server.summary.name(),
            hint = "the certificate is sent without its OCSP response once the last one has ended; see that this machine \
                    reaches the URL, or set `staple = false` in [eap.tls]",
            "the OCSP response of the server's certificate was not renewed: `{url}` {why}"
        );
    });
}
