//! What the user is told that cannot be done, and what is sent of what he asked for.

use std::net::{SocketAddr, UdpSocket};

use super::client::{command, run};
use super::server::Pki;
#[test]
fn nobody_there_is_said_at_once() {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for sources in [&[][..], &["--sources", "127.0.0.9"], &["--sources", "127.9.0.0/24"]] {
        let run = run(target, &[&["mab", "--duration", "1h"], sources].concat());
        assert_eq!(run.code, 1);
        assert!(
            run.errors
                .starts_with(&format!("error: nothing listens on {target}\nhint: ")),
            "{}",
            run.errors
        );
    }
}

#[test]
fn mistakes_are_explained() {
    let target: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let key = Pki::shared().folder().join("missing.key");
    for (arguments, code, part) in [
        (&["eap-tls", "--key", key.to_str().unwrap()][..], 1, "missing.key`"),
        (
            &["mab", "--expect", "Tunnel-Private-Group=1"],
            2,
            "is no attribute of the dictionary",
        ),
        (&["mab", "--attr", "User-Name=bob"], 1, "`--identity` sets it"),
        (
            &["mab", "--attr", "Tunnel-Password=x"],
            1,
            "hidden anew in every request",
        ),
        (&["mab", "--password", &"x".repeat(129)], 1, "cannot write a request"),
        (&["mab", "--mac", "printer"], 2, "is no MAC address"),
        (&["mab", "--count", "1", "--duration", "1s"], 2, "cannot be used with"),
        (
            &["mab", "--json", "/no/such/folder/x.json"],
            1,
            "cannot write `/no/such/folder/x.json`",
        ),
        (&["mab", "--rate", "0"], 2, "not between 0.001"),
        (&["mab", "--rate", "5", "--concurrency", "5"], 2, "cannot be used with"),
        (&["mab", "--ramp", "20s"], 1, "longer than the run"),
        (&["mab", "--sources", "192.0.2.7"], 1, "cannot send from 192.0.2.7"),
        (&["mab", "--sources", "::1"], 1, "of another family"),
        (&["mab", "--sources", "127.0.0.0/33"], 2, "is no network"),
        (
            &["mab", "--server-pid", "4294967295"],
            1,
            "cannot watch process 4294967295",
        ),
    ] {
        let output = command(target, arguments).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn attributes_are_sent() {
    // the server lets in only what it can verify, so that what is sent is read here from the request itself
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let mut datagram = [0; 4096];
        let octets = socket.recv(&mut datagram).unwrap();
        datagram[..octets].to_vec()
    });
    let arguments = [
        "mab",
        "--count",
        "1",
        "--timeout",
        "50ms",
        "--retries",
        "0",
        "--attr",
        "NAS-Port-Type=Wireless-802.11",
    ];
    let more = [
        "--attr",
        "Cisco-AVPair=audit-session-id=1",
        "--attr",
        "Called-Station-Id=00-11-22-33-44-55:Staff",
    ];
    run(target, &[&arguments[..], &more].concat());
    let request = reader.join().unwrap();
    let packet = portreeve::radius::packet::Packet::parse(&request).unwrap();
    let dictionary = portreeve::radius::dictionary::Dictionary::builtin();
    let lines = portreeve::radius::display::attributes(dictionary, &packet, None);
    let lines: Vec<_> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("Message-Authenticator") && !line.starts_with("NAS-Port-Id"))
        .collect();
    assert_eq!(
        lines,
        [
            "User-Name = \"020000000001\"",
            "User-Password = hidden",
            "Service-Type = Call-Check",
            "NAS-Identifier = \"portreeve-load\"",
            "NAS-Port-Type = Wireless-802.11",
            "Cisco-AVPair = \"audit-session-id=1\"",
            "Called-Station-Id = \"00-11-22-33-44-55:Staff\"",
            "NAS-Port = 1",
            "Calling-Station-Id = \"02-00-00-00-00-01\"",
        ]
    );
}
