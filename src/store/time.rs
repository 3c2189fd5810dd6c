//! `valid_until` as people and SQL write it, and as seconds since 1970.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// A text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no time\nhint: write RFC 3339, `2027-01-31T12:00:00Z`, or a date")]
pub struct NoTime(pub String);

/// Reads RFC 3339 (`2027-01-31T12:00:00Z`), `2027-01-31 12:00:00` (UTC, as SQLite's `datetime()` writes it; PostgreSQL's `now()` adds an offset), a date (its
/// last second, UTC), or seconds since 1970. The result is the last second of validity.
pub fn parse(text: &str) -> Result<i64, NoTime> {
    let refuse = || NoTime(text.to_owned());
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|octet| octet.is_ascii_digit()) {
        let seconds = trimmed.parse().map_err(|_| refuse())?;
        return Timestamp::from_second(seconds)
            .map(Timestamp::as_second)
            .map_err(|_| refuse());
    }
    if let Ok(timestamp) = trimmed.parse::<Timestamp>() {
        return Ok(timestamp.as_second());
    }
    // A date's own reading of "2027-01-31 12:00:00" would drop the time: look at the length first.
    let civil = match trimmed.len() {
        10 => trimmed.parse::<Date>().map(|date| date.at(23, 59, 59, 0)),
        _ => trimmed.parse::<DateTime>(),
    };
    let timestamp = civil.and_then(|civil| TimeZone::UTC.to_timestamp(civil));
    timestamp.map(Timestamp::as_second).map_err(|_| refuse())
}

/// Writes seconds since 1970 as RFC 3339 in UTC, which [`parse`] reads back. Out of jiff's range of years -9999 to 9999:
/// the number.
pub fn display(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => seconds.to_string(),
    }
}

/// Reads an IANA time zone name.
pub fn zone(name: &str) -> Result<TimeZone, NoZone> {
    TimeZone::get(name).map_err(|_| NoZone(name.to_owned()))
}

/// A text names no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no time zone\nhint: write an IANA name such as `Europe/London`; on a system without /usr/share/zoneinfo install tzdata"
)]
pub struct NoZone(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [
            ("2027-01-31T12:00:00Z", Some(1_801_396_800)),
            ("2027-01-31T13:00:00+01:00", Some(1_801_396_800)),
            ("2027-01-31 12:00:00", Some(1_801_396_800)),
            // As PostgreSQL writes now().
            ("2027-01-31 12:00:00.5+00", Some(1_801_396_800)),
            ("2027-01-31 17:30:00.123456+05:30", Some(1_801_396_800)),
            ("2027-01-31T12:00:00", Some(1_801_396_800)),
            ("2027-01-31", Some(1_801_396_800 + 12 * 3600 - 1)),
            ("1801396800", Some(1_801_396_800)),
            ("0", Some(0)),
            ("", None),
            ("tomorrow", None),
            ("2027-02-30", None),
            ("99999999999999999999", None),
            ("2027-01-31T12:00:00Zx", None),
        ] {
            assert_eq!(parse(text).ok(), seconds, "{text}");
        }
        assert_eq!(display(1_801_396_800), "2027-01-31T12:00:00Z");
        assert_eq!(parse(&display(0)), Ok(0));
    }

    #[test]
    fn zones() {
        assert!(zone("UTC").is_ok());
        assert!(zone("Middle/Earth").unwrap_err().to_string().contains("hint:"));
    }
}
