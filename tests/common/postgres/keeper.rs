//! The process that starts the servers and ends them with the test process.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::Mutex;

use nix::unistd::Pid;

use super::programs::{Account, Programs};
use super::text;

pub struct Keeper {
    programs: Programs,
    folder: PathBuf,
    child: Mutex<Child>,
    /// Closed at the end, by [`Keeper::end`] or by the end of this process: std's pipes are inherited by nobody.
    commands: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Keeper {
    pub fn start(programs: &Programs, variables: &[(&str, String)]) -> Keeper {
        let folder = tempfile::Builder::new()
            .prefix("portreeve-postgres-")
            .tempdir()
            .unwrap();
        if let Some(Account { user, group }) = programs.account {
            chown(folder.path(), Some(user.as_raw()), Some(group.as_raw())).unwrap();
        }
        // the keeper removes it
        let folder = folder.keep();
        let script = folder.join("keeper.sh");
        fs::write(&script, include_str!("keeper.sh")).unwrap();
        let mut child = command(programs, &folder, Path::new("/bin/sh"))
            .args([&script, &folder])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // what interrupts the test at the keyboard must leave it time to clean up
            .process_group(0)
            .spawn()
            .unwrap();
        let commands = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        Keeper {
            programs: programs.clone(),
            folder,
            child: Mutex::new(child),
            commands: Mutex::new(Some(commands)),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Starts a server, which does not run: a program with its arguments. `slot` is its number, and names its log.
    pub fn launch(&self, slot: usize, program: &str, arguments: &[&Path]) -> Pid {
        let program = self.programs.path(program);
        let words = [program.as_path()].into_iter().chain(arguments.iter().copied());
        let words: Vec<String> = words.map(|word| format!("'{}'", text(word))).collect();
        let script = self.folder.join(format!("{slot}.run"));
        self.write(&script, &format!("exec {}\n", words.join(" ")));
        let mut commands = self.commands.lock().unwrap();
        let (input, output) = commands.as_mut().unwrap();
        writeln!(input, "start {slot}").unwrap();
        let mut number = String::new();
        output.read_line(&mut number).unwrap();
        Pid::from_raw(number.trim().parse().unwrap())
    }

    /// Kills all servers and removes the folder; returns when that is done.
    pub fn end(&self) {
        if self
            .commands
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take()
            .is_some()
        {
            let _ = self
                .child
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .wait();
        }
    }

    /// A program of PostgreSQL, or one of the system's, as the account that owns the folder.
    pub fn command(&self, program: &str) -> Command {
        command(&self.programs, &self.folder, &self.programs.path(program))
    }

    /// Runs a program that must succeed.
    #[track_caller]
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(program).args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run `{program}`: {error}"));
        assert!(
            output.status.success(),
            "`{program} {}`: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// Writes a file that only the servers' account reads.
    pub fn write(&self, path: &Path, content: &str) {
        fs::write(path, content).unwrap();
        if let Some(Account { user, group }) = self.programs.account {
            chown(path, Some(user.as_raw()), Some(group.as_raw())).unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

fn command(programs: &Programs, folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    // the account may not be allowed to enter the folder that the test runs in, and a locale changes messages
    command
        .current_dir(folder)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
        .env("LC_ALL", "C")
        .env("HOME", folder)
        .env("PGCONNECT_TIMEOUT", "10");
    if let Some(Account { user, group }) = programs.account {
        command.uid(user.as_raw()).gid(group.as_raw());
    }
    command
}
