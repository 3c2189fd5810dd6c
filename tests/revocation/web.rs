//! Small web servers: of lists, and of responders that do not do what they should.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::Fallible;

/// What a request gets.
#[derive(Clone, Debug)]
pub enum Page {
    /// Status 200 and these octets.
    Body(Vec<u8>),
    /// The head of an answer, as it stands.
    Raw(Vec<u8>),
    /// Nothing, while the connection lasts.
    Silence,
}

/// A server; closed when dropped.
pub struct Web {
    shared: Arc<Shared>,
    port: u16,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    pages: Mutex<HashMap<String, Page>>,
    requests: AtomicUsize,
    most_at_once: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    closed: AtomicBool,
}

impl Web {
    pub fn start() -> Fallible<Web> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.closed.load(Ordering::Relaxed) {
                    return;
                }
                let serving = Arc::clone(&serving);
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Ok(Web {
            shared,
            port,
            accepting: Some(accepting),
        })
    }

    /// Puts a page there, and says where it is.
    pub fn put(&self, path: &str, page: Page) -> String {
        self.shared.pages.lock().unwrap().insert(path.to_owned(), page);
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Connections that were open together, at most.
    pub fn most_at_once(&self) -> usize {
        self.shared.most_at_once.load(Ordering::Relaxed)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
        let mut open = self.open.lock().unwrap();
        open.extend(stream.try_clone());
        self.most_at_once.fetch_max(open.len(), Ordering::Relaxed);
        drop(open);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut request = Vec::new();
        let mut octets = [0; 4_096];
        // whatever follows the head is not looked at
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut octets) {
                Ok(count @ 1..) => request.extend_from_slice(&octets[..count]),
                _ => break,
            }
        }
        let request = String::from_utf8_lossy(&request).into_owned();
        let path = request.split(' ').nth(1).unwrap_or_default();
        let page = self.pages.lock().unwrap().get(path).cloned();
        match page {
            Some(Page::Body(body)) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            }
            Some(Page::Raw(octets)) => {
                let _ = stream.write_all(&octets);
            }
            Some(Page::Silence) => while matches!(stream.read(&mut octets), Ok(1..)) {},
            None => {
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
        }
        let peer = stream.peer_addr().ok();
        self.open.lock().unwrap().retain(|other| other.peer_addr().ok() != peer);
    }
}

/// An address at which nobody listens.
pub fn closed_port() -> Fallible<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(format!("http://{}/", listener.local_addr()?))
}
