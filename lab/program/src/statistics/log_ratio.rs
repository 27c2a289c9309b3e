//! The interval of a ratio, from the logarithms of paired ratios.

use super::student::{student_quantile, student_two_sided};
use super::summary::{count, deviation, mean};

/// An estimated ratio with its interval. All figures are natural logarithms: 0 means
/// "equal"; [`percent`] converts them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogRatio {
    /// The estimate, in the middle of the interval.
    pub middle: f64,
    /// Lower end of the interval at 95 %; minus infinity for a single pair.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Standard deviation of one pair.
    pub deviation: f64,
    /// Number of pairs.
    pub pairs: usize,
    /// Degrees of freedom of the interval.
    pub freedom: usize,
    /// Probability of an estimate at least as far from 0 if there were no difference.
    pub p: f64,
}

impl LogRatio {
    /// Whether the interval excludes "equal".
    pub fn excludes_equal(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Whether the interval lies within a band around "equal".
    pub fn within(&self, band: f64) -> bool {
        self.low >= -band && self.high <= band
    }

    /// Distance from 0 that equals do not exceed in 95 of 100 experiments with as many pairs;
    /// infinity for a single pair.
    pub fn band(&self) -> f64 {
        match self.freedom {
            0 => f64::INFINITY,
            freedom => {
                let reach = student_quantile(0.975, freedom as f64) * self.deviation;
                reach / (self.pairs as f64).sqrt()
            }
        }
    }
}

/// Converts the logarithm of a ratio to percent above or below equal.
pub fn percent(log: f64) -> f64 {
    log.exp_m1() * 100.0
}

/// Converts percent above or below equal to the logarithm of the ratio.
pub fn log_of_percent(percent: f64) -> f64 {
    (percent / 100.0).ln_1p()
}

/// The t-interval at 95 % of paired log-ratios; `None` of no pairs. `spent` is the number of
/// degrees of freedom that corrections estimated from the same pairs have used up.
pub fn log_ratio(pairs: &[f64], spent: usize) -> Option<LogRatio> {
    let middle = mean(pairs)?;
    assert!(
        middle.is_finite(),
        "a log-ratio of a zero or missing value must be refused before it gets here"
    );
    let freedom = pairs.len().saturating_sub(1 + spent);
    let Some(spread) = deviation(pairs).filter(|_| freedom > 0) else {
        // The variance is unknown, as that of a single pair.
        return Some(LogRatio {
            middle,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            deviation: f64::INFINITY,
            pairs: pairs.len(),
            freedom: 0,
            p: 1.0,
        });
    };
    // A correction reduces the spread but not the number of pairs.
    let spread = spread * ((count(pairs) - 1.0) / freedom as f64).sqrt();
    let error = spread / count(pairs).sqrt();
    let reach = student_quantile(0.975, freedom as f64) * error;
    Some(LogRatio {
        middle,
        low: middle - reach,
        high: middle + reach,
        deviation: spread,
        pairs: pairs.len(),
        freedom,
        p: match error {
            // Counts without variance decide with certainty, in both directions.
            0.0 => f64::from(u8::from(middle == 0.0)),
            _ => student_two_sided(middle / error, freedom as f64),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_known_sample_is_computed() {
        // Mean 0.05, deviation 0.02, n = 4: 0.05 +- 3.182 * 0.01.
        let half = 0.02 * (3.0_f64).sqrt() / 2.0;
        let sample = [0.05 - half, 0.05 + half, 0.05 - half, 0.05 + half];
        let found = log_ratio(&sample, 0).unwrap();
        assert!((found.deviation - 0.02).abs() < 1e-12);
        assert!((found.low - (0.05 - 0.031_82)).abs() < 1e-5, "{found:?}");
        assert!(found.excludes_equal() && !found.within(0.05));
    }

    #[test]
    fn the_interval_of_one_pair_is_unbounded() {
        let found = log_ratio(&[0.7], 0).unwrap();
        assert!(!found.excludes_equal() && !found.within(10.0));
        assert_eq!(found.p, 1.0);
    }

    #[test]
    fn counts_without_spread_are_certain() {
        let found = log_ratio(&[2.0_f64.ln(); 3], 0).unwrap();
        assert!(found.excludes_equal());
        assert_eq!((found.p, found.low), (0.0, found.high));
        assert_eq!(log_ratio(&[0.0; 3], 0).unwrap().p, 1.0);
    }

    #[test]
    fn spent_freedom_widens_the_interval() {
        let sample = [0.01, 0.03, 0.02, 0.04, 0.0];
        let (plain, spent) = (log_ratio(&sample, 0), log_ratio(&sample, 2));
        assert!(spent.unwrap().high > plain.unwrap().high);
    }

    #[test]
    fn percent_and_logarithm_are_inverse() {
        assert!((percent(log_of_percent(-30.0)) + 30.0).abs() < 1e-12);
    }
}
