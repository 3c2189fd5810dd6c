//! `portreeve seed`: a database of a known shape, to measure with, and the plan of what to ask of it.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::Context;
use super::error::hinted;
use crate::store::seed::{self, Counts, Nacs, Options};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
nacs has the shape of a network that runs today: each site has clients and listed MAC addresses of its own, and some of
the policies that all sites share. A site's policies are tried one after the other: all but the last fail at their last
rule, and the last one decides. Those who have no role there get the site's fallback. Clients are single addresses from
127.1.0.0 up, so a load client on the same machine can be all of them; their secret is testing123. The same counts make the
same rows everywhere.

The plan says what to send from which address, and what the answer must carry.

  portreeve migrate
  portreeve seed --dataset nacs                          1,750 sites
  portreeve seed --dataset nacs --replace --sites 10000 --macs 100 --clients 1
                                                         a million MAC addresses
  portreeve seed --dataset nacs --sites 20000 --policies-per-site 50")]
pub struct Args {
    /// Which data set.
    #[arg(long, value_enum)]
    dataset: DataSet,
    /// Where to write the plan: what to send, and what must come back.
    #[arg(long, value_name = "FILE", default_value = "nacs-plan.toml")]
    plan: PathBuf,
    /// Delete the policy set that is in the database first, all of it.
    #[arg(long)]
    replace: bool,
    /// Sites. More cost memory for each: their compiled policies, clients and addresses.
    #[arg(long, value_name = "N", default_value_t = Counts::default().sites, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sites: u32,
    /// Policies that sites share. Fewer are shared by more sites; each site also has a fallback of its own.
    #[arg(long, value_name = "N", default_value_t = Counts::default().policies, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    policies: u32,
    /// Rules of each policy: so many are looked at for each policy that is tried.
    #[arg(long, value_name = "N", default_value_t = Counts::default().rules, value_parser = clap::value_parser!(u32).range(1..=64))]
    rules: u32,
    /// Responses of each policy: so many attributes are in each accept. Three or more make a VLAN.
    #[arg(long, value_name = "N", default_value_t = Counts::default().responses, value_parser = clap::value_parser!(u32).range(0..=48))]
    responses: u32,
    /// Policies of each site, at most all: so many are tried for each authentication.
    #[arg(long, value_name = "N", default_value_t = Counts::default().policies_per_site, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    policies_per_site: u32,
    /// Clients of each site; there are 16,711,679 addresses for all sites together.
    #[arg(long, value_name = "N", default_value_t = Counts::default().clients, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: u32,
    /// Listed MAC addresses of each site, in one row from 02-00-00-00-00-01.
    #[arg(long, value_name = "N", default_value_t = Counts::default().macs, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    macs: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DataSet {
    /// Sites with shared policies, after a published test.
    Nacs,
}

impl Args {
    fn counts(&self) -> Counts {
        Counts {
            sites: self.sites,
            policies: self.policies,
            rules: self.rules,
            responses: self.responses,
            policies_per_site: self.policies_per_site,
            clients: self.clients,
            macs: self.macs,
        }
    }
}

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let DataSet::Nacs = args.dataset;
    let nacs = Nacs::new(args.counts())?;
    let plan = PlanFile::write(&args.plan, &nacs).map_err(|error| {
        hinted(
            format!("cannot write the plan `{}`: {error}", args.plan.display()),
            "`--plan FILE` names another place",
        )
    })?;
    let revision = context.block_on(async {
        let store = context.store(&config).await?;
        let mut progress = Progress::new();
        let options = Options { replace: args.replace };
        let seeded = seed::seed(&store, &nacs, options, &mut |rows| progress.show(rows)).await;
        progress.end();
        store.close().await;
        Ok(seeded?)
    })?;
    plan.keep()?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "made: {} sites, {} policies, {} clients, {} listed addresses; revision {revision}",
        nacs.counts().sites,
        nacs.policies(),
        nacs.clients(),
        nacs.macs()
    )?;
    writeln!(out, "plan: `{}`", args.plan.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The plan, beside its place until the database has what it says.
struct PlanFile<'a> {
    place: &'a Path,
    new: PathBuf,
}

impl PlanFile<'_> {
    fn write<'a>(place: &'a Path, nacs: &Nacs) -> io::Result<PlanFile<'a>> {
        let mut name = place.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".new-{}", std::process::id()));
        let new = place.with_file_name(name);
        let file = PlanFile { place, new };
        let mut out = BufWriter::new(File::create_new(&file.new)?);
        nacs.write_plan(&mut out)?;
        out.flush()?;
        Ok(file)
    }

    fn keep(self) -> io::Result<()> {
        fs::rename(&self.new, self.place)
    }
}

impl Drop for PlanFile<'_> {
    fn drop(&mut self) {
        // It is gone where it was kept; where it cannot be removed, it does no harm.
        let _ = fs::remove_file(&self.new);
    }
}

/// One line on a terminal, written over; nothing elsewhere.
struct Progress {
    is_terminal: bool,
    began: Instant,
    shown: Option<Instant>,
}

impl Progress {
    /// Between two lines.
    const PAUSE: Duration = Duration::from_millis(100);

    fn new() -> Progress {
        Progress {
            is_terminal: io::stderr().is_terminal(),
            began: Instant::now(),
            shown: None,
        }
    }

    fn show(&mut self, done: seed::Progress) {
        let now = Instant::now();
        if !self.is_terminal || self.shown.is_some_and(|shown| now - shown < Progress::PAUSE) {
            return;
        }
        self.shown = Some(now);
        // To the end of the line is cleared: what was there may have been longer.
        let seconds = (now - self.began).as_secs();
        let line = match done {
            seed::Progress::Deleting => format!("deleting what is there, {seconds} s"),
            seed::Progress::Rows { written, total } => {
                let percent = written.saturating_mul(100) / total.max(1);
                format!("{written} of {total} rows, {percent} %, {seconds} s")
            }
            seed::Progress::Committing => format!("committing, {seconds} s"),
        };
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    fn end(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
