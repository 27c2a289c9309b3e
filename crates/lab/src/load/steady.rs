//! Whether a rate has settled.
//!
//! The last points are cut into halves: settled means that their means agree
//! and that no slope can be told from none. A rate that is only noisy passes;
//! one that still climbs, or falls because caches fill up, does not.

/// Points that are looked at; half of them is a half.
pub const POINTS: usize = 8;
/// Halves may differ by this share, or by what their noise explains.
const CHANGE_MAX: f64 = 0.05;
/// Of Student's distribution with POINTS - 2 degrees of freedom, two-sided 5 %.
const T_SLOPE: f64 = 2.447;

/// What the last points say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyVerdict {
    /// Settled.
    pub steady: bool,
    /// Later half over earlier half, minus 1.
    pub change: f64,
}

/// Judges the end of a series of rates; too few points are not steady.
pub fn judge(rates: &[f64]) -> SteadyVerdict {
    let Some(start) = rates.len().checked_sub(POINTS) else {
        return SteadyVerdict {
            steady: false,
            change: 0.0,
        };
    };
    let last = &rates[start..];
    let (early, late) = last.split_at(POINTS / 2);
    let (early, late) = (mean(early), mean(late));
    let change = if early > 0.0 { late / early - 1.0 } else { 0.0 };
    let (slope, error) = slope(last);
    SteadyVerdict {
        steady: early > 0.0 && change.abs() < CHANGE_MAX && slope.abs() <= T_SLOPE * error,
        change,
    }
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// Least squares, and the standard error of the slope.
fn slope(rates: &[f64]) -> (f64, f64) {
    let count = rates.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, mean(rates));
    let at = |index: usize| index as f64 - middle;
    let spread: f64 = (0..rates.len()).map(|index| at(index).powi(2)).sum();
    let moved = rates.iter().enumerate();
    let slope = moved
        .map(|(index, rate)| at(index) * (rate - mean))
        .sum::<f64>()
        / spread;
    let rest: f64 = rates
        .iter()
        .enumerate()
        .map(|(index, rate)| (rate - mean - slope * at(index)).powi(2))
        .sum();
    (slope, (rest / (count - 2.0) / spread).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_around_a_level_is_steady() {
        let rates = [3.0, 100.0, 102.0, 99.0, 101.0, 98.0, 101.0, 100.0, 101.0];
        assert!(judge(&rates).steady);
        assert!(judge(&[100.0; 8]).steady);
    }

    #[test]
    fn a_climb_and_a_fall_are_not() {
        let climb: Vec<f64> = (0..8).map(|at| 100.0 + 4.0 * f64::from(at)).collect();
        let verdict = judge(&climb);
        assert!(!verdict.steady && verdict.change > 0.1);
        let fall: Vec<f64> = climb.into_iter().rev().collect();
        assert!(!judge(&fall).steady);
    }

    #[test]
    fn few_points_and_silence_are_not() {
        assert!(!judge(&[100.0; 7]).steady);
        assert!(!judge(&[0.0; 8]).steady);
    }
}
