//! Where a value stands on an axis, and what is written beside the axis.

use crate::units::{count, short_time};
use std::time::Duration;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// From zero.
    Linear { most: f64 },
    /// Both above zero.
    Log { least: f64, most: f64 },
    /// Shares from 0 below 1: each nine takes as much room as the one before it.
    Nines { nines: f64 },
}

/// A place on an axis, from 0 to 1, and what is written there.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub place: f64,
    pub label: String,
    /// Left out where there is little room.
    pub minor: bool,
}

impl Scale {
    /// From zero to a round number that is at least `most`.
    pub fn linear(most: f64) -> Scale {
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most);
        Scale::Linear {
            most: (most / step - 1e-9).ceil().max(1.0) * step,
        }
    }

    /// Over all of these values that are above zero, to round numbers.
    pub fn log(values: impl Iterator<Item = f64>) -> Scale {
        let values: Vec<_> = values.filter(|value| *value > 0.0).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        if values.is_empty() {
            return Scale::Log { least: 1.0, most: 10.0 };
        }
        let (low, high) = (round_below(least), round_below(most * (1.0 - 1e-9)));
        Scale::Log {
            least: low,
            most: next_round(high).max(next_round(next_round(low))),
        }
    }

    /// Up to the share that the last of so many values has.
    pub fn nines(values: u64) -> Scale {
        Scale::Nines {
            nines: (values as f64).max(10.0).log10(),
        }
    }

    pub fn place(&self, value: f64) -> f64 {
        match self {
            Scale::Linear { most } => value / most,
            Scale::Log { least, most } => (value.max(*least) / least).ln() / (most / least).ln(),
            Scale::Nines { nines } => (-(1.0 - value).log10() / nines).min(1.0),
        }
    }

    /// Round numbers of an axis from zero.
    pub fn counts(&self) -> Vec<Tick> {
        let Scale::Linear { most } = self else {
            return Vec::new();
        };
        let step = step(*most);
        let steps = (most / step).round() as u32;
        let ticks = (0..=steps).map(|at| {
            let value = f64::from(at) * step;
            Tick {
                place: value / most,
                label: match value.fract() == 0.0 {
                    true => count(value as u64),
                    false => format!("{}", (value * 1e6).round() / 1e6),
                },
                minor: false,
            }
        });
        ticks.collect()
    }

    /// Times since the beginning, of an axis of seconds.
    pub fn seconds(&self) -> Vec<Tick> {
        const STEPS: [f64; 16] = [
            0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 86_400.0,
        ];
        let Scale::Linear { most } = self else {
            return Vec::new();
        };
        let fits = STEPS.into_iter().find(|step| most / step <= 10.0);
        let step = fits.unwrap_or_else(|| (most / 10.0 / 86_400.0).ceil() * 86_400.0);
        (0..=(most / step + 1e-9) as u32)
            .map(|at| Tick {
                place: f64::from(at) * step / most,
                label: clock(f64::from(at) * step),
                minor: at % 2 == 1,
            })
            .collect()
    }

    /// 1, 2, 5, 10 … of a logarithmic axis of nanoseconds.
    pub fn times(&self) -> Vec<Tick> {
        let Scale::Log { least, most } = self else {
            return Vec::new();
        };
        let wide = most / least > 500.0;
        let mut ticks = Vec::new();
        let mut value = *least;
        while value <= most * 1.001 && ticks.len() < 60 {
            let is_decade = (value.log10() - value.log10().round()).abs() < 1e-6;
            if !wide || is_decade {
                ticks.push(Tick {
                    place: self.place(value),
                    label: round_time(value),
                    minor: !is_decade && most / least > 50.0,
                });
            }
            value = next_round(value);
        }
        ticks
    }

    /// 50, 90, 99, 99.9 … of an axis of shares, and others where there is room.
    pub fn percentiles(&self) -> Vec<Tick> {
        /// So near to each other labels cannot be read.
        const ROOM: f64 = 0.11;
        let shares = [0.5_f64, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999, 0.0, 0.75, 0.95];
        let Scale::Nines { nines } = self else {
            return Vec::new();
        };
        let mut ticks: Vec<Tick> = Vec::new();
        for share in shares
            .into_iter()
            .filter(|share| -(1.0 - share).log10() <= nines + 1e-9)
        {
            let place = self.place(share);
            if ticks.iter().all(|tick| (tick.place - place).abs() >= ROOM) {
                ticks.push(Tick {
                    place,
                    label: format!("{} %", (share * 1e8).round() / 1e6),
                    minor: false,
                });
            }
        }
        ticks.sort_by(|one, other| one.place.total_cmp(&other.place));
        ticks
    }
}

