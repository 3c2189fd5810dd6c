//! Dates of attributes: seconds since 1970 in four octets, written as in RFC 3339.

const DAY: i64 = 86_400;

/// `2026-11-30T12:00:00Z`.
pub(super) fn display(seconds: u32) -> String {
    let seconds = i64::from(seconds);
    let (year, month, day) = civil(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Seconds since 1970 of a date as RFC 3339 writes it, with `Z` or an offset. None outside of 1970 to 2106.
pub(super) fn parse(text: &str) -> Option<u32> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, zone) = rest.split_at_checked(9)?;
    let [year, month, day] = fields(date, b'-', [4, 2, 2])?;
    let [hour, minute, second] = fields(time.strip_prefix(['T', 't', ' '])?, b':', [2, 2, 2])?;
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let (sign, digits) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
                (Some(digits), _) => (1, digits),
                (_, Some(digits)) => (-1, digits),
                _ => return None,
            };
            let [hours, minutes] = fields(digits, b':', [2, 2])?;
            (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))?
        }
    };
    if hour > 23 || minute > 59 || second > 59 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let days = days(year, month, day);
    // a day that its month doesn't have comes back as another one
    if civil(days) != (year, month, day) {
        return None;
    }
    u32::try_from(days * DAY + hour * 3_600 + minute * 60 + second - offset).ok()
}

/// Numbers of fixed widths between separators.
fn fields<const N: usize>(text: &str, separator: u8, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(char::from(separator));
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts
            .next()
            .filter(|part| part.len() == width && part.bytes().all(|octet| octet.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days since 1970 of a day of the Gregorian calendar. Years begin in March, so that the leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// The day of the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_040_000, "2026-11-30T12:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u32::MAX, "2106-02-07T06:28:15Z"),
        ] {
            assert_eq!(display(seconds), text);
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
        assert_eq!(parse("2026-11-30T13:30:00+01:30"), Some(1_796_040_000));
        assert_eq!(parse("2026-11-30t07:00:00-05:00"), Some(1_796_040_000));
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "2026",
            "2026-11-31T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00+1",
            "1969-12-31T23:59:59Z",
            "2106-02-07T06:28:16Z",
            "2026-1-001T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:0éZ",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_there_and_back() {
        for day in 0..u32::MAX / 86_400 {
            let seconds = day * 86_400 + day % 86_400;
            assert_eq!(parse(&display(seconds)), Some(seconds));
        }
    }
}
