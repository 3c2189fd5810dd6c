//! The plots of the report.

use std::time::Duration;

use super::figure::{Drawn, Figure, Shape};
use super::scale::{Scale, clock};
use super::time;
use crate::failure::Kind;
use crate::profile::Load;
use crate::report::Report;
use crate::series::{Point, merged};
use crate::units::{bytes, count};

/// Points of a plot, at most: more would not be seen.
const POINTS: usize = 480;
/// Places of the distribution.
const SHARES: u32 = 240;
/// Colours of kinds of failures, wrong answers and others; what is left shares the last.
const WRONG_CLASSES: [&str; 3] = ["red", "violet", "blue"];
const OTHER_CLASSES: [&str; 4] = ["amber", "sky", "green", "soft"];

/// A figure of a point.
type Of = fn(&Point) -> u64;

/// One place of a plot over time.
struct Moment {
    point: Point,
    from: f64,
    to: f64,
}

impl Moment {
    fn middle(&self) -> f64 {
        f64::midpoint(self.from, self.to)
    }

    fn a_second(&self, number: f64) -> f64 {
        number / (self.to - self.from)
    }
}

impl Report<'_> {
    pub(super) fn figures(&self) -> Vec<Figure> {
        let moments = self.moments();
        let tally = &self.results.tally;
        let mut figures = vec![self.rate_figure(&moments)];
        if !tally.latency.is_empty() {
            figures.push(self.latency_figure(&moments));
            figures.push(self.distribution());
        }
        if !tally.failures.is_empty() {
            figures.push(self.failure_figure(&moments));
        }
        figures.push(self.open_figure(&moments));
        figures.push(self.processor_figure(&moments));
        if self.results.server.is_some() {
            figures.push(self.memory_figure(&moments));
        }
        figures
    }

    /// The run in pieces of equal length. A short rest at the end is left out: rates of so little time say nothing.
    fn moments(&self) -> Vec<Moment> {
        let points = &self.results.series.points;
        let points = merged(points, points.len().div_ceil(POINTS));
        let ends = self.seconds();
        let mut moments: Vec<_> = points
            .into_iter()
            .map(|point| Moment {
                from: point.second as f64,
                to: ((point.second + point.seconds) as f64).min(ends.max(point.second as f64 + 0.001)),
                point,
            })
            .collect();
        if moments.len() > 1 {
            moments.retain(|moment| moment.to - moment.from >= 0.5 * moment.point.seconds as f64);
        }
        moments
    }

    /// A plot over time, of which only the y axis and what is drawn are missing.
    fn over_time(&self, title: &'static str, note: String, moments: &[Moment]) -> Figure {
        let x = Scale::Linear {
            most: moments.last().map_or(1.0, |moment| moment.to).max(0.001),
        };
        let phases = self.shared.profile.starts().skip(1);
        let ends = moments.last().map_or(0.0, |moment| moment.to);
        let marks = phases.map(|(start, phase)| (start.as_secs_f64(), phase.name.clone()));
        Figure {
            title,
            note,
            x_ticks: x.seconds(),
            x,
            y: Scale::linear(1.0),
            y_ticks: Vec::new(),
            shapes: Vec::new(),
            readings: moments
                .iter()
                .map(|moment| (moment.middle(), clock(moment.from)))
                .collect(),
            marks: marks.filter(|(start, _)| *start < ends).collect(),
            wide: false,
        }
    }

    fn rate_figure(&self, moments: &[Moment]) -> Figure {
        let mut figure = self.over_time("Rate", "authentications a second".to_owned(), moments);
        figure.wide = true;
        let rates = |of: Of| -> Vec<f64> {
            moments
                .iter()
                .map(|moment| moment.a_second(of(&moment.point) as f64))
                .collect()
        };
        let (right, failed) = (rates(|point| point.right), rates(|point| point.failed));
        let asked: Vec<_> = moments
            .iter()
            .map(
                |moment| match self.shared.profile.at(Duration::from_secs_f64(moment.middle())) {
                    Some(Load::Rate { to, .. }) => Some(to),
                    _ => None,
                },
            )
            .collect();
        let most = right
            .iter()
            .chain(&failed)
            .chain(asked.iter().flatten())
            .copied()
            .fold(0.0, f64::max);
        figure.y = Scale::linear(most);
        figure.y_ticks = figure.y.counts();
        let words = |rate: &f64| count(rate.round() as u64);
        if asked.iter().any(Option::is_some) {
            figure.shapes.push(Shape {
                name: "by schedule".to_owned(),
                class: "soft dashed",
                values: asked
                    .iter()
                    .map(|rate| rate.as_ref().map_or(String::new(), words))
                    .collect(),
                drawn: Drawn::Line(asked),
            });
        }
        figure.shapes.push(Shape {
            name: "right".to_owned(),
            class: "blue",
            values: right.iter().map(words).collect(),
            drawn: Drawn::Area(right.into_iter().map(Some).collect()),
        });
        if failed.iter().any(|rate| *rate > 0.0) {
            figure.shapes.push(Shape {
                name: "failed".to_owned(),
                class: "red",
                values: failed.iter().map(words).collect(),
                drawn: Drawn::Line(failed.into_iter().map(Some).collect()),
            });
        }
        figure
    }

    fn latency_figure(&self, moments: &[Moment]) -> Figure {
        let mut figure = self.over_time(
            "Latency",
            "of those that ended in each moment; logarithmic".to_owned(),
            moments,
        );
        let lines: [(&str, &str, Of); 3] = [
            ("longest", "soft dotted", |point| point.max),
            ("p99", "amber", |point| point.p99),
            ("median", "blue", |point| point.p50),
        ];
        let values = |of: Of| moments.iter().map(move |moment| of(&moment.point) as f64);
        figure.y = Scale::log(lines.iter().flat_map(|(.., of)| values(*of)));
        figure.y_ticks = figure.y.times();
        figure.shapes = lines
            .into_iter()
            .map(|(name, class, of)| {
                let seen = values(of).map(|value| (value > 0.0).then_some(value));
                Shape {
                    name: name.to_owned(),
                    class,
                    values: seen.clone().map(|value| value.map_or(String::new(), time)).collect(),
                    drawn: Drawn::Line(seen.collect()),
                }
            })
            .collect();
        figure
    }

    fn distribution(&self) -> Figure {
        let latency = &self.results.tally.latency;
        let x = Scale::nines(latency.len());
        let Scale::Nines { nines } = x else {
            return self.over_time("", String::new(), &[]);
        };
        let shares = (0..=SHARES).map(|at| 1.0 - 10_f64.powf(-nines * f64::from(at) / f64::from(SHARES)));
        let points: Vec<_> = shares
            .map(|share| (share, latency.value_at_quantile(share) as f64))
            .collect();
        let y = Scale::log(points.iter().map(|(_, value)| *value));
        Figure {
            title: "Latency by percentile",
            note: "so many of 100 took up to so long".to_owned(),
            x_ticks: x.percentiles(),
            x,
            y_ticks: y.times(),
            y,
            readings: points.iter().map(|(share, _)| (*share, percent(*share))).collect(),
            shapes: vec![Shape {
                name: "latency".to_owned(),
                class: "blue",
                values: points.iter().map(|(_, value)| time(*value)).collect(),
                drawn: Drawn::Area(points.iter().map(|(_, value)| Some(*value)).collect()),
            }],
            marks: Vec::new(),
            wide: false,
        }
    }

    fn failure_figure(&self, moments: &[Moment]) -> Figure {
        let mut figure = self.over_time(
            "Failures",
            "a second, by kind, when they were found".to_owned(),
            moments,
        );
        let kinds: Vec<_> = self
            .results
            .tally
            .failures
            .iter()
            .map(|failures| failures.kind)
            .collect();
        let of = |moment: &Moment, kind: Kind| {
            let found = moment.point.failures.iter().find(|(known, _)| *known == kind);
            moment.a_second(found.map_or(0, |(_, count)| *count) as f64)
        };
        let mut stacked = vec![0.0; moments.len()];
        let (mut wrong, mut other) = (WRONG_CLASSES.into_iter(), OTHER_CLASSES.into_iter());
        for kind in &kinds {
            let class = if kind.is_wrong_answer() {
                wrong.next()
            } else {
                other.next()
            };
            let class = class.unwrap_or("soft");
            let columns = moments.iter().zip(&mut stacked).map(|(moment, below)| {
                let low = *below;
                *below += of(moment, *kind);
                [moment.from, moment.to, low, *below]
            });
            figure.shapes.push(Shape {
                name: kind.to_string(),
                class,
                drawn: Drawn::Columns(columns.collect()),
                values: moments.iter().map(|moment| rounded(of(moment, *kind))).collect(),
            });
        }
        figure.y = Scale::linear(stacked.into_iter().fold(0.0, f64::max));
        figure.y_ticks = figure.y.counts();
        figure
    }

    fn open_figure(&self, moments: &[Moment]) -> Figure {
        let mut figure = self.over_time(
            "Devices at once",
            "the most under way in each moment".to_owned(),
            moments,
        );
        let open: Vec<_> = moments.iter().map(|moment| moment.point.open as f64).collect();
        figure.y = Scale::linear(open.iter().copied().fold(0.0, f64::max));
        figure.y_ticks = figure.y.counts();
        figure.shapes.push(Shape {
            name: "under way".to_owned(),
            class: "violet",
            values: open.iter().map(|open| count(*open as u64)).collect(),
            drawn: Drawn::Area(open.into_iter().map(Some).collect()),
        });
        figure
    }

    fn processor_figure(&self, moments: &[Moment]) -> Figure {
        let mut figure = self.over_time("Processor time", "percent of one core".to_owned(), moments);
        let share = |moment: &Moment, used: Duration| 100.0 * moment.a_second(used.as_secs_f64());
        let server: Vec<_> = moments
            .iter()
            .map(|moment| moment.point.server.map(|server| share(moment, server.processor)))
            .collect();
        let client: Vec<_> = moments
            .iter()
            .map(|moment| Some(share(moment, moment.point.client.processor)))
            .collect();
        figure.y = Scale::linear(server.iter().chain(&client).flatten().copied().fold(0.0, f64::max));
        figure.y_ticks = figure.y.counts();
        for (name, class, values) in [("server", "green", server), ("this client", "soft dashed", client)] {
            if values.iter().any(Option::is_some) {
                figure.shapes.push(Shape {
                    name: name.to_owned(),
                    class,
                    values: values
                        .iter()
                        .map(|value| value.map_or(String::new(), |value| format!("{value:.0} %")))
                        .collect(),
                    drawn: Drawn::Line(values),
                });
            }
        }
        figure
    }

    fn memory_figure(&self, moments: &[Moment]) -> Figure {
        let mut figure = self.over_time("Server's memory", "resident, in megabytes".to_owned(), moments);
        let memory: Vec<_> = moments
            .iter()
            .map(|moment| moment.point.server.map(|server| server.resident))
            .collect();
        let megabytes: Vec<_> = memory
            .iter()
            .map(|octets| octets.map(|octets| octets as f64 / 1e6))
            .collect();
        figure.y = Scale::linear(megabytes.iter().flatten().copied().fold(0.0, f64::max));
        figure.y_ticks = figure.y.counts();
        figure.shapes.push(Shape {
            name: "resident".to_owned(),
            class: "green",
            values: memory
                .iter()
                .map(|octets| octets.map_or(String::new(), bytes))
                .collect(),
            drawn: Drawn::Area(megabytes),
        });
        figure
    }
}

/// A rate, with a digit where it is small.
pub(super) fn rounded(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// A share, with as many nines as it has.
fn percent(share: f64) -> String {
    let digits = (-(1.0 - share).max(1e-9).log10() - 1.0).max(0.0).ceil() as usize;
    format!("{:.digits$} %", 100.0 * share)
}
