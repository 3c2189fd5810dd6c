//! Questions to a running node, over its `[ops] listen`.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::error::hinted;
use crate::config::Config;

/// Where the node of this configuration answers.
pub fn address(config: &Config) -> anyhow::Result<SocketAddr> {
    let listen = config.ops.listen.ok_or_else(|| {
        hinted(
            "this node answers no questions: `[ops] listen` is `off`",
            "set it, and restart `portreeve serve`",
        )
    })?;
    Ok(reachable(listen))
}

/// Asks the node. HTTP/1.0: the answer ends with the connection.
pub fn ask(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let hint = "is `portreeve serve` running, with the same `[ops] listen`?";
    let patience = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, patience)
        .map_err(|error| hinted(format!("cannot reach the node at `{address}`: {error}"), hint))?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut answer = Vec::new();
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .and_then(|()| stream.take(64 << 20).read_to_end(&mut answer))
        .map_err(|error| hinted(format!("the node at `{address}` does not answer: {error}"), hint))?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(hinted(format!("what answers at `{address}` is no portreeve"), hint)),
    }
}

/// Where to connect to reach what listens on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (ip, address.port()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_everywhere_is_reached_here() {
        for (listen, reached) in [
            ("0.0.0.0:8812", "127.0.0.1:8812"),
            ("[::]:8812", "[::1]:8812"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
