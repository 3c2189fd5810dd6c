//! Numbers as people write and read them.

use std::time::Duration;

/// `3s`, `500ms`, `2m`, `1h`, or a number of seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at).unwrap_or((text, ""));
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is no unit of time\nhint: one of ms, s, m, h")),
    };
    let seconds = number
        .parse::<f64>()
        .map_err(|_| format!("`{text}` is no time\nhint: write `3s` or `500ms`"))?
        * unit;
    match (0.001..=31_536_000.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("`{text}` is not between 1ms and a year")),
    }
}

/// Three digits, in the unit that fits.
pub fn time(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = match number {
        n if n < 10.0 => 2,
        n if n < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.decimals$} {unit}")
}

/// A whole number with a comma for each thousand.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A moment, given in seconds since 1970, as `2026-11-30 23:00 UTC`: the proleptic Gregorian calendar, years from March.
pub fn utc(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02} UTC")
}

/// A round time, as one writes it: `5ms`, `3s`.
pub fn short_time(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}

/// Octets in the unit that fits.
pub fn bytes(octets: u64) -> String {
    match octets as f64 {
        n if n < 1e6 => format!("{:.0} kB", n / 1e3),
        n if n < 1e9 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.2} GB", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (950.0, "0.95 us"),
            (48_123.0, "48.1 us"),
            (1_234_567.0, "1.23 ms"),
            (345_600_000.0, "346 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(nanoseconds), text);
        }
    }

    #[test]
    fn times() {
        for (text, millis) in [
            ("3s", 3000),
            ("500ms", 500),
            ("2m", 120_000),
            ("10", 10_000),
            ("0.5", 500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "3d", "-1", "0", "1e99", "nan"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_and_moments() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(count(number), text);
        }
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_796_079_605, "2026-11-30 23:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
