//! Lengths of time in text: `250ms`, `10s`, `5m`, `auto,max=30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(f64);

/// Length of the warm-up before the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Warmup {
    /// A fixed length, whether or not the rate is steady.
    Fixed(Span),
    /// Until the rate is steady, but at most this length.
    UntilSteady(Span),
}

const UNITS: [(&str, f64); 5] = [
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

impl Span {
    pub fn seconds(seconds: f64) -> Span {
        assert!(
            seconds.is_finite() && seconds >= 0.0,
            "a span is a length of time, not {seconds}"
        );
        Span(seconds)
    }

    pub fn as_seconds(self) -> f64 {
        self.0
    }

    pub fn as_duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let mistake = || format!("`{text}` is no length of time: write `250ms`, `10s` or `5m`");
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let number: f64 = digits.trim().parse().map_err(|_| mistake())?;
        let unit = UNITS
            .iter()
            .find(|(unit, _)| *unit == &text[digits.len()..]);
        let seconds = number * unit.ok_or_else(mistake)?.1;
        if !seconds.is_finite() || !(0.0..=1e9).contains(&seconds) {
            return Err(mistake());
        }
        Ok(Span(seconds))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        if seconds > 0.0 && seconds < 1e-3 {
            write!(formatter, "{}us", rounded(seconds * 1e6))
        } else if seconds > 0.0 && seconds < 1.0 {
            write!(formatter, "{}ms", rounded(seconds * 1e3))
        } else {
            write!(formatter, "{}s", rounded(seconds))
        }
    }
}

/// Removes the digits that a conversion between units adds.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

impl Default for Warmup {
    fn default() -> Warmup {
        Warmup::UntilSteady(Span(30.0))
    }
}

impl Warmup {
    /// The greatest length.
    pub fn max(self) -> Span {
        match self {
            Warmup::Fixed(span) | Warmup::UntilSteady(span) => span,
        }
    }
}

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> Result<Warmup, String> {
        match text.strip_prefix("auto") {
            Some("") => Ok(Warmup::default()),
            Some(rest) => {
                let max = rest.strip_prefix(",max=").ok_or_else(|| {
                    format!("`{text}` is no warm-up: write `5s` or `auto,max=30s`")
                })?;
                Ok(Warmup::UntilSteady(max.parse()?))
            }
            None => Ok(Warmup::Fixed(text.parse()?)),
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Fixed(span) => write!(formatter, "{span}"),
            Warmup::UntilSteady(max) => write!(formatter, "auto,max={max}"),
        }
    }
}

as_text!(Span, Warmup);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_parsed_and_displayed() {
        for (text, seconds) in [("250ms", 0.25), ("10s", 10.0), ("5us", 5e-6)] {
            let span: Span = text.parse().unwrap();
            assert!((span.as_seconds() - seconds).abs() < 1e-12);
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("5m".parse::<Span>().unwrap().as_seconds(), 300.0);
    }

    #[test]
    fn invalid_spans_are_refused() {
        for text in ["", "10", "s", "10 parsecs", "-1s", "1e99h", "nans"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert!("auto,min=3s".parse::<Warmup>().is_err());
    }

    #[test]
    fn a_warmup_is_fixed_or_until_steady() {
        let auto: Warmup = "auto,max=20s".parse().unwrap();
        assert_eq!(auto, Warmup::UntilSteady(Span(20.0)));
        assert_eq!("5s".parse::<Warmup>().unwrap(), Warmup::Fixed(Span(5.0)));
        assert_eq!(auto.to_string(), "auto,max=20s");
    }
}
