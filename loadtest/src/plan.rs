//! Plans: how much load there is and when (`[[phase]]`), and who asks from where and must be answered what (`[[case]]`).
//!
//! A plan is TOML, `docs/load.md` has its keys. One file may have both parts, or one of them: `--plan` is given twice then.
//! `portreeve seed` writes plans of cases; those of `plans/` have phases, and are known by their names.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;

use crate::profile::{Load, Phase, Profile};
use crate::units::duration;

/// The plans that come with the program.
const BUILT_IN: [(&str, &str); 4] = [
    ("published", include_str!("../plans/published.toml")),
    ("office-day", include_str!("../plans/office-day.toml")),
    ("doubling", include_str!("../plans/doubling.toml")),
    ("soak", include_str!("../plans/soak.toml")),
];
/// The largest file that is read, in octets: some hundred thousand cases.
const MOST_FILE_OCTETS: u64 = 256 << 20;
/// The most phases, rows and columns.
const MOST_PHASES: usize = 1_000;
const MOST_LEVELS: usize = 100;
const MOST_BUCKETS: usize = 30;

/// All that the plans say.
#[derive(Debug, Default)]
pub struct Plan {
    pub secret: Option<String>,
    pub cases: Vec<Case>,
    pub scenario: Option<Scenario>,
}

/// How much load there is, and how it is reported.
#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub profile: Profile,
    pub timeout: Option<Duration>,
    pub retries: Option<u32>,
    /// Upper ends of the columns of response times.
    pub buckets: Vec<Duration>,
    /// How often a summary line is written.
    pub summary_every: Option<Duration>,
}

/// Requests that get the same answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The site that decides; for messages.
    pub site: String,
    /// `mab`, `eap-tls`.
    pub methods: Vec<String>,
    /// Source addresses.
    pub sources: String,
    /// Devices' addresses.
    pub macs: Option<String>,
    /// What every request carries, `Attribute = value`.
    #[serde(default)]
    pub attributes: Vec<String>,
    /// Whether they must get in.
    pub outcome: Outcome,
    #[serde(default, rename = "reason")]
    _reason: String,
    #[serde(default, rename = "policy")]
    _policy: String,
    /// What the answer carries.
    #[serde(default)]
    pub responses: Vec<String>,
}

/// What must be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Accept,
    Reject,
}

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "dataset")]
    _dataset: String,
    secret: Option<String>,
    #[serde(default, rename = "case")]
    cases: Vec<Case>,
    name: Option<String>,
    #[serde(default, rename = "description")]
    _description: String,
    timeout: Option<Time>,
    retries: Option<u32>,
    #[serde(default, rename = "phase")]
    phases: Vec<PhaseTable>,
    #[serde(default)]
    levels: Vec<u32>,
    #[serde(default)]
    buckets: Vec<Time>,
    summary_every: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseTable {
    name: Option<String>,
    duration: Time,
    users: Option<Level>,
    rate: Option<Level>,
}

/// One number, or from one to another.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "a number, or { from = …, to = … }")]
enum Level {
    Steady(f64),
    Between { from: f64, to: f64 },
}

/// `30s`, `5m`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Time(Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Time, String> {
        duration(&text).map(Time)
    }
}

