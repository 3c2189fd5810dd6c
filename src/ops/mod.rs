//! Health, metrics and the last attempts over HTTP, for the fleet's machinery and for `portreeve why`.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz` | 200 while the process can answer at all: restart it when it cannot |
//! | `/readyz` | 200 while the node authenticates its own probe, has policies that are fresh enough and a valid certificate; 503 with the conditions that fail: send it no requests then |
//! | `/metrics` | Prometheus text |
//! | `/attempts?q=&limit=` | the last attempts, newest first, explained |
//! | `/certificate-devices` | the devices that were let in by certificate within the last 30 days, since the node's start |
//! | `/unsigned-clients` | clients that `message_authenticator = "require"` would refuse, while it is only observed |
//!
//! No authentication: whoever reaches the address may read user names and MAC addresses. Connections are few, and none
//! lives long.

mod listener;
pub mod prober;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use listener::Limited;
use tokio::net::TcpListener;

use crate::server::notices::Notices;
use crate::server::readiness::Readiness;
use crate::telemetry::attempts::Attempts;
use crate::telemetry::certificates::Devices;
use crate::telemetry::escape;
use crate::telemetry::exporter::Exporter;
use crate::telemetry::line::Formatter;

/// What the answers are made of.
pub struct Ops {
    /// The node's name.
    pub node: String,
    /// Behind `/readyz`.
    pub readiness: Arc<Readiness>,
    /// Behind `/attempts`.
    pub attempts: Arc<Attempts>,
    /// Behind `/certificate-devices`.
    pub devices: Arc<Devices>,
    /// Behind `/metrics`.
    pub exporter: Exporter,
    /// Behind `/unsigned-clients`.
    pub notices: Arc<Notices>,
}

impl std::fmt::Debug for Ops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ops").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A bound address that does not answer yet.
#[derive(Debug)]
pub struct Server(TcpListener);

impl Server {
    /// Binds the address: early, so that a port that is taken ends the start.
    pub async fn bind(address: SocketAddr) -> io::Result<Server> {
        Ok(Server(TcpListener::bind(address).await?))
    }

    /// The address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers until the future is dropped.
    pub async fn run(self, ops: Ops) -> io::Result<()> {
        axum::serve(Limited::new(self.0), router(Arc::new(ops))).await
    }
}

/// Attempts in one answer, at most and unless asked for fewer.
const MOST_ATTEMPTS: usize = 1_000;
const USUAL_ATTEMPTS: usize = 20;

fn router(ops: Arc<Ops>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/attempts", get(attempts))
        .route("/certificate-devices", get(certificate_devices))
        .route("/unsigned-clients", get(unsigned_clients))
        .with_state(ops)
}

async fn readyz(State(ops): State<Arc<Ops>>) -> impl IntoResponse {
    let failing = ops.readiness.failing(Instant::now());
    let status = if failing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let failing: serde_json::Map<_, _> = failing
        .into_iter()
        .map(|(condition, why)| (condition.word().to_owned(), why.into()))
        .collect();
    let mut body = serde_json::json!({ "ready": failing.is_empty(), "node": ops.node, "failing": failing });
    if let (Some(policies), Some(body)) = (ops.readiness.policies(), body.as_object_mut()) {
        let policies = serde_json::json!({
            "revision": policies.revision, "age_s": policies.age_s, "problem": policies.problem
        });
        body.insert("policies".to_owned(), policies);
    }
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        format!("{body}\n"),
    )
}

async fn metrics(State(ops): State<Arc<Ops>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        ops.exporter.render(),
    )
}

#[derive(serde::Deserialize)]
struct Search {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
}

async fn attempts(State(ops): State<Arc<Ops>>, Query(search): Query<Search>) -> impl IntoResponse {
    let limit = search.limit.unwrap_or(USUAL_ATTEMPTS).min(MOST_ATTEMPTS);
    let mut formatter = Formatter::new(&ops.node);
    let mut body = b"{\"node\":".to_vec();
    escape::json_string(ops.node.as_bytes(), &mut body);
    body.extend_from_slice(b",\"attempts\":[");
    for (index, record) in ops.attempts.search(&search.q, limit).iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        formatter.explained(record, &mut body);
    }
    body.extend_from_slice(b"]}\n");
    ([(header::CONTENT_TYPE, "application/json")], body)
}

