//! Start times of operations.
//!
//! In a closed loop each client begins an operation when the one before is answered: a slow
//! target gets fewer operations, and a stall hides those that did not begin during it. In an
//! open loop the times are fixed in advance, and latency counts from them. A search looks for
//! the highest rate that meets an objective.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Span;

/// Start times of operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrival {
    /// Each client begins an operation when the one before is answered.
    #[default]
    Closed,
    /// Operations begin at times that are fixed in advance.
    Open {
        /// Operations per second of all clients together.
        rate: f64,
        #[serde(default)]
        process: Process,
    },
    /// Open loops search for the highest rate that meets the objective.
    Search {
        objective: Objective,
        #[serde(default)]
        process: Process,
    },
}

/// Process of the times of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// Independent operations, as those of many users.
    #[default]
    Poisson,
    /// Operations at equal distances.
    Uniform,
}

/// A bound on a percentile of the response time: `p99<5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    /// The percentile, such as 99.
    pub percentile: f64,
    /// The bound below which the percentile must stay.
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

as_text!(Objective);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_objectives_parse_again() {
        for text in ["p99<5ms", "p99.9<1s"] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_objectives_are_refused() {
        for text in ["", "99<5ms", "p99", "p0<1s", "p100<1s", "p99<soon"] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }
}
