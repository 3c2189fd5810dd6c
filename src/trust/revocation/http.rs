//! Plain HTTP, as OCSP responders (RFC 6960 appendix A) and lists (RFC 5280 section 4.2.1.13) are reached: one request on one
//! connection, no redirections, no proxies, bounded in time, octets and connections. What is fetched is signed, so that TLS
//! would add nothing but a certificate whose revocation had to be looked at first.
//!
//! **Whose URL.** One that the configuration names is followed. One that a certificate names comes from a CA that is
//! trusted to let devices in, yet it decides where this machine connects to: [`Fetch`] says whether, and to which hosts.
//! Where nothing else is said, addresses that mean this machine or its link are never asked: no certificate reaches a
//! service that only listens to its own host. Nothing of an answer is ever shown to whoever sent the certificate.
//!
//! **A host that does not answer** is not asked for a while after it failed a few times in a row, and never on more than a
//! few connections at once: whatever waits for it waits for its own time-out at most, and holds up nobody else.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

/// Connections to one host at once. Too low: a morning rush waits for a responder that is far away; too high: a silent one
/// holds as many sockets.
const CONNECTIONS: usize = 32;
/// Hosts that are remembered. Certificates of the client CAs name a handful.
const HOSTS_MAX: usize = 256;
/// Failures in a row after which a host is not asked for [`PAUSE`].
const FAILURES: u32 = 3;
/// How long.
const PAUSE: Duration = Duration::from_secs(5);
/// Addresses of a host that are tried.
const ADDRESSES: usize = 4;
/// Octets of a response's head.
const HEAD_OCTETS: usize = 16 << 10;
/// Octets of a URL.
const URL_OCTETS: usize = 2_048;

/// An `http://` URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    text: String,
    /// Without brackets.
    host: String,
    port: u16,
    /// Host and port as the request repeats them.
    authority: String,
    path: String,
    /// From the configuration rather than from a certificate.
    is_configured: bool,
}

impl Url {
    /// One that the configuration names.
    ///
    /// # Errors
    /// What is wrong with it, to follow a "`key`: ".
    pub fn configured(text: &str) -> Result<Url, String> {
        Ok(Url {
            is_configured: true,
            ..Url::named(text).ok_or_else(|| format!("`{text}` is no URL that begins with `http://`"))?
        })
    }

    /// One that a certificate names; `None` for other schemes, such as `ldap://`, which are not followed.
    pub(super) fn named(text: &str) -> Option<Url> {
        let uri: Uri = text.parse().ok().filter(|_| text.len() <= URL_OCTETS)?;
        let authority = uri.authority()?;
        let is_http = uri
            .scheme_str()
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
        if !is_http || authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Url {
            text: text.to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_ascii_lowercase(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
            is_configured: false,
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// From where what certificates name is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// From nowhere.
    Never,
    /// From any host, unless its address is this machine's, its link's, or a group's.
    Anywhere,
    /// From these hosts, whatever their addresses.
    From(Vec<String>),
}

impl Fetch {
    pub(super) fn allows(&self, url: &Url) -> bool {
        url.is_configured
            || match self {
                Fetch::Never => false,
                Fetch::Anywhere => true,
                Fetch::From(hosts) => hosts.iter().any(|host| host.eq_ignore_ascii_case(&url.host)),
            }
    }

    fn allows_address(&self, url: &Url, address: IpAddr) -> bool {
        url.is_configured || matches!(self, Fetch::From(_)) || !is_near(address.to_canonical())
    }
}

/// Whether an address is this machine's or its link's, or none of a single host.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast()
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast(),
    }
}

/// Why nothing was fetched. Completes a sentence that begins with the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HttpError {
    #[error("may not be asked: `[revocation] fetch` does not allow its host")]
    NotAllowed,
    #[error("may not be asked: its address is this machine's, or its link's")]
    NearAddress,
    #[error("is one host too many")]
    TooManyHosts,
    #[error("has not answered lately")]
    Down,
    #[error("has too much to answer")]
    Busy,
    #[error("has no address: {0}")]
    NoAddress(String),
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("does not answer within {0:?}")]
    Timeout(Duration),
    #[error("breaks off: {0}")]
    Broken(String),
    #[error("answers with HTTP status {0}")]
    Status(u16),
    #[error("answers with more than {0} octets")]
    TooLarge(usize),
}