async fn certificate_devices(State(ops): State<Arc<Ops>>) -> impl IntoResponse {
    let devices: Vec<_> = ops
        .devices
        .list(SystemTime::now())
        .into_iter()
        .map(|device| {
            serde_json::json!({
                "site": device.site, "mac": device.mac.to_string(), "certificate": device.certificate, "last": device.last,
            })
        })
        .collect();
    let body = serde_json::json!({ "node": ops.node, "since": ops.devices.since(), "devices": devices });
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n"))
}

async fn unsigned_clients(State(ops): State<Arc<Ops>>) -> impl IntoResponse {
    let clients: Vec<_> = ops
        .notices
        .unsigned_clients()
        .into_iter()
        .map(|client| {
            serde_json::json!({
                "client": client.network, "last_source": client.last_source, "reason": client.reason.word(),
                "requests": client.requests, "hint": client.reason.hint(),
            })
        })
        .collect();
    let body = serde_json::json!({ "node": ops.node, "clients": clients });
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n"))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::mac::MacAddress;
    use crate::reason::Reason;
    use crate::server::metrics::Metrics;
    use crate::server::readiness::{Condition, Policies};
    use crate::server::record::{Authentication, Outcome, Text};

    async fn get(address: SocketAddr, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[tokio::test]
    async fn every_path_answers() {
        let (exporter, registry) = Exporter::new().unwrap();
        let metrics = Arc::new(Metrics::new(registry));
        let readiness = Arc::new(Readiness::default());
        let attempts = Arc::new(Attempts::default());
        let mut record = Authentication::new(
            UNIX_EPOCH,
            "192.0.2.1".parse().unwrap(),
            Outcome::Reject,
            Reason::MacNotListed,
        );
        record.mac = Some(MacAddress([0, 0x1b, 0x78, 0, 0, 1]));
        record.texts.set(Text::User, b"a \"user\"");
        attempts.push(record);
        metrics.open_conversations(5);
        let ops = Ops {
            node: "node-a".to_owned(),
            readiness: readiness.clone(),
            attempts,
            devices: Arc::new(Devices::new(UNIX_EPOCH)),
            exporter,
            notices: Arc::default(),
        };
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address().unwrap();
        tokio::spawn(server.run(ops));

        assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));

        let (status, body) = get(address, "/readyz").await;
        assert_eq!(status, 503);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["failing"]["probe"], "not known yet");
        for condition in Condition::ALL {
            readiness.good(condition, None);
        }
        let ready = "{\"failing\":{},\"node\":\"node-a\",\"ready\":true}\n".to_owned();
        assert_eq!(get(address, "/readyz").await, (200, ready));
        readiness.tell(Policies {
            revision: "e:7".to_owned(),
            age_s: Some(38),
            problem: None,
        });
        let body: serde_json::Value = serde_json::from_str(&get(address, "/readyz").await.1).unwrap();
        let policies = serde_json::json!({ "revision": "e:7", "age_s": 38, "problem": null });
        assert_eq!(body["policies"], policies);

        let (status, body) = get(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(body.contains("\nportreeve_open_conversations 5\n"), "{body}");

        let (status, body) = get(address, "/attempts?q=00%3A1B%3A78%3A00%3A00%3A01&limit=5").await;
        assert_eq!(status, 200);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["attempts"][0]["user"], "a \"user\"");
        assert_eq!(body["attempts"][0]["hint"], Reason::MacNotListed.hint());
        assert_eq!(
            get(address, "/attempts?q=nobody").await.1,
            "{\"node\":\"node-a\",\"attempts\":[]}\n"
        );
        let (status, body) = get(address, "/certificate-devices").await;
        assert_eq!(
            (status, &*body),
            (200, "{\"devices\":[],\"node\":\"node-a\",\"since\":0}\n")
        );
        assert_eq!(get(address, "/elsewhere").await.0, 404);
    }
}
