//! A server of one page, which can be changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A server; gone when dropped.
pub(super) struct Web {
    page: Arc<Mutex<Option<Vec<u8>>>>,
    requests: Arc<AtomicUsize>,
    port: u16,
    _serving: JoinSet<()>,
}

impl Web {
    /// One without a page: it answers 404.
    pub(super) async fn start() -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (page, requests) = (Arc::<Mutex<Option<Vec<u8>>>>::default(), Arc::<AtomicUsize>::default());
        let (serving_page, counting) = (Arc::clone(&page), Arc::clone(&requests));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counting.fetch_add(1, Ordering::Relaxed);
                let _ = stream.read(&mut [0; 4_096]).await;
                let page = serving_page.lock().unwrap().clone();
                let status = if page.is_some() { "200 OK" } else { "404 Not Found" };
                let page = page.unwrap_or_default();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", page.len());
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&page).await;
            }
        });
        Web {
            page,
            requests,
            port,
            _serving: serving,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(super) fn put(&self, page: Option<Vec<u8>>) {
        *self.page.lock().unwrap() = page;
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}
