//! Points of time in certificates, as they are written there and as seconds since 1970.

use super::der::{Malformed, Reader, tag};

/// A point of time in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time<'a> {
    /// As encoded: `YYMMDDHHMMSSZ`, from 2050 on `YYYYMMDDHHMMSSZ`.
    pub text: &'a str,
    /// Seconds since 1970.
    pub unix: i64,
}

impl<'a> Time<'a> {
    /// UTCTime until 2049, GeneralizedTime from 2050 on (RFC 5280 section 4.1.2.5): digits, in UTC, with seconds.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Time<'a>, Malformed> {
        const WHAT: Malformed = Malformed("validity");
        let element = reader.any()?;
        let text = std::str::from_utf8(element.contents).map_err(|_| WHAT)?;
        let digits = text.strip_suffix('Z').ok_or(WHAT)?;
        let (year, rest) = match (element.tag, digits.len()) {
            (tag::UTC_TIME, 12) => {
                let (year, rest) = digits.split_at_checked(2).ok_or(WHAT)?;
                let year = number(year)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            (tag::GENERALIZED_TIME, 14) => {
                let (year, rest) = digits.split_at_checked(4).ok_or(WHAT)?;
                (number(year)?, rest)
            }
            _ => return Err(WHAT),
        };
        let mut rest = rest;
        let mut next = |least: i64, most: i64| {
            let (pair, after) = rest.split_at_checked(2).ok_or(WHAT)?;
            rest = after;
            number(pair).and_then(|value| {
                if (least..=most).contains(&value) {
                    Ok(value)
                } else {
                    Err(WHAT)
                }
            })
        };
        let (month, day, hour, minute, second) = (next(1, 12)?, next(1, 31)?, next(0, 23)?, next(0, 59)?, next(0, 59)?);
        if day > days_of_month(year, month) {
            return Err(WHAT);
        }
        Ok(Time {
            text,
            unix: ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second,
        })
    }
}

fn number(digits: &str) -> Result<i64, Malformed> {
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Malformed("validity"));
    }
    digits.parse().map_err(|_| Malformed("validity"))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the proleptic Gregorian calendar; years begin in March, so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(tag: u8, text: &str) -> Option<i64> {
        let element = [&[tag, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        Time::read(&mut Reader::new(&element, "validity"))
            .ok()
            .map(|time| time.unix)
    }

    #[test]
    fn times() {
        for (tag, text, unix) in [
            (tag::UTC_TIME, "700101000000Z", Some(0)),
            (tag::UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (tag::UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (tag::GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (tag::GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (tag::GENERALIZED_TIME, "20000229120000Z", Some(951_825_600)),
            (tag::GENERALIZED_TIME, "19000229120000Z", None),
            (tag::UTC_TIME, "7001010000Z", None),
            (tag::UTC_TIME, "700101000000+0100", None),
            (tag::UTC_TIME, "70010100000+Z", None),
            (tag::UTC_TIME, "701301000000Z", None),
            (tag::UTC_TIME, "700101240000Z", None),
            (tag::OCTET_STRING, "700101000000Z", None),
        ] {
            assert_eq!(time(tag, text), unix, "{text}");
        }
    }
}
