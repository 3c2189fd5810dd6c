//! Every answer is held against the log line of its node, and every line against what the revision that it names must lead to.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::editor::Change;
use crate::load::Seen;
use crate::model::{Device, KINDS};
use crate::node::{Line, Node};

/// What came of a load.
pub struct Report {
    scenario: String,
    by_mac: usize,
    by_certificate: usize,
    accepted: usize,
    rejected: usize,
    retransmissions: u32,
    edits: usize,
    /// The longest that a request waited for its answer.
    pub worst: Duration,
    /// How long the machine itself stood still, at the longest.
    pub stalled: Duration,
    /// In order of time.
    in_force: Vec<InForce>,
    /// From when on all was well again.
    healed: Option<Instant>,
    wrong: Vec<String>,
}

/// How long an edit took until a node knew it.
#[derive(Clone, Copy)]
pub struct InForce {
    pub kind: usize,
    pub node: usize,
    committed: Instant,
    time: Duration,
}

/// Holds what the switches saw against what the nodes wrote and the editor committed.
pub fn judge(scenario: &str, seen: &[Seen], nodes: &[Node], history: &[Change], healed: Option<Instant>) -> Report {
    // a restored database has a revision that there was before
    let mut order: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, change) in history.iter().enumerate() {
        order.entry(change.revision.as_str()).or_default().push(index);
    }
    let mut report = Report {
        scenario: scenario.to_owned(),
        by_mac: 0,
        by_certificate: 0,
        accepted: 0,
        rejected: 0,
        retransmissions: seen.iter().map(|one| one.retransmissions).sum(),
        edits: 0,
        worst: seen.iter().map(|one| one.worst).max().unwrap_or_default(),
        stalled: Duration::ZERO,
        in_force: Vec::new(),
        healed,
        wrong: Vec::new(),
    };
    let mut timelines = vec![Timeline::default(); nodes.len()];
    let mut seen: Vec<&Seen> = seen.iter().collect();
    seen.sort_by_key(|one| one.ended);
    for one in &seen {
        match one.device {
            Device::Mac(_) => report.by_mac += 1,
            Device::Laptop(_) => report.by_certificate += 1,
        }
        let examined = examine(one, nodes, history, &order);
        match examined.and_then(|(line, indices)| timelines[one.node].put(one, &line, indices)) {
            Ok(()) => match one.end {
                Ok(Some(_)) => report.accepted += 1,
                _ => report.rejected += 1,
            },
            Err(wrong) => report.wrong.push(format!(
                "{} of {:?} at node {}: {wrong}",
                one.name, one.device, one.node
            )),
        }
    }
    let began = seen.iter().map(|one| one.began).min();
    report.edits = history
        .iter()
        .filter(|change| change.edit.is_some_and(|(_, at)| Some(at) >= began))
        .count();
    for (node, timeline) in timelines.iter().enumerate() {
        report.in_force.extend(in_force(node, &timeline.prompt, history, began));
    }
    report.in_force.sort_by_key(|edit| edit.time);
    report
}

/// What one node knew, in the order of its answers.
#[derive(Clone, Default)]
struct Timeline {
    /// When an answer came, and the furthest that any answer was in the history until then.
    furthest: Vec<(Instant, usize)>,
    /// When an answer came that was not lost on its way, and how far in the history it was.
    prompt: Vec<(Instant, usize)>,
}

impl Timeline {
    /// Adds the next answer, whose revision stands at `indices`. A node never goes back.
    fn put(&mut self, one: &Seen, line: &Line, indices: &[usize]) -> Result<(), String> {
        let before = self.furthest.partition_point(|(ended, _)| *ended <= one.began);
        let known = before.checked_sub(1).map_or(0, |place| self.furthest[place].1);
        let index = indices.iter().copied().find(|index| *index >= known);
        let index = index.ok_or_else(|| {
            let back = known - indices.last().unwrap_or(&0);
            format!("{line:?}, and the node was {back} revisions further before it was asked")
        })?;
        let furthest = self.furthest.last().map_or(index, |(_, furthest)| index.max(*furthest));
        self.furthest.push((one.ended, furthest));
        if one.retransmissions == 0 {
            self.prompt.push((one.ended, index));
        }
        Ok(())
    }
}

/// Whether an answer is right; where in the history the revision stands that decided.
fn examine<'o>(
    one: &Seen,
    nodes: &[Node],
    history: &[Change],
    order: &'o HashMap<&str, Vec<usize>>,
) -> Result<(Line, &'o [usize]), String> {
    let verdict = *one
        .end
        .as_ref()
        .map_err(|wrong| format!("{wrong}, after {:?}", one.worst))?;
    let line = nodes[one.node].line(&one.name).ok_or("an answer without a log line")?;
    if line.verdict != verdict {
        return Err(format!("answered {verdict:?}, and the line says {line:?}"));
    }
    let indices = order
        .get(line.revision.as_str())
        .ok_or_else(|| format!("no such revision was committed: {line:?}"))?;
    let says = |index: &usize| history[*index].state.verdict(one.device);
    match indices.iter().find(|index| says(index) != verdict) {
        None => Ok((line, indices)),
        Some(index) => Err(format!("{line:?}, and that revision says {:?}", says(index))),
    }
}

