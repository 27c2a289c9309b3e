//! Distributions of keys: `uniform`, `zipf:0.99`, `latest`, `sequential`, `hot:0.01/0.9`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Distribution of the keys of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Distribution {
    /// All keys equally often.
    #[default]
    Uniform,
    /// Zipf's law with this exponent. The popularity of a key is independent of its place in
    /// the order of keys.
    Zipf(f64),
    /// Reads prefer keys that were written last.
    Latest,
    /// Keys in order, each client in its own part.
    Sequential,
    /// A share of the keys gets a share of the operations.
    Hot {
        /// Share of the keys.
        keys: f64,
        /// Share of the operations.
        operations: f64,
    },
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        let share = |text: &str| text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
        let hot = |shares: &str| {
            let (keys, operations) = shares.split_once('/')?;
            let (keys, operations) = (share(keys)?, share(operations)?);
            (keys > 0.0).then_some(Distribution::Hot { keys, operations })
        };
        let zipf = |exponent: &str| {
            let exponent = exponent.parse().ok();
            exponent
                .filter(|it| (0.0..=10.0).contains(it))
                .map(Distribution::Zipf)
        };
        let distribution = match text.split_once(':') {
            None if text == "uniform" => Some(Distribution::Uniform),
            None if text == "latest" => Some(Distribution::Latest),
            None if text == "sequential" || text == "seq" => Some(Distribution::Sequential),
            Some(("zipf", exponent)) => zipf(exponent),
            Some(("hot", shares)) => hot(shares),
            _ => None,
        };
        distribution.ok_or_else(|| {
            format!(
                "`{text}` is no distribution: write `uniform`, `zipf:0.99`, `latest`, \
                 `sequential` or `hot:0.01/0.9`"
            )
        })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => formatter.write_str("uniform"),
            Distribution::Zipf(exponent) => write!(formatter, "zipf:{exponent}"),
            Distribution::Latest => formatter.write_str("latest"),
            Distribution::Sequential => formatter.write_str("sequential"),
            Distribution::Hot { keys, operations } => write!(formatter, "hot:{keys}/{operations}"),
        }
    }
}

as_text!(Distribution);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_distributions_parse_again() {
        for text in [
            "uniform",
            "zipf:0.99",
            "latest",
            "sequential",
            "hot:0.01/0.9",
        ] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_distribution_is_refused_with_valid_examples() {
        for text in [
            "",
            "zipf",
            "zipf:-1",
            "zipf:nan",
            "hot:0/0.5",
            "hot:2/0.5",
            "hot:0.1",
        ] {
            let error = text.parse::<Distribution>().unwrap_err();
            assert!(error.contains("zipf:0.99"), "{error}");
        }
    }
}
