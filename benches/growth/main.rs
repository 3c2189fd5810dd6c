//! Whether an authentication costs more where there is more data: its instructions in a node with 10 sites, and in one with
//! 20,000. Less than 5 % may lie between them.
//!
//! `cargo test --bench growth` compares the two by MAC address, unoptimised; `cargo bench --bench growth` has all sizes and
//! EAP-TLS, and `bench/sizes` puts it into docs/sizes.md. Needs valgrind. The whole path of a request is in it, from the
//! datagram to the reply; neither sockets nor the log's thread are, which know nothing of sites.

#[path = "../common/callgrind.rs"]
mod callgrind;
mod node;
mod requests;

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use portreeve::store::Store;
use portreeve::store::seed::{self, Counts, Nacs, Options};
use portreeve::trust::pki;

use requests::Method;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The word before the arguments of a process that is counted.
const ROLE: &str = "authenticate";
/// How many authentications are counted, at so many sites, as far as there are.
const AUTHENTICATIONS: u32 = 20;
/// How much more an authentication may cost with the most sites than with the fewest, in percent.
const MOST: f64 = 5.0;

const POLICIES: [u32; 2] = [5, 50];
const SITES: [u32; 3] = [10, 1_750, 20_000];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *words.as_slice() {
        [ROLE, folder, sites, policies, method] => role(folder, sites, policies, method).map(|()| true),
        _ if words.contains(&"--bench") => compare(&SITES, &POLICIES, &Method::ALL),
        // `cargo test TEXT` is after other tests, `--list` after names
        _ if words.iter().any(|word| *word == "--list" || !word.starts_with('-')) => {
            eprintln!("nothing is compared: `cargo test --bench growth`");
            Ok(true)
        }
        _ => compare(&[10, 20_000], &[5], &[Method::Mab]),
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

fn role(folder: &str, sites: &str, policies: &str, method: &str) -> Fallible<()> {
    let nacs = Nacs::new(counts(sites.parse()?, policies.parse()?))?;
    node::authenticate(Path::new(folder), &nacs, Method::parse(method).ok_or("no such method")?)
}

fn counts(sites: u32, policies_per_site: u32) -> Counts {
    Counts {
        sites,
        policies_per_site,
        policies: 100,
        clients: 1,
        macs: 1,
        ..Counts::default()
    }
}

/// Prints the instructions of each kind of authentication in each size, and returns whether they grow little enough.
fn compare(sites: &[u32], policies: &[u32], methods: &[Method]) -> Fallible<bool> {
    println!("instructions of one authentication");
    println!("{:8} {:>8} {:>8} {:>12}", "method", "policies", "sites", "instructions");
    let mut little = true;
    for policies in policies {
        let mut fewest = vec![None; methods.len()];
        for sites in sites {
            let folder = tempfile::tempdir()?;
            prepare(folder.path(), &Nacs::new(counts(*sites, *policies))?)?;
            for (method, fewest) in methods.iter().zip(&mut fewest) {
                let path = folder.path().to_string_lossy();
                let arguments = [ROLE, &path, &sites.to_string(), &policies.to_string(), method.word()];
                let count = callgrind::run(&arguments)? / u64::from(AUTHENTICATIONS);
                print!("{:8} {policies:>8} {sites:>8} {count:>12}", method.word());
                let fewest = *fewest.get_or_insert(count);
                let percent = (count as f64 / fewest as f64 - 1.0) * 100.0;
                println!("   {percent:+.2} %{}", if percent < MOST { "" } else { ", TOO MUCH" });
                little &= percent < MOST;
            }
        }
    }
    if !little {
        eprintln!("error: an authentication costs {MOST} % more or worse where there are more sites");
    }
    Ok(little)
}

/// Certificates and a database in the folder.
fn prepare(folder: &Path, nacs: &Nacs) -> Fallible<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    pki::init(folder, pki::Names::default(), i64::try_from(now)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (store, _) = Store::migrate(&node::url(folder)).await?;
        seed::seed(&store, nacs, Options { replace: false }, &mut |_| ()).await?;
        store.close().await;
        Ok(())
    })
}
