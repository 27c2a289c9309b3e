//! Many tests at once: Benjamini and Hochberg's bound on false discoveries.
//!
//! 49 cells tested at 5 % each show two or three differences between equal programs. The
//! bound limits the errors among the cells that are *called* different: on average, at most
//! the given share of them is wrong.

/// Probabilities that can be compared with the share directly: the smallest
/// share at which each would be rejected.
pub fn adjusted(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least = 1.0_f64;
    for (from_largest, index) in order.into_iter().enumerate() {
        let rank = probabilities.len() - from_largest;
        let scaled = probabilities[index] * probabilities.len() as f64 / rank as f64;
        least = least.min(scaled);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discoveries(probabilities: &[f64], share: f64) -> Vec<bool> {
        let adjusted = adjusted(probabilities);
        adjusted.into_iter().map(|p| p <= share).collect()
    }

    /// The example of Benjamini and Hochberg's paper of 1995: fifteen
    /// comparisons, of which the bound of 5 % keeps four.
    #[test]
    fn the_example_of_the_paper_has_four_discoveries() {
        let probabilities = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let found = discoveries(&probabilities, 0.05);
        assert_eq!(found.iter().filter(|found| **found).count(), 4);
        assert!(found[..4].iter().all(|found| *found));
    }

    #[test]
    fn order_of_the_cells_does_not_matter() {
        assert_eq!(discoveries(&[0.9, 0.001, 0.5], 0.05), [false, true, false]);
    }

    #[test]
    fn a_rejected_probability_implies_all_smaller_ones() {
        // 0.04 alone would fail at rank 1, but the rejection at rank 2 includes it.
        assert_eq!(discoveries(&[0.04, 0.045], 0.05), [true, true]);
    }

    #[test]
    fn no_cells_give_no_discoveries() {
        assert!(discoveries(&[], 0.05).is_empty());
    }
}
