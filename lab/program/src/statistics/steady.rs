//! Test for the end of a warm-up.
//!
//! The last `2k` intervals of a series are steady when their two halves differ by at most the
//! expected noise, and the confidence interval of their slope covers 0. One condition alone
//! does not suffice: a slow drift hardly shows in the halves, and in a long series any small
//! drift is significant.

use super::student::student_quantile;
use super::summary::{count, mean};

/// Least number of intervals for a result.
pub const INTERVALS_MIN: usize = 6;

/// Result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// Difference of the halves, as a share of the mean.
    pub halves: f64,
    /// Change over the whole window by the fitted line, as a share of the mean.
    pub drift: f64,
    /// Whether the slope's 95 % interval covers 0.
    pub flat: bool,
    /// Whether both tests pass.
    pub steady: bool,
}

/// Tests a series of rates; of an odd number the first is left out. `noise` is the share by
/// which the halves may differ. `None` for a series that is too short or has a mean of zero.
pub fn steadiness(series: &[f64], noise: f64) -> Option<Steadiness> {
    let even = series.len() - series.len() % 2;
    let window = &series[series.len() - even..];
    if window.len() < INTERVALS_MIN {
        return None;
    }
    let middle = mean(window).filter(|mean| *mean > 0.0)?;
    let (early, late) = window.split_at(window.len() / 2);
    let halves = (mean(late)? - mean(early)?) / middle;
    let (slope, reach) = slope(window);
    let flat = slope.abs() <= reach;
    Some(Steadiness {
        halves,
        drift: slope * (count(window) - 1.0) / middle,
        flat,
        steady: flat && halves.abs() <= noise,
    })
}

/// The fitted slope per interval, and half the width of its 95 % confidence interval.
fn slope(window: &[f64]) -> (f64, f64) {
    let n = count(window);
    let centre = (n - 1.0) / 2.0;
    let level = window.iter().sum::<f64>() / n;
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, value) in window.iter().enumerate() {
        products += (at as f64 - centre) * (value - level);
        squares += (at as f64 - centre).powi(2);
    }
    let slope = products / squares;
    let rest: f64 = window
        .iter()
        .enumerate()
        .map(|(at, value)| (value - level - slope * (at as f64 - centre)).powi(2))
        .sum();
    let error = (rest / (n - 2.0) / squares).sqrt();
    // Rounding leaves a slope of 1e-17 in a constant series.
    let reach = student_quantile(0.975, n - 2.0) * error + 1e-12 * level.abs();
    (slope, reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_series_is_steady() {
        assert!(steadiness(&[5.0; 8], 0.02).unwrap().steady);
    }

    #[test]
    fn a_rising_series_is_not_steady() {
        let climb: Vec<f64> = (0..10).map(|at| 100.0 + f64::from(at) * 10.0).collect();
        let found = steadiness(&climb, 0.5).unwrap();
        assert!(!found.flat && !found.steady);
        assert!(found.drift > 0.5);
    }

    #[test]
    fn a_step_beyond_the_noise_is_not_steady() {
        let step = [100.0, 101.0, 99.0, 100.0, 80.0, 81.0, 79.0, 80.0];
        assert!(!steadiness(&step, 0.02).unwrap().steady);
    }

    #[test]
    fn noise_around_a_level_is_steady() {
        let noisy = [100.0, 103.0, 98.0, 101.0, 99.0, 102.0, 100.0, 97.0, 101.0];
        assert!(steadiness(&noisy, 0.03).unwrap().steady);
    }

    #[test]
    fn short_and_zero_series_give_no_result() {
        assert_eq!(steadiness(&[1.0; 5], 0.02), None);
        assert_eq!(steadiness(&[0.0; 8], 0.02), None);
    }
}
