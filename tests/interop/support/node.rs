//! One node: `portreeve serve` in a folder of its own, and what it says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::{Fallible, ensure};
use crate::{memory, pki};

/// How long anything may take that happens at once on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a node is to be.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// `X` of the server's `X.pem` and `X.key`.
    pub certificate: &'a str,
    /// `X` of each client CA's `X.pem`; of one elsewhere its whole path.
    pub client_ca: &'a [&'a str],
    /// `[radius] listen`.
    pub listen: &'a str,
    /// More lines of `[radius]`.
    pub radius: &'a str,
    /// More lines of `[eap.tls]`, and its profiles.
    pub tls: &'a str,
    /// The policy set.
    pub document: &'a str,
    /// Commands of the binary that run in the node's folder before it starts.
    pub commands: &'a [&'a [&'a str]],
    /// More of the node's environment.
    pub variables: &'a [(&'a str, String)],
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Plan {
            certificate: "server",
            client_ca: &["ca"],
            listen: r#"["127.0.0.1:0", "[::1]:0"]"#,
            radius: "",
            tls: "",
            document: "",
            commands: &[],
            variables: &[],
        }
    }
}

/// A node that answers; killed when dropped.
pub struct Node {
    folder: TempDir,
    process: Child,
    log: Arc<Log>,
    addresses: Vec<SocketAddr>,
    ops: SocketAddr,
}

/// What the node wrote on standard error.
#[derive(Default)]
struct Log {
    lines: Mutex<Lines>,
    more: Condvar,
}

#[derive(Default)]
struct Lines {
    all: Vec<Value>,
    ended: bool,
}

impl Node {
    pub fn start(plan: Plan<'_>) -> Fallible<Node> {
        let folder = TempDir::new()?;
        let Plan {
            listen, radius, tls, ..
        } = plan;
        fs::create_dir_all(folder.path().join("certs/client-ca"))?;
        fs::write(
            folder.path().join("portreeve.toml"),
            format!(
                "[node]\nname = \"interop\"\n\
                 [radius]\nlisten = {listen}\nworkers = 2\n{radius}\n\
                 [database]\nurl = \"sqlite:portreeve.db\"\n\
                 [eap.tls]\ncertificate = \"certs/server.pem\"\nprivate_key = \"certs/server.key\"\nclient_ca = \"certs/client-ca\"\n{tls}\n\
                 [ops]\nlisten = \"127.0.0.1:0\"\n"
            ),
        )?;
        install(folder.path(), plan.certificate)?;
        for ca in plan.client_ca {
            let file = pem(&format!("{ca}.pem"))?;
            let name = file.file_name().ok_or("no name")?;
            fs::copy(&file, folder.path().join("certs/client-ca").join(name))?;
        }
        fs::write(folder.path().join("set.toml"), plan.document)?;
        portreeve(folder.path(), &["migrate"])?;
        portreeve(folder.path(), &["import", "set.toml"])?;
        for arguments in plan.commands {
            portreeve(folder.path(), arguments)?;
        }

        let mut process = Command::new(env!("CARGO_BIN_EXE_portreeve"))
            .arg("serve")
            .current_dir(folder.path())
            .envs(plan.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let log = Arc::new(Log::default());
        if let Some(stderr) = process.stderr.take() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || log.fill(BufReader::new(stderr)));
        }
        let mut node = Node {
            folder,
            process,
            log,
            addresses: Vec::new(),
            ops: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        // the last thing that is said of a start
        let ops = node.line("the address of health and metrics", |line| {
            message(line).starts_with("listening for health and metrics")
        })?;
        node.ops = address(&ops)?;
        let lines = node.lines();
        let mut listening = lines
            .iter()
            .filter(|line| message(line).starts_with("listening for radius"));
        node.addresses = listening.by_ref().map(address).collect::<Fallible<_>>()?;
        Ok(node)
    }

    /// Where it takes requests over IPv4.
    pub fn address(&self) -> SocketAddr {
        self.addresses.iter().copied().find(SocketAddr::is_ipv4).unwrap()
    }

    /// Where it takes requests over IPv6.
    pub fn address_v6(&self) -> SocketAddr {
        self.addresses.iter().copied().find(SocketAddr::is_ipv6).unwrap()
    }

    /// Where it answers questions.
    pub fn ops(&self) -> SocketAddr {
        self.ops
    }

    /// Its folder, with `portreeve.toml`, `portreeve.db` and `certs`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command of the binary in the node's folder.
    pub fn command(&self, arguments: &[&str]) -> Fallible<String> {
        portreeve(self.folder(), arguments)
    }