/// The step between some five round numbers up to `most`.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    let fits = steps.into_iter().find(|step| most / step <= 5.0 + 1e-9);
    fits.unwrap_or(10.0 * power)
}

/// The greatest of 1, 2, 5, 10, 20 … that is not above.
fn round_below(value: f64) -> f64 {
    let power = 10_f64.powf((value.log10() + 1e-9).floor());
    let digits = [5.0, 2.0]
        .into_iter()
        .find(|digit| digit * power <= value * (1.0 + 1e-9));
    digits.unwrap_or(1.0) * power
}

fn next_round(value: f64) -> f64 {
    let below = round_below(value);
    let power = 10_f64.powf((below.log10() + 1e-9).floor());
    match below / power {
        digit if digit < 1.5 => 2.0 * power,
        digit if digit < 3.0 => 5.0 * power,
        _ => 10.0 * power,
    }
}

/// `0:30`, `1:02:03`, with a part of a second where there is one.
pub fn clock(seconds: f64) -> String {
    if seconds.fract() > 1e-6 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A round number of nanoseconds.
fn round_time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 999_999.0 => format!("{} µs", (n / 1e3 * 1000.0).round() / 1000.0),
        n if n < 999_999_999.0 => format!("{:.0} ms", n / 1e6),
        n => short_time(Duration::from_millis((n / 1e6) as u64)).replace('s', " s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn axes_from_zero_have_round_numbers() {
        for (most, expected) in [
            (0.0, &["0", "0.2", "0.4", "0.6", "0.8", "1"][..]),
            (43.0, &["0", "10", "20", "30", "40", "50"]),
            (61_234.0, &["0", "20,000", "40,000", "60,000", "80,000"]),
            (1.2, &["0", "0.25", "0.5", "0.75", "1", "1.25"]),
        ] {
            assert_eq!(labels(Scale::linear(most).counts()), expected, "{most}");
        }
        assert_eq!(
            labels(Scale::Linear { most: 10.4 }.seconds()),
            ["0:00", "0:02", "0:04", "0:06", "0:08", "0:10"]
        );
        assert_eq!(
            labels(Scale::Linear { most: 2.0 }.seconds()),
            ["0:00", "0.5 s", "0:01", "1.5 s", "0:02"]
        );
        assert_eq!(
            labels(Scale::Linear { most: 28_800.0 }.seconds()).last().unwrap(),
            "8:00:00"
        );
        assert!(Scale::Linear { most: 1e8 }.seconds().len() < 13);
    }

    #[test]
    fn logarithmic_axes_have_decades() {
        let scale = Scale::log([3.1e4, 0.0, 7.7e6].into_iter());
        assert_eq!(scale, Scale::Log { least: 2e4, most: 1e7 });
        assert_eq!((scale.place(2e4), scale.place(1e7), scale.place(0.0)), (0.0, 1.0, 0.0));
        let ticks = labels(scale.times());
        assert_eq!(
            ticks,
            [
                "20 µs", "50 µs", "100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms"
            ]
        );
        let wide = Scale::log([1e3, 9e9].into_iter()).times();
        assert_eq!(
            labels(wide),
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        );
        // one value, or none
        assert_eq!(Scale::log([1e6].into_iter()), Scale::Log { least: 1e6, most: 5e6 });
        assert!(!Scale::log(std::iter::empty()).times().is_empty());
    }

    #[test]
    fn each_nine_has_as_much_room() {
        let scale = Scale::nines(1000);
        let places: Vec<_> = [0.0, 0.9, 0.99, 0.999]
            .map(|share| (scale.place(share) * 100.0).round())
            .into();
        assert_eq!(places, [0.0, 33.0, 67.0, 100.0]);
        assert_eq!(
            labels(Scale::nines(100).percentiles()),
            ["0 %", "50 %", "75 %", "90 %", "95 %", "99 %"]
        );
        assert_eq!(
            labels(Scale::nines(10_000_000).percentiles()).last().unwrap(),
            "99.9999 %"
        );
        assert_eq!(scale.place(1.0), 1.0);
    }
}
