//! Times as people write them: lengths with days, and moments in UTC.

use std::time::Duration;

use crate::client::duration;

const DAY_SECONDS: u64 = 86_400;
const HOUR_SECONDS: u64 = 3_600;
const MINUTE_SECONDS: u64 = 60;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const UNIX_DAYS: i64 = 719_468;

/// Reads a length of time, such as `500ms`, `24h` or `30d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').map(str::parse::<u64>);
    match days {
        Some(Ok(days @ 1..=100_000)) => Ok(Duration::from_secs(days * DAY_SECONDS)),
        _ => duration::parse(text).map_err(|_| {
            "write a time above 0 with its unit, such as 500ms, 24h or 30d".to_owned()
        }),
    }
}

/// Reads a moment in UTC, such as `2026-11-27T05:30:00Z`, `2026-11-27 05:30` or `2026-11-27`; Unix, in
/// milliseconds. Without seconds, they are 0.
pub(super) fn moment(text: &str) -> Result<u64, String> {
    parsed(text).ok_or_else(|| "write a time in UTC, such as 2026-11-27T05:30:00Z".to_owned())
}

fn parsed(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut numbers = date.splitn(3, '-').map(digits);
    let [year, month, day] = [numbers.next()??, numbers.next()??, numbers.next()??];
    let mut numbers = time.split(':').map(digits);
    let [hour, minute] = [numbers.next()??, numbers.next()??];
    let second = numbers.next().unwrap_or(Some(0))?;
    let is_time = hour < 24 && minute < 60 && second < 60 && numbers.next().is_none();
    let days = days_of(year as i64, month, day)?;
    let milliseconds = digits(&format!("{fraction:0<3}")[..3])?;
    let seconds = days * DAY_SECONDS + hour * HOUR_SECONDS + minute * MINUTE_SECONDS + second;
    is_time.then_some(seconds * 1_000 + milliseconds)
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| is_number && *number < 10_000)
}

/// Days from 1970-01-01 to a date; `None` if there is no such date since then.
fn days_of(year: i64, month: u64, day: u64) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years that begin in March have the leap day at their end.
    let shifted = (month + 9) % 12;
    let year_of_march = year - i64::from(month < 3);
    let (era, in_era) = (year_of_march / 400, year_of_march % 400);
    let in_year = (153 * shifted as i64 + 2) / 5 + day as i64 - 1;
    let days = era * ERA_DAYS + in_era * 365 + in_era / 4 - in_era / 100 + in_year - UNIX_DAYS;
    let days = u64::try_from(days).ok()?;
    (date_of(days) == (year as u64, month, day)).then_some(days)
}

/// The date that is this many days behind 1970-01-01.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days as i64 + UNIX_DAYS;
    let (era, in_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * in_year + 2) / 153;
    let (day, month) = (
        in_year - (153 * shifted + 2) / 5 + 1,
        (shifted + 2) % 12 + 1,
    );
    let year = era * 400 + year + i64::from(month < 3);
    (year as u64, month as u64, day as u64)
}

/// A moment in UTC, to the second.
pub(super) fn shown(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let (year, month, day) = date_of(seconds / DAY_SECONDS);
    let (hour, minute) = (
        seconds % DAY_SECONDS / HOUR_SECONDS,
        seconds % HOUR_SECONDS / MINUTE_SECONDS,
    );
    let second = seconds % MINUTE_SECONDS;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_shown() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-27T05:30:00Z", 1_795_757_400),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(moment(text), Ok(seconds * 1_000), "{text}");
            assert_eq!(shown(seconds * 1_000 + 999), text);
        }
        assert_eq!(moment("2026-11-27 05:30"), moment("2026-11-27T05:30:00Z"));
        assert_eq!(moment("1970-01-01T00:00:01.5Z"), Ok(1_500));
    }

    #[test]
    fn other_texts_are_no_moments() {
        for text in [
            "",
            "now",
            "2026-13-01",
            "2026-02-29",
            "2026-11-27T24:00",
            "2026-11-27T1",
            "1969-12-31",
            "2026-11-27T05:30:00+01:00",
            "2026-1é-27",
            "2026-11-27T05:30:00.é",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_may_be_days() {
        assert_eq!(duration("30d"), Ok(Duration::from_secs(2_592_000)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for text in ["0d", "d", "-1d", "1e9d", "30"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
