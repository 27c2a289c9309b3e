//! The exact sign-flip test of paired differences.
//!
//! If both members of each pair are equal, a difference has either sign with the same
//! probability. The test tries all sign patterns. Its probability is the share of patterns
//! with a sum at least as far from zero as the observed one. It assumes nothing about the
//! distribution, not even that it is the same for every pair. With n pairs the smallest
//! probability is 2 / 2^n: fewer than six pairs can never reach 5 %.

/// With more pairs the test would take long, and the t-interval is good enough.
pub const PAIRS_MAX: usize = 16;

/// The two-sided probability; `None` for no pairs or more than [`PAIRS_MAX`].
pub fn sign_flip(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() || differences.len() > PAIRS_MAX {
        return None;
    }
    let total: f64 = differences.iter().map(|value| value.abs()).sum();
    let seen: f64 = differences.iter().sum::<f64>().abs();
    // Sums of another order differ in the last digits; these count as equal.
    let threshold = seen - total * 1e-12;
    let patterns = 1_u32 << differences.len();
    let as_far = (0..patterns)
        .filter(|pattern| flipped(differences, *pattern).abs() >= threshold)
        .count();
    Some(as_far as f64 / f64::from(patterns))
}

fn flipped(differences: &[f64], pattern: u32) -> f64 {
    let places = differences.iter().enumerate();
    let signed = places.map(|(place, value)| match pattern >> place & 1 {
        1 => -value,
        _ => *value,
    });
    signed.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_signs_have_the_smallest_probability() {
        assert_eq!(sign_flip(&[0.1; 8]), Some(2.0 / 256.0));
        assert_eq!(sign_flip(&[-0.1; 8]), Some(2.0 / 256.0));
    }

    #[test]
    fn one_opposite_sign_of_four_has_a_probability_of_ten_sixteenths() {
        // Sums of four +-1 that are at least 2 away from 0: all patterns except the six
        // with a sum of zero.
        assert_eq!(sign_flip(&[1.0, 1.0, 1.0, -1.0]), Some(10.0 / 16.0));
    }

    #[test]
    fn zero_differences_have_probability_one() {
        assert_eq!(sign_flip(&[0.0, 0.0]), Some(1.0));
    }

    #[test]
    fn no_pairs_and_too_many_give_no_result() {
        assert_eq!(sign_flip(&[]), None);
        assert_eq!(sign_flip(&[1.0; PAIRS_MAX + 1]), None);
    }
}
