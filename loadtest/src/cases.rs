//! The cases of a plan, compiled: which device asks from where, as whom, and what it must be answered.

use anyhow::{Context, anyhow, bail};

use crate::attributes::{self, Attribute, Expectations};
use crate::macs::MacList;
use crate::plan::{Case, Outcome};
use crate::sources::{MAX_SOURCES, Sources};

/// Devices whose requests are alike, and get the same answer.
pub struct Group {
    /// The site of the plan's case.
    pub name: Option<String>,
    /// Encoded attributes of every request.
    pub attributes: Vec<u8>,
    /// Numbers of its source addresses; with none, devices take turns with all.
    sources: Vec<usize>,
    /// Its own addresses.
    macs: Option<MacList>,
    pub outcome: Outcome,
    pub expectations: Expectations,
}

/// The attributes that do not come from a case.
pub struct Layers<'l> {
    /// What is sent unless the case or the user says otherwise.
    pub defaults: &'l [Attribute],
    /// What the user says.
    pub attributes: &'l [Attribute],
    /// What the user expects.
    pub expect: &'l [Attribute],
}

/// All groups, and the addresses that they ask from.
pub struct Groups {
    pub groups: Vec<Group>,
    pub sources: Option<Sources>,
    /// What cases set themselves.
    pub set: Vec<Attribute>,
}

impl Groups {
    /// The one group of a run without cases.
    pub fn single(layers: &Layers<'_>, sources: Option<Sources>) -> anyhow::Result<Groups> {
        let group = Group {
            name: None,
            attributes: attributes::encode(&[layers.defaults, layers.attributes])?,
            sources: Vec::new(),
            macs: None,
            outcome: Outcome::Accept,
            expectations: Expectations::new(&[layers.expect]),
        };
        Ok(Groups {
            groups: vec![group],
            sources,
            set: Vec::new(),
        })
    }

    /// A group for each case of a method. Where cases have more addresses than can be used at once, of each the first are.
    ///
    /// # Errors
    /// When a case cannot be understood, or none has the method.
    pub fn of_cases(cases: &[Case], method: &str, layers: &Layers<'_>) -> anyhow::Result<Groups> {
        let mut cases: Vec<_> = cases
            .iter()
            .filter(|case| case.methods.iter().any(|known| known == method))
            .collect();
        if cases.is_empty() {
            bail!("no case of the plan has the method `{method}`");
        }
        let most = usize::try_from(MAX_SOURCES)?;
        if cases.len() > most {
            eprintln!("note: the plan has {} cases; the first {most} are used", cases.len());
            cases.truncate(most);
        }
        let most_sources = MAX_SOURCES / cases.len() as u64;
        let (mut groups, mut sources, mut set) = (Vec::new(), Vec::new(), Vec::new());
        for case in cases {
            let parsed = parse(case, layers).with_context(|| format!("case `{}`", case.site))?;
            let (group, own_sources, attributes) = parsed;
            groups.push(group);
            sources.push(own_sources.first(most_sources));
            set.extend(attributes);
        }
        let union = Sources::union(&sources).map_err(|error| anyhow!("the plan's `sources`: {error}"))?;
        for (group, own) in groups.iter_mut().zip(&sources) {
            let numbers = (0..own.count() as u64).map(|at| union.number(own.at(at)));
            group.sources = numbers.collect::<Option<_>>().unwrap_or_default();
        }
        Ok(Groups {
            groups,
            sources: Some(union),
            set,
        })
    }

    /// The group of a device, and the device's number in it.
    pub fn find(&self, device: u64) -> Option<(&Group, u64)> {
        let count = self.groups.len().max(1) as u64;
        let group = self.groups.get(usize::try_from(device % count).ok()?)?;
        Some((group, device / count))
    }
}

impl Group {
    /// The number of a device's source; `number` is the device's in the group, `all` how many sources there are.
    pub fn source(&self, number: u64, all: usize) -> usize {
        let turn = |count: usize| usize::try_from(number % count.max(1) as u64).unwrap_or_default();
        match self.sources.is_empty() {
            true => turn(all),
            false => self.sources.get(turn(self.sources.len())).copied().unwrap_or_default(),
        }
    }

    /// A device's address. Every address is met at every source.
    pub fn mac(&self, number: u64) -> Option<portreeve::mac::MacAddress> {
        let macs = self.macs.as_ref()?;
        Some(macs.at(number / self.sources.len().max(1) as u64))
    }
}