impl HttpError {
    /// Whether the host is to blame rather than what it was asked for.
    fn is_of_host(&self) -> bool {
        matches!(
            self,
            HttpError::NoAddress(_) | HttpError::Unreachable(_) | HttpError::Timeout(_) | HttpError::Broken(_)
        )
    }
}

/// What an exchange may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// From the wish to the last octet.
    pub(super) time: Duration,
    /// Octets of the answer's body.
    pub(super) octets: usize,
}

/// Fetches.
#[derive(Debug)]
pub(super) struct Client {
    fetch: Fetch,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

#[derive(Debug)]
struct Host {
    connections: Arc<Semaphore>,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    failures: u32,
    down_until: Option<Instant>,
}

impl Client {
    pub(super) fn new(fetch: Fetch) -> Client {
        Client {
            fetch,
            hosts: Mutex::default(),
        }
    }

    /// Whether a URL may be followed.
    pub(super) fn allows(&self, url: &Url) -> bool {
        self.fetch.allows(url)
    }

    /// `GET`.
    pub(super) async fn get(&self, url: &Url, bounds: Bounds) -> Result<Bytes, HttpError> {
        self.exchange(url, Request::get(&url.path), Bytes::new(), bounds).await
    }

    /// `POST` of an OCSP request (RFC 6960 appendix A.1).
    pub(super) async fn post(&self, url: &Url, body: Vec<u8>, bounds: Bounds) -> Result<Bytes, HttpError> {
        let request = Request::post(&url.path).header(header::CONTENT_TYPE, "application/ocsp-request");
        self.exchange(url, request, body.into(), bounds).await
    }

    async fn exchange(
        &self,
        url: &Url,
        request: hyper::http::request::Builder,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<Bytes, HttpError> {
        if !self.allows(url) {
            return Err(HttpError::NotAllowed);
        }
        let host = self.host(url)?;
        if host.is_down() {
            return Err(HttpError::Down);
        }
        let deadline = tokio::time::Instant::now() + bounds.time;
        let connections = Arc::clone(&host.connections);
        let Ok(Ok(permit)) = timeout_at(deadline, connections.acquire_owned()).await else {
            return Err(HttpError::Busy);
        };
        if host.is_down() {
            return Err(HttpError::Down); // it was found to be while this one waited
        }
        let result = timeout_at(deadline, async {
            let (stream, _permit) = self.connect(url, permit).await?;
            ask(stream, url, request, body, bounds.octets).await
        });
        let result = result.await.unwrap_or(Err(HttpError::Timeout(bounds.time)));
        host.note(url, &result);
        result
    }

    fn host(&self, url: &Url) -> Result<Arc<Host>, HttpError> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(&url.authority) {
            return Ok(Arc::clone(host));
        }
        if hosts.len() >= HOSTS_MAX {
            return Err(HttpError::TooManyHosts);
        }
        let host = Arc::new(Host {
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            health: Mutex::default(),
        });
        hosts.insert(url.authority.clone(), Arc::clone(&host));
        Ok(host)
    }

    /// A connection. The permit is held until the name was looked up, also when nobody waits for it any more: the system's
    /// resolver blocks a thread, for much longer than a request waits.
    async fn connect(
        &self,
        url: &Url,
        permit: OwnedSemaphorePermit,
    ) -> Result<(TcpStream, OwnedSemaphorePermit), HttpError> {
        let (host, port) = (url.host.clone(), url.port);
        let looking = tokio::spawn(async move {
            let found = lookup_host((host, port)).await;
            (found.map(|all| all.take(ADDRESSES).collect::<Vec<_>>()), permit)
        });
        let (found, permit) = looking.await.map_err(|error| HttpError::NoAddress(error.to_string()))?;
        let addresses: Vec<SocketAddr> = found.map_err(|error| HttpError::NoAddress(error.to_string()))?;
        let mut last = HttpError::NoAddress("none was found".to_owned());
        for address in addresses {
            if !self.fetch.allows_address(url, address.ip()) {
                last = HttpError::NearAddress;
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok((stream, permit)),
                Err(error) => last = HttpError::Unreachable(error.to_string()),
            }
        }
        Err(last)
    }
}

impl Host {
    fn is_down(&self) -> bool {
        self.health().down_until.is_some_and(|until| Instant::now() < until)
    }

