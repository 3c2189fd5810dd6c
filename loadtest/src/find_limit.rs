//! `portreeve-load find-limit`: the highest rate that the server carries, and how many switches that is.
//!
//! Each step is an open loop: what a slow server is asked does not become less. A rate is carried when p99 and failures stay
//! within their bounds and every device could begin. When this client has no time left, it is the client that was measured,
//! and it says so.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::bail;
use serde_json::json;

use crate::options::FindLimit;
use crate::plan::Plan;
use crate::process::Watched;
use crate::profile::{Load, Phase, Profile};
use crate::report::BUSY;
use crate::run::{Results, load, shared, write_file};
use crate::units::{short_time, time};

/// The most steps: doubling from the lowest rate to the highest, and as many to come near.
const MOST_STEPS: usize = 64;
/// No server that this client could measure carries more a second.
const MOST_RATE: f64 = 10_000_000.0;
/// Between steps, so that the server is done with the one before.
const REST: Duration = Duration::from_millis(500);

/// What came of one rate.
#[derive(Debug)]
struct Step {
    rate: f64,
    accepted: u64,
    failed: u64,
    p99: Duration,
    /// Processor time of the client, as a part of its threads' time.
    client: f64,
    server: Option<Duration>,
    /// Why it was not carried.
    why_not: Option<String>,
}

/// Finds the limit and prints it. Whether there is one, and every answer was right.
pub fn find(asked: &FindLimit) -> anyhow::Result<bool> {
    let common = asked.devices.common();
    if let Some(path) = &common.json {
        write_file(path, "")?;
    }
    let plan = Plan::read(&common.plan, common.time_scale)?;
    let sets_load = [
        ("--concurrency", common.concurrency.is_some()),
        ("--rate", common.rate.is_some()),
        ("--ramp", common.ramp.is_some()),
        ("--duration", common.duration.is_some()),
        ("--count", common.count.is_some()),
        ("a plan with phases", plan.scenario.is_some()),
    ];
    if let Some((option, _)) = sets_load.iter().find(|(_, given)| *given) {
        bail!("the steps of `find-limit` say how much load there is, not {option}\nhint: --from, --step");
    }
    let mut shared = shared(&asked.devices, &plan)?;
    shared.most_open = usize::try_from(common.most_open)?;
    let mut search = Search::new(asked.from, asked.precision / 100.0);
    let mut steps = Vec::new();
    let mut wrong_answers = false;
    while let Some(rate) = search.next().filter(|_| steps.len() < MOST_STEPS) {
        shared.again(profile(rate, asked.step));
        let results = load(&shared, Watched::new(&common.server_pid)?, None)?;
        if results.interrupted {
            break;
        }
        let step = step(rate, &results, asked);
        say(&step);
        let carried = step.why_not.is_none();
        let repeated = steps.last().is_some_and(|last: &Step| last.rate == rate);
        // a machine may stall for a moment, so a rate is asked once more before it is too much
        if carried || repeated {
            search.tell(carried);
        }
        steps.push(step);
        if results.tally.wrong_answers() > 0 {
            wrong_answers = true;
            for failures in results
                .tally
                .failures
                .iter()
                .filter(|failures| failures.kind.is_wrong_answer())
            {
                let (count, kind, example) = (failures.count, failures.kind, &failures.example);
                let _ = writeln!(io::stdout(), "{count} wrong answers: {kind}; one of them: {example}");
            }
            break;
        }
        std::thread::sleep(REST);
    }
    let limit = search.carried;
    let _ = io::stdout().write_all(conclusion(asked, limit, &steps).as_bytes());
    if let Some(path) = &common.json {
        write_file(path, &format!("{:#}\n", json(asked, limit, &steps)))?;
    }
    Ok(limit.is_some() && !wrong_answers)
}

fn profile(rate: f64, duration: Duration) -> Profile {
    Profile {
        phases: vec![Phase {
            name: "step".to_owned(),
            duration: Some(duration),
            load: Load::Rate { from: rate, to: rate },
        }],
        levels: Vec::new(),
    }
}

/// Which rate is tried next: twice as much until one is not carried, then the middle.
#[derive(Debug)]
struct Search {
    next: f64,
    precision: f64,
    carried: Option<f64>,
    not_carried: Option<f64>,
}

impl Search {
    fn new(from: f64, precision: f64) -> Search {
        Search {
            next: from,
            precision,
            carried: None,
            not_carried: None,
        }
    }

    /// `None` when the limit is found.
    fn next(&self) -> Option<f64> {
        match (self.carried, self.not_carried) {
            (Some(low), Some(high)) if high <= low * (1.0 + self.precision) => None,
            // not even one in ten seconds
            (None, Some(high)) if high < 0.1 => None,
            _ => (self.next <= MOST_RATE).then_some(self.next),
        }
    }

    fn tell(&mut self, carried: bool) {
        match carried {
            true => self.carried = Some(self.next),
            false => self.not_carried = Some(self.next),
        }
        self.next = match (self.carried, self.not_carried) {
            (Some(low), Some(high)) => f64::midpoint(low, high),
            (Some(low), None) => low * 2.0,
            (None, Some(high)) => high / 4.0,
            (None, None) => self.next,
        };
    }
}