fn parse(case: &Case, layers: &Layers<'_>) -> anyhow::Result<(Group, Sources, Vec<Attribute>)> {
    let list = |texts: &[String]| {
        let parsed = texts
            .iter()
            .map(|text| text.parse::<Attribute>().map_err(|error| anyhow!("`{text}`: {error}")));
        parsed.collect::<anyhow::Result<Vec<_>>>()
    };
    let own = list(&case.attributes)?;
    let responses = list(&case.responses)?;
    let macs = case.macs.as_ref().map(|macs| match macs.starts_with('@') {
        true => Err("a plan names its addresses itself".to_owned()),
        false => macs.parse::<MacList>(),
    });
    let group = Group {
        name: Some(case.site.clone()),
        attributes: attributes::encode(&[layers.defaults, &own, layers.attributes])?,
        sources: Vec::new(),
        macs: macs.transpose().map_err(|error| anyhow!(error))?,
        outcome: case.outcome,
        expectations: Expectations::new(&[&responses, layers.expect]),
    };
    let sources = case.sources.parse().map_err(|error: String| anyhow!(error))?;
    Ok((group, sources, own))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn case(site: &str, methods: &[&str], sources: &str, macs: Option<&str>) -> Case {
        let text = format!(
            "site = '{site}'\nmethods = {methods:?}\nsources = '{sources}'\n{}outcome = 'accept'\n\
             attributes = ['NAS-Identifier = {site}']",
            macs.map_or(String::new(), |macs| format!("macs = '{macs}'\n"))
        );
        toml::from_str(&text).unwrap()
    }

    const NO_LAYERS: Layers<'static> = Layers {
        defaults: &[],
        attributes: &[],
        expect: &[],
    };

    #[test]
    fn sites_take_turns_and_every_device_is_met_at_every_switch() {
        let cases = [
            case(
                "a",
                &["mab"],
                "127.1.0.2..127.1.0.3",
                Some("020000000001..020000000003"),
            ),
            case("b", &["mab", "eap-tls"], "127.1.0.0..127.1.0.1", Some("020000000009")),
            case("c", &["eap-tls"], "127.1.0.9", None),
        ];
        let groups = Groups::of_cases(&cases, "mab", &NO_LAYERS).unwrap();
        let all = groups.sources.as_ref().unwrap();
        assert_eq!(all.count(), 4);
        let device = |device: u64| {
            let (group, number) = groups.find(device).unwrap();
            let source = all.at(group.source(number, all.count()) as u64);
            format!(
                "{} {source} {}",
                group.name.as_ref().unwrap(),
                group.mac(number).unwrap()
            )
        };
        assert_eq!(device(0), "a 127.1.0.2 02-00-00-00-00-01");
        assert_eq!(device(1), "b 127.1.0.0 02-00-00-00-00-09");
        assert_eq!(device(2), "a 127.1.0.3 02-00-00-00-00-01");
        assert_eq!(device(4), "a 127.1.0.2 02-00-00-00-00-02");
        let met: HashSet<_> = (0..12).map(|at| device(2 * at)).collect();
        assert_eq!(met.len(), 6);
        let groups = Groups::of_cases(&cases, "eap-tls", &NO_LAYERS).unwrap();
        assert!(groups.find(1).unwrap().0.mac(0).is_none(), "any address will do");
        assert!(Groups::of_cases(&cases[..1], "eap-tls", &NO_LAYERS).is_err());
    }

    #[test]
    fn what_seed_writes_is_understood() {
        let plan: toml::Table = toml::from_str(include_str!("../tests/nacs-plan.toml")).unwrap();
        let cases: Vec<Case> = plan["case"].clone().try_into().unwrap();
        let groups = Groups::of_cases(&cases, "eap-tls", &NO_LAYERS).unwrap();
        assert_eq!((groups.groups.len(), groups.sources.unwrap().count()), (2, 20));
    }

    #[test]
    fn mistakes_name_their_case() {
        let mut wrong = case("b", &["mab"], "127.1.0.0", None);
        wrong.responses = vec!["Tunnel-Typ = VLAN".to_owned()];
        let twice = [case("a", &["mab"], "127.1.0.9", None), wrong];
        let error = Groups::of_cases(&twice, "mab", &NO_LAYERS).err().unwrap();
        assert!(
            format!("{error:#}").starts_with("case `b`: `Tunnel-Typ = VLAN`: "),
            "{error:#}"
        );
        let both = [case("a", &["mab"], "127.1.0.9", None), case("b", &["mab"], "::1", None)];
        assert!(Groups::of_cases(&both, "mab", &NO_LAYERS).is_err());
    }
}