/// From the commit of each edit to the last answer that does not know it. Edits that the load did not outlive are left out.
fn in_force(node: usize, timeline: &[(Instant, usize)], history: &[Change], began: Option<Instant>) -> Vec<InForce> {
    // the oldest revision of all answers from here on
    let mut oldest: Vec<usize> = timeline.iter().map(|(_, index)| *index).collect();
    for place in (1..oldest.len()).rev() {
        oldest[place - 1] = oldest[place - 1].min(oldest[place]);
    }
    let edits = history
        .iter()
        .enumerate()
        .filter_map(|(index, change)| Some((index, change.edit?)));
    edits
        .filter(|(_, (_, committed))| Some(*committed) >= began)
        .filter_map(|(index, (kind, committed))| {
            let known = oldest.partition_point(|oldest| *oldest < index);
            let last = known.checked_sub(1).map(|last| timeline[last].0);
            (known < timeline.len()).then(|| InForce {
                kind,
                node,
                committed,
                time: last.map_or(Duration::ZERO, |last| last.saturating_duration_since(committed)),
            })
        })
        .collect()
}

impl Report {
    /// Prints the line, and fails unless every answer was right and within `bound`; what the machine stood still is not held
    /// against anybody.
    pub fn hold(&self, bound: Duration) {
        println!("{self}");
        let first: Vec<&String> = self.wrong.iter().take(5).collect();
        assert!(
            self.wrong.is_empty(),
            "{}: {} wrong, as {first:#?}",
            self.scenario,
            self.wrong.len()
        );
        assert!(self.by_mac > 0 && self.by_certificate > 0, "{}: no load", self.scenario);
        assert!(
            self.worst <= bound + self.stalled,
            "{}: an answer took {:?}",
            self.scenario,
            self.worst
        );
    }

    /// Fails unless edits were in force on both nodes within `bound`, 99 of a hundred; those before all was well again count
    /// only where nothing was said of that.
    pub fn in_force_within(&self, bound: Duration) {
        for node in 0..2 {
            let well = |edit: &InForce| edit.node == node && Some(edit.committed) >= self.healed;
            let (count, most) = self.quantile(0.99, well);
            assert!(count > 0, "{}: no edit was seen in force on node {node}", self.scenario);
            assert!(
                most <= bound + self.stalled,
                "{}: 99 % of {count} edits in force on node {node} within {most:?}",
                self.scenario
            );
        }
    }

    /// The time within which this share of the edits was in force on a node, and of how many.
    fn quantile(&self, share: f64, is_meant: impl Fn(&InForce) -> bool) -> (usize, Duration) {
        let times: Vec<Duration> = self
            .in_force
            .iter()
            .filter(|edit| is_meant(edit))
            .map(|edit| edit.time)
            .collect();
        let place = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len().max(1));
        (times.len(), times.get(place - 1).copied().unwrap_or_default())
    }

    /// The edit that was in force last: when it was committed, on which node, and how long it took.
    pub fn latest(&self) -> Option<(Instant, usize, Duration)> {
        let edit = self.in_force.last()?;
        Some((edit.committed, edit.node, edit.time))
    }

    /// How many answers were wrong.
    pub fn wrong(&self) -> usize {
        self.wrong.len()
    }

    /// How many edits of each kind were seen in force on a node, the fewest.
    pub fn fewest_edits(&self) -> usize {
        let counts = (0..KINDS.len()).flat_map(|kind| [0, 1].map(|node| (kind, node)));
        let counts = counts.map(|(kind, node)| self.quantile(0.5, |edit| edit.kind == kind && edit.node == node).0);
        counts.min().unwrap_or_default()
    }

    /// A line for each kind of edit.
    pub fn print_kinds(&self) {
        for (kind, name) in KINDS.iter().enumerate() {
            for node in 0..2 {
                let is_meant = |edit: &InForce| edit.kind == kind && edit.node == node;
                let (count, half) = self.quantile(0.5, is_meant);
                let (_, most) = self.quantile(0.99, is_meant);
                println!(
                    "    {name}, node {node}: {count} edits, half in force within {} ms, 99 % within {} ms",
                    half.as_millis(),
                    most.as_millis()
                );
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, all) = self.quantile(0.99, |_| true);
        let (_, well) = self.quantile(0.99, |edit| Some(edit.committed) >= self.healed);
        write!(
            f,
            "{}: {} by mac, {} by certificate, {} accepted, {} rejected, {} wrong, {} retransmitted, worst answer {} ms \
             (the machine stood still for {} ms); \
             {} edits, 99 % in force within {} ms",
            self.scenario,
            self.by_mac,
            self.by_certificate,
            self.accepted,
            self.rejected,
            self.wrong.len(),
            self.retransmissions,
            self.worst.as_millis(),
            self.stalled.as_millis(),
            self.edits,
            all.as_millis(),
        )?;
        match self.healed {
            Some(_) => write!(f, ", once all was well again {} ms", well.as_millis()),
            None => Ok(()),
        }
    }
}
