//! The wall clock in the form of RFC 3339.

use std::time::Duration;

/// `2026-01-02T15:04:05.999999Z`.
pub(super) fn rfc3339(unix: Duration) -> String {
    let (days, second) = (unix.as_secs() / 86_400, unix.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        unix.subsec_micros()
    )
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
}
