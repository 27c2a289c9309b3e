//! Lengths of values: `fixed:256`, `uniform:200..1023`, `clamped:200,0..1023`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Greatest length; longer values are taken for a typing error.
const LENGTH_MAX: u64 = 64 << 20;

/// Distribution of the lengths of values, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ValueLength {
    /// All values have this length.
    Fixed(u64),
    /// Each length from the first to the last, equally often.
    Uniform(u64, u64),
    /// Uniform from the second to the third number, but at least the first, as in BanyanDB's
    /// log benchmark.
    Clamped(u64, u64, u64),
}

impl ValueLength {
    /// The greatest length that can be drawn.
    pub fn max(self) -> u64 {
        match self {
            ValueLength::Fixed(length) => length,
            ValueLength::Uniform(_, last) | ValueLength::Clamped(_, _, last) => last,
        }
    }

    /// The expected length.
    pub fn mean(self) -> f64 {
        match self {
            ValueLength::Fixed(length) => length as f64,
            ValueLength::Uniform(first, last) => (first + last) as f64 / 2.0,
            ValueLength::Clamped(least, first, last) => {
                let count = (last - first + 1) as f64;
                let below = least.clamp(first, last + 1) - first;
                let above = (least.max(first)..=last).sum::<u64>();
                (below as f64 * least as f64 + above as f64) / count
            }
        }
    }

    /// The length for a draw in [0, 1).
    pub fn at(self, draw: f64) -> u64 {
        let uniform = |first: u64, last: u64| first + ((last - first + 1) as f64 * draw) as u64;
        match self {
            ValueLength::Fixed(length) => length,
            ValueLength::Uniform(first, last) => uniform(first, last),
            ValueLength::Clamped(least, first, last) => uniform(first, last).max(least),
        }
    }
}

impl FromStr for ValueLength {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueLength, String> {
        let mistake = || {
            format!(
                "`{text}` is no length of values: write `fixed:256`, `uniform:200..1023` \
                 or `clamped:200,0..1023`, up to {LENGTH_MAX} bytes"
            )
        };
        let (kind, rest) = text.split_once(':').ok_or_else(mistake)?;
        let length = match kind {
            "fixed" => number(rest).map(ValueLength::Fixed),
            "uniform" => interval(rest).map(|(first, last)| ValueLength::Uniform(first, last)),
            "clamped" => rest.split_once(',').and_then(|(least, rest)| {
                let (first, last) = interval(rest)?;
                Some(ValueLength::Clamped(number(least)?, first, last))
            }),
            _ => None,
        };
        length
            .filter(|length| length.max() <= LENGTH_MAX)
            .ok_or_else(mistake)
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

fn interval(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

impl fmt::Display for ValueLength {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueLength::Fixed(length) => write!(formatter, "fixed:{length}"),
            ValueLength::Uniform(first, last) => write!(formatter, "uniform:{first}..{last}"),
            ValueLength::Clamped(least, first, last) => {
                write!(formatter, "clamped:{least},{first}..{last}")
            }
        }
    }
}

as_text!(ValueLength);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_lengths_parse_again() {
        for text in ["fixed:256", "uniform:200..1023", "clamped:200,0..1023"] {
            assert_eq!(text.parse::<ValueLength>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_length_is_refused_with_valid_examples() {
        for text in [
            "",
            "256",
            "fixed:",
            "uniform:9..1",
            "fixed:99999999999",
            "about:7",
        ] {
            let error = text.parse::<ValueLength>().unwrap_err();
            assert!(error.contains("fixed:256"), "{error}");
        }
    }

    #[test]
    fn the_published_clamped_lengths_have_the_published_mean() {
        let mean = ValueLength::Clamped(200, 0, 1023).mean();
        assert!((530.0..532.0).contains(&mean), "{mean}");
    }

    #[test]
    fn draws_cover_both_ends() {
        let length = ValueLength::Uniform(3, 5);
        assert_eq!(length.at(0.0), 3);
        assert_eq!(length.at(0.999_999), 5);
        assert_eq!(ValueLength::Clamped(4, 3, 5).at(0.0), 4);
    }
}
