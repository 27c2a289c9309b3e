//! Durations as Go writes and reads them: `1m30s`, `5.852707ms`.

use std::time::Duration;

/// Units with their nanoseconds, the longer names first.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("h", 3600e9),
    ("m", 60e9),
    ("s", 1e9),
];

/// Reads a duration above 0, such as `90s`, `1m30s` or `0.5s`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time above 0 with its unit, such as 90s or 1m30s".to_owned();
    let (mut rest, mut nanoseconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.');
        let (number, after) = rest.split_at(digits.ok_or_else(wrong)?);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = UNITS.iter().find(|(unit, _)| after.starts_with(unit));
        let (unit, size) = unit.ok_or_else(wrong)?;
        nanoseconds += number * size;
        rest = &after[unit.len()..];
    }
    match Duration::try_from_secs_f64(nanoseconds / 1e9) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err(wrong()),
        Err(_) => Err("the time is too long".to_owned()),
    }
}

/// Writes a duration as Go does.
pub(crate) fn shown(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    let (unit, digits) = match nanoseconds {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 0),
        1_000..1_000_000 => ("µs", 3),
        1_000_000..1_000_000_000 => ("ms", 6),
        _ => return shown_seconds(time),
    };
    let whole = nanoseconds / 10u128.pow(digits);
    let part = nanoseconds % 10u128.pow(digits);
    format!("{whole}{}{unit}", fraction(part, digits))
}

fn shown_seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = String::new();
    if hours > 0 {
        text += &format!("{hours}h");
    }
    if seconds >= 60 {
        text += &format!("{minutes}m");
    }
    let part = fraction(u128::from(time.subsec_nanos()), 9);
    text + &format!("{}{part}s", seconds % 60)
}

/// The digits behind the point, without zeros at the end.
fn fraction(part: u128, digits: u32) -> String {
    if part == 0 {
        return String::new();
    }
    let text = format!(".{part:0width$}", width = digits as usize);
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, milliseconds) in [
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("100ms", 100),
            ("1.5s", 1_500),
            ("1s500000us", 1_500),
        ] {
            assert_eq!(
                parse(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for wrong in [
            "",
            "0s",
            "5",
            "1x",
            "m",
            "-1s",
            "1..2s",
            "é",
            "99999999999999999999h",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanoseconds, expected) in [
            (0, "0s"),
            (17, "17ns"),
            (1_200, "1.2µs"),
            (5_852_707, "5.852707ms"),
            (20_000_000, "20ms"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(shown(Duration::from_nanos(nanoseconds)), expected);
        }
    }
}
