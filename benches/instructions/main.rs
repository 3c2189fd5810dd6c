//! How many instructions the steps of an authentication take, and whether one takes more than 5 % above the baseline that
//! is in the repository. Instructions are the same on a busy machine and on an idle one, so that this can fail a change.
//!
//! `cargo bench --package portreeve --no-default-features --bench instructions`, with `-- --renew` to write
//! `benches/instructions/baseline.txt` anew. Needs valgrind: each step runs in a process of its own under callgrind.

mod baseline;
#[path = "../common/callgrind.rs"]
mod callgrind;
mod eap;
mod steps;

use std::hint::black_box;
use std::process::ExitCode;

use baseline::{Baseline, Toolchain};
use callgrind::counted;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How often each step is done for one count.
const TIMES: u64 = 32;

/// A step by its name in the baseline; it is prepared outside of [`counted`] and done [`TIMES`] times inside.
type Step = (&'static str, fn() -> Fallible<()>);

/// In the order of ARCHITECTURE.md's "One request".
const STEPS: [Step; 10] = [
    ("parse", steps::parse),
    ("verify", steps::verify),
    ("verify-three", steps::verify_three),
    ("facts", steps::facts),
    ("evaluate", steps::evaluate),
    ("encode", steps::encode),
    ("sign-three", steps::sign_three),
    ("eap-fragments", eap::fragments),
    ("eap-md5", eap::md5),
    ("eap-tls", eap::tls),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments
        .first()
        .and_then(|name| STEPS.iter().find(|(step, _)| step == name));
    let done = match named {
        Some((_, run)) => run().map(|()| true),
        // `cargo test --all-targets` and a plain `cargo bench` run this program as well
        None if cfg!(feature = "server") || !arguments.iter().any(|argument| argument == "--bench") => {
            println!("nothing is counted: `{}`", baseline::COMMAND);
            Ok(true)
        }
        None => compare(arguments.iter().any(|argument| argument == "--renew")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does the same again and again; once before, so that what is made at the first use is not counted.
fn repeat<T>(mut work: impl FnMut() -> T) {
    drop(black_box(work()));
    for _ in 0..TIMES {
        counted(&mut work);
    }
}

/// Counts every step, and returns whether all are within the baseline; or makes the counts the baseline.
fn compare(renew: bool) -> Fallible<bool> {
    let toolchain = Toolchain::here()?;
    let counts = STEPS
        .iter()
        .map(|(step, _)| Ok(((*step).to_owned(), callgrind::run(&[step])? / TIMES)))
        .collect::<Fallible<_>>()?;
    let now = Baseline { toolchain, counts };
    if renew {
        return now.write().map(|()| true);
    }
    Ok(Baseline::read()?.compare(&now))
}
