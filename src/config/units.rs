//! Spans of time, numbers of octets and of other things, as text.

use std::time::Duration;

/// `500ms`, `30s`, `5m`, `24h`, `7d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

/// The largest unit that divides the duration; `parse_duration` reads it back.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_millis() != 0 || seconds == 0 {
        return format!("{}ms", duration.as_millis());
    }
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m")] {
        if seconds.is_multiple_of(unit) {
            return format!("{}{name}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

/// `512`, `64KiB`, `16MiB`, `1GiB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// The largest unit that divides the size; `parse_size` reads it back.
pub fn size(octets: u64) -> String {
    for (shift, name) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if octets >> shift != 0 && octets.is_multiple_of(1 << shift) {
            return format!("{}{name}", octets >> shift);
        }
    }
    octets.to_string()
}

/// `1 file`, `7,964 values`.
pub fn counted(count: usize, one: &str, several: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.push(' ');
    text.push_str(if count == 1 { one } else { several });
    text
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_written() {
        for (text, value) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("24 h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(value)), "{text}");
        }
        for text in [
            "",
            "s",
            "5",
            "5y",
            "-5s",
            "1.5s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        for text in ["0ms", "1500ms", "90s", "2m", "25h", "3d"] {
            assert_eq!(parse_duration(text).map(duration).as_deref(), Some(text));
        }
        assert_eq!(parse_size("16MiB"), Some(16 << 20));
        assert_eq!(parse_size("1000"), Some(1000));
        assert_eq!(parse_size("16MB"), None);
        assert_eq!(parse_size("99999999999GiB"), None);
        for text in ["0", "1000", "64KiB", "16MiB", "1GiB"] {
            assert_eq!(parse_size(text).map(size).as_deref(), Some(text));
        }
    }

    #[test]
    fn counts_are_read_at_a_glance() {
        for (count, text) in [
            (0, "0 files"),
            (1, "1 file"),
            (999, "999 files"),
            (1_000, "1,000 files"),
            (1_234_567, "1,234,567 files"),
        ] {
            assert_eq!(counted(count, "file", "files"), text);
        }
    }
}