    /// Puts the certificate and key `name` where the node's are.
    pub fn install(&self, name: &str) -> Fallible {
        install(self.folder(), name)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Fallible {
        Ok(kill(Pid::from_raw(self.process.id().try_into()?), signal)?)
    }

    /// Its resident memory.
    pub fn resident_octets(&self) -> Fallible<usize> {
        memory::resident_octets(self.process.id()).ok_or_else(|| "the node has ended".into())
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> Fallible<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("the node does not end".into())
    }

    /// What it has said so far.
    pub fn lines(&self) -> Vec<Value> {
        self.log.lines.lock().unwrap().all.clone()
    }

    /// Waits for a line; finds it also when it was written long ago.
    pub fn line(&self, what: &str, is: impl Fn(&Value) -> bool) -> Fallible<Value> {
        self.line_after(0, what, is)
    }

    /// Waits for a line behind the first `seen`.
    pub fn line_after(&self, seen: usize, what: &str, is: impl Fn(&Value) -> bool) -> Fallible<Value> {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.log.lines.lock().unwrap();
        loop {
            if let Some(line) = lines.all.iter().skip(seen).find(|line| is(line)) {
                return Ok(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if lines.ended || left.is_zero() {
                let all: Vec<String> = lines.all.iter().map(Value::to_string).collect();
                return Err(format!("the node's log does not say: {what}; it says\n{}", all.join("\n")).into());
            }
            lines = self.log.more.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// The lines of the first `count` authentications with this NAS-Identifier.
    pub fn authentications(&self, nas_id: &str, count: usize) -> Fallible<Vec<Value>> {
        let mut lines: Vec<Value> = Vec::new();
        for at in 0..count {
            let line = self.line(&format!("authentication {at} of `{nas_id}`"), |line| {
                line["nas_id"] == nas_id && line["outcome"].is_string() && !lines.contains(line)
            })?;
            lines.push(line);
        }
        Ok(lines)
    }

    /// The line of the authentication with this NAS-Identifier.
    pub fn authentication(&self, nas_id: &str) -> Fallible<Value> {
        self.line(&format!("an authentication of `{nas_id}`"), |line| {
            line["nas_id"] == nas_id && line["outcome"].is_string()
        })
    }

    /// Holds the line of the authentication with this NAS-Identifier against what is expected.
    pub fn expect(&self, nas_id: &str, expected: &[(&str, &str)]) -> Fallible {
        let line = self.authentication(nas_id)?;
        let differs = expected.iter().find(|(field, value)| line[*field] != *value);
        ensure(differs.is_none(), || format!("expected {expected:?} of {line}"))
    }

    /// `GET path`: status and body.
    pub fn get(&self, path: &str) -> Fallible<(u16, String)> {
        let mut stream = TcpStream::connect(self.ops)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no http answer")?;
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        Ok((status, body.to_owned()))
    }

    /// `/metrics`: each series with its labels, as it is written, and its value.
    pub fn metrics(&self) -> Fallible<BTreeMap<String, f64>> {
        let (_, body) = self.get("/metrics")?;
        let series = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        series
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').ok_or_else(|| format!("no series: {line}"))?;
                Ok((name.to_owned(), value.parse()?))
            })
            .collect()
    }

    /// How many packets got no answer for this reason.
    pub fn dropped(&self, reason: &str) -> Fallible<u64> {
        let name = format!("portreeve_dropped_packets_total{{reason=\"{reason}\"}}");
        let metrics = self.metrics()?;
        let count = metrics.get(&name).ok_or_else(|| format!("no series {name}"))?;
        Ok(*count as u64)
    }

    /// Waits until so many packets got no answer for this reason; more are an error.
    pub fn drops(&self, reason: &str, count: u64) -> Fallible {
        let deadline = Instant::now() + PATIENCE;
        while self.dropped(reason)? < count && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let dropped = self.dropped(reason)?;
        ensure(dropped == count, || {
            format!("{dropped} dropped for {reason}, and not {count}")
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Log {
    fn fill(&self, stderr: impl BufRead) {
        for line in stderr.lines().map_while(Result::ok) {
            let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
            self.lines.lock().unwrap().all.push(line);
            self.more.notify_all();
        }
        self.lines.lock().unwrap().ended = true;
        self.more.notify_all();
    }
}

/// A file of the test PKI.
pub fn pem(name: &str) -> Fallible<PathBuf> {
    let folder = pki::folder().map_err(|error| error.to_string())?;
    Ok(folder.join(name))
}

/// The message of a line of the operational log.
pub fn message(line: &Value) -> &str {
    line["message"].as_str().unwrap_or_default()
}

/// Whole files appear at once, as a careful program puts them there.
fn install(folder: &Path, name: &str) -> Fallible {
    for kind in ["pem", "key"] {
        let target = folder.join(format!("certs/server.{kind}"));
        let beside = target.with_extension("new");
        fs::copy(pem(&format!("{name}.{kind}"))?, &beside)?;
        fs::rename(&beside, &target)?;
    }
    Ok(())
}

fn portreeve(folder: &Path, arguments: &[&str]) -> Fallible<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_portreeve"))
        .args(arguments)
        .current_dir(folder)
        .output()?;
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    ensure(output.status.success(), || {
        format!("`portreeve {}`: {}", arguments.join(" "), said(&output.stderr))
    })?;
    Ok(said(&output.stdout))
}

fn address(line: &Value) -> Fallible<SocketAddr> {
    Ok(line["address"].as_str().ok_or("no address")?.parse()?)
}
