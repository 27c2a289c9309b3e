//! The text of a value, read as Go reads it.

use std::num::IntErrorKind;
use std::time::Duration;

use super::error::Error;

/// `1`, `t`, `true`, `True`, `TRUE` and their opposites.
pub(super) fn boolean(flag: &'static str, text: &str) -> Result<bool, Error> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(Error::bad(flag, text, "write true or false")),
    }
}

/// An integer without a sign: decimal, or with the prefixes `0x`, `0o`, `0b`.
pub(super) fn unsigned(flag: &'static str, text: &str) -> Result<u64, Error> {
    let plain = text.replace('_', "");
    let (digits, radix) = match plain.get(..2) {
        Some("0x" | "0X") => (&plain[2..], 16),
        Some("0o" | "0O") => (&plain[2..], 8),
        Some("0b" | "0B") => (&plain[2..], 2),
        _ => (plain.as_str(), 10),
    };
    if digits.starts_with('+') {
        return Err(Error::bad(flag, text, "write a whole number"));
    }
    match u64::from_str_radix(digits, radix) {
        Ok(number) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            Err(Error::bad(flag, text, "the number does not fit 64 bits"))
        }
        Err(_) => Err(Error::bad(flag, text, "write a whole number, 0 or more")),
    }
}

/// An integer with an optional sign.
pub(super) fn signed(flag: &'static str, text: &str) -> Result<i64, Error> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let Ok(magnitude) = unsigned(flag, digits) else {
        return Err(Error::bad(flag, text, "write a whole number of 64 bits"));
    };
    let signed = if text.starts_with('-') {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    };
    signed.ok_or_else(|| Error::bad(flag, text, "the number does not fit 64 bits"))
}

/// Go's durations: `300ms`, `1.5h`, `2h45m`; zero needs no unit.
pub(super) fn duration(flag: &'static str, text: &str) -> Result<Duration, Error> {
    let remedy = "write a duration such as 100ms, 5s, 10m or 1h30m";
    let refuse = || Error::bad(flag, text, remedy);
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(refuse());
    }
    let mut seconds = 0f64;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(refuse)?;
        let number: f64 = rest[..number_end].parse().map_err(|_| refuse())?;
        rest = &rest[number_end..];
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        seconds += number * seconds_of(&rest[..unit_end]).ok_or_else(refuse)?;
        rest = &rest[unit_end..];
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| refuse())
}

/// Length of one unit.
fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_go_s() {
        for yes in ["1", "t", "T", "true", "True", "TRUE"] {
            assert!(boolean("pre-vote", yes).unwrap());
        }
        for no in ["0", "f", "F", "false", "False", "FALSE"] {
            assert!(!boolean("pre-vote", no).unwrap());
        }
        assert!(boolean("pre-vote", "yes").is_err());
    }

    #[test]
    fn integers_know_the_prefixes_and_their_bounds() {
        assert_eq!(unsigned("f", "1_572_864").unwrap(), 1_572_864);
        assert_eq!(unsigned("f", "0x10").unwrap(), 16);
        assert!(unsigned("f", "-1").is_err());
        assert!(unsigned("f", "+1").is_err());
        assert!(unsigned("f", "1.5").is_err());
        assert!(unsigned("f", "").is_err());
        assert_eq!(signed("f", "-1").unwrap(), -1);
        assert_eq!(signed("f", "-9223372036854775808").unwrap(), i64::MIN);
        assert!(signed("f", "9223372036854775808").is_err());
        assert!(signed("f", "--1").is_err());
        let text = signed("f", "-10x").unwrap_err().to_string();
        assert_eq!(text, "--f=-10x: write a whole number of 64 bits");
    }

    #[test]
    fn durations_are_go_s() {
        let table = [
            ("0", 0),
            ("100ms", 100),
            ("5s", 5_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2h0m0s", 7_200_000),
            ("+1m", 60_000),
        ];
        for (text, milliseconds) in table {
            assert_eq!(
                duration("f", text).unwrap(),
                Duration::from_millis(milliseconds),
                "{text}"
            );
        }
        for text in ["", "5", "s", "5x", "-5s", "1..5s", "5s5"] {
            assert!(duration("f", text).is_err(), "{text}");
        }
    }
}