fn step(rate: f64, results: &Results, asked: &FindLimit) -> Step {
    let tally = &results.tally;
    let right = tally.accepted + tally.refused;
    let p99 = Duration::from_nanos(tally.latency.value_at_quantile(0.99));
    let failed = 100.0 * tally.failed as f64 / ((right + tally.failed) as f64).max(1.0);
    let threads = f64::from(asked.devices.common().threads);
    let why_not = match () {
        () if tally.wrong_answers() > 0 => Some("wrong answers".to_owned()),
        () if failed > asked.failures => {
            let most = tally.failures.first().map_or("", |failures| failures.kind.word());
            Some(format!("{failed:.2} % failed, most by {most}"))
        }
        () if p99 > asked.p99 => Some(format!("p99 {}", time(p99.as_nanos() as f64))),
        () => None,
    };
    Step {
        rate,
        accepted: right,
        failed: tally.failed,
        p99,
        client: results.processor_time.as_secs_f64() / (results.elapsed.as_secs_f64() * threads).max(f64::MIN_POSITIVE),
        server: results.server.map(|server| server.processor),
        why_not,
    }
}

fn say(step: &Step) {
    let verdict = step
        .why_not
        .as_ref()
        .map_or("carried".to_owned(), |why| format!("not carried: {why}"));
    let p99 = time(step.p99.as_nanos() as f64);
    let line = format!(
        "{:>10.0}/s  p99 {p99:>8}  {:>6} failed  {verdict}",
        step.rate, step.failed
    );
    // as it goes; nobody there to read it is no reason to stop
    let _ = writeln!(io::stdout(), "{line}");
}

/// What a switch asks in a second: in the morning, and over the day.
fn a_switch(asked: &FindLimit) -> (f64, f64) {
    let ports = f64::from(asked.ports);
    let day = ports / asked.again.as_secs_f64();
    (ports / asked.rush.as_secs_f64() + day, day)
}

fn conclusion(asked: &FindLimit, limit: Option<f64>, steps: &[Step]) -> String {
    let Some(limit) = limit else {
        return "limit             none: not even the lowest rate was carried\n".to_owned();
    };
    let (rush, day) = a_switch(asked);
    let mut text = format!(
        "limit             {limit:.0} authentications a second: p99 up to {}, up to {} % failed\n",
        short_time(asked.p99),
        asked.failures
    );
    text += &format!(
        "switches          {:.0} in the morning, when all {} devices of each come within {}; {:.0} over the day, when each \
         device authenticates again every {}\n",
        (limit / rush).floor(),
        asked.ports,
        short_time(asked.rush),
        (limit / day).floor(),
        short_time(asked.again)
    );
    text += "hint: plan with half of it where two servers stand in for each other\n";
    if let Some(last) = steps
        .iter()
        .filter(|step| step.why_not.is_some())
        .min_by(|one, other| one.rate.total_cmp(&other.rate))
        && last.client > BUSY
    {
        text += "warning: this client had no time left at the first rate that was not carried: the server may carry more\n\
                 hint: --threads, or a machine of its own for each\n";
    }
    text
}

fn json(asked: &FindLimit, limit: Option<f64>, steps: &[Step]) -> serde_json::Value {
    let (rush, day) = a_switch(asked);
    let steps: Vec<_> = steps
        .iter()
        .map(|step| {
            json!({
                "rate": step.rate,
                "right": step.accepted,
                "failed": step.failed,
                "p99_us": step.p99.as_secs_f64() * 1e6,
                "carried": step.why_not.is_none(),
                "why_not": step.why_not,
                "client_busy": step.client,
                "server_processor_time_us": step.server.map(|server| server.as_secs_f64() * 1e6),
            })
        })
        .collect();
    json!({
        "command": "find-limit",
        "devices": asked.devices.word(),
        "limit_per_s": limit,
        "p99_us": asked.p99.as_secs_f64() * 1e6,
        "failures_percent": asked.failures,
        "switches_in_the_morning": limit.map(|limit| (limit / rush).floor()),
        "switches_over_the_day": limit.map(|limit| (limit / day).floor()),
        "ports": asked.ports,
        "rush_s": asked.rush.as_secs_f64(),
        "again_s": asked.again.as_secs_f64(),
        "steps": steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tried when so much is carried.
    fn tried(from: f64, limit: f64) -> (Vec<f64>, Option<f64>) {
        let mut search = Search::new(from, 0.05);
        let mut rates = Vec::new();
        while let Some(rate) = search.next().filter(|_| rates.len() < MOST_STEPS) {
            rates.push(rate);
            search.tell(rate <= limit);
        }
        (rates, search.carried)
    }

    #[test]
    fn the_limit_is_doubled_towards_and_halved_around() {
        let (rates, limit) = tried(100.0, 1000.0);
        assert_eq!(rates[..6], [100.0, 200.0, 400.0, 800.0, 1600.0, 1200.0]);
        assert!(
            limit.is_some_and(|limit| (950.0..=1000.0).contains(&limit)),
            "{limit:?} {rates:?}"
        );
        assert!(rates.len() < 12);
        // begun too high
        let (_, limit) = tried(100.0, 7.0);
        assert!(limit.is_some_and(|limit| (6.6..=7.0).contains(&limit)), "{limit:?}");
        // nothing is carried, and everything
        assert_eq!(tried(100.0, 0.0).1, None);
        assert!(
            tried(100.0, f64::INFINITY)
                .1
                .is_some_and(|limit| limit > MOST_RATE / 2.0)
        );
    }
}
