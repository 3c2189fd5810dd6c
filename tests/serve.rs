//! A node from outside: it starts or says why not, answers, tells what it did, and stops as it is told to.

#[cfg(test)]
mod serve {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpStream, UdpSocket};
    use std::path::Path;
    use std::process::{Child, ChildStderr, Command, Stdio};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use portreeve::nas::{Answer, Attempt, Credentials};
    use portreeve::radius::crypto::Secret;
    use tempfile::TempDir;

    const CONFIG: &str = r#"
[node]
name = "node-a"
[radius]
listen = "127.0.0.1:0"
workers = 1
drain_timeout = "1s"
[eap.tls]
certificate = "certs/server.pem"
private_key = "certs/server.key"
client_ca = "certs/ca.pem"
[ops]
listen = "127.0.0.1:0"
"#;

    const SET: &str = r#"
[[site]]
name = "London"
tag = "london"

[[site.client]]
network = "127.0.0.0/8"
secret = "a secret of some length"

[[site.mac]]
address = "00-1b-78-00-00-01"
responses = ["Filter-Id = printers"]
"#;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn portreeve(folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
        command.current_dir(folder).args(args).env_clear();
        command
    }

    fn done(folder: &Path, args: &[&str]) -> String {
        let output = portreeve(folder, args).output().unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("portreeve.toml"), CONFIG).unwrap();
        std::fs::write(folder.path().join("set.toml"), SET).unwrap();
        done(folder.path(), &["cert", "init", "certs"]);
        done(folder.path(), &["migrate"]);
        done(folder.path(), &["import", "set.toml"]);
        folder
    }

    /// A running node, killed when a test fails.
    struct Node {
        child: Child,
        log: BufReader<ChildStderr>,
        radius: SocketAddr,
        ops: SocketAddr,
    }

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = self.child.kill();
        }
    }

    impl Node {
        fn spawn(folder: &Path) -> Node {
            let mut child = portreeve(folder, &["serve"]).stderr(Stdio::piped()).spawn().unwrap();
            let log = BufReader::new(child.stderr.take().unwrap());
            let nowhere = "0.0.0.0:0".parse().unwrap();
            Node {
                child,
                log,
                radius: nowhere,
                ops: nowhere,
            }
        }

        fn start(folder: &Path) -> Node {
            let mut node = Node::spawn(folder);
            node.radius = node.address_of("listening for radius");
            node.ops = node.address_of("listening for health");
            let deadline = Instant::now() + PATIENCE;
            while node.get("/readyz").0 != 200 {
                assert!(Instant::now() < deadline, "{:?}", node.get("/readyz"));
                std::thread::yield_now();
            }
            node
        }

        fn address_of(&mut self, what: &str) -> SocketAddr {
            self.line_with(what)["address"].as_str().unwrap().parse().unwrap()
        }

        /// The next line of the log that contains `part`.
        fn line_with(&mut self, part: &str) -> serde_json::Value {
            loop {
                let mut line = String::new();
                assert!(
                    self.log.read_line(&mut line).unwrap() > 0,
                    "the log ended before `{part}`"
                );
                if line.contains(part) {
                    return serde_json::from_str(&line).unwrap();
                }
            }
        }

        fn get(&self, path: &str) -> (u16, String) {
            let mut stream = TcpStream::connect(self.ops).unwrap();
            stream
                .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
        }

        /// MAC authentication; whether it was accepted.
        fn authenticate(&self, mac: &str) -> bool {
            let mut attributes = vec![31, u8::try_from(mac.len() + 2).unwrap()];
            attributes.extend_from_slice(mac.as_bytes());
            let secret = Arc::new(Secret::new(b"a secret of some length"));
            let user = mac.as_bytes().to_vec();
            let mut attempt = Attempt::new(secret, user.clone(), attributes.into(), Credentials::Pap(user));
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut request = Vec::new();
            attempt.request(7, [9; 16], &mut request).unwrap();
            socket.send_to(&request, self.radius).unwrap();
            let mut reply = [0; 4_096];
            let octets = socket.recv(&mut reply).unwrap();
            matches!(attempt.reply(&reply[..octets]).unwrap(), Answer::Accept(_))
        }

        fn signal(&self, signal: Signal) {
            kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
        }

        fn exit_code(&mut self) -> Option<i32> {
            self.child.wait().unwrap().code()
        }
    }

    #[test]
    fn a_node_answers_tells_what_it_did_and_stops() {
        let folder = folder();
        let mut node = Node::start(folder.path());
        assert!(node.authenticate("00:1B:78:00:00:01"));
        assert!(!node.authenticate("00:1B:78:00:00:02"));

        let line = node.line_with("\"mac-not-listed\"");
        for (field, value) in [
            ("node", "node-a"),
            ("client", "127.0.0.1"),
            ("site", "london"),
            ("user", "00:1B:78:00:00:02"),
            ("mac", "00-1b-78-00-00-02"),
            ("outcome", "reject"),
        ] {
            assert_eq!(line[field], value, "{line}");
        }
        let ops = node.ops.to_string();
        let why = done(folder.path(), &["why", "001b.7800.0002", "--node", &ops]);
        assert!(
            why.contains("reject: mac-not-listed") && why.contains("hint: add it"),
            "{why}"
        );
        let (_, metrics) = node.get("/metrics");
        for line in [
            "portreeve_authentications_total{method=\"mab\",outcome=\"accept\",reason=\"mac-listed\"} 1",
            "portreeve_authentications_total{method=\"mab-unknown\",outcome=\"reject\",reason=\"mac-not-listed\"} 1",
            "portreeve_requests_total{code=\"access-request\"} 2",
        ] {
            assert!(metrics.lines().any(|have| have == line), "{line}\nin\n{metrics}");
        }

        node.signal(Signal::SIGTERM);
        node.line_with("\"stopping");
        node.line_with("\"stopped\"");
        assert_eq!(node.exit_code(), Some(0));
    }

    #[test]
    fn what_check_warns_of_is_said_at_the_start_and_with_new_certificates() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let key = folder.path().join("certs/server.key");
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut node = Node::spawn(folder.path());
        let warned = |node: &mut Node| {
            let line = node.line_with("can read the server's private key");
            assert_eq!(line["level"], "warn", "{line}");
            assert!(line["hint"].as_str().unwrap().contains("chmod 600"), "{line}");
        };
        warned(&mut node);
        node.line_with("\"listening for health");
        node.signal(Signal::SIGHUP);
        node.line_with("\"certificates were read again");
        warned(&mut node);
    }

    #[test]
    fn a_log_that_nobody_reads_blocks_neither_authentication_nor_the_end() {
        let folder = folder();
        let mut node = Node::start(folder.path());
        // some 180 lines fill the pipe
        for _ in 0..400 {
            assert!(node.authenticate("001b78000001"));
        }
        assert_eq!(node.get("/readyz").0, 200);
        node.signal(Signal::SIGTERM);
        assert_eq!(node.exit_code(), Some(0));
    }

    #[test]
    fn a_start_that_cannot_be_says_why_in_one_line_with_a_hint() {
        let folder = folder();
        let node = Node::start(folder.path());
        let (radius, ops) = (node.radius.to_string(), node.ops.to_string());
        for (variables, part) in [
            (
                [
                    ("PORTREEVE__RADIUS__LISTEN", radius.as_str()),
                    ("PORTREEVE__OPS__LISTEN", "off"),
                ],
                radius.as_str(),
            ),
            (
                [
                    ("PORTREEVE__OPS__LISTEN", ops.as_str()),
                    ("PORTREEVE__NODE__NAME", "node-b"),
                ],
                ops.as_str(),
            ),
            (
                [
                    ("PORTREEVE__DATABASE__URL", "sqlite:nowhere.db"),
                    ("PORTREEVE__OPS__LISTEN", "off"),
                ],
                "nowhere.db",
            ),
            (
                [
                    ("PORTREEVE__EAP__TLS__CERTIFICATE", "nowhere.pem"),
                    ("PORTREEVE__OPS__LISTEN", "off"),
                ],
                "nowhere.pem",
            ),
        ] {
            let output = portreeve(folder.path(), &["serve"]).envs(variables).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            let lines: Vec<&str> = said.lines().collect();
            assert!(
                matches!(lines[..], [error, hint] if error.starts_with("error: ") && error.contains(part) && hint.starts_with("hint: ")),
                "{said}"
            );
        }
    }
}
