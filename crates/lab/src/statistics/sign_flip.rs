//! The exact sign-flip test of paired differences.
//!
//! If both members of each pair are the same thing, a difference is as likely
//! with one sign as with the other. All sign patterns are tried; the share of
//! them whose sum lies as far from zero as the one seen is the probability.
//! Nothing is assumed of the distribution, not even that it is the same for
//! every pair. With n pairs the smallest probability is 2 / 2^n: fewer than six
//! pairs can never reach 5 %.

/// Above this many pairs the test would take long and the t-interval is good.
pub const PAIRS_MAX: usize = 16;

/// The two-sided probability, or `None` of no pairs or of too many.
pub fn sign_flip(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() || differences.len() > PAIRS_MAX {
        return None;
    }
    let total: f64 = differences.iter().map(|value| value.abs()).sum();
    let seen: f64 = differences.iter().sum::<f64>().abs();
    // Sums in another order differ in the last digits: those count as equal.
    let threshold = seen - total * 1e-12;
    let patterns = 1_u32 << differences.len();
    let as_far = (0..patterns)
        .filter(|pattern| flipped(differences, *pattern).abs() >= threshold)
        .count();
    Some(as_far as f64 / f64::from(patterns))
}

fn flipped(differences: &[f64], pattern: u32) -> f64 {
    differences
        .iter()
        .enumerate()
        .map(|(place, value)| {
            if pattern >> place & 1 == 1 {
                -value
            } else {
                *value
            }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_one_sign_is_the_rarest_pattern() {
        assert_eq!(sign_flip(&[0.1; 8]), Some(2.0 / 256.0));
        assert_eq!(sign_flip(&[-0.1; 8]), Some(2.0 / 256.0));
    }

    #[test]
    fn one_against_the_many() {
        // Sums of +-1 four times as far from 0 as 2: all but the six of zero.
        assert_eq!(sign_flip(&[1.0, 1.0, 1.0, -1.0]), Some(10.0 / 16.0));
    }

    #[test]
    fn no_difference_is_certain_to_be_seen_again() {
        assert_eq!(sign_flip(&[0.0, 0.0]), Some(1.0));
    }

    #[test]
    fn none_and_too_many_give_no_answer() {
        assert_eq!(sign_flip(&[]), None);
        assert_eq!(sign_flip(&[1.0; PAIRS_MAX + 1]), None);
    }
}
