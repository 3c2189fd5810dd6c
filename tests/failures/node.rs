//! A node: `portreeve serve` in a folder of its own, and what it says.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::memory;
use crate::postgres::{PATIENCE, wait_until};

/// The line of one authentication.
#[derive(Clone, Debug)]
pub struct Line {
    /// The VLAN, or a reject.
    pub verdict: Option<u16>,
    #[expect(dead_code, reason = "for the failure's message")]
    pub reason: String,
    pub revision: String,
}

/// A running node, killed when dropped.
pub struct Node {
    child: Child,
    log: Arc<Mutex<Log>>,
    pub radius: SocketAddr,
    ops: SocketAddr,
    folder: TempDir,
}

#[derive(Default)]
struct Log {
    /// By NAS-Identifier.
    authentications: HashMap<String, Line>,
    /// The dates in them.
    days: BTreeSet<String>,
    others: Vec<Value>,
}

impl Node {
    /// Starts one that uses these certificates; `database` is the section of the configuration, `variables` of its
    /// environment.
    pub fn start(name: &str, certificates: &Path, database: &str, variables: &[(&str, String)]) -> Node {
        let folder = TempDir::new().unwrap();
        let certificates = certificates.display();
        let configuration = format!(
            "[node]\nname = \"{name}\"\n[radius]\nlisten = \"127.0.0.1:0\"\nworkers = 1\n\
             [eap.tls]\ncertificate = \"{certificates}/server.pem\"\nprivate_key = \"{certificates}/server.key\"\n\
             client_ca = \"{certificates}/ca.pem\"\n[ops]\nlisten = \"127.0.0.1:0\"\n{database}\n"
        );
        fs::write(folder.path().join("portreeve.toml"), configuration).unwrap();
        let (child, log) = serve(folder.path(), variables);
        let nowhere = "0.0.0.0:0".parse().unwrap();
        let mut node = Node {
            child,
            log,
            radius: nowhere,
            ops: nowhere,
            folder,
        };
        node.started();
        node
    }

    /// Ends it as a crash does, and starts it again: on other ports, with a new log.
    pub fn restart(&mut self) {
        self.end();
        (self.child, self.log) = serve(self.folder.path(), &[]);
        self.started();
    }

    /// Waits until it has its policies on disk, old ones perhaps.
    pub fn keeps(&self) {
        let file = self.folder.path().join("portreeve.snapshot");
        wait_until("policies on disk", PATIENCE, || file.exists());
    }

    fn started(&mut self) {
        self.radius = self.address_of("listening for radius");
        self.ops = self.address_of("listening for health");
        self.ready();
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }

    fn address_of(&self, what: &str) -> SocketAddr {
        let mut found = None;
        wait_until(what, PATIENCE, || {
            let log = self.log.lock().unwrap();
            let line = log.others.iter().find(|line| message(line).contains(what));
            found = line.map(|line| line["address"].as_str().unwrap().parse().unwrap());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until it authenticates.
    pub fn ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.get("/readyz").0 != 200 {
            let said = || {
                self.log
                    .lock()
                    .unwrap()
                    .others
                    .iter()
                    .map(Value::to_string)
                    .collect::<Vec<_>>()
            };
            assert!(
                Instant::now() < deadline,
                "{:?}\n{}",
                self.get("/readyz"),
                said().join("\n")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The line of an authentication, which may still be on its way.
    pub fn line(&self, name: &str) -> Option<Line> {
        for _ in 0..200 {
            if let Some(line) = self.log.lock().unwrap().authentications.get(name) {
                return Some(line.clone());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Every date that its lines have.
    pub fn days(&self) -> BTreeSet<String> {
        let days = self.log.lock().unwrap().days.clone();
        days.into_iter().filter(|day| !day.is_empty()).collect()
    }

    /// Its resident memory.
    pub fn resident_octets(&self) -> usize {
        let shell = self.child.id();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let is_node = |process: &&str| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "portreeve")
        };
        let node = children.split_whitespace().find(is_node).unwrap();
        memory::resident_octets(node.parse().unwrap()).unwrap()
    }

    /// How many of its messages say this.
    pub fn says(&self, what: &str) -> usize {
        let log = self.log.lock().unwrap();
        log.others.iter().filter(|line| message(line).contains(what)).count()
    }

    /// What it said beside authentications.
    pub fn said(&self) -> Vec<String> {
        self.log.lock().unwrap().others.iter().map(Value::to_string).collect()
    }

    /// The port of the database server that it changed over to last; none: it reads the one that it read at first.
    pub fn changed_over_to(&self) -> Option<u16> {
        let log = self.log.lock().unwrap();
        let line = log
            .others
            .iter()
            .rfind(|line| message(line).contains("reading the policies from"))?;
        let (_, port) = line["server"].as_str()?.rsplit_once(':')?;
        port.parse().ok()
    }

    /// `GET path`: status and body.
    pub fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.ops).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(folder: &Path, variables: &[(&str, String)]) -> (Child, Arc<Mutex<Log>>) {
    // Ended also when the test process is: by a shell that sees the end of its input.
    let script = "\"$0\" serve & cat; kill -KILL $!";
    let mut child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_portreeve")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = Arc::new(Mutex::new(Log::default()));
    let (stderr, filled) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
    std::thread::spawn(move || {
        stderr
            .lines()
            .map_while(Result::ok)
            .for_each(|line| take(&filled, &line));
    });
    (child, log)
}

fn take(log: &Mutex<Log>, line: &str) {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|_| line.into());
    let mut log = log.lock().unwrap();
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    log.days.insert(text("time").chars().take(10).collect());
    match (value["nas_id"].as_str(), value["outcome"].as_str()) {
        (Some(name), Some(outcome)) if name.starts_with("load-") => {
            let verdict = (outcome == "accept").then(|| text("vlan").parse().unwrap_or(0));
            let line = Line {
                verdict,
                reason: text("reason"),
                revision: text("revision"),
            };
            let before = log.authentications.insert(name.to_owned(), line);
            assert!(before.is_none(), "two lines for {name}");
        }
        (Some(_), Some(_)) => {}
        _ => log.others.push(value),
    }
}

fn message(line: &Value) -> &str {
    line["message"].as_str().unwrap_or_default()
}

/// The binary, in a folder.
pub fn portreeve(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portreeve"));
    command
        .current_dir(folder)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Runs a command that must succeed.
#[track_caller]
pub fn done(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) {
    let output = portreeve(folder, arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}
