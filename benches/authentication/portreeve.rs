//! Portreeve itself: `portreeve serve` with the data set `nacs` in an SQLite file, and `portreeve-load` that asks it and
//! checks every answer.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::certificates::Pki;
use super::child::Server;
use super::{AT_ONCE, Fallible, TURN, processor};

/// Authentications before anything is measured: all switches of all sites, and more.
const WARM_UP: &str = "20000";
/// Devices that come back with a session are those of so many sites, ten each.
const SITES_THAT_RESUME: usize = 50;
/// From the client's start until it has surely begun, and before its end.
const MARGIN: Duration = Duration::from_millis(200);

/// A node that is warm, and what its load is made of.
pub struct Node {
    folder: TempDir,
    server: Server,
    load: PathBuf,
}

impl Node {
    /// Starts it, and returns when it has answered for every site.
    pub fn start(pki: &Pki) -> Fallible<Node> {
        let portreeve = Path::new(env!("CARGO_BIN_EXE_portreeve"));
        let load = portreeve.with_file_name("portreeve-load");
        if !load.exists() {
            return Err(format!(
                "there is no `{}`\nhint: cargo build --release --workspace",
                load.display()
            )
            .into());
        }
        let folder = tempfile::tempdir()?;
        pki.write(folder.path())?;
        let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
        let config = folder.path().join("portreeve.toml");
        let text = format!(
            "[radius]\nlisten = \"{address}\"\n[database]\nurl = \"sqlite:nacs.db\"\n[ops]\nlisten = \"off\"\n\
             [eap.tls]\ncertificate = \"server.pem\"\nprivate_key = \"server.key\"\nclient_ca = \"ca.pem\"\n"
        );
        fs::write(&config, text)?;
        let command = |words: &[&str]| {
            let mut command = Command::new(portreeve);
            command
                .args(words)
                .arg("--config")
                .arg(&config)
                .current_dir(folder.path());
            command
        };
        run(&mut command(&["migrate"]))?;
        run(&mut command(&["seed", "--dataset", "nacs", "--plan", "all.toml"]))?;
        let all = fs::read_to_string(folder.path().join("all.toml"))?;
        let few: Vec<&str> = all.split("[[case]]").take(1 + SITES_THAT_RESUME).collect();
        fs::write(folder.path().join("few.toml"), few.join("[[case]]"))?;
        // its log goes where a log goes, to a file
        let process = command(&["serve"])
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?)
            .spawn()?;
        let node = Node {
            server: Server::new(process, address),
            folder,
            load,
        };
        node.warm_up()?;
        Ok(node)
    }

    fn warm_up(&self) -> Fallible<()> {
        let end = Instant::now() + Duration::from_secs(20);
        while let Err(error) = self.devices(&["mab", "--count", "1", "--timeout", "200ms"]) {
            if Instant::now() > end {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(format!("{error}\nthe server's log:\n{log}").into());
            }
        }
        self.devices(&["mab", "--count", WARM_UP]).map(drop)
    }

    /// What it uses for one of these devices, which have been coming for a while.
    pub fn measure(&self, devices: &[&str]) -> Fallible<Duration> {
        self.measure_behind(Duration::from_millis(300), "all.toml", devices)
    }

    /// What it uses for one of these devices once they all have a session with which to come back.
    pub fn measure_resumed(&self, devices: &[&str]) -> Fallible<Duration> {
        self.measure_behind(Duration::from_millis(1500), "few.toml", devices)
    }

    fn measure_behind(&self, lead_in: Duration, plan: &str, devices: &[&str]) -> Fallible<Duration> {
        let measured = TURN + 2 * MARGIN;
        let phases = [("lead-in", lead_in), ("measured", measured)].map(|(name, duration)| {
            let milliseconds = duration.as_millis();
            format!("[[phase]]\nname = \"{name}\"\nduration = \"{milliseconds}ms\"\nusers = {AT_ONCE}\n")
        });
        fs::write(self.folder.path().join("phases.toml"), phases.concat())?;
        let mut child = self
            .command(&[devices, &["--plan", plan, "--plan", "phases.toml"]].concat())
            .stdout(Stdio::null())
            .spawn()?;
        sleep(lead_in + MARGIN);
        let used = || processor::of_process(self.server.id());
        let (start, before) = (Instant::now(), used()?);
        sleep(TURN);
        let (took, used) = (start.elapsed(), used()? - before);
        child.wait()?;
        let report = self.report()?;
        let number = |pointer| {
            report
                .pointer(pointer)
                .and_then(Value::as_f64)
                .ok_or("not in the report")
        };
        let right: f64 = number("/phases/1/right")?;
        if number("/accepted")? != number("/phases/0/right")? + right || number("/failed")? > 0.0 {
            return Err(format!("not all were let in: {report}").into());
        }
        let a_second = right / measured.as_secs_f64();
        Ok(used.div_f64(took.as_secs_f64() * a_second))
    }

    /// What it uses for one device of as many as there are certificates in this folder, each with one of its own.
    pub fn measure_each(&self, devices: &[&str], folder: &Path, count: usize) -> Fallible<Duration> {
        let (folder, count) = (folder.to_string_lossy(), count.to_string());
        let each = ["--cert-dir", &folder, "--count", &count];
        self.server.measure(|_| self.devices(&[devices, &each].concat()))
    }

    /// How many of these devices were let in: all, or it is an error.
    fn devices(&self, devices: &[&str]) -> Fallible<u64> {
        run(&mut self.command(&[devices, &["--plan", "all.toml", "--concurrency", &AT_ONCE.to_string()]].concat()))?;
        let accepted = self.report()?.get("accepted").and_then(Value::as_u64);
        Ok(accepted.ok_or("no count in the report")?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.load);
        command
            .args(arguments)
            .args(["--target", &self.server.address.to_string(), "--json", "report.json"])
            .current_dir(self.folder.path());
        command
    }

    fn report(&self) -> Fallible<Value> {
        Ok(serde_json::from_slice(&fs::read(
            self.folder.path().join("report.json"),
        )?)?)
    }
}

fn run(command: &mut Command) -> Fallible<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
