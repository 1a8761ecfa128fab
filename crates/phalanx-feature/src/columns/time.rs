//! Parts of a timestamp, in UTC.

use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;

/// The part of a timestamp that a column reads, in UTC. Each begins with id 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// The minute of the hour, 0 to 59.
    Minute,
    /// The hour of the day, 0 to 23.
    Hour,
    /// The day of the week, 0 (Monday) to 6 (Sunday).
    Weekday,
    /// The day of the month less one, 0 to 30.
    Day,
    /// The day of the year less one, 0 to 365.
    DayOfYear,
    /// The month less one, 0 to 11.
    Month,
    /// The quarter less one, 0 to 3.
    Quarter,
}

/// How an input holds timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Integers: seconds since 1970-01-01T00:00:00Z.
    Seconds,
    /// Integers: milliseconds since then.
    Millis,
    /// Integers: microseconds since then.
    Micros,
    /// Texts of ISO 8601: `2024-05-31`, `2024-05-31T18:30` or `2024-05-31 18:30:59.5Z`.
    Iso,
}

const DAY: i64 = 86_400;

impl TimePart {
    /// All parts with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("minute", Self::Minute),
        ("hour", Self::Hour),
        ("weekday", Self::Weekday),
        ("day", Self::Day),
        ("day_of_year", Self::DayOfYear),
        ("month", Self::Month),
        ("quarter", Self::Quarter),
    ];

    /// Returns the name of the part.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, part)| *part == self).map_or("", |(name, _)| name)
    }

    /// Returns the number of ids.
    #[must_use]
    pub fn num_buckets(self) -> usize {
        match self {
            Self::Minute => 60,
            Self::Hour => 24,
            Self::Weekday => 7,
            Self::Day => 31,
            Self::DayOfYear => 366,
            Self::Month => 12,
            Self::Quarter => 4,
        }
    }

    /// Returns the part of a number of seconds since 1970.
    #[inline]
    pub(crate) fn of_seconds(self, seconds: i64) -> i64 {
        let day = seconds.div_euclid(DAY);
        match self {
            Self::Minute => seconds.div_euclid(60).rem_euclid(60),
            Self::Hour => seconds.div_euclid(3600).rem_euclid(24),
            // 1970-01-01 was a Thursday.
            Self::Weekday => (day.rem_euclid(7) + 3) % 7,
            Self::Day => civil(day).2 - 1,
            Self::Month => civil(day).1 - 1,
            Self::Quarter => (civil(day).1 - 1) / 3,
            Self::DayOfYear => day - days(civil(day).0, 1, 1),
        }
    }
}

impl TimeUnit {
    /// The type of the input.
    pub(crate) fn dtype(self) -> DType {
        if self == Self::Iso { DType::Bytes } else { DType::I64 }
    }

    /// The number of units per second; `None` for texts.
    pub(crate) fn per_second(self) -> Option<i64> {
        match self {
            Self::Seconds => Some(1),
            Self::Millis => Some(1_000),
            Self::Micros => Some(1_000_000),
            Self::Iso => None,
        }
    }
}

/// The date of a day since 1970-01-01, in the proleptic Gregorian calendar (Hinnant's `civil_from_days`).
pub(crate) fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day.saturating_add(719_468);
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970-01-01 of a date (Hinnant's `days_from_civil`).
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = (month + 9) % 12;
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The seconds since 1970 of a text of ISO 8601 in UTC.
pub(crate) fn parse_iso(text: &[u8]) -> Result<i64> {
    let wrong = || {
        let what = format!("{:?} is not a timestamp", String::from_utf8_lossy(text));
        Error::new(Code::DataRow, what)
            .because("a timestamp is a date, or date and time, of ISO 8601 in UTC")
            .help("write 2024-05-31 or 2024-05-31T18:30:59Z, or give `unit` if the timestamps are numbers")
    };
    let number = |range: std::ops::Range<usize>, least: i64, most: i64| -> Result<i64> {
        let digits = text.get(range).filter(|digits| digits.iter().all(u8::is_ascii_digit)).ok_or_else(wrong)?;
        let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        if (least..=most).contains(&value) { Ok(value) } else { Err(wrong()) }
    };
    let mark = |at: usize, marks: &[u8]| text.get(at).is_some_and(|byte| marks.contains(byte));
    if !mark(4, b"-") || !mark(7, b"-") {
        return Err(wrong());
    }
    let (year, month, day) = (number(0..4, 0, 9999)?, number(5..7, 1, 12)?, number(8..10, 1, 31)?);
    let date = days(year, month, day);
    if civil(date) != (year, month, day) {
        return Err(wrong());
    }
    let mut seconds = date * DAY;
    let mut at = 10;
    if mark(at, b"T ") {
        if !mark(13, b":") {
            return Err(wrong());
        }
        seconds += number(11..13, 0, 23)? * 3600 + number(14..16, 0, 59)? * 60;
        at = 16;
        if mark(at, b":") {
            // A leap second counts as the second before it.
            seconds += number(17..19, 0, 60)?.min(59);
            at = 19;
            if mark(at, b".") {
                let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                at += 1 + digits;
            }
        }
    }
    let rest = &text[at..];
    if rest.is_empty() || rest == b"Z" || rest == b"+00:00" { Ok(seconds) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(seconds: i64) -> Vec<i64> {
        TimePart::ALL.iter().map(|(_, part)| part.of_seconds(seconds)).collect()
    }

    #[test]
    fn parts_of_known_moments() {
        // minute, hour, weekday, day, day of year, month, quarter; of Python's datetime.
        assert_eq!(parts(0), [0, 0, 3, 0, 0, 0, 0]);
        assert_eq!(parts(parse_iso(b"2024-02-29T23:59:58Z").unwrap()), [59, 23, 3, 28, 59, 1, 0]);
        assert_eq!(parts(parse_iso(b"2023-12-31 06:07").unwrap()), [7, 6, 6, 30, 364, 11, 3]);
        assert_eq!(parts(-1), [59, 23, 2, 30, 364, 11, 3]);
        assert_eq!(parse_iso(b"2024-05-31").unwrap(), 1_717_113_600);
    }

    #[test]
    fn every_day_of_eight_centuries_is_its_own_date() {
        for day in -150_000..150_000 {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
            let of_year = TimePart::DayOfYear.of_seconds(day * DAY);
            assert!((0..366).contains(&of_year) && (1..=12).contains(&month) && (1..=31).contains(&of_month));
        }
    }

    #[test]
    fn texts_that_are_no_timestamps_are_refused() {
        for text in ["", "2024", "2024-13-01", "2023-02-29", "2024-05-31T", "2024-05-31T18", "2024-05-31T18:30+02:00"] {
            assert!(parse_iso(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse_iso("2024-05-31T18:30:00.123Z".as_bytes()).is_ok());
        // Extreme numbers do not overflow.
        parts(i64::MIN);
        parts(i64::MAX);
    }
}
