//! When operations begin.
//!
//! In a closed loop each client asks when it has its answer: a slow target is
//! asked less, and a stall hides all the questions that were not asked in it.
//! In an open loop the times are drawn in advance, and latency counts from
//! there. A search looks for the highest rate that keeps an objective.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Span;

/// When operations begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrival {
    /// Each client asks when it has its answer.
    #[default]
    Closed,
    /// At times that are fixed in advance.
    Open {
        /// Operations per second of all clients together.
        rate: f64,
        /// How the times are drawn.
        #[serde(default)]
        process: Process,
    },
    /// At the highest rate that keeps the objective.
    Search {
        /// What must hold.
        objective: Objective,
        /// How the times are drawn.
        #[serde(default)]
        process: Process,
    },
}

/// How the times of an open loop are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// Independent of each other, as many users are.
    #[default]
    Poisson,
    /// At equal distances.
    Uniform,
}

/// A bound on a percentile of the response time: `p99<5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    /// As in p99.
    pub percentile: f64,
    /// What it must stay below.
    pub bound: Span,
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let mistake = || format!("`{text}` is no objective: write `p99<5ms`");
        let (percentile, bound) = text
            .strip_prefix('p')
            .and_then(|text| text.split_once('<'))
            .ok_or_else(mistake)?;
        let percentile: f64 = percentile.trim().parse().map_err(|_| mistake())?;
        if !(percentile > 0.0 && percentile < 100.0) {
            return Err(mistake());
        }
        Ok(Objective {
            percentile,
            bound: bound.trim().parse()?,
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "p{}<{}", self.percentile, self.bound)
    }
}

impl TryFrom<String> for Objective {
    type Error = String;

    fn try_from(text: String) -> Result<Objective, String> {
        text.parse()
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> String {
        objective.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["p99<5ms", "p99.9<1s"] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "99<5ms", "p99", "p0<1s", "p100<1s", "p99<soon"] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }
}
