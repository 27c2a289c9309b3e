//! Comparison of two sets of runs that were not measured together.
//!
//! The speed of a machine changes from hour to hour: a blocked comparison with Welch's test
//! calls equal programs different in 42 to 100 of 100 experiments once the machine drifts.
//! The result is therefore never faster, slower or same, but only "differs" or
//! "inconclusive".

use crate::statistics::student::student_quantile;
use crate::statistics::summary::{count, deviation, mean, median};

/// Result of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpaired {
    /// Medians of both.
    pub medians: [Option<f64>; 2],
    /// Logarithm of the second's geometric mean over the first's.
    pub middle: f64,
    /// Lower end of its 95 % interval (Welch), which does not account for drift.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Whether the values differ: the interval excludes 0, and the difference is at least the
    /// minimum effect.
    pub differs: bool,
}

impl Unpaired {
    /// `differs` or `inconclusive`.
    pub fn word(&self) -> &'static str {
        match self.differs {
            true => "differs",
            false => "inconclusive",
        }
    }
}

/// Compares two sets of values; `None` if one is empty or holds a value that is not
/// positive.
pub fn compare_unpaired(first: &[f64], second: &[f64], effect_min: f64) -> Option<Unpaired> {
    let [a, b] = [logs(first)?, logs(second)?];
    let middle = mean(&b)? - mean(&a)?;
    let reach = welch(&a, &b);
    let (low, high) = (middle - reach, middle + reach);
    Some(Unpaired {
        medians: [median(first), median(second)],
        middle,
        low,
        high,
        differs: (low > 0.0 || high < 0.0) && middle.abs() >= effect_min,
    })
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values
        .iter()
        .map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln()))
        .collect()
}

/// Half the width of Welch's interval; infinity where a spread is unknown.
fn welch(a: &[f64], b: &[f64]) -> f64 {
    let (Some(spread_a), Some(spread_b)) = (deviation(a), deviation(b)) else {
        return f64::INFINITY;
    };
    let (of_a, of_b) = (spread_a.powi(2) / count(a), spread_b.powi(2) / count(b));
    let variance = of_a + of_b;
    if variance == 0.0 {
        return 0.0;
    }
    let freedom =
        variance.powi(2) / (of_a.powi(2) / (count(a) - 1.0) + of_b.powi(2) / (count(b) - 1.0));
    student_quantile(0.975, freedom) * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_difference_is_called_differs() {
        let found = compare_unpaired(&[100.0, 101.0, 99.0], &[150.0, 151.0, 149.0], 0.02);
        assert_eq!(found.unwrap().word(), "differs");
    }

    #[test]
    fn equal_sets_are_inconclusive() {
        let found = compare_unpaired(&[100.0, 101.0, 99.0], &[100.0, 101.0, 99.0], 0.02);
        assert_eq!(found.unwrap().word(), "inconclusive");
    }

    #[test]
    fn single_runs_are_inconclusive() {
        let found = compare_unpaired(&[100.0], &[200.0], 0.02).unwrap();
        assert!(!found.differs && found.high == f64::INFINITY);
    }

    #[test]
    fn missing_and_zero_values_cannot_be_compared() {
        assert_eq!(compare_unpaired(&[], &[1.0], 0.02), None);
        assert_eq!(compare_unpaired(&[0.0], &[1.0], 0.02), None);
    }

    /// Welch's interval of a worked sample: variances 1 and 4 of five each,
    /// freedom 5.88.
    #[test]
    fn freedom_shrinks_where_the_spreads_differ() {
        let a: Vec<f64> = [-1.0, 1.0, -1.0, 1.0, 0.0]
            .iter()
            .map(|x: &f64| x.exp())
            .collect();
        let b: Vec<f64> = [-2.0, 2.0, -2.0, 2.0, 0.0]
            .iter()
            .map(|x: &f64| x.exp())
            .collect();
        let found = compare_unpaired(&a, &b, 0.02).unwrap();
        assert!((found.high - 2.459).abs() < 0.01, "{found:?}");
    }
}
