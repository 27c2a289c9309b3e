//! Formatting of numbers for readers.

/// Sizes of the units of a number with their signs, from the greatest.
type Units = [(f64, &'static str); 4];

const COUNTS: Units = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
const TIMES: Units = [(1e6, " s"), (1e3, " ms"), (1.0, " µs"), (1e-3, " ns")];
const BYTES: Units = [
    (1_073_741_824.0, " GiB"),
    (1_048_576.0, " MiB"),
    (1024.0, " KiB"),
    (1.0, " B"),
];

/// Three significant digits, in the greatest unit that is not above the size.
fn in_unit(value: f64, units: Units) -> String {
    let fitting = units.into_iter().find(|(size, _)| value.abs() >= *size);
    match fitting.unwrap_or(units[3]) {
        _ if !value.is_finite() => "–".to_owned(),
        (size, sign) => format!("{}{sign}", three_digits(value / size)),
    }
}

/// Three significant digits, with the suffix `k`, `M` or `G`: `1.25 M`.
pub fn short(value: f64) -> String {
    match value.abs() {
        // Four digits are as short as three with a suffix.
        size if size < 1e4 => three_digits(value),
        _ => in_unit(value, COUNTS),
    }
}

/// Digits in groups: `1,234,567`; numbers below 1000 with three significant digits.
pub fn grouped(value: f64) -> String {
    if value.abs() < 1000.0 || !value.is_finite() {
        return short(value);
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, with a plural in s: `1 client`, `4 clients`.
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// A time given in microseconds, in the unit that suits it.
pub fn time(microseconds: f64) -> String {
    match microseconds {
        0.0 => "0".to_owned(),
        _ => in_unit(microseconds, TIMES),
    }
}

/// A number of bytes: `4 KiB`, `1.5 MiB`.
pub fn bytes(bytes: f64) -> String {
    in_unit(bytes, BYTES)
}

/// A change: `+7 %`, `-0.4 %`.
pub fn change(percent: f64) -> String {
    if !percent.is_finite() {
        return "–".to_owned();
    }
    let decimals = usize::from(percent.abs() < 9.95);
    let text = format!("{percent:+.decimals$}");
    let trimmed = match text.strip_suffix(".0") {
        Some("+0" | "-0") => "0",
        Some(whole) => whole,
        None => &text,
    };
    format!("{trimmed} %")
}

/// A change and the ends of its interval: `+7 % [4, 10]`.
pub fn change_within(percent: f64, low: f64, high: f64) -> String {
    let end = |value: f64| match value {
        _ if value == f64::INFINITY => "∞".to_owned(),
        _ if value == f64::NEG_INFINITY || value <= -100.0 => "-∞".to_owned(),
        _ => change(value).trim_start_matches('+').replace(" %", ""),
    };
    format!("{} [{}, {}]", change(percent), end(low), end(high))
}

/// At most three significant digits, without trailing zeros.
pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 100.0 || size == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ if size >= 0.0005 => 4,
        _ => return format!("{value:.1e}"),
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (0.125, "0.125"),
            (7.5, "7.5"),
            (999.6, "1000"),
            (9_999.0, "9999"),
            (12_345.0, "12.3 k"),
            (1_250_000.0, "1.25 M"),
            (3.2e9, "3.2 G"),
            (f64::NAN, "–"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(-1000.0), "-1,000");
        assert_eq!(grouped(31.44), "31.4");
    }

    #[test]
    fn times_and_bytes_are_shown_in_a_suitable_unit() {
        assert_eq!(time(0.25), "250 ns");
        assert_eq!(time(1530.0), "1.53 ms");
        assert_eq!(time(2_000_000.0), "2 s");
        assert_eq!(bytes(256.0), "256 B");
        assert_eq!(bytes(16384.0), "16 KiB");
    }

    #[test]
    fn changes_have_a_sign_and_at_most_one_decimal() {
        assert_eq!(change(7.0), "+7 %");
        assert_eq!(change(-0.42), "-0.4 %");
        assert_eq!(change(-0.01), "0 %");
        assert_eq!(change(133.4), "+133 %");
        assert_eq!(change_within(7.04, 4.0, 10.2), "+7 % [4, 10]");
        assert_eq!(
            change_within(3.0, f64::NEG_INFINITY, f64::INFINITY),
            "+3 % [-∞, ∞]"
        );
    }
}