impl Plan {
    /// Reads files, or plans that come with the program by their names; times are multiplied by `scale`.
    ///
    /// # Errors
    /// When one cannot be read or understood, or two of them say the same.
    pub fn read(names: &[String], scale: f64) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        for name in names {
            let text = text(name)?;
            let file: File = toml::from_str(&text).map_err(|error| anyhow!("`{name}` {}", located(&error, &text)))?;
            plan.add(file, name, scale).with_context(|| format!("`{name}`"))?;
        }
        Ok(plan)
    }

    fn add(&mut self, file: File, name: &str, scale: f64) -> anyhow::Result<()> {
        match (&self.secret, file.secret) {
            (Some(one), Some(other)) if *one != other => bail!("it has another `secret` than the plan before it"),
            (_, Some(secret)) => self.secret = Some(secret),
            (_, None) => {}
        }
        if file.phases.is_empty() && file.cases.is_empty() {
            bail!("it has no `[[phase]]` and no `[[case]]`");
        }
        self.cases.extend(file.cases);
        if file.phases.is_empty() {
            return Ok(());
        }
        if self.scenario.is_some() {
            bail!("it has phases, and so has the plan before it");
        }
        if file.phases.len() > MOST_PHASES || file.levels.len() > MOST_LEVELS || file.buckets.len() > MOST_BUCKETS {
            bail!("it has more than {MOST_PHASES} phases, {MOST_LEVELS} `levels` or {MOST_BUCKETS} `buckets`");
        }
        if !file.levels.is_sorted_by(|one, next| one < next) || !file.buckets.is_sorted_by(|one, next| one.0 < next.0) {
            bail!("its `levels` and `buckets` must ascend");
        }
        let phases = (1..)
            .zip(file.phases)
            .map(|(number, table)| phase(table, number, scale));
        self.scenario = Some(Scenario {
            name: file.name.unwrap_or_else(|| name.to_owned()),
            profile: Profile {
                phases: phases.collect::<anyhow::Result<_>>()?,
                levels: file.levels,
            },
            timeout: file.timeout.map(|time| time.0),
            retries: file.retries,
            buckets: file.buckets.into_iter().map(|time| time.0).collect(),
            summary_every: file.summary_every.map(|time| time.0.mul_f64(scale)),
        });
        Ok(())
    }
}

fn text(name: &str) -> anyhow::Result<String> {
    let path = Path::new(name);
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    if let (Some((_, text)), false) = (built_in, path.exists()) {
        return Ok((*text).to_owned());
    }
    let read = fs::metadata(path).and_then(|metadata| match metadata.len() {
        ..=MOST_FILE_OCTETS => fs::read_to_string(path),
        _ => Err(std::io::Error::other(format!(
            "it has more than {MOST_FILE_OCTETS} octets"
        ))),
    });
    read.with_context(|| {
        let names = BUILT_IN.map(|(name, _)| name).join("`, `");
        format!("cannot read the plan `{name}`\nhint: name a file, or one of `{names}`")
    })
}

/// What is wrong, with the line.
fn located(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(String::new(), |before| {
        format!("line {}: ", before.matches('\n').count() + 1)
    });
    format!("{line}{}", error.message())
}

fn phase(table: PhaseTable, number: usize, scale: f64) -> anyhow::Result<Phase> {
    let name = table.name.unwrap_or_else(|| number.to_string());
    let load = match (table.users, table.rate) {
        (Some(users), None) => users.users(),
        (None, Some(rate)) => rate.rate(),
        _ => bail!("phase `{name}` must have either `users` or `rate`"),
    };
    Ok(Phase {
        load: load.with_context(|| format!("phase `{name}`"))?,
        duration: Some(table.duration.0.mul_f64(scale)),
        name,
    })
}

impl Level {
    fn ends(self) -> (f64, f64) {
        match self {
            Level::Steady(level) => (level, level),
            Level::Between { from, to } => (from, to),
        }
    }

    fn users(self) -> anyhow::Result<Load> {
        const MOST: f64 = (1 << 20) as f64;
        let (from, to) = self.ends();
        if ![from, to]
            .iter()
            .all(|users| (0.0..=MOST).contains(users) && users.fract() == 0.0)
        {
            bail!("`users` is no whole number from 0 to {MOST}");
        }
        Ok(Load::Users {
            from: from as u32,
            to: to as u32,
        })
    }

    fn rate(self) -> anyhow::Result<Load> {
        let (from, to) = self.ends();
        if ![from, to].iter().all(|rate| (0.0..=1e7).contains(rate)) || from.max(to) < 0.001 {
            bail!("`rate` is not between 0.001 and 10000000 a second");
        }
        Ok(Load::Rate { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str], scale: f64) -> anyhow::Result<Plan> {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..texts.len())
            .map(|at| {
                let path = folder.path().join(format!("{at}.toml"));
                fs::write(&path, texts[at]).unwrap();
                path.display().to_string()
            })
            .collect();
        Plan::read(&names, scale)
    }

