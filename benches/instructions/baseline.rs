//! The counts that the repository has, and how new ones compare with them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::Fallible;

/// What counts.
pub const COMMAND: &str = "cargo bench --package portreeve --no-default-features --bench instructions";
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/baseline.txt");
const HEAD: &str = "\
# Instructions of one step, written by `cargo bench --package portreeve --no-default-features --bench instructions -- --renew`.
# A commit that changes a line says why in its message, in a line that begins with `Baseline: `; .ci/run looks for it.
";

/// How much a count may grow, in percent.
const MOST: f64 = 5.0;

/// What compiled and what counted: with others, other counts.
#[derive(PartialEq, Eq)]
pub struct Toolchain {
    rustc: String,
    host: String,
    valgrind: String,
}

/// Counts by step, and what they were counted with.
pub struct Baseline {
    pub toolchain: Toolchain,
    pub counts: Vec<(String, u64)>,
}

impl Toolchain {
    /// That of this machine.
    pub fn here() -> Fallible<Toolchain> {
        let rustc = output("rustc", "-vV")?;
        let of = |key| rustc.lines().find_map(|line| line.strip_prefix(key));
        Ok(Toolchain {
            rustc: of("release: ").ok_or("`rustc -vV` names no release")?.to_owned(),
            host: of("host: ").ok_or("`rustc -vV` names no host")?.to_owned(),
            valgrind: output("valgrind", "--version")?
                .trim()
                .trim_start_matches("valgrind-")
                .to_owned(),
        })
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rustc {} for {}, valgrind {}", self.rustc, self.host, self.valgrind)
    }
}

impl Baseline {
    /// Reads that of the repository.
    pub fn read() -> Fallible<Baseline> {
        let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
        let mut counts: Vec<(String, String)> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' '))
            .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
            .collect();
        let mut of = |wanted: &str| -> Fallible<String> {
            let at = counts.iter().position(|(key, _)| key == wanted);
            Ok(counts.remove(at.ok_or_else(|| format!("{FILE} names no {wanted}"))?).1)
        };
        let toolchain = Toolchain {
            rustc: of("rustc")?,
            host: of("host")?,
            valgrind: of("valgrind")?,
        };
        let counts = counts
            .into_iter()
            .map(|(step, count)| Ok((step, count.replace(',', "").parse()?)))
            .collect::<Fallible<_>>()?;
        Ok(Baseline { toolchain, counts })
    }

    /// Makes it that of the repository.
    pub fn write(&self) -> Fallible<()> {
        let Toolchain { rustc, host, valgrind } = &self.toolchain;
        let mut text = format!("{HEAD}rustc {rustc}\nhost {host}\nvalgrind {valgrind}\n");
        for (step, count) in &self.counts {
            writeln!(text, "{step:14} {:>9}", thousands(*count))?;
        }
        std::fs::write(FILE, &text)?;
        print!("{text}");
        println!("written: {}", Path::new(FILE).display());
        Ok(())
    }

    /// Prints both counts of each step, and returns whether every step has a count and none grew too much.
    pub fn compare(&self, now: &Baseline) -> bool {
        let (mut wrong, mut fallen) = (Vec::new(), Vec::new());
        println!(
            "{:14} {:>9} {:>9}   instructions of one step",
            "step", "baseline", "now"
        );
        for (step, count) in &now.counts {
            let Some((_, before)) = self.counts.iter().find(|(name, _)| name == step) else {
                wrong.push(format!("`{step}` is not in the baseline"));
                continue;
            };
            let percent = (*count as f64 / *before as f64 - 1.0) * 100.0;
            let (count, before) = (thousands(*count), thousands(*before));
            println!("{step:14} {before:>9} {count:>9} {percent:+7.2} %");
            if percent > MOST {
                wrong.push(format!(
                    "`{step}` takes {count} instructions, the baseline says {before}: {percent:.1} % more, and {MOST} % are allowed"
                ));
            } else if percent < -MOST {
                fallen.push(format!("`{step}` takes {:.1} % fewer instructions", -percent));
            }
        }
        for (step, _) in &self.counts {
            if !now.counts.iter().any(|(name, _)| name == step) {
                wrong.push(format!("`{step}` is in the baseline and is not counted"));
            }
        }
        if self.toolchain != now.toolchain {
            println!(
                "note: counted with {}; the baseline with {}",
                now.toolchain, self.toolchain
            );
        }
        if !fallen.is_empty() {
            println!("note: {}: renew the baseline, so that it stays so", fallen.join(", "));
        }
        for each in &wrong {
            eprintln!("error: {each}");
        }
        if !wrong.is_empty() {
            eprintln!(
                "hint: where it has to be so, `{COMMAND} -- --renew` writes the baseline, and the commit says why in a line \
                 `Baseline: …`"
            );
        }
        wrong.is_empty()
    }
}

fn output(program: &str, argument: &str) -> Fallible<String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.map_err(|error| format!("`{program} {argument}`: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// With a comma between thousands.
fn thousands(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        _ => format!("{},{:03}", thousands(count / 1_000), count % 1_000),
    }
}
