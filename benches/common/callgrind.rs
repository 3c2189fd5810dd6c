//! This program again under callgrind, which counts between the call and the return of [`counted`] and nowhere else.

use std::hint::black_box;
use std::process::Command;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What is counted, and what is done with the result: it is dropped.
#[inline(never)]
pub fn counted<T>(work: impl FnOnce() -> T) {
    drop(black_box(work()));
}

/// The instructions that this program counts when it is given these arguments.
pub fn run(arguments: &[&str]) -> Fallible<u64> {
    let folder = tempfile::tempdir()?;
    let profile = folder.path().join("callgrind.out");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*::counted*",
        ])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(arguments)
        .output()
        .map_err(|error| format!("valgrind: {error}\nhint: on Debian, as root: apt-get install valgrind"))?;
    if !output.status.success() {
        return Err(format!(
            "{arguments:?} under valgrind: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let text = std::fs::read_to_string(profile)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    match totals.ok_or("callgrind wrote no totals")?.trim().parse()? {
        0 => Err(format!("nothing was counted of {arguments:?}: did the function `counted` lose its name?").into()),
        count => Ok(count),
    }
}