    const CASE: &str =
        "secret = 's'\n[[case]]\nsite = 'a'\nmethods = ['mab']\nsources = '127.1.0.0'\noutcome = 'accept'\n";

    #[test]
    fn the_plans_that_come_with_the_program_are_right() {
        for (name, minutes) in [("published", 10), ("office-day", 30), ("doubling", 20), ("soak", 480)] {
            let plan = Plan::read(&[name.to_owned()], 0.5).unwrap();
            let scenario = plan.scenario.unwrap();
            assert_eq!(scenario.name, name);
            assert_eq!(
                scenario.profile.duration(),
                Some(Duration::from_secs(minutes * 30)),
                "{name}"
            );
        }
    }

    #[test]
    fn one_file_has_cases_and_another_phases() {
        let phases = "timeout = '1s'\n[[phase]]\nduration = '2s'\nrate = { from = 1, to = 9.5 }\n\
                      [[phase]]\nname = 'b'\nduration = '4s'\nusers = 3\n";
        let plan = read(&[CASE, phases], 0.25).unwrap();
        assert_eq!((plan.secret.as_deref(), plan.cases.len()), (Some("s"), 1));
        let scenario = plan.scenario.unwrap();
        assert_eq!(
            scenario.timeout,
            Some(Duration::from_secs(1)),
            "time-outs are those of switches, and not scaled"
        );
        let phase = |name: &str, millis, load| Phase {
            name: name.to_owned(),
            duration: Some(Duration::from_millis(millis)),
            load,
        };
        assert_eq!(
            scenario.profile.phases,
            [
                phase("1", 500, Load::Rate { from: 1.0, to: 9.5 }),
                phase("b", 1000, Load::Users { from: 3, to: 3 })
            ]
        );
        assert_eq!(read(&[CASE, CASE], 1.0).unwrap().cases.len(), 2);
    }

    #[test]
    fn what_seed_writes_is_a_plan() {
        // that this is what it writes, a test of the server holds
        let plan = read(&[include_str!("../tests/nacs-plan.toml")], 1.0).unwrap();
        assert_eq!((plan.secret.as_deref(), plan.cases.len()), (Some("testing123"), 2));
        let case = &plan.cases[1];
        assert_eq!(
            (&*case.site, &*case.sources, case.outcome),
            ("site-0002", "127.1.0.10..127.1.0.19", Outcome::Accept)
        );
        assert_eq!(
            (case.methods.len(), case.attributes.len(), case.responses.len()),
            (2, 3, 5)
        );
    }

    #[test]
    fn mistakes_are_found_in_their_line() {
        let phase = "[[phase]]\nduration = '1s'\n";
        for (texts, part) in [
            (
                &["[[phase]]\nduration = '1s'\nuser = 3\n"][..],
                "0.toml` line 3: unknown field `user`",
            ),
            (&["[[phase]]\nduration = '1 day'\nusers = 3\n"], "line 2: "),
            (
                &[&format!("{phase}users = {{ from = 1 }}")],
                "a number, or { from = …, to = … }",
            ),
            (
                &[&format!("{phase}users = 1.5")],
                "phase `1`: `users` is no whole number",
            ),
            (&[&format!("{phase}rate = -1")], "is not between"),
            (&[phase], "either `users` or `rate`"),
            (&["name = 'x'"], "no `[[phase]]` and no `[[case]]`"),
            (
                &[&format!("{phase}users = 1"), &format!("{phase}users = 1")],
                "so has the plan before",
            ),
            (&[CASE, "secret = 't'"], "another `secret`"),
            (&[&format!("levels = [2, 1]\n{phase}users = 1")], "must ascend"),
        ] {
            let error = format!("{:#}", read(texts, 1.0).unwrap_err());
            assert!(error.contains(part), "{texts:?}: {error}");
        }
        let error = format!("{:#}", Plan::read(&["/no/such".to_owned()], 1.0).unwrap_err());
        assert!(error.contains("`office-day`"), "{error}");
    }
}
