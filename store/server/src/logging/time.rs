//! The wall clock in the form of RFC 3339, and in names of files.

use std::time::Duration;

/// `2026-01-02T15:04:05.999999Z`.
pub(super) fn rfc3339(unix: Duration) -> String {
    let [year, month, day, hour, minute, second] = parts(unix);
    let micros = unix.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// `2026-01-02T15-04-05.999`.
pub(super) fn in_file_name(unix: Duration) -> String {
    let [year, month, day, hour, minute, second] = parts(unix);
    let millis = unix.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}.{millis:03}")
}

/// The moment that [`in_file_name`] wrote; `None` for another text.
pub(super) fn from_file_name(text: &str) -> Option<Duration> {
    let mut numbers = text.split(['-', 'T', '.']).map(str::parse::<u64>);
    let mut next = || numbers.next().and_then(Result::ok);
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second, millis) = (next()?, next()?, next()?, next()?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let unix = Duration::from_secs(seconds) + Duration::from_millis(millis);
    (in_file_name(unix) == text).then_some(unix)
}

fn parts(unix: Duration) -> [u64; 6] {
    let (days, second) = (unix.as_secs() / 86_400, unix.as_secs() % 86_400);
    let (year, month, day) = date(days);
    [
        year,
        month,
        day,
        second / 3600,
        second / 60 % 60,
        second % 60,
    ]
}

/// Days from 1970-01-01 to a Gregorian date: the inverse of [`date`].
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year_from_march = year - u64::from(month <= 2);
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The Gregorian date that lies `days` after 1970-01-01. Years are counted
/// from March, so that the leap day is a year's last, in eras of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    let since_era_zero = days + 719_468;
    let (era, day_of_era) = (since_era_zero / 146_097, since_era_zero % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        let table = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000000Z"),
        ];
        for (seconds, text) in table {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
        }
        assert!(rfc3339(Duration::from_micros(1_000_007)).ends_with(":01.000007Z"));
    }

    #[test]
    fn moments_in_file_names_are_read_again_and_other_texts_are_not() {
        for seconds in [0, 951_782_399, 951_782_400, 1_709_251_200, 1_767_225_599] {
            let unix = Duration::from_millis(seconds * 1000 + 7);
            assert_eq!(from_file_name(&in_file_name(unix)), Some(unix));
        }
        let moment = "2026-01-02T15-04-05.999";
        assert_eq!(in_file_name(from_file_name(moment).unwrap()), moment);
        for text in [
            "",
            "notes",
            "2026-13-02T15-04-05.999",
            "2026-01-02T15-04-05.9",
            "2026-01-02T15-04-05.999.1",
        ] {
            assert_eq!(from_file_name(text), None, "{text}");
        }
    }
}
