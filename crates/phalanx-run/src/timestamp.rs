//! The time of day, in milliseconds since 1970 and as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a time as `2026-11-15T17:03:03.123Z`.
#[must_use]
pub fn timestamp(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Parses the text that [`timestamp`] writes.
pub(crate) fn parse_timestamp(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let frame = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if bytes.len() != 24 || frame.iter().any(|&(at, mark)| bytes[at] != mark) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let seconds = number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    Some(days * 86_400_000 + seconds * 1000 + number(20, 23)?)
}

/// The Gregorian date of a day counted from 1970, computed in eras of 400 years that begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + of_year;
    (year / 400 * 146_097 + of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_dates_and_come_back() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_794_762_183_123), "2026-11-15T17:03:03.123Z");
        for ms in (0..4_000_000_000_000).step_by(86_399_999_117) {
            assert_eq!(parse_timestamp(&timestamp(ms)), Some(ms));
        }
        for bad in ["", "2026-13-15T17:03:03.123Z", "2026-11-15 17:03:03.123Z", "2026-11-15T17:03:03.12éZ"] {
            assert_eq!(parse_timestamp(bad), None, "{bad}");
        }
    }
}