    fn note<T>(&self, url: &Url, result: &Result<T, HttpError>) {
        let mut health = self.health();
        match result {
            Err(error) if error.is_of_host() => {
                health.failures = health.failures.saturating_add(1);
                if health.failures < FAILURES {
                    return;
                }
                let is_new = health.down_until.is_none();
                health.down_until = Some(Instant::now() + PAUSE);
                if is_new {
                    drop(health);
                    tracing::warn!(
                        hint = "see that this machine reaches it; until then revocation is not learned there",
                        "`{url}` {error}, {FAILURES} times in a row: it is asked every {} s only",
                        PAUSE.as_secs(),
                    );
                }
            }
            _ => {
                health.failures = 0;
                if health.down_until.take().is_some() {
                    drop(health);
                    tracing::info!("`{url}` answers again");
                }
            }
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request and its answer.
async fn ask(
    stream: TcpStream,
    url: &Url,
    request: hyper::http::request::Builder,
    body: Bytes,
    octets: usize,
) -> Result<Bytes, HttpError> {
    let broken = |error: hyper::Error| HttpError::Broken(error.to_string());
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_OCTETS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // ends with this function
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let request = request
        .header(header::HOST, &url.authority)
        .header(header::USER_AGENT, "portreeve")
        .header(header::CONNECTION, "close")
        .body(Full::new(body))
        .map_err(|error| HttpError::Broken(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    if response.status() != StatusCode::OK {
        return Err(HttpError::Status(response.status().as_u16()));
    }
    let body = response.into_body();
    if body.size_hint().lower() > octets as u64 {
        return Err(HttpError::TooLarge(octets));
    }
    match Limited::new(body, octets).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(HttpError::TooLarge(octets)),
        Err(error) => Err(HttpError::Broken(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_is_followed() {
        let url = Url::named("HTTP://Pki.Example.com:8080/ca.crl?x=1").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("pki.example.com", 8_080, "/ca.crl?x=1")
        );
        let url = Url::named("http://[2001:db8::1]").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("2001:db8::1", 80, "/")
        );
        for other in [
            "https://pki.example.com/",
            "ldap:///CN=CA",
            "file:///etc/passwd",
            "http://",
            "http:///x",
            "http://user@pki.example.com/",
            "http://a b/",
            "/ca.crl",
            "",
            &format!("http://pki.example.com/{}", "x".repeat(3_000)),
        ] {
            assert_eq!(Url::named(other), None, "{other}");
        }
    }

    #[test]
    fn where_certificates_may_send_this_machine() {
        let (named, configured) = (
            Url::named("http://pki.example.com/").unwrap(),
            Url::configured("http://pki.example.com/").unwrap(),
        );
        let hosts = Fetch::From(vec!["PKI.example.com".to_owned()]);
        let others = Fetch::From(vec!["example.com".to_owned()]);
        for (fetch, allows) in [
            (&Fetch::Never, false),
            (&Fetch::Anywhere, true),
            (&hosts, true),
            (&others, false),
        ] {
            assert_eq!(fetch.allows(&named), allows, "{fetch:?}");
            assert!(fetch.allows(&configured));
        }
        for (address, near) in [
            ("127.0.0.1", true),
            ("169.254.169.254", true),
            ("0.0.0.0", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("fe80::1", true),
            ("224.0.0.1", true),
            ("10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(!Fetch::Anywhere.allows_address(&named, address), near, "{address}");
            assert!(hosts.allows_address(&named, address) && Fetch::Never.allows_address(&configured, address));
        }
    }
}
