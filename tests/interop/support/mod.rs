//! What the tests stand on: a node, the programs of others, and this project's own switch.

pub mod freeradius;
pub mod nas;
pub mod node;
pub mod sql;
pub mod supplicant;

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Fallible<T = ()> = Result<T, Error>;

/// The secret of every client, unless a test says otherwise.
pub const SECRET: &str = "testing123";
/// How many programs of others run at a time.
const AT_A_TIME: usize = 4;

/// A command of a Debian package; a missing program is a failure that names the package.
pub fn run(command: &mut Command) -> Fallible<std::process::Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("`{name}` is not installed\nhint: apt-get install eapoltest freeradius-utils freeradius-common")
                .into()
        }
        _ => format!("cannot run `{name}`: {error}").into(),
    })
}

/// Runs every case, a few at a time. The error names every case that failed, not only the first.
pub fn each<T: Sync>(cases: &[T], name: impl Fn(&T) -> String + Sync, run: impl Fn(&T) -> Fallible + Sync) -> Fallible {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = run(case) {
                        failures.lock().unwrap().push(format!("{}: {error}", name(case)));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!("{} of {} failed\n{}", failures.len(), cases.len(), failures.join("\n")).into()),
    }
}

/// An error unless `holds`.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Fallible {
    if holds { Ok(()) } else { Err(what().into()) }
}
