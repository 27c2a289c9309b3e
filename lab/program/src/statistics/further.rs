//! The number of further pairs that a verdict needs.

use super::log_ratio::LogRatio;
use super::student::student_quantile;

/// A verdict that would need more pairs than this is not reachable on this machine.
pub const PAIRS_SENSIBLE: usize = 1000;

/// Least number of pairs from which the noise can be estimated.
const PAIRS_FOR_A_GUESS: usize = 3;

/// Further pairs that would probably (80 %) settle the question, or `None` if
/// more than [`PAIRS_SENSIBLE`] would be needed in all.
///
/// An effect of at least `effect_min` requires an interval that excludes 0; a smaller one an
/// interval inside `±effect_min`.
pub fn further_pairs(seen: &LogRatio, effect_min: f64) -> Option<usize> {
    if seen.freedom == 0 {
        return Some(PAIRS_FOR_A_GUESS.saturating_sub(seen.pairs).max(1));
    }
    let effect = seen.middle.abs();
    let distance = if effect >= effect_min {
        effect
    } else {
        // Near the border, either verdict would need very many pairs: require only a
        // resolution of half the border.
        (effect_min - effect).max(effect_min / 2.0)
    };
    // The reach falls with the number of pairs, so bisection finds the least one.
    let sensible: Vec<usize> = (2..=PAIRS_SENSIBLE).collect();
    let least = sensible.partition_point(|pairs| reach(seen.deviation, *pairs) > distance);
    let pairs = sensible.get(least)?;
    Some(pairs.saturating_sub(seen.pairs).max(1))
}

/// The least effect that is found in four of five experiments with this many pairs.
pub fn reach(deviation: f64, pairs: usize) -> f64 {
    let freedom = (pairs - 1) as f64;
    let quantiles = student_quantile(0.975, freedom) + student_quantile(0.8, freedom);
    quantiles * deviation / (pairs as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::log_ratio;

    /// Smallest effects found with 80 % power, as a simulation gave them
    /// (percent of a pair's standard deviation, pairs, percent of effect).
    #[test]
    fn reach_agrees_with_the_simulated_table() {
        for (deviation, pairs, effect) in [
            (0.01, 4, 0.020),
            (0.01, 8, 0.012),
            (0.03, 12, 0.027),
            (0.05, 20, 0.033),
            (0.05, 40, 0.023),
        ] {
            let found = reach(deviation, pairs);
            let relative: f64 = found / effect;
            assert!((0.85..1.15).contains(&relative), "{pairs}: {found}");
        }
    }

    #[test]
    fn more_noise_needs_more_pairs() {
        let quiet = log_ratio(&[0.02, 0.04, 0.03, 0.02, 0.05, -0.01], 0).unwrap();
        let noisy = log_ratio(&[0.12, -0.06, 0.03, 0.12, -0.05, -0.01], 0).unwrap();
        let (few, many) = (further_pairs(&quiet, 0.02), further_pairs(&noisy, 0.02));
        assert!(few.unwrap() < many.unwrap(), "{few:?} {many:?}");
    }

    #[test]
    fn no_number_of_pairs_suffices_for_hopeless_noise() {
        let seen = log_ratio(&[2.0, -2.0, 1.9, -1.9], 0).unwrap();
        assert_eq!(further_pairs(&seen, 0.02), None);
    }

    #[test]
    fn a_single_pair_needs_two_more_for_an_estimate_of_the_noise() {
        assert_eq!(further_pairs(&log_ratio(&[0.1], 0).unwrap(), 0.02), Some(2));
    }
}
